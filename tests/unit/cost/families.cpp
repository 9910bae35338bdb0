// Kernels by device: as fast as they were measured alone, and in the right order between recipes, releases and devices of one family.
#include "fixture.hpp"

#include "sim/cost/calibration.hpp"
#include "sim/cost/gemm.hpp"
#include "sim/cost/own_constants.hpp"

#include <array>
#include <cmath>

namespace orrery {
namespace {

using namespace cost_test;

Scenario in_year(const char* device, int year) {
    Scenario s = on_device(device);
    s.runtime.year = year;
    return s;
}

Attention heads_of(Direction direction, AttentionKernel kernel, std::int64_t rows, std::int64_t dim, bool causal = true,
                   std::int64_t heads = 64, std::int64_t batch = 1) {
    return {direction, batch, rows, rows, heads, heads, dim, dim, causal, causal ? 0.5 : 1, DType::bf16, kernel, 0};
}

double tflops(const Scenario& s, const Attention& a) {
    const double scores = static_cast<double>(a.qk_dim * a.heads * a.batch) * static_cast<double>(a.seq_q * a.seq_kv) * a.share;
    return 4 * scores * (a.direction == Direction::forward ? 1 : 2.5) / Costs(s).compute_us(a) * 1e-6;
}

// The sustained clock of training taken out, as kernels are measured alone.
double burst_tflops(const Scenario& s, const Attention& a) { return tflops(s, a) / kernel_tables(s.cluster.device).sustained_attention; }

double product_tflops(Scenario s, double m, double n, double k, DType t = DType::bf16, ScalingRecipe recipe = ScalingRecipe::current) {
    s.runtime.fp8_recipe = recipe;
    Linear l{Direction::forward, std::llround(m), std::llround(n), std::llround(k)};
    l.dtype = t;
    return 2 * m * n * k / Costs(s).compute_us(l) * 1e-6;
}

double burst_product(const char* device, double side, std::span<const KernelRelease> releases) {
    const Device d = *find_device(device);
    GemmDevice g;
    g.processors = d.processors;
    g.peak = g.peak_16 = d.peak.at("bf16").value * 1e-6;
    g.bandwidth = d.memory_bandwidth.value * 1e-6;
    g.l2 = static_cast<double>(d.l2_cache.count);
    return 2 * side * side * side / gemm_us(kernel_tables(d, releases).gemm.at("bf16"), g, {side, side, side}) * 1e-6;
}

// DeepGEMM's tiles are made for Hopper.
TEST(Families, NoOtherArchitectureHasHoppersColumns) {
    for (const std::string& name : device_names()) {
        const Device d = *find_device(name);
        for (const auto& [precision, table] : kernel_tables(d).gemm)
            EXPECT_TRUE(table.menu != TileMenu::columns || d.architecture == "hopper") << name << " " << precision;
    }
    Device nobodys = *find_device("h100-sxm-80gb");
    nobodys.name = nobodys.architecture = nobodys.vendor = "nobody's";
    EXPECT_FALSE(kernel_tables(nobodys).gemm.contains("fp8_block"));
    EXPECT_TRUE(kernel_tables(*find_device("h200-sxm-141gb")).gemm.contains("fp8_block"));
}

// Blockwise scales cost AMD's kernels more than half of the rate, MXFP8's no less.
TEST(Families, RecipesOnAmdAreInTheirOrder) {
    for (const char* name : {"mi300x", "mi325x", "mi355x"}) {
        const Scenario s = in_year(name, 2026);
        for (const double m : {1024.0, 4096.0, 16384.0})
            for (const double n : {1536.0, 4096.0, 28672.0}) {
                const double whole = product_tflops(s, m, n, 4096, DType::fp8);
                EXPECT_LT(product_tflops(s, m, n, 4096, DType::fp8, ScalingRecipe::blockwise), whole) << name << m << " " << n;
                EXPECT_LE(product_tflops(s, m, n, 4096, DType::fp8, ScalingRecipe::mxfp8), whole * (1 + 1e-9)) << name << m << " " << n;
            }
    }
    const Scenario s = in_year("mi355x", 2026);
    const double measured[][4] = {{16384, 37888, 3584, 2.94}, {16384, 16384, 53248, 18.82}, {65536, 28672, 4096, 9.95}}; // ms
    for (const auto& [m, n, k, ms] : measured)
        EXPECT_NEAR(product_tflops(s, m, n, k, DType::fp8, ScalingRecipe::blockwise) / (2 * m * n * k / ms * 1e-9), 1, 0.05)
            << m << " " << n;
    // In the mean over models' shapes, forward with casts, 639.
    const double mi300x = product_tflops(in_year("mi300x", 2026), 8192, 8192, 8192, DType::fp8, ScalingRecipe::blockwise);
    EXPECT_LT(mi300x, 639);
    EXPECT_GT(mi300x, 0.8 * 639);
}

TEST(Families, ProductsOnAmdFollowTheLibraryOfTheYear) {
    const std::array release{KernelRelease::rocm_7};
    EXPECT_NEAR(burst_product("mi250x", 2048, release), 112.9 * 110 / 104, 0.05 * 119);
    EXPECT_NEAR(burst_product("mi250x", 8192, release), 151.9 * 110 / 104, 0.05 * 161);
    for (const double side : {2048.0, 4096.0, 16384.0}) {
        const double later = product_tflops(in_year("mi250x", 2026), side, side, side);
        EXPECT_GT(later, product_tflops(in_year("mi250x", 2025), side, side, side)) << side;
    }
    const auto square = [](const char* name) { return product_tflops(in_year(name, 2026), 8192, 8192, 8192); };
    EXPECT_NEAR(square("mi325x") / square("mi300x"), 843.0 / 708, 0.03);
    EXPECT_NEAR(square("mi300x"), 592, 0.06 * 592); // 607 forward and 578 backward in the mean over models' shapes
    EXPECT_LT(product_tflops(in_year("mi300x", 2025), 8192, 8192, 8192), square("mi300x"));
    EXPECT_GT(square("mi355x"), square("mi325x"));
}

TEST(Families, AttentionOnMi300XFollowsItsTable) {
    const Scenario s = in_year("mi300x", 2026);
    const double measured[][3] = {{2048, 440, 337}, {4096, 512, 400}, {8192, 545, 434}};
    for (const auto& [rows, forward, backward] : measured) {
        const auto n = static_cast<std::int64_t>(rows);
        EXPECT_NEAR(burst_tflops(s, heads_of(Direction::forward, AttentionKernel::flash2, n, 128, true, 64, 4)), forward, 0.05 * forward);
        EXPECT_NEAR(burst_tflops(s, heads_of(Direction::backward, AttentionKernel::flash2, n, 128, true, 64, 4)), backward,
                    0.05 * backward);
    }
    for (const Direction d : {Direction::forward, Direction::backward}) {
        const Attention a = heads_of(d, AttentionKernel::flash2, 8192, 128);
        EXPECT_GT(tflops(in_year("mi325x", 2026), a), 1.1 * tflops(s, a));
        EXPECT_GT(tflops(in_year("mi355x", 2026), a), 1.1 * tflops(in_year("mi325x", 2026), a));
        EXPECT_LT(tflops(in_year("mi300x", 2024), a), tflops(s, a));
    }
}

// PyTorch's scaled_dot_product_attention is AOTriton's on AMD's devices, and calls AITER's backward pass since PyTorch 2.9.
TEST(Families, TorchsAttentionOnAmdIsAotritons) {
    const auto rate = [](const char* device, int year, Framework framework, Direction d, std::int64_t rows) {
        Scenario s = in_year(device, year);
        s.strategy.framework = framework;
        return tflops(s, heads_of(d, AttentionKernel::flash2, rows, 128, true, 16, 16));
    };
    for (const char* device : {"mi300x", "mi325x", "mi355x"})
        for (const std::int64_t rows : {2048LL, 8192LL, 16384LL})
            for (const Direction d : {Direction::forward, Direction::backward}) {
                EXPECT_LT(rate(device, 2025, Framework::torchtitan, d, rows), rate(device, 2025, Framework::megatron, d, rows)) << device;
                EXPECT_GE(rate(device, 2026, Framework::fsdp2, d, rows), rate(device, 2025, Framework::fsdp2, d, rows)) << device;
                if (d == Direction::backward) {
                    EXPECT_EQ(rate(device, 2026, Framework::ddp, d, rows), rate(device, 2026, Framework::te, d, rows)) << device;
                }
            }
    // FlashAttention 1 is no part of AOTriton.
    for (const std::string release : {"flash-1@aotriton", "flash-1@aotriton-0.11"})
        EXPECT_FALSE(kernel_tables(*find_device("mi300x")).attention.contains(release)) << release;
    // At 8,192 rows the table has 232, but the same in steps, which the cost model takes where they are faster, 251.
    const double measured[][3] = {{8192, 224, 0.13}, {16384, 259, 0.06}};
    for (const auto& [rows, seen, within] : measured)
        EXPECT_NEAR(rate("mi355x", 2025, Framework::torchtitan, Direction::backward, std::llround(rows)), seen, within * seen);
    // The better device is not the slower one.
    for (const int year : {2025, 2026})
        for (const std::int64_t rows : {512LL, 1024LL, 4096LL, 16384LL})
            for (const Direction d : {Direction::forward, Direction::backward}) {
                const double best = rate("mi355x", year, Framework::torchtitan, d, rows);
                EXPECT_GE(best, rate("mi325x", year, Framework::torchtitan, d, rows)) << year << " " << rows;
                EXPECT_GE(rate("mi325x", year, Framework::torchtitan, d, rows), rate("mi300x", year, Framework::torchtitan, d, rows));
            }
}

// AITER is not made for CDNA 2: what a file states for all releases takes the place of what it inherits for one.
TEST(Families, ATableOfOnesOwnTakesThePlaceOfInheritedReleases) {
    const Attention a = heads_of(Direction::forward, AttentionKernel::flash2, 4096, 128);
    EXPECT_EQ(tflops(in_year("mi250x", 2026), a), tflops(in_year("mi250x", 2024), a));
    const Attention cudnn = heads_of(Direction::forward, AttentionKernel::cudnn, 2048, 128);
    EXPECT_EQ(tflops(in_year("h20-sxm-96gb", 2026), cudnn), tflops(in_year("h20-sxm-96gb", 2025), cudnn));
    OwnConstants own;
    own.add(R"({"device": "mi250x", "gemm": {"bf16": {"menu": "wide", "t0_us": 4, "tile_us": 2, "efficiency": 0.3, "feed": 8,
        "stream": 0.75, "split_us": 4, "soft_waves": 0.5, "throttle": 0.05, "l2_share": 0, "l2_stream": 1}}})");
    const std::array release{KernelRelease::rocm_7};
    const Device d = *find_device("mi250x");
    EXPECT_EQ(kernel_tables(d, release, &own).gemm.at("bf16").efficiency, 0.3);
    EXPECT_EQ(kernel_tables(d, release).gemm.at("bf16").efficiency, 0.88);
    EXPECT_EQ(kernel_tables(d).gemm.at("bf16").efficiency, 0.6);
    EXPECT_THROW(OwnConstants().add(R"({"device": "mi300x", "gemm": {"bf16@zz": {}}})"), std::runtime_error);
}

