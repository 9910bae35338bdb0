#include "sim/report/input_pipeline.hpp"
#include "sim/report/terminal.hpp"
#include "topology/input_error.hpp"

#include <algorithm>

namespace orrery {

InputPeriod input_period(const InputPipeline& data, double samples, const InputSupply& supply) {
    InputPeriod period;
    const auto limit = [&](double seconds, const char* what) {
        if (seconds > period.seconds) period = {seconds, what};
    };
    const double bytes = samples * data.bytes_per_sample, readers = supply.devices * std::max(1, data.workers);
    if (supply.storage > 0) limit(bytes / supply.storage, "storage");
    if (supply.per_node > 0) limit(bytes / (supply.per_node * supply.nodes), "a node's link to storage");
    if (data.reader_mb_per_s > 0) limit(bytes / (data.reader_mb_per_s * 1e6 * readers), "readers");
    limit(samples * data.cpu_ms_per_sample * 1e-3 / readers, "decoding");
    return period;
}

double input_stall(const InputPipeline& data, double step_s, double period_s) {
    return data.workers == 0 ? period_s : std::max(0.0, period_s - step_s);
}

void wait_for_input(Report& r, const Scenario& s) {
    if (!s.training.data || r.step_time_s <= 0) return;
    const Cluster& c = s.cluster;
    InputSupply supply;
    supply.devices = s.world_size();
    supply.nodes = c.nodes;
    supply.storage = c.storage.read.value > 0 ? c.storage.read.value : 1e9 * c.nodes; // assumed: 1 GB/s a node
    supply.per_node = c.storage.per_node.value > 0 ? c.storage.per_node.value : c.inter.nics_per_node * c.inter.nic_bandwidth.value;
    const InputPeriod period = input_period(*s.training.data, static_cast<double>(s.training.global_batch_size), supply);
    const double stall = input_stall(*s.training.data, r.step_time_s, period.seconds);
    if (stall <= 0) return;
    constexpr double longest_step_s = 4e6; // of the simulator's clock (engine/clock.hpp)
    if (!(r.step_time_s + stall < longest_step_s))
        throw InputError("/training/data: a step waits " + seconds_text(stall) +
                         " for its samples, which is longer than steps can be told: " +
                         "lower bytes_per_sample or cpu_ms_per_sample, or raise the rate of " + period.limit);
    const double longer = (r.step_time_s + stall) / r.step_time_s;
    r.step_time_s += stall;
    r.breakdown_s[static_cast<std::size_t>(Category::other)] += stall;
    for (double* rate :
         {&r.tokens_per_s, &r.tokens_per_s_per_gpu, &r.samples_per_s, &r.model_tflops_per_gpu, &r.mfu, &r.hfu, &r.bubble_fraction})
        *rate /= longer;
    for (double* whole : {&r.energy_j, &r.cost_usd, &r.target.s, &r.target.usd}) *whole *= longer;
    r.notes.push_back("training.data: a step waits " + seconds_text(stall) + " for its samples (" + period.limit +
                      " limits them); it is among \"other\" below");
}

} // namespace orrery
