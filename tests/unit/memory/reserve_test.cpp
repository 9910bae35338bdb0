// Is what a device holds beside the plan named, sourced, and overridable?
#include "tests/unit/memory/hand_made.hpp"

#include "sim/memory/reserve.hpp"
#include "sim/plan/lower.hpp"
#include "sim/scenario/parse.hpp"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>
#include <optional>

namespace orrery {
namespace {

using namespace hand_made;

Scenario h100() {
    Scenario s;
    s.cluster.device.name = "h100-sxm-80gb";
    s.cluster.device.vendor = "nvidia";
    s.cluster.device.architecture = "hopper";
    s.cluster.device.memory = Bytes::mebibytes(81559);
    s.cluster.devices_per_node = 8;
    s.cluster.inter.nics_per_node = 8;
    return s;
}

std::optional<ReserveItem> find(const StageMemory& s, const std::string& name) {
    const auto it = std::find_if(s.reserve.begin(), s.reserve.end(), [&](const ReserveItem& i) { return i.name == name; });
    return it == s.reserve.end() ? std::nullopt : std::optional(*it);
}

// 0: the stage has no such item.
std::int64_t bytes_of(const StageMemory& stage, const std::string& name) {
    const auto found = find(stage, name);
    return found ? found->bytes.count : 0;
}

// A stage of the scenario that is written so.
StageMemory stage_of(const std::string& text, int stage = 0) {
    const ParseResult read = parse_scenario(text);
    EXPECT_TRUE(read.scenario.has_value()) << to_text(read.problems) << text;
    return memory(lower(*read.scenario), *read.scenario).stages[stage];
}

// Two tensor-parallel ranks that reduce once.
Plan with_collective(int tp) {
    Plan p = forward_backward({1000, 500, 1000000, 30});
    p.mesh.size[Axis::tp] = tp;
    p.communicators.push_back(Communicator{"tp", mask(Axis::tp), {}});
    p.blocks[0].ops.push_back(op(Collective{CollectiveKind::all_reduce, 0, Bytes{100}, DType::bf16}, "l0.ar"));
    add(p, 0, 0), add(p, 1, 0);
    return p;
}

TEST(Reserve, EveryItemHasANameASizeAndASource) {
    const StageMemory s = memory(with_collective(8), h100()).stages[0];
    EXPECT_EQ(s.reserve.size(), 4u);
    Bytes sum;
    for (const ReserveItem& i : s.reserve) {
        EXPECT_FALSE(i.name.empty());
        EXPECT_GT(i.bytes.count, 0) << i.name;
        EXPECT_GT(i.source.size(), 10u) << i.name;
        if (!i.kept) sum += i.bytes;
    }
    EXPECT_EQ(sum, s.reserved);
}

// A device's reserve rests on the software of its own vendor: ROCm's libraries, XLA's reserve; where nothing says it, on an assumption.
TEST(Reserve, DevicesOfOtherVendorsDoNotCiteCudas) {
    for (const auto& [vendor, architecture, mib] : {std::tuple{"amd", "cdna3", 204}, {"amd", "cdna2", 108}, {"google", "tpu", 0}}) {
        Scenario s = h100();
        s.cluster.device.vendor = vendor;
        s.cluster.device.architecture = architecture;
        const StageMemory m = memory(with_collective(8), s, CacheOf::no_stage).stages[0];
        EXPECT_EQ(bytes_of(m, "matmul workspace"), Bytes::mebibytes(mib).count) << architecture;
        for (const ReserveItem& i : m.reserve) {
            EXPECT_EQ(i.source.find("cuBLAS"), std::string::npos) << architecture << " " << i.name << ": " << i.source;
            EXPECT_EQ(i.source.find("CUDA"), std::string::npos) << architecture << " " << i.name << ": " << i.source;
            EXPECT_TRUE(i.source.find("nccl") == std::string::npos || i.source.find("RCCL") != std::string::npos) << i.source;
        }
    }
}

TEST(Reserve, SlackIsShownByToolsAndNotNeeded) {
    const StageMemory s = memory(with_collective(8), h100()).stages[0];
    const auto slack = find(s, "allocator slack");
    ASSERT_TRUE(slack.has_value());
    EXPECT_TRUE(slack->kept);
    EXPECT_EQ(peak_as(s, MemoryMeasure::device).count, s.peak.count + slack->bytes.count);
}

TEST(Reserve, AScenariosOwnFigureReplacesAll) {
    Scenario s = h100();
    s.runtime.reserved_gb = 2.5;
    const StageMemory m = memory(with_collective(8), s).stages[0];
    ASSERT_EQ(m.reserve.size(), 1u);
    EXPECT_EQ(m.reserved.count, 2500000000);
}

TEST(Reserve, APlannedAllocatorHasNoSlack) {
    Scenario s = h100();
    EXPECT_TRUE(find(memory(with_collective(8), s).stages[0], "allocator slack").has_value());
    s.runtime.plan_allocator = true;
    EXPECT_FALSE(find(memory(with_collective(8), s).stages[0], "allocator slack").has_value());
}

TEST(Reserve, ExpandableSegmentsWasteNoMoreThanAPage) {
    Scenario s = h100();
    s.runtime.expandable_segments = true;
    const StageMemory m = memory(with_collective(8), s).stages[0];
    EXPECT_FALSE(find(m, "allocator slack").has_value());
    const auto pages = find(m, "allocator pages");
    ASSERT_TRUE(pages.has_value());
    EXPECT_TRUE(pages->kept);
    EXPECT_EQ(pages->bytes, Bytes::mebibytes(22));
}

TEST(Reserve, SlackIsWhatSegmentsHoldBesideWhatIsAllocated) {
    // 1,500 bytes held for the whole step, 1 MB of activations and a temporary of 30 bytes share a segment of 2 MiB.
    const StageMemory s = memory(with_collective(8), h100()).stages[0];
    const auto slack = find(s, "allocator slack");
    ASSERT_TRUE(slack.has_value());
    EXPECT_EQ(s.allocated_peak.count, 1001530);
    EXPECT_EQ(slack->bytes.count, (2 << 20) - 1001530);
    Scenario processor = h100();
    processor.cluster.device.vendor = "cpu"; // a step's memory is planned there, and nothing is cached
    EXPECT_FALSE(find(memory(with_collective(8), processor).stages[0], "allocator slack").has_value());
    EXPECT_FALSE(find(memory(with_collective(8), h100(), CacheOf::no_stage).stages[0], "allocator slack").has_value());
    EXPECT_EQ(memory(with_collective(8), h100(), CacheOf::no_stage).stages[0].peak, s.peak) << "no job needs it";
}

TEST(Reserve, CommunicatorsCostMemoryWhereTheyAreUsed) {
    EXPECT_FALSE(find(memory(with_collective(1), h100()).stages[0], "communicator buffers").has_value());
    const auto eight = find(memory(with_collective(8), h100()).stages[0], "communicator buffers");
    const StageMemory two_stage = memory(with_collective(2), h100()).stages[0];
    ASSERT_TRUE(eight.has_value());
    EXPECT_GT(eight->bytes, find(two_stage, "communicator buffers")->bytes);
    Plan unused = with_collective(8);
    unused.communicators.push_back(Communicator{"dp", mask(Axis::tp), {}});
    EXPECT_EQ(find(memory(unused, h100()).stages[0], "communicator buffers")->bytes, eight->bytes);
}

TEST(Reserve, CommunicatorsOverTheSameRanksShareTheirBuffers) {
    Plan p = with_collective(8);
    const Bytes one = find(memory(p, h100()).stages[0], "communicator buffers")->bytes;
    p.communicators.push_back(Communicator{"gather", mask(Axis::tp), {}});
    p.blocks[0].ops.push_back(op(Collective{CollectiveKind::all_gather, 1, Bytes{100}, DType::bf16}, "l0.ag"));
    p.programs[0].actions[0].last += 1;
    EXPECT_EQ(find(memory(p, h100()).stages[0], "communicator buffers")->bytes, one);
}

// NCCL has buffers for each process group in which something was sent: Megatron's of all ranks, of the gradient norm and, of 2024, of the
// replicas' losses have the ranks of others.
TEST(Reserve, MegatronsProcessGroupsHaveCommunicatorsEach) {
    const auto buffers = [](int year, int zero, const char* framework) {
        const std::string text = fmt::format(
            R"({{"name": "groups", "model": {{"layers": 2, "hidden_size": 512, "attention_heads": 8, "vocab_size": 1024}},
                "cluster": {{"preset": "dgx-h100", "nodes": 1}},
                "training": {{"global_batch_size": 4, "micro_batch_size": 1, "sequence_length": 512, "precision": "bf16"}},
                "strategy": {{"framework": "{}", "tensor_parallel": 2, "zero_stage": {}}}, "runtime": {{"year": {}}}}})",
            framework, zero, year);
        return bytes_of(stage_of(text), "communicator buffers");
    };
    const Scenario device = h100();
    const auto of = [&](int ranks) {
        std::vector<int> list(static_cast<std::size_t>(ranks));
        std::iota(list.begin(), list.end(), 0);
        return communicator_buffers(list, device.cluster).count;
    };
    EXPECT_EQ(buffers(2026, 0, "megatron"), of(2) + of(4));
    EXPECT_EQ(buffers(2023, 0, "megatron"), of(2) + of(4) + of(8) + of(2)) << "of all ranks, and of the norm";
    EXPECT_EQ(buffers(2024, 0, "megatron"), of(2) + of(4) + of(8) + of(2) + of(4)) << "of losses";
    EXPECT_EQ(buffers(2024, 1, "megatron"), of(2) + of(4) + of(8) + of(4)) << "the norm is summed over all ranks";
    EXPECT_EQ(buffers(2026, 1, "megatron"), of(2) + of(4) + of(8)) << "of the norm alone";
}

