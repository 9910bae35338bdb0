// Does the view of a whole run show what simrun prints of it, and say why where there is none?
#include "gui/run/lost_time_model.hpp"
#include "gui/run/whole_run_plot.hpp"
#include "gui/run/whole_run_view.hpp"
#include "sim/scenario/parse.hpp"

#include <QAbstractItemModelTester>
#include <QTemporaryDir>
#include <QtTest/QTest>

#include <fstream>

using namespace orrery;

namespace {

std::string job(const char* run) {
    return std::string(R"({"name": "small", "model": {"layers": 2, "hidden_size": 256, "attention_heads": 4, "vocab_size": 1000},
        "cluster": {"preset": "dgx-h100", "nodes": 4}, "training": {"global_batch_size": 32, "micro_batch_size": 1, "sequence_length": 256},
        "strategy": {})") +
           run + "}";
}

RunId shown(RunStore& store, ViewState& state, const std::string& json) {
    const RunId id = store.simulate(json, "");
    state.setCurrentRun(id);
    for (int i = 0; i < 600 && store.busy(); ++i) QTest::qWait(20);
    return id;
}

} // namespace

class WholeRunTest : public QObject {
    Q_OBJECT
  private Q_SLOTS:
    void showsWhatTheSimulatorSays() {
        RunStore store;
        ViewState state;
        WholeRunView view(store, state);
        view.resize(900, 700);
        view.show();
        shown(store, state, job(R"(, "run": {"days": 90, "seeds": 6, "failures": {"per_node_day": 0.5}})"));
        QTRY_VERIFY_WITH_TIMEOUT(view.words().contains(QStringLiteral("goodput")), 20000);
        QVERIFY2(view.words().contains(QStringLiteral("90.0 days")), qPrintable(view.words()));
        const TextTable table = view.asTable();
        QVERIFY(table.problem.isEmpty());
        double all = 0;
        for (const QStringList& row : table.rows) all += row[1].toDouble();
        QVERIFY2(std::abs(all - 100) < 1e-6, "the causes make the whole");
        QCOMPARE(view.plot().months(), 3);
        // Every place of a month's row is one of the timeline's spans; what is below the rows is none.
        QVERIFY(view.plot().spanAt(QPointF(view.plot().width() / 2.0, 26)) >= 0);
        QCOMPARE(view.plot().spanAt(QPointF(view.plot().width() / 2.0, view.plot().height() - 4)), -1);
    }

    // The months as a trace, and what is said of the form for Perfetto.
    void opensItsTimelineAsATrace() {
        const ParseResult parsed = parse_scenario(job(R"(, "run": {"days": 90, "seeds": 2, "failures": {"per_node_day": 0.5}})"));
        QVERIFY(parsed.scenario.has_value());
        const WholeRunReport report = whole_run(*parsed.scenario, predict(*parsed.scenario));
        const QTemporaryDir dir;
        const QString trace = dir.filePath(QStringLiteral("run.trace")), perfetto = dir.filePath(QStringLiteral("run.json"));
        save(timeline_trace(report), trace.toStdString());
        std::ofstream(perfetto.toStdString()) << timeline_perfetto(report);
        RunStore store;
        const RunId id = store.open(trace), other = store.open(perfetto);
        QTRY_VERIFY_WITH_TIMEOUT(!store.busy(), 20000);
        const Run* run = store.find(id);
        QVERIFY(run && run->state == RunState::ready && run->data->trace);
        QVERIFY(run->data->trace->lanes[0].spans.size() > report.example.timeline.size());
        QCOMPARE(run->data->trace->end.ps, Time::seconds(90 * 86400).ps);
        const Run* refused = store.find(other);
        QVERIFY(refused && refused->state == RunState::failed);
        QVERIFY(refused->data->problems[0].what.find("--to run-trace") != std::string::npos);
    }

    void saysWhyThereIsNone() {
        RunStore store;
        ViewState state;
        WholeRunView view(store, state);
        QVERIFY(view.asTable().rows.empty());
        shown(store, state, job(""));
        QTRY_VERIFY(view.words().contains(QStringLiteral("one step")));
        QVERIFY(!view.asTable().problem.isEmpty());
        shown(store, state, job(R"(, "run": {"days": 1e9, "failures": {"per_node_day": 900}})"));
        QTRY_VERIFY_WITH_TIMEOUT(
            view.words().contains(QStringLiteral("too many to simulate")) || store.runs().back().state == RunState::failed, 20000);
    }

    void modelIsSound() {
        LostTimeModel model;
        const QAbstractItemModelTester tester(&model, QAbstractItemModelTester::FailureReportingMode::QtTest);
        WholeRunReport r;
        r.mean_wall_s = 100;
        r.productive_s = 90;
        r.lost_s[LostTime::wasted] = 6;
        r.lost_s[LostTime::recovery] = 4;
        model.setReport(&r);
        QCOMPARE(model.rowCount(), 3);
        QCOMPARE(model.data(model.index(1, 1)).toString(), QStringLiteral("6.00 %"));
        QCOMPARE(model.data(model.index(2, 1), export_role).toDouble(), 4.0);
        model.setReport(nullptr);
        QCOMPARE(model.rowCount(), 0);
    }
};

QTEST_MAIN(WholeRunTest)
#include "whole_run_test.moc"
