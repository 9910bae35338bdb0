// Where the time of a whole run goes, a row a cause. No widgets here.
#pragma once

#include "sim/job/whole_run.hpp"

#include <QAbstractTableModel>

#include <vector>

namespace orrery {

struct RunShare {
    QString cause;
    double seconds = 0, share = 0; // mean over the simulated runs; of the wall time
    int kind = -1;                 // a LostTime; -1: productive
};
std::vector<RunShare> shares_of(const WholeRunReport& report); // those above 0, productive first; they add up to 1
QString days_words(double seconds);                            // "51.2 days", with the locale's digits
QString lost_time_words(LostTime t);                           // what simrun calls it, translated
QColor share_colour(int kind, bool dark);

class LostTimeModel : public QAbstractTableModel {
    Q_OBJECT
  public:
    using QAbstractTableModel::QAbstractTableModel;
    void setReport(const WholeRunReport* report); // null: none
    int rowCount(const QModelIndex& parent = {}) const override;
    int columnCount(const QModelIndex& parent = {}) const override;
    QVariant data(const QModelIndex& index, int role = Qt::DisplayRole) const override;
    QVariant headerData(int section, Qt::Orientation orientation, int role = Qt::DisplayRole) const override;

  private:
    std::vector<RunShare> rows_;
};

} // namespace orrery
