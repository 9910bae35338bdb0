// The tables beside the memory's picture: its kinds at the cursor and at the peak; what is alive at the peak.
#pragma once

#include "gui/core/memory_series.hpp"

#include <QAbstractTableModel>

namespace orrery {

// A row a kind, and their sum.
class MemoryKindsModel : public QAbstractTableModel {
    Q_OBJECT
  public:
    using QAbstractTableModel::QAbstractTableModel;
    void setSeries(const MemorySeries& series);
    void setCursor(std::int32_t sample); // -1: none
    int rowCount(const QModelIndex& parent = {}) const override;
    int columnCount(const QModelIndex& parent = {}) const override;
    QVariant data(const QModelIndex& index, int role = Qt::DisplayRole) const override;
    QVariant headerData(int section, Qt::Orientation orientation, int role = Qt::DisplayRole) const override;

  private:
    std::int64_t bytes(std::int32_t sample, int row) const;
    MemorySeries series_;
    std::int32_t cursor_ = -1;
};

// A row a memory that is in use: the fullest device, the fullest node's memory, its NVMe.
class TiersModel : public QAbstractTableModel {
    Q_OBJECT
  public:
    enum Column { where, peak, capacity, free, verdict, kinds, column_count };
    using QAbstractTableModel::QAbstractTableModel;
    void setTiers(std::vector<MemoryTier> tiers);
    int rowCount(const QModelIndex& parent = {}) const override;
    int columnCount(const QModelIndex& parent = {}) const override;
    QVariant data(const QModelIndex& index, int role = Qt::DisplayRole) const override;
    QVariant headerData(int section, Qt::Orientation orientation, int role = Qt::DisplayRole) const override;

  private:
    std::vector<MemoryTier> tiers_;
};

// The largest groups of buffers and the runtime's reserve.
class AliveModel : public QAbstractTableModel {
    Q_OBJECT
  public:
    struct Line {
        QString name;
        std::int64_t bytes = 0;
        std::int32_t count = 0;
        QString source;
    };
    using QAbstractTableModel::QAbstractTableModel;
    void setStage(const StageMemory* stage); // null: nothing is known
    int rowCount(const QModelIndex& parent = {}) const override;
    int columnCount(const QModelIndex& parent = {}) const override;
    QVariant data(const QModelIndex& index, int role = Qt::DisplayRole) const override;
    QVariant headerData(int section, Qt::Orientation orientation, int role = Qt::DisplayRole) const override;

  private:
    std::vector<Line> lines_;
};

} // namespace orrery
