// `simrun list TOPIC`: what can be named in a scenario.
#include "sim/cost/calibration_ranges.hpp"
#include "sim/plan/lower.hpp"
#include "sim/scenario/frameworks.hpp"
#include "sim/scenario/parameters.hpp"
#include "sim/scenario/run_practice.hpp"
#include "sim/scenario/suggest.hpp"
#include "sim/schedules/schedule.hpp"
#include "sim/simrun/command.hpp"
#include "topology/catalog.hpp"

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <array>

namespace orrery {

std::span<const EmbeddedFile> model_files(); // generated from scenarios/models

namespace simrun {

namespace {

Table models() {
    Table t{{"model", "parameters", "layers", "hidden", "heads", "kv heads", "ffn", "vocabulary", "experts"},
            {false, true, true, true, true, true, true, true, true},
            {}};
    for (const EmbeddedFile& file : model_files()) {
        const ModelResult parsed = parse_model(nlohmann::json(std::string(file.name)).dump());
        if (!parsed.model) continue;
        const Model& m = *parsed.model;
        t.rows.push_back({std::string(file.name), metric(static_cast<double>(parameter_count(m)), 4), std::to_string(m.layers),
                          grouped(m.hidden_size), std::to_string(m.attention_heads), std::to_string(m.kv_heads), grouped(m.ffn_size),
                          grouped(m.vocab_size), m.moe ? fmt::format("{} of {}", m.moe->top_k, m.moe->experts) : "-"});
    }
    return t;
}

std::string rate(BytesPerSecond r) { return r.value > 0 ? fmt::format("{:.0f} GB/s", r.gigabytes()) : "-"; }

Table devices() {
    Table t{
        {"device", "title", "memory", "bandwidth", "bf16 dense", "scale-up", "power"}, {false, false, true, true, true, true, true}, {}};
    for (const std::string& n : device_names()) {
        const auto d = find_device(n);
        if (!d) continue;
        const auto bf16 = d->peak.find("bf16"), fp16 = d->peak.find("fp16");
        const bool half = bf16 == d->peak.end() && fp16 != d->peak.end();
        const double peak = bf16 != d->peak.end() ? bf16->second.value : half ? fp16->second.value : 0;
        t.rows.push_back(
            {n, d->title, format_binary(d->memory), rate(d->memory_bandwidth),
             peak > 0 ? fmt::format("{} TFLOP/s{}", peak < 1e13 ? fmt::format("{:.2g}", peak * 1e-12) : fmt::format("{:.0f}", peak * 1e-12),
                                    half ? " (fp16)" : "")
                      : "-",
             rate(d->scale_up), d->power_w > 0 ? fmt::format("{:.0f} W", d->power_w) : "-"});
    }
    return t;
}

Table clusters() {
    Table t{{"cluster", "a node's devices", "in the node, a device", "NICs", "a NIC, each way"}, {false, false, true, true, true}, {}};
    for (const std::string& n : cluster_names()) {
        const auto c = find_cluster(n);
        if (!c) continue;
        const double gbit = c->inter.nic_bandwidth.value * 8e-9;
        t.rows.push_back({n, fmt::format("{} x {}", c->devices_per_node, c->device.name), rate(c->intra.bandwidth),
                          std::to_string(c->inter.nics_per_node), gbit > 0 ? fmt::format("{:.0f} Gb/s", gbit) : "-"});
    }
    return t;
}

Table fabrics() {
    Table t{{"fabric", "kind", "title"}, {false, false, false}, {}};
    for (const std::string& n : fabric_names())
        if (const auto f = find_fabric(n)) t.rows.push_back({n, name(f->kind), f->title});
    return t;
}

Table schedule_table() {
    Table t{{"schedule", "what", "source"}, {false, false, false}, {}};
    for (const ScheduleInfo& s : schedules()) t.rows.push_back({s.name, s.summary, s.source});
    t.last_beneath = true;
    return t;
}

// The fields that choose a strategy, in the order a person meets them, each with an example that sets it.
Table strategies() {
    static constexpr std::array<std::array<const char*, 4>, 53> rows{{
        {"data parallelism", "data_parallel", "derived from the devices where left out", "gpt2-all-reduce-sweep"},
        {"gradient accumulation", "training.global_batch_size", "over data_parallel x micro_batch_size: microbatches a step",
         "llama3-405b-16k-h100"},
        {"ZeRO 1, 2, 3 and FSDP", "zero_stage", "optimizer states, + gradients, + parameters sharded over data-parallel ranks",
         "llama3-8b-fsdp-8-h100"},
        {"hybrid sharding (HSDP)", "shard_group_size", "shard inside groups of this number of ranks, replicate across groups",
         "llama3-8b-mics-64-h100"},
        {"MiCS", "gradient_sync", "with zero_stage 3 and shard_group_size: boundary: groups add their gradients once a step",
         "llama3-8b-mics-64-h100"},
        {"ZeRO++ weights (qwZ)", "quantized_weights", "int8: weights are gathered in 8 bits", "gpt-18b-zeropp-384-v100"},
        {"ZeRO++ second shards (hpZ)", "secondary_shard_size", "ranks, as of a node, that gather from each other in the backward pass",
         "gpt-18b-zeropp-384-v100"},
        {"ZeRO++ gradients (qgZ)", "quantized_gradients", "int4: by all-to-alls inside nodes, then between them",
         "gpt-18b-zeropp-384-v100"},
        {"gradient buckets", "bucket_bytes", "bytes reduced together", "gpt2-all-reduce-sweep"},
        {"tensor parallelism", "tensor_parallel", "column- then row-parallel linears, heads, vocabulary", "llama3-405b-16k-h100"},
        {"sequence parallelism", "sequence_parallel", "norms and dropout along the sequence, with tensor parallelism",
         "llama3-405b-16k-h100"},
        {"context parallelism", "context_parallel", "the sequence over ranks; context_parallel_kind: ring, allgather, ulysses",
         "llama3-405b-131k-16k-h100"},
        {"expert parallelism", "expert_parallel", "experts over ranks, with all-to-all to them and back", "mixtral-8x7b-64-h100"},
        {"tensor-parallel experts", "expert_tensor_parallel", "each expert's linears over ranks", "mixtral-8x22b-128-h100"},
        {"token dispatcher", "runtime.token_dispatcher", "how tokens reach their experts: alltoall, allgather, deepep, hybridep",
         "deepseek-v3-2048-h800"},
        {"pipeline parallelism", "pipeline_parallel", "layers in stages", "gpt3-175b-1024-a100"},
        {"virtual stages", "virtual_pipeline", "several chunks of layers a stage", "llama3-405b-16k-h100"},
        {"uneven stages", "layer_split", "layers of each stage, or of each chunk", "llama3-405b-16k-h100"},
        {"recompute", "recompute", "none, selective, full, or a list of op kinds", "llama3-8b-segments-sweep"},
        {"recompute in segments", "recompute",
         "{\"segments\": n}: of each chunk's layers, the inputs of segments alone are kept; \"auto\": as few layers as must be",
         "llama3-8b-segments-sweep"},
        {"recompute within a budget", "recompute", "{\"memory_budget\": x}: as torch.compile chooses", "llama3-8b-recompute-budget-sweep"},
        {"recompute in part", "recompute_layers", "a count a stage, {\"per_chunk\": n}, or {\"every\": n}",
         "llama3-8b-recompute-layers-sweep"},
        {"precision", "training.precision", "fp32, tf32, fp16, bf16, fp8 ..: what matmuls run in", "llama3-8b-fsdp-8-h100"},
        {"Muon", "training.optimizer",
         "muon: matrices of layers have one moment, and updates of whole matrices; muon_matrices: those of tensor-parallel linears",
         "moonlight-16b-a3b-muon-64-h100"},
        {"overlap", "overlap",
         "grad_reduce, param_gather, tensor_parallel, expert_parallel, shared_experts, pipeline, offload: hidden under compute",
         "mixtral-8x7b-64-h100"},
        {"placement of ranks", "rank_order", "\"tp-cp-ep-dp-pp\": fastest-varying first", "llama3-405b-131k-16k-h100"},
        {"collective algorithm", "collective_algorithm", "auto, ring, tree, hierarchical, nvls, sharp, pat", "gpt2-all-reduce-sweep"},
        {"local SGD", "synchronization", "kind local_sgd: inner_steps steps of each replica on its own, then their parameters are averaged",
         "llama3-8b-local-sgd-64-h100"},
        {"FedAvg over replicas", "synchronization",
         "kind fedavg: as local_sgd, and each replica weighs as much as it has samples (synchronization.samples)", "tiny-fedavg"},
        {"DiLoCo", "synchronization",
         "kind diloco: inner_steps steps of each replica, then a step of an outer optimizer; payload_dtype: fp32 .. int8, int4; "
         "outer_device "
         "cpu: its states on the host",
         "llama3-8b-diloco-64-h100"},
        {"streaming DiLoCo", "synchronization",
         "kind streaming_diloco: fragments of the layers meet one after another, and steps go on for overlap_steps meanwhile",
         "llama3-8b-streaming-diloco-64-h100"},
        {"optimizer offload", "offload.optimizer",
         "cpu: states and update on the host, all or optimizer_fraction of them (Twin-Flow, ZeRO-Offload++); overlap.offload: copies "
         "beside the update",
         "llama2-13b-twin-flow-sweep"},
        {"delayed update", "offload.delayed_update",
         "with offload.optimizer: the host updates beside the next step, whose weights are one update behind (ZeRO-Offload)",
         "gpt-10b-delayed-update-1-v100"},
        {"PipeDream", "schedule", "pipedream-async: no flush between microbatches; each goes back with the weights it went forward with",
         "tiny-pipedream"},
        {"PipeDream-2BW", "weight_versions", "2bw, with schedule pipedream-async: two versions of the weights, one update behind",
         "llama3-8b-pipedream-8-h100"},
        {"parameter server", "synchronization",
         "kind parameter_server: gradients to servers on nodes' hosts, parameters back, nobody waits beyond staleness_bound; simulated",
         "gpt2-parameter-server-8-a100"},
        {"gossip", "synchronization", "kind gossip: parameters averaged with degree peers every step, overlap_steps later (SGP); simulated",
         "gpt2-loose-sweep"},
        {"asynchronous averaging", "synchronization",
         "kind async_average: parameters averaged with random peers beside the steps (AD-PSGD); simulated", "gpt2-loose-sweep"},
        {"optimizer on NVMe", "offload.optimizer",
         "nvme: states come to the host a sub-group at a time (offload.sub_group_size), pipelined or one after another, and go back",
         "llama3-8b-nvme-1-rtx4090"},
        {"parameters and gradients on NVMe", "offload.parameters",
         "nvme, and offload.gradients: read from NVMe to the host, copied to the device, gathered, each a unit ahead or more "
         "(ZeRO-Infinity; offload.buffers)",
         "llama2-70b-infinity-1-rtx4090"},
        {"gradient and parameter offload", "offload.gradients",
         "cpu, with offload.parameters: shards, or what one device has, live on the host and pass through the device unit by unit (FSDP's "
         "CPUOffloadPolicy: with offload.optimizer)",
         "llama3-8b-fsdp-offload-1-h100"},
        {"gradient compression", "gradient_compression",
         "fp16, bf16: gradients cast for their all-reduce, and back; int8, int4: in blocks, added up slice by slice; hierarchical: between "
         "nodes alone (ByteGrad)",
         "gpt2-compression-sweep"},
        {"PowerSGD", "gradient_compression",
         "kind powersgd: factors of a rank in place of matrices, with error feedback; under ZeRO each rank keeps its part of the sum",
         "gpt2-powersgd-zero1-16-a100"},
        {"top-k gradients", "gradient_compression", "kind top-k: the largest share (density) of a bucket's elements and their places",
         "gpt2-compression-sweep"},
        {"1-bit Adam, 1-bit LAMB", "gradient_compression",
         "kind onebit-adam, onebit-lamb: the momentum as signs and a scale, after start_step steps of warm-up (phase: which is predicted)",
         "bert-onebit-lamb-64-v100"},
        {"0/1 Adam", "gradient_compression",
         "kind zero-one-adam: replicas step alone, and every local_steps steps send signs of their drift", "gpt2-compression-sweep"},
        {"activation offload", "offload.activations",
         "cpu, nvme: saved activations wait on the host or on NVMe; activation_ops: which; activation_layers: of how many layers",
         "llama3-8b-activation-offload-8-h100"},
        {"LoRA", "model.trainable.lora", "adapters of rank `rank` beside linears are trained, the model itself is not",
         "llama3-70b-lora-8-h100"},
        {"QLoRA", "model.trainable.base_dtype", "nf4: with lora, matrices of layers are kept in 4 bits and widened for each product",
         "llama3-70b-qlora-2-rtx4090"},
        {"frozen parameters", "model.trainable.frozen_layers", "the first layers, or frozen: parts, without gradients and states",
         "llama3-8b-frozen-layers-8-h100"},
        {"federated learning", "federated", "clients of a table or drawn; fedavg in rounds, or fedbuff: simulated",
         "gpt2-124m-federated-lora"},
        {"update in the backward pass", "training.optimizer_in_backward",
         "each bucket is updated when its gradients are there; with offload.optimizer = cpu on the host, beside the pass (SuperOffload)",
         "llama2-13b-superoffload-1-gh200"},
        {"optimizer barrier", "optimizer_sync", "global, or post-validation as in the zero-bubble paper and SuperOffload",
         "llama2-70b-zero-bubble-64-a100"},
    }};
    Table t{{"strategy", "field of strategy", "example in scenarios", "what it does"}, {false, false, false, false}, {}, true};
    for (const auto& r : rows) {
        t.rows.push_back({r[0], r[1], r[3], r[2]});
        if (r[1] == std::string_view("pipeline_parallel"))
            t.rows.push_back({"pipeline schedule", "schedule", "llama2-70b-zero-bubble-64-a100", join(schedule_names())});
    }
    return t;
}

Table framework_table() {
    Table t{{"framework", "title", "what it does where a scenario says nothing else"}, {false, false, false}, {}};
    for (const FrameworkInfo& f : frameworks()) t.rows.push_back({f.name, f.title, f.summary});
    return t;
}

Table passes() {
    Table t{{"pass, in the order they run"}, {false}, {}};
    for (const std::string& p : pass_names()) t.rows.push_back({p});
    return t;
}

Table constants() {
    Table t{{"group of a calibration file", "constant", "from", "to"}, {false, false, true, true}, {}};
    for (const ConstantRange& r : constant_ranges())
        t.rows.push_back({r.group, r.key, fmt::format("{:g}", r.least), fmt::format("{:g}", r.most)});
    return t;
}

// What run.practice sets, each with its source.
Table practices() {
    Table t{{"practice", "field", "value", "source"}, {false, false, false, false}, {}};
    for (const RunDefault& d : run_defaults()) t.rows.push_back({name(d.practice), d.field, d.value, d.source});
    t.last_beneath = true;
    return t;
}

struct Topic {
    const char* name;
    Table (*table)();
};
constexpr std::array topics{Topic{"models", models},
                            Topic{"clusters", clusters},
                            Topic{"devices", devices},
                            Topic{"fabrics", fabrics},
                            Topic{"schedules", schedule_table},
                            Topic{"strategies", strategies},
                            Topic{"frameworks", framework_table},
                            Topic{"practices", practices},
                            Topic{"passes", passes},
                            Topic{"constants", constants}};

std::string as_json(const Table& t) {
    nlohmann::ordered_json j = nlohmann::ordered_json::array();
    for (const auto& row : t.rows) {
        nlohmann::ordered_json one;
        for (std::size_t c = 0; c < row.size(); ++c) one[t.header[c]] = row[c];
        j.push_back(one);
    }
    return j.dump(1) + "\n";
}

} // namespace

std::vector<std::string> list_topics() {
    std::vector<std::string> names;
    for (const Topic& t : topics) names.emplace_back(t.name);
    return names;
}

int run_list(const std::string& what, const Options& options) {
    for (const Topic& t : topics) {
        if (what != t.name) continue;
        const Table table = t.table();
        return deliver(options.json ? as_json(table) : to_text(table, output_style(options)), options) ? done : bad_input;
    }
    if (what.empty()) {
        complain("name what to list: " + join(list_topics()));
        return bad_input;
    }
    const auto meant = nearest(what, list_topics());
    complain(
        fmt::format("nothing called {} to list{}: choose {}", what, meant ? " (did you mean " + *meant + "?)" : "", join(list_topics())));
    return bad_input;
}

} // namespace simrun
} // namespace orrery
