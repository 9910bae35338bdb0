#include "gui/run/lost_time_model.hpp"

#include "gui/core/as_table.hpp"

#include <QColor>
#include <QCoreApplication>
#include <QGuiApplication>
#include <QLocale>
#include <QPalette>

#include <iterator>

namespace orrery {

QString days_words(double seconds) {
    const auto tenths = [](double value) { return QLocale().toString(value, 'f', 1); };
    if (seconds >= 2 * 86400) return QCoreApplication::translate("orrery::LostTimeModel", "%1 days").arg(tenths(seconds / 86400));
    if (seconds >= 2 * 3600) return QCoreApplication::translate("orrery::LostTimeModel", "%1 h").arg(tenths(seconds / 3600));
    if (seconds >= 120) return QCoreApplication::translate("orrery::LostTimeModel", "%1 min").arg(tenths(seconds / 60));
    return QCoreApplication::translate("orrery::LostTimeModel", "%1 s").arg(QLocale().toString(seconds, 'g', 3));
}

QString lost_time_words(LostTime t) {
    switch (t) {
    case LostTime::initialisation:
        return LostTimeModel::tr("accelerator initialisation");
    case LostTime::preparation:
        return LostTimeModel::tr("training preparation");
    case LostTime::startup:
        return LostTimeModel::tr("program start-up");
    case LostTime::save:
        return LostTimeModel::tr("checkpoint save");
    case LostTime::restore:
        return LostTimeModel::tr("checkpoint restore");
    case LostTime::wasted:
        return LostTimeModel::tr("wasted progress");
    case LostTime::recovery:
        return LostTimeModel::tr("infrastructure recovery");
    case LostTime::evaluation:
        return LostTimeModel::tr("evaluation");
    case LostTime::data:
        return LostTimeModel::tr("data loading");
    case LostTime::slower:
        return LostTimeModel::tr("slower steps");
    }
    return {};
}

// Colours of Okabe and Ito's set; in the dark a little lighter.
QColor share_colour(int kind, bool dark) {
    static const QColor ink[] = {QColor(0x00, 0x9e, 0x73), QColor(0x56, 0xb4, 0xe9), QColor(0xcc, 0x79, 0xa7), QColor(0x99, 0x99, 0x99),
                                 QColor(0x00, 0x72, 0xb2), QColor(0xf0, 0xe4, 0x42), QColor(0xd5, 0x5e, 0x00), QColor(0xe6, 0x9f, 0x00),
                                 QColor(0x88, 0x66, 0xcc), QColor(0x00, 0x80, 0x80), QColor(0x77, 0x55, 0x33)};
    static_assert(std::size(ink) == lost_times + 1);
    const QColor c = ink[kind + 1];
    return dark ? c.lighter(115) : c;
}

std::vector<RunShare> shares_of(const WholeRunReport& report) {
    std::vector<RunShare> out;
    const double wall = report.mean_wall_s;
    if (wall <= 0) return out;
    out.push_back({LostTimeModel::tr("productive"), report.productive_s, report.productive_s / wall, -1});
    for (std::size_t i = 0; i < lost_times; ++i)
        if (report.lost_s[i] > 0)
            out.push_back({lost_time_words(static_cast<LostTime>(i)), report.lost_s[i], report.lost_s[i] / wall, static_cast<int>(i)});
    return out;
}

void LostTimeModel::setReport(const WholeRunReport* report) {
    beginResetModel();
    rows_ = report ? shares_of(*report) : std::vector<RunShare>{};
    endResetModel();
}

int LostTimeModel::rowCount(const QModelIndex& parent) const { return parent.isValid() ? 0 : static_cast<int>(rows_.size()); }
int LostTimeModel::columnCount(const QModelIndex& parent) const { return parent.isValid() ? 0 : 3; }

QVariant LostTimeModel::data(const QModelIndex& i, int role) const {
    if (!checkIndex(i, CheckIndexOption::IndexIsValid)) return {};
    const RunShare& row = rows_[i.row()];
    if (role == Qt::TextAlignmentRole && i.column() > 0) return QVariant(Qt::AlignRight | Qt::AlignVCenter);
    if (role == Qt::DecorationRole && i.column() == 0)
        return share_colour(row.kind, QGuiApplication::palette().color(QPalette::Base).lightness() < 128);
    if (role == export_role && i.column() > 0) return i.column() == 1 ? row.share * 100 : row.seconds;
    if (role != Qt::DisplayRole) return {};
    return i.column() == 0   ? row.cause
           : i.column() == 1 ? tr("%1 %").arg(QLocale().toString(row.share * 100, 'f', 2))
                             : days_words(row.seconds);
}

QVariant LostTimeModel::headerData(int section, Qt::Orientation orientation, int role) const {
    if (orientation != Qt::Horizontal || (role != Qt::DisplayRole && role != export_role)) return {};
    const QString title = section == 0 ? tr("Time of the run") : section == 1 ? tr("Share") : tr("Mean");
    if (role == export_role && section > 0) return with_unit(title, section == 1 ? QStringLiteral("%") : QStringLiteral("s"));
    return title;
}

} // namespace orrery
