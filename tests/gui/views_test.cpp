// Is the frontier the frontier, do placements hold what the plan says, do links carry the trace's bytes, does a sweep's map show its best?
#include "gui/breakdown/pareto.hpp"
#include "gui/parts/legend.hpp"
#include "gui/placement/grid.hpp"
#include "gui/placement/placement_view.hpp"
#include "gui/sweep/heat_plot.hpp"
#include "gui/sweep/sweep_view.hpp"
#include "gui/topology/cluster_plot.hpp"
#include "gui/topology/links_model.hpp"
#include "gui/topology/topology_view.hpp"
#include "topology/catalog.hpp"
#include "topology/torus.hpp"

#include <QAbstractItemModelTester>
#include <QComboBox>
#include <QSignalSpy>
#include <QSlider>
#include <QTableView>
#include <QTemporaryDir>
#include <QtTest/QTest>

#include <map>
#include <numeric>
#include <set>

using namespace orrery;

namespace {

constexpr int patience = 60000;

std::string scenario(const std::string& strategy, const std::string& model = "") {
    return R"({"name": "s", "model": {"name": "tiny", "layers": 8, "hidden_size": 512, "attention_heads": 8, "vocab_size": 1024)" + model +
           R"(},
  "cluster": {"preset": "dgx-a100-80gb", "nodes": 2},
  "training": {"global_batch_size": 32, "micro_batch_size": 1, "sequence_length": 512, "precision": "bf16"},
  "strategy": {"framework": "megatron", )" +
           strategy + "}}";
}

std::shared_ptr<const RunData> simulated(const std::string& text) {
    return simulate_run(text, {}, [](const QString&) { return true; });
}

constexpr const char* sweep = R"({"name": "sweep", "model": {"layers": 4, "hidden_size": 512, "attention_heads": 8, "vocab_size": 1024},
  "cluster": {"preset": "dgx-a100-80gb", "nodes": 1}, "training": {"global_batch_size": 32, "micro_batch_size": 1, "sequence_length": 512}, "strategy": {},
  "sweep": {"/strategy/tensor_parallel": [1, 2, 3], "/strategy/pipeline_parallel": [1, 2], "/training/micro_batch_size": [1, 2]}})";

} // namespace

class ViewsTest : public QObject {
    Q_OBJECT
  private Q_SLOTS:
    void nothingOnTheFrontierIsBeaten() {
        std::vector<ParetoPoint> points;
        for (int i = 0; i < 200; ++i)
            points.push_back({i + 1, {}, static_cast<double>(i * 7919 % 101), static_cast<double>(i * 104729 % 97), i % 3 != 0});
        const auto best = frontier(points);
        const std::set<std::size_t> on(best.begin(), best.end());
        QVERIFY(!best.empty());
        for (std::size_t i = 0; i < points.size(); ++i) {
            if (!points[i].fits) QVERIFY(!on.contains(i));
            const bool beaten = std::any_of(points.begin(), points.end(), [&](const ParetoPoint& p) {
                return p.fits && p.x <= points[i].x && p.y <= points[i].y && (p.x < points[i].x || p.y < points[i].y);
            });
            if (beaten) QVERIFY(!on.contains(i));
        }
    }

    void pointsAreBrushedByDragAndKeys() {
        ParetoPlot plot;
        const auto words = [](std::optional<double> v) { return QString::number(v.value_or(0)); };
        plot.setAxes("x", words, "y", words);
        plot.setPoints({{1, "a", 1, 4, true}, {2, "b", 2, 2, true}, {3, "c", 4, 1, false}});
        plot.resize(500, 400);
        plot.show();
        QVERIFY(QTest::qWaitForWindowExposed(&plot));
        std::vector<RunId> got;
        connect(&plot, &ParetoPlot::brushed, &plot, [&](const std::vector<RunId>& ids) { got = ids; });
        QTest::mouseClick(&plot, Qt::LeftButton, {}, plot.place(1).toPoint());
        QCOMPARE(got, std::vector<RunId>{2});
        const QPoint from = plot.place(0).toPoint() - QPoint(12, 12), to = plot.place(1).toPoint() + QPoint(12, 12);
        QTest::mousePress(&plot, Qt::LeftButton, {}, from);
        QTest::mouseMove(&plot, to);
        QTest::mouseRelease(&plot, Qt::LeftButton, {}, to);
        QCOMPARE(got, (std::vector<RunId>{1, 2}));
        plot.setBrushed({}, 0);
        plot.setFocus();
        QTest::keyClick(&plot, Qt::Key_Right);
        QTest::keyClick(&plot, Qt::Key_Space);
        QCOMPARE(got.size(), std::size_t(1));
    }

