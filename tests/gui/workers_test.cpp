// Does the view of workers and clients show what the simulator followed: who does what, and how old what it uses is?
#include "gui/core/queries.hpp"
#include "gui/timeline/models.hpp"
#include "gui/timeline/timeline.hpp"
#include "gui/timeline/timeline_view.hpp"
#include "gui/workers/course_model.hpp"
#include "gui/workers/course_plot.hpp"
#include "gui/workers/workers_view.hpp"

#include <QAbstractItemModelTester>
#include <QLabel>
#include <QRegularExpression>
#include <QTableView>
#include <QtTest/QTest>

#include <algorithm>
#include <map>

using namespace orrery;

namespace {

std::shared_ptr<const RunData> simulated(const std::string& text) {
    auto data = simulate_run(text, {}, [](const QString&) { return true; });
    for (const Problem& p : data->problems) qWarning("%s: %s", p.where.c_str(), p.what.c_str());
    return data;
}

std::shared_ptr<const RunData> meeting(const std::string& synchronization) {
    return simulated(R"({"model": "gpt2-124m", "cluster": {"preset": "dgx-a100-80gb", "nodes": 4, "devices_per_node": 1,
          "inter_node": {"kind": "ethernet", "nics_per_node": 1, "gbit_per_s": 25}},
        "training": {"global_batch_size": 128, "micro_batch_size": 8, "sequence_length": 1024, "precision": "bf16"},
        "strategy": {"framework": "ddp", "synchronization": )" +
                     synchronization + "}}");
}
const std::string served = R"({"kind": "parameter_server", "servers": 2, "payload_dtype": "bf16"})";

std::shared_ptr<const RunData> clients(const std::string& federated) {
    return simulated(R"({"model": {"name": "tiny", "layers": 2, "hidden_size": 128, "attention_heads": 4, "vocab_size": 256},
        "cluster": {"preset": "local-cpu", "nodes": 1, "devices_per_node": 1},
        "training": {"global_batch_size": 4, "micro_batch_size": 4, "sequence_length": 64, "precision": "fp32"},
        "strategy": {"framework": "ddp"}, "federated": )" +
                     federated + "}");
}

std::shared_ptr<const RunData> flowing(const std::string& versions, int batch) {
    return simulated(R"({"model": {"name": "tiny", "layers": 4, "hidden_size": 256, "attention_heads": 4, "vocab_size": 1024,
          "tied_embeddings": false}, "cluster": {"preset": "dgx-a100-80gb", "nodes": 1, "devices_per_node": 4},
        "training": {"global_batch_size": )" +
                     std::to_string(batch) + R"(, "micro_batch_size": 1, "sequence_length": 256, "precision": "bf16"},
        "strategy": {"framework": "megatron", "pipeline_parallel": 4, "schedule": "pipedream-async", "zero_stage": 0, "flush_every": 12,
          "weight_versions": ")" +
                     versions + R"("}})");
}

QString fact(const Facts& facts, const QString& name) {
    for (const auto& [n, value] : facts)
        if (n == name) return value;
    return {};
}

bool holds(const WorkersCourse& course, CourseDoing doing, const QString& words) {
    return std::any_of(course.spans.begin(), course.spans.end(),
                       [&](const CourseSpan& s) { return s.doing == doing && (s.what + " " + s.detail).contains(words); });
}

} // namespace

class WorkersTest : public QObject {
    Q_OBJECT
  private Q_SLOTS:
    void workersOfServers() {
        const auto data = meeting(served);
        QVERIFY(data->workers && data->report->loose.step_s > 0);
        const WorkersCourse course = course_of(*data);
        QCOMPARE(course.rows.size(), std::size_t(5)); // the servers' stands first
        QCOMPARE(course.rows[1], QString("worker 0"));
        QCOMPARE(course.spans.size(), data->workers->spans.size());
        QVERIFY(!course.beside);
        for (std::size_t i = 0; i < course.spans.size(); ++i) {
            const CourseSpan& shown = course.spans[i];
            const LooseSpan& followed = data->workers->spans[i];
            QCOMPARE(shown.row, followed.worker + 1);
            QCOMPARE(shown.begin_s, followed.begin_s);
            QCOMPARE(shown.end_s, followed.end_s);
            if (followed.doing != LooseDoing::step || followed.age < 1) continue;
            const QString age = QString::number(followed.age, 'f', 0), version = QString::number(followed.version);
            QVERIFY2(shown.detail.contains("n - " + age + ": " + version + ";"), qPrintable(shown.detail));
        }
        QVERIFY(holds(course, CourseDoing::send, "pushes the gradient of step"));
        QVERIFY(holds(course, CourseDoing::fetch, "pulls the parameters version"));
        QVERIFY(holds(course, CourseDoing::update, "with the gradient of worker"));
        QVERIFY2(course.words.contains("versions of the parameters are in use"), qPrintable(course.words));
        QVERIFY(holds(course_of(*meeting(R"({"kind": "parameter_server", "servers": 2, "staleness_bound": 0})")), CourseDoing::update,
                      "with the gradients of all workers"));
    }

