#include "sim/search/bounds.hpp"

#include "sim/scenario/parameters.hpp"
#include "sim/scenario/practice.hpp"
#include "sim/schedules/schedule.hpp"

#include <algorithm>
#include <limits>
#include <map>
#include <string_view>

namespace orrery {

namespace {

struct ChunkCost {
    double forward = 0, backward = 0, weight = 0, host = 0, saved = 0, rise = 0;
    double early = 0; // of the backward pass what may run before its gradient comes: one layer's recomputation
};

std::size_t at(int i) { return static_cast<std::size_t>(i); }

ChunkCost& operator+=(ChunkCost& c, const PartCost& p) {
    c.forward += p.forward;
    c.backward += p.backward;
    c.weight += p.weight;
    c.host += p.host;
    c.saved += p.saved;
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
    const Offload& o = t.offload;
    const bool elsewhere = o.optimizer != Tier::none || o.gradients != Tier::none || o.parameters != Tier::none;
    if (elsewhere) return {}; // what a device keeps of it is not bounded
    const bool fully = practice.fully_sharded();
    const double gradient = fully ? std::min(2.0, bytes_per_element(training.gradient_dtype)) : bytes_per_element(training.gradient_dtype);
    Held h;
    h.always = (wide ? 4 : 2) * sharded(t.zero_stage >= 3 || (t.zero_stage == 2 && fully)) + states * sharded(t.zero_stage >= 1);
    h.gradients = gradient * sharded(t.zero_stage >= 2);
    return h;
}

} // namespace

const std::vector<InFlight::Held>& InFlight::of(const Scenario& scenario) {
    const Strategy& s = scenario.strategy;
    const std::int64_t few = std::int64_t{4} * s.pipeline_parallel; // enough to reach the most
    const std::tuple key{s.schedule, s.pipeline_parallel, s.virtual_pipeline, std::min(scenario.microbatches(), few)};
    const std::lock_guard lock(mutex_);
    if (const auto it = known_.find(key); it != known_.end()) return it->second;
    std::vector<Held> held(at(s.pipeline_parallel));
    const ScheduleInfo* info = find_schedule(s.schedule);
    ScheduleShape shape;
    shape.stages = s.pipeline_parallel;
    shape.chunks_per_stage = s.virtual_pipeline;
    shape.microbatches = std::get<3>(key);
    Schedule order;
    bool certain = info && info->check(shape).empty();
    if (certain) order = info->make(shape);
    if (certain && info->splits_backward) { // one that plans with times has another order for other times: of it nothing is certain
        ScheduleShape other = shape;
        other.forward = 3, other.input = 2, other.communication = 0.5;
        certain = info->make(other).ranks == order.ranks;
    }
    for (std::size_t stage = 0; certain && stage < held.size(); ++stage) {
        std::map<int, int> now, most;
        int sum = 0, best = 0, late = 0;
        for (const ScheduleStep& step : order.ranks[stage]) {
            const int change = step.kind == StepKind::forward ? 1 : step.kind == StepKind::weight ? 0 : -1;
            late = step.kind == StepKind::weight ? late + 1 : change < 0 ? 0 : late;
            now[step.chunk] += change;
            sum += change;
            if (sum > best) best = sum, most = now;
        }
        held[stage].of_chunk.assign(most.begin(), most.end());
        held[stage].late_weights = late;
    }
    return known_.emplace(key, std::move(held)).first->second;
}

// A stage begins when the first microbatch has passed the stages before it, and its last goes back through them before their optimizer
// steps; weight gradients may come after that. Of several directions the nearer end counts: their gradients meet before any steps.
double time_bound(const Scenario& s, const Profile& profile, InFlight& in_flight) {
    const ScheduleInfo* info = find_schedule(s.strategy.schedule);
    if (!info || uncertain(s)) return 0;
    const int stages = s.strategy.pipeline_parallel;
    const auto m = static_cast<double>(s.microbatches()) / info->directions;
    const std::vector<ChunkCost> chunks = chunk_costs(s, profile, joins(s, *info));
    const int length = static_cast<int>(chunks.size());
    struct Stage {
        double busy = 0, host = 0, weight = 0, last_weight = 0, ends = std::numeric_limits<double>::infinity();
    };
    std::vector<Stage> of_stage(at(stages));
    for (int direction = 0; direction < info->directions; ++direction) {
        double ends = 0; // what fills and drains before and behind a chunk
        for (int c = 0; c < length; ++c) {
            const ChunkCost& chunk = chunks[at(c)];
            Stage& st = of_stage[at(info->stage_of(direction * length + c, stages))];
            st.busy += chunk.forward + chunk.backward;
            st.host += chunk.host;
            st.weight += chunk.weight;
            st.last_weight = std::max(st.last_weight, chunk.weight);
            st.ends = std::min(st.ends, ends);
            ends += chunk.forward + std::max(0.0, chunk.backward - chunk.weight - chunk.early);
        }
    }
    const std::vector<InFlight::Held>& held = in_flight.of(s);
    double bound = 0;
    for (int stage = 0; stage < stages; ++stage) {
        const Stage& st = of_stage[at(stage)];
        const int late = held[at(stage)].late_weights;
        const double later = late < 0 ? m * st.weight : (late + 1) * st.last_weight;
        bound = std::max({bound, m * st.busy, m * st.host, m * st.busy + st.ends - later});
    }
    return bound;
}

double memory_bound(const Scenario& s, const Profile& profile, InFlight& in_flight) {
    const ScheduleInfo* info = find_schedule(s.strategy.schedule);
    if (!info) return 0;
    const int stages = s.strategy.pipeline_parallel, directions = info->directions;
    const std::vector<int>& split = s.strategy.layers_per_chunk;
    const std::vector<ChunkCost> chunks = chunk_costs(s, profile, false);
    const double embedding =
        static_cast<double>(s.model.vocab_size) * static_cast<double>(s.model.hidden_size) / s.strategy.tensor_parallel;
    const bool made_anew = practice_of(s).gradients_none;
    const int length = static_cast<int>(split.size());
    std::vector<Elements> of_chunk(split.size());
    int layer = 0;
    for (std::size_t c = 0; c < split.size(); ++c)
        for (int i = 0; i < split[c]; ++i, ++layer) {
            const Elements one = layer_elements(s, layer);
            of_chunk[c].dense += one.dense, of_chunk[c].experts += one.experts;
        }
    of_chunk.front().dense += embedding;
    if (!s.model.tied_embeddings) of_chunk.back().dense += embedding;
    std::vector<Elements> elements(at(stages));
    std::vector<bool> has_tail(at(stages));
    for (int c = 0; c < length * directions; ++c) {
        const std::size_t stage = at(info->stage_of(c, stages));
        elements[stage].dense += of_chunk[at(c % length)].dense;
        elements[stage].experts += of_chunk[at(c % length)].experts;
        if (c % length == length - 1) has_tail[stage] = true;
    }
    const std::vector<InFlight::Held>& held = in_flight.of(s);
    double most = 0;
    for (int stage = 0; stage < stages; ++stage) {
        const Held h = bytes_of(s, elements[at(stage)], directions);
        double saved = 0, rise = 0;
        for (const auto& [chunk, count] : held[at(stage)].of_chunk) {
            const ChunkCost& c = chunks[at(chunk % length)];
            saved += count * std::max(0.0, c.saved);
            if (count > 0) rise = rise == 0 ? c.rise : std::min(rise, c.rise);
        }
        double working = saved + rise;
        if (has_tail[at(stage)]) {
            const double layers_saved = chunks.back().saved - profile.tail.saved;
            working = std::max(working, std::max(0.0, layers_saved) + profile.tail_peak);
        }
        const double with = made_anew ? std::max(h.gradients, working) : h.gradients + working;
        most = std::max(most, h.always + with);
    }
    return most + profile.reserve;
}

} // namespace orrery
