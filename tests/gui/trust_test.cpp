// Does a window say what is true: which run it shows, whether its figures are current, what it would overwrite, what it keeps?
#include "gui/app/command_palette.hpp"
#include "gui/app/execution_view.hpp"
#include "gui/app/key_sheet.hpp"
#include "gui/editor/fields_model.hpp"
#include "gui/editor/scenario_editor.hpp"
#include "gui/parts/run_label.hpp"
#include "gui/strategies/strategies_model.hpp"
#include "gui/strategies/strategies_view.hpp"
#include "gui/timeline/timeline_view.hpp"
#include "tests/gui/windows.hpp"

#include <QAction>
#include <QApplication>
#include <QDir>
#include <QLabel>
#include <QLineEdit>
#include <QSpinBox>
#include <QTableView>
#include <QTreeView>
#include <QtTest/QTest>
#include <QUndoStack>

#include <filesystem>
#include <fstream>

using namespace orrery;
using namespace orrery::windows;

namespace {

QByteArray longer() { return QByteArray(small).replace("\"global_batch_size\": 16", "\"global_batch_size\": 64"); }

StrategiesView& strategies_of(MainWindow& window) { return *qobject_cast<StrategiesView*>(window.view("strategies")); }
Timeline& timeline_of(MainWindow& window) { return qobject_cast<TimelineView*>(window.view("timeline"))->timeline(); }
ScenarioEditor& editor_of(MainWindow& window) { return *qobject_cast<ScenarioEditor*>(window.view("scenario")); }
QString fits_of(MainWindow& window, int row) {
    return strategies_of(window).model().index(row, StrategiesModel::FitsColumn).data().toString();
}
QString label_of(MainWindow& window, const char* view) {
    const auto* label = window.view(view)->findChild<RunLabel*>();
    return label ? label->text() : QString();
}

// A program that copies a trace to where it is asked to, as simexec would write it.
QString stand_in(const QTemporaryDir& folder, const QString& trace) {
    const QString program =
        written(folder, "stand-in",
                "#!/bin/sh\nwhile [ $# -gt 0 ]; do if [ $1 = --trace ]; then cp " + trace.toUtf8() + " \"$2\"; fi; shift; done\n");
    QFile::setPermissions(program, QFile::ReadOwner | QFile::ExeOwner);
    return program;
}

QStringList said; // by Qt, on stderr
void listen(QtMsgType, const QMessageLogContext&, const QString& what) { said << what; }

} // namespace

class TrustTest : public QObject {
    Q_OBJECT
  private Q_SLOTS:
    void theCurrentRunIsAmongTheBrushed() {
        ViewState state;
        state.setBrushedRuns({1, 2});
        QCOMPARE(state.currentRun(), 2);
        state.setCurrentRun(1);
        QCOMPARE(state.brushedRuns(), (std::vector<RunId>{1, 2}));
        state.setCurrentRun(3); // another than those
        QCOMPARE(state.brushedRuns(), std::vector<RunId>{3});
        state.setBrushedRuns({-1, 5, 4}, 5);
        QCOMPARE(state.currentRun(), 5);
        state.setBrushedRuns({-2}); // a swept point is never current
        QCOMPARE(state.currentRun(), 5);
        QCOMPARE(state.highlighted(), std::vector<RunId>{-2});
        state.setBrushedRuns({});
        QCOMPARE(state.highlighted(), std::vector<RunId>{5});
        connect(&state, &ViewState::brushedRunsChanged, &state,
                [&] { QCOMPARE(state.currentRun(), 7); }); // both in place at the first signal
        state.setCurrentRun(7);
    }

