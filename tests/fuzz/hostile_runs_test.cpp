// Does any value of "run", cluster.storage or training.data give nonsense or end the program? Every number of their schema, extreme or just
// inside its limits, several at once: refused with a reason, or a report whose parts add up. ORRERY_FUZZ=n runs n of them.
#include "tests/fuzz/hostile.hpp"

#include "sim/job/whole_run.hpp"
#include "sim/report/report.hpp"
#include "sim/scenario/schema.hpp"
#include "topology/input_error.hpp"

#include <cmath>
#include <numeric>

namespace orrery::fuzz {
namespace {

std::vector<NumberField> limits_of_runs() {
    std::vector<NumberField> out;
    const Json schema = Json::parse(scenario_schema())["properties"];
    collect_numbers(schema["run"], "run", out);
    const auto section = [&](const char* of, const char* name) {
        const Json& outer = schema[of].contains("properties") ? schema[of] : schema[of]["anyOf"].back();
        if (outer.contains("properties") && outer["properties"].contains(name))
            collect_numbers(outer["properties"][name], std::string(of) + "." + name, out);
    };
    section("cluster", "storage");
    section("training", "data");
    return out;
}

constexpr const char* job =
    R"({"name": "run", "model": {"layers": 2, "hidden_size": 256, "attention_heads": 4, "vocab_size": 1000},
        "cluster": {"preset": "dgx-h100", "nodes": 4, "devices_per_node": 2},
        "training": {"global_batch_size": 16, "micro_batch_size": 1, "sequence_length": 128},
        "strategy": {"framework": "megatron", "tensor_parallel": 2}, "run": {"days": 20, "failures": {"per_node_day": 0.05}, "seeds": 3}})";

void check_run(const WholeRunReport& r) {
    EXPECT_GE(r.save_every, 1);
    EXPECT_EQ(r.seeds >= r.finished, true);
    const double parts = r.productive_s + std::accumulate(r.lost_s.begin(), r.lost_s.end(), 0.0);
    EXPECT_TRUE(std::isfinite(parts)) << parts;
    EXPECT_NEAR(parts, r.mean_wall_s, 1e-6 * r.mean_wall_s + 1e-6);
    for (const SeedBand& b : {r.goodput, r.ettr}) EXPECT_TRUE(b.p50 >= -1e-9 && b.p50 <= 1 + 1e-6) << b.p50;
    for (std::size_t i = 0; i + 1 < lost_times; ++i) EXPECT_GE(r.lost_s[i], -1e-6 * r.mean_wall_s) << name(static_cast<LostTime>(i));
    EXPECT_TRUE(std::isfinite(r.cost_usd) && std::isfinite(r.energy_j) && std::isfinite(r.device_hours));
    EXPECT_FALSE(Json::parse(to_json(r)).is_discarded());
}

std::string outcome_of_run(const std::vector<std::string>& overrides) {
    ParseOptions options;
    options.overrides = overrides;
    const ParseResult parsed = parse_scenario(job, options);
    if (!parsed.scenario) {
        EXPECT_FALSE(parsed.problems.empty());
        return "refused";
    }
    const WholeRun& run = *parsed.scenario->run;
    const double failures =
        (run.failures.per_node_day * 4 + run.failures.racks.per_day + run.failures.switches.per_day +
         4 * (run.slow_node.per_node_day + run.slow_link.per_node_day + run.lost_nic.per_node_day) + run.failures.planned_per_day) *
        run.seeds * std::max(run.days, 1.0);
    if (run.seeds > 50 || failures > 2e5 || run.spares.nodes > 100'000) return "large"; // seconds, not wrong
    try {
        PredictOptions predicting;
        predicting.verify = false;
        const Prediction p = predict(*parsed.scenario, predicting);
        const WholeRunReport r = whole_run(*parsed.scenario, p, {1, {}});
        check_run(r);
        EXPECT_FALSE(to_text(r, *parsed.scenario).empty());
        return "simulated";
    } catch (const InputError& e) {
        EXPECT_FALSE(std::string(e.what()).empty());
        return "ended";
    }
}

TEST(Fuzz, ExtremeValuesOfRuns) {
    const std::vector<NumberField> fields = limits_of_runs();
    ASSERT_GT(fields.size(), 60u);
    const int count = setting("ORRERY_FUZZ", 600);
    const auto seed = static_cast<std::uint64_t>(setting("ORRERY_FUZZ_SEED", 1)) * 1000033;
    std::map<std::string, int> outcomes;
    for (int i = 0; i < count && !::testing::Test::HasFailure(); ++i) {
        Random r{seed + static_cast<std::uint64_t>(i)};
        std::vector<std::string> overrides = extreme_overrides(r, fields, 75);
        for (const auto& [field, words] :
             {std::pair<const char*, std::vector<const char*>>{"run.checkpoint.kind", {"sync", "async", "peer", "local", "tiers"}},
              {"run.elastic", {"none", "drop-replica", "shrink-batch", "replan", "reroute", "stepwise"}},
              {"run.failures.distribution", {"exponential", "weibull"}}})
            if (r.chance(50)) overrides.push_back(std::string(field) + "=" + words[r.next() % words.size()]);
        std::string trace;
        for (const std::string& o : overrides) trace += " --set '" + o + "'";
        SCOPED_TRACE(trace);
        ++outcomes[outcome_of_run(overrides)];
    }
    for (const auto& [what, n] : outcomes) fmt::print("{} {}\n", n, what);
    EXPECT_GT(outcomes["simulated"], count / 10);
    EXPECT_GT(outcomes["refused"], count / 20);
}

} // namespace
} // namespace orrery::fuzz
