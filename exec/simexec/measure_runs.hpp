// What starts, saves, loads and losses of supervised runs take on this machine.
#pragma once

#include "exec/calibrate/calibrate.hpp"
#include "exec/simexec/command.hpp"

#include <filesystem>

namespace orrery::simexec {

// The folder is made, and gone afterwards: checkpoints are written there. Takes some 10 s. Throws std::runtime_error where no run can be
// started, Unwritten where nothing can be saved.
RunFacts measure_runs(const std::filesystem::path& folder, const CalibrateOptions& how);

} // namespace orrery::simexec
