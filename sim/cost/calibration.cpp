// Reads the compiled-in calibration files. Which file serves a device, a link or a fabric is decided here.
#include "sim/cost/calibration.hpp"

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <optional>

namespace orrery {
namespace {

using Json = nlohmann::json;

[[noreturn]] void broken(std::string_view file, std::string_view what) {
    fmt::print(stderr, "orrery: calibration file {}: {}\n", file, what);
    std::abort();
}

// The embedded files are ours: a mistake in one is a bug, found by the first test.
Json parse(const EmbeddedFile& file) {
    Json j = Json::parse(file.text, nullptr, false);
    if (j.is_discarded() || !j.is_object() || !j.contains("what")) broken(file.name, "not a JSON object with \"what\"");
    return j;
}

std::vector<Json> files_of(std::string_view what) {
    std::vector<Json> out;
    for (const EmbeddedFile& f : calibration_files())
        if (f.name.substr(0, what.size()) == what) out.push_back(parse(f));   // parsing is a sweep's cost: only what is asked for
    if (out.empty()) broken(what, "no file of this kind is compiled in");
    return out;
}

Source source_of(const Json& j) {
    if (!j.contains("source")) return {};
    return {j["source"]["kind"].get<std::string>(), j["source"]["text"].get<std::string>()};
}

TileMenu menu_of(const std::string& text) {
    if (text == "wide") return TileMenu::wide;
    if (text == "wide-nosplit") return TileMenu::wide_nosplit;
    if (text == "block128") return TileMenu::block128;
    if (text == "systolic") return TileMenu::systolic;
    if (text == "roofline") return TileMenu::roofline;
    broken(text, "unknown tile menu");
}

GemmTable gemm_of(const Json& j) {
    GemmTable t;
    t.menu = menu_of(j["menu"].get<std::string>());
    t.t0 = j["t0_us"].get<double>();
    t.tile = j["tile_us"].get<double>();
    t.efficiency = j["efficiency"].get<double>();
    t.feed = j["feed"].get<double>();
    t.stream = j["stream"].get<double>();
    t.split = j["split_us"].get<double>();
    t.soft_waves = j["soft_waves"].get<double>();
    t.throttle = j["throttle"].get<double>();
    t.l2_share = j["l2_share"].get<double>();
    t.l2_stream = j["l2_stream"].get<double>();
    t.source = source_of(j);
    return t;
}

std::vector<AttentionPoint> points_of(const Json& j) {
    std::vector<AttentionPoint> out;
    for (const auto& [dim, pair] : j.items()) out.push_back({std::stod(dim), pair[0].get<double>(), pair[1].get<double>()});
    std::sort(out.begin(), out.end(), [](const AttentionPoint& a, const AttentionPoint& b) { return a.head_dim < b.head_dim; });
    return out;
}

AttentionSeries series_of(const Json& j) { return {points_of(j["causal"]), points_of(j["full"])}; }

// What a file states replaces what it inherits.
void apply(KernelTables& t, const Json& j) {
    t.device = j["device"].get<std::string>();
    t.reference_tflops_16 = j["reference"]["tflops_16"].get<double>();
    if (j.contains("gemm"))
        for (const auto& [dtype, g] : j["gemm"].items()) t.gemm[dtype] = gemm_of(g);
    if (j.contains("attention")) {
        for (const auto& [kernel, a] : j["attention"].items()) {
            if (kernel == "waves")
                t.waves = {a["soft_waves"].get<double>(), a["rows"].get<double>(), a["critical"].get<double>(), a["start_us"].get<double>()};
            else
                t.attention[kernel] = {series_of(a["forward"]), series_of(a["backward"]), source_of(a)};
        }
    }
    if (j.contains("sustained")) {
        const Json& s = j["sustained"];
        t.sustained_16 = s["bf16"].get<double>();
        t.sustained_8 = s["fp8"].get<double>();
        t.sustained_other = s["other"].get<double>();
        t.sustained_source = source_of(s);
    }
    if (j.contains("memory")) {
        const Json& m = j["memory"];
        t.memory_fused = m["fused"].get<double>();
        t.memory_eager = m["eager"].get<double>();
        t.kernel_us = m["kernel_us"].get<double>();
        t.memory_source = source_of(m);
    }
}

// The file of one device alone: parsing all of them would be most of what a cost model costs to set up.
std::optional<Json> file_of_device(const std::string& device) {
    for (const EmbeddedFile& f : calibration_files())
        if (f.name == "kernels_" + device) return parse(f);
    return std::nullopt;
}

// An inherited group belongs to another device: it is transferred by the ratio of datasheet figures, which is an assumption.
void mark_inherited(KernelTables& t, const std::string& from) {
    const std::string note = fmt::format("transferred from {} by datasheet ratios ({{}})", from);
    auto mark = [&](Source& s) {
        if (s.text.rfind("transferred", 0) != 0) s = {"assumed", fmt::format(fmt::runtime(note), s.kind)};
    };
    for (auto& [name, g] : t.gemm) mark(g.source);
    for (auto& [name, a] : t.attention) mark(a.source);
    mark(t.sustained_source);
    mark(t.memory_source);
}

// Inherited groups must be rescaled to the heir's peak: attention rates are absolute.
void rescale_attention(KernelTables& t, double to_tflops_16) {
    const double f = to_tflops_16 / t.reference_tflops_16;
    for (auto& [name, a] : t.attention)
        for (AttentionSeries* s : {&a.forward, &a.backward})
            for (auto* points : {&s->causal, &s->full})
                for (AttentionPoint& p : *points) p.tflops *= f;
}

KernelTables resolve(const Json& j) {
    KernelTables t;
    if (j.contains("inherits")) {
        const std::optional<Json> base = file_of_device(j["inherits"].get<std::string>());
        if (!base) broken(j["device"].get<std::string>(), "inherits from no file");
        t = resolve(*base);
        rescale_attention(t, j["reference"]["tflops_16"].get<double>());
        mark_inherited(t, (*base)["device"].get<std::string>());
    }
    apply(t, j);
    return t;
}

std::string nearest_by_vendor(const std::string& vendor) {
    if (vendor == "amd") return "mi300x";
    if (vendor == "google") return "tpu-v5p";
    if (vendor == "cpu") return "cpu";
    return "h100-sxm-80gb";
}

double rate(const Json& j, const char* key) { return j[key].get<double>() * 1e3; }   // GB/s to bytes/us

bool lists(const Json& j, const std::string& text) {
    for (const Json& e : j)
        if (e == text) return true;
    return false;
}

LinkTable link_of(const Json& j) {
    LinkTable t;
    t.name = j["class"].get<std::string>();
    t.link_rate = rate(j, "link_gb_per_s");
    t.nominal = rate(j, "nominal_gb_per_s");
    t.hop = j["hop_us"].get<double>();
    const Json& ll = j["ll"];
    t.ll_base = ll["base_us"].get<double>(); t.ll_step = ll["step_us"].get<double>(); t.ll_rise = ll["rise"].get<double>();
    t.ll_rate = rate(ll, "gb_per_s");
    if (const Json& l = j["ll128"]; !l.is_null()) {
        t.has_ll128 = true;
        t.ll128_base = l["base_us"].get<double>(); t.ll128_step = l["step_us"].get<double>(); t.ll128_rate = rate(l, "gb_per_s");
    }
    const Json& s = j["simple"];
    t.simple_base = s["base_us"].get<double>(); t.simple_step = s["step_us"].get<double>(); t.simple_rate = rate(s, "gb_per_s");
    t.simple_copy = rate(s, "copy_gb_per_s"); t.simple_fill = s["fill_us"].get<double>();
    t.reduce_factor = j["reduce"]["factor"].get<double>(); t.byte_factor = j["reduce"]["byte_factor"].get<double>();
    const Json& d = j["direct"];
    t.direct_base = d["base_us"].get<double>(); t.direct_small_rate = rate(d, "small_gb_per_s"); t.direct_small = d["small_us"].get<double>();
    t.direct_rate = rate(d, "gb_per_s"); t.direct_copy = rate(d, "copy_gb_per_s"); t.direct_fill = d["fill_us"].get<double>();
    if (const Json& n = j["nvls"]; !n.is_null()) {
        t.has_nvls = true;
        t.nvls_base = n["base_us"].get<double>(); t.nvls_fill = n["fill_us"].get<double>(); t.nvls_efficiency = n["efficiency"].get<double>();
    }
    const Json& c = j["choice"];
    t.choice_ll_max = rate(c, "ll_max_gb_per_s"); t.choice_ll128_cap = rate(c, "ll128_cap_gb_per_s"); t.choice_bus = rate(c, "bus_gb_per_s");
    t.choice_nvls_efficiency = c["nvls_efficiency"].get<double>();
    for (const Json& v : c["nvls_speeds"]) t.choice_nvls_speeds.push_back(v.get<double>() * 1e3);
    for (std::size_t i = 0; i < 3; ++i) t.choice_hop[i] = c["hop_us"][i].get<double>();
    t.source = source_of(j);
    return t;
}

const char* kind_text(IntraKind k) {
    switch (k) {
    case IntraKind::nvswitch: return "nvswitch";
    case IntraKind::nvlink_mesh: return "nvlink-mesh";
    case IntraKind::pcie: return "pcie";
    case IntraKind::infinity_fabric: return "infinity-fabric";
    case IntraKind::torus: return "torus";
    case IntraKind::shared_memory: return "shared-memory";
    case IntraKind::none: return "none";
    }
    return "none";
}

const char* kind_text(InterKind k) {
    switch (k) {
    case InterKind::infiniband: return "infiniband";
    case InterKind::roce: return "roce";
    case InterKind::ethernet: return "ethernet";
    case InterKind::omni_path: return "omni-path";
    case InterKind::efa: return "efa";
    case InterKind::torus: return "torus";
    case InterKind::none: return "none";
    }
    return "none";
}

} // namespace

KernelTables kernel_tables(const Device& device) {
    if (const std::optional<Json> own = file_of_device(device.name)) return resolve(*own);
    const std::vector<Json> files = files_of("kernels");
    auto transferred = [&](const Json& j, std::string text) {
        KernelTables t = resolve(j);
        for (auto& [name, g] : t.gemm) g.source = {"assumed", fmt::format("{} ({} for {})", text, g.source.kind, t.device)};
        for (auto& [name, a] : t.attention) a.source = {"assumed", fmt::format("{} ({} for {})", text, a.source.kind, t.device)};
        return t;
    };
    for (const Json& j : files)
        if (j.contains("covers") && j["covers"].contains(device.name)) return transferred(j, j["covers"][device.name].get<std::string>());
    for (const Json& j : files)
        if (j.contains("architecture") && j["architecture"] == device.architecture)
            return transferred(j, fmt::format("constants of {}, the same architecture, at this device's datasheet peaks", j["device"].get<std::string>()));
    const std::optional<Json> nearest = file_of_device(nearest_by_vendor(device.vendor));
    if (!nearest) broken(device.vendor, "no kernels of this vendor");
    return transferred(*nearest, fmt::format("constants of {}, an unlike device, at this device's datasheet peaks: expect 15 %",
                                             (*nearest)["device"].get<std::string>()));
}

void scale_rates(LinkTable& t, double f) {
    for (double* r : {&t.link_rate, &t.nominal, &t.ll_rate, &t.ll128_rate, &t.simple_rate, &t.direct_rate, &t.choice_ll_max,
                      &t.choice_ll128_cap, &t.choice_bus})
        *r *= f;
    for (double& s : t.choice_nvls_speeds) s *= f;
}

LinkTable link_table(const Cluster& cluster) {
    const std::vector<Json> files = files_of("links");
    const std::string kind = kind_text(cluster.intra.kind);
    const Json* best = nullptr;
    bool exact = false;
    for (const Json& j : files) {
        const bool arch = lists(j["architectures"], cluster.device.architecture), same = lists(j["kinds"], kind);
        if (arch && same) { best = &j; exact = true; break; }
        if (same && best == nullptr) best = &j;   // the first of its kind, in file order
    }
    if (best == nullptr)
        for (const Json& j : files)
            if (j["class"] == "nvlink5") best = &j;
    if (best == nullptr) broken("links", "no nvlink5");
    LinkTable t = link_of(*best);
    if (!exact) t.source = {"assumed", fmt::format("{}'s latencies and shares for links of unlike devices: +-15 % above 1 MB, +-40 % below", t.name)};
    const double here = cluster.intra.bandwidth.value * 1e-6;
    if (here > 0 && here != t.link_rate) {
        if (std::abs(here / t.link_rate - 1) > 0.02)
            t.source = {"assumed", fmt::format("{} scaled from {:.0f} to {:.0f} GB/s per direction ({})", t.name, t.link_rate * 1e-3, here * 1e-3, t.source.kind)};
        scale_rates(t, here / t.link_rate);
    }
    return t;
}

FabricTable fabric_table(const Cluster& cluster) {
    const std::vector<Json> files = files_of("fabric");
    const std::string kind = kind_text(cluster.inter.kind);
    const double gbit = cluster.inter.nic_bandwidth.value * 8e-9;
    const Json* best = nullptr;
    for (const Json& j : files) {
        if (!lists(j["kinds"], kind)) continue;
        if (best == nullptr || (gbit >= j["nic_gbit_from"].get<double>() && gbit < j["nic_gbit_below"].get<double>())) best = &j;
    }
    if (best == nullptr) broken(kind, "no fabric of this kind");
    const Json& j = *best;
    FabricTable t;
    t.name = j["class"].get<std::string>();
    t.base = j["base_us"].get<double>(); t.doubling = j["doubling_us"].get<double>(); t.small = j["small_us"].get<double>();
    t.large = j["large_us"].get<double>(); t.ring_hop = j["ring_hop_us"].get<double>();
    t.hop = j["hop_us"].get<double>();
    const Json& e = j["eta"];
    t.eta_ring_all_reduce = e["ring_all_reduce"].get<double>(); t.eta_ring = e["ring"].get<double>(); t.eta_tree = e["tree"].get<double>();
    t.eta_all_to_all_2 = e["all_to_all_2"].get<double>(); t.eta_all_to_all = e["all_to_all"].get<double>(); t.ring_fall = e["ring_fall"].get<double>();
    const Json& p = j["point_to_point"];
    t.p2p_base = p["base_us"].get<double>(); t.p2p_rendezvous = p["rendezvous_us"].get<double>(); t.p2p_eta = p["eta"].get<double>();
    t.source = source_of(j);
    return t;
}

namespace {

TrafficEntry entry_of(const Json& j) {
    return {j["bytes"].get<double>(), j["phi"].get<double>(),
            {j["eager"][0].get<double>(), j["fused"][0].get<double>()}, {j["eager"][1].get<int>(), j["fused"][1].get<int>()}};
}

void read_loss(PointwiseTable& t, const Json& j) {
    t.loss_phi = j["phi"].get<double>();
    const char* modes[] = {"eager", "fused", "whole"};
    for (std::size_t mode = 0; mode < 3; ++mode)
        for (std::size_t part = 0; part < 4; ++part) {
            t.loss_bytes[mode][part] = j[modes[mode]]["bytes"][part].get<double>();
            t.loss_kernels[mode][part] = j[modes[mode]]["kernels"][part].get<int>();
        }
    for (const Json& f : j["whole_frameworks"]) t.whole_loss_frameworks.push_back(f.get<std::string>());
    t.loss_source = source_of(j);
}

void read_optimizer(PointwiseTable& t, const Json& j) {
    t.optimizer_phi = j["phi"].get<double>();
    t.optimizer_kernel_elements = j["kernel_elements"].get<double>();
    t.optimizer_eager_kernels = j["eager_kernels"].get<int>();
    for (const char* kind : {"sgd", "momentum", "adam", "lamb", "lars", "gradient_norm"})
        t.optimizer[kind] = {j[kind][1].get<double>(), j[kind][0].get<double>()};
    t.optimizer_source = source_of(j);
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

} // namespace

PointwiseTable pointwise_table() {
    const std::vector<Json> files = files_of("pointwise");
    const Json& j = files.front();
    PointwiseTable t;
    for (const auto& [name, op] : j["ops"].items()) t.ops[name] = {entry_of(op["forward"]), entry_of(op["backward"])};
    read_loss(t, j["cross_entropy"]);
    t.embedding_phi = j["embedding"]["phi"].get<double>();
    t.embedding_source = source_of(j["embedding"]);
    read_optimizer(t, j["optimizer"]);
    read_host(t, j["host"]);
    const Json& l = j["launch"];
    t.launch_eager = l["eager_us"].get<double>(); t.launch_graph = l["graph_us"].get<double>(); t.launch_blocking = l["blocking_us"].get<double>();
    t.launch_source = source_of(l);
    const Json& i = j["interference"];
    t.compute_slowdown = i["compute_slowdown"].get<double>(); t.communication_slowdown = i["communication_slowdown"].get<double>();
    t.interference_source = source_of(i);
    t.source = source_of(j);
    return t;
}

} // namespace orrery
