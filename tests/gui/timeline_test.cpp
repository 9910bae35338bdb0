// Does the timeline do what its keys and the mouse ask, and do the tables beside it say what is there?
#include "gui/core/axis.hpp"
#include "gui/parts/legend.hpp"
#include "gui/timeline/models.hpp"
#include "gui/timeline/timeline_view.hpp"
#include "tests/gui/synthetic.hpp"

#include <QAbstractItemModelTester>
#include <QAccessible>
#include <QLineEdit>
#include <QSignalSpy>
#include <QTableView>
#include <QTemporaryDir>
#include <QToolButton>
#include <QtTest/QTest>

#include <algorithm>
#include <array>
#include <set>

using namespace orrery;

namespace {

constexpr std::int64_t us = 1'000'000;

Span op(std::int64_t begin, std::int64_t end, int op, int mb, int queue) {
    return {{begin * us}, {end * us}, op, mb, static_cast<std::int16_t>(queue), SpanKind::op, WaitCause::none, -1};
}
Span wait(std::int64_t begin, std::int64_t end, WaitCause cause, int peer) {
    return {{begin * us}, {end * us}, -1, -1, 0, SpanKind::wait, cause, peer};
}

// Two stages, two microbatches: small enough to know every figure.
Trace two_stages() {
    Trace t;
    t.name = "two stages";
    t.queues = {"compute", "tp", "pp.up"};
    t.ops = {{"l0.fwd", "linear", "forward", 0, 1e9, 0},
             {"l0.bwd", "linear", "backward", 0, 2e9, 0},
             {"l0.reduce", "all-reduce", "forward", 0, 0, 1000},
             {"send", "exchange", "exchange", -1, 0, 500}};
    Lane a;
    a.rank = 0;
    a.spans = {op(0, 10, 0, 0, 0),  op(10, 20, 0, 1, 0), wait(20, 45, WaitCause::receive, 1),
               op(45, 60, 1, 0, 0), op(5, 15, 2, 0, 1),  op(10, 12, 3, 0, 2)};
    Lane b;
    b.rank = 1;
    b.stage = 1;
    b.spans = {wait(0, 12, WaitCause::warm_up, 0), op(12, 22, 0, 0, 0), op(22, 45, 1, 0, 0),
               wait(45, 60, WaitCause::drain, 0),  op(5, 15, 2, 0, 1),  op(10, 12, 3, 0, 2)};
    t.lanes = {a, b};
    t.flows = {{0, 5, 1, 5}};
    t.end = {60 * us};
    return t;
}

struct Window {
    RunStore runs;
    ViewState state;
    TimelineView view{runs, state};
    RunId id = 0;
    explicit Window(Trace t = two_stages()) {
        id = runs.add(run_of_trace(std::move(t)), "run");
        state.setCurrentRun(id);
        view.resize(1000, 600);
        view.show();
        (void)QTest::qWaitForWindowExposed(&view);
        line().setFocus();
    }
    Timeline& line() { return view.timeline(); }
    void press(Qt::Key key, Qt::KeyboardModifiers m = Qt::NoModifier) { QTest::keyClick(&line(), key, m); }
    QPoint at(int row, std::int64_t microseconds) {
        return {static_cast<int>(line().xOf(microseconds * us)), line().rowRect(row).center().y()};
    }
    void click(int row, std::int64_t microseconds) { QTest::mouseClick(line().viewport(), Qt::LeftButton, {}, at(row, microseconds)); }
};

} // namespace

class TimelineTest : public QObject {
    Q_OBJECT
  private Q_SLOTS:
    void rowsAreGroupedAndFold() {
        Window w;
        QCOMPARE(w.line().rows().size(), std::size_t(6));
        QCOMPARE(w.line().rows()[0].label, QString("stage 0 · rank 0"));
        w.press(Qt::Key_Left);
        QCOMPARE(w.line().rows().size(), std::size_t(4));
        w.press(Qt::Key_Return);
        QCOMPARE(w.line().rows().size(), std::size_t(6));
        w.press(Qt::Key_Down);
        w.press(Qt::Key_P);
        QCOMPARE(w.line().rows().size(), std::size_t(7));
        QVERIFY(w.line().rows()[0].pinned);
        QCOMPARE(w.line().rows()[0].label, QString("rank 0 · tp"));
    }

