// One rank of a plan by itself, at its real size: its computations run, what it would wait for others is taken from a prediction. Says how
// long a rank of a cluster nobody has here computes, op by op, and its step beside the simulated one. The machine may be any device's.
#pragma once

#include "exec/local/executor.hpp"
#include "sim/trace/trace.hpp"

#include <vector>

namespace orrery {

// The lane of a simulated trace that shows `rank`: its own, or, of ranks that do alike, the one that stands for its stage.
const Lane& lane_of(const Trace& predicted, int rank, int stage);

// That lane alone, its step beginning at zero: what a replayed rank is compared with.
Trace alone(const Trace& predicted, const Lane& lane);

// For a communication, in ns: from its posting by the rank until data moves, and from then until it ends. 0 for all other ops.
struct Delay {
    std::int64_t wait = 0, move = 0;
};

// By issue of the rank. Throws std::runtime_error where the lane is of another plan.
std::vector<Delay> predicted_delays(const World& world, const Rank& rank, const Lane& lane);

// For times taken on a device whose queues stand still for each delay as a whole: communications begin when data moves, as in a prediction.
void begin_with_moves(std::vector<OpTime>& times, const std::vector<Delay>& delays);

// Works the world's only rank. Data that would come from others is made of the rank's own: the right amount, of the right size. Times are
// laid out as queues and dependencies allow, each op as long as it took, each communication as long as its delay.
std::unique_ptr<Executor> replay_executor(World& world, std::vector<Delay> delays);

} // namespace orrery
