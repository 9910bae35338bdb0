// Does any value of any field give nonsense or end the program? Every number of the schema, extreme or just inside its limits, several at
// once: a scenario is refused with a reason, or its report is finite and plausible. ORRERY_FUZZ=n runs n of them.
#include "tests/fuzz/hostile.hpp"

#include "sim/report/report.hpp"
#include "sim/scenario/schema.hpp"
#include "topology/input_error.hpp"
#include "topology/text.hpp"

namespace orrery::fuzz {
namespace {

std::vector<NumberField> number_fields() {
    std::vector<NumberField> fields;
    const Json schema = Json::parse(scenario_schema());
    for (const char* section : {"model", "cluster", "training", "strategy", "runtime"})
        collect_numbers(schema["properties"][section], section, fields);
    return fields;
}

const char* bases[] = {
    R"({"name": "dense", "model": {"layers": 4, "hidden_size": 256, "attention_heads": 4, "vocab_size": 1000},
        "cluster": {"preset": "dgx-h100", "nodes": 2, "devices_per_node": 4},
        "training": {"global_batch_size": 16, "micro_batch_size": 1, "sequence_length": 128},
        "strategy": {"framework": "megatron", "tensor_parallel": 2, "pipeline_parallel": 2}})",
    R"({"name": "mixture", "model": {"layers": 4, "hidden_size": 256, "attention_heads": 4, "vocab_size": 1000, "bias": false,
          "moe": {"experts": 8, "top_k": 2, "expert_ffn_size": 128, "imbalance": "zipf:0.5"}},
        "cluster": {"preset": "dgx-a100-80gb", "nodes": 1, "devices_per_node": 4},
        "training": {"global_batch_size": 8, "micro_batch_size": 1, "sequence_length": 128},
        "strategy": {"framework": "megatron", "expert_parallel": 4}})",
    R"({"name": "sharded", "model": {"layers": 3, "hidden_size": 192, "attention_heads": 3, "vocab_size": 500},
        "cluster": {"device": "h100-sxm-80gb", "nodes": 2, "devices_per_node": 2, "intra_node": {"kind": "nvlink-mesh", "gb_per_s": 100},
                    "inter_node": {"kind": "ethernet", "nics_per_node": 1, "gbit_per_s": 10}},
        "training": {"global_batch_size": 8, "micro_batch_size": 1, "sequence_length": 64},
        "strategy": {"framework": "fsdp", "zero_stage": 3}, "perturb": [{"slow": 2, "rank": 0}, {"jitter": 0.1}, {"background": 0.5, "link": "nic"}]})"};

// Larger ones are run one by one, under a limit of memory (tests/unit/simrun/hostile_test.cpp).
bool small(const Scenario& s) {
    const double devices = s.cluster.devices(), layers = s.model.layers + s.model.mtp_layers;
    const double passes = static_cast<double>(s.microbatches()) * s.strategy.pipeline_parallel * s.strategy.virtual_pipeline;
    return devices <= 4096 && layers <= 64 && passes * layers <= 20000 && devices * s.strategy.pipeline_parallel <= 20000 &&
           s.strategy.context_parallel <= 64 && (!s.model.moe || s.model.moe->experts <= 1024);
}

void check_report(const Report& r) {
    EXPECT_TRUE(std::isfinite(r.step_time_s) && r.step_time_s > 0 && r.step_time_s < 4.1e6) << r.step_time_s;
    EXPECT_TRUE(r.mfu >= 0 && r.mfu <= 1.05) << r.mfu;
    EXPECT_TRUE(std::isfinite(r.tokens_per_s) && std::isfinite(r.flops_per_step) && std::isfinite(r.energy_j) && std::isfinite(r.cost_usd));
    double sum = 0;
    for (const double part : r.breakdown_s) {
        EXPECT_GE(part, 0);
        sum += part;
    }
    EXPECT_NEAR(sum, r.step_time_s, 1e-6 * r.step_time_s);
    for (const StageMemory& stage : r.memory.stages) EXPECT_GT(stage.peak.count, 0);
    EXPECT_FALSE(to_json(r).empty());
    EXPECT_TRUE(is_printable(r.name)) << r.name;
}

// The outcome: refused, ended (with an error that names a reason), large (not run here) or predicted.
std::string outcome(const std::string& base, const std::vector<std::string>& overrides) {
    ParseOptions options;
    options.overrides = overrides;
    const ParseResult parsed = parse_scenario(base, options);
    if (!parsed.scenario) {
        EXPECT_FALSE(parsed.problems.empty());
        return "refused";
    }
    if (!unsupported(*parsed.scenario).empty()) return "refused";
    if (!small(*parsed.scenario)) return "large";
    try {
        const Report r = predict(*parsed.scenario).report;
        const bool other_rates = !parsed.scenario->cluster.device.kernels.empty();
        if (!other_rates) check_report(r);
        EXPECT_FALSE(to_text(r, *parsed.scenario).empty());
        return "predicted";
    } catch (const InputError& e) {
        EXPECT_FALSE(std::string(e.what()).empty());
        return "ended";
    }
}

