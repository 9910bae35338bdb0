#include "exec/simexec/replayed.hpp"

#include "exec/runtime/world.hpp"
#include "sim/job/whole_run.hpp"

#include <nlohmann/json.hpp>

#include <algorithm>
#include <cmath>
#include <numeric>
#include <set>

namespace orrery::simexec {
namespace {

double middle(std::vector<double> v) {
    if (v.empty()) return 0;
    std::nth_element(v.begin(), v.begin() + static_cast<std::ptrdiff_t>(v.size() / 2), v.end());
    return v[v.size() / 2];
}

double mean(const std::vector<double>& v) {
    return v.empty() ? 0 : std::accumulate(v.begin(), v.end(), 0.0) / static_cast<double>(v.size());
}

// Steps, saves and starts, as the record shows them.
struct Times {
    std::vector<double> steps, blocks, writes, starts;
    double first_begin = -1;
    std::vector<double> losses; // after the first begin
    std::int64_t last = -1;
};

Times times_of(const std::vector<RunEvent>& events) {
    Times t;
    double before = 0, launched = 0, saved = 0;
    for (const RunEvent& e : events) {
        if (e.what == "launch") launched = e.time_s;
        if (e.what == "begin") {
            if (t.first_begin < 0) t.first_begin = e.time_s;
            t.starts.push_back(e.time_s - launched);
        }
        if (e.what == "step") {
            t.steps.push_back(e.time_s - before);
            t.last = std::max(t.last, e.step);
        }
        if (e.what == "saved") t.blocks.push_back(e.time_s - before), saved = e.time_s;
        if (e.what == "written")
            t.writes.push_back(e.time_s - saved);
        else if (e.what != "launch")
            before = e.time_s;
        const bool loss = e.what == "end" && (e.how == "killed" || e.how == "lost" || e.how == "silent" || e.how == "stuck");
        if (loss && t.first_begin >= 0) t.losses.push_back(e.time_s - t.first_begin);
    }
    return t;
}

} // namespace

std::optional<TrainingJob> replayed_job(const std::vector<RunEvent>& events, std::int64_t every) {
    const Times t = times_of(events);
    if (t.steps.empty() || t.losses.empty() || t.blocks.empty() || every <= 0) return std::nullopt;
    TrainingJob job;
    WholeRun& run = job.run;
    run.failures.distribution = FailureLaw::trace;
    for (const double at : t.losses) run.failures.trace.push_back({0, at, at});
    run.failures.trace.push_back({0, 1e9, 1e9}); // the trace does not begin anew
    run.detect.crash = run.restart.schedule_s = run.restart.compile_s = 0;
    run.checkpoint.kind = t.writes.empty() ? CheckpointKind::sync : CheckpointKind::async;
    job.step_ps = std::max<std::int64_t>(1, std::llround(mean(t.steps) * 1e12));
    job.steps = static_cast<double>(t.last + 1);
    job.save_every = every;
    job.save.block_s = mean(t.blocks);
    job.save.write_s = mean(t.writes);
    job.init_s = mean(t.starts);
    return job;
}

std::optional<double> simulated_goodput(const std::vector<RunEvent>& events, std::int64_t every) {
    const auto job = replayed_job(events, every);
    if (!job) return std::nullopt;
    const JobOutcome o = simulate_job(*job, 0);
    // RunSummary counts a step as long as the median one.
    const std::vector<double> steps = times_of(events).steps;
    return o.finished ? std::optional(o.goodput() * middle(steps) / mean(steps)) : std::nullopt;
}

std::optional<double> predicted_goodput(const std::string& file, const Options& options, const RunOptions& how,
                                        const std::string& calibration, const std::vector<double>& moments, std::string& why) {
    const std::optional<Scenario> own = load(file, options);
    if (!own) return std::nullopt;
    if (how.executor == "serial" && own->world_size() > 1)
        return why =
                   "ranks that run one after another in a thread have no step time that is predicted: take one rank, or --executor threads",
               std::nullopt;
    const auto cluster = cluster_of(calibration, own->world_size());
    if (!cluster) return std::nullopt;
    Options here = options;
    here.overrides.push_back(*cluster);
    const nlohmann::json run{{"steps", how.steps}, {"checkpoint", {{"every", {{"steps", how.every > 0 ? how.every : how.steps}}}}}};
    here.overrides.push_back("run=" + run.dump());
    const std::optional<Scenario> scenario = load(file, here);
    if (!scenario) return std::nullopt;
    TrainingJob job = job_of(*scenario, predict(*scenario, executed_plan(*scenario), {}));
    job.run.failures.distribution = FailureLaw::trace;
    for (const double at : moments) job.run.failures.trace.push_back({0, at, at});
    const JobOutcome o = simulate_job(job, 0);
    if (!o.finished) return why = "the simulated run came to no end", std::nullopt;
    return o.goodput();
}

} // namespace orrery::simexec
