// Parameters and gradients on the host or on NVMe under tensor and pipeline parallelism: which part of them a rank has there, and how often
// it passes the link.
#include "tests/laws/scenarios.hpp"

#include "sim/memory/memory.hpp"
#include "sim/plan/verify.hpp"
#include "sim/report/report.hpp"
#include "sim/scenario/homes.hpp"
#include "tests/laws/simulations.hpp"

#include <algorithm>

namespace orrery::laws {
namespace {

Gpt divided(int tensor, int pipeline, int data, const std::string& tier) {
    Gpt g;
    g.tp = tensor, g.pp = pipeline, g.dp = data;
    g.sp = tensor > 1;
    g.zero = data > 1 ? 3 : 0;
    g.layers = 8, g.vocab = 2048, g.flash = true;
    g.framework = pipeline > 1 ? "torchtitan" : "deepspeed";
    if (!tier.empty())
        g.extra_strategy =
            R"(, "offload": {"optimizer": ")" + tier + R"(", "gradients": ")" + tier + R"(", "parameters": ")" + tier + "\"}";
    return g;
}

// Bytes of one rank of a stage that live there from step to step, or for a step.
std::int64_t at_home(const Plan& plan, Space space, MemoryKind kind, int stage = 0) {
    std::int64_t bytes = 0;
    for (const Buffer& b : plan.buffers)
        if (b.space == space && b.kind == kind && b.stage == stage && b.scope != Scope::action) bytes += b.bytes.count;
    return bytes;
}

// Bytes of parameters that every tensor-parallel rank has whole, without data parallelism.
std::int64_t common(const Plan& plan, Space space) {
    std::int64_t bytes = 0;
    for (const Buffer& b : plan.buffers)
        if (b.space == space && b.role == Role::parameter && b.scope == Scope::run && b.placement.on(Axis::tp) != PlacementKind::sharded)
            bytes += b.bytes.count;
    return bytes;
}

TEST(OffloadedTensorParallelism, HasARanksPartOfEachTensorThere) {
    for (const auto& [tier, space] : {std::pair{"cpu", Space::host}, std::pair{"nvme", Space::nvme}}) {
        const Plan one = verified(divided(1, 1, 1, tier));
        for (const int tensor : {2, 4}) {
            const Plan part = verified(divided(tensor, 1, 1, tier));
            EXPECT_EQ(at_home(one, space, MemoryKind::parameters),
                      tensor * at_home(part, space, MemoryKind::parameters) - (tensor - 1) * common(part, space))
                << tensor << tier;
            EXPECT_EQ(at_home(part, Space::device, MemoryKind::parameters), 0) << tensor << tier;
            EXPECT_EQ(at_home(part, Space::device, MemoryKind::optimizer_states), 0) << tensor << tier;
        }
    }
}

// Each tier holds, byte for byte, what the devices of the job without offload hold.
TEST(OffloadedTensorParallelism, MovesExactlyTheStatesThatAreHereElse) {
    for (const int data : {1, 2})
        for (const auto& [tier, space] : {std::pair{"cpu", Space::host}, std::pair{"nvme", Space::nvme}}) {
            const Plan here = verified(divided(2, 1, data, "")), away = verified(divided(2, 1, data, tier));
            for (const MemoryKind kind : {MemoryKind::parameters, MemoryKind::gradients, MemoryKind::optimizer_states})
                EXPECT_EQ(at_home(away, space, kind), at_home(here, Space::device, kind)) << data << tier << name(kind);
        }
}

TEST(OffloadedTensorParallelism, PassesTheLinkAsOftenAsWithoutIt) {
    for (const int tensor : {1, 2, 4}) {
        const Plan plan = verified(divided(tensor, 1, 1, "cpu"));
        const std::int64_t parameters = at_home(plan, Space::host, MemoryKind::parameters),
                           gradients = at_home(plan, Space::host, MemoryKind::gradients);
        const std::int64_t there = copied(plan, CopyKind::host_to_device, MemoryKind::parameters);
        EXPECT_LE(there, 8 * parameters); // four microbatches, two passes; the first and the last unit stay for both
        EXPECT_GE(there, 7 * parameters);
        EXPECT_EQ(copied(plan, CopyKind::device_to_host, MemoryKind::gradients), 4 * gradients);
        EXPECT_EQ(copied(plan, CopyKind::host_to_device, MemoryKind::gradients), 3 * gradients); // to add to, from the second on
    }
}

// A stage gathers and reduces once a step: its shard comes once, as the fp32 master that the host has, and its gradient goes once, however
// many microbatches there are.
TEST(OffloadedPipelines, PassTheLinkOnceAStep) {
    for (const int tensor : {1, 2})
        for (const int microbatches : {4, 8}) {
            Gpt g = divided(tensor, 2, 2, "cpu"), keeps = divided(tensor, 2, 2, "");
            g.microbatches = keeps.microbatches = microbatches;
            const Plan plan = verified(g), here = verified(keeps);
            for (const int stage : {0, 1}) {
                std::int64_t parameters = 0, gradients = 0;
                for (const Buffer& b : here.buffers) {
                    if (b.stage != stage) continue;
                    if (b.role == Role::parameter_shard) parameters += b.bytes.count;
                    if (b.role == Role::gradient_shard) gradients += b.bytes.count;
                }
                EXPECT_GT(parameters, 0);
                EXPECT_EQ(at_home(plan, Space::host, MemoryKind::parameters, stage), 0);
                EXPECT_EQ(at_home(plan, Space::host, MemoryKind::gradients, stage), gradients);
                EXPECT_EQ(at_home(plan, Space::host, MemoryKind::optimizer_states, stage),
                          at_home(here, Space::device, MemoryKind::optimizer_states, stage));
                EXPECT_EQ(copied(plan, CopyKind::host_to_device, MemoryKind::parameters, stage), 0);
                EXPECT_EQ(copied(plan, CopyKind::host_to_device, MemoryKind::optimizer_states, stage), 2 * parameters); // 16 bits here
                EXPECT_EQ(copied(plan, CopyKind::device_to_host, MemoryKind::gradients, stage), gradients);
            }
        }
}

TEST(OffloadedParallelism, FoldsAndIsNeverSlowerOnAFasterLink) {
    for (const auto& [tensor, pipeline, data] : {std::tuple{2, 1, 1}, {2, 1, 2}, {1, 2, 2}, {2, 2, 2}})
        for (const char* tier : {"cpu", "nvme"}) {
            if (pipeline > 1 && std::string(tier) == "nvme") continue;
            double before = 1e9;
            for (const char* rate : {"2", "8", "32"}) {
                Gpt g = divided(tensor, pipeline, data, tier);
                g.cluster = R"({"preset": "dgx-a100-80gb", "nodes": 1, "devices_per_node": )" + std::to_string(tensor * pipeline * data) +
                            R"(, "host": {"memory_gb_per_s": 100000, "nvme_gb_per_s": 20, "pcie_gb_per_s": )" + rate + "}}";
                const double now = predict(g.make()).report.step_time_s;
                EXPECT_LE(now, before * (1 + 1e-9)) << rate;
                before = now;
                PredictOptions whole;
                whole.simulate.fold = false;
                EXPECT_NEAR(predict(g.make(), whole).report.step_time_s, now, 1e-9 * now);
            }
        }
}

std::string refusal(const Gpt& g) { return to_text(parse_scenario(g.text(), {}).problems); }

// Combinations that no software has are refused, with a way out.
TEST(OffloadedPipelines, AreThoseOfSoftwareThatHasThem) {
    Gpt zero = divided(1, 2, 2, "cpu"), alone = divided(1, 2, 1, "cpu");
    zero.framework = "megatron";
    EXPECT_NE(refusal(zero).find("set framework = torchtitan"), std::string::npos) << refusal(zero);
    EXPECT_NE(refusal(alone).find("set data_parallel to at least 2"), std::string::npos) << refusal(alone);
    EXPECT_NE(refusal(divided(1, 2, 2, "nvme")).find("ZeRO-Infinity alone has NVMe"), std::string::npos);
    EXPECT_EQ(refusal(divided(2, 2, 2, "cpu")), "");
}

// The search has these homes to choose from where the job is divided so.
TEST(OffloadedParallelism, IsInTheSearchsChoice) {
    const auto parameters = [](const Gpt& g) {
        int count = 0;
        for (const Home& h : homes_of(g.make()))
            count += std::any_of(h.fields.begin(), h.fields.end(), [](const auto& f) { return f.first.ends_with("/parameters"); });
        return count;
    };
    EXPECT_GT(parameters(divided(2, 1, 2, "")), 0);
    EXPECT_GT(parameters(divided(2, 2, 2, "")), 0);
    EXPECT_EQ(parameters(divided(1, 2, 1, "")), 0);
}

} // namespace
} // namespace orrery::laws