TEST(Reserve, MeasuresAreNested) {
    const StageMemory s = memory(with_collective(8), h100()).stages[0];
    EXPECT_LT(s.allocated_peak, peak_as(s, MemoryMeasure::allocated)); // workspaces come from the allocator
    EXPECT_LT(peak_as(s, MemoryMeasure::allocated), peak_as(s, MemoryMeasure::reserved));
    EXPECT_LT(peak_as(s, MemoryMeasure::reserved), peak_as(s, MemoryMeasure::device));
    const auto slack = find(s, "allocator slack");
    ASSERT_TRUE(slack.has_value());
    EXPECT_EQ(peak_as(s, MemoryMeasure::device).count, s.peak.count + slack->bytes.count) << "the need is without what is given up";
}

TEST(Reserve, OlderSoftwareLoadsEveryKernel) {
    Scenario s = h100();
    const Bytes now = find(memory(with_collective(1), s).stages[0], "device context")->bytes;
    s.runtime.year = 2021;
    EXPECT_GT(find(memory(with_collective(1), s).stages[0], "device context")->bytes, now);
}

// Transformer Engine keeps one placeholder for each shape of weight whose gradient its product adds to the main one.
TEST(Reserve, FusedWeightGradientsKeepAPlaceholderForEachShape) {
    Plan p = with_collective(1);
    const auto gradient = [&](const char* name, std::int64_t n, std::int64_t k, bool accumulate) {
        Linear w{Direction::weight_gradient, 64, n, k};
        w.accumulate = accumulate;
        p.blocks[1].ops.push_back(op(w, name));
    };
    gradient("l0.fc1", 4000, 1000, true), gradient("l1.fc1", 4000, 1000, true), gradient("l1.fc2", 1000, 4000, true),
        gradient("l1.router", 8, 1000, false);
    Scenario s = h100();
    s.strategy.framework = Framework::megatron;
    s.runtime.year = 2025;
    s.runtime.fused_weight_gradient_accumulation = true;
    const auto kept = [&] { return find(memory(p, s).stages[0], "gradient placeholders"); };
    ASSERT_TRUE(kept());
    EXPECT_EQ(kept()->bytes.count, 2 * 2 * 4'000'000);
    s.runtime.year = 2023;
    EXPECT_FALSE(kept());
}

