// The timeline's keys and mouse.
#include "gui/timeline/frame_cache.hpp"
#include "gui/timeline/timeline.hpp"
#include "topology/at.hpp"

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

constexpr double zoom_step = 1.5, pan_step = 0.2;

} // namespace

void Timeline::zoomAtCursor(double factor) {
    zoom(factor, cursor_ >= range_.begin && cursor_ < range_.end ? xOf(cursor_) : gutter_ + plotWidth() / 2.0);
}

void Timeline::clearAll() {
    select({}, false);
    clearArea();
    if (microbatch_ >= 0) Q_EMIT microbatchAsked(-1);
}

void Timeline::chooseRow(int row) {
    setCurrentRow(row);
    QAccessibleEvent focus(this, QAccessible::Focus);
    focus.setChild(currentRow_);
    QAccessible::updateAccessibility(&focus);
}

void Timeline::fold(bool folded) {
    if (!rows_.empty() && rows_[at(currentRow_)].expanded == folded) toggleRow(currentRow_);
}

void Timeline::makeCommands() {
    addTimeCommands();
    addSliceCommands();
    addRowCommands();
}

void Timeline::addTimeCommands() {
    const auto add = [this](const char* id, const QString& text, const QString& tip, const QList<QKeySequence>& keys,
                            std::function<void()> run) {
        commands_.push_back({QLatin1String(id), text, tip, keys, {}, std::move(run)});
    };
    add("zoom_in", tr("Zoom in"), tr("Zooms at the cursor, or in the middle"), {Qt::Key_W}, [this] { zoomAtCursor(zoom_step); });
    add("zoom_out", tr("Zoom out"), tr("Zooms at the cursor, or in the middle"), {Qt::Key_S}, [this] { zoomAtCursor(1 / zoom_step); });
    commands_.push_back({"wheel", tr("Zoom at the pointer"), {}, {}, tr("Ctrl+wheel"), {}});
    add("earlier", tr("Earlier"), tr("Moves a fifth of the time shown to the left"), {Qt::Key_A}, [this] { pan(-pan_step); });
    add("later", tr("Later"), tr("Moves a fifth of the time shown to the right"), {Qt::Key_D}, [this] { pan(pan_step); });
    add("whole", tr("Whole step"), tr("Zooms out as far as the step goes"), {Qt::Key_Home}, [this] { goTo(whole()); });
    add("fit", tr("Fit the selection"), tr("Zooms to the selected slice, else the area, else the whole step"), {Qt::Key_F},
        [this] { fit(); });
    add("back", tr("View before"), tr("Shows the time that was shown before"), {Qt::Key_Backspace}, [this] { back(); });
    add("forward", tr("View after"), tr("Takes back a step to the view before"), {QKeySequence(Qt::SHIFT | Qt::Key_Backspace)},
        [this] { forward(); });
    const auto here = [this] { return cursor_ >= 0 ? cursor_ : range_.begin + range_.length() / 2; };
    add("marker", tr("Add a marker"), tr("Puts a marker with a note at the cursor"), {Qt::Key_M},
        [this, here] { Q_EMIT markerAsked(here()); });
    add("remove_marker", tr("Remove the marker nearby"), tr("Removes the marker nearest to the cursor"),
        {QKeySequence(Qt::SHIFT | Qt::Key_M)}, [this, here] { Q_EMIT markerRemovalAsked(here()); });
}

