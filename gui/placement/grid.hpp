// Where each device is drawn: as it stands in the cluster, node by node, or by the axes of parallelism as textbooks do. No widgets here.
#pragma once

#include "gui/placement/placement.hpp"

#include <QRectF>
#include <QSizeF>
#include <QString>

#include <vector>

namespace orrery {

enum class Arrangement { nodes, axes };

// In units of a cell; a cell is 1 x 1.
struct GridGroup {
    QString title;
    QRectF box;
    std::vector<std::int32_t> ranks;
};
struct Grid {
    std::vector<QRectF> cells; // by rank
    std::vector<GridGroup> groups;
    QSizeF size;
};
// aspect: width over height of where it is to be shown: groups wrap to fill it.
Grid grid(const Placements& placements, Arrangement arrangement, double aspect);

// The meaning of a device's colour.
enum class ShadeBy { stage, tensor, context, data, experts };
struct Shade {
    int index = 0, count = 1;
};
Shade shade(const Placements& placements, const DevicePlace& device, ShadeBy by);
QString split_words(const Holding& holding, const Mesh& mesh);            // "split over tensor 8 x data 16", "whole on every rank"
QString all_layers(const StageHoldings& stage);                           // "layers 0-7", "no layers", translated
QString shade_words(const Placements& placements, ShadeBy by, int index); // "stage 0: layers 0-7"

// The lines of a cell, most telling first, each in full and as it is written where there is little room.
struct CellLine {
    QString full, brief;
};
std::vector<CellLine> cell_lines(const Placements& placements, const DevicePlace& device);
// All that is known about a device, for a tooltip.
QString device_text(const Placements& placements, const DevicePlace& device);

} // namespace orrery
