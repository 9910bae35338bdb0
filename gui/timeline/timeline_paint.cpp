// How the timeline looks: the kept picture of the rows, and over it what is selected, linked, marked or under the mouse.
#include "gui/core/axis.hpp"
#include "gui/timeline/frame_cache.hpp"
#include "gui/timeline/timeline.hpp"
#include "topology/at.hpp"

#include <QElapsedTimer>
#include <QLoggingCategory>
#include <QPainter>
#include <QPainterPath>
#include <QPaintEvent>
#include <QScrollBar>
#include <QTimer>

#include <algorithm>
#include <cmath>

namespace orrery {

Q_LOGGING_CATEGORY(frames, "orrery.timeline.frames", QtWarningMsg)

namespace {

constexpr std::size_t most_arrows = 1000;
constexpr double frame_budget_ms = 16;

} // namespace

bool Timeline::dark() const { return palette().color(QPalette::Base).lightness() < 128; }
int Timeline::plotWidth() const { return std::max(1, viewport()->width() - gutter_); }
int Timeline::pinnedRows() const {
    return static_cast<int>(std::count_if(rows_.begin(), rows_.end(), [](const Row& r) { return r.pinned; }));
}

double Timeline::xOf(std::int64_t ps) const {
    if (range_.length() <= 0) return gutter_;
    return gutter_ + (static_cast<double>(ps) - static_cast<double>(range_.begin)) * plotWidth() / static_cast<double>(range_.length());
}

std::int64_t Timeline::timeOf(double x) const {
    return range_.begin + static_cast<std::int64_t>((x - gutter_) / plotWidth() * static_cast<double>(range_.length()));
}

int Timeline::widthOfLabels() const {
    const QFontMetrics metrics(font());
    int widest = 60;
    for (const Row& r : rows_) widest = std::max(widest, metrics.horizontalAdvance(r.label) + 14 * r.depth + 30);
    return std::min(widest, 260);
}

void Timeline::setLabelsAtLeast(int width) {
    leastGutter_ = width;
    updateGeometryOfRows();
    viewport()->update();
}

void Timeline::updateGeometryOfRows() {
    const QFontMetrics metrics(font());
    ruler_ = metrics.height() + 8;
    rowHeight_ = std::max(12, metrics.height() + 1);
    gutter_ = std::max(leastGutter_, widthOfLabels());
    const int pinned = pinnedRows(), room = viewport()->height() - ruler_ - pinned * rowHeight_;
    verticalScrollBar()->setRange(0, std::max(0, (static_cast<int>(rows_.size()) - pinned) * rowHeight_ - room));
    verticalScrollBar()->setPageStep(std::max(rowHeight_, room));
    verticalScrollBar()->setSingleStep(rowHeight_);
}

QRect Timeline::rowRect(int row) const {
    const int pinned = pinnedRows();
    const int y = ruler_ + row * rowHeight_ - (row < pinned ? 0 : verticalScrollBar()->value());
    return {0, y, viewport()->width(), rowHeight_};
}

int Timeline::rowAt(int y) const {
    const int pinned = pinnedRows(), top = y - ruler_;
    if (top < 0) return -1;
    const int row = top < pinned * rowHeight_ ? top / rowHeight_ : (top + verticalScrollBar()->value()) / rowHeight_;
    return row < static_cast<int>(rows_.size()) ? row : -1;
}

void Timeline::paintEvent(QPaintEvent* event) {
    QElapsedTimer clock;
    clock.start();
    QPainter p(viewport());
    p.setFont(font());
    if (!store()) return paintHint(p);
    showFrame(p);
    if (event->rect().left() < gutter_) paintGutter(p, event->rect());
    paintRuler(p);
    p.setClipRect(QRect(gutter_, 0, plotWidth(), viewport()->height()).intersected(event->rect()));
    paintOverlays(p);
    qCDebug(frames) << "painted" << event->rect() << "in" << static_cast<double>(clock.nsecsElapsed()) * 1e-6 << "ms";
}

void Timeline::paintHint(QPainter& p) {
    p.fillRect(viewport()->rect(), palette().base());
    p.setPen(palette().color(QPalette::PlaceholderText));
    p.drawText(viewport()->rect().adjusted(20, 20, -20, -20), Qt::AlignCenter | Qt::TextWordWrap, hint_);
}

void Timeline::showFrame(QPainter& p) {
    Frame& f = *frame_;
    const QSize size(plotWidth(), std::max(1, viewport()->height() - ruler_));
    const int scroll = verticalScrollBar()->value();
    // On a fine screen a picture may take longer than a frame: while it moves, one device pixel a logical one will do.
    const bool moving = f.valid && f.range != range_ && f.cost_ms > frame_budget_ms && devicePixelRatioF() > 1;
    if (moving) refine_->start();
    const double ratio = moving || refine_->isActive() ? 1 : devicePixelRatioF();
    const bool same =
        f.valid && f.range == range_ && f.size == size && f.scroll == scroll && f.microbatch == microbatch_ && f.ratio == ratio;
    if (!same) {
        QElapsedTimer clock;
        clock.start();
        FrameRequest r;
        r.range = range_;
        r.width = size.width();
        r.height = size.height();
        r.row_height = rowHeight_ - 1;
        r.ratio = ratio;
        r.dark = dark();
        r.background = palette().color(QPalette::Base);
        r.lines = QColor(0, 0, 0, r.dark ? 140 : 90);
        r.font = font();
        r.microbatch = microbatch_;
        const int pinned = pinnedRows();
        for (int i = 0; i < static_cast<int>(rows_.size()); ++i) {
            const QRect rect = rowRect(i);
            const int visible_from = i < pinned ? ruler_ : ruler_ + pinned * rowHeight_;
            if (rect.bottom() < visible_from || rect.top() > viewport()->height()) continue;
            r.rows.push_back({i, rect.top() - ruler_});
        }
        render_rows(*store(), rows_, r, f.image);
        f.valid = true;
        f.range = range_;
        f.size = size;
        f.scroll = scroll;
        f.microbatch = microbatch_;
        f.ratio = ratio;
        if (pinned > 0) { // rows that scrolled under the pinned ones
            FrameRequest top = r;
            top.height = pinned * rowHeight_;
            std::erase_if(top.rows, [&](const FrameRow& row) { return row.row >= pinned; });
            QPainter over(&f.image);
            over.drawImage(QPoint(0, 0), render_rows(*store(), rows_, top));
        }
        if (ratio == devicePixelRatioF()) f.cost_ms = static_cast<double>(clock.nsecsElapsed()) * 1e-6;
    }
    p.drawImage(QPoint(gutter_, ruler_), f.image);
}

void Timeline::paintGutter(QPainter& p, const QRect& dirty) {
    const QPalette& colours = palette();
    p.fillRect(QRect(0, ruler_, gutter_, viewport()->height()), colours.window());
    const int pinned = pinnedRows();
    for (int pass = 0; pass < 2; ++pass) { // pinned rows last: they stand over the others
        if (pass == 1) p.fillRect(QRect(0, ruler_, gutter_, pinned * rowHeight_), colours.window());
        for (int i = pass == 0 ? pinned : 0; i < (pass == 0 ? static_cast<int>(rows_.size()) : pinned); ++i) {
            const QRect rect = rowRect(i);
            if (rect.bottom() < ruler_ || rect.top() > dirty.bottom()) continue;
            const Row& row = rows_[at(i)];
            const QRect cell(0, rect.top(), gutter_, rowHeight_);
            const bool current = i == currentRow_;
            if (current && hasFocus())
                p.fillRect(cell, colours.highlight());
            else if (current || row.kind == RowKind::group)
                p.fillRect(cell, colours.color(QPalette::AlternateBase));
            p.setPen(current && hasFocus() ? colours.color(QPalette::HighlightedText) : colours.color(QPalette::WindowText));
            const int left = 4 + 14 * row.depth;
            if (row.expandable)
                p.drawText(QRect(left, rect.top(), 12, rowHeight_), Qt::AlignCenter, row.expanded ? "▾" : "▸");
            else if (row.pinned)
                p.drawText(QRect(left, rect.top(), 12, rowHeight_), Qt::AlignCenter, "•");
            const QRect room(left + 14, rect.top(), gutter_ - left - 18, rowHeight_);
            p.drawText(room, Qt::AlignVCenter | Qt::AlignLeft, p.fontMetrics().elidedText(row.label, Qt::ElideMiddle, room.width()));
        }
    }
    p.setPen(colours.color(QPalette::Mid));
    p.drawLine(gutter_ - 1, 0, gutter_ - 1, viewport()->height());
    if (pinned > 0) p.drawLine(0, ruler_ + pinned * rowHeight_ - 1, viewport()->width(), ruler_ + pinned * rowHeight_ - 1);
}

void Timeline::paintRuler(QPainter& p) {
    p.fillRect(QRect(0, 0, viewport()->width(), ruler_), palette().window());
    p.setPen(palette().color(QPalette::WindowText));
    p.drawText(QRect(6, 0, gutter_ - 12, ruler_), Qt::AlignVCenter, tr("%1 shown").arg(duration_text(range_.length())));
    const double per_pixel = static_cast<double>(range_.length()) / plotWidth();
    const std::int64_t step = round_step_ps(per_pixel * 110);
    for (std::int64_t t = first_mark(range_.begin, step); t < range_.end; t += step) {
        const double x = xOf(t);
        p.drawLine(QPointF(x, ruler_ - 7), QPointF(x, ruler_ - 1));
        p.drawText(QRectF(x + 3, 0, 105, ruler_ - 3), Qt::AlignVCenter | Qt::AlignLeft, time_text(t, step));
    }
    p.drawLine(gutter_, ruler_ - 1, viewport()->width(), ruler_ - 1);
    for (const Marker& m : markers_) {
        const double x = xOf(m.at);
        if (x < gutter_ || x > viewport()->width()) continue;
        p.setPen(Qt::NoPen);
        p.setBrush(QColor(0xd5, 0x5e, 0x00));
        p.drawPolygon(QPolygonF({{x, ruler_ - 1.0}, {x - 5, ruler_ - 10.0}, {x + 5, ruler_ - 10.0}}));
    }
}

void Timeline::paintOverlays(QPainter& p) {
    paintArea(p);
    if (!path_.empty()) paintPath(p);
    paintArrows(p);
    paintSelection(p);
    paintCursor(p);
}

QRectF Timeline::rectOf(SpanRef ref) const {
    const int row = rowOfTrack(place_of(*store(), ref.lane, ref.span).track);
    if (row < 0) return {};
    const Span& s = span_of(*store()->trace, ref);
    const QRect r = rowRect(row);
    const double left = xOf(s.begin.ps);
    return {left, r.top() + 1.0, std::max(1.0, xOf(s.end.ps) - left), r.height() - 1.0};
}

void Timeline::paintSelection(QPainter& p) {
    if (!selected_.valid()) return;
    const QRectF r = rectOf(selected_);
    if (r.isEmpty()) return;
    p.setRenderHint(QPainter::Antialiasing, false);
    p.setBrush(Qt::NoBrush);
    p.setPen(QPen(dark() ? Qt::white : Qt::black, 2));
    p.drawRect(r.adjusted(-1, -1, 1, 1));
}

void Timeline::paintArrows(QPainter& p) {
    if (arrows_.empty()) return;
    p.setRenderHint(QPainter::Antialiasing);
    for (std::size_t i = 0; i < std::min(arrows_.size(), most_arrows); ++i) {
        const QRectF from = rectOf(arrows_[i].from), to = rectOf(arrows_[i].to);
        if (from.isEmpty() || to.isEmpty()) continue;
        const bool together = arrows_[i].kind == ArrowKind::collective;
        const QPointF a = together ? QPointF(from.left(), from.center().y()) : QPointF(from.right(), from.center().y());
        const QPointF b(to.left(), to.center().y());
        const QColor ink = palette().color(QPalette::Text);
        p.setPen(QPen(ink, 1.5, arrows_[i].kind == ArrowKind::dependency ? Qt::DashLine : Qt::SolidLine));
        p.setBrush(Qt::NoBrush);
        const double bend = std::clamp(std::abs(b.x() - a.x()) / 2, 12.0, 120.0);
        QPainterPath path(a);
        if (together)
            path.lineTo(b);
        else
            path.cubicTo(a + QPointF(bend, 0), b - QPointF(bend, 0), b);
        p.drawPath(path);
        p.setBrush(ink);
        p.setPen(Qt::NoPen);
        if (together)
            p.drawEllipse(b, 3, 3);
        else
            p.drawPolygon(QPolygonF({b, b + QPointF(-7, -4), b + QPointF(-7, 4)}));
    }
    p.setRenderHint(QPainter::Antialiasing, false);
}

// A line under the slices of the path, and where it changes rows a line between them.
void Timeline::paintPath(QPainter& p) {
    const QColor ink = dark() ? QColor(0xff, 0x6b, 0xd6) : QColor(0xb0, 0x00, 0x6e);
    p.setPen(QPen(ink, 3, Qt::SolidLine, Qt::FlatCap));
    const auto ends_before = [&](const PathStep& s) { return span_of(*store()->trace, {s.lane, s.span}).end.ps <= range_.begin; };
    auto step = std::partition_point(path_.begin(), path_.end(), ends_before);
    QPointF last;
    double drawn = -1;
    for (; step != path_.end(); ++step) {
        const Span& s = span_of(*store()->trace, {step->lane, step->span});
        if (s.begin.ps >= range_.end) break;
        const int row = rowOfTrack(place_of(*store(), step->lane, step->span).track);
        if (row < 0) continue;
        const double y = rowRect(row).bottom() - 1;
        const QPointF a(xOf(s.begin.ps), y), b(std::max(xOf(s.end.ps), a.x() + 0.5), y);
        if (b.x() - drawn < 0.5 && y == last.y()) continue; // nothing new to see
        if (!last.isNull() && last.y() != y) {
            p.setPen(QPen(ink, 1.5));
            p.drawLine(QPointF(a.x(), last.y()), a);
            p.setPen(QPen(ink, 3, Qt::SolidLine, Qt::FlatCap));
        }
        p.drawLine(a, b);
        last = b;
        drawn = b.x();
    }
}

void Timeline::paintArea(QPainter& p) {
    if (!area_) return;
    QColor veil = palette().color(QPalette::Highlight);
    const double left = xOf(area_->begin), right = xOf(area_->end);
    const int top = rowRect(std::max(0, areaTop_)).top(), bottom = areaBottom_ < 0 ? viewport()->height() : rowRect(areaBottom_).bottom();
    p.setPen(QPen(veil, 1));
    veil.setAlpha(50);
    p.setBrush(veil);
    p.drawRect(QRectF(left, top, right - left, bottom - top));
    const QString text = duration_text(area_->length());
    const double wide = p.fontMetrics().horizontalAdvance(text) + 10;
    const QRectF plate((left + right - wide) / 2, 1, wide, ruler_ - 3);
    p.fillRect(plate, palette().color(QPalette::Highlight));
    p.setPen(palette().color(QPalette::HighlightedText));
    p.drawText(plate, Qt::AlignCenter, text);
}

void Timeline::paintCursor(QPainter& p) {
    for (const Marker& m : markers_) {
        p.setPen(QPen(QColor(0xd5, 0x5e, 0x00), 1, Qt::DashLine));
        const double x = xOf(m.at);
        p.drawLine(QPointF(x, ruler_), QPointF(x, viewport()->height()));
        if (!m.note.isEmpty()) p.drawText(QPointF(x + 4, viewport()->height() - 6), m.note);
    }
    if (cursor_ < 0) return;
    p.setPen(QPen(palette().color(QPalette::Text), 1, Qt::DotLine));
    const double x = std::floor(xOf(cursor_)) + 0.5;
    p.drawLine(QPointF(x, 0), QPointF(x, viewport()->height()));
}

void Timeline::updateColumn(std::int64_t ps) {
    if (ps >= 0) viewport()->update(QRect(static_cast<int>(xOf(ps)) - 2, 0, 5, viewport()->height()));
}

} // namespace orrery
