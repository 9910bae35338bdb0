// The JSON Schema of scenarios and sweeps, for editors and `simrun schema`, from the same table of fields the reader uses.
#pragma once

#include <string>

namespace orrery {

std::string scenario_schema(); // draft 2020-12, indented

} // namespace orrery
