// The order of the transfers between pipeline stages and the steps of a schedule, for the exchange pass. With it every step finds its
// input on its rank: received before it, or made there by the chunk next to it.
#pragma once

#include "sim/schedules/schedule.hpp"

#include <cstdint>
#include <string>
#include <vector>

namespace orrery {

struct TransferStep {
    std::int16_t from_stage, to_stage;
    bool gradient;      // false: an activation
    std::int16_t chunk; // the sending chunk
    std::int32_t microbatch;
    bool send; // this rank's end of it
    friend bool operator==(const TransferStep&, const TransferStep&) = default;
};

// One action of a rank: a compute step, or an exchange whose transfers progress together (as one NCCL group).
struct ProgramStep {
    bool is_exchange = false;
    ScheduleStep step{};
    std::vector<TransferStep> transfers;
};

using PipelineProgram = std::vector<std::vector<ProgramStep>>; // by pipeline rank

// overlap = false: between two steps of a rank the sends of the first and the receives of the second, in one exchange (Megatron's batched
// p2p) as far as they happen at one time; the rank waits for all of it. Where that would hold up a sender, the receive stands earlier or
// the send later. At most four transfers an exchange, each on a channel of its own.
// overlap = true: a send is its own exchange after its step, a receive its own exchange one step ahead of its use (with joined steps,
// no later than the value is made); nothing waits but the step that needs the data. In both, the k-th send of a channel (from, to, kind)
// meets its k-th receive. O(steps). chunks: of all directions. Nothing is exchanged between joined steps.
PipelineProgram insert_exchanges(const Schedule& schedule, int (*stage_of)(int chunk, int stages), int stages, int chunks, bool overlap,
                                 int directions = 1);

// "1: {F0<0} F0 {F0>2} (F1;B0) ..": a transfer is named by the step that made it, with the rank it goes to or comes from.
std::string to_text(const PipelineProgram& program);

} // namespace orrery
