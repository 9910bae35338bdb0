// Laws given with a device time the ops they name, and only those.
#include "sim/cost/measured.hpp"

#include "sim/cost/cost.hpp"
#include "sim/plan/lower.hpp"
#include "sim/scenario/parse.hpp"

#include <gtest/gtest.h>

namespace orrery {
namespace {

std::string scenario_with(const std::string& kernels) {
    return R"({"name": "t", "model": {"layers": 2, "hidden_size": 64, "attention_heads": 4, "vocab_size": 256},
        "cluster": {"preset": "local-cpu", "device": {"preset": "cpu")" +
           kernels + R"(}},
        "training": {"global_batch_size": 4, "sequence_length": 32, "precision": "fp32"}, "strategy": {}})";
}

Scenario parsed(const std::string& text) {
    const ParseResult r = parse_scenario(text);
    EXPECT_TRUE(r.problems.empty()) << to_text(r.problems);
    return r.scenario.value();
}

const Op* first(const Plan& plan, const std::string& key) {
    for (const Block& b : plan.blocks)
        for (const Op& op : b.ops)
            if (!is_memory_op(op.work) && kernel_key(plan, op) == key) return &op;
    return nullptr;
}

TEST(MeasuredKernels, TimeTheOpsTheyNameAndLeaveTheOthersToTheTables) {
    const Scenario plain = parsed(scenario_with(""));
    const Scenario measured = parsed(scenario_with(
        R"(, "kernels": {"linear fwd fp32": {"start_us": 7, "gflops_per_s": 2, "gb_per_s": 0, "points": 3, "error": 0.01}})"));
    const Plan plan = lower(measured);
    const Fabric fabric(measured.cluster);
    const CostModel with(measured, fabric), without(plain, fabric);
    const Op *forward = first(plan, "linear fwd fp32"), *backward = first(plan, "linear dx fp32");
    ASSERT_TRUE(forward && backward);
    EXPECT_NEAR(with.compute(plan, *forward).duration.seconds(), 7e-6 + flops(forward->work).count / 2e9, 1e-11);
    EXPECT_EQ(with.compute(plan, *backward).duration, without.compute(plan, *backward).duration);
    EXPECT_NE(with.compute(plan, *forward).duration, without.compute(plan, *forward).duration);
    EXPECT_EQ(with.provenance().front().what, "kernels");
    EXPECT_EQ(with.provenance().front().kind, "measured");
    EXPECT_NE(without.provenance().front().what, "kernels");
}

TEST(MeasuredKernels, DirectionsPartsAndTypesAreApart) {
    const Plan plan = lower(parsed(scenario_with("")));
    for (const char* key : {"linear fwd fp32", "linear dx fp32", "linear dw fp32", "norm fwd fp32", "norm bwd fp32",
                            "cross-entropy sums fp32", "cross-entropy gradient fp32", "embedding fwd fp32"})
        EXPECT_TRUE(first(plan, key)) << key;
}

TEST(MeasuredKernels, AWrongLawIsNamedByItsPlace) {
    for (const char* kernels :
         {R"(, "kernels": 3)", R"(, "kernels": {"linear fwd fp32": 2})", R"(, "kernels": {"linear fwd fp32": {"start_us": -1}})",
          R"(, "kernels": {"linear fwd fp32": {"gflops": 1}})"}) {
        const ParseResult r = parse_scenario(scenario_with(kernels));
        ASSERT_FALSE(r.problems.empty()) << kernels;
        EXPECT_TRUE(r.problems[0].where.starts_with("/cluster/device/kernels")) << r.problems[0].where;
    }
}

TEST(MeasuredKernels, ALaunchMeasuredWithTheDeviceIsTheDefault) {
    EXPECT_EQ(parsed(scenario_with(R"(, "launch_us": 0.25)")).runtime.launch_us, 0.25);
    EXPECT_NE(parsed(scenario_with("")).runtime.launch_us, 0.25);
}

} // namespace
} // namespace orrery