    void everyLayerIsHeldOnceByEachReplica() {
        const auto data = simulated(scenario(R"("tensor_parallel": 2, "pipeline_parallel": 4, "zero_stage": 1)"));
        const Placements p = placements(*data->plan, *data->scenario);
        QCOMPARE(p.devices.size(), std::size_t(16));
        std::multiset<int> layers;
        for (const StageHoldings& stage : p.stages)
            for (const ChunkLayers& c : stage.chunks)
                for (int l = c.first; l <= c.last; ++l) layers.insert(l);
        QCOMPARE(layers.size(), std::size_t(8));
        QCOMPARE(std::set<int>(layers.begin(), layers.end()).size(), std::size_t(8));
        QVERIFY(p.stages.front().chunks.front().embedding);
        QVERIFY(p.stages.back().chunks.back().loss);
        QCOMPARE(split_words(p.stages[1].parameters, p.mesh), QString("split over tensor 2"));
        QVERIFY(split_words(p.stages[1].optimizer, p.mesh).contains("data 2"));
    }

    void expertsAreSharedOut() {
        const auto data = simulated(
            scenario(R"("expert_parallel": 4, "zero_stage": 1)", R"(, "moe": {"experts": 8, "top_k": 2, "expert_ffn_size": 1024})"));
        QVERIFY2(data->plan.has_value(), to_text(data->problems).c_str());
        const Placements p = placements(*data->plan, *data->scenario);
        QCOMPARE(p.experts_each(), 2);
        std::map<int, int> holders;
        for (const DevicePlace& d : p.devices)
            for (int e = 0; e < p.experts_each(); ++e) ++holders[p.first_expert(d) + e];
        QCOMPARE(holders.size(), std::size_t(8));
        for (const auto& [expert, n] : holders) QCOMPARE(n, 4);
        QVERIFY(p.stages[0].expert_parameters.bytes.count > 0);
    }

    void noTwoDevicesAreDrawnInOnePlace() {
        for (const char* strategy : {R"("tensor_parallel": 2, "pipeline_parallel": 4)", R"("tensor_parallel": 4, "context_parallel": 2)",
                                     R"("tensor_parallel": 8)"}) {
            const auto data = simulated(scenario(strategy));
            QVERIFY2(data->plan.has_value(), to_text(data->problems).c_str());
            const Placements p = placements(*data->plan, *data->scenario);
            for (Arrangement a : {Arrangement::nodes, Arrangement::axes}) {
                const Grid g = grid(p, a, 1.6);
                QCOMPARE(g.cells.size(), p.devices.size());
                std::set<std::pair<int, int>> places;
                for (const QRectF& c : g.cells) {
                    places.insert({static_cast<int>(c.left() * 100), static_cast<int>(c.top() * 100)});
                    QVERIFY(c.right() <= g.size.width() && c.bottom() <= g.size.height());
                }
                QCOMPARE(places.size(), g.cells.size());
            }
        }
    }

    void devicesAreChosenByClickDragAndKeys() {
        RunStore store;
        ViewState state;
        const RunId id = store.add(simulated(scenario(R"("tensor_parallel": 2, "pipeline_parallel": 4)")), "a");
        state.setCurrentRun(id);
        PlacementView view(store, state);
        view.resize(900, 500);
        view.show();
        QVERIFY(QTest::qWaitForWindowExposed(&view));
        PlacementPlot& plot = view.plot();
        QTest::mouseClick(plot.viewport(), Qt::LeftButton, {}, plot.cellRect(5).center().toPoint());
        QCOMPARE(state.selectedRanks(), std::vector<std::int32_t>{5});
        QTest::mouseClick(plot.viewport(), Qt::LeftButton, Qt::ControlModifier, plot.cellRect(9).center().toPoint());
        QCOMPARE(state.selectedRanks(), (std::vector<std::int32_t>{5, 9}));
        plot.setFocus();
        QTest::keyClick(&plot, Qt::Key_Escape);
        QVERIFY(state.selectedRanks().empty());
        QTest::keyClick(&plot, Qt::Key_Space);
        QCOMPARE(state.selectedRanks(), std::vector<std::int32_t>{9});
        QVERIFY(device_text(*plot.placements(), plot.placements()->devices[5]).contains("rank 5"));
    }