    void theRunThatIsShownIsTheRowHighlighted() {
        QTemporaryDir folder;
        MainWindow window(fresh());
        window.show();
        window.open({written(folder, "a.json", small)});
        QTRY_VERIFY_WITH_TIMEOUT(window.idle(), patience);
        StrategiesView& view = strategies_of(window);
        const RunId a = window.store().runs()[0].id;
        window.state().setBrushedRuns({a});
        QCOMPARE(view.selectedRuns(), std::vector<RunId>{a});
        window.open({written(folder, "b.json", longer())});
        QTRY_VERIFY_WITH_TIMEOUT(window.idle(), patience);
        const RunId b = window.store().runs()[1].id;
        QCOMPARE(timeline_of(window).run(), b);
        QCOMPARE(view.selectedRuns(), std::vector<RunId>{b});
        for (const char* name : {"timeline", "memory", "placement", "topology", "execution"})
            QCOMPARE(label_of(window, name), QString("b"));
        view.table().sortByColumn(StrategiesModel::StepColumn, Qt::DescendingOrder);
        QCOMPARE(view.selectedRuns(), std::vector<RunId>{b});
        auto* filter = view.findChild<QLineEdit*>();
        filter->setText("a"); // the row goes, the choice stays
        QCOMPARE(window.state().currentRun(), b);
        filter->clear();
        QCOMPARE(view.selectedRuns(), std::vector<RunId>{b});
        window.state().setBrushedRuns({a, b});
        window.store().remove(window.state().currentRun());
        QCOMPARE(view.selectedRuns(), std::vector<RunId>{window.state().currentRun()});
        QCOMPARE(timeline_of(window).run(), window.state().currentRun());
    }

    void measuredRunsAreThereAtTheNextStart() {
        QTemporaryDir folder;
        const Options options = remembering(folder);
        const auto data = simulate_run(small.toStdString(), {}, [](const QString&) { return true; });
        const QString trace = folder.filePath("kept.trace");
        save(*data->trace, trace.toStdString());
        const QString kept = folder.filePath("measured");
        {
            MainWindow window(options);
            window.open({written(folder, "a.json", small)});
            QTRY_VERIFY_WITH_TIMEOUT(window.idle(), patience);
            auto* execution = qobject_cast<ExecutionView*>(window.view("execution"));
            execution->kept().setFolder(kept);
            execution->setProgram(stand_in(folder, trace));
            execution->start();
            QTRY_VERIFY_WITH_TIMEOUT(!execution->running() && window.idle() && window.store().runs().size() == 2, patience);
            QVERIFY(window.store().runs()[1].path.startsWith(kept));
            window.close();
        }
        MainWindow window(options);
        QVERIFY(window.restoreSession());
        QTRY_VERIFY_WITH_TIMEOUT(window.idle(), patience);
        QCOMPARE(window.store().runs().size(), std::size_t(2));
        QCOMPARE(window.store().runs()[1].name, QString("a, measured"));
        QVERIFY(window.store().runs()[1].data->trace.has_value());
        // And go when they are asked to, with their rows.
        qobject_cast<ExecutionView*>(window.view("execution"))->kept().setFolder(kept);
        QStringList asked;
        window.setAsk([&](const QString& question, const QString&) { return asked << question, asked.size() > 1; });
        window.registry().find("run.delete_measured")->trigger();
        QVERIFY(!QDir(kept).isEmpty()); // no was said
        window.registry().find("run.delete_measured")->trigger();
        QVERIFY(QDir(kept).isEmpty());
        QCOMPARE(window.store().runs().size(), std::size_t(1));
        QVERIFY(asked[0].contains("1 measured run"));
    }

    void theOldestMeasuredRunsGoFirst() {
        QTemporaryDir folder;
        MeasuredRuns kept;
        kept.setFolder(folder.filePath("measured"));
        kept.setLimit(2500);
        QStringList files;
        for (int i = 0; i < 4; ++i) {
            const QString run = kept.add("run/.. " + QString::number(i));
            QVERIFY2(run.startsWith(folder.path()) && QDir(run).exists() && !run.contains(".. "), qPrintable(run));
            files << run + "/x.trace";
            QFile file(files.back());
            QVERIFY(file.open(QIODevice::WriteOnly) && file.write(QByteArray(1000, 'x')) == 1000);
            QTest::qWait(2); // another millisecond
        }
        QCOMPARE(kept.size(), 4000);
        QCOMPARE(kept.trim({files[0]}), 2); // the first is in use
        QVERIFY(QFile::exists(files[0]) && !QFile::exists(files[1]) && !QFile::exists(files[2]) && QFile::exists(files[3]));
        kept.clear();
        QCOMPARE(kept.count(), 0);
    }

