// Do compared runs move together, are differences right, and does a prediction's error lead to the slice it is from?
#include "gui/app/export.hpp"
#include "gui/compare/compare_view.hpp"
#include "gui/compare/models.hpp"
#include "gui/compare/predicted_measured.hpp"
#include "gui/compare/side_by_side.hpp"
#include "gui/parts/legend.hpp"
#include "gui/timeline/timeline.hpp"
#include "tests/gui/synthetic.hpp"

#include <QAbstractItemModelTester>
#include <QTableView>
#include <QTemporaryDir>
#include <QtTest/QTest>

#include <numeric>

using namespace orrery;

namespace {

constexpr std::int64_t us = 1'000'000;

// Two ranks with eight microbatches; durations times `factor`, from `origin` on; a measured run's fourth is slow.
Trace steps(double factor, std::int64_t origin, bool measured, int first_rank = 0) {
    Trace t;
    t.source = measured ? "measured: here" : "simulated";
    t.queues = measured ? std::vector<std::string>{"tp", "compute"} : std::vector<std::string>{"compute", "tp"};
    t.ops = {{"l0.fwd", "linear", "forward", 0, 0, 0},
             {"l0.bwd", "attention", "backward", 0, 0, 0},
             {"reduce", "all-reduce", "forward", 0, 0, 0}};
    const std::int16_t compute = measured ? 1 : 0, tp = measured ? 0 : 1;
    for (int r = 0; r < 2; ++r) {
        Lane lane;
        lane.rank = first_rank + r; // longer names for their rows
        std::int64_t now = origin;
        std::vector<Span> sums;
        for (int mb = 0; mb < 8; ++mb) {
            const double slow = measured && r == 1 && mb == 3 ? 5 : 1;
            const auto f = static_cast<std::int64_t>(10 * us * factor), b = static_cast<std::int64_t>(20 * us * factor * slow);
            lane.spans.push_back({{now}, {now + f}, 0, mb, compute, SpanKind::op, WaitCause::none, -1});
            lane.spans.push_back({{now + f}, {now + f + b}, 1, mb, compute, SpanKind::op, WaitCause::none, -1});
            sums.push_back({{now + f}, {now + f + f / 2}, 2, mb, tp, SpanKind::op, WaitCause::none, -1});
            now += f + b;
        }
        lane.spans.insert(measured ? lane.spans.begin() : lane.spans.end(), sums.begin(), sums.end());
        t.end.ps = std::max(t.end.ps, now);
        t.lanes.push_back(lane);
    }
    t.begin = {origin};
    return t;
}

} // namespace

class CompareTest : public QObject {
    Q_OBJECT
  private Q_SLOTS:
    void timesAreAligned() {
        const Trace a = steps(1, 0, false), b = steps(2, 1000, false);
        const TrackStore sa = tracks_of(a), sb = tracks_of(b);
        QCOMPARE(align(Alignment::by_time, sa, sb, 50), std::int64_t(1050));
        QCOMPARE(align(Alignment::by_step, sa, sb, a.end.ps), b.end.ps);
        QCOMPARE(align(Alignment::by_step, sb, sa, 1000 + (b.end.ps - 1000) / 2), a.end.ps / 2);
    }

    void differencesAreMeansOverRanks() {
        const Trace a = steps(1, 0, false), b = steps(1.5, 0, false);
        const TrackStore sa = tracks_of(a), sb = tracks_of(b);
        const std::vector<std::int32_t> all{0, 1, 2, 3};
        const auto rows = differences({area(sa, all, 0, a.end.ps, {}), area(sb, all, 0, b.end.ps, {})});
        QCOMPARE(rows.size(), std::size_t(3));
        QCOMPARE(rows[0].what, QString("attention")); // what changed most comes first
        QCOMPARE(rows[0].covered[0], 160.0 * us);
        QCOMPARE(rows[0].change(1), 80.0 * us);
    }

    void postingEarlyIsNoDifference() {
        const Trace a = steps(1, 0, false);
        Trace b = a;
        Span posted{{0}, {10 * us}, 2, 0, 1, SpanKind::transfer_wait, WaitCause::receive, -1};
        b.lanes[0].spans.insert(b.lanes[0].spans.begin() + 16, posted);
        const TrackStore sa = tracks_of(a), sb = tracks_of(b);
        std::vector<std::int32_t> all_a(sa.tracks.size()), all_b(sb.tracks.size());
        std::iota(all_a.begin(), all_a.end(), 0);
        std::iota(all_b.begin(), all_b.end(), 0);
        for (const Difference& d : differences({area(sa, all_a, 0, a.end.ps, {}), area(sb, all_b, 0, b.end.ps, {})})) {
            QVERIFY(d.kind != SliceKind::transfer_wait);
            QCOMPARE(d.change(1), 0.0);
        }
    }

