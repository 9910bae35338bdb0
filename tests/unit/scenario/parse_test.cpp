// Does a scenario's text become the scenario it describes, defaults and all?
#include "sim/scenario/parse.hpp"

#include "sim/scenario/fields.hpp"
#include "sim/scenario/frameworks.hpp"
#include "sim/scenario/practice.hpp"
#include "sim/scenario/schema.hpp"
#include "sim/scenario/stage3.hpp"
#include "sim/scenario/suggest.hpp"
#include "sim/scenario/sweep.hpp"

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include <filesystem>
#include <fstream>
#include <string>

using namespace orrery;
namespace fs = std::filesystem;

namespace {

const std::string small = R"({"model": "gpt2-124m", "cluster": {"preset": "dgx-a100-80gb", "nodes": 2},
    "training": {"global_batch_size": 64, "micro_batch_size": 1, "sequence_length": 1024}})";

Scenario with(const std::vector<std::string>& overrides, const std::string& text = small) {
    ParseOptions options;
    options.overrides = overrides;
    const ParseResult read = parse_scenario(text, options);
    EXPECT_TRUE(read.scenario) << to_text(read.problems);
    return read.scenario.value_or(Scenario{});
}

std::vector<Problem> problems_with(const std::vector<std::string>& overrides) {
    ParseOptions options;
    options.overrides = overrides;
    return parse_scenario(small, options).problems;
}

bool is_noted(const Scenario& s, const std::string& field) {
    return std::any_of(s.notes.begin(), s.notes.end(), [&](const std::string& note) { return note.starts_with(field + " "); });
}

} // namespace

TEST(Parse, TheDesignsExampleIsReadAsMetaRanIt) {
    const ParseResult read = load_scenario(ORRERY_SOURCE_DIR "/scenarios/llama3-405b-16k-h100.json");
    ASSERT_TRUE(read.scenario) << to_text(read.problems);
    const Scenario& s = *read.scenario;
    EXPECT_EQ(s.world_size(), 16384);
    EXPECT_EQ(s.strategy.data_parallel, 128);
    EXPECT_EQ(s.microbatches(), 16);
    EXPECT_EQ(s.strategy.zero_stage, 2);
    EXPECT_EQ(s.training.gradient_dtype, DType::fp32);
    EXPECT_EQ(s.runtime.attention_kernel, AttentionKernel::flash2);
    EXPECT_TRUE(unsupported(s).empty());
    EXPECT_TRUE(s.notes.empty()) << s.notes.front();
}

TEST(Parse, EveryExampleScenarioIsSound) {
    int read = 0;
    for (const auto& file : fs::directory_iterator(ORRERY_SOURCE_DIR "/scenarios")) {
        if (file.path().extension() != ".json") continue;
        SCOPED_TRACE(file.path().filename().string());
        std::ifstream stream(file.path());
        const std::string text((std::istreambuf_iterator<char>(stream)), {});
        if (is_sweep(text)) {
            const SweepResult sweep = load_sweep(file.path().string());
            ASSERT_TRUE(sweep.document) << to_text(sweep.problems);
            std::int64_t sound = 0;
            for (std::int64_t i = 0; i < sweep.document->size(); ++i)
                sound += !sweep.document->point(i).rejected && parse_scenario(sweep.document->point(i).json).scenario;
            EXPECT_GT(sound, sweep.document->size() / 4);
        } else {
            const ParseResult result = load_scenario(file.path().string());
            EXPECT_TRUE(result.scenario) << to_text(result.problems);
            EXPECT_EQ(result.scenario ? to_text(unsupported(*result.scenario)) : "", "");
        }
        ++read;
    }
    EXPECT_GE(read, 6);
}

TEST(Parse, EveryRowOfTheValidationDatasetsIsSound) {
    const fs::path folder = ORRERY_SOURCE_DIR "/scenarios/validation";
    int rows = 0;
    if (fs::exists(folder))
        for (const auto& file : fs::directory_iterator(folder)) {
            if (file.path().extension() != ".json") continue;
            std::ifstream stream(file.path());
            for (const auto& row : nlohmann::json::parse(stream).value("rows", nlohmann::json::array())) {
                if (!row.contains("scenario")) continue;
                const ParseResult read = parse_scenario(row["scenario"].dump());
                EXPECT_TRUE(read.scenario) << file.path().filename() << " " << row.value("name", "") << "\n" << to_text(read.problems);
                ++rows;
            }
        }
    if (rows == 0) GTEST_SKIP() << "no datasets in scenarios/validation";
    EXPECT_GE(rows, 100);
}

TEST(Parse, OverridesTakeDotsPointersWordsAndLists) {
    const Scenario s = with({"strategy.tensor_parallel=4", "/strategy/pipeline_parallel=2", "strategy.schedule=gpipe", "model.layers=8",
                             "strategy.layer_split=[3, 5]", "name=mine"});
    EXPECT_EQ(s.strategy.tensor_parallel, 4);
    EXPECT_EQ(s.strategy.pipeline_parallel, 2);
    EXPECT_EQ(s.strategy.schedule, "gpipe");
    EXPECT_EQ(s.model.hidden_size, 768);
    EXPECT_EQ(s.strategy.layers_per_chunk, (std::vector<int>{3, 5}));
    EXPECT_EQ(s.name, "mine");
}

TEST(Parse, EveryProblemIsReportedAtOnce) {
    const auto problems = problems_with({"strategy.tensor_paralel=2", "training.precision=bf61", "model.layers=-3", "cluster.nodes=many",
                                         "strategy.overlap.pipelin=true", "runtime.year=2101"});
    ASSERT_EQ(problems.size(), 6u) << to_text(problems);
    for (const char* where : {"/strategy/tensor_paralel", "/training/precision", "/model/layers", "/cluster/nodes",
                              "/strategy/overlap/pipelin", "/runtime/year"})
        EXPECT_TRUE(std::any_of(problems.begin(), problems.end(), [&](const Problem& p) { return p.where == where; })) << where << "\n"
                                                                                                                       << to_text(problems);
}

// A value that a message offers after "try" must itself be accepted.
TEST(Parse, TheWayOutOffered) {
    const std::string text =
        R"({"model": "llama3-8b", "cluster": {"preset": "dgx-h100", "nodes": 3}, "training": {"global_batch_size": 48, "sequence_length": 8192}})";
    ParseOptions options;
    options.overrides = {"strategy.tensor_parallel=6"};
    const ParseResult read = parse_scenario(text, options);
    ASSERT_EQ(read.problems.size(), 1u) << to_text(read.problems);
    EXPECT_EQ(read.problems[0].what, "strategy.tensor_parallel = 6 must divide attention_heads = 32: try 1, 2, 4, 8");
    for (const char* tp : {"1", "2", "4", "8"}) {
        const Scenario s = with({std::string("strategy.tensor_parallel=") + tp}, text);
        EXPECT_EQ(s.world_size(), 24);
    }
}

