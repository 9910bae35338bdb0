// Which network serves a cluster: its kind's, or a site's own (scenarios/fabrics), and what the files say.
//
// A link's physics come first: InfiniBand's constants by the rate of a NIC (between two rates by the logarithm of the rate). Another kind
// is like it at a share of its rates and a multiple of its latencies, so that of one line rate a better kind is never slower. A site's own
// constants replace its kind's, and nothing else is drawn from them.
#include "sim/cost/calibration_files.hpp"
#include "sim/cost/own_constants.hpp"

#include <nlohmann/json.hpp>

#include <algorithm>
#include <cmath>
#include <optional>

namespace orrery {
namespace {

using calibration::broken;
using calibration::files_of;
using calibration::Json;
using calibration::lists;
using calibration::source_of;

constexpr const char* latencies[] = {"base_us", "doubling_us", "small_us", "large_us"};
constexpr const char* shares[] = {"rail", "ring_all_reduce", "ring", "tree", "tree_more", "all_to_all_2", "all_to_all", "fan_out"};

// Every number of a and b, x of the way from the one to the other.
Json between(const Json& a, const Json& b, double x) {
    if (a.is_number()) return a.get<double>() + x * (b.get<double>() - a.get<double>());
    Json out = a;
    if (a.is_array())
        for (std::size_t i = 0; i < a.size(); ++i) out[i] = between(a[i], b[i], x);
    if (a.is_object())
        for (const auto& [key, value] : a.items()) out[key] = between(value, b.at(key), x);
    return out;
}

// The constants at this rate; below the lowest rate measured and above the highest, theirs.
Json at_rate(const Json& points, double gbit) {
    std::size_t above = 0;
    while (above < points.size() && points[above]["gbit"].get<double>() < gbit) ++above;
    if (above == 0) return points.front();
    if (above == points.size()) return points.back();
    const Json &a = points[above - 1], &b = points[above];
    const double low = a["gbit"].get<double>(), high = b["gbit"].get<double>();
    return between(a, b, std::log(gbit / low) / std::log(high / low));
}

const Json* file_named(const std::vector<const Json*>& files, const std::string& name) {
    const auto at = std::find_if(files.begin(), files.end(), [&](const Json* j) { return (*j)["class"] == name; });
    return at == files.end() ? nullptr : *at;
}

// The constants in a site's file that replace those of its kind.
void replace(Json& constants, const Json& own) {
    for (const char* group : {"eta", "point_to_point", "of_all_reduce"})
        if (own.contains(group))
            for (const auto& [key, value] : own[group].items()) constants[group][key] = value;
    for (const char* key : latencies)
        if (own.contains(key)) constants[key] = own[key];
}

Json constants_of(const Json& file, const std::vector<const Json*>& kinds, double gbit) {
    if (file.contains("by_nic_gbit")) return at_rate(file["by_nic_gbit"], gbit);
    const Json* like = file_named(kinds, file.at("like").get<std::string>());
    if (like == nullptr) broken(file["like"].get<std::string>(), "no fabric of this name");
    Json c = constants_of(*like, kinds, gbit);
    const double share = file.at("share").get<double>(), longer = file.at("latency").get<double>();
    const auto times = [](Json& value, double factor) { value = value.get<double>() * factor; };
    for (const char* key : latencies) times(c[key], longer);
    for (Json& hop : c["ring_hop_us"]) times(hop, longer);
    for (const char* key : shares) times(c["eta"][key], share);
    times(c["point_to_point"]["base_us"], longer);
    times(c["point_to_point"]["rendezvous_us"], longer);
    times(c["point_to_point"]["eta"], share);
    replace(c, file);
    return c;
}

// NIC to NIC in the machines fitted, us: what a cluster's own latency is compared with. As much longer as all its latencies, so that of two
// kinds with one latency the better one is not slower either.
double hop_of(const Json& file, const std::vector<const Json*>& kinds) {
    if (file.contains("hop_us")) return file["hop_us"].get<double>();
    return file.at("latency").get<double>() * hop_of(*file_named(kinds, file.at("like").get<std::string>()), kinds);
}

FabricTable table_of(const Json& j) {
    FabricTable t;
    t.base = j.at("base_us").get<double>();
    t.doubling = j.at("doubling_us").get<double>();
    t.small = j.at("small_us").get<double>();
    t.large = j.at("large_us").get<double>();
    t.ring_hop = j.at("ring_hop_us").get<std::array<double, 3>>();
    const Json& e = j.at("eta");
    t.eta_rail = e.at("rail").get<double>();
    t.eta_ring_all_reduce = e.at("ring_all_reduce").get<double>();
    t.all_reduce_fall = e.at("all_reduce_fall").get<double>();
    t.eta_ring = e.at("ring").get<double>();
    t.ring_fall = e.at("ring_fall").get<double>();
    t.eta_tree = e.at("tree").get<double>();
    t.eta_tree_more = e.at("tree_more").get<double>();
    t.eta_all_to_all_2 = e.at("all_to_all_2").get<double>();
    t.eta_all_to_all = e.at("all_to_all").get<double>();
    t.eta_fan_out = e.at("fan_out").get<double>();
    if (j.contains("of_all_reduce")) {
        const Json& of = j["of_all_reduce"];
        t.gather_base = of.value("gather_base", 1.0);
        t.gather_ramp = of.value("gather_ramp", 1.0);
        t.all_to_all_ramp = of.value("all_to_all_ramp", 1.0);
    }
    const Json& p = j.at("point_to_point");
    t.p2p_base = p.at("base_us").get<double>();
    t.p2p_rendezvous = p.at("rendezvous_us").get<double>();
    t.p2p_eta = p.at("eta").get<double>();
    return t;
}

} // namespace

FabricTable calibration::own_fabric(const Json& j) {
    FabricTable t = table_of(j);
    t.name = j.at("class").get<std::string>();
    t.hop = j.at("hop_us").get<double>();
    t.usable = j.value("usable", 1.0);
    t.source = source_of(j);
    return t;
}

void calibration::check_fabric(const Json& j) {
    if (!j.at("source").at("kind").is_string() || !j.at("source").at("text").is_string())
        throw std::runtime_error("\"source\" needs a kind and a text");
    const FabricTable t = own_fabric(j);
    if (!j.at("kinds").is_array() || j.at("kinds").empty() || !j.at("nic_gbit_from").is_number() || !j.at("nic_gbit_below").is_number())
        throw std::runtime_error("\"kinds\", \"nic_gbit_from\" and \"nic_gbit_below\" say which clusters have this fabric");
    for (const double v : {t.base, t.eta_rail, t.eta_ring_all_reduce, t.eta_ring, t.eta_tree, t.eta_tree_more, t.eta_all_to_all_2,
                           t.eta_all_to_all, t.eta_fan_out, t.p2p_eta})
        if (!(v > 0)) throw std::runtime_error("base_us and every eta must be above 0");
    if (!(t.gather_base > 0) || !(t.gather_ramp >= 0) || !(t.all_to_all_ramp >= 0))
        throw std::runtime_error("of_all_reduce holds shares: gather_base above 0, gather_ramp and all_to_all_ramp not below");
}

bool calibration::serves(const Json& j, const Cluster& cluster) {
    const double gbit = cluster.inter.nic_bandwidth.value * 8e-9;
    return lists(j["kinds"], name(cluster.inter.kind)) && gbit >= j["nic_gbit_from"].get<double>() &&
           gbit < j["nic_gbit_below"].get<double>();
}

namespace {

FabricTable built_in_fabric(const InterNode& inter) {
    const std::vector<const Json*> kinds = files_of("fabric");
    const std::string& site = inter.fabric;
    const Json* file = nullptr;
    Json own;
    for (const Json* j : kinds)
        if (lists((*j)["kinds"], name(inter.kind))) file = j;
    for (const EmbeddedFile& f : fabric_files()) {
        if (site.empty() || f.name != site) continue;
        own = Json::parse(f.text);
        file = &own;
    }
    if (file == nullptr) broken(name(inter.kind), "no fabric of this kind");
    FabricTable t = table_of(constants_of(*file, kinds, inter.nic_bandwidth.value * 8e-9));
    t.name = file->at(site.empty() ? "class" : "name").get<std::string>();
    t.hop = hop_of(*file, kinds);
    t.usable = file->value("usable", 1.0);
    t.source = source_of(*file);
    if (site.empty() && file->contains("like"))
        if (const Json* like = file_named(kinds, file->at("like").get<std::string>()))
            t.tuner = std::make_shared<FabricTable>(table_of(constants_of(*like, kinds, inter.nic_bandwidth.value * 8e-9)));
    return t;
}

} // namespace

// Cost models of one network follow one another.
FabricTable fabric_table(const Cluster& cluster, const OwnConstants* own_constants) {
    if (own_constants)
        if (const auto table = own_constants->fabric_of(cluster)) return *table;
    struct Last {
        InterKind kind;
        std::string site;
        double nic_bandwidth;
        FabricTable table;
    };
    thread_local std::optional<Last> last;
    const InterNode& inter = cluster.inter;
    if (!last || last->kind != inter.kind || last->site != inter.fabric || last->nic_bandwidth != inter.nic_bandwidth.value)
        last = Last{inter.kind, inter.fabric, inter.nic_bandwidth.value, built_in_fabric(inter)};
    return last->table;
}

} // namespace orrery
