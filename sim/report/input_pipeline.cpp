#include "sim/report/input_pipeline.hpp"
#include "sim/report/terminal.hpp"
#include "topology/input_error.hpp"

#include <algorithm>
#include <cmath>

namespace orrery {

namespace {

double link_to_storage(const Cluster& c) {
    return c.storage.per_node.value > 0 ? c.storage.per_node.value : c.inter.nics_per_node * c.inter.nic_bandwidth.value;
}

} // namespace

double storage_rate_of_node(const Cluster& c) {
    const double link = link_to_storage(c);
    if (c.storage.requests_per_node <= 0 || c.storage.latency.seconds() <= 0) return link;
    const double asked = c.storage.requests_per_node * static_cast<double>(c.storage.request.count) / c.storage.latency.seconds();
    return link > 0 ? std::min(link, asked) : asked;
}

InputSupply input_supply(const Scenario& s) {
    const Cluster& c = s.cluster;
    InputSupply supply;
    supply.devices = s.world_size();
    supply.nodes = c.nodes;
    supply.storage = c.storage.read.value > 0 ? c.storage.read.value : 1e9 * c.nodes; // assumed: 1 GB/s a node
    supply.per_node = storage_rate_of_node(c);
    if (supply.per_node != link_to_storage(c)) supply.of_node = "a node's requests to storage";
    return supply;
}

InputPeriod input_period(const InputPipeline& data, double samples, const InputSupply& supply) {
    InputPeriod period;
    const double bytes = samples * data.bytes_per_sample, readers = supply.devices * std::max(1, data.workers);
    const double spread = bytes > 0 ? data.bytes_spread / data.bytes_per_sample / std::sqrt(samples) : 0;
    const auto limit = [&](double seconds, const char* what, double varies) {
        if (seconds > period.seconds) period = {seconds, what, varies};
    };
    if (supply.storage > 0) limit(bytes / supply.storage, "storage", spread);
    if (supply.per_node > 0) limit(bytes / (supply.per_node * supply.nodes), supply.of_node, spread);
    if (data.reader_mb_per_s > 0) limit(bytes / (data.reader_mb_per_s * 1e6 * readers), "readers", spread);
    limit(samples * data.cpu_ms_per_sample * 1e-3 / readers, "decoding", 0);
    return period;
}

namespace {

// The motion that input_stall() speaks of.
struct Motion {
    double behind, batches; // what reading takes longer than the step; batches that lie ready
    double variance, x;     // of the reading's progress, in seconds of it a step; drift by variance, 0 where nothing varies
};
Motion motion_of(const InputPipeline& data, double step_s, const InputPeriod& period) {
    const double behind = period.seconds - step_s, batches = static_cast<double>(data.workers) * data.prefetch;
    const double variance = period.spread * period.spread * period.seconds;
    return {behind, batches, variance, variance > 0 ? 2 * behind * batches / variance : 0};
}

} // namespace

double input_stall(const InputPipeline& data, double step_s, const InputPeriod& period) {
    if (data.workers == 0) return period.seconds;
    if (period.seconds <= 0) return 0;
    const auto [behind, batches, variance, x] = motion_of(data, step_s, period);
    if (variance <= 0) return std::max(0.0, behind);
    // Reflected between 0 and what the ready batches are worth, with the drift -behind: the mean push off 0.
    if (std::abs(x) < 1e-9) return variance / (2 * batches);
    return behind / -std::expm1(-x); // towards `behind` for a large x, towards 0 for a small one
}

double computing_share(const InputPipeline& data, double step_s, const InputPeriod& period) {
    if (step_s <= 0) return 0;
    const auto [behind, batches, variance, x] = motion_of(data, step_s, period);
    // A longer step has a shorter stall: the part of its growth that this takes back, the derivative of x / (1 - e^-x) by x (input_stall).
    double taken_up = behind > 0 ? 1 : 0;
    if (data.workers == 0) taken_up = 0;
    if (data.workers > 0 && variance > 0) {
        const double e = -std::expm1(-x);
        if (std::abs(x) < 500) taken_up = std::abs(x) < 1e-6 ? 0.5 : (1 - x * (1 - e) / e) / e;
    }
    return std::clamp((1 - taken_up) * step_s / (step_s + input_stall(data, step_s, period)), 0.0, 1.0);
}

double input_first_batch(const InputPipeline& data, const InputPeriod& period) { return data.workers * period.seconds; }

void wait_for_input(Report& r, const Scenario& s) {
    if (!s.training.data || r.step_time_s <= 0) return;
    const InputPipeline& data = *s.training.data;
    const auto samples = static_cast<double>(s.training.global_batch_size);
    const InputPeriod period = input_period(data, samples, input_supply(s));
    const double stall = input_stall(data, r.step_time_s, period);
    if (stall < 1e-12) return;             // a picosecond
    constexpr double longest_step_s = 4e6; // of the simulator's clock (engine/clock.hpp)
    if (!(r.step_time_s + stall < longest_step_s))
        throw InputError("/training/data: a step waits " + seconds_text(stall) +
                         " for its samples, which is longer than steps can be told: " +
                         "lower bytes_per_sample or cpu_ms_per_sample, or raise the rate of " + period.limit);
    const double longer = (r.step_time_s + stall) / r.step_time_s, own = computing_share(data, r.step_time_s, period);
    r.input = {stall, 1 - own, period.limit};
    for (double& share : r.shares) share *= own;
    r.step_time_s += stall;
    r.breakdown_s[Category::other] += stall;
    for (double* rate :
         {&r.tokens_per_s, &r.tokens_per_s_per_gpu, &r.samples_per_s, &r.model_tflops_per_gpu, &r.mfu, &r.hfu, &r.bubble_fraction})
        *rate /= longer;
    for (double* whole : {&r.energy_j, &r.cost_usd, &r.target.s, &r.target.usd}) *whole *= longer;
    r.notes.push_back("training.data: a step waits " + seconds_text(stall) + " for its samples (" + period.limit +
                      " limits them); it is among \"other\" below");
}

} // namespace orrery
