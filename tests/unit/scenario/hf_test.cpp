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
        EXPECT_EQ(a.position, b.position);
        EXPECT_EQ(a.tied_embeddings, b.tied_embeddings);
        EXPECT_EQ(a.attention.sliding_window, b.attention.sliding_window);
        EXPECT_EQ(a.attention.full_every, b.attention.full_every);
        EXPECT_EQ(a.activation_clamp, b.activation_clamp);
        EXPECT_NEAR(a.rope_scale, b.rope_scale, 1e-8);
        EXPECT_EQ(a.moe.has_value(), b.moe.has_value());
        if (a.moe && b.moe) {
            EXPECT_EQ(a.moe->groups, b.moe->groups);
            EXPECT_EQ(a.moe->scoring, b.moe->scoring);
        }
        EXPECT_EQ(a.mtp_layers, b.mtp_layers);
        ++compared;
    }
    EXPECT_GE(compared, 15);
}

// GPT-NeoX-20B: 20,554,567,680 parameters on its model card. Its two norms a layer are kept although its residual is parallel.
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
    const std::string capped =
        named("gemma2", R"(, "attn_logit_softcapping": 50.0, "final_logit_softcapping": null)", "attn_logit_softcapping = 50");
    EXPECT_EQ(capped.find("final_logit_softcapping"), std::string::npos) << capped;
    named("gemma2", "", "four a layer");
    named("gemma3_text", "", "model_type = \"gemma3_text\"");
    named("olmo2", "", "over all heads at once");
    named("phi3", R"(, "partial_rotary_factor": 0.75)", "partial_rotary_factor other than 1");
    named("phi3", R"(, "rope_parameters": {"partial_rotary_factor": 0.75})", "partial_rotary_factor other than 1");
}
