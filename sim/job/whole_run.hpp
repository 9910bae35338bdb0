// From a scenario with "run" and its predicted step to the report of the whole run.
#pragma once

#include "sim/job/job.hpp"
#include "sim/report/report.hpp"
#include "sim/trace/trace.hpp"
#include "topology/indexed.hpp"

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace orrery {

// A figure over the seeds: its deciles and median, and how far off each may be by chance (one standard error, from order statistics).
struct SeedBand {
    double p10 = 0, p50 = 0, p90 = 0, error10 = 0, error50 = 0, error90 = 0;
};

struct IntervalPoint {
    std::int64_t steps = 0;
    double goodput = 0; // mean over seeds
};

// How goodput comes about: of all that passed from the run's begin to that moment, over at most 32 seeds.
struct ProgressPoint {
    double at_s = 0;
    SeedBand goodput;
};

struct ElasticOption {
    std::string name; // what is done: an elasticity, warm or cold spares, a practice
    Elasticity kind = Elasticity::none;
    double wall_s = 0, goodput = 0; // means over seeds; days runs: wall_s is their length
    double steps = 0;
    bool chosen = false;
    int spares = 0;
    Pace pace; // with one node less; none: there are no steps then, and step_s is 0
};

// A strategy for fewer nodes.
struct Replanned {
    double step_s = 0;
    int nodes = 0; // that it uses: as many of those left as its degrees can fill
    std::string strategy;
    std::int64_t simulated = 0, legal = 0; // strategies
    bool proven = false;                   // the best of the legal ones
};
// Takes a scenario and the nodes that are left; nothing: no strategy that was looked at fits on them.
using Replan = std::function<std::optional<Replanned>(const Scenario&, int nodes)>;

struct WholeRunOptions {
    int jobs = 0;    // threads; 0: all cores
    Replan replan{}; // null: layouts near the plan's own alone. It looks at more, and the better of both is taken
};

struct WholeRunReport {
    std::string name;
    int seeds = 0, finished = 0;
    int nodes = 0, devices = 0, spares = 0;
    bool spares_assumed = false;
    double step_s = 0, ideal_s = 0; // of the run without any loss; 0: a run of so many days
    SeedBand wall_s, goodput, ettr, tokens;
    ByEnum<LostTime, double, lost_times> lost_s{}; // means
    double productive_s = 0, mean_wall_s = 0, mean_steps = 0;
    double failures = 0, interruptions = 0, planned = 0, degraded = 0, saves = 0, fallbacks = 0; // means of one run
    ByEnum<FailingPart, double, failing_parts> by_part{};
    double mttf_s = 0;      // mean wall time between interruptions that were not planned; 0: there was none
    double unavailable = 0; // share of all nodes' time, spares included, under repair
    // saves
    double state_bytes = 0;
    SaveCost save;
    std::int64_t save_every = 0;
    bool save_auto = false;
    double young_s = 0, daly_s = 0, exact = 0, meta = 0; // of the failures that stop a run; 0: none
    double young_mttf_s = 0, daly_mttf_s = 0;            // of mttf_s instead
    double restart_s = 0, failure_every_s = 0;
    double best_s = 0, least_s = 0; // the best interval found on the curve; none that is shorter was looked at
    std::vector<IntervalPoint> curve;
    std::vector<ProgressPoint> progress;      // eighths of the run, the last its end
    double storage_bytes = 0, near_bytes = 0; // written in one run, mean
    // Answers to a node that is lost, side by side; empty where there is one node.
    std::vector<ElasticOption> elastic;
    int elastic_seeds = 0;              // that its means are over, the first of the run's
    std::optional<Replanned> replanned; // on one node less
    // money and energy; 0: not known
    double device_hours = 0, cost_usd = 0, energy_j = 0;
    // convergence
    std::string target;
    double target_samples = 0, target_steps = 0, target_s = 0, target_usd = 0;
    std::vector<std::string> notes;
    JobOutcome example; // seed 0, with its timeline
};

// The job of a scenario: its saves, spares and paces. The paces are simulated when a run first needs them, and kept. The scenario and the
// prediction must outlive it.
TrainingJob job_of(const Scenario& scenario, const Prediction& prediction, const Replan& replan = {});
// Bytes of a whole checkpoint: parameters, and of those that are trained the master copy and the moments.
double state_bytes(const Scenario& scenario, double parameters, double trained);
SaveCost save_cost(const Scenario& scenario, double bytes); // without its effect on steps (write_factor)
// Why a node's memory or NVMe has no room for saves, in words; "" where they fit, or the cluster does not say how large it is.
std::string why_saves_do_not_fit(const Scenario& scenario, const Report& step);
// Data-parallel replicas that have ranks on one node: they end with it.
int replicas_per_node(const Scenario& scenario);
// How steps go in states of the machine that lacks something, by the step model.
std::function<Pace(const MachineState&)> paces(const Scenario& scenario, const Prediction& prediction, const Replan& replan = {});
double pace_while_saving(const Scenario& scenario, const Prediction& prediction, const SaveCost& save, double bytes); // a factor
// Goodput over intervals between saves, smallest first, on the simulator's own runs.
std::vector<IntervalPoint> interval_curve(const TrainingJob& job, int jobs);
// "auto" does not save more often than this: a save has ended before the next begins, and saves to storage are a minute apart (a tenth of
// the time between failures, where that is less; 0: there are none).
double least_interval_s(const TrainingJob& job, double failure_every_s);
// The longest interval, not below least_s, whose goodput is within 0.1 points of the best: storage has the least to do.
IntervalPoint best_interval(const std::vector<IntervalPoint>& curve, double least_s, double step_s);

// The figures of a whole run that a sweep or a search ranks by; those of the report, without its curves and options.
struct RunFigures {
    double finished = 0; // share of the simulated runs that came to an end; below 1 the rest is 0: not known
    double goodput = 0;  // p50
    double wall_s = 0;   // p50; of a run of so many days, their length
    double tokens = 0;   // p50 of the tokens that count
    double cost_usd = 0; // of all nodes, spares too, in the mean; 0: no price is known
};
// Throws as whole_run().
RunFigures run_figures(const Scenario& scenario, const Prediction& prediction, const WholeRunOptions& options = {});

// Throws InputError where a run cannot be simulated: more failures than can be counted.
WholeRunReport whole_run(const Scenario& scenario, const Prediction& prediction, const WholeRunOptions& options = {});
SeedBand band(std::vector<double> values);

std::string to_text(const WholeRunReport& report, const Scenario& scenario, const TextStyle& style = {});
std::string to_json(const WholeRunReport& report); // an object, without a line break at its end
// The timeline of seed 0: for ui.perfetto.dev, as a table, and as a trace, whose picoseconds end after 106 days.
constexpr double longest_timeline_s = 9.2e6;
std::string timeline_perfetto(const WholeRunReport& report);
std::string timeline_csv(const WholeRunReport& report);
Trace timeline_trace(const WholeRunReport& report);
std::string detail_words(const JobSpan& span); // "a slow node, 310 saves"

} // namespace orrery