// DeepSpeed's step makes the gradients it owns anew, flat, in 16 and in 32 bits: an item where states are on the host, else buffers of the
// plan. With BF16_Optimizer it keeps 16-bit ones beside the main ones.
TEST(Reserve, DeepSpeedsStepHasGradientsOfItsOwn) {
    Plan p = with_collective(1);
    p.blocks[1].ops.push_back(op(OptimizerStep{OptimizerKind::adam, 5'000'000, true, false, OptimizerStep::Part::whole}, "optimizer"));
    Scenario s = h100();
    s.strategy.framework = Framework::deepspeed;
    s.training.precision = s.training.gradient_dtype = DType::fp16;
    const auto item = [&](const char* name) { return find(memory(p, s).stages[0], name); };
    EXPECT_FALSE(item("the step's gradients"));
    s.strategy.offload.optimizer = Tier::cpu;
    ASSERT_TRUE(item("the step's gradients"));
    EXPECT_EQ(item("the step's gradients")->bytes.count, 30'000'000);
    EXPECT_FALSE(item("flat copies"));
    s.training.precision = DType::bf16;
    s.training.gradient_dtype = DType::fp32;
    EXPECT_FALSE(item("the step's gradients"));
    s.strategy.framework = Framework::megatron;
    EXPECT_FALSE(item("16-bit gradients"));
}

