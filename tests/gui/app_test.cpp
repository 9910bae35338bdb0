// Does the window open what it should and refuse what it must, are all commands found in one place, is the command line understood?
#include "gui/app/command_palette.hpp"
#include "gui/app/execution_view.hpp"
#include "gui/app/export.hpp"
#include "gui/app/key_sheet.hpp"
#include "gui/app/main_window.hpp"
#include "gui/app/options.hpp"
#include "gui/app/welcome.hpp"
#include "gui/strategies/strategies_view.hpp"
#include "sim/trace/trace.hpp"
#include "tests/gui/windows.hpp"

#include <QAbstractButton>
#include <QAbstractItemModelTester>
#include <QAbstractSpinBox>
#include <QAction>
#include <QApplication>
#include <QComboBox>
#include <QDropEvent>
#include <QLineEdit>
#include <QListWidget>
#include <QMimeData>
#include <QSignalSpy>
#include <QTableView>
#include <QTemporaryDir>
#include <QtTest/QTest>
#include <QUndoStack>

using namespace orrery;
using namespace orrery::windows;

namespace {

ParsedOptions parse(const QStringList& words) { return parse_options(QStringList{"simgui"} + words, MainWindow::viewNames()); }

} // namespace

class AppTest : public QObject {
    Q_OBJECT
  private Q_SLOTS:
    void theCommandLine() {
        const Options o = parse({"a.json", "b.json", "--compare", "--view", "1.5ms,2ms", "--select", "0:l1.qkv.fwd@2", "--dock",
                                 "breakdown", "--size", "800x600"})
                              .options;
        QCOMPARE(o.files, (QStringList{"a.json", "b.json"}));
        QVERIFY(o.compare);
        QCOMPARE(o.view->first, 1500000000LL);
        QCOMPARE(o.view->second, 2000000000LL);
        QCOMPARE(o.size, QSize(800, 600));
        const QStringList words = command_line(o).split(' ').mid(1);
        QCOMPARE(parse(words).options.view, o.view);
        QCOMPARE(parse(words).options.select, o.select);
    }

    void wrongCommandLinesSayWhy_data() {
        QTest::addColumn<QStringList>("words");
        QTest::addColumn<QString>("says");
        QTest::newRow("view") << QStringList{"--view", "5,1"} << "two times";
        QTest::newRow("size") << QStringList{"--size", "big"} << "1600x1000";
        QTest::newRow("dock") << QStringList{"--dock", "nothing"} << "breakdown";
        QTest::newRow("compare") << QStringList{"--compare", "a"} << "two files";
        QTest::newRow("select") << QStringList{"--select", "x"} << "RANK:OP";
        QTest::newRow("unknown") << QStringList{"--colour"} << "colour";
        QTest::newRow("theme") << QStringList{"--theme", "blue"} << "light or dark";
    }
    void wrongCommandLinesSayWhy() {
        QFETCH(QStringList, words);
        QFETCH(QString, says);
        const auto answer = parse(words).answer;
        QVERIFY(answer && answer->code == 1);
        QVERIFY2(answer->text.contains(says), qPrintable(answer->text));
    }

    void helpHasExamples() {
        const auto help = parse({"--help"}).answer;
        QVERIFY(help && help->code == 0 && help->text.contains("Examples:"));
        QVERIFY(parse({"--version"}).answer->text.startsWith("simgui "));
    }

    void everyCommandIsNamedAndNoKeyIsTakenTwice() {
        MainWindow window(fresh());
        QStringList keys;
        for (const QAction* action : window.registry().actions()) {
            QVERIFY(!action->text().isEmpty());
            QVERIFY2(!action->toolTip().isEmpty(), qPrintable(action->objectName()));
            for (const QKeySequence& key : action->shortcuts()) {
                QVERIFY2(!keys.contains(key.toString()), qPrintable(key.toString()));
                keys << key.toString();
                QVERIFY(key_sheet_html(window.registry()).contains(key.toString(QKeySequence::NativeText).toHtmlEscaped()));
            }
        }
        for (const QString& name : MainWindow::viewNames()) QVERIFY2(window.view(name), qPrintable(name));
    }

