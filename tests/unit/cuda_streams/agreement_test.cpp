// `simexec agree --device cuda` without a GPU: its comparison on stand-ins, all of fp32. Does it find strategies alike, and one that is
// not?
#include "tests/unit/cuda_streams/fleet.hpp"

#include "exec/local/agreement.hpp"

#include <set>

namespace orrery::test {
namespace {

class AgreementOfStrategies : public testing::TestWithParam<agree::Case> {};

Learning on_stand_ins(const Scenario& s) {
    Learning l;
    l.steps = 2;
    l.real = DType::fp32;
    l.forced_routing = s.model.moe && !s.model.moe->pads();
    l.executor = [](World& w) { return queues_executor(w, stand_ins(w)); };
    return l;
}

Learned learned(const Scenario& s, const Scenario& routed_as) {
    fake::reset(s.world_size());
    return learn(s, on_stand_ins(routed_as));
}

TEST_P(AgreementOfStrategies, FindsThemLikeOneRank) {
    const Scenario scenario = agree::tiny(GetParam().fields);
    const Learned many = learned(scenario, scenario), one = learned(on_one_rank(scenario), scenario);
    const Agreement found = agreement(one, many, limits_of(DType::fp32));
    for (const Agreement::Row& r : found.rows)
        EXPECT_TRUE(r.agrees) << r.what << " of " << r.difference.worst << " differ by " << r.difference.relative;
    EXPECT_EQ(many.peaks.size(), static_cast<std::size_t>(scenario.world_size()));
}
// One of each kind: training_test.cpp runs all of them to the serial executor's bits.
std::vector<agree::Case> some() {
    const std::set<std::string> names{"dp4_hsdp", "pp2_interleaved", "pp2_dualpipe", "tp2_sp_clip", "cp2_ring_rope", "cp2_ulysses",
                                      "all5",     "moe_etp2",        "moe_capacity", "mla_pp2_cp2", "dp2_zero1_lamb"};
    std::vector<agree::Case> cases = agree::strategies();
    std::erase_if(cases, [&](const agree::Case& c) { return !names.contains(c.name); });
    return cases;
}
INSTANTIATE_TEST_SUITE_P(Strategies, AgreementOfStrategies, testing::ValuesIn(some()),
                         [](const auto& tested) { return tested.param.name; });

// A kernel that is a little wrong on one rank: its gradients are told, and nothing is said to agree.
TEST(AgreementOnStandIns, FindsAWrongKernel) {
    const Scenario scenario = agree::tiny({"strategy.data_parallel=2"});
    Learning how = on_stand_ins(scenario);
    const Learned one = learned(on_one_rank(scenario), scenario);
    how.machine.kernel = [kernel = how.machine.kernel](const Op& op, std::span<const Operand> in, std::span<const Operand> out,
                                                       const KernelContext& context) {
        kernel(op, in, out, context);
        if (op.name != "l1.qkv.wgrad" || context.at[Axis::dp] != 1) return;
        for (float& g : std::span(reinterpret_cast<float*>(out[0].data), static_cast<std::size_t>(elements(*out[0].buffer)))) g *= 1.001f;
    };
    fake::reset(2);
    const Agreement found = agreement(one, learn(scenario, how), limits_of(DType::fp32));
    EXPECT_FALSE(found.agrees());
    ASSERT_EQ(found.rows[1].what, "gradients of the first step");
    EXPECT_FALSE(found.rows[1].agrees);
    EXPECT_EQ(found.rows[1].difference.worst, "l1.qkv.weight");
    EXPECT_EQ(found.rows[4].difference.relative, 0); // both ranks hold the same wrong sum
}

} // namespace
} // namespace orrery::test
