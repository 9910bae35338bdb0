#include "gui/topology/topology_view.hpp"

#include "gui/core/figures.hpp"
#include "gui/parts/plain_table.hpp"
#include "gui/parts/run_label.hpp"
#include "gui/topology/cluster_plot.hpp"
#include "gui/topology/links_model.hpp"
#include "topology/torus.hpp"

#include <QHeaderView>
#include <QLabel>
#include <QSlider>
#include <QSortFilterProxyModel>
#include <QSplitter>
#include <QTableView>
#include <QVBoxLayout>

#include <algorithm>
#include <array>
#include <optional>

namespace orrery {

constexpr int most_nodes = 8, most_in_grid = 64; // devices of a torus

namespace {

// By link of the cluster the one whose series shows it, as the simulation folded them.
std::vector<LinkId> stand_ins(const RunData& run) {
    std::vector<LinkId> out;
    for (std::int32_t c : run.link_class) out.push_back(c < 0 ? -1 : run.links[c].link);
    return out;
}

ClusterPicture picture_of(const RunData& run) {
    const Cluster& cluster = run.scenario->cluster;
    const std::optional<std::array<int, 3>> rows = torus_rows(cluster);
    const int most = rows ? std::max(1, most_in_grid / cluster.devices_per_node) : most_nodes;
    ClusterPicture drawn = picture(Fabric(cluster), *run.trace, most, stand_ins(run));
    if (rows) lay_as_grid(drawn, *rows, cluster.devices_per_node);
    return drawn;
}

} // namespace

TopologyView::TopologyView(RunStore& store, ViewState& state, QWidget* parent)
    : QWidget(parent), store_(store), state_(state), links_(new LinksModel(this)), sorted_(new QSortFilterProxyModel(this)),
      plot_(new ClusterPlot), scrubber_(new QSlider(Qt::Horizontal)), time_(new QLabel), limit_(new QLabel), table_(new QTableView) {
    makeTable();
    layOut();
    connect(scrubber_, &QSlider::valueChanged, this, &TopologyView::showTime);
    connect(&state_, &ViewState::timeRangeChanged, this, &TopologyView::showTime);
    connect(&state_, &ViewState::currentRunChanged, this, &TopologyView::refresh);
    connect(&store_, &RunStore::runChanged, this, [this](RunId id) {
        if (id == state_.currentRun()) refresh();
    });
    copies_rows(*table_);
    connect(table_->selectionModel(), &QItemSelectionModel::currentRowChanged, this,
            [this](const QModelIndex& index) { showRow(sorted_->mapToSource(index).row()); });
    connect(plot_, &ClusterPlot::chosen, this, [this](int series) {
        if (series < 0 || !shown_ || !shown_->trace) return;
        for (std::size_t row = 0; row < links_->rows().size(); ++row)
            if (links_->rows()[row].link == shown_->trace->links[series].link)
                table_->selectRow(sorted_->mapFromSource(links_->index(static_cast<int>(row), 0)).row());
    });
    refresh();
}

void TopologyView::makeTable() {
    sorted_->setSourceModel(links_);
    sorted_->setSortRole(LinksModel::SortRole);
    table_->setModel(sorted_);
    table_->setSortingEnabled(true);
    table_->sortByColumn(LinksModel::PeakColumn, Qt::DescendingOrder);
    table_->setSelectionBehavior(QAbstractItemView::SelectRows);
    table_->setSelectionMode(QAbstractItemView::SingleSelection);
    table_->setAlternatingRowColors(true);
    table_->setTabKeyNavigation(false);
    table_->setShowGrid(false);
    table_->verticalHeader()->hide();
    table_->verticalHeader()->setDefaultSectionSize(fontMetrics().height() + 6);
    table_->setColumnWidth(LinksModel::NameColumn, 200);
    for (int c = 1; c < LinksModel::ColumnCount; ++c) {
        const QString title = links_->headerData(c, Qt::Horizontal).toString();
        table_->setColumnWidth(c, std::max(c == LinksModel::TwinsColumn ? 55 : 90, fontMetrics().horizontalAdvance(title) + 20));
    }
    table_->setAccessibleName(tr("Links"));
}

void TopologyView::layOut() {
    scrubber_->setAccessibleName(tr("Time: the leftmost place is all of the time shown"));
    limit_->setWordWrap(true);
    limit_->setContentsMargins(6, 2, 6, 4);
    plot_->setMinimumHeight(100);
    time_->setContentsMargins(6, 0, 6, 0);
    scrubber_->setMinimumWidth(120);
    auto* times = new QHBoxLayout;
    times->setContentsMargins(6, 0, 6, 0);
    times->addWidget(new QLabel(tr("Time")));
    times->addWidget(scrubber_, 1);
    auto* left = new QWidget;
    auto* column = new QVBoxLayout(left);
    column->setContentsMargins(0, 0, 0, 0);
    auto* shown = new RunLabel(store_, state_);
    shown->setContentsMargins(6, 2, 6, 0);
    column->addWidget(shown);
    column->addWidget(plot_, 1);
    column->addLayout(times);
    column->addWidget(time_);
    column->addWidget(limit_);
    auto* splitter = new QSplitter;
    splitter->addWidget(left);
    splitter->addWidget(table_);
    splitter->setStretchFactor(0, 1);
    splitter->setStretchFactor(1, 0);
    splitter->setSizes({600, 480});
    auto* layout = new QVBoxLayout(this);
    layout->setContentsMargins(0, 0, 0, 0);
    layout->addWidget(splitter);
    setFocusProxy(table_);
}

void TopologyView::refresh() {
    const Run* run = store_.find(state_.currentRun());
    const std::shared_ptr<const RunData> now = run ? run->data : nullptr;
    if (now == shown_ && now) return;
    shown_ = now;
    const bool known = now && now->trace && !now->trace->links.empty();
    links_->setRows(known ? link_loads(*now->trace) : std::vector<LinkLoadRow>{}, known ? now->trace->steps : 1);
    const QString carried = links_->headerData(LinksModel::BytesColumn, Qt::Horizontal).toString();
    table_->setColumnWidth(LinksModel::BytesColumn,
                           std::max(table_->columnWidth(LinksModel::BytesColumn), fontMetrics().horizontalAdvance(carried) + 20));
    plot_->setEmptyWords(now && now->scenario ? tr("The step of this run sends nothing over the network's links: there is no load to draw")
                                              : tr("The current run has no cluster: it is only a trace"));
    plot_->setPicture(known && now->scenario ? std::optional(picture_of(*now)) : std::nullopt);
    scrubber_->setRange(0, known ? bins(*now->trace) : 0);
    scrubber_->setValue(0);
    scrubber_->setEnabled(known);
    limit_->setText(verdict());
    showTime();
}

void TopologyView::showTime() {
    if (!shown_ || !shown_->trace || shown_->trace->links.empty()) {
        time_->clear();
        return;
    }
    const Trace& trace = *shown_->trace;
    const std::int64_t begin = trace.begin.ps, whole = (trace.end - trace.begin).ps; // what the links' series are of
    TimeRange range = state_.timeRange();
    if (const int bin = scrubber_->value(); bin > 0) range = {begin + whole * (bin - 1) / bins(trace), begin + whole * bin / bins(trace)};
    range = {std::max(range.begin, begin), std::min(range.end, begin + whole)}; // the timeline shows more on both sides
    if (range.length() <= 0) range = {begin, begin + whole};
    plot_->setUse(utilisation(trace, range.begin - begin, range.end - begin));
    const auto words = [](std::int64_t ps) { return seconds_words(static_cast<double>(ps) * 1e-12); };
    time_->setText(tr("%1 to %2 of %3").arg(words(range.begin), words(range.end), words(begin + whole)));
    if (scrubber_->value() > 0) state_.setCursor((range.begin + range.end) / 2);
}

void TopologyView::showRow(int row) {
    plot_->setCurrentSeries(-1);
    if (row < 0 || row >= links_->rowCount() || !shown_ || !shown_->trace) return;
    const auto& series = shown_->trace->links;
    const auto it = std::find_if(series.begin(), series.end(), [&](const LinkSeries& s) { return s.link == links_->rows()[row].link; });
    if (it != series.end()) plot_->setCurrentSeries(static_cast<int>(it - series.begin()));
}

QString TopologyView::verdict() const {
    if (links_->rows().empty())
        return shown_ && shown_->scenario && (shown_->scenario->strategy.loose() || shown_->scenario->federated)
                   ? tr("What workers send to servers, peers or the coordinator is not in a step: see the workers view and the report")
                   : tr("No link carries anything");
    const LinkLoadRow& r = links_->rows().front();
    const QString name = QString::fromStdString(r.name).toHtmlEscaped();
    if (r.busy > 0)
        return tr("<b>%1</b> limits: it is over four fifths full during %2 of the time (%n link(s) alike)", "", r.twins)
            .arg(name, percent_words(r.busy));
    return tr("No link is full for long: the busiest, <b>%1</b>, reaches %2 of its capacity").arg(name, percent_words(r.peak));
}

} // namespace orrery
