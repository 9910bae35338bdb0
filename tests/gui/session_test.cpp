// Is everything there again at the next start, does a line of the command line show what it was made of, do all views share one range?
#include "gui/compare/compare_view.hpp"
#include "gui/compare/side_by_side.hpp"
#include "gui/strategies/strategies_model.hpp"
#include "gui/strategies/strategies_view.hpp"
#include "gui/sweep/sweep_view.hpp"
#include "gui/timeline/timeline_view.hpp"
#include "sim/trace/trace.hpp"
#include "tests/gui/windows.hpp"

#include <QAction>
#include <QClipboard>
#include <QDockWidget>
#include <QGuiApplication>
#include <QImage>
#include <QMenu>
#include <QProcess>
#include <QTableView>
#include <QtTest/QTest>

using namespace orrery;
using namespace orrery::windows;

namespace {

Timeline& timeline_of(MainWindow& window) { return qobject_cast<TimelineView*>(window.view("timeline"))->timeline(); }

constexpr const char* sweep = R"({"name": "sweep", "model": {"layers": 4, "hidden_size": 512, "attention_heads": 8, "vocab_size": 1024},
  "cluster": {"preset": "dgx-a100-80gb", "nodes": 1}, "training": {"global_batch_size": 32, "micro_batch_size": 1, "sequence_length": 512}, "strategy": {},
  "sweep": {"/strategy/tensor_parallel": [1, 2], "/strategy/pipeline_parallel": [1, 2]}})";

// As a shell reads it.
QStringList words_of(const QString& line) {
    QProcess shell;
    shell.start("/bin/sh", {"-c", "printf '%s\\n' " + line});
    if (!shell.waitForFinished()) qFatal("no shell");
    return QString::fromUtf8(shell.readAllStandardOutput()).split('\n', Qt::SkipEmptyParts);
}

} // namespace

class SessionTest : public QObject {
    Q_OBJECT
  private Q_SLOTS:
    void aSessionComesBack() {
        QTemporaryDir folder;
        const Options options = remembering(folder);
        const auto data = simulate_run(small.toStdString(), {}, [](const QString&) { return true; });
        const QString trace = folder.filePath("step.trace");
        save(*data->trace, trace.toStdString());
        TimeRange range;
        {
            MainWindow window(options);
            QVERIFY(!window.restoreSession());
            window.show();
            window.open({written(folder, "a.json", small), trace});
            QTRY_VERIFY_WITH_TIMEOUT(window.idle(), patience);
            const RunId a = window.store().runs()[0].id;
            window.state().setCurrentRun(a);
            window.state().setBaseline(a);
            QVERIFY(window.documents().current()->setField("/training/global_batch_size", "32", "batch")); // never saved
            QTRY_VERIFY_WITH_TIMEOUT(window.idle(), patience);
            window.store().rename(a, "mine");
            QTest::keyClick(&timeline_of(window), Qt::Key_W);
            QTest::keyClick(&timeline_of(window), Qt::Key_M);
            range = window.state().timeRange();
            QVERIFY(range.length() < timeline_of(window).whole().length());
            window.showView("memory");
            window.findChild<QDockWidget*>("dock.topology")->hide();
            window.close();
        }
        MainWindow window(options);
        QVERIFY(window.restoreSession());
        window.show();
        QTRY_VERIFY_WITH_TIMEOUT(window.idle(), patience);
        QCOMPARE(window.store().runs().size(), std::size_t(2));
        const Run &a = window.store().runs()[0], &b = window.store().runs()[1];
        QCOMPARE(a.name, QString("mine"));
        QCOMPARE(a.data->scenario->training.global_batch_size, 32);
        QVERIFY(b.data->trace && !b.data->report);
        QCOMPARE(window.state().baseline(), a.id);
        QCOMPARE(window.state().currentRun(), a.id);
        QCOMPARE(window.state().timeRange(), range);
        QCOMPARE(timeline_of(window).range(), range);
        QCOMPARE(qobject_cast<TimelineView*>(window.view("timeline"))->notes(a.id).size(), std::size_t(1));
        QVERIFY(window.findChild<QDockWidget*>("dock.topology")->isHidden());
        window.registry().find("view.reset")->trigger();
        QVERIFY(!window.findChild<QDockWidget*>("dock.topology")->isHidden());
    }

