// What a planner does: change one thing for the better, look at the difference. Over random pairs no improvement makes a step slower.
#include "sim/report/report.hpp"
#include "sim/scenario/parse.hpp"
#include "tests/laws/whatif.hpp"

#include <gtest/gtest.h>

#include <cstdlib>
#include <map>
#include <optional>

namespace orrery::laws {
namespace {

constexpr double tolerance = 0.002; // of the step: orders of events that change by chance

std::optional<double> step(const Json& scenario, std::string& why) {
    const ParseResult parsed = parse_scenario(scenario.dump(), {});
    if (!parsed.scenario) return why = to_text(parsed.problems), std::nullopt;
    PredictOptions options;
    options.verify = false;
    return predict(*parsed.scenario, options).report.step_time_s;
}

const Anomaly* known(const Pair& pair, double slower) {
    const std::string text = pair.worse.dump();
    for (const Anomaly& a : known_anomalies())
        if (pair.improvement.find(a.improvement) != std::string::npos && text.find(a.scenario) != std::string::npos && slower <= a.most)
            return &a;
    return nullptr;
}

// ORRERY_PAIRS: how many, for a longer look; ORRERY_SEED: other ones.
std::uint64_t from_environment(const char* name, std::uint64_t otherwise) {
    const char* text = std::getenv(name);
    return text != nullptr ? std::strtoull(text, nullptr, 10) : otherwise;
}

TEST(WhatIfLaws, NoImprovementMakesAStepSlower) {
    const std::uint64_t pairs = from_environment("ORRERY_PAIRS", 2000), seed = from_environment("ORRERY_SEED", 1);
    std::map<std::string, int> seen;
    int refused = 0, faster = 0;
    for (std::uint64_t i = 0; i < pairs; ++i) {
        Random random(seed * 1'000'003 + i);
        const Pair pair = random_pair(random);
        std::string why;
        const auto worse = step(pair.worse, why), better = worse ? step(pair.better, why) : std::nullopt;
        if (!better) {
            ++refused;
            if (std::getenv("ORRERY_SHOW_REFUSED") != nullptr) std::printf("%s\n", why.c_str());
            continue;
        }
        ++seen[pair.improvement.substr(0, pair.improvement.find(':'))];
        faster += *better < *worse;
        const double slower = *better / *worse - 1;
        if (slower > tolerance && known(pair, slower) == nullptr)
            ADD_FAILURE() << "pair " << i << ": " << pair.improvement << " makes it slower by " << slower * 100 << " %: " << *worse
                          << " -> " << *better << " s\n"
                          << pair.worse.dump() << "\n"
                          << pair.better.dump();
    }
    // A test that compares nothing cannot fail: most pairs are legal, and a good part of the improvements is felt.
    EXPECT_LT(refused, 0.35 * static_cast<double>(pairs));
    EXPECT_GT(faster, 0.35 * static_cast<double>(pairs));
    RecordProperty("refused", refused);
    RecordProperty("faster", faster);
    for (const auto& [improvement, n] : seen) RecordProperty(improvement, n);
    if (pairs >= 1000) { EXPECT_GE(seen.size(), 20u); }
}

} // namespace
} // namespace orrery::laws
