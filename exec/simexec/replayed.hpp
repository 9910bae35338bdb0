// A supervised run as the simulator of whole runs predicts it: the means of its own step, save and start-up times,
// and its losses at the moments they were noticed.
#pragma once

#include "exec/simexec/command.hpp"
#include "exec/supervise/record.hpp"
#include "sim/job/job.hpp"

#include <optional>
#include <string>
#include <vector>

namespace orrery::simexec {

// For a run that saves at a fixed number of steps, on one node. Nothing where the record has no step, no save or no loss to learn from.
std::optional<TrainingJob> replayed_job(const std::vector<RunEvent>& events, std::int64_t every);
// Goodput as RunSummary has it; nothing likewise.
std::optional<double> simulated_goodput(const std::vector<RunEvent>& events, std::int64_t every);

// The wall time of this number of threads at work, over the processor time of one: above 1 where other work takes the processors.
double clock_over_work(int threads, double seconds);

// The goodput of a drill as simrun predicts it: steps by the kernels and by what others leave of the processors now, saves, loads and
// starts that the calibration measured, losses at the moments (s after the first step's begin) that were drawn beforehand. Nothing of the
// run itself goes in. Nothing where it cannot be predicted; `why` says so then.
struct PredictedGoodput {
    double goodput = 0, step_s = 0;
};
std::optional<PredictedGoodput> predicted_goodput(const std::string& file, const Options& options, const RunOptions& how,
                                                  const std::string& calibration, const std::vector<double>& moments, std::string& why);

} // namespace orrery::simexec
