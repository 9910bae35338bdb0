// A user's own constants of the cost model: what `simrun fit TABLE -o FILE` and `simrun learn ROWS -o FILE` write and --calibration reads.
// The groups a file of fit states replace the built-in ones of its device, or of the networks it names, in the predictions of every
// scenario that carries it (Scenario::constants); what was learned scales those of its stack on its device. Two scenarios of one process
// may have different ones.
#pragma once

#include "sim/cost/calibration.hpp"
#include "sim/cost/learned.hpp"

#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace orrery {

class OwnConstants {
  public:
    OwnConstants();
    ~OwnConstants();

    // A file's text: an object, or a list of them. Throws std::runtime_error: what is wrong. Call it before other threads read this.
    void add(const std::string& json_text);

    void copy_to(OwnConstants& other) const; // adds all of this to it
    const std::string& text() const;         // of all files, concatenated: predictions depend on it
    // The devices (and stacks) of those that no prediction was for; none where nothing was predicted.
    std::vector<std::string> not_asked_for() const;

    void replace_groups(KernelTables& tables, const std::string& device) const; // marks the device as asked for
    // Lessons for this stack on this device, the last file's; marks it as asked for. Null: nothing.
    const LearnedConstants* learned_for(const Device& device, Stack stack) const;
    bool holds_learned() const;
    std::optional<FabricTable> fabric_of(const Cluster& cluster) const; // the last one that names its kind and its NICs' rate

  private:
    struct Data;
    std::unique_ptr<Data> data_;
};

// The same of a scenario's constants; null where it has none.
const LearnedConstants* learned_for(const Scenario& scenario);

// A factor on the time of kernels that move bytes, in the software of the stacks named, on several devices, whose steps take longer than
// the kernels that are counted. The cause is not known (copies and casts around buckets and shards are supposed, and kernels compiled less
// well than the best). It is fitted to the runs of all sources that no other constant was fitted to (uncounted_by() of
// sim/report/error_bar.hpp; the source in scenarios/calibration/pointwise.json).
struct Uncounted {
    double memory = 1; // at least 1
    std::vector<Stack> stacks;
    Source source;
};
const Uncounted& uncounted();
// no_factors for other stacks, for software without it (leaves_uncounted() of sim/scenario/uncounted.hpp), for one device alone (few such
// runs are known, and they are not too fast), for a processor, and where the first kind of nodes has kernels that were measured.
CostFactors uncounted_of(const Scenario& scenario);
// `memory` times as long where it is a kernel of the device that moves bytes (not an optimizer's step on the host).
Time with_uncounted(Time duration, const Work& work, double memory);

} // namespace orrery
