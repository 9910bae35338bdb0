// `simrun schema`: the JSON Schema of scenarios, for editors.
#include "sim/scenario/schema.hpp"

#include "sim/simrun/command.hpp"

namespace orrery::simrun {

int run_schema(const Options& options) { return deliver(scenario_schema(), options) ? done : bad_input; }

} // namespace orrery::simrun