    // After a crash only that is left which was on the disk a few seconds after the edit.
    void editsAreSavedWithoutBeingAsked() {
        QTemporaryDir folder;
        const Options options = remembering(folder);
        MainWindow lost(options);
        lost.open({written(folder, "a.json", small)});
        QTRY_VERIFY_WITH_TIMEOUT(lost.idle(), patience);
        QVERIFY(lost.documents().current()->setField("/training/global_batch_size", "64", "batch"));
        QSettings settings;
        const auto kept = [&] {
            settings.sync();
            return settings.value("session/1/text").toString();
        };
        QTRY_VERIFY_WITH_TIMEOUT(kept().contains("64"), 10000);
        MainWindow window(options); // lost is still there: nothing was closed
        QVERIFY(window.restoreSession());
        QCOMPARE(window.store().runs().size(), std::size_t(1));
    }

    void anEmptiedSessionStaysEmpty() {
        QTemporaryDir folder;
        const Options options = remembering(folder);
        MainWindow window(options);
        window.open({written(folder, "a.json", small)});
        QTRY_VERIFY_WITH_TIMEOUT(window.idle(), patience);
        window.saveSession();
        window.store().remove(window.store().runs()[0].id);
        window.saveSession();
        MainWindow next(options);
        QVERIFY(!next.restoreSession());
        QVERIFY(next.store().runs().empty());
    }

    void filesThatAreGoneAreMissed() {
        QTemporaryDir folder;
        const Options options = remembering(folder);
        const auto data = simulate_run(small.toStdString(), {}, [](const QString&) { return true; });
        const QString trace = folder.filePath("step.trace");
        save(*data->trace, trace.toStdString());
        MainWindow window(options);
        window.open({trace});
        QTRY_VERIFY_WITH_TIMEOUT(window.idle(), patience);
        window.saveSession();
        QVERIFY(QFile::remove(trace));
        MainWindow next(options);
        QVERIFY(next.restoreSession());
        QCOMPARE(next.problems().rowCount(), 1);
        QVERIFY(next.problems().entry(0).what.contains("step.trace"));
    }

    void aSweepComesBackWithItsResults() {
        QTemporaryDir folder;
        const Options options = remembering(folder);
        const QString path = written(folder, "sweep.json", sweep);
        {
            MainWindow window(options);
            qobject_cast<SweepView*>(window.view("sweep"))->setDatabase(folder.filePath("sweep.sqlite"));
            window.open({path});
            QTRY_VERIFY_WITH_TIMEOUT(window.idle(), patience);
            window.close();
        }
        MainWindow window(options);
        auto* view = qobject_cast<SweepView*>(window.view("sweep"));
        view->setDatabase(folder.filePath("sweep.sqlite"));
        window.restoreSession();
        QTRY_VERIFY_WITH_TIMEOUT(window.idle() && view->complete(), patience);
        for (std::size_t i = 0; i < 4; ++i) QVERIFY(view->model().row(i));
    }

    // Swept points stand in the table without being asked for, and become runs at a key.
    void sweptPointsAreStrategies() {
        QTemporaryDir folder;
        MainWindow window(fresh());
        qobject_cast<SweepView*>(window.view("sweep"))->setDatabase(folder.filePath("sweep.sqlite"));
        window.open({written(folder, "sweep.json", sweep)});
        window.show();
        QTRY_VERIFY_WITH_TIMEOUT(window.idle(), patience);
        auto* strategies = qobject_cast<StrategiesView*>(window.view("strategies"));
        QTRY_COMPARE_WITH_TIMEOUT(strategies->model().rowCount(), 4, patience);
        const double predicted = *strategies->model().figuresAt(2).step_s;
        QVERIFY(predicted > 0);
        QTableView& table = strategies->table();
        table.setFocus();
        table.selectRow(2);
        QCOMPARE(window.state().brushedRuns(), std::vector<RunId>{id_of_swept(2)});
        QVERIFY(window.store().runs().empty());
        QTest::keyClick(&table, Qt::Key_Return);
        QTRY_VERIFY_WITH_TIMEOUT(window.idle() && window.store().runs().size() == 1, patience);
        QCOMPARE(window.store().runs()[0].data->report->step_time_s, predicted);
        QTRY_COMPARE_WITH_TIMEOUT(strategies->model().rowCount(), 4, patience); // once, not twice
    }

