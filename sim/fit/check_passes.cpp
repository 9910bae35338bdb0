// Predictions, by a simulated step, of published passes over a layer, a pipeline stage's layers or a mixture of experts: forward and
// backward, the latter whole or by input and weight gradients. A row becomes a scenario of those layers alone, on as many ranks as they are
// cut for.
#include "sim/fit/laws.hpp"

#include "sim/report/report.hpp"
#include "sim/scenario/parse.hpp"

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <array>
#include <map>
#include <stdexcept>

namespace orrery {

namespace {

using OrderedJson = nlohmann::ordered_json;

struct Passes {
    double forward = 0, backward = 0, input = 0, weight = 0;
}; // us

bool of_experts(const std::string& op) {
    const std::string_view name = std::string_view(op).substr(std::min(op.size(), op.find('.') + 1)); // "l0.router.fwd"
    const std::array<const char*, 9> begins{"rout",    "permute", "unpermute", "row_prob", "dispatch",
                                            "combine", "expert",  "shared",    "counts"};
    return std::any_of(begins.begin(), begins.end(), [&](const char* b) { return name.starts_with(b); });
}

// From the first of a pass's ops to the last, waits included; input and weight gradients by what their ops take.
Passes passes_of(const OrderedJson& scenario, bool experts, const std::shared_ptr<const OwnConstants>& constants) {
    ParseOptions parsing;
    parsing.constants = constants;
    const ParseResult parsed = parse_scenario(scenario.dump(), parsing);
    if (!parsed.scenario) throw std::runtime_error(to_text(parsed.problems));
    PredictOptions options;
    options.simulate.trace = true;
    const Trace trace = *predict(*parsed.scenario, options).simulation.trace;
    std::array<Time, 2> first{}, last{};
    std::array<bool, 2> met{};
    Passes p;
    for (const Span& s : trace.lanes.front().spans) {
        if (s.op < 0 || s.kind != SpanKind::op) continue;
        const TraceOp& op = trace.ops[s.op];
        const std::size_t back = op.phase == "recompute" || op.phase == "backward" || op.phase == "weight-gradient" ? 1 : 0;
        if (op.layer < 0 || (back == 0 && op.phase != "forward") || (experts && !of_experts(op.name))) continue;
        first[back] = met[back] ? std::min(first[back], s.begin) : s.begin;
        last[back] = met[back] ? std::max(last[back], s.end) : s.end;
        met[back] = true;
        if (back == 1) (op.phase == "weight-gradient" ? p.weight : p.input) += (s.end - s.begin).seconds() * 1e6;
    }
    p.forward = (last[0] - first[0]).seconds() * 1e6;
    p.backward = (last[1] - first[1]).seconds() * 1e6;
    return p;
}

OrderedJson cluster_of(const std::string& device, int devices) {
    const auto found = find_device(device);
    if (!found) throw std::runtime_error("no device " + device);
    return {{"device", device},
            {"nodes", 1},
            {"devices_per_node", devices},
            {"intra_node", {{"kind", "nvswitch"}, {"gb_per_s", found->scale_up.value * 1e-9}}}};
}

// Megatron-LM's layer of 2021-23: GPT's, softmax in one kernel but no flash attention, gradients added inside the weight gradients'
// products, the all-reduce of the input gradient under them. Four times the layers asked for, so that ends weigh little.
constexpr int repeats = 4;
OrderedJson layers_scenario(const MeasuredTable& t, std::size_t row) {
    const auto number = [&](const char* c) { return static_cast<std::int64_t>(t.number(row, c)); };
    const std::int64_t hidden = number("hidden_size"), heads = number("attention_heads"), tensor = number("tensor_parallel"),
                       micro = number("micro_batch_size");
    const bool flash = t.text(row, "flash_attention") == "true";
    return {{"model",
             {{"layers", repeats * number("layers")},
              {"hidden_size", hidden},
              {"attention_heads", heads},
              {"kv_heads", heads},
              {"ffn_size", 4 * hidden},
              {"vocab_size", 51200},
              {"activation", "gelu"},
              {"norm", "layernorm"},
              {"position", "learned"},
              {"tied_embeddings", true},
              {"bias", true},
              {"dropout", 0.1}}},
            {"cluster", cluster_of(t.text(row, "device"), static_cast<int>(tensor))},
            {"training",
             {{"global_batch_size", micro},
              {"micro_batch_size", micro},
              {"sequence_length", number("sequence_length")},
              {"precision", t.text(row, "precision")},
              {"optimizer", "adam"}}},
            {"strategy",
             {{"framework", "megatron"},
              {"data_parallel", 1},
              {"tensor_parallel", tensor},
              {"sequence_parallel", t.text(row, "sequence_parallel") == "true"},
              {"pipeline_parallel", 1},
              {"schedule", "none"},
              {"recompute", t.text(row, "recompute")},
              {"flash_attention", flash},
              {"fused", true},
              {"overlap", {{"grad_reduce", false}, {"tensor_parallel", tensor > 1}, {"pipeline", false}}}}},
            {"runtime",
             {{"year", 2022},
              {"attention_kernel", flash ? "flash-2" : "unfused"},
              {"fused_softmax", true},
              {"fused_loss", false},
              {"fused_norm", true},
              {"fused_optimizer", true},
              {"fused_weight_gradient_accumulation", true},
              {"recompute_early_stop", false}}}};
}

// The dimensions that the cases of Megatron-LM's test of a mixture's layer are named for (tests/unit_tests/transformer/moe performance
// cases, d98e8a64d): 4,096 tokens a rank, GELU without a gate (its configuration's default), loads forced even, no capacity, kernels of
// router and permutation fused.
struct Mixture {
    int hidden, width, experts, top_k, shared;
};
const std::map<std::string, Mixture> mixtures = {{"mixtral", {4096, 14336, 8, 2, 0}}, {"deepseek", {7168, 2048, 32, 8, 1}}};

// Parses "deepseek_deepep_tp1ep8_fp8"; nothing for any other case.
OrderedJson experts_scenario(const std::string& name) {
    std::array<std::string, 4> part;
    std::size_t at = 0;
    for (std::string& p : part) {
        const std::size_t end = std::min(name.find('_', at), name.size());
        p = name.substr(std::min(at, name.size()), end - std::min(at, name.size()));
        at = end + 1;
    }
    const auto found = mixtures.find(part[0]);
    if (found == mixtures.end() || part[2] != "tp1ep8") return {};
    const Mixture& m = found->second;
    const bool eight = part[3] == "fp8";
    OrderedJson moe = {{"experts", m.experts}, {"top_k", m.top_k}, {"expert_ffn_size", m.width}, {"shared_experts", m.shared}};
    if (m.shared > 0) moe.update({{"scoring", "sigmoid"}, {"groups", 8}, {"group_limit", 4}, {"router_bias", true}});
    return {{"model",
             {{"layers", 1},
              {"hidden_size", m.hidden},
              {"attention_heads", 8},
              {"ffn_size", m.width},
              {"vocab_size", 32000},
              {"activation", "gelu"},
              {"norm", "rmsnorm"},
              {"position", "rope"},
              {"tied_embeddings", true},
              {"bias", false},
              {"dropout", 0},
              {"moe", moe}}},
            {"cluster", cluster_of("h100-sxm-80gb", 8)},
            {"training",
             {{"global_batch_size", 8},
              {"micro_batch_size", 1},
              {"sequence_length", 4096},
              {"precision", eight ? "fp8" : "bf16"},
              {"optimizer", "adam"}}},
            {"strategy",
             {{"framework", "megatron"},
              {"data_parallel", 8},
              {"tensor_parallel", 1},
              {"expert_parallel", 8},
              {"schedule", "none"},
              {"fused", true},
              {"overlap", {{"grad_reduce", false}, {"expert_parallel", false}}}}},
            {"runtime",
             {{"year", 2025},
              {"token_dispatcher", part[1] == "a2a" ? "alltoall" : part[1]},
              {"permute_fusion", true},
              {"fused_weight_gradient_accumulation", false},
              {"fp8_recipe", "blockwise"}}}};
}

void compare(Checked& out, const MeasuredTable& t, std::size_t row, const char* column, const Compared& like, double us) {
    if (!t.has(column) || t.number(row, column) <= 0) return;
    Compared c = like;
    c.op += std::string(" ") + std::string(column).substr(0, std::string_view(column).size() - 3);
    c.measured = t.number(row, column) * 1e3, c.predicted = us;
    out.points.push_back(std::move(c));
}

} // namespace

Checked check_passes(const MeasuredTable& t) {
    Checked out;
    const bool experts = t.has("case");
    for (std::size_t i = 0; i < t.rows.size(); ++i) {
        const std::string name = t.text(i, experts ? "case" : "name");
        const OrderedJson scenario = experts ? experts_scenario(name) : layers_scenario(t, i);
        if (scenario.is_null()) {
            out.skipped.push_back(t.file + ": the dimensions of " + name + " are not known");
            continue;
        }
        const Passes p = passes_of(scenario, experts, t.constants);
        const double n = experts ? 1 : repeats;
        const OrderedJson& training = scenario.at("training");
        const Compared like{experts ? "experts" : "layers", training.at("precision"), name, scenario.at("cluster").at("device")};
        compare(out, t, i, "forward_ms", like, p.forward / n);
        compare(out, t, i, "backward_ms", like, p.backward / n);
        compare(out, t, i, "backward_input_ms", like, p.input / n);
        compare(out, t, i, "backward_weight_ms", like, p.weight / n);
    }
    return out;
}

} // namespace orrery
