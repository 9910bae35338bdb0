// Presets are JSON files of scenarios/models, compiled in; overrides are merged into their text before it is read by the field table.
#include "sim/scenario/model_text.hpp"

#include "sim/scenario/fields.hpp"
#include "sim/scenario/hf_config.hpp"
#include "sim/scenario/parameters.hpp"
#include "sim/scenario/suggest.hpp"
#include "topology/catalog.hpp"

#include <nlohmann/json.hpp>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <span>

namespace orrery {

std::span<const EmbeddedFile> model_files();

namespace {

constexpr const char* about_keys[] = {"title", "source", "published_parameters", "parameters_note"};

Json preset_text(std::string_view name) {
    for (const EmbeddedFile& file : model_files())
        if (file.name == name) return Json::parse(file.text);
    return nullptr;
}

// Objects merge, everything else is replaced; null takes a field away ("moe": null makes a model dense).
void merge(Json& base, const Json& over) {
    for (const auto& [key, value] : over.items()) {
        if (value.is_null())
            base.erase(key);
        else if (value.is_object() && base.contains(key) && base[key].is_object())
            merge(base[key], value);
        else
            base[key] = value;
    }
}

// By the magnitude of its largest matrices, so that no exact count can leave 64 bits.
bool too_large(const Model& m) {
    const double h = static_cast<double>(m.hidden_size),
                 width = std::max(m.head_dim, m.attention.v_head_dim + m.attention.qk_nope_head_dim + m.attention.qk_rope_head_dim);
    double ffn = static_cast<double>(std::max(m.ffn_size, 4 * m.hidden_size));
    if (m.moe)
        ffn += static_cast<double>(m.moe->experts + m.moe->shared_experts) *
               static_cast<double>(std::max({m.moe->expert_ffn_size, m.moe->shared_expert_ffn_size, m.ffn_size}));
    const double attention = (h + m.attention.q_lora_rank + m.attention.kv_lora_rank) * m.attention_heads * (width + 1) * 4;
    return m.layers * (attention + 3 * h * ffn) + 2 * h * static_cast<double>(m.vocab_size + m.max_positions) > 1e17;
}

// Rotary positions turn pairs of numbers; latent attention has them whatever the model's position.
void check_rotated(Reading& reading, const std::string& where) {
    const Model& m = reading.scenario.model;
    const bool latent = m.attention.kind == AttentionSpec::Kind::mla;
    const char* const turned = latent ? "attention/qk_rope_head_dim" : "head_dim";
    if (const int size = latent ? m.attention.qk_rope_head_dim : m.head_dim; size % 2 != 0 && (latent || m.position == PositionKind::rope))
        reading.problem(where + "/" + turned, dotted(where + "/" + turned) + " = " + std::to_string(size) +
                                                  " must be even: rotary positions turn the numbers of a head in pairs");
}

// The columns of a head that are rotated are pairs too.
void check_rope_fraction(Reading& reading, const std::string& where) {
    const Model& m = reading.scenario.model;
    const double turned = m.head_dim * m.rope_fraction;
    if (m.rope_fraction == 1 || m.attention.kind == AttentionSpec::Kind::mla || m.position != PositionKind::rope) return;
    if (turned >= 2 && turned == std::floor(turned / 2) * 2) return;
    reading.problem(where + "/rope_fraction", dotted(where) + ".rope_fraction = " + plain_number(m.rope_fraction) +
                                                  " of head_dim = " + std::to_string(m.head_dim) + " is " + plain_number(turned) +
                                                  " columns: it must be an even whole number of at least 2");
}

// Norms and caps that no model has together, or that no rule is known for.
void check_norms(Reading& reading, const std::string& where) {
    const Model& m = reading.scenario.model;
    const auto refuse = [&](bool asked, const char* field, const std::string& why) {
        if (asked) reading.problem(where + field, dotted(where + field) + why);
    };
    const bool behind = m.norm_placement != NormPlacement::before;
    const std::string placed = std::string(" = ") + name(m.norm_placement);
    refuse(behind && m.bias, "/norm_placement",
           placed + " is not modelled with biases, which are added behind the norm here: set bias = false");
    refuse(behind && m.parallel_block, "/norm_placement",
           placed + " is not modelled with parallel_block, whose norms stand before it: set norm_placement = before");
    refuse(behind && m.moe && m.moe->imbalance == Imbalance::untrained, "/moe/imbalance",
           " = untrained is derived for norms before attention and MLP: give zipf:<exponent> or a list of shares");
    refuse(m.attention.score_cap > 0 && m.position == PositionKind::alibi, "/attention/score_cap",
           " is not modelled with position = alibi, whose biases come behind the cap: set position = rope");
}

// Fields of a mixture of experts; only for models that have one.
void resolve_mixture(Reading& reading, const std::string& where) {
    Model& m = reading.scenario.model;
    MoeSpec& e = *m.moe;
    if (m.bias && m.activation == ActivationKind::swiglu && !reading.has(where + "/activation_clamp")) {
        m.activation_clamp = 7; // OpenAI's gpt-oss, config.json: swiglu_limit
        reading.scenario.defaults[where + "/activation_clamp"] =
            "7: experts with a gate and biases are GPT-OSS's, whose swiglu_limit it is";
    }
    if (e.expert_ffn_size == 0) e.expert_ffn_size = m.ffn_size;
    if (e.top_k > e.experts)
        reading.problem(where + "/moe/top_k", dotted(where) + ".moe.top_k = " + std::to_string(e.top_k) +
                                                  " must be at most experts = " + std::to_string(e.experts));
    if (e.first_dense_layers >= m.layers)
        reading.problem(where + "/moe/first_dense_layers", dotted(where) +
                                                               ".moe.first_dense_layers = " + std::to_string(e.first_dense_layers) +
                                                               " must be below layers = " + std::to_string(m.layers));
    if (e.experts % e.groups != 0)
        reading.problem(where + "/moe/groups", dotted(where) + ".moe.groups = " + std::to_string(e.groups) + " must divide experts = " +
                                                   std::to_string(e.experts) + ": try " + join(common_divisors(e.experts)));
    if (e.group_limit > e.groups)
        reading.problem(where + "/moe/group_limit", dotted(where) + ".moe.group_limit = " + std::to_string(e.group_limit) +
                                                        " must be at most groups = " + std::to_string(e.groups));
    for (const std::vector<double>& loads : e.imbalance_loads) {
        if (static_cast<int>(loads.size()) == e.experts) continue;
        reading.problem(where + "/moe/imbalance", dotted(where) + ".moe.imbalance has " + std::to_string(loads.size()) +
                                                      " entries: it needs one an expert, experts = " + std::to_string(e.experts));
        break;
    }
    const int layers = mixture_layers(m, m.layers), lists = static_cast<int>(e.imbalance_loads.size());
    if (lists > 1 && lists != layers && lists != mixture_layers(m, m.layers + m.mtp_layers))
        reading.problem(where + "/moe/imbalance", dotted(where) + ".moe.imbalance has " + std::to_string(lists) +
                                                      " lists: it needs one a mixture layer, " + std::to_string(layers) + " of the " +
                                                      std::to_string(m.layers) + " layers, or one for all");
}

// The usual defaults (DESIGN: ffn 4 x hidden, kv_heads = heads ..). The position table is resolved with the sequence length, in parse.cpp.
void resolve_model(Reading& reading, const std::string& where) {
    Model& m = reading.scenario.model;
    if (too_large(m))
        return reading.problem(where, dotted(where) +
                                          " describes more than 1e17 parameters, which is more than can be counted here: lower its sizes");
    if (m.kv_heads == 0) m.kv_heads = m.attention_heads;
    if (m.ffn_size == 0) m.ffn_size = 4 * m.hidden_size;
    if (m.attention.kind == AttentionSpec::Kind::mla) {
        for (const auto& [key, value] : {std::pair{"kv_lora_rank", m.attention.kv_lora_rank},
                                         {"qk_nope_head_dim", m.attention.qk_nope_head_dim},
                                         {"qk_rope_head_dim", m.attention.qk_rope_head_dim},
                                         {"v_head_dim", m.attention.v_head_dim}})
            if (value == 0)
                reading.problem(where + "/attention/" + key,
                                dotted(where) + ".attention." + key + " is missing: attention.kind = mla needs it above 0");
        if (m.head_dim == 0) m.head_dim = m.attention.qk_nope_head_dim + m.attention.qk_rope_head_dim;
    } else if (m.head_dim == 0 && m.attention_heads > 0) {
        if (m.hidden_size % m.attention_heads != 0)
            reading.problem(where + "/attention_heads", dotted(where) + ".attention_heads = " + std::to_string(m.attention_heads) +
                                                            " must divide hidden_size = " + std::to_string(m.hidden_size) +
                                                            ", or head_dim be given: try " + join(common_divisors(m.hidden_size, 0, 64)));
        m.head_dim = static_cast<int>(m.hidden_size / m.attention_heads);
    }
    check_rotated(reading, where);
    check_rope_fraction(reading, where);
    check_norms(reading, where);
    if (m.kv_heads > 0 && m.attention_heads % m.kv_heads != 0)
        reading.problem(where + "/kv_heads", dotted(where) + ".kv_heads = " + std::to_string(m.kv_heads) +
                                                 " must divide attention_heads = " + std::to_string(m.attention_heads) + ": try " +
                                                 join(common_divisors(m.attention_heads)));
    if (m.moe) resolve_mixture(reading, where);
}

void read_fields(Reading& reading, const Json& object, const std::string& where) {
    const std::size_t before = reading.problems.size();
    read_object(reading, object, where, model_fields());
    Model& m = reading.scenario.model;
    if (!reading.has(where + "/norm_bias")) m.norm_bias = m.bias;
    if (reading.problems.size() == before) resolve_model(reading, where);
}

void unknown_model(Reading& reading, const std::string& name, const std::string& where) {
    const std::vector<std::string> names = model_names();
    const std::string meant = did_you_mean(name, names);
    reading.problem(where, dotted(where) + " = \"" + name + "\" is not a known model" + (meant.empty() ? "." : meant) +
                               " `simrun list models` names them");
}

void insert_fields(Pointers& given, const Json& object, const std::string& where) {
    for (const auto& [key, value] : object.items()) {
        given.insert(where + pointer_step(key));
        if (value.is_object()) insert_fields(given, value, where + pointer_step(key));
    }
}

void read_preset(Reading& reading, const std::string& name, const Json& overrides, const std::string& where, const std::string& name_at) {
    Json text = preset_text(name);
    if (text.is_null()) return unknown_model(reading, name, name_at);
    for (const char* key : about_keys) text.erase(key);
    // Only what the user wrote is "given"; a misspelt override must be found against the table, so it is merged, not skipped.
    merge(text, overrides);
    if (!text.contains("name")) text["name"] = name;
    const Pointers given = reading.given;
    read_fields(reading, text, where);
    reading.given = given;
    insert_fields(reading.given, overrides, where);
}

void read_hf(Reading& reading, const Json& object, const std::string& where) {
    const std::string at = where + "/hf_config";
    const Json& path = object.at("hf_config");
    if (!path.is_string())
        return reading.problem(at,
                               dotted(at) + " = " + short_text(path) + " is " + type_name(path) + ": expected the path of a config.json");
    const std::filesystem::path file = std::filesystem::path(reading.options.base_dir) / path.get<std::string>();
    std::string text;
    if (!read_file(file.string(), text)) return reading.problem(at, dotted(at) + ": cannot read " + file.string());
    std::vector<Problem> problems;
    Json model = model_from_hf(text, problems, reading.scenario.notes);
    for (const Problem& p : problems) reading.problem(at, file.string() + (p.where.empty() ? "" : " at " + p.where) + ": " + p.what);
    if (!problems.empty()) return;
    Json overrides = object;
    overrides.erase("hf_config");
    merge(model, overrides);
    if (!model.contains("name"))
        model["name"] = file.parent_path().filename().string().empty() ? file.stem().string() : file.parent_path().filename().string();
    read_fields(reading, model, where);
}

} // namespace

void read_model(Reading& reading, const Json& value, const std::string& where) {
    reading.scenario.model.layers = 0;
    if (value.is_string()) return read_preset(reading, value.get<std::string>(), Json::object(), where, where);
    if (!value.is_object()) {
        return reading.problem(where, dotted(where) + " = " + short_text(value) + " is " + type_name(value) +
                                          ": expected a preset's name, {\"preset\": name}, {\"hf_config\": path} or the model's fields");
    }
    if (value.contains("hf_config")) {
        if (value.contains("preset"))
            reading.problem(where, dotted(where) + " has both \"preset\" and \"hf_config\": keep one of them");
        else
            read_hf(reading, value, where);
        return;
    }
    if (!value.contains("preset")) return read_fields(reading, value, where);
    const std::string at = where + "/preset";
    if (!value.at("preset").is_string())
        return reading.problem(at, dotted(at) + " = " + short_text(value.at("preset")) + " must be a model's name");
    Json overrides = value;
    overrides.erase("preset");
    read_preset(reading, value.at("preset").get<std::string>(), overrides, where, at);
}

std::vector<std::string> model_names() {
    std::vector<std::string> names;
    for (const EmbeddedFile& file : model_files()) names.emplace_back(file.name);
    return names;
}

std::optional<ModelPreset> find_model(std::string_view name) {
    const Json text = preset_text(name);
    if (text.is_null()) return std::nullopt;
    Reading reading;
    read_model(reading, Json(std::string(name)), "/model");
    if (!reading.problems.empty()) return std::nullopt; // the models' test names what is wrong with the file
    ModelPreset preset;
    preset.name = name;
    preset.model = reading.scenario.model;
    preset.title = text.value("title", preset.name);
    preset.source = text.value("source", "");
    preset.note = text.value("parameters_note", "");
    if (const auto p = text.find("published_parameters"); p != text.end()) {
        preset.published_parameters = p->value("count", 0.0);
        preset.rounded_to = p->value("rounded_to", 0.0);
        preset.published_source = p->value("source", "");
    }
    return preset;
}

ModelResult parse_model(std::string_view json_text, const ParseOptions& options) {
    Reading reading;
    reading.options = options;
    const Json value = read_json(json_text, reading.problems);
    if (reading.problems.empty()) read_model(reading, value, "/model");
    ModelResult result;
    result.problems = reading.problems;
    if (result.problems.empty()) result.model = reading.scenario.model;
    return result;
}

} // namespace orrery
