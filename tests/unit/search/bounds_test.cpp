// No bound is above what the simulator and the memory walk say, over random points; how tight they are is printed.
#include "sim/memory/memory.hpp"
#include "sim/plan/lower.hpp"
#include "sim/report/report.hpp"
#include "sim/scenario/parse.hpp"
#include "sim/search/bounds.hpp"
#include "sim/search/form_bound.hpp"
#include "sim/search/parts.hpp"
#include "sim/search/space.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <random>

namespace orrery {
namespace {

struct Case {
    const char* name;
    const char* json;
    const char* space = "";
    Reach farthest = Reach::devices;
};

// Small models, so that a point takes milliseconds.
const Case cases[] = {
    {"dense", R"({"model": {"name": "small", "layers": 8, "hidden_size": 1024, "attention_heads": 16, "kv_heads": 4, "vocab_size": 32000,
        "activation": "swiglu", "norm": "rmsnorm", "position": "rope", "bias": false, "tied_embeddings": false},
        "cluster": {"preset": "dgx-h100", "nodes": 2}, "training": {"global_batch_size": 32, "sequence_length": 2048, "precision": "bf16"},
        "strategy": {"framework": "megatron"}})"},
    {"schedules",
     R"({"model": {"name": "small", "layers": 8, "hidden_size": 1024, "attention_heads": 16, "kv_heads": 4, "vocab_size": 32000,
        "activation": "swiglu", "norm": "rmsnorm", "position": "rope", "bias": false, "tied_embeddings": false},
        "cluster": {"preset": "dgx-h200", "nodes": 2, "inter_node": {"kind": "ethernet", "gbit_per_s": 100, "nics_per_node": 1}},
        "training": {"global_batch_size": 32, "sequence_length": 2048, "precision": "bf16"}})"},
    {"experts", R"({"model": {"name": "small-moe", "layers": 4, "hidden_size": 1024, "attention_heads": 16, "vocab_size": 32000,
        "activation": "swiglu", "norm": "rmsnorm", "position": "rope", "bias": false, "tied_embeddings": false,
        "moe": {"experts": 8, "top_k": 2, "expert_ffn_size": 2048, "first_dense_layers": 1}},
        "cluster": {"preset": "dgx-h100", "nodes": 1}, "training": {"global_batch_size": 16, "sequence_length": 1024, "precision": "bf16"},
        "strategy": {"framework": "megatron"}})"},
    {"eager", R"({"model": {"name": "small", "layers": 6, "hidden_size": 1024, "attention_heads": 16, "vocab_size": 50257},
        "cluster": {"preset": "dgx-h200", "nodes": 2}, "training": {"global_batch_size": 32, "sequence_length": 1024,
        "precision": "bf16"}, "strategy": {"framework": "fsdp", "pipeline_parallel": 1}})"},
    {"whole",
     R"({"model": {"name": "small", "layers": 6, "hidden_size": 1024, "attention_heads": 16, "vocab_size": 50257,
        "activation": "swiglu", "norm": "rmsnorm", "position": "rope", "bias": false},
        "cluster": {"preset": "dgx-a100-80gb", "nodes": 2}, "training": {"global_batch_size": 64, "sequence_length": 1024,
        "precision": "bf16"}, "strategy": {"framework": "fsdp", "pipeline_parallel": 1, "gradient_sync": "no_sync"}})"},
    {"unfused", R"({"model": {"name": "small", "layers": 6, "hidden_size": 1024, "attention_heads": 16, "vocab_size": 50257},
        "cluster": {"preset": "dgx-v100", "nodes": 2}, "training": {"global_batch_size": 32, "sequence_length": 1024,
        "precision": "fp16"}, "strategy": {"framework": "deepspeed"}})"},
    {"tuned",
     R"({"model": {"name": "small", "layers": 8, "hidden_size": 1024, "attention_heads": 16, "kv_heads": 4, "vocab_size": 32000,
        "activation": "swiglu", "norm": "rmsnorm", "position": "rope", "bias": false, "tied_embeddings": false,
        "trainable": {"lora": {"rank": 16}}},
        "cluster": {"preset": "dgx-h100", "nodes": 2}, "training": {"global_batch_size": 32, "sequence_length": 2048, "precision": "bf16"},
        "strategy": {"framework": "megatron"}})"},
    {"workers",
     R"({"model": {"name": "small", "layers": 8, "hidden_size": 1024, "attention_heads": 16, "kv_heads": 4, "vocab_size": 32000,
        "activation": "swiglu", "norm": "rmsnorm", "position": "rope", "bias": false, "tied_embeddings": false},
        "cluster": {"preset": "dgx-h100", "nodes": 2, "inter_node": {"kind": "ethernet", "gbit_per_s": 10, "nics_per_node": 1}},
        "training": {"global_batch_size": 32, "sequence_length": 2048, "precision": "bf16"},
        "strategy": {"framework": "megatron", "synchronization": {"kind": "diloco", "inner_steps": 20, "workers": 2}}})"},
    {"sharded_workers",
     R"({"model": {"name": "small", "layers": 6, "hidden_size": 1024, "attention_heads": 16, "kv_heads": 4, "vocab_size": 32000,
        "activation": "swiglu", "norm": "rmsnorm", "position": "rope", "bias": false, "tied_embeddings": false},
        "cluster": {"preset": "dgx-h100", "nodes": 2, "inter_node": {"kind": "ethernet", "gbit_per_s": 10, "nics_per_node": 1}},
        "training": {"global_batch_size": 32, "sequence_length": 2048, "precision": "bf16"},
        "strategy": {"framework": "fsdp2", "synchronization": {"kind": "local_sgd", "inner_steps": 20, "workers": 2}}})"},
    {"repeated_heads",
     R"({"model": {"name": "small", "layers": 6, "hidden_size": 1024, "attention_heads": 16, "kv_heads": 4, "vocab_size": 32000,
        "activation": "swiglu", "norm": "rmsnorm", "position": "rope", "bias": false, "tied_embeddings": false},
        "cluster": {"preset": "dgx-h100", "nodes": 2}, "training": {"global_batch_size": 32, "sequence_length": 2048, "precision": "bf16"},
        "strategy": {"framework": "torchtitan"}, "runtime": {"year": 2025}})"},
    {"asynchronous",
     R"({"model": {"name": "small", "layers": 8, "hidden_size": 1024, "attention_heads": 16, "kv_heads": 4, "vocab_size": 32000,
        "activation": "swiglu", "norm": "rmsnorm", "position": "rope", "bias": false, "tied_embeddings": false},
        "cluster": {"preset": "dgx-h100", "nodes": 2}, "training": {"global_batch_size": 32, "sequence_length": 2048, "precision": "bf16"},
        "strategy": {"zero_stage": 0}})",
     R"({"/strategy/schedule": ["pipedream-async"]})"},
    {"budget",
     R"({"model": {"name": "small", "layers": 8, "hidden_size": 1024, "attention_heads": 16, "kv_heads": 4, "vocab_size": 32000,
        "activation": "swiglu", "norm": "rmsnorm", "position": "rope", "bias": false, "tied_embeddings": false},
        "cluster": {"preset": "dgx-h100", "nodes": 2}, "training": {"global_batch_size": 32, "sequence_length": 2048, "precision": "bf16"},
        "strategy": {"framework": "torchtitan"}})",
     R"({"/strategy/recompute": ["none", {"memory_budget": 0.3}, {"memory_budget": 0.7}]})"},
    {"away", R"({"model": {"name": "small", "layers": 6, "hidden_size": 1024, "attention_heads": 16, "vocab_size": 50257},
        "cluster": {"device": "rtx-4090", "nodes": 2, "devices_per_node": 2, "inter_node": {"kind": "ethernet", "gbit_per_s": 100},
        "host": {"memory_gb": 3, "memory_gb_per_s": 80, "pcie_gb_per_s": 32, "nvme_gb": 3, "nvme_read_gb_per_s": 7,
        "nvme_write_gb_per_s": 6}}, "training": {"global_batch_size": 32, "sequence_length": 1024, "precision": "bf16"},
        "strategy": {"framework": "deepspeed", "context_parallel": 1}})",
     "", Reach::disk},
    {"away_one_after_another",
     R"({"model": {"name": "small", "layers": 8, "hidden_size": 1024, "attention_heads": 16, "kv_heads": 4, "vocab_size": 32000,
        "activation": "swiglu", "norm": "rmsnorm", "position": "rope", "bias": false, "tied_embeddings": false},
        "cluster": {"preset": "dgx-h100", "nodes": 1}, "training": {"global_batch_size": 32, "sequence_length": 2048, "precision": "bf16"},
        "strategy": {"framework": "fsdp2"}})",
     "", Reach::host},
    {"masters_on_devices",
     R"({"model": {"name": "small", "layers": 8, "hidden_size": 1024, "attention_heads": 16, "kv_heads": 4, "vocab_size": 32000,
        "activation": "swiglu", "norm": "rmsnorm", "position": "rope", "bias": false, "tied_embeddings": false},
        "cluster": {"preset": "dgx-h100", "nodes": 2}, "training": {"global_batch_size": 32, "sequence_length": 2048, "precision": "bf16"},
        "strategy": {"framework": "megatron"}})",
     "", Reach::host},
    {"slow_network",
     R"({"model": {"name": "tiny", "layers": 4, "hidden_size": 512, "attention_heads": 8, "vocab_size": 8000},
        "cluster": {"preset": "dgx-a100-80gb", "nodes": 2, "inter_node": {"kind": "ethernet", "nics_per_node": 1, "gbit_per_s": 25}},
        "training": {"global_batch_size": 32, "sequence_length": 4096, "precision": "bf16"}})",
     R"({"/strategy/context_parallel": [2, 4, 8], "/strategy/context_parallel_kind": ["allgather", "ring"], "/strategy/zero_stage": [2, 3]})"},
    {"recompute_by_turns",
     R"({"model": {"name": "small", "layers": 8, "hidden_size": 1024, "attention_heads": 16, "kv_heads": 4, "vocab_size": 16000,
        "activation": "swiglu", "norm": "rmsnorm", "position": "rope", "bias": false, "tied_embeddings": false},
        "cluster": {"preset": "dgx-h100", "nodes": 1}, "training": {"global_batch_size": 64, "sequence_length": 2048, "precision": "bf16"},
        "strategy": {"framework": "fsdp2", "context_parallel": 1, "recompute": "selective"}})",
     R"({"/strategy/pipeline_parallel": [4, 8], "/training/micro_batch_size": [8, 16, 32], "/strategy/zero_stage": [0, 1]})"},
    {"joined_on_a_slow_network", R"({"model": {"name": "small-moe", "layers": 8, "hidden_size": 1024, "attention_heads": 16,
        "vocab_size": 128000, "activation": "swiglu", "norm": "rmsnorm", "position": "rope", "bias": false, "tied_embeddings": false,
        "moe": {"experts": 16, "top_k": 2, "expert_ffn_size": 512}}, "cluster": {"preset": "dgx-h100", "nodes": 2,
        "inter_node": {"kind": "ethernet", "gbit_per_s": 25, "nics_per_node": 1}},
        "training": {"global_batch_size": 64, "sequence_length": 1024, "precision": "bf16"}, "strategy": {"framework": "megatron"}})",
     R"({"/strategy/overlap/expert_parallel": [true], "/strategy/expert_parallel": [2, 4, 8], "/strategy/overlap/grad_reduce": [true, false]})"},
    {"stages_between_nodes", R"({"model": {"name": "small", "layers": 8, "hidden_size": 1024, "attention_heads": 16, "kv_heads": 4,
        "vocab_size": 32000, "activation": "swiglu", "norm": "rmsnorm", "position": "rope", "bias": false, "tied_embeddings": false},
        "cluster": {"preset": "dgx-h100", "nodes": 4, "inter_node": {"gbit_per_s": 100}},
        "training": {"global_batch_size": 64, "sequence_length": 4096, "precision": "bf16"}, "strategy": {"framework": "megatron"}})",
     R"({"/strategy/pipeline_parallel": [2, 4, 8], "/strategy/zero_stage": [0, 1, 2, 3], "/strategy/tensor_parallel": [1, 2, 4]})"},
    {"sharded_once_a_step", R"({"model": {"name": "small", "layers": 8, "hidden_size": 1024, "attention_heads": 16, "kv_heads": 4,
        "vocab_size": 32000, "activation": "swiglu", "norm": "rmsnorm", "position": "rope", "bias": false, "tied_embeddings": false},
        "cluster": {"preset": "dgx-h100", "nodes": 2}, "training": {"global_batch_size": 32, "sequence_length": 2048, "precision": "bf16"},
        "strategy": {"framework": "torchtitan"}})",
     R"({"/strategy/pipeline_parallel": [2, 4, 8], "/strategy/zero_stage": [0, 2, 3]})"},
    {"beside_products", R"({"model": {"name": "wide", "layers": 8, "hidden_size": 8192, "attention_heads": 64, "kv_heads": 8,
        "vocab_size": 32000, "activation": "swiglu", "norm": "rmsnorm", "position": "rope", "bias": false, "tied_embeddings": false},
        "cluster": {"preset": "dgx-h100", "nodes": 2}, "training": {"global_batch_size": 32, "sequence_length": 4096, "precision": "bf16"}})",
     R"({"/strategy/overlap/tensor_parallel": [true], "/strategy/tensor_parallel": [2, 4, 8], "/strategy/sequence_parallel": [true]})"},
    {"faster_last_nodes", R"({"model": {"name": "small", "layers": 8, "hidden_size": 1024, "attention_heads": 16, "kv_heads": 4,
        "vocab_size": 32000, "activation": "swiglu", "norm": "rmsnorm", "position": "rope", "bias": false, "tied_embeddings": false},
        "cluster": {"preset": "dgx-a100-80gb", "nodes": 4, "others": [{"nodes": 2, "device": "h100-sxm-80gb"}]},
        "training": {"global_batch_size": 64, "sequence_length": 2048, "precision": "bf16"}, "strategy": {"framework": "megatron"}})"},
    {"slower_last_nodes", R"({"model": {"name": "small", "layers": 8, "hidden_size": 1024, "attention_heads": 16, "kv_heads": 4,
        "vocab_size": 32000, "activation": "swiglu", "norm": "rmsnorm", "position": "rope", "bias": false, "tied_embeddings": false},
        "cluster": {"preset": "dgx-h100", "nodes": 4, "others": [{"nodes": 1, "device": "a100-sxm-80gb"}]},
        "training": {"global_batch_size": 64, "sequence_length": 2048, "precision": "bf16"}, "strategy": {"framework": "megatron"}})"},
    {"states_over_slow_pcie", R"({"model": {"name": "small", "layers": 8, "hidden_size": 1024, "attention_heads": 16, "kv_heads": 4,
        "vocab_size": 32000, "activation": "swiglu", "norm": "rmsnorm", "position": "rope", "bias": false, "tied_embeddings": false},
        "cluster": {"preset": "dgx-a100-80gb", "nodes": 1, "host": {"pcie_gb_per_s": 1}},
        "training": {"global_batch_size": 16, "sequence_length": 1024, "precision": "bf16"}, "strategy": {"framework": "deepspeed"}})",
     R"({"/strategy/offload/optimizer": ["cpu"], "/strategy/zero_stage": [1, 2, 3]})"},
    {"away_anyhow", R"({"model": {"name": "small-moe", "layers": 4, "hidden_size": 1024, "attention_heads": 16, "vocab_size": 32000,
        "activation": "swiglu", "norm": "rmsnorm", "position": "rope", "bias": false, "tied_embeddings": false,
        "moe": {"experts": 8, "top_k": 2, "expert_ffn_size": 2048, "first_dense_layers": 1}},
        "cluster": {"preset": "dgx-h100", "nodes": 1}, "training": {"global_batch_size": 16, "sequence_length": 1024, "precision": "bf16"}})",
     "", Reach::disk}};

