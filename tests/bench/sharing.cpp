// How fast is link sharing: a burst of 10,000 flows and 10,000 random arrivals over a fat tree, and the everyday case of a few
// bundles that meet nobody.
#include "tests/unit/engine/fluid.hpp"

#include <benchmark/benchmark.h>

#include <string>
#include <vector>

namespace orrery {
namespace {

void recorded(benchmark::State& state, const char* name) {
    const auto r = fluid::load_recorded(std::string(ORRERY_SOURCE_DIR "/tests/unit/engine/data/") + name + ".txt");
    for (auto _ : state) benchmark::DoNotOptimize(fluid::completions(r.capacities, r.flows));
    state.SetItemsProcessed(static_cast<std::int64_t>(r.flows.size()) * state.iterations());
}
BENCHMARK_CAPTURE(recorded, burst_10k, "burst_10k")->Unit(benchmark::kMillisecond);
BENCHMARK_CAPTURE(recorded, poisson_10k, "poisson_10k")->Unit(benchmark::kMillisecond);

// An item is an add, an update, a remove and an update.
void disjoint(benchmark::State& state, double cap, int shared) {
    const std::vector<double> capacities(64, 50e9);
    Sharing sharing(capacities);
    std::vector<std::int32_t> ids;
    const auto add = [&](std::int32_t i) {
        const Sharing::Use uses[] = {{i, 1}, {i + 32, 1}};
        return sharing.add(uses, cap);
    };
    for (std::int32_t i = 0; i < 8; ++i) ids.push_back(add(i));
    sharing.update();
    const std::int32_t link = shared ? 0 : 9;
    for (auto _ : state) {
        const auto id = add(link);
        benchmark::DoNotOptimize(sharing.update().size());
        sharing.remove(id);
        benchmark::DoNotOptimize(sharing.update().size());
    }
    state.SetItemsProcessed(state.iterations());
}
BENCHMARK_CAPTURE(disjoint, below_capacity, 40e9, 0);
BENCHMARK_CAPTURE(disjoint, fills_its_link, 80e9, 0);
BENCHMARK_CAPTURE(disjoint, two_on_a_link, 40e9, 1);

} // namespace
} // namespace orrery
