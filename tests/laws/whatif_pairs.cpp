// The pairs of whatif.hpp.
#include "tests/laws/whatif.hpp"

#include <fmt/format.h>

#include <functional>

namespace orrery::laws {
namespace {

using Pointer = Json::json_pointer;

Json cluster(Random& random, int nodes, int per_node) {
    static const std::vector<std::string> presets{"dgx-v100", "dgx-a100-80gb", "dgx-h100", "dgx-b200", "aws-p4d",
                                                  "aws-p5",   "azure-ndv4",    "gcp-a3",   "dgx-h200", "azure-nd-mi300x-v5",
                                                  "dgx-h100", "h800-deepseek"};
    Json c{{"preset", any(random, presets)}, {"nodes", nodes}, {"devices_per_node", per_node}};
    Json inter;
    if (one_of(random, 2) == 0) inter["topology"] = any<std::string>(random, {"fat-tree", "rail-optimized", "single-switch"});
    if (one_of(random, 2) == 0) inter["nodes_per_leaf"] = any<int>(random, {1, 2, 4});
    if (one_of(random, 4) == 0) inter["oversubscription"] = any<double>(random, {2.0, 4.0});
    if (one_of(random, 5) == 0) inter["kind"] = any<std::string>(random, {"infiniband", "roce", "efa", "ethernet"});
    if (one_of(random, 4) == 0) inter["nics_per_node"] = any<int>(random, {1, 2, 4, 8});
    if (one_of(random, 6) == 0) inter["gbit_per_s"] = any<int>(random, {25, 50, 100, 200, 400, 800});
    if (!inter.empty()) c["inter_node"] = inter;
    return c;
}

// Degrees that fill the devices: tensor, then pipeline parallelism, then data.
Json scenario(Random& random) {
    const int nodes = any<int>(random, {1, 2, 2, 3, 4, 4, 8}), per_node = any<int>(random, {2, 4, 8, 8, 8});
    const int world = nodes * per_node;
    int tp = any<int>(random, {1, 1, 2, 4, 8}), pp = any<int>(random, {1, 1, 1, 2, 4});
    while (per_node % tp != 0) tp /= 2;
    while ((world / tp) % pp != 0) pp /= 2;
    const int dp = world / tp / pp, micro = any<int>(random, {1, 2, 4}), batches = pp * any<int>(random, {1, 2, 3});
    const bool experts = one_of(random, 5) == 0 && dp > 1;
    const std::string framework = tp * pp > 1 || experts ? any<std::string>(random, {"megatron", "megatron", "torchtitan", "deepspeed"})
                                                         : any<std::string>(random, {"ddp", "fsdp", "fsdp2", "deepspeed", "megatron"});
    const int zero = framework == "ddp"                   ? 0
                     : framework == "deepspeed" && pp > 1 ? 1
                     : framework == "megatron"            ? any<int>(random, {0, 1})
                                                          : any<int>(random, {1, 3, 3});
    const int hidden = any<int>(random, {512, 1024, 2048, 4096}), heads = hidden / 64;
    Json model{{"layers", pp * any<int>(random, {1, 2, 3})},
               {"hidden_size", hidden},
               {"attention_heads", heads},
               {"vocab_size", any<int>(random, {8192, 32000, 51200})},
               {"tied_embeddings", one_of(random, 2) == 0}};
    if (one_of(random, 2) == 0)
        model["activation"] = "swiglu", model["norm"] = "rmsnorm", model["position"] = "rope", model["bias"] = false;
    if (experts) model["bias"] = false, model["moe"] = {{"experts", 8}, {"top_k", 2}};
    Json strategy{{"framework", framework},
                  {"tensor_parallel", tp},
                  {"pipeline_parallel", pp},
                  {"zero_stage", zero},
                  {"sequence_parallel", tp > 1 && (experts || one_of(random, 2) == 0)}};
    if (experts) strategy["expert_parallel"] = dp % 8 == 0 ? any<int>(random, {2, 4, 8}) : dp % 4 == 0 ? 4 : dp % 2 == 0 ? 2 : 1;
    if (one_of(random, 4) == 0) strategy["recompute"] = any<std::string>(random, {"selective", "full"});
    const std::string precision = any<std::string>(random, {"fp16", "fp16", "bf16", "bf16", "fp32"});
    Json out{{"model", model},
             {"cluster", cluster(random, nodes, per_node)},
             {"training",
              {{"global_batch_size", dp * micro * batches},
               {"micro_batch_size", micro},
               {"sequence_length", any<int>(random, {256, 512, 1024, 2048})},
               {"precision", precision}}},
             {"strategy", strategy},
             {"runtime", {{"year", any<int>(random, {2021, 2023, 2024, 2025})}}}};
    if (precision == "fp32" || out["cluster"]["preset"] == "dgx-v100") out["strategy"]["flash_attention"] = false;
    if (out["cluster"]["preset"] == "dgx-v100") out["training"]["precision"] = "fp16";
    if (experts) out["runtime"]["token_dispatcher"] = any<std::string>(random, {"alltoall", "allgather", "deepep"});
    return out;
}

Pair of(const std::string& name, const Json& base) { return {name, base, base}; }

Pair number(Random&, const Json& base, const char* pointer, double worse, double better) {
    Pair p = of(fmt::format("{}: {:.6g} -> {:.6g}", pointer, worse, better), base);
    p.worse[Pointer(pointer)] = worse;
    p.better[Pointer(pointer)] = better;
    return p;
}

Pair whole(const Json& base, const char* pointer, int worse, int better) {
    Pair p = of(fmt::format("{}: {} -> {}", pointer, worse, better), base);
    p.worse[Pointer(pointer)] = worse;
    p.better[Pointer(pointer)] = better;
    return p;
}

Pair text(const Json& base, const char* pointer, const std::string& worse, const std::string& better) {
    Pair p = of(fmt::format("{}: {} -> {}", pointer, worse, better), base);
    p.worse[Pointer(pointer)] = worse;
    p.better[Pointer(pointer)] = better;
    return p;
}

Pair flag(const Json& base, const char* pointer, bool better) {
    Pair p = of(fmt::format("{}: {} -> {}", pointer, !better, better), base);
    p.worse[Pointer(pointer)] = !better;
    p.better[Pointer(pointer)] = better;
    return p;
}

// Two neighbours of a list that goes from the worst to the best, not always next to each other.
template <class T> std::pair<T, T> steps(Random& random, const std::vector<T>& order) {
    const std::size_t low = one_of(random, order.size() - 1);
    return {order[low], order[low + 1 + one_of(random, order.size() - low - 1)]};
}

double factor(Random& random) { return any<double>(random, {1.01, 1.1, 1.25, 1.5, 2, 4}); }

Pair rate(Random& random, const Json& base, const char* pointer, double from) {
    const double worse = from * any<double>(random, {0.5, 0.8, 1, 1, 1.3, 2});
    return number(random, base, pointer, worse, worse * factor(random));
}

Pair less(Random& random, const Json& base, const char* pointer, double from) {
    const double worse = from * any<double>(random, {1, 2, 5, 20});
    return number(random, base, pointer, worse, worse / factor(random));
}

Pair device(Random& random, const Json& base) {
    static const std::vector<std::vector<std::string>> lines{{"v100-sxm2-16gb", "v100-sxm2-32gb"},
                                                             {"a100-sxm-40gb", "a100-sxm-80gb"},
                                                             {"a100-pcie-80gb", "a100-sxm-80gb"},
                                                             {"a800-sxm-80gb", "a100-sxm-80gb"},
                                                             {"h100-pcie-80gb", "h100-sxm-80gb", "h200-sxm-141gb"},
                                                             {"h800-sxm-80gb", "h100-sxm-80gb", "h200-sxm-141gb"},
                                                             {"mi300x", "mi325x", "mi355x"},
                                                             {"rtx-3090", "rtx-4090"},
                                                             {"gb200", "gb300"},
                                                             {"b200-192gb", "b300-288gb"}};
    const auto [worse, better] = steps(random, lines[one_of(random, lines.size())]);
    Pair p = of("device: " + worse + " -> " + better, base);
    for (auto [which, name] : {std::pair{&p.worse, worse}, {&p.better, better}}) {
        Json& c = (*which)["cluster"];
        c.erase("preset");
        c["device"] = name;
        if (c["nodes"] > 1) {
            Json inter{{"kind", "infiniband"}, {"nics_per_node", 8}, {"gbit_per_s", 200}};
            if (c.contains("inter_node")) inter.update(c["inter_node"]);
            c["inter_node"] = inter;
        } else
            c.erase("inter_node");
        if (name.starts_with("v100")) (*which)["training"]["precision"] = "fp16", (*which)["strategy"]["flash_attention"] = false;
    }
    return p;
}

Pair network(Random& random, const Json& base) {
    switch (one_of(random, 10)) {
    case 0:
    case 1: {
        const auto [worse, better] = steps<std::string>(random, {"ethernet", "efa", "roce", "infiniband"});
        return text(base, "/cluster/inter_node/kind", worse, better);
    }
    case 2:
        return text(base, "/cluster/inter_node/kind", "omni-path", "infiniband");
    case 3:
    case 4:
        return rate(random, base, "/cluster/inter_node/gbit_per_s", any<double>(random, {50, 100, 200, 290, 400}));
    case 5:
        return less(random, base, "/cluster/inter_node/latency_us", 2);
    case 6:
    case 7: {
        // A leaf has a fixed number of ports, so more NICs leave fewer nodes under it. The pair keeps the nodes under a leaf: one change,
        // not two.
        const auto [worse, better] = steps<int>(random, {1, 2, 3, 4, 6, 8, 16});
        Pair p = whole(base, "/cluster/inter_node/nics_per_node", worse, better);
        for (Json* s : {&p.worse, &p.better})
            if (!(*s)["cluster"]["inter_node"].contains("nodes_per_leaf")) (*s)["cluster"]["inter_node"]["nodes_per_leaf"] = 2;
        return p;
    }
    case 8: {
        const auto [worse, better] = steps<double>(random, {8, 4, 2, 1});
        return number(random, base, "/cluster/inter_node/oversubscription", worse, better);
    }
    default:
        return text(base, "/cluster/inter_node/topology", "fat-tree", "single-switch");
    }
}

// Paths between leaves: two nodes under each, so that there are some.
Json with_leaves(const Json& base) {
    Json out = base;
    Json& inter = out["cluster"]["inter_node"];
    inter["topology"] = "fat-tree";
    inter["nodes_per_leaf"] = 2;
    inter["nics_per_node"] = 8;
    return out;
}

// Links that are down, in part or wholly: what routing makes of them, and what mending them brings.
Pair mended(Random& random, const Json& base) {
    Json leaves = with_leaves(base);
    Json& inter = leaves["cluster"]["inter_node"];
    Json link = one_of(random, 2) == 0 ? Json{{"leaf", 0}, {"uplink", one_of(random, 4)}, {"uplinks", any<int>(random, {1, 2, 3})}}
                                       : Json{{"node", 0}, {"nic", one_of(random, 8)}};
    if (one_of(random, 2) == 0) link["share"] = any<double>(random, {0.1, 0.5, 0.9});
    if (one_of(random, 2) == 0) inter["routing"] = any<std::string>(random, {"planned", "adaptive", "spray"});
    switch (one_of(random, 4)) {
    case 0: {
        inter["down"] = Json::array({link});
        const auto [worse, better] = steps<std::string>(random, {"planned", "adaptive"});
        return text(leaves, "/cluster/inter_node/routing", worse, better);
    }
    case 1: {
        inter["down"] = Json::array({link});
        return text(leaves, "/cluster/inter_node/routing", "spray", "adaptive");
    }
    default: {
        Pair p = of("inter_node.down: mended: " + link.dump(), leaves);
        p.worse["cluster"]["inter_node"]["down"] = Json::array({link});
        return p;
    }
    }
}

Pair paths(Random& random, const Json& base) {
    switch (one_of(random, 4)) {
    case 0:
        return text(with_leaves(base), "/cluster/inter_node/routing", "ecmp",
                    any<std::string>(random, {"even", "planned", "adaptive", "spray"}));
    case 1: {
        Json leaves = with_leaves(base);
        const auto [worse, better] = steps<int>(random, {1, 2, 4, 8});
        return whole(leaves, "/cluster/inter_node/nodes_per_leaf", worse, better);
    }
    case 2: {
        Json dual = base;
        dual["cluster"]["inter_node"]["topology"] = "dual-plane";
        dual["cluster"]["inter_node"]["nics_per_node"] = 8;
        Pair p = of("inter_node.down: port mended", dual);
        p.worse["cluster"]["inter_node"]["down"] =
            Json::array({Json{{"node", 0}, {"nic", one_of(random, 8)}, {"port", one_of(random, 2)}}});
        return p;
    }
    default:
        return mended(random, base);
    }
}

// Inside a node: what joins its devices, and how far apart they are.
Pair inside(Random& random, const Json& base) {
    Json box = base;
    Json& intra = box["cluster"]["intra_node"];
    intra = {{"kind", "pcie"},
             {"gb_per_s", any<int>(random, {16, 32, 64})},
             {"pcie_tree", {{"devices_per_switch", 2}, {"sockets", 1}, {"bridge_gb_per_s", 16}, {"socket_gb_per_s", 10}}}};
    const std::string tree = "/cluster/intra_node/pcie_tree/";
    switch (one_of(random, 7)) {
    case 0: // a NIC under each switch: one that several switches share is nearer to them on the host bridge
        box["cluster"]["inter_node"]["nics_per_node"] = 8;
        return flag(box, (tree + "near_nics").c_str(), true);
    case 1:
        return rate(random, box, (tree + "bridge_gb_per_s").c_str(), 16);
    case 2: {
        intra["pcie_tree"]["sockets"] = base["cluster"]["devices_per_node"] == 8 ? 2 : 1;
        return rate(random, box, (tree + "socket_gb_per_s").c_str(), 10);
    }
    case 3: {
        Pair p = whole(box, (tree + "sockets").c_str(), 2, 1);
        return p;
    }
    case 4:
        return rate(random, base, "/cluster/host/pcie_gb_per_s", any<double>(random, {8, 16, 32, 64}));
    case 5: { // two nodes under one switch, where the device has one
        Json racks = base;
        racks["cluster"]["preset"] = any<std::string>(random, {"dgx-h100", "dgx-a100-80gb", "dgx-b200"});
        return whole(racks, "/cluster/intra_node/domain_nodes", 1, 2);
    }
    default: {
        Json nodes = base;
        nodes["cluster"]["preset"] = any<std::string>(random, {"dgx-h100", "dgx-h200"});
        nodes["cluster"]["nodes"] = base["cluster"]["nodes"];
        Pair p = of("others: replaced", nodes);
        p.worse["cluster"]["others"] =
            Json::array({Json{{"nodes", 1}, {"device", any<std::string>(random, {"a100-sxm-80gb", "a100-sxm-40gb"})}}});
        return p;
    }
    }
}

Pair perturbed(Random& random, const Json& base) {
    Pair p = of("perturb: removed", base);
    Json slow{{"slow", any<double>(random, {1.1, 2, 4})}};
    switch (one_of(random, 4)) {
    case 0:
        slow["rank"] = 0;
        break;
    case 1:
        slow["node"] = 0;
        break;
    case 2:
        slow["link"] = "scale_up";
        break;
    default:
        slow["link"] = base["cluster"]["nodes"] > 1 ? "nic" : "scale_up";
    }
    p.worse["perturb"] = Json::array({slow});
    p.improvement += ": " + slow.dump();
    return p;
}

Pair software(Random& random, const Json& base) {
    switch (one_of(random, 7)) {
    case 0:
        return less(random, base, "/runtime/launch_us", 3);
    case 1:
        return flag(base, "/runtime/cuda_graphs", true);
    case 2: {
        const auto [worse, better] = steps<std::string>(random, {"unfused", "flash-1", "flash-2"});
        Pair p = text(base, "/runtime/attention_kernel", worse, better);
        for (Json* s : {&p.worse, &p.better}) (*s)["strategy"].erase("flash_attention");
        return p;
    }
    case 3: {
        const auto [worse, better] = steps<std::string>(random, {"full", "selective", "none"});
        return text(base, "/strategy/recompute", worse, better);
    }
    case 4:
        return flag(base,
                    any<const char*>(random, {"/runtime/fused_norm", "/runtime/fused_optimizer", "/runtime/fused_loss",
                                              "/runtime/fused_softmax", "/runtime/fused_rope", "/runtime/fused_activation",
                                              "/runtime/permute_fusion", "/runtime/fused_weight_gradient_accumulation"}),
                    true);
    case 5: {
        Pair p = flag(base, "/runtime/launch_blocking", false); // a host that waits posts transfers one by one
        for (Json* s : {&p.worse, &p.better}) (*s)["strategy"]["overlap"] = {{"pipeline", false}};
        return p;
    }
    default: // under DeepSpeed it says whose models are trained, and their losses differ, too
        return flag(base, base["strategy"]["framework"] == "deepspeed" ? "/runtime/fused_norm" : "/strategy/fused", true);
    }
}

// What lives in the host's memory: moved there with less, or over something faster.
Pair offloaded(Random& random, const Json& base) {
    Json job = base;
    Json& strategy = job["strategy"];
    const bool sharded = strategy["framework"] == "deepspeed" || strategy["framework"] == "fsdp" || strategy["framework"] == "fsdp2";
    const bool fused = !strategy.contains("flash_attention") && job["runtime"]["year"] >= 2023;
    if (!sharded && !fused) return less(random, base, "/runtime/launch_us", 3);
    strategy["offload"] = sharded && (!fused || one_of(random, 2) == 0) ? Json{{"optimizer", "cpu"}} : Json{{"activations", "cpu"}};
    job["cluster"]["host"] = {{"memory_gb", 2000}, {"memory_gb_per_s", 300}, {"pcie_gb_per_s", 25}};
    switch (one_of(random, 6)) {
    case 5:
        job["cluster"]["host"]["cxl_gb"] = any<double>(random, {500, 2000});
        return rate(random, job, "/cluster/host/cxl_gb_per_s", any<double>(random, {50, 200}));
    case 0:
        return rate(random, job, "/cluster/host/pcie_gb_per_s", 25);
    case 1:
        return rate(random, job, "/cluster/host/memory_gb_per_s", 200);
    case 2:
        if (strategy["offload"].contains("optimizer")) return rate(random, job, "/cluster/host/adam_gparams_per_s", 2);
        [[fallthrough]];
    case 3: {
        Pair p = of("strategy.offload: none", job);
        p.better["strategy"].erase("offload");
        return p;
    }
    default:
        if (strategy["offload"].contains("optimizer"))
            return number(random, job, "/strategy/offload/optimizer_fraction", 1, any<double>(random, {0.25, 0.5, 0.75}));
        return flag(job, "/strategy/overlap/offload", true);
    }
}

// Bytes of gradients, of documents, of input; kernels of the loss; ports and planes.
Pair recent(Random& random, const Json& base) {
    Json job = base;
    switch (one_of(random, 8)) {
    case 0: // (gradients compressed are no improvement by themselves: they are cast, and only slow networks give that back)
    case 1:
        return flag(job, any<const char*>(random, {"/runtime/loss_upcast", "/runtime/compiled_loss"}), false);
    case 2: {
        job["runtime"]["loss"] = "chunked";
        const auto [worse, better] = steps<int>(random, {32, 16, 8, 4});
        return whole(job, "/runtime/loss_chunks", worse, better);
    }
    case 3: {
        const auto [worse, better] = steps<int>(random, {0, 256, 128, 64});
        return whole(job, "/training/document_tokens", worse, better);
    }
    case 4: {
        job["training"]["data"] = {{"bytes_per_sample", any<double>(random, {1e5, 1e7})}, {"cpu_ms_per_sample", 5}, {"workers", 2}};
        job["cluster"]["storage"] = {{"read_gb_per_s", 2}, {"write_gb_per_s", 2}, {"per_node_gb_per_s", 1}};
        if (one_of(random, 3) == 0) return less(random, job, "/training/data/cpu_ms_per_sample", 1);
        if (one_of(random, 2) == 0) return whole(job, "/training/data/workers", 1, any<int>(random, {2, 4, 16}));
        if (one_of(random, 2) == 0) {
            job["training"]["data"]["bytes_spread"] = any<double>(random, {1e4, 1e5, 1e6});
            if (one_of(random, 2) == 0) return whole(job, "/training/data/prefetch", 1, any<int>(random, {2, 4, 16}));
            return less(random, job, "/training/data/bytes_spread", job["training"]["data"]["bytes_spread"].get<double>());
        }
        return rate(random, job, any<const char*>(random, {"/cluster/storage/read_gb_per_s", "/cluster/storage/per_node_gb_per_s"}), 1);
    }
    case 5:
        return less(random, job, any<const char*>(random, {"/runtime/dataloader_us", "/runtime/batch_us"}), 500);
    case 6: {
        if (base["cluster"]["nodes"] == 1) return less(random, job, "/runtime/dataloader_us", 500);
        Json ports = with_leaves(job);
        ports["cluster"]["inter_node"]["ports_per_nic"] = 2;
        Pair p = of("inter_node.down: port of a NIC mended", ports);
        p.worse["cluster"]["inter_node"]["down"] =
            Json::array({Json{{"node", 0}, {"nic", one_of(random, 8)}, {"port", one_of(random, 2)}}});
        return p;
    }
    default: {
        if (base["cluster"]["nodes"] == 1) return less(random, job, "/runtime/batch_us", 500);
        Json planes = job;
        planes["cluster"]["inter_node"]["topology"] = "dual-plane";
        planes["cluster"]["inter_node"]["nics_per_node"] = 8;
        planes["cluster"]["inter_node"]["planes"] = any<int>(random, {2, 4});
        return rate(random, planes, "/cluster/inter_node/gbit_per_s", any<double>(random, {100, 400}));
    }
    }
}

} // namespace

Pair random_pair(Random& random) {
    const Json base = scenario(random);
    const bool nodes = base["cluster"]["nodes"] > 1;
    switch (one_of(random, 18)) {
    case 15:
        return offloaded(random, base);
    case 16:
    case 17:
        return recent(random, base);
    case 0:
    case 1:
    case 2:
        if (nodes) return network(random, base);
        [[fallthrough]];
    case 12:
        if (nodes) return paths(random, base);
        [[fallthrough]];
    case 3:
    case 13:
        return inside(random, base);
    case 14: {
        const double worse = any<double>(random, {100, 300, 900}), better = worse * factor(random);
        Pair p = of(fmt::format("device.peak_tflops: {} -> {}", worse, better), base);
        for (auto [which, peak] : {std::pair{&p.worse, worse}, {&p.better, better}})
            (*which)["cluster"]["device"]["peak_tflops"] = {{"fp16", peak}, {"bf16", peak}, {"fp32", peak / 8}};
        return p;
    }
    case 4:
        return rate(random, base, "/cluster/intra_node/gb_per_s", any<double>(random, {100, 300, 450}));
    case 5:
        return less(random, base, "/cluster/intra_node/latency_us", 0.6);
    case 6:
    case 7:
        return software(random, base);
    case 8:
        return device(random, base);
    case 9:
        return perturbed(random, base);
    case 10: {
        Pair p = rate(random, base, "/cluster/device/memory_gb_per_s", any<double>(random, {1500, 3000}));
        return p;
    }
    default:
        return whole(base, "/cluster/device/power_w", static_cast<int>(200 + one_of(random, 100)),
                     static_cast<int>(300 + one_of(random, 100)));
    }
}

} // namespace orrery::laws
