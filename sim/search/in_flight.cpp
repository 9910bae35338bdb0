// What the order of a schedule's steps says of a stage, whatever they cost.
#include "sim/schedules/schedule.hpp"
#include "sim/search/bounds.hpp"

#include <algorithm>

namespace orrery {

namespace {

using Steps = std::vector<ScheduleStep>;

std::size_t at(int i) { return static_cast<std::size_t>(i); }

void most_held(const Steps& steps, InFlight::Held& held) {
    std::map<int, int> now, most;
    int sum = 0, best = 0, late = 0;
    for (const ScheduleStep& step : steps) {
        const int change = step.kind == StepKind::forward ? 1 : step.kind == StepKind::weight ? 0 : -1;
        late = step.kind == StepKind::weight ? late + 1 : change < 0 ? 0 : late;
        now[step.chunk] += change;
        sum += change;
        if (sum > best) best = sum, most = now;
    }
    held.of_chunk.assign(most.begin(), most.end());
    held.late_weights = late;
}

bool completes(const ScheduleStep& step) { return step.kind == StepKind::backward || step.kind == StepKind::weight; }

void count(std::vector<StepCounts>& counts, const ScheduleStep& step) {
    StepCounts& c = counts[at(step.chunk)];
    ++(step.kind == StepKind::forward    ? c.forward
       : step.kind == StepKind::backward ? c.backward
       : step.kind == StepKind::input    ? c.input
                                         : c.weight);
}

void ends_of(const Steps& steps, int chunks, InFlight::Held& held) {
    std::vector<std::size_t> first(at(chunks), steps.size()), last(at(chunks), 0);
    for (std::size_t i = 0; i < steps.size(); ++i) {
        const std::size_t c = at(steps[i].chunk);
        if (steps[i].kind == StepKind::forward) first[c] = std::min(first[c], i);
        if (completes(steps[i])) last[c] = i;
    }
    std::size_t until = 0, from = steps.size();
    for (std::size_t c = 0; c < first.size(); ++c)
        if (first[c] < steps.size()) until = std::max(until, first[c]), from = std::min(from, last[c]);
    held.first.assign(at(chunks), {});
    held.last.assign(at(chunks), {});
    for (std::size_t i = 0; i < steps.size(); ++i) {
        if (i <= until) count(held.first, steps[i]);
        if (i >= from) count(held.last, steps[i]);
    }
}

// How often the chunk's parameters are gathered: each run of forward or backward steps wants them from its first step to its last, and
// gathers them where no other run of the chunk has them (passes/data_parallel.cpp).
int gathers_of(const Steps& steps, int chunk, int run, std::int64_t microbatches) {
    std::int64_t met[2] = {0, 0};
    int uses = 0, gathers = 0;
    for (const ScheduleStep& step : steps) {
        if (step.chunk != chunk || step.kind == StepKind::weight) continue;
        std::int64_t& k = met[step.kind == StepKind::forward ? 0 : 1];
        if (k % run == 0 && uses++ == 0) ++gathers;
        ++k;
        if ((k % run == 0 || k == microbatches) && uses > 0) --uses;
    }
    return gathers;
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
    const int run = s.virtual_pipeline > 1 ? static_cast<int>(std::min<std::int64_t>(s.pipeline_parallel, shape.microbatches)) : 1;
    for (std::size_t stage = 0; certain && stage < held.size(); ++stage) {
        const Steps& steps = order.ranks[stage];
        most_held(steps, held[stage]);
        if (info->directions > 1) continue;
        ends_of(steps, s.pipeline_parallel * s.virtual_pipeline, held[stage]);
        held[stage].gathers = gathers_of(steps, steps.front().chunk, run, shape.microbatches);
        held[stage].microbatches = shape.microbatches;
    }
    if (certain && info->directions == 1 && shape.microbatches == few) { // the order repeats itself
        shape.microbatches = few / 2;
        const Schedule shorter = info->check(shape).empty() ? info->make(shape) : Schedule{};
        for (std::size_t stage = 0; stage < shorter.ranks.size(); ++stage) {
            const Steps& steps = shorter.ranks[stage];
            const int fewer = gathers_of(steps, steps.front().chunk, run, shape.microbatches);
            held[stage].more_gathers = (held[stage].gathers - fewer) / static_cast<double>(few - shape.microbatches);
        }
    }
    return known_.emplace(key, std::move(held)).first->second;
}

} // namespace orrery