    void executionLeavesThePinnedBaseline() {
        QTemporaryDir folder;
        MainWindow window(fresh());
        window.open({written(folder, "pinned.json", longer()), written(folder, "a.json", small)});
        QTRY_VERIFY_WITH_TIMEOUT(window.idle(), patience);
        const RunId pinned = window.store().runs()[0].id;
        window.state().setBaseline(pinned);
        const QString trace = folder.filePath("kept.trace");
        save(*window.store().runs()[1].data->trace, trace.toStdString());
        auto* execution = qobject_cast<ExecutionView*>(window.view("execution"));
        execution->kept().setFolder(folder.filePath("measured"));
        execution->setProgram(stand_in(folder, trace));
        execution->start();
        QTRY_VERIFY_WITH_TIMEOUT(!execution->running() && window.idle() && window.store().runs().size() == 3, patience);
        QCOMPARE(window.state().baseline(), pinned);
        QCOMPARE(window.state().brushedRuns(), (std::vector<RunId>{window.store().runs()[1].id, window.store().runs()[2].id}));
        QCOMPARE(window.state().currentRun(), window.store().runs()[1].id);
    }

    void anEditIsOneStep() {
        QTemporaryDir folder;
        MainWindow window(fresh());
        window.show();
        window.open({written(folder, "a.json", small)});
        QTRY_VERIFY_WITH_TIMEOUT(window.idle(), patience);
        QApplication::setActiveWindow(&window);
        ScenarioDocument& document = *window.documents().current();
        QTreeView& form = editor_of(window).form();
        const QModelIndex batch = editor_of(window).fields().indexOf("/training/global_batch_size", FieldsModel::ValueColumn);
        const auto type = [&](const QModelIndex& at, const char* keys) {
            form.setCurrentIndex(at);
            form.edit(at);
            auto* box = form.viewport()->findChild<QSpinBox*>();
            QVERIFY(box);
            box->setFocus();
            box->selectAll();
            if (*keys == 0) QTest::keyClick(box, Qt::Key_Backspace);
            for (const char* k = keys; *k != 0; ++k) QTest::keyClick(box, *k);
            QTest::keyClick(box, Qt::Key_Return);
            QTRY_VERIFY(!form.viewport()->findChild<QSpinBox*>());
        };
        said.clear();
        qInstallMessageHandler(listen);
        type(batch, "512");
        QVERIFY(document.text().find("\"global_batch_size\": 512") != std::string::npos);
        QCOMPARE(document.undoStack().count(), 1);
        type(batch, "256");
        QCOMPARE(document.undoStack().count(), 2);
        window.registry().find("edit.undo")->trigger();
        QVERIFY(document.text().find("\"global_batch_size\": 512") != std::string::npos);
        window.registry().find("edit.undo")->trigger();
        QCOMPARE(document.text(), small.toStdString());
        // Emptied: the default holds again.
        const QModelIndex pipeline = editor_of(window).fields().indexOf("/strategy/pipeline_parallel", FieldsModel::ValueColumn);
        type(pipeline, "");
        QVERIFY2(document.text().find("pipeline_parallel") == std::string::npos, document.text().c_str());
        window.registry().find("edit.undo")->trigger();
        QCOMPARE(document.text(), small.toStdString());
        // Left by the mouse: what was typed is taken over, once, and nothing is said on stderr.
        form.setCurrentIndex(batch);
        form.edit(batch);
        auto* box = form.viewport()->findChild<QSpinBox*>();
        box->setFocus();
        box->selectAll();
        QTest::keyClicks(box, "64");
        form.setFocus();
        QTRY_VERIFY(!form.viewport()->findChild<QSpinBox*>());
        qInstallMessageHandler(nullptr);
        QVERIFY(document.text().find("\"global_batch_size\": 64") != std::string::npos);
        QCOMPARE(document.undoStack().count(), 1);
        for (const QString& what : said) QVERIFY2(!what.contains("commitData"), qPrintable(what));
    }

