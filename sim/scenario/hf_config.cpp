// One function an architecture. Each starts from what transformers' configuration class has as default where config.json leaves a key out.
#include "sim/scenario/hf_config.hpp"

#include "sim/scenario/suggest.hpp"

#include <nlohmann/json.hpp>

#include <algorithm>
#include <cmath>

namespace orrery {
namespace {

struct Config {
    const Json& json;
    std::vector<Problem>& problems;
    std::vector<std::string>& notes;

    // A whole number; `fallback` < 0: required.
    std::int64_t number(const char* key, std::int64_t fallback = -1) const {
        const auto value = json.find(key);
        const bool whole = value != json.end() && value->is_number_integer() && std::abs(value->get<double>()) <= 1e12;
        if (whole) return value->get<std::int64_t>();
        if (value != json.end() && !value->is_null())
            problems.push_back(
                {pointer_step(key), std::string(key) + " = " + short_text(*value) + " must be a whole number of at most 1e12"});
        else if (fallback < 0)
            problems.push_back({pointer_step(key), std::string(key) + " is missing"});
        return std::max<std::int64_t>(fallback, 0);
    }
    bool flag(const char* key, bool fallback) const {
        const auto value = json.find(key);
        return value != json.end() && value->is_boolean() ? value->get<bool>() : fallback;
    }
    double rate(const char* key, double fallback) const {
        const auto value = json.find(key);
        return value != json.end() && value->is_number() ? value->get<double>() : fallback;
    }
    std::string text(const char* key, const char* fallback) const {
        const auto value = json.find(key);
        return value != json.end() && value->is_string() ? value->get<std::string>() : fallback;
    }
    // Newer configurations keep it beside the kind of the rotations.
    double rope_base(double fallback) const {
        const auto inner = json.find("rope_parameters");
        if (inner != json.end() && inner->is_object() && inner->contains("rope_theta") && (*inner)["rope_theta"].is_number())
            return (*inner)["rope_theta"].get<double>();
        return rate("rope_theta", fallback);
    }
    // So is the part of a head that is rotated; `key`: what older ones call it.
    double rope_fraction(const char* key, double fallback) const {
        const auto inner = json.find("rope_parameters");
        if (inner != json.end() && inner->is_object() && inner->contains("partial_rotary_factor") &&
            (*inner)["partial_rotary_factor"].is_number())
            return (*inner)["partial_rotary_factor"].get<double>();
        return rate(key, fallback);
    }
    void refuse_bias(const char* key) const {
        if (flag(key, false))
            problems.push_back({pointer_step(key), std::string(key) + " = true (a bias on the output projection too) is not modelled"});
    }
};

std::string activation(const Config& c, const char* key, const char* fallback, bool gated) {
    const std::string word = c.text(key, fallback);
    if (gated && (word == "silu" || word == "swish" || word == "swiglu")) return "swiglu";
    if (gated && word.starts_with("gelu")) return "geglu";
    if (!gated && word == "relu") return "relu";
    if (!gated && word == "relu2") return "squared_relu";
    if (!gated && word.starts_with("gelu")) return "gelu";
    c.problems.push_back({pointer_step(key), std::string(key) + " = \"" + word + "\" is not one this reads: silu, gelu, relu, relu2"});
    return "gelu";
}

Json gpt2(const Config& c) {
    const std::int64_t h = c.number("n_embd", 768);
    return {{"layers", c.number("n_layer", 12)},
            {"hidden_size", h},
            {"attention_heads", c.number("n_head", 12)},
            {"ffn_size", c.number("n_inner", 4 * h)},
            {"vocab_size", c.number("vocab_size", 50257)},
            {"position", "learned"},
            {"max_positions", c.number("n_positions", 1024)},
            {"activation", activation(c, "activation_function", "gelu_new", false)},
            {"norm", "layernorm"},
            {"norm_epsilon", c.rate("layer_norm_epsilon", 1e-5)},
            {"tied_embeddings", c.flag("tie_word_embeddings", true)},
            {"dropout", c.rate("resid_pdrop", 0.1)}};
}

Json gpt_neox(const Config& c) {
    const bool parallel = c.flag("use_parallel_residual", true);
    return {{"parallel_block", parallel},
            {"parallel_norms", parallel},
            {"rope_fraction", c.rope_fraction("rotary_pct", 0.25)},
            {"layers", c.number("num_hidden_layers", 44)},
            {"hidden_size", c.number("hidden_size", 6144)},
            {"attention_heads", c.number("num_attention_heads", 64)},
            {"ffn_size", c.number("intermediate_size", 24576)},
            {"vocab_size", c.number("vocab_size", 50432)},
            {"position", "rope"},
            {"rope_base", c.rate("rotary_emb_base", 10000)},
            {"activation", activation(c, "hidden_act", "gelu", false)},
            {"norm", "layernorm"},
            {"norm_epsilon", c.rate("layer_norm_eps", 1e-5)},
            {"bias", c.flag("attention_bias", true)},
            {"norm_bias", true},
            {"tied_embeddings", c.flag("tie_word_embeddings", false)},
            {"dropout", c.rate("hidden_dropout", 0.0)}};
}

Json opt(const Config& c) {
    const std::int64_t h = c.number("hidden_size", 768);
    if (c.number("word_embed_proj_dim", h) != h)
        c.problems.push_back({"/word_embed_proj_dim", "word_embed_proj_dim other than hidden_size (OPT-350M) is not modelled"});
    if (!c.flag("do_layer_norm_before", true))
        c.problems.push_back({"/do_layer_norm_before", "do_layer_norm_before = false (OPT-350M) is not modelled"});
    return {{"layers", c.number("num_hidden_layers", 12)},
            {"hidden_size", h},
            {"attention_heads", c.number("num_attention_heads", 12)},
            {"ffn_size", c.number("ffn_dim", 3072)},
            {"vocab_size", c.number("vocab_size", 50272)},
            {"position", "learned"},
            {"max_positions", c.number("max_position_embeddings", 2048) + 2}, // OPT's table starts at position 2
            {"activation", activation(c, "activation_function", "relu", false)},
            {"norm", "layernorm"},
            {"bias", c.flag("enable_bias", true)},
            {"norm_bias", true},
            {"tied_embeddings", c.flag("tie_word_embeddings", true)},
            {"dropout", c.rate("dropout", 0.1)}};
}

Json bloom(const Config& c) {
    const std::int64_t h = c.json.contains("n_embed") ? c.number("n_embed") : c.number("hidden_size", 64);
    const std::int64_t heads = c.json.contains("num_attention_heads") ? c.number("num_attention_heads") : c.number("n_head", 8);
    return {{"layers", c.json.contains("num_hidden_layers") ? c.number("num_hidden_layers") : c.number("n_layer", 2)},
            {"hidden_size", h},
            {"attention_heads", heads},
            {"vocab_size", c.number("vocab_size", 250880)},
            {"position", "alibi"},
            {"activation", "gelu"},
            {"norm", "layernorm"},
            {"norm_epsilon", c.rate("layer_norm_epsilon", 1e-5)},
            {"embedding_norm", true},
            {"tied_embeddings", c.flag("tie_word_embeddings", true)},
            {"dropout", c.rate("hidden_dropout", 0.0)}};
}

Json mpt(const Config& c) {
    const std::int64_t h = c.number("d_model", 2048);
    const Json attention = c.json.value("attn_config", Json::object());
    const Config a{attention, c.problems, c.notes};
    const bool alibi = a.flag("alibi", true);
    Json model = {{"layers", c.number("n_layers", 24)},
                  {"hidden_size", h},
                  {"attention_heads", c.number("n_heads", 16)},
                  {"ffn_size", h * c.number("expansion_ratio", 4)},
                  {"vocab_size", c.number("vocab_size", 50368)},
                  {"position", alibi ? "alibi" : "learned"},
                  {"activation", "gelu"},
                  {"norm", "layernorm"},
                  {"bias", !c.flag("no_bias", true)},
                  {"tied_embeddings", true},
                  {"dropout", c.rate("resid_pdrop", 0.0)}};
    if (!alibi) model["max_positions"] = c.number("max_seq_len", 2048);
    if (a.text("attn_type", "multihead_attention") == "multiquery_attention") model["kv_heads"] = 1;
    if (const std::int64_t kv = a.number("kv_n_heads", 0); kv > 0) model["kv_heads"] = kv;
    if (a.flag("qk_ln", false)) c.problems.push_back({"/attn_config/qk_ln", "qk_ln (a norm over all heads at once) is not modelled"});
    return model;
}

// Llama and the models built like it.
Json llama(const Config& c) {
    const std::int64_t h = c.number("hidden_size"), heads = c.number("num_attention_heads");
    Json model = {{"layers", c.number("num_hidden_layers")},
                  {"hidden_size", h},
                  {"attention_heads", heads},
                  {"kv_heads", c.number("num_key_value_heads", heads)},
                  {"ffn_size", c.number("intermediate_size")},
                  {"vocab_size", c.number("vocab_size")},
                  {"position", "rope"},
                  {"rope_base", c.rope_base(10000)},
                  {"activation", activation(c, "hidden_act", "silu", true)},
                  {"norm", "rmsnorm"},
                  {"norm_epsilon", c.rate("rms_norm_eps", 1e-6)},
                  {"bias", false},
                  {"tied_embeddings", c.flag("tie_word_embeddings", false)},
                  {"dropout", 0.0}};
    if (const std::int64_t d = c.number("head_dim", 0); d > 0) model["head_dim"] = d;
    if (c.flag("mlp_bias", false)) c.problems.push_back({"/mlp_bias", "mlp_bias = true beside attention without biases is not modelled"});
    return model;
}

Json llama_own(const Config& c) {
    c.refuse_bias("attention_bias");
    return llama(c);
}

Json mistral(const Config& c) {
    Json model = llama(c);
    if (!c.json.contains("num_key_value_heads")) model["kv_heads"] = 8; // MistralConfig's default
    if (const std::int64_t window = c.number("sliding_window", 0); window > 0) model["attention"]["sliding_window"] = window;
    return model;
}

Json phi3(const Config& c) {
    Json model = llama(c);
    model["norm_epsilon"] = c.rate("rms_norm_eps", 1e-5); // Phi3Config's default
    model["dropout"] = c.rate("resid_pdrop", 0.0);
    if (const std::int64_t window = c.number("sliding_window", 0); window > 0) model["attention"]["sliding_window"] = window;
    model["rope_fraction"] = c.rope_fraction("partial_rotary_factor", 1);
    return model;
}

Json qwen2(const Config& c) {
    Json model = llama(c);
    model["attention"]["qkv_bias"] = true;
    if (c.flag("use_sliding_window", false)) model["attention"]["sliding_window"] = c.number("sliding_window", 4096);
    return model;
}

Json qwen3(const Config& c) {
    Json model = llama_own(c);
    if (!model.contains("head_dim")) model["head_dim"] = 128; // Qwen3Config's default
    model["attention"]["qk_norm"] = true;
    if (c.flag("use_sliding_window", false)) model["attention"]["sliding_window"] = c.number("sliding_window", 4096);
    return model;
}

Json mixtral(const Config& c) {
    Json model = mistral(c);
    model["rope_base"] = c.rope_base(1e6); // MixtralConfig's defaults
    model["norm_epsilon"] = c.rate("rms_norm_eps", 1e-5);
    model["moe"] = {{"experts", c.number("num_local_experts", 8)},
                    {"top_k", c.number("num_experts_per_tok", 2)},
                    {"expert_ffn_size", model["ffn_size"]}};
    return model;
}

Json qwen3_moe(const Config& c) {
    Json model = qwen3(c);
    model["moe"] = {{"experts", c.number("num_experts", 128)},
                    {"top_k", c.number("num_experts_per_tok", 8)},
                    {"expert_ffn_size", c.number("moe_intermediate_size", 768)},
                    {"layer_frequency", c.number("decoder_sparse_step", 1)}};
    if (const auto dense = c.json.find("mlp_only_layers"); dense != c.json.end() && dense->is_array() && !dense->empty())
        c.problems.push_back(
            {"/mlp_only_layers", "mlp_only_layers is not modelled: give moe.first_dense_layers or moe.layer_frequency by hand"});
    return model;
}

// The factor of cosines and sines in transformers' YaRN: attention_factor, or 0.1 ln(factor) + 1 (Peng et al., arXiv:2309.00071, 3.4).
double yarn_scale(const Json& config) {
    const auto scaling = config.find("rope_scaling");
    if (scaling == config.end() || !scaling->is_object()) return 1;
    const auto number = [&](const char* key, double fallback) {
        const auto at = scaling->find(key);
        return at != scaling->end() && at->is_number() ? at->get<double>() : fallback;
    };
    const auto kind = scaling->contains("rope_type") ? scaling->find("rope_type") : scaling->find("type");
    if (kind == scaling->end() || *kind != "yarn") return 1;
    const double factor = std::max(1.0, number("factor", 1));
    const auto magnitude = [&](double weight) { return weight == 0 ? 1.0 : 0.1 * weight * std::log(factor) + 1; };
    const double above = number("mscale", 0), below = number("mscale_all_dim", 0);
    return number("attention_factor", above != 0 && below != 0 ? magnitude(above) / magnitude(below) : magnitude(1));
}

Json gpt_oss(const Config& c) {
    Json model = llama(c);
    model["bias"] = c.flag("attention_bias", true);
    if (!model.contains("head_dim")) model["head_dim"] = 64; // GptOssConfig's defaults
    model["kv_heads"] = c.number("num_key_value_heads", 8);
    model["rope_base"] = c.rope_base(150000);
    model["norm_epsilon"] = c.rate("rms_norm_eps", 1e-5);
    model["activation_clamp"] = c.rate("swiglu_limit", 7);
    model["attention"] = {{"sliding_window", c.number("sliding_window", 128)}, {"full_every", 2}};
    model["moe"] = {{"experts", c.number("num_local_experts", 128)},
                    {"top_k", c.number("num_experts_per_tok", 4)},
                    {"expert_ffn_size", model["ffn_size"]},
                    {"stacked_weights", true}}; // GptOssExperts: gate_up_proj, down_proj
    if (const auto types = c.json.find("layer_types"); types != c.json.end() && types->is_array())
        for (std::size_t i = 0; i < types->size(); ++i)
            if ((*types)[i] != (i % 2 == 0 ? "sliding_attention" : "full_attention")) {
                c.problems.push_back(
                    {"/layer_types", "layer_types other than sliding_attention and full_attention in turn is not modelled"});
                break;
            }
    c.notes.push_back("attention sinks of the config.json's model (a number a head) are left out");
    return model;
}

Json deepseek(const Config& c) {
    Json model = llama_own(c);
    model.erase("head_dim");
    model["kv_heads"] = model["attention_heads"];
    model["attention"] = {{"kind", "mla"},
                          {"q_lora_rank", c.number("q_lora_rank", 0)},
                          {"kv_lora_rank", c.number("kv_lora_rank", 512)},
                          {"qk_nope_head_dim", c.number("qk_nope_head_dim", 128)},
                          {"qk_rope_head_dim", c.number("qk_rope_head_dim", 64)},
                          {"v_head_dim", c.number("v_head_dim", 128)}};
    const bool sigmoid = c.text("scoring_func", "softmax") == "sigmoid";
    model["moe"] = {{"experts", c.number("n_routed_experts")},
                    {"top_k", c.number("num_experts_per_tok")},
                    {"expert_ffn_size", c.number("moe_intermediate_size")},
                    {"shared_experts", c.number("n_shared_experts", 0)},
                    {"first_dense_layers", c.number("first_k_dense_replace", 0)},
                    {"layer_frequency", c.number("moe_layer_freq", 1)},
                    {"groups", std::max<std::int64_t>(1, c.number("n_group", 1))},
                    {"group_limit", std::max<std::int64_t>(1, c.number("topk_group", 1))},
                    {"scoring", sigmoid ? "sigmoid" : "softmax"},
                    {"router_bias", c.text("topk_method", "") == "noaux_tc"},
                    {"auxiliary_loss", c.text("topk_method", "") != "noaux_tc"}};
    model["mtp_layers"] = c.number("num_nextn_predict_layers", 0);
    return model;
}

// Every n-th layer attends to all tokens, the others within a window: by a pattern's length, or by a list with a word for each layer.
std::int64_t full_every(const Config& c, const char* pattern, std::int64_t fallback) {
    const auto types = c.json.find("layer_types");
    if (types == c.json.end() || !types->is_array() || types->empty()) return c.number(pattern, fallback);
    const auto first = std::find(types->begin(), types->end(), "full_attention");
    const std::int64_t every = first == types->end() ? 0 : first - types->begin() + 1;
    for (std::size_t i = 0; i < types->size(); ++i) {
        const bool full = every > 0 && (static_cast<std::int64_t>(i) + 1) % every == 0;
        if ((*types)[i] == (full ? "full_attention" : "sliding_attention")) continue;
        c.problems.push_back({"/layer_types", "layer_types other than full_attention at every n-th layer is not modelled"});
        break;
    }
    return every;
}

// The fields that Gemma 2 and Gemma 3 share. (Their norms multiply by 1 + w: another starting value of the same parameter.)
Json gemma(const Config& c, Json model, std::int64_t window, std::int64_t every) {
    c.refuse_bias("attention_bias");
    model["activation"] = activation(c, "hidden_activation", "gelu_pytorch_tanh", true);
    model["head_dim"] = c.number("head_dim", 256);
    model["norm_placement"] = "both";
    model["tied_embeddings"] = c.flag("tie_word_embeddings", true);
    model["embedding_scale"] = std::sqrt(model["hidden_size"].get<double>());
    model["logit_cap"] = c.rate("final_logit_softcapping", 0);
    model["attention"] = {{"score_cap", c.rate("attn_logit_softcapping", 0)}, {"sliding_window", window}, {"full_every", every}};
    if (c.number("query_pre_attn_scalar", 256) != model["head_dim"])
        c.notes.push_back(
            "query_pre_attn_scalar of the config.json is not its head_dim, and kernels here scale scores by the root of that");
    return model;
}

Json gemma2(const Config& c) { return gemma(c, llama(c), c.number("sliding_window", 4096), full_every(c, "sliding_window_pattern", 2)); }

Json gemma3(const Config& c) {
    Json filled = c.json; // with Gemma3TextConfig's defaults: published files leave them out
    for (const auto& [key, value] : {std::pair{"vocab_size", 262208},
                                     {"hidden_size", 2304},
                                     {"intermediate_size", 9216},
                                     {"num_hidden_layers", 26},
                                     {"num_attention_heads", 8},
                                     {"num_key_value_heads", 4}})
        if (!filled.contains(key)) filled[key] = value;
    const Config whole{filled, c.problems, c.notes};
    Json model = gemma(c, llama(whole), c.number("sliding_window", 4096), full_every(c, "sliding_window_pattern", 6));
    model["rope_base"] = c.rope_base(1e6);
    model["attention"]["qk_norm"] = true;
    c.notes.push_back("layers with a window have rotations of another base (rope_local_base_freq of the config.json): here all have one");
    return model;
}

// The language model of one that sees pictures too.
Json gemma3_of_text(const Config& c) {
    const Json text = c.json.value("text_config", Json::object());
    c.notes.push_back("the config.json's vision tower is left out: the model is its text_config");
    return gemma3({text, c.problems, c.notes});
}

Json olmo2(const Config& c) {
    Json model = llama_own(c);
    model["norm_epsilon"] = c.rate("rms_norm_eps", 1e-5); // Olmo2Config's default
    model["norm_placement"] = "after";
    model["attention"] = {{"qk_norm", true}, {"qk_norm_across", true}};
    return model;
}

Json glm4_moe(const Config& c) {
    Json model = llama(c);
    model["norm_epsilon"] = c.rate("rms_norm_eps", 1e-5); // Glm4MoeConfig's defaults
    model["rope_fraction"] = c.rope_fraction("partial_rotary_factor", 0.5);
    model["attention"] = {{"qkv_bias", c.flag("attention_bias", false)},
                          {"qk_norm", c.flag("use_qk_norm", false)}}; // (no bias on the output)
    model["moe"] = {{"experts", c.number("n_routed_experts", 128)},
                    {"top_k", c.number("num_experts_per_tok", 8)},
                    {"expert_ffn_size", c.number("moe_intermediate_size", 1408)},
                    {"shared_experts", c.number("n_shared_experts", 1)},
                    {"first_dense_layers", c.number("first_k_dense_replace", 1)},
                    {"groups", std::max<std::int64_t>(1, c.number("n_group", 1))},
                    {"group_limit", std::max<std::int64_t>(1, c.number("topk_group", 1))},
                    {"scoring", "sigmoid"},
                    {"router_bias", true},
                    {"auxiliary_loss", false}};
    model["mtp_layers"] = c.number("num_nextn_predict_layers", 0);
    return model;
}

Json nemotron(const Config& c) {
    c.refuse_bias("attention_bias");
    Json others = c.json;
    others.erase("hidden_act"); // it has no gate
    Json model = llama({others, c.problems, c.notes});
    model["activation"] = activation(c, "hidden_act", "relu2", false);
    model["norm"] = "layernorm";
    model["norm_bias"] = true; // NemotronLayerNorm1P
    model["norm_epsilon"] = c.rate("norm_eps", 1e-5);
    model["rope_fraction"] = c.rope_fraction("partial_rotary_factor", 0.5);
    return model;
}

Json falcon(const Config& c) {
    const bool newer = c.flag("new_decoder_architecture", false), parallel = newer || c.flag("parallel_attn", true);
    const std::int64_t h = c.number("hidden_size", 4544), heads = c.number("num_attention_heads", 71);
    if (c.flag("alibi", false)) c.problems.push_back({"/alibi", "alibi = true (Falcon-RW) is not read: give the fields by hand"});
    return {{"layers", c.number("num_hidden_layers", 32)},
            {"hidden_size", h},
            {"attention_heads", heads},
            {"kv_heads", newer                         ? c.number("num_kv_heads", heads)
                         : c.flag("multi_query", true) ? 1
                                                       : heads},
            {"ffn_size", c.number("ffn_hidden_size", 4 * h)},
            {"vocab_size", c.number("vocab_size", 65024)},
            {"position", "rope"},
            {"rope_base", c.rope_base(10000)},
            {"activation", activation(c, "activation", "gelu", false)},
            {"norm", "layernorm"},
            {"norm_epsilon", c.rate("layer_norm_epsilon", 1e-5)},
            {"bias", c.flag("bias", false)},
            {"norm_bias", true},
            {"parallel_block", parallel},
            {"parallel_norms", parallel && newer && c.number("num_ln_in_parallel_attn", 2) == 2},
            {"tied_embeddings", c.flag("tie_word_embeddings", true)},
            {"dropout", c.rate("hidden_dropout", 0.0)}};
}

struct Architecture {
    const char* model_type;
    Json (*read)(const Config&);
};

constexpr Architecture architectures[] = {
    {"bloom", bloom},
    {"deepseek_v2", deepseek},
    {"deepseek_v3", deepseek},
    {"falcon", falcon},
    {"gemma2", gemma2},
    {"gemma3", gemma3_of_text},
    {"gemma3_text", gemma3},
    {"glm4_moe", glm4_moe},
    {"gpt2", gpt2},
    {"gpt_neox", gpt_neox},
    {"gpt_oss", gpt_oss},
    {"kimi_k2", deepseek},
    {"llama", llama_own},
    {"mistral", mistral},
    {"mixtral", mixtral},
    {"mpt", mpt},
    {"nemotron", nemotron},
    {"olmo2", olmo2},
    {"opt", opt},
    {"phi3", phi3},
    {"qwen2", qwen2},
    {"qwen3", qwen3},
    {"qwen3_moe", qwen3_moe},
};

} // namespace

std::vector<std::string> hf_architectures() {
    std::vector<std::string> names;
    for (const Architecture& a : architectures) names.emplace_back(a.model_type);
    return names;
}

Json model_from_hf(std::string_view text, std::vector<Problem>& problems, std::vector<std::string>& notes) {
    const Json config = read_json(text, problems);
    if (!problems.empty()) return nullptr;
    if (!config.is_object() || !config.contains("model_type") || !config["model_type"].is_string()) {
        problems.push_back({"/model_type", "model_type is missing: it says which architecture the config.json is of"});
        return nullptr;
    }
    const std::string type = config["model_type"].get<std::string>();
    for (const Architecture& a : architectures)
        if (type == a.model_type) {
            Json model = a.read(Config{config, problems, notes});
            if (const double scale = yarn_scale(config); scale != 1 && model.value("position", "") == "rope") model["rope_scale"] = scale;
            return model;
        }
    const auto near = nearest(type, hf_architectures());
    problems.push_back({"/model_type", "model_type = \"" + type + "\" is not one this reads" +
                                           (near ? ": did you mean \"" + *near + "\"?" : ".") + " It reads " + join(hf_architectures())});
    return nullptr;
}

} // namespace orrery
