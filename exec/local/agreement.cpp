#include "exec/local/agreement.hpp"

#include "sim/schedules/schedule.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <string_view>

namespace orrery {

Learned learn(const Scenario& scenario, const Learning& how) {
    Learned out;
    const auto world = make_world(scenario, how.real, how.ranks, how.machine);
    world->facts.forced_routing = how.forced_routing;
    initialise(*world);
    for (auto& r : world->ranks)
        if (r) r->memory.poison(true);
    const auto executor = how.executor(*world);
    out.gradients_gone = scenario.training.optimizer_in_backward;
    const Corpus corpus{"", scenario.model.vocab_size, scenario.training.seed};
    const auto take = [&](Quantity what) {
        executor->fetch();
        Gathered g = how.gathered(*world, what);
        out.disagreement = std::max(out.disagreement, g.disagreement);
        return std::move(g.tensors);
    };
    for (int i = 0; i < how.steps; ++i) {
        load_batch(*world, corpus, i);
        executor->step(nullptr);
        out.losses.push_back(mean_loss(*world));
        if (i == 0) out.gradients = take(Quantity::gradients);
    }
    out.parameters = take(Quantity::parameters);
    out.states = take(Quantity::states);
    for (const auto& r : world->ranks) out.peaks.push_back(r ? r->memory.device().highest : 0);
    return out;
}

std::string unlike_one_rank(const Scenario& s) {
    const Strategy& st = s.strategy;
    const GradientCompression sent = st.compresses();
    const bool casts = sent == GradientCompression::fp16 || sent == GradientCompression::bf16; // nothing is rounded in double precision
    const auto because = [](const char* field, const auto& value, const char* does) {
        return fmt::format("{} = {} {}, which one rank does not", field, value, does);
    };
    if (sent != GradientCompression::none && !casts && st.data_parallel * st.context_parallel > 1)
        return because("strategy.gradient_compression.kind", name(sent), "sends gradients that have lost digits");
    if (st.workers())
        return because("strategy.synchronization.kind", name(st.synchronization.kind), "trains each worker on its own gradients");
    if (st.quantized_weights != QuantizedWeights::none)
        return because("strategy.quantized_weights", name(st.quantized_weights), "computes with rounded weights");
    if (st.quantized_gradients != QuantizedGradients::none)
        return because("strategy.quantized_gradients", name(st.quantized_gradients), "rounds gradients on their way");
    const ScheduleInfo* schedule = find_schedule(st.schedule);
    if (schedule && schedule->asynchronous && st.pipeline_parallel > 1 && st.flush_every > 1)
        return because("strategy.schedule", st.schedule,
                       fmt::format("goes on with old weights for strategy.flush_every = {} steps", st.flush_every).c_str());
    return "";
}

bool routes_by_position(const Scenario& s) {
    return s.model.moe && (!s.model.moe->pads() || s.strategy.tensor_parallel > 1 || s.strategy.context_parallel > 1);
}

Limits limits_of(DType real) {
    constexpr double told = std::numeric_limits<double>::infinity();
    switch (real) {
    case DType::fp64:
        return {1e-12, 1e-11, 1e-9};
    case DType::bf16:
    case DType::fp16: // of more bits, but with the overflows and the smallest numbers of a scaled loss
        return {0.02, 0.05, told};
    default:
        return {1e-5, 1e-5, told};
    }
}

namespace {

// One plan has masters beside 16-bit parameters, another has fp32 parameters alone: these take the masters' place.
Tensors states_like(const Learned& own, const Learned& other) {
    Tensors states = own.states;
    for (const auto& [name, _] : other.states)
        if (const auto it = own.parameters.find(tensor_of_master(name)); it != own.parameters.end()) states.emplace(name, it->second);
    return states;
}

} // namespace

Agreement agreement(const Learned& one, const Learned& many, const Limits& limits) {
    Difference loss;
    for (std::size_t i = 0; i < one.losses.size(); ++i)
        if (const double by = std::abs(one.losses[i] - many.losses[i]) / one.losses[i]; !(by <= loss.relative))
            loss = {by, fmt::format("step {}", i)};
    // Gradients that are zero but for rounding, in 16 bits and more, are measured against the smallest that mean something.
    const double negligible = limits.gradients > 1e-6 ? 1e-3 : 1e-9;
    const std::tuple<const char*, Difference, double> all[] = {
        {"loss", loss, limits.loss},
        {"gradients of the first step", difference(one.gradients, many.gradients, negligible), limits.gradients},
        {"parameters", difference(one.parameters, many.parameters), limits.parameters},
        {"optimizer states", difference(states_like(one, many), states_like(many, one)), limits.parameters},
        {"replicas among themselves", {many.disagreement, ""}, 0}};
    Agreement a;
    for (const auto& [what, difference, limit] : all)
        if (!(many.gradients_gone && std::string_view(what).starts_with("gradients")))
            a.rows.push_back({what, difference, limit, difference.relative <= limit});
    return a;
}

bool Agreement::agrees() const {
    return std::ranges::all_of(rows, [](const Row& r) { return r.agrees; });
}

} // namespace orrery
