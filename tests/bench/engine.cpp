// How many op events the engine executes a second, on one core: nothing replayed, folded twins counted once, a new machine each time
// so that no cache is warm from the run before.
#include "tests/unit/engine/build.hpp"

#include <benchmark/benchmark.h>

namespace orrery::engine_test {

namespace {

// 16 stages of blocks of 8 layers, 12 ops and an all-reduce a layer each way, as a big model folds: 16 lanes.
PipelineShape big(std::int64_t microbatches) {
    return {.tp = 8,
            .dp = 2,
            .pp = 16,
            .microbatches = microbatches,
            .forward = 600000,
            .backward = 1200000,
            .bytes = 200000,
            .tp_bytes = 100000,
            .grad_bytes = 2000000,
            .optimizer = 700000,
            .layers = 8,
            .ops = 12};
}

Network cluster(int ranks) {
    return {.ranks = ranks, .devices_per_node = 8, .nics = 8, .port = 3e11, .nic = 5e10, .latency_ns = 5000, .launch_ns = 4000};
}

void report(benchmark::State& state, const Simulation& s) {
    state.counters["events"] = static_cast<double>(s.stats.events);
    state.counters["steps"] = s.stats.steps;
    state.counters["lanes"] = s.stats.lanes;
    state.counters["events/s"] = benchmark::Counter(static_cast<double>(s.stats.events), benchmark::Counter::kIsIterationInvariantRate);
}

void events_executed(benchmark::State& state) {
    Network net = cluster(256);
    net.compute_slowdown = state.range(0) ? 0.1 : 0;
    Plan plan = pipeline(big(32));
    Machine m = compile(plan, net.costs(), net.wires());
    Simulation s;
    for (auto _ : state) {
        Machine cold = m;
        s = run(cold, {.replay = false});
        benchmark::DoNotOptimize(s.step_time.ps);
    }
    report(state, s);
}
BENCHMARK(events_executed)->ArgName("interference")->Arg(0)->Arg(1)->Unit(benchmark::kMillisecond);

void unfolded_4096_ranks(benchmark::State& state) {
    PipelineShape shape = big(4);
    shape.dp = 32;
    shape.layers = 1;
    Plan plan = pipeline(shape);
    Network net = cluster(4096);
    Simulation s;
    for (auto _ : state) {
        s = run(compile(plan, net.costs(), net.wires(), {.fold = false}), {.replay = false, .max_steps = 1});
        benchmark::DoNotOptimize(s.step_time.ps);
    }
    report(state, s);
}
BENCHMARK(unfolded_4096_ranks)->Unit(benchmark::kMillisecond)->Iterations(1);

// Time of a run as microbatches grow tenfold: it should hardly grow.
void accumulation(benchmark::State& state) {
    Network net = cluster(256);
    Plan plan = pipeline(big(state.range(0)));
    Machine m = compile(plan, net.costs(), net.wires());
    Simulation s;
    for (auto _ : state) {
        s = run(m, {});
        benchmark::DoNotOptimize(s.step_time.ps);
    }
    report(state, s);
    state.counters["replayed"] = static_cast<double>(s.stats.replayed_ops);
}
BENCHMARK(accumulation)->Arg(64)->Arg(640)->Arg(6400)->Unit(benchmark::kMillisecond);

// Folding alone: 16,384 ranks, TP 8 x PP 16 x DP 128.
void fold_16384_ranks(benchmark::State& state) {
    PipelineShape shape = big(2);
    shape.dp = 128;
    Plan plan = pipeline(shape);
    Network net = cluster(16384);
    Costs costs = net.costs();
    Wires wires = net.wires();
    std::size_t lanes = 0;
    for (auto _ : state) lanes = compile(plan, costs, wires).lanes.size();
    state.counters["lanes"] = static_cast<double>(lanes);
}
BENCHMARK(fold_16384_ranks)->Unit(benchmark::kMillisecond);

} // namespace

} // namespace orrery::engine_test
