// The cluster with its links coloured by what they carry, at an instant or over the time shown; beside it the links as a table, and
// which of them limits.
#pragma once

#include "gui/core/run.hpp"

#include <QWidget>

class QLabel;
class QSlider;
class QSortFilterProxyModel;
class QTableView;

namespace orrery {

class ClusterPlot;
class LinksModel;

class TopologyView : public QWidget {
    Q_OBJECT
  public:
    TopologyView(RunStore& store, ViewState& state, QWidget* parent = nullptr);
    QSlider& scrubber() { return *scrubber_; }
    LinksModel& links() { return *links_; }
    QString verdict() const; // which link limits

  private:
    void makeTable();
    void layOut();
    void refresh();
    void showTime();       // of the slider: 0 is all of the time shown
    void showRow(int row); // of the links, in the picture

    RunStore& store_;
    ViewState& state_;
    std::shared_ptr<const RunData> shown_;
    LinksModel* links_;
    QSortFilterProxyModel* sorted_;
    ClusterPlot* plot_;
    QSlider* scrubber_;
    QLabel* time_;
    QLabel* limit_;
    QTableView* table_;
};

} // namespace orrery
