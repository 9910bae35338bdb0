// A user's own constants of the cost model: what `simrun fit TABLE -o FILE` writes and --calibration reads. The groups a file states
// replace the built-in ones of its device, or of the networks it names, in the predictions of every scenario that carries it
// (Scenario::constants). Two scenarios of one process may have different ones.
#pragma once

#include "sim/cost/calibration.hpp"

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

    const std::string& text() const; // of all files, concatenated: predictions depend on it
    // The devices of those that no prediction was for; none where nothing was predicted.
    std::vector<std::string> not_asked_for() const;

    void replace_groups(KernelTables& tables, const std::string& device) const; // marks the device as asked for
    std::optional<FabricTable> fabric_of(const Cluster& cluster) const;         // the last one that names its kind and its NICs' rate

  private:
    struct Data;
    std::unique_ptr<Data> data_;
};

} // namespace orrery
