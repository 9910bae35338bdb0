#include "exec/simexec/replayed.hpp"

#include "exec/local/clock.hpp"
#include "exec/runtime/world.hpp"
#include "sim/job/whole_run.hpp"

#include <nlohmann/json.hpp>

#include <algorithm>
#include <cmath>
#include <numeric>
#include <thread>

namespace orrery::simexec {
namespace {

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
    return o.finished ? std::optional(o.goodput()) : std::nullopt;
}

double clock_over_work(int threads, double seconds) {
    std::vector<double> works(static_cast<std::size_t>(threads), 0);
    const std::int64_t begin = wall_ns(), end = begin + std::llround(seconds * 1e9);
    {
        std::vector<std::jthread> all;
        for (double& work : works)
            all.emplace_back([&work, end] {
                const std::int64_t before = cpu_ns();
                while (wall_ns() < end) {}
                work = static_cast<double>(cpu_ns() - before) * 1e-9;
            });
    }
    const double by_clock = static_cast<double>(wall_ns() - begin) * 1e-9;
    return std::max(1.0, by_clock / std::max(1e-3, std::ranges::min(works)));
}

std::optional<PredictedGoodput> predicted_goodput(const std::string& file, const Options& options, const RunOptions& how,
                                                  const std::string& calibration, const std::vector<double>& moments, std::string& why) {
    const std::optional<Scenario> own = load(file, options);
    if (!own) return std::nullopt;
    if (how.executor == "serial" && own->world_size() > 1)
        return why =
                   "ranks that run one after another in a thread have no step time that is predicted: take one rank, or --executor threads",
               std::nullopt;
    if (how.threads > 1) return why = "the calibration is of ranks with one thread: leave --threads out", std::nullopt;
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
    constexpr double looked_s = 1;
    job.step_ps = std::llround(static_cast<double>(job.step_ps) * clock_over_work(own->world_size(), looked_s));
    const JobOutcome o = simulate_job(job, 0);
    if (!o.finished) return why = "the simulated run came to no end", std::nullopt;
    return PredictedGoodput{o.goodput(), static_cast<double>(job.step_ps) * 1e-12};
}

} // namespace orrery::simexec
