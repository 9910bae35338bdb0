#include "tests/fuzz/legal.hpp"

#include "sim/scenario/schema.hpp"

#include <algorithm>
#include <map>
#include <set>

namespace orrery::fuzz {
namespace {

// Fields that stay as they are: sizes of the model, which would make it large, and what has no part in a plan.
bool left_alone(const std::string& path) {
    static const std::set<std::string> fields = {"/model/name",
                                                 "/model/preset",
                                                 "/model/hf_config",
                                                 "/model/layers",
                                                 "/model/hidden_size",
                                                 "/model/attention_heads",
                                                 "/model/vocab_size",
                                                 "/model/max_positions",
                                                 "/training/global_batch_size",
                                                 "/training/sequence_length",
                                                 "/training/seed",
                                                 "/training/convergence",
                                                 "/training/data",
                                                 "/strategy/synchronization/samples"};
    return fields.contains(path);
}

// Values that the schema alone does not tell.
const std::vector<Json>* told(const std::string& path) {
    static const std::map<std::string, std::vector<Json>> values = {
        {"/model/kv_heads", {1, 2, 4}},
        {"/model/head_dim", {4, 8, 16}},
        {"/model/ffn_size", {24, 32, 48}},
        {"/model/rope_scale", {0.5, 2}},
        {"/model/rope_base", {500, 10000}},
        {"/model/rope_fraction", {0.5, 1}},
        {"/model/embedding_scale", {1, 2}},
        {"/model/logit_cap", {0, 3}},
        {"/model/attention/score_cap", {0, 2}},
        {"/model/norm_epsilon", {1e-6, 1e-5}},
        {"/model/activation_clamp", {1, 7}},
        {"/model/dropout", {0, 0.1}},
        {"/model/attention/sliding_window", {2, 5}},
        {"/model/attention/full_every", {2, 3}},
        {"/model/moe/experts", {4, 8}},
        {"/model/moe/expert_ffn_size", {12, 16}},
        {"/model/moe/shared_expert_ffn_size", {8, 12}},
        {"/model/moe/capacity_factor", {0, 1.25, 4}},
        {"/model/moe/imbalance", {"none", "zipf:0.8", "zipf:30"}},
        {"/training/micro_batch_size", {1, 1, 2}},
        {"/training/document_tokens", {2, 4}},
        {"/training/gradient_clipping", {0, 0.1, 1}},
        {"/training/learning_rate", {0.01}},
        {"/training/warmup_steps", {1, 3}},
        {"/strategy/layer_split", {Json::array({1, 3}), Json::array({3, 1}), Json::array({1, 1, 1, 1}), Json::array({2, 1, 1, 0})}},
        {"/strategy/recompute",
         {"none", "selective", "full", Json::array({"norm", "activation"}), Json::array({"attention", "linear"}), Json{{"segments", 2}},
          Json{{"segment_layers", 2}}, Json{{"memory_budget", 0.5}}}},
        {"/strategy/recompute_layers", {1, 2, Json::array({1, 0}), Json{{"every", 2}}, Json{{"per_chunk", 1}}}},
        {"/strategy/microbatch_group_size", {2, 3, 4}},
        {"/strategy/mtp_chunk", {1, 2, 3}},
        {"/strategy/bucket_bytes", {1000, 20000, "1 MiB"}},
        {"/strategy/gradient_compression",
         {"fp16", "bf16", "int8", "int4", "top-k", "powersgd", "onebit-adam", "onebit-lamb", "zero-one-adam",
          Json{{"kind", "powersgd"}, {"rank", 2}, {"min_ratio", 0.5}}, Json{{"kind", "top-k"}, {"density", 0.3}, {"error_feedback", false}},
          Json{{"kind", "int8"}, {"hierarchical", true}}, Json{{"kind", "zero-one-adam"}, {"local_steps", 2}, {"start_step", 1}}}},
        {"/strategy/rank_order", {"tp-cp-ep-dp-pp", "tp-pp-cp-ep-dp", "dp-cp-pp-tp-ep", "pp-tp-cp-ep-dp"}},
        {"/strategy/offload/optimizer_fraction", {0, 0.3, 1}},
        {"/strategy/offload/undone_steps", {0, 0.1}},
        {"/strategy/offload/sub_group_size", {1000, 4000}},
        {"/strategy/offload/activation_ops", {Json::array({"fc1"}), Json::array({"norm", "attention"}), Json::array({"layer_input"})}},
        {"/strategy/synchronization/outer_learning_rate", {0.7, 1}},
        {"/strategy/synchronization/mixing", {0.5, 1}},
        {"/strategy/synchronization/staleness_bound", {-1, 0, 2}},
        {"/strategy/flush_every", {1, 2, 3}},
        {"/runtime/year", {2021, 2023, 2025, 2026}},
        {"/runtime/launch_us", {0, 4}},
        {"/runtime/dataloader_us", {0, 100}},
        {"/runtime/batch_us", {0, 100}},
        {"/runtime/reserved_gb", {0, 1}},
    };
    const auto it = values.find(path);
    return it == values.end() ? nullptr : &it->second;
}

// Those of a leaf of the schema; empty: it is of no kind that is drawn.
std::vector<Json> values_of(const Json& field, const std::string& path) {
    if (const std::vector<Json>* listed = told(path)) return *listed;
    if (field.contains("enum")) return field["enum"].get<std::vector<Json>>();
    const std::string type = field.value("type", "");
    if (type == "boolean") return {true, false};
    if (type == "array" && field["items"].contains("enum")) {
        const auto items = field["items"]["enum"].get<std::vector<Json>>();
        std::vector<Json> values;
        for (std::size_t i = 0; i < items.size(); ++i) {
            values.push_back(Json::array({items[i]}));
            values.push_back(Json::array({items[i], items[(i + 1) % items.size()]}));
        }
        return values;
    }
    if (type != "integer") return {};
    const std::int64_t least = field.value("minimum", std::int64_t{0}), most = field.value("maximum", std::int64_t{8});
    std::vector<Json> values;
    for (const std::int64_t v : {0, 1, 2, 3, 4, 8})
        if (v >= least && v <= most) values.push_back(v);
    return values;
}

bool take_away(Json& text, const Json::json_pointer& at) {
    const Json::json_pointer parent = at.parent_pointer();
    if (parent.empty() || left_alone(at.to_string())) return false;
    text[parent].erase(at.back());
    if (text[parent].empty() && !parent.parent_pointer().empty()) text[parent.parent_pointer()].erase(parent.back());
    return true;
}

// The field that a problem names, or the nearest thing around it that is stated and may be taken away.
bool take_named(Json& text, const std::string& where) {
    if (where.empty() || where.front() != '/') return false;
    Json::json_pointer at(where);
    while (!at.empty() && (!text.contains(at) || text[at.parent_pointer()].is_array())) at.pop_back();
    return !at.empty() && take_away(text, at);
}

// Where the field that is named is not stated: any of a section.
bool take_any(Json& text, Random& r) {
    std::vector<Json::json_pointer> stated;
    for (const char* section : {"model", "training", "strategy", "runtime"})
        if (text.contains(section))
            for (const auto& [key, value] : text[section].items())
                if (const Json::json_pointer at = Json::json_pointer() / section / key; !left_alone(at.to_string())) stated.push_back(at);
    return !stated.empty() && take_away(text, stated[r.next() % stated.size()]);
}

} // namespace

LegalScenarios::LegalScenarios(std::vector<Json> clusters, std::function<std::vector<Problem>(const Scenario&)> refused)
    : clusters_(std::move(clusters)), refused_(std::move(refused)) {
    const Json schema = Json::parse(scenario_schema());
    for (const char* section : {"/model", "/training", "/strategy", "/runtime"}) collect(schema["properties"][section + 1], section);
}

void LegalScenarios::collect(const Json& schema, const std::string& path) {
    if (left_alone(path)) return;
    if (schema.contains("anyOf")) { // a name, or the object: of a model's the first has all fields
        for (const Json& one : schema["anyOf"])
            if (one.contains("properties")) return collect(one, path);
        return;
    }
    Group group;
    group.nested = std::count(path.begin(), path.end(), '/') > 1;
    for (const auto& [key, field] : schema["properties"].items()) {
        const std::string at = path + "/" + key;
        if (field.contains("properties"))
            collect(field, at);
        else if (!left_alone(at))
            if (std::vector<Json> values = values_of(field, at); !values.empty())
                group.fields.push_back({Json::json_pointer(at), std::move(values)});
    }
    if (!group.fields.empty()) groups_.push_back(std::move(group));
}

std::size_t LegalScenarios::fields() const {
    std::size_t n = 0;
    for (const Group& g : groups_) n += g.fields.size();
    return n;
}

Json LegalScenarios::drawn(Random& r) const {
    const int tp = r.of({1, 1, 1, 2, 4}), pp = r.of({1, 1, 2, 4}), cp = r.of({1, 1, 1, 2}), dp = r.of({1, 2, 2, 4});
    const int world = tp * pp * cp * dp, per_node = world % 4 == 0 ? r.of({4, world, 2}) : world;
    Json text{{"name", "drawn"},
              {"model", {{"layers", r.of({4, 4, 8})}, {"hidden_size", 16}, {"attention_heads", 4}, {"vocab_size", 32}, {"ffn_size", 32}}},
              {"cluster", clusters_[r.next() % clusters_.size()]},
              {"training", {{"global_batch_size", dp * r.of({4, 8})}, {"sequence_length", 8}, {"precision", "fp32"}}},
              {"strategy", {{"tensor_parallel", tp}, {"pipeline_parallel", pp}, {"context_parallel", cp}}}};
    const int devices = std::min(per_node, 8);
    text["cluster"]["devices_per_node"] = devices;
    text["cluster"]["nodes"] = (world + devices - 1) / devices;
    if (pp > 1) text["strategy"]["schedule"] = r.of<const char*>({"1f1b", "gpipe", "zb-h1", "interleaved-1f1b", "pipedream-async", "zb-v"});
    if (r.chance(40)) {
        text["model"].update({{"norm", "rmsnorm"}, {"activation", "swiglu"}, {"bias", false}, {"position", "rope"}});
        if (r.chance(50)) text["model"]["moe"] = {{"experts", 4}, {"top_k", r.of({1, 2})}, {"expert_ffn_size", 12}};
        if (r.chance(20))
            text["model"]["attention"] = {{"kind", "mla"},         {"q_lora_rank", 8},      {"kv_lora_rank", 8},
                                          {"qk_nope_head_dim", 4}, {"qk_rope_head_dim", 2}, {"v_head_dim", 4}};
    }
    for (const Group& group : groups_) {
        if (group.nested && !r.chance(15)) continue;
        for (std::uint64_t n = group.nested ? 1 + r.next() % 4 : r.next() % 5; n > 0; --n) {
            const Field& field = group.fields[r.next() % group.fields.size()];
            // An object that a field of this name has replaced by a word stays.
            if (text.contains(field.at.parent_pointer()) && !text[field.at.parent_pointer()].is_object()) continue;
            text[field.at] = field.values[r.next() % field.values.size()];
        }
    }
    return text;
}

std::optional<Scenario> LegalScenarios::accepted(const Json& text, std::vector<Problem>& problems) const {
    ParseResult parsed = parse_scenario(text.dump());
    problems = parsed.problems;
    if (!parsed.scenario) return std::nullopt;
    problems = unsupported(*parsed.scenario);
    if (problems.empty()) problems = refused_(*parsed.scenario);
    if (!problems.empty()) return std::nullopt;
    return std::move(parsed.scenario);
}

std::optional<Scenario> LegalScenarios::draw(Random& r, Json& text) const {
    constexpr int most_repairs = 25;
    text = drawn(r);
    std::vector<Problem> problems;
    for (int repair = 0; repair < most_repairs; ++repair) {
        if (std::optional<Scenario> s = accepted(text, problems)) return s;
        bool less = false;
        for (const Problem& p : problems) less = take_named(text, p.where) || less;
        if (!less && !take_any(text, r)) return std::nullopt;
    }
    return std::nullopt;
}

} // namespace orrery::fuzz
