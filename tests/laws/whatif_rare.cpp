// Pairs on what the others never reach. Each kind of machine or software comes with the improvements that matter there; often the
// improvement is one of plain hardware all the same, as it must not lose there either.
#include "tests/laws/whatif_rare.hpp"

namespace orrery::laws {
namespace rare {
namespace {

double factor(Random& random) { return any<double>(random, {1.02, 1.1, 1.3, 2, 5}); }

Json model(Random& random, int layers) {
    const int hidden = any<int>(random, {512, 1024, 2048, 4096});
    return {{"layers", layers},
            {"hidden_size", hidden},
            {"attention_heads", hidden / 64},
            {"vocab_size", any<int>(random, {4096, 32000})},
            {"activation", any<std::string>(random, {"swiglu", "gelu"})},
            {"norm", "rmsnorm"},
            {"position", "rope"},
            {"bias", false},
            {"tied_embeddings", one_of(random, 2) == 0}};
}

Json training(Random& random, int replicas, const char* precision = "bf16") {
    const int micro = any<int>(random, {1, 2, 4});
    return {{"global_batch_size", replicas * micro * any<int>(random, {1, 2, 3})},
            {"micro_batch_size", micro},
            {"sequence_length", any<int>(random, {256, 512, 1024, 2048})},
            {"precision", precision}};
}

} // namespace

Pair more(Random& random, const Json& job, const std::string& pointer, double from) {
    const double worse = from * any<double>(random, {0.5, 0.8, 1, 1.5});
    return change(pointer, job, pointer, worse, worse * factor(random));
}

Pair less(Random& random, const Json& job, const std::string& pointer, double from) {
    const double worse = from * any<double>(random, {1, 3, 10});
    return change(pointer, job, pointer, worse, worse / factor(random));
}

Pair step_up(Random& random, const Json& job, const std::string& pointer, const std::vector<Json>& order) {
    const std::size_t low = one_of(random, order.size() - 1);
    return change(pointer, job, pointer, order[low], order[low + 1 + one_of(random, order.size() - low - 1)]);
}

Json job_on(Random& random, const Json& cluster, int replicas, const Json& strategy, const char* precision) {
    return {{"model", model(random, any<int>(random, {2, 4, 6}))},
            {"cluster", cluster},
            {"training", training(random, replicas, precision)},
            {"strategy", strategy},
            {"runtime", {{"year", any<int>(random, {2024, 2025})}}}};
}

Pair hardware(Random& random, const Json& job) {
    const bool nodes = job["cluster"]["nodes"] > 1;
    switch (one_of(random, nodes ? 9 : 5)) {
    case 0:
        return more(random, job, "/cluster/intra_node/gb_per_s", any<double>(random, {30, 100, 300, 600}));
    case 1:
        return more(random, job, "/cluster/device/memory_gb_per_s", any<double>(random, {1000, 2000, 4000}));
    case 2: {
        const double peak = any<double>(random, {150, 400, 1000}), better = peak * factor(random);
        const auto table = [](double p) { return Json{{"bf16", p}, {"fp16", p}, {"fp8", 2 * p}, {"fp32", p / 8}}; };
        return change("device.peak_tflops", job, "/cluster/device/peak_tflops", table(peak), table(better));
    }
    case 3:
        return less(random, job, one_of(random, 2) == 0 ? "/runtime/launch_us" : "/cluster/device/launch_us", 3);
    case 4:
        return less(random, job, "/cluster/intra_node/latency_us", 0.5);
    case 5:
        return more(random, job, "/cluster/inter_node/gbit_per_s", any<double>(random, {25, 100, 200, 400}));
    case 6:
        return less(random, job, "/cluster/inter_node/latency_us", 2);
    case 7: {
        Json leaves = job;
        leaves["cluster"]["inter_node"]["nodes_per_leaf"] = 1;
        return step_up(random, leaves, "/cluster/inter_node/oversubscription", {8, 4, 2, 1});
    }
    default: {
        Json leaves = job;
        leaves["cluster"]["inter_node"]["nodes_per_leaf"] = 2;
        return step_up(random, leaves, "/cluster/inter_node/nics_per_node", {1, 2, 4, 8});
    }
    }
}

} // namespace rare

namespace {

using namespace rare;

// Memory of hosts and disks.

Json with_host(Random& random, Json cluster) {
    cluster["host"] = {{"memory_gb", 4000},
                       {"memory_gb_per_s", any<double>(random, {80, 200, 400})},
                       {"pcie_gb_per_s", any<double>(random, {12, 25, 50})},
                       {"nvme_gb", 60000},
                       {"nvme_gb_per_s", any<double>(random, {3, 10, 30})}};
    return cluster;
}

Json offload(Random& random, int zero) {
    Json o;
    const auto tier = [&] { return any<std::string>(random, {"cpu", "nvme"}); };
    if (one_of(random, 4) > 0) {
        o["optimizer"] = tier();
        if (o["optimizer"] == "nvme") o["pipelined"] = one_of(random, 2) == 0;
        if (zero >= 2 && one_of(random, 2) == 0) o["gradients"] = tier();
        if (zero == 3 && one_of(random, 2) == 0) o["parameters"] = tier();
    }
    if (o.empty() || one_of(random, 3) == 0) o["activations"] = tier();
    return o;
}

Json offloading(Random& random) {
    const int nodes = any<int>(random, {1, 1, 2, 3}), per_node = any<int>(random, {1, 2, 4, 8}), zero = any<int>(random, {1, 2, 3, 3});
    Json c{{"preset", any<std::string>(random, {"dgx-a100-80gb", "dgx-h100", "dgx-b200", "dgx-v100", "azure-nd-mi300x-v5"})},
           {"nodes", nodes},
           {"devices_per_node", per_node}};
    switch (one_of(random, 4)) {
    case 0:
        c["intra_node"] = {{"kind", "pcie"}, {"gb_per_s", any<int>(random, {16, 32})}};
        break;
    case 1:
        c["inter_node"] = {{"nics_per_node", any<int>(random, {1, 2, 4})}};
        break;
    case 2:
        if (per_node > 1)
            c["intra_node"]["pcie_tree"] = {
                {"devices_per_switch", 2}, {"sockets", any<int>(random, {1, 2})}, {"near_nics", one_of(random, 2) == 0}};
        break;
    default:
        break;
    }
    const bool volta = c["preset"] == "dgx-v100";
    Json job =
        job_on(random, with_host(random, c), nodes * per_node, {{"framework", "deepspeed"}, {"zero_stage", zero}}, volta ? "fp16" : "bf16");
    if (nodes * per_node == 1) job["strategy"].erase("zero_stage");
    job["strategy"]["offload"] = offload(random, nodes * per_node == 1 ? 3 : zero);
    if (one_of(random, 2) == 0) job["strategy"]["bucket_bytes"] = any<int>(random, {2'000'000, 20'000'000});
    if (volta) job["strategy"]["flash_attention"] = false;
    return job;
}

Pair hosts(Random& random) {
    Json job = offloading(random);
    switch (one_of(random, 12)) {
    case 0:
    case 1:
        return more(random, job, "/cluster/host/nvme_read_gb_per_s", any<double>(random, {3, 10}));
    case 2:
        return more(random, job, "/cluster/host/nvme_write_gb_per_s", any<double>(random, {2, 8}));
    case 3:
        return more(random, job, "/cluster/host/nvme_gb_per_s", 6);
    case 4:
        return more(random, job, "/cluster/host/memory_gb_per_s", any<double>(random, {60, 200}));
    case 5:
    case 6:
        return more(random, job, "/cluster/host/pcie_gb_per_s", any<double>(random, {8, 16, 32}));
    case 7:
        return more(random, job, "/cluster/host/adam_gparams_per_s", any<double>(random, {1, 4}));
    case 8: // each alone: where states are on the host, parameters are better there too, as their copies hide behind layers that compute
        job["strategy"]["offload"] = Json::object();
        return step_up(random, job, any<std::string>(random, {"/strategy/offload/optimizer", "/strategy/offload/activations"}),
                       {"nvme", "cpu", "none"});
    case 9: {
        job["strategy"]["offload"] = {{"optimizer", "nvme"}};
        return change("offload.pipelined", job, "/strategy/offload/pipelined", false, true);
    }
    case 10:
        return change("overlap.offload", job, "/strategy/overlap/offload", false, true);
    default:
        return hardware(random, job);
    }
}

// Replicas far apart, or that send less.

Json far_apart(Random& random, const Json& synchronization) {
    const int nodes = any<int>(random, {2, 3, 4, 8}), per_node = any<int>(random, {1, 1, 4, 8});
    Json c{{"preset", any<std::string>(random, {"dgx-a100-80gb", "dgx-h100"})}, {"nodes", nodes}, {"devices_per_node", per_node}};
    c["inter_node"] = {{"kind", any<std::string>(random, {"ethernet", "roce"})},
                       {"nics_per_node", 1},
                       {"gbit_per_s", any<double>(random, {1, 10, 100})},
                       {"latency_us", any<double>(random, {5, 1000, 30000})}};
    Json job = job_on(random, c, nodes * per_node, {{"framework", "ddp"}, {"synchronization", synchronization}});
    job["model"]["tied_embeddings"] = false;
    job["model"]["layers"] = 8;
    return job;
}

Pair loosely(Random& random) {
    const std::string kind = any<std::string>(random, {"local_sgd", "diloco", "streaming_diloco", "streaming_diloco"});
    Json s{{"kind", kind}, {"inner_steps", any<int>(random, {4, 8, 12})}};
    if (kind != "local_sgd" && one_of(random, 2) == 0) s["payload_dtype"] = any<std::string>(random, {"bf16", "int8", "int4", "fp4"});
    if (kind == "streaming_diloco") {
        s["fragments"] = any<int>(random, {1, 2, 4});
        s["overlap_steps"] = any<int>(random, {0, 0, 1});
    }
    if (kind != "local_sgd" && one_of(random, 4) == 0) s["outer_device"] = "cpu";
    const Json job = far_apart(random, s);
    switch (one_of(random, 7)) {
    case 0:
        return more(random, job, "/cluster/inter_node/gbit_per_s", any<double>(random, {1, 10, 100}));
    case 1:
        return less(random, job, "/cluster/inter_node/latency_us", any<double>(random, {10, 1000, 30000}));
    case 2:
        if (kind != "streaming_diloco") return step_up(random, job, "/strategy/synchronization/inner_steps", {2, 4, 8, 16});
        return change("synchronization.overlap_steps", job, "/strategy/synchronization/overlap_steps", 0, 1);
    case 3:
        return step_up(random, job, "/cluster/inter_node/kind", {"ethernet", "roce", "infiniband"});
    case 4:
        if (kind == "local_sgd") return hardware(random, job);
        if (one_of(random, 2) == 0)
            return change("synchronization.outer_device", job, "/strategy/synchronization/outer_device", "cpu", "device");
        return more(random, job, "/cluster/host/pcie_gb_per_s", any<double>(random, {8, 16, 32, 64}));
    default:
        return hardware(random, job);
    }
}

Pair compressed(Random& random) {
    const int nodes = any<int>(random, {2, 3, 4}), per_node = any<int>(random, {1, 2, 8});
    Json c{
        {"preset", any<std::string>(random, {"dgx-a100-80gb", "dgx-h100", "aws-p4d"})}, {"nodes", nodes}, {"devices_per_node", per_node}};
    c["inter_node"] = {{"kind", "ethernet"}, {"nics_per_node", 1}, {"gbit_per_s", any<double>(random, {1, 10, 25, 100})}};
    Json job = job_on(random, c, nodes * per_node, {{"framework", "ddp"}});
    Json& g = job["strategy"]["gradient_compression"];
    const std::string to = "/strategy/gradient_compression/";
    switch (one_of(random, 6)) {
    case 0:
        g = {{"kind", "powersgd"}};
        return step_up(random, job, to + "rank", {64, 16, 4, 1});
    case 1:
        g = {{"kind", "top-k"}};
        return step_up(random, job, to + "density", {0.1, 0.01, 0.001});
    case 2:
        g = {{"kind", "zero-one-adam"}};
        job["training"]["optimizer"] = "adam";
        return step_up(random, job, to + "local_steps", {1, 4, 16, 64});
    case 3:
        g = {{"kind", any<std::string>(random, {"int8", "int4"})}, {"hierarchical", one_of(random, 2) == 0}};
        break;
    case 4:
        g = {{"kind", any<std::string>(random, {"onebit-adam", "onebit-lamb"})}};
        job["training"]["optimizer"] = g["kind"] == "onebit-adam" ? "adam" : "lamb";
        break;
    default:
        g = {{"kind", any<std::string>(random, {"powersgd", "top-k", "bf16"})}, {"error_feedback", one_of(random, 2) == 0}};
    }
    return hardware(random, job);
}

// Experts.

Json mixture(Random& random) {
    const int nodes = any<int>(random, {1, 2, 4}), per_node = any<int>(random, {4, 8}), world = nodes * per_node;
    Json c{{"preset", any<std::string>(random, {"dgx-h100", "dgx-b200", "h800-deepseek", "dgx-h200", "gb200-nvl72"})},
           {"nodes", nodes},
           {"devices_per_node", per_node}};
    if (c["preset"] == "gb200-nvl72")
        c["devices_per_node"] = 4, c["nodes"] = world / 4, c["inter_node"] = {{"nics_per_node", 4}},
        c["intra_node"] = {{"domain_nodes", any<int>(random, {1, 2, world / 4})}};
    const int ep = any<int>(random, {2, 4, 8, world});
    Json job = job_on(random, c, world, {{"framework", "megatron"}, {"expert_parallel", ep <= world ? ep : world}});
    Json& m = job["model"];
    const int experts = any<int>(random, {32, 64, 128});
    m["hidden_size"] = any<int>(random, {1024, 2048});
    m["attention_heads"] = 16;
    m["moe"] = {{"experts", experts}, {"top_k", any<int>(random, {2, 4, 8})}, {"expert_ffn_size", any<int>(random, {512, 1024})}};
    if (one_of(random, 3) == 0) m["moe"]["imbalance"] = any<std::string>(random, {"zipf:0.3", "zipf:0.8"});
    if (one_of(random, 3) == 0) m["moe"]["groups"] = 8, m["moe"]["group_limit"] = any<int>(random, {2, 4});
    job["runtime"]["token_dispatcher"] = any<std::string>(random, {"alltoall", "allgather", "deepep", "hybridep"});
    if (one_of(random, 3) == 0) job["training"]["precision"] = "fp8", job["runtime"]["fp8_dispatch"] = one_of(random, 2) == 0;
    return job;
}

Pair experts(Random& random) {
    Json job = mixture(random);
    switch (one_of(random, 8)) {
    case 0:
        job["model"]["moe"]["imbalance"] = "zipf:0.5";
        return step_up(random, job, "/model/moe/imbalance", {"zipf:1", "zipf:0.5", "zipf:0.1", "none"});
    case 1:
        job["model"]["moe"]["groups"] = 8;
        job["model"]["moe"]["top_k"] = 4;
        job["runtime"]["token_dispatcher"] = any<std::string>(random, {"deepep", "hybridep"});
        return step_up(random, job, "/model/moe/group_limit", {8, 4, 2, 1});
    case 2:
        if (one_of(random, 2) == 0) return change("token_dispatcher", job, "/runtime/token_dispatcher", "deepep", "hybridep");
        if (job["cluster"].contains("intra_node")) return hardware(random, job); // a rack: deepep leaves it by NICs
        return change("token_dispatcher", job, "/runtime/token_dispatcher", "alltoall", any<std::string>(random, {"deepep", "hybridep"}));
    case 3:
        return change("permute_fusion", job, "/runtime/permute_fusion", false, true);
    case 4:
        if (job["cluster"]["preset"] != "gb200-nvl72" || job["cluster"]["nodes"] == 1) return hardware(random, job);
        return change("intra_node.domain_nodes", job, "/cluster/intra_node/domain_nodes", 1, job["cluster"]["nodes"]);
    case 5:
        if (job["training"]["precision"] == "fp8") return change("fp8_dispatch", job, "/runtime/fp8_dispatch", false, true);
        [[fallthrough]];
    default:
        return hardware(random, job);
    }
}

} // namespace

Pair rarer_pair(Random& random) {
    static const std::vector<Pair (*)(Random&)> kinds{hosts, hosts, loosely, compressed, experts, network, network, machine};
    return kinds[one_of(random, kinds.size())](random);
}

} // namespace orrery::laws