    void recentFilesOpenAgain() {
        QTemporaryDir folder;
        const Options options = remembering(folder);
        const QString a = written(folder, "a.json", small), b = written(folder, "b.json", QByteArray(small).replace("small", "other"));
        {
            MainWindow window(options);
            window.open({a, b, a});
            QTRY_VERIFY_WITH_TIMEOUT(window.idle(), patience);
        }
        MainWindow window(options);
        QMenu* recent = nullptr;
        for (QMenu* menu : window.findChildren<QMenu*>())
            if (menu->title().contains("recent")) recent = menu;
        QVERIFY(recent);
        QVERIFY(QMetaObject::invokeMethod(recent, "aboutToShow"));
        QCOMPARE(recent->actions().size(), 2);
        QVERIFY(recent->actions()[0]->text().startsWith("a.json")); // the last one first, once
        recent->actions()[1]->trigger();
        QTRY_VERIFY_WITH_TIMEOUT(window.idle() && window.store().runs().size() == 1, patience);
        QCOMPARE(window.store().runs()[0].path, b);
        QVERIFY(QFile::remove(a));
        recent->actions()[0]->trigger();
        QTRY_VERIFY_WITH_TIMEOUT(window.problems().rowCount() == 1, patience);
    }

    void aLinkShowsWhatItWasMadeOf() {
        QTemporaryDir folder;
        const QString a = written(folder, "a b.json", small),
                      b = written(folder, "b.json", QByteArray(small).replace("\"pipeline_parallel\": 2", "\"pipeline_parallel\": 4"));
        MainWindow window(fresh());
        window.show();
        window.open({a, b});
        QTRY_VERIFY_WITH_TIMEOUT(window.idle(), patience);
        window.state().setCurrentRun(window.store().runs()[0].id);
        window.showView("timeline");
        Timeline& line = timeline_of(window);
        QTest::keyClick(&line, Qt::Key_W);
        line.setCurrentRow(0);
        QTest::keyClick(&line, Qt::Key_Period);
        QTest::keyClick(&line, Qt::Key_Period);
        QVERIFY(window.state().selectedSlice().valid());
        window.registry().find("view.link")->trigger();
        const QString link = QGuiApplication::clipboard()->text();
        const ParsedOptions parsed = parse_options(words_of(link), MainWindow::viewNames());
        QVERIFY2(!parsed.answer, qPrintable(link));
        QCOMPARE(parsed.options.dock, QString("timeline"));
        Options options = parsed.options;
        options.fresh = true;
        MainWindow other(options);
        other.show();
        other.open(options.files);
        QTRY_VERIFY_WITH_TIMEOUT(other.idle(), patience);
        other.apply(options);
        QCOMPARE(other.store().find(other.state().currentRun())->path, a);
        const SliceId was = window.state().selectedSlice(), is = other.state().selectedSlice();
        QVERIFY(is.valid());
        const auto what = [](MainWindow& w, SliceId id) {
            const Trace& t = *w.store().find(id.run)->data->trace;
            const Span& s = t.lanes[id.lane].spans[id.span];
            return std::tuple(title(t, s), s.microbatch, s.begin.ps);
        };
        QVERIFY(what(other, is) == what(window, was));
        QCOMPARE(other.state().timeRange(), window.state().timeRange());
    }

