// The simulator: runs a plan against a cost model, event by event, ranks folded into classes (fold.hpp), links shared max-min
// fairly (sharing.hpp).
#pragma once

#include "sim/cost/cost.hpp"
#include "sim/plan/deadlock.hpp"
#include "sim/plan/plan.hpp"
#include "sim/plan/stop.hpp"
#include "sim/trace/trace.hpp"
#include "topology/indexed.hpp"

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace orrery {

// One category at each instant of a rank: the compute it runs, else the transfer its next op waits for, else the root cause of its wait.
enum class Category : std::uint8_t {
    compute,
    recompute,
    exposed_tp,
    exposed_cp,
    exposed_ep,
    exposed_pp,
    exposed_dp,
    optimizer,
    offload,
    bubble,
    straggler_wait, // for a rank of the same stage: a slower device, or one with more to do
    other
};
inline constexpr int category_count = 12;
const char* name(Category c);

struct LaneResult {
    std::int32_t rank = 0, ranks = 1; // the rank simulated, and how many it stands for
    std::int16_t stage = 0;
    ByEnum<Category, Time, category_count> breakdown{}; // of one steady step; adds up to the step time
    Time compute_busy;
    Time host_wait;            // of Category::other: the device is idle, and only its host keeps it from going on
    double hardware_flops = 0; // executed in a step, recompute included
};

struct LinkUse {
    LinkId link;
    std::int32_t twins = 1;
    double bytes = 0;
    double capacity = 0;
}; // bytes in a step on one link; twins: links alike

struct RunMemo;
struct SimulateOptions {
    bool fold = true;                 // off: every rank its own lane
    bool replay = true;               // off: every op of every microbatch is an event
    bool sharing = true;              // off: every collective and transfer has the links to itself (what is contention and what is not?)
    bool trace = false;               // record spans of the last step
    bool only_small_traces = false;   // of a step too large to be recorded, no trace instead of an error
    int max_steps = 4;                // simulated until the state at a step's end repeats
    CostFactors factors = no_factors; // on durations, by group of constants: what if attention took 5 % longer
    StopFlag stop = nullptr;          // set: simulate() throws Stopped within milliseconds
    RunMemo* memo = nullptr;          // of runs of the same plan (memo.hpp)
    std::uint64_t slower_up_to = 0;   // events: of a simulation of fewer Simulation::slower too, which simulates it up to 7 times more
};

struct SimulationStats {
    std::uint64_t events = 0;
    std::uint64_t replayed_ops = 0;
    int steps = 0;
    int lanes = 0;
};

inline constexpr double slower_by = 1.05;
struct Simulation {
    Time step_time; // steady-state period
    // The period were all durations of one group `slower_by` times as long; 0: none rests on the group, or it was not asked for.
    ByEnum<CostGroup, Time, cost_group_count> slower{};
    std::vector<LaneResult> lanes;
    std::vector<std::int32_t> lane_of_rank; // by rank of the plan, the one of `lanes` (and of the trace's) that stands for it
    std::vector<LinkUse> links;
    std::vector<std::int32_t> link_class; // by link of the fabric, the one of `links` that stands for it; -1: it carries nothing
    std::optional<Deadlock> deadlock;
    SimulationStats stats;
    std::optional<Trace> trace;
};

// Throws std::runtime_error where a perturbation names a link the cluster does not have, InputError where a step is longer than the clock
// (clock.hpp) or a trace larger than what is recorded.
Simulation simulate(const Plan& plan, const Scenario& scenario, const Fabric& fabric, const CostModel& cost,
                    const SimulateOptions& options = {});

} // namespace orrery
