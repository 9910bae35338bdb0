// Does "Find the best" fill the table while it runs, say why each is behind, stop when told, and open what is chosen?
#include "gui/app/actions.hpp"
#include "gui/app/main_window.hpp"
#include "gui/editor/presets.hpp"
#include "gui/search/found_points.hpp"
#include "gui/search/search_job.hpp"
#include "gui/strategies/strategies_model.hpp"
#include "gui/strategies/strategies_view.hpp"
#include "sim/scenario/abilities.hpp"

#include <QAbstractItemModelTester>
#include <QAction>
#include <QFile>
#include <QSignalSpy>
#include <QTableView>
#include <QTemporaryDir>
#include <QtTest/QTest>

#include <nlohmann/json.hpp>

using namespace orrery;

namespace {

constexpr int patience = 60000;

constexpr const char* scenario =
    R"({"name": "s", "model": {"name": "tiny", "layers": 8, "hidden_size": 512, "attention_heads": 8, "vocab_size": 1024},
  "cluster": {"preset": "dgx-a100-80gb", "nodes": 1},
  "training": {"global_batch_size": 32, "micro_batch_size": 1, "sequence_length": 512, "precision": "bf16"},
  "strategy": {"framework": "megatron", "tensor_parallel": 8, "schedule": "1f1b", "recompute": "full", "zero_stage": 1}})";

SweepRow row(const char* hash, double step, double bubble, double hfu) {
    SweepRow r;
    r.hash = hash, r.label = hash, r.status = PointStatus::fits, r.step_time_s = step, r.bubble_fraction = bubble, r.hfu = hfu;
    r.world_size = 8, r.peak_bytes = 40, r.capacity_bytes = 80, r.cost_usd = step, r.step_time_interval = {0.05, 0.17},
    r.tokens_per_s = 1 / step;
    return r;
}

} // namespace

class SearchTest : public QObject {
    Q_OBJECT
  private Q_SLOTS:
    void freesTheStrategyAndNothingElse() {
        const auto j = nlohmann::json::parse(with_free_strategy(scenario));
        QVERIFY(j.at("strategy") == nlohmann::json({{"framework", "megatron"}}));
        QVERIFY(!j.at("training").contains("micro_batch_size"));
        QCOMPARE(j.at("training").at("global_batch_size").get<int>(), 32);
        QCOMPARE(with_free_strategy("no scenario"), std::string("no scenario"));
        QVERIFY2(schedules_beside_own(scenario).empty(), "the framework has 1f1b: all that it has are searched");
        QVERIFY2(schedules_beside_own(R"({"strategy": {"schedule": "zb-v"}})").empty(), "no framework is named");
        const auto space = nlohmann::json::parse(schedules_beside_own(R"({"strategy": {"framework": "megatron", "schedule": "zb-v"}})"));
        QVERIFY(space.at("/strategy/schedule") == nlohmann::json({"1f1b", "interleaved-1f1b", "none", "zb-v"}));
    }

    // Where what predicts further tokens lies, and how many microbatches take turns, belong to the stages that go.
    void freesWhatBelongsToThePipeline() {
        auto j = nlohmann::json::parse(scenario);
        j["strategy"]["pipeline_parallel"] = 2, j["strategy"]["virtual_pipeline"] = 2, j["strategy"]["schedule"] = "interleaved-1f1b";
        j["strategy"]["layer_split"] = {3, 2, 2, 1}, j["strategy"]["mtp_chunk"] = 2, j["strategy"]["microbatch_group_size"] = 4;
        QVERIFY(nlohmann::json::parse(with_free_strategy(j.dump())).at("strategy") == nlohmann::json({{"framework", "megatron"}}));
        const auto tensor = nlohmann::json::parse(with_preset(j.dump(), "tensor", 8)),
                   kept = nlohmann::json::parse(with_preset(j.dump(), "recompute-none", 8));
        for (const char* field : {"virtual_pipeline", "schedule", "layer_split", "mtp_chunk", "microbatch_group_size"}) {
            QVERIFY2(!tensor.contains(field), field);
            QVERIFY2(kept.contains(field), field);
        }
    }

