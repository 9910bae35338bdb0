// The rarer pairs of whatif_rare.hpp: networks, devices and kernels.
#include "tests/laws/whatif_rare.hpp"

namespace orrery::laws::rare {
namespace {

// Networks: algorithms of switches, sizes, other traffic, links that flap.

Json spread(Random& random, int nodes, const char* topology) {
    Json c{{"preset", any<std::string>(random, {"dgx-a100-80gb", "dgx-h100", "dgx-b200"})}, {"nodes", nodes}, {"devices_per_node", 8}};
    c["inter_node"] = {{"topology", topology}, {"nics_per_node", 8}};
    const int tp = any<int>(random, {1, 2, 8});
    return job_on(random, c, 8 * nodes / tp,
                  {{"framework", any<std::string>(random, {"megatron", "torchtitan", "deepspeed"})}, {"tensor_parallel", tp}});
}

Pair switches(Random& random) {
    Json job = spread(random, any<int>(random, {2, 4, 8}), "fat-tree");
    Json& inter = job["cluster"]["inter_node"];
    inter["nodes_per_leaf"] = any<int>(random, {1, 2, 4});
    inter["kind"] = "infiniband";
    switch (one_of(random, 3)) {
    case 0:
        job["strategy"]["collective_algorithm"] = "sharp";
        return step_up(random, job, "/cluster/inter_node/sharp/levels", {1, 2, 3});
    case 1:
        job["strategy"]["collective_algorithm"] = "sharp";
        return step_up(random, job, "/cluster/inter_node/sharp/trees", {1, 4, 16, 64});
    default:
        job["strategy"]["collective_algorithm"] = any<std::string>(random, {"sharp", "nvls", "pat", "hierarchical"});
        if (job["strategy"]["collective_algorithm"] == "nvls") job["cluster"]["preset"] = "dgx-h100";
        return hardware(random, job);
    }
}

Pair torus(Random& random) {
    const int nodes = any<int>(random, {4, 8, 16});
    Json c{{"preset", any<std::string>(random, {"tpu-v4-pod", "tpu-v5p-pod", "tpu-v5e-pod", "tpu-v6e-pod", "tpu-v7x-pod"})},
           {"nodes", nodes}};
    Json job = job_on(random, c, 4 * nodes, {{"framework", "jax"}, {"zero_stage", any<int>(random, {0, 1, 3})}});
    switch (one_of(random, 4)) {
    case 0: // the device's links, and the pod's
        return more(random, job, "/cluster/intra_node/gb_per_s", any<double>(random, {100, 400}));
    case 1:
        return less(random, job, "/cluster/intra_node/latency_us", 1);
    case 2:
        return more(random, job, "/cluster/device/memory_gb_per_s", any<double>(random, {800, 2400}));
    default:
        return less(random, job, "/runtime/launch_us", 3);
    }
}

Pair dragonfly(Random& random) {
    Json job = spread(random, any<int>(random, {4, 8}), "dragonfly");
    Json& d = job["cluster"]["inter_node"]["dragonfly"];
    d = {{"switches_per_group", any<int>(random, {1, 2, 4})},
         {"nodes_per_switch", any<int>(random, {1, 2})},
         {"global_links", any<int>(random, {1, 2})}};
    if (one_of(random, 3) == 0) job["cluster"]["inter_node"]["routing"] = "adaptive";
    switch (one_of(random, 3)) {
    case 0:
        return step_up(random, job, "/cluster/inter_node/dragonfly/global_links", {1, 2, 4, 8});
    case 1: // all in one group, then all at one switch
        d = {{"switches_per_group", 8}, {"nodes_per_switch", 1}, {"global_links", 1}};
        return change("dragonfly.nodes_per_switch", job, "/cluster/inter_node/dragonfly/nodes_per_switch", 1, 8);
    default:
        return hardware(random, job);
    }
}

Pair troubled(Random& random) {
    Json job =
        spread(random, any<int>(random, {2, 4}), any<const char*>(random, {"fat-tree", "rail-optimized", "dual-plane", "rail-only"}));
    Json& inter = job["cluster"]["inter_node"];
    inter["nodes_per_leaf"] = any<int>(random, {1, 2});
    switch (one_of(random, 5)) {
    case 0:
        inter["down"] = Json::array({Json{{"node", 0}, {"nic", one_of(random, 8)}, {"flaps_per_hour", 60}, {"flap_s", 20}}});
        return less(random, job,
                    any<std::string>(random, {"/cluster/inter_node/down/0/flaps_per_hour", "/cluster/inter_node/down/0/flap_s"}), 5);
    case 1:
        inter["down"] = Json::array({Json{{"node", 0}, {"nic", one_of(random, 8)}, {"share", 0.5}}});
        return step_up(random, job, "/cluster/inter_node/down/0/share", {0.9, 0.5, 0.25, 0.1});
    case 2: {
        Json busy{{"background", any<double>(random, {0.1, 0.3, 0.6})}, {"link", any<std::string>(random, {"nic", "scale_up"})}};
        Pair p{"perturb: background removed: " + busy.dump(), job, job};
        p.worse["perturb"] = Json::array({busy});
        return p;
    }
    case 3: {
        Json others = job;
        others["cluster"]["others"] =
            Json::array({Json{{"nodes", 1}, {"device", "a100-sxm-40gb"}, {"gbit_per_s", 100}, {"gb_per_s", 200}}});
        return more(random, others, any<std::string>(random, {"/cluster/others/0/gbit_per_s", "/cluster/others/0/gb_per_s"}), 100);
    }
    default:
        inter["topology"] = "rail-only";
        inter["nodes_per_leaf"] = 4;
        return change("inter_node.topology", job, "/cluster/inter_node/topology", "rail-only",
                      any<std::string>(random, {"rail-optimized", "single-switch"}));
    }
}

// Devices and kernels.

Pair devices(Random& random) {
    static const std::vector<std::vector<Json>> lines{{"l20", "l40s"},
                                                      {"h20-sxm-96gb", "h200-sxm-141gb"},
                                                      {"h800-sxm-80gb", "h100-sxm-80gb", "h200-sxm-141gb"},
                                                      {"a800-sxm-80gb", "a100-sxm-80gb"},
                                                      {"b200-192gb", "b300-288gb"},
                                                      {"gb200", "gb300"},
                                                      {"mi300x", "mi325x", "mi355x"}};
    const int per_node = any<int>(random, {1, 2, 4, 8});
    Json job = job_on(random, {{"device", "a100-sxm-80gb"}, {"nodes", 1}, {"devices_per_node", per_node}}, per_node,
                      {{"framework", any<std::string>(random, {"fsdp2", "torchtitan", "megatron", "deepspeed"})}});
    const auto& line = lines[one_of(random, lines.size())];
    const std::string first = line.front();
    if (one_of(random, 3) == 0 && !first.starts_with("a800") && !first.starts_with("mi") && !first.starts_with("l20"))
        job["training"]["precision"] = "fp8";
    return step_up(random, job, "/cluster/device", line);
}

Pair kernels(Random& random) {
    Json c{{"preset", any<std::string>(random, {"dgx-h100", "dgx-h200"})}, {"nodes", 1}, {"devices_per_node", any<int>(random, {1, 4, 8})}};
    const int devices = c["devices_per_node"];
    Json job = job_on(random, c, devices, {{"framework", any<std::string>(random, {"megatron", "fsdp2", "torchtitan"})}});
    switch (one_of(random, 6)) {
    case 0:
        return change("attention_kernel", job, "/runtime/attention_kernel", any<std::string>(random, {"unfused", "flash-2", "flex"}),
                      "flash-3");
    case 1:
        return change("runtime.fused_loss", job, "/runtime/fused_loss", false, true);
    case 2:
        job["strategy"]["recompute"] = "full";
        return change("recompute_early_stop", job, "/runtime/recompute_early_stop", false, true);
    case 3:
        job["strategy"]["recompute"] = any<std::string>(random, {"full", "selective"});
        return change("recompute_layers", job, "/strategy/recompute_layers", 2, any<int>(random, {0, 1}));
    case 4:
        job["training"]["data"] = {{"bytes_per_sample", 1e5}, {"cpu_ms_per_sample", any<double>(random, {1, 20})}, {"workers", 2}};
        job["cluster"]["storage"] = {{"read_gb_per_s", 1}, {"latency_us", 500}, {"requests_per_node", 16}, {"request_mb", 1}};
        return any<int>(random, {0, 1}) == 0 ? less(random, job, "/cluster/storage/latency_us", 500)
                                             : step_up(random, job, "/cluster/storage/requests_per_node", {4, 16, 64});
    default:
        job["model"]["trainable"] = {{"lora", {{"rank", any<int>(random, {8, 64})}}}};
        return one_of(random, 2) == 0 ? step_up(random, job, "/model/trainable/lora/rank", {256, 64, 16, 8}) : hardware(random, job);
    }
}

} // namespace

Pair network(Random& random) {
    static const std::vector<Pair (*)(Random&)> kinds{switches, torus, dragonfly, troubled};
    return any(random, kinds)(random);
}

Pair machine(Random& random) { return one_of(random, 2) == 0 ? devices(random) : kernels(random); }

} // namespace orrery::laws::rare
