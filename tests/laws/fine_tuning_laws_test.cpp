// Fine-tuning: gradients, states and FLOPs of what is trained alone, and no backward pass below the lowest of it.
#include "tests/laws/scenarios.hpp"

#include "sim/engine/simulate.hpp"
#include "sim/plan/verify.hpp"
#include "sim/report/report.hpp"
#include "sim/scenario/parameters.hpp"
#include "sim/scenario/trainable.hpp"

#include <set>

namespace orrery::laws {
namespace {

// A Llama of few layers, in fp32 so that nothing but parameters, gradients and moments is there.
std::string tuned_llama(const std::string& trainable, const std::string& strategy = R"("framework": "megatron")", int devices = 1,
                        const std::string& precision = "bf16") {
    return fmt::format(
        R"({{"model": {{"preset": "llama3-8b", "layers": 4, "vocab_size": 32000{}}},
            "cluster": {{"preset": "dgx-h100", "nodes": 1, "devices_per_node": {}}},
            "training": {{"global_batch_size": 8, "micro_batch_size": 1, "sequence_length": 2048, "precision": "{}"}},
            "strategy": {{{}}}}})",
        trainable.empty() ? "" : R"(, "trainable": )" + trainable, devices, precision, strategy);
}

const std::string lora = R"({"lora": {"rank": 16}})";

double products(const Plan& plan) { // FLOPs of a microbatch's linears on a rank
    double sum = 0;
    for (const Block& b : plan.blocks)
        for (const Op& op : b.ops)
            if (std::holds_alternative<Linear>(op.work)) sum += flops(op.work).count;
    return sum;
}

TEST(FineTuning, GradientsAndStatesAreThoseOfWhatIsTrained) {
    for (const std::string& trainable : {lora, std::string(R"({"lora": {"rank": 4, "targets": ["qkv", "fc2"]}, "frozen_layers": 2})"),
                                         std::string(R"({"frozen": ["embedding", "mlp"]})"), std::string(R"({"frozen_layers": 3})")}) {
        const Scenario s = scenario(tuned_llama(trainable));
        const Plan plan = lower(s);
        EXPECT_TRUE(verify(plan).empty()) << trainable << to_text(verify(plan));
        const auto held = resident(plan, 0);
        const auto trained = static_cast<double>(*trained_parameters(s.model));
        EXPECT_EQ(held.at(MemoryKind::gradients), 4 * trained) << trainable;
        EXPECT_EQ(held.at(MemoryKind::optimizer_states), 12 * trained) << trainable << ": master and two moments";
    }
}

// A framework's own copies of gradients are of what is trained, too.
TEST(FineTuning, CopiesOfGradientsAreThoseOfWhatIsTrained) {
    const auto copies = [](const std::string& trainable) {
        const Scenario s = scenario(tuned_llama(trainable, R"("framework": "deepspeed", "zero_stage": 0)", 8));
        const Report r = predict(s).report;
        std::map<std::string, double> held;
        for (const ReserveItem& i : r.memory.stages[0].reserve) held[i.name] = static_cast<double>(i.bytes.count);
        return std::tuple(held["16-bit gradients"], held["flat copies"],
                          static_cast<double>(trained_parameters(s.model).value_or(parameter_count(s.model))));
    };
    for (const std::string& trainable : {std::string(), lora, std::string(R"({"frozen_layers": 3})")}) {
        const auto [gradients, flat, trained] = copies(trainable);
        EXPECT_EQ(gradients, 2 * trained) << trainable;
        EXPECT_EQ(flat, 2 * trained) << trainable;
    }
}

// What is not trained comes from its home on the host in its own type, and nothing of it goes back.
TEST(FineTuning, FrozenShardsComeFromTheHostAndNeverReturn) {
    for (const char* framework : {"fsdp", "fsdp2", "deepspeed"})
        for (const std::string& trainable : {lora, std::string(R"({"lora": {"rank": 16}, "base_dtype": "nf4"})")}) {
            const Plan plan = lower(scenario(tuned_llama(
                trainable,
                fmt::format(
                    R"("framework": "{}", "zero_stage": 3, "offload": {{"parameters": "cpu", "gradients": "cpu", "optimizer": "cpu"}})",
                    framework),
                8)));
            EXPECT_TRUE(verify(plan).empty()) << framework << trainable << to_text(verify(plan));
            const auto frozen = [&](const Buffer& b) {
                return b.bucket >= 0 && !plan.tensors[plan.buckets[b.bucket].tensors.front().tensor].trained;
            };
            Bytes come;
            for (const Block& block : plan.blocks)
                for (const Op& op : block.ops) {
                    const auto* copy = std::get_if<Copy>(&op.work);
                    if (!copy || !frozen(plan.buffers[op.in.front()])) continue;
                    ASSERT_EQ(copy->kind, CopyKind::host_to_device) << framework << " " << op.name;
                    EXPECT_EQ(plan.buffers[op.in.front()].dtype, plan.buffers[op.out.front()].dtype) << op.name;
                    come += copy->bytes;
                }
            Bytes shards;
            for (const Buffer& b : plan.buffers)
                if (b.role == Role::parameter_shard && b.space == Space::device && frozen(b)) shards += b.bytes;
            EXPECT_GT(shards.count, 0) << framework;
            EXPECT_EQ(come, shards) << framework << trainable << ": each shard, whenever it is gathered";
        }
}

