// A sweep run: every point of a SweepDocument predicted on all cores, each result in an SQLite file as soon as it is there, so that a
// run that is stopped, by kill -9 too, goes on where it was. Points are known by their scenario's hash, not by their number: a sweep
// that gains a value computes only what is new.
#pragma once

#include "sim/job/whole_run.hpp"
#include "sim/report/error_bar.hpp"
#include "sim/report/memory_margin.hpp"
#include "sim/scenario/sweep.hpp"
#include "sim/sweep/shard.hpp"

#include <cmath>
#include <cstdint>
#include <cstdlib>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace orrery {

class ReadyPlans;

// fits: predicted, and it fits. too_big: does not fit; reason says where. impossible: a constraint or the parser refuses it. failed: the
// plan could not run, or our bug.
enum class PointStatus : std::uint8_t { fits, too_big, impossible, failed };
const char* name(PointStatus s);

struct SweepRow {
    std::int64_t index = 0; // in the document; not stored
    std::string hash;       // point_hash(), 16 hex digits
    std::string label;
    PointStatus status = PointStatus::failed;
    std::string reason; // why not; empty for fits
    std::int64_t world_size = 0;
    double step_time_s = 0, tokens_per_s = 0, tokens_per_s_per_gpu = 0, mfu = 0, hfu = 0, bubble_fraction = 0;
    double straggler_fraction = -1; // of the step, waiting for slower devices of the own stage; -1: not known
    std::int64_t peak_bytes = 0, capacity_bytes = 0;
    double time_to_target_s = 0;                          // training.convergence; 0: there is no target
    double step_time_error_bar = 0, memory_error_bar = 0; // half widths as fractions (ErrorBar); 0: not known, -1: not asked for
    TimeInterval step_time_interval;
    double cost_usd = 0, energy_j = 0; // of a step; 0: not known
    // "run": its figures over the simulated runs (sim/job/whole_run.hpp, RunFigures).
    double run_finished = -1; // share that came to an end; -1: there is no run. Below 1 the rest is not known
    double run_goodput = 0, run_s = 0, run_tokens = 0, run_cost_usd = 0;
    // Wall time over productive time, to a thousandth: simulated runs tell no finer, and of points as good the fastest leads.
    double run_stretch() const { return std::round(1 / run_goodput * 1000) / 1000; }
    double run_usd_per_trillion_tokens() const { return run_tokens > 0 ? run_cost_usd / run_tokens * 1e12 : 0; }
    bool waits_for_stragglers() const { return straggler_fraction >= 0.0005; } // as printed: 0.1 % and more
    double per_trillion_tokens(double of_a_step) const { return tokens_per_s > 0 ? of_a_step / (step_time_s * tokens_per_s) * 1e12 : 0; }
    bool narrow() const {
        const double margin = memory_margin(memory_error_bar) * static_cast<double>(capacity_bytes);
        return static_cast<double>(std::abs(capacity_bytes - peak_bytes)) < margin;
    } // as a report's

    friend bool operator==(const SweepRow&, const SweepRow&) = default;
};

// The figure that rows are ranked by, best first. cost, energy: of a token; rows where they are not known stand last. goodput, run_time,
// run_cost: of a whole run, the last two of a token that counts in the end.
enum class RankBy : std::uint8_t {
    tokens_per_s,
    tokens_per_s_per_gpu,
    mfu,
    step_time_s,
    peak_bytes,
    cost,
    energy,
    time_to_target_s,
    goodput,
    run_time,
    run_cost
};
const char* name(RankBy by);
std::vector<RankBy> all_rankings();

struct SweepRun {
    std::vector<SweepRow> rows; // by index, every point of the shard
    std::int64_t reused = 0;    // found in the file
    bool stopped = false;       // by go_on: rows it did not come to have no hash, and a reason that says so
};

// How the point of a text re-plans itself on fewer nodes (run.elastic = replan); null: by layouts near its own.
using Replans = std::function<Replan(const std::string& json)>;

struct SweepRunOptions {
    int jobs = 0;                                                        // 0: all cores
    bool fresh = false;                                                  // forget what the file holds
    std::function<void(std::size_t done, std::size_t total)> progress{}; // called by one thread at a time
    std::function<void(const SweepRow& row)> found{};                    // each row as it comes; one thread at a time
    std::function<bool()> go_on{}; // asked before each point, by any thread; false: stop, and keep what there is
    Shard shard{};                 // these points alone, and no rows of others
    Replans replans{};
};

// A hash of everything that its figures depend on: its text, the contents of the files that the text names, the constants it carries, and
// this program's own code and data (key.cpp).
std::string point_hash(const SweepPoint& point);
// Whether a stored row holds all that this point gives now; files of before runs were simulated lack theirs, and searches leave out
// intervals that they do not print.
bool complete(const SweepRow& row, const std::string& json);
bool has_run(const SweepRow& row, const std::string& json);
bool has_interval(const SweepRow& row);
// A resolved scenario's figures; hash, label and index are left empty, and its plan is not verified. whole_run: those of its "run", too.
// Never throws: what goes wrong is in the row. kept: plans of the scenarios before, for those that have the same. interval: false leaves
// out the interval of the step time where it takes several more simulations. parts_s: set to the seconds of a step that fits, by category.
SweepRow evaluate_scenario(const Scenario& scenario, bool whole_run = false, const Replan& replan = {}, ReadyPlans* kept = nullptr,
                           bool interval = true, ByEnum<Category, double, category_count>* parts_s = nullptr);
// The interval of the step time, of a prediction with shares_up_to = interval_shares.
void set_interval(SweepRow& row, const Prediction& prediction);
// Adds the figures of the scenario's "run" to a row that fits, on one thread. Throws as run_figures() does.
void add_run(SweepRow& row, const Scenario& scenario, const Prediction& prediction, const Replan& replan = {});
// Never throws: what goes wrong is in the row.
// kept: plans of the points before, for those that have the same (they differ in links, devices, disturbances).
SweepRow evaluate(const SweepPoint& point, std::int64_t index, const std::string& base_dir, ReadyPlans* kept = nullptr,
                  const Replans& replans = {});
// All points, those that may have one plan side by side; and how many of these stand together.
struct SweepOrder {
    std::vector<std::int64_t> points;
    std::int64_t alike = 1;
};
SweepOrder evaluation_order(const SweepDocument& document);
// Throws std::runtime_error where the file cannot be opened or written, or is not a sweep's.
SweepRun run_sweep(const SweepDocument& document, const std::string& database, const SweepRunOptions& options = {});

// Indices of the rows that fit, best first; equals in the order of the document.
std::vector<std::size_t> ranked(const SweepRun& run, RankBy by);

std::string to_csv(const SweepDocument& document, const SweepRun& run);
std::string to_json(const SweepDocument& document, const SweepRun& run, RankBy by);

} // namespace orrery
