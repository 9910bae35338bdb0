// Does a sweep expand to the combinations it says, in order, and reject those its constraints forbid?
#include "sim/scenario/sweep.hpp"

#include "sim/scenario/constraint.hpp"

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include <set>

using namespace orrery;

namespace {

const std::string base = R"({"name": "s", "model": "gpt2-124m", "cluster": {"preset": "dgx-h100", "nodes": 1},
    "training": {"global_batch_size": 64, "sequence_length": 1024}, )";

SweepDocument sweep(const std::string& rest) {
    SweepResult read = parse_sweep(base + rest + "}");
    EXPECT_TRUE(read.document) << to_text(read.problems);
    return std::move(read.document.value());
}

ConstraintAnswer ask(const std::string& text) {
    return evaluate_constraint(text, [](const std::string& pointer) {
        return pointer == "/a/b" ? std::optional<double>(6) : pointer == "/c" ? std::optional<double>(4) : std::nullopt;
    });
}

} // namespace

TEST(Sweep, EveryCombinationComesOnceTheLastAxisFastest) {
    const SweepDocument s = sweep(
        R"("sweep": {"/strategy/tensor_parallel": [1, 2], "/training/seed": [7], "/strategy/recompute": ["none", "full", ["norm"]]})");
    ASSERT_EQ(s.size(), 6);
    EXPECT_EQ(s.point(0).label, "tensor_parallel=1 recompute=none") << "what has one value is not said";
    EXPECT_EQ(s.point(1).label, "tensor_parallel=1 recompute=full");
    EXPECT_EQ(s.point(5).label, "tensor_parallel=2 recompute=[\"norm\"]");
    std::set<std::string> texts;
    for (std::int64_t i = 0; i < s.size(); ++i) texts.insert(s.point(i).json);
    EXPECT_EQ(texts.size(), 6u);
    const nlohmann::json last = nlohmann::json::parse(s.point(4).json);
    EXPECT_EQ(last["strategy"]["tensor_parallel"], 2);
    EXPECT_EQ(last["strategy"]["recompute"], "full");
    EXPECT_FALSE(last.contains("sweep"));
}

TEST(Sweep, APointIsAScenario) {
    const SweepDocument s = sweep(R"("sweep": {"/model/layers": [6, 12], "/cluster/nodes": [1, 2]})");
    for (std::int64_t i = 0; i < s.size(); ++i) {
        const ParseResult read = parse_scenario(s.point(i).json);
        ASSERT_TRUE(read.scenario) << s.point(i).json << to_text(read.problems);
        EXPECT_EQ(read.scenario->model.layers, i < 2 ? 6 : 12);
        EXPECT_EQ(read.scenario->cluster.nodes, 1 + i % 2);
        EXPECT_EQ(read.scenario->model.hidden_size, 768) << "the preset is kept under the override";
    }
}

TEST(Sweep, ConstraintsRejectAndSayWhich) {
    const SweepDocument s = sweep(R"("sweep": {"/strategy/tensor_parallel": [1, 2, 4], "/strategy/pipeline_parallel": [1, 2]},
        "constraints": ["/strategy/tensor_parallel * /strategy/pipeline_parallel <= 4"])");
    int rejected = 0;
    for (std::int64_t i = 0; i < s.size(); ++i) rejected += s.point(i).rejected.has_value();
    EXPECT_EQ(rejected, 1);
    EXPECT_EQ(s.point(5).rejected, "constraint: /strategy/tensor_parallel * /strategy/pipeline_parallel <= 4");
}

TEST(Sweep, ConstraintsOfNoFieldAreRefused) {
    const SweepResult read = parse_sweep(base + R"("sweep": {"/strategy/tensor_parallel": [1, 2]},
        "constraints": ["/strategy/tensor_paralel <= 4", "/cluster/nodes * /cluster/devices_per_nod >= 8", "1 <= /none"]})");
    ASSERT_EQ(read.problems.size(), 3u) << to_text(read.problems);
    EXPECT_EQ(read.problems[0].where, "/constraints/0");
    EXPECT_NE(read.problems[0].what.find("did you mean \"/strategy/tensor_parallel\"?"), std::string::npos) << read.problems[0].what;
    EXPECT_NE(read.problems[1].what.find("did you mean \"/cluster/devices_per_node\"?"), std::string::npos) << read.problems[1].what;
}

TEST(Sweep, ConstraintsKnowWhatAPresetSays) {
    const SweepDocument s = sweep(R"("sweep": {"/cluster/preset": ["dgx-h100", "gb200-nvl72"], "/model": ["gpt2-124m", "llama3-8b"],
        "/strategy/tensor_parallel": [4, 8]}, "constraints": ["/strategy/tensor_parallel <= /cluster/devices_per_node",
        "/model/layers / 4 == 8"])");
    const Scenario nvl = parse_scenario(s.point(7).json).scenario.value_or(Scenario{});
    for (std::int64_t i = 0; i < s.size(); ++i) {
        const bool llama = i / 2 % 2 == 1, wide = i >= 4 && i % 2 == 1 && nvl.cluster.devices_per_node < 8;
        EXPECT_EQ(s.point(i).rejected.has_value(), !llama || wide) << s.point(i).label << ": " << s.point(i).rejected.value_or("");
        if (s.point(i).rejected) { EXPECT_EQ(s.point(i).rejected->find("has no number"), std::string::npos) << *s.point(i).rejected; }
    }
}

