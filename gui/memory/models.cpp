#include "gui/memory/models.hpp"

#include "gui/core/as_table.hpp"
#include "topology/at.hpp"

#include <QGuiApplication>
#include <QLocale>
#include <QPalette>

#include <algorithm>

namespace orrery {

void MemoryKindsModel::setSeries(const MemorySeries& series) {
    beginResetModel();
    series_ = series;
    cursor_ = -1;
    endResetModel();
}

void MemoryKindsModel::setCursor(std::int32_t sample) {
    if (sample == cursor_) return;
    cursor_ = sample;
    if (rowCount() > 0) Q_EMIT dataChanged(index(0, 1), index(rowCount() - 1, 1));
}

int MemoryKindsModel::rowCount(const QModelIndex& parent) const {
    return parent.isValid() || series_.at.empty() ? 0 : static_cast<int>(series_.kinds.size()) + 1;
}
int MemoryKindsModel::columnCount(const QModelIndex& parent) const { return parent.isValid() ? 0 : 3; }

std::int64_t MemoryKindsModel::bytes(std::int32_t sample, int row) const {
    return at(row) == series_.kinds.size() ? series_.total[at(sample)] : series_.bytes[at(sample) * series_.kinds.size() + at(row)];
}

QVariant MemoryKindsModel::data(const QModelIndex& i, int role) const {
    if (!checkIndex(i, CheckIndexOption::IndexIsValid)) return {};
    if (role == Qt::TextAlignmentRole && i.column() > 0) return QVariant(Qt::AlignRight | Qt::AlignVCenter);
    if (role == Qt::DecorationRole && i.column() == 0 && at(i.row()) < series_.kinds.size())
        return memory_swatch(at(i.row()), QGuiApplication::palette().color(QPalette::Base).lightness() < 128);
    if (role == export_role && i.column() > 0) {
        const std::int32_t sample = i.column() == 1 ? cursor_ : series_.peak;
        return sample < 0 ? QVariant(QString()) : QVariant(static_cast<qlonglong>(bytes(sample, i.row())));
    }
    if (role != Qt::DisplayRole) return {};
    if (i.column() == 0) return at(i.row()) == series_.kinds.size() ? tr("all") : series_.kinds[at(i.row())];
    const std::int32_t sample = i.column() == 1 ? cursor_ : series_.peak;
    return sample < 0 ? QString() : bytes_text(bytes(sample, i.row()));
}

QVariant MemoryKindsModel::headerData(int section, Qt::Orientation orientation, int role) const {
    if (orientation != Qt::Horizontal || (role != Qt::DisplayRole && role != export_role)) return {};
    const QString title = section == 0 ? tr("Kind") : section == 1 ? tr("At the cursor") : tr("At the peak");
    return role == export_role && section > 0 ? with_unit(title, tr("bytes")) : title;
}

void TiersModel::setTiers(std::vector<MemoryTier> tiers) {
    beginResetModel();
    tiers_ = std::move(tiers);
    endResetModel();
}

int TiersModel::rowCount(const QModelIndex& parent) const { return parent.isValid() ? 0 : static_cast<int>(tiers_.size()); }
int TiersModel::columnCount(const QModelIndex& parent) const { return parent.isValid() ? 0 : column_count; }

QVariant TiersModel::data(const QModelIndex& i, int role) const {
    if (!checkIndex(i, CheckIndexOption::IndexIsValid)) return {};
    const MemoryTier& tier = tiers_[at(i.row())];
    const int column = i.column();
    const std::int64_t left = tier.capacity - tier.peak;
    if (role == Qt::TextAlignmentRole && column >= peak && column <= free) return QVariant(Qt::AlignRight | Qt::AlignVCenter);
    if (role == export_role && column >= peak && column <= free) {
        if (column != peak && tier.capacity == 0) return QString();
        return static_cast<qlonglong>(column == peak ? tier.peak : column == capacity ? tier.capacity : left);
    }
    const QString kinds_there = QStringList(tier.kinds.begin(), tier.kinds.end()).join(QStringLiteral(", "));
    if (role == Qt::ToolTipRole && column == kinds) return kinds_there; // longer than its column
    if (role != Qt::DisplayRole) return {};
    const QString unknown = QStringLiteral("\u2013");
    switch (column) {
    case where:
        return tier.name;
    case peak:
        return bytes_text(tier.peak);
    case capacity:
        return tier.capacity > 0 ? bytes_text(tier.capacity) : unknown;
    case free:
        return tier.capacity > 0 && left >= 0 ? bytes_text(left) : unknown;
    case verdict:
        return tier.capacity == 0 ? tr("capacity not known") : tier.fits() ? tr("fits") : tr("%1 too large").arg(bytes_text(-left));
    default:
        return kinds_there;
    }
}

QVariant TiersModel::headerData(int section, Qt::Orientation orientation, int role) const {
    if (orientation != Qt::Horizontal || (role != Qt::DisplayRole && role != export_role)) return {};
    static const char* const names[] = {QT_TR_NOOP("Memory"), QT_TR_NOOP("Peak"),    QT_TR_NOOP("Capacity"),
                                        QT_TR_NOOP("Free"),   QT_TR_NOOP("Verdict"), QT_TR_NOOP("At the peak")};
    if (section < 0 || section >= column_count) return {};
    return role == export_role && section >= peak && section <= free ? with_unit(tr(names[section]), tr("bytes")) : tr(names[section]);
}

void AliveModel::setStage(const StageMemory* stage) {
    beginResetModel();
    lines_.clear();
    if (stage) {
        for (const LiveBuffer& b : stage->largest) lines_.push_back({QString::fromStdString(b.name), b.bytes.count, b.count, {}});
        for (const ReserveItem& r : stage->reserve)
            lines_.push_back({QString::fromStdString(r.name), r.bytes.count, 1, QString::fromStdString(r.source)});
        std::stable_sort(lines_.begin(), lines_.end(), [](const Line& a, const Line& b) { return a.bytes > b.bytes; });
    }
    endResetModel();
}

int AliveModel::rowCount(const QModelIndex& parent) const { return parent.isValid() ? 0 : static_cast<int>(lines_.size()); }
int AliveModel::columnCount(const QModelIndex& parent) const { return parent.isValid() ? 0 : 4; }

QVariant AliveModel::data(const QModelIndex& i, int role) const {
    if (!checkIndex(i, CheckIndexOption::IndexIsValid)) return {};
    const Line& line = lines_[at(i.row())];
    if (role == Qt::TextAlignmentRole && (i.column() == 1 || i.column() == 2)) return QVariant(Qt::AlignRight | Qt::AlignVCenter);
    if (role == Qt::ToolTipRole && i.column() == 3) return line.source;
    if (role == export_role && i.column() == 1) return static_cast<qlonglong>(line.bytes);
    if (role == export_role && i.column() == 2) return line.count;
    if (role != Qt::DisplayRole) return {};
    switch (i.column()) {
    case 0:
        return line.name;
    case 1:
        return bytes_text(line.bytes);
    case 2:
        return QLocale().toString(line.count);
    default:
        return line.source;
    }
}

QVariant AliveModel::headerData(int section, Qt::Orientation orientation, int role) const {
    if (role == export_role && orientation == Qt::Horizontal && section == 1) return with_unit(tr("Together"), tr("bytes"));
    if (orientation != Qt::Horizontal || role != Qt::DisplayRole) return {};
    return section == 0 ? tr("Alive at the peak") : section == 1 ? tr("Together") : section == 2 ? tr("Count") : tr("Source of the figure");
}

} // namespace orrery
