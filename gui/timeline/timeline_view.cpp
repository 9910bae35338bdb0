#include "gui/timeline/timeline_view.hpp"

#include "gui/parts/legend.hpp"
#include "gui/parts/plain_table.hpp"
#include "gui/parts/run_label.hpp"
#include "gui/timeline/minimap.hpp"
#include "gui/timeline/models.hpp"

#include <QComboBox>
#include <QGuiApplication>
#include <QHBoxLayout>
#include <QHeaderView>
#include <QLabel>
#include <QLineEdit>
#include <QSortFilterProxyModel>
#include <QSplitter>
#include <QTableView>
#include <QTabWidget>
#include <QtConcurrent/QtConcurrentRun>
#include <QTimer>
#include <QToolButton>
#include <QVBoxLayout>

#include <algorithm>

namespace orrery {

namespace {

// More tracks than this and a run opens with the ranks' queues folded away: all stages at a glance.
constexpr std::size_t most_unfolded = 48;

struct Grouping {
    const char* name;
    std::vector<GroupBy> groups;
};
const std::vector<Grouping>& groupings() {
    static const std::vector<Grouping> all = {
        {QT_TRANSLATE_NOOP("orrery::TimelineView", "stage"), {GroupBy::stage}},
        {QT_TRANSLATE_NOOP("orrery::TimelineView", "data rank, stage"), {GroupBy::data, GroupBy::stage}},
        {QT_TRANSLATE_NOOP("orrery::TimelineView", "stage, data rank"), {GroupBy::stage, GroupBy::data}},
        {QT_TRANSLATE_NOOP("orrery::TimelineView", "tensor rank"), {GroupBy::tensor}},
        {QT_TRANSLATE_NOOP("orrery::TimelineView", "context rank"), {GroupBy::context}},
        {QT_TRANSLATE_NOOP("orrery::TimelineView", "expert rank"), {GroupBy::expert}},
        {QT_TRANSLATE_NOOP("orrery::TimelineView", "nothing"), {}},
    };
    return all;
}

} // namespace

TimelineView::TimelineView(RunStore& runs, ViewState& state, QWidget* parent) : QWidget(parent), runs_(runs), state_(state) {
    setAccessibleName(tr("Timeline of the current run"));
    timeline_ = new Timeline;
    minimap_ = new Minimap;
    legend_ = new Legend;
    auto* layout = new QVBoxLayout(this);
    layout->setContentsMargins(4, 4, 4, 4);
    layout->setSpacing(3);
    layout->addWidget(new RunLabel(runs, state));
    makeControls();
    layout->addWidget(minimap_);
    auto* splitter = new QSplitter(Qt::Vertical);
    splitter->addWidget(timeline_);
    splitter->addWidget(makePanels());
    splitter->setStretchFactor(0, 4);
    splitter->setStretchFactor(1, 1);
    splitter->setSizes({600, 170});
    layout->addWidget(splitter, 1);
    layout->addWidget(legend_);
    areaDelay_ = new QTimer(this);
    areaDelay_->setSingleShot(true);
    areaDelay_->setInterval(60);
    fitted_ = state_.timeRange().length() <= 0;
    connectTimeline();
    connectState();
    showRun();
}

TimelineView::~TimelineView() {
    if (areaCancelled_) *areaCancelled_ = true;
    areaWork_.waitForFinished();
    pathWork_.waitForFinished();
}

void TimelineView::makeControls() {
    auto* line = new QHBoxLayout;
    grouping_ = new QComboBox;
    for (const Grouping& g : groupings()) grouping_->addItem(tr(g.name));
    grouping_->setAccessibleName(tr("Group ranks by"));
    filter_ = new QLineEdit;
    filter_->setPlaceholderText(tr("Filter rows"));
    filter_->setAccessibleName(tr("Filter rows"));
    filter_->setClearButtonEnabled(true);
    search_ = new QLineEdit;
    search_->setPlaceholderText(tr("Search slices (/): qkv mb:3"));
    search_->setAccessibleName(tr("Search slices"));
    search_->setClearButtonEnabled(true);
    critical_ = new QToolButton;
    critical_->setText(tr("Critical path"));
    critical_->setCheckable(true);
    critical_->setToolTip(tr("Marks the chain of slices that the length of the step rests on (C)"));
    message_ = new QLabel;
    auto* by = new QLabel(tr("&Group by"));
    by->setBuddy(grouping_);
    line->addWidget(by);
    line->addWidget(grouping_);
    line->addWidget(filter_, 1);
    line->addWidget(search_, 2);
    line->addWidget(critical_);
    line->addWidget(message_, 1);
    static_cast<QVBoxLayout*>(layout())->addLayout(line);
    connect(grouping_, &QComboBox::currentIndexChanged, this, [this](int i) {
        RowOptions options = timeline_->rowOptions();
        options.groups = groupings()[i].groups;
        timeline_->setRowOptions(std::move(options));
    });
    connect(filter_, &QLineEdit::textChanged, this, [this](const QString& text) {
        RowOptions options = timeline_->rowOptions();
        options.filter = text.trimmed();
        timeline_->setRowOptions(std::move(options));
    });
    connect(search_, &QLineEdit::returnPressed, this,
            [this] { search(search_->text(), !(QGuiApplication::keyboardModifiers() & Qt::ShiftModifier)); });
    connect(critical_, &QToolButton::clicked, this, [this] { toggleCriticalPath(); });
}

QWidget* TimelineView::makePanels() {
    panels_ = new QTabWidget;
    facts_ = new FactsModel(this);
    area_ = new AreaModel(this);
    markers_ = new MarkersModel(this);
    auto* factsTable = plain_table(facts_, tr("Details of the selected slice"));
    factsTable->horizontalHeader()->resizeSection(0, 160); // names are short words, values take the rest
    panels_->addTab(factsTable, tr("Slice"));
    auto* sorted = new QSortFilterProxyModel(this);
    sorted->setSourceModel(area_);
    sorted->setSortRole(Qt::UserRole);
    auto* areaTable = plain_table(sorted, tr("Contents of the selected area"));
    areaTable->setSortingEnabled(true);
    areaTable->horizontalHeader()->setStretchLastSection(false);
    areaTable->horizontalHeader()->resizeSection(AreaModel::kind, 160);
    areaTable->horizontalHeader()->resizeSection(AreaModel::what, 190);
    areaTable->sortByColumn(AreaModel::covered, Qt::DescendingOrder);
    auto* page = new QWidget;
    auto* layout = new QVBoxLayout(page);
    layout->setContentsMargins(0, 2, 0, 0);
    areaTitle_ = new QLabel(tr("Drag over rows to choose an area."));
    layout->addWidget(areaTitle_);
    layout->addWidget(areaTable);
    panels_->addTab(page, tr("Area"));
    markersTable_ = plain_table(markers_, tr("Markers"));
    panels_->addTab(markersTable_, tr("Markers"));
    const auto shown = [this] {
        timeline_->setMarkers(markers_->markers());
        markersOf_[shown_] = markers_->markers();
        Q_EMIT notesChanged();
    };
    connect(markers_, &QAbstractItemModel::dataChanged, this, shown);
    connect(markers_, &QAbstractItemModel::rowsInserted, this, shown);
    connect(markers_, &QAbstractItemModel::rowsRemoved, this, shown);
    connect(markersTable_, &QTableView::activated, this, [this](const QModelIndex& i) {
        const std::int64_t t = markers_->markers()[i.row()].at, half = timeline_->range().length() / 2;
        timeline_->setRange({t - half, t + half});
    });
    return panels_;
}

void TimelineView::connectTimeline() {
    connect(timeline_, &Timeline::rangeChanged, this, [this](TimeRange r) {
        minimap_->setRange(r);
        state_.setTimeRange(r);
    });
    connect(minimap_, &Minimap::rangeAsked, timeline_, &Timeline::setRange);
    connect(timeline_, &Timeline::sliceSelected, this, [this](SliceId id) {
        state_.setSelectedSlice(id);
        showSelection();
    });
    connect(timeline_, &Timeline::cursorMoved, &state_, &ViewState::setCursor);
    connect(timeline_, &Timeline::microbatchAsked, &state_, &ViewState::setMicrobatch);
    connect(timeline_, &Timeline::areaChanged, areaDelay_, qOverload<>(&QTimer::start));
    connect(areaDelay_, &QTimer::timeout, this, &TimelineView::askArea);
    connect(timeline_, &Timeline::searchAsked, this, [this] {
        search_->setFocus(Qt::ShortcutFocusReason);
        search_->selectAll();
    });
    connect(timeline_, &Timeline::criticalPathAsked, critical_, &QToolButton::click);
    connect(timeline_, &Timeline::markerAsked, this, &TimelineView::addMarker);
    connect(timeline_, &Timeline::markerRemovalAsked, this,
            [this](std::int64_t t) { markers_->removeNearest(t, timeline_->range().length() / 20); });
    connect(&areaWork_, &QFutureWatcherBase::finished, this, &TimelineView::showArea);
    connect(&pathWork_, &QFutureWatcherBase::finished, this, [this] {
        if (critical_->isChecked()) timeline_->setCriticalPath(pathWork_.result());
        say({});
        askArea();
    });
}

void TimelineView::connectState() {
    connect(&state_, &ViewState::currentRunChanged, this, &TimelineView::showRun);
    connect(&runs_, &RunStore::runChanged, this, [this](RunId id) {
        if (id == state_.currentRun()) showRun();
    });
    connect(&runs_, &RunStore::runRemoved, this, [this](RunId id) {
        markersOf_.erase(id);
        if (id == shown_) showRun();
    });
    // A range ends where the run does: then the range that all views share is the one that is shown.
    connect(&state_, &ViewState::timeRangeChanged, timeline_, [this] {
        if (!timeline_->store() || timeline_->run() != state_.currentRun()) {
            fitted_ = state_.timeRange().length() <= 0; // of a run to come
            return;
        }
        timeline_->setRange(state_.timeRange());
        fitted_ = timeline_->range() == timeline_->whole();
        state_.setTimeRange(timeline_->range());
    });
    connect(&state_, &ViewState::cursorChanged, timeline_, &Timeline::setCursorTime);
    connect(&state_, &ViewState::microbatchChanged, timeline_, &Timeline::setMicrobatch);
    connect(&state_, &ViewState::selectedSliceChanged, this, [this](SliceId id) {
        if (id.run == shown_ || !id.valid()) timeline_->select({id.lane, id.span}, true);
    });
    connect(&state_, &ViewState::selectedRanksChanged, this, [this] {
        RowOptions options = timeline_->rowOptions();
        options.ranks = state_.selectedRanks();
        timeline_->setRowOptions(std::move(options));
    });
}

void TimelineView::showRun() {
    const Run* run = runs_.find(state_.currentRun());
    const RunId id = run ? run->id : 0;
    if (!run)
        timeline_->setHint(tr("No run is open. Open or drop a scenario or a trace."));
    else if (run->state == RunState::working)
        timeline_->setHint(tr("Simulating %1 ..").arg(run->name));
    else if (run->state == RunState::failed)
        timeline_->setHint(tr("%1 has no timeline: it could not be simulated. See Problems.").arg(run->name));
    else if (run->data->report)
        timeline_->setHint(tr("%1 has no timeline: a trace of its step would be too large. Its figures are whole. For a timeline lower "
                              "training.global_batch_size.")
                               .arg(run->name));
    else
        timeline_->setHint(tr("%1 has no timeline.").arg(run->name));
    if (critical_->isChecked() && (!run || run->data.get() != timeline_->data())) critical_->setChecked(false);
    if (id != shown_) markers_->setMarkers(markersOf_[id]);
    shown_ = id;
    if (run && run->data->tracks && run->data.get() != timeline_->data()) {
        const bool another = timeline_->run() != id || !timeline_->store();
        timeline_->setRun(id, run->data);
        RowOptions options = timeline_->rowOptions();
        options.lane_of_rank = run->data->lane_of_rank;
        timeline_->setRowOptions(std::move(options));
        if (another) timeline_->foldLanes(timeline_->store()->tracks.size() > most_unfolded);
        showRange();
    } else if (!run || !run->data->tracks) {
        timeline_->setRun(id, run ? run->data : nullptr);
    }
    timeline_->setMarkers(markers_->markers());
    timeline_->setMicrobatch(state_.microbatch());
    legend_->setEntries(legend_of_slices({timeline_->store()}));
    minimap_->setRun(run ? run->data : nullptr, timeline_->whole());
    minimap_->setRange(timeline_->range());
    const SliceId slice = state_.selectedSlice();
    if (slice.valid() && slice.run == id) timeline_->select({slice.lane, slice.span}, true);
    showSelection();
}

// Who saw all of one run wants to see all of the next, also where that is still being simulated. A time that was zoomed to stays, unless
// the run ends before it.
void TimelineView::showRange() {
    const TimeRange all = timeline_->whole(), asked = state_.timeRange();
    const bool there = asked.length() > 0 && asked.begin < all.end && asked.end > all.begin;
    const bool fit = fitted_ || !there;
    timeline_->setRange(fit ? all : asked);
    state_.setTimeRange(timeline_->range());
    fitted_ = fit || timeline_->range() == all;
}

std::vector<ViewCommand> TimelineView::commands() {
    std::vector<ViewCommand> out = timeline_->commands();
    for (int i = 0; i < grouping_->count(); ++i)
        out.push_back({QStringLiteral("group_%1").arg(i),
                       tr("Group ranks by: %1").arg(grouping_->itemText(i)),
                       tr("Groups the rows of the timeline"),
                       {},
                       {},
                       [this, i] { grouping_->setCurrentIndex(i); }});
    return out;
}

void TimelineView::showSelection() {
    const SpanRef s = timeline_->selected();
    if (s.valid() && timeline_->store())
        facts_->setFacts(facts(*timeline_->data(), s));
    else
        facts_->setFacts(timeline_->data() ? facts_of_run(*timeline_->data()) : Facts{});
    if (s.valid()) panels_->setCurrentIndex(0);
}

void TimelineView::askArea() {
    if (areaCancelled_) *areaCancelled_ = true;
    const auto range = timeline_->area();
    const Run* run = runs_.find(shown_);
    if (!range || !run || !run->data->tracks) {
        area_->setArea({}, 1);
        areaTitle_->setText(tr("Drag over rows to choose an area."));
        return;
    }
    areaCancelled_ = std::make_shared<std::atomic<bool>>(false);
    panels_->setCurrentIndex(1);
    areaTitle_->setText(tr("Counting .."));
    areaWork_.setFuture(QtConcurrent::run(
        [data = run->data, tracks = timeline_->areaTracks(), r = *range, path = timeline_->criticalPath(), stop = areaCancelled_] {
            return AreaAnswer{area(*data->tracks, tracks, r.begin, r.end, path, stop.get()), static_cast<double>(r.length())};
        }));
}

void TimelineView::showArea() {
    if (!timeline_->area() || areaWork_.future().resultCount() == 0) return;
    AreaAnswer answer = areaWork_.result();
    std::int64_t slices = 0;
    for (const AreaRow& row : answer.rows) slices += row.slices;
    areaTitle_->setText(tr("%1 long, %L2 slices; times are unions of intervals, means over ranks")
                            .arg(duration_text(static_cast<std::int64_t>(answer.length)))
                            .arg(slices));
    area_->setArea(std::move(answer.rows), answer.length);
}

void TimelineView::toggleCriticalPath() {
    const Run* run = runs_.find(shown_);
    if (!critical_->isChecked() || !run || !run->data->trace) {
        timeline_->setCriticalPath({});
        return;
    }
    say(tr("Looking for the critical path .."));
    pathWork_.setFuture(QtConcurrent::run([data = run->data] { return critical_path(*data->trace); }));
}

void TimelineView::search(const QString& text, bool forward) {
    const TrackStore* store = timeline_->store();
    if (!store || text.trimmed().isEmpty()) return say({});
    const Search wanted(*store->trace, text);
    const SpanRef from = timeline_->selected();
    auto found = wanted.next(*store, from.valid() ? std::optional(from) : std::nullopt, forward);
    const bool around = !found && from.valid();
    if (around) found = wanted.next(*store, std::nullopt, forward);
    if (!found) return say(tr("No slice matches “%1”").arg(text));
    timeline_->select(*found, true);
    say(around ? tr("No more: from the start again") : QString());
}

std::vector<Marker> TimelineView::notes(RunId run) const {
    const auto known = markersOf_.find(run);
    return known == markersOf_.end() ? std::vector<Marker>{} : known->second;
}

void TimelineView::setNotes(RunId run, std::vector<Marker> notes) {
    markersOf_[run] = std::move(notes);
    if (run == shown_) markers_->setMarkers(markersOf_[run]), timeline_->setMarkers(markers_->markers());
}

void TimelineView::addMarker(std::int64_t ps) {
    const int row = markers_->add(ps, tr("note %1").arg(markers_->rowCount() + 1));
    panels_->setCurrentWidget(markersTable_);
    markersTable_->setCurrentIndex(markers_->index(row, 1));
}

void TimelineView::say(const QString& message) { message_->setText(message); }

// The slices of the rows and the time shown, or of the area: "what am I looking at", and no more than a spreadsheet takes.
TextTable TimelineView::asTable() const {
    constexpr std::size_t most = 1'000'000;
    TextTable out;
    const TrackStore* store = timeline_->store();
    if (!store) return {{}, {}, tr("the current run has no timeline")};
    out.head = {tr("rank"), tr("queue"), tr("slice"), tr("kind"), tr("cause"), tr("microbatch"), tr("begin (s)"), tr("end (s)")};
    const Trace& trace = *store->trace;
    const TimeRange range = timeline_->area().value_or(timeline_->range());
    std::vector<std::int32_t> tracks = timeline_->areaTracks();
    if (!timeline_->area())
        for (const Row& row : timeline_->rows()) tracks.insert(tracks.end(), row.tracks.begin(), row.tracks.end());
    std::sort(tracks.begin(), tracks.end());
    tracks.erase(std::unique(tracks.begin(), tracks.end()), tracks.end());
    for (std::int32_t t : tracks) {
        const Track& track = store->tracks[t];
        for (std::int32_t i = std::max(0, last_begun(*store, track, range.begin)); i < slice_count(track); ++i) {
            const Span& s = slice(*store, track, i);
            if (s.begin.ps >= range.end) break;
            if (s.end.ps <= range.begin) continue;
            if (out.rows.size() == most) return {{}, {}, tr("more than %L1 slices are shown: zoom in, or choose an area").arg(most)};
            out.rows.push_back(
                {QString::number(trace.lanes[track.lane].rank), QString::fromStdString(trace.queues[track.queue]), title(trace, s),
                 label(kind_of(s, store->op_kinds)), s.cause == WaitCause::none ? QString{} : cause_text(s.cause),
                 s.microbatch < 0 ? QString{} : QString::number(s.microbatch), plain_seconds(s.begin.ps), plain_seconds(s.end.ps)});
        }
    }
    return out;
}

} // namespace orrery