    void workersOfPeers() {
        for (const char* kind : {R"({"kind": "gossip"})", R"({"kind": "async_average"})"}) {
            const auto data = meeting(kind);
            const WorkersCourse course = course_of(*data);
            QCOMPARE(course.rows.size(), std::size_t(4));
            QVERIFY(course.beside);
            QVERIFY(holds(course, CourseDoing::send, "to worker"));
            QVERIFY(holds(course, CourseDoing::send, "steps until they are averaged there: "));
            QVERIFY(holds(course, CourseDoing::mix, "averages"));
            QVERIFY2(course.words.contains("steps old in the mean"), qPrintable(course.words));
        }
    }

    // Ten clients 1 to 10 times as slow with a deadline: who is late is shown to train in vain.
    void roundsOfClients() {
        const auto data = clients(R"({"clients": 40, "sampled": 10, "overcommit": 1.5, "slowness_sigma": 0.8, "dropout": 0.2, "rounds": 20,
                                      "seeds": 2, "local_steps": 200, "server_s": 1})");
        QVERIFY(data->federated && data->federated->example.rounds.size() == 4);
        const FederatedExample& e = data->federated->example;
        const WorkersCourse course = course_of(*data);
        QCOMPARE(course.rows.size(), std::size_t(e.places + 1));
        QCOMPARE(course.marks.size(), std::size_t(4));
        QCOMPARE(course.length_s, e.rounds.back().end_s);
        std::map<CourseDoing, int> spans;
        for (const CourseSpan& s : course.spans) ++spans[s.doing];
        int counted = 0, lost = 0;
        for (const FederatedRoundSpan& r : e.rounds) counted += r.counted, lost += r.late + r.given_up;
        QCOMPARE(spans[CourseDoing::update], 4);
        QCOMPARE(spans[CourseDoing::compute], counted);
        QVERIFY(lost > 0 && spans[CourseDoing::lost] > 0 && spans[CourseDoing::lost] <= lost);
        QVERIFY(spans[CourseDoing::send] >= counted);
        QVERIFY(holds(course, CourseDoing::update, "too late"));
        QVERIFY(holds(course, CourseDoing::lost, "dropped out"));
        QVERIFY2(course.words.contains("of the training is in vain"), qPrintable(course.words));
        QVERIFY(!fact(facts_of_run(*data), "a round").isEmpty());
        QVERIFY(!fact(facts_of_run(*data), "training in vain").isEmpty());
    }

    void streamOfClients() {
        const auto data =
            clients(R"({"clients": 40, "aggregation": "fedbuff", "sampled": 8, "buffer": 2, "rounds": 50, "seeds": 1, "local_steps": 50})");
        QVERIFY(data->federated.has_value());
        const WorkersCourse course = course_of(*data);
        QCOMPARE(course.rows.size(), std::size_t(9));
        QVERIFY(holds(course, CourseDoing::compute, "steps of the server since it began"));
        QVERIFY2(fact(facts_of_run(*data), "staleness").contains("server steps"), "FedBuff");
    }

    // A slice of an asynchronous pipeline says which version of the weights it uses, as the plan has it.
    void slicesSayTheirVersion() {
        for (const auto& [versions, batch] : {std::pair{"stash", 1}, {"2bw", 8}}) {
            const auto data = flowing(versions, batch);
            QVERIFY(data->trace && data->report && !data->weight_ages.empty());
            const Staleness& all = data->report->staleness;
            for (std::size_t l = 0; l < data->trace->lanes.size(); ++l) {
                const Lane& lane = data->trace->lanes[l];
                std::int64_t worst = 0;
                bool said = false;
                for (std::size_t i = 0; i < lane.spans.size(); ++i) {
                    const Span& s = lane.spans[i];
                    if (s.op < 0 || s.kind != SpanKind::op || data->trace->ops[s.op].phase != "forward" || s.microbatch < 0) continue;
                    const QString weights = fact(facts(*data, {static_cast<std::int32_t>(l), static_cast<std::int32_t>(i)}), "weights");
                    if (data->trace->ops[s.op].kind == "exchange") continue;
                    static const QRegularExpression form("n - (\\d+)");
                    const auto age = form.match(weights);
                    said = said || !weights.isEmpty();
                    if (age.hasMatch()) worst = std::max<std::int64_t>(worst, age.captured(1).toInt());
                }
                QVERIFY(said);
                QCOMPARE(worst, all.stages[lane.stage].worst);
            }
            const Facts run = facts_of_run(*data);
            QVERIFY(fact(run, "staleness").contains(QString::number(all.worst) + " at most"));
            QVERIFY(fact(run, "versions held").contains(QString::number(all.versions)));
            QVERIFY(course_of(*data).rows.empty() && course_of(*data).words.contains("timeline"));
        }
        QVERIFY(facts_of_run(*simulated(R"({"model": "gpt2-124m", "cluster": {"preset": "dgx-a100-80gb", "nodes": 1},
            "training": {"global_batch_size": 32, "sequence_length": 512}, "strategy": {"framework": "ddp"}})"))
                    .empty());
    }

    // Nothing chosen: the timeline's panel has the facts of the run.
    void thePanelSaysItOfTheRun() {
        RunStore runs;
        ViewState state;
        TimelineView view(runs, state);
        const auto data = meeting(served);
        state.setCurrentRun(runs.add(data, "served"));
        const auto* model = view.findChild<FactsModel*>();
        QStringList names;
        for (int i = 0; i < model->rowCount(); ++i) names << model->data(model->index(i, 0)).toString();
        QVERIFY2(names.contains("staleness") && names.contains("versions in use") && names.contains("leaves nodes in a step"),
                 qPrintable(names.join(", ")));
    }

    void theViewJoinsPictureAndTable() {
        RunStore runs;
        ViewState state;
        WorkersView view(runs, state);
        view.resize(900, 600);
        view.show();
        QVERIFY(view.words().contains("No run"));
        QVERIFY(!view.asTable().problem.isEmpty());
        view.grab();
        const auto data = meeting(served);
        state.setCurrentRun(runs.add(data, "served"));
        view.grab();
        CoursePlot& plot = view.plot();
        QTest::mouseClick(plot.viewport(), Qt::LeftButton, {}, plot.rectOf(3).center().toPoint());
        const int chosen = plot.selected();
        QVERIFY(chosen >= 0);
        auto* table = view.findChild<QTableView*>();
        QCOMPARE(table->currentIndex().row(), chosen);
        table->selectRow(chosen + 5);
        QCOMPARE(plot.selected(), chosen + 5);
        QCOMPARE(view.asTable().rows.size(), data->workers->spans.size());
        plot.setFocus();
        const double length = plot.end() - plot.begin();
        QTest::keyClick(&plot, Qt::Key_W);
        QVERIFY(plot.end() - plot.begin() < 0.7 * length);
        const double begin = plot.begin();
        QTest::keyClick(&plot, Qt::Key_D);
        QVERIFY(plot.begin() > begin);
        table->selectRow(static_cast<int>(data->workers->spans.size()) - 1);
        QVERIFY2(plot.end() > data->workers->spans.back().begin_s, "what is chosen is shown");
        QTest::keyClick(&plot, Qt::Key_Home);
        QCOMPARE(plot.end() - plot.begin(), length);
        view.grab();
        state.setCurrentRun(runs.add(flowing("2bw", 8), "a pipeline"));
        QVERIFY(!view.asTable().problem.isEmpty());
        view.grab();
    }

    void modelIsSound() {
        CourseModel model;
        const QAbstractItemModelTester tester(&model, QAbstractItemModelTester::FailureReportingMode::Fatal);
        QCOMPARE(model.rowCount(), 0);
        auto course = std::make_shared<WorkersCourse>(course_of(*meeting(served)));
        model.setCourse(course);
        QCOMPARE(model.rowCount(), static_cast<int>(course->spans.size()));
        QCOMPARE(model.data(model.index(0, CourseModel::takes), export_role).toDouble(), course->spans[0].end_s - course->spans[0].begin_s);
        model.setCourse(nullptr);
        QCOMPARE(model.rowCount(), 0);
    }
};

QTEST_MAIN(WorkersTest)
#include "workers_test.moc"
