// Delayed updates: the host's update runs beside the next step. What that saves, and what it keeps.
#include "tests/laws/scenarios.hpp"

#include "sim/cost/cost.hpp"
#include "sim/memory/memory.hpp"
#include "sim/plan/verify.hpp"
#include "sim/report/report.hpp"
#include "tests/laws/simulations.hpp"

namespace orrery::laws {
namespace {

const std::string fast_link = R"("pcie_gb_per_s": 10000)";

Gpt updating(bool delayed, const std::string& host = fast_link, const std::string& more = "") {
    Gpt g;
    g.dp = 4;
    g.zero = 2;
    g.framework = "deepspeed";
    g.flash = true;
    g.vocab = 2048;
    g.extra_strategy = fmt::format(R"(, "offload": {{"optimizer": "cpu"{}{}}})", delayed ? R"(, "delayed_update": true)" : "", more);
    g.cluster = R"({"preset": "dgx-a100-80gb", "nodes": 1, "devices_per_node": 4, "host": {)" + host + "}}";
    return g;
}

// The update's time on the host, a rank's.
double update_s(const Gpt& g) {
    const Scenario s = g.make();
    const Plan plan = lower(s);
    const Fabric fabric(s.cluster);
    const CostModel cost(s, fabric);
    double sum = 0;
    for (const Block& b : plan.blocks)
        for (const Op& op : b.ops)
            if (const auto* step = std::get_if<OptimizerStep>(&op.work); step && step->on_host)
                sum += cost.compute(plan, op).duration.seconds();
    return sum;
}

TEST(DelayedUpdate, IsNeverSlowerAndSavesTheUpdateAtMost) {
    for (const char* rate : {"0.05", "0.5", "2", "20", "1000"})
        for (const int microbatches : {1, 4, 16})
            for (const char* more : {"", R"(, "gradients": "cpu")"}) {
                const std::string host = fast_link + R"(, "adam_gparams_per_s": )" + rate;
                Gpt at_once = updating(false, host, more), later = updating(true, host, more);
                at_once.microbatches = later.microbatches = microbatches;
                const double before = step_of(at_once), now = step_of(later), update = update_s(later);
                EXPECT_LE(now, before * (1 + 1e-9)) << rate << " " << microbatches << more;
                // Gradients leave while parameters come, too, each with its cast: neither waits for the update between them.
                EXPECT_GE(now, before - update - 0.1 * before) << rate << " " << microbatches << more;
                EXPECT_GE(now, update) << "one update a step";
            }
}

// Where the step is long enough the update costs nothing, else the step is the update.
TEST(DelayedUpdate, HidesUnderALongStepAndIsTheStepElse) {
    const auto with = [](const char* rate, bool delayed) {
        Gpt g = updating(delayed, fast_link + R"(, "adam_gparams_per_s": )" + rate);
        g.microbatches = 16;
        return g;
    };
    const double free = step_of(with("1e6", false));
    EXPECT_NEAR(step_of(with("1", true)), free, 0.03 * free);
    EXPECT_GT(step_of(with("1", false)), 1.05 * free);
    const double slow = update_s(with("0.01", true));
    ASSERT_GT(slow, 4 * free);
    EXPECT_NEAR(step_of(with("0.01", true)), slow, 0.1 * slow);
}

TEST(DelayedUpdate, IsNeverSlowerOnABetterHost) {
    double before = 1e9;
    for (const char* rate : {"0.02", "0.1", "0.5", "2", "8", "100"}) {
        const double now = step_of(updating(true, std::string(R"("adam_gparams_per_s": )") + rate));
        EXPECT_LE(now, before) << rate;
        before = now;
    }
    before = 1e9;
    for (const char* rate : {"2", "8", "32", "1000"}) {
        const double now = step_of(updating(true, std::string(R"("pcie_gb_per_s": )") + rate));
        EXPECT_LE(now, before) << rate;
        before = now;
    }
}

// Gradients pass through the host anyway and wait there; those that live there are there twice, these and the step's own.
TEST(DelayedUpdate, KeepsGradientsOfOneStepOnTheHost) {
    const auto kept = [](const Gpt& g, MemoryKind k) { return report_of(g).memory.host.used.by_kind[k].count; };
    const auto on_device = [](const Gpt& g) { return report_of(g).memory.stages[0].allocated_peak.count; };
    for (MemoryKind k : {MemoryKind::gradients, MemoryKind::parameters, MemoryKind::optimizer_states})
        EXPECT_EQ(kept(updating(true), k), kept(updating(false), k));
    const std::string there = R"(, "gradients": "cpu")";
    Gpt of_one = updating(false, fast_link, there); // microbatch: no sums wait for the next one's
    of_one.microbatches = 1;
    const std::int64_t whole = kept(of_one, MemoryKind::gradients), once = kept(updating(false, fast_link, there), MemoryKind::gradients);
    EXPECT_GT(whole, 0);
    EXPECT_EQ(kept(updating(true, fast_link, there), MemoryKind::gradients), once + whole);
    EXPECT_EQ(on_device(updating(true)), on_device(updating(false)));
}

TEST(DelayedUpdate, IsReportedAsOneUpdateOld) {
    const Report later = report_of(updating(true)), at_once = report_of(updating(false));
    EXPECT_EQ(later.staleness.worst, 1);
    EXPECT_EQ(later.staleness.versions, 2);
    EXPECT_EQ(at_once.staleness.worst, 0);
}

TEST(DelayedUpdate, TakesTheSameTimeFoldedAndUnfoldedReplayedAndInFull) {
    std::vector<Gpt> all(5, updating(true, R"("adam_gparams_per_s": 0.5)"));
    all[1].pp = 2, all[1].zero = 1, all[1].cluster = "", all[1].microbatches = 12;
    all[2] = updating(true, R"("adam_gparams_per_s": 0.5)", R"(, "gradients": "cpu")");
    all[3].zero = 3;
    all[4] = updating(true, R"("nvme_gb_per_s": 5)", R"(, "sub_group_size": 1000000, "pipelined": true)");
    all[4].extra_strategy.replace(all[4].extra_strategy.find("cpu"), 3, "nvme");
    for (const Gpt& g : all) {
        const Scenario s = g.make();
        EXPECT_EQ(verify(lower(s)).size(), 0u) << to_text(verify(lower(s)));
        PredictOptions whole, full;
        whole.simulate.fold = false;
        full.simulate.replay = false;
        const double expected = predict(s).report.step_time_s;
        EXPECT_NEAR(predict(s, whole).report.step_time_s, expected, 1e-9 * expected);
        EXPECT_NEAR(predict(s, full).report.step_time_s, expected, 1e-9 * expected);
    }
}

// A step of more ops than the host's usual window goes on while the update runs.
TEST(DelayedUpdate, HoldsNobodyUpInALongStep) {
    Gpt g = updating(true, fast_link + R"(, "adam_gparams_per_s": 0.4)"),
        at_once = updating(false, fast_link + R"(, "adam_gparams_per_s": 1e6)");
    g.layers = at_once.layers = 12;
    g.microbatches = at_once.microbatches = 32;
    std::int64_t ops = 0;
    const Plan plan = lower(g.make());
    for (const Action& a : plan.programs[0].actions) ops += a.last - a.first;
    EXPECT_GT(ops, 10'000);
    const double free = step_of(at_once), update = update_s(g);
    ASSERT_LT(update, 0.9 * free);
    EXPECT_NEAR(step_of(g), free, 0.03 * free);
}

TEST(DelayedUpdate, LowersForEveryFramework) {
    const std::pair<const char*, int> ways[] = {{"ddp", 0},      {"fsdp", 3},     {"fsdp2", 3},    {"torchtitan", 3},
                                                {"composer", 3}, {"megatron", 1}, {"deepspeed", 2}};
    for (const auto& [framework, zero] : ways) {
        Gpt g = updating(true);
        g.framework = framework;
        g.zero = zero;
        const Plan plan = lower(g.make());
        EXPECT_EQ(verify(plan).size(), 0u) << framework << to_text(verify(plan));
        EXPECT_LE(step_of(g),
                  [&] {
                      Gpt plain = updating(false);
                      plain.framework = framework;
                      plain.zero = zero;
                      return step_of(plain);
                  }() *
                      (1 + 1e-9))
            << framework;
    }
}

} // namespace
} // namespace orrery::laws