// The allocator of 2022 kept a share of what it held, measured then; later jobs have no such rest, and smaller ones a smaller one.
TEST(Reserve, EarlyDeepSpeedsAllocatorKeptAShare) {
    Scenario s = h100();
    s.strategy.framework = Framework::deepspeed;
    const auto kept = [&](int year, std::int64_t largest) {
        s.runtime.year = year;
        Plan p = with_collective(8);
        p.buffers[2].bytes = Bytes{largest};
        const StageMemory stage = memory(p, s).stages[0];
        return std::pair(bytes_of(stage, "early allocator"), stage.allocated_peak.count);
    };
    const auto [few, small] = kept(2022, 1'000'000);
    const auto [many, large] = kept(2022, 10'000'000'000);
    EXPECT_GT(few, 0);
    EXPECT_GT(many, 10 * few);
    EXPECT_GE(static_cast<double>(many), 0.05 * static_cast<double>(large));
    EXPECT_LT(static_cast<double>(many), 0.1 * static_cast<double>(large));
    EXPECT_LT(small, large);
    EXPECT_EQ(kept(2025, 1'000'000).first, 0);
}

// DeepSpeed's buffers for reductions have the size that is asked for: two beside a backward pass, one for a pipeline and under ZeRO 3.
TEST(Reserve, DeepSpeedHoldsItsBuckets) {
    const auto held = [](int zero, bool overlaps, int pipeline, int bucket, DType gradients) {
        Scenario s = h100();
        s.strategy.framework = Framework::deepspeed;
        s.strategy.zero_stage = zero;
        s.strategy.pipeline_parallel = pipeline;
        s.strategy.data_parallel = 4;
        s.strategy.overlap.grad_reduce = overlaps;
        s.strategy.bucket_bytes = Bytes{bucket};
        s.training.precision = DType::bf16;
        s.training.gradient_dtype = gradients;
        return bytes_of(memory(with_collective(8), s).stages[0], "reduce buckets");
    };
    EXPECT_EQ(held(0, true, 1, 1000, DType::bf16), 0);
    EXPECT_EQ(held(1, false, 1, 1000, DType::bf16), 1000);
    EXPECT_EQ(held(2, true, 1, 1000, DType::bf16), 2000);
    EXPECT_EQ(held(2, true, 1, 5000, DType::bf16), 10000);
    EXPECT_EQ(held(1, true, 2, 1000, DType::bf16), 1000);
    EXPECT_EQ(held(3, true, 1, 1000, DType::bf16), 1000);
    EXPECT_EQ(held(1, false, 2, 1000, DType::fp32), 1000) << "BF16_Optimizer flattens one";
}

// torch's pipelines keep the logits of every microbatch on the last stage until the step ends; torchtitan asks for none from 2026 on.
TEST(Reserve, TorchsPipelinesKeepTheLogitsOfAllMicrobatches) {
    const auto kept = [](int microbatches, int stage, const char* more) {
        const std::string text = fmt::format(
            R"({{"model": "llama3.2-1b", "cluster": {{"preset": "dgx-h100", "nodes": 1}},
                "training": {{"global_batch_size": {}, "micro_batch_size": 1, "sequence_length": 2048, "precision": "bf16"}},
                "strategy": {{"framework": "torchtitan", "pipeline_parallel": 2, "data_parallel": 4, "schedule": "1f1b"}}, "runtime": {{{}}}}})",
            4 * microbatches, more);
        return bytes_of(stage_of(text, stage), "kept outputs");
    };
    const std::int64_t logits = std::int64_t{2048} * 128256 * 2;
    const char* const of_2025 = R"("year": 2025)";
    EXPECT_EQ(kept(4, 1, of_2025), 3 * logits) << "the plan has the last one's";
    EXPECT_EQ(kept(8, 1, of_2025), 7 * logits);
    EXPECT_EQ(kept(8, 0, of_2025), 0);
    EXPECT_EQ(kept(8, 1, R"("year": 2025, "loss": "chunked")"), 0);
    EXPECT_EQ(kept(8, 1, R"("year": 2026)"), 0);
}

