// The law of prefill.hpp.
#include "sim/fit/prefill.hpp"

#include <algorithm>
#include <cmath>

namespace orrery {

namespace {

constexpr double half_lost_us = 1e4; // a burst this long has lost half: 10 to 20 ms where it is fitted

} // namespace

bool is_prefill(const MeasuredTable& t) {
    return t.has("fwd_us") && t.has("seq_q") && t.has("heads") && (t.has("head_dim") || is_latent(t));
}
bool is_latent(const MeasuredTable& t) { return t.has("qk_head_dim") && t.has("v_head_dim"); }

PrefillDevice prefill_device(const Device& device) {
    const auto peak = device.peak.find("bf16");
    return {static_cast<double>(std::max(1, device.processors)), peak == device.peak.end() ? 1 : peak->second.value * 1e-6,
            device.memory_bandwidth.value * 1e-6};
}

PrefillProblem prefill_problem(const MeasuredTable& t, std::size_t row) {
    PrefillProblem p{t.number(row, "batch"), t.number(row, "seq_q"), t.number(row, "heads"), t.number(row, "kv_heads")};
    p.qk = t.number(row, is_latent(t) ? "qk_head_dim" : "head_dim");
    p.v = t.number(row, is_latent(t) ? "v_head_dim" : "head_dim");
    return p;
}

double prefill_us(const PrefillTable& t, const PrefillDevice& d, const PrefillProblem& p) {
    const double dim = (p.qk + p.v) / 2, blocks_of_rows = std::ceil(p.seq / t.rows);
    const double s0 = t.s0 * std::pow(128 / dim, t.fall);
    const double element = 4 * dim / (t.efficiency.at(static_cast<int>(dim)) * d.peak_16);
    const double blocks = p.batch * p.heads * blocks_of_rows / d.processors;
    const double waves = blocks > 1 ? ((1 - t.soft_waves) * std::ceil(blocks) + t.soft_waves * blocks) / blocks : 1;
    const double work = p.batch * p.heads * p.seq * (p.seq + s0) / 2 * element * waves;
    const double longest = t.critical * t.rows * (p.seq + s0) * element * d.processors;
    const double before = 2 * p.batch * p.seq * (t.pre * (2 * p.heads * p.qk + 2 * p.kv_heads * (p.qk + p.v)) + t.latent) / d.bandwidth;
    const double scores = std::pow(std::pow(work, 1.5) + std::pow(longest, 1.5), 1 / 1.5);
    return t.start + scores * (1 + t.throttle * scores / (scores + half_lost_us)) + before;
}

} // namespace orrery
