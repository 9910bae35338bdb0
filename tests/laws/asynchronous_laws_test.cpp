// Asynchronous pipelines: no bubble between drains, what versions take of memory, and what folding and replay must not change.
#include "tests/laws/scenarios.hpp"

#include "sim/engine/simulate.hpp"
#include "sim/plan/staleness.hpp"
#include "sim/plan/verify.hpp"
#include "sim/plan/weight_ages.hpp"
#include "sim/report/report.hpp"

namespace orrery::laws {
namespace {

Gpt flowing(int p, int m, const std::string& versions, int flush, int dp = 1) {
    Gpt g;
    g.layers = 2 * p;
    g.hidden = 4096; // kernels that are longer than their launches
    g.heads = 32;
    g.sequence = 2048;
    g.pp = p;
    g.dp = dp;
    g.microbatches = m;
    g.vocab = 2048; // ends that weigh little
    g.tied = false;
    g.flash = true;
    g.dropout = 0;
    g.schedule = "pipedream-async";
    g.extra_strategy = fmt::format(R"(, "weight_versions": "{}", "flush_every": {})", versions, flush);
    return g;
}

double step(const Scenario& s) { return predict(s).report.step_time_s; }

// The time of a round grows by the same amount with every step, and that amount has no bubble: it is what the busiest stage computes, its
// update among it. No stage waits for another's update, which goes behind what sends a step's last gradients back.
TEST(Asynchronous, BetweenDrainsThereIsNoBubble) {
    for (const auto& [versions, m] : {std::pair{"stash", 1}, {"stash", 32}, {"2bw", 32}}) {
        const double a = 40 * step(flowing(4, m, versions, 40).make()), b = 60 * step(flowing(4, m, versions, 60).make()),
                     c = 80 * step(flowing(4, m, versions, 80).make());
        EXPECT_NEAR(c - b, b - a, 1e-6 * a) << versions;
        const Prediction one = predict(flowing(4, m, versions, 80).make());
        double busiest = 0;
        for (const LaneResult& lane : one.simulation.lanes) busiest = std::max(busiest, lane.compute_busy.seconds());
        const double steady = (c - b) / 20;
        EXPECT_GE(steady, busiest * (1 - 1e-3)) << versions;
        EXPECT_LE(steady, 1.01 * busiest) << versions << ": but for transfers that end just before they are wanted";
    }
}

TEST(Asynchronous, LongerRoundsAreNeverSlowerAndBeatTheDrainOfEveryStep) {
    double before = 1e9;
    for (int flush : {1, 2, 5, 20, 100}) {
        const double now = step(flowing(4, 4, "2bw", flush).make());
        EXPECT_LE(now, before * (1 + 1e-9)) << flush;
        before = now;
    }
    Gpt drained = flowing(4, 4, "2bw", 1);
    drained.schedule = "1f1b";
    drained.extra_strategy = R"(, "overlap": {"pipeline": true})";
    drained.extra = "";
    Scenario s = drained.make();
    s.training.gradient_clipping = 0;
    EXPECT_LT(before, 0.75 * step(s)) << "four stages and four microbatches: a bubble of 3/7";
}

// By microbatch: PipeDream's weights are as many updates old as stages stand behind, those of 2BW one, once a round has begun.
TEST(Asynchronous, EveryMicrobatchSaysHowOldItsWeightsAre) {
    for (const auto& [versions, m] : {std::pair{"stash", 1}, {"2bw", 4}}) {
        const Plan plan = lower(flowing(4, m, versions, 20).make());
        const Staleness all = staleness(plan);
        for (int stage = 0; stage < 4; ++stage) {
            const std::vector<std::int64_t> ages = weight_ages(plan, plan.programs[stage]);
            const bool stash = std::string(versions) == "stash";
            if (stash && stage == 3) {
                EXPECT_TRUE(ages.empty()) << "the last stage's weights are fresh";
                continue;
            }
            ASSERT_EQ(ages.size(), static_cast<std::size_t>(plan.microbatches)) << versions << stage;
            EXPECT_EQ(ages.front(), 0) << "a round begins with fresh weights";
            EXPECT_EQ(ages[ages.size() / 2], stash ? 3 - stage : 1) << versions << stage;
            double sum = 0;
            for (std::int64_t age : ages) sum += static_cast<double>(age);
            EXPECT_NEAR(sum / static_cast<double>(ages.size()), all.stages[stage].mean, 1e-9) << versions << stage;
        }
    }
    Gpt plain = flowing(4, 4, "2bw", 1);
    plain.schedule = "1f1b";
    plain.extra_strategy = "";
    EXPECT_TRUE(weight_ages(lower(plain.make()), lower(plain.make()).programs[0]).empty());
}

TEST(Asynchronous, MemoryHoldsTheVersionsOfEachStage) {
    for (const auto& [versions, m] : {std::pair{"stash", 1}, {"2bw", 4}}) {
        const Plan plan = lower(flowing(4, m, versions, 20).make());
        EXPECT_TRUE(verify(plan).empty()) << to_text(verify(plan));
        Gpt one = flowing(4, m, versions, 20);
        one.schedule = "1f1b";
        one.extra_strategy = "";
        const Plan plain = lower(one.make());
        for (int stage = 0; stage < 4; ++stage) {
            const auto many = resident(plan, stage), single = resident(plain, stage);
            const double held = std::string(versions) == "stash" ? 4 - stage : 2;
            EXPECT_NEAR(many.at(MemoryKind::parameters), held * single.at(MemoryKind::parameters), 1) << versions << stage;
            EXPECT_EQ(many.at(MemoryKind::optimizer_states), single.at(MemoryKind::optimizer_states)) << versions << stage;
            EXPECT_EQ(many.at(MemoryKind::gradients), single.at(MemoryKind::gradients)) << versions << stage;
        }
    }
}

TEST(Asynchronous, FoldedAndUnfoldedReplayedAndInFullTakeTheSameTime) {
    Gpt g = flowing(4, 4, "2bw", 12, 2);
    g.tp = 2;
    g.sp = true;
    const Scenario s = g.make();
    PredictOptions folded, whole, full;
    whole.simulate.fold = false;
    full.simulate.replay = false;
    const double time = predict(s, folded).report.step_time_s;
    EXPECT_NEAR(predict(s, whole).report.step_time_s, time, 1e-9 * time);
    EXPECT_NEAR(predict(s, full).report.step_time_s, time, 1e-9 * time);
}

TEST(Asynchronous, TheReportSaysHowOldGradientsAre) {
    const Report stash = predict(flowing(4, 1, "stash", 100).make()).report, drained = predict(Gpt{}.make()).report;
    EXPECT_EQ(stash.staleness.worst, 3);
    EXPECT_EQ(stash.staleness.versions, 4);
    EXPECT_NEAR(stash.staleness.mean, 1.5, 0.05);
    EXPECT_EQ(drained.staleness.worst, 0);
    EXPECT_EQ(drained.staleness.versions, 1);
    EXPECT_EQ(stash.microbatches, 1);
}

// Gradients are those of what is trained: of four stages the first two train nothing, the last is fresh, and the third one update behind.
TEST(Asynchronous, TheMeanAgeIsThatOfStagesThatTrain) {
    std::string text = flowing(4, 1, "stash", 100).text();
    text.insert(text.find("\"model\": {") + 10, R"("trainable": {"frozen_layers": 4}, )");
    const Plan plan = lower(scenario(text));
    const Staleness all = staleness(plan);
    ASSERT_EQ(all.stages.size(), 4u);
    EXPECT_EQ(all.stages[0].worst, 0);
    EXPECT_EQ(all.stages[1].worst, 0);
    EXPECT_EQ(all.stages[2].worst, 1);
    EXPECT_NEAR(all.mean, (1 + 0) / 2.0, 0.01) << "but for the first step of a hundred";
}

} // namespace
} // namespace orrery::laws
