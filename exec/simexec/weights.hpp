// `simexec run --weights` and `--export-weights`.
#pragma once

#include "exec/simexec/command.hpp"
#include "exec/simexec/others.hpp"
#include "exec/weights/weights.hpp"

#include <string>

namespace orrery::simexec {

// Before anything is made: why the run can neither begin with such weights nor leave them, a line a reason; empty: it can. Notes in `how`
// what ranks compare. Throws std::runtime_error where the files are damaged.
std::string check_weights(const Scenario& scenario, RunOptions& how);

// Writes the weights that the world has in this process's memory. others: null where all ranks are here.
void write_weights(const World& world, const RunOptions& how, const Others* others);

} // namespace orrery::simexec
