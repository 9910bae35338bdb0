// Checkpoints of segments of several layers (Chen et al., arXiv:1604.06174).
#include "tests/laws/scenarios.hpp"

#include "sim/memory/best_segments.hpp"
#include "sim/memory/memory.hpp"
#include "sim/plan/verify.hpp"
#include "sim/report/report.hpp"

#include <cmath>

namespace orrery::laws {
namespace {

// n: 0: full recomputation, a layer at a time; -1: auto.
Scenario segments(int n, int layers = 16, const std::string& more = "", const std::string& cluster = "") {
    Gpt g;
    g.layers = layers;
    g.hidden = 1024;
    g.vocab = 1024;
    g.sequence = 1024;
    g.microbatches = 1;
    g.dropout = 0;
    g.flash = true;
    g.gradient_dtype = "fp32"; // of narrower ones the step would make others, more than these layers keep
    g.recompute = n == 0 ? "full" : "none";
    g.extra_strategy = more;
    g.cluster = cluster;
    std::string text = g.text();
    if (n != 0) {
        const std::string none = R"("recompute": "none")";
        text.replace(text.find(none), none.size(),
                     fmt::format(R"("recompute": {{"segments": {}}})", n > 0 ? std::to_string(n) : "\"auto\""));
    }
    return scenario(text);
}

std::int64_t activations(const Scenario& s) {
    const Report r = predict(s).report;
    return r.memory.stages[0].by_kind[MemoryKind::activations].count;
}

TEST(Segments, OfOneLayerEachAreFullRecomputation) {
    const Scenario full = segments(0), each = segments(16);
    EXPECT_EQ(to_text(lower(each)), to_text(lower(full)));
}

TEST(Segments, PlansAreVerifiedAndTakeTheTimeOfFullRecomputation) {
    const double full = predict(segments(0)).report.step_time_s;
    for (int n : {1, 2, 3, 4, 5, 8, 16}) {
        const Scenario s = segments(n);
        EXPECT_EQ(verify(lower(s)).size(), 0u) << n << to_text(verify(lower(s)));
        EXPECT_NEAR(predict(s).report.step_time_s, full, 0.01 * full) << n;
    }
}

// What is alive: an input for each segment, and all of the longest segment's layers: a n + b L / n, least where n is sqrt(b L / a).
TEST(Segments, MemoryIsLeastNearTheSquareRoot) {
    std::map<int, double> peak;
    for (int n = 1; n <= 16; ++n) peak[n] = static_cast<double>(activations(segments(n)));
    const double input = 2.0 * 1024 * 1024 * 2;   // tokens x hidden in 16 bits
    const double layer = (peak[1] - peak[2]) / 8; // eight layers less are alive
    EXPECT_NEAR((peak[2] - peak[4]) / 4, layer, 0.5 * input) << "four layers less, two inputs more";
    int best = 1;
    for (const auto& [n, bytes] : peak)
        if (bytes < peak[best]) best = n;
    const double predicted = std::sqrt(16 * layer / input);
    EXPECT_GE(best, std::min(16.0, predicted) / 1.5);
    EXPECT_LE(best, predicted * 1.5 + 1);
}

// Only the first layers are recomputed: the others keep all values, and take no time again.
TEST(Segments, OfSomeLayersLieBetweenNoneAndAll) {
    Scenario none = segments(1);
    none.strategy.recompute = RecomputeKind::none, none.strategy.recompute_segments = 0;
    double time = predict(none).report.step_time_s, bytes = static_cast<double>(activations(none));
    for (const int layers : {4, 8, 12, 16}) {
        const Scenario some = segments(16, 16, fmt::format(R"(, "recompute_layers": {})", layers)); // each a segment
        EXPECT_EQ(verify(lower(some)).size(), 0u) << layers << to_text(verify(lower(some)));
        const double longer = predict(some).report.step_time_s, less = static_cast<double>(activations(some));
        EXPECT_GT(longer, time) << layers;
        EXPECT_LT(less, bytes) << layers;
        time = longer, bytes = less;
        const Scenario longer_ones = segments(2, 16, fmt::format(R"(, "recompute_layers": {})", layers));
        EXPECT_EQ(verify(lower(longer_ones)).size(), 0u) << layers << to_text(verify(lower(longer_ones)));
    }
    EXPECT_EQ(to_text(lower(segments(2, 16, R"(, "recompute_layers": 16)"))), to_text(lower(segments(2))));
}

// The least layers that fit, however little memory there is; and no other number of segments has a lower peak.
TEST(Segments, AutoRecomputesAsFewLayersAsFit) {
    const auto on = [](double memory_gb) {
        return segments(
            -1, 16, "",
            fmt::format(R"({{"device": {{"preset": "a100-sxm-80gb", "memory_gb": {}}}, "nodes": 1, "devices_per_node": 1}})", memory_gb));
    };
    int before = -1;
    double time = 0;
    bool some = false;
    for (double gb = 12; gb > 4; gb -= 0.4) {
        Scenario chosen = on(gb);
        settle(chosen);
        EXPECT_FALSE(chosen.notes.empty());
        const Report r = predict(chosen).report;
        if (!r.memory.fits) { // the least there is
            for (const int n : {1, 2, 4, 8, 16}) {
                Scenario other = segments(n);
                EXPECT_GE(predict(other).report.memory.stages[0].peak, r.memory.stages[0].peak) << n;
            }
            break;
        }
        const int layers = chosen.strategy.recompute == RecomputeKind::none ? 0 : chosen.strategy.recompute_layers.at(0);
        EXPECT_GE(layers, before) << gb;
        EXPECT_GE(r.step_time_s, 0.999 * time) << gb;
        some = some || (layers > 0 && layers < 16);
        before = layers, time = r.step_time_s;
        if (layers == 0) continue;
        Scenario less = chosen; // one layer less does not fit, in any number of segments
        less.strategy.recompute_layers = {layers - 1};
        if (layers == 1) less.strategy.recompute = RecomputeKind::none, less.strategy.recompute_segments = 0;
        for (int n = 1; n < std::max(2, layers); ++n) {
            if (layers > 1) less.strategy.recompute_segments = n;
            EXPECT_FALSE(predict(less).report.memory.fits) << gb << " " << n;
        }
    }
    EXPECT_TRUE(some);
}

// Where weights are gathered layer by layer, a layer made again in a segment is gathered for that and, unless the software keeps it until
// its backward pass, once more then: a layer that is made again alone needs no second one.
TEST(Segments, GatherTheirLayersForEachPass) {
    const auto gathers = [](const char* framework, int year, const std::string& recompute) {
        const Scenario s = scenario(fmt::format(
            R"({{"model": {{"layers": 6, "hidden_size": 512, "attention_heads": 8, "vocab_size": 1024}}, "cluster": {{"preset": "dgx-h100", "nodes": 1}},
                "training": {{"global_batch_size": 8, "micro_batch_size": 1, "sequence_length": 1024, "precision": "bf16"}},
                "strategy": {{"framework": "{}", "data_parallel": 8, "zero_stage": 3, "recompute": {}}}, "runtime": {{"year": {}}}}})",
            framework, recompute, year));
        const Plan plan = lower(s);
        EXPECT_EQ(verify(plan).size(), 0u) << framework << to_text(verify(plan));
        std::map<std::string, int> count;
        for (const Action& a : plan.programs[0].actions)
            if (plan.blocks[a.block].name.starts_with("gather:")) ++count[plan.blocks[a.block].name];
        std::map<int, int> layers_by_count;
        for (const auto& [name, n] : count) ++layers_by_count[n];
        return layers_by_count;
    };
    for (const auto& [framework, year] : {std::pair{"deepspeed", 2025}, {"fsdp", 2025}, {"fsdp2", 2024}}) {
        EXPECT_EQ(gathers(framework, year, R"("full")")[3], 0) << framework;
        EXPECT_EQ(gathers(framework, year, R"({"segments": 2})")[3], 4) << framework << ": two layers of each segment are not its last";
        EXPECT_EQ(gathers(framework, year, R"({"segments": 3})")[3], 3) << framework;
    }
    EXPECT_EQ(gathers("fsdp2", 2025, R"({"segments": 2})"), gathers("fsdp2", 2025, R"("full")"));
}

