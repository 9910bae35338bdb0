// A row of a timeline as pixels: each pixel column a stack of the kinds that were busy in its time, in proportion. Where two kinds meet
// inside a pixel it takes the mixture, so that the painted share is the true one and not rounded to the row's few pixels.
#pragma once

#include "gui/core/tracks.hpp"

#include <QImage>

#include <array>
#include <cstdint>
#include <vector>

namespace orrery {

using Tile = std::array<QRgb, 64>; // 8 x 8 pixels, by (y % 8) * 8 + x % 8 of the image

struct Tiles {
    ByEnum<SliceKind, Tile, slice_kind_count> kinds;
    QRgb background = 0;
};
Tiles tiles(bool dark, QRgb background, int scale = 1); // scale: device pixels of a pattern's pixel

// Busy time by column and kind: of one track, or of several added up.
struct ColumnTimes {
    std::vector<SliceKind> kinds;
    std::vector<std::int64_t> busy; // [column * kinds.size() + kind]
    std::int32_t tracks = 1;        // a column's whole height is its time on this number of tracks
};
ColumnTimes column_times(const TrackStore& store, const std::vector<std::int32_t>& tracks, const Columns& columns);
void column_times(const TrackStore& store, const std::vector<std::int32_t>& tracks, const Columns& columns,
                  ColumnTimes& out); // into its memory

// Into rows [y, y + height) of a 32-bit image, columns from x on. Different rows may be painted by different threads.
struct Strip {
    int x = 0, y = 0, height = 0;
};
void paint(QImage& image, const Strip& strip, const ColumnTimes& times, const Columns& columns, const Tiles& tiles);

} // namespace orrery
