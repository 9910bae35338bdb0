// Scenarios a second on one core: what a sweep does for each point, the text parsed and all. Points that differ in links or devices share
// their plan. CPU time a point on a shared two-core virtual machine: llama3_70b 14 ms, gpt3_175b 25 ms, llama3_70b_networks 3.6 ms. Half
// of the first is lowering and verifying, half simulating points that fit.
#include "sim/sweep/sweep.hpp"
#include "sim/report/reuse.hpp"

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
    const std::vector<std::int64_t> order = orrery::evaluation_order(document).points;
    orrery::ReadyPlans kept;
    for (auto _ : state) {
        const std::int64_t i = order[next];
        const orrery::SweepRow row = orrery::evaluate(document.point(i), i, document.base_dir(), &kept);
        next = (next + 1) % document.size();
        ++done;
        fits += row.status == orrery::PointStatus::fits;
    }
    state.counters["scenarios/s"] = benchmark::Counter(static_cast<double>(done), benchmark::Counter::kIsRate);
    state.counters["share of plans reused"] = static_cast<double>(kept.reused()) / static_cast<double>(done);
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

// What would another network do? 8 of them, for each strategy.
void llama3_70b_networks(benchmark::State& state) {
    const std::string sweep = R"({"name": "networks", "model": "llama3-70b", "cluster": {"preset": "dgx-h100", "nodes": 8},
        "training": {"global_batch_size": 256, "micro_batch_size": 1, "sequence_length": 8192}, "strategy": {"sequence_parallel": true, "zero_stage": 1},
        "sweep": {"/cluster/inter_node/gbit_per_s": [25, 50, 100, 200, 400, 800, 1600, 3200], "/strategy/tensor_parallel": [4, 8], "/strategy/pipeline_parallel": [2, 4]}})";
    run_points(state, *orrery::parse_sweep(sweep).document);
}
BENCHMARK(llama3_70b_networks)->Unit(benchmark::kMillisecond)->MinTime(2);

} // namespace