// Megatron's uniform method: segments of n layers, the last of what is left.
TEST(Segments, OfSoManyLayersEach) {
    const auto of_layers = [](int n, int layers) {
        Scenario s = segments(0, layers);
        s.strategy.recompute_segment_layers = n;
        return s;
    };
    for (int n : {2, 4, 8}) EXPECT_EQ(to_text(lower(of_layers(n, 16))), to_text(lower(segments(16 / n)))) << n;
    EXPECT_EQ(to_text(lower(of_layers(1, 16))), to_text(lower(segments(0))));
    const Scenario uneven = of_layers(3, 7); // 3, 3 and 1
    EXPECT_EQ(verify(lower(uneven)).size(), 0u) << to_text(verify(lower(uneven)));
    EXPECT_GT(activations(uneven), activations(of_layers(2, 7)) - 2 * 1024 * 1024 * 2) << "a longer segment is alive";
}

// More layers of each chunk recomputed take longer and keep less; all of them are what is recomputed where nobody says.
TEST(Segments, MoreLayersOfEachChunkTakeLongerAndKeepLess) {
    Gpt g;
    g.layers = 12;
    g.pp = 2;
    g.vp = 2;
    g.schedule = "interleaved-1f1b";
    g.recompute = "full";
    g.flash = true;
    g.gradient_dtype = "fp32"; // as above
    double before_s = 0, before_bytes = 0;
    for (int n = 1; n <= 3; ++n) {
        g.extra_strategy = fmt::format(R"(, "recompute_layers": {{"per_chunk": {}}})", n);
        const Scenario s = g.make();
        EXPECT_EQ(verify(lower(s)).size(), 0u) << to_text(verify(lower(s)));
        const double step = predict(s).report.step_time_s, bytes = static_cast<double>(activations(s));
        if (n > 1) {
            EXPECT_GE(step, before_s) << n;
            EXPECT_LT(bytes, before_bytes) << n;
        }
        before_s = step;
        before_bytes = bytes;
    }
    const std::string each = to_text(lower(g.make()));
    g.extra_strategy = "";
    EXPECT_EQ(to_text(lower(g.make())), each);
}

TEST(Segments, OfAPipelinesChunks) {
    Gpt g;
    g.pp = 2;
    g.layers = 8;
    std::string text = g.text();
    const std::string none = R"("recompute": "none")";
    text.replace(text.find(none), none.size(), R"("recompute": {"segments": 2})");
    const Scenario pipeline = scenario(text);
    EXPECT_EQ(verify(lower(pipeline)).size(), 0u) << to_text(verify(lower(pipeline)));
    PredictOptions whole;
    whole.simulate.fold = false;
    const double time = predict(pipeline).report.step_time_s;
    EXPECT_NEAR(predict(pipeline, whole).report.step_time_s, time, 1e-9 * time);
}

} // namespace
} // namespace orrery::laws
