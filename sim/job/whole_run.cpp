// See whole_run.hpp: the recipe is whole_run() at the end.
#include "sim/job/whole_run.hpp"

#include "sim/job/formulas.hpp"
#include "sim/report/input_pipeline.hpp"
#include "sim/scenario/run_practice.hpp"
#include "topology/input_error.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <numeric>

namespace orrery {
namespace {

constexpr double day = 86400;
constexpr double longest_run_s = 1e12;
constexpr double most_failures = 2e8; // of all seeds together: minutes of work

double failures_per_s(const WholeRun& r, int nodes) {
    const WholeRun::Failures& f = r.failures;
    const auto groups = [&](const WholeRun::Groups& g) { return g.nodes > 0 ? g.per_day * nodes / g.nodes : 0; };
    return (f.per_node_day * nodes + groups(f.racks) + groups(f.switches)) / day;
}

double mean_repair_days(const WholeRun& r) {
    if (r.repair.mean_days > 0) return r.repair.mean_days;
    double inside = 0;
    for (std::size_t i = 0; i < r.repair.days.size(); ++i) inside += (r.repair.days[i] + (i > 0 ? r.repair.days[i - 1] : 0)) / 20;
    return r.repair.days.empty() ? 0 : inside + r.repair.days.back() / 10;
}

// Nodes under repair at a moment are Poisson: as many spares as are enough in 99 of 100 moments.
int usual_spares(const WholeRun& r, int nodes) {
    const WholeRun::Failures& f = r.failures;
    if (f.distribution == FailureLaw::trace) return 0;
    const double all = std::accumulate(f.by.begin(), f.by.end(), 0.0);
    const double soft = f.by[FailingPart::software] + f.by[FailingPart::hang];
    const double away = failures_per_s(r, nodes) * day * (1 - soft / all) * (1 - f.transient) * mean_repair_days(r);
    double term = std::exp(-std::min(away, 700.0)), sum = term;
    int spares = 0;
    if (away > 600) return static_cast<int>(std::min(1e6, away + 2.33 * std::sqrt(away))); // the normal law's
    while (sum < 0.99 && spares < 1'000'000) term *= away / ++spares, sum += term;
    return spares;
}

// Defaults that the parser leaves to the simulation: InfiniteHBD's repairs (stepfun-ai/InfiniteHBD-Trace, 584 faults of 400 nodes, 348
// days).
WholeRun with_defaults(const WholeRun& r) {
    WholeRun run = r;
    if (run.repair.days.empty() && run.repair.mean_days <= 0) {
        run.repair.days = {0.009, 0.045, 0.138, 0.483, 0.85, 1.56, 2.48, 4.59, 13.4};
        run.repair.mean_days = 5.54;
    }
    return run;
}

double restart_s(const TrainingJob& job, bool near) {
    const WholeRun::Restart& r = job.run.restart;
    const double schedule = job.run.spares.warm ? r.schedule_s * job.run.failures.transient : r.schedule_s;
    return job.run.detect.crash + schedule + job.init_s + (near ? job.save.near_load_s : job.save.load_s) + r.compile_s +
           job.first_batch_s + r.warmup_steps * job.step_s() * (r.warmup_factor - 1);
}

void check_size(const TrainingJob& job, const WholeRun& run) {
    const double length = job.steps > 0 ? job.steps * job.step_s() : job.horizon_s;
    const std::vector<WholeRun::Outage>& trace = run.failures.trace;
    const double a_pass = trace.empty() ? 1 : std::max(trace.back().begin_s, 1.0); // it is repeated where the run is longer
    const double per_s =
        run.failures.distribution == FailureLaw::trace ? static_cast<double>(trace.size()) / a_pass : failures_per_s(run, job.nodes);
    const double failures = per_s * length * run.seeds;
    if (length > longest_run_s)
        throw InputError(
            fmt::format("run: it would take {:.3g} days: at most {:.1g} are simulated. Set fewer run.tokens, run.steps or run.days",
                        length / day, longest_run_s / day));
    if (failures > most_failures)
        throw InputError(fmt::format("run: about {:.2g} failures in {} runs of {:.3g} days are too many to simulate: at most {:.0g}. Set a "
                                     "shorter run, fewer run.seeds (now {}) or {}",
                                     failures, run.seeds, length / day, most_failures, run.seeds,
                                     trace.empty() ? "a lower run.failures.per_node_day" : "a shorter trace"));
}

template <class Get> SeedBand band_of(const std::vector<JobOutcome>& outcomes, Get get) {
    std::vector<double> values;
    for (const JobOutcome& o : outcomes)
        if (o.finished) values.push_back(get(o));
    return band(std::move(values));
}

void add_means(WholeRunReport& out, const std::vector<JobOutcome>& outcomes) {
    const double share = 1.0 / static_cast<double>(outcomes.size());
    double down = 0, wall = 0;
    std::int64_t near_saves = 0, storage_saves = 0;
    for (const JobOutcome& o : outcomes) {
        out.finished += o.finished;
        for (std::size_t i = 0; i < lost_times; ++i) out.lost_s[i] += o.lost_s[i] * share;
        for (std::size_t i = 0; i < failing_parts; ++i) out.by_part[i] += static_cast<double>(o.by_part[i]) * share;
        out.productive_s += o.productive_s * share;
        out.mean_wall_s += o.wall_s * share;
        out.mean_steps += o.steps * share;
        out.failures += static_cast<double>(o.failures) * share;
        out.interruptions += static_cast<double>(o.interruptions) * share;
        out.planned += static_cast<double>(o.planned) * share;
        out.degraded += static_cast<double>(o.degraded) * share;
        out.saves += static_cast<double>(o.saves) * share;
        out.fallbacks += static_cast<double>(o.fallbacks) * share;
        near_saves += o.saves;
        storage_saves += o.storage_saves;
        down += o.node_down_s;
        wall += o.wall_s;
    }
    if (out.interruptions > 0) out.mttf_s = out.mean_wall_s / out.interruptions;
    if (wall > 0) out.unavailable = down / (wall * (out.nodes + out.spares));
    out.storage_bytes = static_cast<double>(storage_saves) * share;
    out.near_bytes = static_cast<double>(near_saves) * share;
}

void add_theory(WholeRunReport& out, const TrainingJob& job) {
    const double rate = job.run.failures.distribution == FailureLaw::trace ? 0 : failures_per_s(job.run, job.nodes);
    if (rate <= 0) return;
    const double m = 1 / rate, tau = static_cast<double>(out.save_every) * job.step_s(), delta = out.save.block_s;
    out.failure_every_s = m;
    out.young_s = young_interval(m, delta);
    out.daly_s = daly_interval(m, delta);
    if (out.mttf_s > 0) {
        out.young_mttf_s = young_interval(out.mttf_s, delta);
        out.daly_mttf_s = daly_interval(out.mttf_s, delta);
    }
    out.exact = exact_goodput(m, tau, delta, out.restart_s);
    out.meta = meta_ettr(m, tau, delta, out.restart_s);
}

// The same runs cut off at eighths of their usual length: a seed meets the same failures.
std::vector<ProgressPoint> progress_of(const TrainingJob& job, double wall_s, int jobs) {
    std::vector<ProgressPoint> out;
    TrainingJob part = job;
    part.steps = 0;
    for (int i = 1; i <= 8; ++i) {
        part.horizon_s = wall_s * i / 8;
        std::vector<double> goodput;
        for (const JobOutcome& o : simulate_seeds(part, std::min(32, job.run.seeds), jobs)) goodput.push_back(o.goodput());
        out.push_back({part.horizon_s, band(std::move(goodput))});
    }
    return out;
}

constexpr int searched_anyway = 2048; // devices: a re-plan's search takes a second; beyond, only where a run may need it

// An answer to a lost node as a change of the scenario's run.
struct Answer {
    std::string name;
    Scenario scenario;
    bool chosen = false;
};

// The run's own number of spares unless the answer is about spares.
std::vector<Answer> answers(const Scenario& scenario, const TrainingJob& job) {
    std::vector<Answer> all;
    const auto add = [&](std::string name, auto change) {
        Answer a{std::move(name), scenario, false};
        a.scenario.run->spares.nodes = job.spares;
        change(*a.scenario.run);
        all.push_back(std::move(a));
    };
    for (int k = 0; k <= static_cast<int>(Elasticity::stepwise); ++k) {
        const auto kind = static_cast<Elasticity>(k);
        if (job.replicas == 1 && kind != Elasticity::none && kind != Elasticity::replan) continue;
        add(kind == Elasticity::replan ? "re-planned" : name(kind), [kind](WholeRun& r) { r.elastic = kind; });
        all.back().chosen = kind == job.run.elastic;
    }
    const int usual = usual_spares(job.run, job.nodes);
    for (const bool warm : {true, false})
        for (const int nodes : {1, usual}) {
            if (nodes == 0 || (nodes == 1 && usual == 1 && !warm)) continue;
            add(fmt::format("none, {} {} spare{}", nodes, warm ? "hot" : "cold", nodes == 1 ? "" : "s"), [&](WholeRun& r) {
                r.elastic = Elasticity::none;
                r.spares.nodes = nodes;
                r.spares.warm = warm;
            });
            if (usual == 1) break;
        }
    for (const RunPractice practice : {RunPractice::torchelastic, RunPractice::ray_train}) {
        add(name(practice), [](WholeRun&) {});
        all.back().scenario = with_practice(std::move(all.back().scenario), practice);
    }
    return all;
}

// The same run with each answer to a node that is lost.
void compare_elastic(WholeRunReport& out, const Scenario& scenario, const Prediction& prediction, const TrainingJob& job,
                     const WholeRunOptions& options) {
    if (job.nodes < 2 || job.run.failures.per_node_day <= 0) return;
    const int seeds = out.elastic_seeds = std::min(job.run.seeds, 16);
    const int one_node = std::min(static_cast<int>(std::ceil(job.replicas_per_node - 1e-9)), std::max(1, job.replicas - 1));
    bool needed = job.run.elastic == Elasticity::replan || scenario.world_size() <= searched_anyway;
    for (const Answer& answer : answers(scenario, job)) {
        TrainingJob trial = job_of(answer.scenario, prediction, needed ? options.replan : Replan{});
        trial.save_every = job.save_every;
        ElasticOption option{answer.name, answer.scenario.run->elastic, 0, 0, 0, answer.chosen, trial.spares, {0, 0}};
        if (option.kind != Elasticity::none && job.replicas > 1) option.pace = trial.pace({one_node});
        for (const JobOutcome& o : simulate_seeds(trial, seeds, options.jobs)) {
            option.wall_s += o.wall_s / seeds;
            option.goodput += (o.finished ? o.goodput() : 0) / seeds;
            option.steps += o.steps / seeds;
            needed = needed || o.missing_node_s > 0;
        }
        out.elastic.push_back(option);
    }
    if (needed && options.replan) out.replanned = options.replan(scenario, job.nodes - 1);
    if (out.replanned && out.replanned->step_s < prediction.report.step_time_s)
        out.notes.push_back(
            fmt::format("a strategy for {} nodes is faster than this run's own for {}: re-planned, its goodput may be above 100 "
                        "% of that; simrun search finds one for all",
                        out.replanned->nodes, job.nodes));
}

// A run of so many seconds, whose nodes and spares are paid for from its begin to its end.
double cost_of(double wall_s, const TrainingJob& job, const Report& step) {
    return step.cost_usd * wall_s / step.step_time_s * (job.nodes + job.spares) / job.nodes;
}

void add_money(WholeRunReport& out, const Scenario& s, const TrainingJob& job, const Report& step) {
    const double steps = out.mean_wall_s / step.step_time_s; // as if all the time were steps: an upper bound of the energy
    out.device_hours = out.mean_wall_s / 3600 * (out.nodes + out.spares) * s.cluster.devices_per_node;
    out.cost_usd = cost_of(out.mean_wall_s, job, step);
    out.energy_j = step.energy_j * steps;
}

double tokens_of_a_step(const Scenario& s) {
    return static_cast<double>(s.training.global_batch_size) * static_cast<double>(s.training.sequence_length);
}

bool chooses_interval(const TrainingJob& job) { return job.run.checkpoint.every_steps == 0 && job.run.checkpoint.every_seconds <= 0; }

double failure_every_s(const TrainingJob& job) { // 0: a trace, or nothing fails
    const double rate = job.run.failures.distribution == FailureLaw::trace ? 0 : failures_per_s(job.run, job.nodes);
    return rate > 0 ? 1 / rate : 0;
}

// As many steps as without failures, at the run's pace.
void add_target(WholeRunReport& out, const TimeToTarget& step) {
    if (step.name.empty() || out.mean_steps <= 0) return;
    out.target = step.name;
    out.target_samples = step.samples;
    out.target_steps = step.steps;
    out.target_s = out.target_steps * out.mean_wall_s / out.mean_steps;
    if (out.mean_wall_s > 0) out.target_usd = out.cost_usd * out.target_s / out.mean_wall_s;
}

// A place of a node that takes saves beside what is offloaded; "" where both find room, or the scenario does not say how large it is.
std::string too_small(const char* saves, double bytes, const NodeMemory& beside, Bytes room, const char* place, const char* way_out) {
    const double offloaded = static_cast<double>(beside.used.peak.count), has = static_cast<double>(room.count);
    if (bytes <= 0 || has <= 0 || bytes + offloaded <= has) return "";
    return fmt::format("{} need {:.1f} GB of a node's {}{}, and it has {:.1f} GB: take {}", saves, bytes * 1e-9, place,
                       offloaded > 0 ? fmt::format(" beside {:.1f} GB that are offloaded", offloaded * 1e-9) : "", has * 1e-9, way_out);
}

// Notes on a trace of failures: those of nodes that the job lacks, and how often it begins anew; "" where there is nothing to say.
std::string trace_words(const TrainingJob& job, double wall_s) {
    const WholeRun::Failures& f = job.run.failures;
    if (f.distribution != FailureLaw::trace) return "";
    const auto beyond = std::ranges::count_if(f.trace, [&](const WholeRun::Outage& o) { return o.node >= job.nodes + job.spares; });
    const double covers = std::ranges::max(f.trace, {}, &WholeRun::Outage::end_s).end_s, times = wall_s / covers;
    std::string text;
    if (beyond > 0)
        text = fmt::format("{} of its {} failures are of nodes beyond this job's {} and {} spares, numbered from 0: they strike nothing",
                           beyond, f.trace.size(), job.nodes, job.spares);
    if (times > 1.05)
        text += fmt::format("{}it covers {:.3g} days and is repeated {:.1f} times", text.empty() ? "" : "; ", covers / day, times);
    return text.empty() ? "" : "run.failures.file: " + text;
}

} // namespace

std::string why_saves_do_not_fit(const Scenario& s, const Report& step) {
    if (!s.run) return "";
    const SaveCost save = save_cost(s, state_bytes(s, step.parameters, step.trained_parameters));
    const Host& host = s.cluster.host;
    const std::string why = too_small("copies of saves", save.host_bytes, step.memory.host, host.memory + host.cxl, "memory",
                                      "another run.checkpoint.kind, fewer replicas or a larger cluster.host.memory_gb");
    return !why.empty() ? why
                        : too_small("saves", save.nvme_bytes, step.memory.disk, host.nvme, "NVMe",
                                    "another run.checkpoint.kind or a larger cluster.host.nvme_gb");
}

TrainingJob job_of(const Scenario& scenario, const Prediction& prediction, const Replan& replan) {
    TrainingJob job;
    job.run = with_defaults(*scenario.run);
    const Report& step = prediction.report;
    job.nodes = scenario.cluster.nodes;
    job.replicas = scenario.strategy.data_parallel;
    job.replicas_per_node = replicas_per_node(scenario);
    job.step_ps = std::max<std::int64_t>(1, std::llround(step.step_time_s * 1e12));
    if (job.run.steps > 0) job.steps = static_cast<double>(job.run.steps);
    if (job.run.tokens > 0) job.steps = std::ceil(job.run.tokens / tokens_of_a_step(scenario));
    if (job.run.days > 0) job.horizon_s = job.run.days * day;
    job.seed = scenario.training.seed;
    job.init_s = job.run.restart.init_s + job.run.restart.init_s_per_1024_ranks * scenario.world_size() / 1024;
    if (const auto& data = scenario.training.data)
        job.first_batch_s =
            input_first_batch(*data, input_period(*data, static_cast<double>(scenario.training.global_batch_size), input_supply(scenario)));
    job.spares = job.run.spares.nodes >= 0 ? job.run.spares.nodes : usual_spares(job.run, job.nodes);
    const double bytes = state_bytes(scenario, step.parameters, step.trained_parameters);
    job.save = save_cost(scenario, bytes);
    job.save.write_factor = pace_while_saving(scenario, prediction, job.save, bytes);
    const WholeRun::Checkpoint& c = job.run.checkpoint;
    if (c.every_steps > 0) job.save_every = c.every_steps;
    if (c.every_seconds > 0) job.save_every = std::max<std::int64_t>(1, std::llround(c.every_seconds / job.step_s()));
    job.pace = paces(scenario, prediction, replan);
    return job;
}

RunFigures run_figures(const Scenario& scenario, const Prediction& prediction, const WholeRunOptions& options) {
    const int jobs = options.jobs;
    TrainingJob job = job_of(scenario, prediction, options.replan);
    check_size(job, job.run);
    if (chooses_interval(job))
        job.save_every = best_interval(interval_curve(job, jobs), least_interval_s(job, failure_every_s(job)), job.step_s()).steps;
    const std::vector<JobOutcome> outcomes = simulate_seeds(job, job.run.seeds, jobs);
    RunFigures out;
    double wall_s = 0;
    for (const JobOutcome& o : outcomes) {
        out.finished += o.finished ? 1.0 / job.run.seeds : 0;
        wall_s += o.wall_s / job.run.seeds;
    }
    if (!std::ranges::all_of(outcomes, &JobOutcome::finished)) return out;
    out.finished = 1;
    out.goodput = band_of(outcomes, [](const JobOutcome& o) { return o.goodput(); }).p50;
    out.wall_s = band_of(outcomes, [](const JobOutcome& o) { return o.wall_s; }).p50;
    out.tokens = band_of(outcomes, [&](const JobOutcome& o) { return o.steps * tokens_of_a_step(scenario); }).p50;
    out.cost_usd = cost_of(wall_s, job, prediction.report);
    return out;
}

WholeRunReport whole_run(const Scenario& scenario, const Prediction& prediction, const WholeRunOptions& options) {
    const int jobs = options.jobs;
    TrainingJob job = job_of(scenario, prediction, options.replan);
    check_size(job, job.run);
    WholeRunReport out;
    out.name = scenario.name;
    out.nodes = job.nodes;
    out.devices = scenario.world_size();
    out.spares = job.spares;
    out.spares_assumed = job.run.spares.nodes < 0;
    out.seeds = job.run.seeds;
    out.step_s = job.step_s();
    out.ideal_s = job.steps * job.step_s();
    out.state_bytes = state_bytes(scenario, prediction.report.parameters, prediction.report.trained_parameters);
    out.save = job.save;
    out.curve = interval_curve(job, jobs);
    out.least_s = least_interval_s(job, failure_every_s(job));
    const IntervalPoint best = best_interval(out.curve, out.least_s, job.step_s());
    out.best_s = static_cast<double>(best.steps) * job.step_s();
    out.save_auto = chooses_interval(job);
    if (out.save_auto) job.save_every = best.steps;
    out.save_every = job.save_every;
    const std::vector<JobOutcome> outcomes = simulate_seeds(job, out.seeds, jobs);
    out.wall_s = band_of(outcomes, [](const JobOutcome& o) { return o.wall_s; });
    out.goodput = band_of(outcomes, [](const JobOutcome& o) { return o.goodput(); });
    out.ettr = band_of(outcomes, [](const JobOutcome& o) { return o.ettr(); });
    out.tokens = band_of(outcomes, [&](const JobOutcome& o) { return o.steps * tokens_of_a_step(scenario); });
    add_means(out, outcomes);
    if (out.wall_s.p50 > 0) out.progress = progress_of(job, out.wall_s.p50, jobs);
    const WholeRun::Checkpoint& c = job.run.checkpoint;
    const double mean_save = out.state_bytes * (1 + (c.full_every - 1) * c.fraction) / c.full_every;
    const bool direct = c.kind == CheckpointKind::sync || c.kind == CheckpointKind::async;
    out.near_bytes = direct ? 0 : out.near_bytes * mean_save;
    out.storage_bytes *= mean_save;
    out.restart_s = restart_s(job, !direct);
    add_theory(out, job);
    compare_elastic(out, scenario, prediction, job, options);
    add_money(out, scenario, job, prediction.report);
    add_target(out, prediction.report.target);
    out.example = simulate_job(job, 0, true);
    if (out.finished < out.seeds)
        out.notes.push_back(fmt::format("{} of {} simulated runs came to no end: they fail faster than they save, or no node comes back",
                                        out.seeds - out.finished, out.seeds));
    if (const std::string why = trace_words(job, out.mean_wall_s); !why.empty()) out.notes.push_back(why);
    if (const std::string why = why_saves_do_not_fit(scenario, prediction.report); !why.empty()) out.notes.push_back(why);
    if (job.run.elastic == Elasticity::reroute)
        out.notes.push_back("run.elastic = reroute: bubbles are taken as filled perfectly, a lower bound of the step");
    return out;
}

} // namespace orrery
