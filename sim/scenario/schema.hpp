// The JSON Schema of scenarios and sweeps, for editors and `simrun schema`, from the same table of fields the reader uses.
#pragma once

#include <span>
#include <string>

namespace orrery {

std::string scenario_schema(); // draft 2020-12, indented

// The same fields as Markdown tables, one a section: type, limits, unit, example, defaults by framework, meaning (scenarios/REFERENCE.md).
std::string field_reference();

// An example of a field, as --set takes it; usual: its default where no framework has one, "" where the table of frameworks or the type
// says it. (examples.cpp)
struct FieldExample {
    const char *field, *example, *usual;
};
std::span<const FieldExample> field_examples();

} // namespace orrery
