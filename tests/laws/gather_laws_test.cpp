// The gathers of ZeRO-3 and FSDP and what waits for them: without prefetch a step takes what computation and gathers take together, and
// DeepSpeed of 2021 gathers a parameter at a time; FSDP2 hides what it can.
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
    s.runtime.plan_allocator = true; // simexec's runtime, which no hooks hold up: these laws are of links
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
    // Two microbatches gather four layers' five parts twice and reduce them once: 8 copies of 12 us each time, less what the optimizer
    // hides.
    const double copies = 2 * 4 * 5 * 3 * 8 * 12e-6;
    EXPECT_GT(step_of(earlier) - step_of(later), 0.8 * copies);
    EXPECT_LT(step_of(earlier) - step_of(later), 1.6 * copies);
}

// Llama 3 8B on eight H100 under FSDP2, a layer's computation some ten times as long as its gather.
const char* sharded = R"({"model": "llama3-8b", "cluster": {"preset": "dgx-h100", "nodes": 1},
    "training": {"global_batch_size": 8, "micro_batch_size": 1, "sequence_length": 8192, "precision": "bf16"},
    "strategy": {"framework": "fsdp2", "overlap": {"grad_reduce": true, "param_gather": true}}})";

TEST(GatherLaws, ALayerAheadIsGatheredAndCopiedWithoutAWait) {
    const Scenario s = scenario(sharded);
    SimulateOptions options;
    options.trace = true;
    const Prediction p = predict(s, {.simulate = options});
    double moving = 0, first_and_last = 0;
    const Trace& t = *p.simulation.trace;
    for (const Span& span : t.lanes.front().spans) {
        if (span.kind != SpanKind::op || t.queues[span.queue] != "dp.shard") continue;
        moving += (span.end - span.begin).seconds();
        first_and_last = std::max(first_and_last, (span.end - span.begin).seconds());
    }
    const double exposed = p.simulation.lanes.front().breakdown[Category::exposed_dp].seconds();
    EXPECT_GT(moving, 20 * first_and_last); // there is something to hide
    EXPECT_LT(exposed, 3 * first_and_last); // the first gathers and the last reduction
}

TEST(GatherLaws, UnderAPipelineFsdp2GathersAndReducesOnceAStep) {
    const auto bytes_of = [](const char* framework, int microbatches) {
        Gpt g;
        g.framework = framework;
        g.zero = 3;
        g.pp = 2;
        g.dp = 4;
        g.microbatches = microbatches;
        const Plan plan = lower(g.make());
        double bytes = 0;
        for (const Action& a : plan.programs.front().actions)
            for (std::int32_t i = a.first; i < a.last; ++i) {
                const Op& op = plan.blocks[a.block].ops[i];
                if (const auto* c = std::get_if<Collective>(&op.work);
                    c && (op.phase == Phase::param_gather || op.phase == Phase::gradient_reduce))
                    bytes += static_cast<double>(c->bytes.count);
            }
        return bytes;
    };
    EXPECT_EQ(bytes_of("fsdp2", 8), bytes_of("fsdp2", 4));
    EXPECT_GT(bytes_of("fsdp", 8), 1.5 * bytes_of("fsdp", 4)); // FullyShardedDataParallel reshards behind each microbatch
}

} // namespace
} // namespace orrery::laws
