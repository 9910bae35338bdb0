// Attention and memory-bound kernels: published rates, bytes over bandwidth, fused against eager.
#include "fixture.hpp"

#include "sim/cost/calibration.hpp"

#include <cmath>

namespace orrery {
namespace {

using namespace cost_test;

Attention attention(Direction direction, std::int64_t seq, AttentionKernel kernel = AttentionKernel::flash2, bool causal = true) {
    return {direction, 16384 / seq, seq, seq, 16, 16, 128, 128, causal, causal ? 0.5 : 1.0, DType::bf16, kernel, 0};
}

// TFLOP/s as the README of flash-attention counts them, the sustained clock (0.845) taken out.
double readme_tflops(const Costs& c, const Attention& a) {
    const double forward =
        4.0 * 128 * 16 * static_cast<double>(a.batch) * static_cast<double>(a.seq_q) * static_cast<double>(a.seq_kv) * (a.causal ? 0.5 : 1);
    return forward * (a.direction == Direction::forward ? 1 : 2.5) / c.compute_us(a) * 1e-6 / 0.845;
}

TEST(AttentionCost, FollowsThePublishedRates) {
    const Costs c(on_device("h100-sxm-80gb"));
    // Read off the README's bars: FA2 causal forward, head_dim 128, by sequence length.
    EXPECT_NEAR(readme_tflops(c, attention(Direction::forward, 2048)), 351 / (1 + 402.0 / 2048), 12);
    EXPECT_NEAR(readme_tflops(c, attention(Direction::forward, 16384)), 343, 12);
    EXPECT_NEAR(readme_tflops(c, attention(Direction::forward, 16384, AttentionKernel::flash3)), 632, 20);
    EXPECT_NEAR(readme_tflops(c, attention(Direction::backward, 8192)), 328 / (1 + 581.0 / 8192), 12);
}

// Kernel lists of Qwen3-8B on H100, per layer: 46 us for the keys' 4,096 rows and 76 for the queries' 16,384 with tensor parallelism of 8;
// 79 and 80 with 16,384 and 65,536. PyTorch's norms have no such kernel.
// Queries and keys have a norm each: one start more.
TEST(NormCost, NormsAcrossHeadsAreTwoKernels) {
    const Costs c(on_device("h100-sxm-80gb"));
    const auto cost = [&](bool across) {
        Op op;
        op.work = Norm{Direction::forward, NormKind::rmsnorm, 8192, 4096, true, across ? 32 : 0, across};
        return c.model.compute(Plan{}, op);
    };
    EXPECT_EQ(cost(true).kernels, 2 * cost(false).kernels);
    EXPECT_GT(cost(true).duration.ps, cost(false).duration.ps);
}

TEST(NormCost, WeightGradientsOfHeadNormsAreAddedUpByFewBlocks) {
    Scenario s = on_device("h100-sxm-80gb");
    s.strategy.framework = Framework::fsdp2;
    s.runtime.year = 2025;
    const Costs torch(s);
    s.strategy.framework = Framework::megatron;
    const Costs engine(s);
    const auto extra = [&](std::int64_t rows, std::int64_t cols) {
        const Norm w{Direction::backward, NormKind::rmsnorm, rows, cols, true};
        return engine.compute_us(w) - torch.compute_us(w);
    };
    EXPECT_NEAR(extra(4096 + 16384, 128), 46 + 76, 6);
    EXPECT_NEAR(extra(16384 + 65536, 128), 79 + 80, 6);
    EXPECT_EQ(extra(8192, 4096), 0);
    const Norm forward{Direction::forward, NormKind::rmsnorm, 20480, 128, true};
    EXPECT_EQ(engine.compute_us(forward), torch.compute_us(forward));
}

// The same lists: SwiGLU in steps over 50.3 MB (4,096 tokens of 6,144) and 12.6 MB, forward and backward.
TEST(ActivationCost, StepsOverTheHalvesOfAProductTakeWhatWasMeasured) {
    Scenario s = on_device("h100-sxm-80gb");
    s.model.activation = ActivationKind::swiglu;
    s.runtime.fused_activation = false;
    s.strategy.framework = Framework::megatron;
    const Costs c(s);
    const double measured[][3] = {{50.3e6, 161, 310}, {12.6e6, 41.5, 77}};
    for (const auto& [bytes, forward, backward] : measured) {
        EXPECT_NEAR(c.compute_us(Pointwise{PointwiseKind::swiglu, Direction::forward, 1, false}, 3 * bytes), forward, 0.1 * forward);
        EXPECT_NEAR(c.compute_us(Pointwise{PointwiseKind::swiglu, Direction::backward, 1, false}, 5 * bytes), backward, 0.1 * backward);
    }
    s.strategy.framework = Framework::fsdp2; // two products, nothing to join
    EXPECT_LT(Costs(s).compute_us(Pointwise{PointwiseKind::swiglu, Direction::backward, 1, false}, 5 * 50.3e6), 0.75 * 310);
}

TEST(AttentionCost, ShortRowsAndFewHeadsPay) {
    const Costs c(on_device("h100-sxm-80gb"));
    EXPECT_LT(readme_tflops(c, attention(Direction::forward, 512)), 0.65 * readme_tflops(c, attention(Direction::forward, 16384)));
    Attention lone = attention(Direction::forward, 4096);
    lone.batch = 1;
    lone.heads = lone.kv_heads = 1; // 32 blocks of rows for 132 processors
    const double full = c.compute_us(attention(Direction::forward, 4096)), alone = c.compute_us(lone);
    EXPECT_LT(alone, full);
    EXPECT_GT(alone, full / 64);
}

TEST(AttentionCost, WorkFollowsTheShareThatIsComputed) {
    const Costs c(on_device("h100-sxm-80gb"));
    Attention window = attention(Direction::forward, 16384), causal = window;
    window.share = 4096.0 / 16384 * 0.875;
    EXPECT_LT(c.compute_us(window), 0.55 * c.compute_us(causal));
    EXPECT_GT(c.compute_us(attention(Direction::forward, 16384, AttentionKernel::flash2, false)), 1.7 * c.compute_us(causal));
}

// The rate of cuDNN 9.19 on GB200 in bursts, the sustained clock (0.84) taken out.
TEST(AttentionCost, FollowsTheSoftwareOfTheYear) {
    Scenario s = on_device("gb200");
    const auto burst_tflops = [&](Attention a, int year) {
        s.runtime.year = year;
        const double work = 4.0 * static_cast<double>(a.qk_dim * a.heads * a.batch * a.seq_q * a.seq_kv) * a.share;
        return work * (a.direction == Direction::forward ? 1 : 2.5) / Costs(s).compute_us(a) * 1e-6 / 0.84;
    };
    const double measured[][2] = {{2048, 1042}, {4096, 1335}, {8192, 1598}, {16384, 1687}};
    for (const auto& [rows, tflops] : measured)
        EXPECT_NEAR(burst_tflops(attention(Direction::forward, static_cast<std::int64_t>(rows), AttentionKernel::cudnn), 2026), tflops,
                    0.05 * tflops)
            << rows;
    EXPECT_NEAR(burst_tflops(attention(Direction::backward, 8192, AttentionKernel::cudnn), 2026), 1311, 0.05 * 1311);
    EXPECT_LT(burst_tflops(attention(Direction::forward, 8192, AttentionKernel::cudnn), 2025), 1250);
    const Attention of_keys_behind{
        Direction::forward, 2, 4096, 4096, 128, 8, 64, 64, true, (128 - 128.0 * 128 / 8192) / 4096, DType::bf16, AttentionKernel::cudnn, 0};
    EXPECT_NEAR(burst_tflops(of_keys_behind, 2026), 160, 16);
}

// cuDNN 9.13 on B200 in bursts, without the 0.08 and 0.1 ms of its calls. Its kernels have a sustained clock of their own; those of
// FlashAttention 2, which are far from the matrix units' rate, have the device's.
TEST(AttentionCost, CudnnOnB200HasItsOwnSustainedClock) {
    const Device b200 = *find_device("b200-192gb");
    const KernelTables tables = kernel_tables(b200);
    const double own = tables.attention.at("cudnn").sustained;
    EXPECT_LT(own, tables.sustained_attention);
    EXPECT_EQ(tables.attention.at("flash-2").sustained, 0);
    Scenario s = on_device("b200-192gb");
    s.runtime.year = 2025;
    const double measured[][3] = {{4096, 0.642, 1.960}, {8192, 1.877, 5.833}, {16384, 6.602, 20.460}, {32768, 24.795, 79.338}}; // ms
    for (const auto& [rows, forward, backward] : measured)
        for (const Direction d : {Direction::forward, Direction::backward}) {
            const auto n = static_cast<std::int64_t>(rows);
            const Attention a{d, 1, n, n, 128, 8, 128, 128, true, 0.5, DType::bf16, AttentionKernel::cudnn, 0};
            const double ms = d == Direction::forward ? forward - 0.08 : backward - 0.1;
            EXPECT_NEAR(Costs(s).compute_us(a) * 1e-3 * own, ms, 0.06 * ms) << n;
        }
    // Narrow windows are far from any kernel's rate: the newer device is no slower.
    Scenario h200 = on_device("h200-sxm-141gb");
    s.runtime.year = h200.runtime.year = 2026;
    for (const Direction d : {Direction::forward, Direction::backward}) {
        const double share = (128 - 128.0 * 128 / 8192) / 4096;
        const Attention window{d, 2, 4096, 4096, 128, 8, 64, 64, true, share, DType::bf16, AttentionKernel::cudnn, 0};
        EXPECT_LT(Costs(s).compute_us(window), Costs(h200).compute_us(window));
    }
}

// FlashAttention has kernels for some head dimensions and pads others up to them; cuDNN's takes any.
TEST(AttentionCost, HeadsAreFilledUpToADimensionThereIsAKernelFor) {
    const Costs c(on_device("a100-sxm-80gb"));
    const auto of = [&](AttentionKernel k, std::int64_t dim) {
        Attention a = attention(Direction::forward, 4096, k);
        a.qk_dim = a.v_dim = dim;
        return c.compute_us(a);
    };
    EXPECT_DOUBLE_EQ(of(AttentionKernel::flash2, 80), of(AttentionKernel::flash2, 96));
    EXPECT_LT(of(AttentionKernel::flash2, 96), of(AttentionKernel::flash2, 104));
    EXPECT_DOUBLE_EQ(of(AttentionKernel::flash1, 96), of(AttentionKernel::flash1, 128));
    EXPECT_LT(of(AttentionKernel::cudnn, 80), of(AttentionKernel::cudnn, 96));
    EXPECT_DOUBLE_EQ(of(AttentionKernel::flex, 80), of(AttentionKernel::flex, 128));
    EXPECT_DOUBLE_EQ(of(AttentionKernel::flex, 192), of(AttentionKernel::flex, 256));
    Attention latent = attention(Direction::forward, 4096); // keys of 192, values of 128
    latent.qk_dim = 192;
    EXPECT_LT(c.compute_us(latent), of(AttentionKernel::flash2, 192));
    latent.kernel = AttentionKernel::flex; // which fills keys up to 256
    EXPECT_LT(c.compute_us(latent), of(AttentionKernel::flex, 192));
    EXPECT_GT(c.compute_us(latent), 1.3 * of(AttentionKernel::flex, 128));
}

// TFLOP/s of the kernels that torch.compile makes, tuned: H100 by pytorch/benchmark pull request 2443 (16,384 tokens in all, 16 heads),
// B200 by pytorch/pytorch pull requests 188644 and 163318.
TEST(AttentionCost, FlexAttentionFollowsItsMeasurements) {
    const auto tflops = [](const char* device, Direction d, std::int64_t rows, bool causal) {
        const Costs c(on_device(device));
        const Attention a = attention(d, rows, AttentionKernel::flex, causal);
        return readme_tflops(c, a) * 0.845 / kernel_tables(c.scenario.cluster.device).sustained_attention;
    };
    const double full[][2] = {{512, 266}, {1024, 328}, {2048, 370}, {4096, 391.5}, {8192, 401.5}, {16384, 408}};
    for (const auto& [rows, rate] : full)
        EXPECT_NEAR(tflops("h100-sxm-80gb", Direction::forward, static_cast<std::int64_t>(rows), false), rate, 0.05 * rate) << rows;
    EXPECT_NEAR(tflops("h100-sxm-80gb", Direction::forward, 512, true), 170, 0.05 * 170);
    EXPECT_NEAR(tflops("h100-sxm-80gb", Direction::forward, 1024, true), 238, 0.05 * 238);
    EXPECT_NEAR(tflops("b200-192gb", Direction::forward, 1024, false), 381, 0.05 * 381);
    EXPECT_NEAR(tflops("b200-192gb", Direction::forward, 1024, true), 246, 0.05 * 246);
    EXPECT_NEAR(tflops("b200-192gb", Direction::backward, 16384, false), 520, 0.05 * 520);
    for (const std::int64_t dim : {64, 128, 256})
        for (const std::int64_t rows : {128, 256, 512, 1024, 4096})
            for (const bool causal : {false, true}) {
                Attention a = attention(Direction::backward, rows, AttentionKernel::flex, causal);
                a.qk_dim = a.v_dim = dim;
                EXPECT_LE(Costs(on_device("b200-192gb")).compute_us(a), Costs(on_device("h100-sxm-80gb")).compute_us(a))
                    << dim << " " << rows;
            }
}

TEST(AttentionCost, FlexAttentionIsSlowerThanCudnnAndNoFasterThanFlashWhereNobodyMeasuredIt) {
    for (const char* name : {"h100-sxm-80gb", "h200-sxm-141gb", "b200-192gb", "gb200", "gb300"})
        for (const int year : {2025, 2026})
            for (const Direction d : {Direction::forward, Direction::backward})
                for (const std::int64_t rows : {1024, 4096, 16384})
                    for (const bool causal : {false, true}) {
                        Scenario s = on_device(name);
                        s.runtime.year = year;
                        const Costs c(s);
                        EXPECT_GT(c.compute_us(attention(d, rows, AttentionKernel::flex, causal)),
                                  c.compute_us(attention(d, rows, AttentionKernel::cudnn, causal)))
                            << name << " " << year << " " << rows;
                    }
    for (const char* name : {"mi300x", "h20-sxm-96gb", "l40s", "rtx-4090"}) { // not what H100's or A100's rates would give
        const KernelTables t = kernel_tables(*find_device(name));
        EXPECT_EQ(t.attention.at("flex").forward.causal.back().tflops, t.attention.at("flash-2").forward.causal.back().tflops) << name;
        EXPECT_EQ(t.attention.at("flex").source.kind, "assumed") << name;
    }
}

// A window's rows have two edges; a window as long as the sequence is no window.
TEST(AttentionCost, NarrowWindowsPayForBothEdges) {
    const Costs c(on_device("h100-sxm-80gb"));
    Attention window = attention(Direction::forward, 16384, AttentionKernel::cudnn), causal = window;
    const auto of = [&](double keys) {
        const double x = keys / 16384;
        window.share = x - x * x / 2;
        return c.compute_us(window);
    };
    EXPECT_NEAR(of(16384), c.compute_us(causal), 1e-6 * c.compute_us(causal));
    EXPECT_GT(of(128), 0.04 * c.compute_us(causal)); // of 1.6 % of the work
    double before = 0;
    for (double keys = 64; keys <= 16384; keys *= 2) {
        EXPECT_GT(of(keys), before);
        before = of(keys);
    }
}

TEST(AttentionCost, BackwardTakesTwoAndAHalfToFourTimesForward) {
    for (const char* name : {"a100-sxm-80gb", "h100-sxm-80gb", "b200-192gb"})
        for (AttentionKernel k : {AttentionKernel::flash2, AttentionKernel::flash3, AttentionKernel::cudnn}) {
            const Costs c(on_device(name));
            const double ratio =
                c.compute_us(attention(Direction::backward, 8192, k)) / c.compute_us(attention(Direction::forward, 8192, k));
            EXPECT_GT(ratio, 2.4) << name;
            EXPECT_LT(ratio, 4.0) << name;
        }
}

TEST(PointwiseCost, IsBytesOverBandwidth) {
    const Costs c(on_device("h100-sxm-80gb"));
    const double bytes = 4e9, us = c.compute_us(Pointwise{PointwiseKind::gelu, Direction::forward, 1000000000, true}, bytes);
    EXPECT_GT(us, bytes / 3.35e6); // never above HBM's peak
    EXPECT_LT(us, bytes / (0.7 * 3.35e6));
    // Without buffers the shape says the same: 4 bytes an element.
    EXPECT_DOUBLE_EQ(c.compute_us(Pointwise{PointwiseKind::gelu, Direction::forward, 1000000000, true}), us);
    // Twice the bytes, twice the time beyond the kernel's floor.
    const double floor = c.compute_us(Pointwise{PointwiseKind::gelu, Direction::forward, 1, true}, 1);
    EXPECT_NEAR(c.compute_us(Pointwise{PointwiseKind::gelu, Direction::forward, 1, true}, 2 * bytes) - floor, 2 * (us - floor), 1e-3);
    EXPECT_GT(floor, 0.5);
}

double cast_us(const Costs& c, DType from, DType to, bool fused = false, PointwiseKind kind = PointwiseKind::cast) {
    constexpr std::int64_t elements = 1 << 26;
    Plan plan;
    Op op;
    op.name = "op";
    op.work = Pointwise{kind, Direction::forward, elements, fused};
    for (DType t : {from, to}) {
        Buffer b;
        b.dtype = t;
        b.bytes = {static_cast<std::int64_t>(elements * bytes_per_element(t))};
        plan.buffers.push_back(b);
    }
    op.in = {0};
    op.out = {1};
    return microseconds(c.model.compute(plan, op).duration);
}

Costs eager_torch(const char* device, int year, Framework framework = Framework::ddp) {
    Scenario s = on_device(device);
    s.strategy.framework = framework;
    s.strategy.fused = false;
    s.runtime.year = year;
    return Costs(s);
}

// 67.1 million elements: 362 us on an A100 (pytorch/pytorch pull request 195542, which does not say how much memory it has: with 40 GB the
// bandwidth binds first); on our H200 342 of them a nanosecond.
TEST(PointwiseCost, PyTorchLooksUpTypesThatAreUnlike) {
    const Costs a100 = eager_torch("a100-sxm-80gb", 2026), h200 = eager_torch("h200-sxm-141gb", 2026);
    EXPECT_NEAR(cast_us(a100, DType::bf16, DType::fp32), 362, 18);
    EXPECT_NEAR(cast_us(h200, DType::bf16, DType::fp32), 196, 10);
    EXPECT_NEAR(cast_us(h200, DType::bf16, DType::fp32, false, PointwiseKind::add), 253, 13);
    // Of one type, compiled, or in kernels that know the types.
    const Costs known = eager_torch("h200-sxm-141gb", 2026, Framework::megatron);
    EXPECT_EQ(cast_us(h200, DType::fp32, DType::fp32), cast_us(known, DType::fp32, DType::fp32));
    EXPECT_EQ(cast_us(h200, DType::bf16, DType::fp32, true), cast_us(known, DType::bf16, DType::fp32, true));
    EXPECT_LT(cast_us(known, DType::bf16, DType::fp32), cast_us(h200, DType::bf16, DType::fp32));
}

TEST(PointwiseCost, CastsTo16BitsHaveAKernelOfTheirOwnOnHopperSince2025) {
    const auto narrow = [](const char* device, int year) { return cast_us(eager_torch(device, year), DType::fp32, DType::bf16); };
    EXPECT_LT(narrow("h200-sxm-141gb", 2025), narrow("h200-sxm-141gb", 2024));
    EXPECT_EQ(narrow("a100-sxm-40gb", 2025), narrow("a100-sxm-40gb", 2024));
    EXPECT_LE(narrow("h200-sxm-141gb", 2025), cast_us(eager_torch("h200-sxm-141gb", 2025), DType::bf16, DType::fp32));
}

// Every class of eager kernels that has a rate on NVIDIA's architectures has one on AMD's.
TEST(PointwiseCost, AmdHasARateOfEveryClassOfEagerKernels) {
    const PointwiseTable table = pointwise_table();
    for (const char* architecture : {"cdna2", "cdna3", "cdna4", "hopper", "blackwell"}) {
        EXPECT_TRUE(table.unlike.elements.contains(architecture)) << architecture;
        EXPECT_TRUE(table.strided.elements.contains(architecture)) << architecture;
    }
    for (const std::string& name : device_names())
        if (const Device d = *find_device(name); d.vendor == "amd") {
            EXPECT_TRUE(table.unlike.elements.contains(d.architecture)) << name;
            EXPECT_TRUE(table.strided.elements.contains(d.architecture)) << name;
        }
}

// 52.5 million elements on an MI300X (AMD-AGI/TraceLens, kernel lists of Llama 3.2 11B): 124.6 us to 32 bits, 80.9 to 16, 114.0 for a copy
// of rows that are not contiguous. cast_us casts 67.1 million.
TEST(PointwiseCost, AmdsEagerKernelsTakeWhatTheyDoAlone) {
    const double more = 67.1 / 52.46;
    const auto us = [](int year, DType from, DType to) { return cast_us(eager_torch("mi300x", year), from, to); };
    EXPECT_NEAR(us(2025, DType::bf16, DType::fp32), 124.6 * more, 0.05 * 124.6 * more);
    EXPECT_NEAR(us(2025, DType::fp32, DType::bf16), 80.9 * more, 0.2 * 80.9 * more);
    EXPECT_LT(us(2026, DType::bf16, DType::fp32), us(2025, DType::bf16, DType::fp32)) << "a kernel of its own";
    EXPECT_EQ(cast_us(eager_torch("h200-sxm-141gb", 2026), DType::bf16, DType::fp32),
              cast_us(eager_torch("h200-sxm-141gb", 2025), DType::bf16, DType::fp32))
        << "for AMD's devices alone";
    EXPECT_NEAR(pointwise_table().strided.elements.at("cdna3") * 304, 52.46e6 / 114.0, 0.01 * 52.46e6 / 114.0);
}

TEST(PointwiseCost, MoreProcessorsNeverMakeACastSlower) {
    Scenario more = on_device("h200-sxm-141gb");
    more.strategy.framework = Framework::ddp;
    const double before = cast_us(Costs(more), DType::bf16, DType::fp32);
    more.cluster.device.processors *= 2;
    EXPECT_LT(cast_us(Costs(more), DType::bf16, DType::fp32), before);
}

TEST(PointwiseCost, EagerIsNeverFasterThanFused) {
    const Costs c(on_device("a100-sxm-80gb"));
    for (int kind = 0; kind <= static_cast<int>(PointwiseKind::index); ++kind)
        for (Direction d : {Direction::forward, Direction::backward}) {
            const auto k = static_cast<PointwiseKind>(kind);
            EXPECT_GE(c.compute_us(Pointwise{k, d, 1 << 24, false}), c.compute_us(Pointwise{k, d, 1 << 24, true})) << kind;
        }
    for (Direction d : {Direction::forward, Direction::backward}) {
        EXPECT_GT(c.compute_us(Norm{d, NormKind::rmsnorm, 8192, 8192, false}),
                  4 * c.compute_us(Norm{d, NormKind::rmsnorm, 8192, 8192, true}));
        EXPECT_GT(c.compute_us(Softmax{d, 1 << 16, 4096, true, false}), c.compute_us(Softmax{d, 1 << 16, 4096, true, true}));
    }
}

// Eager kernels of one type that stand alone go as fast as fused ones: 201 MB of gelu in 57.9 us and 302 MB of its adjoint in 76.9 on our
// H200 (h200-pytorch-look.json, GPT-2 124M: 16,384 rows of 3,072).
TEST(PointwiseCost, ContiguousEagerKernelsStreamAsFusedOnesDo) {
    const Costs c = eager_torch("h200-sxm-141gb", 2026);
    for (const auto& [direction, measured] : {std::pair{Direction::forward, 57.9}, {Direction::backward, 76.9}}) {
        const Pointwise eager{PointwiseKind::gelu, direction, 16384 * 3072, false},
            fused{PointwiseKind::gelu, direction, 16384 * 3072, true};
        EXPECT_NEAR(c.compute_us(eager), measured, 0.08 * measured);
        EXPECT_EQ(c.compute_us(eager), c.compute_us(fused));
    }
}

double rotation_us(const Costs& c, Direction d, std::int64_t elements) {
    return c.compute_us(Pointwise{PointwiseKind::rope, d, elements, false}, 4 * static_cast<double>(elements));
}

// Kernel times of Transformers' rotation (Liger's benchmark): 16,384 rows of 40 heads of 256 on an A100, 8,192 of 40 heads of 128 on a
// B200. Forward each of 4.5 visits of an element takes its time, whatever the bandwidth; backward there are bytes as well, and the copies
// that turn the gradients round, which the benchmark does not have.
TEST(PointwiseCost, RotationsAreBoundByTheirVisits) {
    EXPECT_NEAR(rotation_us(eager_torch("a100-sxm-80gb", 2025), Direction::forward, 16384LL * 40 * 256), 3817, 0.03 * 3817);
    EXPECT_NEAR(rotation_us(eager_torch("b200-192gb", 2025), Direction::forward, 8192LL * 40 * 128), 594, 0.04 * 594);
    const double backward = rotation_us(eager_torch("a100-sxm-80gb", 2025), Direction::backward, 16384LL * 40 * 256);
    EXPECT_GT(backward, 4557);
    EXPECT_LT(backward, 4557 + 1.3 * 4557 / 4.5);
}

TEST(PointwiseCost, BetterDevicesNeverMakeVisitsSlower) {
    Scenario s = on_device("h100-sxm-80gb");
    s.strategy.framework = Framework::fsdp;
    s.strategy.fused = false;
    const auto times = [](const Scenario& x) {
        const Costs c(x);
        std::vector<double> out;
        for (const Direction d : {Direction::forward, Direction::backward}) {
            out.push_back(rotation_us(c, d, 1 << 25));
            for (const NormKind kind : {NormKind::rmsnorm, NormKind::layernorm})
                for (const bool fused : {false, true}) out.push_back(c.compute_us(Norm{d, kind, 8192, 1024, fused}));
        }
        for (const auto part : {CrossEntropy::Part::sums, CrossEntropy::Part::gradient})
            out.push_back(c.compute_us(CrossEntropy{part, 8192, 32000, false}));
        return out;
    };
    const std::vector<double> before = times(s);
    Scenario wider = s, more = s;
    wider.cluster.device.memory_bandwidth.value *= 2;
    more.cluster.device.processors *= 2;
    const std::vector<double> with_wider = times(wider), with_more = times(more);
    for (std::size_t i = 0; i < before.size(); ++i) {
        EXPECT_LE(with_wider[i], before[i]) << i;
        EXPECT_LE(with_more[i], before[i]) << i;
    }
    EXPECT_GT(with_wider[0], 0.95 * before[0]) << "a rotation is bound by instructions";
    EXPECT_LT(with_more[0], 0.6 * before[0]);
}

// Visits bind, or bytes do: never less than the 36 and 92 bytes an element of a norm in steps at 0.85 of what streams reach.
TEST(PointwiseCost, EagerSequencesAreNeverFasterThanTheirBytes) {
    for (const char* device : {"v100-sxm2-32gb", "a100-sxm-80gb", "h100-sxm-80gb", "b200-192gb", "mi300x"}) {
        const Costs c = eager_torch(device, 2026, Framework::fsdp);
        const double elements = 8192.0 * 4096, rate = 0.85 * c.scenario.cluster.device.memory_bandwidth.value * 1e-6;
        const double forward = c.compute_us(Norm{Direction::forward, NormKind::rmsnorm, 8192, 4096, false}, 4 * elements),
                     backward = c.compute_us(Norm{Direction::backward, NormKind::rmsnorm, 8192, 4096, false}, 6 * elements);
        EXPECT_GT(forward, 36 * elements / rate) << device;
        EXPECT_GT(backward, 0.99 * 92 * elements / rate) << device;
    }
}

// Our H200: 48.6 us forward and 118 backward of 16,384 rows of 768 in 32 bits, 35.4 and 109 of 8,192 of 2,048 (an RMS norm, one kernel).
TEST(NormCost, PyTorchsOwnKernelsTakeALeastTimeOfARow) {
    const Costs torch = eager_torch("h200-sxm-141gb", 2026);
    const auto us = [&](Direction d, NormKind kind, std::int64_t rows, std::int64_t cols) {
        return torch.compute_us(Norm{d, kind, rows, cols, true}, (d == Direction::forward ? 8.0 : 12.0) * static_cast<double>(rows * cols));
    };
    EXPECT_NEAR(us(Direction::forward, NormKind::layernorm, 16384, 768), 48.6, 5);
    EXPECT_NEAR(us(Direction::backward, NormKind::layernorm, 16384, 768), 118, 12);
    EXPECT_NEAR(us(Direction::forward, NormKind::rmsnorm, 8192, 2048), 35.4, 5);
    EXPECT_NEAR(us(Direction::backward, NormKind::rmsnorm, 8192, 2048), 109, 12);
    // A block goes through all rows of its columns: half as many columns save the input's gradient alone.
    EXPECT_GT(us(Direction::backward, NormKind::layernorm, 16384, 512), 0.0049 * 16384);
    // Compiled, a norm is bound by its bytes.
    Scenario s = on_device("h200-sxm-141gb");
    s.strategy.framework = Framework::ddp;
    s.strategy.fused = true;
    EXPECT_LT(Costs(s).compute_us(Norm{Direction::backward, NormKind::layernorm, 16384, 768, true}, 12.0 * 16384 * 768),
              us(Direction::backward, NormKind::layernorm, 16384, 768));
}

// MI300X: 48.5 us forward, 86.0 and 39.9 backward of 12,864 rows of 1,280 in 16 bits (AMD-AGI/TraceLens, Llama 3.2 11B).
TEST(NormCost, RowsTakeLongerOnAmdsProcessors) {
    const double elements = 12864.0 * 1280;
    const auto us = [&](const Costs& c, Direction d) {
        return c.compute_us(Norm{d, NormKind::layernorm, 12864, 1280, true}, (d == Direction::forward ? 4 : 6) * elements);
    };
    const Costs c = eager_torch("mi300x", 2025);
    EXPECT_NEAR(us(c, Direction::forward), 48.5, 5);
    EXPECT_NEAR(us(c, Direction::backward), 126, 32) << "the weight's gradient as on Hopper";
    Scenario more = c.scenario;
    more.cluster.device.processors *= 2;
    for (const Direction d : {Direction::forward, Direction::backward}) EXPECT_LT(us(Costs(more), d), us(c, d));
}

// 36.6 us in the mean of GPT-2 124M's four widths of 16,384 rows on our H200.
TEST(PointwiseCost, EagerBiasGradientsAreSumsOfColumns) {
    const Costs c = eager_torch("h200-sxm-141gb", 2026);
    double sum = 0;
    for (const double width : {2304.0, 768.0, 3072.0, 768.0})
        sum += c.compute_us(Pointwise{PointwiseKind::bias, Direction::weight_gradient, static_cast<std::int64_t>(16384 * width), false},
                            2 * 16384 * width);
    EXPECT_NEAR(sum / 4, 36.6, 3);
}

// Operators that PyTorch dispatches for Transformers' norm and rotation, bytes an element: 36 and 92 (28 and 92 on rows of 32 bits), 20.2
// and 28.2.
TEST(PointwiseCost, EagerNormsAndRotationsMoveWhatTheirOperatorsDo) {
    Scenario nobodys = on_device("mi300x");
    nobodys.cluster.device.architecture = "nobody's"; // where nothing is known to bind but bytes
    nobodys.strategy.framework = Framework::ddp;
    nobodys.strategy.fused = false;
    nobodys.runtime.year = 2025;
    const Costs c(nobodys);
    constexpr double elements = 1 << 28, rate = 0.85 * 5300e3;
    const auto moved = [&](Work w, double buffers) { return c.compute_us(std::move(w), buffers * elements) * rate / elements; };
    constexpr std::int64_t rows = 1 << 16, cols = 1 << 12;
    const Norm forward{Direction::forward, NormKind::rmsnorm, rows, cols, false},
        backward{Direction::backward, NormKind::rmsnorm, rows, cols, false};
    EXPECT_NEAR(moved(backward, 6) / moved(forward, 4), 92.0 / 36, 0.03);
    EXPECT_NEAR(moved(forward, 8) / moved(forward, 4), 28.0 / 36, 0.01);
    EXPECT_NEAR(moved(backward, 12) / moved(backward, 6), 1, 0.01);
    const auto rotation = [&](const Costs& costs, Direction d) {
        return costs.compute_us(Pointwise{PointwiseKind::rope, d, 1 << 28, false}, 4 * elements);
    };
    EXPECT_NEAR(rotation(c, Direction::backward) / rotation(c, Direction::forward), 32.2 / 20.2, 0.02) << "with copies for the linears";
    const Costs complex = eager_torch("h100-sxm-80gb", 2025, Framework::torchtitan);
    EXPECT_DOUBLE_EQ(rotation(complex, Direction::backward), rotation(complex, Direction::forward));
}

// torch._grouped_mm has one kernel for all experts, and one that sets it up; where PyTorch has none there is one an expert.
TEST(PointwiseCost, PyTorchMultipliesAllExpertsInOneKernel) {
    const Linear w{Direction::forward, 4096, 1536, 2048, 128, DType::bf16, DType::bf16};
    const auto made = [&](const char* device, Framework framework, int year) {
        const Costs c = eager_torch(device, year, framework);
        Plan plan;
        Op op;
        op.name = "experts";
        op.work = w;
        const ComputeCost cost = c.model.compute(plan, op);
        return std::pair{cost.kernels, microseconds(cost.duration)};
    };
    EXPECT_EQ(made("h100-sxm-80gb", Framework::torchtitan, 2026).first, 2);
    EXPECT_EQ(made("mi300x", Framework::torchtitan, 2026).first, 128);
    EXPECT_EQ(made("h100-sxm-80gb", Framework::torchtitan, 2024).first, 128);
    const double one = made("b200-192gb", Framework::torchtitan, 2026).second, each = made("b200-192gb", Framework::megatron, 2026).second;
    EXPECT_GT(one, 1.1 * each)
        << "CUTLASS's fixed tiles on Blackwell: 0.56 of a burst, of which the power limit leaves single products 0.68";
    EXPECT_LT(made("h100-sxm-80gb", Framework::torchtitan, 2026).second, 1.01 * made("h100-sxm-80gb", Framework::megatron, 2026).second);
}

// pytorch/ao's README (torchao/prototype/moe_training, B200): 128,000 rows in 1, 2, 4 and 8 groups, all three products, without the bytes
// of the loss. They ran in loops, so the power limit is in them.
TEST(PointwiseCost, ProductsOfAllExpertsPayThePowerLimitOnce) {
    const Costs c = eager_torch("b200-192gb", 2026, Framework::torchtitan);
    const std::int64_t shapes[][2] = {{8192, 5120}, {2048, 7168}};
    const double measured[][4] = {{41.6, 38.0, 37.7, 36.2}, {12.7, 14.5, 15.4, 14.6}};
    for (int shape = 0; shape < 2; ++shape)
        for (int i = 1; i < 4; ++i) {
            double us = 0;
            for (Direction d : {Direction::forward, Direction::input_gradient, Direction::weight_gradient})
                us += c.compute_us(Linear{d, 128000 >> i, shapes[shape][0], shapes[shape][1], 1 << i, DType::bf16, DType::bf16});
            EXPECT_NEAR(us / 1000 / measured[shape][i], 1, 0.14) << shape << " " << (1 << i);
        }
}

// A kernel that keeps the device less busy is slowed no more by a power limit, and never faster than one that keeps it busier.
TEST(PointwiseCost, APowerLimitSlowsASlowerKernelNoMore) {
    Scenario s = on_device("b200-192gb");
    s.strategy.framework = Framework::torchtitan;
    s.runtime.year = 2026;
    const Linear all{Direction::forward, 16384, 8192, 5120, 8, DType::bf16, DType::bf16},
        one{Direction::forward, 8 * 16384, 8192, 5120, 1, DType::bf16, DType::bf16};
    const auto both = [&](double share) {
        s.cluster.device.power_limit_w = share * s.cluster.device.power_w;
        const Costs c(s);
        return std::pair{c.compute_us(all), c.compute_us(one)};
    };
    const auto free = both(1);
    double before = 0;
    for (const double share : {1.0, 0.8, 0.6, 0.4}) {
        const auto [grouped, single] = both(share);
        EXPECT_GE(grouped, 0.999 * single) << share;
        EXPECT_LE(grouped / free.first, 1.01 * single / free.second) << share;
        EXPECT_GE(grouped, before) << share;
        before = grouped;
    }
}

// pytorch/ao's pull request 4623 times 196,608 rows of 2,048 on a B200.
TEST(PointwiseCost, RowsMovedByAnIndexTakeWhatWasMeasured) {
    const Costs costs(on_device("b200-192gb"));
    const std::int64_t rows = 196608, cols = 2048;
    const auto moved = [&](Permute::Part part, Direction direction) {
        return costs.compute_us(Permute{part, direction, rows / 8, rows, cols, false, ExpertRows::padded});
    };
    EXPECT_NEAR(moved(Permute::Part::gather, Direction::forward), 340, 0.08 * 340) << "a gather";
    EXPECT_NEAR(moved(Permute::Part::scatter, Direction::backward), 1850, 0.02 * 1850) << "its adjoint";
    for (const bool fused : {false, true}) { // a compiler leaves the index alone
        const Pointwise pad{PointwiseKind::pad_rows, Direction::forward, rows * cols, fused};
        EXPECT_NEAR(costs.compute_us(pad, 4.0 * rows * cols), 590, 0.04 * 590) << "a row of zeros is appended by a copy, then a gather";
    }
}

// Where rows of several ranks are sorted by an index, the gather and its adjoint cost what those of the tokens do, or of padded rows.
TEST(PointwiseCost, SortsByAnIndexAreGathersAndTheirAdjoints) {
    const Costs c(on_device("b200-192gb"));
    const std::int64_t rows = 196608, cols = 2048;
    const auto sort = [&](ExpertRows by, Direction to, bool adjoint) {
        return c.compute_us(Permute{Permute::Part::sort, to, rows, rows, cols, true, by, adjoint});
    };
    const auto moved = [&](Permute::Part part, Direction direction) {
        return c.compute_us(Permute{part, direction, rows / 8, rows, cols, true, ExpertRows::added});
    };
    const auto pad = [&](Direction direction) { return c.compute_us(Pointwise{PointwiseKind::pad_rows, direction, rows * cols, true}); };
    const Direction there = Direction::forward, back = Direction::backward;
    EXPECT_EQ(sort(ExpertRows::added, there, false), moved(Permute::Part::gather, Direction::forward));
    EXPECT_EQ(sort(ExpertRows::added, back, true), moved(Permute::Part::scatter, Direction::backward));
    EXPECT_GT(sort(ExpertRows::added, back, true), 4 * sort(ExpertRows::added, back, false))
        << "an index put that adds, and one that does not";
    EXPECT_EQ(sort(ExpertRows::added, there, true), moved(Permute::Part::gather, Direction::backward)) << "of an index put, a gather";
    EXPECT_EQ(sort(ExpertRows::padded, there, false), pad(Direction::forward));
    EXPECT_EQ(sort(ExpertRows::padded, back, true), pad(Direction::backward));
    EXPECT_EQ(sort(ExpertRows::padded, back, false), pad(Direction::input_gradient));
    EXPECT_EQ(sort(ExpertRows::padded, there, true), pad(Direction::weight_gradient));
    for (const Direction to : {there, back})
        EXPECT_EQ(sort(ExpertRows::kernels, to, false), sort(ExpertRows::kernels, to, true)) << "kernels of their own go either way";
}

// Forward the host waits for the device at each expert: a loop takes its launches, a copy to the host and the launch behind it an expert,
// or the device's time where that is longer; it issues nothing ahead. Backward nothing is waited for.
TEST(PointwiseCost, ALoopOverExpertsWaitsForEach) {
    const auto loop = [&](Direction d, std::int64_t rows, double launch_us) {
        Scenario s = on_device("h100-sxm-80gb");
        s.strategy.framework = Framework::fsdp;
        s.runtime.year = 2025;
        s.runtime.launch_us = launch_us;
        const Costs c(s);
        Plan plan;
        Op op;
        op.work = Linear{d, rows, 1536, 2048, 128, DType::bf16, DType::bf16};
        const ComputeCost cost = c.model.compute(plan, op);
        return std::tuple{microseconds(cost.duration), cost.kernels, microseconds(c.model.host(op, cost.kernels))};
    };
    for (const double launch : {2.0, 7.0, 20.0}) {
        const auto [few, kernels, host] = loop(Direction::forward, 16, launch);
        EXPECT_GE(few, kernels * launch + 128 * (10 + launch) - 0.01) << "its launches and its waits";
        EXPECT_EQ(host, launch) << "the first launch alone is ahead of it";
        const auto [many, more, ahead] = loop(Direction::forward, 1 << 16, launch);
        EXPECT_LT(many - std::get<0>(loop(Direction::forward, 1 << 16, 0)), 128 * launch + 1) << "launches hide behind long products";
        const auto [backward, of_both, issued] = loop(Direction::input_gradient, 16, launch);
        EXPECT_NEAR(issued, of_both * launch, 0.01);
        EXPECT_LT(backward, few);
    }
}

// Each expert that has rows makes a gradient of all tokens: zeros (2 bytes an element) and a sum in place (6).
TEST(PointwiseCost, ALoopOverExpertsAddsAGradientOfAllTokensForEach) {
    constexpr std::int64_t tokens = 8192, cols = 2048;
    const auto us = [](int year, int experts, std::int64_t rows) {
        Scenario s = on_device("a100-sxm-80gb");
        s.strategy.framework = Framework::fsdp;
        s.runtime.year = year;
        s.model.moe.emplace();
        s.model.moe->experts = experts;
        const Costs c(s);
        Plan plan;
        Buffer gradient;
        gradient.shape = {tokens, cols};
        gradient.bytes = Bytes{2 * tokens * cols};
        Op op;
        op.out = {plan.buffers.add(std::move(gradient))};
        op.work = Permute{Permute::Part::scatter, Direction::backward, tokens, rows, cols, false};
        return microseconds(c.model.compute(plan, op).duration);
    };
    const double more = us(2025, 128, 2 * tokens) - us(2025, 8, 2 * tokens), streams = 120 * 8.0 * tokens * cols / 2.039e6;
    EXPECT_GT(more, streams) << "no faster than the memory";
    EXPECT_LT(more, 2 * streams);
    EXPECT_EQ(us(2025, 128, 4), us(2025, 4, 4)) << "experts without rows are not called";
    EXPECT_EQ(us(2026, 128, 2 * tokens), us(2026, 8, 2 * tokens)) << "one index for all rows";
}

// Where all experts are one parameter (GPT-OSS), each expert's weights have a gradient of all: zeros and a sum.
TEST(PointwiseCost, ALoopOverStackedExpertsAddsAGradientOfAllWeightsForEach) {
    const auto more = [](DType type, int year) {
        const auto us = [&](bool stacked, bool bias = false) {
            Scenario s = on_device("h100-sxm-80gb");
            s.strategy.framework = Framework::fsdp;
            s.runtime.year = year;
            s.training.precision = type;
            s.model.moe.emplace();
            s.model.moe->experts = 32;
            s.model.moe->stacked_weights = stacked;
            s.model.bias = bias;
            return Costs(s).compute_us(Linear{Direction::weight_gradient, 64, 1536, 2048, 32, type, type});
        };
        EXPECT_EQ(us(false, true), us(false)) << "biases say nothing of where weights are";
        return us(true) - us(false);
    };
    const double streams = 32 * 4.0 * 32 * 1536 * 2048 / 3.35e6; // of each byte of an element
    EXPECT_GT(more(DType::bf16, 2025), 2 * streams) << "no faster than the memory";
    EXPECT_LT(more(DType::bf16, 2025), 4 * streams);
    EXPECT_GT(more(DType::fp32, 2025), 4 * streams) << "twice as many bytes";
    EXPECT_EQ(more(DType::bf16, 2026), 0) << "one product for all";
}

TEST(PointwiseCost, ALoopOverExpertsLaunchesKernelsForEach) {
    const Linear w{Direction::forward, 64, 1536, 2048, 128, DType::bf16, DType::bf16};
    const auto kernels = [&](Framework framework, int year) {
        const Costs c = eager_torch("h100-sxm-80gb", year, framework);
        Plan plan;
        Op op;
        op.name = "experts";
        op.work = w;
        return c.model.compute(plan, op).kernels;
    };
    EXPECT_EQ(kernels(Framework::fsdp, 2026), 2) << "grouped_mm of Transformers 5";
    EXPECT_EQ(kernels(Framework::megatron, 2025), 128);
    EXPECT_NEAR(kernels(Framework::fsdp, 2025), 128 + 128 * (14.5 - 3) / 2, 1) << "half of a layer's";
}

// Autocast casts a weight in each forward pass, 6 bytes an element, unless parameters have 16 bits themselves.
TEST(PointwiseCost, AutocastCastsWeightsInEachForwardPass) {
    Scenario s = on_device("h100-sxm-80gb");
    s.strategy.framework = Framework::ddp;
    s.runtime.year = 2025;
    const Costs autocast(s);
    s.training.master_weights = false;
    const Costs pure(s);
    constexpr std::int64_t n = 8192, k = 8192;
    const auto product = [](Direction d) { return Linear{d, 4096, n, k, 1, DType::bf16, DType::bf16}; };
    const double longer = autocast.compute_us(product(Direction::forward)) - pure.compute_us(product(Direction::forward));
    EXPECT_GT(longer, 6.0 * n * k / 3.35e6) << "no faster than the memory";
    EXPECT_LT(longer, 3 * 6.0 * n * k / 3.35e6);
    for (const Direction d : {Direction::input_gradient, Direction::weight_gradient})
        EXPECT_EQ(autocast.compute_us(product(d)), pure.compute_us(product(d)));
    // Where the cast is an op of the plan, the two together take as long.
    Plan plan;
    Buffer x, w, cast;
    w.role = Role::parameter;
    w.dtype = DType::fp32;
    w.shape = {n, k};
    w.bytes = Bytes{4 * n * k};
    cast.shape = w.shape;
    cast.bytes = Bytes{2 * n * k};
    const BufferId in = plan.buffers.add(std::move(x)), weight = plan.buffers.add(std::move(w)), narrow = plan.buffers.add(std::move(cast));
    Op narrows, multiplies;
    narrows.work = Pointwise{PointwiseKind::cast, Direction::forward, n * k, false};
    narrows.in = {weight};
    narrows.out = {narrow};
    multiplies.work = product(Direction::forward);
    multiplies.in = {in, narrow};
    const double apart = microseconds(autocast.model.compute(plan, narrows).duration + autocast.model.compute(plan, multiplies).duration),
                 together = autocast.compute_us(product(Direction::forward));
    EXPECT_NEAR(apart, together, 0.01);
}

// Megatron's vocabulary-parallel loss moves 38 + 14 bytes per logit unfused, 28 fused.
TEST(PointwiseCost, LossFollowsBytesPerLogit) {
    const Costs c(on_device("a100-sxm-80gb"));
    auto total = [&](bool fused) {
        double us = 0;
        for (auto part : {CrossEntropy::Part::maximum, CrossEntropy::Part::sums, CrossEntropy::Part::loss, CrossEntropy::Part::gradient})
            us += c.compute_us(CrossEntropy{part, 16384, 65536, fused});
        return us;
    };
    const double logits = 16384.0 * 65536;
    EXPECT_GT(total(false), 52 * logits / 2.039e6);
    EXPECT_LT(total(false), 52 * logits / (0.5 * 2.039e6));
    EXPECT_GT(total(true), 28 * logits / 2.039e6);
    EXPECT_LT(total(true), 0.75 * total(false));
}

// Fused Adam of 1e9 parameters in mixed precision moves 30 GB: 3.58 ms at 14 bytes was measured where this has 30 (PyTorch, H100).
TEST(PointwiseCost, OptimizerMovesItsStates) {
    const Costs c(on_device("h100-sxm-80gb"));
    const double fused = c.compute_us(OptimizerStep{OptimizerKind::adam, 1000000000, true, false});
    EXPECT_GT(fused, 30e9 / 3.35e6);
    EXPECT_LT(fused, 30e9 / (0.6 * 3.35e6));
    EXPECT_GT(c.compute_us(OptimizerStep{OptimizerKind::adam, 1000000000, false, false}), 1.8 * fused);
    EXPECT_GT(c.compute_us(OptimizerStep{OptimizerKind::adam, 1000000000, true, true}), 10 * fused); // on the host's memory
    EXPECT_LT(c.compute_us(OptimizerStep{OptimizerKind::sgd, 1000000000, true, false}), fused);
}

// Newton-Schulz iterations are products: at a large size a good part of the peak, and more of them take as much longer.
TEST(PointwiseCost, MuonMultiplies) {
    const Costs c(on_device("h100-sxm-80gb"));
    const auto step = [](OptimizerStep::Part part, std::int64_t matrices, std::int64_t rows, std::int64_t cols) {
        OptimizerStep w{OptimizerKind::muon, matrices * rows * cols, false, false, part};
        w.matrices = matrices;
        w.rows = rows;
        w.cols = cols;
        return w;
    };
    const auto us = [&](std::int64_t matrices, std::int64_t rows, std::int64_t cols) {
        return c.compute_us(step(OptimizerStep::Part::orthogonal, matrices, rows, cols));
    };
    const OptimizerStep large = step(OptimizerStep::Part::orthogonal, 1, 8192, 8192);
    EXPECT_DOUBLE_EQ(flops(large).count, 5 * 6 * std::pow(8192.0, 3));
    EXPECT_GT(c.compute_us(large), flops(large).count / 989e6);
    EXPECT_LT(c.compute_us(large), flops(large).count / (0.5 * 989e6));
    EXPECT_NEAR(us(7, 4096, 1024), 7 * us(1, 4096, 1024), 1e-6 * us(7, 4096, 1024));
    EXPECT_DOUBLE_EQ(us(3, 4096, 1024), us(3, 1024, 4096)) << "on the shorter side";
    for (std::int64_t m = 256; m < 4096; m *= 2) EXPECT_LT(us(1, m, 4096), us(1, 2 * m, 4096)) << m;
    for (const auto part : {OptimizerStep::Part::direction, OptimizerStep::Part::apply})
        EXPECT_LT(c.compute_us(step(part, 1, 8192, 8192)), 0.1 * c.compute_us(large));
}

// PyTorch's own loss of an undivided vocabulary moves 40 bytes per logit beside two casts that look their types up (1.7 elements a ns and
// processor on an A100); Megatron's sequence 52 (and any divided vocabulary uses that).
TEST(PointwiseCost, TheFrameworkSaysWhichEagerLoss) {
    Scenario s = on_device("a100-sxm-80gb");
    auto total = [](const Scenario& x) {
        const Costs c(x);
        return c.compute_us(CrossEntropy{CrossEntropy::Part::maximum, 16384, 65536, false}) +
               c.compute_us(CrossEntropy{CrossEntropy::Part::sums, 16384, 65536, false}) +
               c.compute_us(CrossEntropy{CrossEntropy::Part::gradient, 16384, 65536, false});
    };
    s.runtime.year = 2025;
    const double megatron = total(s);
    s.strategy.framework = Framework::fsdp;
    const double logits = 16384.0 * 65536, bandwidth = 2.039e6, cast = logits / (1.7e3 * 108);
    EXPECT_NEAR(total(s), 40 * logits / (0.98 * 0.92 * bandwidth) + 2 * cast, 0.01 * total(s));
    EXPECT_LT(total(s), megatron);
    // On 16-bit logits 6.1 and 7.2 bytes, zeros of 2, no cast.
    s.runtime.loss_upcast = s.runtime.fused_loss = s.strategy.fused = false;
    EXPECT_NEAR(total(s), 15.3 * logits / (0.85 * 0.92 * bandwidth), 0.01 * total(s));
    const double narrow = total(s);
    s.strategy.framework = Framework::torchtitan;
    EXPECT_EQ(total(s), narrow) << "whoever's trainer it is";
    s.strategy.framework = Framework::fsdp;
    s.strategy.tensor_parallel = 2;
    EXPECT_EQ(total(s), megatron) << "a divided vocabulary has Megatron's loss";
}

// Autocast's log-softmax stays in 16 bits, but nll_loss runs in 32: two casts of all logits, and zeros of 4 bytes, beside what a loss on
// 16-bit logits takes. Our H200: 6.9 ms of 824 million logits, 9.6 of 1,051 million.
TEST(PointwiseCost, AutocastsLossCastsAllLogitsTwice) {
    Scenario s = on_device("h200-sxm-141gb");
    s.strategy.framework = Framework::ddp;
    s.runtime.year = 2026;
    s.runtime.fused_loss = s.strategy.fused = false;
    const auto ms = [](const Scenario& x, std::int64_t tokens, std::int64_t vocabulary) {
        const Costs c(x);
        return 1e-3 * (c.compute_us(CrossEntropy{CrossEntropy::Part::sums, tokens, vocabulary, false}) +
                       c.compute_us(CrossEntropy{CrossEntropy::Part::gradient, tokens, vocabulary, false}));
    };
    EXPECT_NEAR(ms(s, 16384, 50304), 6.9, 0.1 * 6.9);
    EXPECT_NEAR(ms(s, 8192, 128256), 9.6, 0.05 * 9.6);
    Scenario narrow = s;
    narrow.strategy.framework = Framework::fsdp;
    narrow.runtime.loss_upcast = false;
    const Costs c(narrow);
    const double elements = 8192.0 * 128256, casts = 1e-3 * (elements / (2.6e3 * 132) + elements * 6 / 4.8e6);
    EXPECT_GT(ms(s, 8192, 128256), ms(narrow, 8192, 128256) + casts);
}

// Transformers until 4.45 copies the logits without each sequence's last, and their gradient into zeros.
TEST(PointwiseCost, ShiftedLogitsAreCopied) {
    const auto us = [](int year, CrossEntropy::Part part) {
        Scenario s = on_device("h100-sxm-80gb");
        s.strategy.framework = Framework::fsdp;
        s.runtime.year = year;
        s.runtime.fused_loss = s.strategy.fused = false;
        return Costs(s).compute_us(CrossEntropy{part, 8192, 128256, false});
    };
    const double logits = 8192.0 * 128256, copy = logits / (2.1e3 * 132);
    EXPECT_GE(us(2024, CrossEntropy::Part::sums), us(2025, CrossEntropy::Part::sums) + copy);
    EXPECT_GE(us(2024, CrossEntropy::Part::gradient), us(2025, CrossEntropy::Part::gradient) + copy + 4 * logits / 3.35e6);
}

// Transformer Engine's loss moves 10 bytes a logit of 16 bits; Megatron's own, compiled, 28.
TEST(PointwiseCost, AFusedLossOverItsLogitsMovesFewerBytes) {
    Scenario s = on_device("h100-sxm-80gb");
    s.runtime.year = 2025;
    s.runtime.fused_loss = true;
    const auto total = [](const Scenario& x) {
        const Costs c(x);
        double us = 0;
        for (const auto part :
             {CrossEntropy::Part::maximum, CrossEntropy::Part::sums, CrossEntropy::Part::loss, CrossEntropy::Part::gradient})
            us += c.compute_us(CrossEntropy{part, 16384, 65536, true});
        return us;
    };
    const double over = total(s);
    s.runtime.compiled_loss = true;
    EXPECT_NEAR(over / total(s), 10.0 / 28, 0.02);
    s.runtime.compiled_loss = false;
    s.runtime.year = 2024;
    EXPECT_NEAR(over / total(s), 10.0 / 28, 0.02) << "there was no other";
}

// A batched product takes what its own shape takes, whichever of the adjoint's it is.
TEST(Gemm, ProductsOfUnfusedAttentionAreTimedByTheirOwnShapes) {
    const Costs c(on_device("a100-sxm-80gb"));
    using Part = Matmul::Part;
    const auto us = [&](Direction d, Part part, std::int64_t n, std::int64_t k) {
        return c.compute_us(Matmul{d, 96, 2048, n, k, DType::fp16, true, part});
    };
    EXPECT_EQ(us(Direction::input_gradient, Part::d_probabilities, 2048, 128), us(Direction::forward, Part::scores, 2048, 128));
    EXPECT_EQ(us(Direction::input_gradient, Part::d_queries, 128, 2048), us(Direction::forward, Part::context, 128, 2048));
    EXPECT_LT(us(Direction::input_gradient, Part::d_queries, 128, 2048), us(Direction::input_gradient, Part::d_probabilities, 2048, 128));
}

// fp32 copies of fp16 gradients are unscaled, and the weights become fp16 again, in kernels around Megatron's optimizer.
TEST(PointwiseCost, LossScalingCostsPassesAroundTheStep) {
    Scenario s = on_device("a100-sxm-80gb");
    s.training.precision = s.training.gradient_dtype = DType::fp16;
    s.strategy.framework = Framework::megatron;
    const OptimizerStep step{OptimizerKind::adam, 100000000, true, false};
    const double scaled = Costs(s).compute_us(step);
    s.training.precision = DType::bf16;
    const double plain = Costs(s).compute_us(step);
    EXPECT_NEAR(scaled / plain, (30.0 + 20.0) / 30.0, 0.01);
}

// States that are not there are not moved: without fp32 master weights the buffers hold less than the 30 bytes of the full recipe.
TEST(PointwiseCost, OptimizerBuffersCountWhereTheyAreSmaller) {
    const Costs c(on_device("h100-sxm-80gb"));
    const OptimizerStep step{OptimizerKind::adam, 100000000, true, false};
    const double full = c.compute_us(step);
    EXPECT_LT(c.compute_us(step, 14.0 * 100000000), 0.55 * full);
    EXPECT_EQ(c.compute_us(step, 60.0 * 100000000), full); // a full-size parameter buffer of which a shard is stepped
}

TEST(LaunchCost, FollowsTheRuntime) {
    Scenario s = on_device("h100-sxm-80gb");
    const double eager = microseconds(Costs(s).model.launch());
    EXPECT_GE(eager, 5);
    EXPECT_LE(eager, 10);
    s.runtime.cuda_graphs = true;
    EXPECT_LT(microseconds(Costs(s).model.launch()), 1);
    s.runtime.cuda_graphs = false;
    s.runtime.launch_us = 12.5;
    EXPECT_DOUBLE_EQ(microseconds(Costs(s).model.launch()), 12.5);
}

// 8 experts, of which one has half of the rows and three none: the last tile of each group is filled by half in the mean, and a group takes
// no less than a row of tiles.
TEST(Kernels, ExpertsOfUnlikeRowsFillTilesByHalf) {
    Scenario even = on_device("h100-sxm-80gb");
    even.model.layers = 1;
    even.model.moe = MoeSpec{};
    even.model.moe->experts = 8, even.model.moe->top_k = 2;
    Scenario uneven = even;
    uneven.model.moe->imbalance = Imbalance::list;
    uneven.model.moe->imbalance_loads = {{4, 1, 1, 1, 1, 0, 0, 0}};
    const Costs a(even), b(uneven);
    const std::vector<double> rows{2048, 512, 512, 512, 512};
    for (const bool weights : {false, true}) {
        const Direction d = weights ? Direction::weight_gradient : Direction::forward;
        const double tile = weights ? 64 : 128;
        const auto linear = [&](std::int64_t m, std::int64_t groups) {
            return Linear{d, m, 4096, 2048, groups, DType::bf16, weights ? DType::fp32 : DType::bf16, weights};
        };
        const double all = a.compute_us(linear(512, 8)), least = a.compute_us(linear(static_cast<std::int64_t>(tile), 1));
        double expected = 0;
        for (const double r : rows) expected += std::max(least, all / 8 * (r + tile / 2) / 512);
        EXPECT_NEAR(b.compute_us(linear(512, 8)), std::max(all, expected), 1e-3);
        EXPECT_EQ(b.compute_us(linear(512, 1)), a.compute_us(linear(512, 1))) << "what is no group has no shares";
    }
}

// Tables are kept for the next cost model: of another device, with other releases or on another network they are its own.
TEST(Tables, AreThoseOfWhatIsAskedFor) {
    const auto rate = [](const char* device, std::vector<KernelRelease> releases) {
        return kernel_tables(*find_device(device), releases).gemm.at("bf16").efficiency;
    };
    const double h100 = rate("h100-sxm-80gb", {}), a100 = rate("a100-sxm-80gb", {});
    EXPECT_NE(h100, a100);
    EXPECT_EQ(rate("h100-sxm-80gb", {}), h100);
    EXPECT_EQ(rate("a100-sxm-80gb", {}), a100);
    const KernelTables before = kernel_tables(*find_device("mi300x"));
    kernel_tables(*find_device("mi300x"), std::vector<KernelRelease>{KernelRelease::rocm_7});
    EXPECT_EQ(kernel_tables(*find_device("mi300x")).gemm.at("bf16").efficiency, before.gemm.at("bf16").efficiency);
    Cluster cluster = *find_cluster("dgx-h100");
    const double fast = fabric_table(cluster).base;
    cluster.inter.nic_bandwidth = BytesPerSecond::gigabits(100);
    const double slow = fabric_table(cluster).base;
    EXPECT_NE(slow, fast);
    cluster.inter.nic_bandwidth = find_cluster("dgx-h100")->inter.nic_bandwidth;
    EXPECT_EQ(fabric_table(cluster).base, fast);
}

} // namespace
} // namespace orrery
