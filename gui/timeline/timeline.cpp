// The content of the timeline, and its moves.
#include "gui/timeline/timeline.hpp"

#include "gui/timeline/accessible.hpp"
#include "gui/timeline/frame_cache.hpp"
#include "topology/at.hpp"

#include <QDateTime>
#include <QScrollBar>
#include <QTimer>

#include <algorithm>
#include <cmath>

namespace orrery {

Timeline::Timeline(QWidget* parent) : QAbstractScrollArea(parent), frame_(std::make_unique<Frame>()) {
    static const bool readable = (make_timelines_accessible(), true);
    Q_UNUSED(readable)
    setFocusPolicy(Qt::StrongFocus);
    viewport()->setMouseTracking(true);
    viewport()->setAttribute(Qt::WA_OpaquePaintEvent);
    setHorizontalScrollBarPolicy(Qt::ScrollBarAlwaysOff);
    setFrameShape(QFrame::NoFrame);
    setAccessibleName(tr("Timeline"));
    setAccessibleDescription(
        tr("Ranks and queues over time. W and S zoom, A and D pan, the arrow keys choose a row, comma and full stop a slice."));
    refine_ = new QTimer(this);
    refine_->setSingleShot(true);
    refine_->setInterval(120);
    connect(refine_, &QTimer::timeout, viewport(), qOverload<>(&QWidget::update));
    makeCommands();
    updateGeometryOfRows();
}

Timeline::~Timeline() = default;

void Timeline::setRun(RunId id, std::shared_ptr<const RunData> data) {
    if (data == data_ && id == run_) return;
    const bool another = id != run_ || !data_;
    run_ = id;
    data_ = std::move(data);
    selected_ = {};
    arrows_.clear();
    path_.clear();
    past_.clear();
    future_.clear();
    rebuildRows();
    clearArea();
    if (another || range_.length() <= 0)
        range_ = whole();
    else
        setRange(range_);
    viewport()->update();
}

void Timeline::setHint(const QString& hint) {
    hint_ = hint;
    viewport()->update();
}

TimeRange whole_of(const TrackStore& store) { return {store.begin, store.end}; }

TimeRange Timeline::whole() const { return limits_ ? *limits_ : store() ? whole_of(*store()) : TimeRange{}; }

void Timeline::setLimits(std::optional<TimeRange> limits) {
    limits_ = limits;
    if (store()) setRange(range_);
}

void Timeline::setRange(TimeRange r) {
    if (!store()) return;
    const TimeRange all = whole();
    const std::int64_t least = std::min<std::int64_t>(all.length(), std::max(1, plotWidth()));
    const std::int64_t length = std::clamp<std::int64_t>(r.length() <= 0 ? all.length() : r.length(), least, all.length());
    r.begin = std::clamp(r.begin, all.begin, all.end - length);
    r.end = r.begin + length;
    if (r == range_) return;
    range_ = r;
    viewport()->update();
    Q_EMIT rangeChanged(range_);
}

void Timeline::goTo(TimeRange r) {
    const qint64 now = QDateTime::currentMSecsSinceEpoch();
    const TimeRange before = range_;
    setRange(r);
    if (range_ == before) return;
    if (now - lastMove_ > 400 || past_.empty()) past_.push_back(before);
    if (past_.size() > 200) past_.erase(past_.begin());
    future_.clear();
    lastMove_ = now;
}

void Timeline::back() {
    if (past_.empty()) return;
    future_.push_back(range_);
    const TimeRange to = past_.back();
    past_.pop_back();
    setRange(to);
    lastMove_ = 0;
}

void Timeline::forward() {
    if (future_.empty()) return;
    past_.push_back(range_);
    const TimeRange to = future_.back();
    future_.pop_back();
    setRange(to);
    lastMove_ = 0;
}

void Timeline::zoom(double factor, double anchor_x) {
    if (!store()) return;
    const double share = std::clamp((anchor_x - gutter_) / std::max(1, plotWidth()), 0.0, 1.0);
    const double anchor = static_cast<double>(range_.begin) + share * static_cast<double>(range_.length());
    const double length = std::min(static_cast<double>(range_.length()) / factor, static_cast<double>(whole().length()));
    const auto begin = static_cast<std::int64_t>(anchor - share * length);
    goTo({begin, begin + std::max<std::int64_t>(1, static_cast<std::int64_t>(length))});
}

void Timeline::pan(double share) {
    const auto by = static_cast<std::int64_t>(share * static_cast<double>(range_.length()));
    goTo({range_.begin + by, range_.end + by});
}

void Timeline::fit() {
    if (!store()) return;
    TimeRange r = whole();
    if (selected_.valid()) {
        const Span& s = span_of(*store()->trace, selected_);
        r = {s.begin.ps, s.end.ps};
    } else if (area_) {
        r = *area_;
    }
    const std::int64_t margin = r == whole() ? 0 : r.length() / 20 + 1;
    goTo({r.begin - margin, r.end + margin});
}

void Timeline::setRowOptions(RowOptions options) {
    if (options == options_) return;
    const QString current = currentRow_ < static_cast<int>(rows_.size()) ? rows_[at(currentRow_)].key : QString();
    options_ = std::move(options);
    rebuildRows();
    for (int i = 0; i < static_cast<int>(rows_.size()); ++i)
        if (rows_[at(i)].key == current) currentRow_ = i;
    Q_EMIT rowOptionsChanged();
}

void Timeline::rebuildRows() {
    rows_ = store() ? rows_of(*store(), data_->plan ? &*data_->plan : nullptr, options_) : std::vector<Row>{};
    rowOfTrack_.assign(store() ? store()->tracks.size() : 0, -1);
    // A track's own row, else the group's it is folded into; pinned copies only where there is no other. Folded queues: their lane's.
    for (bool pinned : {false, true})
        for (int i = 0; i < static_cast<int>(rows_.size()); ++i)
            for (std::int32_t t : rows_[at(i)].tracks) {
                int& row = rowOfTrack_[at(t)];
                const bool better = row < 0 || (!pinned && rows_[at(row)].kind == RowKind::group);
                if (rows_[at(i)].pinned == pinned && better) row = i;
            }
    for (std::size_t t = 1; t < rowOfTrack_.size(); ++t)
        if (rowOfTrack_[t] < 0 && store()->tracks[t].lane == store()->tracks[t - 1].lane) rowOfTrack_[t] = rowOfTrack_[t - 1];
    currentRow_ = std::clamp(currentRow_, 0, std::max(0, static_cast<int>(rows_.size()) - 1));
    frame_->valid = false;
    updateGeometryOfRows();
    viewport()->update();
}

int Timeline::rowOfTrack(std::int32_t track) const { return track < 0 ? -1 : rowOfTrack_[at(track)]; }

void Timeline::setCurrentRow(int row) {
    if (rows_.empty()) return;
    currentRow_ = std::clamp(row, 0, static_cast<int>(rows_.size()) - 1);
    const QRect r = rowRect(currentRow_);
    const int top = ruler_ + pinnedRows() * rowHeight_;
    QScrollBar* bar = verticalScrollBar();
    if (!rows_[at(currentRow_)].pinned) {
        if (r.top() < top)
            bar->setValue(bar->value() - (top - r.top()));
        else if (r.bottom() > viewport()->height())
            bar->setValue(bar->value() + r.bottom() - viewport()->height() + 1);
    }
    viewport()->update();
}

void Timeline::select(SpanRef ref, bool reveal) {
    if (!store()) return;
    const auto lanes = static_cast<std::int32_t>(store()->trace->lanes.size());
    if (ref.lane >= lanes || (ref.valid() && (ref.span < 0 || at(ref.span) >= store()->trace->lanes[at(ref.lane)].spans.size()))) ref = {};
    const bool changed = ref != selected_;
    selected_ = ref;
    if (changed) arrows_ = ref.valid() ? arrows_of(*store(), data_->plan ? &*data_->plan : nullptr, ref) : std::vector<Arrow>{};
    if (reveal && ref.valid()) {
        const Span& s = span_of(*store()->trace, ref);
        if (s.end.ps <= range_.begin || s.begin.ps >= range_.end) {
            const std::int64_t middle = s.begin.ps + (s.end.ps - s.begin.ps) / 2, half = range_.length() / 2;
            goTo({middle - half, middle + half});
        }
        const int row = rowOfTrack(place_of(*store(), ref.lane, ref.span).track);
        if (row >= 0) setCurrentRow(row);
    }
    viewport()->update();
    if (changed) Q_EMIT sliceSelected(ref.valid() ? SliceId{run_, ref.lane, ref.span} : SliceId{});
}

void Timeline::step(int delta) {
    if (!store() || rows_.empty()) return;
    Place p;
    if (selected_.valid()) p = place_of(*store(), selected_.lane, selected_.span);
    const Row& row = rows_[at(currentRow_)];
    const bool here = p.track >= 0 && std::find(row.tracks.begin(), row.tracks.end(), p.track) != row.tracks.end();
    if (!here) {
        if (row.tracks.empty()) return;
        const Track& t = store()->tracks[at(row.tracks[0])];
        const std::int32_t i = std::clamp(last_begun(*store(), t, timeOf(gutter_ + plotWidth() / 2.0)), 0, slice_count(t) - 1);
        select({t.lane, span_index(t, i)}, true);
        return;
    }
    const Track& t = store()->tracks[at(p.track)];
    const std::int32_t i = p.slice + delta;
    if (i >= 0 && i < slice_count(t)) select({t.lane, span_index(t, i)}, true);
}

void Timeline::follow(bool outgoing) {
    for (const Arrow& a : arrows_) {
        if (outgoing && a.from == selected_) return select(a.to, true);
        if (!outgoing && a.to == selected_) return select(a.from, true);
    }
}

void Timeline::toggleRow(int row) {
    if (row < 0 || row >= static_cast<int>(rows_.size()) || !rows_[at(row)].expandable) return;
    RowOptions options = options_;
    const QString& key = rows_[at(row)].key;
    if (!options.folded.erase(key)) options.folded.insert(key);
    setRowOptions(std::move(options));
}

void Timeline::foldLanes(bool folded) {
    if (!store()) return;
    RowOptions options = options_;
    options.folded.clear();
    if (folded)
        for (const Row& r : rows_of(*store(), data_->plan ? &*data_->plan : nullptr, options))
            if (r.kind == RowKind::lane) options.folded.insert(r.key);
    setRowOptions(std::move(options));
}

void Timeline::togglePin(int row) {
    if (row < 0 || row >= static_cast<int>(rows_.size())) return;
    RowOptions options = options_;
    const QString& key = rows_[at(row)].key;
    const auto p = std::find(options.pinned.begin(), options.pinned.end(), key);
    if (p == options.pinned.end())
        options.pinned.push_back(key);
    else
        options.pinned.erase(p);
    setRowOptions(std::move(options));
}

void Timeline::moveRow(int delta) {
    RowOptions options = options_;
    if (currentRow_ < static_cast<int>(rows_.size()) && move_row(options, rows_, at(currentRow_), delta)) setRowOptions(std::move(options));
}

void Timeline::setMicrobatch(std::int32_t microbatch) {
    microbatch_ = microbatch;
    viewport()->update();
}

void Timeline::setCriticalPath(std::vector<PathStep> path) {
    path_ = std::move(path);
    viewport()->update();
}

void Timeline::setMarkers(std::vector<Marker> markers) {
    markers_ = std::move(markers);
    viewport()->update();
}

void Timeline::setCursorTime(std::int64_t ps) {
    if (ps == cursor_) return;
    updateColumn(cursor_);
    cursor_ = ps;
    updateColumn(cursor_);
}

void Timeline::showArea(TimeRange r) {
    area_ = r;
    areaTop_ = 0;
    areaBottom_ = static_cast<int>(rows_.size()) - 1;
    viewport()->update();
}

void Timeline::clearArea() {
    if (!area_) return;
    area_.reset();
    viewport()->update();
    Q_EMIT areaChanged();
}

std::vector<std::int32_t> Timeline::areaTracks() const {
    std::vector<std::int32_t> out;
    for (int i = std::max(0, areaTop_); area_ && i <= areaBottom_ && i < static_cast<int>(rows_.size()); ++i)
        out.insert(out.end(), rows_[at(i)].tracks.begin(), rows_[at(i)].tracks.end());
    std::sort(out.begin(), out.end());
    out.erase(std::unique(out.begin(), out.end()), out.end());
    return out;
}

QString Timeline::rowText(int index) const {
    const Row& row = rows_[at(index)];
    if (row.tracks.empty()) return row.label;
    const ColumnTimes times = column_times(*store(), row.tracks, {range_.begin, range_.end, 1});
    QStringList parts;
    for (std::size_t k = 0; k < times.kinds.size(); ++k) {
        const double share = static_cast<double>(times.busy[k]) / static_cast<double>(range_.length()) / times.tracks;
        if (share >= 0.001) parts.push_back(tr("%1 %2 %").arg(label(times.kinds[k])).arg(100 * share, 0, 'f', 1));
    }
    return row.label + ": " + (parts.empty() ? tr("idle") : parts.join(", "));
}

} // namespace orrery
