// Draft programs: what the passes from `schedule` to `optimizer` write and change, an action at a time. A pass may put actions of its own
// anywhere between those that are there, cut a compute action in pieces, or take one out; `bind` makes programs of what is left.
#pragma once

#include "sim/plan/passes/exchange_order.hpp"
#include "sim/plan/plan.hpp"
#include "sim/schedules/schedule.hpp"

#include <string>
#include <vector>

namespace orrery {

// A schedule's step as one block. A backward step whose block is split is two parts of one port, an input and a weight step; joined steps
// are on ports of their own.
struct DraftPart {
    ScheduleStep step;
    std::int32_t block;
    std::uint8_t port;
};

// Op `op` (index in its block) of the action that holds this waits for the last timed op of the earlier action whose id is `on`: a
// dependency that no buffer implies, as a limit on prefetching is.
struct DraftWait {
    std::int32_t op, on;
};

struct DraftAction {
    std::int32_t id = -1; // unique in its draft
    // The piece it runs. Its block says its kind: a gather, a reduction, a release .. run.block is -1 where it has more than one part:
    // `join` makes one block of them.
    Action run;
    std::vector<DraftPart> parts;        // of computation, in the order of their ports
    std::vector<TransferStep> transfers; // of an exchange: transfer i is on port i
    std::vector<DraftWait> waits;
};

// One pipeline rank's.
struct Draft {
    std::vector<DraftAction> actions;        // in issue order
    std::int32_t ids = 0;                    // given so far
    std::vector<std::int32_t> step_begins{}; // of several steps: ids of the first action of each but the first
};

// An action of a block, whole, without a microbatch; it is in no draft yet.
DraftAction run_of(const Plan& plan, Draft& draft, std::int32_t block);

// The steps that an action computes: a split backward step is one again.
std::vector<ScheduleStep> steps_of(const DraftAction& action);
Schedule steps_of(const std::vector<Draft>& drafts);

// First op of [first, last) of a block that takes time; -1: none.
std::int32_t first_timed_op(const Block& block, std::int32_t first, std::int32_t last);
// .. and is computation or communication of it, no copy beside it.
std::int32_t first_op_of_computation(const Block& block, std::int32_t first, std::int32_t last);
std::int32_t last_timed_op(const Block& block, std::int32_t first, std::int32_t last);

// "1: {F0.0<0} F0.0 {F0.0>2} (F1.0;B0.0) gather:c0.u1 F0[3-20).1 ..": a line a rank. A step is its kind, chunk and microbatch, and the ops
// of its block where these are not all; a transfer is named by the step that made it, with the rank it goes to or comes from.
std::string to_text(const Plan& plan, const std::vector<Draft>& drafts);

} // namespace orrery
