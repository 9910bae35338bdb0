#include "sim/report/loose.hpp"

#include "sim/plan/rounds.hpp"
#include "sim/report/terminal.hpp"
#include "sim/report/traffic.hpp"

#include <fmt/format.h>

#include <cmath>

namespace orrery {

void count_meetings(Report& r, const Scenario& s, const Plan& plan, const Fabric& fabric, const CostModel& cost,
                    const SimulateOptions& options) {
    if (!s.strategy.workers() || r.step_time_s <= 0) return;
    WorkerMeetings& m = r.meetings;
    m.bytes_between_nodes = r.traffic.between_nodes;
    if (plan.further.empty()) return;
    m.steps = static_cast<double>(runs_of_round(plan));
    Plan alone = plan;
    alone.repeat = 1;
    alone.further.clear();
    SimulateOptions of_a_step = options;
    of_a_step.trace = false;
    const double step = std::min(r.step_time_s, simulate(alone, s, fabric, cost, of_a_step).step_time.seconds());
    m.sync_time_s = m.steps * (r.step_time_s - step);
    m.compute_utilization = step / r.step_time_s;
}

void follow_workers(Report& r, const Scenario& s, const Plan& plan, const Fabric& fabric, const CostModel& cost,
                    const SimulateOptions& options) {
    if (!s.strategy.loose() || r.step_time_s <= 0) return;
    const double alone = r.step_time_s;
    r.loose = follow(loose_work(s, plan, fabric, cost, alone, options), options.stop);
    if (r.loose.busiest.link >= 0) r.busiest_link = fabric.link_name(r.loose.busiest.link);
    const double longer = r.loose.step_s / alone;
    WorkerMeetings& m = r.meetings;
    m.steps = std::max(1.0, r.loose.steps_between_averages);
    m.compute_utilization = 1 / longer;
    m.sync_time_s = m.steps * (r.loose.step_s - alone);
    r.traffic.between_nodes += between_nodes(fabric, r.loose.link_bytes);
    m.bytes_between_nodes = r.traffic.between_nodes;
    r.step_time_s = r.loose.step_s;
    const double waits = std::min(r.loose.wait_s, std::max(0.0, r.loose.step_s - alone));
    r.breakdown_s[Category::exposed_dp] += waits;
    r.breakdown_s[Category::other] += r.loose.step_s - alone - waits;
    for (double* rate :
         {&r.tokens_per_s, &r.tokens_per_s_per_gpu, &r.samples_per_s, &r.model_tflops_per_gpu, &r.mfu, &r.hfu, &r.bubble_fraction})
        *rate /= longer;
    for (double* whole : {&r.energy_j, &r.cost_usd}) *whole *= longer;
    // A worker's own step stands for a part of what it takes now; the ways to servers and peers for the rest.
    double own = 0;
    for (double& share : r.shares) own += share /= longer;
    if (own > 0) r.shares[CostGroup::links_between] += 1 - own;
    set_target(r, s);
}

LooseRecord record_workers(const Scenario& s, const Plan& plan, double step_s, int steps, int most_workers,
                           const SimulateOptions& options) {
    const Fabric fabric(s.cluster);
    const CostModel cost(s, fabric);
    return record(loose_work(s, plan, fabric, cost, step_s, options), steps, most_workers, options.stop);
}

std::string loose_strategy_text(const Strategy& g) {
    if (!g.loose()) return "";
    const Synchronization& s = g.synchronization;
    if (g.served()) {
        std::string text = fmt::format(", gradients in {} to servers on {}", name(s.payload_dtype),
                                       s.servers > 0 ? fmt::format("{} node{}", s.servers, s.servers == 1 ? "" : "s") : "all nodes");
        if (s.staleness_bound >= 0) text += fmt::format(", at most {} steps ahead of the slowest", s.staleness_bound);
        return text;
    }
    if (s.kind == Synchronization::Kind::async_average) return ", averaged with random peers beside the steps";
    return fmt::format(", averaged with {} peer{} a step{}", s.degree, s.degree == 1 ? "" : "s",
                       s.overlap_steps > 0 ? fmt::format(", {} steps later", s.overlap_steps) : "");
}

std::string meetings_text(const Report& r, const TextStyle& style) {
    const WorkerMeetings& m = r.meetings;
    if (m.steps <= 0) return "";
    std::string text = fmt::format("workers step {:.1f} % of the time (compute utilization)", 100 * m.compute_utilization);
    const std::string steps = m.steps >= 100 ? grouped(std::llround(m.steps)) : fmt::format("{:.3g}", m.steps);
    text += m.steps > 1 ? fmt::format("; meetings add {} to every {} steps", seconds_text(m.sync_time_s), steps)
                        : fmt::format("; meetings add {} to a step", seconds_text(m.sync_time_s));
    if (m.bytes_between_nodes > 0)
        text += fmt::format("; {} a step leave nodes, {} a token", metric(m.bytes_between_nodes, 3, "B"),
                            metric(m.bytes_between_nodes / r.tokens_per_step, 3, "B"));
    return wrapped(text, style.width, "  ", "    ");
}

std::string loose_text(const Report& r, const Scenario& s, const TextStyle& style) {
    if (!s.strategy.loose()) return "";
    const LooseReport& l = r.loose;
    std::string text;
    if (s.strategy.served())
        text = fmt::format("gradients are {:.2f} updates old in the mean, {:.0f} at most; up to {} versions of the parameters in use; "
                           "servers update {:.0f} % of the time",
                           l.staleness, l.worst_staleness, l.versions, 100 * l.server_share);
    else
        text = fmt::format("parameters that come are {:.2f} steps old in the mean, {:.0f} at most; a worker averages once in {:.3g} steps",
                           l.staleness, l.worst_staleness, l.steps_between_averages);
    if (l.fastest > 1.05) text += fmt::format("; the fastest worker takes {:.2f} x the mean's steps", l.fastest);
    text += fmt::format("; {} sent a step by all", metric(l.bytes_per_step, 3, "B"));
    if (l.busiest.link >= 0) text += fmt::format("; the busiest link, {}, is full to {:.0f} %", r.busiest_link, 100 * l.busiest.share);
    return wrapped(text, style.width, "  ", "    ");
}

} // namespace orrery
