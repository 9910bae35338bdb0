#include "gui/timeline/legend.hpp"

#include "gui/core/raster.hpp"

#include <QPainter>
#include <QStringList>

#include <algorithm>
#include <array>
#include <climits>

namespace orrery {

namespace {
constexpr int swatch = 14, space = 6, between = 12;
}

Legend::Legend(QWidget* parent) : QWidget(parent) {
    QSizePolicy policy(QSizePolicy::Preferred, QSizePolicy::Preferred);
    policy.setHeightForWidth(true);
    setSizePolicy(policy);
    setAccessibleName(tr("Legend"));
}

void Legend::setStore(const TrackStore* store) {
    std::array<bool, slice_kind_count> seen{};
    if (store)
        for (const Track& t : store->tracks)
            for (SliceKind k : t.kinds) seen[static_cast<std::size_t>(k)] = true;
    kinds_.clear();
    QStringList names;
    for (int k = 0; k < slice_kind_count; ++k)
        if (seen[static_cast<std::size_t>(k)])
            kinds_.push_back(static_cast<SliceKind>(k)), names.push_back(label(static_cast<SliceKind>(k)));
    setAccessibleDescription(names.join(", "));
    updateGeometry();
    update();
}

int Legend::lineHeight() const { return fontMetrics().height() + 4; }

std::vector<QRect> Legend::places(int width) const {
    std::vector<QRect> out;
    int x = 0, y = 0;
    for (SliceKind k : kinds_) {
        const int wide = swatch + space + fontMetrics().horizontalAdvance(label(k));
        if (x > 0 && x + wide > width) x = 0, y += lineHeight();
        out.emplace_back(x, y, wide, lineHeight());
        x += wide + between;
    }
    return out;
}

QSize Legend::sizeHint() const {
    const auto all = places(INT_MAX / 2);
    return {all.empty() ? 0 : all.back().right() + 1, lineHeight()};
}

int Legend::heightForWidth(int width) const {
    const auto all = places(width);
    return all.empty() ? lineHeight() : all.back().bottom() + 1;
}

void Legend::paintEvent(QPaintEvent*) {
    QPainter p(this);
    const QColor base = palette().color(QPalette::Base);
    const Tiles look = tiles(base.lightness() < 128, base.rgb());
    const auto all = places(width());
    for (std::size_t i = 0; i < kinds_.size(); ++i) {
        const QRect& place = all[i];
        const Tile& tile = look.kinds[static_cast<std::size_t>(kinds_[i])];
        const QImage pattern(reinterpret_cast<const uchar*>(tile.data()), 8, 8, 32, QImage::Format_RGB32);
        const QRect r(place.left(), place.top() + (place.height() - 12) / 2, swatch, 12);
        p.fillRect(r, QBrush(pattern));
        p.setPen(palette().color(QPalette::Mid));
        p.drawRect(r);
        p.setPen(palette().color(QPalette::WindowText));
        p.drawText(place.adjusted(swatch + space, 0, between, 0), Qt::AlignVCenter | Qt::TextSingleLine, label(kinds_[i]));
    }
}

} // namespace orrery
