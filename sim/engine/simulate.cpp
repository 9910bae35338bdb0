// simulate(): compile, then step after step until the state at a step's end repeats.
#include "sim/engine/simulate.hpp"

#include "sim/cost/own_constants.hpp"
#include "sim/engine/course.hpp"
#include "sim/engine/deciding.hpp"
#include "sim/engine/machine.hpp"
#include "sim/engine/memo.hpp"
#include "sim/engine/record.hpp"
#include "sim/engine/replay.hpp"
#include "sim/plan/rounds.hpp"
#include "topology/input_error.hpp"

#include <fmt/format.h>

#include <algorithm>

namespace orrery {

const char* name(Category c) {
    switch (c) {
    case Category::compute:
        return "compute";
    case Category::recompute:
        return "recompute";
    case Category::exposed_tp:
        return "exposed_tp";
    case Category::exposed_cp:
        return "exposed_cp";
    case Category::exposed_ep:
        return "exposed_ep";
    case Category::exposed_pp:
        return "exposed_pp";
    case Category::exposed_dp:
        return "exposed_dp";
    case Category::optimizer:
        return "optimizer";
    case Category::offload:
        return "offload";
    case Category::bubble:
        return "bubble";
    case Category::straggler_wait:
        return "straggler_wait";
    case Category::other:
        return "other";
    }
    return "";
}

namespace {

LaneResult lane_result(const EventLoop& run, std::size_t l, const Waypoint& before, const Waypoint& after) {
    LaneResult r;
    const MachineLane& lane = run.m.lanes[l];
    r.rank = lane.rank;
    r.ranks = lane.ranks;
    r.stage = run.program(static_cast<std::int64_t>(l)).stage;
    r.hardware_flops = run.program(static_cast<std::int64_t>(l)).flops;
    auto spent = [&](int k) { return after.accounts[l][at(k)] - (before.accounts.empty() ? 0 : before.accounts[l][at(k)]); };
    for (int k = 0; k < category_count; ++k) r.breakdown[at(k)] = {spent(k)};
    r.host_wait = r.breakdown[at(static_cast<int>(Category::other))];
    r.breakdown[at(static_cast<int>(Category::other))].ps += spent(busy_other);
    for (Category c : {Category::compute, Category::recompute, Category::optimizer}) r.compute_busy += r.breakdown[at(static_cast<int>(c))];
    r.compute_busy.ps += spent(busy_other);
    return r;
}

std::vector<std::int64_t> completions_between(const Waypoint& before, const Waypoint& after) {
    std::vector<std::int64_t> times = after.completions;
    for (std::size_t c = 0; c < before.completions.size(); ++c) times[c] -= before.completions[c];
    return times;
}

// About 200 bytes a slot while it is recorded: spans of two steps, waits and flows between them, and the copy that is given out.
constexpr std::int64_t most_slots = 12'000'000;
std::int64_t slots_of(const Machine& machine) {
    std::int64_t slots = 0;
    for (const MachineLane& l : machine.lanes) slots += machine.programs[at(l.program)].step_slots;
    return slots;
}
void check_trace(const Machine& machine) {
    if (const std::int64_t slots = slots_of(machine); slots > most_slots)
        throw InputError(
            fmt::format("a trace of this step would hold {} ops, at most {} are recorded: lower training.global_batch_size for it, "
                        "or simulate without a trace (leave --trace out)",
                        slots, most_slots));
}

// Ranks alike are one lane; where they are not, each has a window of ops of its own.
void check_lanes(const Machine& machine) {
    constexpr double most_bytes = 3e9;
    const double lanes = static_cast<double>(machine.lanes.size()),
                 bytes = lanes * static_cast<double>(slots_of_lane(machine)) * sizeof(Slot);
    if (bytes > most_bytes)
        throw InputError(
            fmt::format("{:.0f} ranks are unlike others and simulated one by one, which would take about {:.1f} GB, more than the "
                        "{:.0f} GB allowed: lower cluster.nodes or strategy.context_parallel, or leave out what makes ranks "
                        "unlike (perturb, --no-fold)",
                        lanes, bytes * 1e-9, most_bytes * 1e-9));
}

// A round of several training steps, per step. Categories keep adding up to the step: what each adds to their sum is rounded down.
void divide(Simulation& s, std::int64_t steps) {
    if (steps == 1) return;
    s.step_time.ps /= steps;
    for (LaneResult& lane : s.lanes) {
        std::int64_t sum = 0;
        for (Time& t : lane.breakdown) {
            const std::int64_t before = sum / steps;
            sum += t.ps;
            t.ps = sum / steps - before;
        }
        lane.compute_busy.ps /= steps;
        lane.host_wait.ps /= steps;
        lane.hardware_flops /= static_cast<double>(steps);
    }
}

} // namespace

std::vector<LinkUse> link_uses(const Machine& m, const std::vector<std::int64_t>& completions) {
    std::vector<LinkUse> links;
    for (const MachineLink& l : m.links) links.push_back({l.link, l.twins, 0, l.capacity});
    for (std::size_t c = 0; c < m.bundle_costs.size(); ++c) {
        const BundleCost& cost = m.bundle_costs[c];
        for (std::int32_t u = cost.uses_begin; u < cost.uses_end; ++u)
            links[at(m.uses[at(u)].link)].bytes += static_cast<double>(completions[c]) * cost.payload * m.uses[at(u)].weight;
    }
    if (m.plan && m.plan->steps != 1)
        for (LinkUse& l : links) l.bytes /= static_cast<double>(m.plan->steps);
    return links;
}

namespace {

// All but which lane and which class each rank and each link is. completions: of the step, by bundle cost, where asked for.
Simulation run_lanes(const Machine& machine, const SimulateOptions& options, std::vector<std::int64_t>* completions = nullptr) {
    if (options.trace && options.only_small_traces && slots_of(machine) > most_slots) {
        SimulateOptions without = options;
        without.trace = false;
        return run_lanes(machine, without, completions);
    }
    if (options.trace) check_trace(machine);
    check_lanes(machine);
    Simulation out;
    EventLoop r(machine, options);
    Recorder recorder(machine);
    Replay replay;
    if (options.trace) r.recorder = &recorder;
    Course course;
    const bool meet = options.replay && !options.trace, skip = meet && machine.jitter == 0;
    Waypoint before, after;
    int steps = 0;
    while (steps < std::max(1, options.max_steps)) {
        ++steps;
        replay = {};
        begin_step(course, steps);
        if (!r.run_steps(steps, skip ? &replay : nullptr, meet ? &course : nullptr, false)) {
            out.deadlock = deadlock(r);
            break;
        }
        before = std::move(after);
        after = course.met ? end_of(course, before, r) : waypoint(r, steps);
        if (after.state == before.state) break;
    }
    if (!out.deadlock) {
        out.step_time = {after.time - before.time};
        for (std::size_t l = 0; l < r.lanes.size(); ++l) out.lanes.push_back(lane_result(r, l, before, after));
        std::vector<std::int64_t> times = completions_between(before, after);
        out.links = link_uses(machine, times);
        if (completions) *completions = std::move(times);
        const Time period = out.step_time;
        if (machine.plan) divide(out, machine.plan->steps);
        if (options.trace && r.run_steps(steps, nullptr, nullptr, true)) {
            out.trace = trace_of(recorder, r, steps);
            out.trace->period = period;
            if (machine.plan) out.trace->steps = static_cast<std::int32_t>(machine.plan->steps);
        }
    }
    out.stats = r.stats;
    out.stats.steps = steps;
    return out;
}

} // namespace

namespace {

// With the step of each group's slower durations, where asked for.
Simulation run_all(const Machine& machine, const SimulateOptions& options, std::vector<std::int64_t>* completions = nullptr) {
    Simulation out = run_lanes(machine, options, completions);
    if (out.deadlock || out.stats.events + out.stats.replayed_ops >= options.slower_up_to) return out;
    SimulateOptions again = options;
    again.trace = false;
    for (std::size_t g = 0; g < out.slower.size(); ++g) {
        if (!rests_on(machine, static_cast<CostGroup>(g))) continue;
        CostFactors by = no_factors;
        by[g] = slower_by;
        out.slower[g] = run_lanes(retimed(machine, by), again).step_time;
    }
    return out;
}

} // namespace

Simulation run(const Machine& machine, const SimulateOptions& options) {
    Simulation out = run_all(machine, options);
    out.lane_of_rank = machine.lane_of_rank;
    out.link_class = machine.link_class;
    return out;
}

Simulation simulate(const Plan& plan, const Scenario& scenario, const Fabric& fabric, const CostModel& cost,
                    const SimulateOptions& options) {
    if (has_rounds(plan)) return simulate(unrolled(plan), scenario, fabric, cost, options);
    Costs costs = costs_of(cost, plan, scenario, fabric);
    Wires wires = wires_of(scenario, fabric);
    add_uncounted(costs, uncounted_of(scenario)[CostGroup::memory]);
    CostFactors factors = options.factors;
    if (const LearnedConstants* learned = learned_for(scenario))
        for (std::size_t g = 0; g < factors.size(); ++g) factors[g] *= learned->factors()[g];
    slow_down(costs, wires, factors, fabric);
    if (!options.sharing) {
        costs.loads = [](const Collective&, const CommCost&, std::span<const int>) { return std::vector<LinkLoad>{}; };
        costs.transfer_loads = [](int, int) { return std::vector<LinkLoad>{}; };
        costs.copy_loads = [](const Op&, int) { return std::vector<LinkLoad>{}; };
    }
    const CompileOptions compiling{options.fold, scenario.runtime.launch_blocking, options.stop};
    Machine machine = options.memo ? options.memo->compile(plan, costs, wires, compiling) : compile(plan, costs, wires, compiling);
    keep_deciding_links(machine);
    if (options.memo)
        if (std::optional<Simulation> known = options.memo->known(machine, options)) return std::move(*known);
    std::vector<std::int32_t> lane_of_rank = std::move(machine.lane_of_rank), link_class = std::move(machine.link_class);
    std::vector<std::int64_t> completions;
    Simulation out = run_all(machine, options, &completions);
    if (options.memo) options.memo->keep(std::move(machine), out, std::move(completions), options);
    out.lane_of_rank = std::move(lane_of_rank);
    out.link_class = std::move(link_class);
    if (out.trace) {
        out.trace->plan_hash = hash(plan);
        for (LinkSeries& l : out.trace->links) l.name = fabric.link_name(l.link);
    }
    return out;
}

} // namespace orrery
