// Reads the calibration files of devices and of memory-bound kernels, and decides which file serves a device.
#include "sim/cost/calibration_files.hpp"
#include "sim/cost/calibration_ranges.hpp"

#include <nlohmann/json.hpp>

#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <deque>

namespace orrery {
namespace {

using calibration::broken;
using calibration::files_of;
using calibration::Json;
using calibration::parsed;
using calibration::rate;
using calibration::source_of;

constexpr const char* menus[] = {"wide",  "wide-nosplit",  "block128", "columns",
                                 "pairs", "pairs-nosplit", "systolic", "roofline"}; // in TileMenu's order

TileMenu menu_of(const std::string& text) {
    const auto at = std::find(std::begin(menus), std::end(menus), text);
    if (at == std::end(menus)) throw std::runtime_error("\"" + text + "\" is no menu of tiles");
    return static_cast<TileMenu>(at - std::begin(menus));
}

GemmTable gemm_of(const Json& j) {
    GemmTable t;
    t.menu = menu_of(j.at("menu").get<std::string>());
    t.t0 = j.at("t0_us").get<double>();
    t.tile = j.at("tile_us").get<double>();
    t.efficiency = j.at("efficiency").get<double>();
    t.feed = j.at("feed").get<double>();
    t.stream = j.at("stream").get<double>();
    t.split = j.at("split_us").get<double>();
    t.soft_waves = j.at("soft_waves").get<double>();
    t.throttle = j.at("throttle").get<double>();
    t.l2_share = j.at("l2_share").get<double>();
    t.l2_stream = j.at("l2_stream").get<double>();
    t.throttle_us = j.value("throttle_us", t.throttle_us);
    t.throttle_busy = j.value("throttle_busy", t.throttle_busy);
    t.alone = j.value("alone", t.alone);
    t.ragged = j.value("ragged", t.ragged);
    t.two_scales = j.value("two_scales", t.two_scales);
    t.ceiling = j.value("ceiling", t.ceiling);
    t.pause = j.value("pause_us", t.pause);
    t.far = j.value("far", t.far);
    t.overlap = j.value("overlap", t.overlap);
    t.source = source_of(j);
    return t;
}

std::vector<AttentionPoint> points_of(const Json& j) {
    std::vector<AttentionPoint> out;
    for (const auto& [dim, pair] : j.items()) out.push_back({std::stod(dim), pair.at(0).get<double>(), pair.at(1).get<double>()});
    std::sort(out.begin(), out.end(), [](const AttentionPoint& a, const AttentionPoint& b) { return a.head_dim < b.head_dim; });
    return out;
}

AttentionSeries series_of(const Json& j) { return {points_of(j.at("causal")), points_of(j.at("full"))}; }

PrefillTable prefill_of(const Json& j) {
    PrefillTable t;
    t.start = j.at("start_us").get<double>();
    t.pre = j.at("pre").get<double>();
    t.s0 = j.at("s0").get<double>();
    t.critical = j.at("critical").get<double>();
    t.soft_waves = j.at("soft_waves").get<double>();
    t.rows = j.at("rows").get<double>();
    t.fall = j.value("fall", 0.0);
    t.latent = j.value("latent", 0.0);
    t.throttle = j.value("throttle", 0.0);
    for (const auto& [dim, e] : j.at("efficiency").items()) t.efficiency[std::stoi(dim)] = e.get<double>();
    t.source = source_of(j);
    return t;
}

ExpertsTable experts_of(const Json& j) {
    ExpertsTable t;
    t.start = j.at("start_us").get<double>();
    t.per_expert = j.at("per_expert_us").get<double>();
    t.copy = j.at("copy").get<double>();
    t.gemm.menu = TileMenu::wide_nosplit;
    t.gemm.tile = j.at("tile_us").get<double>();
    t.gemm.efficiency = j.at("efficiency").get<double>();
    t.gemm.feed = j.at("feed").get<double>();
    t.gemm.stream = j.at("stream").get<double>();
    t.gemm.soft_waves = j.at("soft_waves").get<double>();
    t.source = source_of(j);
    return t;
}

// Groups of a file replace the groups it inherits.
void apply(KernelTables& t, const Json& j) {
    t.device = j.at("device").get<std::string>();
    if (j.contains("reference")) t.reference_tflops_16 = j.at("reference").at("tflops_16").get<double>();
    if (j.contains("gemm"))
        for (const auto& [dtype, g] : j.at("gemm").items()) t.gemm[dtype] = gemm_of(g);
    if (j.contains("systolic")) {
        const Json& s = j.at("systolic");
        t.systolic = {s.at("array").get<double>(), s.at("group_rows").get<double>(), s.at("lanes").get<double>(),
                      s.at("gather").get<double>(), source_of(s)};
    }
    if (j.contains("attention")) {
        for (const auto& [kernel, a] : j.at("attention").items()) {
            if (kernel == "waves")
                t.waves = {a.at("soft_waves").get<double>(), a.at("rows").get<double>(), a.at("critical").get<double>(),
                           a.at("start_us").get<double>()};
            else if (const std::size_t at = kernel.find('@'); at != std::string::npos && !named<KernelRelease>(kernel.substr(at + 1)))
                throw std::runtime_error(fmt::format("attention.{}: \"{}\" is no release of a library", kernel, kernel.substr(at + 1)));
            else
                t.attention[kernel] = {series_of(a.at("forward")), series_of(a.at("backward")), source_of(a)};
        }
    }
    if (j.contains("prefill"))
        for (const auto& [kind, p] : j.at("prefill").items()) t.prefill[kind] = prefill_of(p);
    if (j.contains("experts"))
        for (const auto& [dtype, e] : j.at("experts").items()) t.experts[dtype] = experts_of(e);
    if (j.contains("sustained")) {
        const Json& s = j.at("sustained");
        t.sustained_16 = s.at("bf16").get<double>();
        t.sustained_8 = s.at("fp8").get<double>();
        t.sustained_other = s.at("other").get<double>();
        t.sustained_attention = s.contains("attention") ? s.at("attention").get<double>() : t.sustained_16;
        t.sustained_source = source_of(s);
    }
    if (j.contains("unaligned"))
        t.unaligned = {j.at("unaligned").at("batched").get<double>(), j.at("unaligned").at("alone").get<double>(),
                       source_of(j.at("unaligned"))};
    if (j.contains("memory")) {
        const Json& m = j.at("memory");
        t.memory_fused = m.at("fused").get<double>();
        t.memory_eager = m.at("eager").get<double>();
        t.kernel_us = m.at("kernel_us").get<double>();
        t.memory_source = source_of(m);
    }
}

// The file of one device alone; nullptr: it has none. Parsing all of them would be most of what a first cost model costs to set up.
const Json* file_of_device(const std::string& device) {
    for (const EmbeddedFile& f : calibration_files())
        if (f.name == "kernels_" + device) return &parsed(f);
    return nullptr;
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
    if (t.unaligned.batched < 1) mark(t.unaligned.source);
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
        const Json* base = file_of_device(j["inherits"].get<std::string>());
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

KernelTables of_any_release(const Device& device) {
    if (const Json* own = file_of_device(device.name)) return resolve(*own);
    const std::vector<const Json*> files = files_of("kernels");
    auto transferred = [&](const Json& j, std::string text) {
        KernelTables t = resolve(j);
        for (auto& [name, g] : t.gemm) g.source = {"assumed", fmt::format("{} ({} for {})", text, g.source.kind, t.device)};
        for (auto& [name, a] : t.attention) a.source = {"assumed", fmt::format("{} ({} for {})", text, a.source.kind, t.device)};
        return t;
    };
    for (const Json* file : files)
        if (const Json& j = *file; j.contains("covers") && j["covers"].contains(device.name))
            return transferred(j, j["covers"][device.name].get<std::string>());
    // A file that inherits within an architecture states its differences: any other device is like the one inherited from.
    const auto own = [&](const Json& j) {
        return !j.contains("inherits") || (*file_of_device(j["inherits"].get<std::string>()))["architecture"] != j["architecture"];
    };
    for (const Json* file : files)
        if (const Json& j = *file; j.contains("architecture") && j["architecture"] == device.architecture && own(j))
            return transferred(
                j, fmt::format("constants of {}, the same architecture, at this device's datasheet peaks", j["device"].get<std::string>()));
    const Json* nearest = file_of_device(nearest_by_vendor(device.vendor));
    if (!nearest) broken(device.vendor, "no kernels of this vendor");
    return transferred(*nearest, fmt::format("constants of {}, an unlike device, at this device's datasheet peaks: expect 15 %",
                                             (*nearest)["device"].get<std::string>()));
}

// The files given to use_calibration.
struct OwnFile {
    explicit OwnFile(const Json& j) : json(j) {}
    const Json json;
    std::atomic<bool> asked_for = false; // threads of a sweep read it side by side
};
struct Own {
    std::deque<OwnFile> files;
    std::string text;
    std::atomic<bool> predicted = false;
};
Own& own() {
    static Own all;
    return all;
}

// nlohmann's words without its "[json.exception.out_of_range.403] ".
std::string plain(const Json::exception& e) {
    const std::string what = e.what();
    const std::size_t end = what.find("] ");
    return end == std::string::npos ? what : what.substr(end + 2);
}

// A file of a user's: unlike ours it may lack anything, which is found here and not in a prediction.
void use(const Json& j) {
    if (!j.is_object()) throw std::runtime_error("it is no JSON object (simrun fit TABLE -o FILE writes such a file)");
    if (j.contains("what") && j["what"] == "fabric") {
        try {
            calibration::use_fabric(j);
        } catch (const std::exception& e) {
            throw std::runtime_error(std::string("a constant of the fabric is missing or is not what it must be: ") + e.what());
        }
        own().text += j.dump();
        return;
    }
    if (!j.contains("device") || !j["device"].is_string()) throw std::runtime_error("it does not say for which \"device\" it is");
    if (!j.contains("gemm") && !j.contains("attention") && !j.contains("sustained") && !j.contains("memory"))
        throw std::runtime_error("it holds none of the groups of constants of a device: gemm, attention, sustained, memory");
    check_constants(j);
    try {
        KernelTables scratch;
        apply(scratch, j);
    } catch (const Json::exception& e) { throw std::runtime_error("a constant is missing or is not what it must be: " + plain(e)); }
    own().files.emplace_back(j);
    own().text += j.dump();
}

} // namespace

void use_calibration(const std::string& text) {
    Json j;
    try {
        j = Json::parse(text);
    } catch (const Json::exception& e) {
        throw std::runtime_error("it is no JSON object (simrun fit TABLE -o FILE writes such a file): " + plain(e));
    }
    if (!j.is_array()) return use(j);
    for (const Json& one : j) use(one);
}

const std::string& calibration_in_use() { return own().text; }

std::vector<std::string> calibrations_not_asked_for() {
    std::vector<std::string> devices;
    if (!own().predicted) return devices;
    for (const OwnFile& f : own().files)
        if (!f.asked_for) devices.push_back(f.json["device"].get<std::string>());
    return devices;
}

const char* name(TileMenu menu) { return menus[static_cast<std::size_t>(menu)]; }

KernelTables kernel_tables(const Device& device, std::span<const KernelRelease> releases) {
    KernelTables t = of_any_release(device);
    own().predicted = true;
    for (OwnFile& f : own().files)
        if (f.json["device"] == device.name) {
            f.asked_for = true;
            apply(t, f.json);
        }
    std::map<std::string, AttentionTable> chosen;
    for (auto& [name, a] : t.attention)
        if (name.find('@') == std::string::npos) chosen[name] = a;
    for (const KernelRelease release : releases)
        for (auto& [name, a] : t.attention)
            if (const std::size_t at = name.find('@'); at != std::string::npos && name.substr(at + 1) == orrery::name(release))
                chosen[name.substr(0, at)] = a;
    t.attention = std::move(chosen);
    return t;
}

namespace {

TrafficEntry entry_of(const Json& j) {
    return {j["bytes"].get<double>(),
            j["phi"].get<double>(),
            {j["eager"][0].get<double>(), j["fused"][0].get<double>()},
            {j["eager"][1].get<int>(), j["fused"][1].get<int>()}};
}

void read_loss(PointwiseTable& t, const Json& j) {
    t.loss_phi = j["phi"].get<double>();
    t.loss_stream_phi = j["stream_phi"].get<double>();
    t.loss_autocast_phi = j["autocast_phi"].get<double>();
    const char* modes[] = {"eager", "fused", "whole", "autocast", "one_kernel", "narrow"};
    for (std::size_t mode = 0; mode < 6; ++mode)
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
    for (const char* kind : {"sgd", "momentum", "adam", "lamb", "lars", "gradient_norm"})
        t.optimizer[kind] = {j[kind][1].get<double>(), j[kind][0].get<double>()};
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

void read_calls(CallTable& t, const Json& j) {
    for (const auto& [name, us] : j["us"].items()) t.calls[name] = us.get<std::array<double, 2>>();
    t.hook = j["hook"]["us"].get<std::array<double, 2>>();
    t.hook_source = source_of(j["hook"]);
    t.low = j["low"].get<std::array<double, 2>>();
    t.expert = j["expert"].get<std::array<double, 2>>();
    t.low_expert = j["low_expert"].get<std::array<double, 2>>();
    t.source = source_of(j);
}

} // namespace

PointwiseTable pointwise_table() {
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
    t.by_index_source = source_of(Json{{"source", j["rows_by_index_source"]}});
    t.gated_halves_source = source_of(Json{{"source", j["gated_halves_source"]}});
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

} // namespace orrery