    void thePaletteFindsByLetters() {
        MainWindow window(fresh());
        CommandModel model(window.registry());
        QAbstractItemModelTester tester(&model, QAbstractItemModelTester::FailureReportingMode::QtTest);
        model.setPattern("reset lay");
        QCOMPARE(model.action(model.index(0))->objectName(), QString("view.reset"));
        model.setPattern("zzzz");
        QCOMPARE(model.rowCount(), 0);
        QVERIFY(fuzzy_score("dk", "View: Dark") > 0);
        QCOMPARE(fuzzy_score("dq", "View: Dark"), 0);
        QVERIFY(fuzzy_score("dark", "View: Dark") > fuzzy_score("dark", "data and other keys"));
    }

    void thePaletteRunsWithKeys() {
        MainWindow window(fresh());
        window.show();
        QSignalSpy run(window.registry().find("view.reset"), &QAction::triggered);
        window.registry().find("help.palette")->trigger();
        auto* line = window.findChild<CommandPalette*>()->findChild<QLineEdit*>();
        QTest::keyClicks(line, "reset layout");
        QTest::keyClick(line, Qt::Key_Return);
        QCOMPARE(run.size(), 1);
    }

    void anEmptyWindowSaysWhatToDo() {
        MainWindow window(fresh());
        window.show();
        auto* welcome = window.findChild<WelcomePage*>();
        QVERIFY(welcome->isVisible());
        auto* list = welcome->findChild<QListWidget*>();
        QVERIFY(list->count() > 5);
        for (int i = 0; i < list->count(); ++i)
            if (list->item(i)->data(Qt::UserRole) == "gpt2-124m-1-gpu") list->setCurrentRow(i);
        QTest::keyClick(list, Qt::Key_Return);
        QTRY_VERIFY_WITH_TIMEOUT(window.idle() && !window.store().runs().empty(), patience);
        QVERIFY(!welcome->isVisible());
        QVERIFY(window.store().runs().front().data->report.has_value());
    }

    void badFilesEndInAMessage_data() {
        QTest::addColumn<QByteArray>("bytes");
        QTest::newRow("empty") << QByteArray();
        QTest::newRow("binary") << QByteArray("\x00\x01\xff\xfe\x7f"
                                              "ELF",
                                              8);
        QTest::newRow("truncated json") << small.left(200);
        QTest::newRow("no scenario") << QByteArray("[1, 2, 3]");
        QTest::newRow("deep") << QByteArray(50000, '[');
        QTest::newRow("wrong field") << QByteArray(small).replace("tensor_parallel\": 2", "tensor_paralel\": 2");
        QTest::newRow("trace without a rest") << QByteArray("\x89ORT\r\n\x1a\n", 8);
        QTest::newRow("trace of another version") << QByteArray("\x89ORT\r\n\x1a\n\xff\xff\xff\x7f", 12) + QByteArray(16, '\0');
        QTest::newRow("trace of a huge size") << QByteArray("\x89ORT\r\n\x1a\n\x01\x00\x00\x00", 12) + QByteArray(16, '\x7f');
        QTest::newRow("broken sweep") << QByteArray(R"({"sweep": {"/strategy/tensor_parallel": []}})");
    }
    void badFilesEndInAMessage() {
        QFETCH(QByteArray, bytes);
        QTemporaryDir folder;
        MainWindow window(fresh());
        window.open({written(folder, "bad", bytes), folder.filePath("not-there.json"), folder.path()});
        QTRY_VERIFY_WITH_TIMEOUT(window.idle(), patience);
        QStringList said;
        for (int row = 0; row < window.problems().rowCount(); ++row) said << window.problems().entry(row).source;
        QVERIFY2(said.contains("bad"), qPrintable(said.join(" ")));
        QVERIFY(said.contains("not-there"));
        for (const Run& run : window.store().runs()) QVERIFY(!run.data->report); // text with a mistake stays, to be mended
    }

