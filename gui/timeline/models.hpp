// The tables beside the timeline: what the selected slice is, what an area holds, the notes on the ruler.
#pragma once

#include "gui/core/queries.hpp"
#include "gui/timeline/timeline.hpp"

#include <QAbstractTableModel>

#include <vector>

namespace orrery {

class FactsModel : public QAbstractTableModel {
    Q_OBJECT
  public:
    using QAbstractTableModel::QAbstractTableModel;
    void setFacts(Facts facts);
    int rowCount(const QModelIndex& parent = {}) const override;
    int columnCount(const QModelIndex& parent = {}) const override;
    QVariant data(const QModelIndex& index, int role = Qt::DisplayRole) const override;
    QVariant headerData(int section, Qt::Orientation orientation, int role = Qt::DisplayRole) const override;

  private:
    Facts facts_;
};

class AreaModel : public QAbstractTableModel {
    Q_OBJECT
  public:
    enum Column { kind, what, slices, covered, share, exposed, critical, sum, column_count };
    using QAbstractTableModel::QAbstractTableModel;
    void setArea(std::vector<AreaRow> rows, double length_ps);
    int rowCount(const QModelIndex& parent = {}) const override;
    int columnCount(const QModelIndex& parent = {}) const override;
    QVariant data(const QModelIndex& index, int role = Qt::DisplayRole) const override; // Qt::UserRole: the figure, to sort by
    QVariant headerData(int section, Qt::Orientation orientation, int role = Qt::DisplayRole) const override;

  private:
    QVariant figure(const AreaRow& row, int column) const;
    std::vector<AreaRow> rows_;
    double length_ = 1;
};

// Notes can be edited; times cannot.
class MarkersModel : public QAbstractTableModel {
    Q_OBJECT
  public:
    using QAbstractTableModel::QAbstractTableModel;
    const std::vector<Marker>& markers() const { return markers_; }
    int add(std::int64_t at, const QString& note); // gives its row: markers are in order of time
    void removeNearest(std::int64_t at, std::int64_t within);
    void setMarkers(std::vector<Marker> markers);
    int rowCount(const QModelIndex& parent = {}) const override;
    int columnCount(const QModelIndex& parent = {}) const override;
    QVariant data(const QModelIndex& index, int role = Qt::DisplayRole) const override;
    bool setData(const QModelIndex& index, const QVariant& value, int role = Qt::EditRole) override;
    Qt::ItemFlags flags(const QModelIndex& index) const override;
    QVariant headerData(int section, Qt::Orientation orientation, int role = Qt::DisplayRole) const override;

  private:
    std::vector<Marker> markers_;
};

} // namespace orrery
