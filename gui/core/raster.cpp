#include "gui/core/raster.hpp"
#include "topology/at.hpp"

#include <algorithm>

namespace orrery {

namespace {

QRgb mix(QColor a, QColor b, double share) {
    const auto part = [&](int x, int y) { return static_cast<int>(x * share + y * (1 - share) + 0.5); };
    return qRgb(part(a.red(), b.red()), part(a.green(), b.green()), part(a.blue(), b.blue()));
}

bool inked(Pattern p, int x, int y) {
    switch (p) {
    case Pattern::solid:
        return true;
    case Pattern::diagonal:
        return (x + y) % 4 < 2;
    case Pattern::dots:
        return x % 4 >= 2 || y % 4 >= 2;
    case Pattern::cross:
        return (x + y) % 8 == 0 || (x - y + 8) % 8 == 0;
    }
    return true;
}

// Columns are painted eight at once, row of pixels by row: how much of a pixel each kind covers is a difference of two clamped heights,
// so that there is nothing to decide for a single column. Heights are in 256ths of a pixel; a weight of 256 times a colour's 255 still is
// a 16-bit number.
constexpr int batch = 8;
using Lanes [[gnu::vector_size(2 * batch)]] = std::uint16_t; // one instruction each on any processor of the last twenty years

Lanes least(Lanes a, Lanes b) { return a < b ? a : b; }
Lanes most(Lanes a, Lanes b) { return a > b ? a : b; }

// A tile's rows, columns from the strip's first on: each colour by itself, and the pixels.
struct TileInk {
    std::array<std::array<Lanes, 3>, 8> parts;
    std::array<std::array<QRgb, batch>, 8> pixels;
};

TileInk ink_of(const Tile& tile, int first_x) {
    TileInk ink;
    for (std::size_t y = 0; y < 8; ++y)
        for (int c = 0; c < batch; ++c) {
            const QRgb p = tile[y * 8 + at((first_x + c) & 7)];
            for (int part = 0; part < 3; ++part) ink.parts[y][at(part)][c] = static_cast<std::uint16_t>((p >> (16 - 8 * part)) & 0xff);
            ink.pixels[y][at(c)] = p | 0xff000000u;
        }
    return ink;
}

// Eight columns' stacks: heights of the tops by kind, rising, and the lowest and highest of each.
struct Stacks {
    std::vector<Lanes> top;
    std::vector<std::uint16_t> low, high;
    explicit Stacks(std::size_t kinds) : top(kinds), low(kinds), high(kinds) {}

    // One row of pixels, whose lower edge is at `base`.
    void paint(QRgb* out, int count, std::uint16_t base, std::size_t row, const std::vector<TileInk>& inks,
               const TileInk& background) const {
        const std::size_t kinds = top.size();
        std::size_t first = 0, last = 0; // kinds that may be seen here
        while (first < kinds && high[first] <= base) ++first;
        for (last = first; last < kinds && low[last] < base + 256;) ++last;
        const TileInk& lowest = first < kinds ? inks[first] : background;
        if (first == last) {
            std::copy_n(lowest.pixels[row].begin(), count, out); // nothing but that
            return;
        }
        const Lanes floor = Lanes{} + base;
        Lanes below{}, red{}, green{}, blue{};
        const auto add = [&](Lanes weight, const TileInk& ink) {
            red += weight * ink.parts[row][0];
            green += weight * ink.parts[row][1];
            blue += weight * ink.parts[row][2];
        };
        for (std::size_t k = first; k < std::min(last + 1, kinds); ++k) {
            const Lanes covered = least(most(top[k], floor) - floor, Lanes{} + 256);
            add(covered - below, inks[k]);
            below = covered;
        }
        add(256 - below, background);
        red = (red + 128) >> 8, green = (green + 128) >> 8, blue = (blue + 128) >> 8;
        std::array<QRgb, batch> pixels;
        for (int c = 0; c < batch; ++c) pixels[at(c)] = 0xff000000u | QRgb{red[c]} << 16 | QRgb{green[c]} << 8 | blue[c];
        std::copy_n(pixels.begin(), count, out);
    }
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
    column_times(store, tracks, columns, out);
    return out;
}

void column_times(const TrackStore& store, const std::vector<std::int32_t>& tracks, const Columns& columns, ColumnTimes& out) {
    out.kinds.clear();
    out.tracks = static_cast<std::int32_t>(tracks.size());
    if (tracks.size() == 1) {
        const Track& t = store.tracks[at(tracks[0])];
        out.kinds = t.kinds;
        busy_in_columns(store, t, columns, out.busy);
        return;
    }
    ByEnum<SliceKind, bool, slice_kind_count> seen{};
    for (std::int32_t t : tracks)
        for (SliceKind k : store.tracks[at(t)].kinds) seen[at(static_cast<int>(k))] = true;
    ByEnum<SliceKind, std::size_t, slice_kind_count> slot{};
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
}

void paint(QImage& image, const Strip& strip, const ColumnTimes& times, const Columns& columns, const Tiles& tiles) {
    const std::size_t kinds = times.kinds.size();
    const std::ptrdiff_t stride = image.bytesPerLine() / 4;
    QRgb* const bottom = reinterpret_cast<QRgb*>(image.bits()) + (strip.y + strip.height - 1) * stride + strip.x;
    const int height = std::min(strip.height, UINT16_MAX / 256);
    const std::int32_t full = height * 256;
    Edges edge(columns);
    const std::int64_t least_length = edge.least();
    const auto scale_of = [&](std::int64_t length) {
        return full / (static_cast<double>(std::max<std::int64_t>(1, length)) * times.tracks);
    };
    const double scales[2] = {scale_of(least_length), scale_of(least_length + 1)};
    std::vector<TileInk> inks;
    for (SliceKind k : times.kinds) inks.push_back(ink_of(tiles.kinds[at(static_cast<int>(k))], strip.x));
    Tile plain;
    plain.fill(tiles.background);
    const TileInk background = ink_of(plain, strip.x);
    Stacks stacks(kinds);
    for (int first = 0; first < columns.count; first += batch) {
        const int count = std::min(batch, columns.count - first);
        std::fill(stacks.low.begin(), stacks.low.end(), UINT16_MAX);
        std::fill(stacks.high.begin(), stacks.high.end(), 0);
        for (int c = 0; c < count; ++c) {
            const std::int64_t left = *edge;
            edge.next();
            const double scale = scales[*edge - left > least_length];
            const std::int64_t* busy = &times.busy[at(first + c) * kinds];
            std::int64_t sum = 0;
            for (std::size_t k = 0; k < kinds; ++k) {
                sum += busy[k];
                const auto top =
                    static_cast<std::uint16_t>(std::min(static_cast<std::int32_t>(static_cast<double>(sum) * scale + 0.5), full));
                stacks.top[k][c] = top;
                stacks.low[k] = std::min(stacks.low[k], top);
                stacks.high[k] = std::max(stacks.high[k], top);
            }
        }
        for (int y = 0; y < height; ++y)
            stacks.paint(bottom - y * stride + first, count, static_cast<std::uint16_t>(y * 256), at((strip.y + strip.height - 1 - y) & 7),
                         inks, background);
    }
}

} // namespace orrery
