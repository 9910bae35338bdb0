// Reads the calibration file of memory-bound kernels, of the optimizer and of the host's calls.
#include "sim/cost/calibration_files.hpp"

#include <nlohmann/json.hpp>

namespace orrery {
namespace {

using calibration::files_of;
using calibration::Json;
using calibration::rate;
using calibration::source_of;

TrafficEntry entry_of(const Json& j) {
    const double phi = j["phi"].get<double>();
    const auto visits = [&](const char* what) -> Visits {
        if (!j.contains("visits") || !j["visits"].contains(what)) return {};
        return {j["visits"][what][0].get<double>(), j["visits"][what][1].get<double>()};
    };
    return {j["bytes"].get<double>(),
            {j.value("eager_phi", phi), phi},
            {j["eager"][0].get<double>(), j["fused"][0].get<double>()},
            {j["eager"][1].get<int>(), j["fused"][1].get<int>()},
            visits("strided"),
            visits("unlike"),
            visits("narrowing")};
}

void read_loss(PointwiseTable& t, const Json& j) {
    t.loss_phi = j["phi"].get<double>();
    t.loss_stream_phi = j["stream_phi"].get<double>();
    t.loss_autocast_phi = j["autocast_phi"].get<double>();
    t.loss_whole_phi = j["whole_phi"].get<double>();
    t.loss_compiled_phi = j["compiled_phi"].get<double>();
    const char* modes[] = {"eager",          "fused", "whole", "autocast", "one_kernel", "narrow", "over_logits", "compiled_autocast",
                           "compiled_narrow"};
    for (std::size_t mode = 0; mode < 9; ++mode)
        for (std::size_t part = 0; part < 4; ++part) {
            t.loss_bytes[mode][part] = j[modes[mode]]["bytes"][part].get<double>();
            t.loss_kernels[mode][part] = j[modes[mode]]["kernels"][part].get<int>();
        }
    t.loss_source = source_of(j);
}

void read_optimizer(PointwiseTable& t, const Json& j) {
    t.optimizer_phi = j["phi"].get<double>();
    t.optimizer_kernel_elements = j["kernel_elements"].get<double>();
    t.optimizer_eager_kernels = j["eager_kernels"].get<int>();
    t.foreach_adam = j["foreach_adam"].get<double>();
    for (const char* kind : {"sgd", "momentum", "adam", "lamb", "lars", "gradient_norm"})
        t.optimizer[kind] = {j[kind][1].get<double>(), j[kind][0].get<double>()};
    for (const char* part : {"muon_direction", "muon_orthogonal", "muon_apply"})
        t.optimizer[part] = {j["muon"][part]["kernels"].get<double>(), j["muon"][part]["bytes"].get<double>()};
    t.optimizer_apart = j["apart"]["bytes"].get<double>();
    t.optimizer_source = source_of(j);
}

void read_quantize(QuantizeTable& t, const Json& j) {
    t.phi = j["phi"].get<double>();
    const auto recipes = [&](const char* key) {
        std::vector<ScalingRecipe> out;
        for (const Json& word : j[key]) out.push_back(named<ScalingRecipe>(word.get<std::string>()).value());
        return out;
    };
    t.earlier = j["earlier"].get<double>();
    t.earlier_recipes = recipes("earlier_recipes");
    t.ported = j["ported"].get<std::map<std::string, double>>();
    t.translated = j["translated"].get<std::map<std::string, double>>();
    t.turning_architectures = j["turning_architectures"].get<std::vector<std::string>>();
    t.both_ways = recipes("both_ways");
    t.present_maximum = recipes("present_maximum");
    t.norm_casts = recipes("norm_casts");
    t.source = source_of(j);
}

void read_host(PointwiseTable& t, const Json& j) {
    t.host_share = j["optimizer_share"].get<double>();
    t.host_memory = rate(j, "memory_gb_per_s");
    t.pcie_share = j["pcie_share"].get<double>();
    t.pcie = rate(j, "pcie_gb_per_s");
    t.nvme = rate(j, "nvme_gb_per_s");
    t.copy_us = j["copy_us"].get<double>();
    t.host_source = source_of(j);
}

void read_unlike(PointwiseTable& t, const Json& j) {
    for (const auto& [architecture, rate] : j["elements"].items()) t.unlike.elements[architecture] = 1e3 * rate.get<double>();
    t.unlike.added = j["added"].get<double>();
    t.unlike.joined = j["joined"].get<double>();
    t.unlike.narrowed_apart = j["narrowed_apart"].get<std::vector<std::string>>();
    t.unlike.vectored = j["vectored"].get<std::vector<std::string>>();
    t.unlike.source = source_of(j);
}

// What processors and a row's length bind in PyTorch's own kernels.
void read_torch_kernels(PointwiseTable& t, const Json& j) {
    for (const auto& [architecture, rate] : j["strided"]["elements"].items()) t.strided.elements[architecture] = 1e3 * rate.get<double>();
    t.strided.source = source_of(j["strided"]);
    const Json& norms = j["torch_norms"];
    t.torch_norms = {norms["row_us"].get<double>(),        norms["input"].get<double>(),        norms["weight"].get<double>(),
                     norms["weight_row_us"].get<double>(), norms["partial_rows"].get<double>(), source_of(norms)};
    t.torch_norms.rows_us = norms["rows_us"].get<std::map<std::string, std::array<double, 2>>>();
    t.column_sums_source = source_of(Json{{"source", j["column_sums_source"]}});
}

void read_calls(CallTable& t, const Json& j) {
    for (const auto& [name, us] : j["us"].items()) t.calls[name] = us.get<std::array<double, 2>>();
    const Json& hook = j["hook"];
    const auto ways = [&](const char* key) { return hook[key].get<std::array<double, 2>>(); };
    t.hook = {ways("module_us"),
              ways("gather_us"),
              ways("alone_us"),
              ways("member_us"),
              ways("bucket_us"),
              hook["gradient_us"].get<double>(),
              hook["context_us"].get<double>(),
              hook["slice_us"].get<double>(),
              hook["view_us"].get<double>(),
              hook["step_us"].get<double>(),
              source_of(hook)};
    t.region = j["region"]["us"].get<std::array<double, 2>>();
    t.region_source = source_of(j["region"]);
    t.low = j["low"].get<std::array<double, 2>>();
    t.expert = j["expert"].get<std::array<double, 2>>();
    t.low_expert = j["low_expert"].get<std::array<double, 2>>();
    t.source = source_of(j);
}

PointwiseTable read_table() {
    const Json& j = *files_of("pointwise").front();
    PointwiseTable t;
    for (const auto& [name, op] : j["ops"].items()) t.ops[name] = {entry_of(op["forward"]), entry_of(op["backward"])};
    read_loss(t, j["cross_entropy"]);
    t.embedding_phi = j["embedding"]["phi"].get<double>();
    t.embedding_source = source_of(j["embedding"]);
    read_optimizer(t, j["optimizer"]);
    read_quantize(t.quantize, j["quantize"]);
    read_host(t, j["host"]);
    const Json& l = j["launch"];
    t.launch_eager = l["eager_us"].get<double>();
    t.launch_graph = l["graph_us"].get<double>();
    t.launch_blocking = l["blocking_us"].get<double>();
    t.list_copy = l["list_copy_us"].get<double>();
    const Json& heads = j["head_norms"];
    t.head_norms = {heads["start_us"].get<double>(), heads["block_us"].get<double>(), heads["rows"].get<double>(),
                    heads["blocks_per_processor"].get<double>()};
    t.head_norms_source = source_of(heads);
    t.expert_loop = j["expert_loop"]["kernels"].get<std::array<double, 2>>();
    t.expert_loop_source = source_of(j["expert_loop"]);
    t.by_index_source = source_of(Json{{"source", j["rows_by_index_source"]}});
    t.gated_halves_source = source_of(Json{{"source", j["gated_halves_source"]}});
    read_unlike(t, j["unlike_types"]);
    read_torch_kernels(t, j);
    t.epilogue = j["epilogue"]["share"].get<double>();
    t.epilogue_source = source_of(j["epilogue"]);
    t.exchange_sync = l["exchange_sync_us"].get<double>();
    t.launch_source = source_of(l);
    read_calls(t.calls, j["calls"]);
    auto named = [&](const char* key) { return Source{l[key]["kind"].get<std::string>(), l[key]["text"].get<std::string>()}; };
    t.blocking_source = named("blocking_source");
    t.exchange_source = named("exchange_source");
    t.list_source = named("list_source");
    const Json& i = j["interference"];
    t.compute_slowdown = i["compute_slowdown"].get<double>();
    t.communication_slowdown = i["communication_slowdown"].get<double>();
    t.ring_slowdown = i["ring_slowdown"].get<double>();
    t.bytes_share = i["bytes_share"].get<double>();
    t.interference_source = source_of(i);
    t.throttle_kept = j["throttle"]["kept"].get<double>();
    t.throttle_power = j["throttle"]["power"].get<double>();
    t.throttle_source = source_of(j["throttle"]);
    t.spread = j["spread"]["sigma"].get<double>();
    t.spread_layerwise = j["spread"]["layerwise"].get<double>();
    t.spread_from = j["spread"]["devices"].get<double>();
    t.spread_source = source_of(j["spread"]);
    t.source = source_of(j);
    return t;
}

} // namespace

// Every prediction has a cost model of its own, and these change their copies: the file is read once.
PointwiseTable pointwise_table() {
    static const PointwiseTable table = read_table();
    return table;
}

} // namespace orrery
