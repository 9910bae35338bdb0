// The habits of software that starts runs again, as defaults of "run": each a field, a value and its source.
#pragma once

#include "sim/scenario/scenario.hpp"

#include <span>

namespace orrery {

struct RunDefault {
    RunPractice practice;
    const char* field; // "run.detect_s.hang"
    const char* value; // as JSON
    const char* source;
};
std::span<const RunDefault> run_defaults();

// The scenario, which has a run, with all of a practice's rows, whatever its run states.
Scenario with_practice(Scenario scenario, RunPractice practice);

} // namespace orrery
