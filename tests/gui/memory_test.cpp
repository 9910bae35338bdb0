// Is no peak lost at any zoom, and does the view say when memory is full and of what?
#include "gui/app/palettes.hpp"
#include "gui/memory/memory_chart.hpp"
#include "gui/memory/memory_view.hpp"
#include "gui/memory/models.hpp"
#include "tests/gui/synthetic.hpp"

#include <QAbstractItemModelTester>
#include <QComboBox>
#include <QGuiApplication>
#include <QImage>
#include <QLabel>
#include <QPalette>
#include <QToolButton>
#include <QtTest/QTest>

using namespace orrery;

namespace {

constexpr std::int64_t gb = 1'000'000'000, us = 1'000'000;

// One lane whose memory rises to 90 GB for an instant, on a device of 80.
std::shared_ptr<RunData> spiky() {
    Trace t;
    t.queues = {"compute"};
    t.ops = synthetic::ops();
    t.memory_kinds = {"parameters", "gradients", "optimizer states", "activations", "communication", "workspace", "reserved"};
    Lane lane;
    for (int i = 0; i < 1000; ++i) {
        lane.spans.push_back({{i * us}, {(i + 1) * us}, i % 16 * 4, i / 100, 0, SpanKind::op, WaitCause::none, -1});
        const std::int64_t high = i == 567 ? 60 * gb : i % 20 * gb;
        lane.memory.push_back({{i * us}, {10 * gb, 5 * gb, 10 * gb, high, 0, 0, 5 * gb}});
    }
    t.lanes = {lane};
    t.end = {1000 * us};
    auto data = std::make_shared<RunData>();
    data->trace = std::move(t);
    data->tracks = std::make_shared<const TrackStore>(tracks_of(*data->trace));
    Report report;
    report.memory.capacity = Bytes{80 * gb};
    StageMemory stage;
    stage.peak_op_name = "l7.qkv.fwd (microbatch 5)";
    stage.largest = {{"c*.l*.qkv", Bytes{40 * gb}, 32}, {"w.l*.fc1", Bytes{6 * gb}, 16}};
    stage.reserve = {{"CUDA context", Bytes{5 * gb}, "a published table", MemoryMeasure::device}};
    report.memory.stages = {stage};
    data->report = report;
    return data;
}

} // namespace

class MemoryTest : public QObject {
    Q_OBJECT
  private Q_SLOTS:
    void noPeakIsLost() {
        const auto data = spiky();
        const MemorySeries s = memory_of(*data, 0);
        QCOMPARE(s.at.size(), std::size_t(1000));
        QCOMPARE(s.peak, 567);
        QCOMPARE(s.runs_out, 567);
        for (int columns : {3, 50, 999, 4000}) {
            const Columns c{0, 1000 * us, columns};
            const auto highest = highest_in_columns(s, c);
            for (int i = 0; i < columns; ++i) {
                std::int64_t most = 0; // by brute force: the level at the column's begin and every one that starts in it
                for (int k = 0; k < 1000; ++k)
                    if (s.at[k] < c.edge(i + 1) && (k + 1 == 1000 || s.at[static_cast<std::size_t>(k) + 1] > c.edge(i)))
                        most = std::max(most, s.total[k]);
                QCOMPARE(s.total[highest[i]], most);
            }
        }
    }

    void theViewSaysWhereItRunsOut() {
        RunStore runs;
        ViewState state;
        MemoryView view(runs, state);
        view.resize(900, 500);
        view.show();
        state.setCurrentRun(runs.add(spiky(), "spiky"));
        QString words;
        for (const QLabel* l : view.findChildren<QLabel*>())
            if (l->text().contains("Peak")) words = l->text();
        QVERIFY(words.contains("90.00 GB") && words.contains("l7.qkv.fwd (microbatch 5)"));
        QVERIFY(words.contains("runs out at l7.qkv.fwd (microbatch 5); the peak is 10.00 GB too large"));
        QVERIFY(view.chart().yOf(80 * gb) > view.chart().yOf(90 * gb));
    }