    void linksCarryTheTracesBytes() {
        const auto data = simulated(scenario(R"("tensor_parallel": 2, "pipeline_parallel": 4)"));
        const Trace& trace = *data->trace;
        QVERIFY(!trace.links.empty());
        const auto whole = utilisation(trace, 0, 0);
        const double step = (trace.end - trace.begin).seconds();
        for (std::size_t s = 0; s < trace.links.size(); ++s) {
            const double bytes =
                static_cast<double>(std::accumulate(trace.links[s].bytes.begin(), trace.links[s].bytes.end(), std::int64_t{0}));
            QVERIFY(std::abs(whole[s] * step * trace.links[s].capacity - bytes) <= 1e-6 * bytes + 1);
        }
        // Two halves make the whole, wherever the cut is.
        const std::int64_t end = (trace.end - trace.begin).ps, cut = end / 7 * 3;
        const auto a = utilisation(trace, 0, cut), b = utilisation(trace, cut, end);
        for (std::size_t s = 0; s < whole.size(); ++s)
            QVERIFY(std::abs(a[s] * static_cast<double>(cut) + b[s] * static_cast<double>(end - cut) -
                             whole[s] * static_cast<double>(end)) < 1e-6 * static_cast<double>(end));
        for (const LinkLoadRow& row : link_loads(trace)) QVERIFY2(row.peak < 1.02 && row.mean <= row.peak + 1e-12, row.name.c_str());
    }

    void linksAlikeShareWhatOneShows() {
        const auto data = simulated(scenario(R"("tensor_parallel": 8)"));
        const Fabric fabric(data->scenario->cluster);
        const std::vector<int> series = series_of_links(fabric, *data->trace);
        for (std::size_t s = 0; s < data->trace->links.size(); ++s) { // never more links than the trace says are alike
            const auto n = std::count(series.begin(), series.end(), static_cast<int>(s));
            QVERIFY(n == 1 || n == data->trace->links[s].twins);
        }
        for (std::size_t i = 0; i < series.size(); ++i) // all devices do the same here: no link of theirs is left without
            if (fabric.links()[i].kind == LinkKind::scale_up) QVERIFY2(series[i] >= 0, fabric.link_name(static_cast<LinkId>(i)).c_str());
    }

    // A folded simulation and an unfolded run agree about links that are alike: the same bytes on each of them.
    void linksAlikeAreThoseTheSimulationFolded() {
        for (const char* strategy :
             {R"("tensor_parallel": 4, "pipeline_parallel": 2, "zero_stage": 1)", R"("context_parallel": 2, "pipeline_parallel": 2)"}) {
            const auto data = simulated(scenario(strategy));
            const Fabric fabric(data->scenario->cluster);
            QCOMPARE(data->link_class.size(), fabric.links().size());
            const CostModel cost(*data->scenario, fabric);
            SimulateOptions apart;
            apart.fold = false;
            const Simulation each = simulate(*data->plan, *data->scenario, fabric, cost, apart);
            std::vector<double> bytes(fabric.links().size(), 0);
            for (const LinkUse& l : each.links) bytes[l.link] = l.bytes;
            std::vector<int> members(data->links.size(), 0);
            for (std::size_t l = 0; l < bytes.size(); ++l) {
                const std::int32_t c = data->link_class[l];
                QCOMPARE(c < 0 ? 0 : data->links[c].bytes, bytes[l]);
                if (c >= 0) ++members[c];
            }
            for (std::size_t c = 0; c < members.size(); ++c) QCOMPARE(members[c], data->links[c].twins);
        }
    }

