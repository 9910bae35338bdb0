#include "gui/sweep/heat_plot.hpp"

#include "gui/core/figures.hpp"

#include <QHelpEvent>
#include <QKeyEvent>
#include <QMouseEvent>
#include <QPainter>
#include <QToolTip>

#include <algorithm>

namespace orrery {
namespace {

// 0 worst, 1 best: from pale to a deep blue, monotone in lightness, so that it reads without hue; reversed on dark ground.
QColor heat_colour(double good, bool dark) {
    const double t = std::clamp(good, 0.0, 1.0);
    const auto part = [t](int a, int b) { return static_cast<int>(a + (b - a) * t); };
    return dark ? QColor(part(38, 120), part(46, 200), part(58, 240)) : QColor(part(236, 0), part(240, 90), part(246, 160));
}

} // namespace

HeatPlot::HeatPlot(QWidget* parent) : QWidget(parent) {
    setFocusPolicy(Qt::StrongFocus);
    setMinimumSize(200, 140);
    setAccessibleName(tr("Map of the sweep; the table beside it holds the same figures"));
}

void HeatPlot::setMap(HeatMap map, HeatMetric metric, const QString& x_title, const QString& y_title) {
    map_ = std::move(map);
    metric_ = metric;
    x_title_ = x_title;
    y_title_ = y_title;
    if (current_ >= static_cast<int>(map_.cells.size())) current_ = -1;
    update();
}

QRectF HeatPlot::area() const {
    int left = 0;
    for (const std::string& r : map_.rows) left = std::max(left, fontMetrics().horizontalAdvance(value_words(r)));
    const int line = fontMetrics().height();
    return QRectF(rect()).adjusted(std::min(left, width() / 3) + line + 16, line * 2 + 12, -10, -10);
}

QRectF HeatPlot::cellRect(std::size_t column, std::size_t row) const {
    const QRectF a = area();
    const double w = a.width() / static_cast<double>(map_.columns.size()), h = a.height() / static_cast<double>(map_.rows.size());
    return QRectF(a.left() + w * static_cast<double>(column), a.top() + h * static_cast<double>(row), w, h).adjusted(1, 1, -1, -1);
}

int HeatPlot::cellAt(const QPointF& at) const {
    for (std::size_t i = 0; i < map_.cells.size(); ++i)
        if (cellRect(i % map_.columns.size(), i / map_.columns.size()).contains(at)) return static_cast<int>(i);
    return -1;
}

QString HeatPlot::words(double value) const {
    switch (metric_) {
    case HeatMetric::step_time:
        return seconds_words(value);
    case HeatMetric::tokens_per_s:
        return count_words(value);
    case HeatMetric::peak_memory:
        return gigabytes_words(value);
    default:
        return percent_words(value);
    }
}

void HeatPlot::paintCell(QPainter& painter, std::size_t index) const {
    const HeatCell& cell = map_.cells[index];
    const QRectF rect = cellRect(index % map_.columns.size(), index / map_.columns.size());
    const bool dark = palette().color(QPalette::Base).lightness() < 128;
    QString text;
    QColor ink = palette().color(QPalette::PlaceholderText);
    if (cell.value) {
        const double span = map_.high - map_.low, up = span > 0 ? (*cell.value - map_.low) / span : 1;
        const QColor fill = heat_colour(smaller_is_better(metric_) && span > 0 ? 1 - up : up, dark);
        painter.fillRect(rect, fill);
        ink = qGray(fill.rgb()) > 135 ? QColor(20, 22, 26) : QColor(255, 255, 255);
        text = words(*cell.value);
    } else if (cell.computed == cell.points) {
        painter.fillRect(rect, palette().color(QPalette::AlternateBase));
        painter.fillRect(rect, QBrush(palette().color(QPalette::Mid), Qt::BDiagPattern));
        text = tr("none");
    } else {
        painter.setPen(palette().color(QPalette::Mid));
        painter.drawRect(rect);
        text = QStringLiteral("\u2026");
    }
    if (static_cast<int>(index) == current_) {
        painter.setPen(QPen(palette().color(QPalette::Text), 3));
        painter.drawRect(rect.adjusted(1, 1, -1, -1));
    }
    if (rect.height() < fontMetrics().height() || rect.width() < fontMetrics().horizontalAdvance(text)) return;
    painter.setPen(ink);
    painter.drawText(rect, Qt::AlignCenter, text);
}

void HeatPlot::paintEvent(QPaintEvent*) {
    QPainter painter(this);
    painter.fillRect(rect(), palette().color(QPalette::Base));
    if (map_.cells.empty()) {
        painter.setPen(palette().color(QPalette::PlaceholderText));
        painter.drawText(rect(), Qt::AlignCenter, tr("Open a sweep: a scenario with lists under \"sweep\""));
        return;
    }
    const QRectF a = area();
    const int line = fontMetrics().height();
    painter.setPen(palette().color(QPalette::Text));
    painter.drawText(QRectF(a.left(), 4, a.width(), line), Qt::AlignCenter, x_title_);
    painter.save();
    painter.translate(4, a.center().y());
    painter.rotate(-90);
    painter.drawText(QRectF(-a.height() / 2, 0, a.height(), line), Qt::AlignCenter, y_title_);
    painter.restore();
    painter.setPen(palette().color(QPalette::PlaceholderText));
    for (std::size_t c = 0; c < map_.columns.size(); ++c) {
        const QRectF cell = cellRect(c, 0);
        painter.drawText(QRectF(cell.left(), line + 8, cell.width(), line), Qt::AlignCenter,
                         fontMetrics().elidedText(value_words(map_.columns[c]), Qt::ElideRight, static_cast<int>(cell.width())));
    }
    for (std::size_t r = 0; r < map_.rows.size(); ++r) {
        const QRectF cell = cellRect(0, r);
        painter.drawText(QRectF(line + 8, cell.top(), a.left() - line - 12, cell.height()), Qt::AlignRight | Qt::AlignVCenter,
                         value_words(map_.rows[r]));
    }
    for (std::size_t i = 0; i < map_.cells.size(); ++i) paintCell(painter, i);
}

void HeatPlot::choose(int cell) {
    current_ = cell;
    update();
    if (cell < 0) return;
    const HeatCell& c = map_.cells[cell];
    setAccessibleDescription(c.value ? words(*c.value) : tr("nothing fits"));
    if (c.point >= 0) Q_EMIT chosen(c.point);
}

void HeatPlot::mousePressEvent(QMouseEvent* event) { choose(cellAt(event->position())); }

void HeatPlot::go(int right, int down) {
    if (map_.cells.empty()) return;
    const int columns = static_cast<int>(map_.columns.size()), rows = static_cast<int>(map_.rows.size());
    if (current_ < 0) return choose(0);
    const int column = current_ % columns + right, row = current_ / columns + down;
    if (column >= 0 && column < columns && row >= 0 && row < rows) choose(row * columns + column);
}

std::vector<ViewCommand> HeatPlot::commands() {
    const auto way = [this](int right, int down) { return [this, right, down] { go(right, down); }; };
    const QString tip = tr("Chooses the cell's best point in the table");
    return {{QStringLiteral("right"), tr("Cell to the right"), tip, {Qt::Key_Right}, {}, way(1, 0)},
            {QStringLiteral("left"), tr("Cell to the left"), tip, {Qt::Key_Left}, {}, way(-1, 0)},
            {QStringLiteral("down"), tr("Cell below"), tip, {Qt::Key_Down}, {}, way(0, 1)},
            {QStringLiteral("up"), tr("Cell above"), tip, {Qt::Key_Up}, {}, way(0, -1)}};
}

void HeatPlot::keyPressEvent(QKeyEvent* event) {
    if (!run_key(commands(), *event)) QWidget::keyPressEvent(event);
}

bool HeatPlot::event(QEvent* event) {
    if (event->type() != QEvent::ToolTip) return QWidget::event(event);
    const auto* help = static_cast<QHelpEvent*>(event);
    const int cell = cellAt(help->pos());
    if (cell < 0 || cell >= static_cast<int>(tips_.size()))
        QToolTip::hideText();
    else
        QToolTip::showText(help->globalPos(), tips_[cell], this);
    return true;
}

} // namespace orrery
