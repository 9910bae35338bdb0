#include "sim/federated/federated.hpp"

#include <fmt/format.h>

namespace orrery {

std::string to_text(const FederatedReport& r, const Scenario& scenario, const TextStyle& style) {
    const Federated& f = *scenario.federated;
    const bool stream = f.aggregation == Aggregation::fedbuff;
    std::string text = "\n" + paint("Federated learning", Ink::bold, style) +
                       fmt::format("  {} clients, {}, {} seeds; the step above is one client's\n", grouped(r.clients),
                                   stream ? fmt::format("FedBuff: {} at work, a step every {} updates", f.sampled, f.buffer)
                                          : fmt::format("FedAvg: rounds of {} of {:.4g} asked", f.sampled, r.asked),
                                   f.seeds);
    text +=
        fmt::format("  {:<20} {} in the mean (p10 {}, p50 {}, p90 {})\n", stream ? "between steps" : "round", seconds_text(r.round_s.mean),
                    seconds_text(r.round_s.p10), seconds_text(r.round_s.p50), seconds_text(r.round_s.p90));
    text += fmt::format("  {:<20} {:.4g} updates a {} of {:.4g} samples; {:.1f} % of the clients' training was in vain\n", "counted",
                        r.counted, stream ? "step" : "round", r.samples_counted, 100 * r.wasted_share);
    if (r.failed_share > 0)
        text += fmt::format("  {:<20} {:.1f} % of the rounds: nobody answered in time\n", "empty", 100 * r.failed_share);
    if (stream) text += fmt::format("  {:<20} {:.2f} steps in the mean, {:.0f} at most\n", "staleness", r.staleness, r.worst_staleness);
    text += fmt::format("  {:<20} {}down, {}up a {}\n", "sent", metric(r.down_bytes, 3, "B "), metric(r.up_bytes, 3, "B "),
                        stream ? "step" : "round");
    text += fmt::format("  {:<20} clients whose updates counted take {:.2f} x the scenario's step, all clients {:.2f} x\n", "bias",
                        r.slowness_counted, r.slowness_all);
    if (r.rounds_to_target > 0)
        text += fmt::format("  {:<20} {:.4g} {}, {}, {}sent\n", "to the target", r.rounds_to_target, stream ? "steps" : "rounds",
                            span_text(r.time_to_target_s), metric(r.bytes_to_target, 3, "B "));
    return text;
}

} // namespace orrery
