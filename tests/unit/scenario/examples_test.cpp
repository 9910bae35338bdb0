// Is every field's example, and every choice that the schema offers, accepted by the parser and built? Each in at least one of the
// scenarios below, which between them have every section and kind of model.
#include "sim/scenario/parse.hpp"
#include "sim/scenario/schema.hpp"

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include <map>
#include <set>
#include <string>
#include <vector>

using nlohmann::json;

namespace {

const char* const dense = R"({"name": "tiny", "layers": 8, "hidden_size": 256, "attention_heads": 8, "kv_heads": 4, "vocab_size": 1024,
    "activation": "swiglu", "norm": "rmsnorm", "position": "rope", "bias": false, "max_positions": 512})";

json with(json object, const json& changes) {
    object.merge_patch(changes);
    return object;
}

json scenario(const json& model, const json& cluster, const json& strategy, const json& training = json::object(),
              const json& runtime = json::object()) {
    return {{"model", model},
            {"cluster", cluster},
            {"training", with({{"global_batch_size", 64}, {"micro_batch_size", 1}, {"sequence_length", 256}}, training)},
            {"strategy", strategy},
            {"runtime", runtime}};
}

std::vector<json> bases() {
    const json llama = json::parse(dense), dgx = {{"preset", "dgx-h100"}, {"nodes", 2}};
    const json gpt = {{"layers", 8}, {"hidden_size", 256}, {"attention_heads", 8}, {"vocab_size", 1024}};
    const json mixture =
        with(llama,
             {{"moe", {{"experts", 8}, {"top_k", 2}, {"expert_ffn_size", 128}, {"groups", 4}, {"group_limit", 2}, {"shared_experts", 1}}}});
    const json latent = with(llama, {{"kv_heads", nullptr},
                                     {"attention",
                                      {{"kind", "mla"},
                                       {"q_lora_rank", 64},
                                       {"kv_lora_rank", 64},
                                       {"qk_nope_head_dim", 32},
                                       {"qk_rope_head_dim", 16},
                                       {"v_head_dim", 32}}}});
    const json inline_cluster = {
        {"device", {{"preset", "h100-sxm-80gb"}}}, {"nodes", 2}, {"devices_per_node", 8}, {"inter_node", {{"gbit_per_s", 400}}}};
    const json megatron = {{"framework", "megatron"}};
    return {
        scenario(llama, dgx, with(megatron, {{"tensor_parallel", 2}, {"pipeline_parallel", 2}})),
        scenario(llama, dgx, {{"framework", "fsdp"}}),
        scenario(gpt, dgx, {{"framework", "ddp"}}),
        scenario(gpt, dgx, {{"framework", "ddp"}}, {{"optimizer", "lamb"}}),
        scenario(mixture, dgx, with(megatron, {{"tensor_parallel", 2}, {"expert_parallel", 4}}), {{"precision", "fp8"}},
                 {{"fp8_recipe", "blockwise"}, {"year", 2025}}),
        scenario(mixture, dgx, with(megatron, {{"expert_parallel", 4}})),
        scenario(latent, dgx, megatron),
        scenario(with(llama, {{"attention", {{"sliding_window", 64}}}}), dgx, megatron),
        scenario(llama, dgx, with(megatron, {{"pipeline_parallel", 4}, {"schedule", "zb-h1"}})),
        scenario(llama, dgx, with(megatron, {{"pipeline_parallel", 4}, {"virtual_pipeline", 2}})),
        scenario(llama, {{"preset", "tpu-v5p-pod"}, {"nodes", 16}}, {{"framework", "jax"}}),
        scenario(llama, {{"preset", "frontier"}, {"nodes", 16}}, megatron, {{"global_batch_size", 128}}),
        scenario(llama, {{"preset", "dgx-b200"}, {"nodes", 2}}, megatron, {{"precision", "mxfp8"}}),
        scenario(llama, dgx, {{"framework", "ddp"}, {"synchronization", {{"kind", "local_sgd"}, {"inner_steps", 4}}}}),
        scenario(with(llama, {{"trainable", {{"lora", {{"rank", 8}}}}}}), dgx, {{"framework", "fsdp2"}}),
        scenario(gpt, dgx, {{"framework", "deepspeed"}, {"zero_stage", 1}}),
        scenario(gpt, dgx, {{"framework", "deepspeed"}, {"zero_stage", 2}, {"offload", {{"optimizer", "cpu"}}}}),
        scenario(gpt, dgx, {{"framework", "deepspeed"}, {"zero_stage", 3}, {"offload", {{"optimizer", "cpu"}}}}),
        scenario(gpt, dgx, {{"framework", "deepspeed"}, {"zero_stage", 3}}),
        scenario(mixture, inline_cluster, megatron),
        scenario("llama3-8b", {{"preset", "dgx-h100"}, {"nodes", 1}}, {{"framework", "fsdp"}}),
        scenario("llama3-8b", {{"preset", "dgx-h100"}, {"nodes", 1}}, {{"framework", "fsdp"}}, {{"global_batch_size", 8}}),
        with(scenario(llama, dgx, megatron), {{"run", {{"days", 10}}}}),
    };
}

