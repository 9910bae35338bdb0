// How fast does a trace of ten million spans open, how small is its file, and how fast is the export.
#include "sim/trace/trace.hpp"
#include "tests/unit/trace/sample.hpp"

#include <benchmark/benchmark.h>

#include <filesystem>
#include <string>

namespace orrery {
namespace {

std::int64_t span_count(const Trace& trace) {
    std::int64_t n = 0;
    for (const Lane& lane : trace.lanes) n += static_cast<std::int64_t>(lane.spans.size());
    return n;
}

std::string scratch() { return (std::filesystem::temp_directory_path() / "orrery_bench.trace").string(); }

void load_ten_million(benchmark::State& state) {
    double spans = 0;
    {
        const Trace trace = sample_trace(64, 256, 304, true);
        spans = static_cast<double>(span_count(trace));
        save(trace, scratch());
    }
    state.counters["bytes_a_span"] = static_cast<double>(std::filesystem::file_size(scratch())) / spans;
    state.counters["spans"] = spans;
    for (auto _ : state) benchmark::DoNotOptimize(load_trace(scratch()));
    std::filesystem::remove(scratch());
}
BENCHMARK(load_ten_million)->Unit(benchmark::kMillisecond);

void write_perfetto(benchmark::State& state) {
    const Trace trace = sample_trace(8, 64, 200, true);
    for (auto _ : state) export_perfetto(trace, scratch());
    state.SetItemsProcessed(span_count(trace) * state.iterations());
    std::filesystem::remove(scratch());
}
BENCHMARK(write_perfetto)->Unit(benchmark::kMillisecond);

} // namespace
} // namespace orrery
