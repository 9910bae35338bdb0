// A rank's step as an asynchronous device gets it, made once: every op with the addresses it will have, the calls of its communication,
// what must be filled before it.
#pragma once

#include "exec/queues/layout.hpp"
#include "exec/queues/transfers.hpp"

#include <vector>

namespace orrery {

struct Fill {
    std::byte* to;
    std::int64_t bytes;
    int byte;
};

struct Command {
    std::vector<Operand> in, out;
    std::vector<Fill> fills; // of storage this op is the first to touch
    CommCalls calls;         // of a communication whose sizes the plan knows
    bool counted = false;    // rows of experts: sizes are known when the op is issued
    std::int64_t kept = -1;  // of an op whose result the host wants (losses, a router's counts): where, in the host's copies
    std::size_t result = 0;  // and which of its results that is
};

// Shared by the ranks of one stage.
struct StagePlan {
    QueueOrder queues;
    MemoryLayout layout;
};
StagePlan stage_plan(const World& world, const Rank& rank);

// Where a rank's memory is, as the device has it. staging: of each queue, for copies.
struct RankPlaces {
    std::byte* base[memories] = {};
    std::vector<std::byte*> staging;
};

struct RankProgram {
    std::vector<Command> commands; // by issue
    std::int64_t kept = 0;         // bytes of all that the host wants
};
std::int64_t bytes_of(const World& world, const Operand& o); // as they are stored
RankProgram rank_program(const World& world, Rank& rank, const StagePlan& stage, const RankPlaces& places);

// Bytes of staging each queue needs at most.
std::vector<std::int64_t> staging_needed(const World& world, Rank& rank, const StagePlan& stage);

// The side of a collective or an exchange, with the addresses of `command`. No block is held: memory is planned.
Attendance side_of(Rank& rank, const Issue& issue, const Command& command);

} // namespace orrery
