// CPU time of whole predictions, from a scenario's text to its report, as simrun makes them: what a plan of many layers, many devices or
// many unlike ranks costs. Ratios between versions on one machine are what counts; `simrun` adds some 2 ms of start-up.
#include "sim/report/report.hpp"
#include "sim/scenario/parse.hpp"

#include <benchmark/benchmark.h>

#include <fstream>
#include <sstream>

namespace {

std::string text_of(const std::string& name) {
    std::ifstream in(std::string(ORRERY_SOURCE_DIR) + "/scenarios/" + name + ".json");
    std::stringstream text;
    text << in.rdbuf();
    return text.str();
}

void predict_text(benchmark::State& state, const std::string& text, const orrery::PredictOptions& how = {}) {
    orrery::ParseOptions parsing;
    parsing.base_dir = std::string(ORRERY_SOURCE_DIR) + "/scenarios";
    orrery::SimulationStats stats;
    for (auto _ : state) {
        const orrery::ParseResult parsed = orrery::parse_scenario(text, parsing);
        if (!parsed.scenario) {
            state.SkipWithError("the scenario is refused");
            return;
        }
        const orrery::Prediction p = orrery::predict(*parsed.scenario, how);
        benchmark::DoNotOptimize(p.report.step_time_s);
        stats = p.simulation.stats;
    }
    state.counters["lanes"] = stats.lanes;
    state.counters["events"] = static_cast<double>(stats.events);
    state.counters["replayed"] = static_cast<double>(stats.replayed_ops);
}

void llama3_405b_16384_devices(benchmark::State& state) { predict_text(state, text_of("llama3-405b-16k-h100")); }
BENCHMARK(llama3_405b_16384_devices)->Unit(benchmark::kMillisecond);

void deepseek_v3_2048_devices(benchmark::State& state) { predict_text(state, text_of("deepseek-v3-2048-h800")); }
BENCHMARK(deepseek_v3_2048_devices)->Unit(benchmark::kMillisecond);

void gpt3_175b_1024_devices(benchmark::State& state) { predict_text(state, text_of("gpt3-175b-1024-a100")); }
BENCHMARK(gpt3_175b_1024_devices)->Unit(benchmark::kMillisecond);

// Llama 3 405B by 16 stages of 8 devices on a given number of nodes, a sequence a replica and stage.
std::string llama_on(std::int64_t nodes) {
    const std::string n = std::to_string(nodes);
    return R"({"name": "405b", "model": "llama3-405b", "cluster": {"preset": "dgx-h100", "nodes": )" + n +
           R"(}, "training": {"global_batch_size": )" + n +
           R"(, "micro_batch_size": 1, "sequence_length": 8192}, "strategy": {"framework": "fsdp", "tensor_parallel": 8,
           "sequence_parallel": true, "pipeline_parallel": 16, "virtual_pipeline": 8, "schedule": "interleaved-1f1b",
           "layer_split": [7, 8, 8, 8, 8, 8, 8, 8, 8, 8, 8, 8, 8, 8, 8, 7], "zero_stage": 2}})";
}

// The cost of more devices alike: links, instances and their folding.
void devices_alike(benchmark::State& state) { predict_text(state, llama_on(state.range(0) / 8)); }
BENCHMARK(devices_alike)->Arg(1024)->Arg(16384)->Arg(131072)->Arg(1048576)->Unit(benchmark::kMillisecond);

// Every rank a lane of its own.
void ranks_unlike(benchmark::State& state) {
    orrery::PredictOptions how;
    how.simulate.fold = false;
    predict_text(state, llama_on(state.range(0) / 8), how);
}
BENCHMARK(ranks_unlike)->Arg(1024)->Unit(benchmark::kMillisecond)->Iterations(1);

} // namespace
