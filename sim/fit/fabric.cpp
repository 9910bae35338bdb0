#include "sim/fit/fabric.hpp"

#include "sim/cost/collectives.hpp"

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <cmath>
#include <functional>
#include <numeric>
#include <stdexcept>

namespace orrery {

namespace {

constexpr double large_from = 16 * 1048576.0;

// One size of a curve, ready to be timed by any table.
struct FabricPoint {
    const LinkTable* links;
    const Group* group;
    CollectiveKind kind;
    double bytes, us;
    bool one_byte, multicast;
    std::size_t curve;
};

struct Timed {
    LinkTable links;
    Group group;
    bool multicast = false;
};

Timed timed(const PlacedCurve& p) {
    const Fabric fabric(p.cluster);
    std::vector<int> ranks(static_cast<std::size_t>(p.curve.ranks));
    std::iota(ranks.begin(), ranks.end(), 0);
    const std::string& a = p.cluster.device.architecture;
    return {link_table(p.cluster), group_of(fabric, domain_of(p.cluster), ranks),
            (a == "hopper" || a == "blackwell") && p.cluster.intra.kind == IntraKind::nvswitch};
}

double predicted_us(const FabricPoint& p, const FabricTable& f) {
    return multi_node(*p.links, f, *p.group, p.kind, p.bytes, p.one_byte, p.multicast, CollectiveAlgorithm::automatic).us;
}

// The constants that may be fitted, with how far they may move from the class's own: a factor for times, a narrower one for shares.
struct Constant {
    const char* name;
    double FabricTable::*at;
    double least, most;
};
constexpr Constant constants[] = {{"base_us", &FabricTable::base, 1, 2000},
                                  {"doubling_us", &FabricTable::doubling, 0.1, 500},
                                  {"small_us", &FabricTable::small, 0.1, 2000},
                                  {"large_us", &FabricTable::large, 0.1, 20000},
                                  {"of_all_reduce.gather_base", &FabricTable::gather_base, 0.1, 10},
                                  {"of_all_reduce.gather_ramp", &FabricTable::gather_ramp, 0.01, 10},
                                  {"of_all_reduce.all_to_all_ramp", &FabricTable::all_to_all_ramp, 0.01, 10},
                                  {"eta.ring_all_reduce", &FabricTable::eta_ring_all_reduce, 0.02, 1.2},
                                  {"eta.ring", &FabricTable::eta_ring, 0.02, 1.2},
                                  {"eta.tree", &FabricTable::eta_tree, 0.02, 1.6},
                                  {"eta.tree_more", &FabricTable::eta_tree_more, 0.02, 1.6},
                                  {"eta.all_to_all_2", &FabricTable::eta_all_to_all_2, 0.02, 1.2},
                                  {"eta.all_to_all", &FabricTable::eta_all_to_all, 0.02, 1.2}};

FabricTable with(const FabricTable& base, const std::vector<const Constant*>& chosen, const std::vector<double>& values) {
    FabricTable t = base;
    for (std::size_t i = 0; i < chosen.size(); ++i) t.*chosen[i]->at = std::clamp(values[i], chosen[i]->least, chosen[i]->most);
    return t;
}

// Those that move a prediction by a part in a thousand when they grow, or shrink, by half.
std::vector<const Constant*> felt(std::span<const FabricPoint> points, const FabricTable& base) {
    std::vector<const Constant*> out;
    const bool reduced =
        std::any_of(points.begin(), points.end(), [](const FabricPoint& p) { return p.kind == CollectiveKind::all_reduce; });
    for (const Constant& c : constants) {
        // Without an all-reduce there is nothing to be a share of: the latencies themselves are fitted.
        if (!reduced && std::string_view(c.name).starts_with("of_all_reduce")) continue;
        for (const double factor : {0.5, 1.5}) {
            FabricTable moved = base;
            moved.*c.at = std::max(c.least, base.*c.at) * factor;
            const bool moves = std::any_of(points.begin(), points.end(), [&](const FabricPoint& p) {
                const double us = predicted_us(p, base);
                return std::abs(predicted_us(p, moved) / us - 1) > 1e-3;
            });
            if (!moves) continue;
            out.push_back(&c);
            break;
        }
    }
    return out;
}

// Logarithms of the errors; a weak pull (a factor of e costs as much as 5 % on one size) holds constants that few sizes tell apart.
FabricTable fitted(std::span<const FabricPoint> points, const FabricTable& base, std::vector<const Constant*>& chosen) {
    chosen = felt(points, base);
    std::vector<double> begin;
    for (const Constant* c : chosen) begin.push_back(std::clamp(base.*c->at, c->least, c->most));
    const auto residual = [&](const std::vector<double>& p, std::size_t i) {
        if (i >= points.size()) return 0.05 * std::log(p[i - points.size()] / begin[i - points.size()]);
        return std::log(predicted_us(points[i], with(base, chosen, p)) / points[i].us);
    };
    return with(base, chosen, least_squares(begin, points.size() + chosen.size(), residual, 0.1));
}

FabricError error_of(std::vector<double> errors) {
    FabricError e;
    e.n = errors.size();
    if (errors.empty()) return e;
    std::sort(errors.begin(), errors.end());
    e.median = (errors[(errors.size() - 1) / 2] + errors[errors.size() / 2]) / 2;
    e.mean = std::accumulate(errors.begin(), errors.end(), 0.0) / static_cast<double>(errors.size());
    e.worst = errors.back();
    return e;
}

std::pair<FabricError, FabricError> errors(std::span<const FabricPoint> points, const FabricTable& f) {
    std::vector<double> large, small;
    for (const FabricPoint& p : points) (p.bytes > large_from ? large : small).push_back(std::abs(predicted_us(p, f) / p.us - 1));
    return {error_of(large), error_of(small)};
}

// Each fold predicted by a fit to the others.
std::pair<FabricError, FabricError> left_out(std::span<const FabricPoint> points, std::size_t folds, const FabricTable& base,
                                             const std::function<std::size_t(std::size_t)>& fold_of) {
    std::vector<double> large, small;
    for (std::size_t fold = 0; fold < folds; ++fold) {
        std::vector<FabricPoint> others, own;
        for (std::size_t i = 0; i < points.size(); ++i) (fold_of(i) == fold ? own : others).push_back(points[i]);
        if (others.empty() || own.empty()) continue;
        std::vector<const Constant*> chosen;
        const FabricTable f = fitted(others, base, chosen);
        for (const FabricPoint& p : own) (p.bytes > large_from ? large : small).push_back(std::abs(predicted_us(p, f) / p.us - 1));
    }
    return {error_of(large), error_of(small)};
}

std::string in_words(const char* what, const FabricError& large, const FabricError& small) {
    const auto part = [](const FabricError& e) {
        return e.n == 0 ? std::string("no size")
                        : fmt::format("median {:.1f} %, mean {:.1f} %, worst {:.0f} % ({} sizes)", 100 * e.median, 100 * e.mean,
                                      100 * e.worst, e.n);
    };
    return fmt::format("{}: over 16 MB {}; up to 16 MB {}", what, part(large), part(small));
}

using OrderedJson = nlohmann::ordered_json;

double four(double v) { return std::round(v * 1e4) / 1e4; }

OrderedJson to_fabric(const FabricTable& f, const Cluster& cluster, const std::string& text) {
    const double gbit = cluster.inter.nic_bandwidth.value * 8e-9;
    OrderedJson j;
    j["what"] = "fabric";
    j["class"] = "site";
    j["kinds"] = {name(cluster.inter.kind)};
    j["nic_gbit_from"] = four(gbit * 0.98);
    j["nic_gbit_below"] = four(gbit * 1.02);
    j["base_us"] = four(f.base);
    j["doubling_us"] = four(f.doubling);
    j["small_us"] = four(f.small);
    j["large_us"] = four(f.large);
    j["ring_hop_us"] = f.ring_hop;
    j["hop_us"] = f.hop;
    j["eta"] = {{"rail", f.eta_rail},
                {"ring_all_reduce", four(f.eta_ring_all_reduce)},
                {"all_reduce_fall", f.all_reduce_fall},
                {"ring", four(f.eta_ring)},
                {"tree", four(f.eta_tree)},
                {"tree_more", four(f.eta_tree_more)},
                {"all_to_all_2", four(f.eta_all_to_all_2)},
                {"all_to_all", four(f.eta_all_to_all)},
                {"fan_out", f.eta_fan_out},
                {"ring_fall", f.ring_fall}};
    j["of_all_reduce"] = {
        {"gather_base", four(f.gather_base)}, {"gather_ramp", four(f.gather_ramp)}, {"all_to_all_ramp", four(f.all_to_all_ramp)}};
    j["point_to_point"] = {{"base_us", f.p2p_base}, {"rendezvous_us", f.p2p_rendezvous}, {"eta", f.p2p_eta}};
    j["usable"] = f.usable;
    j["source"] = {{"kind", "fitted"}, {"text", text}};
    return j;
}

OrderedJson to_error(const FabricError& large, const FabricError& small) {
    return {
        {"over_16_mb", {{"n", large.n}, {"median_abs", four(large.median)}, {"mean_abs", four(large.mean)}, {"worst", four(large.worst)}}},
        {"up_to_16_mb",
         {{"n", small.n}, {"median_abs", four(small.median)}, {"mean_abs", four(small.mean)}, {"worst", four(small.worst)}}}};
}

} // namespace

PlacedCurve place(const NcclCurve& curve, Cluster cluster, int nodes) {
    const int ranks = curve.ranks;
    if (ranks < 2)
        throw std::runtime_error(
            fmt::format("{}: how many ranks ran {} is not said and cannot be told from its bandwidths: keep the \"# Rank\" lines",
                        curve.file, curve.program));
    const int stated = curve.nodes > 0 ? curve.nodes : nodes;
    cluster.nodes = stated > 0 ? stated : std::max(1, (ranks + cluster.devices_per_node - 1) / cluster.devices_per_node);
    if (ranks % cluster.nodes != 0)
        throw std::runtime_error(
            fmt::format("{}: {} ranks of {} on {} nodes: every node must have as many", curve.file, ranks, curve.program, cluster.nodes));
    if (ranks / cluster.nodes > cluster.devices_per_node)
        throw std::runtime_error(fmt::format("{}: {} ranks on {} are {} a node, and the cluster has {}: say --nodes or another --cluster",
                                             curve.file, ranks, cluster.nodes == 1 ? "1 node" : fmt::format("{} nodes", cluster.nodes),
                                             ranks / cluster.nodes, cluster.devices_per_node));
    if (ranks / cluster.nodes < cluster.devices_per_node) { // the first devices of each node, with their share of its NICs
        cluster.inter.nics_per_node = std::max(1, cluster.inter.nics_per_node * (ranks / cluster.nodes) / cluster.devices_per_node);
        cluster.devices_per_node = ranks / cluster.nodes;
    }
    return {curve, std::move(cluster), {}};
}

std::vector<Compared> compare_curve(const PlacedCurve& p) {
    const Timed t = timed(p);
    const bool inside = t.group.nodes == 1;
    const FabricTable f = inside ? FabricTable{} : fabric_table(p.cluster, p.constants.get());
    std::vector<Compared> out;
    for (const NcclRow& row : p.curve.rows) {
        const double us =
            inside
                ? single_node(t.links, p.curve.kind, t.group.n, row.bytes, p.curve.one_byte, t.multicast, CollectiveAlgorithm::automatic).us
                : multi_node(t.links, f, t.group, p.curve.kind, row.bytes, p.curve.one_byte, t.multicast, CollectiveAlgorithm::automatic)
                      .us;
        out.push_back({p.curve.program + (inside ? "" : " between nodes"), p.curve.one_byte ? "int8" : "half",
                       row.bytes > large_from ? "over 16 MB" : "up to 16 MB", p.cluster.device.name, row.us(), us});
    }
    return out;
}

namespace {
std::string files_of(std::span<const PlacedCurve> curves) {
    std::string out;
    for (const PlacedCurve& p : curves)
        if (out.find(p.curve.file) == std::string::npos) out += (out.empty() ? "" : ", ") + p.curve.file;
    return out.empty() ? "no table" : out;
}
} // namespace

FabricFit fit_fabric(std::span<const PlacedCurve> curves) {
    std::vector<Timed> tables;
    for (const PlacedCurve& p : curves) tables.push_back(timed(p));
    std::vector<FabricPoint> points;
    std::string files;
    std::size_t used = 0;
    const PlacedCurve* first = nullptr;
    for (std::size_t c = 0; c < curves.size(); ++c) {
        const PlacedCurve& p = curves[c];
        if (tables[c].group.nodes < 2) continue;
        if (!first) first = &p;
        for (const NcclRow& row : p.curve.rows)
            points.push_back(
                {&tables[c].links, &tables[c].group, p.curve.kind, row.bytes, row.us(), p.curve.one_byte, tables[c].multicast, used});
        files += fmt::format("{}{} {} on {} nodes ({} sizes)", files.empty() ? "" : "; ", p.curve.file, p.curve.program, p.cluster.nodes,
                             p.curve.rows.size());
        ++used;
    }
    if (!first)
        throw std::runtime_error(
            fmt::format("{}: no curve goes from node to node: a fabric's constants need nccl-tests on two nodes or more (--nodes says "
                        "how many, where the file does not)",
                        files_of(curves)));
    FabricTable base = fabric_table(first->cluster, first->constants.get());
    base.tuner.reset(); // its own curves choose
    FabricFit out;
    std::vector<const Constant*> chosen;
    const FabricTable f = fitted(points, base, chosen);
    std::tie(out.large, out.small) = errors(points, f);
    const auto sizes_out = left_out(points, 5, base, [](std::size_t i) { return i % 5; });
    if (used > 1) std::tie(out.large_out, out.small_out) = left_out(points, used, base, [&](std::size_t i) { return points[i].curve; });
    OrderedJson j = to_fabric(f, first->cluster, fmt::format("simrun fit of {}, from {}", files, base.name));
    const auto before = errors(points, base);
    j["residuals"] = {{"before", to_error(before.first, before.second)}, {"fitted", to_error(out.large, out.small)}};
    j["residuals"]["every_fifth_size_left_out"] = to_error(sizes_out.first, sizes_out.second);
    if (used > 1) j["residuals"]["curves_left_out"] = to_error(out.large_out, out.small_out);
    for (const Constant* c : chosen) out.said.push_back(fmt::format("{} = {:.4g} (was {:.4g})", c->name, f.*c->at, base.*c->at));
    out.said.push_back(in_words(fmt::format("before, by {}", base.name).c_str(), before.first, before.second));
    out.said.push_back(in_words("after the fit", out.large, out.small));
    out.said.push_back(in_words("sizes left out, a fifth at a time", sizes_out.first, sizes_out.second));
    out.said.push_back(
        used > 1 ? in_words("each curve by a fit to the others", out.large_out, out.small_out)
                 : "one curve only: nothing was left out to test the fit on. Give a second curve (another collective, another day)");
    out.json = j.dump(2) + "\n";
    return out;
}

} // namespace orrery
