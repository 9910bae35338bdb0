// Scenarios a second on one core: what a sweep does for each point, the text parsed and all, nothing shared between points.
#include "sim/sweep/sweep.hpp"

#include <benchmark/benchmark.h>

#include <fstream>
#include <sstream>

namespace {

std::string text_of(const char* name) {
    std::ifstream in(std::string(ORRERY_SOURCE_DIR) + "/scenarios/" + name);
    std::stringstream text;
    text << in.rdbuf();
    return text.str();
}

// The points in turn. Rejected ones count too: a sweep meets them.
void run_points(benchmark::State& state, const orrery::SweepDocument& document) {
    std::int64_t next = 0, done = 0, fits = 0;
    for (auto _ : state) {
        const orrery::SweepRow row = orrery::evaluate(document.point(next), next, document.base_dir());
        next = (next + 1) % document.size();
        ++done;
        fits += row.status == orrery::PointStatus::fits;
    }
    state.counters["scenarios/s"] = benchmark::Counter(static_cast<double>(done), benchmark::Counter::kIsRate);
    state.counters["share that fits"] = static_cast<double>(fits) / static_cast<double>(done);
}

void llama3_70b(benchmark::State& state) { run_points(state, *orrery::parse_sweep(text_of("llama3-70b-sweep.json")).document); }
BENCHMARK(llama3_70b)->Unit(benchmark::kMillisecond)->MinTime(2);

void gpt3_175b(benchmark::State& state) {
    const std::string sweep = R"({"name": "gpt3", "model": "gpt3-175b", "cluster": {"preset": "dgx-a100-80gb", "nodes": 128},
        "training": {"global_batch_size": 1536, "micro_batch_size": 1, "sequence_length": 2048}, "strategy": {"sequence_parallel": true, "recompute": "selective"},
        "sweep": {"/strategy/tensor_parallel": [2, 4, 8], "/strategy/pipeline_parallel": [4, 8, 16], "/training/micro_batch_size": [1, 2]}})";
    run_points(state, *orrery::parse_sweep(sweep).document);
}
BENCHMARK(gpt3_175b)->Unit(benchmark::kMillisecond)->MinTime(2);

} // namespace
