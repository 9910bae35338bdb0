#include "gui/compare/side_by_side.hpp"

#include "gui/compare/models.hpp"
#include "gui/parts/legend.hpp"
#include "gui/parts/plain_table.hpp"
#include "gui/timeline/timeline.hpp"

#include <QComboBox>
#include <QHBoxLayout>
#include <QHeaderView>
#include <QLabel>
#include <QLocale>
#include <QSplitter>
#include <QTableView>
#include <QtConcurrent/QtConcurrentRun>
#include <QTimer>
#include <QVBoxLayout>

#include <algorithm>

namespace orrery {

namespace {
constexpr std::size_t most_runs = 4;
}

SideBySide::SideBySide(RunStore& runs, ViewState& state, QWidget* parent) : QWidget(parent), runs_(runs), state_(state) {
    setAccessibleName(tr("Runs above each other"));
    alignment_ = new QComboBox;
    alignment_->addItems({tr("by time"), tr("by step: stretched to one length")});
    alignment_->setAccessibleName(tr("Align runs"));
    auto* by = new QLabel(tr("&Align"));
    by->setBuddy(alignment_);
    hint_ = new QLabel;
    hint_->setSizePolicy(QSizePolicy::Ignored, QSizePolicy::Fixed);
    title_ = new QLabel;
    auto* line = new QHBoxLayout;
    line->addWidget(by);
    line->addWidget(alignment_);
    line->addWidget(hint_, 1);
    stack_ = new QSplitter(Qt::Vertical);
    model_ = new DifferenceModel(this);
    table_ = sorted_table(model_, this, tr("Differences"));
    table_->horizontalHeader()->setStretchLastSection(false);
    auto* below = new QWidget;
    auto* inner = new QVBoxLayout(below);
    inner->setContentsMargins(0, 0, 0, 0);
    inner->setSpacing(2);
    inner->addWidget(title_);
    inner->addWidget(table_);
    auto* parts = new QSplitter(Qt::Vertical);
    parts->addWidget(stack_);
    parts->addWidget(below);
    parts->setSizes({600, 180});
    auto* layout = new QVBoxLayout(this);
    layout->setContentsMargins(4, 2, 4, 2);
    layout->setSpacing(3);
    layout->addLayout(line);
    layout->addWidget(parts, 1);
    legend_ = new Legend;
    layout->addWidget(legend_);
    delay_ = new QTimer(this);
    delay_->setSingleShot(true);
    delay_->setInterval(150);
    connect(delay_, &QTimer::timeout, this, &SideBySide::askDifferences);
    connect(&work_, &QFutureWatcherBase::finished, this, &SideBySide::showDifferences);
    connect(alignment_, &QComboBox::currentIndexChanged, this,
            [this](int i) { setAlignment(i == 0 ? Alignment::by_time : Alignment::by_step); });
    connect(&state_, &ViewState::brushedRunsChanged, this, &SideBySide::refresh);
    connect(&state_, &ViewState::baselineChanged, this, &SideBySide::refresh);
    connect(&state_, &ViewState::currentRunChanged, this, &SideBySide::refresh);
    connect(&state_, &ViewState::microbatchChanged, this, [this](std::int32_t mb) {
        for (const Pane& p : panes_) p.line->setMicrobatch(mb);
    });
    connect(&state_, &ViewState::timeRangeChanged, this, &SideBySide::showState);
    connect(&state_, &ViewState::cursorChanged, this, &SideBySide::showCursor);
    connect(&runs_, &RunStore::runChanged, this, &SideBySide::refresh);
    connect(&runs_, &RunStore::runRemoved, this, &SideBySide::refresh);
    refresh();
}

SideBySide::~SideBySide() {
    if (cancelled_) *cancelled_ = true;
    work_.waitForFinished();
}

std::vector<Timeline*> SideBySide::timelines() const {
    std::vector<Timeline*> out;
    for (const Pane& p : panes_) out.push_back(p.line);
    return out;
}

// The runs that are brushed, the baseline first; else the baseline and the current run; else what is there.
std::vector<RunId> SideBySide::wanted() const {
    std::vector<RunId> out;
    const auto add = [&](RunId id) {
        const Run* run = runs_.find(id);
        if (run && run->data->tracks && out.size() < most_runs && std::find(out.begin(), out.end(), id) == out.end()) out.push_back(id);
    };
    const auto& brushed = state_.brushedRuns();
    if (brushed.size() >= 2) {
        if (std::find(brushed.begin(), brushed.end(), state_.baseline()) != brushed.end()) add(state_.baseline());
        for (RunId id : brushed) add(id);
    }
    if (out.size() < 2) {
        out.clear();
        add(state_.baseline());
        for (RunId id : brushed) add(id);
        add(state_.currentRun());
    }
    for (const Run& r : runs_.runs())
        if (out.size() < 2) add(r.id);
    return out;
}

void SideBySide::refresh() {
    std::vector<RunId> ids = wanted();
    const bool enough = ids.size() >= 2;
    if (!enough) ids.clear();
    hint_->setText(enough ? QString() : tr("Comparing needs two runs with a timeline: choose them in the table of strategies."));
    const bool same = std::equal(ids.begin(), ids.end(), panes_.begin(), panes_.end(), [](RunId id, const Pane& p) { return id == p.run; });
    if (!same) {
        for (const Pane& p : panes_) p.box->deleteLater();
        panes_.clear();
        model_->setDifferences({}, {}); // those of other runs
        for (RunId id : ids) panes_.push_back(makePane(id));
    }
    for (const Pane& p : panes_) p.line->setRun(p.run, runs_.find(p.run)->data);
    lineUp();
    setTitles();
    setLimits();
    std::vector<const TrackStore*> stores;
    for (const Pane& p : panes_) stores.push_back(p.line->store());
    legend_->setEntries(legend_of_slices(stores));
    delay_->start();
}

TextTable SideBySide::asTable() const {
    if (panes_.empty()) return {{}, {}, tr("no two runs are compared"), {}};
    return table_of_model(*table_->model());
}

// One time, one place: all plots begin where the widest labels end.
void SideBySide::lineUp() {
    int widest = 0;
    for (const Pane& p : panes_) widest = std::max(widest, p.line->widthOfLabels());
    for (const Pane& p : panes_) p.line->setLabelsAtLeast(widest);
}

SideBySide::Pane SideBySide::makePane(RunId run) {
    Pane p;
    p.run = run;
    p.box = new QWidget;
    p.title = new QLabel;
    p.title->setSizePolicy(QSizePolicy::Ignored, QSizePolicy::Fixed); // long names are cut, not the window widened
    p.line = new Timeline;
    p.line->setVerticalScrollBarPolicy(Qt::ScrollBarAlwaysOn); // else one pane is narrower than the others
    auto* layout = new QVBoxLayout(p.box);
    layout->setContentsMargins(0, 2, 0, 0);
    layout->setSpacing(1);
    layout->addWidget(p.title);
    layout->addWidget(p.line);
    stack_->addWidget(p.box);
    p.line->setRun(run, runs_.find(run)->data);
    p.line->foldLanes(true); // queues unfold when asked
    p.line->setMicrobatch(state_.microbatch());
    const std::size_t index = panes_.size();
    connect(p.line, &Timeline::rangeChanged, this, [this, index] {
        if (following_ || index >= panes_.size()) return;
        follow(index);
        tellState(index);
        delay_->start();
    });
    connect(p.line, &Timeline::cursorMoved, this, [this, index](std::int64_t t) {
        const TrackStore* to = currentStore();
        if (to && index < panes_.size()) state_.setCursor(t < 0 ? -1 : align(how_, *panes_[index].line->store(), *to, t));
    });
    connect(p.line, &Timeline::areaChanged, this, [this, index] {
        const auto area = panes_[index].line->area();
        for (std::size_t j = 0; j < panes_.size(); ++j) {
            if (j == index) continue;
            if (area)
                panes_[j].line->showArea({moved(index, j, area->begin), moved(index, j, area->end)});
            else if (panes_[j].line->area())
                panes_[j].line->clearArea();
        }
        delay_->start();
    });
    connect(p.line, &Timeline::sliceSelected, this, [this, run](SliceId id) {
        if (!id.valid()) return;
        std::vector<RunId> compared; // they stay brushed, so that this stays the comparison
        for (const Pane& pane : panes_) compared.push_back(pane.run);
        state_.setBrushedRuns(std::move(compared), run);
        state_.setSelectedSlice(id);
    });
    connect(p.line, &Timeline::rowOptionsChanged, this, &SideBySide::lineUp);
    connect(p.line, &Timeline::microbatchAsked, &state_, &ViewState::setMicrobatch);
    return p;
}

void SideBySide::setTitles() {
    double first = 0;
    for (std::size_t i = 0; i < panes_.size(); ++i) {
        const Run& run = *runs_.find(panes_[i].run);
        const double step = step_seconds(*run.data);
        if (i == 0) first = step;
        QString text = tr("<b>%1</b>: step %2").arg(shown_name(run).toHtmlEscaped(), duration_text(static_cast<std::int64_t>(step * 1e12)));
        if (i > 0 && first > 0)
            text +=
                tr(", %1%2 %").arg(step >= first ? QStringLiteral("+") : QString(), QLocale().toString(100 * (step / first - 1), 'f', 1));
        const QString source = QString::fromStdString(run.data->trace->source);
        if (!source.isEmpty()) text += " · " + (source == QLatin1String("simulated") ? tr("simulated") : source.toHtmlEscaped());
        panes_[i].title->setText(text);
        panes_[i].line->setAccessibleName(tr("Timeline of %1").arg(run.name));
    }
}

std::int64_t SideBySide::moved(std::size_t from, std::size_t to, std::int64_t t) const {
    return align(how_, *panes_[from].line->store(), *panes_[to].line->store(), t);
}

// All can go as far as the longest.
void SideBySide::setLimits() {
    if (panes_.empty()) return;
    following_ = true;
    TimeRange all;
    for (std::size_t i = 0; i < panes_.size(); ++i) {
        panes_[i].line->setLimits({});
        const TimeRange r = panes_[i].line->whole();
        const TimeRange here{moved(i, 0, r.begin), moved(i, 0, r.end)};
        all = i == 0 ? here : TimeRange{std::min(all.begin, here.begin), std::max(all.end, here.end)};
    }
    for (std::size_t i = 0; i < panes_.size(); ++i) panes_[i].line->setLimits(TimeRange{moved(0, i, all.begin), moved(0, i, all.end)});
    panes_[0].line->setRange(all);
    following_ = false;
    follow(0);
    showState();
}

const TrackStore* SideBySide::currentStore() const {
    const Run* run = runs_.find(state_.currentRun());
    return run ? run->data->tracks.get() : nullptr;
}

// The longest run may show more than there is of the current one: the shared range ends where the current run does.
void SideBySide::tellState(std::size_t from) {
    const TrackStore* to = currentStore();
    if (!to) return;
    const TimeRange r = panes_[from].line->range(), all = whole_of(*runs_.find(state_.currentRun())->data->tracks);
    const TrackStore& here = *panes_[from].line->store();
    const TimeRange shared{std::max(all.begin, align(how_, here, *to, r.begin)), std::min(all.end, align(how_, here, *to, r.end))};
    telling_ = true;
    if (shared.length() > 0) state_.setTimeRange(shared);
    telling_ = false;
}

void SideBySide::showState() {
    const TrackStore* from = currentStore();
    const TimeRange r = state_.timeRange();
    if (telling_ || panes_.empty() || !from || r.length() <= 0) return;
    Timeline& first = *panes_[0].line;
    const TrackStore& to = *first.store();
    const bool all = r == whole_of(*runs_.find(state_.currentRun())->data->tracks); // of the longest, then
    following_ = true;
    first.setRange(all ? first.whole() : TimeRange{align(how_, *from, to, r.begin), align(how_, *from, to, r.end)});
    following_ = false;
    follow(0);
    delay_->start();
}

void SideBySide::showCursor(std::int64_t t) {
    const TrackStore* from = currentStore();
    for (const Pane& p : panes_) p.line->setCursorTime(t < 0 || !from ? -1 : align(how_, *from, *p.line->store(), t));
}

void SideBySide::follow(std::size_t from) {
    following_ = true;
    const TimeRange r = panes_[from].line->range();
    for (std::size_t j = 0; j < panes_.size(); ++j)
        if (j != from) panes_[j].line->setRange({moved(from, j, r.begin), moved(from, j, r.end)});
    following_ = false;
}

void SideBySide::setAlignment(Alignment how) {
    if (how == how_) return;
    how_ = how;
    alignment_->setCurrentIndex(how == Alignment::by_time ? 0 : 1);
    setLimits();
    delay_->start();
}

void SideBySide::askDifferences() {
    if (cancelled_) *cancelled_ = true;
    struct Part {
        std::shared_ptr<const RunData> data;
        TimeRange range;
    };
    std::vector<Part> parts;
    bool chosen = false;
    for (const Pane& p : panes_) {
        chosen |= p.line->area().has_value();
        parts.push_back({runs_.find(p.run)->data, p.line->area().value_or(p.line->range())});
    }
    title_->setText(panes_.empty() ? QString()
                    : chosen       ? tr("In the area, per rank:")
                                   : tr("In the range shown, per rank (drag for an area):"));
    cancelled_ = std::make_shared<std::atomic<bool>>(false);
    work_.setFuture(QtConcurrent::run([parts = std::move(parts), stop = cancelled_] {
        std::vector<std::vector<AreaRow>> rows;
        for (const Part& p : parts) {
            std::vector<std::int32_t> tracks(p.data->tracks->tracks.size());
            for (std::size_t t = 0; t < tracks.size(); ++t) tracks[t] = static_cast<std::int32_t>(t);
            rows.push_back(area(*p.data->tracks, tracks, p.range.begin, p.range.end, {}, stop.get()));
        }
        return differences(rows);
    }));
}

void SideBySide::showDifferences() {
    if (work_.future().resultCount() == 0) return;
    QStringList names;
    for (const Pane& p : panes_) names.push_back(runs_.find(p.run)->name);
    std::vector<Difference> rows = work_.result();
    const bool fresh = rows.empty() || rows[0].covered.size() == panes_.size();
    if (!fresh) return;
    model_->setDifferences(std::move(rows), names);
    table_->resizeColumnsToContents();
}

} // namespace orrery
