// The picture of a timeline's rows: painted on all cores, with the numbers of microbatches and the names of slices where there is room.
#pragma once

#include "gui/core/raster.hpp"
#include "gui/core/rows.hpp"
#include "gui/core/view_state.hpp"

#include <QFont>
#include <QImage>

#include <vector>

namespace orrery {

struct FrameRow {
    int row;
    int y;
}; // index of the row; its top in pixels of the picture, may be negative

struct FrameRequest {
    TimeRange range;
    int width = 0, height = 0; // logical pixels
    int row_height = 16;
    double ratio = 1; // device pixels a logical one
    bool dark = false;
    QColor background, lines;
    QFont font;
    std::int32_t microbatch = -1; // the others pale
    std::vector<FrameRow> rows;
};

QImage render_rows(const TrackStore& store, const std::vector<Row>& rows, const FrameRequest& request);
// Into the picture before, where it has the size: new memory costs more than what is painted on it.
void render_rows(const TrackStore& store, const std::vector<Row>& rows, const FrameRequest& request, QImage& picture);

// Black or white, whichever reads better on it.
QColor ink_on(const QColor& c);

} // namespace orrery
