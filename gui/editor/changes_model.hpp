// The fields in which a scenario differs from the baseline's, as both are written.
#pragma once

#include <QAbstractTableModel>

#include <string>
#include <vector>

namespace orrery {

// value texts are JSON; empty: left out there.
struct Change {
    std::string pointer, before, after;
};
// Neither text has to be right: one that is no JSON counts as empty.
std::vector<Change> changes_between(const std::string& before, const std::string& after);

class ChangesModel : public QAbstractTableModel {
    Q_OBJECT
  public:
    using QAbstractTableModel::QAbstractTableModel;
    void setTexts(const std::string& before, const std::string& after);
    const Change& change(int row) const { return changes_[row]; }

    int rowCount(const QModelIndex& parent = {}) const override;
    int columnCount(const QModelIndex& parent = {}) const override;
    QVariant data(const QModelIndex& index, int role = Qt::DisplayRole) const override;
    QVariant headerData(int section, Qt::Orientation orientation, int role = Qt::DisplayRole) const override;

  private:
    std::vector<Change> changes_;
};

} // namespace orrery
