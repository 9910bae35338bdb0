// To state what is so anyway says nothing new: a field given at its resolved default changes no bit of a prediction.
#include "sim/report/report.hpp"
#include "sim/scenario/parse.hpp"
#include "sim/scenario/schema.hpp"
#include "tests/laws/whatif.hpp"

#include <gtest/gtest.h>

#include <map>

namespace orrery::laws {
namespace {

struct Stated {
    std::string pointer;
    Json value;
};

// "64" is a number and "ring" a word; "hidden_size / attention_heads" is neither.
std::optional<Json> value_of(const std::string& text) {
    if (text.empty() || text.find_first_of(" ;:,") != std::string::npos) return {};
    const Json value = Json::parse(text, nullptr, false);
    return value.is_discarded() ? Json(text) : value;
}

// What the software's defaults came to, and the constants of the field table, where the scenario has what they belong to.
std::vector<Stated> defaults_of(const Scenario& s, const Json& text) {
    std::vector<Stated> out;
    std::map<std::string, Json> known;
    for (const FieldExample& e : field_examples()) {
        std::string pointer = "/" + std::string(e.field);
        std::replace(pointer.begin(), pointer.end(), '.', '/');
        if (const auto value = value_of(e.usual)) known[pointer] = *value;
    }
    for (const auto& [pointer, told] : s.defaults)
        if (const auto value = value_of(told.substr(0, told.find(": ")))) known[pointer] = *value;
    for (const auto& [pointer, value] : known) {
        const Json::json_pointer at(pointer);
        const std::string parent = at.parent_pointer().to_string();
        const bool there = text.contains(at.parent_pointer()) || parent == "/strategy/overlap" || parent == "/runtime";
        if (there && !text.contains(at) && text[at.parent_pointer()].is_object()) out.push_back({pointer, value});
    }
    return out;
}

Report report_of(const Scenario& s, const Json& text) {
    try {
        return predict(s).report;
    } catch (const std::exception& e) {
        ADD_FAILURE() << e.what() << "\n" << text.dump();
        return {};
    }
}

TEST(DefaultsLaws, AFieldStatedAtItsDefaultChangesNothing) {
    const std::uint64_t jobs = from_environment("ORRERY_JOBS", 120), seed = from_environment("ORRERY_SEED", 1);
    std::map<std::string, int> stated, refused;
    for (std::uint64_t i = 0; i < jobs; ++i) {
        Random random(seed * 3'000'017 + i);
        Json text = random_pair(random).worse;
        for (const char* section : {"runtime", "strategy"})
            if (!text.contains(section)) text[section] = Json::object();
        if (!text["strategy"].contains("overlap")) text["strategy"]["overlap"] = Json::object();
        const ParseResult parsed = parse_scenario(text.dump(), {});
        if (!parsed.scenario) continue;
        const Report before = report_of(*parsed.scenario, text);
        if (before.memory.stages.empty()) continue;
        std::vector<Stated> all = defaults_of(*parsed.scenario, text);
        std::shuffle(all.begin(), all.end(), random);
        for (std::size_t k = 0; k < std::min<std::size_t>(all.size(), 12); ++k) {
            Json more = text;
            more[Json::json_pointer(all[k].pointer)] = all[k].value;
            const ParseResult again = parse_scenario(more.dump(), {});
            if (!again.scenario) {
                refused[all[k].pointer] += !all[k].value.is_string(); // a word may name another field: "attention_heads"
                continue;
            }
            ++stated[all[k].pointer];
            const Report after = report_of(*again.scenario, more);
            if (after.memory.stages.empty()) continue;
            EXPECT_TRUE(after.step_time_s == before.step_time_s && fullest(after.memory).peak == fullest(before.memory).peak &&
                        after.breakdown_s == before.breakdown_s && after.energy_j == before.energy_j)
                << all[k].pointer << " = " << all[k].value << ": " << before.step_time_s << " and " << after.step_time_s << " s, "
                << fullest(before.memory).peak.count << " and " << fullest(after.memory).peak.count << " bytes\n"
                << text.dump();
        }
    }
    EXPECT_GT(stated.size(), 60u);
    for (const auto& [pointer, n] : refused) EXPECT_TRUE(n == 0 || stated[pointer] > 0) << pointer << " is refused at its default";
}

} // namespace
} // namespace orrery::laws
