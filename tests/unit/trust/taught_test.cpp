// Do a few measured steps move predictions as far as they should, and no further?
#include "sim/cost/own_constants.hpp"
#include "sim/report/report.hpp"
#include "sim/scenario/parse.hpp"
#include "sim/trust/beliefs.hpp"
#include "sim/validate/validate.hpp"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include <cmath>

namespace orrery {
namespace {

const char* const job = R"({"name": "small", "model": "gpt3-1.3b", "cluster": {"preset": "dgx-a100-80gb", "nodes": 1},
    "training": {"global_batch_size": 64, "micro_batch_size": 1, "sequence_length": 2048, "precision": "bf16"},
    "strategy": {"framework": "megatron", "tensor_parallel": 2}})";

Scenario parsed(const std::shared_ptr<const OwnConstants>& constants = nullptr, const std::string& text = job) {
    ParseOptions options;
    options.constants = constants;
    return parse_scenario(text, options).scenario.value();
}

Lesson of_products(double off) {
    Lesson l;
    l.shares[CostGroup::products] = 0.6;
    l.shares[CostGroup::memory] = 0.4;
    l.off = off;
    return l;
}

TEST(Taught, OneStepMovesLittleThreeThatAgreeMoveMost) {
    const std::vector<Lesson> one{of_products(0.3)}, three(3, of_products(0.3));
    const CostShares shares = one[0].shares;
    const double first = expected_off(taught_by(one).beliefs, shares), then = expected_off(taught_by(three).beliefs, shares);
    EXPECT_GT(first, 0.05);
    EXPECT_LT(first, 0.25);
    EXPECT_GT(then, 0.25);
    EXPECT_LT(then, 0.3);
    EXPECT_LT(taught_by(three).noise, taught_by(one).noise) << "three that agree are no odd ones";
}

TEST(Taught, StepsThatContradictEachOtherTeachLittleAndSaySo) {
    const std::vector<Lesson> apart{of_products(0.3), of_products(-0.3), of_products(0.25), of_products(-0.2)};
    const Taught t = taught_by(apart);
    EXPECT_LT(std::abs(expected_off(t.beliefs, apart[0].shares)), 0.05);
    EXPECT_GT(t.noise, 0.1);
}

// Few readings are as noisy as one in twelve may be: the interval holds four in five, not what the variance of all would hold.
TEST(Taught, NoiseIsThatOfFourReadingsInFive) {
    const double before = taught_by(std::span<const Lesson>{}).noise;
    EXPECT_GT(before, 0.05);
    EXPECT_LT(before, 0.1) << "the root of its variance is 0.17";
    EXPECT_GT(taught_by(std::vector{of_products(0.5), of_products(-0.5), of_products(0)}).noise, 2 * before);
}

TEST(Taught, NothingLearnedIsNothingChanged) {
    EXPECT_EQ(expected_off(taught_by(std::span<const Lesson>{}).beliefs, of_products(0).shares), 0);
    EXPECT_EQ(expected_off(taught_by(std::span<const MemoryLesson>{}).beliefs, 0.5), 0);
}

TEST(Taught, MemoryMovesWithWhatComesAndGoes) {
    const std::vector<MemoryLesson> rows(3, {0.7, 0.14});
    const MemoryTaught t = taught_by(rows);
    EXPECT_NEAR(expected_off(t.beliefs, 0.7), 0.14, 0.03);
    EXPECT_GT(expected_off(t.beliefs, 0.7), expected_off(t.beliefs, 0.1) + 0.05) << "states are what they are";
}

// Runs made by known factors: what is learned from some of them predicts the others, and the file says the same as the figures.
TEST(Learning, FindsTheFactorsThatRunsWereMadeWith) {
    std::vector<ValidationRow> rows, others;
    for (const int batch : {32, 64, 128, 256})
        for (const int tensor : {1, 2}) {
            auto j = nlohmann::json::parse(job);
            j["training"]["global_batch_size"] = batch;
            j["strategy"]["tensor_parallel"] = tensor;
            ValidationRow r;
            r.dataset = "mine", r.name = std::to_string(batch) + " x " + std::to_string(tensor), r.scenario_json = j.dump();
            PredictOptions slower;
            slower.simulate.factors.fill(1.3);
            r.measured.step_time_s = predict(parsed(nullptr, r.scenario_json), slower).report.step_time_s;
            r.measured.memory_gb = 1.1 * fullest(predict(parsed(nullptr, r.scenario_json)).report.memory).peak.gigabytes();
            r.memory_measure = MemoryMeasure::device;
            (batch == 64 || batch == 256 ? rows : others).push_back(r);
        }
    const LearnedRows learned = learn_from(rows, 1);
    ASSERT_EQ(learned.constants.size(), 1u);
    EXPECT_EQ(learned.constants[0].device, "a100-sxm-80gb");
    EXPECT_EQ(learned.constants[0].stack, Stack::modules);
    const std::vector<ValidationRow> after = predicted_with(others, learned.constants, 1);
    for (const ValidationRow& r : after) {
        EXPECT_NEAR(r.step_time_error().value(), 0, 0.03) << r.name;
        EXPECT_NEAR(r.memory_error().value(), 0, 0.03) << r.name;
    }
    const auto file = nlohmann::json::parse(write_learned(learned.constants));
    const LearnedConstants read = read_learned(file.at(0));
    for (std::size_t g = 0; g < read.factors().size(); ++g) EXPECT_NEAR(read.factors()[g], learned.constants[0].factors()[g], 1e-4);
    EXPECT_NEAR(read.memory_factor(0), learned.constants[0].memory_factor(0), 1e-4);
}