TEST(Reserve, ExpertsProductsHaveWorkspacesOfTheirOwn) {
    Scenario s = h100();
    s.strategy.framework = Framework::megatron;
    const Plan p = with_collective(1);
    EXPECT_FALSE(find(memory(p, s).stages[0], "experts' matmul workspaces"));
    s.model.moe.emplace();
    EXPECT_EQ(find(memory(p, s).stages[0], "experts' matmul workspaces")->bytes, Bytes::mebibytes(128));
    s.runtime.fused_experts = true;
    EXPECT_FALSE(find(memory(p, s).stages[0], "experts' matmul workspaces"));
}

// DistributedDataParallel holds each gradient in a bucket as well; other software's gradients lie in the buckets.
TEST(Reserve, ReplicasHoldGradientsTwiceUnderDdp) {
    const auto item = [](const char* strategy) {
        const StageMemory stage = stage_of(fmt::format(
            R"({{"model": "llama3.2-1b", "cluster": {{"preset": "dgx-a100-80gb", "nodes": 1}},
                "training": {{"global_batch_size": 16, "micro_batch_size": 1, "sequence_length": 2048, "precision": "bf16"}}, "strategy": {}}})",
            strategy));
        const auto found = find(stage, "gradient buckets");
        EXPECT_TRUE(!found || found->bytes.count == stage.by_kind[MemoryKind::gradients].count);
        return found.has_value();
    };
    EXPECT_TRUE(item(R"({"framework": "ddp"})"));
    EXPECT_FALSE(item(R"({"framework": "megatron", "zero_stage": 0})"));
    EXPECT_FALSE(item(R"({"framework": "fsdp"})"));
}

// Megatron keeps copies of low-precision weights beside the 16-bit ones: two on Hopper, whose products turn them, one on Blackwell where a
// tensor has one scale, and two of any where blocks have scales.
TEST(Reserve, WeightsInLowPrecisionAreCopies) {
    struct Held {
        std::int64_t reserve, parameters;
    };
    const auto held = [](const char* cluster, const char* precision, const std::string& runtime, const char* framework = "megatron") {
        const StageMemory stage = stage_of(fmt::format(
            R"({{"model": "llama3.1-8b", "cluster": {{"preset": "{}", "nodes": 1}}, "runtime": {{{}}}, "strategy": {{"framework": "{}"}},
                "training": {{"global_batch_size": 64, "micro_batch_size": 1, "sequence_length": 2048, "precision": "{}"}}}})",
            cluster, runtime, framework, precision));
        return Held{bytes_of(stage, "weights in low precision"), stage.by_kind[MemoryKind::parameters].count};
    };
    const std::int64_t layers = 32 * (4096 * 6144 + 4096 * 4096 + 3 * 4096 * 14336LL);
    const Held bf16 = held("dgx-h100", "bf16", R"("year": 2024)");
    EXPECT_EQ(bf16.reserve, 0);
    for (const char* year : {R"("year": 2024)", R"("year": 2025)"}) {
        EXPECT_EQ(held("dgx-h100", "fp8", year).reserve, 2 * layers) << "--fp8-param-gather is off";
        EXPECT_EQ(held("dgx-h100", "fp8", year).parameters, bf16.parameters);
    }
    EXPECT_EQ(held("dgx-h100", "fp8", R"("year": 2025, "fp8_recipe": "blockwise")").reserve, 2 * layers);
    EXPECT_EQ(held("dgx-b200", "fp8", R"("fp8_recipe": "current")").reserve, layers);
    EXPECT_EQ(held("dgx-b200", "mxfp8", R"("year": 2026)").reserve, 2 * (layers + layers / 32));
    EXPECT_EQ(held("dgx-b200", "nvfp4", R"("year": 2026)").reserve, 2 * (layers / 2 + layers / 16));
    // Parameters of 8 bits: what is turned, or the second set of a block's scales, is all there is beside them.
    const Held turned = held("dgx-h100", "fp8", R"("year": 2025, "fp8_parameters": true)"),
               either = held("dgx-b200", "fp8", R"("fp8_recipe": "current", "fp8_parameters": true)"),
               blocks = held("dgx-b200", "mxfp8", R"("year": 2026, "fp8_parameters": true)");
    EXPECT_EQ(turned.reserve, layers);
    EXPECT_EQ(turned.parameters, bf16.parameters - layers);
    EXPECT_EQ(either.reserve, 0);
    EXPECT_EQ(either.parameters, bf16.parameters - layers);
    EXPECT_EQ(blocks.reserve, 2 * (layers / 32));
    EXPECT_EQ(blocks.parameters, bf16.parameters);
    EXPECT_EQ(held("dgx-b200", "nvfp4", R"("fp8_parameters": true)").reserve, 2 * (layers / 2 + layers / 16)) << "4 bits are no parameters";
    // NeMo's recipes.
    EXPECT_EQ(held("dgx-h100", "fp8", R"("year": 2025)", "nemo").reserve, layers);
    EXPECT_EQ(held("dgx-h100", "fp8", R"("year": 2025, "fp8_recipe": "blockwise")", "nemo").reserve, 2 * layers);
}

