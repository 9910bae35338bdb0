// The best interval between saves, found on the simulator's own runs: all with the same failures, so that they differ by the interval
// alone.
#include "sim/job/formulas.hpp"
#include "sim/job/whole_run.hpp"

#include <algorithm>
#include <cmath>

namespace orrery {

std::vector<IntervalPoint> interval_curve(const TrainingJob& job, int jobs) {
    // Around what theory says, from a twentieth to twenty times, whole numbers of steps.
    const WholeRun::Failures& f = job.run.failures;
    const double length = job.steps > 0 ? job.steps * job.step_s() : job.horizon_s;
    const double per_s = f.distribution == FailureLaw::trace ? static_cast<double>(f.trace.size()) / std::max(length, 1.0)
                                                             : f.per_node_day * job.nodes / 86400;
    const double most = std::max(1.0, length / job.step_s());
    const double block = std::max(job.save.block_s, 1e-3 * job.step_s());
    const double middle = per_s > 0 ? std::max(young_interval(1 / per_s, block), job.save.write_s) / job.step_s() : most;
    TrainingJob trial = job;
    // Enough failures to tell intervals apart, and no more.
    if (trial.steps > 0 && per_s > 0) trial.steps = std::ceil(std::min(trial.steps, std::max(4 * middle, 2000 / per_s / job.step_s())));
    if (trial.steps <= 0 && per_s > 0) trial.horizon_s = std::min(trial.horizon_s, std::max(4 * middle * job.step_s(), 2000 / per_s));
    const int seeds = std::min(job.run.seeds, 16);
    std::vector<IntervalPoint> curve;
    for (int i = -12; i <= 12; ++i) {
        const double steps = std::clamp(std::round(middle * std::pow(20, i / 12.0)), 1.0, most);
        const auto whole = static_cast<std::int64_t>(steps);
        if (!curve.empty() && curve.back().steps == whole) continue;
        trial.save_every = whole;
        double goodput = 0;
        for (const JobOutcome& o : simulate_seeds(trial, seeds, jobs)) goodput += (o.finished ? o.goodput() : 0) / seeds;
        curve.push_back({whole, goodput});
    }
    return curve;
}

} // namespace orrery
