// Pairs on what the others leave out: networks without trees (dragonflies, tori), racks that share an NVSwitch, TPUs, 8-bit types, context
// parallelism, every pipeline schedule, sharding in groups, compressed and loosely synchronised data parallelism. The improvements are
// those of hardware: none of them may lose, whatever the strategy.
#include "tests/laws/whatif.hpp"

#include <fmt/format.h>

#include <functional>
#include <utility>

namespace orrery::laws {
namespace {

using Pointer = Json::json_pointer;

struct Machine {
    Json cluster;
    int nodes, per_node;
    bool tpu = false, eight_bits = false;
};

Machine dragonfly(Random& random) {
    const int nodes = any<int>(random, {2, 4, 8, 8});
    Json c{{"preset", "frontier"}, {"nodes", nodes}, {"devices_per_node", 8}};
    if (one_of(random, 3) > 0) c["device"]["preset"] = any<std::string>(random, {"a100-sxm-80gb", "h100-sxm-80gb"});
    c["inter_node"] = {{"dragonfly",
                        {{"switches_per_group", any<int>(random, {1, 2, 4})},
                         {"nodes_per_switch", any<int>(random, {1, 2})},
                         {"global_links", any<int>(random, {1, 2, 4})}}}};
    return {c, nodes, 8};
}

Machine rack(Random& random) {
    const int nodes = any<int>(random, {1, 2, 4});
    Json c{{"preset", "dgx-b200"}, {"nodes", nodes}, {"devices_per_node", 4}};
    c["device"]["preset"] = any<std::string>(random, {"gb200", "gb300"});
    c["intra_node"] = {{"domain_nodes", nodes == 1 ? 1 : any<int>(random, {1, 2, nodes})}};
    c["inter_node"] = {{"nics_per_node", any<int>(random, {1, 4})}};
    return {c, nodes, 4, false, true};
}

Machine torus(Random& random) {
    const int nodes = any<int>(random, {2, 4, 8, 16});
    Json c{{"preset", any<std::string>(random, {"tpu-v4-pod", "tpu-v5p-pod", "tpu-v6e-pod"})}, {"nodes", nodes}};
    return {c, nodes, 4, true};
}

Machine tree(Random& random) {
    const int nodes = any<int>(random, {1, 2, 4, 8});
    Json c{{"preset", any<std::string>(random, {"dgx-a100-80gb", "dgx-h100", "dgx-h200", "aws-p5", "azure-nd-mi300x-v5", "gcp-a3"})},
           {"nodes", nodes},
           {"devices_per_node", 8}};
    if (one_of(random, 2) == 0)
        c["inter_node"] = {{"topology", any<std::string>(random, {"rail-only", "rail-optimized", "fat-tree", "dual-plane"})},
                           {"nics_per_node", 8}};
    const std::string preset = c["preset"];
    return {c, nodes, 8, false, preset == "dgx-h100" || preset == "dgx-h200"};
}

Machine machine(Random& random) {
    switch (one_of(random, 5)) {
    case 0:
        return dragonfly(random);
    case 1:
        return rack(random);
    case 2:
        return torus(random);
    default:
        return tree(random);
    }
}

// A schedule and its virtual stages.
void pipeline(Random& random, Json& strategy, int pp, int& layers, int& batches) {
    static const std::vector<std::pair<const char*, int>> kinds{
        {"1f1b", 1},  {"gpipe", 1}, {"interleaved-1f1b", 2}, {"interleaved-1f1b", 4}, {"zb-h1", 1},
        {"zb-h2", 1}, {"zb-v", 2},  {"dualpipe", 1},         {"dualpipe-v", 2}};
    const auto [schedule, chunks] = any(random, kinds);
    strategy["pipeline_parallel"] = pp;
    strategy["schedule"] = schedule;
    if (chunks > 1) strategy["virtual_pipeline"] = chunks;
    layers = pp * chunks * any<int>(random, {1, 2});
    batches = pp * any<int>(random, {2, 3, 4});
    if (one_of(random, 3) == 0) strategy["overlap"] = {{"pipeline", true}};
    if (std::string_view(schedule).starts_with("zb") && one_of(random, 2) == 0) strategy["optimizer_sync"] = "post-validation";
}

// What data parallelism does with a gradient.
void sharding(Random& random, Json& strategy, int dp, int per_node) {
    switch (one_of(random, 6)) {
    case 0:
        strategy["framework"] = "fsdp2";
        if (dp % 8 == 0 && dp > 8 && per_node == 8) strategy["shard_group_size"] = 8;
        break;
    case 1:
        strategy["framework"] = "deepspeed";
        strategy["zero_stage"] = any<int>(random, {1, 2, 3});
        if (strategy["zero_stage"] == 3 && one_of(random, 2) == 0) strategy["quantized_weights"] = "int8";
        break;
    case 2:
        strategy["framework"] = "ddp";
        strategy["gradient_compression"] = any<std::string>(random, {"fp16", "int8", "int4"});
        break;
    case 3:
        strategy["framework"] = "ddp";
        strategy["synchronization"] = {{"kind", any<std::string>(random, {"local_sgd", "diloco"})},
                                       {"inner_steps", any<int>(random, {2, 4})}};
        break;
    case 4:
        strategy["framework"] = "torchtitan";
        break;
    default:
        strategy["framework"] = "megatron";
    }
}

Json wide_scenario(Random& random) {
    const Machine m = machine(random);
    const int world = m.nodes * m.per_node;
    int tp = any<int>(random, {1, 1, 2, 4}), cp = any<int>(random, {1, 1, 2, 4}), pp = m.tpu ? 1 : any<int>(random, {1, 1, 2, 4});
    while (world / tp % cp != 0) cp /= 2;
    while (world / tp / cp % pp != 0) pp /= 2;
    const int dp = world / tp / cp / pp, micro = any<int>(random, {1, 2}), hidden = any<int>(random, {1024, 2048, 4096});
    int layers = any<int>(random, {2, 3, 4}), batches = any<int>(random, {1, 2, 3});
    Json strategy{{"tensor_parallel", tp}, {"context_parallel", cp}};
    if (m.tpu) {
        strategy["framework"] = "jax";
        strategy["zero_stage"] = any<int>(random, {0, 1, 3});
    } else if (tp * cp * pp > 1) {
        if (one_of(random, 3) == 0) strategy["framework"] = "megatron";
        strategy["sequence_parallel"] = tp > 1 && one_of(random, 2) == 0;
        if (pp > 1) pipeline(random, strategy, pp, layers, batches);
        if (cp > 1) strategy["context_parallel_kind"] = any<std::string>(random, {"ring", "allgather", "ulysses"});
        if (strategy.contains("framework") && pp > 1) strategy.erase("schedule"), strategy.erase("virtual_pipeline");
    } else if (dp > 1)
        sharding(random, strategy, dp, m.per_node);
    if (strategy.contains("schedule") && strategy["schedule"] == "dualpipe") batches = 2 * pp * any<int>(random, {1, 2});
    const bool experts =
        one_of(random, 3) == 0 && !m.tpu && !strategy.contains("synchronization") && !strategy.contains("gradient_compression");
    Json model{{"layers", layers},
               {"hidden_size", hidden},
               {"attention_heads", hidden / 64},
               {"vocab_size", any<int>(random, {8192, 32000})},
               {"activation", "swiglu"},
               {"norm", "rmsnorm"},
               {"position", "rope"},
               {"bias", false},
               {"tied_embeddings", false}};
    if (experts) {
        model["moe"] = {{"experts", 8}, {"top_k", any<int>(random, {1, 2})}, {"expert_ffn_size", any<int>(random, {512, 2048})}};
        strategy["expert_parallel"] = dp % 4 == 0 ? 4 : dp % 2 == 0 ? 2 : 1;
        if (tp > 1) strategy["sequence_parallel"] = true;
    }
    switch (one_of(random, 5)) {
    case 0:
        strategy["recompute"] = "full";
        break;
    case 1:
        strategy["recompute"] = "selective";
        break;
    case 2:
        if (experts) strategy["recompute"] = Json::array({"moe"});
        break;
    default:
        break;
    }
    const std::string precision = m.eight_bits ? any<std::string>(random, {"bf16", "bf16", "fp8"}) : "bf16";
    return {{"model", model},
            {"cluster", m.cluster},
            {"training",
             {{"global_batch_size", dp * micro * batches},
              {"micro_batch_size", micro},
              {"sequence_length", any<int>(random, {512, 1024, 4096})},
              {"precision", precision}}},
            {"strategy", strategy},
            {"runtime", {{"year", any<int>(random, {2024, 2025})}}}};
}

Pair two(std::string name, const Json& base, const char* pointer, const Json& worse, const Json& better) {
    Pair p{fmt::format("{}: {} -> {}", name, worse.dump(), better.dump()), base, base};
    p.worse[Pointer(pointer)] = worse;
    p.better[Pointer(pointer)] = better;
    return p;
}

double wide_factor(Random& random) { return any<double>(random, {1.02, 1.1, 1.3, 2, 4}); }

Pair more(Random& random, const Json& base, const char* pointer, double from) {
    const double worse = from * any<double>(random, {0.5, 0.8, 1, 1.5});
    return two(pointer, base, pointer, worse, worse * wide_factor(random));
}

Pair wide_less(Random& random, const Json& base, const char* pointer, double from) {
    const double worse = from * any<double>(random, {1, 3, 10});
    return two(pointer, base, pointer, worse, worse / wide_factor(random));
}

Pair links(Random& random, const Json& base) {
    Json job = base;
    Json& inter = job["cluster"]["inter_node"];
    if (inter.is_object() && inter.contains("dragonfly")) switch (one_of(random, 3)) {
        case 0:
            return two("dragonfly.global_links", job, "/cluster/inter_node/dragonfly/global_links", any<int>(random, {1, 2}),
                       any<int>(random, {4, 8}));
        default:
            return more(random, job, "/cluster/inter_node/gbit_per_s", 200);
        }
    if (base["strategy"].value("framework", "") == "jax") {
        if (one_of(random, 3) == 0) {
            inter["shape"] = {2, 2, base["cluster"]["nodes"]};
            return two("torus.wrap", job, "/cluster/inter_node/wrap", {false, false, false}, {false, false, true});
        }
        return more(random, job, "/cluster/intra_node/gb_per_s", 200);
    }
    if (one_of(random, 4) == 0) {
        inter["kind"] = "infiniband";
        return two("collective_algorithm", job, "/strategy/collective_algorithm", any<std::string>(random, {"ring", "tree"}), "sharp");
    }
    return more(random, job, "/cluster/inter_node/gbit_per_s", any<double>(random, {100, 200, 400}));
}

Pair lighter(Random& random, const Json& base) {
    static const std::vector<Json> order{"full", Json::array({"moe"}), "selective", "none"};
    const bool experts = base["model"].contains("moe");
    std::size_t from = one_of(random, 3), to = from + 1 + one_of(random, 3 - from);
    if (!experts && from == 1) from = 0;
    if (!experts && to == 1) to = 3;
    if (from == 1 && to == 2) to = 3; // neither holds the other's ops
    return two("recompute", base, "/strategy/recompute", order[from], order[to]);
}

} // namespace

Pair wide_pair(Random& random) {
    const Json base = wide_scenario(random);
    switch (one_of(random, 12)) {
    case 0:
    case 1:
    case 2:
        if (base["cluster"]["nodes"] > 1) return links(random, base);
        [[fallthrough]];
    case 3:
        return more(random, base, "/cluster/intra_node/gb_per_s", any<double>(random, {100, 300, 600}));
    case 4:
        return wide_less(random, base, "/cluster/intra_node/latency_us", 0.6);
    case 5:
        if (base["cluster"]["nodes"] > 1) return wide_less(random, base, "/cluster/inter_node/latency_us", 2);
        [[fallthrough]];
    case 6:
        return more(random, base, "/cluster/device/memory_gb_per_s", any<double>(random, {1500, 3000, 8000}));
    case 7: {
        const double peak = any<double>(random, {200, 400, 1000}), better = peak * wide_factor(random);
        const auto table = [](double p) { return Json{{"bf16", p}, {"fp16", p}, {"fp8", 2 * p}, {"fp32", p / 8}}; };
        return two("device.peak_tflops", base, "/cluster/device/peak_tflops", table(peak), table(better));
    }
    case 8:
        return wide_less(random, base, "/runtime/launch_us", 3);
    case 9:
        return two("cuda_graphs", base, "/runtime/cuda_graphs", false, true);
    case 10:
        return lighter(random, base);
    default: { // (a slow node is left out: transfers that it staggers can pass shared links sooner, see whatif_laws_test.cpp)
        Pair p{"perturb: removed", base, base};
        p.worse["perturb"] = Json::array({Json{{"slow", any<double>(random, {1.1, 2})}, {"link", "scale_up"}}});
        return p;
    }
    }
}

} // namespace orrery::laws