// Ten buffers of all tokens that a tensor-parallel group has; of 8 bits six have 8.
TEST(Reserve, UserBuffersTakeMemory) {
    const auto buffers = [](const char* precision, const std::string& runtime, int tensor, const char* overlap = "true") {
        const std::string text = fmt::format(
            R"({{"model": "llama3.1-8b", "cluster": {{"preset": "dgx-h100", "nodes": 1}}, "runtime": {{"year": 2025{}}},
                "strategy": {{"tensor_parallel": {}, "sequence_parallel": {}, "overlap": {{"tensor_parallel": {}}}}},
                "training": {{"global_batch_size": 64, "micro_batch_size": 2, "sequence_length": 2048, "precision": "{}"}}}})",
            runtime, tensor, tensor > 1, overlap, precision);
        return bytes_of(stage_of(text), "user buffers");
    };
    const std::string with = R"(, "tensor_parallel_buffers": true)";
    const std::int64_t elements = 2 * 2048 * 4096LL;
    EXPECT_EQ(buffers("bf16", with, 4), 10 * 2 * elements);
    EXPECT_EQ(buffers("fp8", with, 4), (6 + 4 * 2) * elements);
    EXPECT_EQ(buffers("bf16", R"(, "tensor_parallel_buffers": false)", 4), 0);
    EXPECT_EQ(buffers("bf16", with, 1), 0);
    EXPECT_EQ(buffers("bf16", with, 4, "false"), 0);
}

// Layers in graphs have pools of their own: with a pipeline of 2025 one for each microbatch in flight.
TEST(Reserve, GraphsKeepPools) {
    const auto pools = [](const std::string& runtime, int stages) {
        const std::string text = fmt::format(
            R"({{"model": "llama3.1-8b", "cluster": {{"preset": "dgx-h100", "nodes": 1}}, "runtime": {{{}}},
                "strategy": {{"pipeline_parallel": {}}},
                "training": {{"global_batch_size": 64, "micro_batch_size": 1, "sequence_length": 2048, "precision": "bf16"}}}})",
            runtime, stages);
        return bytes_of(stage_of(text), "graphs' pools");
    };
    const std::string graphs = R"(, "cuda_graphs": true)";
    EXPECT_EQ(pools(R"("year": 2025)", 2), 0);
    EXPECT_GT(pools(R"("year": 2025)" + graphs, 2), pools(R"("year": 2026)" + graphs, 2));
    EXPECT_GE(pools(R"("year": 2026)" + graphs, 1), pools(R"("year": 2026)" + graphs, 2)) << "one stage has the loss, which is in no graph";
}

} // namespace
} // namespace orrery