    void theClusterIsDrawnWithItsLinks() {
        const auto data = simulated(scenario(R"("tensor_parallel": 2, "pipeline_parallel": 4)"));
        const Fabric fabric(data->scenario->cluster);
        const ClusterPicture p = picture(fabric, *data->trace, 8);
        const auto devices =
            std::count_if(p.vertices.begin(), p.vertices.end(), [](const auto& v) { return v.kind == ExplicitGraph::VertexKind::device; });
        QCOMPARE(static_cast<int>(devices), 8 * p.nodes);
        QCOMPARE(p.nodes + p.nodes_left_out, 2);
        std::set<int> series;
        for (const auto& e : p.edges)
            if (e.series >= 0) series.insert(e.series);
        QCOMPARE(series.size(), data->trace->links.size());
        for (const auto& v : p.vertices) QVERIFY(v.x >= 0 && v.x <= p.width && v.level >= 0 && v.level < p.levels);
    }

    // Switches, then sockets with the host's memory, then NICs; what is down is said to be.
    void levelsOfANodeAndLinksThatAreDown() {
        Cluster c = *find_cluster("dgx-h100");
        c.nodes = 4;
        c.inter.nodes_per_leaf = 2;
        c.intra.tree.devices_per_switch = 2;
        c.intra.tree.sockets = 2;
        c.inter.down = {LinkDown{.node = 1, .nic = 3}, LinkDown{.leaf = 0, .uplinks = 1}};
        const Fabric fabric(c);
        const ClusterPicture p = picture(fabric, Trace{}, 4);
        std::map<std::string, int> level;
        for (const auto& v : p.vertices) level[v.name] = v.level;
        QCOMPARE(level.at("node0.gpu0"), 0);
        QCOMPARE(level.at("node0.pcie0"), 1);
        QCOMPARE(level.at("node0.socket1"), 2);
        QCOMPARE(level.at("node0.nic0"), 3);
        QCOMPARE(level.at("leaf0"), 4);
        std::set<std::string> down;
        for (const auto& e : p.edges)
            if (e.down) down.insert(fabric.link_name(e.link));
        QCOMPARE(down, (std::set<std::string>{"leaf0 > spine0", "node1.nic3 > leaf3", "leaf3 > node1.nic3", "spine0 > leaf0"}));
    }