std::shared_ptr<OwnConstants> own(const std::string& change, double to) {
    LearnedConstants l;
    l.device = "a100-sxm-80gb", l.stack = Stack::modules, l.rows = 3;
    l.noise = 0.03;
    l.memory = LearnedConstants::Memory{3, {{0.1, 0.0}, {}}, 0.02};
    auto file = nlohmann::json::parse(write_learned({&l, 1}));
    if (!change.empty()) file[0]["factors"][change] = to;
    auto constants = std::make_shared<OwnConstants>();
    constants->add(file.dump());
    return constants;
}

TEST(Learned, ScalesStepsOfItsStackOnItsDevice) {
    const Report before = predict(parsed()).report, after = predict(parsed(own("rest", 1.5))).report;
    EXPECT_NEAR(after.step_time_s, 1.5 * before.step_time_s, 0.01 * before.step_time_s);
    EXPECT_GT(fullest(after.memory).peak, fullest(before.memory).peak);
    EXPECT_LT(after.error_bar.memory, before.error_bar.memory);
    auto elsewhere = nlohmann::json::parse(job);
    elsewhere["cluster"]["preset"] = "dgx-h100";
    const auto constants = own("rest", 1.5);
    EXPECT_EQ(predict(parsed(constants, elsewhere.dump())).report.step_time_s,
              predict(parsed(nullptr, elsewhere.dump())).report.step_time_s);
    EXPECT_EQ(constants->not_asked_for().size(), 1u);
}

TEST(Learned, NarrowsTheIntervalWhereSharesAreKnown) {
    PredictOptions options;
    options.shares = true;
    const Report before = predict(parsed(), options).report, after = predict(parsed(own("", 1)), options).report;
    EXPECT_LT(after.error_bar.step_time, before.error_bar.step_time);
    EXPECT_EQ(after.error_bar.learned, 3);
    EXPECT_NE(to_text(after.error_bar).find("3 measured steps"), std::string::npos);
}

// Steps that contradict each other leave an interval that says so, be it wider than the one before.
TEST(Learned, WidensTheIntervalWhereStepsContradictEachOther) {
    LearnedConstants l{"a100-sxm-80gb", Stack::modules, 3, {}, 0.6, LearnedConstants::Memory{3, {}, 0.7}};
    const auto constants = std::make_shared<OwnConstants>();
    constants->add(write_learned({&l, 1}));
    PredictOptions options;
    options.shares = true;
    const Report before = predict(parsed(), options).report, after = predict(parsed(constants), options).report;
    EXPECT_GT(after.error_bar.step_time, before.error_bar.step_time);
    EXPECT_GT(after.error_bar.interval.slower, 0.6);
    EXPECT_GT(after.error_bar.memory, before.error_bar.memory);
}

// Files of before laws had numbers are of the first; a later program's are not read either.
TEST(Learned, FilesOfAnotherLawSayWhichAndWhatToDo) {
    LearnedConstants l{"a100-sxm-80gb", Stack::modules, 3, {}, 0.03, {}};
    const auto file = nlohmann::json::parse(write_learned({&l, 1}));
    EXPECT_EQ(file[0].at("law"), learned_law);
    const auto complaint = [&](const nlohmann::json& law) {
        auto changed = file;
        changed[0].erase("law");
        if (!law.is_null()) changed[0]["law"] = law;
        try {
            OwnConstants().add(changed.dump());
        } catch (const std::runtime_error& e) { return std::string(e.what()); }
        return std::string();
    };
    EXPECT_EQ(complaint(learned_law), "");
    for (const auto& [law, said] : {std::pair{nlohmann::json(), "law 1,"}, {nlohmann::json(1), "law 1,"}, {nlohmann::json(9), "law 9,"}}) {
        EXPECT_NE(complaint(law).find(said), std::string::npos) << complaint(law);
        EXPECT_NE(complaint(law).find("learn again, simrun learn"), std::string::npos);
    }
    EXPECT_NE(complaint("two").find("\"law\""), std::string::npos);
}

TEST(Learned, FilesThatCannotBeMeantAreRefused) {
    EXPECT_THROW(own("products", 50), std::runtime_error);
    EXPECT_THROW(own("products", -1), std::runtime_error);
    EXPECT_THROW(OwnConstants().add(R"({"what": "learned", "device": "a100-sxm-80gb", "stack": "mine"})"), std::runtime_error);
}

} // namespace
} // namespace orrery
