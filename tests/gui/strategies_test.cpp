// Does the table of strategies tell the figures of the reports, sort and filter by them, and share its choice with the other views?
#include "gui/breakdown/bars.hpp"
#include "gui/strategies/strategies_model.hpp"
#include "gui/strategies/strategies_view.hpp"

#include <QAbstractItemModelTester>
#include <QClipboard>
#include <QGuiApplication>
#include <QTableView>
#include <QtTest/QTest>

#include <numeric>

using namespace orrery;

namespace {

std::string scenario(const char* name, int tensor, int pipeline, double reserved_gb = -1) {
    return R"({"name": ")" + std::string(name) +
           R"(", "model": {"name": "tiny", "layers": 4, "hidden_size": 512, "attention_heads": 8, "vocab_size": 1024},
  "cluster": {"preset": "dgx-a100-80gb", "nodes": 1},
  "training": {"global_batch_size": 16, "micro_batch_size": 1, "sequence_length": 512, "precision": "bf16"},
  "strategy": {"framework": "megatron", "tensor_parallel": )" +
           std::to_string(tensor) + R"(, "pipeline_parallel": )" + std::to_string(pipeline) + "}" +
           (reserved_gb < 0 ? "" : R"(, "runtime": {"reserved_gb": )" + std::to_string(reserved_gb) + "}") + "}";
}

RunId add(RunStore& store, const char* name, int tensor, int pipeline, double reserved_gb = -1) {
    return store.add(simulate_run(scenario(name, tensor, pipeline, reserved_gb), {}, [](const QString&) { return true; }), name);
}

double shown(const StrategiesModel& m, int row, int column) { return m.index(row, column).data(StrategiesModel::SortRole).toDouble(); }

} // namespace

class StrategiesTest : public QObject {
    Q_OBJECT
  private Q_SLOTS:
    void rowsAreTheReports() {
        RunStore store;
        ViewState state;
        StrategiesModel model(store, state);
        QAbstractItemModelTester tester(&model, QAbstractItemModelTester::FailureReportingMode::QtTest);
        const RunId a = add(store, "alpha", 1, 1), b = add(store, "beta", 2, 4);
        QCOMPARE(model.rowCount(), 2);
        const Report& report = *store.find(b)->data->report;
        QCOMPARE(shown(model, 1, StrategiesModel::StepColumn), report.step_time_s);
        const TimeInterval& interval = report.error_bar.interval;
        QCOMPARE(shown(model, 1, StrategiesModel::IntervalColumn), (interval.faster + interval.slower) / 2);
        QVERIFY2(model.index(1, StrategiesModel::IntervalColumn).data().toString() == interval_words(interval) && interval.known(),
                 "a predicted step shows its interval");
        QCOMPARE(model.index(1, StrategiesModel::StepColumn).data().toString(), seconds_words(report.step_time_s));
        QCOMPARE(shown(model, 1, StrategiesModel::MfuColumn), report.mfu);
        QCOMPARE(shown(model, 1, StrategiesModel::BubbleColumn), report.bubble_fraction);
        QCOMPARE(shown(model, 1, StrategiesModel::StragglersColumn), report.breakdown_s[Category::straggler_wait] / report.step_time_s);
        QVERIFY(model.index(1, StrategiesModel::StragglersColumn).data(StrategiesModel::SortRole).isValid());
        QCOMPARE(shown(model, 1, StrategiesModel::TensorColumn), report.breakdown_s[Category::exposed_tp] / report.step_time_s);
        QCOMPARE(model.index(0, StrategiesModel::FitsColumn).data(StrategiesModel::SortRole).toDouble(), 1.0);
        store.remove(a);
        QCOMPARE(model.rowCount(), 1);
        QCOMPARE(model.runAt(0), b);
        QVERIFY(model.setData(model.index(0, 0), "gamma"));
        QCOMPARE(store.find(b)->name, QString("gamma"));
    }

