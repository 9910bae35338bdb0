// The one table of a scenario's fields: key, type, limits, unit, help, and where in a Scenario the value goes. The reader, the JSON Schema,
// framework defaults and the suggestions for misspelt keys all come from it. Private to this room.
#pragma once

#include "sim/scenario/json_text.hpp"
#include "sim/scenario/scenario.hpp"

#include <nlohmann/json_fwd.hpp>

#include <limits>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

namespace orrery {

// Pointers begin alike: their lengths tell most of them apart.
struct ByLength {
    using is_transparent = void;
    bool operator()(std::string_view a, std::string_view b) const { return a.size() != b.size() ? a.size() < b.size() : a < b; }
};
using Pointers = std::set<std::string, ByLength>;

// The state while a file is read. `given` holds the pointers of the fields the user wrote.
struct Reading {
    Scenario scenario;
    std::vector<Problem> problems;
    Pointers given;
    ParseOptions options;
    std::vector<int> layer_split;              // as written; resolved in layers.cpp
    std::string run_of_cluster;                // cluster.run as JSON; "": the cluster says nothing
    std::string rank_order = "tp-cp-ep-dp-pp"; // as written; resolved in check.cpp
    bool notes_defaults = true;                // false: scenario.defaults is left alone
    std::int64_t loads_of = -1;                // sequence length that an untrained router's loads were made for; -1: none yet

    bool has(std::string_view pointer) const { return given.contains(pointer); }
    void problem(std::string where, std::string what) { problems.push_back({std::move(where), std::move(what)}); }
};

struct Field;
using Fields = std::vector<Field>;

using IntSlot = int* (*)(Scenario&);
using LongSlot = std::int64_t* (*)(Scenario&);
using SeedSlot = std::uint64_t* (*)(Scenario&);
using NumberSlot = double* (*)(Scenario&);
using BoolSlot = bool* (*)(Scenario&);
using TextSlot = std::string* (*)(Scenario&);
using ChoiceSlot = void (*)(Scenario&, int index);    // index into Field::choices
using ScaledSlot = void (*)(Scenario&, double value); // a number with a unit that goes into a strong type
struct SectionSlot {
    const Fields& (*fields)();
    void (*open)(Scenario&);
    const char* word = nullptr; // a text in place of the object is this field of it
};
using CustomSlot = void (*)(Reading&, const Json&, const std::string& where);
using Slot = std::variant<IntSlot, LongSlot, SeedSlot, NumberSlot, BoolSlot, TextSlot, ChoiceSlot, ScaledSlot, SectionSlot, CustomSlot>;

struct Field {
    const char* key;
    Slot slot;
    const char* help;
    std::vector<std::string> choices{}; // texts allowed (for ChoiceSlot and TextSlot)
    double minimum = -std::numeric_limits<double>::infinity();
    double maximum = std::numeric_limits<double>::infinity();
    bool above_minimum = false; // the minimum itself is not allowed
    const char* unit = "";
    bool required = false;
    const char* schema = ""; // for CustomSlot: its JSON Schema

    Field&& least(double m) && {
        minimum = m;
        return std::move(*this);
    }
    Field&& most(double m) && {
        maximum = m;
        return std::move(*this);
    }
    Field&& over(double m) && {
        minimum = m;
        above_minimum = true;
        return std::move(*this);
    }
    Field&& in(const char* u) && {
        unit = u;
        return std::move(*this);
    }
    Field&& needed() && {
        required = true;
        return std::move(*this);
    }
    Field&& like(const char* s) && {
        schema = s;
        return std::move(*this);
    }
    Field&& one_of(std::vector<std::string> c) && {
        choices = std::move(c);
        return std::move(*this);
    }
};

// A field that chooses a value of an enum by its word (words.hpp): choice<&Scenario::training, &Training::optimizer>("optimizer", help).
template <auto section, auto member> Field choice(const char* key, const char* help) {
    using E = std::remove_reference_t<decltype(std::declval<Scenario&>().*section.*member)>;
    return Field{key, ChoiceSlot{[](Scenario& s, int i) { s.*section.*member = static_cast<E>(i); }}, help}.one_of(words<E>());
}

template <auto section, auto member, auto inner> Field choice(const char* key, const char* help) {
    using E = std::remove_reference_t<decltype(std::declval<Scenario&>().*section.*member.*inner)>;
    return Field{key, ChoiceSlot{[](Scenario& s, int i) { s.*section.*member.*inner = static_cast<E>(i); }}, help}.one_of(words<E>());
}

const Fields& scenario_fields();
const Fields& model_fields();
const Fields& attention_fields();
const Fields& moe_fields();
const Fields& federated_fields();
const Fields& lora_fields();
const Fields& trainable_fields();
const Fields& training_fields();
const Fields& strategy_fields();
const Fields& overlap_fields();
const Fields& offload_fields();
const Fields& compression_fields();
const Fields& synchronization_fields();
const Fields& runtime_fields();
const Fields& cluster_fields();
const Fields& device_fields();
const Fields& intra_fields();
const Fields& inter_fields();
const Fields& host_fields();

// Reads every key of `object` by the table; unknown keys, wrong types and values out of limits become problems. `where` is the object's
// pointer. Keys in `skip` belong to someone else (preset, nodes of a graph ..).
void read_object(Reading& reading, const Json& object, const std::string& where, const Fields& fields,
                 std::span<const char* const> skip = {});

// One value by its field; false where it was a problem.
bool read_value(Reading& reading, const Json& value, const std::string& where, const Field& field);

// The choices of a field that something is built for: not those that unsupported() refuses whatever the rest of the scenario.
std::vector<std::string> offered_choices(const Field& field);

// The field "strategy.overlap.pipeline" of the scenario's tables, or nullptr.
const Field* find_field(std::string_view dotted);
std::string dotted(std::string_view pointer); // "/strategy/overlap/pipeline" -> "strategy.overlap.pipeline"
bool is_name(std::string_view text);          // without control characters: it may be printed
std::string plain_number(double value);       // without an exponent or trailing zeros: "0.001", "1000000"

// Fields with a form of their own (custom.cpp).
void read_layer_split(Reading&, const Json&, const std::string& where);
void read_offload_ops(Reading&, const Json&, const std::string& where);
void read_lora_targets(Reading&, const Json&, const std::string& where);
void read_samples(Reading&, const Json&, const std::string& where);
void read_clients(Reading&, const Json&, const std::string& where); // federated_text.cpp
void read_frozen(Reading&, const Json&, const std::string& where);
void read_rank_order(Reading&, const Json&, const std::string& where);
void read_recompute(Reading&, const Json&, const std::string& where);
void read_recompute_layers(Reading&, const Json&, const std::string& where);
void read_imbalance(Reading&, const Json&, const std::string& where);
void read_bucket_bytes(Reading&, const Json&, const std::string& where);
void read_perturbations(Reading&, const Json&, const std::string& where);
void read_model(Reading&, const Json&, const std::string& where);   // model_text.cpp
void read_cluster(Reading&, const Json&, const std::string& where); // cluster_text.cpp
void read_device(Reading&, const Json&, const std::string& where);
void read_graph(Reading&, const Json&, const std::string& where); // graph_text.cpp
void read_down(Reading&, const Json&, const std::string& where);  // network_text.cpp
void read_other_nodes(Reading&, const Json&, const std::string& where);
void read_peak(Reading&, const Json&, const std::string& where);
void read_kernels(Reading&, const Json&, const std::string& where);
void ignore(Reading&, const Json&, const std::string& where);

} // namespace orrery
