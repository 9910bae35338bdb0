// Where nothing fits the point that is named is near: its plan lacks no more than that of a good plan by hand.
#include "sim/search/nearest.hpp"
#include "sim/search/search.hpp"

#include "sim/memory/memory.hpp"
#include "sim/plan/lower.hpp"
#include "sim/scenario/parse.hpp"
#include "sim/search/bounds.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <random>

namespace orrery {
namespace {

constexpr const char* seventy = R"({"model": "llama3-70b", "cluster": {"preset": "dgx-a100-40gb", "nodes": 1},
    "training": {"global_batch_size": 32, "sequence_length": 4096, "precision": "bf16"}, "strategy": {"framework": "megatron"}})";

Scenario by_hand() {
    ParseOptions options;
    options.overrides = {"strategy.tensor_parallel=8", "strategy.sequence_parallel=true", "strategy.recompute=full",
                         "training.micro_batch_size=1", R"(strategy.offload={"optimizer": "cpu", "activations": "cpu"})"};
    const ParseResult parsed = parse_scenario(seventy, options);
    return parsed.scenario.value();
}

TEST(NearestMiss, LacksNoMoreThanAPlanByHand) {
    const Scenario s = by_hand();
    const MemoryReport memory_by_hand = memory(lower(s), s);
    const std::int64_t lacks = (fullest(memory_by_hand).peak - memory_by_hand.capacity).count;
    ASSERT_GT(lacks, 0);
    const SearchResult r = search(seventy, {});
    EXPECT_TRUE(r.points.empty());
    ASSERT_TRUE(r.nearest_miss);
    EXPECT_LE(r.nearest_miss->row.peak_bytes - r.nearest_miss->row.capacity_bytes, lacks) << r.nearest_miss->row.label;
}

// Megatron leaves the fp32 parameters of an optimizer on the host on the device, too: 4 bytes each beside 2 of a parameter and 4 of a
// gradient, over 8 devices.
TEST(MemoryBound, CountsTheMastersThatStayOnTheDevice) {
    const Scenario s = by_hand();
    const Fabric fabric(s.cluster);
    Profiles profiles;
    InFlight in_flight;
    SharedWire sharing(fabric);
    const double bound = memory_bound(s, profiles.of(s, fabric), in_flight, &sharing);
    EXPECT_LE(bound, static_cast<double>(fullest(memory(lower(s), s)).peak.count));
    EXPECT_GT(bound, 70.5e9 / 8 * (2 + 4 + 4));
}

Miss miss(int form, double device, double node, int recompute = 0) {
    Miss m;
    m.device = device, m.node = node;
    m.id.form = form, m.id.recompute = recompute;
    return m;
}

TEST(Misses, AreTheLeastOfEachKindWhateverTheirOrder) {
    std::vector<Miss> all;
    for (int form = 0; form < 40; ++form)
        for (int recompute = 0; recompute < 3; ++recompute) all.push_back(miss(form, 100 + form, 500 - form * 10, recompute));
    std::vector<PointId> before;
    std::mt19937 random(3);
    for (int i = 0; i < 5; ++i) {
        std::shuffle(all.begin(), all.end(), random);
        Misses some, others;
        for (std::size_t k = 0; k < all.size(); ++k) (k % 2 == 0 ? some : others).add(all[k]);
        some.add(others);
        std::vector<PointId> ids;
        for (const Miss& m : some.all()) ids.push_back(m.id);
        ASSERT_EQ(ids.size(), 16u) << "8 of devices and 8 of nodes";
        EXPECT_EQ(ids.front().form, 0) << "least of a device's memory";
        EXPECT_EQ(ids[8].form, 39) << "least of a node's";
        EXPECT_EQ(ids.front().recompute, 2) << "of those as near, the one that recomputes most";
        if (i > 0) { EXPECT_EQ(ids, before); }
        before = ids;
    }
}

} // namespace
} // namespace orrery
