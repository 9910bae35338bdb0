// The best strategy of a space, with a proof: points are simulated in the order of their bounds until the next bound is no better than the
// best simulated; what was left out cannot be better by the model. Results do not depend on the number of threads.
#pragma once

#include "sim/report/report.hpp"
#include "sim/search/space.hpp"
#include "sim/sweep/shard.hpp"
#include "sim/sweep/sweep.hpp"

#include <algorithm>
#include <functional>
#include <limits>
#include <optional>
#include <string>
#include <vector>

namespace orrery {

// The figure to make small. time: of a step. device_time: step time x devices (tokens a second and device). memory: the peak of the fullest
// stage. For a scenario with "run": goodput: its reciprocal; run_time, run_cost: of a trillion tokens that count in the end. For one with
// training.convergence: target_time, target_cost: of all steps to its target, without failures.
enum class SearchBy : std::uint8_t { time, device_time, cost, energy, memory, goodput, run_time, run_cost, target_time, target_cost };
const char* unit(SearchBy by);

struct SearchProgress {
    std::int64_t legal = 0, simulated = 0, left = 0; // left: points whose bound is still better than the best
    double best = 0;                                 // 0: none yet
    double lowest_left = 0;                          // bound of the points that were not looked at: none of them is better than this
    std::int64_t too_big = 0;                        // looked at, and they do not fit
    std::size_t listed = 0, to_list = 0;             // combinations of degrees, while the space is listed; 0: it is
};

struct SearchOptions {
    SpaceOptions space;
    SearchBy by = SearchBy::time;
    int top = 5;             // of these, each of other degrees, it is said where the time goes; 0: of none
    bool refine = true;      // layer split and recompute of single stages, from the best of each kind on (`top` of them)
    bool exhaustive = false; // simulate every legal point (tests compare)
    double gap = 0;          // enough: no other point can be more than this better than the best, as a fraction; 0: proven
    double ties = 0.02;      // points so near to the best are simulated too, as measured steps repeat no better
    std::int64_t most_ties = 16;
    std::size_t batch = 16;                                // points simulated side by side: what is simulated does not depend on threads
    double beat = std::numeric_limits<double>::infinity(); // points whose bound is no better than this score are left out
    std::string database;                                  // SQLite file of simulated points: a search that is stopped goes on; empty: none
    bool fresh = false;
    // Of every point that is simulated now; off: of those alone that are printed, which takes fewer simulations of short steps. A point
    // that the database knows stays as it is there.
    bool intervals = true;
    Reach reach = Reach::disk; // where nothing fits with all on the devices, homes as far as this are searched, the nearer ones first
    double within_days = 0;    // of the whole run, which the scenario must have: a point that takes longer is no answer; 0: no limit
    Shard shard{}; // these forms alone, dealt out by their hash: the databases of all shards together have all that one search needs
    // Rows of groups of points, computed elsewhere (sim/sweep/crew.hpp); null: on this process's threads.
    std::function<std::vector<std::vector<SweepRow>>(const std::vector<std::vector<std::string>>&)> elsewhere{};
    std::function<void(const SearchProgress&)> progress{}; // after each batch, and now and then while there is none
    // Asked by any thread before each piece of work, as space.go_on is, but not while the space is listed; false: stop with what there is.
    std::function<bool()> go_on{};
    // Asked before each point of a refinement, where a search that was stopped may still refine what it has; empty: as the search itself.
    std::function<bool()> refine_on{};
};

struct SearchCounts {
    std::int64_t legal = 0, simulated = 0, reused = 0;
    std::int64_t by_memory_bound = 0, by_memory = 0; // do not fit: by their bound; by their plan
    std::int64_t by_time_bound = 0;                  // cannot be better than the best
    std::int64_t by_deadline = 0, too_late = 0;      // do not end in time: by their bound; simulated
    std::int64_t failed = 0, left = 0;               // left: a stopped search did not come to them
    std::int64_t profiles = 0;                       // small plans that bounds were made from
    std::int64_t refined = 0, refinements = 0;       // strategies that were refined; points that were simulated for it
};

struct SearchPoint {
    PointId id;
    std::string json, kind; // kind: its degrees, "tensor 8 x pipeline 4 x data 2"
    std::string refined;    // what was changed against the uniform strategy it comes from; empty: nothing
    std::string limits;     // where its time goes: "compute 90 %, bubble 5 %"; of the best of each kind alone
    double bound = 0, score = 0;
    SweepRow row;
    ByEnum<Category, double, category_count> parts_s{}; // of a step; all 0: its row came without them, from a database or another process
    double cost_usd = 0, energy_j = 0;                  // of a step; 0: not known
};

struct SearchResult {
    std::vector<Problem> problems; // of the scenario or the space
    std::vector<std::string> free;
    std::map<std::string, std::int64_t> refused;
    SearchCounts counts;
    std::vector<SearchPoint> points;         // that fit, simulated, best score first
    std::vector<SearchPoint> refined;        // better than the leader: its refinements, and the best of other kinds'; best first
    Reach reach = Reach::devices;            // how far states and activations may lie in these points
    std::optional<SearchPoint> nearer_miss;  // the nearest miss with all of it nearer: nothing fitted there, so that this search followed
    std::optional<SearchPoint> nearest_miss; // where nothing fits: of the points whose plans were made, the one that lacks least
    std::optional<SearchPoint> nearest_late; // where nothing ends in time: the fastest that fits
    double within_days = 0;                  // the time that runs had; 0: no limit
    bool until_target = false;               // .. until the target of training.convergence
    Problem nearest_refusal;                 // where nothing is legal
    bool homes_open = true;                  // neither the scenario nor the space says where states and activations live
    bool empty_part = false;                 // a part of a space (SearchOptions::shard) to which none of its forms fell
    bool whole = true;                       // the space was enumerated before the search was stopped
    bool proven = false;                     // of points.front()
    bool near_enough = false;                // not proven, but within the gap that was asked for
    bool roomier_sought = false;             // the best is tight, and whatever could leave more within its interval was looked at
    std::vector<std::string> hints;          // a sentence each: what was not looked at, and may be better than the first
    std::string energy_basis;                // what energies count, where they rank (energy_of())
    std::string unproven;                    // why no bound holds, whatever was simulated; empty: they do
    double lowest_left = 0;                  // no point has a better score than this; the best's own: proven; 0: nothing is known
    // How much less than the best's the score of any other could be, as a fraction; 1: nothing is known.
    double gap() const { return points.empty() ? 1 : std::max(0.0, 1 - lowest_left / points.front().score); }
    double tightest = 0, loosest = 1, mean_tightness = 0; // bound / simulated, of what was simulated
};

// A point as the search has it, from its text alone; for whoever computes elsewhere.
SweepRow evaluate_text(const std::string& json, const SearchOptions& options, ReadyPlans& kept);

SearchResult search(std::string_view json_text, const SearchOptions& options);

} // namespace orrery
