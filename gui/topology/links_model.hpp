// The links of a run as a table: the picture's twin in text.
#pragma once

#include <QAbstractTableModel>

#include "gui/topology/load.hpp"

#include <vector>

namespace orrery {

class LinksModel : public QAbstractTableModel {
    Q_OBJECT
  public:
    enum Column { NameColumn, TwinsColumn, BytesColumn, CapacityColumn, MeanColumn, PeakColumn, BusyColumn, ColumnCount };
    enum Role { SortRole = Qt::UserRole + 1 };
    using QAbstractTableModel::QAbstractTableModel;
    void setRows(std::vector<LinkLoadRow> rows, int steps = 1); // that the rows are of: of a round several
    const std::vector<LinkLoadRow>& rows() const { return rows_; }

    int rowCount(const QModelIndex& parent = {}) const override;
    int columnCount(const QModelIndex& parent = {}) const override;
    QVariant data(const QModelIndex& index, int role = Qt::DisplayRole) const override;
    QVariant headerData(int section, Qt::Orientation orientation, int role = Qt::DisplayRole) const override;

  private:
    std::vector<LinkLoadRow> rows_;
    int steps_ = 1;
};

} // namespace orrery
