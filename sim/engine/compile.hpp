// Inside of compile(): what its two halves share. Programs first (blocks to flat segments, and what each communicator is asked
// to do), then bundles (instances, their costs and loads, folding, lanes).
#pragma once

#include "sim/engine/machine.hpp"

#include <cstddef>
#include <vector>

namespace orrery {

inline std::size_t at(std::int64_t i) { return static_cast<std::size_t>(i); }

// One thing a communicator is asked to do, whoever asks.
struct CommPattern {
    bool transfer = false;
    Collective collective{};
    Bytes bytes;
};

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
void compile_bundles(Compilation& c, const Wires& wires, bool fold_ranks);

// Category of a communication by its communicator's axes and what it is for.
Category communication_category(AxisMask axes, Phase phase);

// Our bug: prints and aborts.
[[noreturn]] void engine_bug(const char* what, std::int64_t a, std::int64_t b);

} // namespace orrery
