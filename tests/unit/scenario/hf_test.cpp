// Does a Hugging Face config.json give the model its preset describes?
#include "sim/scenario/model_text.hpp"
#include "sim/scenario/parameters.hpp"
#include "sim/scenario/parse.hpp"

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <string>

using namespace orrery;

namespace {

const std::string folder = ORRERY_SOURCE_DIR "/tests/unit/scenario/hf";

ModelResult import(const std::string& path, const std::string& more = "") {
    return parse_model("{\"hf_config\": \"" + path + "\"" + more + "}");
}

} // namespace

// A file named like a preset must agree with it in everything that is counted or computed.
TEST(HuggingFace, AConfigGivesTheModelOfItsPreset) {
    int compared = 0;
    for (const auto& file : std::filesystem::directory_iterator(folder)) {
        const auto preset = find_model(file.path().stem().string());
        if (!preset) continue;
        SCOPED_TRACE(file.path().stem().string());
        const ModelResult imported = import(file.path().string());
        ASSERT_TRUE(imported.model) << to_text(imported.problems);
        const Model &a = *imported.model, &b = preset->model;
        EXPECT_EQ(parameter_count(a), parameter_count(b));
        EXPECT_EQ(active_parameter_count(a), active_parameter_count(b));
        EXPECT_EQ(a.layers, b.layers);
        EXPECT_EQ(a.hidden_size, b.hidden_size);
        EXPECT_EQ(a.attention_heads, b.attention_heads);
        EXPECT_EQ(a.kv_heads, b.kv_heads);
        EXPECT_EQ(a.head_dim, b.head_dim);
        EXPECT_EQ(a.ffn_size, b.ffn_size);
        EXPECT_EQ(a.activation, b.activation);
        EXPECT_EQ(a.norm, b.norm);
        EXPECT_EQ(a.norm == NormKind::layernorm && a.norm_bias, b.norm == NormKind::layernorm && b.norm_bias);
        EXPECT_EQ(a.position, b.position);
        EXPECT_EQ(a.tied_embeddings, b.tied_embeddings);
        EXPECT_EQ(a.attention.sliding_window, b.attention.sliding_window);
        EXPECT_EQ(a.attention.full_every, b.attention.full_every);
        EXPECT_EQ(a.activation_clamp, b.activation_clamp);
        EXPECT_NEAR(a.rope_scale, b.rope_scale, 1e-8);
        EXPECT_EQ(a.rope_fraction, b.rope_fraction);
        EXPECT_EQ(a.norm_placement, b.norm_placement);
        EXPECT_EQ(a.parallel_block, b.parallel_block);
        EXPECT_EQ(a.parallel_norms, b.parallel_norms);
        EXPECT_EQ(a.attention.qk_norm, b.attention.qk_norm);
        EXPECT_EQ(a.attention.qk_norm_across, b.attention.qk_norm_across);
        EXPECT_EQ(a.attention.qkv_bias, b.attention.qkv_bias);
        EXPECT_EQ(a.attention.score_cap, b.attention.score_cap);
        EXPECT_EQ(a.logit_cap, b.logit_cap);
        EXPECT_NEAR(a.embedding_scale, b.embedding_scale, 1e-6);
        EXPECT_EQ(a.moe.has_value(), b.moe.has_value());
        if (a.moe && b.moe) {
            EXPECT_EQ(a.moe->groups, b.moe->groups);
            EXPECT_EQ(a.moe->scoring, b.moe->scoring);
            EXPECT_EQ(a.moe->stacked_weights, b.moe->stacked_weights);
        }
        EXPECT_EQ(a.mtp_layers, b.mtp_layers);
        ++compared;
    }
    EXPECT_GE(compared, 26);
}