// The bytes that a node's memory or NVMe lacks by the plan.
double lacks_at_home(const MemoryReport& m) {
    double most = 0;
    for (const NodeMemory* tier : {&m.host, &m.disk})
        if (!tier->fits()) most = std::max(most, static_cast<double>((tier->used.peak - tier->capacity).count));
    return most;
}

class Bounds : public testing::TestWithParam<Case> {};

TEST_P(Bounds, AreNeverAboveWhatIsSimulated) {
    const char* asked = std::getenv("ORRERY_BOUND_POINTS"); // 10000 by night
    const int points = asked ? std::atoi(asked) : 60;
    SpaceOptions asked_for;
    asked_for.space = GetParam().space;
    asked_for.farthest = GetParam().farthest;
    const StrategySpace space = make_space(GetParam().json, asked_for);
    ASSERT_TRUE(space.problems.empty()) << to_text(space.problems);
    ASSERT_GT(space.legal(), 50);
    Variation variation(space.machines.front().variations);
    const Fabric fabric(space.machines.front().variations.base().cluster);
    const FormBounds of_forms(space.machines.front().variations.base());
    Profiles profiles;
    InFlight in_flight;
    std::mt19937 random(7);
    const auto below = [&](std::size_t n) { return static_cast<std::int32_t>(random() % n); };
    SharedWire sharing(fabric);
    double forms = 0, times = 0, shared = 0, ways = 0, bytes = 0;
    int simulated = 0;
    for (int i = 0; i < points; ++i) {
        PointId id;
        id.form = below(space.forms.size());
        const Form& form = space.forms[id.form];
        id.core = below(form.cores.size()), id.rest = below(form.rests.size());
        id.recompute = below(space.machines.front().recomputes.size());
        const Scenario* resolved = variation.with(settings_of(space, id));
        if (!resolved) continue;
        const Scenario s = *resolved;
        const Prediction p = predict(s, lower(s), {});
        const Profile& profile = profiles.of(s, fabric);
        const double time = time_bound(s, profile, in_flight), memory = memory_bound(s, profile, in_flight, &sharing);
        const double with_sharing = time_bound(s, profile, in_flight, &sharing);
        const double with_transfers = time_bound(s, profile, in_flight, &sharing, true);
        const double path = std::max(path_bound(s, profile, in_flight, sharing), with_transfers);
        const auto peak = static_cast<double>(fullest(p.report.memory).peak.count);
        EXPECT_LE(time, with_sharing);
        EXPECT_LE(with_sharing, with_transfers);
        const Scenario kept = without_recompute(s); // the bound that points share until they are opened
        EXPECT_LE(time_bound(kept, profiles.of(kept, fabric), in_flight), p.report.step_time_s * (1 + 1e-9)) << json_of(space, id);
        EXPECT_LE(with_sharing, p.report.step_time_s * (1 + 1e-9)) << json_of(space, id);
        const double of_form = of_forms.of(form.shape);
        EXPECT_LE(of_form, p.report.step_time_s * (1 + 1e-9)) << json_of(space, id);
        EXPECT_LE(ring_bound(s, fabric), p.report.step_time_s * (1 + 1e-9)) << json_of(space, id);
        EXPECT_LE(path, p.report.step_time_s * (1 + 1e-9)) << json_of(space, id);
        EXPECT_LE(memory, peak * (1 + 1e-9)) << json_of(space, id);
        EXPECT_LE(home_bound(s), lacks_at_home(p.report.memory)) << json_of(space, id);
        times += time / p.report.step_time_s, shared += with_sharing / p.report.step_time_s, forms += of_form / p.report.step_time_s,
            ways += std::max(path, with_sharing) / p.report.step_time_s, bytes += memory / peak;
        ++simulated;
    }
    ASSERT_GT(simulated, points / 2);
    std::printf("%s: bounds are %.1f %% of the step time (%.1f without the longest way, %.1f without data parallelism, %.1f by "
                "arithmetic alone) and %.1f %% of the memory of %d random points\n",
                GetParam().name, 100 * ways / simulated, 100 * shared / simulated, 100 * times / simulated, 100 * forms / simulated,
                100 * bytes / simulated, simulated);
}

