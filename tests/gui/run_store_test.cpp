// Does the store simulate, load, cancel and refuse without a window, and are its signals to be trusted?
#include "gui/core/run.hpp"
#include "gui/core/tracks.hpp"

#include <QElapsedTimer>
#include <QFile>
#include <QSignalSpy>
#include <QTemporaryDir>
#include <QtTest/QTest>

using namespace orrery;

namespace {

const std::string small =
    R"({"name": "small", "model": {"name": "tiny", "layers": 4, "hidden_size": 512, "attention_heads": 8, "vocab_size": 1024},
  "cluster": {"preset": "dgx-a100-80gb", "nodes": 1},
  "training": {"global_batch_size": 16, "micro_batch_size": 1, "sequence_length": 512, "precision": "bf16"},
  "strategy": {"framework": "megatron", "tensor_parallel": 2, "pipeline_parallel": 2, "schedule": "1f1b"}})";

constexpr int most_ms = 500; // 100 where nobody else works

} // namespace

class RunStoreTest : public QObject {
    Q_OBJECT
  private Q_SLOTS:
    void simulates() {
        RunStore store;
        QSignalSpy added(&store, &RunStore::runAdded), changed(&store, &RunStore::runChanged);
        const RunId id = store.simulate(small, {});
        QCOMPARE(added.size(), 1);
        QCOMPARE(store.find(id)->state, RunState::working);
        QTRY_COMPARE_WITH_TIMEOUT(changed.size(), 1, 20000);
        const Run& run = *store.find(id);
        QCOMPARE(run.state, RunState::ready);
        QCOMPARE(run.name, QString("small"));
        QVERIFY(run.data->report && run.data->report->step_time_s > 0);
        QVERIFY(run.data->trace && !run.data->tracks->tracks.empty());
        QVERIFY(!store.busy());
    }

