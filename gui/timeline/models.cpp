#include "gui/timeline/models.hpp"

#include "gui/core/as_table.hpp"
#include "topology/at.hpp"

#include <QLocale>

#include <algorithm>
#include <cstdlib>

namespace orrery {

void FactsModel::setFacts(Facts facts) {
    beginResetModel();
    facts_ = std::move(facts);
    endResetModel();
}

int FactsModel::rowCount(const QModelIndex& parent) const { return parent.isValid() ? 0 : static_cast<int>(facts_.size()); }
int FactsModel::columnCount(const QModelIndex& parent) const { return parent.isValid() ? 0 : 2; }

QVariant FactsModel::data(const QModelIndex& index, int role) const {
    if (!checkIndex(index, CheckIndexOption::IndexIsValid) || role != Qt::DisplayRole) return {};
    const auto& [name, value] = facts_[at(index.row())];
    return index.column() == 0 ? name : value;
}

QVariant FactsModel::headerData(int section, Qt::Orientation orientation, int role) const {
    if (orientation != Qt::Horizontal || role != Qt::DisplayRole) return {};
    return section == 0 ? tr("Name") : tr("Value");
}

void AreaModel::setArea(std::vector<AreaRow> rows, double length_ps) {
    beginResetModel();
    rows_ = std::move(rows);
    length_ = std::max(1.0, length_ps);
    endResetModel();
}

int AreaModel::rowCount(const QModelIndex& parent) const { return parent.isValid() ? 0 : static_cast<int>(rows_.size()); }
int AreaModel::columnCount(const QModelIndex& parent) const { return parent.isValid() ? 0 : column_count; }

QVariant AreaModel::figure(const AreaRow& row, int column) const {
    switch (column) {
    case kind:
        return label(row.kind);
    case what:
        return row.what;
    case slices:
        return static_cast<qlonglong>(row.slices);
    case covered:
        return row.covered;
    case share:
        return row.covered / length_;
    case exposed:
        return row.exposed;
    case critical:
        return row.critical;
    case sum:
        return row.sum;
    default:
        return {};
    }
}

QVariant AreaModel::data(const QModelIndex& index, int role) const {
    if (!checkIndex(index, CheckIndexOption::IndexIsValid)) return {};
    const AreaRow& row = rows_[at(index.row())];
    const int column = index.column();
    if (role == Qt::UserRole) return figure(row, column);
    if (role == export_role) {
        if (column <= slices) return figure(row, column);
        return column == share ? figure(row, column).toDouble() * 100 : figure(row, column).toDouble() * 1e-12;
    }
    if (role == Qt::TextAlignmentRole && column >= slices) return QVariant(Qt::AlignRight | Qt::AlignVCenter);
    if (role != Qt::DisplayRole) return {};
    if (column == kind || column == what) return figure(row, column);
    if (column == slices) return QLocale().toString(static_cast<qlonglong>(row.slices));
    const double value = figure(row, column).toDouble();
    if (column == share) return QLocale().toString(100 * value, 'f', 1) + " %";
    return value > 0 ? duration_text(static_cast<std::int64_t>(value)) : QString("–");
}

QVariant AreaModel::headerData(int section, Qt::Orientation orientation, int role) const {
    if (orientation != Qt::Horizontal) return {};
    static const char* const names[] = {QT_TR_NOOP("Kind"),  QT_TR_NOOP("Op or cause"), QT_TR_NOOP("Slices"),        QT_TR_NOOP("Time"),
                                        QT_TR_NOOP("Share"), QT_TR_NOOP("Exposed"),     QT_TR_NOOP("Critical path"), QT_TR_NOOP("Sum")};
    static const char* const tips[] = {"",
                                       "",
                                       "",
                                       QT_TR_NOOP("Union of the slices' intervals in a rank, mean over ranks"),
                                       QT_TR_NOOP("Share of the area's length"),
                                       QT_TR_NOOP("The part of the time in which the rank computed nothing, mean over ranks"),
                                       QT_TR_NOOP("Time on the critical path, all ranks"),
                                       QT_TR_NOOP("Durations added up; more than wall time where slices overlap")};
    if (section < 0 || section >= column_count) return {};
    if (role == Qt::DisplayRole) return tr(names[section]);
    if (role == export_role && section > slices)
        return with_unit(tr(names[section]), section == share ? QStringLiteral("%") : QStringLiteral("s"));
    if (role == Qt::ToolTipRole) return tr(tips[section]);
    return {};
}

int MarkersModel::add(std::int64_t when, const QString& note) {
    const auto place = std::lower_bound(markers_.begin(), markers_.end(), when, [](const Marker& m, std::int64_t t) { return m.at < t; });
    const int row = static_cast<int>(place - markers_.begin());
    beginInsertRows({}, row, row);
    markers_.insert(place, {when, note});
    endInsertRows();
    return row;
}

void MarkersModel::removeNearest(std::int64_t when, std::int64_t within) {
    const auto nearer = [&](const Marker& a, const Marker& b) { return std::llabs(a.at - when) < std::llabs(b.at - when); };
    const auto m = std::min_element(markers_.begin(), markers_.end(), nearer);
    if (m == markers_.end() || std::llabs(m->at - when) > within) return;
    const int row = static_cast<int>(m - markers_.begin());
    beginRemoveRows({}, row, row);
    markers_.erase(m);
    endRemoveRows();
}

void MarkersModel::setMarkers(std::vector<Marker> markers) {
    beginResetModel();
    markers_ = std::move(markers);
    endResetModel();
}

int MarkersModel::rowCount(const QModelIndex& parent) const { return parent.isValid() ? 0 : static_cast<int>(markers_.size()); }
int MarkersModel::columnCount(const QModelIndex& parent) const { return parent.isValid() ? 0 : 2; }

QVariant MarkersModel::data(const QModelIndex& index, int role) const {
    if (!checkIndex(index, CheckIndexOption::IndexIsValid)) return {};
    const Marker& m = markers_[at(index.row())];
    if (role == export_role && index.column() == 0) return plain_seconds(m.at);
    if (role != Qt::DisplayRole && role != Qt::EditRole) return {};
    return index.column() == 0 ? time_text(m.at, 1000000) : m.note;
}

bool MarkersModel::setData(const QModelIndex& index, const QVariant& value, int role) {
    if (!checkIndex(index, CheckIndexOption::IndexIsValid) || role != Qt::EditRole || index.column() != 1) return false;
    markers_[at(index.row())].note = value.toString();
    Q_EMIT dataChanged(index, index);
    return true;
}

Qt::ItemFlags MarkersModel::flags(const QModelIndex& index) const {
    const Qt::ItemFlags base = QAbstractTableModel::flags(index);
    return index.column() == 1 ? base | Qt::ItemIsEditable : base;
}

QVariant MarkersModel::headerData(int section, Qt::Orientation orientation, int role) const {
    if (orientation != Qt::Horizontal || (role != Qt::DisplayRole && role != export_role)) return {};
    if (role == export_role && section == 0) return with_unit(tr("Time"), QStringLiteral("s"));
    return section == 0 ? tr("Time") : tr("Note");
}

} // namespace orrery
