// Does the JSON Schema say the same as the parser? A validator of the few keywords the schema uses judges good and bad scenarios.
#include "sim/scenario/schema.hpp"

#include "sim/scenario/parse.hpp"

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <regex>
#include <sstream>

using nlohmann::json;
namespace fs = std::filesystem;

namespace {

bool has_type(const json& value, const std::string& type) {
    if (type == "integer") return value.is_number() && value.get<double>() == std::floor(value.get<double>());
    if (type == "number") return value.is_number();
    if (type == "string") return value.is_string();
    if (type == "boolean") return value.is_boolean();
    if (type == "array") return value.is_array();
    return value.is_object();
}

bool valid(const json& schema, const json& value);

bool valid_object(const json& schema, const json& value) {
    const json properties = schema.value("properties", json::object());
    for (const auto& key : schema.value("required", json::array()))
        if (!value.contains(key.get<std::string>())) return false;
    for (const auto& [key, item] : value.items()) {
        if (properties.contains(key)) {
            if (!valid(properties[key], item)) return false;
        } else if (schema.contains("additionalProperties")) {
            if (schema["additionalProperties"] == false) return false;
            if (schema["additionalProperties"].is_object() && !valid(schema["additionalProperties"], item)) return false;
        }
    }
    return true;
}

bool valid(const json& schema, const json& value) {
    const auto any = [&](const char* key) {
        return std::count_if(schema[key].begin(), schema[key].end(), [&](const json& s) { return valid(s, value); });
    };
    if (schema.contains("anyOf") && any("anyOf") == 0) return false;
    if (schema.contains("oneOf") && any("oneOf") != 1) return false;
    if (schema.contains("type") && !has_type(value, schema["type"])) return false;
    if (schema.contains("enum") && std::find(schema["enum"].begin(), schema["enum"].end(), value) == schema["enum"].end()) return false;
    if (schema.contains("pattern") && !std::regex_search(value.get<std::string>(), std::regex(schema["pattern"].get<std::string>())))
        return false;
    if (schema.contains("minimum") && value.get<double>() < schema["minimum"].get<double>()) return false;
    if (schema.contains("exclusiveMinimum") && value.get<double>() <= schema["exclusiveMinimum"].get<double>()) return false;
    if (schema.contains("maximum") && value.get<double>() > schema["maximum"].get<double>()) return false;
    if (value.is_object()) return valid_object(schema, value);
    if (value.is_array() && schema.contains("items"))
        return std::all_of(value.begin(), value.end(), [&](const json& item) { return valid(schema["items"], item); });
    return true;
}

json read(const fs::path& path) {
    std::ifstream stream(path);
    return json::parse(stream);
}

// Pointers of the fields whose limits hold no value between them.
std::vector<std::string> without_values(const json& schema, const std::string& path) {
    std::vector<std::string> found;
    if (schema.contains("maximum")) {
        const double most = schema["maximum"].get<double>(), least = schema.value("minimum", schema.value("exclusiveMinimum", -INFINITY));
        if (most < least || (most == least && schema.contains("exclusiveMinimum"))) found.push_back(path);
    }
    if (schema.is_structured())
        for (const auto& [key, part] : schema.items())
            for (std::string& more : without_values(part, path + "/" + key)) found.push_back(std::move(more));
    return found;
}

} // namespace

TEST(Schema, LimitsHoldValues) {
    EXPECT_EQ(without_values(json::parse(orrery::scenario_schema()), ""), std::vector<std::string>{});
    EXPECT_EQ(without_values(json::parse(R"({"a": {"minimum": 2, "maximum": 1}})"), ""), std::vector<std::string>{"/a"});
}

TEST(Schema, AcceptsEveryScenarioTheParserAccepts) {
    const json schema = json::parse(orrery::scenario_schema());
    EXPECT_EQ(schema["$schema"], "https://json-schema.org/draft/2020-12/schema");
    for (const char* folder : {"/scenarios", "/scenarios/validation"}) {
        if (!fs::exists(std::string(ORRERY_SOURCE_DIR) + folder)) continue;
        for (const auto& file : fs::directory_iterator(std::string(ORRERY_SOURCE_DIR) + folder)) {
            if (file.path().extension() != ".json") continue;
            const json document = read(file.path());
            if (!document.contains("rows")) {
                EXPECT_TRUE(valid(schema, document)) << file.path();
                continue;
            }
            for (const auto& row : document["rows"]) {
                if (!row.contains("scenario")) continue;
                EXPECT_TRUE(valid(schema, row["scenario"])) << file.path() << " " << row.value("name", "");
            }
        }
    }
}

TEST(Schema, RefusesWhatTheParserRefusesForFormAlone) {
    const json schema = json::parse(orrery::scenario_schema());
    const json good = read(ORRERY_SOURCE_DIR "/scenarios/llama3-405b-16k-h100.json");
    ASSERT_TRUE(valid(schema, good));
    const std::pair<const char*, json> wrong[] = {
        {"/strategy/tensor_paralel", 8},
        {"/strategy/tensor_parallel", "8"},
        {"/strategy/zero_stage", -1},
        {"/strategy/recompute", "some"},
        {"/training/precision", "bf61"},
        {"/training/global_batch_size", 1.5},
        {"/strategy/overlap", true},
        {"/cluster/nodes", 0},
        {"/model", 7},
        {"/strategy/framework", "megatrn"},
        {"/perturb", {{{"slo", 2}}}},
    };
    for (const auto& [pointer, value] : wrong) {
        json bad = good;
        bad[json::json_pointer(pointer)] = value;
        EXPECT_FALSE(valid(schema, bad)) << pointer;
        EXPECT_FALSE(orrery::parse_scenario(bad.dump()).scenario) << pointer;
    }
    for (const char* section : {"model", "cluster", "training"}) {
        json bad = good;
        bad.erase(section);
        EXPECT_FALSE(valid(schema, bad)) << section;
        EXPECT_FALSE(orrery::parse_scenario(bad.dump()).scenario) << section;
    }
}

TEST(Reference, IsTheCommittedPage) {
    const fs::path page = ORRERY_SOURCE_DIR "/scenarios/REFERENCE.md";
    if (std::getenv("UPDATE_GOLDEN") != nullptr) std::ofstream(page, std::ios::binary) << orrery::field_reference();
    std::stringstream committed;
    committed << std::ifstream(page, std::ios::binary).rdbuf();
    EXPECT_EQ(orrery::field_reference(), committed.str()) << "simrun schema --markdown -o scenarios/REFERENCE.md writes it anew";
}

TEST(Reference, NamesEveryFieldOfTheSchema) {
    const std::string page = orrery::field_reference();
    const json schema = json::parse(orrery::scenario_schema());
    for (const char* section : {"training", "strategy", "runtime"})
        for (const auto& [key, field] : schema["properties"][section]["properties"].items())
            EXPECT_NE(page.find("| `" + key + "` |"), std::string::npos) << section << "." << key;
}
