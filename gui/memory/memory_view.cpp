#include "gui/memory/memory_view.hpp"

#include "gui/memory/memory_chart.hpp"
#include "gui/memory/models.hpp"
#include "gui/parts/plain_table.hpp"
#include "gui/parts/run_label.hpp"
#include "topology/at.hpp"

#include <QComboBox>
#include <QCoreApplication>
#include <QHBoxLayout>
#include <QHeaderView>
#include <QLabel>
#include <QRegularExpression>
#include <QSignalBlocker>
#include <QSplitter>
#include <QTableView>
#include <QToolButton>
#include <QVBoxLayout>

namespace orrery {

namespace {

// "l3.fc1.fwd (microbatch 5)" of a report, translated as running_at() has it.
QString peak_op_words(const std::string& name) {
    static const QRegularExpression form(QStringLiteral("^(.*) \\(microbatch (\\d+)\\)$"));
    const QString text = QString::fromStdString(name);
    const QRegularExpressionMatch found = form.match(text);
    return found.hasMatch() ? QCoreApplication::translate("orrery", "%1 (microbatch %2)").arg(found.captured(1), found.captured(2)) : text;
}

QTableView* table(QAbstractItemModel* model, const QString& name) {
    QTableView* view = plain_table(model, name);
    view->horizontalHeader()->resizeSection(0, 190);
    return view;
}

// Its last column, the source, has words: figures leave it the room.
QTableView* table_of_alive(QAbstractItemModel* model, const QString& name) {
    QTableView* view = table(model, name);
    view->horizontalHeader()->resizeSection(1, 90);
    view->horizontalHeader()->resizeSection(2, 60);
    return view;
}

} // namespace

MemoryView::MemoryView(RunStore& runs, ViewState& state, QWidget* parent) : QWidget(parent), runs_(runs), state_(state) {
    setAccessibleName(tr("Memory over time"));
    lanes_ = new QComboBox;
    lanes_->setAccessibleName(tr("Rank whose memory is shown"));
    lanes_->setSizeAdjustPolicy(QComboBox::AdjustToContents);
    auto* by = new QLabel(tr("Memory &of"));
    by->setBuddy(lanes_);
    words_ = new QLabel;
    words_->setWordWrap(true);
    toPeak_ = new QToolButton;
    toPeak_->setText(tr("Go to the peak"));
    auto* line = new QHBoxLayout;
    line->addWidget(by);
    line->addWidget(lanes_);
    line->addWidget(toPeak_);
    line->addWidget(words_, 1);
    chart_ = new MemoryChart;
    host_ = new MemoryChart;
    disk_ = new MemoryChart;
    tiers_ = new TiersModel(this);
    kinds_ = new MemoryKindsModel(this);
    alive_ = new AliveModel(this);
    auto* tables = new QSplitter(Qt::Horizontal);
    tables->addWidget(table(kinds_, tr("Memory by kind")));
    tables->addWidget(table_of_alive(alive_, tr("Buffers alive at the peak")));
    tables->setSizes({300, 500});
    auto* parts = new QSplitter(Qt::Vertical);
    for (MemoryChart* chart : charts()) parts->addWidget(chart);
    parts->addWidget(tables);
    parts->setSizes({260, 180, 180, 180});
    tiersTable_ = table(tiers_, tr("Memory by tier"));
    auto* layout = new QVBoxLayout(this);
    layout->setContentsMargins(4, 4, 4, 4);
    layout->addWidget(new RunLabel(runs, state));
    layout->addLayout(line);
    layout->addWidget(tiersTable_);
    layout->addWidget(parts, 1);

    connect(lanes_, &QComboBox::currentIndexChanged, this, &MemoryView::showSeries);
    for (MemoryChart* chart : charts()) {
        connect(chart, &MemoryChart::rangeAsked, &state_, &ViewState::setTimeRange);
        connect(chart, &MemoryChart::cursorMoved, &state_, &ViewState::setCursor);
        connect(&state_, &ViewState::timeRangeChanged, chart, [this, chart] { chart->setRange(state_.timeRange()); });
    }
    connect(&state_, &ViewState::cursorChanged, this, [this](std::int64_t t) {
        for (MemoryChart* chart : charts()) chart->setCursorTime(t);
        kinds_->setCursor(t < 0 ? -1 : sample_at(chart_->series(), t));
    });
    connect(&state_, &ViewState::currentRunChanged, this, &MemoryView::showRun);
    connect(&state_, &ViewState::selectedSliceChanged, this, [this](SliceId id) {
        if (id.valid() && id.run == state_.currentRun()) showLane(id.lane);
    });
    connect(&runs_, &RunStore::runChanged, this, [this](RunId id) {
        if (id == state_.currentRun()) showRun();
    });
    connect(&runs_, &RunStore::runRemoved, this, &MemoryView::showRun);
    connect(toPeak_, &QToolButton::clicked, this, &MemoryView::goToPeak);
    showRun();
}

void MemoryView::goToPeak() {
    const MemorySeries& s = chart_->series();
    if (s.peak < 0) return;
    const std::int64_t t = s.at[at(s.peak)], half = (s.end - s.begin) / 40 + 1;
    state_.setTimeRange({t - half, t + half});
}

std::vector<ViewCommand> MemoryView::commands() {
    std::vector<ViewCommand> out = chart_->commands();
    out.push_back(
        {QStringLiteral("peak"), tr("Go to the peak"), tr("Shows the time round the highest memory"), {}, {}, [this] { goToPeak(); }});
    return out;
}

void MemoryView::showLane(std::int32_t lane) {
    if (lane >= 0 && lane < lanes_->count()) lanes_->setCurrentIndex(lane);
}

void MemoryView::showRun() {
    const Run* run = runs_.find(state_.currentRun());
    data_ = run ? run->data : nullptr;
    const int before = lanes_->currentIndex();
    {
        const QSignalBlocker quiet(lanes_);
        lanes_->clear();
        if (data_ && data_->trace)
            for (const Lane& l : data_->trace->lanes)
                lanes_->addItem(l.ranks > 1 ? tr("stage %1, rank %2 (of %3 alike)").arg(l.stage).arg(l.rank).arg(l.ranks)
                                            : tr("stage %1, rank %2").arg(l.stage).arg(l.rank));
        // The fullest stage is what one looks for first.
        int lane = before;
        if (before < 0 && data_ && data_->trace && data_->report && !data_->report->memory.stages.empty())
            for (std::size_t l = 0; l < data_->trace->lanes.size() && lane < 0; ++l)
                if (data_->trace->lanes[l].stage == fullest(data_->report->memory).stage) lane = static_cast<int>(l);
        lanes_->setCurrentIndex(std::min(std::max(0, lane), lanes_->count() - 1));
    }
    chart_->setHint(!run ? tr("No run is open.") : tr("%1 has no memory over time.").arg(run->name));
    for (MemoryChart* chart : charts()) chart->setRange(state_.timeRange());
    showTiers();
    showSeries();
}

void MemoryView::showTiers() {
    tiers_->setTiers(data_ ? memory_tiers(*data_) : std::vector<MemoryTier>{});
    const auto show = [&](MemoryChart* chart, Space space, const QString& all, const QString& of_node) {
        MemorySeries series = data_ ? memory_of_node(*data_, space) : MemorySeries{};
        const int node = !data_ ? -1 : space == Space::host ? data_->host_memory.node : data_->disk_memory.node;
        chart->setVisible(!series.at.empty());
        chart->setTitle(node < 0 ? all : of_node.arg(node));
        chart->setSeries(std::move(series));
    };
    show(host_, Space::host, tr("Memory of a node that serves"), tr("Memory of node %1, all its ranks"));
    show(disk_, Space::nvme, tr("NVMe of a node"), tr("NVMe of node %1, all its ranks"));
    tiersTable_->setVisible(tiers_->rowCount() > 1);
    tiersTable_->setFixedHeight(tiersTable_->horizontalHeader()->sizeHint().height() + 4 +
                                tiers_->rowCount() * tiersTable_->verticalHeader()->defaultSectionSize());
    chart_->setTitle(host_->isHidden() && disk_->isHidden() ? QString() : tr("Memory of the device"));
}

void MemoryView::showSeries() {
    const int lane = lanes_->currentIndex();
    MemorySeries series = data_ && lane >= 0 ? memory_of(*data_, lane) : MemorySeries{};
    kinds_->setSeries(series);
    const StageMemory* stage = nullptr;
    if (data_ && data_->report && lane >= 0)
        for (const StageMemory& s : data_->report->memory.stages)
            if (s.stage == data_->trace->lanes[at(lane)].stage) stage = &s;
    alive_->setStage(stage);
    QString words;
    if (series.peak >= 0) {
        const std::int64_t most = series.total[at(series.peak)];
        const QString when = stage ? peak_op_words(stage->peak_op_name) : running_at(*data_, lane, series.at[at(series.peak)]);
        words = tr("Peak %1 at %2.").arg(bytes_text(most), when);
        if (series.capacity > 0 && most <= series.capacity)
            words += " " + tr("%1 are free at that moment.").arg(bytes_text(series.capacity - most));
        if (series.runs_out >= 0)
            words += " " + tr("Memory runs out at %1; the peak is %2 too large.")
                               .arg(running_at(*data_, lane, series.at[at(series.runs_out)]), bytes_text(most - series.capacity));
    }
    words_->setText(words);
    toPeak_->setEnabled(series.peak >= 0);
    chart_->setSeries(std::move(series));
}

namespace {

TextTable table_of_series(const MemorySeries& s) {
    TextTable out;
    out.head << MemoryView::tr("time (s)");
    for (const QString& kind : s.kinds) out.head << MemoryView::tr("%1 (bytes)").arg(kind);
    out.head << MemoryView::tr("all (bytes)");
    for (std::size_t i = 0; i < s.at.size(); ++i) {
        QStringList row{plain_seconds(s.at[i])};
        for (std::size_t k = 0; k < s.kinds.size(); ++k) row << QString::number(static_cast<qlonglong>(s.bytes[i * s.kinds.size() + k]));
        row << QString::number(static_cast<qlonglong>(s.total[i]));
        out.rows.push_back(row);
    }
    return out;
}

} // namespace

TextTable MemoryView::asTable() const {
    const MemorySeries& s = chart_->series();
    if (s.at.empty()) return {{}, {}, tr("the current run has no memory over time")};
    return table_of_series(s);
}

std::vector<TextTable> MemoryView::moreTables() const {
    std::vector<TextTable> out;
    const auto add = [&](TextTable table, const char* name) {
        table.name = QString::fromLatin1(name);
        if (!table.rows.empty()) out.push_back(std::move(table));
    };
    add(table_of_model(*tiers_), "tiers");
    if (!host_->series().at.empty()) add(table_of_series(host_->series()), "node");
    if (!disk_->series().at.empty()) add(table_of_series(disk_->series()), "nvme");
    return out;
}

} // namespace orrery