// A scenario with what its bounds are worked out from.
struct Bounded {
    Bounded(const std::string& json, const std::string& override_with) : scenario(parsed(json, override_with)) {}
    static Scenario parsed(const std::string& json, const std::string& override_with) {
        ParseOptions options;
        options.overrides = {override_with};
        const ParseResult result = parse_scenario(json, options);
        if (!result.scenario) throw std::runtime_error(to_text(result.problems));
        return *result.scenario;
    }
    double time(const Scenario& s, SharedWire* wire = nullptr) { return time_bound(s, profiles.of(s, fabric), in_flight, wire); }

    Scenario scenario;
    Fabric fabric{scenario.cluster};
    Profiles profiles;
    InFlight in_flight;
    SharedWire sharing{fabric};
};

// Two faults that one point in a thousand showed. The last stage's first layer waits for nothing behind its backward pass, where other
// layers wait for what the next one gathers; and layers that keep everything copy keys and values for every head, others do not.
TEST(TimeBound, HoldsForTheLastStageAndForLayersThatKeepEverything) {
    const std::string job =
        R"({"cluster": {"nodes": 2, "preset": "dgx-h100"}, "model": {"activation": "swiglu", "attention_heads": 16, "bias": false,
        "hidden_size": 1024, "kv_heads": 4, "layers": 8, "norm": "rmsnorm", "position": "rope", "tied_embeddings": false, "vocab_size": 32000},
        "strategy": {"framework": "torchtitan", "pipeline_parallel": 4, "schedule": "gpipe", "sequence_parallel": true, "tensor_parallel": 4},
        "training": {"global_batch_size": 32, "micro_batch_size": 1, "precision": "bf16", "sequence_length": 2048}})";
    for (const char* recompute : {"\"none\"", R"({"memory_budget": 0.7})"}) {
        Bounded bounded(job, std::string("strategy.recompute=") + recompute);
        const Scenario& s = bounded.scenario;
        const double simulated = predict(s).report.step_time_s, time = bounded.time(without_recompute(s));
        EXPECT_LE(time, simulated) << recompute;
        EXPECT_LE(path_bound(s, bounded.profiles.of(s, bounded.fabric), bounded.in_flight, bounded.sharing), simulated) << recompute;
        EXPECT_GT(time, 0.93 * simulated) << "and says much";
    }
}

