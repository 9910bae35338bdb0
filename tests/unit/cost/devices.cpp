// Every preset can be simulated: finite positive costs of every op kind, in every precision, on every device and cluster.
#include "sim/cost/calibration.hpp"

#include "fixture.hpp"

#include <cmath>
#include <set>

namespace orrery {
namespace {

using namespace cost_test;

// One of each alternative of Work that takes time on a device, several where a field chooses a path.
std::vector<Work> all_work(DType t) {
    std::vector<Work> out;
    for (Direction d : {Direction::forward, Direction::input_gradient, Direction::weight_gradient}) {
        out.push_back(Linear{d, 4096, 1536, 6144, 1, t, DType::bf16, false});
        out.push_back(Matmul{d, 96, 2048, 2048, 128, t, true});
    }
    out.push_back(Linear{Direction::weight_gradient, 4096, 1536, 6144, 8, t, DType::fp32, true});
    for (Direction d : {Direction::forward, Direction::backward}) {
        for (AttentionKernel k :
             {AttentionKernel::flash1, AttentionKernel::flash2, AttentionKernel::flash3, AttentionKernel::cudnn, AttentionKernel::flex}) {
            out.push_back(Attention{d, 2, 2048, 2048, 12, 4, 128, 128, true, 0.5, t, k, 0.1});
            out.push_back(Attention{d, 1, 1024, 4096, 16, 16, 192, 128, false, 1, t, k, 0});
            out.push_back(Attention{d, 1, 512, 512, 4, 4, 40, 40, true, 0.5, t, k, 0});
        }
        for (bool fused : {false, true}) {
            out.push_back(Softmax{d, 4096, 2048, true, fused});
            out.push_back(Softmax{d, 4096, 2048, false, fused});
            for (NormKind k : {NormKind::layernorm, NormKind::rmsnorm}) out.push_back(Norm{d, k, 4096, 4096, fused});
            for (int k = 0; k <= static_cast<int>(PointwiseKind::index); ++k)
                out.push_back(Pointwise{static_cast<PointwiseKind>(k), d, 1 << 20, fused});
        }
        out.push_back(Embedding{d, 4096, 4096, 32000});
    }
    for (bool fused : {false, true}) {
        for (int p = 0; p < 4; ++p) out.push_back(CrossEntropy{static_cast<CrossEntropy::Part>(p), 4096, 32000, fused});
        for (int k = 0; k <= static_cast<int>(OptimizerKind::muon); ++k)
            for (bool host : {false, true}) out.push_back(OptimizerStep{static_cast<OptimizerKind>(k), 10000000, fused, host});
        out.push_back(GradientNorm{10000000, fused});
    }
    for (CopyKind k : {CopyKind::device_to_host, CopyKind::host_to_device, CopyKind::host_to_nvme, CopyKind::nvme_to_host})
        out.push_back(Copy{k, Bytes::mebibytes(64)});
    return out;
}

TEST(EveryDevice, TimesEveryOpInEveryPrecision) {
    for (const std::string& name : device_names()) {
        const Costs c(on_device(name));
        for (DType t : {DType::fp32, DType::tf32, DType::fp16, DType::bf16, DType::fp8, DType::mxfp8, DType::nvfp4})
            for (const Work& w : all_work(t)) {
                const double us = c.compute_us(w);
                EXPECT_TRUE(std::isfinite(us) && us > 0.1 && us < 1e8)
                    << name << " " << kind_name(w) << " in " << orrery::name(t) << ": " << us;
            }
        EXPECT_EQ(c.compute_us(HostSync{}), 0);
        EXPECT_DOUBLE_EQ(c.compute_us(HostWork{Time::microseconds(250)}), 250);
    }
}

// No kernel may beat the datasheet: compute at the peak of its precision, or a stream at HBM's.
TEST(EveryDevice, NoGemmBeatsThePeak) {
    for (const std::string& name : device_names()) {
        const Scenario s = on_device(name);
        const Costs c(s);
        for (const auto& [precision, peak] : s.cluster.device.peak) {
            if (precision != "bf16" && precision != "fp16" && precision != "fp32") continue;
            Linear l{Direction::forward, 16384, 8192, 8192};
            l.dtype = precision == "bf16" ? DType::bf16 : precision == "fp16" ? DType::fp16 : DType::fp32;
            const double share = flops(l).count / (c.compute_us(l) * 1e-6) / peak.value;
            EXPECT_LT(share, 1.0) << name << " " << precision;
            EXPECT_GT(share, 0.3) << name << " " << precision;
        }
    }
}

TEST(EveryDevice, SaysWhatItsFiguresRestOn) {
    const std::set<std::string> kinds{"measured", "fitted", "datasheet", "assumed", "stated"};
    for (const std::string& name : device_names()) {
        const std::vector<Provenance> groups = Costs(on_device(name)).model.provenance();
        EXPECT_GE(groups.size(), 9u) << name;
        for (const Provenance& p : groups) {
            EXPECT_EQ(kinds.count(p.kind), 1u) << name << ": " << p.what << ": " << p.kind;
            EXPECT_FALSE(p.what.empty() || p.text.empty()) << name << ": " << p.what << ": " << p.kind;
        }
    }
    // A device with tables of its own is fitted; one that borrows them is not.
    auto products = [](const char* name) { return Costs(on_device(name)).model.provenance().front().kind; };
    EXPECT_EQ(products("h100-sxm-80gb"), "fitted");
    EXPECT_EQ(products("h800-sxm-80gb"), "assumed");
    EXPECT_EQ(products("v100-sxm2-32gb"), "assumed");
}

// A file is found by its name: one whose name and "device" differ would never be read.
TEST(EveryDevice, FilesAreNamedForTheirDevice) {
    int kernels = 0;
    for (const EmbeddedFile& f : calibration_files()) {
        if (f.name.substr(0, 8) != "kernels_") continue;
        ++kernels;
        Device d;
        d.name = f.name.substr(8);
        EXPECT_EQ(kernel_tables(d).device, d.name);
    }
    EXPECT_GE(kernels, 12);
}

// A device of nobody's catalogue: its architecture's tables, or its vendor's nearest, at its own datasheet figures.
TEST(EveryDevice, AnUnknownDeviceBorrowsTheNearestTables) {
    Scenario s = on_device("h100-sxm-80gb"), doubled = s;
    doubled.cluster.device.name = "h100-twice";
    for (auto& [precision, peak] : doubled.cluster.device.peak) peak = peak * 2;
    doubled.cluster.device.memory_bandwidth = s.cluster.device.memory_bandwidth * 2;
    const Costs one(s), two(doubled);
    const Linear big{Direction::forward, 8192, 8192, 8192};
    EXPECT_NEAR(one.compute_us(big) / two.compute_us(big), 2, 0.15);
    EXPECT_EQ(two.model.provenance().front().kind, "assumed");
    doubled.cluster.device.architecture = "nobody's";
    doubled.cluster.device.vendor = "nobody";
    EXPECT_GT(Costs(doubled).compute_us(big), 0);
}

TEST(EveryCluster, TimesEveryCollectiveWithinItsLinks) {
    for (const std::string& name : cluster_names())
        for (int nodes : {1, 3}) {
            const Costs c(on_cluster(name, nodes));
            const int n = c.fabric.devices();
            std::vector<std::vector<int>> groups{ranks(n)};
            if (nodes > 1) groups.push_back(ranks(nodes, 0, n / nodes));
            if (n / nodes > 2) groups.push_back(ranks(n / nodes / 2));
            for (const auto& group : groups) {
                if (group.size() < 2) continue;
                for (auto kind : {CollectiveKind::all_reduce, CollectiveKind::all_gather, CollectiveKind::reduce_scatter,
                                  CollectiveKind::all_to_all, CollectiveKind::broadcast})
                    for (double bytes : {0.0, 1000.0, 3e6, 5e8}) {
                        const CommCost cost = c.collective(kind, bytes, group);
                        const std::string where =
                            name + " x" + std::to_string(nodes) + " " + orrery::name(kind) + " of " + std::to_string(group.size());
                        EXPECT_GT(microseconds(cost.latency), 0) << where;
                        EXPECT_TRUE(cost.cap.value > 0 && std::isfinite(cost.cap.value)) << where;
                        const auto loads = c.loads(kind, bytes, cost, group);
                        // Where latency is all, no link is loaded; where bytes count, some are.
                        if (bytes >= 3e6) { EXPECT_FALSE(loads.empty()) << where; }
                        if (bytes == 0) { EXPECT_TRUE(loads.empty()) << where; }
                        for (const LinkLoad& l : loads) {
                            const Link& link = c.fabric.links()[l.link];
                            EXPECT_LE(l.taken() * cost.cap.value, link.capacity.value * (1 + 1e-9))
                                << where << " " << c.fabric.link_name(l.link) << " " << cost.algorithm;
                        }
                    }
            }
            const CommCost p2p = c.model.transfer(Bytes::mebibytes(16), 0, n - 1);
            for (const LinkLoad& l : c.model.transfer_loads(0, n - 1))
                EXPECT_LE(l.taken() * p2p.cap.value, c.fabric.links()[l.link].capacity.value * (1 + 1e-9)) << name;
        }
}

TEST(Determinism, TheSameScenarioGivesTheSameFigures) {
    const Costs a(on_cluster("dgx-h100", 2)), b(on_cluster("dgx-h100", 2));
    for (const Work& w : all_work(DType::bf16)) EXPECT_EQ(a.compute_us(w), b.compute_us(w)) << kind_name(w);
    const auto group = ranks(16);
    const CommCost x = a.collective(CollectiveKind::all_gather, 1e8, group), y = b.collective(CollectiveKind::all_gather, 1e8, group);
    EXPECT_EQ(x.latency, y.latency);
    EXPECT_EQ(x.cap.value, y.cap.value);
    EXPECT_EQ(a.model.provenance(), b.model.provenance());
}

} // namespace
} // namespace orrery