    // The figures of simrun: its interval, and the steps of workers that do not wait for one another.
    void hasTheFiguresOfAPrediction() {
        const std::string loose =
            R"({"model": "gpt2-124m", "cluster": {"preset": "dgx-a100-80gb", "nodes": 4, "devices_per_node": 1},
                "training": {"global_batch_size": 32, "micro_batch_size": 8, "sequence_length": 1024, "precision": "bf16"},
                "strategy": {"framework": "ddp", "zero_stage": 0, "synchronization": {"kind": "parameter_server", "servers": 1}}})";
        for (const std::string& text : {small, loose}) {
            const auto run = simulate_run(
                text, {}, [](const QString&) { return true; }, nullptr);
            QVERIFY(run && run->report);
            PredictOptions predicting;
            predicting.shares_up_to = interval_shares;
            const Report expected = predict(*run->scenario, predicting).report;
            QCOMPARE(run->report->step_time_s, expected.step_time_s);
            QCOMPARE(run->report->error_bar.interval.slower, expected.error_bar.interval.slower);
            QCOMPARE(run->report->error_bar.interval.faster, expected.error_bar.interval.faster);
        }
    }

    void manyAtOnceAllFinish() {
        RunStore store;
        for (int i = 0; i < 40; ++i) store.simulate(small, {});
        QTRY_VERIFY_WITH_TIMEOUT(!store.busy(), 60000);
        for (const Run& run : store.runs()) QVERIFY(run.data->tracks);
    }

    void saysWhatIsWrong() {
        RunStore store;
        QSignalSpy failed(&store, &RunStore::failed);
        const RunId id = store.simulate("{\"model\": \"no-such-model\"}", {});
        QTRY_COMPARE_WITH_TIMEOUT(failed.size(), 1, 20000);
        const Run& run = *store.find(id);
        QCOMPARE(run.state, RunState::failed);
        QVERIFY(!run.data->problems.empty());
        QCOMPARE(QString::fromStdString(run.data->problems[0].where), QString("/model"));
    }

    void cancelledRunsGo() {
        RunStore store;
        QSignalSpy removed(&store, &RunStore::runRemoved);
        const RunId id = store.simulate(small, {});
        store.cancel(id);
        QCOMPARE(removed.size(), 1);
        QVERIFY(!store.find(id));
        QTest::qWait(50);
        QVERIFY(store.runs().empty());
    }

    void theLastTextWins() {
        RunStore store;
        const RunId id = store.simulate(small, {});
        std::string text = small;
        for (const char* name : {"two", "three", "four"}) {
            text.replace(text.find("\"name\": \"") + 9, text.find("\",") - 10, name);
            store.simulateAgain(id, text);
        }
        QTRY_VERIFY_WITH_TIMEOUT(!store.busy(), 20000);
        QCOMPARE(store.find(id)->data->scenario->name, std::string("four"));
    }

    void filesThatAreNoRunsEndInAMessage_data() {
        QTest::addColumn<QByteArray>("content");
        QTest::newRow("empty") << QByteArray();
        QTest::newRow("binary") << QByteArray("\0\1\2\xff\xfe", 5);
        QTest::newRow("no trace behind the magic") << QByteArray("\x89ORT\r\n\x1a\n", 8);
        QTest::newRow("another version") << QByteArray("\x89ORT\r\n\x1a\n\x63\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0", 28);
        QTest::newRow("text") << QByteArray("once upon a time");
    }

    void filesThatAreNoRunsEndInAMessage() {
        QFETCH(QByteArray, content);
        QTemporaryDir folder;
        QFile file(folder.filePath("odd"));
        QVERIFY(file.open(QIODevice::WriteOnly));
        file.write(content);
        file.close();
        RunStore store;
        QSignalSpy failed(&store, &RunStore::failed);
        const RunId id = store.open(file.fileName());
        QTRY_COMPARE_WITH_TIMEOUT(failed.size(), 1, 20000);
        QVERIFY(!store.find(id)->data->problems.empty());
        QVERIFY(!store.find(id)->data->problems[0].what.empty());
    }

    void aTraceComesBackFromItsFile() {
        RunStore store;
        const RunId id = store.simulate(small, {});
        QTRY_VERIFY_WITH_TIMEOUT(!store.busy(), 20000);
        QTemporaryDir folder;
        const QString path = folder.filePath("step.trace");
        save(*store.find(id)->data->trace, path.toStdString());
        const RunId loaded = store.open(path);
        QTRY_VERIFY_WITH_TIMEOUT(!store.busy(), 20000);
        QCOMPARE(store.find(loaded)->state, RunState::ready);
        QCOMPARE(store.find(loaded)->data->tracks->tracks.size(), store.find(id)->data->tracks->tracks.size());
    }

    void aFileThatIsNotThere() {
        RunStore store;
        QSignalSpy failed(&store, &RunStore::failed);
        store.open("/no/such/file.json");
        QTRY_COMPARE_WITH_TIMEOUT(failed.size(), 1, 5000);
    }

    // Whatever it is at, however long it would take: jitter makes every rank a lane of its own.
    void longWorkEndsWhenItIsCancelled() {
        const std::string large = R"({"model": "llama3-405b", "cluster": {"preset": "dgx-h100", "nodes": 128},
          "training": {"global_batch_size": 2048, "micro_batch_size": 1, "sequence_length": 8192, "precision": "bf16"},
          "strategy": {"framework": "megatron", "tensor_parallel": 8, "sequence_parallel": true, "pipeline_parallel": 16, "virtual_pipeline": 4,
                       "schedule": "interleaved-1f1b"}, "perturb": [{"jitter": 0.05}]})";
        for (const int after_ms : {20, 200, 600, 1500, 4000}) {
            QElapsedTimer clock;
            {
                RunStore store;
                store.simulate(large, {}, "large");
                QTest::qWait(after_ms);
                QVERIFY2(store.busy(), "it was over before it was cancelled");
                clock.start();
                store.cancelAll();
                QVERIFY(!store.busy());
            } // its destructor waits for the threads
            qDebug("cancelled after %d ms: over in %lld ms", after_ms, clock.elapsed());
            QVERIFY2(clock.elapsed() < most_ms, qPrintable(QString("%1 ms when cancelled after %2").arg(clock.elapsed()).arg(after_ms)));
        }
    }
};

QTEST_GUILESS_MAIN(RunStoreTest)
#include "run_store_test.moc"