    void saysWhyEachIsBehind() {
        const SweepRow best = row("best", 1, 0.05, 0.5);
        QVERIFY(behind(row("tie", 1.01, 0.05, 0.495), best).contains("tie"));
        QVERIFY(behind(row("bubble", 1.2, 0.20, 0.417), best).contains("bubble 20.0 % against 5.0 %"));
        QVERIFY(behind(row("again", 1.3, 0.05, 0.5), best).contains("30.0 % more FLOPs"));
        QVERIFY(behind(row("wires", 1.3, 0.05, 0.385), best).contains("communication"));
    }

    void keepsNumbersAndOrder() {
        FoundPoints found;
        found.add({row("b", 2, 0, 0.3), row("a", 3, 0, 0.2)});
        const auto before = found.points();
        QCOMPARE(before.size(), std::size_t{2});
        QCOMPARE(before.front().name, QStringLiteral("b"));
        QVERIFY(before.front().figures.note.contains("best so far"));
        SweepRow big = row("big", 0, 0, 0);
        big.status = PointStatus::too_big;
        found.add({row("b", 2, 0, 0.3), row("a", 3, 0, 0.2), row("c", 1, 0, 0.6), big});
        const auto after = found.points();
        QCOMPARE(after.size(), std::size_t{3});
        QCOMPARE(after.front().name, QStringLiteral("c"));
        QCOMPARE(after[1].number, before.front().number);
        QVERIFY(after[1].figures.note.contains("slower"));
        QVERIFY(after[1].figures.interval == (TimeInterval{0.05, 0.17}) && after[1].figures.cost_usd);
        QCOMPARE(found.tooBig(), 1);
        QVERIFY(found.scenario(after.front().number).empty());
    }

    // As simrun does: the fastest leads only where its memory is sure to be enough, and a refined strategy is one of those to choose from.
    void namesTheOneThatLeads() {
        SweepRow tight = row("tight", 1, 0, 0.6), roomy = row("roomy", 1.05, 0, 0.57);
        tight.peak_bytes = 78, tight.step_time_error_bar = 0.1; // of 80
        FoundPoints found;
        found.add({tight, roomy});
        QCOMPARE(found.points().front().name, QStringLiteral("roomy"));
        SearchResult result;
        result.proven = true;
        for (const SweepRow& r : {tight, roomy}) {
            result.points.emplace_back();
            result.points.back().row = r, result.points.back().score = r.step_time_s, result.points.back().json = r.hash;
        }
        found.finish(result);
        auto points = found.points();
        QCOMPARE(points.size(), std::size_t{2});
        QCOMPARE(points.front().name, QStringLiteral("roomy"));
        QVERIFY2(points.front().figures.note.contains("too little memory"), qPrintable(points.front().figures.note));
        QVERIFY2(points[1].figures.note.contains("4.8 % faster"), qPrintable(points[1].figures.note));
        SearchPoint refined = result.points.back();
        refined.row.hash = "refined", refined.row.step_time_s = 0.9, refined.refined = "layers 3 5", refined.json = "{}";
        result.refined = {refined};
        found.finish(result);
        points = found.points();
        QCOMPARE(points.size(), std::size_t{3});
        QCOMPARE(points.front().name, QStringLiteral("roomy; layers 3 5"));
        QVERIFY2(points.front().figures.note.contains("refined"), qPrintable(points.front().figures.note));
        QCOMPARE(found.scenario(points.front().number), std::string("{}"));
    }

    void searchesInTheBackgroundAndStops() {
        SearchJob job;
        std::size_t came = 0;
        SearchResult result;
        QString error;
        bool over = false;
        connect(&job, &SearchJob::rowsCame, this, [&](const std::vector<SweepRow>& rows) { came = rows.size(); });
        connect(&job, &SearchJob::finished, this, [&](const SearchResult& r, const QString& e) { result = r, error = e, over = true; });
        job.start(with_free_strategy(scenario), {}, schedules_beside_own(scenario));
        QTRY_VERIFY_WITH_TIMEOUT(over, patience);
        QVERIFY2(error.isEmpty() && result.problems.empty(), qPrintable(error));
        QVERIFY(result.proven && came >= result.points.size() && !job.running());
        FoundPoints found;
        found.finish(result);
        const auto points = found.points();
        QVERIFY(!points.empty());
        QVERIFY(points.front().figures.note.startsWith("the best"));
        QVERIFY(!found.scenario(points.front().number).empty());
        over = false;
        job.start(with_free_strategy(scenario), {}, {});
        job.cancel();
        QTRY_VERIFY_WITH_TIMEOUT(over, patience);
        QVERIFY(!result.proven);
        over = false;
        job.start("{}", {}, {});
        QTRY_VERIFY_WITH_TIMEOUT(over, patience);
        QVERIFY(!result.problems.empty());
    }

