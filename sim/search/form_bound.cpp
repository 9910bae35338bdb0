#include "sim/search/form_bound.hpp"

#include "sim/plan/lowering.hpp"
#include "sim/scenario/layers.hpp"
#include "sim/scenario/parameters.hpp"
#include "sim/schedules/schedule.hpp"
#include "sim/search/bounds.hpp"

#include <algorithm>

namespace orrery {

namespace {

double fastest(const Cluster& cluster, DType precision) {
    double peak = 0;
    const auto of = [&](const Device& device) {
        for (const auto& [name, flops] : device.peak) {
            const bool wide = name == "fp32" || name == "tf32" || name == "fp16" || name == "bf16";
            const bool low = precision != DType::fp32 && precision != DType::tf32 && precision != DType::fp16 && precision != DType::bf16;
            if (wide || low) peak = std::max(peak, flops.value);
        }
    };
    of(cluster.device);
    for (const OtherNodes& other : cluster.others) of(other.device);
    return peak;
}

} // namespace

// Forward, and where all is trained both gradients: two operations each for every parameter of a layer that a token meets.
FormBounds::FormBounds(const Scenario& base) {
    const Model& m = base.model;
    const double peak = fastest(base.cluster, base.training.precision);
    if (peak <= 0 || uncertain(base)) return;
    const double passes = m.trainable.partial() ? 1 : 3;
    for (int layer = 0; layer < m.layers; ++layer) {
        double met = static_cast<double>(layer_parameters(m, layer));
        if (is_moe_layer(m, layer)) met -= static_cast<double>(moe_parameters(m, false) - moe_parameters(m, true));
        met -= 4.0 * static_cast<double>(m.hidden_size); // norms
        const double seconds = std::max(0.0, 2 * passes * met * static_cast<double>(base.training.sequence_length) / peak);
        layers_ += seconds;
        least_layer_ = layer == 0 ? seconds : std::min(least_layer_, seconds);
    }
    if (m.moe) layers_ = least_layer_ = 0; // routed rows may be dropped
    factor_ = least_factor(base);
}

double FormBounds::of(const FormShape& f) const {
    const double ranks = static_cast<double>(f.tensor) * f.context, sequences = static_cast<double>(f.micro_batch);
    const double microbatches = static_cast<double>(f.microbatches);
    double seconds = microbatches * layers_ / f.pipeline;
    const ScheduleInfo* info = find_schedule(f.schedule);
    if (info && info->directions == 1 && !info->splits_backward && !info->asynchronous)
        seconds += (f.pipeline - 1.0) * f.least_layers * least_layer_;
    return seconds * sequences / ranks * factor_;
}

// Every step but the first is attention and a merge forward, attention and two sums backward (plan/emit_context.cpp).
double ring_bound(const Scenario& s, const Fabric& fabric) {
    const Strategy& t = s.strategy;
    if (t.context_parallel < fewest_ring || t.context_parallel_kind != ContextKind::ring || uncertain(s)) return 0;
    int whole = 0; // layers without a window, within which ranks could skip steps
    for (int layer = 0; layer < s.model.layers; ++layer) whole += window_of(s.model.attention, layer) == 0;
    const CostModel cost(s, fabric);
    double kernels = 0, host = 0;
    const auto add = [&](const Work& work, bool timed) {
        Op op;
        op.work = work;
        const ComputeCost one = timed ? cost.compute(Plan{}, op) : ComputeCost{};
        Time least = one.duration;
        for (int kind = 1; timed && kind < s.cluster.kinds_of_nodes(); ++kind)
            least = std::min(least, cost.compute(Plan{}, op, kind).duration);
        kernels += least.seconds();
        host += cost.host(op, std::max(1, one.kernels)).seconds();
    };
    const auto attention = [&](Direction direction) {
        add(Attention{direction, 1, 1, 1, 1, 1, 1, 1, false, 1, activation_dtype(s), s.runtime.attention_kernel, 0, 1}, false);
    };
    attention(Direction::forward);
    add(Pointwise{PointwiseKind::merge, Direction::forward, 1, true}, true);
    if (!s.model.trainable.partial()) {
        attention(Direction::backward);
        for (int sum = 0; sum < 2; ++sum) add(Pointwise{PointwiseKind::add, Direction::backward, 1, true}, true);
    }
    const double steps = static_cast<double>(s.microbatches()) * whole / t.pipeline_parallel * (t.context_parallel - 1);
    return steps * std::max(kernels, host) * least_factor(s);
}

} // namespace orrery
