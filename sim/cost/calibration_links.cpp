// Which link class serves a cluster, and what its file says.
#include "sim/cost/calibration_files.hpp"
#include "topology/catalog.hpp"

#include <nlohmann/json.hpp>

#include <fmt/format.h>

#include <cmath>

namespace orrery {
namespace {

using calibration::broken;
using calibration::files_of;
using calibration::Json;
using calibration::lists;
using calibration::rate;
using calibration::source_of;

LinkTable link_of(const Json& j) {
    LinkTable t;
    t.name = j["class"].get<std::string>();
    t.link_rate = rate(j, "link_gb_per_s");
    t.nominal = t.choice_nominal = rate(j, "nominal_gb_per_s");
    t.hop = j["hop_us"].get<double>();
    const Json& ll = j["ll"];
    t.ll_base = ll["base_us"].get<double>();
    t.ll_step = ll["step_us"].get<double>();
    t.ll_rise = ll["rise"].get<double>();
    t.ll_rate = rate(ll, "gb_per_s");
    if (const Json& l = j["ll128"]; !l.is_null()) {
        t.has_ll128 = true;
        t.ll128_base = l["base_us"].get<double>();
        t.ll128_step = l["step_us"].get<double>();
        t.ll128_rate = rate(l, "gb_per_s");
    }
    const Json& s = j["simple"];
    t.simple_base = s["base_us"].get<double>();
    t.simple_step = s["step_us"].get<double>();
    t.simple_rate = rate(s, "gb_per_s");
    t.simple_copy = rate(s, "copy_gb_per_s");
    t.simple_fill = s["fill_us"].get<double>();
    t.reduce_factor = j["reduce"]["factor"].get<double>();
    t.byte_factor = j["reduce"]["byte_factor"].get<double>();
    const Json& d = j["direct"];
    t.direct_base = d["base_us"].get<double>();
    t.direct_small_rate = rate(d, "small_gb_per_s");
    t.direct_small = d["small_us"].get<double>();
    t.direct_rate = rate(d, "gb_per_s");
    t.direct_copy = rate(d, "copy_gb_per_s");
    t.direct_fill = d["fill_us"].get<double>();
    if (const Json& n = j["nvls"]; !n.is_null()) {
        t.has_nvls = true;
        t.nvls_base = n["base_us"].get<double>();
        t.nvls_fill = n["fill_us"].get<double>();
        t.nvls_efficiency = n["efficiency"].get<double>();
        t.nvls_rack_efficiency = n.contains("rack") ? n["rack"]["efficiency"].get<double>() : t.nvls_efficiency;
        t.nvls_rack_fill = n.contains("rack") ? n["rack"]["fill_us"].get<double>() : t.nvls_fill;
    }
    const Json& c = j["choice"];
    t.choice_ll_max = rate(c, "ll_max_gb_per_s");
    t.choice_ll128_cap = rate(c, "ll128_cap_gb_per_s");
    t.choice_bus = rate(c, "bus_gb_per_s");
    t.choice_nvls_efficiency = c["nvls_efficiency"].get<double>();
    for (const Json& v : c["nvls_speeds"]) t.choice_nvls_speeds.push_back(v.get<double>() * 1e3);
    for (std::size_t i = 0; i < 3; ++i) t.choice_hop[i] = c["hop_us"][i].get<double>();
    if (j.contains("channels")) {
        t.ring_channels = j["channels"]["ring"].get<double>();
        t.nvls_channels = j["channels"].value("nvls", t.ring_channels);
    }
    t.source = source_of(j);
    if (j.contains("fitted_box")) {
        const Json& b = j["fitted_box"];
        const auto at = [&](const char* what, std::size_t k) { return b[what][k].get<double>() * 1e3; };
        for (std::size_t k = 0; k < b["devices"].size(); ++k)
            t.fitted_box.push_back({b["devices"][k].get<int>(), at("ring_gb_per_s", k), at("direct_gb_per_s", k), at("ll_gb_per_s", k),
                                    at("bus_gb_per_s", k), b["reduce_factor"].get<double>()});
    }
    return t;
}

} // namespace

void scale_rates(LinkTable& t, double f) {
    for (double* r : {&t.link_rate, &t.nominal, &t.ll_rate, &t.ll128_rate, &t.simple_rate, &t.direct_rate}) *r *= f;
}

void scale_choice(LinkTable& t, double f) {
    for (double* r : {&t.choice_nominal, &t.choice_ll_max, &t.choice_ll128_cap, &t.choice_bus}) *r *= f;
    for (double& s : t.choice_nvls_speeds) s *= f;
}

namespace {

// Protocols are chosen by the rate of the links that a device is made with, so that no faster link moves the choice. Where the catalogue
// has the device, a rate that a scenario states changes times alone.
double choosing_rate(const Device& device) {
    thread_local std::string name; // cost models of one device follow one another, and the catalogue parses its file
    thread_local std::optional<double> made;
    if (name != device.name) {
        const std::optional<Device> found = find_device(device.name);
        made = found ? std::optional(found->scale_up.value) : std::nullopt;
        name = device.name;
    }
    return made.value_or(device.scale_up.value) * 1e-6;
}

} // namespace

LinkTable link_table(const Cluster& cluster) {
    const std::vector<const Json*> files = files_of("links");
    const std::string kind = name(cluster.intra.kind);
    const Json* best = nullptr;
    bool exact = false;
    for (const Json* file : files) {
        const Json& j = *file;
        const bool arch = lists(j["architectures"], cluster.device.architecture), same = lists(j["kinds"], kind);
        if (arch && same) {
            best = &j;
            exact = true;
            break;
        }
        if (same && best == nullptr) best = &j; // the first of its kind, in file order
    }
    if (best == nullptr)
        for (const Json* j : files)
            if ((*j)["class"] == "nvlink5") best = j;
    if (best == nullptr) broken("links", "no nvlink5");
    LinkTable t = link_of(*best);
    if (!exact)
        t.source = {"assumed",
                    fmt::format("{}'s latencies and shares for links of unlike devices: +-15 % above 1 MB, +-40 % below", t.name)};
    t.ll128_between = t.has_ll128 && cluster.intra.kind == IntraKind::nvswitch;
    const double here = cluster.intra.bandwidth.value * 1e-6, own = choosing_rate(cluster.device);
    if (own > 0 && own != t.link_rate && cluster.device.scale_up_kind == cluster.intra.kind) scale_choice(t, own / t.link_rate);
    if (here > 0 && here != t.link_rate) {
        if (std::abs(here / t.link_rate - 1) > 0.02)
            t.source = {"assumed", fmt::format("{} scaled from {:.0f} to {:.0f} GB/s per direction ({})", t.name, t.link_rate * 1e-3,
                                               here * 1e-3, t.source.kind)};
        scale_rates(t, here / t.link_rate);
    }
    return t;
}

TokenTable token_table(std::string_view dispatcher) {
    for (const Json* j : files_of("tokens")) {
        if ((*j)["dispatcher"] != dispatcher) continue;
        const auto rates = [&](const char* where) {
            const Json& r = (*j)[where];
            return TokenTable::Rate{rate(r, "bits_16"), rate(r, "bits_8"), rate(r, "sums")};
        };
        TokenTable t;
        t.inside = rates("inside");
        t.between = rates("between");
        t.sharpness = (*j)["sharpness"].get<double>();
        t.first_us = (*j)["first_us"].get<double>();
        t.source = source_of(*j);
        for (const auto& [source, key] : {std::pair{&t.between_source, "between_source"}, std::pair{&t.first_source, "first_source"}})
            *source = {(*j)[key]["kind"].get<std::string>(), (*j)[key]["text"].get<std::string>()};
        return t;
    }
    broken("tokens", "no such dispatcher");
}

} // namespace orrery