    void aLinkOfAComparison() {
        QTemporaryDir folder;
        const QString a = written(folder, "a.json", small),
                      b = written(folder, "b.json", QByteArray(small).replace("\"pipeline_parallel\": 2", "\"pipeline_parallel\": 4"));
        Options options = parse_options({"simgui", "--compare", a, b, "--view", "100us,300us"}, MainWindow::viewNames()).options;
        options.fresh = true;
        MainWindow window(options);
        window.show();
        window.open(options.files);
        QTRY_VERIFY_WITH_TIMEOUT(window.idle(), patience);
        window.apply(options);
        const TimeRange range{100'000'000, 300'000'000};
        auto lines = qobject_cast<CompareView*>(window.view("compare"))->sideBySide().timelines();
        QCOMPARE(lines.size(), std::size_t(2));
        for (const Timeline* line : lines) QCOMPARE(line->range().length(), range.length());
        QCOMPARE(lines[0]->range(), range);
        QCOMPARE(timeline_of(window).range(), range);
        // Linked both ways: a key in any of them moves all.
        QTest::keyClick(&timeline_of(window), Qt::Key_D);
        QCOMPARE(lines[0]->range(), window.state().timeRange());
        QCOMPARE(lines[1]->range().length(), range.length());
        QTest::keyClick(lines[1], Qt::Key_W);
        QCOMPARE(timeline_of(window).range(), lines[0]->range());
        QVERIFY(timeline_of(window).range().length() < range.length());
        QTest::keyClick(&timeline_of(window), Qt::Key_Home);
        QCOMPARE(lines[0]->range(), lines[0]->whole());
        QTest::keyClick(lines[0], Qt::Key_S); // as far as the longest; the shared range ends with the run
        QCOMPARE(window.state().timeRange(), timeline_of(window).range());
        window.showView("compare");
        window.registry().find("view.link")->trigger();
        const Options again = parse_options(words_of(QGuiApplication::clipboard()->text()), MainWindow::viewNames()).options;
        QVERIFY(again.compare);
        QCOMPARE(again.files, (QStringList{a, b}));
    }

    void aRangeBeyondTheRunEndsWithIt() {
        QTemporaryDir folder;
        MainWindow window(fresh());
        window.show();
        window.open({written(folder, "a.json", small)});
        QTRY_VERIFY_WITH_TIMEOUT(window.idle(), patience);
        const TimeRange whole = timeline_of(window).whole();
        window.state().setTimeRange({whole.begin - 5 * whole.length(), whole.end + whole.length()});
        QCOMPARE(window.state().timeRange(), whole);
        window.state().setTimeRange({whole.end - 10, whole.end + 1000'000'000});
        QCOMPARE(window.state().timeRange().end, whole.end);
    }

    void whatIsNotThereIsSaid() {
        QTemporaryDir folder;
        Options options = fresh();
        options.select = "0:no.such.op";
        MainWindow window(options);
        window.open({written(folder, "a.json", small)});
        QTRY_VERIFY_WITH_TIMEOUT(window.idle(), patience);
        window.apply(options);
        QCOMPARE(window.problems().rowCount(), 1);
        QVERIFY(window.problems().entry(0).what.contains("no.such.op"));
    }

    // The program itself: one line, one picture, no display.
    void aPictureWithoutADisplay() {
        QTemporaryDir folder;
        const QString a = written(folder, "a.json", small), picture = folder.filePath("a.png");
        QProcess program;
        QProcessEnvironment environment = QProcessEnvironment::systemEnvironment();
        for (const char* name : {"DISPLAY", "WAYLAND_DISPLAY", "QT_QPA_PLATFORM"}) environment.remove(name);
        program.setProcessEnvironment(environment);
        const QString simgui = QStringLiteral(ORRERY_BINARY_DIR "/bin/simgui");
        program.start(simgui, {a, "--select", "0:l0.qkv@1", "--view", "0ms,1ms", "--dock", "timeline", "--size", "1280x800", "--screenshot",
                               picture});
        QVERIFY2(program.waitForFinished(patience), qPrintable(program.errorString()));
        QVERIFY2(program.exitCode() == 0, program.readAllStandardError());
        QCOMPARE(QImage(picture).size(), QSize(1280, 800));
        program.start(simgui, {a, "--select", "0:nothing", "--screenshot", picture});
        QVERIFY(program.waitForFinished(patience));
        QCOMPARE(program.exitCode(), 1);
        QVERIFY(program.readAllStandardError().contains("0:nothing"));
        program.start(simgui, {a});
        QVERIFY(program.waitForFinished(patience));
        QCOMPARE(program.exitCode(), 1);
        QVERIFY(program.readAllStandardError().contains("display"));
    }
};

QTEST_MAIN(SessionTest)
#include "session_test.moc"
