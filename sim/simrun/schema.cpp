// `simrun schema`: the JSON Schema of scenarios, for editors, or the field reference for people.
#include "sim/scenario/schema.hpp"

#include "sim/simrun/command.hpp"

namespace orrery::simrun {

int run_schema(const Options& options, bool markdown) {
    return deliver(markdown ? field_reference() : scenario_schema(), options) ? done : bad_input;
}

} // namespace orrery::simrun