    // Both tables of a prediction over a measurement, with one unit a column.
    void aComparisonIsExportedWhole() {
        RunStore runs;
        ViewState state;
        runs.add(run_of_trace(steps(0.9, 0, false)), "predicted");
        runs.add(run_of_trace(steps(1, 12345, true)), "measured");
        CompareView view(runs, state);
        view.resize(900, 600);
        view.setCurrentIndex(1);
        view.show();
        auto* offenders = view.findChild<OffendersModel*>();
        QTRY_VERIFY_WITH_TIMEOUT(offenders->rowCount() > 0, 5000);
        QVERIFY(!view.predictedMeasured().findChild<Legend*>()->entries().empty());
        QTemporaryDir folder;
        const QString path = folder.filePath("compare.csv");
        QCOMPARE(csv_paths(view, path), (QStringList{path, folder.filePath("compare-slices.csv")}));
        QCOMPARE(export_csv(view, path), QString());
        const auto lines = [](const QString& name) {
            QFile file(name);
            return file.open(QIODevice::ReadOnly) ? QString::fromUtf8(file.readAll()).split('\n') : QStringList{};
        };
        const QStringList kinds = lines(path), slices = lines(folder.filePath("compare-slices.csv"));
        QCOMPARE(kinds[0], QString("Op,Slices,Predicted (s),Measured (s),Error (%),Mean |error| (%)"));
        QCOMPARE(slices[0], QString("Slice,Rank,Microbatch,Predicted (s),Measured (s),Difference (s)"));
        QCOMPARE(slices.size(), offenders->rowCount() + 2);
        QCOMPARE(slices[1].section(',', 5).toDouble(), offenders->line(0).offender.difference * 1e-12); // in full, with its sign
    }

    void errorsByKindAndTheWorst() {
        const Trace p = steps(0.9, 0, false), m = steps(1, 12345, true);
        const Agreement a = agreement(p, m, 5);
        QCOMPARE(a.only_predicted + a.only_measured, std::int64_t(0));
        QCOMPARE(a.kinds.size(), std::size_t(3));
        QCOMPARE(a.kinds[0].kind, std::string("attention"));
        QCOMPARE(a.kinds[0].slices, std::int64_t(16));
        for (const OpError& e : a.kinds)
            if (e.kind == "linear") QVERIFY(std::abs(e.error() + 0.1) < 1e-9 && std::abs(e.absolute - 0.1) < 1e-9);
        QCOMPARE(a.offenders.size(), std::size_t(5));
        const Span& worst = span_of(m, a.offenders[0].measured);
        QCOMPARE(worst.microbatch, 3);
        QCOMPARE(a.offenders[0].measured.lane, 1);
        QCOMPARE(a.offenders[0].difference, -82.0 * us);
        QCOMPARE(span_of(p, a.offenders[0].predicted).microbatch, 3);
    }

    void whatHasNoLikeIsCounted() {
        Trace p = steps(1, 0, false);
        const Trace m = steps(1, 0, true);
        p.lanes[0].spans.pop_back();
        p.lanes.pop_back();
        const Agreement a = agreement(p, m, 5);
        QCOMPARE(a.only_measured, std::int64_t(1 + 24));
        QCOMPARE(a.only_predicted, std::int64_t(0));
    }

    void overlaidLanesAlternate() {
        const Trace p = steps(1, 0, false), m = steps(1, 777, true);
        const Overlaid o = overlay(p, m);
        QCOMPARE(o.trace.lanes.size(), std::size_t(4));
        QCOMPARE(o.names[0], QString("rank 0 predicted"));
        QCOMPARE(o.names[3], QString("rank 1 measured"));
        QCOMPARE(o.trace.queues, p.queues);
        for (std::int32_t span = 0; span < 24; ++span) {
            const SpanRef here = in_overlay(o, o.trace, m, {1, span}, false);
            QCOMPARE(here.lane, 3);
            QCOMPARE(o.trace.ops[span_of(o.trace, here).op].name, m.ops[span_of(m, {1, span}).op].name);
            QCOMPARE(span_of(o.trace, here).begin.ps, span_of(m, {1, span}).begin.ps - 777);
        }
    }

