// A supervised run as the simulator of whole runs predicts it: its own step, save and start-up times as they were before the first loss,
// and its losses at the moments they were noticed.
#pragma once

#include "exec/supervise/record.hpp"
#include "sim/job/job.hpp"

#include <optional>

namespace orrery::simexec {

// For a run that saves at a fixed number of steps, on one node. Nothing where the record has no step, no save or no loss to learn from.
std::optional<TrainingJob> replayed_job(const std::vector<RunEvent>& events, std::int64_t every);
// Goodput as RunSummary has it; nothing likewise.
std::optional<double> simulated_goodput(const std::vector<RunEvent>& events, std::int64_t every);

} // namespace orrery::simexec
