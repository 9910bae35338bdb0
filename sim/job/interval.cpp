// The best interval between saves, found on the simulator's own runs: all with the same failures, so that they differ by the interval
// alone. Goodput does not show what saves load on storage that others use: so the longest of the intervals that are about as good is taken.
#include "sim/job/formulas.hpp"
#include "sim/job/whole_run.hpp"

#include <algorithm>
#include <cmath>
#include <set>

namespace orrery {
namespace {

constexpr double usual_least_s = 60; // between two saves to storage, where "auto" chooses
constexpr double least_share = 0.1;  // of the time between two failures, where that is less
constexpr double as_good = 0.001;    // of goodput

} // namespace

double least_interval_s(const TrainingJob& job, double failure_every_s) {
    const bool near = job.run.checkpoint.kind != CheckpointKind::sync && job.run.checkpoint.kind != CheckpointKind::async;
    const double usual = failure_every_s > 0 ? std::min(usual_least_s, least_share * failure_every_s) : usual_least_s;
    const double stored = near ? job.save.storage_s / std::max(1, job.run.checkpoint.storage_every) : 0;
    return std::max({near ? 0 : usual, job.save.write_s, stored});
}

IntervalPoint best_interval(const std::vector<IntervalPoint>& curve, double least_s, double step_s) {
    std::vector<IntervalPoint> allowed;
    for (const IntervalPoint& p : curve)
        if (static_cast<double>(p.steps) * step_s >= least_s * (1 - 1e-9)) allowed.push_back(p);
    if (allowed.empty()) return curve.back();
    const double most = std::ranges::max_element(allowed, {}, &IntervalPoint::goodput)->goodput;
    while (allowed.back().goodput < most - as_good) allowed.pop_back();
    return allowed.back();
}

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
    std::set<std::int64_t> intervals; // the shortest that "auto" may take among them
    const auto add = [&](double steps) { intervals.insert(static_cast<std::int64_t>(std::clamp(steps, 1.0, most))); };
    for (int i = -12; i <= 12; ++i) add(std::round(middle * std::pow(20, i / 12.0)));
    add(std::ceil(least_interval_s(job, per_s > 0 ? 1 / per_s : 0) / job.step_s()));
    // One of the saves that are kept must be older than what corrupts them unnoticed.
    const double unnoticed =
        per_s > 0 && f.by[FailingPart::sdc] > 0 && job.run.checkpoint.keep > 0 ? job.run.detect.sdc / job.run.checkpoint.keep : 0;
    for (int i = 0; unnoticed > 0 && i <= 6; ++i) add(std::ceil(unnoticed / job.step_s() * std::pow(1.25, i)));
    std::vector<IntervalPoint> curve;
    const auto append = [&](std::int64_t whole) {
        trial.save_every = whole;
        double goodput = 0;
        for (const JobOutcome& o : simulate_seeds(trial, seeds, jobs)) goodput += (o.finished ? o.goodput() : 0) / seeds;
        curve.push_back({whole, goodput});
    };
    for (const std::int64_t whole : intervals) append(whole);
    // Saves that cost nothing, and pauses of another kind: longer ones, as long as they are better.
    const auto rises = [&] { return curve.size() > 1 && curve.back().goodput > curve[curve.size() - 2].goodput + as_good; };
    for (int i = 0; i < 12 && rises() && static_cast<double>(curve.back().steps) < most; ++i)
        append(static_cast<std::int64_t>(std::min(most, std::ceil(static_cast<double>(curve.back().steps) * 1.5))));
    return curve;
}

} // namespace orrery
