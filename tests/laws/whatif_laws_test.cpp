// What a planner does: change one thing for the better, look at the difference. Over random pairs no improvement makes a step slower.
#include "sim/report/report.hpp"
#include "sim/scenario/parse.hpp"
#include "tests/laws/whatif.hpp"
#include "topology/catalog.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <map>
#include <optional>

namespace orrery::laws {
namespace {

constexpr double tolerance = 0.002; // of the step: orders of events that change by chance
// What ends earlier may meet something else on its way: with shared resources a schedule of shorter ops can be longer (R. L. Graham, Bounds
// on multiprocessing timing anomalies, 1969). Two collectives that now meet on a NIC slow each other, and a faster one takes more of it
// from one that more waits for. Such pairs are rare and small.
constexpr double anomaly_of_timing = 0.01, share_of_anomalies = 0.002;

std::optional<double> step(const Json& scenario, std::string& why) {
    const ParseResult parsed = parse_scenario(scenario.dump(), {});
    if (!parsed.scenario) return why = to_text(parsed.problems), std::nullopt;
    PredictOptions options;
    options.verify = false;
    return predict(*parsed.scenario, options).report.step_time_s;
}

const Anomaly* known(const Pair& pair, double slower) {
    const std::string text = pair.worse.dump();
    for (const Anomaly& a : known_anomalies())
        if (pair.improvement.find(a.improvement) != std::string::npos && text.find(a.scenario) != std::string::npos && slower <= a.most)
            return &a;
    return nullptr;
}

TEST(WhatIfLaws, NoImprovementMakesAStepSlower) {
    const std::uint64_t pairs = from_environment("ORRERY_PAIRS", 2000), seed = from_environment("ORRERY_SEED", 1);
    std::map<std::string, int> seen;
    int refused = 0, faster = 0, timing = 0;
    for (std::uint64_t i = 0; i < pairs; ++i) {
        Random random(seed * 1'000'003 + i);
        const Pair pair = random_pair(random);
        std::string why;
        const auto worse = step(pair.worse, why), better = worse ? step(pair.better, why) : std::nullopt;
        if (!better) {
            ++refused;
            if (std::getenv("ORRERY_SHOW_REFUSED") != nullptr) std::printf("%s\n", why.c_str());
            continue;
        }
        ++seen[pair.improvement.substr(0, pair.improvement.find(':'))];
        faster += *better < *worse;
        const double slower = *better / *worse - 1;
        timing += slower > tolerance && slower <= anomaly_of_timing;
        if (slower > anomaly_of_timing && known(pair, slower) == nullptr)
            ADD_FAILURE() << "pair " << i << ": " << pair.improvement << " makes it slower by " << slower * 100 << " %: " << *worse
                          << " -> " << *better << " s\n"
                          << pair.worse.dump() << "\n"
                          << pair.better.dump();
    }
    // A test that compares nothing cannot fail: most pairs are legal, and a good part of the improvements is felt.
    EXPECT_LT(refused, 0.35 * static_cast<double>(pairs));
    EXPECT_GT(faster, 0.35 * static_cast<double>(pairs));
    EXPECT_LE(timing, 1 + share_of_anomalies * static_cast<double>(pairs))
        << "slower by " << 100 * tolerance << " to " << 100 * anomaly_of_timing << " %";
    RecordProperty("timing", timing);
    RecordProperty("refused", refused);
    RecordProperty("faster", faster);
    for (const auto& [improvement, n] : seen) RecordProperty(improvement, n);
    if (pairs >= 1000) { EXPECT_GE(seen.size(), 20u); }
}

Prediction predicted(const Json& scenario) {
    const ParseResult parsed = parse_scenario(scenario.dump(), {});
    EXPECT_TRUE(parsed.scenario) << to_text(parsed.problems);
    return predict(parsed.scenario.value_or(Scenario{}));
}

Json small_job(const char* preset, int nodes) {
    return {{"model", {{"layers", 4}, {"hidden_size", 1024}, {"attention_heads", 16}, {"vocab_size", 32000}}},
            {"cluster", {{"preset", preset}, {"nodes", nodes}}},
            {"training", {{"global_batch_size", 9216}, {"micro_batch_size", 2}, {"sequence_length", 512}, {"precision", "fp16"}}},
            {"strategy", {{"framework", "ddp"}, {"flash_attention", false}}}};
}

// Saying what a preset has says nothing new: not its kinds of links, rates and latencies, nor its device.
TEST(WhatIfLaws, WhatAPresetHasAnywayChangesNothing) {
    for (const std::string& preset : cluster_names()) {
        const Cluster c = *find_cluster(preset);
        if (c.device.vendor == "cpu") continue;
        Json job = small_job(preset.c_str(), 2);
        if (!c.device.peak.contains("fp16")) job["training"]["precision"] = "bf16";
        const double step = predicted(job).report.step_time_s;
        Json said = job;
        said["cluster"]["device"] = c.device.name;
        said["cluster"]["intra_node"] = {{"kind", name(c.intra.kind)}};
        said["cluster"]["inter_node"] = {{"kind", name(c.inter.kind)}, {"topology", name(c.inter.topology)}};
        EXPECT_EQ(predicted(said).report.step_time_s, step) << preset;
        said["cluster"]["intra_node"]["gb_per_s"] = c.intra.bandwidth.gigabytes();
        said["cluster"]["intra_node"]["latency_us"] = c.intra.latency.seconds() * 1e6;
        said["cluster"]["inter_node"]["nics_per_node"] = c.inter.nics_per_node;
        EXPECT_NEAR(predicted(said).report.step_time_s, step, 1e-9 * step) << preset;
    }
}

// A field that changes nothing is named: nobody is left to read a result into it.
TEST(WhatIfLaws, WhatHasNoEffectIsNamed) {
    const struct {
        const char* preset;
        int nodes;
        const char *pointer, *value, *named;
    } idle[] = {
        {"dgx-h100", 16, "/cluster/inter_node/oversubscription", "4", "cluster.inter_node.oversubscription"},
        {"dgx-h100", 16, "/cluster/inter_node/hashed_routes", "true", "cluster.inter_node.routing"},
        {"dgx-h100", 16, "/cluster/inter_node/queue_pairs", "16", "cluster.inter_node.queue_pairs"},
        {"dgx-h100", 16, "/cluster/inter_node/routing", R"("spray")", "cluster.inter_node.routing"},
        {"dgx-h100", 16, "/perturb", R"([{"slow": 4, "link": "trunk"}])", "perturb[0]"},
        {"dgx-h100", 16, "/perturb", R"([{"slow": 4, "link": "copy"}])", "perturb[0]"},
        {"dgx-h100", 1, "/cluster/inter_node/gbit_per_s", "100", "cluster.inter_node.gbit_per_s"},
        {"dgx-a100-80gb", 1, "/strategy/collective_algorithm", R"("tree")", "strategy.collective_algorithm"},
        {"tpu-v4-pod", 4, "/cluster/inter_node/gbit_per_s", "100", "cluster.inter_node.gbit_per_s"},
        {"frontier", 16, "/cluster/inter_node/routing", R"("ecmp")", "cluster.inter_node.routing"},
    };
    for (const auto& i : idle) {
        const Json job = small_job(i.preset, i.nodes);
        Json told = job;
        if (std::string_view(i.preset) == "tpu-v4-pod") told["training"]["precision"] = "bf16";
        const double step = predicted(told).report.step_time_s;
        told[Json::json_pointer(i.pointer)] = Json::parse(i.value);
        const Report report = predicted(told).report;
        EXPECT_EQ(report.step_time_s, step) << i.pointer;
        EXPECT_TRUE(std::any_of(
            report.notes.begin(), report.notes.end(),
            [&](const std::string& note) { return note.starts_with(i.named) && note.find("has no effect") != std::string::npos; }))
            << i.pointer << " = " << i.value << " on " << i.preset;
    }
}

// Of one line rate a better protocol is never slower, and costs what it says: the fault that this file began with.
TEST(WhatIfLaws, KindsOfNetworksRankByProtocol) {
    double last = 0;
    for (const char* kind : {"infiniband", "roce", "efa", "ethernet"}) {
        Json job = small_job("dgx-h100", 16);
        job["model"] = "gpt3-13b";
        job["training"]["global_batch_size"] = 128;
        job["training"]["micro_batch_size"] = 1;
        job["cluster"]["inter_node"]["kind"] = kind;
        const double exposed = predicted(job).report.breakdown_s[static_cast<std::size_t>(Category::exposed_dp)];
        EXPECT_GT(exposed, last) << kind;
        last = exposed;
    }
}

} // namespace
} // namespace orrery::laws
