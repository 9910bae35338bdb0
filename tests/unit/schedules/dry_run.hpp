// A clock for schedules, written from the rules of pipelines alone and sharing nothing with the code that makes schedules: each rank
// runs its steps in order, a forward after the chunk before, a backward after the chunk behind, a weight step after its input step.
// Joined steps begin together, when both can, and last as long as both: overlap saves waiting for links, which are free here.
#pragma once

#include "sim/schedules/schedule.hpp"

#include <algorithm>
#include <stdexcept>
#include <string>
#include <vector>

namespace orrery::test {

struct StepTimes {
    double forward = 1, input = 1, weight = 1, communication = 0; // a whole backward is input + weight
    double of(StepKind kind) const {
        switch (kind) {
        case StepKind::forward:
            return forward;
        case StepKind::input:
            return input;
        case StepKind::weight:
            return weight;
        case StepKind::backward:
            return input + weight;
        }
        return 0;
    }
};

struct DryRun {
    bool finished = false;
    double makespan = 0;
    std::vector<double> first, last, busy; // per rank, of the last repetition
    std::vector<double> ends;              // end of each repetition
};

// Runs the schedule `repetitions` times, one straight behind the other, with no barrier between.
inline DryRun dry_run(const Schedule& schedule, int (*stage_of)(int, int), int chunks, std::int64_t microbatches, const StepTimes& times,
                      int repetitions = 1, int directions = 1) {
    const int length = chunks / directions;
    const int stages = static_cast<int>(schedule.ranks.size());
    const std::size_t cells = static_cast<std::size_t>(chunks * microbatches * repetitions);
    std::vector<double> forward(cells, -1), input(cells, -1);
    std::vector<std::size_t> at(stages, 0), round(stages, 0);
    std::vector<double> now(stages, 0);
    DryRun run;
    run.first.assign(stages, -1);
    run.last.assign(stages, 0);
    run.busy.assign(stages, 0);
    run.ends.assign(repetitions, 0);
    const auto cell = [&](int chunk, std::int64_t microbatch, std::size_t turn) {
        return (turn * microbatches + microbatch) * chunks + chunk;
    };
    const auto arrival = [&](const std::vector<double>& done, int from, int to, std::int64_t microbatch, std::size_t turn) {
        const double end = done[cell(from, microbatch, turn)];
        return end < 0 ? -1 : end + (stage_of(from, stages) == stage_of(to, stages) ? 0 : times.communication);
    };
    const auto ready = [&](const ScheduleStep& step, std::size_t turn) -> double { // -1: not yet known
        const int c = step.chunk;
        if (step.kind == StepKind::forward) return c % length == 0 ? 0 : arrival(forward, c - 1, c, step.microbatch, turn);
        if (step.kind == StepKind::weight) return input[cell(c, step.microbatch, turn)];
        const double own = forward[cell(c, step.microbatch, turn)];
        const double behind = c % length == length - 1 ? own : arrival(input, c + 1, c, step.microbatch, turn);
        return own < 0 || behind < 0 ? -1 : std::max(own, behind);
    };
    bool moved = true;
    while (moved) {
        moved = false;
        for (int rank = 0; rank < stages; ++rank) {
            const auto& steps = schedule.ranks[rank];
            while (round[rank] < std::size_t(repetitions)) {
                const std::size_t count = steps[at[rank]].joined ? 2 : 1;
                double since = 0, length_of_all = 0;
                for (std::size_t i = at[rank]; i < at[rank] + count; ++i) {
                    const double one = ready(steps[i], round[rank]);
                    since = one < 0 || since < 0 ? -1 : std::max(since, one);
                    length_of_all += times.of(steps[i].kind);
                }
                if (since < 0) break;
                const double start = std::max(now[rank], since);
                now[rank] = start + length_of_all;
                for (std::size_t i = at[rank]; i < at[rank] + count; ++i) {
                    const std::size_t where = cell(steps[i].chunk, steps[i].microbatch, round[rank]);
                    if (steps[i].kind == StepKind::forward)
                        forward[where] = now[rank];
                    else if (steps[i].kind != StepKind::weight)
                        input[where] = now[rank];
                }
                if (round[rank] + 1 == std::size_t(repetitions)) {
                    if (run.first[rank] < 0) run.first[rank] = start;
                    run.last[rank] = now[rank];
                    run.busy[rank] += length_of_all;
                }
                run.ends[round[rank]] = std::max(run.ends[round[rank]], now[rank]);
                if ((at[rank] += count) == steps.size()) {
                    at[rank] = 0;
                    ++round[rank];
                }
                moved = true;
            }
        }
    }
    run.finished = std::all_of(round.begin(), round.end(), [&](std::size_t r) { return r == std::size_t(repetitions); });
    run.makespan = *std::max_element(run.last.begin(), run.last.end());
    return run;
}

// Length of a step where steps follow each other with no barrier: measured, late in a chain of repetitions.
inline double steady_period(const Schedule& schedule, int (*stage_of)(int, int), int chunks, std::int64_t microbatches,
                            const StepTimes& times, int directions = 1) {
    const DryRun run = dry_run(schedule, stage_of, chunks, microbatches, times, 6, directions);
    return (run.ends[5] - run.ends[2]) / 3;
}

// Most (chunk, microbatch) activations held at once on a rank: from forward to the end of backward, or of the weight step.
inline int peak_in_flight(const std::vector<ScheduleStep>& steps) {
    int held = 0, peak = 0;
    for (const ScheduleStep& step : steps) {
        if (step.kind == StepKind::forward) peak = std::max(peak, ++held);
        if (step.kind == StepKind::backward || step.kind == StepKind::weight) --held;
    }
    return peak;
}

inline const ScheduleInfo& schedule_named(const char* name) {
    const ScheduleInfo* info = find_schedule(name);
    if (!info) throw std::runtime_error(std::string("no schedule ") + name);
    return *info;
}

// A grid of shapes each schedule is tried on; those it refuses are left out by the caller, through check().
inline std::vector<ScheduleShape> shapes() {
    std::vector<ScheduleShape> all;
    for (int p : {1, 2, 3, 4, 5, 6, 8})
        for (int v : {1, 2, 3, 4})
            for (std::int64_t m : {1, 2, 3, 4, 5, 7, 8, 12, 16, 24, 40})
                all.push_back({.stages = p, .chunks_per_stage = v, .microbatches = m});
    for (int p : {2, 3, 4}) // groups of other than p microbatches, with and without a rest, where a schedule has them
        for (std::int64_t m : {5, 8, 12, 16})
            for (std::int64_t group : {3, 5, 6, 8}) all.push_back({.stages = p, .chunks_per_stage = 2, .microbatches = m, .group = group});
    return all;
}

} // namespace orrery::test
