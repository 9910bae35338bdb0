// The folded problem the event loop runs: a plan with its costs, as flat arrays. compile() makes it; tests may fill the costs by
// hand. Ranks that behave alike are one lane, communicator instances and links alike are one class (fold.hpp).
#pragma once

#include "sim/cost/cost.hpp"
#include "sim/engine/simulate.hpp"
#include "sim/plan/plan.hpp"
#include "topology/runs.hpp"

#include <algorithm>
#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <vector>

namespace orrery {

// The questions compile() asks a cost model. costs_of() wraps the real one; a test gives a few lambdas.
struct Costs {
    std::function<ComputeCost(const Op&)> compute;
    std::vector<std::function<ComputeCost(const Op&)>> compute_of_kind = {}; // of nodes unlike the first kind: 1, 2 ..
    std::function<CommCost(const Collective&, std::span<const int>)> collective;
    std::function<std::vector<LinkLoad>(const Collective&, const CommCost&, std::span<const int>)> loads;
    std::function<CommCost(Bytes, int from, int to)> transfer;
    std::function<std::vector<LinkLoad>(int from, int to)> transfer_loads;
    // Optional: a copy between a device and its host as a bundle, which shares the links it loads with collectives and transfers. Without
    // it a copy takes the time of compute().
    std::function<CommCost(const Op&, int rank)> copy = {};
    std::function<std::vector<LinkLoad>(const Op&, int rank)> copy_loads = {};
    // Optional. Ranks of one shape (a communicator's, or a transfer's two ends) cost the same: only one of them is asked for.
    std::function<std::uint64_t(std::span<const int>)> shape;
    // Optional. Ranks that lie as those before them did cost the same, and load the same links, moved (Fabric::find_moves).
    std::function<bool(std::span<const int> before, std::span<const int> now, LinkMoves&)> moves = {};
    // Optional: the group of constants that their communication rests on; without it links_inside.
    std::function<CostGroup(std::span<const int> ranks)> group = {};
    Interference interference;
    Time launch;                                           // host time of one kernel launch
    std::function<Time(const Op&, int kernels)> host = {}; // optional: of all an op's launches and of the call that makes them
    // Optional, by layer: ops alike (AlikeOps) but for layers of one number take as long, on their devices and their hosts. Layers beyond
    // the list, and ops of none, have number 0, which is theirs alone where layers differ at all. Without it each op is asked for.
    std::optional<std::vector<std::int32_t>> layers = {};
};

// The links, and what the scenario's perturbations made of them and of the ranks.
struct Wires {
    Runs<double> capacity;               // by LinkId, bytes per second
    std::vector<double> slowness;        // by rank: factor on compute times; empty: 1 for all
    std::vector<std::int16_t> kind = {}; // by rank: of its node; empty: all are alike
    double jitter = 0;                   // sigma of the logarithm of each compute op's duration
    std::uint64_t seed = 0;
    std::function<CostGroup(LinkId)> group = {}; // optional: of constants that a link's capacity rests on; without it links_inside
};

enum class OpClass : std::uint8_t { timed, copy, collective, exchange, shadow, sync };

// One issue slot of a segment. An exchange takes a slot for each queue it occupies: itself, then shadows.
struct CompiledOp {
    std::int64_t duration = 0;   // timed: ps, alone on an unperturbed device
    std::int64_t host = 0;       // ps of the host to launch it
    std::int32_t deps_begin = 0; // in Machine::deps
    std::int32_t deps_count = 0;
    OpClass kind = OpClass::timed;
    std::uint8_t queue = 0;     // local queue of the program; 0 is compute
    std::uint8_t category = 0;  // of the time it takes, where it is waited for or runs
    std::uint8_t slots = 1;     // exchange: queues it occupies
    std::int16_t transfers = 0; // exchange
    std::int32_t pattern =
        -1; // collective, copy: index among its communicator's patterns; exchange: first transfer; shadow: distance to its exchange
    std::int32_t source = -1; // index in the plan's block
    bool operator==(const CompiledOp&) const = default;
};

struct CompiledTransfer {
    std::uint8_t queue;
    bool send;
    std::int32_t pattern;
    bool operator==(const CompiledTransfer&) const = default;
};

// A run of ops of a block as actions execute it, dependencies inside it only.
struct Segment {
    std::int32_t begin = 0, end = 0, block = 0;
    bool operator==(const Segment&) const = default;
};

struct CompiledDep {
    std::int32_t position, distance;
    bool operator==(const CompiledDep&) const = default;
}; // slot in the segment; how many issue slots back

struct CompiledAction {
    std::int32_t segment = 0;
    std::int32_t deps_begin = 0, deps_end = 0; // in Machine::action_deps, by position
    std::int32_t signature = 0;                // equal for actions that cannot be told apart by time
    bool operator==(const CompiledAction&) const = default;
};

struct CompiledProgram {
    std::int16_t stage = 0;
    std::vector<CompiledAction> actions;
    std::vector<QueueId> queues; // local queue -> queue of the plan; [0] is compute
    std::int64_t step_slots = 0; // issue slots of a step
    std::int64_t step_ops = 0;
    double flops = 0;
    bool operator==(const CompiledProgram&) const = default;
};

// A bundle class: an instance of a communicator, or (channel) the link from a member of it to the next, for transfers; or what a rank's
// queue of copies does, as a communicator of one.
struct BundleMember {
    std::int32_t lane;
    std::int16_t queue;
    bool operator==(const BundleMember&) const = default;
};
struct BundleClass {
    CommId comm = 0;
    bool channel = false; // members: sender, receiver
    std::int32_t twins = 1;
    std::int32_t members_begin = 0, members_end = 0;
    std::int32_t costs = 0; // first of its communicator's patterns in Machine::bundle_costs
    bool operator==(const BundleClass&) const = default;
};

struct LinkWeight {
    std::int32_t link;
    double weight, taken;
    bool operator==(const LinkWeight&) const = default;
}; // link class; bytes on one of its links per payload byte, twins summed, and what these leave others less (LinkLoad)

struct BundleCost {
    std::int64_t latency = 0;
    double payload = 0;
    double cap = 0;                                // of its protocol, and of its links for one instance: what interference slows
    double limit = 0;                              // what its links leave for each of its twins
    std::int32_t uses_begin = 0, uses_end = 0;     // in Machine::uses: every link class it loads
    std::int32_t shared_begin = 0, shared_end = 0; // in Machine::shared: those that others can saturate with it
    double slows = 0;                              // computation of its members, while it moves data: by this share
    std::uint8_t kind = 0;                         // members must agree: collective kind, 254 for a copy, or 255 for a transfer
    bool operator==(const BundleCost&) const = default;
};
inline constexpr std::uint8_t copy_kind = 254, transfer_kind = 255;

// Of one BundleCost, what its cap is the least of: the rate of its protocol, and what its own links leave one instance, by their group.
struct OwnLimits {
    CostGroup group = CostGroup::links_inside; // that latency and protocol rest on
    double protocol = 0;
    ByEnum<CostGroup, double, cost_group_count> links{};
    bool operator==(const OwnLimits&) const = default;

