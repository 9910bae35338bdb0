// A planner changes one thing for the better and looks at the difference. Over random pairs no improvement makes a step slower.
#include "sim/engine/simulate.hpp"
#include "sim/plan/lower.hpp"
#include "sim/report/report.hpp"
#include "sim/scenario/parse.hpp"
#include "tests/laws/whatif.hpp"
#include "topology/catalog.hpp"
#include "topology/fabric.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <map>
#include <optional>

namespace orrery::laws {
namespace {

constexpr double tolerance = 0.002; // of the step: orders of events that change by chance
// What ends earlier may meet something else on its way: with shared resources a schedule of shorter ops can be longer (R. L. Graham, Bounds
// on multiprocessing timing anomalies, 1969). Transfers that now begin together share a NIC, a trunk or a PCIe switch, and hide nothing
// of each other's latencies any more (StaggeredTransfersPassATrunkSooner shows it alone). That this and nothing else is the cause is
// proven for each such pair: where every transfer has the links to itself, the better one is not slower. They are rare and small.
constexpr double most_by_contention = 0.05, share_by_contention = 0.001;

struct Told {
    std::optional<Scenario> scenario;
    std::string why;
};

Told told(const Json& text) {
    ParseResult parsed = parse_scenario(text.dump(), {});
    return {std::move(parsed.scenario), to_text(parsed.problems)};
}

double step(const Scenario& s) {
    PredictOptions options;
    options.verify = false;
    return predict(s, options).report.step_time_s;
}

double step_without_sharing(const Scenario& s) {
    const Plan plan = lower(s);
    const Fabric fabric(s.cluster);
    return simulate(plan, s, fabric, CostModel(s, fabric), {.sharing = false}).step_time.seconds();
}

const Anomaly* known(const Pair& pair, double slower) {
    const std::string text = pair.worse.dump();
    for (const Anomaly& a : known_anomalies())
        if (pair.improvement.find(a.improvement) != std::string::npos && text.find(a.scenario) != std::string::npos && slower <= a.most)
            return &a;
    return nullptr;
}

// Looks at pairs of one kind; at least so many different improvements are among a thousand.
void none_is_slower(Pair (*draw)(Random&), std::size_t kinds) {
    const std::uint64_t pairs = from_environment("ORRERY_PAIRS", 2000), seed = from_environment("ORRERY_SEED", 1);
    std::map<std::string, int> seen;
    int refused = 0, faster = 0, contention = 0;
    for (std::uint64_t i = from_environment("ORRERY_FIRST", 0); i < pairs; ++i) {
        Random random(seed * 1'000'003 + i);
        const Pair pair = draw(random);
        const Told worse = told(pair.worse), better = told(pair.better);
        if (!worse.scenario || !better.scenario) {
            ++refused;
            if (std::getenv("ORRERY_SHOW_REFUSED") != nullptr)
                std::printf("%s: %s%s\n", pair.improvement.c_str(), worse.why.c_str(), better.why.c_str());
            continue;
        }
        ++seen[pair.improvement.substr(0, pair.improvement.find(':'))];
        const double before = step(*worse.scenario), after = step(*better.scenario), slower = after / before - 1;
        faster += after < before;
        if (slower <= tolerance || known(pair, slower) != nullptr) continue;
        const double alone = step_without_sharing(*better.scenario) / step_without_sharing(*worse.scenario) - 1;
        const bool met = alone <= tolerance && slower <= most_by_contention;
        contention += met;
        if (!met || std::getenv("ORRERY_SHOW_CONTENTION") != nullptr)
            ADD_FAILURE() << "pair " << i << ": " << pair.improvement << " makes it slower by " << slower * 100 << " % (" << alone * 100
                          << " % without sharing): " << before << " -> " << after << " s\n"
                          << pair.worse.dump() << "\n"
                          << pair.better.dump();
    }
    // A test that compares nothing cannot fail: most pairs are legal, and a good part of the improvements is felt.
    EXPECT_LT(refused, 0.35 * static_cast<double>(pairs));
    EXPECT_GT(faster, 0.35 * static_cast<double>(pairs));
    EXPECT_LE(contention, 1 + share_by_contention * static_cast<double>(pairs));
    ::testing::Test::RecordProperty("contention", contention);
    ::testing::Test::RecordProperty("refused", refused);
    ::testing::Test::RecordProperty("faster", faster);
    for (const auto& [improvement, n] : seen) ::testing::Test::RecordProperty(improvement, n);
    if (pairs >= 1000) { EXPECT_GE(seen.size(), kinds); }
}

TEST(WhatIfLaws, NoImprovementMakesAStepSlower) { none_is_slower(random_pair, 20); }

TEST(WhatIfLaws, NoImprovementMakesAStepSlowerOnOtherMachines) { none_is_slower(wide_pair, 10); }

TEST(WhatIfLaws, NoImprovementMakesAStepSlowerOnRarerMachines) { none_is_slower(rarer_pair, 40); }

// The two nodes of a leaf hold one stage and send to the next over one trunk, of a quarter of their NICs' rates. Where one of them is a
// little late its transfers go when those of the other have gone, and none of them waits: the job with a slow node is the faster one (by a
// fifth in a drawn job that waits for transfers between stages half of its time).
TEST(WhatIfLaws, StaggeredTransfersPassATrunkSooner) {
    Json job{{"model", {{"layers", 8}, {"hidden_size", 2048}, {"attention_heads", 32}, {"vocab_size", 51200}}},
             {"cluster", {{"preset", "dgx-v100"}, {"nodes", 8}, {"inter_node", {{"nodes_per_leaf", 2}, {"oversubscription", 4}}}}},
             {"training", {{"global_batch_size", 32}, {"micro_batch_size", 1}, {"sequence_length", 2048}, {"precision", "fp16"}}},
             {"strategy",
              {{"framework", "megatron"}, {"tensor_parallel", 2}, {"pipeline_parallel", 4}, {"zero_stage", 0}, {"flash_attention", false}}},
             {"runtime", {{"year", 2025}}}};
    const Scenario even = *told(job).scenario;
    job["perturb"] = Json::array({Json{{"slow", 1.1}, {"node", 0}}});
    const Scenario staggered = *told(job).scenario;
    EXPECT_LT(step(staggered), 0.98 * step(even));
    EXPECT_GT(step_without_sharing(staggered), step_without_sharing(even));
}

Prediction predicted(const Json& scenario) {
    const ParseResult parsed = parse_scenario(scenario.dump(), {});
    EXPECT_TRUE(parsed.scenario) << to_text(parsed.problems);
    return predict(parsed.scenario.value_or(Scenario{}));
}

Json small_job(const char* preset, int nodes) {
    return {{"model", {{"layers", 4}, {"hidden_size", 1024}, {"attention_heads", 16}, {"vocab_size", 32000}}},
            {"cluster", {{"preset", preset}, {"nodes", nodes}}},
            {"training", {{"global_batch_size", 9216}, {"micro_batch_size", 2}, {"sequence_length", 512}, {"precision", "fp16"}}},
            {"strategy", {{"framework", "ddp"}, {"flash_attention", false}}}};
}

// Saying what a preset has says nothing new: not its kinds of links, rates and latencies, nor its device.
TEST(WhatIfLaws, WhatAPresetHasAnywayChangesNothing) {
    for (const std::string& preset : cluster_names()) {
        const Cluster c = *find_cluster(preset);
        if (c.device.vendor == "cpu") continue;
        Json job = small_job(preset.c_str(), 2);
        if (!c.device.peak.contains("fp16")) job["training"]["precision"] = "bf16";
        const double step = predicted(job).report.step_time_s;
        Json said = job;
        said["cluster"]["device"] = c.device.name;
        said["cluster"]["intra_node"] = {{"kind", name(c.intra.kind)}};
        said["cluster"]["inter_node"] = {{"kind", name(c.inter.kind)}, {"topology", name(c.inter.topology)}};
        EXPECT_EQ(predicted(said).report.step_time_s, step) << preset;
        said["cluster"]["intra_node"]["gb_per_s"] = c.intra.bandwidth.gigabytes();
        said["cluster"]["intra_node"]["latency_us"] = c.intra.latency.seconds() * 1e6;
        said["cluster"]["inter_node"]["nics_per_node"] = c.inter.nics_per_node;
        EXPECT_NEAR(predicted(said).report.step_time_s, step, 1e-9 * step) << preset;
    }
}

// A field that changes nothing is named: nobody is left to read a result into it.
TEST(WhatIfLaws, WhatHasNoEffectIsNamed) {
    const struct {
        const char* preset;
        int nodes;
        const char *pointer, *value, *named;
    } idle[] = {
        {"dgx-h100", 16, "/cluster/inter_node/oversubscription", "4", "cluster.inter_node.oversubscription"},
        {"dgx-h100", 16, "/cluster/inter_node/hashed_routes", "true", "cluster.inter_node.routing"},
        {"dgx-h100", 16, "/cluster/inter_node/queue_pairs", "16", "cluster.inter_node.queue_pairs"},
        {"dgx-h100", 16, "/cluster/inter_node/routing", R"("spray")", "cluster.inter_node.routing"},
        {"dgx-h100", 16, "/perturb", R"([{"slow": 4, "link": "trunk"}])", "perturb[0]"},
        {"dgx-h100", 16, "/perturb", R"([{"slow": 4, "link": "copy"}])", "perturb[0]"},
        {"dgx-h100", 1, "/cluster/inter_node/gbit_per_s", "100", "cluster.inter_node.gbit_per_s"},
        {"dgx-a100-80gb", 1, "/strategy/collective_algorithm", R"("tree")", "strategy.collective_algorithm"},
        {"tpu-v4-pod", 4, "/cluster/inter_node/gbit_per_s", "100", "cluster.inter_node.gbit_per_s"},
        {"frontier", 16, "/cluster/inter_node/routing", R"("ecmp")", "cluster.inter_node.routing"},
        {"dgx-h100", 1, "/cluster/device/scale_up_gb_per_s", "10", "cluster.device.scale_up_gb_per_s"},
        {"dgx-h100", 1, "/cluster/host/nvme_gb_per_s", "1", "cluster.host.nvme_gb_per_s"},
        {"dgx-h100", 1, "/cluster/host/memory_gb_per_s", "1", "cluster.host.memory_gb_per_s"},
        {"dgx-h100", 1, "/runtime/fused_experts", "true", "runtime.fused_experts"},
        {"dgx-h100", 1, "/runtime/fused_rope", "true", "runtime.fused_rope"},
        {"dgx-h100", 1, "/runtime/compiled_loss", "true", "runtime.compiled_loss"},
        {"dgx-h100", 1, "/runtime/tensor_parallel_buffers", "true", "runtime.tensor_parallel_buffers"},
        {"dgx-h100", 1, "/runtime/fp8_parameters", "true", "runtime.fp8_parameters"},
        {"dgx-h100", 1, "/runtime/tensor_parallel_maxima", "true", "runtime.tensor_parallel_maxima"},
        {"dgx-h100", 1, "/runtime/fp8_recipe", R"("blockwise")", "runtime.fp8_recipe"},
        {"dgx-h100", 1, "/runtime/attention_dtype", R"("fp8")", "runtime.attention_dtype"},
        {"dgx-h100", 1, "/model/attention", R"({"full_every": 2})", "model.attention.full_every"},
        {"dgx-h100", 1, "/cluster/device/power_w", "1400", "cluster.device.power_w"},
        {"dgx-h100", 16, "/strategy/rank_order", R"("dp-pp-tp-cp-ep")", "strategy.rank_order"},
        {"frontier", 16, "/cluster/inter_node/nodes_per_leaf", "1", "cluster.inter_node.nodes_per_leaf"},
        {"tpu-v5p-pod", 4, "/cluster/inter_node/kind", R"("infiniband")", "cluster.inter_node.kind"},
        {"tpu-v5p-pod", 4, "/cluster/power_w_per_node", "9999", "cluster.power_w_per_node"},
    };
    for (const auto& i : idle) {
        const Json job = small_job(i.preset, i.nodes);
        Json told = job;
        if (std::string_view(i.preset).starts_with("tpu")) told["training"]["precision"] = "bf16";
        const double step = predicted(told).report.step_time_s;
        told[Json::json_pointer(i.pointer)] = Json::parse(i.value);
        const Report report = predicted(told).report;
        EXPECT_EQ(report.step_time_s, step) << i.pointer;
        EXPECT_TRUE(std::any_of(
            report.notes.begin(), report.notes.end(),
            [&](const std::string& note) { return note.starts_with(i.named) && note.find("has no effect") != std::string::npos; }))
            << i.pointer << " = " << i.value << " on " << i.preset;
    }
}

bool is_named(const Report& r, const std::string& field) {
    return std::ranges::any_of(r.notes, [&](const std::string& note) { return note.starts_with(field + " has no effect"); });
}

// Sets a field and asks that it is named where it changes nothing, and there alone.
void named_where_idle(Json job, const std::string& field, const Json& value, bool idle) {
    const Report before = predicted(job).report;
    job[Json::json_pointer(field)] = value;
    const Report after = predicted(job).report;
    std::string dots = field.substr(1);
    std::ranges::replace(dots, '/', '.');
    const bool same = after.step_time_s == before.step_time_s && fullest(after.memory).peak == fullest(before.memory).peak;
    EXPECT_EQ(same, idle) << field << " = " << value << "\n" << job.dump();
    EXPECT_EQ(is_named(after, dots), idle) << field << " = " << value << "\n" << job.dump();
}

Json llama_job(const char* framework, const char* preset = "dgx-a100-80gb", int nodes = 1) {
    Json job = small_job(preset, nodes);
    job["model"]["position"] = "rope";
    job["training"]["precision"] = "bf16";
    job["strategy"] = {{"framework", framework}};
    return job;
}

// Where a software's fused rotations know no scale, a scaled one is a sequence of kernels.
TEST(WhatIfLaws, AScaleOfRotationsIsNamedWhereItIsIdle) {
    for (const char* framework : {"megatron", "nemo"}) {
        Json job = llama_job(framework);
        job["runtime"]["fused_rope"] = true;
        named_where_idle(job, "/model/rope_scale", 1.3, false);
        job["runtime"]["fused_rope"] = false;
        named_where_idle(job, "/model/rope_scale", 1.3, true);
    }
    named_where_idle(llama_job("fsdp2"), "/model/rope_scale", 1.3, true);
    named_where_idle(llama_job("megatron"), "/model/rope_base", 5e5, true);
}

// Norms and caps cost what they read and write; what a kernel does on its way, or a lookup, is named.
TEST(WhatIfLaws, NormsAndCapsOfModelsAreNamedWhereTheyAreIdle) {
    Json job = llama_job("fsdp2", "dgx-h100");
    job["model"]["bias"] = false;
    job["model"]["norm"] = "rmsnorm";
    const double plain = predicted(job).report.step_time_s;
    for (const auto& [field, value] : {std::pair<const char*, Json>{"norm_placement", "both"}, {"logit_cap", 30}}) {
        named_where_idle(job, std::string("/model/") + field, value, false);
        Json more = job;
        more["model"][field] = value;
        EXPECT_GT(predicted(more).report.step_time_s, plain) << field;
    }
    named_where_idle(job, "/model/rope_fraction", 0.5, true);
    named_where_idle(job, "/model/parallel_norms", true, true);
    named_where_idle(job, "/model/norm_bias", true, true);
    named_where_idle(job, "/model/attention/qk_norm_across", true, true);
    for (const bool fused : {false, true}) {
        job["strategy"]["fused"] = fused;
        named_where_idle(job, "/model/embedding_scale", 32, fused);
    }
    job["strategy"]["flash_attention"] = true;
    job["runtime"] = {{"attention_kernel", "flash-2"}};
    named_where_idle(job, "/model/attention/score_cap", 50, true);
    job["strategy"]["flash_attention"] = false;
    job["runtime"] = {{"attention_kernel", "unfused"}};
    named_where_idle(job, "/model/attention/score_cap", 50, false);
}

// A fused loss reads 16-bit logits as they are where nothing makes a copy of them.
TEST(WhatIfLaws, NarrowLossesAreNamedWhereTheyAreIdle) {
    named_where_idle(llama_job("jax", "tpu-v5p-pod", 2), "/runtime/loss_upcast", false, false);
    named_where_idle(llama_job("fsdp2"), "/runtime/loss_upcast", false, false);
    named_where_idle(llama_job("megatron"), "/runtime/loss_upcast", false, true);
    named_where_idle(llama_job("ddp"), "/runtime/loss_upcast", false, true);
}

// A rate that the device is said to have moves neither rates nor protocols of a node that has its own.
TEST(WhatIfLaws, ADevicesLinksAreIdleWhereTheNodeHasItsOwn) {
    for (const char* preset : {"dgx-a100-80gb", "dgx-h100", "h800-deepseek"})
        for (const double rate : {10.0, 190.0, 3000.0}) {
            Json job = llama_job("megatron", preset, 2);
            job["strategy"]["tensor_parallel"] = 8;
            named_where_idle(job, "/cluster/device/scale_up_gb_per_s", rate, true);
            job["cluster"]["intra_node"]["gb_per_s"] = 100;
            named_where_idle(job, "/cluster/device/scale_up_gb_per_s", rate, true);
        }
}

TEST(WhatIfLaws, ZeroIsNamedWhereNothingIsDivided) {
    for (const int stage : {1, 2, 3}) {
        Json job = llama_job("megatron");
        job["strategy"]["zero_stage"] = 0;
        job["strategy"]["tensor_parallel"] = job["strategy"]["pipeline_parallel"] = 2;
        job["cluster"]["devices_per_node"] = 4;
        if (stage == 1) named_where_idle(job, "/strategy/zero_stage", stage, true);
        job["strategy"]["framework"] = "fsdp2";
        named_where_idle(job, "/strategy/zero_stage", stage, true);
        job["strategy"]["pipeline_parallel"] = 1; // there are replicas
        named_where_idle(job, "/strategy/zero_stage", stage, false);
    }
}

// Fields that count where something else is there, beside scenarios where it is.
TEST(WhatIfLaws, FieldsAreIdleAsLongAsNothingReadsThem) {
    const Json plain = llama_job("fsdp2", "dgx-h100"), nodes = llama_job("fsdp2", "dgx-h100", 2);
    Json sharded = plain, offloaded = plain, experts = llama_job("megatron", "dgx-h100"), learned = plain, jittered = plain;
    sharded["strategy"]["zero_stage"] = 3;
    offloaded["strategy"]["offload"] = {{"activations", "cpu"}};
    experts["model"]["moe"] = {{"experts", 8}, {"top_k", 2}};
    experts["strategy"]["expert_parallel"] = 8;
    learned["model"]["position"] = "learned";
    jittered["perturb"] = Json::array({Json{{"jitter", 0.05}}});
    const Json tree{{"devices_per_switch", 2}, {"near_nics", false}, {"bridge_gb_per_s", 3}};
    named_where_idle(plain, "/cluster/device/l2_mib", 1, true);
    named_where_idle(plain, "/cluster/host/nvme_gb", 1, true);
    named_where_idle(plain, "/model/max_positions", 100000, true);
    named_where_idle(learned, "/model/max_positions", 100000, false);
    named_where_idle(plain, "/training/seed", 7, true);
    named_where_idle(jittered, "/training/seed", 7, false);
    named_where_idle(sharded, "/strategy/bucket_bytes", 1 << 20, true);
    Json replicas = plain;
    replicas["strategy"]["zero_stage"] = 0;
    named_where_idle(replicas, "/strategy/bucket_bytes", 1 << 20, false);
    for (const auto& [field, value] :
         {std::pair<std::string, Json>{"/cluster/host/pcie_gb_per_s", 2}, {"/cluster/intra_node/pcie_tree", tree}}) {
        named_where_idle(plain, field, value, true);
        named_where_idle(nodes, field, value, false);
        named_where_idle(offloaded, field, value, false);
    }
    named_where_idle(experts, "/cluster/host/pcie_gb_per_s", 0.01, false);
    named_where_idle(experts, "/cluster/host/memory_gb_per_s", 0.01, false);
    named_where_idle(plain, "/cluster/host/memory_gb_per_s", 0.01, true);
}

// Fields that another field, or a missing part, makes idle.
TEST(WhatIfLaws, SizesOfWhatTheModelLacksAreNamed) {
    Json experts = llama_job("megatron", "dgx-h100"), shared = experts, dense = experts, latent = experts;
    const Json mixture{{"experts", 8}, {"top_k", 2}, {"expert_ffn_size", 512}};
    for (Json* job : {&experts, &shared, &dense}) (*job)["model"]["moe"] = mixture;
    shared["model"]["moe"]["shared_experts"] = 1;
    dense["model"]["moe"]["first_dense_layers"] = 1;
    named_where_idle(experts, "/model/moe/scoring", "sigmoid", true);
    named_where_idle(experts, "/model/moe/groups", 4, true);
    named_where_idle(experts, "/model/moe/stacked_weights", true, true);
    Json looped = llama_job("fsdp", "dgx-h100");
    looped["model"]["moe"] = mixture;
    named_where_idle(looped, "/model/moe/stacked_weights", true, false);
    named_where_idle(experts, "/model/moe/shared_expert_ffn_size", 700, true);
    named_where_idle(shared, "/model/moe/shared_expert_ffn_size", 700, false);
    named_where_idle(experts, "/model/ffn_size", 3000, true);
    named_where_idle(dense, "/model/ffn_size", 3000, false);
    latent["model"]["attention"] = {
        {"kind", "mla"}, {"kv_lora_rank", 128}, {"qk_nope_head_dim", 32}, {"qk_rope_head_dim", 16}, {"v_head_dim", 32}};
    for (const char* field : {"/model/kv_heads", "/model/head_dim"}) {
        named_where_idle(latent, field, 8, true);
        named_where_idle(llama_job("megatron", "dgx-h100"), field, 8, false);
    }
    const Json plain = llama_job("fsdp2", "dgx-h100"); // sequences of 512 tokens
    named_where_idle(plain, "/model/attention", Json{{"sliding_window", 64}}, false);
    Json windows = plain;
    windows["model"]["attention"] = {{"sliding_window", 512}};
    named_where_idle(windows, "/model/attention/full_every", 2, true);
    EXPECT_TRUE(is_named(predicted(windows).report, "model.attention.sliding_window"));
    EXPECT_EQ(predicted(windows).report.step_time_s, predicted(plain).report.step_time_s);
}

TEST(WhatIfLaws, GroupsAndOrdersOfOneThingAreNamed) {
    const Json plain = llama_job("fsdp2", "dgx-h100");
    named_where_idle(plain, "/strategy/shard_group_size", 8, true);
    named_where_idle(plain, "/strategy/shard_group_size", 4, false);
    named_where_idle(plain, "/strategy/gradient_sync", "no_sync", false);
    Json once = plain;
    once["training"]["global_batch_size"] = 16; // one microbatch of each rank
    named_where_idle(once, "/strategy/gradient_sync", "no_sync", true);
    Json sent = llama_job("ddp", "dgx-h100");
    sent["strategy"]["gradient_compression"] = {{"kind", "powersgd"}};
    named_where_idle(sent, "/strategy/gradient_compression/start_step", 100, true);
}

TEST(WhatIfLaws, WhatWorkersNeverReadIsNamed) {
    const auto workers = [](Json how) {
        Json job = small_job("dgx-a100-80gb", 2);
        job["strategy"] = {{"framework", "ddp"}, {"zero_stage", 0}, {"synchronization", std::move(how)}};
        return job;
    };
    const Json streaming = workers({{"kind", "streaming_diloco"}, {"inner_steps", 4}, {"fragments", 2}, {"overlap_steps", 1}}),
               local = workers({{"kind", "local_sgd"}, {"inner_steps", 4}}), gossip = workers({{"kind", "gossip"}}),
               served = workers({{"kind", "parameter_server"}});
    const std::string how = "/strategy/synchronization/";
    for (const auto& [field, value] : {std::pair<std::string, Json>{how + "outer_learning_rate", 0.1},
                                       {how + "outer_momentum", 0.5},
                                       {how + "mixing", 0.1},
                                       {how + "fragment_order", "sequential"},
                                       {"/strategy/bucket_bytes", 1 << 20},
                                       {"/training/seed", 7}})
        named_where_idle(streaming, field, value, true);
    for (const Json& job : {local, gossip}) named_where_idle(job, "/training/seed", 7, true);
    for (const Json& job : {gossip, served}) named_where_idle(job, "/strategy/bucket_bytes", 1 << 20, true);
    named_where_idle(served, "/training/seed", 7, false);
    named_where_idle(served, "/training/moment_dtype", "bf16", true);
    named_where_idle(served, "/cluster/host/adam_gparams_per_s", 0.001, false);
    named_where_idle(small_job("dgx-a100-80gb", 2), "/cluster/host/adam_gparams_per_s", 0.001, true);
}

TEST(WhatIfLaws, ASecondWordOnOneFigureIsNamed) {
    const Json plain = llama_job("fsdp2", "dgx-h100");
    Json said = plain;
    said["runtime"]["launch_us"] = 6;
    named_where_idle(said, "/cluster/device/launch_us", 40, true);
    Json mebibytes = plain;
    mebibytes["cluster"]["device"] = {{"memory_mib", 81559}};
    named_where_idle(mebibytes, "/cluster/device/memory_gb", 70, true);
    EXPECT_EQ(predicted(mebibytes).report.memory.capacity.count, std::int64_t{81559} << 20);
    named_where_idle(plain, "/cluster/device/power_w", 300, false);
    Json more = plain;
    more["cluster"]["device"] = {{"power_w", 1400}};
    EXPECT_EQ(predicted(more).report.energy_j, predicted(plain).report.energy_j) << "a board draws what it is built for";
    Json alone = small_job("dgx-h100", 1);
    alone["cluster"]["devices_per_node"] = 1;
    alone["training"]["global_batch_size"] = 16;
    alone["training"]["optimizer"] = "adam";
    alone["strategy"] = {{"framework", "deepspeed"}, {"zero_stage", 0}, {"gradient_compression", "onebit-adam"}};
    const auto notes = [](const Json& job) { return predicted(job).report; };
    EXPECT_FALSE(is_named(notes(alone), "strategy.gradient_compression")) << "gradients are not clipped";
    EXPECT_TRUE(std::ranges::any_of(notes(alone).notes, [](const std::string& note) {
        return note.starts_with("strategy.gradient_compression = onebit-adam") && note.find("training.gradient_clipping") < note.size();
    }));
    alone["training"]["gradient_clipping"] = 0;
    EXPECT_TRUE(is_named(notes(alone), "strategy.gradient_compression"));
    EXPECT_FALSE(is_named(notes(alone), "training.gradient_clipping"));
}

// All host times may be stated; else a host's speed is named where no device waits for it, which the simulation alone can tell.
TEST(WhatIfLaws, ASpeedOfHostsThatNothingWaitsForIsNamed) {
    Json stated = llama_job("fsdp2", "dgx-h100");
    named_where_idle(stated, "/cluster/host/speed", 0.05, false);
    stated["runtime"]["launch_us"] = 6;
    named_where_idle(stated, "/cluster/host/speed", 0.05, true);
    named_where_idle(llama_job("megatron", "dgx-h100"), "/cluster/host/speed", 0.05, false); // calls of modules
    Json captured = llama_job("fsdp2", "dgx-h100");
    captured["model"]["hidden_size"] = 4096;
    captured["training"]["sequence_length"] = 4096;
    captured["training"]["global_batch_size"] = 32;
    captured["runtime"]["cuda_graphs"] = true;
    PredictOptions shares;
    shares.shares = true;
    const auto predicted_at = [&](double speed, Json job) {
        job["cluster"]["host"]["speed"] = speed;
        return predict(parse_scenario(job.dump(), {}).scenario.value(), shares).report;
    };
    const double usual = predicted_at(1, captured).step_time_s;
    for (const double speed : {0.9, 0.3, 0.01}) {
        const Report r = predicted_at(speed, captured);
        EXPECT_TRUE(!is_named(r, "cluster.host.speed") || r.step_time_s == usual) << speed;
    }
    EXPECT_TRUE(is_named(predicted_at(0.9, captured), "cluster.host.speed"));
    EXPECT_FALSE(is_named(predicted_at(0.01, llama_job("fsdp2", "dgx-h100")), "cluster.host.speed")) << "launches of 600 us";
}

TEST(WhatIfLaws, RatesOfStorageAndDisksAreIdleAsLongAsNothingTakesThem) {
    Json reads = llama_job("fsdp2", "dgx-h100");
    reads["training"]["data"] = {{"bytes_per_sample", 1e6}};
    const std::string storage = "/cluster/storage/";
    for (const auto& [field, value] :
         {std::pair<std::string, Json>{"latency_us", 1e5}, {"requests_per_node", 1}, {"request_mb", 0.5}, {"write_gb_per_s", 0.01}})
        named_where_idle(reads, storage + field, value, true);
    reads["cluster"]["storage"] = {{"latency_us", 1e5}, {"request_mb", 0.5}};
    named_where_idle(reads, storage + "requests_per_node", 1, false);
    Json disk = llama_job("deepspeed");
    disk["cluster"]["devices_per_node"] = 2;
    disk["cluster"]["host"] = {
        {"memory_gb", 1000}, {"memory_gb_per_s", 100}, {"pcie_gb_per_s", 25}, {"nvme_gb", 4000}, {"nvme_gb_per_s", 5}};
    disk["training"]["global_batch_size"] = 16;
    disk["strategy"] = {{"framework", "deepspeed"}, {"zero_stage", 3}, {"offload", {{"optimizer", "nvme"}}}};
    named_where_idle(disk, "/strategy/overlap/offload", false, true);
    named_where_idle(disk, "/strategy/bucket_bytes", 1 << 20, false); // of what ZeRO 3 holds for its reductions
}

// More processors of one peak are slower ones each: tiles go to waste. The peak of a larger device is higher.
TEST(WhatIfLaws, ProcessorsWithoutTheirPeakAreNamed) {
    const auto named = [](const Json& device) {
        Json job = llama_job("fsdp2", "dgx-h100");
        job["cluster"]["device"] = device;
        const std::vector<std::string> notes = predicted(job).report.notes;
        return std::ranges::any_of(notes, [](const std::string& note) { return note.starts_with("cluster.device.processors = 160"); });
    };
    EXPECT_TRUE(named({{"processors", 160}}));
    EXPECT_FALSE(named({{"processors", 132}}));
    EXPECT_FALSE(named({{"processors", 160}, {"peak_tflops", {{"bf16", 1200}}}}));
}

// At one line rate a better protocol is never slower, and costs as much as it says.
TEST(WhatIfLaws, KindsOfNetworksRankByProtocol) {
    double last = 0;
    for (const char* kind : {"infiniband", "roce", "efa", "ethernet"}) {
        Json job = small_job("dgx-h100", 16);
        job["model"] = "gpt3-13b";
        job["training"]["global_batch_size"] = 128;
        job["training"]["micro_batch_size"] = 1;
        job["cluster"]["inter_node"]["kind"] = kind;
        const double exposed = predicted(job).report.breakdown_s[Category::exposed_dp];
        EXPECT_GT(exposed, last) << kind;
        last = exposed;
    }
}

} // namespace
} // namespace orrery::laws