// Layers that nothing goes back through make what only a backward pass reads in no software's way.
TEST(FineTuning, PlansOfEverySoftwareWithFrozenLayersAreLegal) {
    for (const char* framework :
         {"megatron", "nemo", "te", "deepspeed", "ddp", "fsdp", "fsdp2", "torchtitan", "composer", "jax", "nanotron"})
        for (const char* more : {"", R"(, "recompute": "none")", R"(, "context_parallel": 2)", R"(, "pipeline_parallel": 2)"}) {
            ParseResult parsed =
                parse_scenario(tuned_llama(R"({"frozen_layers": 2})", fmt::format(R"("framework": "{}"{})", framework, more), 4), {});
            if (!parsed.scenario) continue; // it has no such strategy
            const Plan plan = lower(*parsed.scenario);
            EXPECT_TRUE(verify(plan).empty()) << framework << more << to_text(verify(plan));
        }
    std::string kept = tuned_llama(R"({"frozen_layers": 2})");
    kept.insert(kept.size() - 1, R"(, "runtime": {"fp8_activation_input": true})");
    const Plan plan = lower(scenario(kept));
    EXPECT_TRUE(verify(plan).empty()) << to_text(verify(plan));
}

TEST(FineTuning, RunsWeightGradientsOfAdaptersAlone) {
    const Scenario s = scenario(tuned_llama(lora)), whole = scenario(tuned_llama(""));
    for (const Block& b : lower(s).blocks)
        for (const Op& op : b.ops)
            if (const auto* l = std::get_if<Linear>(&op.work); l && l->direction == Direction::weight_gradient) {
                EXPECT_NE(op.name.find(".lora_"), std::string::npos) << op.name;
            }
    // Forward and input gradients of the model, three passes of the adapters; less the input gradients of the first qkv and its A.
    const double tokens = 2048, h = 4096, qkv = (32 + 16) * 128 * h, adapters = 16 * (h + (32 + 16) * 128 + h + h + h + 28672 + 14336 + h);
    const double forward = products(lower(whole)) / 3;
    EXPECT_NEAR(products(lower(s)), 2 * forward - 2 * tokens * qkv + 4 * 3 * 2 * tokens * adapters - 2 * tokens * 16 * h, 1e-9 * forward);
}

// Model FLOPs are those of the plan's linears and the square of attention, whose backward pass they count twice.
TEST(FineTuning, ModelFlopsAreWhatThePlanMultiplies) {
    for (const std::string& trainable :
         {lora, std::string(R"({"lora": {"targets": ["fc2"]}})"), std::string(R"({"lora": {"rank": 64}, "frozen_layers": 2})"),
          std::string(R"({"frozen": ["attention", "embedding"]})"), std::string(R"({"frozen_layers": 2})"),
          std::string(R"({"frozen": ["embedding", "attention", "mlp", "norm"]})")}) {
        const Scenario s = scenario(tuned_llama(trainable));
        const Plan plan = lower(s);
        int squares = 0;
        for (const Block& b : plan.blocks)
            for (const Op& op : b.ops)
                if (const auto* a = std::get_if<Attention>(&op.work)) squares += a->direction == Direction::forward ? 1 : 2;
        const double square = 2 * 2048.0 * 2048 * 32 * 128 * 2;
        const Report r = predict(s).report;
        EXPECT_NEAR(r.flops_per_step, 8 * (products(plan) + squares * square), 1e-9 * r.flops_per_step) << trainable;
    }
}

TEST(FineTuning, FrozenLayersCostNoBackwardPassAndKeepNothing) {
    double time = 1e9, memory = 1e18;
    for (int frozen : {0, 1, 2, 3}) {
        const Scenario s = scenario(tuned_llama(fmt::format(R"({{"lora": {{"rank": 16}}, "frozen_layers": {}}})", frozen)));
        const Plan plan = lower(s);
        std::set<int> backward;
        for (const Block& b : plan.blocks)
            if (b.kind == BlockKind::backward)
                for (const Op& op : b.ops)
                    if (op.layer >= 0) backward.insert(op.layer);
        ASSERT_FALSE(backward.empty());
        EXPECT_EQ(*backward.begin(), frozen);
        const Report r = predict(s).report;
        EXPECT_LT(r.step_time_s, time);
        EXPECT_LT(static_cast<double>(fullest(r.memory).peak.count), memory);
        time = r.step_time_s;
        memory = static_cast<double>(fullest(r.memory).peak.count);
    }
}

