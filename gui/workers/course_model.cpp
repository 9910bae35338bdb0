#include "gui/workers/course_model.hpp"

#include "gui/core/as_table.hpp"
#include "gui/core/queries.hpp"

namespace orrery {

void CourseModel::setCourse(std::shared_ptr<const WorkersCourse> course) {
    beginResetModel();
    course_ = std::move(course);
    endResetModel();
}

int CourseModel::rowCount(const QModelIndex& parent) const {
    return parent.isValid() || !course_ ? 0 : static_cast<int>(course_->spans.size());
}
int CourseModel::columnCount(const QModelIndex& parent) const { return parent.isValid() ? 0 : column_count; }

QVariant CourseModel::data(const QModelIndex& i, int role) const {
    if (!checkIndex(i, CheckIndexOption::IndexIsValid)) return {};
    const CourseSpan& s = course_->spans[static_cast<std::size_t>(i.row())];
    const int column = i.column();
    if (role == Qt::TextAlignmentRole && column >= begins) return QVariant(Qt::AlignRight | Qt::AlignVCenter);
    const double seconds = column == begins ? s.begin_s : s.end_s - s.begin_s;
    if (role == export_role && column >= begins) return seconds;
    if (role != Qt::DisplayRole) return {};
    switch (column) {
    case row:
        return course_->rows[static_cast<std::size_t>(s.row)];
    case what:
        return s.what;
    case detail:
        return s.detail;
    default:
        return duration_text(static_cast<std::int64_t>(seconds * 1e12));
    }
}

QVariant CourseModel::headerData(int section, Qt::Orientation orientation, int role) const {
    if (orientation != Qt::Horizontal || (role != Qt::DisplayRole && role != export_role)) return {};
    static const char* const names[] = {QT_TR_NOOP("Who"), QT_TR_NOOP("What"), QT_TR_NOOP("Of it"), QT_TR_NOOP("Begins"),
                                        QT_TR_NOOP("Takes")};
    if (section < 0 || section >= column_count) return {};
    return role == export_role && section >= begins ? with_unit(tr(names[section]), QStringLiteral("s")) : tr(names[section]);
}

} // namespace orrery