TEST(Fuzz, ExtremeValuesOfEveryField) {
    const std::vector<NumberField> fields = number_fields();
    ASSERT_GT(fields.size(), 80u);
    const int count = setting("ORRERY_FUZZ", 1500);
    const auto seed = static_cast<std::uint64_t>(setting("ORRERY_FUZZ_SEED", 1)) * 1000081;
    std::map<std::string, int> outcomes;
    for (int i = 0; i < count && !::testing::Test::HasFailure(); ++i) {
        Random r{seed + static_cast<std::uint64_t>(i)};
        std::vector<std::string> overrides = extreme_overrides(r, fields, 60);
        if (r.chance(20))
            overrides.push_back(fmt::format("perturb=[{{\"slow\":{},\"link\":\"nic\"}},{{\"jitter\":{}}}]", r.of({1e-3, 1.0, 1e6}),
                                            r.of({1e-6, 0.5, 2.0})));
        std::string trace;
        for (const std::string& o : overrides) trace += " --set '" + o + "'";
        SCOPED_TRACE(bases[static_cast<std::size_t>(i) % 3] + trace);
        ++outcomes[outcome(bases[static_cast<std::size_t>(i) % 3], overrides)];
    }
    for (const auto& [what, n] : outcomes) fmt::print("{} {}\n", n, what);
    EXPECT_GT(outcomes["predicted"], count / 20);
    EXPECT_GT(outcomes["refused"], count / 20);
}

// A random connected graph: some nodes without NICs, uneven nodes, one-way links beside others, rates over nine decades.
std::string random_graph(Random& r, int& devices) {
    const int nodes = r.of({1, 2, 2, 3, 4});
    Json vertices = Json::array(), links = Json::array();
    const auto rate = [&] { return r.of({1e-3, 0.1, 1.0, 12.5, 50.0, 450.0, 1e6}); };
    const auto join = [&](const std::string& a, const std::string& b) {
        links.push_back({{"from", a}, {"to", b}, {"gb_per_s", rate()}, {"latency_us", r.of({0.0, 0.5, 5.0, 1e6})}});
    };
    devices = 0;
    for (int n = 0; n < nodes; ++n) {
        const bool nic = r.chance(50), own_switch = r.chance(50);
        const std::string inner = "n" + std::to_string(n) + ".switch", card = "n" + std::to_string(n) + ".nic";
        if (own_switch) vertices.push_back({{"name", inner}, {"kind", "switch"}, {"node", n}}), join(inner, "core");
        if (nic) vertices.push_back({{"name", card}, {"kind", "nic"}, {"node", n}}), join(card, "core");
        for (int d = 0, all = r.of({1, 2, 2, 4}); d < all; ++d, ++devices) {
            const std::string name = "n" + std::to_string(n) + ".gpu" + std::to_string(d);
            vertices.push_back({{"name", name}, {"kind", "device"}, {"node", n}});
            if (own_switch) join(name, inner);
            if (nic && r.chance(80)) join(name, card);
            if (!own_switch && !nic) join(name, "core");
            if (d > 0 && !own_switch) join(name, "n" + std::to_string(n) + ".gpu0");
        }
    }
    vertices.push_back({{"name", "core"}, {"kind", "switch"}});
    return Json{{"vertices", vertices}, {"links", links}}.dump();
}

TEST(Fuzz, RandomGraphs) {
    const int count = setting("ORRERY_FUZZ", 300);
    const auto seed = static_cast<std::uint64_t>(setting("ORRERY_FUZZ_SEED", 1)) * 1000117;
    std::map<std::string, int> outcomes;
    for (int i = 0; i < count && !::testing::Test::HasFailure(); ++i) {
        Random r{seed + static_cast<std::uint64_t>(i)};
        int devices = 0;
        std::string graph = random_graph(r, devices);
        if (r.chance(40)) graph = mutated(Json::parse(graph), r).dump();
        const int tp = devices % 2 == 0 ? r.of({1, 2}) : 1, pp = devices % (2 * tp) == 0 ? r.of({1, 2}) : 1;
        const std::string base = fmt::format(
            R"({{"name": "graph", "model": {{"layers": 4, "hidden_size": 256, "attention_heads": 4, "vocab_size": 1000}},
                "cluster": {{"device": "h100-sxm-80gb", "graph": {}}},
                "training": {{"global_batch_size": {}, "micro_batch_size": 1, "sequence_length": 128}},
                "strategy": {{"framework": "{}", "tensor_parallel": {}, "pipeline_parallel": {}}}}})",
            graph, devices * 4, r.of<const char*>({"megatron", "fsdp"}), tp, pp);
        SCOPED_TRACE(base);
        ++outcomes[outcome(base, {})];
    }
    for (const auto& [what, n] : outcomes) fmt::print("{} {}\n", n, what);
    EXPECT_GT(outcomes["predicted"], count / 5);
}

} // namespace
} // namespace orrery::fuzz