    void hugeFilesAreNotRead() {
        QTemporaryDir folder;
        QFile text(folder.filePath("huge.json")), trace(folder.filePath("large.trace"));
        QVERIFY(text.open(QIODevice::WriteOnly) && text.write("{") == 1 && text.resize(qint64(8) << 30)); // holes: no disk is filled
        QVERIFY(trace.open(QIODevice::WriteOnly) && trace.write("\x89ORT\r\n\x1a\n", 8) == 8 && trace.resize(qint64(8) << 30));
        text.close();
        trace.close();
        MainWindow window(fresh());
        window.open({text.fileName(), trace.fileName()});
        QTRY_VERIFY_WITH_TIMEOUT(window.idle(), patience);
        QCOMPARE(window.problems().rowCount(), 2);
        QVERIFY(window.store().runs().empty());
    }

    void aTruncatedTraceIsRefused() {
        QTemporaryDir folder;
        const auto data = simulate_run(small.toStdString(), {}, [](const QString&) { return true; });
        const QString path = folder.filePath("step.trace");
        save(*data->trace, path.toStdString());
        QFile file(path);
        QVERIFY(file.open(QIODevice::ReadOnly));
        const QByteArray whole = file.readAll();
        MainWindow window(fresh());
        window.open({written(folder, "cut.trace", whole.left(whole.size() / 2)), path});
        QTRY_VERIFY_WITH_TIMEOUT(window.idle(), patience);
        QCOMPARE(window.store().runs().size(), std::size_t(1));
        QVERIFY(window.store().runs().front().data->trace.has_value());
        QCOMPARE(window.problems().entry(0).source, QString("cut"));
    }

    void filesCanBeDropped() {
        QTemporaryDir folder;
        MainWindow window(fresh());
        QMimeData mime;
        mime.setUrls({QUrl::fromLocalFile(written(folder, "a.json", small))});
        QDragEnterEvent enter({5, 5}, Qt::CopyAction, &mime, Qt::LeftButton, {});
        QApplication::sendEvent(&window, &enter);
        QVERIFY(enter.isAccepted());
        QDropEvent drop({5, 5}, Qt::CopyAction, &mime, Qt::LeftButton, {});
        QApplication::sendEvent(&window, &drop);
        QTRY_VERIFY_WITH_TIMEOUT(window.idle(), patience);
        QCOMPARE(window.store().runs().size(), std::size_t(1));
    }

    void typingSimulatesAgain() {
        QTemporaryDir folder;
        MainWindow window(fresh());
        window.open({written(folder, "a.json", small)});
        QTRY_VERIFY_WITH_TIMEOUT(window.idle(), patience);
        const RunId id = window.store().runs().front().id;
        const double before = window.store().find(id)->data->report->step_time_s;
        ScenarioDocument* document = window.documents().current();
        QVERIFY(document);
        QVERIFY(document->setField("/training/global_batch_size", "32", "batch"));
        QTRY_VERIFY_WITH_TIMEOUT(window.idle() && window.store().find(id)->data->report->step_time_s > 1.5 * before, patience);
        QVERIFY(document->setField("/training/global_batch_size", "-1", "batch"));
        QCOMPARE(window.problems().rowCount(), 1);
        QCOMPARE(window.problems().entry(0).where, QString("/training/global_batch_size"));
        window.registry().find("edit.undo")->trigger();
        QCOMPARE(window.problems().rowCount(), 0);
        window.registry().find("edit.undo")->trigger();
        QTRY_VERIFY_WITH_TIMEOUT(window.idle() && window.store().find(id)->data->report->step_time_s == before, patience);
        QVERIFY(!document->isModified());
    }

    void copiesStandBesideTheBaseline() {
        QTemporaryDir folder;
        MainWindow window(fresh());
        window.open({written(folder, "a.json", small)});
        QTRY_VERIFY_WITH_TIMEOUT(window.idle(), patience);
        window.registry().find("run.baseline")->trigger();
        window.registry().find("run.copy")->trigger();
        QTRY_VERIFY_WITH_TIMEOUT(window.idle(), patience);
        QCOMPARE(window.store().runs().size(), std::size_t(2));
        QCOMPARE(window.state().currentRun(), window.store().runs()[1].id);
        QCOMPARE(window.state().baseline(), window.store().runs()[0].id);
        window.store().remove(window.state().baseline());
        QCOMPARE(window.state().baseline(), 0);
    }

