#include "gui/compare/models.hpp"

#include "gui/core/as_table.hpp"
#include "topology/at.hpp"

#include <QLocale>

namespace orrery {

namespace {

const QVariant right = QVariant(Qt::AlignRight | Qt::AlignVCenter);

constexpr double second = 1e12; // picoseconds

QString time(double ps) { return ps == 0 ? QString("–") : duration_text(static_cast<std::int64_t>(ps)); }
QString change(double ps) { return ps == 0 ? QString("–") : (ps > 0 ? "+" : "") + duration_text(static_cast<std::int64_t>(ps)); }
QString per_cent(double share) { return QString(share >= 0 ? "+" : "") + QLocale().toString(100 * share, 'f', 1) + " %"; }

} // namespace

void DifferenceModel::setDifferences(std::vector<Difference> rows, const QStringList& runs) {
    beginResetModel();
    rows_ = std::move(rows);
    runs_ = runs;
    endResetModel();
}

int DifferenceModel::rowCount(const QModelIndex& parent) const { return parent.isValid() ? 0 : static_cast<int>(rows_.size()); }
int DifferenceModel::columnCount(const QModelIndex& parent) const {
    return parent.isValid() ? 0 : 2 + static_cast<int>(runs_.size()) + std::max(0, static_cast<int>(runs_.size()) - 1);
}

QVariant DifferenceModel::data(const QModelIndex& i, int role) const {
    if (!checkIndex(i, CheckIndexOption::IndexIsValid)) return {};
    const Difference& d = rows_[at(i.row())];
    const int runs = static_cast<int>(runs_.size()), column = i.column();
    if (role == Qt::TextAlignmentRole && column >= 2) return right;
    if (role != Qt::DisplayRole && role != Qt::UserRole && role != export_role) return {};
    if (column == 0) return label(d.kind);
    if (column == 1) return d.what;
    const bool is_time = column < 2 + runs;
    const double value = is_time ? d.covered[at(column - 2)] : d.change(at(column - 2 - runs + 1));
    if (role == export_role) return value / second;
    if (role == Qt::UserRole) return is_time ? value : std::abs(value);
    return is_time ? time(value) : change(value);
}

QVariant DifferenceModel::headerData(int section, Qt::Orientation orientation, int role) const {
    if (orientation != Qt::Horizontal || section < 0 || section >= columnCount()) return {};
    const int runs = static_cast<int>(runs_.size());
    if (role == export_role && section >= 2) return with_unit(headerData(section, orientation).toString(), QStringLiteral("s"));
    if (role == Qt::ToolTipRole && section >= 2) return tr("Union of the slices' intervals in a rank, mean over ranks");
    if (role != Qt::DisplayRole) return {};
    if (section == 0) return tr("Kind");
    if (section == 1) return tr("Op or cause");
    return section < 2 + runs ? runs_[section - 2] : tr("Change: %1").arg(runs_[section - 2 - runs + 1]);
}

void ErrorsModel::setErrors(std::vector<OpError> rows) {
    beginResetModel();
    rows_ = std::move(rows);
    endResetModel();
}

int ErrorsModel::rowCount(const QModelIndex& parent) const { return parent.isValid() ? 0 : static_cast<int>(rows_.size()); }
int ErrorsModel::columnCount(const QModelIndex& parent) const { return parent.isValid() ? 0 : column_count; }

QVariant ErrorsModel::data(const QModelIndex& i, int role) const {
    if (!checkIndex(i, CheckIndexOption::IndexIsValid)) return {};
    const OpError& e = rows_[at(i.row())];
    if (role == Qt::TextAlignmentRole && i.column() > 0) return right;
    if (role == export_role && i.column() != kind) {
        const double figure = i.data(Qt::UserRole).toDouble();
        return i.column() == slices ? i.data(Qt::UserRole)
                                    : QVariant(i.column() == predicted || i.column() == measured ? figure / second : figure * 100);
    }
    if (role != Qt::DisplayRole && role != Qt::UserRole && role != export_role) return {};
    const bool text = role == Qt::DisplayRole;
    switch (i.column()) {
    case kind:
        return QString::fromStdString(e.kind);
    case slices:
        return text ? QVariant(QLocale().toString(static_cast<qlonglong>(e.slices))) : QVariant(static_cast<qlonglong>(e.slices));
    case predicted:
        return text ? QVariant(time(e.predicted)) : QVariant(e.predicted);
    case measured:
        return text ? QVariant(time(e.measured)) : QVariant(e.measured);
    case error:
        return text ? QVariant(per_cent(e.error())) : QVariant(e.error());
    case absolute:
        return text ? QVariant(QLocale().toString(100 * e.absolute, 'f', 1) + " %") : QVariant(e.absolute);
    default:
        return {};
    }
}

QVariant ErrorsModel::headerData(int section, Qt::Orientation orientation, int role) const {
    if (orientation != Qt::Horizontal || section < 0 || section >= column_count) return {};
    static const char* const names[] = {QT_TR_NOOP("Op"),       QT_TR_NOOP("Slices"), QT_TR_NOOP("Predicted"),
                                        QT_TR_NOOP("Measured"), QT_TR_NOOP("Error"),  QT_TR_NOOP("Mean |error|")};
    if (role == Qt::DisplayRole) return tr(names[section]);
    if (role == export_role && section >= predicted)
        return with_unit(tr(names[section]), section <= measured ? QStringLiteral("s") : QStringLiteral("%"));
    if (role == Qt::ToolTipRole && section == error) return tr("Sum of predicted times over sum of measured times, less one");
    if (role == Qt::ToolTipRole && section == absolute) return tr("Mean over the slices of |predicted / measured - 1|");
    return {};
}

void OffendersModel::setOffenders(const std::vector<Offender>& offenders, const Trace* predicted_trace, const Trace* measured_trace) {
    beginResetModel();
    lines_.clear();
    for (const Offender& o : offenders) {
        const Span &p = span_of(*predicted_trace, o.predicted), &m = span_of(*measured_trace, o.measured);
        lines_.push_back({o, title(*measured_trace, m), measured_trace->lanes[at(o.measured.lane)].rank, m.microbatch,
                          static_cast<double>((p.end - p.begin).ps), static_cast<double>((m.end - m.begin).ps)});
    }
    endResetModel();
}

int OffendersModel::rowCount(const QModelIndex& parent) const { return parent.isValid() ? 0 : static_cast<int>(lines_.size()); }
int OffendersModel::columnCount(const QModelIndex& parent) const { return parent.isValid() ? 0 : column_count; }

QVariant OffendersModel::data(const QModelIndex& i, int role) const {
    if (!checkIndex(i, CheckIndexOption::IndexIsValid)) return {};
    const Line& l = lines_[at(i.row())];
    if (role == Qt::TextAlignmentRole && i.column() > 0) return right;
    if (role == export_role && i.column() >= predicted)
        return (i.column() == difference ? l.offender.difference : i.data(Qt::UserRole).toDouble()) / second;
    if (role == export_role && i.column() == microbatch) return l.microbatch < 0 ? QVariant(QString()) : QVariant(l.microbatch);
    if (role != Qt::DisplayRole && role != Qt::UserRole && role != export_role) return {};
    const bool text = role == Qt::DisplayRole;
    switch (i.column()) {
    case name:
        return l.name;
    case rank:
        return l.rank;
    case microbatch:
        return text && l.microbatch < 0 ? QVariant(QString()) : QVariant(l.microbatch);
    case predicted:
        return text ? QVariant(time(l.predicted)) : QVariant(l.predicted);
    case measured:
        return text ? QVariant(time(l.measured)) : QVariant(l.measured);
    case difference:
        return text ? QVariant(change(l.offender.difference)) : QVariant(std::abs(l.offender.difference));
    default:
        return {};
    }
}

QVariant OffendersModel::headerData(int section, Qt::Orientation orientation, int role) const {
    static const char* const names[] = {QT_TR_NOOP("Slice"),     QT_TR_NOOP("Rank"),     QT_TR_NOOP("Microbatch"),
                                        QT_TR_NOOP("Predicted"), QT_TR_NOOP("Measured"), QT_TR_NOOP("Difference")};
    if (orientation != Qt::Horizontal || section < 0 || section >= column_count) return {};
    if (role == export_role && section >= predicted) return with_unit(tr(names[section]), QStringLiteral("s"));
    return role == Qt::DisplayRole ? QVariant(tr(names[section])) : QVariant{};
}

} // namespace orrery
