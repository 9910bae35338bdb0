// Reads the calibration files of devices, and decides which file serves a device.
#include "sim/cost/calibration_files.hpp"
#include "sim/cost/own_constants.hpp"

#include <nlohmann/json.hpp>

#include <fmt/format.h>

#include <algorithm>
#include <optional>
#include <utility>

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

// "cudnn@cudnn-9.19": the release must be one that software can have.
void check_release(const char* group, const std::string& table) {
    const std::size_t at = table.find('@');
    if (at != std::string::npos && !named<KernelRelease>(table.substr(at + 1)))
        throw std::runtime_error(fmt::format("{}.{}: \"{}\" is no release of a library", group, table, table.substr(at + 1)));
}

// A table that a file states for any release takes the place of those of all releases that came before it.
template <class Table> void drop_releases(std::map<std::string, Table>& tables, const std::string& name) {
    std::erase_if(tables, [&](const auto& t) { return t.first.starts_with(name + "@"); });
}

} // namespace

void calibration::replace_groups(KernelTables& t, const Json& j) {
    t.device = j.at("device").get<std::string>();
    if (j.contains("reference")) t.reference_tflops_16 = j.at("reference").at("tflops_16").get<double>();
    if (j.contains("gemm"))
        for (const auto& [dtype, g] : j.at("gemm").items()) { // in the order of their names: "bf16" before "bf16@rocm-7"
            check_release("gemm", dtype);
            drop_releases(t.gemm, dtype);
            t.gemm[dtype] = gemm_of(g);
        }
    if (j.contains("systolic")) {
        const Json& s = j.at("systolic");
        t.systolic = {s.at("array").get<double>(), s.at("group_rows").get<double>(), s.at("lanes").get<double>(),
                      s.at("gather").get<double>(), source_of(s)};
    }
    if (j.contains("attention")) {
        for (const auto& [kernel, a] : j.at("attention").items()) {
            if (kernel == "waves") {
                t.waves = {a.at("soft_waves").get<double>(), a.at("rows").get<double>(), a.at("critical").get<double>(),
                           a.at("start_us").get<double>()};
                continue;
            }
            check_release("attention", kernel);
            drop_releases(t.attention, kernel);
            t.attention[kernel] = {series_of(a.at("forward")), series_of(a.at("backward")), source_of(a), a.value("sustained", 0.0)};
        }
    }
    if (j.contains("prefill"))
        for (const auto& [kind, p] : j.at("prefill").items()) t.prefill[kind] = prefill_of(p);
    if (j.contains("experts"))
        for (const auto& [dtype, e] : j.at("experts").items()) t.experts[dtype] = experts_of(e);
    if (j.contains("sustained")) {
        const Json& s = j.at("sustained");
        const bool apart = t.sustained_attention != t.sustained_16; // a clock of attention's own stays until another is stated
        t.sustained_16 = s.at("bf16").get<double>();
        t.sustained_8 = s.at("fp8").get<double>();
        t.sustained_other = s.at("other").get<double>();
        if (s.contains("attention"))
            t.sustained_attention = s.at("attention").get<double>();
        else if (!apart)
            t.sustained_attention = t.sustained_16;
        t.matrix_share = s.value("matrix_share", 0.0);
        t.memory_power = s.value("memory_power", 0.0);
        t.sustained_source = source_of(s);
    }
    if (j.contains("unaligned"))
        t.unaligned = {j.at("unaligned").at("batched").get<double>(), j.at("unaligned").at("alone").get<double>(),
                       source_of(j.at("unaligned"))};
    if (j.contains("torch_groups")) {
        const Json& g = j.at("torch_groups");
        t.torch_groups = g.at("speed").get<double>();
        t.torch_groups_mxfp8 = {g.value("mxfp8", 0.0), g.value("mxfp8_weights", 0.0)};
        t.torch_groups_scales = {1e-3 * g.value("scales_ns", 0.0), 1e-3 * g.value("scales_weights_ns", 0.0)};
        t.torch_groups_source = source_of(g);
    }
    if (j.contains("memory")) {
        const Json& m = j.at("memory");
        t.memory_fused = m.at("fused").get<double>();
        t.kernel_us = m.at("kernel_us").get<double>();
        t.memory_source = source_of(m);
    }
}

