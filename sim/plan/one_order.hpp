// One order in which the programs of all stages can run together, by actions and without a clock.
#pragma once

#include "sim/plan/plan.hpp"

#include <cstdint>
#include <span>
#include <vector>

namespace orrery {

// Places in that order, of each action of each stage: where it begins, and where it ends, partners on other stages included. Whatever waits
// for an action that ends before it begins keeps the order possible, however many such waits there are. Actions that cannot run are last.
struct OneOrder {
    std::vector<std::vector<std::int32_t>> begins, ends;
};

// programs: one a stage. An action begins when the actions before it on each of its queues and those it depends on have ended; it ends
// when its partners have begun. As far as partners allow, a stage's actions follow each other in its
// program's order, so that as many waits as can be keep the order possible; where no stage can go on so, what only communicates with
// other stages begins ahead.
OneOrder one_order(const Plan& plan, std::span<const Program> programs);

} // namespace orrery