    // A hundredth of the device's memory to spare, or too much, is less than memory is predicted to.
    void aNarrowThingSaysSo() {
        RunStore store;
        ViewState state;
        StrategiesModel model(store, state);
        const Figures bare = figures(*store.find(add(store, "bare", 1, 1, 0))->data);
        add(store, "fits", 1, 1, (0.99 * *bare.capacity_bytes - *bare.peak_bytes) / 1e9);
        add(store, "too big", 1, 1, (1.01 * *bare.capacity_bytes - *bare.peak_bytes) / 1e9);
        const auto said = [&](int row) { return model.index(row, StrategiesModel::FitsColumn).data().toString(); };
        QCOMPARE(said(0), QString::fromUtf8("\u2713 fits"));
        QCOMPARE(said(1), QString::fromUtf8("\u2713 fits, narrowly"));
        QCOMPARE(said(2), QString::fromUtf8("\u2717 too big, narrowly"));
        const QString tip = model.index(2, StrategiesModel::FitsColumn).data(Qt::ToolTipRole).toString();
        QVERIFY2(tip.contains("more than the device's") && tip.contains("1.0 % too large"), qPrintable(tip));
    }

    void theBaselineIsWhatOthersAreComparedWith() {
        RunStore store;
        ViewState state;
        StrategiesModel model(store, state);
        const RunId a = add(store, "alpha", 1, 1);
        add(store, "beta", 2, 4);
        QVERIFY(!model.index(1, StrategiesModel::DeltaColumn).data(StrategiesModel::SortRole).isValid());
        state.setBaseline(a);
        const double expected = shown(model, 1, StrategiesModel::StepColumn) / shown(model, 0, StrategiesModel::StepColumn) - 1;
        QCOMPARE(shown(model, 1, StrategiesModel::DeltaColumn), expected);
        QVERIFY(!model.index(0, StrategiesModel::DeltaColumn).data(StrategiesModel::SortRole).isValid());
    }

    void filtersByWordsAndFigures() {
        RunStore store;
        ViewState state;
        StrategiesModel model(store, state);
        StrategiesProxy proxy;
        QAbstractItemModelTester tester(&proxy, QAbstractItemModelTester::FailureReportingMode::QtTest);
        proxy.setSourceModel(&model);
        add(store, "alpha", 1, 1);
        add(store, "beta", 2, 4);
        proxy.setFilter("BET");
        QCOMPARE(proxy.rowCount(), 1);
        proxy.setFilter("bubble<0.001 fits");
        QCOMPARE(proxy.rowCount(), 1);
        QCOMPARE(proxy.index(0, 0).data().toString(), QString("alpha"));
        proxy.setFilter("bubble>=0 memory<1000");
        QCOMPARE(proxy.rowCount(), 2);
        proxy.setFilter("nothing");
        QCOMPARE(proxy.rowCount(), 0);
        proxy.setFilter({});
        proxy.sort(StrategiesModel::BubbleColumn, Qt::DescendingOrder);
        QCOMPARE(proxy.index(0, 0).data().toString(), QString("beta"));
    }

    void choosingRowsBrushesThem() {
        RunStore store;
        ViewState state;
        StrategiesView view(store, state);
        const RunId a = add(store, "alpha", 1, 1), b = add(store, "beta", 2, 4);
        QVERIFY(view.table().isColumnHidden(StrategiesModel::NoteColumn)); // no search has left a note
        view.resize(900, 300);
        view.show();
        QVERIFY(QTest::qWaitForWindowExposed(&view));
        QTableView& table = view.table();
        const auto cell = [&](int row) { return table.visualRect(table.model()->index(row, 0)).center(); };
        QTest::mouseClick(table.viewport(), Qt::LeftButton, {}, cell(1));
        QCOMPARE(state.currentRun(), b);
        QCOMPARE(state.brushedRuns(), std::vector<RunId>{b});
        table.setFocus();
        QTest::keyClick(&table, Qt::Key_Up, Qt::ShiftModifier);
        QCOMPARE(state.brushedRuns(), (std::vector<RunId>{a, b}));
        state.setBrushedRuns({a}); // from another view
        QCOMPARE(view.selectedRuns(), std::vector<RunId>{a});
        view.pinCurrent();
        QCOMPARE(state.baseline(), state.currentRun());
    }