// Unit by unit, the backward pass has the output layer's parameters from the forward pass, and needs none of the embedding's.
TEST(TimeBound, CountsNoGatherOfTablesForTheBackwardPass) {
    const std::string job = R"({"model": {"name": "small", "layers": 8, "hidden_size": 1024, "attention_heads": 16, "kv_heads": 4,
        "vocab_size": 32000, "activation": "swiglu", "norm": "rmsnorm", "position": "rope", "bias": false, "tied_embeddings": false},
        "cluster": {"preset": "dgx-h100", "nodes": 2, "inter_node": {"kind": "ethernet", "gbit_per_s": 100, "nics_per_node": 1}},
        "training": {"global_batch_size": 32, "micro_batch_size": 1, "sequence_length": 2048, "precision": "bf16"},
        "strategy": {"context_parallel": 8, "zero_stage": 3}})";
    for (const char* framework : {"megatron", "fsdp2", "deepspeed"}) {
        Bounded bounded(job, std::string("strategy.framework=") + framework);
        const double simulated = predict(bounded.scenario).report.step_time_s, bound = bounded.time(bounded.scenario, &bounded.sharing);
        EXPECT_LE(bound, simulated) << framework;
        EXPECT_GE(bound, 0.8 * simulated) << framework;
    }
}

