// One collective alone, over random clusters and groups: a better network never makes it slower, but where NCCL's tuner then takes another
// algorithm or protocol (whatif_anomalies.cpp says what was measured of that).
#include "sim/cost/cost.hpp"
#include "tests/laws/whatif.hpp"
#include "topology/catalog.hpp"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <cmath>
#include <map>

namespace orrery::laws {
namespace {

struct Asked {
    Cluster cluster;
    CollectiveKind kind;
    double bytes;
    std::vector<int> ranks;
    CollectiveAlgorithm wish;
};

struct Answer {
    double us;
    std::string algorithm;
};

Answer answer(const Asked& a) {
    Scenario s;
    s.cluster = a.cluster;
    s.strategy.collective_algorithm = a.wish;
    const Fabric fabric(s.cluster);
    const CostModel model(s, fabric);
    const Collective c{a.kind, 0, {static_cast<std::int64_t>(a.bytes)}, DType::bf16};
    const CommCost cost = model.collective(c, a.ranks);
    return {cost.latency.seconds() * 1e6 + cost.payload / cost.cap.value * 1e6, cost.algorithm};
}

Asked random_collective(Random& random) {
    static const std::vector<std::string> presets{"dgx-v100", "dgx-a100-80gb", "dgx-h100", "dgx-b200", "azure-nd-mi300x-v5"};
    Asked a;
    a.cluster = *find_cluster(any(random, presets));
    a.cluster.nodes = any<int>(random, {1, 2, 2, 3, 4, 8, 16});
    InterNode& n = a.cluster.inter;
    n.topology = any<InterTopology>(random, {InterTopology::fat_tree, InterTopology::rail_optimized, InterTopology::rail_only,
                                             InterTopology::single_switch, InterTopology::dragonfly, InterTopology::dual_plane});
    n.dragonfly = {0, 2, 2, 1};
    n.nodes_per_leaf = any<int>(random, {1, 2, 4});
    n.oversubscription = any<double>(random, {1, 1, 2, 4});
    n.nic_bandwidth = BytesPerSecond::gigabits(any<double>(random, {50, 100, 200, 250, 400, 800}));
    n.nics_per_node = any<int>(random, {1, 2, 3, 4, 6, 8, 12});
    n.routing = any<Routing>(random, {Routing::even, Routing::even, Routing::planned, Routing::adaptive, Routing::spray});
    a.kind = any<CollectiveKind>(random, {CollectiveKind::all_reduce, CollectiveKind::all_gather, CollectiveKind::reduce_scatter,
                                          CollectiveKind::all_to_all, CollectiveKind::broadcast});
    a.bytes = std::exp2(10 + static_cast<double>(one_of(random, 2200)) / 100);
    a.wish =
        any<CollectiveAlgorithm>(random, {CollectiveAlgorithm::automatic, CollectiveAlgorithm::automatic, CollectiveAlgorithm::automatic,
                                          CollectiveAlgorithm::ring, CollectiveAlgorithm::tree, CollectiveAlgorithm::hierarchical});
    const int per_node = any<int>(random, {1, 2, 4, 8}), stride = 8 / per_node;
    for (int d = 0; d < a.cluster.devices(); d += stride) a.ranks.push_back(d);
    return a;
}

// The same collective on something better.
std::string improve(Random& random, Asked& worse, Asked& better) {
    const double factor = any<double>(random, {1.01, 1.1, 1.5, 2, 4});
    switch (one_of(random, 9)) {
    case 7: {
        LinkDown nic;
        nic.node = 0, nic.nic = static_cast<int>(one_of(random, static_cast<std::size_t>(worse.cluster.inter.nics_per_node)));
        if (worse.cluster.inter.nics_per_node == 1 || one_of(random, 2) == 0) nic.share = any<double>(random, {0.1, 0.5, 0.9});
        worse.cluster.inter.down = {nic};
        return "a NIC mended";
    }
    case 8: {
        LinkDown uplink;
        uplink.leaf = 0, uplink.share = any<double>(random, {0.5, 0.9});
        worse.cluster.inter.down = {uplink};
        if (!cluster_problems(worse.cluster).empty()) worse.cluster.inter.down.clear();
        return "an uplink mended";
    }
    case 0:
        better.cluster.inter.nic_bandwidth = worse.cluster.inter.nic_bandwidth * factor;
        return "NICs faster";
    case 1:
        better.cluster.intra.bandwidth = worse.cluster.intra.bandwidth * factor;
        return "links inside faster";
    case 2:
        worse.cluster.inter.latency = worse.cluster.inter.latency + Time::microseconds(20);
        better.cluster.inter.latency = worse.cluster.inter.latency + Time::microseconds(-19 / factor);
        return "hops between nodes shorter";
    case 3:
        worse.cluster.intra.latency = Time::microseconds(2);
        better.cluster.intra.latency = Time::microseconds(2 / factor);
        return "hops inside shorter";
    case 4:
        better.cluster.inter.nics_per_node = worse.cluster.inter.nics_per_node + any<int>(random, {1, 2, 3, 4, 8});
        return "more NICs";
    case 5:
        worse.cluster.inter.oversubscription *= factor;
        return "leaves less oversubscribed";
    default: {
        static const std::vector<InterKind> order{InterKind::ethernet, InterKind::efa, InterKind::roce, InterKind::infiniband};
        const std::size_t low = one_of(random, order.size() - 1);
        worse.cluster.inter.kind = order[low];
        better.cluster.inter.kind = order[low + 1];
        return fmt::format("{} for {}", name(order[low + 1]), name(order[low]));
    }
    }
}

TEST(WhatIfLaws, NoBetterNetworkMakesACollectiveSlower) {
    std::map<std::string, int> felt, switched;
    for (std::uint64_t i = 0; i < from_environment("ORRERY_PAIRS", 5'000); ++i) {
        Random random(from_environment("ORRERY_SEED", 1) * 7'000'003 + i);
        Asked worse = random_collective(random), better = worse;
        if (worse.ranks.size() < 2) continue;
        const std::string what = improve(random, worse, better);
        const Answer slow = answer(worse), fast = answer(better);
        felt[what] += fast.us < slow.us;
        const double slower = fast.us / slow.us - 1;
        if (slower <= 0.002) continue;
        bool known = false;
        for (const Anomaly& a : known_anomalies())
            known = known || (a.improvement == what && slow.algorithm != fast.algorithm && slower <= a.most &&
                              a.scenario == slow.algorithm + " to " + fast.algorithm);
        ++switched[slow.algorithm + " to " + fast.algorithm];
        EXPECT_TRUE(known) << i << ": " << what << " makes " << name(worse.kind) << " of " << worse.bytes << " bytes over "
                           << worse.ranks.size() << " on " << worse.cluster.nodes << " x " << worse.cluster.name << " with "
                           << worse.cluster.inter.nics_per_node << " and " << better.cluster.inter.nics_per_node << " NICs slower by "
                           << 100 * slower << " %: " << slow.us << " us by " << slow.algorithm << ", " << fast.us << " by "
                           << fast.algorithm;
    }
    for (const auto& [what, times] : felt) EXPECT_GT(times, 25) << what;
    EXPECT_LE(switched.size(), known_anomalies().size());
}

} // namespace
} // namespace orrery::laws
