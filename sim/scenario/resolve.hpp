// The steps between reading and the finished scenario. Private to this room; parse.cpp calls them in this order.
#pragma once

#include "sim/scenario/fields.hpp"

#include <cstdint>
#include <initializer_list>
#include <string>
#include <string_view>

namespace orrery {

// A field and its value, as problems name them: "pipeline_parallel = 4".
inline std::string eq(const char* field, std::int64_t value) { return std::string(field) + " = " + std::to_string(value); }

// Every section of a scenario's document, in the order they build on each other; the framework's defaults on the way.
void read_sections(Reading& reading, const Json& document);

// Before training, strategy and runtime are read: puts the table's defaults of the framework and year the text names (or the usual ones) in
// place.
void apply_framework_defaults(Reading& reading, const Json& document);

// Before run is read: what its practice and the cluster say of it (run_practice.cpp).
void apply_run_defaults(Reading& reading, const Json& document);

// After reading: what follows from other fields. Bucket sizes, gradient dtype, schedule, data_parallel, kernels, layers of chunks.
void resolve_derived(Reading& reading);

// Combinations that cannot be (check.cpp), each skipped where a field it needs is already a problem.
void check_combinations(Reading& reading);

void check_travel(Reading& reading);          // check_travel.cpp
void check_trainable(Reading& reading);       // check_trainable.cpp
void check_synchronization(Reading& reading); // check_synchronization.cpp
void check_offload(Reading& reading);         // check_offload.cpp

// training.optimizer_in_backward (check_in_backward.cpp).
void resolve_in_backward(Reading& reading);
void check_in_backward(Reading& reading);

// training.optimizer = muon (check_muon.cpp).
void resolve_muon(Reading& reading);
void check_muon(Reading& reading);

// Schedules whose steps flow into each other (check_asynchronous.cpp).
bool asynchronous_schedule(const Strategy& s);
void resolve_asynchronous(Reading& reading);
void check_asynchronous(Reading& reading);

void check_federated(Reading& reading); // federated_text.cpp

// Scenarios that would take more memory to simulate than a workstation has, or hold more bytes than can be counted (bounds.cpp).
void check_bounds(Reading& reading);

// Notes of a field that the user gave and that does nothing here.
class Notes {
  public:
    explicit Notes(Reading& reading) : reading_(reading) {}
    void operator()(std::string_view pointer, bool idle, std::string_view why) const {
        if (idle && reading_.has(pointer)) reading_.scenario.notes.push_back(dotted(pointer).append(" has no effect: ").append(why));
    }

  private:
    Reading& reading_;
};

// Fields given that do nothing here, into scenario.notes (notes.cpp). The second is a part of the first: families of fields
// (notes_idle.cpp).
void note_without_effect(Reading& reading);
void note_idle(Reading& reading);

// True where none of these pointers (or what is below them) has a problem yet.
bool sound(const Reading& reading, std::initializer_list<const char*> pointers);

std::string pointer_of(std::string_view dotted); // "run.detect_s.hang" -> "/run/detect_s/hang"

// Remembers where a value that the user did not give is from.
void note_default(Reading& reading, std::string_view pointer, std::string_view value, std::string_view source);

} // namespace orrery
