#include "gui/timeline/minimap.hpp"

#include "gui/core/raster.hpp"

#include <QMouseEvent>
#include <QPainter>

#include <algorithm>
#include <cmath>

namespace orrery {

namespace {
constexpr std::size_t most_tracks = 256;
} // namespace

Minimap::Minimap(QWidget* parent) : QWidget(parent) {
    setFixedHeight(34);
    setMouseTracking(true);
    setAccessibleName(tr("Overview of the whole step"));
    setToolTip(tr("Drag the frame to move, its edges to resize, beside it to choose another range."));
}

void Minimap::setRun(std::shared_ptr<const RunData> run, TimeRange whole) {
    data_ = std::move(run);
    whole_ = whole;
    picture_ = {};
    update();
}

void Minimap::setRange(TimeRange range) {
    range_ = range;
    update();
}

double Minimap::xOf(std::int64_t ps) const {
    return static_cast<double>(ps - whole_.begin) * width() / static_cast<double>(std::max<std::int64_t>(1, whole_.length()));
}

std::int64_t Minimap::timeOf(double x) const {
    return whole_.begin + static_cast<std::int64_t>(x / std::max(1, width()) * static_cast<double>(whole_.length()));
}

void Minimap::paintEvent(QPaintEvent*) {
    QPainter p(this);
    const QColor base = palette().color(QPalette::Base);
    p.fillRect(rect(), base);
    if (!data_ || !data_->tracks || whole_.length() <= 0) return;
    const double ratio = devicePixelRatioF();
    const QSize size(static_cast<int>(width() * ratio), static_cast<int>((height() - 4) * ratio));
    if (picture_.size() != size) {
        picture_ = QImage(size, QImage::Format_RGB32);
        picture_.fill(base);
        std::vector<std::int32_t> tracks;
        for (std::size_t t = 0; t < data_->tracks->tracks.size(); ++t)
            if (data_->tracks->tracks[t].queue == 0) tracks.push_back(static_cast<std::int32_t>(t));
        if (const std::size_t every = tracks.size() / most_tracks + 1; every > 1) {
            std::size_t n = 0;
            std::erase_if(tracks, [&](std::int32_t) { return n++ % every != 0; });
        }
        const Columns columns{whole_.begin, whole_.end, size.width()};
        if (!tracks.empty())
            paint(picture_, {0, 0, size.height()}, column_times(*data_->tracks, tracks, columns), columns,
                  tiles(base.lightness() < 128, base.rgb(), std::max(1, static_cast<int>(ratio))));
        picture_.setDevicePixelRatio(ratio);
    }
    p.drawImage(QPoint(0, 2), picture_);
    const double left = xOf(range_.begin), right = std::max(left + 3, xOf(range_.end));
    QColor veil = base;
    veil.setAlpha(170);
    p.fillRect(QRectF(0, 0, left, height()), veil);
    p.fillRect(QRectF(right, 0, width() - right, height()), veil);
    p.setPen(QPen(palette().color(QPalette::Highlight), 2));
    p.drawRect(QRectF(left, 1, right - left, height() - 2));
}

void Minimap::mousePressEvent(QMouseEvent* e) {
    const double x = e->position().x(), left = xOf(range_.begin), right = xOf(range_.end);
    pressed_ = timeOf(x);
    pressedRange_ = range_;
    if (std::abs(x - left) < 5)
        drag_ = Drag::left;
    else if (std::abs(x - right) < 5)
        drag_ = Drag::right;
    else if (x > left && x < right && range_ != whole_)
        drag_ = Drag::move;
    else
        drag_ = Drag::fresh;
}

void Minimap::mouseMoveEvent(QMouseEvent* e) {
    const double x = e->position().x();
    const bool edge = std::abs(x - xOf(range_.begin)) < 5 || std::abs(x - xOf(range_.end)) < 5;
    setCursor(edge ? Qt::SizeHorCursor : Qt::ArrowCursor);
    if (!(e->buttons() & Qt::LeftButton)) return;
    const std::int64_t t = std::clamp(timeOf(x), whole_.begin, whole_.end), by = t - pressed_;
    TimeRange r = pressedRange_;
    switch (drag_) {
    case Drag::left:
        r.begin = std::min(t, r.end - 1);
        break;
    case Drag::right:
        r.end = std::max(t, r.begin + 1);
        break;
    case Drag::move:
        r = {r.begin + by, r.end + by};
        break;
    case Drag::fresh:
        r = {std::min(pressed_, t), std::max(pressed_, t)};
        break;
    case Drag::none:
        return;
    }
    if (r.length() > 0) Q_EMIT rangeAsked(r);
}

void Minimap::changeEvent(QEvent* e) {
    if (e->type() == QEvent::PaletteChange) picture_ = {};
    QWidget::changeEvent(e);
}

} // namespace orrery
