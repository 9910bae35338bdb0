// Offload: which bytes leave the device, where they are then, and what their way costs.
#include "tests/laws/scenarios.hpp"

#include "sim/memory/memory.hpp"
#include "sim/plan/verify.hpp"
#include "sim/report/report.hpp"

namespace orrery::laws {
namespace {

Gpt offloading(const std::string& offload, const std::string& more = "") {
    Gpt g;
    g.dp = 4;
    g.zero = 2;
    g.framework = "deepspeed";
    g.flash = true;
    if (!offload.empty()) g.extra_strategy = R"(, "offload": {)" + offload + "}" + more;
    return g;
}

Prediction of(const Gpt& g) { return predict(g.make()); }

std::int64_t kind_bytes(const Report& r, MemoryKind k) { return r.memory.stages[0].by_kind[static_cast<std::size_t>(k)].count; }
std::int64_t node_bytes(const Report& r, MemoryKind k) { return r.memory.host.used.by_kind[static_cast<std::size_t>(k)].count; }

// Bytes of the copies one way in a step of the first stage.
std::int64_t copied(const Plan& plan, CopyKind kind) {
    std::int64_t bytes = 0;
    for (const Action& a : plan.programs[0].actions)
        for (std::int32_t i = a.first; i < a.last; ++i)
            if (const auto* c = std::get_if<Copy>(&plan.blocks[static_cast<std::size_t>(a.block)].ops[static_cast<std::size_t>(i)].work);
                c && c->kind == kind)
                bytes += c->bytes.count;
    return bytes;
}

TEST(OptimizerOffload, MovesExactlyTheStatesToTheNodesMemory) {
    const Report here = of(offloading("")).report, away = of(offloading(R"("optimizer": "cpu")")).report;
    const std::int64_t states = kind_bytes(here, MemoryKind::optimizer_states);
    EXPECT_GT(states, 0);
    EXPECT_EQ(kind_bytes(away, MemoryKind::optimizer_states), 0);
    EXPECT_EQ(node_bytes(away, MemoryKind::optimizer_states), 4 * states); // four ranks on the node
    EXPECT_EQ(here.memory.host.used.peak.count, 0);
    EXPECT_EQ(here.memory.stages[0].allocated_peak - away.memory.stages[0].allocated_peak, Bytes{states});
}

TEST(OptimizerOffload, SendsEachGradientAndEachParameterOnce) {
    const Plan plan = lower(offloading(R"("optimizer": "cpu")").make());
    EXPECT_EQ(verify(plan).size(), 0u) << to_text(verify(plan));
    std::int64_t shards = 0; // fp16 gradients, fp16 parameters
    for (const Buffer& b : plan.buffers)
        if (b.role == Role::gradient_shard && b.space == Space::device) shards += b.bytes.count;
    EXPECT_EQ(copied(plan, CopyKind::device_to_host), shards);
    EXPECT_EQ(copied(plan, CopyKind::host_to_device), shards);
}

TEST(OptimizerOffload, OfAFractionMovesItsShareAndIsNeverSlowerForLess) {
    const auto divided = [](const std::string& fraction) {
        Gpt g = offloading(fraction.empty() ? "" : R"("optimizer": "cpu", "optimizer_fraction": )" + fraction);
        g.vocab = 2048; // no bucket much larger than the others
        return of(g).report;
    };
    const std::int64_t all = kind_bytes(divided(""), MemoryKind::optimizer_states);
    double before = 0;
    for (const char* fraction : {"0", "0.25", "0.5", "0.75", "1"}) {
        const Report r = divided(fraction);
        const std::int64_t here = kind_bytes(r, MemoryKind::optimizer_states), away = node_bytes(r, MemoryKind::optimizer_states) / 4;
        EXPECT_EQ(here + away, all) << fraction;
        EXPECT_NEAR(static_cast<double>(away), std::stod(fraction) * static_cast<double>(all), 0.15 * static_cast<double>(all)) << fraction;
        EXPECT_GE(r.step_time_s, before) << fraction;
        before = r.step_time_s;
    }
}

// (Facts of the machine: nobody is slower for a better one.)
TEST(OptimizerOffload, IsNeverSlowerOnABetterHost) {
    const auto time = [](const std::string& host) {
        Gpt g = offloading(R"("optimizer": "cpu")");
        g.cluster = R"({"preset": "dgx-a100-80gb", "nodes": 1, "devices_per_node": 4, "host": {)" + host + "}}";
        return of(g).report.step_time_s;
    };
    EXPECT_GT(time(R"("memory_gb_per_s": 100)"), time(R"("memory_gb_per_s": 400)"));
    EXPECT_GT(time(R"("pcie_gb_per_s": 8)"), time(R"("pcie_gb_per_s": 32)"));
    EXPECT_GT(time(R"("adam_gparams_per_s": 1)"), time(R"("adam_gparams_per_s": 4)"));
}

TEST(OptimizerOffload, IsNeverSlowerWithItsCopiesBesideTheUpdate) {
    const auto time = [](const char* overlap) {
        return of(offloading(R"("optimizer": "cpu")", std::string(R"(, "bucket_bytes": 4000000, "overlap": {"offload": )") + overlap + "}"))
            .report.step_time_s;
    };
    EXPECT_LT(time("true"), time("false"));
}

TEST(OptimizerOffload, TakesTheSameTimeFoldedAndUnfolded) {
    Gpt g = offloading(R"("optimizer": "cpu", "optimizer_fraction": 0.5)");
    g.pp = 2;
    g.zero = 1;
    PredictOptions whole;
    whole.simulate.fold = false;
    const double time = of(g).report.step_time_s;
    EXPECT_NEAR(predict(g.make(), whole).report.step_time_s, time, 1e-9 * time);
}

TEST(OptimizerOffload, DoesNotFitWhereTheNodeHasTooLittleMemory) {
    Gpt g = offloading(R"("optimizer": "cpu")");
    g.cluster = R"({"preset": "dgx-a100-80gb", "nodes": 1, "devices_per_node": 4, "host": {"memory_gb": 0.5}})";
    const Report r = of(g).report;
    EXPECT_FALSE(r.memory.fits);
    EXPECT_NE(why_not(r.memory).find("a node's ranks keep"), std::string::npos) << why_not(r.memory);
}

} // namespace
} // namespace orrery::laws