    void closedSetsAreDropDowns() {
        ScenarioDocument document;
        document.load(small.toStdString(), {}, {});
        FieldsModel model;
        model.setDocument(&document);
        FieldDelegate delegate;
        QWidget parent;
        for (const char* pointer : {"/strategy/schedule", "/strategy/framework", "/training/optimizer", "/strategy/sequence_parallel"}) {
            const QModelIndex field = model.indexOf(pointer, FieldsModel::ValueColumn);
            auto* box = qobject_cast<QComboBox*>(delegate.createEditor(&parent, {}, field));
            QVERIFY2(box && !box->isEditable() && box->count() > 2, pointer);
            delegate.setEditorData(box, field);
        }
        const QModelIndex schedule = model.indexOf("/strategy/schedule", FieldsModel::ValueColumn);
        auto* box = qobject_cast<QComboBox*>(delegate.createEditor(&parent, {}, schedule));
        QVERIFY(box->findData("zb-h1") > 0 && box->findData("1f1b") > 0);
        box->setCurrentIndex(box->findData("gpipe"));
        delegate.setModelData(box, &model, schedule);
        QVERIFY(document.text().find("\"schedule\": \"gpipe\"") != std::string::npos);
        box->setCurrentIndex(0); // the default again
        delegate.setModelData(box, &model, schedule);
        QVERIFY(document.text().find("schedule") == std::string::npos);
    }

    void aSectionShowsThatSomethingInsideIsWrong() {
        ScenarioDocument document;
        FieldsModel model;
        document.load(small.toStdString(), {}, {});
        model.setDocument(&document);
        const QModelIndex section = model.indexOf("/training");
        QVERIFY(!section.data().toString().contains(QChar(0x26a0)));
        QVERIFY(document.setField("/training/global_batch_size", "-1", "batch"));
        QVERIFY(section.data().toString().contains(QChar(0x26a0)));
        QCOMPARE(section.data(FieldsModel::ProblemsInsideRole).toInt(), 1);
        QVERIFY(!section.siblingAtColumn(FieldsModel::NoteColumn).data().toString().isEmpty());
        QVERIFY(!model.indexOf("/cluster").data().toString().contains(QChar(0x26a0)));
    }

    void figuresOfABrokenScenarioAreOutOfDate() {
        QTemporaryDir folder;
        const Options options = remembering(folder);
        double step = 0;
        const auto expect_old = [&](MainWindow& window) {
            QCOMPARE(fits_of(window, 0), QString("out of date"));
            const QModelIndex name = strategies_of(window).model().index(0, StrategiesModel::NameColumn);
            QVERIFY2(name.data().toString().contains("out of date"), qPrintable(name.data().toString()));
            QVERIFY(label_of(window, "timeline").contains("out of date"));
            QCOMPARE(window.store().runs()[0].data->report->step_time_s, step); // the old figures are still there to look at
            StrategiesProxy proxy;
            proxy.setSourceModel(&strategies_of(window).model());
            proxy.setFilter("fits");
            QCOMPARE(proxy.rowCount(), 0);
        };
        {
            MainWindow window(options);
            window.open({written(folder, "a.json", small)});
            QTRY_VERIFY_WITH_TIMEOUT(window.idle(), patience);
            step = window.store().runs()[0].data->report->step_time_s;
            QVERIFY(fits_of(window, 0).contains("fits"));
            ScenarioDocument& document = *window.documents().current();
            QVERIFY(document.setField("/training/global_batch_size", "-1", "batch"));
            expect_old(window); // at once
            document.undoStack().undo();
            QVERIFY(fits_of(window, 0).contains("fits"));
            QVERIFY(!label_of(window, "timeline").contains("out of date"));
            document.undoStack().redo();
            window.close();
        }
        MainWindow window(options);
        QVERIFY(window.restoreSession());
        QTRY_VERIFY_WITH_TIMEOUT(window.idle(), patience);
        QVERIFY(window.documents().current()->text().find("\"global_batch_size\": -1") != std::string::npos);
        expect_old(window);
        QVERIFY(window.documents().current()->isModified());
        window.registry().find("edit.undo")->trigger();
        QVERIFY(fits_of(window, 0).contains("fits"));
        QVERIFY(!window.documents().current()->isModified());
    }

