// Reads JSON into a scenario by the field tables.
#include "sim/scenario/fields.hpp"
#include "sim/scenario/suggest.hpp"
#include "topology/text.hpp"

#include <nlohmann/json.hpp>

#include <algorithm>
#include <cmath>
#include <string_view>

namespace orrery {
namespace {

// "strategy.tensor_parallel" for messages: what the user writes after --set.
std::string spoken(const std::string& where) { return where.empty() ? "the file" : dotted(where); }

std::string limits(const Field& field) {
    const bool low = std::isfinite(field.minimum), high = field.maximum < 1e5; // a limit of plausibility is not worth a word
    std::string text;
    if (low) text = std::string(field.above_minimum ? "above " : "at least ") + plain_number(field.minimum);
    if (high) text += (low ? " and " : "") + ("at most " + plain_number(field.maximum));
    if (*field.unit != 0) text += std::string(" ") + field.unit;
    return text;
}

bool inside(double value, const Field& field) {
    return value <= field.maximum && (field.above_minimum ? value > field.minimum : value >= field.minimum);
}

void expected(Reading& reading, const Json& value, const std::string& where, const std::string& what) {
    reading.problem(where, spoken(where) + " = " + short_text(value) + " is " + type_name(value) + ": expected " + what);
}

bool number(Reading& reading, const Json& value, const std::string& where, const Field& field, bool whole, double& out) {
    if (!value.is_number()) return expected(reading, value, where, whole ? "a whole number" : "a number"), false;
    out = value.get<double>();
    if (whole && (out != std::floor(out) || std::abs(out) > 9e15)) {
        reading.problem(where, spoken(where) + " = " + short_text(value) + " must be a whole number");
        return false;
    }
    if (!inside(out, field)) {
        const bool absurd = out > field.maximum && field.maximum >= 1e5;
        reading.problem(where, spoken(where) + " = " + short_text(value) +
                                   (absurd ? " is too large: at most " + plain_number(field.maximum) : " must be " + limits(field)));
        return false;
    }
    return true;
}

bool text(Reading& reading, const Json& value, const std::string& where, const Field& field, std::string& out) {
    if (!value.is_string()) {
        expected(reading, value, where, field.choices.empty() ? "a text" : "one of " + join(field.choices));
        return false;
    }
    out = value.get<std::string>();
    if (field.choices.empty() && !is_name(out)) {
        reading.problem(where,
                        spoken(where) + " = " + short_text(value) + " holds a line break or another control character: leave it out");
        return false;
    }
    if (field.choices.empty() || std::find(field.choices.begin(), field.choices.end(), out) != field.choices.end()) return true;
    reading.problem(where, spoken(where) + " = " + short_text(value) + " is not known" +
                               did_you_mean_value(dotted(where), out, field.choices) + " It is one of " + join(field.choices));
    return false;
}

// One overload a kind of slot. Each puts the value where the slot points, or leaves a problem and false.
struct Put {
    Reading& reading;
    const Json& value;
    const std::string& where;
    const Field& field;

