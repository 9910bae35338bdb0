// Did any output change? Every scenario of scenarios/ against expected/: its report as text and, where it is tiny, its plan.
// UPDATE_GOLDEN=1 rewrites the expected files, for review.
#include "sim/plan/lower.hpp"
#include "sim/report/report.hpp"
#include "sim/scenario/parse.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <sstream>

namespace orrery {
namespace {

namespace fs = std::filesystem;

const fs::path& folder() {
    static const fs::path path = fs::path(ORRERY_SOURCE_DIR) / "tests" / "golden";
    return path;
}

std::string slurp(const fs::path& path) {
    std::ifstream in(path, std::ios::binary);
    std::stringstream text;
    text << in.rdbuf();
    return text.str();
}

// The first line that differs, with the one before it: enough to see what changed without the whole text.
std::string first_difference(const std::string& expected, const std::string& actual) {
    std::stringstream a(expected), b(actual);
    std::string x, y;
    for (int line = 1;; ++line) {
        const bool more_a = static_cast<bool>(std::getline(a, x)), more_b = static_cast<bool>(std::getline(b, y));
        if (!more_a && !more_b) return "no line differs";
        if (more_a != more_b || x != y)
            return "line " + std::to_string(line) + "\n  expected: " + (more_a ? x : "(end)") + "\n  actual:   " + (more_b ? y : "(end)");
    }
}

void compare(const std::string& name, const std::string& actual) {
    const fs::path path = folder() / "expected" / name;
    if (std::getenv("UPDATE_GOLDEN") != nullptr) {
        std::ofstream(path, std::ios::binary) << actual;
        return;
    }
    ASSERT_TRUE(fs::exists(path)) << path << " is missing: UPDATE_GOLDEN=1 makes it";
    const std::string expected = slurp(path);
    EXPECT_TRUE(expected == actual) << name << " changed at " << first_difference(expected, actual)
                                    << "\nUPDATE_GOLDEN=1 rewrites it, for review";
}

std::vector<std::string> scenario_names() {
    std::vector<std::string> names;
    for (const auto& entry : fs::directory_iterator(folder() / "scenarios")) names.push_back(entry.path().stem().string());
    std::sort(names.begin(), names.end());
    return names;
}

class Golden : public testing::TestWithParam<std::string> {
  protected:
    Scenario scenario() const {
        const ParseResult r = load_scenario((folder() / "scenarios" / (GetParam() + ".json")).string());
        EXPECT_TRUE(r.problems.empty()) << to_text(r.problems);
        return r.scenario.value();
    }
};

TEST_P(Golden, Report) {
    const Scenario s = scenario();
    PredictOptions with_cache; // as simrun prints it
    with_cache.cache = CacheOf::all;
    Report report = predict(s, with_cache).report;
    report.error_bar = {}; // changes with every row that is validated
    compare(GetParam() + ".report.txt", to_text(report, s, {false, 100, false}));
}

TEST_P(Golden, Plan) {
    const Scenario s = scenario();
    if (s.model.layers > 4) GTEST_SKIP() << "too long to read";
    compare(GetParam() + ".plan.txt", to_text(lower(s)));
}

TEST_P(Golden, PlanIsTheSameEveryTime) { EXPECT_EQ(hash(lower(scenario())), hash(lower(scenario()))); }

INSTANTIATE_TEST_SUITE_P(Scenarios, Golden, testing::ValuesIn(scenario_names()), [](const auto& i) {
    std::string name = i.param;
    std::replace_if(
        name.begin(), name.end(), [](char c) { return c == '-' || c == '.'; }, '_');
    return name;
});

} // namespace
} // namespace orrery
