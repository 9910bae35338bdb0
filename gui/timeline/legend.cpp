#include "gui/timeline/legend.hpp"

#include "gui/core/raster.hpp"

#include <QPainter>
#include <QStringList>

#include <algorithm>
#include <array>

namespace orrery {

namespace { constexpr int swatch = 14, space = 6, between = 12; }

Legend::Legend(QWidget* parent) : QWidget(parent) { setAccessibleName(tr("Legend")); }

void Legend::setStore(const TrackStore* store) {
    std::array<bool, slice_kind_count> seen{};
    if (store)
        for (const Track& t : store->tracks)
            for (SliceKind k : t.kinds) seen[static_cast<std::size_t>(k)] = true;
    kinds_.clear();
    QStringList names;
    for (int k = 0; k < slice_kind_count; ++k)
        if (seen[static_cast<std::size_t>(k)]) kinds_.push_back(static_cast<SliceKind>(k)), names.push_back(label(static_cast<SliceKind>(k)));
    setAccessibleDescription(names.join(", "));
    updateGeometry();
    update();
}

QSize Legend::sizeHint() const {
    int width = 0;
    for (SliceKind k : kinds_) width += swatch + space + between + fontMetrics().horizontalAdvance(label(k));
    return {width, fontMetrics().height() + 4};
}

void Legend::paintEvent(QPaintEvent*) {
    QPainter p(this);
    const QColor base = palette().color(QPalette::Base);
    const Tiles look = tiles(base.lightness() < 128, base.rgb());
    int x = 0;
    for (SliceKind k : kinds_) {
        const Tile& tile = look.kinds[static_cast<std::size_t>(k)];
        const QImage pattern(reinterpret_cast<const uchar*>(tile.data()), 8, 8, 32, QImage::Format_RGB32);
        const QRect r(x, (height() - 12) / 2, swatch, 12);
        p.fillRect(r, QBrush(pattern));
        p.setPen(palette().color(QPalette::Mid));
        p.drawRect(r);
        p.setPen(palette().color(QPalette::WindowText));
        x += swatch + space;
        const QString text = label(k);
        p.drawText(QRect(x, 0, width(), height()), Qt::AlignVCenter, text);
        x += p.fontMetrics().horizontalAdvance(text) + between;
    }
}

} // namespace orrery