TEST(Families, AttentionsClockStaysWhereOthersAreReplaced) {
    const auto replaced = [](const char* device) {
        OwnConstants own;
        own.add(std::string(R"({"device": ")") + device + R"(", "sustained": {"bf16": 0.77, "fp8": 0.8, "other": 0.95}})");
        return kernel_tables(*find_device(device), {}, &own);
    };
    EXPECT_EQ(replaced("b200-192gb").sustained_attention, 0.9);
    EXPECT_EQ(replaced("b200-192gb").sustained_16, 0.77);
    EXPECT_EQ(replaced("h100-sxm-80gb").sustained_attention, 0.77);
    EXPECT_EQ(kernel_tables(*find_device("gb200")).sustained_attention, 0.84);
    EXPECT_EQ(kernel_tables(*find_device("gb300")).sustained_attention, 1);
    EXPECT_EQ(kernel_tables(*find_device("b300-288gb")).sustained_attention, 0.9);
}

// More power, no lower clock.
TEST(Families, BlackwellsClocksAreInTheOrderOfTheirPower) {
    const auto tables = [](const char* name) { return kernel_tables(*find_device(name)); };
    for (const auto& [less, more] : {std::pair{"b200-192gb", "gb200"}, {"gb200", "gb300"}, {"b200-192gb", "b300-288gb"}}) {
        EXPECT_LE(tables(less).sustained_16, tables(more).sustained_16) << more;
        EXPECT_LE(tables(less).sustained_8, tables(more).sustained_8) << more;
    }
}

// H20 by Dao-AILab/flash-attention issue 1310: batch 2, 2,048 tokens, a width of 2,048; FlashAttention 2 uses Ampere's instructions.
TEST(Families, AttentionOnH20DependsOnTheKernel) {
    const Scenario s = in_year("h20-sxm-96gb", 2025);
    struct Row {
        AttentionKernel kernel;
        std::int64_t dim;
        double full, causal;
    };
    for (const Row& r : {Row{AttentionKernel::flash2, 64, 81.8, 71.0}, Row{AttentionKernel::flash2, 128, 83.7, 65.9},
                         Row{AttentionKernel::flash3, 64, 120.1, 100.3}, Row{AttentionKernel::flash3, 128, 126.2, 107.8},
                         Row{AttentionKernel::cudnn, 64, 126.1, 109.1}, Row{AttentionKernel::cudnn, 128, 129.1, 107.8}})
        for (const bool causal : {false, true}) {
            const double expected = causal ? r.causal : r.full,
                         got = burst_tflops(s, heads_of(Direction::forward, r.kernel, 2048, r.dim, causal, 2048 / r.dim, 2));
            EXPECT_NEAR(got, expected, 0.06 * expected) << static_cast<int>(r.kernel) << " " << r.dim << causal;
        }
    for (const Direction d : {Direction::forward, Direction::backward})
        for (const std::int64_t dim : {64, 128})
            for (const std::int64_t rows : {2048, 16384}) {
                const auto of = [&](AttentionKernel k) { return tflops(s, heads_of(d, k, rows, dim)); };
                EXPECT_LT(of(AttentionKernel::flash1), of(AttentionKernel::flash2));
                EXPECT_LT(of(AttentionKernel::flash2), 0.9 * of(AttentionKernel::flash3));
                EXPECT_LE(of(AttentionKernel::flash3), of(AttentionKernel::cudnn));
            }
}

// Twice the exponential units: cuDNN 9.19's own results, causal, 64 heads of 128.
TEST(Families, BlackwellUltraIsFasterAtAttention) {
    const Scenario s = in_year("gb300", 2026), before = in_year("gb200", 2026);
    const double measured[][3] = {{2048, 1266, 906}, {4096, 1672, 1195}, {8192, 1887, 1385}, {16384, 1968, 1490}, {32768, 2014, 1549}};
    for (const auto& [rows, forward, backward] : measured) {
        const auto n = static_cast<std::int64_t>(rows);
        EXPECT_NEAR(burst_tflops(s, heads_of(Direction::forward, AttentionKernel::cudnn, n, 128)), forward, 0.06 * forward) << rows;
        EXPECT_NEAR(burst_tflops(s, heads_of(Direction::backward, AttentionKernel::cudnn, n, 128)), backward, 0.06 * backward) << rows;
        for (const std::int64_t dim : {64, 128}) {
            const Attention a = heads_of(Direction::forward, AttentionKernel::cudnn, n, dim),
                            b = heads_of(Direction::backward, AttentionKernel::cudnn, n, dim);
            EXPECT_GE(burst_tflops(s, a), 1.14 * burst_tflops(before, a)) << dim << " " << rows;
            EXPECT_GE(burst_tflops(s, b), 1.02 * burst_tflops(before, b)) << dim << " " << rows;
            for (const Attention& either : {a, b})
                EXPECT_GT(tflops(in_year("b300-288gb", 2026), either), tflops(in_year("b200-192gb", 2026), either)) << dim << " " << rows;
        }
    }
    for (const std::int64_t dim : {64, 128, 160, 192, 256}) // a better device is never slower
        for (const Direction d : {Direction::forward, Direction::backward})
            for (const bool causal : {false, true}) {
                const Attention a = heads_of(d, AttentionKernel::cudnn, 8192, dim, causal);
                EXPECT_GE(burst_tflops(s, a), (1 - 1e-3) * burst_tflops(before, a)) << dim;
                EXPECT_GE(tflops(in_year("b300-288gb", 2026), a), (1 - 1e-3) * tflops(in_year("b200-192gb", 2026), a)) << dim;
            }
}

// 32 heads of 256, causal (NVIDIA/cudnn-frontend's benchmark of Qwen3.5): registers, or tensor memory, bind the backward pass.
TEST(Families, BackwardOfLargeHeadsIsSlower) {
    const double rows[] = {2048, 4096, 8192, 16384, 32768}, cudnn[] = {277, 354, 393, 365, 358}, flash[] = {280, 336, 369, 385, 378},
                 gb200[] = {623, 857, 1043, 1132, 1045};
    const Scenario hopper = in_year("h200-sxm-141gb", 2026), blackwell = in_year("gb200", 2026);
    for (int i = 0; i < 5; ++i) {
        const auto of = [&](const Scenario& s, AttentionKernel k, std::int64_t dim) {
            return burst_tflops(s, heads_of(Direction::backward, k, static_cast<std::int64_t>(rows[i]), dim, true, 32, 2));
        };
        EXPECT_NEAR(of(hopper, AttentionKernel::cudnn, 256), cudnn[i], 0.1 * cudnn[i]) << rows[i];
        EXPECT_NEAR(of(hopper, AttentionKernel::flash3, 256), flash[i], 0.1 * flash[i]) << rows[i];
        EXPECT_NEAR(of(blackwell, AttentionKernel::cudnn, 256), gb200[i], 0.1 * gb200[i]) << rows[i];
        if (i == 0) continue; // products and a softmax in steps are no slower than the older kernels
        for (const char* name : {"h100-sxm-80gb", "h200-sxm-141gb", "b200-192gb", "gb200", "gb300", "b300-288gb"})
            for (const int year : {2025, 2026})
                for (const AttentionKernel k : {AttentionKernel::flash3, AttentionKernel::cudnn})
                    EXPECT_LT(of(in_year(name, year), k, 256), of(in_year(name, year), k, 128)) << name << year << " " << rows[i];
    }
}

TEST(Families, Rtx4090RunsAtTheClockThatCardsHave) {
    const Scenario s = in_year("rtx-4090", 2026);
    EXPECT_NEAR(product_tflops(s, 2040, 2040, 2040), 155.9, 0.03 * 155.9);
    const double measured[][3] = {{64, 168, 142}, {128, 169, 151}, {256, 156, 144}}; // 2,048 tokens, full and causal
    for (const auto& [dim, full, causal] : measured)
        for (const bool half : {false, true}) {
            const double expected = half ? causal : full;
            const Attention a = heads_of(Direction::forward, AttentionKernel::flash2, 2048, static_cast<std::int64_t>(dim), half, 32, 8);
            EXPECT_NEAR(tflops(s, a), expected, 0.03 * expected) << dim << half;
        }
    EXPECT_NEAR(tflops(s, heads_of(Direction::backward, AttentionKernel::flash2, 2048, 128, true, 32, 8)), 99, 5);
    // A card of 275 W does not pass its datasheet's clock.
    EXPECT_LT(product_tflops(in_year("l20", 2026), 8192, 8192, 8192) / 119.5, 0.95 * product_tflops(s, 8192, 8192, 8192) / 165.2);
}

// 131,072 rows in 8 groups of 2048 x 7168 (torchao's page on its mixtures, B200): 1838, 1838 and 2412 us, and their scales' kernels.
TEST(Families, PyTorchsScaledGroupsTakeWhatWasMeasured) {
    Scenario s = in_year("b200-192gb", 2026);
    s.strategy.framework = Framework::torchtitan;
    s.training.precision = DType::mxfp8;
    s.runtime.fp8_recipe = ScalingRecipe::mxfp8;
    const Costs torch(s);
    Plan plan;
    Op op;
    op.name = "experts";
    const double measured[] = {1838 + 210, 1838 + 204, 2412 + 49};
    const Direction directions[] = {Direction::forward, Direction::input_gradient, Direction::weight_gradient};
    for (int i = 0; i < 3; ++i) {
        Linear w{directions[i], 16384, 2048, 7168, 8, DType::mxfp8, DType::bf16};
        op.work = w;
        const ComputeCost cost = torch.model.compute(plan, op);
        EXPECT_GE(cost.kernels, 4) << i;
        EXPECT_LT(cost.kernels, 8) << i;
        // (Casts of weights are counted beside the kernel.)
        EXPECT_NEAR(microseconds(cost.duration), measured[i], 0.08 * measured[i]) << i;
        w.m = 2 * w.m;
        EXPECT_GT(torch.compute_us(w), microseconds(cost.duration)) << i;
    }
    s.strategy.framework = Framework::megatron;
    const Linear w{Direction::weight_gradient, 16384, 2048, 7168, 8, DType::mxfp8, DType::bf16};
    EXPECT_LT(Costs(s).compute_us(w), 0.7 * torch.compute_us(w)) << "cuBLAS's products one after another";
}

} // namespace
} // namespace orrery
