// Are the presets' parameters those their authors count?
#include "sim/scenario/model_text.hpp"
#include "sim/scenario/parameters.hpp"
#include "sim/scenario/parse.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <string>
#include <utility>

using namespace orrery;

TEST(Models, EveryPresetCountsWhatIsPublished) {
    int exact = 0;
    for (const std::string& name : model_names()) {
        SCOPED_TRACE(name);
        const ModelResult read = parse_model("\"" + name + "\"");
        ASSERT_TRUE(read.model) << to_text(read.problems);
        const auto preset = find_model(name);
        ASSERT_TRUE(preset);
        EXPECT_FALSE(preset->source.empty());
        EXPECT_FALSE(preset->published_source.empty());
        ASSERT_GT(preset->published_parameters, 0) << "a preset states the published count";
        const auto counted = static_cast<double>(parameter_count(preset->model));
        EXPECT_LE(std::abs(counted - preset->published_parameters), preset->rounded_to / 2);
        if (preset->rounded_to == 0) ++exact;
    }
    EXPECT_GE(exact, 40);
}

// The figures again, from the releases, so that a preset and its count cannot drift together.
TEST(Models, KnownCountsHoldToTheLastParameter) {
    const std::pair<const char*, std::int64_t> known[] = {
        {"gpt2-124m", 124'439'808},       {"gpt2-355m", 354'823'168},         {"gpt2-774m", 774'030'080},
        {"gpt2-1.5b", 1'557'611'200},     {"bloom-176b", 176'247'271'424},    {"opt-6.7b", 6'658'473'984},
        {"mpt-7b", 6'649'286'656},        {"llama2-7b", 6'738'415'616},       {"llama2-13b", 13'015'864'320},
        {"llama2-70b", 68'976'648'192},   {"llama3-8b", 8'030'261'248},       {"llama3-70b", 70'553'706'496},
        {"llama3-405b", 405'853'388'800}, {"mistral-7b", 7'241'732'096},      {"qwen2.5-7b", 7'615'616'512},
        {"qwen2.5-72b", 72'706'203'648},  {"qwen3-8b", 8'190'735'360},        {"qwen3-32b", 32'762'123'264},
        {"mixtral-8x7b", 46'702'792'704}, {"mixtral-8x22b", 140'620'634'112}, {"deepseek-v3", 671'026'419'200},
        {"deepseek-v2", 235'741'434'880}, {"qwen3-30b-a3b", 30'532'122'624},  {"qwen3-235b-a22b", 235'093'634'560},
        {"gemma2-9b", 9'241'705'984},     {"gemma2-27b", 27'227'128'320},     {"gemma3-1b", 999'885'952},
        {"olmo2-7b", 7'298'617'344},      {"olmo2-13b", 13'716'198'400},      {"olmo2-32b", 32'234'279'936},
        {"phi-4", 14'659'507'200},        {"gpt-neox-20b", 20'554'567'680},   {"kimi-k2", 1'026'408'232'448},
        {"glm-4.5", 352'797'829'024},     {"glm-4.5-air", 106'852'251'264},
    };
    for (const auto& [name, count] : known) {
        const auto preset = find_model(name);
        ASSERT_TRUE(preset) << name;
        EXPECT_EQ(parameter_count(preset->model), count) << name;
    }
}

// Narayanan et al., SC'21, equation 2: P = 12 l h^2 (1 + 13/(12 h) + (V + s)/(12 l h)); the final norm's 2 h come on top.
TEST(Models, MegatronSizesFollowTheirEquation) {
    for (const char* name : {"megatron-1.7b", "megatron-18.4b", "megatron-145.6b", "megatron-1008b"}) {
        const Model m = find_model(name).value().model;
        const double l = m.layers, h = static_cast<double>(m.hidden_size);
        const double equation = 12 * l * h * h * (1 + 13 / (12 * h) + (51200.0 + 2048.0) / (12 * l * h));
        EXPECT_NEAR(static_cast<double>(parameter_count(m)), equation + 2 * h, equation * 1e-12) << name;
    }
}

// Papers: Mixtral 12.9B, DeepSeek-V3 37B, Qwen3-30B-A3B 3.3B, Qwen3-235B-A22B 22B, Kimi K2 32.6B active.
TEST(Models, ActiveParametersAreThoseOneTokenMeets) {
    EXPECT_NEAR(static_cast<double>(active_parameter_count(find_model("mixtral-8x7b")->model)), 12.9e9, 0.05e9);
    EXPECT_NEAR(static_cast<double>(active_parameter_count(find_model("deepseek-v3")->model)), 37e9, 0.6e9);
    EXPECT_NEAR(static_cast<double>(active_parameter_count(find_model("qwen3-30b-a3b")->model)), 3.3e9, 0.06e9);
    EXPECT_NEAR(static_cast<double>(active_parameter_count(find_model("qwen3-235b-a22b")->model)), 22e9, 0.5e9);
    EXPECT_NEAR(static_cast<double>(active_parameter_count(find_model("kimi-k2")->model)), 32.6e9, 0.4e9);
    const Model dense = find_model("llama3-8b")->model;
    EXPECT_EQ(active_parameter_count(dense), parameter_count(dense));
}

TEST(Models, WhatIsLeftOutHasTheUsualDefaults) {
    const ModelResult read = parse_model(R"({"layers": 2, "hidden_size": 64, "attention_heads": 4, "vocab_size": 100})");
    ASSERT_TRUE(read.model) << to_text(read.problems);
    EXPECT_EQ(read.model->ffn_size, 256);
    EXPECT_EQ(read.model->kv_heads, 4);
    EXPECT_EQ(read.model->head_dim, 16);
    EXPECT_EQ(read.model->activation, ActivationKind::gelu);
    EXPECT_EQ(read.model->norm, NormKind::layernorm);
    EXPECT_EQ(read.model->position, PositionKind::learned);
    EXPECT_TRUE(read.model->tied_embeddings);
    EXPECT_TRUE(read.model->bias);
}

// Layernorms have biases where linear layers have them, or as norm_bias says: a weight more for each of the two norms of a layer and the
// last one.
TEST(Models, LayernormsHaveBiasesAsToldOrAsLinearLayersHave) {
    const auto parameters = [](const std::string& fields) {
        const ModelResult read = parse_model(R"({"layers": 2, "hidden_size": 64, "attention_heads": 4, "vocab_size": 100)" + fields + "}");
        EXPECT_TRUE(read.model) << to_text(read.problems);
        return read.model ? parameter_count(*read.model) : 0;
    };
    const std::int64_t without = parameters(R"(, "bias": false)"), with = parameters(R"(, "bias": false, "norm_bias": true)");
    EXPECT_EQ(with - without, 5 * 64);
    EXPECT_EQ(parameters("") - parameters(R"(, "norm_bias": false)"), 5 * 64);
    EXPECT_EQ(parameters(R"(, "norm": "rmsnorm", "bias": false, "norm_bias": true)"), without);
    EXPECT_FALSE(find_model("mpt-7b")->model.norm_bias);
    EXPECT_FALSE(find_model("palm-62b")->model.norm_bias);
    EXPECT_TRUE(find_model("nemotron4-15b")->model.norm_bias);
    EXPECT_TRUE(find_model("gpt2-124m")->model.norm_bias);
}

TEST(Models, APresetsFieldsCanBeOverridden) {
    const ModelResult read = parse_model(R"({"preset": "mixtral-8x7b", "layers": 4, "moe": {"top_k": 1}})");
    ASSERT_TRUE(read.model) << to_text(read.problems);
    EXPECT_EQ(read.model->layers, 4);
    EXPECT_EQ(read.model->moe->top_k, 1);
    EXPECT_EQ(read.model->moe->experts, 8);
    const ModelResult dense = parse_model(R"({"preset": "mixtral-8x7b", "moe": null})");
    ASSERT_TRUE(dense.model) << to_text(dense.problems);
    EXPECT_FALSE(dense.model->moe);
}