// Tensor parallelism's gathers and reductions run beside the products that read and make their rows, which take longer for it, and the next
// kernel waits for both. A schedule that runs weight gradients apart may have nothing beside these.
TEST(TimeBound, CountsWhatKernelsLoseToCommunicationThatTheNextOneWaitsFor) {
    const std::string job = R"({"model": {"name": "wide", "layers": 8, "hidden_size": 8192, "attention_heads": 64, "kv_heads": 8,
        "vocab_size": 32000, "activation": "swiglu", "norm": "rmsnorm", "position": "rope", "bias": false, "tied_embeddings": false},
        "cluster": {"preset": "dgx-h100", "nodes": 1},
        "training": {"global_batch_size": 64, "micro_batch_size": 1, "sequence_length": 8192, "precision": "bf16"},
        "strategy": {"framework": "megatron", "tensor_parallel": 8, "sequence_parallel": true, "overlap": {"tensor_parallel": true}}})";
    Bounded bounded(job, "strategy.pipeline_parallel=1");
    const Scenario& s = bounded.scenario;
    const double simulated = predict(s).report.step_time_s, bound = bounded.time(s);
    EXPECT_LE(bound, simulated);
    EXPECT_GT(bound, 0.985 * simulated);
    const Profile& profile = bounded.profiles.of(s, bounded.fabric);
    const PartCost& layer = profile.layers[1];
    EXPECT_GT(layer.lost_beside_weights, 0);
    Scenario apart = s;
    apart.strategy.schedule = "zb-h1";
    EXPECT_NEAR(chunk_costs(s, profile, false).front().backward - chunk_costs(apart, profile, false).front().backward,
                8 * layer.lost_beside_weights, 0.2 * 8 * layer.lost_beside_weights);
}

