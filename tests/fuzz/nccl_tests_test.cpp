// Mutated output of nccl-tests: each gives curves that can be placed and checked, or one clear line. Never a crash.
#include "sim/fit/fabric.hpp"
#include "tests/fuzz/fuzz.hpp"
#include "topology/catalog.hpp"

using namespace orrery;

namespace {

std::string nccl_output() {
    std::string text = "# Collective test starting: all_reduce_perf\n";
    for (int r = 0; r < 16; ++r)
        text += fmt::format("#  Rank {:2} Group  0 Pid {:6} on host{:02} device {:2} [0x1b] NVIDIA H100 80GB HBM3\n", r, 4000 + r, r / 8,
                            r % 8);
    text += "#       size         count      type   redop    root     time   algbw   busbw #wrong     time   algbw   busbw #wrong\n";
    for (double bytes = 1024; bytes < 2e9; bytes *= 8) {
        const double us = 60 + bytes / 2e5, bw = bytes / us / 1e3;
        text += fmt::format("[1,0]<stdout>: {:.0f} {:.0f} float sum -1 {:.1f} {:.2f} {:.2f} 0 {:.1f} {:.2f} {:.2f} 0\n", bytes, bytes / 4,
                            us, bw, bw * 1.875, us, bw, bw * 1.875);
    }
    return text + "# Avg bus bandwidth    : 100.0\n";
}

} // namespace

TEST(FuzzNcclTests, DamagedOutputGivesCurvesOrOneLine) {
    Cluster cluster;
    cluster.device = *find_device("h100-sxm-80gb");
    cluster.intra = {IntraKind::nvswitch, cluster.device.scale_up, Time::microseconds(0.6)};
    cluster.inter.nic_bandwidth = BytesPerSecond::gigabits(400);
    fuzz::Random random{static_cast<std::uint64_t>(fuzz::setting("ORRERY_FUZZ_SEED", 1))};
    const std::string whole = nccl_output();
    int read = 0, refused = 0;
    for (int i = 0; i < fuzz::setting("ORRERY_FUZZ_INGEST", 2000); ++i) {
        std::string text = whole;
        for (std::uint64_t n = 1 + random.next() % 3; n > 0 && !text.empty(); --n) {
            const std::size_t at = random.next() % text.size();
            if (random.chance(30))
                text[at] = static_cast<char>(random.next());
            else if (random.chance(30))
                text.erase(at, random.next() % 40);
            else if (random.chance(20))
                text.resize(at);
            else
                text.insert(at, random.of({"9", "-", " ", "\n", "nan", "1e300", "0", "# Rank on device ", "[", ":", "\xff"}));
        }
        SCOPED_TRACE(fmt::format("number {}:\n{}", i, text));
        try {
            std::vector<std::string> skipped;
            for (const NcclCurve& curve : parse_nccl_tests("f.log", text, skipped))
                for (const Compared& c : compare_curve(place(curve, cluster, 0)))
                    EXPECT_TRUE(c.predicted > 0 && std::isfinite(c.predicted));
            ++read;
        } catch (const std::runtime_error& e) {
            EXPECT_TRUE(std::string(e.what()).starts_with("f.log")) << e.what();
            EXPECT_EQ(std::string(e.what()).find('\n'), std::string::npos);
            ++refused;
        }
        if (HasFailure()) return;
    }
    EXPECT_GT(read, 0);
    EXPECT_GT(refused, 0);
}