TEST(Defaults, EveryRowOfTheTableFitsItsField) {
    for (const FrameworkDefault& row : framework_defaults()) {
        SCOPED_TRACE(std::string(row.framework) + " " + row.field);
        const Field* field = find_field(row.field);
        ASSERT_NE(field, nullptr);
        Reading reading;
        EXPECT_TRUE(read_value(reading, nlohmann::json::parse(row.value), "", *field));
        EXPECT_GT(std::string(row.source).size(), 5u);
        EXPECT_TRUE(std::string(row.framework) == "*" || named<Framework>(row.framework).has_value());
    }
}

TEST(Defaults, WhatIsGivenIsNeverCalledADefault) {
    const Scenario s = with({"strategy.framework=fsdp", "strategy.zero_stage=2", "training.gradient_dtype=fp32", "runtime.launch_us=3"});
    for (const char* pointer : {"/strategy/framework", "/strategy/zero_stage", "/training/gradient_dtype", "/runtime/launch_us"})
        EXPECT_FALSE(s.defaults.contains(pointer)) << pointer;
    EXPECT_TRUE(s.defaults.contains("/strategy/overlap/param_gather"));
    EXPECT_DOUBLE_EQ(s.runtime.launch_us, 3);
    for (const auto& [pointer, why] : s.defaults) EXPECT_NE(why.find(": "), std::string::npos) << pointer << " " << why;
}

// A layer of GPT-2 124M has 7 million parameters, one of Llama 3 8B 218 million; the prefetch bucket of DeepSpeed's ZeRO-3 holds 50. Inside
// a node each call of a module asks for one more such bucket, and gathers hide.
// stage3_max_live_parameters: 1e9.
TEST(Defaults, DeepSpeedGathersAheadBetweenNodesWhereTwoLayersFit) {
    const auto ahead = [](const char* framework, const char* model, const char* nodes = "2") {
        return with({std::string("strategy.framework=") + framework, std::string("model=") + model, "strategy.zero_stage=3",
                     "training.sequence_length=1024", "runtime.year=2024", std::string("cluster.nodes=") + nodes})
            .strategy.overlap.param_gather;
    };
    EXPECT_TRUE(ahead("deepspeed", "gpt2-124m"));
    EXPECT_TRUE(ahead("deepspeed", "llama3-8b"));
    EXPECT_FALSE(ahead("deepspeed", "llama3-70b"));
    EXPECT_TRUE(ahead("deepspeed", "llama3-70b", "1"));
    EXPECT_TRUE(ahead("fsdp", "llama3-8b"));
    EXPECT_TRUE(with({"strategy.framework=deepspeed", "model=llama3-8b", "strategy.zero_stage=3", "strategy.shard_group_size=8"})
                    .strategy.overlap.param_gather)
        << "MiCS: weights come from the node";
    EXPECT_TRUE(with({"strategy.framework=deepspeed", "model=llama3-8b", "strategy.zero_stage=3", "strategy.overlap.param_gather=true"})
                    .strategy.overlap.param_gather)
        << "what is given stays";
}

namespace {

// Software of before 2021, whichever it is: no FlashAttention, nothing hidden, no lazily loaded kernels, rings between two nodes.
void expect_early_practice(const Scenario& s) {
    SCOPED_TRACE(std::string(name(s.strategy.framework)) + " of " + std::to_string(s.runtime.year));
    const Overlap& o = s.strategy.overlap;
    for (const bool on :
         {s.strategy.flash_attention, o.grad_reduce, o.param_gather, o.tensor_parallel, o.pipeline, o.expert_parallel, s.runtime.fused_loss,
          s.runtime.fused_weight_gradient_accumulation, s.runtime.recompute_early_stop, s.runtime.loss_upcast, s.runtime.cuda_graphs})
        EXPECT_FALSE(on);
    EXPECT_EQ(s.runtime.attention_kernel, AttentionKernel::unfused);
    EXPECT_TRUE(s.runtime.fused_norm && s.runtime.fused_optimizer) << "Apex's";
    EXPECT_EQ(s.training.gradient_dtype, DType::fp16);
    EXPECT_EQ(s.strategy.schedule, "1f1b");
    EXPECT_DOUBLE_EQ(s.runtime.batch_us, 1000);
    const Practice p = practice_of(s);
    EXPECT_TRUE(p.megatrons_layers && p.bias_apart && p.plain_gates && p.rings_between_two_nodes);
    EXPECT_EQ(p.vocabulary_multiple, 128);
    for (const bool later : {p.separate_linears, p.shifts_logits_apart, p.reads_loss, p.module_calls, p.engine_norms, p.lazy_loading,
                             p.keeps_scores, p.copies_with_collectives, p.module_hooks, p.reduces_whole, p.foreach_temporaries})
        EXPECT_FALSE(later);
}

} // namespace

TEST(Defaults, SoftwareOf2019And2020IsMegatronsAndDeepSpeedsOfThen) {
    for (const char* framework : {"megatron", "deepspeed"})
        for (const char* year : {"2019", "2020"}) {
            const bool fuses = year == std::string_view("2020");
            const Scenario s = with({std::string("strategy.framework=") + framework, std::string("runtime.year=") + year,
                                     "training.precision=fp16", "strategy.tensor_parallel=4", "strategy.pipeline_parallel=2"});
            expect_early_practice(s);
            EXPECT_EQ(s.strategy.fused, fuses) << framework << year;
            EXPECT_EQ(s.runtime.fused_softmax, fuses) << framework << year;
            EXPECT_EQ(s.strategy.zero_stage, framework == std::string_view("deepspeed") ? 1 : 0);
        }
}

// ZeRO-3 of before 2022 gathers a parameter where it is used and hides nothing; Hugging Face's Trainer calls DeepSpeed from 2021 on, and
// before then a model like Llama has Megatron's layers, too.
TEST(Defaults, DeepSpeedsZero3OfBefore2022HidesNothing) {
    const auto of = [](const char* year) {
        return with({"strategy.framework=deepspeed", "model=llama3-8b", "strategy.zero_stage=3", "training.sequence_length=1024",
                     std::string("runtime.year=") + year});
    };
    for (const char* year : {"2019", "2020", "2021", "2022"}) {
        const Scenario s = of(year);
        const Practice p = practice_of(s);
        const bool early = std::string_view(year) < "2022", trainer = std::string_view(year) >= "2021";
        EXPECT_EQ(s.strategy.overlap.param_gather, !early) << year;
        EXPECT_EQ(s.strategy.overlap.grad_reduce, !early) << year;
        EXPECT_EQ(p.gathers_where_used, early) << year;
        EXPECT_EQ(p.collectives_on_lists, early) << year;
        EXPECT_EQ(p.alone_beyond, early ? 1'000'000 : 0) << year;
        EXPECT_EQ(p.copies_with_collectives, !early) << year;
        EXPECT_EQ(p.separate_linears, trainer) << year;
        EXPECT_EQ(p.megatrons_layers, !trainer) << year;
    }
}