    void whoSawAllOfARunSeesAllOfTheNext() {
        QTemporaryDir folder;
        MainWindow window(fresh());
        window.show();
        window.open({written(folder, "a.json", small)});
        QTRY_VERIFY_WITH_TIMEOUT(window.idle(), patience);
        QCOMPARE(timeline_of(window).range(), timeline_of(window).whole());
        const std::int64_t first = timeline_of(window).whole().length();
        window.open({written(folder, "b.json", longer())}); // its timeline comes later
        QTRY_VERIFY_WITH_TIMEOUT(window.idle(), patience);
        QVERIFY(timeline_of(window).whole().length() > 2 * first);
        QCOMPARE(timeline_of(window).range(), timeline_of(window).whole());
        QCOMPARE(window.state().timeRange(), timeline_of(window).whole());
        // The view must not stay at a time after the end of the other run.
        window.state().setTimeRange({2 * first, 2 * first + first / 10});
        window.state().setCurrentRun(window.store().runs()[0].id);
        QCOMPARE(timeline_of(window).range(), timeline_of(window).whole());
    }

    void theTitleNamesTheFileAndWhatIsNotSaved() {
        QTemporaryDir folder;
        MainWindow window(fresh());
        window.show();
        const QString path = written(folder, "a.json", small);
        window.open({path});
        QTRY_VERIFY_WITH_TIMEOUT(window.idle(), patience);
        QVERIFY2(window.windowTitle().startsWith("a.json[*]"), qPrintable(window.windowTitle()));
        QVERIFY(!window.isWindowModified());
        QVERIFY(window.documents().current()->setField("/training/global_batch_size", "32", "batch"));
        QVERIFY(window.isWindowModified());
        window.registry().find("file.save")->trigger();
        QVERIFY(!window.isWindowModified());
        QFile file(path);
        QVERIFY(file.open(QIODevice::ReadOnly) && file.readAll().contains("32"));
    }

    void anotherProgramsChangesAreNotOverwrittenInSilence() {
        QTemporaryDir folder;
        MainWindow window(fresh());
        window.show();
        const QString path = written(folder, "a.json", small);
        window.open({path});
        QTRY_VERIFY_WITH_TIMEOUT(window.idle(), patience);
        ScenarioDocument& document = *window.documents().current();
        QStringList asked;
        bool answer = false;
        window.setAsk([&](const QString& question, const QString&) { return asked << question, answer; });
        // Nothing was changed here: the file is read again, and simulated.
        written(folder, "a.json", longer());
        QTRY_VERIFY_WITH_TIMEOUT(document.text() == longer().toStdString(), 5000);
        QVERIFY(!document.isModified());
        QTRY_VERIFY_WITH_TIMEOUT(window.idle() && window.store().runs()[0].data->scenario->training.global_batch_size == 64, patience);
        // Something was: it stays, is said, and saving asks.
        QVERIFY(document.setField("/training/global_batch_size", "32", "batch"));
        written(folder, "a.json", small);
        QTRY_COMPARE_WITH_TIMEOUT(window.problems().rowCount(), 1, 5000);
        QVERIFY(document.text().find("32") != std::string::npos);
        window.registry().find("file.save")->trigger();
        QCOMPARE(asked.size(), 1);
        const auto on_disk = [&] {
            QFile file(path);
            return file.open(QIODevice::ReadOnly) ? file.readAll() : QByteArray();
        };
        QCOMPARE(on_disk(), small);
        answer = true;
        window.registry().find("file.save")->trigger();
        QCOMPARE(asked.size(), 2);
        QVERIFY(on_disk().contains("\"global_batch_size\": 32"));
        window.registry().find("file.save")->trigger(); // ours now
        QCOMPARE(asked.size(), 2);
    }