void Timeline::addSliceCommands() {
    const auto add = [this](const char* id, const QString& text, const QString& tip, Qt::Key key, std::function<void()> run) {
        commands_.push_back({QLatin1String(id), text, tip, {QKeySequence(key)}, {}, std::move(run)});
    };
    add("next_slice", tr("Next slice"), tr("Selects it, in the chosen row"), Qt::Key_Period, [this] { step(1); });
    add("previous_slice", tr("Previous slice"), tr("Selects it, in the chosen row"), Qt::Key_Comma, [this] { step(-1); });
    add("arrow_on", tr("Along the arrow"), tr("Goes to the slice that the selected one's arrow leads to"), Qt::Key_BracketRight,
        [this] { follow(true); });
    add("arrow_back", tr("Back along the arrow"), tr("Goes to the slice that the arrow comes from"), Qt::Key_BracketLeft,
        [this] { follow(false); });
    add("microbatch", tr("Highlight the microbatch"), tr("Highlights all slices of the selected one's microbatch; again: no longer"),
        Qt::Key_H, [this] {
            const std::int32_t mb = selected_.valid() && store() ? span_of(*store()->trace, selected_).microbatch : -1;
            Q_EMIT microbatchAsked(mb == microbatch_ ? -1 : mb);
        });
    add("critical", tr("Critical path"), tr("Marks the chain of slices that the length of the step rests on"), Qt::Key_C,
        [this] { Q_EMIT criticalPathAsked(); });
    add("search", tr("Search slices"), tr("Finds slices by name, kind or microbatch"), Qt::Key_Slash, [this] { Q_EMIT searchAsked(); });
    add("clear", tr("Clear the selection"), tr("Clears the selected slice, the area and the highlighted microbatch"), Qt::Key_Escape,
        [this] { clearAll(); });
}

void Timeline::addRowCommands() {
    const auto add = [this](const char* id, const QString& text, const QString& tip, const QList<QKeySequence>& keys,
                            std::function<void()> run) {
        commands_.push_back({QLatin1String(id), text, tip, keys, {}, std::move(run)});
    };
    const auto page = [this] { return std::max(1, verticalScrollBar()->pageStep() / rowHeight_); };
    add("row_up", tr("Row above"), tr("Chooses that row"), {Qt::Key_Up}, [this] { chooseRow(currentRow_ - 1); });
    add("row_down", tr("Row below"), tr("Chooses that row"), {Qt::Key_Down}, [this] { chooseRow(currentRow_ + 1); });
    add("page_up", tr("Page of rows up"), tr("Chooses the row there"), {Qt::Key_PageUp}, [this, page] { chooseRow(currentRow_ - page()); });
    add("page_down", tr("Page of rows down"), tr("Chooses the row there"), {Qt::Key_PageDown},
        [this, page] { chooseRow(currentRow_ + page()); });
    add("fold", tr("Fold the row"), tr("Its queues or ranks are no longer shown one by one"), {Qt::Key_Left}, [this] { fold(true); });
    add("unfold", tr("Unfold the row"), tr("Shows its queues or ranks"), {Qt::Key_Right}, [this] { fold(false); });
    add("toggle", tr("Fold or unfold the row"), tr("Folds or unfolds the chosen row"), {Qt::Key_Return, Qt::Key_Enter, Qt::Key_Space},
        [this] { toggleRow(currentRow_); });
    add("fold_all", tr("Fold the queues of all ranks"), tr("Shows one row for each rank"), {QKeySequence(Qt::SHIFT | Qt::Key_Left)},
        [this] { foldLanes(true); });
    add("unfold_all", tr("Unfold the queues of all ranks"), tr("Shows one row for each queue"), {QKeySequence(Qt::SHIFT | Qt::Key_Right)},
        [this] { foldLanes(false); });
    add("move_up", tr("Move the row up"), tr("Puts it before the row above"), {QKeySequence(Qt::ALT | Qt::Key_Up)},
        [this] { moveRow(-1); });
    add("move_down", tr("Move the row down"), tr("Puts it behind the row below"), {QKeySequence(Qt::ALT | Qt::Key_Down)},
        [this] { moveRow(1); });
    add("pin", tr("Pin the row"), tr("Keeps it above the others; again: no longer"), {Qt::Key_P}, [this] { togglePin(currentRow_); });
}

void Timeline::keyPressEvent(QKeyEvent* e) { e->setAccepted(store() && run_key(commands_, *e)); }

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
            for (const auto& [name, value] : facts(*data(), *hit)) text += text.isEmpty() ? value : "\n" + name + ": " + value;
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
