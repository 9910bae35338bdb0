// See schema.hpp. Preset names are listed as examples, not as an enum: a path or a name of a later version is no error to an editor.
#include "sim/scenario/schema.hpp"

#include "sim/scenario/fields.hpp"
#include "sim/scenario/model_text.hpp"
#include "sim/schedules/schedule.hpp"
#include "topology/catalog.hpp"

#include <nlohmann/json.hpp>

#include <cmath>

namespace orrery {
namespace {

using Ordered = nlohmann::ordered_json;

Ordered object_schema(const Fields& fields, bool needs_required);

struct TypeOf {
    const Field& field;
    bool needs_required; // sections of a preset may say one field of theirs
    Ordered operator()(IntSlot) const { return {{"type", "integer"}}; }
    Ordered operator()(LongSlot) const { return {{"type", "integer"}}; }
    Ordered operator()(SeedSlot) const { return {{"type", "integer"}}; }
    Ordered operator()(NumberSlot) const { return {{"type", "number"}}; }
    Ordered operator()(ScaledSlot) const { return {{"type", "number"}}; }
    Ordered operator()(BoolSlot) const { return {{"type", "boolean"}}; }
    Ordered operator()(TextSlot) const { return field.choices.empty() ? Ordered{{"type", "string"}} : Ordered{{"enum", field.choices}}; }
    Ordered operator()(ChoiceSlot) const { return {{"enum", offered_choices(field)}}; }
    Ordered operator()(const SectionSlot& section) const {
        Ordered object = object_schema(section.fields(), needs_required);
        if (!section.word) return object;
        const Ordered word = {{"enum", object.at("properties").at(section.word).at("enum")}};
        return {{"oneOf", {word, object}}};
    }
    Ordered operator()(CustomSlot) const { return *field.schema != 0 ? Ordered::parse(field.schema) : Ordered::object(); }
};

// Whole numbers without a fraction, as long as 64 bits hold them.
Ordered number(double x) { return x == std::floor(x) && std::abs(x) < 9e18 ? Ordered(static_cast<std::int64_t>(x)) : Ordered(x); }

Ordered field_schema(const Field& field, bool needs_required) {
    Ordered schema = std::visit(TypeOf{field, needs_required}, field.slot);
    if (std::isfinite(field.minimum) && schema.contains("type"))
        schema[field.above_minimum ? "exclusiveMinimum" : "minimum"] = number(field.minimum);
    if (std::isfinite(field.maximum) && schema.contains("type")) schema["maximum"] = number(field.maximum);
    std::string help = field.help;
    if (*field.unit != 0) help += std::string(" [") + field.unit + "]";
    schema["description"] = help;
    return schema;
}

Ordered object_schema(const Fields& fields, bool needs_required) {
    Ordered schema = {{"type", "object"}, {"properties", Ordered::object()}};
    std::vector<std::string> required;
    for (const Field& field : fields) {
        schema["properties"][field.key] = field_schema(field, needs_required);
        if (field.required) required.emplace_back(field.key);
    }
    if (needs_required && !required.empty()) schema["required"] = required;
    schema["additionalProperties"] = false;
    return schema;
}

Ordered name_schema(const char* what, const std::vector<std::string>& names) {
    return {{"type", "string"}, {"description", what}, {"examples", names}};
}

// A preset's name, a preset with overrides, or the fields themselves.
Ordered model_schema() {
    Ordered whole = object_schema(model_fields(), true), preset = object_schema(model_fields(), false), imported = preset;
    preset["properties"]["preset"] = name_schema("the preset the other fields override", model_names());
    preset["required"] = {"preset"};
    imported["properties"]["hf_config"] = {{"type", "string"}, {"description", "path of a Hugging Face config.json"}};
    imported["required"] = {"hf_config"};
    return {{"anyOf", {name_schema("a model's name", model_names()), preset, imported, whole}}};
}

Ordered device_schema() {
    Ordered preset = object_schema(device_fields(), false);
    preset["properties"]["preset"] = name_schema("the preset the other fields override", device_names());
    return {{"anyOf", {name_schema("a device's name", device_names()), preset}}};
}

Ordered graph_schema() {
    return Ordered::parse(R"({"type":"object","properties":{
      "vertices":{"type":"array","items":{"type":"object","properties":{"name":{"type":"string"},"kind":{"enum":["device","nic","switch","host"]},"node":{"type":"integer","minimum":0}},
        "required":["name","kind"],"additionalProperties":false}},
      "links":{"type":"array","items":{"type":"object","properties":{"from":{"type":"string"},"to":{"type":"string"},"gb_per_s":{"type":"number","minimum":0.001,"maximum":1000000},
        "gbit_per_s":{"type":"number","minimum":0.001,"maximum":10000000},"latency_us":{"type":"number","minimum":0,"maximum":1000000},"duplex":{"type":"boolean"}},"required":["from","to"],"additionalProperties":false}}},
      "required":["vertices","links"],"additionalProperties":false})");
}

Ordered cluster_schema() {
    Ordered fields = object_schema(cluster_fields(), false);
    fields["properties"]["preset"] = name_schema("the preset the other fields override", cluster_names());
    fields["properties"]["device"] = device_schema();
    fields["properties"]["graph"] = graph_schema();
    return {{"anyOf", {name_schema("a cluster's name, or the path of a JSON file that holds one", cluster_names()), fields}}};
}

Ordered perturb_schema() {
    return Ordered::parse(R"({"type":"array","items":{"type":"object","properties":{
      "slow":{"type":"number","minimum":0.001,"maximum":1000000,"description":"how many times slower"},"rank":{"type":"integer","minimum":0},"node":{"type":"integer","minimum":0},
      "link":{"type":"string","description":"a link's name, or a class: nic, scale_up, trunk"},
      "jitter":{"type":"number","minimum":0.000001,"maximum":2,"description":"standard deviation of kernel times, as a share"},
      "background":{"type":"number","minimum":0.000001,"maximum":0.999,"description":"share of a link class that other jobs take"}},
      "additionalProperties":false}})");
}

} // namespace

std::string scenario_schema() {
    Ordered schema = {{"$schema", "https://json-schema.org/draft/2020-12/schema"},
                      {"title", "Orrery scenario"},
                      {"description", "A model, a cluster, a training run and a strategy; with \"sweep\", many of them"}};
    Ordered body = object_schema(scenario_fields(), true);
    auto& properties = body["properties"];
    properties["model"] = model_schema();
    properties["cluster"] = cluster_schema();
    properties["perturb"] = perturb_schema();
    properties["strategy"]["properties"]["schedule"]["enum"] = schedule_names();
    properties["sweep"] = {{"type", "object"},
                           {"description", "JSON pointer -> list of values: every combination is one scenario"},
                           {"propertyNames", {{"pattern", "^/"}}},
                           {"additionalProperties", {{"type", "array"}, {"minItems", 1}}}};
    properties["constraints"] = {
        {"type", "array"}, {"items", {{"type", "string"}}}, {"description", "combinations that break one are kept with their reason"}};
    schema.update(body);
    return schema.dump(2);
}

} // namespace orrery
