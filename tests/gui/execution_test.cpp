// Does the real simexec run from the window: progress and log as they come, its trace beside the prediction, cancelled, failing?
#include "gui/app/execution_view.hpp"
#include "gui/compare/compare_view.hpp"
#include "gui/compare/predicted_measured.hpp"
#include "gui/timeline/timeline.hpp"
#include "tests/gui/windows.hpp"

#include <QComboBox>
#include <QElapsedTimer>
#include <QLabel>
#include <QLineEdit>
#include <QProgressBar>
#include <QPushButton>
#include <QSpinBox>
#include <QtTest/QTest>

#include <set>

using namespace orrery;
using namespace orrery::windows;

namespace {

const QByteArray tiny = R"({"name": "tiny", "model": {"layers": 2, "hidden_size": 64, "attention_heads": 4, "vocab_size": 64},
  "cluster": {"preset": "local-cpu", "nodes": 1, "devices_per_node": 2},
  "training": {"global_batch_size": 4, "micro_batch_size": 1, "sequence_length": 32, "precision": "fp32", "optimizer": "adamw"},
  "strategy": {"framework": "megatron", "tensor_parallel": 2}})";

struct Dock {
    explicit Dock(MainWindow& window) : view(*qobject_cast<ExecutionView*>(window.view("execution"))) {
        view.setProgram(QStringLiteral(ORRERY_BINARY_DIR "/bin/simexec"));
        executor = child<QComboBox>("Executor");
        steps = child<QSpinBox>("Steps");
        ranks = child<QSpinBox>("Ranks");
        more = child<QLineEdit>("Further arguments");
        progress = child<QProgressBar>("Steps done");
        button = view.findChild<QPushButton*>();
    }
    template <class W> W* child(const char* name) {
        for (W* w : view.findChildren<W*>())
            if (w->accessibleName() == QLatin1String(name)) return w;
        qFatal("no %s", name);
    }
    ExecutionView& view;
    QComboBox* executor;
    QSpinBox *steps, *ranks;
    QLineEdit* more;
    QProgressBar* progress;
    QPushButton* button;
};

} // namespace

class ExecutionTest : public QObject {
    Q_OBJECT
  private Q_SLOTS:
    void aRunIsWatchedAndComparedWithItsPrediction_data() {
        QTest::addColumn<QString>("executor");
        QTest::newRow("serial") << "serial";
        QTest::newRow("threads") << "threads";
    }
    void aRunIsWatchedAndComparedWithItsPrediction() {
        QFETCH(QString, executor);
        QTemporaryDir folder;
        MainWindow window(fresh());
        window.show();
        window.open({written(folder, "other.json", small), written(folder, "tiny.json", tiny)}); // the last one is what runs
        QTRY_VERIFY_WITH_TIMEOUT(window.idle(), patience);
        window.showView("execution");
        Dock dock(window);
        dock.executor->setCurrentText(executor);
        dock.steps->setValue(40);
        std::set<int> seen;
        connect(dock.progress, &QProgressBar::valueChanged, this, [&](int v) { seen.insert(v); });
        QTest::mouseClick(dock.button, Qt::LeftButton);
        QVERIFY(dock.view.running());
        QTRY_VERIFY_WITH_TIMEOUT(!dock.view.running() && window.idle() && window.store().runs().size() == 3, patience);
        QVERIFY2(dock.view.log().contains("step 0: loss") && dock.view.log().contains("step 39: loss"), qPrintable(dock.view.log()));
        QVERIFY(dock.view.log().contains("tokens/s"));
        QVERIFY(seen.contains(40) && seen.size() > 5);
        const Run &prediction = window.store().runs()[1], &measured = window.store().runs()[2];
        QCOMPARE(measured.name, QString("tiny, measured"));
        QVERIFY(measured.data->trace && measured.data->trace->source != "simulated");
        QVERIFY(!measured.data->trace->lanes.empty());
        QCOMPARE(window.state().baseline(), prediction.id);
        QCOMPARE(window.state().brushedRuns(), (std::vector<RunId>{prediction.id, measured.id}));
        auto& over = qobject_cast<CompareView*>(window.view("compare"))->predictedMeasured();
        QTRY_VERIFY_WITH_TIMEOUT(over.timeline().store(), patience);
        const auto box = [&](const char* name) {
            for (QComboBox* b : over.findChildren<QComboBox*>())
                if (b->accessibleName() == name) return b->currentText();
            return QString();
        };
        QCOMPARE(box("Predicted run"), prediction.name); // over its own prediction, not another's
        QCOMPARE(box("Measured run"), measured.name);
        QCOMPARE(over.timeline().store()->trace->lanes.size() % 2, std::size_t(0));
        QVERIFY(over.timeline().store()->trace->lanes.size() >= 2);
    }