// Each step of a ring has kernels of its own, however few its tokens: sixteen ranks with 64 tokens each do little else.
TEST(TimeBound, CountsTheStepsOfALongRing) {
    const std::string job = R"({"model": {"name": "tiny", "layers": 4, "hidden_size": 512, "attention_heads": 8, "vocab_size": 8000},
        "cluster": {"preset": "dgx-h100", "nodes": 2},
        "training": {"global_batch_size": 16, "micro_batch_size": 1, "sequence_length": 1024, "precision": "bf16"},
        "strategy": {"framework": "megatron", "tensor_parallel": 1, "pipeline_parallel": 1, "context_parallel": 16}})";
    const Bounded ring(job, "strategy.context_parallel_kind=ring"), gathered(job, "strategy.context_parallel_kind=allgather"),
        short_ring(job, "strategy.context_parallel=8");
    const double simulated = predict(ring.scenario).report.step_time_s, bound = ring_bound(ring.scenario, ring.fabric);
    EXPECT_LE(bound, simulated);
    EXPECT_GT(bound, 0.3 * simulated);
    EXPECT_EQ(ring_bound(gathered.scenario, gathered.fabric), 0);
    EXPECT_EQ(ring_bound(short_ring.scenario, short_ring.fabric), 0);
}

// A chunk's last layer keeps nothing of what it gives the next stage, and all chunks but the first have received as much: the first stage,
// which holds as many microbatches as there are stages, is the one that shows it.
TEST(MemoryBound, CountsNothingThatTheFirstStageHandsOn) {
    const std::string job = R"({"model": {"name": "wide", "layers": 8, "hidden_size": 8192, "attention_heads": 64, "kv_heads": 8,
        "vocab_size": 32000, "activation": "swiglu", "norm": "rmsnorm", "position": "rope", "bias": false, "tied_embeddings": false},
        "cluster": {"preset": "dgx-h100", "nodes": 2},
        "training": {"global_batch_size": 32, "micro_batch_size": 4, "sequence_length": 4096, "precision": "bf16"},
        "strategy": {"tensor_parallel": 2, "sequence_parallel": true, "overlap": {"tensor_parallel": true}, "context_parallel": 1,
        "pipeline_parallel": 8, "schedule": "1f1b"}})";
    for (const char* recompute : {"none", "selective", "full"}) {
        Bounded bounded(job, std::string("strategy.recompute=") + recompute);
        const Scenario& s = bounded.scenario;
        const double bound = memory_bound(s, bounded.profiles.of(s, bounded.fabric), bounded.in_flight, &bounded.sharing);
        const auto peak = static_cast<double>(fullest(memory(lower(s), s)).peak.count);
        EXPECT_LE(bound, peak) << recompute;
        EXPECT_GT(bound, 0.9 * peak) << recompute;
    }
}