    void runsMoveTogether() {
        RunStore runs;
        ViewState state;
        const RunId a = runs.add(run_of_trace(steps(1, 0, false, 100000)), "a"), b = runs.add(run_of_trace(steps(2, 500 * us, false)), "b");
        SideBySide view(runs, state);
        view.resize(900, 600);
        view.show();
        state.setBaseline(a);
        state.setBrushedRuns({b, a});
        auto lines = view.timelines();
        QCOMPARE(lines.size(), std::size_t(2));
        QCOMPARE(lines[0]->run(), a); // the baseline is on top
        QCOMPARE(lines[0]->range().length(), lines[1]->range().length());
        for (double share : {0.0, 0.5, 1.0}) { // one time, one place
            const auto t = static_cast<std::int64_t>(share * static_cast<double>(lines[0]->range().length()));
            QVERIFY(std::abs(lines[0]->xOf(lines[0]->range().begin + t) - lines[1]->xOf(lines[1]->range().begin + t)) < 1);
        }
        lines[0]->setFocus();
        QTest::keyClick(lines[0], Qt::Key_W);
        QVERIFY(lines[0]->range().length() < 480 * us);
        QCOMPARE(lines[1]->range().length(), lines[0]->range().length());
        QCOMPARE(lines[1]->range().begin, lines[0]->range().begin + 500 * us);
        QTest::keyClick(lines[1], Qt::Key_D);
        QCOMPARE(lines[1]->range().begin, lines[0]->range().begin + 500 * us);
        state.setBrushedRuns({b}); // beside the baseline; a slice of either leaves the two where they are
        QCOMPARE(view.timelines().size(), std::size_t(2));
        view.timelines()[0]->select({0, 0}, true);
        QCOMPARE(state.currentRun(), a);
        QCOMPARE(view.timelines().size(), std::size_t(2));
        QCOMPARE(view.timelines()[1]->run(), b);
        lines = view.timelines();
        view.setAlignment(Alignment::by_step);
        QCOMPARE(lines[1]->range().length(), 2 * lines[0]->range().length());
        state.setTimeRange(whole_of(*runs.find(a)->data->tracks)); // all of it again
        QCOMPARE(lines[1]->range(), lines[1]->whole());
        auto* model = view.findChild<DifferenceModel*>();
        QTRY_VERIFY_WITH_TIMEOUT(model->rowCount() == 3 && model->columnCount() == 5, 5000);
        QCOMPARE(model->data(model->index(0, 4)).toString(), QString("+160 µs"));
        view.grab();
        runs.remove(b);
        QVERIFY(view.timelines().empty());
    }

    void aWorstSliceIsAJumpAway() {
        RunStore runs;
        ViewState state;
        runs.add(run_of_trace(steps(0.9, 0, false)), "predicted");
        const RunId m = runs.add(run_of_trace(steps(1, 12345, true)), "measured");
        CompareView view(runs, state);
        view.resize(900, 600);
        view.setCurrentIndex(1);
        view.show();
        auto* offenders = view.findChild<OffendersModel*>();
        QTRY_VERIFY_WITH_TIMEOUT(offenders->rowCount() > 0, 5000);
        QTableView* table = nullptr;
        for (QTableView* t : view.findChildren<QTableView*>())
            if (t->model()->rowCount() == offenders->rowCount() && t->model()->columnCount() == OffendersModel::column_count) table = t;
        QVERIFY(table);
        table->setFocus();
        QTest::keyClick(table, Qt::Key_Down);
        QTest::keyClick(table, Qt::Key_Up);
        const Timeline& line = view.predictedMeasured().timeline();
        QVERIFY(line.selected().valid());
        QCOMPARE(state.currentRun(), m);
        QCOMPARE(state.selectedSlice().lane, 1);
        QCOMPARE(span_of(*runs.find(m)->data->trace, {1, state.selectedSlice().span}).microbatch, 3);
        QVERIFY(line.range().length() < line.whole().length() * 20);
        view.grab();
    }

    void modelsAreSound() {
        DifferenceModel d;
        ErrorsModel e;
        OffendersModel o;
        using Tester = QAbstractItemModelTester;
        const Tester a(&d, Tester::FailureReportingMode::Fatal), b(&e, Tester::FailureReportingMode::Fatal),
            c(&o, Tester::FailureReportingMode::Fatal);
        d.setDifferences({{SliceKind::forward, "linear", {1e6, 2e6, 3e6}, {1, 1, 1}}}, {"x", "y", "z"});
        QCOMPARE(d.columnCount(), 7);
        QCOMPARE(d.headerData(6, Qt::Horizontal).toString(), QString("Change: z"));
        const Trace p = steps(0.9, 0, false), m = steps(1, 0, true);
        const Agreement all = agreement(p, m, 10);
        e.setErrors(all.kinds);
        o.setOffenders(all.offenders, &p, &m);
        QCOMPARE(o.rowCount(), 10);
        QCOMPARE(e.data(e.index(1, ErrorsModel::error)).toString(), QString("-10.0 %"));
    }
};

QTEST_MAIN(CompareTest)
#include "compare_test.moc"