    void stoppingKillsIt() {
        QTemporaryDir folder;
        MainWindow window(fresh());
        window.show();
        window.open({written(folder, "tiny.json", tiny)});
        QTRY_VERIFY_WITH_TIMEOUT(window.idle(), patience);
        Dock dock(window);
        dock.steps->setValue(1000000);
        window.showView("execution");
        QTest::mouseClick(dock.button, Qt::LeftButton);
        QTRY_VERIFY_WITH_TIMEOUT(dock.view.log().contains("step 3:"), patience);
        QElapsedTimer clock;
        clock.start();
        QTest::mouseClick(dock.button, Qt::LeftButton);
        QTRY_VERIFY_WITH_TIMEOUT(!dock.view.running(), patience);
        QVERIFY2(clock.elapsed() < 6000, qPrintable(QString::number(clock.elapsed())));
        QVERIFY(dock.view.log().endsWith("stopped"));
        QCOMPARE(window.store().runs().size(), std::size_t(1));
        QCOMPARE(window.problems().rowCount(), 0);
        QVERIFY(dock.progress->isHidden());
    }

    void aFailureSaysWhy() {
        QTemporaryDir folder;
        MainWindow window(fresh());
        window.open({written(folder, "tiny.json", tiny)});
        QTRY_VERIFY_WITH_TIMEOUT(window.idle(), patience);
        Dock dock(window);
        dock.more->setText("--set model.hidden_size=65");
        dock.view.start();
        QTRY_VERIFY_WITH_TIMEOUT(window.problems().rowCount() == 1, patience);
        QVERIFY2(window.problems().entry(0).what.contains("hidden_size"), qPrintable(window.problems().entry(0).what));
        QCOMPARE(window.store().runs().size(), std::size_t(1));
        dock.view.setProgram(written(folder, "no program", "text"));
        dock.view.start();
        QTRY_VERIFY_WITH_TIMEOUT(window.problems().rowCount() == 2, patience);
        QVERIFY(window.problems().entry(1).what.contains("could not be started"));
    }

    // Another number of ranks is another scenario: it gets a prediction of its own.
    void otherRanksAreSimulatedToo() {
        QTemporaryDir folder;
        MainWindow window(fresh());
        window.open({written(folder, "tiny.json", tiny)});
        QTRY_VERIFY_WITH_TIMEOUT(window.idle(), patience);
        Dock dock(window);
        dock.steps->setValue(3);
        dock.ranks->setValue(4);
        dock.view.start();
        QTRY_VERIFY_WITH_TIMEOUT(!dock.view.running() && window.idle() && window.store().runs().size() == 3, patience);
        const Run& prediction = window.store().runs()[1];
        QCOMPARE(prediction.data->scenario->world_size(), 4);
        QCOMPARE(prediction.data->scenario->strategy.data_parallel, 2);
        QCOMPARE(window.state().baseline(), prediction.id);
        QVERIFY(window.store().runs()[2].data->trace->lanes.size() >= 4 || window.store().runs()[2].data->trace->lanes.front().ranks > 1);
    }
};

QTEST_MAIN(ExecutionTest)
#include "execution_test.moc"