// Under a pipeline FSDP2 has whole parameters (2 bytes) and whole gradients (4) from a stage's first microbatch to its last, and PyTorch's
// stages keep the outputs of all microbatches but the last (2 bytes a logit).
TEST(MemoryBound, CountsWhatStagesKeepWholeUntilTheStepEnds) {
    const std::string job = R"({"model": {"name": "small", "layers": 8, "hidden_size": 1024, "attention_heads": 16, "kv_heads": 4,
        "ffn_size": 4096, "vocab_size": 32000, "activation": "swiglu", "norm": "rmsnorm", "position": "rope", "bias": false,
        "tied_embeddings": false}, "cluster": {"preset": "dgx-h100", "nodes": 2},
        "training": {"global_batch_size": 64, "micro_batch_size": 1, "sequence_length": 2048, "precision": "bf16"},
        "strategy": {"pipeline_parallel": 2, "tensor_parallel": 1, "zero_stage": 3, "recompute": "full"}, "runtime": {"year": 2025}})";
    for (const char* framework : {"torchtitan", "fsdp2"})
        for (const char* schedule : {"1f1b", "gpipe", "zb-v"}) {
            ParseOptions options;
            options.overrides = {std::string("strategy.framework=") + framework, std::string("strategy.schedule=") + schedule};
            const ParseResult parsed = parse_scenario(job, options);
            ASSERT_TRUE(parsed.scenario) << to_text(parsed.problems);
            const Scenario& s = *parsed.scenario;
            ASSERT_EQ(s.microbatches(), 64 / 8);
            const Fabric fabric(s.cluster);
            Profiles profiles;
            InFlight in_flight;
            SharedWire sharing(fabric);
            const double bound = memory_bound(s, profiles.of(s, fabric), in_flight, &sharing);
            // A layer: queries and outputs, keys and values of a quarter, three matrices of the MLP.
            const double layer = 1024.0 * 1024 * (2 + 2.0 / 4 + 3 * 4), table = 32000.0 * 1024;
            const double outputs = 7 * 2048.0 * 32000 * 2;
            EXPECT_GT(bound, (4 * layer + table) * (2 + 4) + outputs) << framework << " " << schedule;
            EXPECT_LE(bound, static_cast<double>(fullest(memory(lower(s), s)).peak.count)) << framework << " " << schedule;
        }
}

