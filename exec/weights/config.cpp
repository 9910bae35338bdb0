#include "exec/weights/config.hpp"

#include "sim/scenario/parse.hpp"

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <fstream>

namespace orrery {
namespace {

using Json = nlohmann::ordered_json;

// Field by field, as scenarios name them. Dropout is left out: it is a matter of training.
Json fields(const Model& m) {
    Json j{{"layers", m.layers},
           {"hidden_size", m.hidden_size},
           {"attention_heads", m.attention_heads},
           {"kv_heads", m.kv_heads},
           {"head_dim", m.head_dim},
           {"activation", name(m.activation)},
           {"norm", name(m.norm)},
           {"norm_epsilon", m.norm_epsilon},
           {"vocab_size", m.vocab_size},
           {"tied_embeddings", m.tied_embeddings},
           {"position", name(m.position)},
           {"bias", m.bias},
           {"norm_bias", m.norm == NormKind::layernorm && m.norm_bias},
           {"attention.kind", name(m.attention.kind)},
           {"attention.sliding_window", m.attention.sliding_window},
           {"attention.qkv_bias", m.attention.qkv_bias},
           {"attention.qk_norm", m.attention.qk_norm},
           {"attention.qk_norm_across", m.attention.qk_norm_across},
           {"attention.score_cap", m.attention.score_cap},
           {"norm_placement", name(m.norm_placement)},
           {"embedding_scale", m.embedding_scale},
           {"logit_cap", m.logit_cap},
           {"moe", m.moe.has_value()}};
    if (m.position == PositionKind::learned) j["max_positions"] = m.max_positions;
    if (m.position == PositionKind::rope)
        j["rope_base"] = m.rope_base, j["rope_scale"] = m.rope_scale, j["rope_fraction"] = m.rope_fraction;
    if (!m.moe) j["ffn_size"] = m.ffn_size; // of no layer where all have experts
    if (m.moe) {
        j["moe.experts"] = m.moe->experts;
        j["moe.top_k"] = m.moe->top_k;
        j["moe.expert_ffn_size"] = m.moe->expert_ffn_size;
        j["moe.shared_experts"] = m.moe->shared_experts;
        j["moe.layer_frequency"] = m.moe->layer_frequency;
    }
    return j;
}

// Settings of the file that kernels do not compute, a line each.
void uncomputed(const nlohmann::json& config, std::vector<std::string>& lines) {
    for (const char* key : {"rope_scaling", "rope_parameters"}) {
        const auto it = config.find(key);
        if (it == config.end() || !it->is_object()) continue;
        const std::string kind = it->value("rope_type", it->value("type", "default"));
        if (kind != "default")
            lines.push_back(
                fmt::format("{} is of type \"{}\", and kernels here turn by plain frequencies: take a model without it", key, kind));
    }
    if (config.value("model_type", "") == "qwen3_moe" && !config.value("norm_topk_prob", false))
        lines.emplace_back(
            "norm_topk_prob is false, and kernels here weigh experts by their share of the chosen ones: take a model with it");
    if (config.value("scale_attn_by_inverse_layer_idx", false))
        lines.emplace_back("scale_attn_by_inverse_layer_idx is true, and kernels here scale all layers alike");
    if (const auto act = config.find("activation_function"); act != config.end() && act->is_string() && *act == "gelu")
        lines.emplace_back("activation_function is the exact gelu, and kernels here compute its tanh form (gelu_new)");
}

Json llama_config(const Model& m, std::int64_t sequence) {
    return {{"hidden_size", m.hidden_size},
            {"num_hidden_layers", m.layers},
            {"num_attention_heads", m.attention_heads},
            {"num_key_value_heads", m.kv_heads},
            {"head_dim", m.head_dim},
            {"intermediate_size", m.ffn_size},
            {"vocab_size", m.vocab_size},
            {"max_position_embeddings", sequence},
            {"hidden_act", "silu"},
            {"rms_norm_eps", m.norm_epsilon},
            {"rope_theta", m.rope_base},
            {"tie_word_embeddings", m.tied_embeddings}};
}

Json gpt2_config(const Model& m) {
    return {{"n_embd", m.hidden_size},
            {"n_layer", m.layers},
            {"n_head", m.attention_heads},
            {"n_inner", m.ffn_size},
            {"n_positions", m.max_positions},
            {"vocab_size", m.vocab_size},
            {"activation_function", "gelu_new"},
            {"layer_norm_epsilon", m.norm_epsilon},
            {"tie_word_embeddings", m.tied_embeddings},
            {"resid_pdrop", m.dropout},
            {"embd_pdrop", m.dropout},
            {"attn_pdrop", m.dropout}};
}

constexpr const char* classes[] = {"GPT2LMHeadModel",  "LlamaForCausalLM", "MistralForCausalLM",  "MixtralForCausalLM",
                                   "Qwen2ForCausalLM", "Qwen3ForCausalLM", "Qwen3MoeForCausalLM", "Olmo2ForCausalLM"};

} // namespace

std::vector<std::string> mismatches(const std::filesystem::path& file, const Model& model) {
    std::ifstream in(file, std::ios::binary);
    const nlohmann::json config = nlohmann::json::parse(in, nullptr, false);
    if (!config.is_object()) return {file.string() + " is no JSON object"};
    std::vector<std::string> lines;
    try {
        uncomputed(config, lines);
    } catch (const nlohmann::json::exception& e) { return {file.string() + ": " + e.what()}; }
    const ModelResult theirs = parse_model(nlohmann::json{{"hf_config", std::filesystem::absolute(file).string()}}.dump());
    for (const Problem& p : theirs.problems) lines.push_back(p.what);
    if (theirs.model) {
        const Json ours = fields(model), other = fields(*theirs.model);
        for (const auto& [key, value] : other.items())
            if (ours.contains(key) && ours[key] != value)
                lines.push_back(fmt::format("model.{} is {} there and {} in the scenario: set it to {}", key, value.dump(),
                                            ours[key].dump(), value.dump()));
    }
    for (std::string& line : lines) line = file.string() + ": " + line;
    return lines;
}

std::string config_text(const Model& m, WeightFamily family, std::int64_t sequence, const char* type) {
    Json j{{"architectures", {classes[static_cast<int>(family)]}}, {"model_type", name(family)}, {"torch_dtype", type}};
    j.update(family == WeightFamily::gpt2 ? gpt2_config(m) : llama_config(m, sequence));
    if (family == WeightFamily::llama) j["attention_bias"] = j["mlp_bias"] = false;
    if (family == WeightFamily::mistral || family == WeightFamily::mixtral)
        j["sliding_window"] = m.attention.sliding_window > 0 ? Json(m.attention.sliding_window) : Json(nullptr);
    if (family == WeightFamily::qwen2 || family == WeightFamily::qwen3 || family == WeightFamily::qwen3_moe)
        j["use_sliding_window"] = false;
    if (family == WeightFamily::qwen3 || family == WeightFamily::qwen3_moe || family == WeightFamily::olmo2) j["attention_bias"] = false;
    if (family == WeightFamily::mixtral) {
        j["num_local_experts"] = m.moe->experts;
        j["intermediate_size"] = m.moe->expert_ffn_size;
    }
    if (family == WeightFamily::qwen3_moe) {
        j["num_experts"] = m.moe->experts;
        j["moe_intermediate_size"] = m.moe->expert_ffn_size;
        j["decoder_sparse_step"] = 1;
        j["mlp_only_layers"] = Json::array();
        j["norm_topk_prob"] = true;
    }
    if (m.moe) j["num_experts_per_tok"] = m.moe->top_k;
    return j.dump(2) + "\n";
}

} // namespace orrery
