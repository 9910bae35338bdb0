#include "gui/core/raster.hpp"

#include <algorithm>

namespace orrery {

namespace {

constexpr std::size_t at(std::int64_t i) { return static_cast<std::size_t>(i); }

QRgb mix(QColor a, QColor b, double share) {
    const auto part = [&](int x, int y) { return static_cast<int>(x * share + y * (1 - share) + 0.5); };
    return qRgb(part(a.red(), b.red()), part(a.green(), b.green()), part(a.blue(), b.blue()));
}

bool inked(Pattern p, int x, int y) {
    switch (p) {
    case Pattern::solid: return true;
    case Pattern::diagonal: return (x + y) % 4 < 2;
    case Pattern::dots: return x % 4 >= 2 || y % 4 >= 2;
    case Pattern::cross: return (x + y) % 8 == 0 || (x - y + 8) % 8 == 0;
    }
    return true;
}

// One pixel column, filled from below.
class Stack {
  public:
    Stack(QRgb* bottom, std::ptrdiff_t stride, int height, int tile_x, int tile_y, QRgb background)
        : bottom_(bottom), stride_(stride), height_(height), tile_x_(tile_x), tile_y_(tile_y), background_(background) {}

    void add(const Tile& tile, double share) {
        double rest = share * height_;
        while (rest > 1e-9 && done_ < height_) {
            const double part = std::min(1 - covered_, rest);
            const QRgb ink = tile[at(((tile_y_ - done_) & 7) * 8 + tile_x_)];
            rest -= part;
            if (part > 1 - 1e-9) {
                bottom_[-stride_ * done_++] = ink;
                continue;
            }
            blend(ink, part);
            if (covered_ > 1 - 1e-9) flush();
        }
    }
    void finish() {
        if (covered_ > 0 && done_ < height_) {
            blend(background_, 1 - covered_);
            flush();
        }
    }

  private:
    void blend(QRgb ink, double part) {
        red_ += qRed(ink) * part, green_ += qGreen(ink) * part, blue_ += qBlue(ink) * part;
        covered_ += part;
    }
    void flush() {
        bottom_[-stride_ * done_++] = qRgb(static_cast<int>(red_ + 0.5), static_cast<int>(green_ + 0.5), static_cast<int>(blue_ + 0.5));
        red_ = green_ = blue_ = covered_ = 0;
    }

    QRgb* bottom_;
    std::ptrdiff_t stride_;
    int height_, tile_x_, tile_y_, done_ = 0;
    QRgb background_;
    double covered_ = 0, red_ = 0, green_ = 0, blue_ = 0;
};

} // namespace

Tiles tiles(bool dark, QRgb background, int scale) {
    Tiles out;
    out.background = background;
    for (int k = 0; k < slice_kind_count; ++k) {
        const auto kind = static_cast<SliceKind>(k);
        const QColor ink = colour(kind, dark);
        const QRgb pale = mix(ink, QColor::fromRgb(background), 0.45);
        for (int y = 0; y < 8; ++y)
            for (int x = 0; x < 8; ++x) out.kinds[at(k)][at(y * 8 + x)] = inked(pattern(kind), x / scale, y / scale) ? ink.rgb() : pale;
    }
    return out;
}

ColumnTimes column_times(const TrackStore& store, const std::vector<std::int32_t>& tracks, const Columns& columns) {
    ColumnTimes out;
    out.tracks = static_cast<std::int32_t>(tracks.size());
    if (tracks.size() == 1) {
        const Track& t = store.tracks[at(tracks[0])];
        out.kinds = t.kinds;
        busy_in_columns(store, t, columns, out.busy);
        return out;
    }
    std::array<bool, slice_kind_count> seen{};
    for (std::int32_t t : tracks)
        for (SliceKind k : store.tracks[at(t)].kinds) seen[at(static_cast<int>(k))] = true;
    std::array<std::size_t, slice_kind_count> slot{};
    for (int k = 0; k < slice_kind_count; ++k) {
        slot[at(k)] = out.kinds.size();
        if (seen[at(k)]) out.kinds.push_back(static_cast<SliceKind>(k));
    }
    out.busy.assign(at(columns.count) * out.kinds.size(), 0);
    std::vector<std::int64_t> one;
    for (std::int32_t i : tracks) {
        const Track& t = store.tracks[at(i)];
        busy_in_columns(store, t, columns, one);
        for (std::size_t c = 0; c < at(columns.count); ++c)
            for (std::size_t k = 0; k < t.kinds.size(); ++k)
                out.busy[c * out.kinds.size() + slot[at(static_cast<int>(t.kinds[k]))]] += one[c * t.kinds.size() + k];
    }
    return out;
}

void paint(QImage& image, const Strip& strip, const ColumnTimes& times, const Columns& columns, const Tiles& tiles) {
    const std::size_t kinds = times.kinds.size();
    const std::ptrdiff_t stride = image.bytesPerLine() / 4;
    QRgb* const bottom = reinterpret_cast<QRgb*>(image.bits()) + (strip.y + strip.height - 1) * stride + strip.x;
    std::int64_t left = columns.edge(0);
    for (int c = 0; c < columns.count; ++c) {
        const std::int64_t right = columns.edge(c + 1);
        const double whole = 1.0 / (static_cast<double>(std::max<std::int64_t>(1, right - left)) * times.tracks);
        left = right;
        const std::int64_t* busy = &times.busy[at(c) * kinds];
        Stack stack(bottom + c, stride, strip.height, (strip.x + c) & 7, strip.y + strip.height - 1, tiles.background);
        for (std::size_t k = 0; k < kinds; ++k)
            if (busy[k] > 0) stack.add(tiles.kinds[at(static_cast<int>(times.kinds[k]))], static_cast<double>(busy[k]) * whole);
        stack.finish();
    }
}

} // namespace orrery