    bool operator()(IntSlot slot) const {
        double x = 0;
        if (!number(reading, value, where, field, true, x)) return false;
        if (std::abs(x) > 2'000'000'000.0)
            return reading.problem(where, spoken(where) + " = " + short_text(value) + " is too large"), false;
        *slot(reading.scenario) = static_cast<int>(x);
        return true;
    }
    bool operator()(LongSlot slot) const {
        double x = 0;
        if (!number(reading, value, where, field, true, x)) return false;
        *slot(reading.scenario) = static_cast<std::int64_t>(x);
        return true;
    }
    bool operator()(SeedSlot slot) const {
        if (value.is_number_unsigned()) return *slot(reading.scenario) = value.get<std::uint64_t>(), true;
        double x = 0;
        if (!number(reading, value, where, field, true, x)) return false;
        *slot(reading.scenario) = static_cast<std::uint64_t>(x);
        return true;
    }
    bool operator()(NumberSlot slot) const {
        double x = 0;
        if (!number(reading, value, where, field, false, x)) return false;
        *slot(reading.scenario) = x;
        return true;
    }
    bool operator()(ScaledSlot slot) const {
        double x = 0;
        if (!number(reading, value, where, field, false, x)) return false;
        slot(reading.scenario, x);
        return true;
    }
    bool operator()(BoolSlot slot) const {
        if (!value.is_boolean()) return expected(reading, value, where, "true or false"), false;
        *slot(reading.scenario) = value.get<bool>();
        return true;
    }
    bool operator()(TextSlot slot) const {
        std::string x;
        if (!text(reading, value, where, field, x)) return false;
        *slot(reading.scenario) = x;
        return true;
    }
    bool operator()(ChoiceSlot slot) const {
        std::string x;
        if (!text(reading, value, where, field, x)) return false;
        slot(reading.scenario, static_cast<int>(std::find(field.choices.begin(), field.choices.end(), x) - field.choices.begin()));
        return true;
    }
    bool operator()(const SectionSlot& slot) const {
        if (slot.word && value.is_string()) {
            const Fields& fields = slot.fields();
            return read_value(reading, value, where, *std::find_if(fields.begin(), fields.end(), [&](const Field& f) {
                                  return slot.word == std::string_view(f.key);
                              }));
        }
        if (!value.is_object()) return expected(reading, value, where, slot.word ? "a text or an object" : "an object"), false;
        slot.open(reading.scenario);
        const std::size_t before = reading.problems.size();
        read_object(reading, value, where, slot.fields());
        return reading.problems.size() == before;
    }
    bool operator()(CustomSlot slot) const {
        const std::size_t before = reading.problems.size();
        slot(reading, value, where);
        return reading.problems.size() == before;
    }
};

std::string unknown_short_name(const std::string& at, std::string_view key, std::string_view meant) {
    std::string text = spoken(at) + " is not a field: did you mean " + std::string(meant) + "?";
    const std::string_view remark = remark_on_short_name(key);
    return remark.empty() ? text : text + " " + std::string(remark);
}

// The section that has a field of this name; empty: none has.
std::string section_of(const std::string& key) {
    for (const auto& [section, fields] :
         {std::pair{"strategy", &strategy_fields()}, std::pair{"training", &training_fields()}, std::pair{"model", &model_fields()},
          std::pair{"runtime", &runtime_fields()}, std::pair{"cluster", &cluster_fields()}})
        if (std::ranges::any_of(*fields, [&](const Field& f) { return key == f.key; })) return section;
    return {};
}

void unknown_key(Reading& reading, const std::string& key, const std::string& where, const Fields& fields,
                 std::span<const char* const> skip) {
    std::vector<std::string> known;
    for (const Field& field : fields) known.emplace_back(field.key);
    for (const char* extra : skip) {
        if (std::find(known.begin(), known.end(), extra) == known.end()) known.emplace_back(extra);
    }
    const std::string at = where + pointer_step(key);
    if (const std::string_view meant = field_of_short_name(key); !meant.empty())
        return reading.problem(at, unknown_short_name(at, key, meant));
    if (const std::string elsewhere = section_of(key); !elsewhere.empty())
        return reading.problem(at, spoken(at) + " is not a field: did you mean " + elsewhere + "." + key + "?");
    const auto near = nearest(key, known);
    reading.problem(at, spoken(at) + " is not a field" + (near ? ": did you mean \"" + *near + "\"?" : ". Known here: " + join(known)));
}

} // namespace

std::string plain_number(double value) {
    if (value == std::floor(value) && std::abs(value) < 1e15) return std::to_string(static_cast<std::int64_t>(value));
    std::string text = std::to_string(value);
    while (text.ends_with('0')) text.pop_back();
    return text;
}

bool is_name(std::string_view text) { return is_printable(text) && text.find_first_of("\n\t") == std::string_view::npos; }

std::string dotted(std::string_view pointer) {
    std::string out;
    for (std::size_t i = 0; i < pointer.size(); ++i) {
        if (pointer[i] == '/' && i == 0) continue;
        if (pointer[i] == '~' && i + 1 < pointer.size())
            out += pointer[++i] == '1' ? '/' : '~';
        else
            out += pointer[i] == '/' ? '.' : pointer[i];
    }
    return out;
}

bool read_value(Reading& reading, const Json& value, const std::string& where, const Field& field) {
    return std::visit(Put{reading, value, where, field}, field.slot);
}

void read_object(Reading& reading, const Json& object, const std::string& where, const Fields& fields, std::span<const char* const> skip) {
    for (const auto& [key, value] : object.items()) {
        if (std::find(skip.begin(), skip.end(), std::string_view(key)) != skip.end()) continue;
        const auto field = std::find_if(fields.begin(), fields.end(), [&k = key](const Field& f) { return k == f.key; });
        if (field == fields.end()) {
            unknown_key(reading, key, where, fields, skip);
            continue;
        }
        reading.given.insert(where + pointer_step(key));
        read_value(reading, value, where + pointer_step(key), *field);
    }
    for (const Field& field : fields) {
        if (!field.required || object.contains(field.key)) continue;
        const std::string at = where + pointer_step(field.key);
        reading.problem(at, spoken(at) + " is missing: " + field.help);
    }
}

const Field* find_field(std::string_view path) {
    const Fields* fields = &scenario_fields();
    while (true) {
        const std::size_t dot = path.find('.');
        const std::string_view key = path.substr(0, dot);
        if (key == "model" && dot != std::string_view::npos)
            fields = &model_fields();
        else if (key == "cluster" && dot != std::string_view::npos)
            fields = &cluster_fields();
        else {
            const auto found = std::find_if(fields->begin(), fields->end(), [&](const Field& f) { return key == f.key; });
            if (found == fields->end()) return nullptr;
            if (dot == std::string_view::npos) return &*found;
            const auto* section = std::get_if<SectionSlot>(&found->slot);
            if (section == nullptr) return nullptr;
            fields = &section->fields();
        }
        path = path.substr(dot + 1);
    }
}

} // namespace orrery
