#include "gui/topology/links_model.hpp"

#include "gui/core/as_table.hpp"
#include "gui/core/figures.hpp"

#include <QLocale>

namespace orrery {

void LinksModel::setRows(std::vector<LinkLoadRow> rows, int steps) {
    beginResetModel();
    steps_ = steps;
    rows_ = std::move(rows);
    endResetModel();
}

int LinksModel::rowCount(const QModelIndex& parent) const { return parent.isValid() ? 0 : static_cast<int>(rows_.size()); }

int LinksModel::columnCount(const QModelIndex& parent) const { return parent.isValid() ? 0 : ColumnCount; }

QVariant LinksModel::data(const QModelIndex& index, int role) const {
    if (!index.isValid()) return {};
    const LinkLoadRow& r = rows_[index.row()];
    if (role == Qt::TextAlignmentRole)
        return QVariant::fromValue(Qt::Alignment((index.column() == NameColumn ? Qt::AlignLeft : Qt::AlignRight) | Qt::AlignVCenter));
    const bool share = index.column() == MeanColumn || index.column() == PeakColumn || index.column() == BusyColumn;
    if (role == export_role && share) return index.data(SortRole).toDouble() * 100;
    const bool sort = role == SortRole || role == export_role;
    if (!sort && role != Qt::DisplayRole) return {};
    switch (index.column()) {
    case NameColumn:
        return QString::fromStdString(r.name);
    case TwinsColumn:
        return sort ? QVariant(r.twins) : QVariant(QLocale().toString(r.twins));
    case BytesColumn:
        return sort ? QVariant(r.bytes) : QVariant(gigabytes_words(r.bytes));
    case CapacityColumn:
        return sort ? QVariant(r.capacity) : QVariant(rate_words(r.capacity));
    case MeanColumn:
        return sort ? QVariant(r.mean) : QVariant(percent_words(r.mean));
    case PeakColumn:
        return sort ? QVariant(r.peak) : QVariant(percent_words(r.peak));
    case BusyColumn:
        return sort ? QVariant(r.busy) : QVariant(percent_words(r.busy));
    default:
        return {};
    }
}

QVariant LinksModel::headerData(int section, Qt::Orientation orientation, int role) const {
    if (role == export_role && orientation == Qt::Horizontal) {
        const QString title = headerData(section, orientation).toString();
        switch (section) {
        case BytesColumn:
            return with_unit(title, tr("bytes"));
        case CapacityColumn:
            return with_unit(title, tr("bytes/s"));
        case MeanColumn:
        case PeakColumn:
        case BusyColumn:
            return with_unit(title, QStringLiteral("%"));
        default:
            return title;
        }
    }
    if (orientation != Qt::Horizontal || role != Qt::DisplayRole) return {};
    switch (section) {
    case NameColumn:
        return tr("Link");
    case TwinsColumn:
        return tr("Alike");
    case BytesColumn:
        return steps_ > 1 ? tr("Carried in %1 steps").arg(steps_) : tr("Carried in a step");
    case CapacityColumn:
        return tr("Capacity");
    case MeanColumn:
        return tr("Mean use");
    case PeakColumn:
        return tr("Busiest bin");
    case BusyColumn:
        return steps_ > 1 ? tr("Share of that time full") : tr("Share of the step full");
    default:
        return {};
    }
}

} // namespace orrery