    double least() const { return std::min(protocol, *std::min_element(links.begin(), links.end())); }
};

struct MachineLane {
    std::int32_t rank = 0, ranks = 1, program = 0;
    std::int16_t kind = 0; // of its node
    double slowness = 1;
    std::int32_t queues = 0; // first of its queues among all lanes'
};

struct LaneComm {
    std::int32_t collective = -1, send = -1, receive = -1;
    bool operator==(const LaneComm&) const = default;
}; // bundle classes of one lane's communicator queue

struct MachineLink {
    LinkId link = 0;
    std::int32_t twins = 1;
    double capacity = 0;
    CostGroup group = CostGroup::links_inside; // of the first of the class
};

struct Machine {
    const Plan* plan = nullptr;
    Interference interference;
    double jitter = 0;
    std::uint64_t seed = 0;
    // How many slots the host runs ahead, an exchange's extra slots left free: CUDA's launch queue of 1024, which each stream has for
    // itself, so that a waiting transfer does not stop launches elsewhere; more where an action is long (compile.cpp).
    std::int64_t window = 1008;

    std::vector<CompiledOp> ops;
    std::vector<std::vector<std::int64_t>> durations_of_kind; // of ops on nodes of kind 1, 2 ..
    std::vector<std::int32_t> deps;                           // distances back in issue order
    std::vector<CompiledDep> action_deps;
    std::vector<CompiledTransfer> transfers;
    std::vector<Segment> segments;
    std::vector<CompiledProgram> programs;

    std::vector<MachineLane> lanes;
    std::vector<LaneComm> lane_comms; // by lane queue
    std::vector<std::int32_t> lane_of_rank;
    std::vector<BundleClass> bundles;
    std::vector<BundleMember> members;
    std::vector<BundleCost> bundle_costs;
    std::vector<OwnLimits> own_limits; // by bundle cost
    std::vector<LinkWeight> uses, shared;
    std::vector<double> shared_capacity; // of the link classes Machine::shared names
    std::vector<MachineLink> links;
    std::vector<std::int32_t> link_class; // by link of the fabric; -1: it carries nothing

    std::int32_t queue_count() const {
        return lanes.empty() ? 0 : lanes.back().queues + static_cast<std::int32_t>(programs[lanes.back().program].queues.size());
    }
};

struct CompileOptions {
    bool fold = true;
    bool launch_blocking = false;
    StopFlag stop = nullptr;
};

Machine compile(const Plan& plan, const Costs& costs, const Wires& wires, const CompileOptions& options = {});
Costs costs_of(const CostModel& cost, const Plan& plan, const Scenario& scenario, const Fabric& fabric);
Wires wires_of(const Scenario& scenario, const Fabric& fabric);
// All durations that rest on a group of constants take `by` times as long: kernels, latencies, rates of protocols and capacities of links.
void slow_down(Costs& costs, Wires& wires, const CostFactors& by, const Fabric& fabric);
// Kernels that move bytes take `memory` times as long: what is not counted beside them (with_uncounted() of sim/cost/own_constants.hpp).
void add_uncounted(Costs& costs, double memory);

// The groups that communication between ranks, and a link's capacity, rest on.
CostGroup group_of_ranks(const Fabric& fabric, std::span<const int> ranks);
CostGroup group_of_link(const Fabric& fabric, LinkId link);
// The machine that compile() would make after slow_down(), without asking any cost again (retime.cpp).
Machine retimed(Machine machine, const CostFactors& by);
// Whether some duration of it rests on the group.
bool rests_on(const Machine& machine, CostGroup group);
// The costs of a bundle class end here.
std::int32_t costs_end(const Machine& machine, const BundleClass& bundle);

// Bytes that cross each link in a step; completions: how often each bundle cost moved its payload.
std::vector<LinkUse> link_uses(const Machine& machine, const std::vector<std::int64_t>& completions);

// Runs it (simulate() is compile, then this).
Simulation run(const Machine& machine, const SimulateOptions& options);

} // namespace orrery
