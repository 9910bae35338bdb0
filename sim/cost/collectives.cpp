// Times of collectives (collectives.hpp): inside a domain, and between nodes as one pipelined flow through both levels.
#include "sim/cost/collectives.hpp"

#include <algorithm>
#include <cmath>

namespace orrery {
namespace {

constexpr double mebi = 1048576;
constexpr double ll_piece =
    32768; // up to here NCCL sends what is for one peer by LL (NCCL_P2P_LL_THRESHOLD, 16 KiB for each of two channels)

double join(double a, double b, double p) {
    const double hi = std::max(a, b), lo = std::min(a, b);
    return hi <= 0 ? 0 : hi * std::pow(1 + std::pow(lo / hi, p), 1 / p);
}

double ramp(double bytes, double half) { return bytes / (bytes + half); }

bool reduces(CollectiveKind k) { return k == CollectiveKind::all_reduce || k == CollectiveKind::reduce_scatter; }

} // namespace

std::string name(Algorithm a, Protocol p) {
    const char* protocols[] = {"LL", "LL128", "Simple"};
    switch (a) {
    case Algorithm::none:
        return "none";
    case Algorithm::ring:
        return std::string("ring/") + protocols[static_cast<std::size_t>(p)];
    case Algorithm::tree:
        return "tree";
    case Algorithm::nvls:
        return "nvls";
    case Algorithm::nvls_tree:
        return "nvls-tree";
    case Algorithm::sharp:
        return "sharp";
    case Algorithm::hierarchical:
        return "hierarchical";
    case Algorithm::direct:
        return "direct";
    case Algorithm::fan_out:
        return "fan-out";
    case Algorithm::pat:
        return "pat";
    }
    return "none";
}

Algorithm parse_algorithm(std::string_view text) {
    if (text.substr(0, 4) == "ring") return Algorithm::ring;
    for (Algorithm a : {Algorithm::tree, Algorithm::nvls, Algorithm::nvls_tree, Algorithm::sharp, Algorithm::hierarchical,
                        Algorithm::direct, Algorithm::fan_out, Algorithm::pat})
        if (text == name(a, Protocol::simple)) return a;
    return Algorithm::none;
}

double volume(CollectiveKind kind, int n) {
    const double share = static_cast<double>(n - 1) / n;
    switch (kind) {
    case CollectiveKind::all_reduce:
        return 2 * share;
    case CollectiveKind::all_gather:
    case CollectiveKind::reduce_scatter:
    case CollectiveKind::all_to_all:
        return share;
    case CollectiveKind::broadcast:
    case CollectiveKind::shift:
    case CollectiveKind::shift_back:
        return 1;
    }
    return 1;
}

int ring_steps(CollectiveKind kind, int n) {
    switch (kind) {
    case CollectiveKind::all_reduce:
        return 2 * (n - 1);
    case CollectiveKind::all_gather:
    case CollectiveKind::reduce_scatter:
        return n - 1;
    case CollectiveKind::all_to_all:
    case CollectiveKind::shift:
    case CollectiveKind::shift_back:
        return 1;
    case CollectiveKind::broadcast:
        return n;
    }
    return 1;
}

int sequential_hops(CollectiveKind kind, Algorithm algorithm, int n) {
    switch (algorithm) {
    case Algorithm::ring:
    case Algorithm::hierarchical:
        return kind == CollectiveKind::all_reduce ? 2 * (n - 1) : n - 1;
    case Algorithm::tree:
    case Algorithm::nvls_tree:
        return 2 * static_cast<int>(std::ceil(std::log2(static_cast<double>(n))));
    case Algorithm::pat:
        return static_cast<int>(std::ceil(std::log2(static_cast<double>(n))));
    case Algorithm::nvls:
    case Algorithm::sharp:
        return 2;
    case Algorithm::direct:
    case Algorithm::fan_out: // once over each level
        return 1;
    case Algorithm::none:
        return 0;
    }
    return 0;
}

Hops sequential_hops(CollectiveKind kind, Algorithm algorithm, const Group& g) {
    if (g.nodes < 2) return {sequential_hops(kind, algorithm, g.n), 0};
    Hops h{0, sequential_hops(kind, algorithm, g.nodes)};
    const int members = (g.n + g.nodes - 1) / g.nodes; // of a node
    switch (algorithm) {
    case Algorithm::ring:
        h.inside = (kind == CollectiveKind::all_reduce ? 2 : 1) * (g.n - g.nodes);
        break;
    case Algorithm::hierarchical:
        h.inside = sequential_hops(kind, Algorithm::ring, g.lanes);
        break;
    case Algorithm::tree:
        h.inside = 2 * (members - 1);
        break;
    case Algorithm::nvls_tree:
    case Algorithm::nvls:
    case Algorithm::sharp:
        h.inside = members > 1 ? 2 : 0;
        break;
    case Algorithm::fan_out:
        h.inside = members > 1 ? 1 : 0;
        break;
    case Algorithm::direct:
    case Algorithm::pat:
    case Algorithm::none:
        break;
    }
    return h;
}

CollectiveTime ring_time(const LinkTable& t, CollectiveKind kind, int n, double bytes, bool one_byte, Protocol protocol) {
    const bool broadcast = kind == CollectiveKind::broadcast;
    const double v = volume(kind, n), k = broadcast ? n - 1 : ring_steps(kind, n), own = broadcast ? 0 : 1.2 / n;
    const double slow_bytes = reduces(kind) && one_byte ? t.byte_factor : 1;
    const double e = (reduces(kind) ? t.reduce_factor : 1) * slow_bytes;
    CollectiveTime out{0, 0, Algorithm::ring, protocol};
    if (protocol == Protocol::ll) {
        const double r = bytes > 4096 ? std::min(1.0, std::log2(bytes / 4096) / 3) : 0;
        out.rate = t.ll_rate * slow_bytes / (v + own);
        out.us = join((t.ll_base + k * t.ll_step) * (1 + t.ll_rise * r), bytes / out.rate, 1.35);
    } else if (protocol == Protocol::ll128) {
        out.rate = t.ll128_rate * e / (v + own);
        out.us = t.ll128_base + k * t.ll128_step + bytes / out.rate;
    } else {
        out.rate = 1 / (v / (t.simple_rate * e) + (broadcast ? 0 : 1 / (n * t.simple_copy)));
        out.us = t.simple_base + join(k * t.simple_step, bytes / out.rate, 2) + t.simple_fill * ramp(bytes, 96 * mebi);
    }
    return out;
}

CollectiveTime nvls_time(const LinkTable& t, int n, double bytes) {
    const bool rack = n > 8;
    const double rate = (rack ? t.nvls_rack_efficiency : t.nvls_efficiency) * t.nominal / (1 + 1.0 / n);
    return {t.nvls_base + (rack ? t.nvls_rack_fill : t.nvls_fill) * std::max(1.0, n / 8.0) * ramp(bytes, 20 * mebi) + bytes / rate, rate,
            Algorithm::nvls, Protocol::simple};
}

CollectiveTime direct_time(const LinkTable& t, int n, double bytes) {
    const double rate = 1 / (volume(CollectiveKind::all_to_all, n) / t.direct_rate + 1 / (n * t.direct_copy));
    const double moved = std::max(bytes, 2 * std::min(bytes, n * ll_piece)); // LL's flags are half of it
    const double us = join(t.direct_base + 0.3 * (n - 1), moved / rate, 1.35) + std::min(bytes / n / t.direct_small_rate, t.direct_small) +
                      t.direct_fill * ramp(bytes, 48 * mebi);
    return {us, rate, Algorithm::direct, Protocol::simple};
}

CollectiveTime send_time(const LinkTable& t, double bytes) {
    const double us = t.direct_base + std::min(bytes / t.direct_small_rate, t.direct_small) + bytes / t.direct_rate +
                      t.direct_fill * ramp(bytes, 48 * mebi);
    return {us, t.direct_rate, Algorithm::direct, Protocol::simple};
}

namespace {
constexpr int whole_rack = 72; // devices of the largest domain that was measured
}

CollectiveTime as_chosen(const LinkTable& t, CollectiveKind kind, int n, double bytes, bool one_byte) {
    if (kind == CollectiveKind::all_to_all) return direct_time(t, n, bytes);
    return ring_time(t, kind, n, bytes, one_byte, choose(t, kind, n, bytes, one_byte, false).protocol);
}

CollectiveTime single_node(const LinkTable& t, CollectiveKind kind, int n, double bytes, bool one_byte, bool multicast,
                           CollectiveAlgorithm wish) {
    if (kind == CollectiveKind::all_to_all) return direct_time(t, n, bytes);
    if (kind == CollectiveKind::broadcast) return ring_time(t, kind, n, bytes, one_byte, Protocol::simple);
    const bool may_nvls = kind == CollectiveKind::all_reduce && multicast && t.has_nvls && n > 2;
    if (wish == CollectiveAlgorithm::nvls && may_nvls) return nvls_time(t, n, bytes);
    // Hierarchical and tree have one level here: NCCL's ring, whose protocol it still chooses. SHARP is of the network's switches: in a
    // node NCCL chooses as ever.
    const bool free = wish == CollectiveAlgorithm::automatic || wish == CollectiveAlgorithm::sharp;
    const bool multicasts = multicast && free;
    const auto timed = [&](const Choice& c, double size) {
        return c.algorithm == Algorithm::nvls ? nvls_time(t, n, size) : ring_time(t, kind, n, size, one_byte, c.protocol);
    };
    CollectiveTime out = timed(choose(t, kind, n, bytes, one_byte, multicasts), bytes);
    const auto no_longer_than = [&](const CollectiveTime& other) {
        if (other.us < out.us) out.us = other.us, out.rate = std::max(out.rate, other.rate);
    };
    const auto as_chosen_among = [&](int members) {
        no_longer_than(timed(choose(t, kind, members, bytes, one_byte, multicasts), bytes));
        for (const Turn& turn : turns_beyond(t, kind, members, bytes, one_byte, multicasts)) no_longer_than(timed(turn.choice, turn.bytes));
    };
    as_chosen_among(n);
    if (n > 8 && n < whole_rack) as_chosen_among(whole_rack);
    return out;
}

namespace {

struct Level {
    const LinkTable& t;
    const FabricTable& f;
    const Group& g;
    CollectiveKind kind;
    double bytes;
    bool one_byte;
    double adapter = 0, long_hops = 1; // of Narrower
};

// The time of the smallest size: it grows with the logarithm of the nodes.
double fabric_base(const FabricTable& f, CollectiveKind kind, int nodes) {
    return f.base * (kind == CollectiveKind::all_reduce ? 1 : f.gather_base) + f.doubling * (std::log2(static_cast<double>(nodes)) - 1);
}

// Latency of the fabric's pipelined flow: has two ramps with size.
double fabric_latency(const FabricTable& f, CollectiveKind kind, int nodes, double bytes) {
    return fabric_base(f, kind, nodes) + (f.small * ramp(bytes, 0.25 * mebi) + f.large * ramp(bytes, 16 * mebi)) *
                                             (kind == CollectiveKind::all_reduce ? 1 : f.gather_ramp);
}

// Rings lose bandwidth as they grow (published series of 4 to 128 nodes, and of 2 to 64).
double ring_eta(const FabricTable& f, CollectiveKind kind, const Group& g) {
    if (kind == CollectiveKind::all_reduce)
        return g.lanes == 1 ? f.eta_rail
                            : f.eta_ring_all_reduce * std::max(0.5, 1 - f.all_reduce_fall * std::log2(std::max(2, g.nodes) / 2.0));
    const double eta = g.lanes == 1 ? f.eta_rail : f.eta_ring; // one member a node: rails are disjoint
    return eta * std::max(0.5, 1 - f.ring_fall * std::max(0.0, std::log2(g.nodes / 4.0)));
}

// Those series are of nodes with four adapters and more. A ring of several members a node over one adapter is as fast as a rail: 32 V100
// on four nodes reach 12.2 of 12.5 GB/s in all-reduces (NVIDIA/nccl-tests issue 29). That gathers and more nodes do so too is assumed,
// and that rings over two and three adapters lie between, by the logarithm of their number: on nodes that have no more, and of groups with
// two or three members a node that have one each.
double ring_rate(const FabricTable& f, CollectiveKind kind, const Group& g, double adapter) {
    const double eta = ring_eta(f, kind, g);
    if (g.lanes == 1 || adapter <= 0) return eta * g.nic_rate;
    const double of_four = std::clamp(std::log2(g.nic_rate / adapter) / 2, 0.0, 1.0);
    return (f.eta_rail + (eta - f.eta_rail) * of_four) * g.nic_rate;
}

// The waiting time of a piece of data on its way round a ring, hops inside nodes and hops between them, by the protocol that comes out
// best. LL's hops are short, but half of what it carries are flags; LL128's flags are 8 of 128 bytes.
double ring_latency(const Level& l, double rate) {
    const double passes = static_cast<double>(ring_steps(l.kind, l.g.n)) / (l.g.n - 1), stream = l.bytes / rate;
    const auto round = [&](std::size_t protocol) {
        return passes * ((l.g.n - l.g.nodes) * l.t.choice_hop[protocol] + (l.g.nodes - 1) * l.f.ring_hop[protocol]) *
               (protocol == 2 && l.kind == CollectiveKind::all_reduce ? l.long_hops : 1);
    };
    const double best = std::min(round(2), round(0) + stream);
    return l.t.ll128_between ? std::min(best, round(1) + 8.0 / 120 * stream) : best;
}

CollectiveTime ring_across(const Level& l) {
    const double v = volume(l.kind, l.g.n), inner = ring_time(l.t, l.kind, l.g.n, l.bytes, l.one_byte, Protocol::simple).rate;
    const double outer = ring_rate(l.f, l.kind, l.g, l.adapter) / v;
    const double rate = l.g.n == l.g.nodes ? outer : std::min(inner, outer);
    const double log = fabric_base(l.f, l.kind, l.g.nodes);
    return {fabric_latency(l.f, l.kind, l.g.nodes, l.bytes) + std::max(0.0, ring_latency(l, rate) - log) + l.bytes / rate, rate,
            Algorithm::ring, Protocol::simple, outer};
}

// Parallel aggregated trees (NCCL 2.23, one member a node): as many bytes over each NIC as a ring sends, in log2(n) hops of the Simple
// protocol instead of n - 1. Its steps go further, so that trunks carry more (loads.cpp).
CollectiveTime pat_across(const Level& l) {
    const double rate = l.f.eta_rail * l.g.nic_rate / volume(l.kind, l.g.n);
    const double log = fabric_base(l.f, l.kind, l.g.nodes);
    const double hops = sequential_hops(l.kind, Algorithm::pat, l.g.nodes) * l.f.ring_hop[2];
    return {fabric_latency(l.f, l.kind, l.g.nodes, l.bytes) + std::max(0.0, hops - log) + l.bytes / rate, rate, Algorithm::pat,
            Protocol::simple, rate};
}

// The share of the inside's rate that bytes keep which flow between nodes at the same time.
constexpr double beside_network = 0.92;

// Inside a node of a tree each device passes all bytes on, up and down: no more than half of what a ring's links carry (over PCIe far less
// than NCCL takes them for).
CollectiveTime tree_across(const Level& l, bool nvls) {
    const double outer = l.g.nodes == 2 ? l.f.eta_tree * l.g.nic_rate : l.f.eta_tree_more * l.g.nic_rate / 2;
    double inner = std::min(beside_network * l.t.nominal, l.t.simple_rate * l.t.reduce_factor) / 2;
    if (nvls) inner = beside_network * nvls_time(l.t, l.g.lanes, l.bytes).rate;
    const double rate = l.g.n == l.g.nodes ? outer : std::min(inner, outer);
    return {fabric_latency(l.f, l.kind, l.g.nodes, l.bytes) + l.bytes / rate, rate, nvls ? Algorithm::nvls_tree : Algorithm::tree,
            Protocol::simple, outer};
}

// Inside a node each member adds a part of the others' and hands it back (NCCL's CollnetDirect): as many bytes as a ring there. Where the
// inside binds, 64 H100 with SHARP reach an algorithm bandwidth of 195 GB/s (coreweave/nccl-tests): no more than that.
CollectiveTime sharp_across(const Level& l) {
    const double inner =
        l.g.lanes > 1 ? beside_network * ring_time(l.t, l.kind, l.g.lanes, l.bytes, l.one_byte, Protocol::simple).rate : 1e30;
    const double outer = l.f.eta_tree * l.g.nic_rate, rate = l.g.n == l.g.nodes ? outer : std::min(inner, outer);
    return {l.f.base + l.f.small * ramp(l.bytes, 0.25 * mebi) + l.f.large * ramp(l.bytes, 16 * mebi) + l.bytes / rate, rate,
            Algorithm::sharp, Protocol::simple, outer};
}

// Reduce-scatter inside, one ring a lane across with 1/g of the bytes, all-gather inside: three phases, one after another.
CollectiveTime hierarchical(const Level& l) {
    const int g = l.g.lanes;
    auto inside = [&](CollectiveKind k) {
        return g > 1 ? single_node(l.t, k, g, l.bytes, l.one_byte, false, CollectiveAlgorithm::ring).us : 0.0;
    };
    Group lane = l.g;
    lane.n = l.g.nodes;
    lane.lanes = 1;
    lane.nic_rate = l.g.nic_rate / g;
    const CollectiveTime across = ring_across({l.t, l.f, lane, l.kind, l.bytes / g, l.one_byte, 0, l.long_hops});
    double us = across.us;
    if (l.kind != CollectiveKind::all_gather) us += inside(CollectiveKind::reduce_scatter);
    if (l.kind != CollectiveKind::reduce_scatter) us += inside(CollectiveKind::all_gather);
    // Its phases never use both levels at once, so what the links see on average is what the whole takes.
    const double latency = std::min(0.5 * us, l.f.base);
    return {us, l.bytes / std::max(us - latency, 1e-9), Algorithm::hierarchical, Protocol::simple, g * across.across};
}

CollectiveTime all_to_all_across(const Level& l) {
    const int n = l.g.n, g = l.g.lanes;
    const double eta = l.g.nodes == 2 ? l.f.eta_all_to_all_2 : l.f.eta_all_to_all;
    const double per_device = l.g.nic_rate / g, off_node = static_cast<double>(n - g) / n;
    const double inner = g > 1 ? 1 / (static_cast<double>(g - 1) / n / l.t.direct_rate + 1 / (n * l.t.direct_copy)) : 1e30;
    const double outer = eta * per_device / off_node, rate = std::min(inner, outer);
    const double us = l.f.base + 0.3 * (n - 1) +
                      l.f.all_to_all_ramp * (0.4 * l.f.small * ramp(l.bytes, 0.25 * mebi) + 0.6 * l.f.large * ramp(l.bytes, 16 * mebi)) +
                      l.bytes / rate;
    return {us, rate, Algorithm::direct, Protocol::simple, outer};
}

} // namespace

CollectiveTime multi_node(const LinkTable& t, const FabricTable& f, const Group& g, CollectiveKind kind, double bytes, bool one_byte,
                          bool multicast, CollectiveAlgorithm wish, const Narrower& links) {
    const Level l{t, f, g, kind, bytes, one_byte, links.adapter, links.long_hops};
    if (kind == CollectiveKind::all_to_all) return all_to_all_across(l);
    if (kind == CollectiveKind::broadcast) return ring_across(l);
    if (wish == CollectiveAlgorithm::hierarchical) return hierarchical(l);
    if (wish == CollectiveAlgorithm::pat && g.lanes == 1 && g.n == g.nodes && kind != CollectiveKind::all_reduce) return pat_across(l);
    if (kind != CollectiveKind::all_reduce || wish == CollectiveAlgorithm::ring)
        return ring_across(l); // trees and multicast across nodes reduce only
    const bool nvls = multicast && t.has_nvls && g.lanes > 2 && !one_byte;
    if (wish == CollectiveAlgorithm::sharp) return links.sharp ? sharp_across(l) : ring_across(l);
    if (wish == CollectiveAlgorithm::tree) return tree_across(l, false);
    if (wish == CollectiveAlgorithm::nvls) return tree_across(l, nvls);
    const CollectiveTime tree = tree_across(l, nvls), ring = ring_across(l);
    const Level tuned{t, f.tuner ? *f.tuner : f, g, kind, bytes, one_byte, links.adapter, links.long_hops};
    const auto whole = [&](const CollectiveTime& c, double rate) {
        const Hops hops = sequential_hops(kind, c.algorithm, g);
        return c.us + bytes / std::min(rate, c.rate) - bytes / c.rate + links.inside_us * hops.inside + links.between_us * hops.between;
    };
    const CollectiveTime as_ring = ring_across(tuned), as_tree = tree_across(tuned, nvls);
    const double least_ring = whole(as_ring, 1e30), least_tree = whole(as_tree, 1e30);
    if (!links.rate) return least_ring < least_tree ? ring : tree;
    // The links of a large group are many: they are not looked at where one algorithm loses whatever they hold back.
    if (links.least > 0 && least_ring >= whole(as_tree, links.least)) return tree;
    if (links.least > 0 && whole(as_ring, links.least) < least_tree) return ring;
    if (least_ring >= least_tree && least_ring >= whole(as_tree, links.rate(Algorithm::tree))) return tree;
    const double as_it_is = whole(as_ring, links.rate(Algorithm::ring));
    return as_it_is < least_tree || as_it_is < whole(as_tree, links.rate(Algorithm::tree)) ? ring : tree;
}

FanOut fan_out(const Group& g, int copies, int groups, int group_limit) {
    const double k = copies, n = g.n, nodes = g.nodes;
    if (n < 2 || k < 1) return {};
    const auto met = [&](double of) { return of * (1 - std::pow(1 - 1 / of, k)); };
    double foreign = nodes > 1 ? met(nodes) * (nodes - 1) / nodes : 0;
    double members = met(n);
    if (groups > group_limit) { // the width of a group of experts, in nodes or members
        foreign = std::min(foreign, group_limit * std::max(1.0, nodes / groups) * (nodes - 1) / nodes);
        members = std::min(members, group_limit * std::max(1.0, n / groups));
    }
    const double here = n / nodes; // members of a node: a token's way inside starts at one of them
    return {members * (here - 1) / here / k, foreign / k};
}

CollectiveTime fan_out_time(const LinkTable& t, const FabricTable& f, const Group& g, const FanOut& share, double bytes,
                            const TokenPace& pace) {
    const double here = static_cast<double>(g.n) / g.nodes; // of a node, which hands on what is for its own members too
    double inner = share.inside > 0 ? 0.95 * t.direct_rate / share.inside : 1e30;
    if (share.inside > 0 && pace.rate > 0) inner = 1 / join(1 / inner, share.inside * here / (here - 1) / pace.rate, pace.sharpness);
    const double outer = share.outside > 0 ? f.eta_fan_out * g.nic_rate / g.lanes / share.outside : 1e30;
    const double rate = share.inside > 0 && share.outside > 0 && pace.rate > 0 ? 1 / join(1 / inner, 1 / outer, 4) : std::min(inner, outer);
    return {(g.nodes > 1 ? f.base : t.direct_base + t.direct_small) + pace.first_us + bytes / rate, rate, Algorithm::fan_out,
            Protocol::simple, share.outside > 0 ? outer : 0};
}

} // namespace orrery
