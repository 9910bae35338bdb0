// How fast are whole runs: ten years of 16,384 GPUs with 0.004 failures a node and day, about 30,000 failures each. The goal: 1,000 seeds
// in 2 s on one core, 2 ms each.
#include "sim/job/job.hpp"

#include <benchmark/benchmark.h>

namespace orrery {
namespace {

void ten_years(benchmark::State& state) {
    TrainingJob job;
    job.nodes = 2048;
    job.replicas = 128;
    job.run.repair = {{0.009, 0.045, 0.138, 0.483, 0.85, 1.56, 2.48, 4.59, 13.4}, 5.54};
    job.step_ps = 5'000'000'000'000;
    job.save_every = 100;
    job.save.block_s = 1;
    job.save.write_s = 60;
    job.save.load_s = 60;
    job.init_s = 270;
    job.spares = 60;
    job.horizon_s = 3650 * 86400.0;
    int seed = 0;
    std::int64_t failures = 0;
    for (auto _ : state) failures += simulate_job(job, seed++).failures;
    state.SetItemsProcessed(failures);
}
BENCHMARK(ten_years)->Unit(benchmark::kMillisecond);

} // namespace
} // namespace orrery
