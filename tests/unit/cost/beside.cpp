// What communication takes from computation beside it: as many processors as its kernels hold, and more for the bytes that they move?
#include "fixture.hpp"

namespace orrery {
namespace {

using namespace cost_test;

constexpr double mebibyte = 1048576;
constexpr auto gather = CollectiveKind::all_gather;

// The ring that the constants are of: 0.43, by 24 of 132 processors and 3 x 363 of 3352 GB/s; copy engines 0.37 of it.
TEST(Beside, TheRingOfEightH100IsTheMeasuredWhole) {
    const CommCost ring = Costs(on_device("h100-sxm-80gb")).collective(gather, 512 * mebibyte, ranks(8));
    EXPECT_EQ(ring.processors, 24);
    EXPECT_NEAR(ring.slows, 0.43, 0.005);
    EXPECT_NEAR(ring.slows_by_bytes, 0.159, 0.005);
    const CommCost multicast = Costs(on_device("h100-sxm-80gb")).collective(CollectiveKind::all_reduce, 512 * mebibyte, ranks(8));
    ASSERT_EQ(multicast.algorithm, "nvls");
    EXPECT_EQ(multicast.processors, 16);
    EXPECT_LT(multicast.slows, ring.slows);
}

// There the whole serves (beside.cpp says why), but for what a dispatcher's kernels send.
TEST(Beside, BetweenNodesTheWholeServes) {
    const Costs c(on_cluster("dgx-h100", 4));
    for (const CommCost& cost : {c.collective(gather, 512 * mebibyte, ranks(32)), c.collective(gather, 512 * mebibyte, ranks(4, 0, 8)),
                                 c.model.transfer(Bytes::mebibytes(64), 0, 8)})
        EXPECT_LT(cost.slows, 0);
    EXPECT_GT(c.model.transfer(Bytes::mebibytes(64), 0, 1).slows, 0.1);
}

// The measurement itself (pytorch/pytorch pull request 172714): a product of 1.57 ms begins with a gather of 1.3 ms, whose ring or copy
// engines run beside it, and ends at 2.02 or 1.77 ms.
TEST(Beside, AProductBesideAGatherTakesAsLongAsMeasured) {
    const CommCost ring = Costs(on_device("h100-sxm-80gb")).collective(gather, 512 * mebibyte, ranks(8));
    const auto ends = [](double slows) { return 1.57 + 1.3 * slows / (1 + slows); };
    EXPECT_NEAR(ends(ring.slows), 2.02, 0.08);
    EXPECT_NEAR(ends(ring.slows_by_bytes), 1.77, 0.03);
}

// Two channels for each link between the pair, of the twelve that a V100's six links have: all of them behind a switch, two where each two
// of eight devices have a link of their own.
TEST(Beside, AMessageHoldsTheChannelsOfThePairsLinks) {
    const auto held = [](IntraKind kind) {
        Scenario s = on_device("v100-sxm2-32gb");
        s.cluster.intra.kind = kind;
        return Costs(s).model.transfer(Bytes::mebibytes(64), 0, 1).processors;
    };
    EXPECT_EQ(held(IntraKind::nvswitch), 12);
    EXPECT_EQ(held(IntraKind::nvlink_mesh), 2);
}

TEST(Beside, FewProcessorsAreNeverAllMissed) {
    Scenario s = on_device("h100-sxm-80gb");
    s.cluster.device.processors = 20; // fewer than the kernels ask for
    const double slows = Costs(s).collective(gather, 512 * mebibyte, ranks(8)).slows;
    EXPECT_GT(slows, 1);
    EXPECT_LT(slows, 20);
}

TEST(Beside, MoreProcessorsOrFasterMemoryAreNeverSlower) {
    double before = 1e9, memory = 1e9;
    for (const double more : {0.2, 0.5, 1.0, 2.0, 4.0}) {
        Scenario s = on_device("h100-sxm-80gb"), fast = s;
        s.cluster.device.processors = static_cast<int>(132 * more);
        fast.cluster.device.memory_bandwidth.value *= more;
        const double slows = Costs(s).collective(gather, 512 * mebibyte, ranks(8)).slows;
        const double by_bytes = Costs(fast).collective(gather, 512 * mebibyte, ranks(8)).slows_by_bytes;
        EXPECT_LT(slows, before);
        EXPECT_LE(by_bytes, memory);
        before = slows, memory = by_bytes;
    }
}

// What computation loses while a gather runs beside it does not grow with the rate or number of NICs, or of the links inside.
TEST(Beside, BetterLinksTakeNoMoreInAll) {
    const auto lost = [](double nics, double rate, double inside, int members = 32) {
        Scenario s = on_cluster("dgx-h100", 4);
        s.cluster.inter.nics_per_node = static_cast<int>(nics);
        s.cluster.inter.nic_bandwidth.value *= rate;
        s.cluster.intra.bandwidth.value *= inside;
        const CommCost c = Costs(s).collective(gather, 512 * mebibyte, ranks(members));
        const double slows = c.slows < 0 ? Costs(s).model.interference().compute_slowdown : c.slows;
        return c.payload / c.cap.value * slows / (1 + slows); // while data move
    };
    for (const double inside : {0.25, 1.0, 2.0}) {
        EXPECT_LE(lost(8, 1, 2 * inside, 8), lost(8, 1, inside, 8) * (1 + 1e-6)) << inside;
        for (const double rate : {0.25, 1.0, 4.0}) {
            EXPECT_LE(lost(8, rate, inside), lost(4, rate, inside) * (1 + 1e-6)) << rate << ' ' << inside;
            EXPECT_LE(lost(8, 2 * rate, inside), lost(8, rate, inside) * (1 + 1e-6)) << rate << ' ' << inside;
            EXPECT_LE(lost(8, rate, 2 * inside), lost(8, rate, inside) * (1 + 1e-6)) << rate << ' ' << inside;
        }
    }
}

TEST(Beside, OfOtherKernelsNothingIsKnown) {
    for (const char* device : {"mi300x", "tpu-v5p"}) {
        const auto cluster = on_cluster(std::string_view(device) == "mi300x" ? "azure-nd-mi300x-v5" : "tpu-v5p-pod");
        const CommCost c = Costs(cluster).collective(gather, 64 * mebibyte, ranks(4));
        EXPECT_LT(c.slows, 0) << device;
    }
}

TEST(Beside, NothingSlowsMoreThanTheMost) {
    for (const char* preset : {"dgx-a100-80gb", "dgx-h100", "dgx-b200"}) {
        const Costs c(on_cluster(preset, 2));
        const double most = c.model.most_slowdown();
        for (const CollectiveKind kind : {gather, CollectiveKind::all_reduce, CollectiveKind::all_to_all})
            for (const auto& group : {ranks(8), ranks(4), ranks(16), ranks(2, 0, 8)})
                for (const double size : {0.01, 1.0, 512.0}) {
                    const CommCost cost = c.collective(kind, size * mebibyte, group);
                    const double slows = cost.slows < 0 ? c.model.interference().compute_slowdown : cost.slows;
                    EXPECT_LE(slows, most) << preset;
                }
    }
}

} // namespace
} // namespace orrery
