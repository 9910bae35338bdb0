// The fields a scenario may have, as a tree a form can be made of: read from the scenario's JSON Schema, so that a new field of the
// parser is a new row of the form. No Qt here.
#pragma once

#include <limits>
#include <string>
#include <vector>

namespace orrery {

// section: an object with fields of its own. preset: a name, or an object with "preset" and fields that override it.
enum class FieldType { section, preset, integer, number, boolean, choice, text, other };

struct FieldSpec {
    std::string key, pointer, help;
    FieldType type = FieldType::other;
    std::vector<std::string> choices{}; // of a choice all there are; of a preset the names known
    double minimum = -std::numeric_limits<double>::infinity(), maximum = std::numeric_limits<double>::infinity();
    bool required = false;
    // As the field reference has them. usual: the default where no framework has one; a value, or words ("pipeline_parallel").
    std::string example{}, usual{};
    std::vector<FieldSpec> fields{}; // of a section or preset
};

// The whole scenario: its fields in the order of the format.
FieldSpec scenario_spec();

// Whether the usual default is a value of the field's type, no words.
bool usual_is_value(const FieldSpec& spec);

} // namespace orrery
