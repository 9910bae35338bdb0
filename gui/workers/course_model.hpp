// The spans of a course as a table. No widgets here.
#pragma once

#include "gui/workers/course.hpp"

#include <QAbstractTableModel>

#include <memory>

namespace orrery {

class CourseModel : public QAbstractTableModel {
    Q_OBJECT
  public:
    enum Column { row, what, detail, begins, takes, column_count };
    using QAbstractTableModel::QAbstractTableModel;
    void setCourse(std::shared_ptr<const WorkersCourse> course); // null: none
    int rowCount(const QModelIndex& parent = {}) const override;
    int columnCount(const QModelIndex& parent = {}) const override;
    QVariant data(const QModelIndex& index, int role = Qt::DisplayRole) const override;
    QVariant headerData(int section, Qt::Orientation orientation, int role = Qt::DisplayRole) const override;

  private:
    std::shared_ptr<const WorkersCourse> course_;
};

} // namespace orrery
