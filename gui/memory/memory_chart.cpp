#include "gui/memory/memory_chart.hpp"

#include "gui/core/axis.hpp"
#include "gui/core/queries.hpp"
#include "topology/at.hpp"

#include <QKeyEvent>
#include <QLocale>
#include <QMouseEvent>
#include <QPainter>

#include <algorithm>
#include <cmath>

namespace orrery {

MemoryChart::MemoryChart(QWidget* parent) : QWidget(parent) {
    setMouseTracking(true);
    setFocusPolicy(Qt::StrongFocus);
    setMinimumHeight(90);
    setAccessibleName(tr("Memory over time"));
}

void MemoryChart::setSeries(MemorySeries s) {
    series_ = std::move(s);
    picture_ = {};
    if (series_.peak >= 0)
        setAccessibleDescription(tr("Peak %1 of %2").arg(bytes_text(series_.total[at(series_.peak)]), bytes_text(series_.capacity)));
    update();
}

void MemoryChart::setHint(const QString& hint) {
    hint_ = hint;
    update();
}

void MemoryChart::setTitle(const QString& title) {
    title_ = title;
    setAccessibleName(title.isEmpty() ? tr("Memory over time") : title);
    update();
}

void MemoryChart::setRange(TimeRange r) {
    if (r == range_) return;
    range_ = r;
    picture_ = {};
    update();
}

TimeRange MemoryChart::range() const {
    return range_.length() > 0 ? range_ : TimeRange{series_.begin, std::max(series_.begin + 1, series_.end)};
}

void MemoryChart::setCursorTime(std::int64_t ps) {
    if (ps == cursor_) return;
    cursor_ = ps;
    update();
}

QRect MemoryChart::plot() const {
    return rect().adjusted(66, title_.isEmpty() ? 16 : fontMetrics().height() + 6, -10, -fontMetrics().height() - 8);
}

std::int64_t MemoryChart::top() const {
    const std::int64_t most = series_.peak >= 0 ? series_.total[at(series_.peak)] : 1;
    return std::max<std::int64_t>(1, std::max(most, series_.capacity) / 100 * 108);
}

double MemoryChart::xOf(std::int64_t ps) const {
    const TimeRange r = range();
    return plot().left() + static_cast<double>(ps - r.begin) * plot().width() / static_cast<double>(r.length());
}
double MemoryChart::yOf(std::int64_t bytes) const {
    return plot().bottom() + 1 - static_cast<double>(bytes) * plot().height() / static_cast<double>(top());
}
std::int64_t MemoryChart::timeOf(double x) const {
    return range().begin +
           static_cast<std::int64_t>((x - plot().left()) / std::max(1, plot().width()) * static_cast<double>(range().length()));
}

void MemoryChart::paintStack() {
    const double ratio = devicePixelRatioF();
    const QSize size = plot().size() * ratio;
    const QColor base = palette().color(QPalette::Base);
    picture_ = QImage(size.expandedTo({1, 1}), QImage::Format_RGB32);
    picture_.fill(base);
    const bool dark = base.lightness() < 128;
    const Columns columns{range().begin, range().end, picture_.width()};
    const std::vector<std::int32_t> highest = highest_in_columns(series_, columns);
    std::vector<QRgb> ink, pale;
    for (std::size_t k = 0; k < series_.kinds.size(); ++k) {
        ink.push_back(memory_colour(k, dark).rgb());
        pale.push_back(memory_shade(k, dark).rgb());
    }
    const std::ptrdiff_t stride = picture_.bytesPerLine() / 4;
    auto* const pixels = reinterpret_cast<QRgb*>(picture_.bits());
    const int height = picture_.height(), scale = std::max(1, static_cast<int>(ratio));
    const double per_byte = height / static_cast<double>(top());
    for (int x = 0; x < picture_.width(); ++x) {
        const std::int32_t s = highest[at(x)];
        if (s < 0) continue;
        std::int64_t sum = 0;
        int y = height;
        for (std::size_t k = 0; k < series_.kinds.size(); ++k) {
            sum += series_.bytes[at(s) * series_.kinds.size() + k];
            const int to = std::max(0, height - static_cast<int>(std::lround(static_cast<double>(sum) * per_byte)));
            while (y > to) {
                --y;
                pixels[y * stride + x] = in_memory_pattern(k, x / scale, y / scale) ? ink[k] : pale[k];
            }
        }
    }
    picture_.setDevicePixelRatio(ratio);
}

void MemoryChart::paintEvent(QPaintEvent*) {
    QPainter p(this);
    p.fillRect(rect(), palette().base());
    if (series_.at.empty()) {
        p.setPen(palette().color(QPalette::PlaceholderText));
        p.drawText(rect().adjusted(20, 20, -20, -20), Qt::AlignCenter | Qt::TextWordWrap, hint_);
        return;
    }
    if (picture_.isNull() || picture_.size() != (plot().size() * devicePixelRatioF()).expandedTo({1, 1})) paintStack();
    p.drawImage(plot().topLeft(), picture_);
    p.setPen(palette().color(QPalette::Text));
    p.drawText(QRectF(plot().left(), 2, plot().width(), fontMetrics().height()), Qt::AlignLeft | Qt::AlignVCenter, title_);
    paintAxes(p);
    paintMarks(p);
    if (hasFocus()) {
        p.setBrush(Qt::NoBrush);
        p.setPen(QPen(palette().color(QPalette::Highlight), 2));
        p.drawRect(rect().adjusted(1, 1, -1, -1));
    }
}

void MemoryChart::paintAxes(QPainter& p) {
    const QRect r = plot();
    const QColor text = palette().color(QPalette::Text);
    QColor line = text;
    line.setAlpha(40);
    const double step = round_step(static_cast<double>(top()) / std::max(2, r.height() / 40));
    const int digits = std::clamp(static_cast<int>(std::ceil(-std::log10(step / 1e9) - 1e-9)), 0, 9);
    for (double b = 0; b <= static_cast<double>(top()); b += step) {
        const double y = yOf(static_cast<std::int64_t>(b));
        p.setPen(line);
        p.drawLine(QPointF(r.left(), y), QPointF(r.right(), y));
        p.setPen(text);
        p.drawText(QRectF(0, y - 10, r.left() - 6, 20), Qt::AlignRight | Qt::AlignVCenter,
                   QLocale().toString(b / 1e9, 'f', digits) + " GB");
    }
    const std::int64_t apart = round_step_ps(static_cast<double>(range().length()) / std::max(2, r.width() / 140));
    for (std::int64_t t = first_mark(range().begin, apart); t <= range().end; t += apart) {
        const double x = xOf(t), left = std::clamp(x - 60, 0.0, std::max(0.0, width() - 120.0));
        const auto align = left < x - 60 ? Qt::AlignRight : Qt::AlignHCenter;
        p.setPen(line);
        p.drawLine(QPointF(x, r.bottom() + 1), QPointF(x, r.bottom() + 4));
        p.setPen(text);
        p.drawText(QRectF(left, r.bottom() + 4, 120, 20), align | Qt::AlignTop, time_text(t, apart));
    }
}

void MemoryChart::paintMarks(QPainter& p) {
    const QRect r = plot();
    const QColor text = palette().color(QPalette::Text);
    const auto plate = [&](const QString& words, QPointF where) {
        const double wide = p.fontMetrics().horizontalAdvance(words) + 8, high = p.fontMetrics().height() + 2;
        where.setX(std::clamp<double>(where.x(), r.left(), std::max<double>(r.left(), r.right() - wide)));
        where.setY(std::clamp<double>(where.y(), 0, r.bottom() - high));
        const QRectF box(where, QSizeF(wide, high));
        QColor behind = palette().color(QPalette::Base); // what it covers shows through
        behind.setAlpha(170);
        p.fillRect(box, behind);
        p.setPen(text);
        p.drawText(box, Qt::AlignCenter, words);
    };
    if (series_.capacity > 0) {
        const double y = yOf(series_.capacity);
        p.setPen(QPen(text, 2, Qt::DashLine));
        p.drawLine(QPointF(r.left(), y), QPointF(r.right(), y));
        plate(tr("capacity %1").arg(bytes_text(series_.capacity)), {title_.isEmpty() ? double(r.left()) + 4 : double(r.right()),
                                                                    y - p.fontMetrics().height() - 4}); // a title stands on the left
    }
    p.setRenderHint(QPainter::Antialiasing);
    const auto mark = [&](std::int32_t sample, const QString& words, bool bad) {
        const double x = xOf(series_.at[at(sample)]), y = yOf(series_.total[at(sample)]);
        if (x < r.left() || x > r.right()) return;
        p.setPen(QPen(bad ? QColor(0xd5, 0x5e, 0x00) : text, 2));
        p.setBrush(Qt::NoBrush);
        p.drawEllipse(QPointF(x, y), 4, 4);
        if (bad) p.drawLine(QPointF(x, r.top()), QPointF(x, r.bottom()));
        const bool crowded = series_.capacity > 0 && std::abs(y - 14 - yOf(series_.capacity)) < 20; // the capacity's line stays free
        plate(words, {x + 8, bad ? y + 8 : crowded ? yOf(series_.capacity) + 12 + std::max(0.0, y - yOf(series_.capacity)) : y - 22});
    };
    if (series_.peak >= 0) mark(series_.peak, tr("peak %1").arg(bytes_text(series_.total[at(series_.peak)])), false);
    if (series_.runs_out >= 0) mark(series_.runs_out, tr("out of memory here"), true);
    if (cursor_ >= range().begin && cursor_ < range().end) {
        p.setRenderHint(QPainter::Antialiasing, false);
        p.setPen(QPen(text, 1, Qt::DotLine));
        p.drawLine(QPointF(xOf(cursor_), r.top()), QPointF(xOf(cursor_), r.bottom()));
    }
}

void MemoryChart::zoom(double factor, double x) {
    const TimeRange r = range();
    const double share = std::clamp((x - plot().left()) / std::max(1, plot().width()), 0.0, 1.0);
    const auto length = std::max<std::int64_t>(1000, static_cast<std::int64_t>(static_cast<double>(r.length()) / factor));
    const std::int64_t begin = r.begin + static_cast<std::int64_t>(share * static_cast<double>(r.length() - length));
    Q_EMIT rangeAsked({begin, begin + length});
}

void MemoryChart::wheelEvent(QWheelEvent* e) {
    if (series_.at.empty() || !(e->modifiers() & Qt::ControlModifier)) return QWidget::wheelEvent(e);
    zoom(std::pow(1.0015, e->angleDelta().y()), e->position().x());
    e->accept();
}

std::vector<ViewCommand> MemoryChart::commands() {
    const auto zoomed = [this](double factor) {
        if (!series_.at.empty()) zoom(factor, cursor_ >= 0 ? xOf(cursor_) : plot().center().x());
    };
    const auto moved = [this](int fifths) {
        const std::int64_t by = range().length() / 5 * fifths;
        if (!series_.at.empty()) Q_EMIT rangeAsked({range().begin + by, range().end + by});
    };
    return {
        {QStringLiteral("zoom_in"), tr("Zoom in"), tr("Zooms at the cursor, or in the middle"), {Qt::Key_W}, {}, [zoomed] { zoomed(1.5); }},
        {QStringLiteral("zoom_out"),
         tr("Zoom out"),
         tr("Zooms at the cursor, or in the middle"),
         {Qt::Key_S},
         {},
         [zoomed] { zoomed(1 / 1.5); }},
        {QStringLiteral("wheel"), tr("Zoom at the pointer"), {}, {}, tr("Ctrl+wheel"), {}},
        {QStringLiteral("earlier"),
         tr("Earlier"),
         tr("Moves a fifth of the time shown to the left"),
         {Qt::Key_A},
         {},
         [moved] { moved(-1); }},
        {QStringLiteral("later"), tr("Later"), tr("Moves a fifth of the time shown to the right"), {Qt::Key_D}, {}, [moved] { moved(1); }},
        {QStringLiteral("whole"), tr("Whole step"), tr("Zooms out as far as the step goes"), {Qt::Key_Home}, {}, [this] {
             Q_EMIT rangeAsked({series_.begin, series_.end});
         }}};
}

void MemoryChart::keyPressEvent(QKeyEvent* e) {
    if (series_.at.empty() || !run_key(commands(), *e)) QWidget::keyPressEvent(e);
}

void MemoryChart::mousePressEvent(QMouseEvent* e) {
    pressed_ = e->position();
    pressedRange_ = range();
}

void MemoryChart::mouseMoveEvent(QMouseEvent* e) {
    if (series_.at.empty()) return;
    if (e->buttons() & (Qt::LeftButton | Qt::MiddleButton)) {
        const auto by =
            static_cast<std::int64_t>((pressed_.x() - e->position().x()) * static_cast<double>(pressedRange_.length()) / plot().width());
        Q_EMIT rangeAsked({pressedRange_.begin + by, pressedRange_.end + by});
    }
    const std::int64_t t = timeOf(e->position().x());
    setCursorTime(t);
    Q_EMIT cursorMoved(t);
}

void MemoryChart::leaveEvent(QEvent*) {
    setCursorTime(-1);
    Q_EMIT cursorMoved(-1);
}

void MemoryChart::changeEvent(QEvent* e) {
    if (e->type() == QEvent::PaletteChange) picture_ = {};
    QWidget::changeEvent(e);
}

void MemoryChart::focusInEvent(QFocusEvent*) { update(); }
void MemoryChart::focusOutEvent(QFocusEvent*) { update(); }

} // namespace orrery
