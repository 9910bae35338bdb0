// Times of collectives by algorithm and protocol, inside one domain of links and between nodes, and the choice NCCL would make.
// Units: microseconds, bytes, bytes per microsecond. S is counted as nccl-tests does (work.hpp).
//
// n ranks; bus volume V and ring steps k: all-reduce V = 2(n-1)/n, k = 2(n-1); all-gather, reduce-scatter V = (n-1)/n, k = n-1;
// broadcast V = 1, k = n; all-to-all V = (n-1)/n. Inside a domain (pn(a,b,p) = (a^p + b^p)^(1/p), M = 2^20):
//   ring LL      pn((base + k step)(1 + rise r(S)), S (V + 1.2/n) / B, 1.35),  r = clamp(log2(S/4096)/3, 0, 1)
//   ring LL128   base + k step + S (V + 1.2/n) / (B e)
//   ring Simple  base + pn(k step, S (V/(B e) + 1/(n C)), 2) + fill S/(S + 96M)
//   NVLS         base + fill max(1, n/8) S/(S + 20M) + S (1 + 1/n) / (eff nominal), fill and eff of a rack's own beyond 8
//   direct       pn(base + 0.3 (n-1), S' (V/B + 1/(n C)), 1.35) + min(S/n/B0, t0) + fill S/(S + 48M),  S' = max(S, 2 min(S, 32K n)): by LL
//   up to 32 KiB a peer
// 1/(n C): a rank copies its own share through the same processors. Between nodes: multi_node() in collectives.cpp; a ring of n ranks on
// N nodes waits k/(n-1) ((n-N) inside + (N-1) between) for its hops, beyond what the fabric's own curve has.
// Example: all-gather over 512 ranks, four a node, Simple: 384 x 3.4 + 127 x 14 = 3.1 ms, whatever its size.
// Example: H100, all-reduce of 512 MiB on 8: 22.2 + 83.7 + 536870912 x 1.125 / 312584 = 2038 us by NVLS.
#pragma once

#include "sim/cost/calibration.hpp"
#include "topology/fabric.hpp"
#include "topology/pages.hpp"

#include <functional>
#include <span>
#include <string>
#include <vector>

namespace orrery {

enum class Algorithm : std::uint8_t { none, ring, tree, nvls, nvls_tree, sharp, hierarchical, direct, fan_out, pat };
enum class Protocol : std::uint8_t { ll, ll128, simple };
std::string name(Algorithm a, Protocol p);        // "ring/LL128", "nvls"
Algorithm parse_algorithm(std::string_view text); // of a CommCost::algorithm

// T(S) at this size, and the rate of its bandwidth term: payload at most at `rate`, the rest of T is latency. across: the rate that its
// part between nodes would have alone; 0: it has none.
struct CollectiveTime {
    double us = 0, rate = 0;
    Algorithm algorithm = Algorithm::ring;
    Protocol protocol = Protocol::simple;
    double across = 0;
};

double volume(CollectiveKind kind, int n);
int ring_steps(CollectiveKind kind, int n);

// Inside one domain.
CollectiveTime ring_time(const LinkTable& t, CollectiveKind kind, int n, double bytes, bool one_byte, Protocol protocol);
CollectiveTime nvls_time(const LinkTable& t, int n, double bytes);
CollectiveTime direct_time(const LinkTable& t, int n, double bytes);
CollectiveTime send_time(const LinkTable& t, double bytes);

// NCCL's own estimate of a candidate: used to choose, never as a prediction.
struct Choice {
    Algorithm algorithm;
    Protocol protocol;
};
Choice choose(const LinkTable& t, CollectiveKind kind, int n, double bytes, bool one_byte, bool multicast);
// Where the choice turns to another candidate beyond this size, in order of sizes.
struct Turn {
    double bytes;
    Choice choice;
};
std::vector<Turn> turns_beyond(const LinkTable& t, CollectiveKind kind, int n, double bytes, bool one_byte, bool multicast);

// NCCL's choice without a switch that reduces, also where a smaller message takes longer than a larger one by it, as in a box whose
// bandwidth NCCL takes for more than it is.
CollectiveTime as_chosen(const LinkTable& t, CollectiveKind kind, int n, double bytes, bool one_byte);

// The algorithm asked for (automatic: NCCL's choice), timed. multicast: the switch can reduce (NVLS). Where the choice turns to a faster
// candidate at a larger size, a smaller one takes no longer than that: an application could pad it, and measured curves have no such step.
// Between eight devices and a rack's 72 nothing is measured: a part of a rack takes no longer than by what the tuner has for the whole, so
// that fewer devices are not slower where it turns at another size.
CollectiveTime single_node(const LinkTable& t, CollectiveKind kind, int n, double bytes, bool one_byte, bool multicast,
                           CollectiveAlgorithm wish);

// Hops that follow one another before the first byte is through: over n ranks of a domain, or over n nodes.
int sequential_hops(CollectiveKind kind, Algorithm algorithm, int n);

// How the devices of a node are wired to each other: all through a switch, each pair by its own link, to neighbours in a torus, or by PCIe
// switches under host bridges.
enum class Wiring : std::uint8_t { switched, mesh, torus, tree };
struct Domain {
    Wiring wiring = Wiring::switched;
    bool spans_nodes = false; // a torus that goes on from node to node: nodes do not matter
};
Domain domain_of(const Cluster& cluster);

// How a communicator lies on the nodes.
struct Group {
    int n = 1, nodes = 1;
    double reach = 1;                // share of a device's links that lead to other members (mesh and torus); over 1 in a package
    int lanes = 1;                   // fewest members on one node: what a ring's channels can use
    double nic_rate = 0;             // bytes/us through the NICs of a node's members, on the node with the least
    std::vector<int> members, begin; // members node by node, nodes in order of first appearance; begin has nodes + 1 entries

