#include "gui/placement/grid.hpp"

#include "gui/core/tr.hpp"

#include <QLocale>
#include <QStringList>

#include <algorithm>
#include <cmath>

namespace orrery {
namespace {

constexpr double gap = 0.35, title_height = 0.45;
constexpr std::size_t longest_numbers = 13; // characters

// How many boxes stand side by side so that they are drawn as large as can be in a room `aspect` wide and 1 high.
int boxes_across(std::size_t boxes, double width, double height, double aspect) {
    int best = 1;
    double largest = 0;
    for (int across = 1; across <= static_cast<int>(boxes); ++across) {
        const auto down = (static_cast<int>(boxes) + across - 1) / across;
        const double scale = std::min(aspect / (across * width), 1 / (down * height));
        if (scale <= largest) continue;
        largest = scale;
        best = across;
    }
    return best;
}

// Groups of equal size, wrapped; place(device) is a cell's column and row in its group.
struct Boxes {
    int columns = 1, rows = 1;
    std::vector<GridGroup> groups;
};

Grid laid_out(const Placements& p, Boxes boxes, const std::vector<int>& group_of, const std::vector<QPointF>& place, double aspect) {
    Grid g;
    const double width = boxes.columns + gap, height = boxes.rows + gap + title_height;
    const int across = boxes_across(boxes.groups.size(), width, height, aspect);
    for (std::size_t i = 0; i < boxes.groups.size(); ++i) {
        const double x = static_cast<double>(static_cast<int>(i) % across) * width,
                     y = static_cast<double>(static_cast<int>(i) / across) * height;
        boxes.groups[i].box = QRectF(x + gap / 2, y + gap / 2, boxes.columns, boxes.rows + title_height);
    }
    for (std::size_t r = 0; r < p.devices.size(); ++r) {
        GridGroup& group = boxes.groups[group_of[r]];
        group.ranks.push_back(static_cast<std::int32_t>(r));
        g.cells.push_back(QRectF(group.box.left() + place[r].x(), group.box.top() + title_height + place[r].y(), 1, 1));
    }
    const auto down = (static_cast<int>(boxes.groups.size()) + across - 1) / across;
    g.size = QSizeF(std::min<int>(across, static_cast<int>(boxes.groups.size())) * width, down * height);
    g.groups = std::move(boxes.groups);
    return g;
}

Grid by_nodes(const Placements& p, double aspect) {
    Boxes boxes;
    const int per_node = p.devices_per_node;
    boxes.columns = per_node <= 4 ? per_node : per_node <= 16 ? (per_node + 1) / 2 : static_cast<int>(std::ceil(std::sqrt(per_node * 2.0)));
    boxes.columns = std::min<int>(boxes.columns, std::max<int>(1, static_cast<int>(p.devices.size())));
    boxes.rows = (std::min<int>(per_node, static_cast<int>(p.devices.size())) + boxes.columns - 1) / boxes.columns;
    std::vector<int> group_of;
    std::vector<QPointF> place;
    for (const DevicePlace& d : p.devices) {
        while (static_cast<int>(boxes.groups.size()) <= d.node) boxes.groups.push_back({tr("node %1").arg(boxes.groups.size()), {}, {}});
        group_of.push_back(d.node);
        place.emplace_back(d.slot % boxes.columns, d.slot / boxes.columns);
    }
    return laid_out(p, std::move(boxes), group_of, place, aspect);
}

// A box a replica of the model: stages down, tensor and context shards across.
Grid by_axes(const Placements& p, double aspect) {
    Boxes boxes;
    const int tensor = p.mesh.extent(Axis::tp) * p.mesh.extent(Axis::ep);
    boxes.columns = tensor * p.mesh.extent(Axis::cp);
    boxes.rows = p.mesh.extent(Axis::pp);
    for (int d = 0; d < p.data_ranks(); ++d) boxes.groups.push_back({tr("data %1").arg(d), {}, {}});
    std::vector<int> group_of;
    std::vector<QPointF> place;
    for (const DevicePlace& d : p.devices) {
        group_of.push_back(p.data_rank(d));
        place.emplace_back(d.at[at(Axis::cp)] * tensor + d.at[at(Axis::ep)] * p.mesh.extent(Axis::tp) + d.at[at(Axis::tp)],
                           d.at[at(Axis::pp)]);
    }
    return laid_out(p, std::move(boxes), group_of, place, aspect);
}

QString word(Axis a) {
    switch (a) {
    case Axis::tp:
        return tr("tensor");
    case Axis::cp:
        return tr("context");
    case Axis::ep:
        return tr("expert");
    case Axis::dp:
        return tr("data");
    case Axis::dpr:
        return tr("replica");
    case Axis::dpw:
        return tr("worker");
    case Axis::pp:
        return tr("pipeline");
    }
    return {};
}

QString gigabytes(Bytes bytes) { return QLocale().toString(bytes.gigabytes(), 'f', 2) + QStringLiteral(" GB"); }

QString holding_line(const QString& what, const Holding& holding, const Mesh& mesh) {
    return QStringLiteral("<tr><td>%1&nbsp;&nbsp;</td><td align='right'>%2&nbsp;&nbsp;</td><td>%3</td></tr>")
        .arg(what, gigabytes(holding.bytes), split_words(holding, mesh));
}

} // namespace

Grid grid(const Placements& placements, Arrangement arrangement, double aspect) {
    if (placements.devices.empty()) return {};
    return arrangement == Arrangement::nodes ? by_nodes(placements, aspect) : by_axes(placements, aspect);
}

Shade shade(const Placements& p, const DevicePlace& d, ShadeBy by) {
    switch (by) {
    case ShadeBy::stage:
        return {p.stage(d), p.mesh.extent(Axis::pp)};
    case ShadeBy::tensor:
        return {d.at[at(Axis::tp)], p.mesh.extent(Axis::tp)};
    case ShadeBy::context:
        return {d.at[at(Axis::cp)], p.mesh.extent(Axis::cp)};
    case ShadeBy::data:
        return {p.data_rank(d), p.data_ranks()};
    case ShadeBy::experts:
        return {d.expert_group, std::max(1, p.expert_mesh.extent(Axis::ep))};
    }
    return {};
}

QString split_words(const Holding& holding, const Mesh& mesh) {
    QStringList parts;
    for (int a = 0; a < axis_count; ++a)
        if (const Axis axis = static_cast<Axis>(a); (holding.axes & mask(axis)) != 0)
            parts << word(axis) + QLatin1Char(' ') + QString::number(mesh.extent(axis));
    return parts.isEmpty() ? tr("whole on every rank") : tr("split over %1").arg(parts.join(QStringLiteral(" x ")));
}

QString all_layers(const StageHoldings& stage) {
    const QString numbers = QString::fromStdString(layer_numbers(stage));
    if (numbers.isEmpty()) return tr("no layers");
    const bool one = !numbers.contains(QLatin1Char(',')) && !numbers.contains(QLatin1Char('-'));
    return one ? tr("layer %1").arg(numbers) : tr("layers %1").arg(numbers);
}

// "layers 0-7", or how many they are where they would take a line of their own.
QString layers_words(const StageHoldings& stage) {
    if (layer_numbers(stage).size() <= longest_numbers) return all_layers(stage);
    int layers = 0;
    for (const ChunkLayers& c : stage.chunks)
        if (c.last >= c.first) layers += c.last - c.first + 1; // a chunk of the ends alone has none
    return tr("%1 layers").arg(layers);
}

QString shade_words(const Placements& p, ShadeBy by, int index) {
    switch (by) {
    case ShadeBy::stage:
        return tr("stage %1: %2").arg(index).arg(layers_words(p.stages[index]));
    case ShadeBy::tensor:
        return tr("tensor shard %1").arg(index);
    case ShadeBy::context:
        return tr("context shard %1").arg(index);
    case ShadeBy::data:
        return tr("data %1").arg(index);
    case ShadeBy::experts:
        return p.experts > 0 ? tr("experts' group %1").arg(index) : tr("no experts");
    }
    return {};
}

std::vector<CellLine> cell_lines(const Placements& p, const DevicePlace& d) {
    std::vector<CellLine> lines{{tr("rank %1").arg(d.rank), QString::number(d.rank)}};
    const QString numbers = QString::fromStdString(layer_numbers(p.stages[p.stage(d)])), layers = layers_words(p.stages[p.stage(d)]);
    const bool several = numbers.contains(QLatin1Char('-')) || numbers.contains(QLatin1Char(','));
    lines.push_back({layers, several && numbers.size() <= static_cast<qsizetype>(longest_numbers) ? tr("L %1").arg(numbers) : layers});
    const auto part = [&](const QString& what, const QString& letter, int index, int count) {
        const QString which = QStringLiteral("%1/%2").arg(index + 1).arg(count);
        if (count > 1) lines.push_back({what + QLatin1Char(' ') + which, letter + QLatin1Char(' ') + which});
    };
    part(tr("tensor"), tr("T"), d.at[at(Axis::tp)], p.mesh.extent(Axis::tp));
    part(tr("context"), tr("C"), d.at[at(Axis::cp)], p.mesh.extent(Axis::cp));
    part(tr("data"), tr("D"), p.data_rank(d), p.data_ranks());
    if (p.experts > 0 && p.experts_each() > 0) {
        const int first = p.first_expert(d), last = first + p.experts_each() - 1;
        const QString which = first == last ? QString::number(first) : QStringLiteral("%1-%2").arg(first).arg(last);
        lines.push_back({tr("experts %1").arg(which), tr("E %1").arg(which)});
    }
    return lines;
}

QString device_text(const Placements& p, const DevicePlace& d) {
    const StageHoldings& stage = p.stages[p.stage(d)];
    QString text = tr("<b>rank %1</b>: node %2, device %3<br>stage %4 of %5, %6")
                       .arg(d.rank)
                       .arg(d.node)
                       .arg(d.slot)
                       .arg(p.stage(d) + 1)
                       .arg(p.mesh.extent(Axis::pp))
                       .arg(all_layers(stage));
    for (const ChunkLayers& c : stage.chunks) {
        if (c.embedding) text += tr(", embedding");
        if (c.loss) text += tr(", loss");
    }
    text += QStringLiteral("<table>") + holding_line(tr("weights"), stage.parameters, p.mesh);
    if (stage.expert_parameters.bytes.count > 0) text += holding_line(tr("experts' weights"), stage.expert_parameters, p.expert_mesh);
    text += holding_line(tr("gradients"), stage.gradients, p.mesh) + holding_line(tr("optimizer states"), stage.optimizer, p.mesh) +
            QStringLiteral("</table>");
    text += tr("data: part %1 of %2, %3 microbatches of %4 sequences")
                .arg(p.data_rank(d) + 1)
                .arg(p.data_ranks())
                .arg(p.microbatches)
                .arg(p.micro_batch);
    if (p.mesh.extent(Axis::cp) > 1)
        text += tr(", part %1 of %2 of each sequence").arg(d.at[at(Axis::cp)] + 1).arg(p.mesh.extent(Axis::cp));
    if (p.experts > 0 && p.experts_each() > 0)
        text += tr("<br>experts %1 to %2 of %3 in each layer")
                    .arg(p.first_expert(d))
                    .arg(p.first_expert(d) + p.experts_each() - 1)
                    .arg(p.experts);
    return text;
}

} // namespace orrery
