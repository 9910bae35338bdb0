// Inside of compile(): what its two halves share. Programs first (blocks to flat segments, and what each communicator is asked
// to do), then bundles (instances, their costs and loads, folding, lanes).
#pragma once

#include "sim/engine/machine.hpp"
#include "topology/at.hpp"

#include <cstddef>
#include <string>
#include <vector>

namespace orrery {

// One thing a communicator is asked to do, whoever asks.
struct CommPattern {
    bool transfer = false;
    Collective collective{};
    Bytes bytes;
    const Op* copy = nullptr;
    bool by_engines = false; // copy engines move its bytes
};

// The copies that each rank makes on its queues to the host and back are two communicators more, of a rank each, behind the plan's own.
inline CommId copies_on(const Plan& plan, QueueId q) { return static_cast<CommId>(plan.communicators.size()) + q - d2h_queue; }
inline bool is_of_copies(const Plan& plan, CommId c) { return static_cast<std::size_t>(c) >= plan.communicators.size(); }
inline QueueId queue_served(const Plan& plan, CommId c) {
    return is_of_copies(plan, c) ? static_cast<QueueId>(c - copies_on(plan, d2h_queue) + d2h_queue) : queue_of(c);
}
inline std::string name_of(const Plan& plan, CommId c) {
    return is_of_copies(plan, c) ? "copies to the host and back" : "communicator " + plan.communicators[c].name;
}

struct CommUse {
    std::vector<CommPattern> patterns;
    std::vector<char> collects, sends, receives; // by stage: does its program do so on this communicator
};

struct Compilation {
    const Plan& plan;
    const Costs& costs;
    Machine machine;
    std::vector<CommUse> comms;
};

// Slots that a host issues ahead of the oldest that has not ended: at least as far as anything waits for a transfer.
std::int64_t window_of(const Plan& plan);
void compile_programs(Compilation& c, bool launch_blocking);
// By op of the machine: the number of those like it, and its layer. Alike are ops of the same work on operands of the same shapes and
// kinds: all that a price may rest on but the layer and what an op and its operands are called.
struct AlikeOps {
    struct Of {
        std::int32_t number;
        std::int16_t layer;
    };
    std::vector<Of> of;
    std::int32_t count = 0; // of numbers
};
AlikeOps alike_ops(const Plan& plan, const Machine& machine);
// Durations and host times of the same programs by other costs: of ops alike in layers alike (Costs::layers) one is asked for. Returns
// whether any differs from what it was.
bool price_programs(Compilation& c, const AlikeOps& alike);
// The machine as far as no program says: the plan, what costs and wires say of all ops.
void begin_machine(Compilation& c, const Wires& wires);
void compile_bundles(Compilation& c, const Wires& wires, bool fold_ranks);
// Cap and limit of a bundle's cost, whose uses are known.
void set_limits(const Machine& machine, BundleCost& cost, const OwnLimits& own);
// A link that all bundles together cannot fill never slows one: only the others are shared.
void find_shared(Machine& machine);

// Copy engines make it, piece by piece beside the products that read it.
bool gathers_in_pieces(const Op& op);

// Category of a communication by its communicator's axes and what it is for.
Category communication_category(AxisMask axes, Phase phase);

// Our bug: prints and aborts.
[[noreturn]] void engine_bug(const char* what, std::int64_t a, std::int64_t b);

} // namespace orrery