// "": one of the bases takes it; else why the first does not.
std::string refusal(const std::string& field, const std::string& value) {
    static const std::vector<json> all = bases();
    std::string first;
    for (const json& base : all) {
        orrery::ParseOptions options;
        options.overrides = {field + "=" + value};
        orrery::ParseResult parsed = orrery::parse_scenario(base.dump(), options);
        if (parsed.scenario && parsed.problems.empty()) parsed.problems = orrery::unsupported(*parsed.scenario);
        if (parsed.problems.empty()) return "";
        if (first.empty()) first = to_text(parsed.problems);
    }
    return first;
}

// Every field of the schema that is no section, and the choices it offers.
void collect(const json& schema, const std::string& path, std::map<std::string, std::vector<std::string>>& fields) {
    for (const char* any : {"anyOf", "oneOf"})
        if (schema.contains(any))
            for (const json& s : schema[any]) collect(s, path, fields);
    if (!schema.contains("properties")) {
        if (schema.contains("anyOf") || path.empty()) return;
        auto& choices = fields[path];
        if (schema.contains("enum") && choices.empty())
            for (const json& word : schema["enum"]) choices.push_back(word.get<std::string>());
        return;
    }
    for (const auto& [key, item] : schema["properties"].items()) collect(item, path.empty() ? key : path + "." + key, fields);
}

std::map<std::string, std::vector<std::string>> fields_of_schema() {
    std::map<std::string, std::vector<std::string>> fields;
    const json schema = json::parse(orrery::scenario_schema());
    for (const char* section : {"model", "cluster", "training", "strategy", "runtime", "run"})
        collect(schema["properties"][section], section, fields);
    return fields;
}

// Parts of sections in a form of their own: they have no line of their own in the field reference.
bool inside_a_form(const std::string& field) {
    for (const char* form :
         {"cluster.graph.", "strategy.recompute.", "strategy.recompute_layers.", "model.moe.imbalance.", "model.hf_config", "model.preset",
          "cluster.device.preset", "cluster.device.peak_tflops.", "cluster.sources.", "cluster.device.sources.", "cluster.device.kernels."})
        if (field.starts_with(form)) return true;
    return field == "model" || field == "cluster" || field.starts_with("run.checkpoint.every.") || field == "cluster.device";
}

} // namespace

TEST(Examples, EveryFieldHasOne) {
    std::set<std::string> known;
    for (const orrery::FieldExample& e : orrery::field_examples()) EXPECT_TRUE(known.insert(e.field).second) << e.field << " stands twice";
    const auto fields = fields_of_schema();
    ASSERT_GT(fields.size(), 100u);
    for (const auto& [field, choices] : fields)
        if (!inside_a_form(field)) { EXPECT_TRUE(known.contains(field)) << field << " has no line in sim/scenario/examples.cpp"; }
}

TEST(Examples, TheParserTakesEach) {
    for (const orrery::FieldExample& e : orrery::field_examples()) {
        if (std::string_view(e.example).find("..") != std::string_view::npos) continue; // shortened
        EXPECT_EQ(refusal(e.field, e.example), "") << e.field << " = " << e.example;
    }
}

TEST(Examples, TheSchemaOffersNoChoiceThatIsRefused) {
    std::size_t choices = 0;
    for (const auto& [field, words] : fields_of_schema())
        for (const std::string& word : words) {
            if (inside_a_form(field) || word == "trace") continue; // of failures: it needs their file
            ++choices;
            EXPECT_EQ(refusal(field, word), "") << field << " = " << word;
        }
    EXPECT_GT(choices, 80u);
}

TEST(Examples, WhatIsNotBuiltYetIsNotOffered) {
    const json schema = json::parse(orrery::scenario_schema());
    const json& compression = schema["properties"]["strategy"]["properties"]["gradient_compression"];
    for (const json& word : compression["oneOf"][0]["enum"])
        EXPECT_EQ(refusal("strategy.gradient_compression", word.get<std::string>()), "");
}