// A pipeline's first stages may have nothing to train: they run forward passes alone, and nothing is sent back to them.
TEST(FineTuning, StagesBelowTheLowestTrainedLayerRunForwardAlone) {
    for (const char* schedule : {"1f1b", "gpipe", "zb-h1"}) {
        const Scenario s =
            scenario(tuned_llama(R"({"lora": {"rank": 16}, "frozen_layers": 2})",
                                 fmt::format(R"("framework": "megatron", "pipeline_parallel": 4, "schedule": "{}")", schedule), 4));
        const Plan plan = lower(s);
        EXPECT_TRUE(verify(plan).empty()) << schedule << to_text(verify(plan));
        for (const Action& a : plan.programs[0].actions) {
            EXPECT_NE(plan.blocks[a.block].kind, BlockKind::backward);
            EXPECT_NE(plan.blocks[a.block].kind, BlockKind::weight);
        }
        for (const Communicator& c : plan.communicators) {
            EXPECT_NE(c.name, "pp.down.1-0");
            EXPECT_NE(c.name, "pp.down.2-1");
        }
        PredictOptions whole;
        whole.simulate.fold = false;
        EXPECT_NEAR(predict(s).report.step_time_s, predict(s, whole).report.step_time_s, 1e-9);
    }
}

TEST(FineTuning, ABaseInFourBitsTakesFourBitsAndAScale) {
    const std::string low = R"({"lora": {"rank": 16}, "base_dtype": "nf4"})";
    const auto wide = resident(lower(scenario(tuned_llama(lora))), 0), four = resident(lower(scenario(tuned_llama(low))), 0);
    const double h = 4096, matrices = 4 * (h * (32 + 16) * 128 + h * h + 3 * h * 14336);
    EXPECT_NEAR(wide.at(MemoryKind::parameters) - four.at(MemoryKind::parameters), matrices * (2 - bytes_per_element(DType::nf4)),
                1e-9 * matrices);
    EXPECT_NEAR(8 * bytes_per_element(DType::nf4), 4.127, 1e-3); // bits, arXiv:2305.14314, section 3
    // Each product first widens its matrix: more time, less memory.
    const Report a = predict(scenario(tuned_llama(lora))).report, b = predict(scenario(tuned_llama(low))).report;
    EXPECT_GT(b.step_time_s, a.step_time_s);
    EXPECT_LT(fullest(b.memory).peak.count, fullest(a.memory).peak.count);
}

// Without a compiler adapters cost more than their products: a scale ahead of each sum, an A for each module, and under PEFT
// with autocast the rows of each cast to fp32 and back, 12 bytes a number.
TEST(FineTuning, EagerAdaptersScaleAndCastByThemselves) {
    const auto sum_up = [](const std::string& strategy, const std::string& part) {
        std::string text = tuned_llama(lora, strategy);
        text.insert(text.size() - 1, R"(, "runtime": {"year": 2025})");
        const Scenario s = scenario(text);
        const Plan plan = lower(s);
        EXPECT_TRUE(verify(plan).empty()) << strategy << to_text(verify(plan));
        const Fabric fabric(s.cluster);
        const CostModel cost(s, fabric);
        std::pair<int, double> found{0, 0}; // ops and microseconds of the forward pass
        for (const Block& b : plan.blocks)
            for (const Op& op : b.ops)
                if (op.phase == Phase::forward && op.name.ends_with(part))
                    ++found.first, found.second += cost.compute(plan, op).duration.seconds() * 1e6;
        return found;
    };
    const std::string units = R"("framework": "fsdp2", "zero_stage": 0)", replicas = R"("framework": "ddp")",
                      compiled = R"(, "fused": true)", megatron = R"("framework": "megatron")";
    EXPECT_EQ(sum_up(units, ".adapt.scale").first, 4 * 4) << "qkv, proj, fc1 and fc2 of each layer";
    EXPECT_EQ(sum_up(megatron, ".adapt.scale").first, 4 * 4);
    EXPECT_EQ(sum_up(units + compiled, ".adapt.scale").first, 0);
    EXPECT_EQ(sum_up(R"("framework": "jax")", ".adapt.scale").first, 0);
    EXPECT_GT(sum_up(units, ".qkv.lora_a").second, 2.5 * sum_up(megatron, ".qkv.lora_a").second) << "each reads the rows";
    const double casts = sum_up(replicas, ".lora_a").second - sum_up(units, ".lora_a").second,
                 numbers = 4.0 * 2048 * (3 * 4096 + 4096 + 2 * 4096 + 14336);
    EXPECT_GT(casts, 12 * numbers / 3.35e6) << "no faster than the memory";
    EXPECT_LT(casts, 3 * 12 * numbers / 3.35e6);
    EXPECT_NEAR(sum_up(replicas + compiled, ".lora_a").second, sum_up(units + compiled, ".lora_a").second, 1e-6);
}