    void queuesOfAllRanksFold() {
        Window w;
        w.press(Qt::Key_Left, Qt::ShiftModifier);
        QCOMPARE(w.line().rows().size(), std::size_t(2));
        w.press(Qt::Key_Right, Qt::ShiftModifier);
        QCOMPARE(w.line().rows().size(), std::size_t(6));
    }

    void aRunWithManyQueuesOpensFolded() {
        RunStore runs;
        ViewState state;
        TimelineView view(runs, state);
        const RunId id =
            runs.simulate(R"({"model": {"name": "tiny", "layers": 16, "hidden_size": 512, "attention_heads": 8, "vocab_size": 1024},
            "cluster": {"preset": "dgx-a100-80gb", "nodes": 4},
            "training": {"global_batch_size": 32, "micro_batch_size": 1, "sequence_length": 512, "precision": "bf16"},
            "strategy": {"framework": "megatron", "tensor_parallel": 2, "pipeline_parallel": 16, "schedule": "1f1b"}})",
                          {});
        state.setCurrentRun(id); // still being simulated
        QTRY_VERIFY_WITH_TIMEOUT(view.timeline().store(), 20000);
        QVERIFY(view.timeline().store()->tracks.size() > 48);
        QCOMPARE(view.timeline().rows().size(), std::size_t(16));
    }

    void groupsFoldTheirRanks() {
        Trace t = two_stages();
        t.lanes[1].stage = 0; // both in one stage
        Window w(t);
        QCOMPARE(w.line().rows().size(), std::size_t(7));
        QCOMPARE(w.line().rows()[0].label, QString("stage 0"));
        QCOMPARE(w.line().rows()[0].tracks.size(), std::size_t(2));
        w.press(Qt::Key_Left);
        QCOMPARE(w.line().rows().size(), std::size_t(1));
        w.state.setSelectedSlice({w.id, 1, 2}); // what is folded away is shown in its group
        QCOMPARE(w.line().currentRow(), 0);
        w.press(Qt::Key_Right);
        QCOMPARE(w.line().rows().size(), std::size_t(7));
    }

    void anotherRunIsSeenWhole() {
        Window w;
        Trace longer = two_stages();
        for (Lane& l : longer.lanes) l.spans.back().end.ps = 900 * us;
        const RunId other = w.runs.add(run_of_trace(longer), "longer");
        w.state.setCurrentRun(other);
        QCOMPARE(w.state.timeRange(), (TimeRange{0, 900 * us}));
        w.state.setTimeRange({10 * us, 20 * us});
        w.state.setCurrentRun(w.id);
        QCOMPARE(w.line().range(), (TimeRange{10 * us, 20 * us}));
    }

    void aRangeAskedForBeforehandIsKept() {
        RunStore runs;
        ViewState state;
        TimelineView view(runs, state);
        view.resize(900, 500);
        state.setTimeRange({5 * us, 15 * us});
        state.setCurrentRun(runs.add(run_of_trace(two_stages()), "run"));
        QCOMPARE(view.timeline().range(), (TimeRange{5 * us, 15 * us}));
    }

    // A receive that was posted before the step is no part of it: the run opens with its work, not with blank time.
    void aRunOpensWithItsFirstWork() {
        Trace t = two_stages();
        Span early = op(-40, 10, 3, 0, 2);
        early.kind = SpanKind::transfer_wait;
        early.cause = WaitCause::receive;
        t.lanes[1].spans.insert(t.lanes[1].spans.end() - 1, early);
        Window w(t);
        QCOMPARE(w.line().whole(), (TimeRange{0, 60 * us}));
        QCOMPARE(first_work(t).ps, std::int64_t(0));
        // And a run whose ranks begin before the moment that its trace counts from, counts from their first work.
        QTemporaryDir folder;
        for (Lane& lane : t.lanes)
            for (Span& s : lane.spans) s.begin.ps -= 7 * us, s.end.ps -= 7 * us;
        t.end.ps -= 7 * us;
        save(t, folder.filePath("early.trace").toStdString());
        const auto data = load_run_trace(folder.filePath("early.trace").toStdString(), [](const QString&) { return true; });
        QCOMPARE(data->trace->begin.ps, 7 * us);
        QCOMPARE(data->tracks->begin, std::int64_t(0));
        QCOMPARE(data->tracks->end, 60 * us);
        QCOMPARE((data->trace->end - data->trace->begin).ps, 53 * us);    // the step is as long as it was
        save(*data->trace, folder.filePath("again.trace").toStdString()); // moved once, not twice
        const auto again = load_run_trace(folder.filePath("again.trace").toStdString(), [](const QString&) { return true; });
        QCOMPARE(again->trace->begin.ps, 7 * us);
        QCOMPARE(again->tracks->begin, std::int64_t(0));
    }

    // "F0" stands for a pass, also where the work of a bucket falls into it.
    void aBucketsWorkDoesNotEndAPass() {
        Trace t = two_stages();
        t.flows.clear();
        t.lanes[0].spans = {op(0, 10, 0, 0, 0), op(10, 11, 1, -1, 0), op(11, 20, 0, 0, 0), op(20, 30, 0, 1, 0)};
        t.lanes[1].spans = {op(0, 10, 0, 0, 0)};
        const TrackStore store = tracks_of(t);
        QCOMPARE(store.tracks[0].stretches.size(), std::size_t(2));
        QCOMPARE(store.tracks[0].stretches[0].end, 20 * us);
    }

    // Stages use queues of their own: those of one purpose stand in one order under every rank.
    void queuesStandInOneOrder() {
        Trace t = two_stages();
        t.queues = {"compute", "tp", "pp.up.0-1", "norm", "pp.up.1-2"};
        t.flows.clear();
        t.lanes[0].spans = {op(0, 10, 0, 0, 0), op(5, 15, 2, 0, 1), op(10, 12, 3, 0, 2), op(20, 21, 2, 0, 3)};
        t.lanes[1].spans = {op(0, 10, 0, 0, 0), op(5, 15, 2, 0, 1), op(20, 21, 2, 0, 3), op(22, 23, 3, 0, 4)};
        Window w(t);
        QStringList labels;
        for (const Row& row : w.line().rows()) labels << row.label;
        QCOMPARE(labels, (QStringList{"stage 0 · rank 0", "tp", "pp.up.0-1", "norm", "stage 1 · rank 1", "tp", "pp.up.1-2", "norm"}));
    }

    void ranksMove() {
        Window w;
        w.press(Qt::Key_Down, Qt::AltModifier);
        QCOMPARE(w.line().rows()[0].label, QString("stage 1 · rank 1"));
        QCOMPARE(w.line().currentRow(), 3);
        w.press(Qt::Key_Up, Qt::AltModifier);
        QCOMPARE(w.line().rows()[0].label, QString("stage 0 · rank 0"));
    }

    void keysMoveInTime() {
        Window w;
        const TimeRange all = w.line().range();
        QCOMPARE(all.length(), 60 * us);
        w.press(Qt::Key_W);
        const TimeRange near = w.line().range();
        QVERIFY(near.length() < all.length());
        w.press(Qt::Key_D);
        QVERIFY(w.line().range().begin > near.begin);
        QCOMPARE(w.line().range().length(), near.length());
        w.press(Qt::Key_A);
        QCOMPARE(w.line().range(), near);
        w.press(Qt::Key_Home);
        QCOMPARE(w.line().range(), all);
        QCOMPARE(w.state.timeRange(), all);
    }

    void theViewBeforeComesBack() {
        Window w;
        const TimeRange all = w.line().range();
        w.press(Qt::Key_W);
        const TimeRange near = w.line().range();
        w.press(Qt::Key_Backspace);
        QCOMPARE(w.line().range(), all);
        w.press(Qt::Key_Backspace, Qt::ShiftModifier);
        QCOMPARE(w.line().range(), near);
    }

    void zoomKeepsTheTimeUnderThePointer() {
        Window w;
        const double x = w.line().xOf(20 * us);
        w.line().zoom(4, x);
        QVERIFY(std::abs(w.line().xOf(20 * us) - x) < 1);
        w.line().zoom(1e12, x); // as near as a pixel a picosecond
        QVERIFY(w.line().range().length() >= 100);
        w.line().zoom(1e-12, x);
        QCOMPARE(w.line().range(), w.line().whole());
    }

    void clicksSelect() {
        Window w;
        QSignalSpy changed(&w.state, &ViewState::selectedSliceChanged);
        w.click(0, 15);
        QCOMPARE(changed.size(), 1);
        QCOMPARE(w.state.selectedSlice(), (SliceId{w.id, 0, 1}));
        w.press(Qt::Key_Period);
        QCOMPARE(w.state.selectedSlice().span, 2); // the bubble is a slice too
        QCOMPARE(title(*w.line().store()->trace, span_of(*w.line().store()->trace, w.line().selected())), QString("waits for a receive"));
        w.press(Qt::Key_Comma);
        w.press(Qt::Key_Comma);
        QCOMPARE(w.state.selectedSlice().span, 0);
        w.press(Qt::Key_F);
        QVERIFY(w.line().range().length() < 12 * us);
        w.press(Qt::Key_Escape);
        QVERIFY(!w.state.selectedSlice().valid());
    }

    void arrowsLeadToTheOtherEnd() {
        Window w;
        w.click(2, 11);
        QCOMPARE(w.state.selectedSlice(), (SliceId{w.id, 0, 5}));
        QCOMPARE(w.line().arrows().size(), std::size_t(1));
        w.press(Qt::Key_BracketRight);
        QCOMPARE(w.state.selectedSlice(), (SliceId{w.id, 1, 5}));
        w.press(Qt::Key_BracketLeft);
        QCOMPARE(w.state.selectedSlice(), (SliceId{w.id, 0, 5}));
    }

    void thePlanKnowsDependencies() {
        const auto data =
            simulate_run(R"({"model": {"name": "tiny", "layers": 4, "hidden_size": 512, "attention_heads": 8, "vocab_size": 1024},
            "cluster": {"preset": "dgx-a100-80gb", "nodes": 1},
            "training": {"global_batch_size": 16, "micro_batch_size": 1, "sequence_length": 512, "precision": "bf16"},
            "strategy": {"framework": "megatron", "tensor_parallel": 2, "pipeline_parallel": 2, "schedule": "1f1b"}})",
                         {}, [](const QString&) { return true; });
        QVERIFY2(data->problems.empty(), data->problems.empty() ? "" : data->problems[0].what.c_str());
        std::array<int, 3> seen{};
        for (const Track& t : data->tracks->tracks)
            for (std::int32_t i = 0; i < slice_count(t); i += 5) {
                const SpanRef me{t.lane, span_index(t, i)};
                for (const Arrow& a : arrows_of(*data->tracks, &*data->plan, me)) {
                    ++seen[static_cast<std::size_t>(a.kind)];
                    QVERIFY(a.from == me || a.to == me);
                    if (a.kind == ArrowKind::dependency) QVERIFY(span_of(*data->trace, a.from).end <= span_of(*data->trace, a.to).begin);
                }
            }
        QVERIFY2(seen[0] > 0 && seen[2] > 10, qPrintable(QString("%1 transfers, %2 dependencies").arg(seen[0]).arg(seen[2])));
    }

    void aCollectiveKnowsItsMembers() {
        Window w;
        w.click(1, 8);
        QCOMPARE(w.line().arrows().size(), std::size_t(1));
        QCOMPARE(w.line().arrows()[0].kind, ArrowKind::collective);
        QCOMPARE(w.line().arrows()[0].to, (SpanRef{1, 4}));
    }

    void selectionFromElsewhereIsShown() {
        Window w;
        w.line().setRange({0, 5 * us});
        w.state.setSelectedSlice({w.id, 1, 2});
        QVERIFY(w.line().range().begin <= 45 * us && w.line().range().end > 22 * us);
        QCOMPARE(w.line().currentRow(), 3);
    }

    void anAreaIsCounted() {
        Window w;
        QVERIFY(QTest::qWaitForWindowActive(&w.view) || true);
        auto* v = w.line().viewport();
        QTest::mousePress(v, Qt::LeftButton, {}, w.at(0, 5));
        QTest::mouseMove(v, w.at(1, 30));
        QMouseEvent move(QEvent::MouseMove, w.at(1, 30), v->mapToGlobal(w.at(1, 30)), Qt::NoButton, Qt::LeftButton, Qt::NoModifier);
        QCoreApplication::sendEvent(v, &move);
        QTest::mouseRelease(v, Qt::LeftButton, {}, w.at(1, 30));
        QVERIFY(w.line().area());
        const auto rows = area(*w.line().store(), w.line().areaTracks(), 5 * us, 30 * us, {});
        QCOMPARE(rows.size(), std::size_t(3)); // forward, waiting, the all-reduce
        for (const AreaRow& r : rows) {
            if (r.kind == SliceKind::forward) QCOMPARE(r.covered, 15.0 * us);
            if (r.kind == SliceKind::wait) QCOMPARE(r.exposed, 10.0 * us);
            if (r.kind == SliceKind::collective) {
                QCOMPARE(r.covered, 10.0 * us);
                QCOMPARE(r.exposed, 0.0); // all of it under computation
            }
        }
        auto* tester = w.view.findChild<AreaModel*>();
        QTRY_COMPARE_WITH_TIMEOUT(tester->rowCount(), 3, 3000);
    }

    void unionsAreNotSums() {
        Trace t = two_stages();
        t.lanes[0].spans.insert(t.lanes[0].spans.begin() + 5, op(8, 18, 2, 1, 1)); // overlaps the all-reduce before it
        const TrackStore store = tracks_of(t);
        std::vector<std::int32_t> tracks;
        for (std::size_t i = 0; i < store.tracks.size(); ++i)
            if (store.tracks[i].lane == 0) tracks.push_back(static_cast<std::int32_t>(i));
        for (const AreaRow& r : area(store, tracks, 0, 60 * us, {}))
            if (r.kind == SliceKind::collective) {
                QCOMPARE(r.sum, 20.0 * us);
                QCOMPARE(r.covered, 13.0 * us);
            }
    }

    void searchGoesRound() {
        Window w;
        w.view.search("bwd", true);
        QCOMPARE(w.state.selectedSlice(), (SliceId{w.id, 1, 2}));
        w.view.search("bwd", true);
        QCOMPARE(w.state.selectedSlice(), (SliceId{w.id, 0, 3}));
        w.view.search("bwd", true);
        QCOMPARE(w.state.selectedSlice(), (SliceId{w.id, 1, 2}));
        w.view.search("bwd", false);
        QCOMPARE(w.state.selectedSlice(), (SliceId{w.id, 0, 3}));
        w.view.search("fwd mb:1", true);
        QCOMPARE(w.state.selectedSlice(), (SliceId{w.id, 0, 1}));
        w.view.search("drains", true);
        QCOMPARE(w.state.selectedSlice(), (SliceId{w.id, 1, 3}));
        w.press(Qt::Key_Slash);
        QVERIFY(w.view.findChild<QLineEdit*>());
    }

    // A rank that another one's lane stands for is found by its number, and by being chosen.
    void aFoldedRankIsFound() {
        const auto data = simulate_run(
            R"({"name": "s", "model": {"name": "tiny", "layers": 8, "hidden_size": 512, "attention_heads": 8, "vocab_size": 1024},
          "cluster": {"preset": "dgx-a100-80gb", "nodes": 4}, "training": {"global_batch_size": 64, "micro_batch_size": 1, "sequence_length": 512, "precision": "bf16"},
          "strategy": {"framework": "megatron", "tensor_parallel": 2, "pipeline_parallel": 4}, "perturb": [{"slow": 1.5, "rank": 5}]})",
            {}, [](const QString&) { return true; });
        QVERIFY2(data->trace.has_value(), to_text(data->problems).c_str());
        QCOMPARE(data->lane_of_rank.size(), std::size_t(32));
        QVERIFY2(data->trace->lanes.size() < 32 && data->trace->lanes.size() > 4, // some are folded, and a stage has several lanes
                 qPrintable(QString::number(data->trace->lanes.size())));
        RunStore runs;
        ViewState state;
        TimelineView view(runs, state);
        state.setCurrentRun(runs.add(data, "s"));
        QLineEdit* filter = nullptr;
        for (QLineEdit* line : view.findChildren<QLineEdit*>())
            if (line->accessibleName() == "Filter rows") filter = line;
        const auto lanes = [&] {
            std::set<std::int32_t> out;
            for (const Row& row : view.timeline().rows())
                if (row.kind == RowKind::lane) out.insert(row.lane);
            return out;
        };
        QCOMPARE(lanes().size(), data->trace->lanes.size());
        for (std::int32_t rank = 0; rank < 32; ++rank) {
            const std::set<std::int32_t> its{data->lane_of_rank[rank]};
            filter->clear();
            QTest::keyClicks(filter, QString("rank %1").arg(rank));
            QCOMPARE(lanes(), its);
            filter->setText(QString::number(rank));
            QCOMPARE(lanes(), its);
            filter->clear();
            state.setSelectedRanks({rank});
            QCOMPARE(lanes(), its);
            state.setSelectedRanks({});
        }
    }

    // In a narrow window the legend takes another line and loses nothing.
    void theLegendIsWhole() {
        RunStore runs;
        ViewState state;
        TimelineView view(runs, state);
        state.setCurrentRun(runs.add(run_of_trace(synthetic::trace({.lanes = 4, .stages = 2, .slices = 4000})), "s"));
        auto* legend = view.findChild<Legend*>();
        QVERIFY(legend);
        for (const int width : {1400, 700, 420}) {
            view.resize(width, 700);
            view.show();
            QTRY_VERIFY2(
                legend->height() >= legend->heightForWidth(legend->width()),
                qPrintable(QString("%1 wide: %2 of %3").arg(width).arg(legend->height()).arg(legend->heightForWidth(legend->width()))));
        }
        QVERIFY(legend->height() > legend->sizeHint().height());
    }

    void filterKeepsWhatMatches() {
        Window w;
        RowOptions o = w.line().rowOptions();
        o.filter = "pp";
        w.line().setRowOptions(o);
        QCOMPARE(w.line().rows().size(), std::size_t(4)); // each rank and its pp queue
        w.state.setSelectedRanks({1});
        QCOMPARE(w.line().rows().size(), std::size_t(2));
    }

    void microbatchesAreHighlighted() {
        Window w;
        w.click(0, 15);
        const QImage before = w.line().grab().toImage();
        w.press(Qt::Key_H);
        QCOMPARE(w.state.microbatch(), 1);
        const QImage after = w.line().grab().toImage();
        const QPoint own = w.at(0, 13), other = w.at(0, 3);
        QCOMPARE(after.pixel(own), before.pixel(own));
        QVERIFY(after.pixel(other) != before.pixel(other));
        w.press(Qt::Key_H);
        QCOMPARE(w.state.microbatch(), -1);
    }

    void theCriticalPathIsMarked() {
        Window w;
        w.press(Qt::Key_C);
        QTRY_VERIFY_WITH_TIMEOUT(!w.line().criticalPath().empty(), 3000);
        w.press(Qt::Key_C);
        QVERIFY(w.line().criticalPath().empty());
    }

    void markersComeAndGo() {
        Window w;
        auto* model = w.view.findChild<MarkersModel*>();
        const QAbstractItemModelTester tester(model, QAbstractItemModelTester::FailureReportingMode::Fatal);
        w.line().setCursorTime(30 * us);
        w.press(Qt::Key_M);
        w.line().setCursorTime(10 * us);
        w.press(Qt::Key_M);
        QCOMPARE(model->rowCount(), 2);
        QCOMPARE(model->markers()[0].at, 10 * us);
        QVERIFY(model->setData(model->index(1, 1), "here"));
        QVERIFY(!model->setData(model->index(1, 0), "1 s"));
        w.press(Qt::Key_M, Qt::ShiftModifier);
        QCOMPARE(model->rowCount(), 1);
        QCOMPARE(model->markers()[0].note, QString("here"));
    }

    void marksAreRound() {
        QCOMPARE(round_step(0.03), 0.05);
        QCOMPARE(round_step(5), 5.0);
        QCOMPARE(round_step(5.1), 10.0);
        QCOMPARE(round_step_ps(0.2), std::int64_t(1));
        QCOMPARE(first_mark(-592, 100), std::int64_t(-500));
        QCOMPARE(first_mark(592, 100), std::int64_t(600));
        QCOMPARE(first_mark(-600, 100), std::int64_t(-600));
    }

    void modelsAreSound() {
        FactsModel facts_model;
        AreaModel area_model;
        const QAbstractItemModelTester a(&facts_model, QAbstractItemModelTester::FailureReportingMode::Fatal);
        const QAbstractItemModelTester b(&area_model, QAbstractItemModelTester::FailureReportingMode::Fatal);
        const Trace t = two_stages();
        facts_model.setFacts(facts(t, {0, 4}));
        QVERIFY(facts_model.rowCount() > 8);
        area_model.setArea({{SliceKind::forward, "linear", 3, 3e6, 2e6, 0, 1e6}}, 4e6);
        QCOMPARE(area_model.data(area_model.index(0, AreaModel::share)).toString(), QString("50.0 %"));
    }

    // A collective that stands for several calls of the software: what all of them move, and how many they are.
    void factsNameTheCalls() {
        Trace t = two_stages();
        const auto& spans = t.lanes[0].spans;
        const auto span = std::ranges::find_if(spans, [&](const Span& s) { return s.kind == SpanKind::op && s.op >= 0; });
        TraceOp& op = t.ops[static_cast<std::size_t>(span->op)];
        const SpanRef at{0, static_cast<std::int32_t>(span - spans.begin())};
        const auto moves = [&] {
            for (const auto& [name, value] : facts(t, at))
                if (name == QLatin1String("moves")) return value;
            return QString();
        };
        op.bytes = 3'000'000;
        QCOMPARE(moves(), QString("3 MB"));
        op.calls = 3;
        QCOMPARE(moves(), QString("3 MB in 3 calls"));
    }

    void aScreenReaderIsToldRows() {
        Window w;
        QAccessibleInterface* i = QAccessible::queryAccessibleInterface(&w.line());
        QVERIFY(i);
        QCOMPARE(i->childCount(), 6);
        QVERIFY(i->child(0)->text(QAccessible::Name).startsWith("stage 0 · rank 0: forward 33.3 %"));
        QCOMPARE(i->indexOfChild(i->child(2)), 2);
        w.click(0, 15);
        QVERIFY(i->text(QAccessible::Value).contains("l0.fwd"));
    }

    void movingTheMouseDoesNotPaintRowsAgain() {
        Window w(synthetic::trace({.lanes = 32, .stages = 4, .slices = 300000}));
        w.line().grab();
        QElapsedTimer clock;
        clock.start();
        for (int i = 0; i < 50; ++i) w.line().setCursorTime(i * us), w.line().viewport()->repaint(300 + i, 0, 5, 400);
        QVERIFY2(clock.elapsed() < 50 * 6, qPrintable(QString("%1 ms for 50").arg(clock.elapsed())));
    }

    void emptyAndOddTraces() {
        RunStore runs;
        ViewState state;
        TimelineView view(runs, state);
        view.show();
        view.grab();
        Trace nothing;
        state.setCurrentRun(runs.add(run_of_trace(nothing), "nothing"));
        view.grab();
        QTest::keyClick(&view.timeline(), Qt::Key_W);
        QTest::keyClick(&view.timeline(), Qt::Key_Period);
        Trace instant;
        instant.queues = {"q"};
        instant.ops = synthetic::ops();
        Lane lane;
        lane.spans = {{{5}, {5}, 0, -1, 0, SpanKind::op, WaitCause::none, -1}};
        instant.lanes = {lane};
        state.setCurrentRun(runs.add(run_of_trace(instant), "an instant"));
        view.grab();
        QTest::keyClick(&view.timeline(), Qt::Key_Period);
        QTest::keyClick(&view.timeline(), Qt::Key_F);
        view.grab();
        runs.remove(state.currentRun());
        view.grab();
    }
};

QTEST_MAIN(TimelineTest)
#include "timeline_test.moc"
