#include "exec/simexec/replayed.hpp"

#include <algorithm>
#include <cmath>
#include <set>

namespace orrery::simexec {
namespace {

double middle(std::vector<double> v) {
    if (v.empty()) return 0;
    std::nth_element(v.begin(), v.begin() + static_cast<std::ptrdiff_t>(v.size() / 2), v.end());
    return v[v.size() / 2];
}

// Medians of what the record shows of steps and saves.
struct Times {
    std::vector<double> steps, blocks, writes;
    double first_begin = -1, start = 0;
    std::vector<double> losses; // after the first begin
    std::int64_t last = -1;
};

Times times_of(const std::vector<RunEvent>& events) {
    Times t;
    double before = 0, launched = 0, saved = 0;
    for (const RunEvent& e : events) {
        if (e.what == "launch") launched = e.time_s;
        if (e.what == "begin" && t.first_begin < 0) {
            t.first_begin = e.time_s;
            t.start = e.time_s - launched;
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
    job.step_ps = std::max<std::int64_t>(1, std::llround(middle(t.steps) * 1e12));
    job.steps = static_cast<double>(t.last + 1);
    job.save_every = every;
    job.save.block_s = middle(t.blocks);
    job.save.write_s = middle(t.writes);
    job.init_s = t.start;
    return job;
}

std::optional<double> simulated_goodput(const std::vector<RunEvent>& events, std::int64_t every) {
    const auto job = replayed_job(events, every);
    if (!job) return std::nullopt;
    const JobOutcome o = simulate_job(*job, 0);
    return o.finished ? std::optional(o.goodput()) : std::nullopt;
}

} // namespace orrery::simexec
