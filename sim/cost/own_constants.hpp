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

} // namespace orrery
