#include "gui/parts/legend.hpp"

#include "gui/core/categories.hpp"
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

void Legend::setEntries(std::vector<Entry> entries) {
    entries_ = std::move(entries);
    QStringList names;
    for (const Entry& e : entries_) names << e.text;
    setAccessibleDescription(names.join(", "));
    updateGeometry();
    update();
}

int Legend::lineHeight() const { return fontMetrics().height() + 4; }

std::vector<QRect> Legend::places(int width) const {
    std::vector<QRect> out;
    int x = 0, y = 0;
    for (const Entry& e : entries_) {
        const int wide = swatch + space + fontMetrics().horizontalAdvance(e.text);
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
    const auto all = places(width());
    for (std::size_t i = 0; i < entries_.size(); ++i) {
        const QRect& place = all[i];
        const QRect r(place.left(), place.top() + (place.height() - 12) / 2, swatch, 12);
        entries_[i].paint(p, r, palette());
        p.setBrush(Qt::NoBrush);
        p.setPen(palette().color(QPalette::Mid));
        p.drawRect(r);
        p.setPen(palette().color(QPalette::WindowText));
        p.drawText(place.adjusted(swatch + space, 0, between, 0), Qt::AlignVCenter | Qt::TextSingleLine, entries_[i].text);
    }
}

std::vector<Legend::Entry> legend_of_slices(const std::vector<const TrackStore*>& stores) {
    ByEnum<SliceKind, bool, slice_kind_count> seen{};
    for (const TrackStore* store : stores)
        if (store)
            for (const Track& t : store->tracks)
                for (SliceKind k : t.kinds) seen[k] = true;
    std::vector<Legend::Entry> out;
    for (std::size_t k = 0; k < seen.size(); ++k) {
        if (!seen[k]) continue;
        out.push_back({label(static_cast<SliceKind>(k)), [k](QPainter& p, const QRect& r, const QPalette& palette) {
                           const QColor base = palette.color(QPalette::Base);
                           const Tiles look = tiles(base.lightness() < 128, base.rgb());
                           const QImage pattern(reinterpret_cast<const uchar*>(look.kinds[k].data()), 8, 8, 32, QImage::Format_RGB32);
                           p.fillRect(r, QBrush(pattern));
                       }});
    }
    return out;
}

std::vector<Legend::Entry> legend_of_categories(const std::vector<Category>& categories) {
    std::vector<Legend::Entry> out;
    for (Category c : categories)
        out.push_back(
            {title(c), [c](QPainter& p, const QRect& r, const QPalette& palette) { fill_category(p, QRectF(r), c, is_dark(palette)); }});
    return out;
}

} // namespace orrery
