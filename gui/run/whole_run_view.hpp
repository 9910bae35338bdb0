// The whole run of a scenario with "run": months, lost time by cause, goodput of the seeds, the interval between saves. It is simulated
// in the background when it is first shown.
#pragma once

#include "gui/core/as_table.hpp"
#include "gui/core/run.hpp"
#include "sim/job/whole_run.hpp"

#include <QFutureWatcher>
#include <QWidget>

class QLabel;

namespace orrery {

class LostTimeModel;
class WholeRunPlot;

class WholeRunView : public QWidget, public AsTable {
    Q_OBJECT
  public:
    WholeRunView(RunStore& store, ViewState& state, QWidget* parent = nullptr);
    ~WholeRunView() override;
    TextTable asTable() const override;
    WholeRunPlot& plot() { return *plot_; }
    QString words() const;
    bool busy() const { return watcher_.isRunning(); }

  private:
    struct Result {
        std::shared_ptr<const RunData> of;
        std::shared_ptr<const WholeRunReport> report;
        QString problem;
    };
    void refresh();
    void take();
    RunStore& store_;
    ViewState& state_;
    std::shared_ptr<const RunData> shown_;
    QFutureWatcher<Result> watcher_;
    QLabel* words_;
    WholeRunPlot* plot_;
    LostTimeModel* lost_;
};

} // namespace orrery
