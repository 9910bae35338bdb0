// Is what a pixel column shows the truth? Busy times against brute force, at every zoom; painted shares against busy times.
#include "gui/core/raster.hpp"
#include "tests/gui/synthetic.hpp"

#include <QtTest/QTest>

#include <cmath>

using namespace orrery;

namespace {

// Nothing clever: each slice's part of [begin, end).
KindTimes brute_force(const TrackStore& store, const Track& t, std::int64_t begin, std::int64_t end) {
    KindTimes out{};
    for (std::int32_t i = 0; i < slice_count(t); ++i) {
        const Span& s = slice(store, t, i);
        const std::int64_t part = std::min(s.end.ps, end) - std::max(s.begin.ps, begin);
        if (part > 0) out[kind(store, t, i)] += part;
    }
    return out;
}

// Spans as a real trace has them: bursts of thousands in a microsecond, and nothing for a second.
Trace bursts() {
    Trace t;
    t.queues = {"compute"};
    t.ops = synthetic::ops();
    Lane lane;
    std::mt19937_64 random(5);
    std::int64_t now = 17;
    for (int burst = 0; burst < 20; ++burst) {
        for (int i = 0; i < 3000; ++i) {
            const auto d = static_cast<std::int64_t>(random() % 300);
            lane.spans.push_back(
                {{now}, {now + d}, static_cast<std::int32_t>(random() % t.ops.size()), i, 0, SpanKind::op, WaitCause::none, -1});
            now += d + static_cast<std::int64_t>(random() % 3 == 0 ? random() % 200 : 0);
        }
        now += static_cast<std::int64_t>(random() % 1'000'000'000'000);
    }
    t.end = {now};
    t.lanes.push_back(std::move(lane));
    return t;
}

} // namespace

class TracksTest : public QObject {
    Q_OBJECT
  private Q_SLOTS:
    void columnsAreExact_data() {
        QTest::addColumn<bool>("bursty");
        QTest::addColumn<double>("zoom");
        for (bool bursty : {false, true})
            for (double zoom : {1.0, 0.1, 0.01, 1e-4, 1e-7}) QTest::addRow("%s %g", bursty ? "bursts" : "1f1b", zoom) << bursty << zoom;
    }

    void columnsAreExact() {
        QFETCH(bool, bursty);
        QFETCH(double, zoom);
        const Trace trace = bursty ? bursts() : synthetic::trace({.lanes = 3, .stages = 3, .slices = 60000});
        const TrackStore store = tracks_of(trace);
        const double whole = static_cast<double>(trace.end.ps);
        std::vector<std::int64_t> busy;
        for (const Track& t : store.tracks) {
            const auto begin = static_cast<std::int64_t>(whole * (1 - zoom) * 0.37);
            const Columns columns{begin, begin + std::max<std::int64_t>(60, static_cast<std::int64_t>(whole * zoom)), 60};
            busy_in_columns(store, t, columns, busy);
            for (int c = 0; c < columns.count; ++c) {
                const KindTimes truth = brute_force(store, t, columns.edge(c), columns.edge(c + 1));
                for (std::size_t k = 0; k < t.kinds.size(); ++k)
                    QCOMPARE(busy[static_cast<std::size_t>(c) * t.kinds.size() + k], truth[t.kinds[k]]);
            }
        }
    }

    void busyBeforeIsExact() {
        const Trace trace = bursts();
        const TrackStore store = tracks_of(trace);
        std::mt19937_64 random(3);
        for (int i = 0; i < 300; ++i) {
            const std::int64_t t = static_cast<std::int64_t>(random() % static_cast<std::uint64_t>(trace.end.ps + 100));
            QCOMPARE(busy_before(store, store.tracks[0], t), brute_force(store, store.tracks[0], 0, t));
        }
    }

    void theSliceAtATime() {
        const Trace trace = bursts();
        const TrackStore store = tracks_of(trace);
        const Track& t = store.tracks[0];
        for (std::int32_t i = 0; i < slice_count(t); i += 7) {
            const Span& s = slice(store, t, i);
            if (s.end == s.begin) continue;
            QCOMPARE(slice_at(store, t, s.begin.ps), i);
            QCOMPARE(slice_at(store, t, s.end.ps - 1), i);
        }
        QCOMPARE(slice_at(store, t, 0), -1);
        QCOMPARE(slice_at(store, t, trace.end.ps + 5), -1);
    }

