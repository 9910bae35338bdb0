// The time that the runtime adds to its kernels: time per op where kernels do nothing, and the share of a step of tiny-gpt that kernels
// work.
#include "exec/local/clock.hpp"
#include "exec/local/collectives.hpp"
#include "exec/local/executor.hpp"
#include "sim/plan/lower.hpp"
#include "sim/scenario/parse.hpp"

#include <benchmark/benchmark.h>

#include <cstring>

namespace orrery {
namespace {

Scenario scenario(std::vector<std::string> fields) {
    const ParseResult parsed = load_scenario(ORRERY_SOURCE_DIR "/scenarios/tiny-gpt.json", fields);
    if (!parsed.scenario) std::abort();
    return *parsed.scenario;
}

// Every computation replaced by work that ends at once: what is left is issuing, dependencies, memory. Time per op.
void issue_only(benchmark::State& state) {
    const Scenario s = scenario({"training.global_batch_size=32", "training.micro_batch_size=1"});
    Plan plan = lower(s);
    std::int64_t ops = 0;
    for (Block& b : plan.blocks)
        for (Op& op : b.ops)
            if (!is_memory_op(op.work)) op.work = HostWork{};
    const auto world = make_world(s, std::move(plan), DType::fp32);
    const auto executor = serial_executor(*world);
    for (const Issue& i : world->orders[0].issues) ops += is_memory_op(i.op->work) ? 0 : 1;
    for (auto _ : state) executor->step(nullptr);
    state.counters["s_per_op"] = benchmark::Counter(static_cast<double>(ops) * static_cast<double>(state.iterations()),
                                                    benchmark::Counter::kIsRate | benchmark::Counter::kInvert);
}
BENCHMARK(issue_only)->Unit(benchmark::kMillisecond);

// The part of a step's time that is inside kernels.
void kernels_share(benchmark::State& state) {
    const Scenario s = scenario({"training.global_batch_size=4"});
    const auto world = make_world(s, DType::fp32);
    initialise(*world);
    load_batch(*world, {"", s.model.vocab_size, 0}, 0);
    const auto executor = serial_executor(*world);
    double inside = 0, all = 0;
    for (auto _ : state) {
        std::vector<OpTime> record;
        const std::int64_t begin = wall_ns();
        executor->step(&record);
        all += static_cast<double>(wall_ns() - begin);
        for (const OpTime& t : record) inside += static_cast<double>(t.end - t.begin);
    }
    state.counters["share"] = inside / all;
}
BENCHMARK(kernels_share)->Unit(benchmark::kMillisecond);

void all_reduce_of_two(benchmark::State& state) {
    const std::int64_t n = state.range(0) / 4;
    std::vector<float> a(static_cast<std::size_t>(n), 1), b(static_cast<std::size_t>(n), 2);
    const std::vector<Pieces> sides{{{reinterpret_cast<std::byte*>(a.data()), n}}, {{reinterpret_cast<std::byte*>(b.data()), n}}};
    for (auto _ : state) all_reduce(sides, sides, Element::fp32, false);
    state.SetBytesProcessed(state.iterations() * state.range(0));
}
BENCHMARK(all_reduce_of_two)->Arg(1 << 12)->Arg(1 << 18)->Arg(1 << 22);

void copy_beside_it(benchmark::State& state) {
    std::vector<char> a(static_cast<std::size_t>(state.range(0)), 1), b(a.size());
    for (auto _ : state) {
        std::memcpy(b.data(), a.data(), a.size());
        benchmark::DoNotOptimize(b.data());
    }
    state.SetBytesProcessed(state.iterations() * state.range(0));
}
BENCHMARK(copy_beside_it)->Arg(1 << 12)->Arg(1 << 18)->Arg(1 << 22);

} // namespace
} // namespace orrery