    void everyCommandOfAViewIsInThePalette() {
        QTemporaryDir folder;
        MainWindow window(fresh());
        window.show();
        window.open({written(folder, "a.json", small)});
        QTRY_VERIFY_WITH_TIMEOUT(window.idle(), patience);
        CommandModel model(window.registry());
        model.setPattern("crit");
        QCOMPARE(model.action(model.index(0))->objectName(), QString("timeline.critical"));
        QCOMPARE(model.index(0).data(CommandModel::ShortcutRole).toString(), QString("C"));
        const QString sheet = key_sheet_html(window.registry());
        int commands = 0;
        for (const QString& name : MainWindow::viewNames()) {
            auto* has = dynamic_cast<HasCommands*>(window.view(name));
            if (!has) continue;
            for (const ViewCommand& c : has->commands()) {
                if (!c.keys.isEmpty()) QVERIFY2(sheet.contains(c.text.toHtmlEscaped()), qPrintable(c.text));
                if (!c.run) continue;
                QVERIFY2(window.registry().find(name + "." + c.id), qPrintable(name + "." + c.id));
                ++commands;
            }
        }
        QVERIFY2(commands > 60, qPrintable(QString::number(commands)));
        window.showView("memory");
        window.registry().find("timeline.zoom_in")->trigger();
        QVERIFY(timeline_of(window).range().length() < timeline_of(window).whole().length());
        QTRY_VERIFY(!timeline_of(window).visibleRegion().isEmpty()); // in front: what the command did is to be seen
    }

    // gui/README: topology and sim below, core and parts beside; of the views, compare alone draws with another's widget.
    void noViewKnowsAnother() {
        namespace fs = std::filesystem;
        const fs::path root = ORRERY_SOURCE_DIR;
        int files = 0;
        for (const auto& entry : fs::recursive_directory_iterator(root / "gui")) {
            const std::string own = fs::relative(entry.path(), root / "gui").begin()->string();
            if (own == "app" || (entry.path().extension() != ".cpp" && entry.path().extension() != ".hpp")) continue;
            ++files;
            std::ifstream in(entry.path());
            for (std::string line; std::getline(in, line);) {
                if (!line.starts_with("#include \"gui/")) continue;
                const std::string path = line.substr(14), room = path.substr(0, path.find('/'));
                const bool good = room == own || room == "core" || path.starts_with("moc_first") || (room == "parts" && own != "core") ||
                                  (own == "compare" && room == "timeline");
                QVERIFY2(good, (entry.path().string() + ": " + line).c_str());
            }
        }
        QVERIFY(files > 60);
    }

    void aTraceForPerfettoIsNoScenario() {
        QTemporaryDir folder;
        const auto data = simulate_run(small.toStdString(), {}, [](const QString&) { return true; });
        const QString path = folder.filePath("step.json");
        export_perfetto(*data->trace, path.toStdString());
        MainWindow window(fresh());
        window.open({path});
        QTRY_VERIFY_WITH_TIMEOUT(window.idle(), patience);
        QVERIFY(window.store().runs().empty());
        QCOMPARE(window.problems().rowCount(), 1);
        QVERIFY2(window.problems().entry(0).what.contains("--trace"), qPrintable(window.problems().entry(0).what));
    }
};

QTEST_MAIN(TrustTest)
#include "trust_test.moc"