    void whatOverlapsIsKept() {
        Trace trace;
        trace.queues = {"stream"};
        trace.ops = synthetic::ops();
        Lane lane;
        for (int i = 0; i < 10; ++i) lane.spans.push_back({{i * 10}, {i * 10 + 25}, i, -1, 0, SpanKind::op, WaitCause::none, -1});
        trace.lanes.push_back(lane);
        trace.end = {200};
        const TrackStore store = tracks_of(trace);
        QCOMPARE(store.tracks.size(), std::size_t(3));
        std::int32_t slices = 0;
        for (const Track& t : store.tracks) {
            slices += slice_count(t);
            for (std::int32_t i = 1; i < slice_count(t); ++i) QVERIFY(slice(store, t, i).begin >= slice(store, t, i - 1).end);
        }
        QCOMPARE(slices, 10);
        for (std::int32_t i = 0; i < 10; ++i) {
            const Place p = place_of(store, 0, i);
            QVERIFY(p.track >= 0);
            QCOMPARE(span_index(store.tracks[p.track], p.slice), i);
        }
    }

    // Each kind in turn is white on black: the mean of its pixels is the share painted.
    void thePaintedShareIsTheTrueOne_data() {
        QTest::addColumn<double>("zoom");
        for (double zoom : {1.0, 0.1, 0.01, 1e-3, 1e-5}) QTest::addRow("%g", zoom) << zoom;
    }

    void thePaintedShareIsTheTrueOne() {
        QFETCH(double, zoom);
        const Trace trace = synthetic::trace({.lanes = 4, .stages = 2, .slices = 400000});
        const TrackStore store = tracks_of(trace);
        const auto begin = static_cast<std::int64_t>(static_cast<double>(trace.end.ps) * (1 - zoom) * 0.4);
        const Columns columns{begin, begin + static_cast<std::int64_t>(static_cast<double>(trace.end.ps) * zoom), 400};
        const int height = 13;
        double worst = 0;
        for (std::size_t t = 0; t < store.tracks.size(); ++t) {
            const ColumnTimes times = column_times(store, {static_cast<std::int32_t>(t)}, columns);
            for (SliceKind k : times.kinds) {
                Tiles only;
                only.background = qRgb(0, 0, 0);
                for (Tile& tile : only.kinds) tile.fill(qRgb(0, 0, 0));
                only.kinds[k].fill(qRgb(255, 255, 255));
                QImage image(columns.count, height, QImage::Format_RGB32);
                image.fill(Qt::black);
                paint(image, {0, 0, height}, times, columns, only);
                for (int c = 0; c < columns.count; c += 7) {
                    const std::int64_t left = columns.edge(c), right = columns.edge(c + 1);
                    const double truth =
                        static_cast<double>(brute_force(store, store.tracks[t], left, right)[k]) / static_cast<double>(right - left);
                    double painted = 0;
                    for (int y = 0; y < height; ++y) painted += qRed(image.pixel(c, y)) / 255.0 / height;
                    worst = std::max(worst, std::abs(painted - truth));
                }
            }
        }
        QVERIFY2(worst < 0.01, qPrintable(QString("worst column is off by %1").arg(worst)));
    }

    void groupsAddUp() {
        const Trace trace = synthetic::trace({.lanes = 4, .stages = 2, .slices = 20000});
        const TrackStore store = tracks_of(trace);
        const Columns columns{0, trace.end.ps, 50};
        std::vector<std::int32_t> all;
        for (std::size_t t = 0; t < store.tracks.size(); ++t) all.push_back(static_cast<std::int32_t>(t));
        const ColumnTimes together = column_times(store, all, columns);
        std::int64_t sum = 0, parts = 0;
        for (std::int64_t b : together.busy) sum += b;
        for (std::int32_t t : all)
            for (std::int64_t b : column_times(store, {t}, columns).busy) parts += b;
        QCOMPARE(sum, parts);
        QCOMPARE(together.tracks, 8);
    }
};

QTEST_GUILESS_MAIN(TracksTest)
#include "tracks_test.moc"
