// The tables of comparisons: what differs between runs, how far predictions are off by op kind, and the worst single slices.
#pragma once

#include "gui/core/compare.hpp"

#include <QAbstractTableModel>
#include <QStringList>

namespace orrery {

// Kind, what, the time of each run, then each run's change against the first.
class DifferenceModel : public QAbstractTableModel {
    Q_OBJECT
  public:
    using QAbstractTableModel::QAbstractTableModel;
    void setDifferences(std::vector<Difference> rows, const QStringList& runs);
    int rowCount(const QModelIndex& parent = {}) const override;
    int columnCount(const QModelIndex& parent = {}) const override;
    QVariant data(const QModelIndex& index, int role = Qt::DisplayRole) const override; // Qt::UserRole: the figure, to sort by
    QVariant headerData(int section, Qt::Orientation orientation, int role = Qt::DisplayRole) const override;

  private:
    std::vector<Difference> rows_;
    QStringList runs_;
};

class ErrorsModel : public QAbstractTableModel {
    Q_OBJECT
  public:
    enum Column { kind, slices, predicted, measured, error, absolute, column_count };
    using QAbstractTableModel::QAbstractTableModel;
    void setErrors(std::vector<OpError> rows);
    int rowCount(const QModelIndex& parent = {}) const override;
    int columnCount(const QModelIndex& parent = {}) const override;
    QVariant data(const QModelIndex& index, int role = Qt::DisplayRole) const override;
    QVariant headerData(int section, Qt::Orientation orientation, int role = Qt::DisplayRole) const override;

  private:
    std::vector<OpError> rows_;
};

class OffendersModel : public QAbstractTableModel {
    Q_OBJECT
  public:
    struct Line {
        Offender offender;
        QString name;
        std::int32_t rank = 0, microbatch = -1;
        double predicted = 0, measured = 0;
    };
    enum Column { name, rank, microbatch, predicted, measured, difference, column_count };
    using QAbstractTableModel::QAbstractTableModel;
    void setOffenders(const std::vector<Offender>& offenders, const Trace* predicted, const Trace* measured);
    const Line& line(int row) const { return lines_[row]; }
    int rowCount(const QModelIndex& parent = {}) const override;
    int columnCount(const QModelIndex& parent = {}) const override;
    QVariant data(const QModelIndex& index, int role = Qt::DisplayRole) const override;
    QVariant headerData(int section, Qt::Orientation orientation, int role = Qt::DisplayRole) const override;

  private:
    std::vector<Line> lines_;
};

} // namespace orrery
