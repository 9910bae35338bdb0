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

// One pixel column, filled from below. Heights are in 256ths of a pixel; red with blue, and green, are summed up two in a word.
class Stack {
  public:
    Stack(QRgb* bottom, std::ptrdiff_t stride, int tile_x, int tile_y) : pixel_(bottom), stride_(stride), tile_x_(tile_x), tile_y_(tile_y) {}

    void fill(const Tile& tile, std::int32_t to) {
        if (to <= at_) return;
        if (const std::int32_t inside = at_ & 255; inside != 0) {
            const std::int32_t part = std::min(256 - inside, to - at_);
            blend(ink(tile), part);
            if ((at_ & 255) != 0) return;
            flush();
        }
        for (; at_ + 256 <= to; at_ += 256) next(ink(tile));
        if (at_ < to) blend(ink(tile), to - at_);
    }
    void finish(QRgb background) {
        if (const std::int32_t inside = at_ & 255; inside != 0) blend(background, 256 - inside), flush();
    }

  private:
    QRgb ink(const Tile& tile) const { return tile[at((tile_y_ & 7) * 8 + tile_x_)]; }
    void blend(QRgb c, std::int32_t part) {
        const auto weight = static_cast<std::uint32_t>(part);
        red_blue_ += (c & 0xff00ff) * weight;
        green_ += (c & 0x00ff00) * weight;
        at_ += part;
    }
    void flush() {
        next(0xff000000u | (((red_blue_ + 0x800080) >> 8) & 0xff00ff) | (((green_ + 0x8000) >> 8) & 0x00ff00));
        red_blue_ = green_ = 0;
    }
    void next(QRgb c) {
        *pixel_ = c;
        pixel_ -= stride_;
        --tile_y_;
    }

    QRgb* pixel_;
    std::ptrdiff_t stride_;
    int tile_x_, tile_y_;
    std::int32_t at_ = 0;
    std::uint32_t red_blue_ = 0, green_ = 0;
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
    const std::int32_t full = strip.height * 256;
    Edges edge(columns);
    const std::int64_t least = edge.least();
    const auto scale_of = [&](std::int64_t length) { return full / (static_cast<double>(std::max<std::int64_t>(1, length)) * times.tracks); };
    const double scales[2] = {scale_of(least), scale_of(least + 1)};
    for (int c = 0; c < columns.count; ++c) {
        const std::int64_t left = *edge;
        edge.next();
        const double scale = scales[*edge - left > least];
        const std::int64_t* busy = &times.busy[at(c) * kinds];
        Stack stack(bottom + c, stride, (strip.x + c) & 7, strip.y + strip.height - 1);
        std::int64_t sum = 0;
        for (std::size_t k = 0; k < kinds; ++k) {
            if (busy[k] == 0) continue;
            sum += busy[k];
            const auto to = static_cast<std::int32_t>(static_cast<double>(sum) * scale + 0.5);
            stack.fill(tiles.kinds[at(static_cast<int>(times.kinds[k]))], std::min(to, full));
        }
        stack.finish(tiles.background);
    }
}

} // namespace orrery
