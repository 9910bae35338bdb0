#include "gui/editor/field_specs.hpp"

#include "gui/editor/json_place.hpp"
#include "sim/scenario/schema.hpp"
#include "sim/schedules/schedule.hpp"

#include <nlohmann/json.hpp>

#include <algorithm>

namespace orrery {
namespace {

using Ordered = nlohmann::ordered_json;

FieldSpec spec_of(const std::string& key, const std::string& pointer, const Ordered& schema);

void add_fields(FieldSpec& spec, const Ordered& object) {
    const Ordered required = object.value("required", Ordered::array());
    for (const auto& [key, value] : object.at("properties").items()) {
        if (key.starts_with('$')) continue; // for editors of text
        FieldSpec child = spec_of(key, spec.pointer + "/" + escaped_step(key), value);
        child.required = std::find(required.begin(), required.end(), key) != required.end();
        spec.fields.push_back(std::move(child));
    }
}

// A name, an object that names one and overrides it, or other objects: the one with most fields is what a form can show.
void read_preset(FieldSpec& spec, const Ordered& alternatives) {
    spec.type = FieldType::preset;
    const Ordered* widest = nullptr;
    for (const Ordered& one : alternatives) {
        if (one.contains("examples")) spec.choices = one.at("examples").get<std::vector<std::string>>();
        if (one.contains("description")) spec.help = one.at("description");
        if (one.contains("properties") && (!widest || one.at("properties").size() > widest->at("properties").size())) widest = &one;
    }
    if (!widest) return;
    add_fields(spec, *widest);
    std::erase_if(spec.fields, [](const FieldSpec& f) { return f.key == "preset" || f.key == "hf_config"; });
    for (FieldSpec& f : spec.fields) f.required = false; // the preset has them
}

FieldType type_of(const Ordered& schema) {
    if (schema.contains("enum")) return FieldType::choice;
    const std::string type = schema.contains("type") && schema.at("type").is_string() ? schema.at("type").get<std::string>() : "";
    if (type == "integer") return FieldType::integer;
    if (type == "number") return FieldType::number;
    if (type == "boolean") return FieldType::boolean;
    if (type == "string") return FieldType::text;
    if (type == "object" && schema.contains("properties")) return FieldType::section;
    return FieldType::other;
}

FieldSpec spec_of(const std::string& key, const std::string& pointer, const Ordered& schema) {
    FieldSpec spec{key, pointer, schema.value("description", ""), type_of(schema)};
    if (schema.contains("anyOf")) {
        read_preset(spec, schema.at("anyOf"));
    } else if (schema.contains("oneOf")) { // names, or forms only text can have
        for (const Ordered& one : schema.at("oneOf"))
            if (one.contains("enum")) spec.choices = one.at("enum").get<std::vector<std::string>>();
    } else if (spec.type == FieldType::choice) {
        for (const Ordered& value : schema.at("enum")) spec.choices.push_back(value.is_string() ? value.get<std::string>() : value.dump());
    } else if (spec.type == FieldType::section) {
        add_fields(spec, schema);
    }
    for (const char* name : {"minimum", "exclusiveMinimum"})
        if (schema.contains(name)) spec.minimum = schema.at(name);
    for (const char* name : {"maximum", "exclusiveMaximum"})
        if (schema.contains(name)) spec.maximum = schema.at(name);
    return spec;
}

} // namespace

namespace {

FieldSpec* field_at(FieldSpec& root, const std::string& pointer) {
    for (FieldSpec& f : root.fields) {
        if (f.pointer == pointer) return &f;
        if (FieldSpec* inside = field_at(f, pointer)) return inside;
    }
    return nullptr;
}

// Schedules are a catalog of their own, which the schema does not list.
void name_schedules(FieldSpec& root) {
    FieldSpec* field = field_at(root, "/strategy/schedule");
    if (!field || field->type != FieldType::text) return;
    field->type = FieldType::choice;
    field->choices = {"none"};
    for (const ScheduleInfo& s : schedules())
        if (std::string(s.name) != "none") field->choices.emplace_back(s.name);
}

void add_examples(FieldSpec& root) {
    for (const FieldExample& e : field_examples()) {
        std::string pointer = "/" + std::string(e.field);
        std::replace(pointer.begin(), pointer.end(), '.', '/');
        FieldSpec* field = field_at(root, pointer);
        if (!field) continue; // inside a list
        field->example = e.example;
        field->usual = e.usual;
    }
}

} // namespace

FieldSpec scenario_spec() {
    FieldSpec root = spec_of("", "", Ordered::parse(scenario_schema()));
    name_schedules(root);
    add_examples(root);
    return root;
}

bool usual_is_value(const FieldSpec& spec) {
    if (spec.usual.empty()) return false;
    if (std::find(spec.choices.begin(), spec.choices.end(), spec.usual) != spec.choices.end()) return true;
    const Ordered value = Ordered::parse(spec.usual, nullptr, false);
    switch (spec.type) {
    case FieldType::integer:
        return value.is_number_integer();
    case FieldType::number:
        return value.is_number();
    case FieldType::boolean:
        return value.is_boolean();
    default:
        return false;
    }
}

} // namespace orrery