    void viewsAreExported() {
        QTemporaryDir folder;
        MainWindow window(fresh());
        window.open({written(folder, "a.json", small)});
        QTRY_VERIFY_WITH_TIMEOUT(window.idle(), patience);
        window.show();
        QWidget& view = *window.view("strategies");
        for (const char* name : {"a.png", "a.svg", "a.pdf"}) {
            QCOMPARE(export_picture(view, folder.filePath(name)), QString());
            QVERIFY(QFileInfo(folder.filePath(name)).size() > 500);
        }
        QVERIFY(QImage(folder.filePath("a.png")).size() == view.size());
        const QString csv = to_csv(*table_of(view));
        QCOMPARE(csv.count('\n'), 2);
        QVERIFY(csv.section('\n', 1, 1).startsWith("a,"));
        QCOMPARE(export_trace(*window.store().runs().front().data->trace, folder.filePath("a.json.json")), QString());
        QVERIFY(!export_picture(view, folder.filePath("no/such/a.png")).isEmpty());
    }

    void anyViewIsExported() {
        QTemporaryDir folder;
        MainWindow window(fresh());
        window.open({written(folder, "a.json", small),
                     written(folder, "b.json", QByteArray(small).replace("\"pipeline_parallel\": 2", "\"pipeline_parallel\": 1"))});
        window.show();
        QTRY_VERIFY_WITH_TIMEOUT(window.idle(), patience);
        window.state().setBaseline(window.store().runs()[0].id);
        window.state().setCurrentRun(window.store().runs()[1].id);
        window.state().setBrushedRuns({window.store().runs()[0].id, window.store().runs()[1].id});
        for (const QString& name : MainWindow::viewNames()) {
            window.showView(name);
            QTest::qWait(200);
            const QWidget& view = *window.view(name);
            for (const char* ending : {".png", ".svg", ".pdf", ".csv"}) {
                const QString path = folder.filePath(name + ending);
                const bool table = path.endsWith(".csv");
                if (table && (name == "run" || name == "workers")) { // of one step whose ranks meet there is neither, and it says so
                    QVERIFY(!export_csv(view, path).isEmpty());
                    continue;
                }
                QVERIFY2((table ? export_csv(view, path) : export_picture(*window.view(name), path)).isEmpty(), qPrintable(path));
                QFile file(path);
                QVERIFY(file.open(QIODevice::ReadOnly));
                const QByteArray bytes = file.readAll();
                const bool empty = name == "sweep" || name == "execution" || name == "problems"; // nothing was swept, run or wrong
                QVERIFY2(empty || bytes.size() > (table ? 5 : 300), qPrintable(path));
                if (!table) continue;
                const auto lines = bytes.count('\n');
                QVERIFY2(empty || lines >= 2, qPrintable(path + ": " + bytes.left(200)));
            }
        }
        const auto lines = [&](const char* name) {
            QFile file(folder.filePath(name));
            return file.open(QIODevice::ReadOnly) ? file.readAll().count('\n') : -1;
        };
        std::int64_t spans = 0;
        for (const Lane& lane : window.store().runs()[1].data->trace->lanes) spans += static_cast<std::int64_t>(lane.spans.size());
        QCOMPARE(lines("timeline.csv"), spans + 1); // all of them are in sight
        QCOMPARE(lines("placement.csv"), 8 + 1);
        QCOMPARE(lines("breakdown.csv"), 2 + 1);
        QCOMPARE(lines("pareto.csv"), 2 + 1);
    }

