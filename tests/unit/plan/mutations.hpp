// Ways to break a plan by one small change, everything else left consistent: indices follow what is moved or dropped.
#pragma once

#include "sim/plan/plan.hpp"

namespace orrery::test {

// The ops of a block and all that refers to them by index.
void drop_op(Plan& plan, std::int32_t block, std::int32_t op);
void swap_ops(Plan& plan, std::int32_t block, std::int32_t op); // op and op + 1; a dependency between them is dropped
void drop_action(Plan& plan, std::size_t program, std::int32_t action);
void swap_actions(Plan& plan, std::size_t program, std::int32_t action); // action and action + 1, likewise

// Whether the two ops must keep their order: one makes, changes, allocates or frees what the other uses. Two that both add to the same
// buffer may change places.
bool depend(const Plan& plan, const Op& a, const Op& b);
// For actions: the same for any ops of theirs on the same microbatch's buffers.
bool depend(const Plan& plan, const Action& a, const Action& b);

} // namespace orrery::test
