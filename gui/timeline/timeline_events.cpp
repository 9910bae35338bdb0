// The timeline's keys and mouse.
#include "gui/timeline/frame_cache.hpp"
#include "gui/timeline/timeline.hpp"

#include <QAccessible>
#include <QHelpEvent>
#include <QKeyEvent>
#include <QMouseEvent>
#include <QScrollBar>
#include <QToolTip>
#include <QWheelEvent>

#include <algorithm>
#include <cmath>

namespace orrery {

namespace {

constexpr std::size_t at(std::int64_t i) { return static_cast<std::size_t>(i); }
constexpr double zoom_step = 1.5, pan_step = 0.2;

} // namespace

bool Timeline::navigationKey(QKeyEvent* e) {
    const double anchor = cursor_ >= range_.begin && cursor_ < range_.end ? xOf(cursor_) : gutter_ + plotWidth() / 2.0;
    switch (e->key()) {
    case Qt::Key_W:
        zoom(zoom_step, anchor);
        return true;
    case Qt::Key_S:
        zoom(1 / zoom_step, anchor);
        return true;
    case Qt::Key_A:
        pan(-pan_step);
        return true;
    case Qt::Key_D:
        pan(pan_step);
        return true;
    case Qt::Key_F:
        fit();
        return true;
    case Qt::Key_Home:
        goTo(whole());
        return true;
    case Qt::Key_Backspace:
        if (e->modifiers() & Qt::ShiftModifier)
            forward();
        else
            back();
        return true;
    default:
        return false;
    }
}

bool Timeline::sliceKey(QKeyEvent* e) {
    switch (e->key()) {
    case Qt::Key_Period:
        step(1);
        return true;
    case Qt::Key_Comma:
        step(-1);
        return true;
    case Qt::Key_BracketLeft:
        follow(false);
        return true;
    case Qt::Key_BracketRight:
        follow(true);
        return true;
    case Qt::Key_Slash:
        Q_EMIT searchAsked();
        return true;
    case Qt::Key_C:
        Q_EMIT criticalPathAsked();
        return true;
    case Qt::Key_H: {
        const std::int32_t mb = selected_.valid() && store() ? span_of(*store()->trace, selected_).microbatch : -1;
        Q_EMIT microbatchAsked(mb == microbatch_ ? -1 : mb);
        return true;
    }
    case Qt::Key_M: {
        const std::int64_t t = cursor_ >= 0 ? cursor_ : range_.begin + range_.length() / 2;
        if (e->modifiers() & Qt::ShiftModifier)
            Q_EMIT markerRemovalAsked(t);
        else
            Q_EMIT markerAsked(t);
        return true;
    }
    case Qt::Key_Escape:
        if (!selected_.valid() && !area_ && microbatch_ < 0 && path_.empty()) return false;
        select({}, false);
        clearArea();
        if (microbatch_ >= 0) Q_EMIT microbatchAsked(-1);
        return true;
    default:
        return false;
    }
}

bool Timeline::rowKey(QKeyEvent* e) {
    const bool alt = e->modifiers() & Qt::AltModifier;
    const int page = std::max(1, verticalScrollBar()->pageStep() / rowHeight_);
    switch (e->key()) {
    case Qt::Key_Up:
        alt ? moveRow(-1) : setCurrentRow(currentRow_ - 1);
        break;
    case Qt::Key_Down:
        alt ? moveRow(1) : setCurrentRow(currentRow_ + 1);
        break;
    case Qt::Key_PageUp:
        setCurrentRow(currentRow_ - page);
        break;
    case Qt::Key_PageDown:
        setCurrentRow(currentRow_ + page);
        break;
    case Qt::Key_Left:
        if (e->modifiers() & Qt::ShiftModifier)
            foldLanes(true);
        else if (!rows_.empty() && rows_[at(currentRow_)].expanded)
            toggleRow(currentRow_);
        break;
    case Qt::Key_Right:
        if (e->modifiers() & Qt::ShiftModifier)
            foldLanes(false);
        else if (!rows_.empty() && !rows_[at(currentRow_)].expanded)
            toggleRow(currentRow_);
        break;
    case Qt::Key_Return:
    case Qt::Key_Enter:
    case Qt::Key_Space:
        toggleRow(currentRow_);
        break;
    case Qt::Key_P:
        togglePin(currentRow_);
        break;
    default:
        return false;
    }
    QAccessibleEvent focus(this, QAccessible::Focus);
    focus.setChild(currentRow_);
    QAccessible::updateAccessibility(&focus);
    return true;
}

void Timeline::keyPressEvent(QKeyEvent* e) {
    const bool command = e->modifiers() & (Qt::ControlModifier | Qt::MetaModifier);
    if (store() && !command && (navigationKey(e) || sliceKey(e) || rowKey(e))) return e->accept();
    e->ignore();
}

void Timeline::wheelEvent(QWheelEvent* e) {
    if (!store()) return;
    const QPoint turn = e->angleDelta();
    if (e->modifiers() & Qt::ControlModifier)
        zoom(std::pow(1.0015, turn.y() ? turn.y() : turn.x()), e->position().x());
    else if (e->modifiers() & Qt::ShiftModifier || std::abs(turn.x()) > std::abs(turn.y()))
        pan(-(turn.x() ? turn.x() : turn.y()) / 1200.0);
    else
        return QAbstractScrollArea::wheelEvent(e);
    e->accept();
}

std::optional<SpanRef> Timeline::spanAt(const QPoint& pos) const {
    const int row = rowAt(pos.y());
    if (row < 0 || pos.x() < gutter_ || !store()) return {};
    // Within two pixels: a thin slice can be hit too, the nearest first.
    for (std::int32_t track : rows_[at(row)].tracks)
        for (double off : {0.5, 0.0, 1.0, -1.0, 2.0}) {
            const Track& t = store()->tracks[at(track)];
            const std::int32_t i = slice_at(*store(), t, timeOf(pos.x() + off));
            if (i >= 0) return SpanRef{t.lane, span_index(t, i)};
        }
    return {};
}

void Timeline::mousePressEvent(QMouseEvent* e) {
    if (!store()) return;
    pressed_ = e->position().toPoint();
    pressedRange_ = range_;
    const bool panning = e->button() == Qt::MiddleButton || (e->button() == Qt::LeftButton && e->modifiers() & Qt::ShiftModifier);
    if (panning)
        drag_ = Drag::pan;
    else if (e->button() != Qt::LeftButton)
        return;
    else if (pressed_.y() < ruler_)
        drag_ = Drag::ruler;
    else
        drag_ = Drag::click;
    const int row = rowAt(pressed_.y());
    if (row >= 0) setCurrentRow(row);
    if (pressed_.x() < gutter_ && drag_ == Drag::click) {
        if (row >= 0 && pressed_.x() < 20 + 14 * rows_[at(row)].depth) toggleRow(row);
        drag_ = Drag::none;
    }
}

void Timeline::mouseMoveEvent(QMouseEvent* e) {
    if (!store()) return;
    const QPoint pos = e->position().toPoint();
    const bool far = (pos - pressed_).manhattanLength() > 4;
    if ((drag_ == Drag::click || drag_ == Drag::ruler) && far) {
        areaTop_ = drag_ == Drag::ruler ? 0 : std::max(0, rowAt(pressed_.y()));
        areaBottom_ = static_cast<int>(rows_.size()) - 1;
        drag_ = drag_ == Drag::click ? Drag::area : Drag::ruler;
    }
    if (drag_ == Drag::pan) {
        const auto by = static_cast<std::int64_t>((pressed_.x() - pos.x()) * static_cast<double>(pressedRange_.length()) / plotWidth());
        goTo({pressedRange_.begin + by, pressedRange_.end + by});
    } else if (drag_ == Drag::area || (drag_ == Drag::ruler && far)) {
        const std::int64_t a = timeOf(pressed_.x()), b = timeOf(pos.x());
        area_ = TimeRange{std::max(std::min(a, b), whole().begin), std::min(std::max(a, b), whole().end)};
        if (drag_ == Drag::area) {
            const int from = rowAt(pressed_.y()), to = rowAt(std::max(pos.y(), ruler_));
            areaTop_ = std::max(0, to < 0 ? from : std::min(from, to));
            areaBottom_ = to < 0 ? static_cast<int>(rows_.size()) - 1 : std::max(from, to);
        }
        viewport()->update();
    }
    if (pos.x() >= gutter_) {
        setCursorTime(timeOf(pos.x()));
        Q_EMIT cursorMoved(cursor_);
    }
}

void Timeline::mouseReleaseEvent(QMouseEvent* e) {
    const Drag was = std::exchange(drag_, Drag::none);
    if (was == Drag::click) {
        const auto hit = spanAt(e->position().toPoint());
        select(hit.value_or(SpanRef{}), false);
    } else if (was == Drag::area || (was == Drag::ruler && area_)) {
        Q_EMIT areaChanged();
    }
}

void Timeline::mouseDoubleClickEvent(QMouseEvent* e) {
    if (const auto hit = spanAt(e->position().toPoint())) {
        select(*hit, false);
        fit();
    }
}

void Timeline::leaveEvent(QEvent*) {
    setCursorTime(-1);
    Q_EMIT cursorMoved(-1);
}

bool Timeline::viewportEvent(QEvent* e) {
    if (e->type() == QEvent::ToolTip && store()) {
        auto* help = static_cast<QHelpEvent*>(e);
        const int row = rowAt(help->pos().y());
        QString text;
        if (const auto hit = spanAt(help->pos())) {
            for (const auto& [name, value] : facts(*store()->trace, *hit)) text += text.isEmpty() ? value : "\n" + name + ": " + value;
        } else if (row >= 0 && help->pos().x() < gutter_) {
            text = rowText(row);
        }
        QToolTip::showText(help->globalPos(), text, viewport());
        return true;
    }
    return QAbstractScrollArea::viewportEvent(e);
}

void Timeline::resizeEvent(QResizeEvent*) {
    updateGeometryOfRows();
    if (store() && range_.length() > 0) setRange(range_);
}

void Timeline::scrollContentsBy(int, int) { viewport()->update(); }

void Timeline::changeEvent(QEvent* e) {
    QAbstractScrollArea::changeEvent(e);
    if (e->type() != QEvent::PaletteChange && e->type() != QEvent::FontChange && e->type() != QEvent::StyleChange) return;
    frame_->valid = false;
    updateGeometryOfRows();
    viewport()->update();
}

void Timeline::focusInEvent(QFocusEvent* e) {
    QAbstractScrollArea::focusInEvent(e);
    viewport()->update(0, 0, gutter_, viewport()->height());
}

void Timeline::focusOutEvent(QFocusEvent* e) {
    QAbstractScrollArea::focusOutEvent(e);
    viewport()->update(0, 0, gutter_, viewport()->height());
}

} // namespace orrery
