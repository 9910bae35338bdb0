// The branching of a search: sets of points, each with a bound from below of all its points' scores, split best bound first. Private to
// this room.
//
// A set is a form (bounded by its arithmetic alone), a form with a core (at first as its form, then priced by a small plan where nothing is
// recomputed), the same with a recomputation (by its own small plan), a point (with what data parallelism adds, and its memory), a point
// whose longest way was walked, and at last one whose transfers were laid on the links of its reductions. A set is split only where its
// bound is the lowest of all, so that most small plans, and the dearer bounds of most points, are never made.
#pragma once

#include "sim/search/bounds.hpp"
#include "sim/search/nearest.hpp"
#include "sim/search/objective.hpp"
#include "sim/search/workers.hpp"

#include <functional>
#include <limits>
#include <optional>
#include <vector>

namespace orrery {

class Branches {
  public:
    enum class Level : std::uint8_t { form, core, priced, recompute, point, walked, ready };
    struct Set {
        double bound = 0;  // of the score
        double step_s = 0; // of the step: the order of those whose bounds are the same
        PointId id;        // of its first point
        float filled = 0;  // share of a device's memory that a point needs at least; 0: not known yet
        Level level = Level::form;
        bool operator<(const Set& other) const { // the worse one, for a heap with the best on top
            if (bound != other.bound) return bound > other.bound;
            if (step_s != other.step_s) return step_s > other.step_s;
            return level != other.level ? level < other.level : id > other.id;
        }
    };
    struct Counts {
        std::int64_t by_memory_bound = 0, by_deadline = 0, profiles = 0, too_tight = 0;
        std::map<std::string, std::int64_t> refused; // by rules that look at all fields at once
        Misses misses;                               // of those whose bound says they do not fit
    };

    // exhaustive: no bounds, every set is split. go_on: asked by any thread; false: sets that are being split stay as they were.
    Branches(const StrategySpace& space, const std::vector<Objective>& objectives, SearchBy by, bool exhaustive, Workers& workers,
             std::function<bool()> go_on);

    bool empty() const { return heap_.empty(); }
    const Set& top() const { return heap_.front(); } // the lowest bound
    Set pop();
    void push(const Set& set);
    // Splits the best sets down to the first point that is ready, at most 64 of those whose bound is below `limit`, side by side: so many
    // whatever the number of threads.
    void split(double limit);
    // From now on a set whose bound of memory leaves less than that share of a device's is dropped: it is not what is looked for.
    void leave(double share) { left_ = share; }
    // A point whose plan leaves less, though its bound does not say so: it counts among those.
    void drop_tight() { ++counts_.too_tight; }
    // Points whose bound of memory leaves less than that share of a device's are put aside, from now on and of those there are; 0: all come
    // back. Sets are split as before: nothing is dropped.
    void prefer(double share);
    bool puts_aside() const { return !aside_.empty(); }
    // Of top(); infinity: there is none. lowest(): of what is put aside too.
    double lowest_open() const { return empty() ? std::numeric_limits<double>::infinity() : top().bound; }
    double lowest() const;
    // Takes up to `most` points out of their turn, at most one of each form: of those whose bound is below `limit` the best, those that
    // surely need little memory first.
    std::vector<Set> best_points(std::size_t most, double limit);
    std::int64_t points(double below = std::numeric_limits<double>::infinity()) const; // in all sets with a lower bound
    const Counts& counts() const { return counts_; }
    // Those that lack least by their bounds, of the points that were cut by these: for their plans to say which is the nearest.
    std::vector<Miss> nearest();

  private:
    struct Recompute {
        RecomputeKind kind;
        std::vector<RecomputeOp> ops;
        int segments, segment_layers;
        double budget;
    };
    struct Split {
        std::vector<Set> sets;
        Counts counts;
    };

    std::int64_t points_of(const Set& set) const;
    void keep(Split& split, const Set& set, bool late) const; // late: counts its points instead
    Split split_of(Worker& w, const Set& set);
    void split_form(Worker& w, const Set& set, Split& split);
    void price_core(Worker& w, const Set& set, Split& split);
    void split_core(Worker& w, const Set& set, Split& split);
    void split_recompute(Worker& w, const Set& set, Split& split);
    void sharpen_point(Worker& w, const Set& set, Split& split);
    double bound_of(Worker& w, const Scenario& s, std::size_t machine, bool recomputed);
    double least_memory(Worker& w, const Scenario& s, std::size_t machine);
    double memory_of(Worker& w, const Scenario& s, std::size_t machine);
    bool late(const Set& set, const Scenario& s, std::size_t machine) const;
    double score(double step_or_bytes, const Scenario& s, std::size_t machine) const;
    std::size_t machine_of(const PointId& id) const;

    const StrategySpace& space_;
    const std::vector<Objective>& objectives_;
    SearchBy by_;
    bool exhaustive_;
    Workers& workers_;
    std::function<bool()> go_on_;
    InFlight in_flight_;
    std::vector<std::unique_ptr<Profiles>> profiles_; // by machine
    std::vector<std::vector<Recompute>> recomputes_;  // by machine
    bool is_tight(const Set& set) const { return preferred_ > 0 && static_cast<double>(set.filled) > 1 - preferred_; }
    std::vector<Set> heap_, aside_;
    Counts counts_;
    double left_ = 0, preferred_ = 0;
};

} // namespace orrery
