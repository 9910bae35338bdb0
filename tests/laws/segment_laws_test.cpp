// Checkpoints of segments of several layers (Chen et al., arXiv:1604.06174).
#include "tests/laws/scenarios.hpp"

#include "sim/memory/memory.hpp"
#include "sim/plan/verify.hpp"
#include "sim/report/report.hpp"

#include <cmath>

namespace orrery::laws {
namespace {

Scenario segments(int n, int layers = 16) {
    Gpt g;
    g.layers = layers;
    g.hidden = 1024;
    g.vocab = 1024;
    g.sequence = 1024;
    g.microbatches = 1;
    g.dropout = 0;
    g.flash = true;
    g.recompute = n == 0 ? "full" : "none";
    std::string text = g.text();
    if (n > 0) {
        const std::string none = R"("recompute": "none")";
        text.replace(text.find(none), none.size(), fmt::format(R"("recompute": {{"segments": {}}})", n));
    }
    return scenario(text);
}

std::int64_t activations(const Scenario& s) {
    const Report r = predict(s).report;
    return r.memory.stages[0].by_kind[static_cast<std::size_t>(MemoryKind::activations)].count;
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
