#include "sim/search/parts.hpp"

#include "sim/plan/lowering.hpp"
#include "sim/scenario/parameters.hpp"
#include "sim/scenario/practice.hpp"

#include <algorithm>
#include <map>
#include <string_view>

namespace orrery {

namespace {

ChunkCost& operator+=(ChunkCost& c, const PartCost& p) {
    c.forward += p.forward;
    c.backward += p.backward;
    c.weight += p.weight;
    c.host += p.host;
    c.saved += p.saved;
    c.kernels += p.forward_kernels + p.backward_kernels;
    c.moving += p.moving;
    c.queue += p.queue;
    c.forward_slow += p.forward_slow;
    c.backward_slow += p.backward_slow;
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

// One layer, divided among tensor-parallel ranks as if all of it were.
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

} // namespace

double handed_on(const Scenario& s) {
    const Strategy& t = s.strategy;
    return static_cast<double>(s.training.sequence_length) * static_cast<double>(s.training.micro_batch_size) *
           static_cast<double>(s.model.hidden_size) * bytes_per_element(activation_dtype(s)) /
           (static_cast<double>(t.context_parallel) * (t.sequence_parallel ? t.tensor_parallel : 1));
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

double certain_idle(const ChunkCost& c, double slowdown) { return c.forward_slow + c.backward_slow - (1 + slowdown) * c.kernels; }

double slows_beside(const CommCost& communication, const CostModel& cost) {
    return communication.slows < 0 ? cost.interference().compute_slowdown : communication.slows;
}

double slowed(double kernels, double idle, double moving, double slowdown) {
    return kernels + idle + lost(slowdown) * std::max(0.0, moving - idle);
}

std::vector<ChunkCost> chunk_costs(const Scenario& s, const Profile& p, bool kernels) {
    const std::vector<int>& split = s.strategy.layers_per_chunk;
    const ScheduleInfo* info = find_schedule(s.strategy.schedule);
    const bool in_one = info && !info->splits_backward;
    const auto cost = [&](PartCost c) {
        if (in_one) c.backward += c.lost_beside_weights;
        return kernels ? kernels_of(c) : c;
    };
    std::vector<ChunkCost> chunks(split.size());
    // A chunk that recomputes waits for its gradient (plan/passes/bind.cpp), but not for the gather of one that comes in parts.
    const bool parts_arrive = s.strategy.tensor_parallel > 1 && !s.strategy.sequence_parallel && practice_of(s).scatters_transfers;
    int layer = 0;
    for (std::size_t c = 0; c < split.size(); ++c) {
        for (int i = 0; i < split[c]; ++i, ++layer) {
            chunks[c] += cost(p.layer(layer));
            if (parts_arrive && s.strategy.recompute != RecomputeKind::none)
                chunks[c].early = std::max(chunks[c].early, p.layer(layer).forward);
            if (i == 0) chunks[c].late = p.layer(layer).late; // backward passes end with a chunk's first layer
            const double rise = p.layer(layer).rise;
            chunks[c].rise = i == 0 ? rise : std::min(chunks[c].rise, rise);
        }
    }
    chunks.front() += cost(p.head);
    // In the small plan a layer keeps what it gives, for the next one; a chunk's last one gives it to another stage, and keeps none. Other
    // chunks have received as much, which no layer counts: the first has the head's.
    if (chunks.size() > 1) chunks.front().saved -= handed_on(s);
    chunks.back() += cost(p.tail);
    return chunks;
}

std::vector<Elements> chunk_elements(const Scenario& s) {
    const std::vector<int>& split = s.strategy.layers_per_chunk;
    const double embedding =
        static_cast<double>(s.model.vocab_size) * static_cast<double>(s.model.hidden_size) / s.strategy.tensor_parallel;
    std::vector<Elements> of_chunk(split.size());
    int layer = 0;
    for (std::size_t c = 0; c < split.size(); ++c)
        for (int i = 0; i < split[c]; ++i, ++layer) {
            const Elements one = layer_elements(s, layer);
            of_chunk[c].dense += one.dense, of_chunk[c].experts += one.experts;
        }
    const auto add_table = [&](Elements& e) { e.dense += embedding, e.tables += embedding; };
    add_table(of_chunk.front());
    if (!s.model.tied_embeddings) add_table(of_chunk.back());
    return of_chunk;
}

std::vector<Elements> stage_elements(const Scenario& s, const ScheduleInfo& info, const std::vector<Elements>& of_chunk) {
    const int length = static_cast<int>(of_chunk.size()), stages = s.strategy.pipeline_parallel;
    std::vector<Elements> of_stage(at(stages));
    for (int c = 0; c < length * info.directions; ++c) {
        Elements& stage = of_stage[at(info.stage_of(c, stages))];
        stage.dense += of_chunk[at(c % length)].dense;
        stage.experts += of_chunk[at(c % length)].experts;
        stage.tables += of_chunk[at(c % length)].tables;
    }
    return of_stage;
}

bool states_leave(const Offload& o) { return o.optimizer != Tier::none || o.gradients != Tier::none || o.parameters != Tier::none; }

Elements shards_of(const Scenario& s, int directions) {
    const Strategy& t = s.strategy;
    const double all = static_cast<double>(t.data_parallel) * t.context_parallel;
    const double group = t.shard_group_size > 0 ? t.shard_group_size : all;
    const double experts_all = all * t.tensor_parallel / (static_cast<double>(t.expert_parallel) * t.expert_tensor_parallel);
    return {group * directions, std::max(1.0, experts_all) * directions};
}

} // namespace orrery
