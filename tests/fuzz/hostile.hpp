// Values that no job has, and documents with some of their values replaced by them.
#pragma once

#include "tests/fuzz/fuzz.hpp"

#include <nlohmann/json.hpp>

#include <cmath>
#include <cstdint>
#include <string>
#include <vector>

namespace orrery::fuzz {

using Json = nlohmann::json;

// A number, mostly: sizes to 2^62 and beyond, rates from 1e-308 to 1e308; at times another type or a text that steers terminals.
inline Json hostile_value(Random& r) {
    static const std::vector<Json> values = {0,
                                             -1,
                                             1,
                                             2,
                                             3,
                                             7,
                                             8,
                                             64,
                                             1000,
                                             65535,
                                             65536,
                                             1000000,
                                             2147483647,
                                             2147483648u,
                                             4294967296u,
                                             9007199254740993ll,
                                             4611686018427387904ll,
                                             9223372036854775807ll,
                                             18446744073709551615ull,
                                             -9223372036854775807ll,
                                             1e-308,
                                             1e-30,
                                             1e-12,
                                             1e-9,
                                             1e-6,
                                             1e-3,
                                             0.01,
                                             0.5,
                                             0.999,
                                             1.5,
                                             1e3,
                                             1e6,
                                             1e9,
                                             1e12,
                                             1e15,
                                             1e18,
                                             1e30,
                                             1e308,
                                             -1e-12,
                                             -0.5,
                                             "",
                                             "none",
                                             "x",
                                             "\x1b]0;owned\x07",
                                             "=1+1",
                                             "80GB",
                                             true,
                                             nullptr,
                                             Json::array(),
                                             Json::object(),
                                             Json::array({1, "x", nullptr}),
                                             Json::array({1e308, 1e308})};
    return values[r.next() % values.size()];
}

// Up to four leaves of the document replaced, or left out.
inline Json mutated(const Json& document, Random& r) {
    const Json flat = document.flatten();
    Json out = document;
    for (std::uint64_t n = 1 + r.next() % 4; n > 0 && !flat.empty(); --n) {
        const Json::json_pointer at(std::next(flat.begin(), static_cast<std::ptrdiff_t>(r.next() % flat.size())).key());
        if (at.empty() || !out.contains(at)) continue;
        if (r.chance(10) && out[at.parent_pointer()].is_object())
            out[at.parent_pointer()].erase(at.back());
        else if (r.chance(30) && out[at].is_number())
            out[at] = out[at].get<double>() * r.of({0.0, -1.0, 1e-9, 1e-3, 0.9, 1.1, 1e3, 1e9});
        else
            out[at] = hostile_value(r);
    }
    return out;
}

// A number of the scenario's schema, and its limits.
struct NumberField {
    std::string path;
    double least = 0, most = 0;
};

// Those of a part of the schema that stands at `path`; a cluster's graph apart.
inline void collect_numbers(const Json& schema, const std::string& path, std::vector<NumberField>& out) {
    if (schema.contains("anyOf"))
        for (const Json& one : schema["anyOf"]) collect_numbers(one, path, out);
    if (!schema.contains("properties")) {
        const std::string type = schema.value("type", "");
        if (type == "number" || type == "integer")
            out.push_back({path, schema.value("minimum", schema.value("exclusiveMinimum", 0.0)), schema.value("maximum", 1e18)});
        return;
    }
    for (const auto& [key, field] : schema["properties"].items())
        if (key != "graph") collect_numbers(field, path + "." + key, out);
}

// One to three fields set to a hostile value, or, as often as `percent` says, to one just inside their limits or beyond them.
inline std::vector<std::string> extreme_overrides(Random& r, const std::vector<NumberField>& fields, int percent) {
    std::vector<std::string> overrides;
    for (std::uint64_t n = 1 + r.next() % 3; n > 0; --n) {
        const NumberField& f = fields[r.next() % fields.size()];
        Json value = hostile_value(r);
        if (r.chance(percent)) value = r.of({f.least, f.least * 1.001, f.most, f.most * 0.999, f.least * 10 + 1, std::sqrt(f.most)});
        if (value.is_number_float() && value.get<double>() == std::floor(value.get<double>()) && std::abs(value.get<double>()) < 9e15)
            value = static_cast<std::int64_t>(value.get<double>());
        overrides.push_back(f.path + "=" + value.dump());
    }
    return overrides;
}

} // namespace orrery::fuzz
