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
    std::vector<Fill> fills;  // of storage this op is the first to touch
    CommCalls calls;          // of a communication whose sizes the plan knows
    std::int64_t staging = 0; // bytes that it copies through, at most
    bool counted = false;     // rows of experts: sizes are known when the op is issued
    std::int64_t kept = -1;   // of an op whose result the host wants (losses, a router's counts): where, in the host's copies
    std::size_t result = 0;   // and which of its results that is
};

// Shared by the ranks of one stage.
struct StagePlan {
    QueueOrder queues;
    MemoryLayout layout;
};
StagePlan stage_plan(const World& world, Rank& rank);

// Where a rank's memory is, as the device has it. staging: of each queue, for what a collective copies through beyond what is planned for
// it.
struct RankPlaces {
    std::byte* base[memories] = {};
    std::vector<std::byte*> staging;
};
// Where the collective of an issue copies through, if it needs `bytes` for that.
std::byte* staging_at(const StagePlan& stage, const RankPlaces& places, std::size_t issue, std::int64_t bytes);

struct RankProgram {
    std::vector<Command> commands; // by issue
    std::int64_t kept = 0;         // bytes of all that the host wants
};
std::int64_t bytes_of(const World& world, const Operand& o); // as they are stored
RankProgram rank_program(const World& world, Rank& rank, const StagePlan& stage, const RankPlaces& places);

// Bytes that each queue needs for that beside the layout: of ranks whose collectives find less in one run than those of the rank that the
// stage was planned for.
std::vector<std::int64_t> staging_beside(const World& world, Rank& rank, const StagePlan& stage);

// The side of a collective or an exchange, with the addresses of `command`. No block is held: memory is planned.
Attendance side_of(Rank& rank, const Issue& issue, const Command& command);

} // namespace orrery