    // Four slices of four rows and columns; every device has six links, and none leaves the grid.
    void aTorusIsDrawnAsAGrid() {
        const auto data = simulated(R"({"name": "t", "model": {"layers": 2, "hidden_size": 512, "attention_heads": 8, "vocab_size": 1024},
            "cluster": {"preset": "tpu-v5p-pod", "nodes": 16}, "training": {"global_batch_size": 64, "sequence_length": 512},
            "strategy": {"framework": "jax"}})");
        const Cluster& c = data->scenario->cluster;
        const auto rows = torus_rows(c);
        QVERIFY(rows.has_value());
        QCOMPARE(*rows, (std::array<int, 3>{4, 4, 4}));
        std::vector<LinkId> like;
        for (std::int32_t one : data->link_class) like.push_back(one < 0 ? -1 : data->links[one].link);
        ClusterPicture p = picture(Fabric(c), *data->trace, 16, like);
        lay_as_grid(p, *rows, c.devices_per_node);
        QCOMPARE(p.vertices.size(), 64u);
        QCOMPARE(p.levels, 4);
        std::set<std::pair<double, int>> places;
        std::vector<int> links(p.vertices.size(), 0);
        for (const auto& v : p.vertices) places.insert({v.x, v.level});
        QCOMPARE(places.size(), 64u);
        for (const auto& e : p.edges) {
            ++links[e.from];
            const auto &from = p.vertices[e.from], &to = p.vertices[e.to];
            QVERIFY(from.x == to.x || from.level == to.level);
        }
        for (int n : links) QCOMPARE(n, 6);
        QVERIFY(!torus_rows(*find_cluster("dgx-h100")).has_value());
    }

    void namesOfTheClusterLieApart() {
        const auto data = simulated(scenario(R"("tensor_parallel": 2, "pipeline_parallel": 4)"));
        ClusterPlot plot;
        plot.setPicture(picture(Fabric(data->scenario->cluster), *data->trace, 8));
        std::size_t most = 0;
        for (int width : {300, 600, 2400}) {
            plot.resize(width, 400);
            const std::vector<ClusterPlot::Label> labels = plot.labels();
            QVERIFY(labels.size() >= most); // more room, more names
            most = labels.size();
            for (std::size_t i = 0; i < labels.size(); ++i) {
                QVERIFY(QRectF(plot.rect()).contains(labels[i].at));
                for (std::size_t j = 0; j < i; ++j) QVERIFY(!labels[i].at.intersects(labels[j].at));
            }
        }
        QVERIFY(most > 16);
    }

    void switchesOfANodeLieApart() {
        const auto data = simulated(scenario(R"("tensor_parallel": 2, "pipeline_parallel": 4)"));
        const ClusterPicture drawn = picture(Fabric(data->scenario->cluster), *data->trace, 1);
        ClusterPlot plot;
        plot.setPicture(drawn);
        plot.resize(353, 340); // a window of 1200 pixels
        const auto number = [](std::size_t i) { return static_cast<int>(i); };
        for (std::size_t i = 0; i < drawn.vertices.size(); ++i)
            for (std::size_t j = 0; j < i; ++j)
                QVERIFY2(!plot.shape(number(i)).intersects(plot.shape(number(j))),
                         (drawn.vertices[i].name + " lies on " + drawn.vertices[j].name).c_str());
    }

    void theScrubberMovesTheCursor() {
        RunStore store;
        ViewState state;
        state.setCurrentRun(store.add(simulated(scenario(R"("tensor_parallel": 2, "pipeline_parallel": 4)")), "a"));
        TopologyView view(store, state);
        QAbstractItemModelTester tester(&view.links(), QAbstractItemModelTester::FailureReportingMode::QtTest);
        QVERIFY(view.links().rowCount() > 0);
        QVERIFY(view.scrubber().maximum() > 1);
        view.show();
        view.scrubber().setFocus();
        QTest::keyClick(&view.scrubber(), Qt::Key_Right);
        QVERIFY(state.cursor() > 0);
        QVERIFY(!view.verdict().isEmpty());
    }

    void aSweepRunsStopsAndGoesOn() {
        QTemporaryDir folder;
        RunStore store;
        ViewState state;
        SweepView view(store, state);
        QAbstractItemModelTester tester(&view.model(), QAbstractItemModelTester::FailureReportingMode::QtTest);
        view.setDatabase(folder.filePath("s.sqlite"));
        QVERIFY(view.load(sweep, {}, "s").empty());
        QCOMPARE(view.model().rowCount(), 12);
        QSignalSpy running(&view, &SweepView::runningChanged);
        view.start();
        view.cancel();
        QTRY_VERIFY_WITH_TIMEOUT(!view.running(), patience);
        view.start();
        QTRY_VERIFY_WITH_TIMEOUT(!view.running(), patience);
        QCOMPARE(running.size(), 4);
        for (std::size_t point = 0; point < 12; ++point) QVERIFY(view.model().row(point) && !view.model().row(point)->hash.empty());
        QVERIFY(!view.load(R"({"sweep": 3})", {}, "wrong").empty());
    }

    void theMapShowsTheBestOfEachCell() {
        QTemporaryDir folder;
        RunStore store;
        ViewState state;
        SweepView view(store, state);
        view.setDatabase(folder.filePath("s.sqlite"));
        QVERIFY(view.load(sweep, {}, "s").empty());
        view.start();
        QTRY_VERIFY_WITH_TIMEOUT(!view.running(), patience);
        const HeatMap map = heat_map(view.model(), 0, 1, HeatMetric::step_time);
        QCOMPARE(map.columns.size(), std::size_t(3));
        QCOMPARE(map.rows.size(), std::size_t(2));
        QVERIFY(!map.cell(2, 0).value);     // three divides nothing
        QVERIFY(map.cell(2, 0).point >= 0); // and says why
        for (std::size_t c = 0; c < 2; ++c) {
            double best = 1e9;
            for (std::size_t point = 0; point < 12; ++point) {
                const SweepPoint p = view.model().document()->point(static_cast<std::int64_t>(point));
                if (p.values[0] == map.columns[c] && p.values[1] == map.rows[1] && view.model().row(point)->status == PointStatus::fits)
                    best = std::min(best, view.model().row(point)->step_time_s);
            }
            QCOMPARE(*map.cell(c, 1).value, best);
        }
        view.resize(1000, 400);
        view.show();
        QVERIFY(QTest::qWaitForWindowExposed(&view));
        QTest::mouseClick(&view.heat(), Qt::LeftButton, {}, view.heat().cellRect(0, 1).center().toPoint());
        QVERIFY(view.table().selectionModel()->hasSelection());
        QTest::keyClick(&view.table(), Qt::Key_Return);
        QTRY_VERIFY_WITH_TIMEOUT(!store.busy() && store.runs().size() == 1, patience);
        const Report& report = *store.runs().front().data->report;
        QCOMPARE(report.step_time_s, *heat_map(view.model(), 0, 1, HeatMetric::step_time).cell(0, 1).value);
    }

    // A scenario that cannot be run says why, instead of nothing.
    void pointsThatCannotBeSaySo() {
        QTemporaryDir folder;
        RunStore store;
        ViewState state;
        SweepView view(store, state);
        view.setDatabase(folder.filePath("s.sqlite"));
        QVERIFY(view.load(sweep, {}, "s").empty());
        view.start();
        QTRY_VERIFY_WITH_TIMEOUT(!view.running(), patience);
        QSignalSpy failed(&view, &SweepView::failed);
        const HeatMap map = heat_map(view.model(), 0, 1, HeatMetric::step_time);
        view.selectPoint(static_cast<int>(map.cell(2, 0).point)); // three divides nothing
        view.addSelected();
        QVERIFY(store.runs().empty());
        QCOMPARE(failed.size(), 1);
        QVERIFY2(failed[0][1].toString().contains("tensor_parallel"), qPrintable(failed[0][1].toString()));
    }

    // A point says how narrowly it fits, as the run itself does.
    void sweptPointsSayHowNarrow() {
        SweepRow row;
        row.status = PointStatus::fits;
        row.capacity_bytes = 1000;
        row.peak_bytes = 990;
        row.memory_error_bar = 0.05;
        QCOMPARE(status_words(row), QString("fits, narrowly"));
        row.peak_bytes = 500;
        QCOMPARE(status_words(row), QString("fits"));
        row.status = PointStatus::too_big;
        row.peak_bytes = 1010;
        QCOMPARE(status_words(row), QString("too big, narrowly"));
    }

    void thePlacementHasALegend() {
        RunStore store;
        ViewState state;
        state.setCurrentRun(store.add(simulated(scenario(R"("tensor_parallel": 2, "pipeline_parallel": 4)")), "a"));
        PlacementView view(store, state);
        auto* legend = view.findChild<Legend*>();
        QVERIFY(legend);
        QCOMPARE(legend->entries().size(), std::size_t(4));
        QCOMPARE(legend->entries()[0].text, QString("stage 0: layers 0-1"));
        // Each shade stands out from the ground it is drawn on.
        const QColor base = QColor(Qt::white);
        for (int i = 0; i < 8; ++i) {
            const QColor c = shade_colour({i, 8}, false);
            QVERIFY2(std::abs(qGray(c.rgb()) - qGray(base.rgb())) >= 20, qPrintable(c.name()));
        }
        for (QComboBox* box : view.findChildren<QComboBox*>())
            for (int i = 0; i < box->count(); ++i)
                QVERIFY2(box->sizeHint().width() >= box->fontMetrics().horizontalAdvance(box->itemText(i)), qPrintable(box->itemText(i)));
    }

    void aSweepsSelectorsAreAsWideAsTheirNames() {
        QTemporaryDir folder;
        RunStore store;
        ViewState state;
        SweepView view(store, state);
        view.resize(1200, 500);
        view.show();
        QVERIFY(view.load(sweep, {}, "s").empty());
        for (QComboBox* box : view.findChildren<QComboBox*>())
            for (int i = 0; i < box->count(); ++i)
                QVERIFY2(box->sizeHint().width() >= box->fontMetrics().horizontalAdvance(box->itemText(i)) + 20,
                         qPrintable(box->itemText(i)));
    }
};

QTEST_MAIN(ViewsTest)
#include "views_test.moc"