    // The figures of a point that does not fit end in what would, here where states may go.
    void saysWhatWouldFit() {
        auto j = nlohmann::json::parse(scenario);
        j["model"] = "llama3-8b";
        j["cluster"] = {{"device", "rtx-4090"}, {"nodes", 1}, {"devices_per_node", 1}};
        j["strategy"] = {{"framework", "deepspeed"}};
        const auto data = simulate_run(j.dump(), {}, [](const QString&) { return true; });
        QVERIFY(data && data->problems.empty());
        const Figures f = figures(*data);
        QVERIFY(f.fits && !*f.fits);
        QVERIFY2(f.why_not.contains(QStringLiteral("more than the device's")), qPrintable(f.why_not));
        QVERIFY2(f.why_not.contains(QStringLiteral("the cheapest change found that fits: ")), qPrintable(f.why_not));
        QVERIFY2(f.why_not.contains(QStringLiteral("optimizer states on the host")), qPrintable(f.why_not));
        j["cluster"] = {{"preset", "dgx-a100-80gb"}, {"nodes", 1}};
        const auto fits = simulate_run(j.dump(), {}, [](const QString&) { return true; });
        QVERIFY(fits && fits->way_out.empty());
    }

    void commandFillsTheTableAndARowOpens() {
        Options options;
        options.fresh = true;
        options.size = QSize(1500, 900);
        MainWindow window(options);
        window.show();
        QTemporaryDir folder;
        QFile file(folder.filePath(QStringLiteral("s.json")));
        QVERIFY(file.open(QIODevice::WriteOnly) && file.write(scenario) > 0);
        file.close();
        window.open({file.fileName()});
        QTRY_VERIFY_WITH_TIMEOUT(window.idle(), patience);
        auto* strategies = qobject_cast<StrategiesView*>(window.view(QStringLiteral("strategies")));
        StrategiesModel& model = strategies->model();
        QAbstractItemModelTester tester(&model);
        QCOMPARE(model.rowCount(), 1);
        window.registry().find(QStringLiteral("run.find_best"))->trigger();
        QVERIFY(!window.idle());
        QTRY_VERIFY_WITH_TIMEOUT(window.idle(), patience);
        QVERIFY(model.rowCount() > 3);
        const auto cell = [&](int r, int column) { return model.index(r, column).data().toString(); };
        QVERIFY(cell(1, StrategiesModel::NoteColumn).startsWith("the best"));
        QVERIFY(!strategies->table().isColumnHidden(StrategiesModel::NoteColumn));
        QVERIFY(cell(1, StrategiesModel::IntervalColumn).contains("%"));
        QVERIFY(cell(1, StrategiesModel::CostColumn).contains("$"));
        for (int r = 2; r < model.rowCount(); ++r) QVERIFY2(!cell(r, StrategiesModel::NoteColumn).isEmpty(), qPrintable(cell(r, 0)));
        if (const QString picture = qEnvironmentVariable("ORRERY_PICTURE"); !picture.isEmpty()) window.grab().save(picture);
        const QString name = cell(1, StrategiesModel::NameColumn);
        Q_EMIT strategies->sweptRequested(swept_number(model.runAt(1)));
        QTRY_VERIFY_WITH_TIMEOUT(window.store().runs().size() == 2, patience);
        QTRY_VERIFY_WITH_TIMEOUT(window.idle(), patience);
        QCOMPARE(window.store().runs().back().name, name);
    }
};

QTEST_MAIN(SearchTest)
#include "search_test.moc"