// GPT-NeoX-20B: 20,554,567,680 parameters on its model card. Attention and MLP of its parallel blocks have a norm each.
TEST(HuggingFace, GptNeoxCountsTwentyBillion) {
    const ModelResult imported = import(folder + "/gpt-neox-20b.json");
    ASSERT_TRUE(imported.model) << to_text(imported.problems);
    EXPECT_EQ(parameter_count(*imported.model), 20'554'567'680);
}

TEST(HuggingFace, FieldsBesideTheConfigOverrideIt) {
    const ModelResult imported = import(folder + "/llama3-8b.json", ", \"layers\": 4, \"name\": \"cut\"");
    ASSERT_TRUE(imported.model) << to_text(imported.problems);
    EXPECT_EQ(imported.model->layers, 4);
    EXPECT_EQ(imported.model->name, "cut");
    EXPECT_EQ(imported.model->hidden_size, 4096);
}

TEST(HuggingFace, AMissingFileIsNamed) {
    const ModelResult imported = import(folder + "/none.json");
    ASSERT_EQ(imported.problems.size(), 1u);
    EXPECT_EQ(imported.problems[0].where, "/model/hf_config");
    EXPECT_NE(imported.problems[0].what.find("none.json"), std::string::npos);
}

// Phi-3-mini: 3,821,079,552 parameters in its checkpoint; the window goes over all layers.
TEST(HuggingFace, Phi3CountsItsParameters) {
    const ModelResult imported = import(folder + "/phi-3-mini.json");
    ASSERT_TRUE(imported.model) << to_text(imported.problems);
    EXPECT_EQ(parameter_count(*imported.model), 3'821'079'552);
    EXPECT_EQ(imported.model->attention.sliding_window, 2047);
    EXPECT_EQ(imported.model->kv_heads, 32);
}

// Falcon 40B reads two norms in a parallel block, 7B one, and 8 or 1 heads of keys. Norms alone have biases.
TEST(HuggingFace, FalconsDecodersDifferBySize) {
    const std::string path = ::testing::TempDir() + "/orrery_hf_falcon.json";
    std::ofstream(path) << R"({"model_type": "falcon", "new_decoder_architecture": true, "num_kv_heads": 8, "num_hidden_layers": 60,
        "hidden_size": 8192, "num_attention_heads": 128, "vocab_size": 65024, "bias": false})";
    const ModelResult large = import(path);
    ASSERT_TRUE(large.model) << to_text(large.problems);
    EXPECT_TRUE(large.model->parallel_norms);
    EXPECT_EQ(large.model->kv_heads, 8);
    EXPECT_EQ(parameter_count(*large.model), 41'303'293'952);
    std::ofstream(path) << R"({"model_type": "falcon", "multi_query": true, "parallel_attn": true})";
    const ModelResult small = import(path);
    ASSERT_TRUE(small.model) << to_text(small.problems);
    EXPECT_TRUE(small.model->parallel_block && !small.model->parallel_norms);
    EXPECT_EQ(small.model->kv_heads, 1);
}

// A part of the head is rotated, whatever a file's age.
TEST(HuggingFace, PartialRotationsAreReadFromEitherPlace) {
    const std::string path = ::testing::TempDir() + "/orrery_hf_rotary.json";
    const std::string sizes = R"("model_type": "phi3", "hidden_size": 64, "num_attention_heads": 4, "num_hidden_layers": 2,
        "intermediate_size": 128, "vocab_size": 256)";
    for (const char* said : {R"("partial_rotary_factor": 0.75)", R"("rope_parameters": {"partial_rotary_factor": 0.75})"}) {
        std::ofstream(path) << "{" << sizes << ", " << said << "}";
        const ModelResult read = import(path);
        ASSERT_TRUE(read.model) << to_text(read.problems);
        EXPECT_EQ(read.model->rope_fraction, 0.75) << said;
    }
}

// A config that says something for which a model has no field is refused at that place.
TEST(HuggingFace, LayersThatAreNotModelledAreRefusedByField) {
    const auto problems_of = [](const std::string& config) {
        const std::string path = ::testing::TempDir() + "/orrery_hf_refused.json";
        std::ofstream(path) << config;
        return to_text(import(path).problems);
    };
    const std::string sizes =
        R"("hidden_size": 64, "num_attention_heads": 4, "num_hidden_layers": 2, "intermediate_size": 128, "vocab_size": 256)";
    const auto named = [&](const std::string& type, const std::string& more, const char* field) {
        const std::string text = problems_of("{\"model_type\": \"" + type + "\", " + sizes + more + "}");
        EXPECT_NE(text.find(field), std::string::npos) << text;
        return text;
    };
    named("gemma2", R"(, "layer_types": ["full_attention", "sliding_attention"])", "layer_types");
    named("olmo2", R"(, "attention_bias": true)", "attention_bias");
    named("nemotron", R"(, "attention_bias": true)", "attention_bias");
    named("phi3", R"(, "partial_rotary_factor": 0.3)", "rope_fraction = 0.3");
    EXPECT_NE(problems_of(R"({"model_type": "falcon", "alibi": true})").find("alibi"), std::string::npos);
}
