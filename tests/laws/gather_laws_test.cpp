// What ZeRO-3 gathers and waits for: without prefetch a step takes what computation and gathers take together, and DeepSpeed of 2021
// gathers a parameter at a time.
#include "sim/report/report.hpp"
#include "tests/laws/scenarios.hpp"

#include <algorithm>

namespace orrery::laws {
namespace {

Scenario three(int year) {
    Gpt g;
    g.framework = "deepspeed";
    g.zero = 3;
    g.dp = 8;
    g.microbatches = 2;
    Scenario s = g.make();
    s.runtime.year = year;
    return s;
}

double step_of(const Scenario& s) { return predict(s).report.step_time_s; }

long gathers_of(const Scenario& s, const std::string& unit) {
    const Plan plan = lower(s);
    return std::count_if(plan.blocks.begin(), plan.blocks.end(), [&](const Block& b) { return b.name == "gather:" + unit; });
}

TEST(GatherLaws, WithoutPrefetchComputationWaits) {
    Scenario with = three(2023), without = with;
    with.strategy.overlap.param_gather = with.strategy.overlap.grad_reduce = true;
    without.strategy.overlap.param_gather = without.strategy.overlap.grad_reduce = false;
    Scenario slow_with = with, slow_without = without;
    for (Scenario* s : {&slow_with, &slow_without}) s->cluster.intra.bandwidth = s->cluster.intra.bandwidth * 0.5;
    EXPECT_LT(step_of(with), step_of(without));
    // All that a slower link adds is waited for, where without prefetch nothing hides it.
    EXPECT_LT(step_of(slow_with) - step_of(with), step_of(slow_without) - step_of(without));
}

TEST(GatherLaws, DeepSpeedJoinsAModulesParametersSince2022) {
    EXPECT_EQ(gathers_of(three(2022), "c0.u1"), 1);
    EXPECT_EQ(gathers_of(three(2021), "c0.u1"), 5); // query-key-value, projection, two of the MLP; the rest together
}

TEST(GatherLaws, APartOfAListCostsACopyForEachMember) {
    Scenario earlier = three(2021), later = three(2022);
    for (Scenario* s : {&earlier, &later}) s->strategy.overlap.param_gather = s->strategy.overlap.grad_reduce = false;
    // Two microbatches gather four layers' five parts twice and reduce them once: 8 copies of 12 us each time, less what the optimizer hides.
    const double copies = 2 * 4 * 5 * 3 * 8 * 12e-6;
    EXPECT_GT(step_of(earlier) - step_of(later), 0.8 * copies);
    EXPECT_LT(step_of(earlier) - step_of(later), 1.6 * copies);
}

} // namespace
} // namespace orrery::laws