    void theViewSaysWhatLiesOffTheDevice() {
        const auto data = spiky();
        NodeMemory& host = data->report->memory.host;
        host.used.peak = Bytes{38 * gb};
        host.used.by_kind[MemoryKind::parameters] = Bytes{16 * gb};
        host.used.by_kind[MemoryKind::optimizer_states] = Bytes{22 * gb};
        host.capacity = Bytes{64 * gb};
        data->report->memory.disk.used.peak = Bytes{96 * gb};
        data->report->memory.disk.used.by_kind[MemoryKind::optimizer_states] = Bytes{96 * gb};
        data->report->memory.disk.capacity = Bytes{90 * gb};
        RunStore runs;
        ViewState state;
        MemoryView view(runs, state);
        state.setCurrentRun(runs.add(data, "spiky"));
        const auto* tiers = view.findChild<TiersModel*>();
        const auto cell = [&](int row, int column) { return tiers->data(tiers->index(row, column)).toString(); };
        QCOMPARE(tiers->rowCount(), 3);
        QCOMPARE(cell(1, TiersModel::where), QString("memory of the fullest node"));
        QCOMPARE(cell(1, TiersModel::peak), QString("38.00 GB"));
        QCOMPARE(cell(1, TiersModel::capacity), QString("64.00 GB"));
        QCOMPARE(cell(1, TiersModel::free), QString("26.00 GB"));
        QCOMPARE(cell(1, TiersModel::verdict), QString("fits"));
        QCOMPARE(cell(1, TiersModel::kinds), QString("optimizer states 22.00 GB, parameters 16.00 GB"));
        QCOMPARE(cell(2, TiersModel::verdict), QString("6.00 GB too large"));
        QVERIFY(view.chartOf(Space::host).isHidden()); // no trace says when
    }

