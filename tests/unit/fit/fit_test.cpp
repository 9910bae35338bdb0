// Does a fit find the constants a table was made from, and does the check measure how far off a calibration is?
#include "sim/fit/experts.hpp"
#include "sim/fit/laws.hpp"
#include "sim/fit/prefill.hpp"

#include <fmt/format.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include <cmath>

namespace orrery {
namespace {

// A table the law itself makes with these constants.
std::string made_table(const GemmTable& law, const Device& device) {
    std::string csv = "dtype,m,n,k,batch,us,source\n";
    const GemmDevice d = burst_device(device, "bf16");
    for (int m : {128, 512, 1024, 2048, 4096, 8192})
        for (int n : {256, 1024, 4096, 12288})
            for (int k : {256, 1024, 4096, 16384})
                csv += fmt::format("bf16,{},{},{},1,{},made\n", m, n, k, gemm_us(law, d, {double(m), double(n), double(k)}));
    return csv;
}

TEST(Table, OfNothingSaysSo) {
    for (const char* nothing : {"", "\n", " \r\n\n"}) EXPECT_THROW(parse_table("curve.log", nothing), std::runtime_error) << nothing;
}

TEST(LeastSquares, FindsAPowerLawInSpiteOfAnOutlier) {
    std::vector<double> x, y;
    for (int i = 1; i <= 40; ++i) x.push_back(i), y.push_back(3 * std::pow(i, 0.7));
    y[7] *= 5;
    const auto p = least_squares({1, 1}, x.size(),
                                 [&](const std::vector<double>& v, std::size_t i) { return std::log(v[0] * std::pow(x[i], v[1]) / y[i]); });
    EXPECT_NEAR(p[0], 3, 0.05);
    EXPECT_NEAR(p[1], 0.7, 0.01);
}

TEST(Fit, RecoversTheTimesOfTheLawATableWasMadeFrom) {
    const Device device = *find_device("h100-sxm-80gb");
    GemmTable law;
    law.t0 = 3, law.tile = 2, law.efficiency = 0.7, law.feed = 4, law.stream = 0.8, law.split = 3, law.soft_waves = 0.8, law.throttle = 0.1,
    law.throttle_busy = true, law.l2_share = 0.5, law.l2_stream = 0.15;
    const MeasuredTable table = parse_table("gemm_h100-sxm-80gb.csv", made_table(law, device));
    const auto j = nlohmann::json::parse(fit(table));
    const auto& g = j.at("gemm").at("bf16");
    EXPECT_EQ(j.at("device"), "h100-sxm-80gb");
    EXPECT_NEAR(g.at("efficiency").get<double>(), 0.7, 0.05);
    EXPECT_NEAR(g.at("t0_us").get<double>(), 3, 0.5);
    EXPECT_NE(g.at("source").at("text").get<std::string>().find("median error 0."), std::string::npos) << g.at("source");
}

TEST(Fit, FindsWhatABlackwellKeepsUpAsAWhole) {
    const Device device = *find_device("b200-192gb");
    GemmTable law;
    law.menu = TileMenu::pairs;
    law.t0 = 2, law.tile = 0.6, law.efficiency = 0.85, law.feed = 4, law.stream = 0.8, law.split = 3.5, law.soft_waves = 0.3,
    law.throttle = 0.15, law.throttle_us = 5000, law.throttle_busy = true;
    law.ceiling = 0.65, law.pause = 5, law.far = 1, law.overlap = 2, law.l2_share = 0.6, law.l2_stream = 0.2;
    const auto g = nlohmann::json::parse(fit(parse_table("gemm_b200-192gb.csv", made_table(law, device)))).at("gemm").at("bf16");
    EXPECT_EQ(g.at("menu"), "pairs");
    EXPECT_NEAR(g.at("ceiling").get<double>(), 0.65, 0.03);
    EXPECT_NE(g.at("source").at("text").get<std::string>().find("median error 0."), std::string::npos) << g.at("source");
}

TEST(Fit, AttentionRatesAndTheirStart) {
    std::string csv = "device,implementation,op,causal,head_dim,heads,batch,seq,tflops,figure\n";
    for (int s : {512, 1024, 2048, 4096, 8192})
        csv += fmt::format("h100-sxm-80gb,FA2,fwd,1,128,16,{},{},{},made\n", 16384 / s, s, 400 / (1 + 300.0 / s));
    const auto series = nlohmann::json::parse(fit(parse_table("attention_tflops.csv", csv))).at("attention").at(0);
    EXPECT_NEAR(series.at("tflops").get<double>(), 400, 1);
    EXPECT_NEAR(series.at("s0").get<double>(), 300, 2);
}

TEST(Fit, RecoversAPrefillAndTheCheckSeesTheSameLaw) {
    const Device device = *find_device("h100-sxm-80gb");
    const PrefillTable law{12, 0.8, 600, 0.3, 0.7, 128, {{64, 0.4}, {128, 0.6}}, {}};
    std::string csv = "dtype,seq_q,seq_kv,heads,kv_heads,head_dim,batch,causal,fwd_us,source\n";
    for (int s : {512, 1024, 2048, 4096, 8192, 16384})
        for (int heads : {2, 8, 16, 32, 64})
            for (int batch : {1, 2, 8})
                for (int dim : {64, 128}) {
                    const PrefillProblem p{double(batch), double(s), double(heads), 2, double(dim), double(dim)};
                    csv += fmt::format("bf16,{},{},{},2,{},{},1,{},made\n", s, s, heads, dim, batch,
                                       prefill_us(law, prefill_device(device), p));
                }
    const auto g = nlohmann::json::parse(fit(parse_table("attention_h100-sxm-80gb.csv", csv))).at("prefill").at("full");
    EXPECT_NEAR(g.at("efficiency").at("128").get<double>(), 0.6, 0.02);
    EXPECT_NEAR(g.at("start_us").get<double>(), 12, 1);
    EXPECT_NE(g.at("source").at("text").get<std::string>().find("median error 0."), std::string::npos) << g.at("source");
}

// The time of a token that does not depend on its heads shows where heads are few.
TEST(Fit, RecoversWhatATokenOfLatentAttentionTakesWhateverItsHeads) {
    const Device device = *find_device("h100-sxm-80gb");
    PrefillTable law{12, 0.8, 100, 0.3, 0.7, 128, {{160, 0.6}}, {}};
    law.latent = 2300;
    std::string csv = "dtype,seq_q,seq_kv,heads,kv_heads,qk_head_dim,v_head_dim,batch,causal,fwd_us,source\n";
    for (int s : {512, 1024, 2048, 4096, 8192, 16384})
        for (int heads : {1, 4, 16, 64})
            for (int batch : {1, 4, 16}) {
                const PrefillProblem p{double(batch), double(s), double(heads), double(heads), 192, 128};
                csv += fmt::format("bf16,{},{},{},{},192,128,{},1,{},made\n", s, s, heads, heads, batch,
                                   prefill_us(law, prefill_device(device), p));
            }
    const auto g = nlohmann::json::parse(fit(parse_table("attention_mla_h100-sxm-80gb.csv", csv))).at("prefill").at("latent");
    EXPECT_NEAR(g.at("latent").get<double>(), 2300, 150);
    EXPECT_NEAR(g.at("pre").get<double>(), 0.8, 0.05);
    EXPECT_LT(g.at("throttle").get<double>(), 0.01); // the made table has none
    law.latent = 0;
    const PrefillProblem few{16, 4096, 1, 1, 192, 128};
    PrefillTable with = law;
    with.latent = 2300;
    EXPECT_NEAR(prefill_us(with, prefill_device(device), few) - prefill_us(law, prefill_device(device), few),
                2.0 * 16 * 4096 * 2300 / 3.35e6, 0.1);
}

TEST(Fit, ALongPrefillLosesItsThrottleAndAShortOneNothing) {
    const PrefillDevice d = prefill_device(*find_device("h100-sxm-80gb"));
    PrefillTable law{12, 0.8, 100, 0.3, 0.7, 128, {{128, 0.6}}, {}}, hot = law;
    hot.throttle = 0.2;
    const PrefillProblem small{1, 2048, 8, 8, 128, 128}, large{64, 65536, 128, 8, 128, 128};
    EXPECT_NEAR(prefill_us(hot, d, small) / prefill_us(law, d, small), 1, 0.003);
    EXPECT_NEAR(prefill_us(hot, d, large) / prefill_us(law, d, large), 1.2, 0.003);
}

// A box of PCIe whose runs NCCL takes for a bus of 13.5 GB/s: eight devices stay with LL, at half a megabyte still, and leave it at one.
TEST(Check, ABoxesOwnRatesAndNcclsIdeaOfThemDecide) {
    std::string csv = "system,devices,nodes,op,variant,bytes,us,busbw_gb_s,nccl,preferred,source\n";
    for (const char* row : {"8,1,all_gather,half,524288,620", "8,1,all_gather,half,2097152,1490", "4,1,alltoall,half,131072,53.6",
                            "2,1,alltoall,half,262144,20.5"})
        csv += std::string("l40s,") + row + ",0,2.27,1,made\n";
    const Checked c = check(parse_table("collectives.csv", csv));
    ASSERT_EQ(c.points.size(), 4u);
    for (const Compared& p : c.points) EXPECT_NEAR(p.predicted / p.measured, 1, 0.13) << p.op << " " << p.measured;
}

TEST(Fit, RecoversTheTimesOfLayersOfExperts) {
    const Device device = *find_device("h100-sxm-80gb");
    GemmDevice d = burst_device(device, "bf16");
    d.cold = true;
    ExpertsTable law{20, 0.05, 2, kernel_tables(device).gemm.at("bf16"), {}};
    law.gemm.menu = TileMenu::wide_nosplit;
    law.gemm.t0 = law.gemm.throttle = 0, law.gemm.tile = 3, law.gemm.feed = 2.5;
    std::string csv = "dtype,tokens,hidden,expert_ffn,experts,top_k,moe_tp,moe_ep,distribution,kernel,fwd_us\n";
    for (int tokens : {512, 1024, 2048, 4096, 8192, 16384})
        for (int hidden : {2048, 4096, 6144})
            for (int ep : {1, 2, 8})
                for (int experts : {8, 128}) {
                    const ExpertsProblem p{double(tokens), double(hidden), 768, double(experts), 2, double(ep)};
                    csv += fmt::format("bf16,{},{},1536,{},2,2,{},balanced,made,{}\n", tokens, hidden, experts, ep,
                                       experts_us(law, d, p, expert_rows(p), 2));
                }
    const MeasuredTable table = parse_table("moe_h100-sxm-80gb.csv", csv);
    ASSERT_EQ(kind_of(table), TableKind::experts);
    const auto g = nlohmann::json::parse(fit(table)).at("experts").at("bf16");
    EXPECT_NEAR(g.at("start_us").get<double>(), 20, 3);
    EXPECT_NE(g.at("source").at("text").get<std::string>().find("median error 0."), std::string::npos) << g.at("source");
    EXPECT_EQ(check(table).points.size(), table.rows.size());
}

TEST(Check, TheFullestGroupOfSkewedExpertsHasMoreRowsTheMoreGroupsThereAre) {
    const auto most = [](double ep, double skew) {
        const ExpertsProblem p{8192, 4096, 1536, 128, 8, ep, 2, skew};
        double sum = 0;
        for (double rows : expert_rows(p)) sum += rows;
        return sum / (p.tokens * p.top_k / ep);
    };
    EXPECT_NEAR(most(8, 0), 1, 1e-9);
    EXPECT_NEAR(most(1, 1.01), 1, 1e-6);
    EXPECT_GT(most(8, 1.01), 1.2);
    EXPECT_GT(most(32, 1.01), most(8, 1.01));
    EXPECT_GT(most(8, 1.2), most(8, 1.01));
}

TEST(Check, APrefillIsComparedByHeadDimensionAndTheOthersNamed) {
    const std::string head = "dtype,seq_q,seq_kv,heads,kv_heads,head_dim,batch,causal,fwd_us,source\n";
    const Checked c = check(
        parse_table("attention_h100-sxm-80gb.csv", head + "bf16,4096,4096,32,8,128,4,1,1000,made\nbf16,4096,4096,32,8,80,4,1,1000,made\n"));
    ASSERT_EQ(c.points.size(), 1u);
    EXPECT_EQ(c.points[0].op, "prefill full");
    EXPECT_NEAR(c.points[0].predicted, 4.0 * 128 * 4 * 32 * 4096 * 4096 / 2 / 450e6, 0.25 * c.points[0].predicted); // some 450 TFLOP/s
    ASSERT_EQ(c.skipped.size(), 1u);
    EXPECT_NE(c.skipped[0].find("80"), std::string::npos);
}

TEST(Check, SeesATableThatTakesTwiceAsLong) {
    const Device device = *find_device("a100-sxm-80gb");
    const GemmTable committed = kernel_tables(device).gemm.at("bf16");
    MeasuredTable table = parse_table("gemm_a100-sxm-80gb.csv", made_table(committed, device));
    auto all = deviations(check(table).points);
    ASSERT_FALSE(all.empty());
    EXPECT_EQ(all.front().size_class, "");
    EXPECT_NEAR(all.front().mean_abs, 0, 1e-5);
    for (auto& row : table.rows)
        row[table.column.at("us")] = fmt::format("{}", 2 * std::strtod(row[table.column.at("us")].c_str(), nullptr));
    all = deviations(check(table).points);
    EXPECT_NEAR(all.front().bias, -0.5, 1e-5);
    EXPECT_EQ(all.front().n, table.rows.size());
}

// 6 us, 1 us a million elements and 4 more where three bytes of each do not stay in a cache of 40 MB; laws some per cent off, one wildly.
TEST(Check, ACastIsFoundWithWhatItsInputPaysBeyondTheCache) {
    const Cast made{6, 1e-6, 4e-6, 0.5};
    std::vector<double> law, measured, elements;
    for (int i = 1; i <= 60; ++i) {
        elements.push_back(1e5 * std::pow(1.15, i));
        law.push_back(20 + 3e-6 * elements.back());
        measured.push_back((law.back() + made.us(elements.back(), 40e6)) * (1 + 0.01 * ((i % 3) - 1)));
    }
    measured[20] *= 4;
    const Cast found = fit_cast(law, measured, elements, 40e6);
    EXPECT_NEAR(found.fixed, 6, 0.6);
    EXPECT_NEAR(found.per_element, 1e-6, 0.3e-6);
    EXPECT_NEAR(found.beyond, 4e-6, 0.6e-6);
    EXPECT_EQ(found.share, 0.5);
    EXPECT_GT(found.us(1e9, 40e6), 4e-6 * 1e9);
    EXPECT_EQ(fit_cast(law, law, elements, 40e6).us(1e8, 40e6), 0); // nothing to find
}

TEST(Check, CollectivesOfOneNodeAndAWordOnTheOthers) {
    const Checked c = check(parse_table(
        "collectives.csv",
        "system,devices,nodes,op,variant,bytes,us,busbw_gb_s,nccl,preferred,source\n"
        "h100-sxm-80gb,8,1,all_reduce,half,536870912,2038,0,2.29,1,made\nh100-sxm-80gb,16,2,all_reduce,half,1048576,90,0,2.29,1,made\n"));
    ASSERT_EQ(c.points.size(), 1u);
    EXPECT_NEAR(c.points[0].predicted, 2038, 3); // the example of collectives.hpp
    EXPECT_EQ(c.skipped.size(), 1u);
}

TEST(Check, PublishedNamesSayDeviceAndNetwork) {
    const std::string head = "system,devices,nodes,op,variant,bytes,us,busbw_gb_s,nccl,preferred,source\n";
    const Checked c = check(parse_table(
        "collectives.csv", head + "B200 HGX; InfiniBand ConnectX-7 8x400 Gbps,16,2,all_reduce,float,8589934592,22541,0,,,published:made\n"
                                  "GB200 NVL72 (18 trays),72,18,all_reduce,float,536870912,1807,0,,,published:made\n"
                                  "GB200 20 racks; InfiniBand,1440,360,all_reduce,float,536870912,9000,0,,,published:made\n"));
    ASSERT_EQ(c.points.size(), 2u);
    EXPECT_EQ(c.points[0].op, "all_reduce between nodes");
    EXPECT_NEAR(c.points[0].predicted, 22541, 0.1 * 22541);
    EXPECT_EQ(c.points[1].op, "all_reduce"); // a rack is one domain
    EXPECT_EQ(c.skipped.size(), 1u);
}

// 8 members of a node: 4096 tokens go to 5.25 of them, 7/8 over links; 4 nodes: 0.9 of a 400 Gb/s adapter, and a token's own node counts.
TEST(Check, DispatchIsComparedByItsLogicalRate) {
    const Checked c = check(
        parse_table("deepep.csv", "gpu,table,hidden,top_k,ep,tokens_per_gpu,kind,dispatch_gb_s,combine_gb_s,dispatch_us,combine_us,notes\n"
                                  "H800-SXM,V1 normal kernels,7168,8,8,4096,intranode,153,158,,,\nSM90,V2,7168,8,8x4,8192,,60 "
                                  "(RDMA),,,,\nH800-SXM,V1 low-latency kernels,7168,8,8,128,,98,127,77,114,\n"));
    ASSERT_EQ(c.points.size(), 3u);
    for (const Compared& p : c.points) EXPECT_NEAR(p.predicted / p.measured, 1, 0.1) << p.op << " " << p.size_class;
    EXPECT_EQ(c.skipped.size(), 1u);
}

// Bus bandwidth of a ring counts what a device sends, so half as many bytes again as algorithm bandwidth on four; what is no one collective
// is named.
TEST(Check, PointsOfBusBandwidthAreCollectives) {
    const Checked c = check(parse_json_table(
        "points.json",
        R"([{"gpu": "H200", "gpus": 4, "nodes": 1, "op": "all_reduce", "bytes": 8000000000, "busbw_GBps": 400, "busbw_nvls_off_GBps": 300},
        {"gpu": "H200", "gpus": 8, "op": "all_reduce NVLS off", "bytes": 17179869184, "busbw_GBps": 367.2}, {"gpu": "H100", "op": "HBM copy", "busbw_GBps": 2903}])"));
    ASSERT_EQ(c.points.size(), 3u);
    EXPECT_NEAR(c.points[0].measured, 8000000000 * 1.5 / 400e3, 1);
    EXPECT_NEAR(c.points[1].measured, 8000000000 * 1.5 / 300e3, 1);
    EXPECT_EQ(c.points[1].dtype, "no NVLS");
    EXPECT_NEAR(c.points[2].predicted / c.points[2].measured, 1, 0.05);
    EXPECT_EQ(c.skipped.size(), 1u);
}

// Korthikanti et al., table 4: a layer of 22B on 8 A100.
TEST(Check, PassesOverALayerAreSimulated) {
    const Checked c = check(parse_json_table(
        "layers.json",
        R"({"rows": [{"name": "made", "device": "a100-sxm-80gb", "layers": 1, "hidden_size": 6144, "attention_heads": 64, "sequence_length": 2048,
        "micro_batch_size": 4, "tensor_parallel": 8, "sequence_parallel": false, "recompute": "none", "precision": "fp16", "flash_attention": false, "forward_ms": 7.7, "backward_ms": 11.9}]})"));
    ASSERT_EQ(c.points.size(), 2u);
    for (const Compared& p : c.points) EXPECT_NEAR(p.predicted / p.measured, 1, 0.1) << p.op;
    EXPECT_EQ(c.points[0].op, "layers forward");
}

// Megatron-LM's test of a mixture's layer on 8 H100: forward takes 4.3 ms, backward 7.7. A case whose dimensions nobody knows is named.
TEST(Check, PassesOverAMixtureAreSimulated) {
    const Checked c = check(
        parse_table("moe_layer.csv", "case,forward_ms,backward_ms\nmixtral_a2a_tp1ep8_bf16,4.327,7.684\nother_a2a_tp1ep8_bf16,1,2\n"));
    ASSERT_EQ(c.points.size(), 2u);
    for (const Compared& p : c.points) EXPECT_NEAR(p.predicted / p.measured, 1, 0.15) << p.op;
    EXPECT_EQ(c.skipped.size(), 1u);
}

TEST(Table, SaysWhichLineIsBroken) {
    try {
        parse_table("gemm_x.csv", "a,b\n1,2\n3\n");
        FAIL();
    } catch (const std::runtime_error& e) { EXPECT_NE(std::string(e.what()).find("line 3"), std::string::npos) << e.what(); }
    EXPECT_EQ(kind_of(parse_table("x.csv", "a,b\n1,2\n")), TableKind::unknown);
}

} // namespace
} // namespace orrery