    // One unit a column, said in its header; every digit there is; nothing that a spreadsheet would run.
    void figuresAreExportedInFull() {
        RunStore store;
        ViewState state;
        StrategiesView view(store, state);
        const RunId a = add(store, "=1+1", 1, 1), b = add(store, "beta", 2, 4);
        const TextTable table = view.asTable();
        const auto column = [&](const char* head) { return table.head.indexOf(QString(head)); };
        QVERIFY2(column("Step (s)") > 0 && column("MFU (%)") > 0 && column("Peak memory (bytes)") > 0 && column("compute (s)") > 0,
                 qPrintable(table.head.join(" | ")));
        for (std::size_t row = 0; row < 2; ++row) {
            QCOMPARE(table.rows[row].size(), table.head.size());
            const Report& report = *store.find(row == 0 ? a : b)->data->report;
            QCOMPARE(table.rows[row][column("Step (s)")].toDouble(), report.step_time_s);
            QCOMPARE(table.rows[row][column("MFU (%)")].toDouble() / 100, report.mfu);
            QCOMPARE(table.rows[row][column("Tokens/s")].toDouble(), report.tokens_per_s);
            QCOMPARE(table.rows[row][column("Fits")], QString("fits"));
            QCOMPARE(table.rows[row][column("compute (s)")].toDouble(), report.breakdown_s[Category::compute]);
        }
        const QString csv = to_csv(table);
        QVERIFY2(csv.section('\n', 1, 1).startsWith("'=1+1,"), qPrintable(csv));
        QCOMPARE(to_csv(TextTable{{"a", "b"}, {{"-0.5", "+x"}, {"@y", "1,5"}}, {}, {}}), QString("a,b\n-0.5,'+x\n'@y,\"1,5\"\n"));
        QCOMPARE(plain(0.1), QString("0.1"));
        QCOMPARE(plain(1.0 / 3).toDouble(), 1.0 / 3);
    }

    void rowsAreCopied() {
        RunStore store;
        ViewState state;
        StrategiesView view(store, state);
        add(store, "alpha", 1, 1);
        add(store, "beta", 2, 4);
        view.show();
        view.table().selectionModel()->select(view.table().model()->index(1, 0),
                                              QItemSelectionModel::ClearAndSelect | QItemSelectionModel::Rows);
        QTest::keyClick(&view.table(), Qt::Key_C, Qt::ControlModifier);
        const QStringList lines = QGuiApplication::clipboard()->text().split('\n', Qt::SkipEmptyParts);
        QCOMPARE(lines.size(), 2);
        QVERIFY(lines[0].startsWith("Run\tStep (s)\t"));
        QVERIFY(lines[1].startsWith("beta\t"));
        QCOMPARE(lines[1].section('\t', 1, 1).toDouble(), store.runs()[1].data->report->step_time_s);
        QVERIFY(view.table().columnWidth(StrategiesModel::FitsColumn) >=
                view.table().fontMetrics().horizontalAdvance(QString::fromUtf8("\u2717 too big, narrowly")) + 6);
    }

    void barsAddUpToTheStep() {
        RunStore store;
        ViewState state;
        const RunId b = add(store, "beta", 2, 4);
        state.setCurrentRun(b);
        const double step = store.find(b)->data->report->step_time_s;
        QCOMPARE(bars(store, state, BarsOf::strategies).size(), std::size_t(1));
        QCOMPARE(bars(store, state, BarsOf::stages).size(), std::size_t(4));
        for (BarsOf of : {BarsOf::strategies, BarsOf::stages, BarsOf::ranks})
            for (const Bar& bar : bars(store, state, of))
                QVERIFY(std::abs(std::accumulate(bar.seconds.begin(), bar.seconds.end(), 0.0) / step - 1) < 1e-6);
    }

    void barsAreChosenByKeysAndClicks() {
        RunStore store;
        ViewState state;
        const RunId a = add(store, "alpha", 1, 1), b = add(store, "beta", 2, 4);
        BreakdownView view(store, state);
        view.resize(700, 300);
        view.show();
        QVERIFY(QTest::qWaitForWindowExposed(&view));
        BarsPlot& plot = view.plot();
        QTest::mouseClick(plot.viewport(), Qt::LeftButton, {}, plot.barRect(1).center());
        QCOMPARE(state.currentRun(), b);
        plot.setFocus();
        QTest::keyClick(&plot, Qt::Key_Up);
        QTest::keyClick(&plot, Qt::Key_Space);
        QCOMPARE(state.currentRun(), a);
        QVERIFY(!plot.accessibleDescription().isEmpty());
    }
};

QTEST_MAIN(StrategiesTest)
#include "strategies_test.moc"
