// The JSON Schema of scenarios and sweeps, for editors and `simrun schema`, from the same table of fields the reader uses.
#pragma once

#include <string>

namespace orrery {

std::string scenario_schema(); // draft 2020-12, indented

// The same fields as Markdown tables, one a section: type, limits, unit, defaults by framework, meaning (scenarios/REFERENCE.md).
std::string field_reference();

} // namespace orrery
