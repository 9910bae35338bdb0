// The recipe, in the order parse.hpp states.
#include "sim/scenario/parse.hpp"

#include "sim/scenario/fields.hpp"
#include "sim/scenario/perturb.hpp"
#include "sim/scenario/resolve.hpp"

#include <nlohmann/json.hpp>

#include <algorithm>
#include <filesystem>

namespace orrery {
// The sections in the order they build on each other; the table's order is the reader's.
void read_sections(Reading& reading, const Json& document) {
    const auto section = [&](const char* key) {
        const auto value = document.find(key);
        if (value == document.end()) return;
        reading.given.insert(pointer_step(key));
        read_value(reading, *value, pointer_step(key), *find_field(key));
    };
    section("model");
    section("cluster");
    apply_framework_defaults(reading, document);
    apply_run_defaults(reading, document);
    for (const char* key : {"training", "strategy", "runtime", "run", "federated", "perturb", "name"}) section(key);
    // Keys that are none of these, and sections that are missing.
    static constexpr const char* done[] = {"model", "cluster", "training", "strategy", "runtime", "run", "federated", "perturb", "name"};
    read_object(reading, document, "", scenario_fields(), done);
}

namespace {

void drop_repeated(std::vector<Problem>& problems) {
    std::vector<Problem> once;
    for (Problem& p : problems)
        if (std::find(once.begin(), once.end(), p) == once.end()) once.push_back(std::move(p));
    problems = std::move(once);
}

} // namespace

ParseResult parse_scenario(std::string_view json_text, const ParseOptions& options) {
    Reading reading;
    reading.options = options;
    reading.scenario.constants = options.constants;
    Json document = read_json(json_text, reading.problems);
    if (reading.problems.empty() && !document.is_object())
        reading.problem("", "the file holds " + type_name(document) +
                                ": a scenario is an object, {\"model\": .., \"cluster\": .., \"training\": ..}");
    if (reading.problems.empty() && document.contains("sweep"))
        reading.problem("/sweep", "this is a sweep, not one scenario: it is run as a whole, or leave \"sweep\" out");
    if (reading.problems.empty())
        for (const std::string& text : options.overrides) apply_override(document, text, reading.problems);
    if (reading.problems.empty()) {
        read_sections(reading, document);
        resolve_derived(reading);
        check_combinations(reading);
        if (reading.problems.empty()) note_without_effect(reading);
        if (reading.problems.empty()) apply_to_cluster(reading.scenario);
    }
    drop_repeated(reading.problems);
    ParseResult result;
    result.problems = std::move(reading.problems);
    if (!result.problems.empty()) return result;
    if (reading.scenario.name.empty())
        reading.scenario.name = reading.scenario.model.name + " on " + std::to_string(reading.scenario.world_size()) + " x " +
                                reading.scenario.cluster.device.name;
    result.scenario = std::move(reading.scenario);
    return result;
}

ParseResult load_scenario(const std::string& path, const std::vector<std::string>& overrides,
                          std::shared_ptr<const OwnConstants> constants) {
    std::string text;
    if (!read_file(path, text)) return {std::nullopt, {{"", "cannot read " + path}}};
    ParseOptions options;
    options.base_dir = std::filesystem::path(path).parent_path().string();
    options.overrides = overrides;
    options.constants = std::move(constants);
    return parse_scenario(text, options);
}

std::string to_text(const std::vector<Problem>& problems) {
    std::string text;
    for (const Problem& p : problems) text += (p.where.empty() ? "" : p.where + ": ") + p.what + "\n";
    return text;
}

} // namespace orrery