    // Of a scenario with states on the host and on NVMe: what is drawn is what the report says.
    void curvesOfTheHostAndTheDisk() {
        const auto data = simulate_run(
            R"({"model": "gpt2-124m",
                "cluster": {"device": "rtx-4090", "nodes": 1, "devices_per_node": 2,
                            "host": {"memory_gb": 64, "memory_gb_per_s": 80, "pcie_gb_per_s": 32, "nvme_gb": 500, "nvme_read_gb_per_s": 7,
                                     "nvme_write_gb_per_s": 6}},
                "training": {"global_batch_size": 8, "micro_batch_size": 2, "sequence_length": 512, "precision": "bf16"},
                "strategy": {"framework": "deepspeed", "zero_stage": 3, "recompute": "full",
                             "offload": {"optimizer": "nvme", "gradients": "cpu", "parameters": "cpu", "activations": "cpu",
                                         "activation_ops": ["layer_input"]}}})",
            {}, [](const QString&) { return true; });
        QVERIFY(data && data->report && data->trace);
        const MemoryReport& m = data->report->memory;
        for (const auto& [space, there] : {std::pair{Space::host, &m.host}, {Space::nvme, &m.disk}}) {
            const MemorySeries s = memory_of_node(*data, space);
            QVERIFY(s.peak >= 0 && there->used.peak.count > 0);
            QCOMPARE(s.total[s.peak], there->used.peak.count); // alike ranks have their peaks together
            QCOMPARE(s.capacity, there->capacity.count);
        }
        const MemorySeries host = memory_of_node(*data, Space::host);
        QVERIFY(*std::min_element(host.total.begin(), host.total.end()) < host.total[host.peak]);
        RunStore runs;
        ViewState state;
        MemoryView view(runs, state);
        view.resize(900, 900);
        view.show();
        state.setCurrentRun(runs.add(data, "offloads"));
        for (const Space space : {Space::device, Space::host, Space::nvme}) QVERIFY(view.chartOf(space).isVisible());
        state.setTimeRange({10, 100 * us});
        QCOMPARE(view.chartOf(Space::nvme).range(), view.chart().range());
        QTest::keyClick(&view.chartOf(Space::host), Qt::Key_Home);
        QCOMPARE(state.timeRange().end, host.end);
        QCOMPARE(view.moreTables().size(), std::size_t(3));
        view.grab();
        state.setCurrentRun(runs.add(spiky(), "on the device alone"));
        QVERIFY(view.chartOf(Space::host).isHidden() && view.chartOf(Space::nvme).isHidden());
    }

    // What servers keep is on a node's memory all the time.
    void curveOfAServer() {
        const auto data = simulate_run(
            R"({"model": "gpt2-124m", "cluster": {"preset": "dgx-a100-80gb", "nodes": 4, "devices_per_node": 1},
                "training": {"global_batch_size": 32, "micro_batch_size": 8, "sequence_length": 1024, "precision": "bf16"},
                "strategy": {"framework": "ddp", "synchronization": {"kind": "parameter_server", "servers": 1}}})",
            {}, [](const QString&) { return true; });
        QVERIFY(data && data->report && data->trace);
        const MemorySeries s = memory_of_node(*data, Space::host);
        QCOMPARE(s.at.size(), std::size_t(1));
        QCOMPARE(s.total[0], data->report->memory.host.used.peak.count);
    }

    void itMovesWithTheOtherViews() {
        RunStore runs;
        ViewState state;
        MemoryView view(runs, state);
        view.resize(900, 700);
        view.show();
        state.setCurrentRun(runs.add(spiky(), "spiky"));
        state.setTimeRange({100 * us, 200 * us});
        QCOMPARE(view.chart().range(), (TimeRange{100 * us, 200 * us}));
        view.chart().setFocus();
        QTest::keyClick(&view.chart(), Qt::Key_W);
        QVERIFY(state.timeRange().length() < 70 * us);
        QTest::mouseClick(view.findChild<QToolButton*>(), Qt::LeftButton);
        QVERIFY(state.timeRange().begin < 567 * us && state.timeRange().end > 567 * us);
        auto* kinds = view.findChild<MemoryKindsModel*>();
        QCOMPARE(kinds->data(kinds->index(3, 2)).toString(), QString("60.00 GB"));
        state.setCursor(30 * us + 5);
        QCOMPARE(kinds->data(kinds->index(3, 1)).toString(), QString("10.00 GB"));
        QCOMPARE(kinds->data(kinds->index(7, 1)).toString(), QString("40.00 GB"));
        view.grab();
    }

    // One zero, and the dark theme's colours in the dark.
    void zeroAndColours() {
        QCOMPARE(bytes_text(0), QString("0 GB"));
        QCOMPARE(bytes_text(12), QString("12 B"));
        QCOMPARE(bytes_text(12'345), QString("12.3 kB"));
        RunStore runs;
        ViewState state;
        MemoryView view(runs, state);
        state.setCurrentRun(runs.add(spiky(), "spiky"));
        auto* kinds = view.findChild<MemoryKindsModel*>();
        const auto swatch = [&] { return kinds->data(kinds->index(0, 0), Qt::DecorationRole).value<QImage>(); };
        const QPalette before = QGuiApplication::palette();
        apply_theme(Theme::light);
        const QImage light = swatch();
        apply_theme(Theme::dark);
        const QImage dark = swatch();
        QGuiApplication::setPalette(before);
        QVERIFY(!light.isNull() && light != dark);
        QCOMPARE(dark.pixelColor(0, 0), memory_colour(0, true));
    }

    void modelsAreSound() {
        MemoryKindsModel kinds;
        AliveModel alive;
        TiersModel tiers;
        const QAbstractItemModelTester a(&kinds, QAbstractItemModelTester::FailureReportingMode::Fatal);
        const QAbstractItemModelTester b(&alive, QAbstractItemModelTester::FailureReportingMode::Fatal);
        const QAbstractItemModelTester c(&tiers, QAbstractItemModelTester::FailureReportingMode::Fatal);
        const auto data = spiky();
        tiers.setTiers(memory_tiers(*data));
        QCOMPARE(tiers.rowCount(), 1);
        kinds.setSeries(memory_of(*data, 0));
        kinds.setCursor(4);
        alive.setStage(&data->report->memory.stages[0]);
        QCOMPARE(alive.rowCount(), 3);
        QCOMPARE(alive.data(alive.index(0, 0)).toString(), QString("c*.l*.qkv"));
        QCOMPARE(alive.data(alive.index(2, 3)).toString(), QString("a published table"));
        alive.setStage(nullptr);
        QCOMPARE(alive.rowCount(), 0);
    }

    void runsWithoutMemoryAreSaid() {
        RunStore runs;
        ViewState state;
        MemoryView view(runs, state);
        view.show();
        view.grab();
        state.setCurrentRun(runs.add(run_of_trace(synthetic::trace({.lanes = 2, .slices = 100})), "no memory"));
        QCOMPARE(view.findChild<QComboBox*>()->count(), 2);
        view.grab();
        QTest::keyClick(&view.chart(), Qt::Key_W);
        auto report_only = std::make_shared<RunData>();
        report_only->report = spiky()->report;
        state.setCurrentRun(runs.add(report_only, "of a sweep"));
        view.grab();
    }
};

QTEST_MAIN(MemoryTest)
#include "memory_test.moc"
