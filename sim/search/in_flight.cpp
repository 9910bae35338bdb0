// Facts of a stage that follow from the order of a schedule's steps, whatever they cost.
#include "sim/scenario/layers.hpp"
#include "sim/schedules/schedule.hpp"
#include "sim/search/bounds.hpp"
#include "topology/at.hpp"

#include <algorithm>
#include <map>
#include <tuple>

namespace orrery {

namespace {

using Steps = std::vector<ScheduleStep>;

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

// Microbatches held, chunks whose parameters are whole, chunks whose gradients are, whether a backward step comes next.
using MomentSize = std::tuple<int, int, int, bool>;

// Where steps stand in their runs, of one stage.
class Runs {
  public:
    Runs(int chunks, std::int64_t run, std::int64_t microbatches)
        : run_(run), microbatches_(microbatches), met_(at(chunks)), open_(at(chunks)), held_(at(chunks)) {}

    InFlight::Moment before(const ScheduleStep& step) const {
        InFlight::Moment m;
        for (std::size_t c = 0; c < held_.size(); ++c) {
            if (held_[c] > 0) m.held.emplace_back(static_cast<int>(c), held_[c]);
            if (open_[c].forward || open_[c].backward) m.gathered.push_back(static_cast<int>(c));
            if (open_[c].backward) m.summed.push_back(static_cast<int>(c));
        }
        (step.kind == StepKind::forward ? m.forward : m.begins) = step.kind == StepKind::weight ? -1 : step.chunk;
        return m;
    }
    void pass(const ScheduleStep& step) {
        if (step.kind == StepKind::weight) return;
        const bool forward = step.kind == StepKind::forward;
        held_[at(step.chunk)] += forward ? 1 : -1;
        std::int64_t& k = forward ? met_[at(step.chunk)].first : met_[at(step.chunk)].second;
        ++k;
        Open& open = open_[at(step.chunk)];
        sum_ += forward ? 1 : -1;
        gathered_ -= open.forward || open.backward;
        summed_ -= open.backward;
        (forward ? open.forward : open.backward) = k % run_ != 0 && k != microbatches_;
        gathered_ += open.forward || open.backward;
        summed_ += open.backward;
    }
    MomentSize size(const ScheduleStep& next) const { return {sum_, gathered_, summed_, next.kind != StepKind::forward}; }

  private:
    struct Open {
        bool forward = false, backward = false;
    };
    std::int64_t run_, microbatches_;
    std::vector<std::pair<std::int64_t, std::int64_t>> met_; // forward steps, backward steps; by chunk
    std::vector<Open> open_;
    std::vector<int> held_;
    int sum_ = 0, gathered_ = 0, summed_ = 0;
};

void moments_of(const Steps& steps, int chunks, std::int64_t run, std::int64_t microbatches, InFlight::Held& held) {
    std::map<MomentSize, InFlight::Moment> found;
    Runs runs(chunks, run, microbatches);
    for (const ScheduleStep& step : steps) {
        if (step.kind != StepKind::weight)
            if (const auto [it, fresh] = found.try_emplace(runs.size(step)); fresh) it->second = runs.before(step);
        runs.pass(step);
    }
    const auto beaten = [&](const MomentSize& a) {
        return std::any_of(found.begin(), found.end(), [&](const auto& other) {
            const MomentSize& b = other.first;
            return b != a && std::get<0>(b) >= std::get<0>(a) && std::get<1>(b) >= std::get<1>(a) && std::get<2>(b) >= std::get<2>(a) &&
                   std::get<3>(b) == std::get<3>(a);
        });
    };
    for (auto& [size, m] : found)
        if (!beaten(size)) held.moments.push_back(m);
}

} // namespace

const std::vector<InFlight::Held>& InFlight::of(const Scenario& scenario) {
    const Strategy& s = scenario.strategy;
    const std::int64_t few = std::int64_t{4} * s.microbatch_group(); // enough to reach the most
    const std::tuple key{s.schedule, s.pipeline_parallel, s.virtual_pipeline, s.microbatch_group_size,
                         std::min(scenario.microbatches(), few)};
    const std::lock_guard lock(mutex_);
    if (const auto it = known_.find(key); it != known_.end()) return it->second;
    std::vector<Held> held(at(s.pipeline_parallel));
    const ScheduleInfo* info = find_schedule(s.schedule);
    ScheduleShape shape = shape_of(s);
    shape.microbatches = std::get<4>(key);
    Schedule order;
    bool certain = info && info->check(shape).empty();
    if (certain) order = info->make(shape);
    if (certain && info->splits_backward) { // one that plans with times has another order for other times: of it nothing is certain
        ScheduleShape other = shape;
        other.forward = 3, other.input = 2, other.communication = 0.5;
        certain = info->make(other).ranks == order.ranks;
    }
    const int run = static_cast<int>(s.run_of(s.virtual_pipeline, shape.microbatches));
    if (!certain && info && info->directions == 1)
        for (int chunk = 0; chunk < s.pipeline_parallel * s.virtual_pipeline; ++chunk)
            held[at(info->stage_of(chunk, s.pipeline_parallel))].at_least.emplace_back(chunk, 1);
    for (std::size_t stage = 0; certain && stage < held.size(); ++stage) {
        const Steps& steps = order.ranks[stage];
        most_held(steps, held[stage]);
        moments_of(steps, s.pipeline_parallel * s.virtual_pipeline * info->directions, run, shape.microbatches / info->directions,
                   held[stage]);
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

std::shared_ptr<const Schedule> InFlight::order_of(const Scenario& scenario) {
    constexpr std::int64_t most_steps = 1 << 20;
    const Strategy& s = scenario.strategy;
    const std::tuple key{s.schedule, s.pipeline_parallel, s.virtual_pipeline, s.microbatch_group_size, scenario.microbatches()};
    if (2 * scenario.microbatches() * s.pipeline_parallel * s.virtual_pipeline > most_steps) return nullptr;
    const std::lock_guard lock(ordering_);
    if (const auto it = orders_.find(key); it != orders_.end()) return it->second;
    std::shared_ptr<Schedule> order;
    ScheduleShape shape = shape_of(s);
    shape.microbatches = scenario.microbatches();
    if (const ScheduleInfo* info = find_schedule(s.schedule); info && info->check(shape).empty())
        order = std::make_shared<Schedule>(info->make(shape));
    if (orders_.size() >= 64) orders_.clear(); // those of thousands of microbatches are large
    return orders_.emplace(key, order).first->second;
}

} // namespace orrery
