// Why a rank's compute queue stands still in a measured step, in the simulator's words (sim/engine/blame.cpp).
#pragma once

#include "exec/local/executor.hpp"
#include "sim/trace/trace.hpp"

#include <span>
#include <vector>

namespace orrery {

// The waits between the step's begin and `end`, ascending, each with its cause. times: of the rank's ops, by issue; null: nothing was
// recorded of it (memory, the host's own waits). What the next op on the queue waits for is followed, through what stands before that on
// its queues, to data that move (receive, collective), to a partner that has not come (the same, or warm-up and drain before the first and
// after the last op of the passes), to another queue of the rank (dependency), or to a host that is late (host).
std::vector<Span> waits_of(const Plan& plan, const IssueOrder& order, std::span<const OpTime* const> times, Time end);

// A communication begins when its last member, or the partner of the first of its transfers, has come. Sets begin and meeting, where that
// is known: of ranks whose times are in the record, by one clock, each in its own issue order. The world has all of these ranks.
void find_begins(const World& world, std::span<OpTime> record);

} // namespace orrery
