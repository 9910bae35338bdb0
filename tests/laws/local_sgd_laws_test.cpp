// Local SGD: what it sends, and what it saves.
#include "tests/laws/scenarios.hpp"

#include "sim/engine/simulate.hpp"
#include "sim/plan/verify.hpp"
#include "sim/report/report.hpp"

namespace orrery::laws {
namespace {

Gpt replicas(int dp, const std::string& synchronization = "") {
    Gpt g;
    g.dp = dp;
    g.flash = true;
    g.cluster = R"({"preset": "dgx-a100-80gb", "nodes": )" + std::to_string(dp * g.tp * g.pp / 4) +
                R"(, "devices_per_node": 4, "inter_node": {"kind": "ethernet", "nics_per_node": 1, "gbit_per_s": 25}})";
    if (!synchronization.empty()) g.extra_strategy = R"(, "synchronization": )" + synchronization;
    return g;
}

std::string every(int steps) { return fmt::format(R"({{"kind": "local_sgd", "inner_steps": {}}})", steps); }

// Bytes all-reduced over data-parallel ranks in the programs of a phase.
std::int64_t reduced(const Plan& plan, const std::vector<Program>& programs) {
    std::int64_t bytes = 0;
    for (const Program& p : programs)
        for (const Action& a : p.actions)
            for (std::int32_t i = a.first; i < a.last; ++i) {
                const Op& op = plan.blocks[static_cast<std::size_t>(a.block)].ops[static_cast<std::size_t>(i)];
                const auto* c = std::get_if<Collective>(&op.work);
                if (!c || c->kind != CollectiveKind::all_reduce) continue;
                if (plan.communicators[static_cast<std::size_t>(c->comm)].axes & (mask(Axis::dp) | mask(Axis::dpr)))
                    bytes += c->bytes.count;
            }
    return bytes;
}

TEST(LocalSgd, OfOneStepSendsTheParametersOncePerStepAndNoGradients) {
    const Plan plan = lower(replicas(8, every(1)).make());
    EXPECT_EQ(verify(plan).size(), 0u) << to_text(verify(plan));
    EXPECT_EQ(reduced(plan, plan.programs), 0);
    // The fp32 copy of the parameters: twice the bytes of the fp16 gradients that data parallelism reduces.
    const Plan synchronous = lower(replicas(8).make());
    ASSERT_EQ(plan.further.size(), 1u);
    EXPECT_EQ(reduced(plan, plan.further[0].programs), 2 * reduced(synchronous, synchronous.programs));
}

TEST(LocalSgd, OfMoreStepsIsNeverSlowerPerStep) {
    double before = predict(replicas(8, every(1)).make()).report.step_time_s;
    for (int steps : {2, 3, 8, 64, 512}) {
        const double now = predict(replicas(8, every(steps)).make()).report.step_time_s;
        EXPECT_LE(now, before * (1 + 1e-9)) << steps;
        before = now;
    }
    // With no link at all between replicas: what a step takes where nothing is sent.
    Gpt alone = replicas(8, every(10000));
    const double least = predict(alone.make()).report.step_time_s;
    EXPECT_LE(least, before);
    EXPECT_GE(least, 0.9 * before);
}

TEST(LocalSgd, TheStepIsTheRoundOverItsStepsAndItsPartsAddUp) {
    for (int steps : {1, 4}) {
        const Report r = predict(replicas(8, every(steps)).make()).report;
        double sum = 0;
        for (double part : r.breakdown_s) sum += part;
        EXPECT_NEAR(sum, r.step_time_s, 1e-9 * r.step_time_s) << steps;
        EXPECT_NEAR(r.tokens_per_s * r.step_time_s, 4 * 2 * 8 * 512, 1e-6 * 4 * 2 * 8 * 512) << steps;
    }
}

TEST(LocalSgd, FoldedAndUnfoldedReplayedAndInFullTakeTheSameTime) {
    Gpt g = replicas(4, every(5));
    g.pp = 2;
    g.cluster = R"({"preset": "dgx-a100-80gb", "nodes": 2, "devices_per_node": 4})";
    const Scenario s = g.make();
    PredictOptions folded, whole, full;
    whole.simulate.fold = false;
    full.simulate.replay = false;
    const double time = predict(s, folded).report.step_time_s;
    EXPECT_NEAR(predict(s, whole).report.step_time_s, time, 1e-9 * time);
    EXPECT_EQ(predict(s, full).report.step_time_s, time);
}

TEST(LocalSgd, IsRefusedWhereReplicasShareAStep) {
    const auto problems = [](Gpt g) { return to_text(parse_scenario(g.text(), {}).problems); };
    Gpt zero = replicas(8, every(4));
    zero.zero = 1;
    EXPECT_NE(problems(zero).find("strategy.zero_stage = 1 divides optimizer states among replicas"), std::string::npos) << problems(zero);
    EXPECT_EQ(problems(replicas(8, every(4))), "");
}

} // namespace
} // namespace orrery::laws