namespace {

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
    if (t.torch_groups > 0) mark(t.torch_groups_source);
}

// Inherited groups must be rescaled to the heir's peak: attention rates are absolute.
void rescale_attention(KernelTables& t, double to_tflops_16) {
    const double f = to_tflops_16 / t.reference_tflops_16;
    for (auto& [name, a] : t.attention)
        for (AttentionSeries* s : {&a.forward, &a.backward})
            for (auto* points : {&s->causal, &s->full})
                for (AttentionPoint& p : *points) p.tflops *= f;
}

// Tiles of 128 rows by any columns are what one library takes on Hopper: no other architecture inherits a law of them.
void drop_columns(KernelTables& t) {
    std::erase_if(t.gemm, [](const auto& g) { return g.second.menu == TileMenu::columns; });
}

// A file that states flash-2's rates and none of FlexAttention's gives it flash-2's, not those of the device it inherits from.
void flex_as_flash2(KernelTables& t, const Json& j) {
    if (!j.contains("attention") || !j["attention"].contains("flash-2") || j["attention"].contains("flex")) return;
    t.attention["flex"] = t.attention.at("flash-2");
    t.attention["flex"].source = {"assumed", "flash-2's rates: no measurements of FlexAttention on this device"};
}

KernelTables resolve(const Json& j) {
    KernelTables t;
    if (j.contains("inherits")) {
        const Json* base = file_of_device(j["inherits"].get<std::string>());
        if (!base) broken(j["device"].get<std::string>(), "inherits from no file");
        t = resolve(*base);
        rescale_attention(t, j["reference"]["tflops_16"].get<double>());
        mark_inherited(t, (*base)["device"].get<std::string>());
        const std::string theirs = base->value("architecture", "");
        if (j.value("architecture", theirs) != theirs) drop_columns(t);
    }
    calibration::replace_groups(t, j);
    flex_as_flash2(t, j);
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
    KernelTables t = transferred(*nearest, fmt::format("constants of {}, an unlike device, at this device's datasheet peaks: expect 15 %",
                                                       (*nearest)["device"].get<std::string>()));
    drop_columns(t);
    return t;
}

// Keeps one table a name: that of the latest of these releases that has one.
template <class Table> void choose(std::map<std::string, Table>& tables, std::span<const KernelRelease> releases) {
    std::map<std::string, Table> chosen;
    for (auto& [name, table] : tables)
        if (name.find('@') == std::string::npos) chosen[name] = table;
    for (const KernelRelease release : releases)
        for (auto& [name, table] : tables)
            if (const std::size_t at = name.find('@'); at != std::string::npos && name.substr(at + 1) == orrery::name(release))
                chosen[name.substr(0, at)] = table;
    tables = std::move(chosen);
}

KernelTables chosen_tables(const Device& device, std::span<const KernelRelease> releases, const OwnConstants* own) {
    KernelTables t = of_any_release(device);
    if (own) own->replace_groups(t, device.name);
    choose(t.gemm, releases);
    choose(t.attention, releases);
    return t;
}

// All that the built-in tables depend on.
struct Asked {
    std::string device, vendor, architecture;
    std::vector<KernelRelease> releases;
    bool operator==(const Asked&) const = default;
};

} // namespace

const char* name(TileMenu menu) { return menus[static_cast<std::size_t>(menu)]; }

// Cost models of one device and one software follow one another.
KernelTables kernel_tables(const Device& device, std::span<const KernelRelease> releases, const OwnConstants* own) {
    if (own) return chosen_tables(device, releases, own);
    thread_local std::optional<std::pair<Asked, KernelTables>> last;
    Asked asked{device.name, device.vendor, device.architecture, {releases.begin(), releases.end()}};
    if (!last || last->first != asked) last.emplace(std::move(asked), chosen_tables(device, releases, nullptr));
    return last->second;
}

} // namespace orrery
