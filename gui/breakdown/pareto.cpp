#include "gui/breakdown/pareto.hpp"

#include "gui/core/axis.hpp"
#include "gui/core/categories.hpp"

#include <QHelpEvent>
#include <QKeyEvent>
#include <QMouseEvent>
#include <QPainter>
#include <QPainterPath>
#include <QToolTip>

#include <algorithm>
#include <cmath>
#include <tuple>

namespace orrery {
namespace {

constexpr double radius = 5, reach = 9;

} // namespace

std::vector<std::size_t> frontier(const std::vector<ParetoPoint>& points) {
    std::vector<std::size_t> order;
    for (std::size_t i = 0; i < points.size(); ++i)
        if (points[i].fits) order.push_back(i);
    std::sort(order.begin(), order.end(),
              [&](std::size_t a, std::size_t b) { return std::tie(points[a].x, points[a].y, a) < std::tie(points[b].x, points[b].y, b); });
    std::vector<std::size_t> out;
    for (std::size_t i : order)
        if (out.empty() || points[i].y < points[out.back()].y) out.push_back(i);
    return out;
}

ParetoPlot::ParetoPlot(QWidget* parent) : QWidget(parent) {
    setFocusPolicy(Qt::StrongFocus);
    setMouseTracking(true);
    setAccessibleName(tr("Frontier of strategies"));
}

void ParetoPlot::setAxes(const QString& x, Words x_words, const QString& y, Words y_words) {
    x_title_ = x;
    y_title_ = y;
    x_words_ = x_words;
    y_words_ = y_words;
    update();
}

// From zero where that costs little room, else round the points with air on both sides.
ParetoPlot::Range ParetoPlot::range(const std::vector<ParetoPoint>& points, double ParetoPoint::*axis) {
    if (points.empty()) return {};
    const auto [least, most] =
        std::minmax_element(points.begin(), points.end(), [axis](const ParetoPoint& a, const ParetoPoint& b) { return a.*axis < b.*axis; });
    double low = (*least).*axis, high = (*most).*axis;
    const double span = std::max(high - low, std::abs(high) * 0.1 + 1e-12);
    low = low < 0.5 * high ? 0 : low - 0.15 * span;
    return {low, high + 0.12 * span};
}

void ParetoPlot::setPoints(std::vector<ParetoPoint> points) {
    points_ = std::move(points);
    x_ = range(points_, &ParetoPoint::x);
    y_ = range(points_, &ParetoPoint::y);
    focus_ = std::min(focus_, static_cast<int>(points_.size()) - 1);
    update();
}

void ParetoPlot::setBrushed(std::vector<RunId> brushed, RunId current) {
    brushed_ = std::move(brushed);
    current_ = current;
    update();
}

QRectF ParetoPlot::area() const {
    const int line = fontMetrics().height();
    return QRectF(rect()).adjusted(fontMetrics().horizontalAdvance(QStringLiteral("000.00 ms")) + line + 12, 10, -16, -(2 * line + 14));
}

QPointF ParetoPlot::place(std::size_t point) const {
    const QRectF a = area();
    const ParetoPoint& p = points_[point];
    return {a.left() + a.width() * (p.x - x_.low) / (x_.high - x_.low), a.bottom() - a.height() * (p.y - y_.low) / (y_.high - y_.low)};
}

int ParetoPlot::pointAt(const QPointF& at) const {
    int best = -1;
    double nearest = reach;
    for (std::size_t i = 0; i < points_.size(); ++i) {
        const QPointF d = place(i) - at;
        if (const double away = std::hypot(d.x(), d.y()); away < nearest) {
            nearest = away;
            best = static_cast<int>(i);
        }
    }
    return best;
}

void ParetoPlot::paintAxes(QPainter& painter) const {
    const QRectF a = area();
    const int line = fontMetrics().height();
    const QColor faint = palette().color(QPalette::PlaceholderText), grid = palette().color(QPalette::Mid);
    const double dx = round_step((x_.high - x_.low) / std::max(1.0, a.width() / 110)),
                 dy = round_step((y_.high - y_.low) / std::max(1.0, a.height() / 50));
    QColor thin = grid;
    thin.setAlpha(90);
    for (double v = std::ceil(x_.low / dx) * dx; v <= x_.high; v += dx) {
        const double x = a.left() + a.width() * (v - x_.low) / (x_.high - x_.low);
        painter.setPen(thin);
        painter.drawLine(QPointF(x, a.top()), QPointF(x, a.bottom()));
        painter.setPen(faint);
        painter.drawText(QRectF(x - 60, a.bottom() + 4, 120, line), Qt::AlignCenter, x_words_(std::abs(v) < dx / 1e6 ? 0 : v));
    }
    for (double v = std::ceil(y_.low / dy) * dy; v <= y_.high; v += dy) {
        const double y = a.bottom() - a.height() * (v - y_.low) / (y_.high - y_.low);
        painter.setPen(thin);
        painter.drawLine(QPointF(a.left(), y), QPointF(a.right(), y));
        painter.setPen(faint);
        painter.drawText(QRectF(0, y - line / 2.0, a.left() - 6, line), Qt::AlignRight | Qt::AlignVCenter,
                         y_words_(std::abs(v) < dy / 1e6 ? 0 : v));
    }
    painter.setPen(grid);
    painter.drawRect(a);
    painter.setPen(palette().color(QPalette::Text));
    painter.drawText(QRectF(a.left(), a.bottom() + line + 6, a.width(), line), Qt::AlignCenter, x_title_);
    painter.save();
    painter.translate(2, a.center().y());
    painter.rotate(-90);
    painter.drawText(QRectF(-a.height() / 2, 0, a.height(), line), Qt::AlignCenter, y_title_);
    painter.restore();
}

// A staircase: what is above and right of it is beaten.
void ParetoPlot::paintFrontier(QPainter& painter) const {
    const auto best = frontier(points_);
    if (best.empty()) return;
    const QRectF a = area();
    QPainterPath path(QPointF(place(best.front()).x(), a.top()));
    for (std::size_t i = 0; i < best.size(); ++i) {
        path.lineTo(path.currentPosition().x(), place(best[i]).y());
        path.lineTo(i + 1 < best.size() ? place(best[i + 1]).x() : a.right(), place(best[i]).y());
    }
    QPainterPath above = path;
    above.lineTo(a.right(), a.top());
    QColor tint = palette().color(QPalette::Highlight);
    tint.setAlpha(18);
    painter.fillPath(above, tint);
    painter.setPen(QPen(palette().color(QPalette::Highlight), 1.5, Qt::DashLine));
    painter.drawPath(path);
}

void ParetoPlot::paintEvent(QPaintEvent*) {
    QPainter painter(this);
    painter.fillRect(rect(), palette().color(QPalette::Base));
    if (points_.empty() || !x_words_) {
        painter.setPen(palette().color(QPalette::PlaceholderText));
        painter.drawText(rect(), Qt::AlignCenter, tr("No run has both figures yet"));
        return;
    }
    painter.setRenderHint(QPainter::Antialiasing);
    paintAxes(painter);
    paintFrontier(painter);
    const bool dark = is_dark(palette());
    for (std::size_t i = 0; i < points_.size(); ++i) {
        const ParetoPoint& p = points_[i];
        const QPointF at = place(i);
        const bool chosen = std::find(brushed_.begin(), brushed_.end(), p.id) != brushed_.end();
        const QColor ink = p.fits ? colour(Category::compute, dark) : palette().color(QPalette::PlaceholderText);
        painter.setPen(QPen(ink, 1.5));
        if (p.fits) { // what does not fit is a grey cross: not told apart by colour alone
            painter.setBrush(p.id < 0 ? QBrush(Qt::NoBrush) : QBrush(chosen ? colour(Category::exposed_pp, dark) : ink));
            painter.drawEllipse(at, p.id < 0 ? radius - 1 : radius, p.id < 0 ? radius - 1 : radius);
        } else {
            painter.drawLine(at + QPointF(-4, -4), at + QPointF(4, 4));
            painter.drawLine(at + QPointF(-4, 4), at + QPointF(4, -4));
        }
        painter.setBrush(Qt::NoBrush);
        if (chosen || p.id == current_) {
            painter.setPen(QPen(palette().color(QPalette::Text), p.id == current_ ? 2 : 1));
            painter.drawEllipse(at, radius + 3, radius + 3);
        }
        if (static_cast<int>(i) == focus_ && hasFocus()) {
            painter.setPen(QPen(palette().color(QPalette::Highlight), 2));
            painter.drawRect(QRectF(at - QPointF(reach, reach), QSizeF(2 * reach, 2 * reach)));
        }
        if ((points_.size() <= 12 || chosen) && p.id > 0) {
            painter.setPen(palette().color(p.fits ? QPalette::Text : QPalette::PlaceholderText));
            const QString name = fontMetrics().elidedText(p.name, Qt::ElideMiddle, 220);
            const int wide = fontMetrics().horizontalAdvance(name);
            painter.drawText(at + (at.x() + 12 + wide > area().right() ? QPointF(-12 - wide, -6) : QPointF(10, -6)), name);
        }
    }
    if (rubber_.isValid() && !rubber_.isEmpty()) {
        QColor tint = palette().color(QPalette::Highlight);
        painter.setPen(tint);
        tint.setAlpha(40);
        painter.fillRect(rubber_, tint);
        painter.drawRect(rubber_);
    }
}

void ParetoPlot::mousePressEvent(QMouseEvent* event) {
    if (event->button() == Qt::LeftButton) rubber_ = QRectF(event->position(), QSizeF(0, 0));
}

void ParetoPlot::mouseMoveEvent(QMouseEvent* event) {
    if (!event->buttons().testFlag(Qt::LeftButton)) return;
    rubber_.setBottomRight(event->position());
    update();
}

// A click takes a point (with Ctrl one more), a drag all in the rectangle.
void ParetoPlot::mouseReleaseEvent(QMouseEvent* event) {
    const QRectF box = rubber_.normalized();
    rubber_ = {};
    std::vector<RunId> ids;
    if (event->modifiers().testFlag(Qt::ControlModifier)) ids = brushed_;
    const auto add = [&](std::size_t i) {
        if (std::find(ids.begin(), ids.end(), points_[i].id) == ids.end()) ids.push_back(points_[i].id);
    };
    if (box.width() < 4 && box.height() < 4) {
        const int hit = pointAt(event->position());
        if (hit >= 0) {
            add(static_cast<std::size_t>(hit));
            focus_ = hit;
        }
    } else {
        for (std::size_t i = 0; i < points_.size(); ++i)
            if (box.contains(place(i))) add(i);
    }
    update();
    Q_EMIT brushed(ids);
}

// Keys go along x.
void ParetoPlot::step(int by) {
    std::vector<std::size_t> order(points_.size());
    for (std::size_t i = 0; i < order.size(); ++i) order[i] = i;
    std::sort(order.begin(), order.end(), [&](std::size_t a, std::size_t b) {
        return std::tie(points_[a].x, points_[a].y, a) < std::tie(points_[b].x, points_[b].y, b);
    });
    const auto at = std::find(order.begin(), order.end(), static_cast<std::size_t>(std::max(focus_, 0)));
    const auto to = focus_ < 0 ? 0 : std::clamp<std::ptrdiff_t>(at - order.begin() + by, 0, static_cast<std::ptrdiff_t>(order.size()) - 1);
    focus_ = static_cast<int>(order[to]);
    const ParetoPoint& p = points_[focus_];
    setAccessibleDescription(tr("%1: %2, %3").arg(p.name, x_words_(p.x), y_words_(p.y)));
    update();
}

std::vector<ViewCommand> ParetoPlot::commands() {
    const auto go = [this](int by) {
        if (!points_.empty()) step(by);
    };
    return {{QStringLiteral("next"), tr("Next point"), tr("Goes to the point to the right"), {Qt::Key_Right}, {}, [go] { go(1); }},
            {QStringLiteral("previous"), tr("Point before"), tr("Goes to the point to the left"), {Qt::Key_Left}, {}, [go] { go(-1); }},
            {QStringLiteral("brush"),
             tr("Choose the point"),
             tr("Adds it to the chosen points; again: takes it away"),
             {Qt::Key_Space},
             {},
             [this] {
                 if (focus_ < 0) return;
                 std::vector<RunId> ids = brushed_;
                 const RunId id = points_[focus_].id;
                 if (std::erase(ids, id) == 0) ids.push_back(id);
                 Q_EMIT brushed(ids);
             }},
            {QStringLiteral("drag"), tr("Choose all points in a rectangle"), {}, {}, tr("drag"), {}}};
}

void ParetoPlot::keyPressEvent(QKeyEvent* event) {
    if (!run_key(commands(), *event)) QWidget::keyPressEvent(event);
}

bool ParetoPlot::event(QEvent* event) {
    if (event->type() != QEvent::ToolTip) return QWidget::event(event);
    const auto* help = static_cast<QHelpEvent*>(event);
    const int hit = x_words_ ? pointAt(help->pos()) : -1;
    if (hit < 0) {
        QToolTip::hideText();
        return true;
    }
    const ParetoPoint& p = points_[hit];
    QToolTip::showText(
        help->globalPos(),
        QStringLiteral("<b>%1</b><br>%2: %3<br>%4: %5%6")
            .arg(p.name.toHtmlEscaped(), x_title_, x_words_(p.x), y_title_, y_words_(p.y), p.fits ? QString{} : tr("<br>does not fit")),
        this);
    return true;
}

} // namespace orrery