// Replicas with expandable segments and one microbatch: all that counts is at the loss. The page at the end of each pool is given up before
// memory runs out, so that a job does not need it.
TEST(MemoryBound, CountsNoPagesThatTheAllocatorGivesUp) {
    const std::string job = R"({"model": {"name": "small", "layers": 6, "hidden_size": 1024, "attention_heads": 16, "kv_heads": 4,
        "vocab_size": 32000, "activation": "swiglu", "norm": "rmsnorm", "position": "rope", "bias": false, "tied_embeddings": false},
        "cluster": {"preset": "dgx-h100", "nodes": 2},
        "training": {"global_batch_size": 32, "micro_batch_size": 32, "sequence_length": 2048, "precision": "bf16"},
        "strategy": {"framework": "torchtitan", "context_parallel": 16, "context_parallel_kind": "ring", "pipeline_parallel": 1,
        "tensor_parallel": 1, "zero_stage": 0}, "runtime": {"year": 2025}})";
    Bounded bounded(job, "strategy.recompute=full");
    const Scenario& s = bounded.scenario;
    const StageMemory stage = fullest(memory(lower(s), s));
    const auto pages = std::ranges::find(stage.reserve, "allocator pages", &ReserveItem::name);
    ASSERT_NE(pages, stage.reserve.end());
    EXPECT_TRUE(pages->kept);
    const double bound = memory_bound(s, bounded.profiles.of(s, bounded.fabric), bounded.in_flight, &bounded.sharing);
    EXPECT_LE(bound, static_cast<double>(stage.peak.count));
    EXPECT_GT(bound, static_cast<double>((stage.peak - pages->bytes).count)) << "and leaves nothing else out";
}

INSTANTIATE_TEST_SUITE_P(Random, Bounds, testing::ValuesIn(cases), [](const auto& c) { return std::string(c.param.name); });

} // namespace
} // namespace orrery
