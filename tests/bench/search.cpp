// A search with all fields free, and what it is made of. Measured on a shared two-core virtual machine: see the counters' comments.
//
// What others publish: Calculon simulates 285 closed forms a second and core (exhaustively); a planner of closed forms takes 48 ms for at
// most 5,000. A point here is a whole plan, lowered, simulated event by event and walked through its memory.
#include "sim/search/search.hpp"

#include "sim/report/reuse.hpp"
#include "sim/search/bounds.hpp"
#include "sim/search/space.hpp"
#include "sim/sweep/sweep.hpp"

#include <benchmark/benchmark.h>

#include <chrono>

namespace {

using namespace orrery;

constexpr const char* llama_70b = R"({"model": "llama3-70b", "cluster": {"preset": "dgx-h100", "nodes": 8},
    "training": {"global_batch_size": 128, "sequence_length": 8192, "precision": "bf16"}, "strategy": {"framework": "megatron"}})";

// The whole search. "exhaustive hours": its legal points, each as long as those that were evaluated took in the mean.
void llama3_70b_all_free(benchmark::State& state) {
    SearchResult r;
    double seconds = 0;
    for (auto _ : state) {
        const auto begin = std::chrono::steady_clock::now();
        SearchOptions options;
        options.space.jobs = 1;
        options.refine = options.intervals = false; // as `simrun search` has it
        r = search(llama_70b, options);
        seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
    }
    const auto evaluated = static_cast<double>(r.counts.simulated + r.counts.by_memory);
    state.counters["legal"] = static_cast<double>(r.counts.legal);
    state.counters["evaluated"] = evaluated;
    state.counters["proven"] = r.proven ? 1 : 0;
    state.counters["bound over simulated"] = r.mean_tightness;
    state.counters["exhaustive hours"] = static_cast<double>(r.counts.legal) * seconds / evaluated / 3600;
}
BENCHMARK(llama3_70b_all_free)->Unit(benchmark::kSecond)->Iterations(1);

constexpr const char* llama_405b = R"({"model": "llama3-405b", "cluster": {"preset": "dgx-h100", "nodes": 2048},
    "training": {"global_batch_size": 2048, "sequence_length": 8192, "precision": "bf16"}, "strategy": {"framework": "megatron"}})";

// So long a search as state.range(0) says, on two threads: how far from proven it is then.
void llama3_405b_all_free(benchmark::State& state) {
    SearchResult r;
    for (auto _ : state) {
        const auto begin = std::chrono::steady_clock::now();
        SearchOptions options;
        options.space.jobs = 2;
        options.space.go_on = [&] {
            return std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count() < static_cast<double>(state.range(0));
        };
        options.refine = options.intervals = false; // as `simrun search` has it
        r = search(llama_405b, options);
    }
    state.counters["legal"] = static_cast<double>(r.counts.legal);
    state.counters["evaluated"] = static_cast<double>(r.counts.simulated + r.counts.by_memory);
    state.counters["proven"] = r.proven ? 1 : 0;
    state.counters["gap %"] = 100 * r.gap();
    state.counters["best s"] = r.points.empty() ? 0 : r.points.front().score;
}
BENCHMARK(llama3_405b_all_free)->Arg(10)->Arg(60)->Unit(benchmark::kSecond)->Iterations(1)->UseRealTime();

// Points bounded a second, small plans made on the way, those that share one and those that do not.
void bounds_of_points(benchmark::State& state) {
    const StrategySpace space = make_space(llama_70b, {});
    Variation variation(space.machines.front().variations);
    const Fabric fabric(space.machines.front().variations.base().cluster);
    Profiles profiles;
    InFlight in_flight;
    SharedWire sharing(fabric);
    std::size_t form = 0;
    std::int64_t points = 0;
    for (auto _ : state) {
        const Form& f = space.forms[form++ % space.forms.size()];
        for (std::size_t rest = 0; rest < f.rests.size(); ++rest, ++points) {
            const PointId id{static_cast<std::int32_t>((form - 1) % space.forms.size()), 0, 0, static_cast<std::int32_t>(rest)};
            const Scenario* s = variation.with(settings_of(space, id));
            if (!s) continue;
            const Profile& profile = profiles.of(*s, fabric);
            benchmark::DoNotOptimize(time_bound(*s, profile, in_flight, &sharing) + memory_bound(*s, profile, in_flight));
        }
    }
    state.counters["points/s"] = benchmark::Counter(static_cast<double>(points), benchmark::Counter::kIsRate);
}
BENCHMARK(bounds_of_points)->MinTime(2);

// Points simulated a second: no two share a plan.
void points_of_llama3_70b(benchmark::State& state) {
    const StrategySpace space = make_space(llama_70b, {});
    Variation variation(space.machines.front().variations);
    std::size_t i = 0;
    for (auto _ : state) {
        i = (i + 7919) % space.forms.size(); // all over the space
        const Scenario* s = variation.with(settings_of(space, {static_cast<std::int32_t>(i), 0, 0, 0}));
        if (s) benchmark::DoNotOptimize(evaluate_scenario(*s, false, {}, nullptr, false));
    }
    state.counters["points/s"] = benchmark::Counter(static_cast<double>(state.iterations()), benchmark::Counter::kIsRate);
}
BENCHMARK(points_of_llama3_70b)->Unit(benchmark::kMillisecond)->MinTime(2);

// The same where each shares its plan with the point before, which is not counted.
void points_that_share_a_plan(benchmark::State& state) {
    const StrategySpace space = make_space(llama_70b, {});
    Variation variation(space.machines.front().variations);
    ReadyPlans plans(1, false);
    std::size_t i = 0;
    for (auto _ : state) {
        state.PauseTiming();
        i = (i + 7919) % space.forms.size();
        const Scenario* s = variation.with(settings_of(space, {static_cast<std::int32_t>(i), 0, 0, 0}));
        if (s) evaluate_scenario(*s, false, {}, &plans, false);
        state.ResumeTiming();
        if (s) benchmark::DoNotOptimize(evaluate_scenario(*s, false, {}, &plans, false));
    }
    state.counters["points/s"] = benchmark::Counter(static_cast<double>(state.iterations()), benchmark::Counter::kIsRate);
}
BENCHMARK(points_that_share_a_plan)->Unit(benchmark::kMillisecond)->Iterations(150);

} // namespace