    void aProgramIsRunAndItsTraceOpened() {
        QTemporaryDir folder;
        MainWindow window(fresh());
        window.open({written(folder, "a.json", small)});
        QTRY_VERIFY_WITH_TIMEOUT(window.idle(), patience);
        const QString trace = folder.filePath("kept.trace");
        save(*window.store().runs().front().data->trace, trace.toStdString());
        const QString program = written(folder, "stand-in",
                                        "#!/bin/sh\necho step 1\nwhile [ $# -gt 0 ]; do if [ $1 = --trace ]; then cp " + trace.toUtf8() +
                                            " $2; fi; shift; done\n");
        QFile::setPermissions(program, QFile::ReadOwner | QFile::ExeOwner);
        auto* execution = qobject_cast<ExecutionView*>(window.view("execution"));
        execution->setProgram(program);
        execution->start();
        QTRY_VERIFY_WITH_TIMEOUT(!execution->running() && window.idle() && window.store().runs().size() == 2, patience);
        QVERIFY(execution->log().contains("step 1"));
        QCOMPARE(window.store().runs()[1].name, QString("a, measured"));
        QCOMPARE(window.state().baseline(), window.store().runs()[0].id);
        execution->setProgram(written(folder, "fails", "#!/bin/sh\necho no device\nexit 3\n"));
        QFile::setPermissions(folder.filePath("fails"), QFile::ReadOwner | QFile::ExeOwner);
        window.state().setCurrentRun(window.store().runs()[0].id);
        execution->start();
        QTRY_VERIFY_WITH_TIMEOUT(window.problems().rowCount() == 1, patience);
        QVERIFY(window.problems().entry(0).what.contains("no device"));
    }

    void everyWidgetThatTakesTheFocusHasAName() {
        QTemporaryDir folder;
        MainWindow window(fresh());
        window.open({written(folder, "a.json", small), written(folder, "b.json", small)});
        window.show();
        QTRY_VERIFY_WITH_TIMEOUT(window.idle(), patience);
        for (const QString& name : MainWindow::viewNames()) window.showView(name);
        window.registry().find("help.keys")->trigger();
        window.registry().find("help.palette")->trigger();
        int seen = 0;
        for (QWidget* w : window.findChildren<QWidget*>()) {
            if (w->focusPolicy() == Qt::NoFocus || w->focusProxy()) continue;
            if (w->objectName().startsWith("qt_") || w->inherits("QHeaderView") || w->inherits("QTabBar") || w->inherits("QMenu") ||
                w->inherits("QMenuBar"))
                continue;
            if (qobject_cast<QComboBox*>(w->parentWidget()) || qobject_cast<QAbstractSpinBox*>(w->parentWidget()) ||
                w->inherits("QComboBoxListView") || w->inherits("QComboBoxPrivateContainer"))
                continue; // a part of a widget that has one
            const auto* button = qobject_cast<QAbstractButton*>(w);
            const QString said = !w->accessibleName().isEmpty() || !button ? w->accessibleName() : button->text();
            QWidget* view = w;
            while (view && !view->objectName().startsWith("view.")) view = view->parentWidget();
            QVERIFY2(
                !said.isEmpty(),
                qPrintable(
                    QString("%1 in %2").arg(QString::fromLatin1(w->metaObject()->className()), view ? view->objectName() : QString{})));
            ++seen;
        }
        QVERIFY2(seen > 40, qPrintable(QString::number(seen)));
    }

    // A small laptop's screen holds it, whatever is in front.
    void itFitsASmallScreen() {
        QTemporaryDir folder;
        Options options = fresh();
        options.size = {1024, 640};
        MainWindow window(options);
        window.open({written(folder, "a.json", small), written(folder, "b.json", small)});
        window.show();
        QTRY_VERIFY_WITH_TIMEOUT(window.idle(), patience);
        window.state().setBrushedRuns({window.store().runs()[0].id, window.store().runs()[1].id});
        for (const QString& name : MainWindow::viewNames()) {
            const auto its = [&] { return window.view(name)->minimumSizeHint(); }; // after what it has still to lay out
            QTRY_VERIFY2_WITH_TIMEOUT(its().height() <= 330 && its().width() <= 640,
                                      qPrintable(QString("%1 needs %2 x %3").arg(name).arg(its().width()).arg(its().height())), patience);
        }
        for (const QString& name : MainWindow::viewNames()) {
            window.showView(name);
            QTest::qWait(20);
            const QSize least = window.minimumSizeHint();
            QVERIFY2(window.width() <= 1024 && window.height() <= 640,
                     qPrintable(QString("%1: %2 x %3").arg(name).arg(window.width()).arg(window.height())));
            QVERIFY2(least.width() <= 1024 && least.height() <= 640,
                     qPrintable(QString("%1: at least %2 x %3").arg(name).arg(least.width()).arg(least.height())));
        }
    }
};

QTEST_MAIN(AppTest)
#include "app_test.moc"