    std::span<const int> node(std::size_t k) const {
        return std::span<const int>(members).subspan(begin[k], static_cast<std::size_t>(begin[k + 1] - begin[k]));
    }
};
Group group_of(const Fabric& fabric, Domain domain, std::span<const int> ranks);

// Hops of a group that follow one another, inside nodes and from node to node. A ring passes every member; a tree's node is a chain of its
// members, up and down; a switch that reduces is one hop up and one down; of an all-to-all across nodes the hops inside run beside the
// others.
struct Hops {
    int inside = 0, between = 0;
};
Hops sequential_hops(CollectiveKind kind, Algorithm algorithm, const Group& g);

// Terms that this cluster adds to a choice between algorithms, and not to their times: hops inside nodes and between them that take longer
// than in the machines fitted, and the rate (bytes/us) that its links let an algorithm have while the groups beside this one do the same:
// asked for where the choice rests on it.
struct Narrower {
    double inside_us = 0, between_us = 0;
    std::function<double(Algorithm)> rate = nullptr; // none: as fast as the algorithm alone
    double least = 0;                                // no rate is below it
    bool sharp = true;                               // switches can reduce for this group (trees, levels and types of data suffice)
    // These change the times, too:
    double adapter = 0;   // bytes/us of one adapter of a node; 0: not known
    double long_hops = 1; // how much longer a ring's hops by the Simple protocol take than in the machines fitted
};
CollectiveTime multi_node(const LinkTable& t, const FabricTable& f, const Group& g, CollectiveKind kind, double bytes, bool one_byte,
                          bool multicast, CollectiveAlgorithm wish, const Narrower& links = {});

// Tokens sent once to each node they go to, and on inside it (DeepEP), each member holding S = tokens x copies x size. What a member
// sends to other nodes and what passes its links inside, per byte of S. A token's copies fall on members at random: it meets
//   m (1 - (1 - 1/m)^copies)  of m members, or nodes, or nodes but for its own, and no more nodes than its groups span.
struct FanOut {
    double inside = 0, outside = 0;
};
FanOut fan_out(const Group& g, int copies, int groups, int group_limit);

// The pace of a dispatcher's kernels: bytes that their processors move together (a us, a token counted once for each member it goes to, its
// own included; 0: the links alone bind), and how long they take before the first token leaves.
//   rate inside 1 / p(1 / links, 1 / processors), p the sum of powers of `sharpness`: a B200 has 702 GB/s by its links, 24 processors of
//   21.8 have 523, both 489. NICs and what is handed on inside go on side by side, joined by the fourth power.
struct TokenPace {
    double rate = 0, sharpness = 4, first_us = 0;
};
CollectiveTime fan_out_time(const LinkTable& t, const FabricTable& f, const Group& g, const FanOut& share, double bytes,
                            const TokenPace& pace = {});
std::vector<struct LoadShare> fan_out_loads(const Fabric& fabric, Domain domain, const Group& g, const FanOut& share);

// Bytes on each directed link per byte of S, sorted by link.
struct LoadShare {
    LinkId link;
    double load;
};
std::vector<LoadShare> link_loads(const Fabric& fabric, Domain domain, const Group& g, CollectiveKind kind, Algorithm algorithm);
// The same for groups of much of the cluster, by link. Sums of parts that are no multiples of a power of two may differ from those of
// link_loads in their last bits.
Pages<double> sums_of_loads(const Fabric& fabric, Domain domain, const Group& g, CollectiveKind kind, Algorithm algorithm);

} // namespace orrery
