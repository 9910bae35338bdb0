// From a point of a search to its figures, which a database may hold from before. Private to this room.
#pragma once

#include "sim/search/objective.hpp"
#include "sim/search/refine.hpp"
#include "sim/search/search.hpp"
#include "sim/search/workers.hpp"
#include "sim/sweep/store.hpp"

#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace orrery {

std::string hash_of(const std::string& json, const ParseOptions& parsing); // the key of a point's results

class Evaluator {
  public:
    // Throws std::runtime_error where the database cannot be opened.
    Evaluator(const StrategySpace& space, const std::vector<Objective>& objectives, const SearchOptions& options);

    // row.index is -1 where it is new. For any number of threads, each with its own worker.
    SearchPoint point(Worker& w, const PointId& id, double bound) const;
    // A point with other layers a chunk, and other layers recomputed; impossible where a rule refuses it.
    SearchPoint refined(const SearchPoint& from, const Refinement& change) const;
    std::optional<Scenario> scenario(const SearchPoint& point) const; // of its text, refined ones too
    // Whether the point's plan leaves that share of a device's memory.
    bool leaves(Worker& w, const PointId& id, double share) const;
    // Bytes that a point's node lacks of its memory and its NVMe, by its plan.
    std::int64_t lacks_on_node(Worker& w, const PointId& id) const;
    // The rows of points that are not known, in groups: computed elsewhere, for point() to find.
    void fetch(const std::vector<std::vector<PointId>>& groups);
    // The interval of its step time, where it was left out.
    void say_interval(SearchPoint& point) const;
    void keep(const std::vector<SearchPoint>& points); // those that are new, into the database
    std::string kind(const Scenario& s) const;         // SearchPoint::kind, but for fields that a space's file adds

  private:
    std::string further(const Scenario& s) const;       // what tells points of unlike devices and batches apart
    void name(SearchPoint& p, const Scenario& s) const; // its kind and label
    const StrategySpace& space_;
    const std::vector<Objective>& objectives_;
    const SearchOptions& options_;
    std::unique_ptr<SweepStore> store_;
    std::map<std::string, SweepRow> known_, fetched_;
    const SweepRow* known(const std::string& hash, const std::string& json) const;
    bool name_devices_ = false;        // the machines have different ones
    std::vector<std::string> further_; // fields that vary and are named by key and value
};

} // namespace orrery
