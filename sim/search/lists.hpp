// The values of each group of fields that a machine's points are made of. Private to this room.
#pragma once

#include "sim/search/space.hpp"

#include <map>
#include <string>
#include <vector>

namespace orrery {

using SpaceFile = std::map<std::string, std::vector<std::string>>; // JSON pointer -> values as JSON text

class Lists {
  public:
    // Adds every setting that any list may use: none is added later.
    Lists(Variations& variations, const SpaceFile& space, const SpaceOptions& options);

    // Tensor, pipeline, context, expert and expert-tensor degrees: all combinations, or where few are asked for the usual ones of a large
    // space, of a small one none.
    std::vector<Settings> degrees() const;
    std::vector<GroupValue> micro_batches(const Scenario& shape) const; // divisors of the sequences of a data-parallel rank
    std::vector<GroupValue> schedules(const Scenario& shape) const;     // with the chunks a stage that each can have
    std::vector<GroupValue> cores(const Scenario& shape) const; // sequence parallelism, kind of context parallelism, dispatcher, overlap
    std::vector<GroupValue> rests(const Scenario& shape) const; // ZeRO stage with its group and homes, compression, rank order
    std::vector<GroupValue> recomputes() const;
    bool has_others() const { return !others_.empty(); } // fields that only the space's file names
    // Whether neither the scenario nor the space's file says anything of a section of the strategy.
    bool open(const std::string& section) const;
    bool homes_open() const;               // of where states and activations live
    bool free_homes() const;               // some may be elsewhere than on the devices
    std::vector<std::string> free() const; // "tensor_parallel: 1, 2, 4, 8"

  private:
    bool fixed(const std::string& pointer) const { return variations_.given(pointer) && !space_.contains(pointer); }
    // Values of a field: the space's own, else `usual`; none where the scenario fixes it.
    std::vector<std::string> values(const std::string& pointer, std::vector<std::string> usual) const;
    int id(const std::string& pointer, const std::string& value) const;
    std::vector<GroupValue> axis(const std::string& pointer, const std::vector<std::string>& usual) const;
    // Of several values the first alone where few are asked for.
    std::vector<GroupValue> first_of(std::vector<GroupValue> values) const;
    std::vector<Settings> usual(const std::vector<Settings>& degrees) const;
    // A degree among settings, or else the scenario's own.
    int degree(const Settings& settings, const std::string& pointer, int own) const;
    // Whether the same degrees are listed without the name of expert_tensor_parallel as well.
    bool twice(const Settings& settings) const;
    std::vector<GroupValue> overlaps(const Scenario& shape) const;
    std::string free_overlaps() const; // in words; empty: all are stated
    std::vector<GroupValue> homes(const Scenario& shape) const;
    std::vector<GroupValue> compressions() const;
    // Stages of ZeRO with the homes that each can have.
    std::vector<GroupValue> shardings(const Scenario& shape) const;

    const Variations& variations_;
    const SpaceFile& space_;
    const SpaceOptions& options_;
    std::vector<std::vector<GroupValue>> degrees_;
    std::map<std::pair<std::string, std::string>, int> ids_;
    std::vector<std::string> others_; // pointers of the space that no group has
};

std::vector<std::int64_t> divisors(std::int64_t n);
// Each of the first with each of the second; settings and words side by side.
std::vector<GroupValue> product(const std::vector<GroupValue>& a, const std::vector<GroupValue>& b);

} // namespace orrery
