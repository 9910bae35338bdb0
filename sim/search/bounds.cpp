#include "sim/search/bounds.hpp"

#include "sim/cost/own_constants.hpp"
#include "sim/scenario/parameters.hpp"
#include "sim/scenario/practice.hpp"
#include "sim/schedules/schedule.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <string_view>

namespace orrery {

namespace {

struct ChunkCost {
    double forward = 0, backward = 0, weight = 0, host = 0, saved = 0, rise = 0;
    double kernels = 0, moving = 0;
    double early = 0; // of the backward pass what may run before its gradient comes: one layer's recomputation
};

std::size_t at(int i) { return static_cast<std::size_t>(i); }

ChunkCost& operator+=(ChunkCost& c, const PartCost& p) {
    c.forward += p.forward;
    c.backward += p.backward;
    c.weight += p.weight;
    c.host += p.host;
    c.saved += p.saved;
    c.kernels += p.forward_kernels + p.backward_kernels;
    c.moving += p.moving;
    return c;
}

// Kernels alone, where blocks are joined and one's communication runs under another's kernels.
PartCost kernels_of(PartCost p) {
    p.forward = p.forward_kernels;
    p.backward = p.backward_kernels;
    return p;
}

// A schedule whose steps are joined even where nobody asks for it.
bool always_joins(const ScheduleInfo& info) {
    ScheduleShape shape;
    shape.stages = 4;
    shape.chunks_per_stage = info.usual_chunks;
    shape.microbatches = 8;
    if (!info.check(shape).empty()) return false;
    for (const auto& rank : info.make(shape).ranks)
        for (const ScheduleStep& step : rank)
            if (step.joined) return true;
    return false;
}

bool joins(const Scenario& s, const ScheduleInfo& info) {
    static const std::map<std::string_view, bool> known = [] {
        std::map<std::string_view, bool> all;
        for (const ScheduleInfo& one : schedules()) all[one.name] = always_joins(one);
        return all;
    }();
    const auto it = known.find(info.name);
    return s.strategy.overlap.expert_parallel || it == known.end() || it->second;
}

std::vector<ChunkCost> chunk_costs(const Scenario& s, const Profile& p, bool kernels) {
    const std::vector<int>& split = s.strategy.layers_per_chunk;
    const auto cost = [&](const PartCost& c) { return kernels ? kernels_of(c) : c; };
    std::vector<ChunkCost> chunks(split.size());
    int layer = 0;
    for (std::size_t c = 0; c < split.size(); ++c) {
        for (int i = 0; i < split[c]; ++i, ++layer) {
            chunks[c] += cost(p.layer(layer));
            if (s.strategy.recompute != RecomputeKind::none) chunks[c].early = std::max(chunks[c].early, p.layer(layer).forward);
            const double rise = p.layer(layer).rise;
            chunks[c].rise = i == 0 ? rise : std::min(chunks[c].rise, rise);
        }
    }
    chunks.front() += cost(p.head);
    chunks.back() += cost(p.tail);
    return chunks;
}

// Some perturbation makes a rank faster, or all of them now and then: nothing is certain then.
bool uncertain(const Scenario& s) {
    return std::any_of(s.perturb.begin(), s.perturb.end(), [](const Perturbation& p) {
        return p.kind == Perturbation::Kind::jitter || (p.kind != Perturbation::Kind::background && p.factor < 1);
    });
}

// Elements of a rank, those of experts apart.
struct Elements {
    double dense = 0, experts = 0;
};

// Of one layer, divided among tensor-parallel ranks as if all of it were.
Elements layer_elements(const Scenario& s, int layer) {
    const Model& m = s.model;
    const Strategy& t = s.strategy;
    double experts = 0;
    if (is_moe_layer(m, layer) && m.moe->experts > m.moe->top_k)
        experts =
            static_cast<double>(moe_parameters(m, false) - moe_parameters(m, true)) / (m.moe->experts - m.moe->top_k) * m.moe->experts;
    return {(static_cast<double>(layer_parameters(m, layer)) - experts) / t.tensor_parallel,
            experts / (static_cast<double>(t.expert_parallel) * t.expert_tensor_parallel)};
}

// Of each stage, with the copies of all directions.
std::vector<Elements> stage_elements(const Scenario& s, const ScheduleInfo& info) {
    const std::vector<int>& split = s.strategy.layers_per_chunk;
    const double embedding =
        static_cast<double>(s.model.vocab_size) * static_cast<double>(s.model.hidden_size) / s.strategy.tensor_parallel;
    const int length = static_cast<int>(split.size()), stages = s.strategy.pipeline_parallel;
    std::vector<Elements> of_chunk(split.size()), of_stage(at(stages));
    int layer = 0;
    for (std::size_t c = 0; c < split.size(); ++c)
        for (int i = 0; i < split[c]; ++i, ++layer) {
            const Elements one = layer_elements(s, layer);
            of_chunk[c].dense += one.dense, of_chunk[c].experts += one.experts;
        }
    of_chunk.front().dense += embedding;
    if (!s.model.tied_embeddings) of_chunk.back().dense += embedding;
    for (int c = 0; c < length * info.directions; ++c) {
        Elements& stage = of_stage[at(info.stage_of(c, stages))];
        stage.dense += of_chunk[at(c % length)].dense;
        stage.experts += of_chunk[at(c % length)].experts;
    }
    return of_stage;
}

struct Held {
    double always = 0, gradients = 0;
}; // bytes; gradients apart, as some software has none while it goes forward

Held bytes_of(const Scenario& s, const Elements& e, int directions) {
    const Strategy& t = s.strategy;
    const Training& training = s.training;
    const Practice practice = practice_of(s);
    const double all = static_cast<double>(t.data_parallel) * t.context_parallel;
    const double group = t.shard_group_size > 0 ? t.shard_group_size : all;
    const double experts_all = all * t.tensor_parallel / (static_cast<double>(t.expert_parallel) * t.expert_tensor_parallel);
    const double shards = group * directions, expert_shards = std::max(1.0, experts_all) * directions;
    const auto sharded = [&](bool yes) { return e.dense / (yes ? shards : 1) + e.experts / (yes ? expert_shards : 1); };
    const bool wide = training.precision == DType::fp32 || training.precision == DType::tf32;
    double states = training.master_weights && !wide ? (training.master_remainders ? 2 : 4) : 0;
    const int moments = training.optimizer == Optimizer::sgd                                                 ? 0
                        : training.optimizer == Optimizer::momentum || training.optimizer == Optimizer::lars ? 1
                                                                                                             : 2;
    states += moments * bytes_per_element(training.moment_dtype);
    // Of a model that is tuned only what is not trained is bounded: adapters are few, and gradients and states are theirs.
    const Trainable& tuned = s.model.trainable;
    const double parameter = tuned.base_dtype == BaseDType::nf4 ? bytes_per_element(DType::nf4) : wide ? 4 : 2;
    if (tuned.partial()) states = 0;
    const Offload& o = t.offload;
    const bool elsewhere = o.optimizer != Tier::none || o.gradients != Tier::none || o.parameters != Tier::none;
    if (elsewhere) return {}; // what a device keeps of it is not bounded
    const bool fully = practice.fully_sharded();
    const double gradient = fully ? std::min(2.0, bytes_per_element(training.gradient_dtype)) : bytes_per_element(training.gradient_dtype);
    Held h;
    h.always = parameter * sharded(t.zero_stage >= 3 || (t.zero_stage == 2 && fully)) + states * sharded(t.zero_stage >= 1);
    h.gradients = tuned.partial() ? 0 : gradient * sharded(t.zero_stage >= 2);
    return h;
}

} // namespace

namespace {

struct StageTime {
    double busy = 0, host = 0, weight = 0, last_weight = 0, ends = std::numeric_limits<double>::infinity();
    double fills = std::numeric_limits<double>::infinity(), drains = std::numeric_limits<double>::infinity();
    double layers = 0;
    double kernels = 0, moving = 0; // of a microbatch
};

double time_of(const std::vector<StepCounts>& steps, const std::vector<ChunkCost>& chunks) {
    double t = 0;
    for (std::size_t c = 0; c < steps.size(); ++c)
        t += steps[c].forward * chunks[c].forward + steps[c].backward * chunks[c].backward +
             steps[c].input * (chunks[c].backward - chunks[c].weight) + steps[c].weight * chunks[c].weight;
    return t;
}

// What data parallelism makes of a stage's time, and how long its data move.
struct Shared {
    double bound = 0, moving = 0;
};

// Communication starts after the computation issued before it; what is overlapped may run under all that is issued later, gathers for the
// next step under what comes before its last chunk's first microbatch is through.
Shared once_a_step(const Scenario& s, const StageTime& st, const InFlight::Held& held, const std::vector<ChunkCost>& chunks,
                   const SharingTime& time, double later) {
    const double busy = static_cast<double>(s.microbatches()) * st.busy;
    const double tail = s.strategy.overlap.grad_reduce ? std::max(0.0, time.reduce - time_of(held.last, chunks)) : time.reduce;
    const double gather = time.gather - time_of(held.first, chunks);
    return {busy + std::max(tail, st.drains - later) + std::max(st.fills, gather),
            std::max({time.reduce, time.gather, time.link_reduce + time.link_gather})};
}

// ZeRO 2 and 3: gradients are reduced with each run of microbatches, and parameters may be gathered.
Shared each_run(const Scenario& s, const StageTime& st, const InFlight::Held& held, const SharingTime& time) {
    const SharingPractice practice = sharing_practice(s);
    const Overlap& overlap = s.strategy.overlap;
    const auto m = static_cast<double>(s.microbatches());
    const bool whole = held.late_weights == 0; // backward steps are not cut in two
    const double runs = s.strategy.virtual_pipeline == 1 ? m : std::ceil(m / s.strategy.pipeline_parallel);
    const double reduces = whole ? runs : 1;
    const double in_step = held.gathers + held.more_gathers * (m - static_cast<double>(held.microbatches));
    const double gathers = !practice.gathers_in_step ? 1 : practice.keeps ? m : in_step;
    const double reduce = reduces * time.reduce, gather = gathers * time.gather;
    Shared shared;
    shared.moving =
        practice.one_queue ? reduce + gather : std::max({reduce, gather, reduces * time.link_reduce + gathers * time.link_gather});
    shared.bound = shared.moving;
    // With one stage and nothing overlapped a unit waits for its parameters, and the next for its gradients: all but the first and the
    // last.
    if (s.strategy.pipeline_parallel == 1 && whole) {
        const double inner = std::max(0.0, st.layers - 2) / std::max(1.0, st.layers);
        const double waits = (overlap.grad_reduce ? 0 : reduce) + (overlap.param_gather || !practice.gathers_in_step ? 0 : gather);
        shared.bound = std::max(shared.bound, m * st.busy + inner * waits);
    }
    return shared;
}

} // namespace

// What was learned from measured steps may have made kernels faster or slower, each group by its own factor: all shrink by the least of
// them.
double least_factor(const Scenario& s) {
    const LearnedConstants* learned = learned_for(s);
    if (!learned) return 1;
    const CostFactors factors = learned->factors();
    return std::min(1.0, *std::min_element(factors.begin(), factors.end()));
}

// A stage begins when the first microbatch has passed the stages before it, and its last goes back through them before their optimizer
// steps; weight gradients may come after that. Of several directions the nearer end counts: their gradients meet before any steps.
double time_bound(const Scenario& s, const Profile& profile, InFlight& in_flight, SharedWire* sharing) {
    const ScheduleInfo* info = find_schedule(s.strategy.schedule);
    if (!info || uncertain(s)) return 0;
    const int stages = s.strategy.pipeline_parallel;
    const auto m = static_cast<double>(s.microbatches()) / info->directions;
    const bool joined = joins(s, *info);
    const std::vector<ChunkCost> chunks = chunk_costs(s, profile, joined);
    const int length = static_cast<int>(chunks.size());
    std::vector<StageTime> of_stage(at(stages));
    for (int direction = 0; direction < info->directions; ++direction) {
        double fills = 0, drains = 0; // before and behind a chunk
        for (int c = 0; c < length; ++c) {
            const ChunkCost& chunk = chunks[at(c)];
            StageTime& st = of_stage[at(info->stage_of(direction * length + c, stages))];
            st.busy += chunk.forward + chunk.backward;
            st.host += chunk.host;
            st.weight += chunk.weight;
            st.last_weight = std::max(st.last_weight, chunk.weight);
            st.ends = std::min(st.ends, fills + drains);
            st.fills = std::min(st.fills, fills);
            st.drains = std::min(st.drains, drains);
            st.kernels += chunk.kernels;
            st.moving += chunk.moving;
            st.layers += s.strategy.layers_per_chunk[at(c)];
            fills += chunk.forward;
            drains += std::max(0.0, chunk.backward - chunk.weight - chunk.early);
        }
    }
    const std::vector<InFlight::Held>& held = in_flight.of(s);
    const bool shares = sharing && info->directions == 1 && !joined && !info->asynchronous;
    const int zero = sharing_practice(s).zero;
    const std::vector<Elements> elements = shares ? stage_elements(s, *info) : std::vector<Elements>{};
    double bound = 0;
    for (int stage = 0; stage < stages; ++stage) {
        const StageTime& st = of_stage[at(stage)];
        const int late = held[at(stage)].late_weights;
        const double later = late < 0 ? m * st.weight : (late + 1) * st.last_weight;
        double least = std::max({m * st.busy, m * st.host, info->asynchronous ? 0 : m * st.busy + st.ends - later});
        double moving = joined ? 0 : m * st.moving;
        if (shares && !held[at(stage)].last.empty()) {
            const SharingTime time = sharing->of(s, elements[at(stage)].dense);
            const Shared shared =
                zero <= 1 ? once_a_step(s, st, held[at(stage)], chunks, time, later) : each_run(s, st, held[at(stage)], time);
            least = std::max(least, shared.bound);
            moving = std::max(moving, shared.moving);
        }
        // Kernels take longer while data move, unless these move while no kernel runs: of `least` what is no kernel's.
        const double idle = least - m * st.kernels;
        bound = std::max(bound, least + profile.slowdown / (1 + profile.slowdown) * std::max(0.0, moving - idle));
    }
    return bound * least_factor(s);
}

double memory_bound(const Scenario& s, const Profile& profile, InFlight& in_flight) {
    const ScheduleInfo* info = find_schedule(s.strategy.schedule);
    if (!info) return 0;
    const int stages = s.strategy.pipeline_parallel, directions = info->directions;
    const std::vector<int>& split = s.strategy.layers_per_chunk;
    const std::vector<ChunkCost> chunks = chunk_costs(s, profile, false);
    const bool made_anew = practice_of(s).gradients_none;
    const int length = static_cast<int>(split.size());
    const std::vector<Elements> elements = stage_elements(s, *info);
    std::vector<bool> has_tail(at(stages));
    for (int direction = 0; direction < directions; ++direction)
        has_tail[at(info->stage_of(direction * length + length - 1, stages))] = true;
    const std::vector<InFlight::Held>& held = in_flight.of(s);
    const bool segments = s.strategy.recompute_segments > 0; // of several layers, which keep less than a layer's input each: not bounded
    double most = 0;
    for (int stage = 0; stage < stages; ++stage) {
        const Held h = bytes_of(s, elements[at(stage)], directions);
        double saved = 0, rise = 0;
        for (const auto& [chunk, count] : held[at(stage)].of_chunk) {
            const ChunkCost& c = chunks[at(chunk % length)];
            saved += segments ? 0 : count * std::max(0.0, c.saved);
            if (count > 0) rise = rise == 0 ? c.rise : std::min(rise, c.rise);
        }
        // A layer's backward pass begins when that of the tail is through, which has let go of what the tail saved.
        double working = saved + std::max(0.0, rise - (has_tail[at(stage)] ? std::max(0.0, profile.tail.saved) : 0));
        if (has_tail[at(stage)]) {
            const double layers_saved = segments ? 0 : chunks.back().saved - profile.tail.saved;
            working = std::max(working, std::max(0.0, layers_saved) + profile.tail_peak);
        }
        const double with = made_anew ? std::max(h.gradients, working) : h.gradients + working;
        most = std::max(most, h.always + with);
    }
    const LearnedConstants* learned = learned_for(s);
    const double less = learned ? std::min(1.0, learned->memory_factor(0)) * std::min(1.0, learned->memory_factor(1)) : 1;
    return (most + profile.reserve) * less;
}

} // namespace orrery
