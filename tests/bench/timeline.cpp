// Does the timeline keep 60 frames a second? The picture of 64 rows at 1, 10 and 100 million slices, five zooms, 1080p and 4K; what it
// takes to open a trace and to ask for a slice. 100 million need 6 GB: they are left out where there is less.
#ifdef ORRERY_HAS_GUI
#include "gui/core/frame.hpp"
#include "tests/gui/synthetic.hpp"

#include <benchmark/benchmark.h>

#include <QGuiApplication>
#include <unistd.h>

#include <chrono>
#include <cmath>
#include <filesystem>
#include <map>
#include <memory>

namespace {

using namespace orrery;

struct Opened {
    Trace trace;
    TrackStore store;
    std::vector<Row> rows;
    double build_s = 0;
};

bool room_for(std::int64_t slices) {
    const double free = static_cast<double>(sysconf(_SC_AVPHYS_PAGES)) * static_cast<double>(sysconf(_SC_PAGE_SIZE));
    return static_cast<double>(slices) * 60 < free;
}

// One at a time: a hundred million slices are 4 GB.
const Opened& opened(std::int64_t slices) {
    static std::map<std::int64_t, std::unique_ptr<Opened>> kept;
    auto& o = kept[slices];
    if (o) return *o;
    for (auto& [n, other] : kept)
        if (n != slices) other.reset();
    o = std::make_unique<Opened>();
    o->trace = synthetic::trace({.lanes = 32, .stages = 4, .slices = slices});
    const auto begin = std::chrono::steady_clock::now();
    o->store = tracks_of(o->trace);
    o->build_s = std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
    o->rows = rows_of(o->store, nullptr, RowOptions{});
    return *o;
}

void application() {
    static int argc = 1;
    static char name[] = "bench";
    static char* argv[] = {name, nullptr};
    static const bool offscreen = qputenv("QT_QPA_PLATFORM", "offscreen");
    static const QGuiApplication app(argc, argv);
    benchmark::DoNotOptimize(offscreen);
}

// millions of slices, share of the trace shown as 10^-x, 1: 1080p, 2: 4K
void Frame(benchmark::State& state) {
    application();
    const std::int64_t slices = state.range(0) * 1'000'000;
    if (!room_for(slices)) return state.SkipWithError("not enough memory");
    const Opened& o = opened(slices);
    const double whole = static_cast<double>(o.trace.end.ps), share = std::pow(10.0, -static_cast<double>(state.range(1)));
    FrameRequest r;
    r.range.begin = static_cast<std::int64_t>(whole * (1 - share) * 0.41);
    r.range.end = r.range.begin + static_cast<std::int64_t>(whole * share);
    r.width = 1920 - 180;
    r.height = 1080 - 24;
    r.row_height = 15;
    r.ratio = static_cast<double>(state.range(2));
    r.background = Qt::white;
    r.lines = QColor(0, 0, 0, 90);
    for (int i = 0; i < static_cast<int>(o.rows.size()); ++i) r.rows.push_back({i, i * 16});
    QImage picture;
    for (int i = 0; i < 3; ++i) render_rows(o.store, o.rows, r, picture); // pages met for the first time are Open's
    for (auto _ : state) render_rows(o.store, o.rows, r, picture);
    benchmark::DoNotOptimize(picture.constBits());
    state.counters["rows"] = static_cast<double>(r.rows.size());
}
BENCHMARK(Frame)
    ->ArgNames({"M", "zoom", "dpr"})
    ->ArgsProduct({{1, 10, 100}, {0, 1, 2, 4, 6}, {1, 2}})
    ->Unit(benchmark::kMillisecond)
    ->MeasureProcessCPUTime()
    ->UseRealTime();

// From a trace in memory to its tracks; bytes beyond the trace's own 32 a slice.
void Open(benchmark::State& state) {
    const std::int64_t slices = state.range(0) * 1'000'000;
    if (!room_for(slices)) return state.SkipWithError("not enough memory");
    const Opened& o = opened(slices);
    double n = 0;
    for (const Lane& l : o.trace.lanes) n += static_cast<double>(l.spans.size());
    for (auto _ : state) benchmark::DoNotOptimize(tracks_of(o.trace));
    state.counters["slices"] = n;
    state.counters["bytes_per_slice"] = static_cast<double>(bytes_held(o.store)) / n;
}
BENCHMARK(Open)->ArgName("M")->Arg(1)->Arg(10)->Arg(100)->Unit(benchmark::kMillisecond)->UseRealTime();

// From a trace's file to its first picture.
void File(benchmark::State& state) {
    application();
    const std::int64_t slices = state.range(0) * 1'000'000;
    if (!room_for(slices * 2)) return state.SkipWithError("not enough memory");
    const std::string path = std::filesystem::temp_directory_path() / ("bench_timeline_" + std::to_string(getpid()) + ".trace");
    save(opened(slices).trace, path);
    for (auto _ : state) {
        const Trace trace = load_trace(path);
        benchmark::DoNotOptimize(tracks_of(trace));
    }
    state.counters["bytes_per_slice"] = static_cast<double>(std::filesystem::file_size(path)) / static_cast<double>(slices);
    std::filesystem::remove(path);
}
BENCHMARK(File)->ArgName("M")->Arg(1)->Arg(10)->Unit(benchmark::kMillisecond)->UseRealTime();

void HitTest(benchmark::State& state) {
    const Opened& o = opened(10'000'000);
    std::int64_t t = 0;
    for (auto _ : state) {
        t = (t + 987'654'321'987) % o.trace.end.ps;
        benchmark::DoNotOptimize(slice_at(o.store, o.store.tracks[static_cast<std::size_t>(t) % o.store.tracks.size()], t));
    }
}
BENCHMARK(HitTest);

} // namespace
#endif