TEST(Sweep, ManyCombinationsCostNothingUntilAsked) {
    std::string list = "[0";
    for (int i = 1; i < 100; ++i) list += ", " + std::to_string(i);
    list += "]";
    const SweepDocument s = sweep(R"("sweep": {"/training/seed": )" + list + R"(, "/training/warmup_steps": )" + list +
                                  R"(, "/training/learning_rate": )" + list + "}");
    EXPECT_EQ(s.size(), 1'000'000);
    EXPECT_EQ(s.point(999'999).label, "seed=99 warmup_steps=99 learning_rate=99");
}

TEST(Sweep, EveryProblemIsNamedAtOnce) {
    const SweepResult read = parse_sweep(
        base +
        R"("sweep": {"/strategy/tensor_paralel": [1], "training": [2], "/strategy/zero_stage": 3}, "constraints": ["/strategy/tensor_parallel <"]})");
    ASSERT_EQ(read.problems.size(), 4u) << to_text(read.problems);
    EXPECT_NE(read.problems[0].what.find("did you mean \"/strategy/tensor_parallel\"?"), std::string::npos) << read.problems[0].what;
}

SweepResult overridden(std::vector<std::string> overrides) {
    ParseOptions options;
    options.overrides = std::move(overrides);
    return parse_sweep(base + R"("sweep": {"/strategy/tensor_parallel": [1, 2, 4], "/strategy/zero_stage": [0, 1]}})", options);
}

TEST(Sweep, AnOverrideFixesTheFieldThatTheSweepVaries) {
    const SweepResult read = overridden({"strategy.tensor_parallel=2"});
    ASSERT_TRUE(read.document) << to_text(read.problems);
    ASSERT_EQ(read.document->size(), 2);
    EXPECT_EQ(read.document->point(1).label, "zero_stage=1");
    EXPECT_EQ(nlohmann::json::parse(read.document->point(1).json)["strategy"]["tensor_parallel"], 2);
    EXPECT_EQ(overridden({"/strategy/tensor_parallel=[2, 4]"}).document->size(), 2)
        << "a list is one value: the points say that it is wrong";
    EXPECT_EQ(overridden({"training.global_batch_size=64"}).document->size(), 6) << "not varied";
}

TEST(Sweep, OverridesWithoutEffectAreRefused) {
    EXPECT_NE(to_text(overridden({"sweep={}"}).problems).find("change them in the file"), std::string::npos);
    EXPECT_NE(to_text(overridden({"/constraints/0=1 < 2"}).problems).find("change them in the file"), std::string::npos);
    ParseOptions below;
    below.overrides = {"cluster.nodes=4"};
    const SweepResult read = parse_sweep(base + R"("sweep": {"/cluster": [{"preset": "dgx-h100"}]}})", below);
    EXPECT_NE(to_text(read.problems).find("it would have no effect"), std::string::npos) << to_text(read.problems);
}

TEST(Constraint, ArithmeticAndComparisonsMeanWhatTheySay) {
    EXPECT_TRUE(ask("/a/b * /c <= 24").holds);
    EXPECT_FALSE(ask("/a/b * /c < 24").holds);
    EXPECT_TRUE(ask("/a/b + 2 * /c == 14").holds);
    EXPECT_TRUE(ask("(/a/b + 2) * /c == 32").holds);
    EXPECT_TRUE(ask("/a/b / /c == 1.5").holds);
    EXPECT_TRUE(ask("/a/b % /c == 2").holds);
    EXPECT_TRUE(ask("-/c - 1 < -4").holds);
    EXPECT_TRUE(ask("/a/b != /c").holds);
    EXPECT_TRUE(ask("/a/b - 1 - 1 >= 4").holds);
}

TEST(Constraint, NonsenseIsSaidNotGuessed) {
    EXPECT_TRUE(ask("").syntax);
    EXPECT_TRUE(ask("1 <=").syntax);
    EXPECT_TRUE(ask("1 = 1").syntax);
    EXPECT_TRUE(ask("1 <= 2 <= 3").syntax);
    EXPECT_TRUE(ask("(1 <= 2").syntax);
    EXPECT_TRUE(ask(std::string(5000, '(')).syntax);
    EXPECT_TRUE(ask(std::string(5000, '-') + "1 < 2").syntax);
    EXPECT_FALSE(ask("/none <= 1").syntax);
    EXPECT_EQ(ask("/none <= 1").error, "/none has no number here");
}