// A mask of a byte for each number that A reads, beside the copy that it reads in its place.
TEST(FineTuning, DropoutAheadOfAdaptersIsNeverFaster) {
    const std::string dropped = R"({"lora": {"rank": 16, "dropout": 0.05}})";
    for (const char* framework : {"ddp", "fsdp2", "megatron", "deepspeed"}) {
        const std::string strategy = fmt::format(R"("framework": "{}")", framework);
        const Scenario with = scenario(tuned_llama(dropped, strategy)), without = scenario(tuned_llama(lora, strategy));
        const Plan plan = lower(with);
        EXPECT_TRUE(verify(plan).empty()) << framework << to_text(verify(plan));
        double masks = 0;
        for (const Buffer& b : plan.buffers)
            if (b.name.ends_with(".lora_dropout.mask") && b.storage < 0) masks += static_cast<double>(b.bytes.count);
        EXPECT_EQ(masks, 4.0 * 2048 * (4096 + 4096 + 4096 + 14336)) << framework;
        EXPECT_GE(predict(with).report.step_time_s, predict(without).report.step_time_s) << framework;
        EXPECT_GT(fullest(predict(with).report.memory).peak.count, fullest(predict(without).report.memory).peak.count) << framework;
    }
    const ParseResult divided =
        parse_scenario(tuned_llama(dropped, R"("framework": "megatron", "tensor_parallel": 2, "sequence_parallel": true)", 2), {});
    ASSERT_EQ(divided.problems.size(), 1u);
    EXPECT_EQ(divided.problems.front().where, "/model/trainable/lora/dropout");
}

// Over sharded ranks the whole model is gathered, and adapters alone are reduced.
TEST(FineTuning, ShardedRanksGatherTheModelAndReduceAdapters) {
    for (const char* framework : {"fsdp2", "fsdp", "deepspeed"}) {
        const Scenario s = scenario(tuned_llama(lora, fmt::format(R"("framework": "{}", "zero_stage": 3)", framework), 8));
        const Plan plan = lower(s);
        EXPECT_TRUE(verify(plan).empty()) << framework << to_text(verify(plan));
        double gathered = 0, reduced = 0;
        for (const Block& b : plan.blocks)
            for (const Op& op : b.ops)
                if (const auto* c = std::get_if<Collective>(&op.work)) {
                    if (b.kind == BlockKind::gather && c->kind == CollectiveKind::all_gather)
                        gathered += static_cast<double>(c->times * c->bytes.count);
                    if (b.kind == BlockKind::reduce)
                        reduced += static_cast<double>(c->times * c->bytes.count) / bytes_per_element(c->dtype);
                }
        const auto trained = static_cast<double>(*trained_parameters(s.model));
        EXPECT_NEAR(reduced, trained, 1e-3 * trained) << framework;
        // DeepSpeed gathers small parameters, adapters among them, once more behind the step.
        EXPECT_NEAR(gathered, 2 * (predict(s).report.parameters + trained), 2e-3 * gathered) << framework;
    }
}

// Where kernels are long: adapters are many short ones, and where launches bind they cost more than weight gradients do.
TEST(FineTuning, IsFasterAndSmallerThanTrainingAllWhereKernelsAreLong) {
    for (const char* strategy : {R"("framework": "megatron", "tensor_parallel": 4, "sequence_parallel": true)", R"("framework": "fsdp2")",
                                 R"("framework": "megatron", "tensor_parallel": 2, "pipeline_parallel": 4, "schedule": "1f1b")"}) {
        const auto long_one = [&](const std::string& trainable) {
            ParseOptions options;
            options.overrides = {"training.sequence_length=16384", "training.global_batch_size=16", "training.micro_batch_size=2"};
            const ParseResult parsed = parse_scenario(tuned_llama(trainable, strategy, 8), options);
            EXPECT_TRUE(parsed.scenario) << to_text(parsed.problems);
            return predict(*parsed.scenario).report;
        };
        const Report all = long_one(""), few = long_one(lora);
        EXPECT_LT(few.step_time_s, all.step_time_s) << strategy;
        EXPECT_GT(few.step_time_s, 0.6 * all.step_time_s) << strategy << ": forward and input gradients are two thirds of the products";
        EXPECT_LT(fullest(few.memory).peak.count, fullest(all.memory).peak.count) << strategy;
        EXPECT_LT(few.flops_per_step, 0.8 * all.flops_per_step) << strategy;
    }
}

} // namespace
} // namespace orrery::laws