// "auto" of Hugging Face's Trainer (transformers/integrations/deepspeed.py): hidden^2 to reduce, 0.9 hidden^2 to ask for ahead, 10 hidden
// to keep whole. Llama 3 8B has 4,096 columns; a GPT without gates is Megatron-DeepSpeed's, with DeepSpeed's own sizes.
TEST(Defaults, TrainersSizesOfZero3FollowTheHiddenSize) {
    const auto of = [](std::vector<std::string> fields) {
        fields.insert(fields.begin(), {"strategy.framework=deepspeed", "strategy.zero_stage=3", "runtime.year=2024",
                                       "training.sequence_length=1024", "training.precision=bf16"});
        return with(fields);
    };
    const Scenario trainer = of({"model=llama3-8b"});
    EXPECT_EQ(stage3::sizes_of(trainer).prefetch_bucket_size, 15'099'494);
    EXPECT_EQ(stage3::sizes_of(trainer).param_persistence_threshold, 40'960);
    EXPECT_EQ(trainer.strategy.bucket_bytes.count, 2 * 4096 * 4096);
    EXPECT_FALSE(of({"model=llama3-8b", "cluster.nodes=2"}).strategy.overlap.backward_prefetch);
    for (const char* own : {"model=gpt2-124m", "strategy.tensor_parallel=2", "strategy.context_parallel=2", "runtime.year=2020",
                            "strategy.framework=fsdp", "strategy.zero_stage=2"}) {
        const stage3::Sizes sizes = stage3::sizes_of(of({"model=llama3-8b", own}));
        EXPECT_EQ(sizes.prefetch_bucket_size, 50'000'000) << own;
        EXPECT_EQ(sizes.param_persistence_threshold, 100'000) << own;
    }
}

// autograd's gradients are like their parameters: fp32 of fp32 ones under autocast or FSDP's mixed precision, 16 bits of 16-bit ones.
TEST(Defaults, WithoutMastersGradientsAreLikeTheirParameters) {
    for (const char* framework : {"ddp", "fsdp", "fsdp2", "torchtitan"})
        for (const char* precision : {"bf16", "fp16"}) {
            const std::vector<std::string> fields = {std::string("strategy.framework=") + framework,
                                                     std::string("training.precision=") + precision, "training.master_weights=false"};
            EXPECT_EQ(name(with(fields).training.gradient_dtype), std::string(precision)) << framework;
        }
    EXPECT_EQ(with({"strategy.framework=ddp", "training.precision=bf16"}).training.gradient_dtype, DType::fp32);
    EXPECT_EQ(with({"strategy.framework=ddp", "training.precision=bf16", "training.master_weights=false", "training.gradient_dtype=fp32"})
                  .training.gradient_dtype,
              DType::fp32);
}

// Models after Llama on data-parallel ranks alone are the Trainer's, in eager layers; GPTs, pipelines, tensor parallelism, Ulysses and
// DeepSpeed's own mixtures are Megatron-DeepSpeed's, with fused ones.
TEST(Defaults, DeepSpeedTrainsTransformersModelsUnderZeroAlone) {
    const auto fused = [](std::vector<std::string> fields) {
        fields.insert(fields.begin(), {"strategy.framework=deepspeed", "runtime.year=2023"});
        const Scenario s = with(fields);
        EXPECT_EQ(s.runtime.fused_rope, s.strategy.fused);
        EXPECT_EQ(is_noted(s, "strategy.fused"), !s.strategy.fused);
        return s.strategy.fused;
    };
    for (const char* stage : {"strategy.zero_stage=2", "strategy.zero_stage=3"}) {
        EXPECT_FALSE(fused({"model=llama3-8b", stage})) << stage;
        EXPECT_FALSE(fused({"model.norm=rmsnorm", stage})) << stage;
        EXPECT_FALSE(fused({"model.activation=geglu", stage})) << stage;
        EXPECT_TRUE(fused({stage})) << "a GPT, " << stage;
    }
    EXPECT_FALSE(fused({"model=llama3-8b", "strategy.zero_stage=1"}));
    EXPECT_TRUE(fused({"model=llama3-8b", "strategy.zero_stage=2", "strategy.tensor_parallel=2"}));
    EXPECT_TRUE(fused({"model=llama3-8b", "strategy.zero_stage=3", "strategy.context_parallel=2"}));
    EXPECT_FALSE(fused({"model=mixtral-8x7b", "strategy.zero_stage=3"}));
    EXPECT_TRUE(fused({"model=mixtral-8x7b", "strategy.zero_stage=2", "strategy.expert_parallel=8"}));
    EXPECT_TRUE(with({"strategy.framework=deepspeed", "model=llama3-8b", "strategy.zero_stage=2", "strategy.fused=true"}).strategy.fused);
}

// Transformers spells its RMSNorm out in every release; torch.nn.RMSNorm, which torchtitan's models call, is one kernel since 2.9.
TEST(Defaults, NormsOfTransformersStaySeveralKernels) {
    const auto fused = [](const char* framework, const char* year, const char* zero) {
        return with({"model=llama3-8b", std::string("strategy.framework=") + framework, std::string("runtime.year=") + year,
                     std::string("strategy.zero_stage=") + zero, "strategy.fused=false"})
            .runtime.fused_norm;
    };
    for (const char* year : {"2023", "2024", "2025", "2026"}) {
        for (const auto& [framework, zero] : {std::pair{"ddp", "0"}, {"fsdp", "3"}, {"deepspeed", "3"}})
            EXPECT_FALSE(fused(framework, year, zero)) << framework << year;
        for (const char* framework : {"torchtitan", "fsdp2"})
            EXPECT_EQ(fused(framework, year, "3"), std::string_view(year) == "2026") << framework << year;
    }
}

// torchtitan of August 2025 asks for no early stop, and a compiler drops what no gradient needs anyway.
TEST(Defaults, TorchtitansEagerBlocksRunAgainAsAWhole) {
    const auto stops = [](const char* year, const char* fused) {
        return with({"strategy.framework=torchtitan", std::string("runtime.year=") + year, std::string("strategy.fused=") + fused})
            .runtime.recompute_early_stop;
    };
    EXPECT_TRUE(stops("2024", "false"));
    EXPECT_FALSE(stops("2025", "false"));
    EXPECT_TRUE(stops("2025", "true"));
    EXPECT_TRUE(with({"strategy.framework=torchtitan", "runtime.year=2025", "strategy.fused=false", "runtime.recompute_early_stop=true"})
                    .runtime.recompute_early_stop);
}

TEST(Defaults, ANoteNamesThatTorchtitanIsTakenToCompile) {
    EXPECT_TRUE(is_noted(with({"strategy.framework=torchtitan"}), "strategy.fused"));
    EXPECT_FALSE(is_noted(with({"strategy.framework=torchtitan", "strategy.fused=true"}), "strategy.fused"));
    EXPECT_FALSE(is_noted(with({"strategy.framework=fsdp2"}), "strategy.fused"));
}

// Narayanan 2021 had no asynchronous all-reduce, Megatron of March 2022 has, Megatron-DeepSpeed switches it off.
TEST(Defaults, TensorParallelOverlapFollowsFrameworkAndYear) {
    EXPECT_FALSE(with({"strategy.tensor_parallel=4", "runtime.year=2021"}).strategy.overlap.tensor_parallel);
    EXPECT_TRUE(with({"strategy.tensor_parallel=4", "runtime.year=2022"}).strategy.overlap.tensor_parallel);
    EXPECT_FALSE(
        with({"strategy.tensor_parallel=4", "runtime.year=2024", "strategy.framework=deepspeed"}).strategy.overlap.tensor_parallel);
}

TEST(Defaults, XlaShardsAndRecomputesAsMaxTextDoes) {
    const Scenario silent = with({"strategy.framework=jax"}),
                   told = with({"strategy.framework=jax", "strategy.zero_stage=0", "strategy.recompute=none"});
    EXPECT_EQ(silent.strategy.zero_stage, 3);
    EXPECT_EQ(silent.strategy.recompute, RecomputeKind::full);
    EXPECT_EQ(told.strategy.zero_stage, 0);
    EXPECT_EQ(told.strategy.recompute, RecomputeKind::none);
}

TEST(Defaults, XlaHidesReductionsOnGpusFrom2025) {
    const auto hidden = [](const char* cluster, const char* year) {
        return with({std::string("cluster.preset=") + cluster, "strategy.framework=jax", std::string("runtime.year=") + year})
            .strategy.overlap.grad_reduce;
    };
    EXPECT_FALSE(hidden("dgx-h100", "2024"));
    EXPECT_FALSE(hidden("dgx-a100-80gb", "2023"));
    EXPECT_TRUE(hidden("dgx-h100", "2025"));
    EXPECT_TRUE(hidden("tpu-v5p-pod", "2023"));
}

TEST(Defaults, ModulesFollowTheirRecipes) {
    const auto runtime = [](const char* framework, const char* year, std::vector<std::string> more = {}) {
        more.insert(more.begin(), {std::string("strategy.framework=") + framework, std::string("runtime.year=") + year});
        return with(more).runtime;
    };
    EXPECT_FALSE(runtime("megatron", "2024").tensor_parallel_buffers) << "--tp-comm-overlap is off";
    EXPECT_TRUE(runtime("megatron", "2026").tensor_parallel_buffers) << "recipes set it";
    EXPECT_TRUE(runtime("nemo", "2025").tensor_parallel_buffers);
    const auto low = [&](const char* framework, const char* year, const char* precision, const char* recipe) {
        return runtime(
                   framework, year,
                   {"cluster.preset=dgx-b200", std::string("training.precision=") + precision, std::string("runtime.fp8_recipe=") + recipe})
            .fp8_parameters;
    };
    EXPECT_FALSE(low("megatron", "2026", "fp8", "current")) << "--fp8-param-gather is off";
    EXPECT_TRUE(low("nemo", "2024", "fp8", "delayed"));
    EXPECT_TRUE(low("nemo", "2026", "fp8", "current"));
    EXPECT_FALSE(low("nemo", "2026", "fp8", "blockwise"));
    EXPECT_FALSE(low("nemo", "2025", "mxfp8", "mxfp8")) << "NeMo 2.0";
    EXPECT_TRUE(low("nemo", "2026", "mxfp8", "mxfp8")) << "Megatron Bridge";
    EXPECT_FALSE(low("nemo", "2026", "nvfp4", "nvfp4"));
    EXPECT_FALSE(runtime("nemo", "2023").fused_loss);
    EXPECT_TRUE(runtime("nemo", "2024").fused_loss);
    EXPECT_TRUE(runtime("nemo", "2024").compiled_loss);
    EXPECT_FALSE(runtime("nemo", "2025").compiled_loss);
}

TEST(Defaults, GradientsHaveTheFrameworksDtype) {
    EXPECT_EQ(with({"training.precision=bf16"}).training.gradient_dtype, DType::fp32);
    EXPECT_EQ(with({"training.precision=fp16"}).training.gradient_dtype, DType::fp16);
    EXPECT_EQ(with({"training.precision=fp32"}).training.gradient_dtype, DType::fp32);
    EXPECT_FALSE(with({"training.precision=fp32"}).training.master_weights);
    EXPECT_EQ(with({"training.precision=bf16"}).training.moment_dtype, DType::fp32);
    EXPECT_EQ(with({"training.precision=bf16", "training.master_weights=false"}).training.moment_dtype, DType::bf16);
    EXPECT_EQ(with({"training.precision=bf16", "training.master_weights=false", "training.moment_dtype=fp32"}).training.moment_dtype,
              DType::fp32);
    EXPECT_EQ(with({"training.precision=bf16", "training.moment_dtype=bf16"}).training.moment_dtype, DType::bf16);
    EXPECT_EQ(with({"training.precision=fp32"}).training.moment_dtype, DType::fp32);
    EXPECT_EQ(with({"strategy.framework=fsdp"}).training.gradient_dtype, DType::bf16);
    EXPECT_EQ(with({"strategy.framework=fsdp", "training.precision=fp32"}).training.gradient_dtype, DType::fp32);
    EXPECT_EQ(with({"strategy.framework=fsdp", "training.precision=fp16"}).training.gradient_dtype, DType::fp16);
    EXPECT_EQ(with({"strategy.framework=ddp"}).training.gradient_dtype, DType::fp32);
    EXPECT_EQ(with({"strategy.framework=composer"}).training.gradient_dtype, DType::bf16) << "mixed_precision: PURE";
    EXPECT_EQ(with({"strategy.framework=composer", "training.precision=fp16"}).training.gradient_dtype, DType::fp16);
    EXPECT_EQ(with({"strategy.framework=nanotron"}).strategy.zero_stage, 0);
}

// Megatron-Core's precision-aware optimizer: with Transformer Engine 2.1 (2025) masters are what bf16 parameters lack, where the condition
// of OptimizerConfig.__post_init__ leaves them to Transformer Engine.
TEST(Defaults, MastersAreRemaindersWhereTransformerEngineHoldsThem) {
    const auto remainders = [](const char* framework, const char* year, const char* moments, const char* precision,
                               std::vector<std::string> more = {}) {
        more.insert(more.begin(),
                    {"cluster.preset=dgx-b200", std::string("strategy.framework=") + framework, std::string("runtime.year=") + year,
                     std::string("training.moment_dtype=") + moments, std::string("training.precision=") + precision});
        return with(more).training.master_remainders;
    };
    EXPECT_TRUE(remainders("megatron", "2025", "bf16", "bf16"));
    EXPECT_TRUE(remainders("megatron", "2026", "bf16", "nvfp4"));
    EXPECT_FALSE(remainders("megatron", "2024", "bf16", "bf16"));
    EXPECT_FALSE(remainders("megatron", "2025", "bf16", "bf16", {"strategy.zero_stage=0"})) << "it is distributed";
    EXPECT_FALSE(remainders("nemo", "2025", "fp32", "bf16", {"training.optimizer=sgd"})) << "it is Adam";
    EXPECT_FALSE(remainders("megatron", "2025", "fp32", "bf16"));
    EXPECT_TRUE(is_noted(with({"strategy.framework=ddp", "training.master_remainders=true"}), "training.master_remainders"))
        << "autocast's parameters are fp32";
    EXPECT_FALSE(remainders("megatron", "2025", "bf16", "fp16"));
    EXPECT_FALSE(remainders("fsdp2", "2025", "bf16", "bf16"));
    for (const char* framework : {"megatron", "nemo"}) // an fp8 recipe other than delayed never has them
        for (const char* year : {"2025", "2026"})
            for (const char* moments : {"fp32", "bf16"}) {
                for (const char* recipe : {"current", "blockwise", "mxfp8"})
                    EXPECT_FALSE(remainders(framework, year, moments, "fp8", {std::string("runtime.fp8_recipe=") + recipe}))
                        << framework << " " << year << " " << recipe;
                EXPECT_FALSE(remainders(framework, year, moments, "mxfp8"));
            }
    const std::vector<std::string> delayed{"runtime.fp8_recipe=delayed", "runtime.fp8_parameters=false"};
    EXPECT_TRUE(remainders("megatron", "2025", "bf16", "fp8", delayed));
    EXPECT_FALSE(remainders("megatron", "2025", "bf16", "fp8", {"runtime.fp8_recipe=delayed", "runtime.fp8_parameters=true"}))
        << "parameters of 8 bits are no part of a master";
    // NeMo 2.0's scripts switch it on in bf16, whatever the moments; Megatron Bridge's bf16 gives the optimizer "tensorwise".
    EXPECT_TRUE(remainders("nemo", "2025", "fp32", "bf16"));
    EXPECT_FALSE(remainders("nemo", "2025", "fp32", "bf16", {"strategy.zero_stage=3"})) << "Megatron-FSDP has none";
    EXPECT_FALSE(remainders("nemo", "2025", "fp32", "bf16", {"strategy.offload.optimizer=cpu"})) << "the host steps on whole masters";
    EXPECT_FALSE(remainders("nemo", "2026", "fp32", "bf16"));
    EXPECT_FALSE(remainders("nemo", "2026", "bf16", "bf16"));
    EXPECT_TRUE(remainders("nemo", "2026", "bf16", "nvfp4")) << "bf16_with_nvfp4_mixed: fp8_recipe = None";
}

// DeepSpeed's engine, get_data_types: gradients in the model's dtype, but for bf16 without ZeRO.
TEST(Defaults, DeepSpeedsGradientsHaveTheModelsDtype) {
    EXPECT_EQ(with({"strategy.framework=deepspeed", "training.precision=bf16", "strategy.zero_stage=2"}).training.gradient_dtype,
              DType::bf16);
    EXPECT_EQ(with({"strategy.framework=deepspeed", "training.precision=bf16", "strategy.zero_stage=0"}).training.gradient_dtype,
              DType::fp32);
    EXPECT_EQ(with({"strategy.framework=deepspeed", "training.precision=fp16"}).training.gradient_dtype, DType::fp16);
}

// All NICs at half speed are a cluster of such NICs, whichever way it is said.
TEST(Perturbations, AClassOfLinksIsAClusterOfSuchLinks) {
    const double whole = with({"cluster.nodes=2"}).cluster.inter.nic_bandwidth.value;
    EXPECT_DOUBLE_EQ(with({"cluster.nodes=2", R"(perturb=[{"slow":2,"link":"nic"}])"}).cluster.inter.nic_bandwidth.value, whole / 2);
    EXPECT_DOUBLE_EQ(with({"cluster.nodes=2", R"(perturb=[{"background":0.5,"link":"nic"}])"}).cluster.inter.nic_bandwidth.value,
                     whole / 2);
    for (const char* of_one_node :
         {R"(perturb=[{"slow":2,"link":"nic","node":1}])", R"(perturb=[{"background":0.5,"link":"nic","node":1}])"}) {
        const Scenario s = with({"cluster.nodes=2", of_one_node});
        EXPECT_DOUBLE_EQ(s.cluster.inter.nic_bandwidth.value, whole) << of_one_node << ": the engine slows them";
        EXPECT_EQ(s.perturb.at(0).index, 1) << of_one_node;
    }
}

TEST(Defaults, BucketsHaveTheFrameworksSize) {
    EXPECT_EQ(with({"strategy.framework=ddp"}).strategy.bucket_bytes.count, 25 << 20);
    EXPECT_EQ(with({}).strategy.bucket_bytes.count, 40'000'000ll * 4);
    EXPECT_EQ(with({"cluster.nodes=16", "training.global_batch_size=128"}).strategy.bucket_bytes.count, 128'000'000ll * 4)
        << "1 M elements a data-parallel rank";
    EXPECT_EQ(with({"strategy.framework=deepspeed", "training.precision=fp16"}).strategy.bucket_bytes.count, 1'000'000'000);
    EXPECT_EQ(with({"strategy.bucket_bytes=\"8 MiB\""}).strategy.bucket_bytes.count, 8 << 20);
}

// Kernels that cap scores: a default that has none gives way, a stated one is refused.
TEST(Defaults, CappedScoresNeedAKernelThatCaps) {
    const std::string cap = "model.attention.score_cap=50";
    for (const std::vector<std::string>& job : {std::vector<std::string>{"cluster.preset=dgx-h100"}, {"runtime.year=2023"}}) {
        std::vector<std::string> capped = job;
        capped.push_back(cap);
        EXPECT_EQ(with(capped).runtime.attention_kernel, AttentionKernel::flash2);
    }
    for (const std::string kernel : {"cudnn", "flash-1"}) {
        const auto problems = problems_with({cap, "runtime.attention_kernel=" + kernel});
        ASSERT_EQ(problems.size(), 1u) << to_text(problems);
        EXPECT_EQ(problems[0].where, "/runtime/attention_kernel");
        EXPECT_NE(problems[0].what.find("score_cap"), std::string::npos);
    }
    EXPECT_EQ(problems_with({cap, "runtime.attention_kernel=flash-2"}).size(), 0u);
}

TEST(Defaults, AttentionKernelFollowsYearDeviceAndFlash) {
    EXPECT_EQ(with({"runtime.year=2021"}).runtime.attention_kernel, AttentionKernel::unfused);
    EXPECT_FALSE(with({"runtime.year=2021"}).strategy.flash_attention);
    EXPECT_EQ(with({"runtime.year=2023"}).runtime.attention_kernel, AttentionKernel::flash1);
    EXPECT_EQ(with({"runtime.year=2024"}).runtime.attention_kernel, AttentionKernel::flash2);
    EXPECT_EQ(with({"cluster.preset=dgx-h100"}).runtime.attention_kernel, AttentionKernel::cudnn);
    EXPECT_EQ(with({"cluster.preset=dgx-h100", "strategy.framework=fsdp"}).runtime.attention_kernel, AttentionKernel::flash2);
    // On B200 plain PyTorch of 2025 takes FlashAttention 2; what calls cuDNN by name, or asks for it first, does not.
    for (const char* plain : {"ddp", "fsdp", "fsdp2", "deepspeed"}) {
        const std::string framework = std::string("strategy.framework=") + plain;
        EXPECT_EQ(with({"cluster.preset=dgx-b200", framework}).runtime.attention_kernel, AttentionKernel::flash2) << plain;
        EXPECT_EQ(with({"cluster.preset=dgx-b200", framework, "runtime.year=2026"}).runtime.attention_kernel, AttentionKernel::cudnn)
            << plain;
    }
    for (const char* asks : {"megatron", "nemo", "te", "jax", "torchtitan"})
        EXPECT_EQ(with({"cluster.preset=dgx-b200", std::string("strategy.framework=") + asks}).runtime.attention_kernel,
                  AttentionKernel::cudnn)
            << asks;
    EXPECT_EQ(with({"cluster.preset=dgx-v100", "training.precision=fp16"}).runtime.attention_kernel, AttentionKernel::unfused);
    EXPECT_FALSE(with({"runtime.attention_kernel=unfused"}).strategy.flash_attention);
    EXPECT_EQ(with({"strategy.flash_attention=false"}).runtime.attention_kernel, AttentionKernel::unfused);
}

// Since June 2026 in all its language models; before, in those that scaled_dot_product_attention has no fast kernel for.
TEST(Defaults, TorchtitanTakesFlexAttention) {
    const auto kernel = [](const char* year, const std::vector<std::string>& more = {}) {
        std::vector<std::string> fields{"cluster.preset=dgx-h100", "strategy.framework=torchtitan", std::string("runtime.year=") + year};
        fields.insert(fields.end(), more.begin(), more.end());
        return with(fields).runtime.attention_kernel;
    };
    EXPECT_EQ(kernel("2025"), AttentionKernel::flash2);
    EXPECT_EQ(kernel("2026"), AttentionKernel::flex);
    EXPECT_EQ(kernel("2026", {"runtime.attention_kernel=cudnn"}), AttentionKernel::cudnn);
    EXPECT_EQ(kernel("2026", {"strategy.flash_attention=false"}), AttentionKernel::unfused);
    for (const char* special : {"model.attention.sliding_window=128", "training.document_tokens=256"}) {
        EXPECT_EQ(kernel("2024", {special}), AttentionKernel::flash2) << special;
        EXPECT_EQ(kernel("2025", {special}), AttentionKernel::flex) << special;
        EXPECT_EQ(kernel("2025", {special, "runtime.attention_kernel=flash-2"}), AttentionKernel::flash2) << special;
        EXPECT_EQ(kernel("2025", {special, "strategy.flash_attention=false"}), AttentionKernel::unfused) << special;
        EXPECT_EQ(with({"cluster.preset=dgx-h100", "strategy.framework=fsdp2", "runtime.year=2025", special}).runtime.attention_kernel,
                  AttentionKernel::flash2)
            << special;
    }
    EXPECT_EQ(kernel("2025", {"model=deepseek-v2-lite"}), AttentionKernel::flex) << "keys wider than values";
    EXPECT_EQ(with({"cluster.preset=dgx-v100", "strategy.framework=torchtitan", "runtime.year=2026", "training.precision=fp16"})
                  .runtime.attention_kernel,
              AttentionKernel::unfused);
}

TEST(Defaults, FlexAttentionUnderTransformerEngineIsNamed) {
    const auto named = [](const std::string& framework) {
        const Scenario s = with({"cluster.preset=dgx-h100", "strategy.framework=" + framework, "runtime.attention_kernel=flex"});
        return std::ranges::any_of(s.notes, [](const std::string& n) { return n.find("has no FlexAttention") != std::string::npos; });
    };
    EXPECT_TRUE(named("megatron") && named("te"));
    EXPECT_FALSE(named("torchtitan") || named("fsdp2"));
}

// The cost model counts the launches that a graph saves: kernels that no graph can hold are still launched one by one.
TEST(Defaults, CudaGraphsLeaveTheLaunchTimeOfOtherKernels) {
    EXPECT_DOUBLE_EQ(with({}).runtime.launch_us, 6);
    EXPECT_DOUBLE_EQ(with({"runtime.cuda_graphs=true"}).runtime.launch_us, 6);
}

// The software's own times are of a host of speed 1; what is stated, with the device or for the job, is of the host that there is.
TEST(Defaults, HostTimesFollowTheHostsSpeedWhereNothingStatesThem) {
    const Scenario slow = with({"cluster.host.speed=0.5"});
    EXPECT_DOUBLE_EQ(slow.runtime.launch_us, 2 * with({}).runtime.launch_us);
    EXPECT_TRUE(slow.defaults.at("/runtime/launch_us").find("cluster.host.speed = 0.5") != std::string::npos);
    EXPECT_DOUBLE_EQ(with({"cluster.host.speed=0.5", "runtime.launch_us=3"}).runtime.launch_us, 3);
    EXPECT_DOUBLE_EQ(with({"cluster.host.speed=0.5", "cluster.device.launch_us=4"}).runtime.launch_us, 4);
    const std::vector<std::string> of_2022{"strategy.framework=megatron", "runtime.year=2022"};
    std::vector<std::string> slower = of_2022;
    slower.push_back("cluster.host.speed=0.8");
    EXPECT_GT(with(of_2022).runtime.batch_us, 0);
    EXPECT_DOUBLE_EQ(with(slower).runtime.batch_us, with(of_2022).runtime.batch_us / 0.8);
    slower.push_back("runtime.batch_us=70");
    EXPECT_DOUBLE_EQ(with(slower).runtime.batch_us, 70);
}

TEST(Defaults, FusedExpertsComeWithGraphsOfWholeStepsAndTheOverlapOfDispatches) {
    const std::vector<std::string> recipe{
        "cluster.preset=dgx-b200",           "strategy.framework=megatron", "runtime.year=2026",
        "training.precision=mxfp8",          "model.moe.experts=8",         "model.moe.top_k=2",
        "model.moe.expert_ffn_size=64",      "strategy.data_parallel=16",   "strategy.expert_parallel=8",
        "runtime.token_dispatcher=hybridep", "runtime.cuda_graphs=true",    "strategy.overlap.expert_parallel=true"};
    EXPECT_TRUE(with(recipe).runtime.fused_experts);
    for (const char* other : {"runtime.year=2025", "training.precision=bf16", "runtime.token_dispatcher=alltoall",
                              "runtime.cuda_graphs=false", "strategy.overlap.expert_parallel=false", "runtime.fused_experts=false"}) {
        std::vector<std::string> changed = recipe;
        changed.emplace_back(other);
        EXPECT_FALSE(with(changed).runtime.fused_experts) << other;
    }
}

TEST(Defaults, ExpertsWithBiasesAndAGateClamp) {
    const std::vector<std::string> experts{"model.moe.experts=8", "model.moe.top_k=2", "model.activation=swiglu", "model.bias=true"};
    const auto clamp = [&](const char* more) {
        std::vector<std::string> fields = experts;
        fields.emplace_back(more);
        return with(fields).model.activation_clamp;
    };
    EXPECT_DOUBLE_EQ(clamp("model.bias=true"), 7);
    EXPECT_DOUBLE_EQ(clamp("model.activation_clamp=0"), 0);
    EXPECT_DOUBLE_EQ(clamp("model.activation_clamp=5"), 5);
    EXPECT_DOUBLE_EQ(clamp("model.bias=false"), 0);
    EXPECT_DOUBLE_EQ(clamp("model.activation=gelu"), 0);
}

TEST(Defaults, ScheduleFollowsThePipeline) {
    EXPECT_EQ(with({}).strategy.schedule, "none");
    EXPECT_EQ(with({"strategy.pipeline_parallel=4"}).strategy.schedule, "1f1b");
    const Scenario interleaved = with({"strategy.pipeline_parallel=4", "strategy.virtual_pipeline=3"});
    EXPECT_EQ(interleaved.strategy.schedule, "interleaved-1f1b");
    EXPECT_TRUE(interleaved.strategy.overlap.pipeline);
    EXPECT_EQ(with({"strategy.pipeline_parallel=4", "strategy.schedule=zb-v"}).strategy.virtual_pipeline, 2);
}

TEST(Notes, FieldsWithoutEffectAreNamed) {
    const Scenario s = with({"training.learning_rate=0.001", "strategy.sequence_parallel=true", "strategy.shard_group_size=8",
                             "strategy.zero_stage=0", "runtime.token_dispatcher=deepep"});
    for (const char* field :
         {"training.learning_rate", "strategy.sequence_parallel", "strategy.shard_group_size", "runtime.token_dispatcher"})
        EXPECT_TRUE(is_noted(s, field)) << field;
    EXPECT_TRUE(with({"strategy.tensor_parallel=2", "strategy.sequence_parallel=true"}).notes.empty());
    const auto deferred = [](std::vector<std::string> fields) {
        fields.push_back("strategy.deferred_output_gradients=4");
        return is_noted(with(fields), "strategy.deferred_output_gradients");
    };
    EXPECT_FALSE(deferred({"strategy.pipeline_parallel=4"}));
    EXPECT_TRUE(deferred({"strategy.pipeline_parallel=1"}));
    EXPECT_TRUE(deferred({"strategy.pipeline_parallel=4", "strategy.schedule=zb-h1"}));
    EXPECT_TRUE(deferred({"strategy.pipeline_parallel=4", "runtime.loss=chunked"}));
    EXPECT_TRUE(deferred({"strategy.pipeline_parallel=4", "model.trainable.lora.rank=8"})) << "the head is not trained";
}

TEST(Unsupported, WhatHasNoLoweringIsRefusedByName) {
    const auto first = [](const std::vector<std::string>& overrides) {
        const auto problems = unsupported(with(overrides));
        return problems.size() == 1 ? to_text(problems) : std::to_string(problems.size()) + " problems";
    };
    EXPECT_EQ(first({"strategy.context_parallel=2"}), "0 problems");
    EXPECT_EQ(first({"strategy.offload.optimizer=cpu"}), "0 problems");
    EXPECT_EQ(first({"strategy.offload.parameters=nvme", "strategy.offload.optimizer=nvme", "strategy.zero_stage=3"}), "0 problems");
    EXPECT_EQ(first({"strategy.offload.optimizer=cpu", "strategy.offload.delayed_update=true"}), "0 problems");
    EXPECT_EQ(first({"strategy.gradient_compression=int8", "strategy.zero_stage=0"}), "0 problems");
    EXPECT_EQ(first({"strategy.gradient_compression=powersgd", "strategy.zero_stage=0"}), "0 problems");
    EXPECT_EQ(first({"strategy.gradient_compression={\"kind\": \"powersgd\", \"rank\": 4}", "strategy.zero_stage=0"}), "0 problems");
    for (const char* stage : {"1", "2", "3"})
        for (const char* kind : {"bf16", "int8", "top-k", "powersgd"})
            EXPECT_EQ(first({std::string("strategy.gradient_compression=") + kind, std::string("strategy.zero_stage=") + stage}),
                      "0 problems")
                << kind << stage;
    EXPECT_EQ(
        first({"strategy.gradient_compression=onebit-adam", "strategy.zero_stage=1"}),
        "/strategy/gradient_compression: strategy.gradient_compression = onebit-adam with strategy.zero_stage = 1 (DeepSpeed's engine "
        "refuses it too: its 1-bit optimizers have the momentum whole on every rank) is not modelled yet: all other kinds go with "
        "ZeRO; zero_stage = 0 has these too\n");
    EXPECT_EQ(first({"model.attention.sliding_window=256"}), "0 problems");
    EXPECT_EQ(first({"model=mixtral-8x7b", "strategy.expert_parallel=8"}), "0 problems");
    EXPECT_EQ(first({"model=mixtral-8x7b", "strategy.tensor_parallel=2", "strategy.sequence_parallel=false"})
                  .find("/strategy/sequence_parallel: a mixture"),
              0u);
}

TEST(RankOrder, ShorterOrdersAreFilledUp) {
    EXPECT_EQ(with({"strategy.rank_order=tp-pp-dp", "strategy.tensor_parallel=2", "strategy.pipeline_parallel=2"}).strategy.rank_order,
              parse_rank_order("tp-cp-ep-pp-dp"));
    EXPECT_EQ(problems_with({"strategy.rank_order=tp-pp", "strategy.tensor_parallel=2"}).size(), 1u);
}

TEST(Suggest, EveryShortNameStandsForAFieldThatExists) {
    for (const auto& [name, field] : short_names()) EXPECT_NE(find_field(field), nullptr) << name << " -> " << field;
    EXPECT_EQ(field_of_short_name("TP"), "strategy.tensor_parallel");
    EXPECT_EQ(field_of_short_name("seq-len"), "training.sequence_length");
    EXPECT_EQ(field_of_short_name("tensor_parallel"), "");
    EXPECT_EQ(field_of_short_name("grad_reduce_in_fp32"), "training.gradient_dtype");
    EXPECT_EQ(remark_on_short_name("grad-reduce-in-fp32"), "true is fp32, false bf16");
    EXPECT_EQ(remark_on_short_name("tp"), "");
    EXPECT_EQ(field_of_short_name("compile"), "strategy.fused");
    EXPECT_EQ(field_of_short_name("fsdp"), "strategy.zero_stage");
    EXPECT_EQ(meant_by_other_word("cluster.inter_node.kind", "IB"), "\"infiniband\"");
}

TEST(Suggest, AHubsNameIsLookedUpWithoutItsOwner) {
    const std::vector<std::string> models = {"llama3-8b", "llama3.1-8b", "qwen3-4b", "qwen3-8b"};
    EXPECT_EQ(did_you_mean("meta-llama/Llama-3.1-8B", models), ": did you mean \"llama3.1-8b\"?");
    EXPECT_EQ(did_you_mean("Qwen/Qwen3-8B", models), ": did you mean \"qwen3-8b\"?");
    EXPECT_EQ(did_you_mean("somebody/", models), "");
}

// A tool's word brings words that the field takes, not one that it begins with ("megatron-bridge" is no "megatron").
TEST(Suggest, OtherToolsWordsComeAheadOfWhatIsNear) {
    const std::vector<std::string> frameworks = words<Framework>();
    EXPECT_EQ(nearest("megatron-bridge", frameworks), "megatron");
    EXPECT_EQ(did_you_mean_value("strategy.framework", "Megatron_Bridge", frameworks), ": did you mean \"nemo\"?");
    EXPECT_EQ(did_you_mean_value("strategy.framework", "megatrn", frameworks), ": did you mean \"megatron\"?");
    EXPECT_EQ(did_you_mean_value("strategy.framework", "quux", frameworks), ".");
    EXPECT_EQ(meant_by_other_word("strategy.framework", "core_attn"), "") << "a word of another field";
    for (const OtherWord& o : other_words()) {
        const Field* field = find_field(o.field);
        ASSERT_NE(field, nullptr) << o.field;
        const std::vector<std::string> taken = o.field == "strategy.recompute"             ? words<RecomputeOp>()
                                               : o.field == "model.trainable.lora.targets" ? words<LoraTarget>()
                                                                                           : field->choices;
        EXPECT_EQ(std::ranges::find(taken, std::string(o.word)), taken.end()) << o.word << " needs no other";
        int quoted = 0;
        for (std::size_t at = 0; (at = o.meant.find('"', at)) != std::string_view::npos; ++quoted) {
            const std::size_t end = o.meant.find('"', at + 1);
            ASSERT_NE(end, std::string_view::npos) << o.meant;
            EXPECT_NE(std::ranges::find(taken, std::string(o.meant.substr(at + 1, end - at - 1))), taken.end()) << o.meant;
            at = end + 1;
        }
        EXPECT_GT(quoted, 0) << o.word;
    }
}

// Megatron's --cp-comm-type.
TEST(Suggest, MegatronsWaysOfContextParallelismAreNamed) {
    EXPECT_EQ(field_of_short_name("cp_comm_type"), "strategy.context_parallel_kind");
    const auto problems = problems_with({"strategy.context_parallel=2", "strategy.context_parallel_kind=a2a+p2p"});
    ASSERT_EQ(problems.size(), 1u) << to_text(problems);
    EXPECT_NE(problems[0].what.find("\"ulysses\" or \"ring\" of all ranks, as one inside the other is not simulated"), std::string::npos)
        << problems[0].what;
    for (const auto& [megatrons, ours] : {std::pair{"p2p", "ring"}, {"a2a", "ulysses"}, {"all_gather", "allgather"}})
        EXPECT_EQ(meant_by_other_word("strategy.context_parallel_kind", megatrons), '"' + std::string(ours) + '"');
}

TEST(Suggest, APartOfANameBringsTheNamesThatHaveIt) {
    EXPECT_EQ(did_you_mean("70b", {"llama2-70b", "gpt2", "llama3-70b"}), ": did you mean \"llama2-70b\" or \"llama3-70b\"?");
    EXPECT_EQ(did_you_mean("H100", {"dgx-a100", "dgx-h100"}), ": did you mean \"dgx-h100\"?");
    EXPECT_EQ(did_you_mean("wholly other", {"dgx-a100"}), "");
}

TEST(Suggest, NearestIsWhatWasMeantOrNothing) {
    const std::vector<std::string> known = {"tensor_parallel", "pipeline_parallel", "zero_stage", "recompute", "recompute_layers"};
    EXPECT_EQ(nearest("tensor-parallel", known), "tensor_parallel");
    EXPECT_EQ(nearest("zerostage", known), "zero_stage");
    EXPECT_EQ(nearest("recomptue", known), "recompute");
    EXPECT_EQ(nearest("tensor", known), "tensor_parallel");
    EXPECT_EQ(nearest("quantum", known), std::nullopt);
    EXPECT_EQ(edit_distance("ab", "ba"), 1);
    EXPECT_EQ(edit_distance("kitten", "sitting"), 3);
}
