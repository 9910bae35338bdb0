// The strategies to choose from: the fields that a scenario leaves free, in groups, so that nothing meaningless multiplies (a kind of
// context parallelism only where there is any). Legal is what the checker of sim/scenario accepts.
//
// A point is a form (degrees, micro batch, schedule: what decides how many layers and microbatches a stage has), a core (what else
// decides the time of a layer), a recompute and a rest (sharding and rank order, which decide communication once a step).
#pragma once

#include "sim/scenario/homes.hpp"
#include "sim/scenario/variations.hpp"

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace orrery {

struct SpaceOptions {
    ParseOptions parsing;
    std::string space; // JSON text: {JSON pointer: list of values}; a field named here has these values alone; empty: as usual
    // Homes of states and activations from the nearest to the farthest, where neither the scenario nor the space says where they are.
    Reach nearest = Reach::devices, farthest = Reach::devices;
    bool compression = false; // of gradients, which changes the numbers: as the framework has it
    int jobs = 0;             // threads; 0: all cores
    bool apart = false;       // what is legal is worked out for each micro batch, never taken over from another one (tests compare)
    bool few = false;         // of a large space, the points that large jobs usually have, which take a moment to list; of a small one none
    std::function<bool()> go_on{};
    std::function<void(std::size_t listed, std::size_t all)> listing{}; // combinations of degrees; called by one thread
};

using Settings = std::vector<int>; // of Variations

struct GroupValue { // one value of a group of fields
    Settings settings;
    std::string word; // "recompute full", for people
    bool operator==(const GroupValue&) const = default;
};

// Values of a group, which forms share that have the same ones.
class Choices {
  public:
    Choices() = default;
    explicit Choices(std::vector<GroupValue> values) : values_(std::make_shared<const std::vector<GroupValue>>(std::move(values))) {}
    bool empty() const { return size() == 0; }
    std::size_t size() const { return values_ ? values_->size() : 0; }
    const GroupValue& operator[](std::size_t i) const { return (*values_)[i]; }
    const GroupValue& front() const { return values_->front(); }
    bool operator==(const Choices& other) const {
        return values_ == other.values_ || (size() == other.size() && (empty() || *values_ == *other.values_));
    }

  private:
    std::shared_ptr<const std::vector<GroupValue>> values_;
};

// The degrees and counts of a form.
struct FormShape {
    int tensor = 1, context = 1, pipeline = 1;
    int least_layers = 0; // of its chunks
    std::int64_t micro_batch = 1, microbatches = 1;
    const char* schedule = ""; // of the catalog
    bool operator==(const FormShape&) const = default;
};

struct Form {
    std::int32_t machine = 0;
    Settings settings;
    FormShape shape;
    Choices cores; // legal with `settings`
    Choices rests; // legal with `settings` and the first core
};

// One cluster, model and framework: what cannot vary in place.
struct SpaceMachine {
    Variations variations;
    std::string label; // "nodes=16"; empty where there is one machine
    std::vector<GroupValue> recomputes;
};

struct StrategySpace {
    std::vector<SpaceMachine> machines;
    std::vector<Form> forms;                     // by machine, degrees, micro batch, schedule: the order does not depend on threads
    std::vector<std::string> free;               // fields that vary: "tensor_parallel (1, 2, 4, 8)"
    std::map<std::string, std::int64_t> refused; // combinations that a rule refuses, by the rule's field; each before what follows from it
    std::vector<Problem> problems;               // of the scenario or the space; with any, the rest is empty
    Problem nearest;                             // of a refused combination, where there is no legal point
    bool cores_change_work = false;              // the space names fields that a form's arithmetic may depend on
    bool steps_differ = false;                   // .. in how many tokens they have: the space names batches or lengths of sequences
    bool homes_open = false;                     // neither the scenario nor the space says where states and activations live
    bool synchronization_open = false;           // .. nor anything of this section
    bool compression_open = false;               // .. and of gradient_compression
    bool may_leave = false;                      // points may have something elsewhere than on the devices
    std::int64_t legal() const;                  // points
};

StrategySpace make_space(std::string_view json_text, const SpaceOptions& options);

// A point's place in the space.
struct PointId {
    std::int32_t form = 0, core = 0, recompute = 0, rest = 0;
    friend auto operator<=>(const PointId&, const PointId&) = default;
};
Settings settings_of(const StrategySpace& space, const PointId& id);
// The place in `space` of a point of a part of it, which was made from the same text; nothing: it is not there.
std::optional<PointId> same_point(const StrategySpace& space, const StrategySpace& part, const PointId& id);
std::string json_of(const StrategySpace& space, const PointId& id); // the scenario's text

} // namespace orrery
