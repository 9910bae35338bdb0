// Does every combination of degrees 1, 2 and 4 that has experts lower, verify, do the same work, and simulate folded as unfolded?
#include "tests/laws/mixture.hpp"

#include "sim/report/report.hpp"

namespace orrery::laws {
namespace {

double rows_of_experts(const Plan& plan) {
    double sum = 0;
    for (int s = 0; s < plan.stages; ++s)
        each_op(plan, s, [&](const Block& b, const Op& op) {
            if (b.kind == BlockKind::forward && op.name.find("expert_fc2") != std::string::npos) sum += flops(op.work).count;
        });
    return sum * plan.mesh.ranks() / plan.stages;
}

class Degrees : public testing::TestWithParam<int> {};   // the expert-parallel degree

TEST_P(Degrees, LowerVerifyAndFold) {
    Mixture small;
    small.layers = 4, small.hidden = 64, small.heads = 4, small.vocab = 128, small.sequence = 64, small.micro_batch = 1, small.global_batch = 16, small.ffn = 64, small.experts = 4;
    const double work = rows_of_experts(lower(small.make()));
    const char* dispatchers[] = {"alltoall", "allgather", "deepep"};
    int tried = 0;
    for (int tp : {1, 2, 4})
        for (int pp : {1, 2, 4})
            for (int cp : {1, 2, 4})
                for (int dp : {1, 2, 4})
                    for (int etp : {1, 2}) {
                        Mixture m = small;
                        m.tp = tp, m.pp = pp, m.cp = cp, m.dp = dp, m.ep = GetParam(), m.etp = etp;
                        if (tp * cp * dp % (m.ep * etp) != 0 || m.world() > 32 || (etp > 1 && tp == 1)) continue;
                        m.dispatcher = dispatchers[tried % 3];
                        m.zero = tried % 2;
                        m.shared = tried % 2;
                        ++tried;
                        SCOPED_TRACE(fmt::format("tp {} pp {} cp {} dp {} ep {} etp {} {}", tp, pp, cp, dp, m.ep, etp, m.dispatcher));
                        const Scenario s = m.make();
                        const Plan plan = lower(s);
                        const auto broken = verify(plan);
                        ASSERT_TRUE(broken.empty()) << to_text(broken);
                        EXPECT_DOUBLE_EQ(rows_of_experts(plan), work);
                        if (tried % 4 != 0) continue;
                        PredictOptions flat;
                        flat.verify = false;
                        flat.simulate.fold = false;
                        const double folded = predict(s).report.step_time_s, unfolded = predict(s, flat).report.step_time_s;
                        EXPECT_GT(folded, 0);
                        EXPECT_NEAR(folded, unfolded, 1e-9 * unfolded);
                    }
    EXPECT_GT(tried, 20);
}

INSTANTIATE_TEST_SUITE_P(Experts, Degrees, testing::Values(1, 2, 4), [](const auto& p) { return "ep" + std::to_string(p.param); });

} // namespace
} // namespace orrery::laws
