// Memory over time of a rank of the current run.
#pragma once

#include "gui/core/as_table.hpp"
#include "gui/core/run.hpp"
#include "gui/core/view_command.hpp"

#include <QWidget>

class QComboBox;
class QLabel;
class QTableView;
class QToolButton;

namespace orrery {

class AliveModel;
class MemoryChart;
class MemoryKindsModel;
class TiersModel;

class MemoryView : public QWidget, public AsTable, public HasCommands {
    Q_OBJECT
  public:
    MemoryView(RunStore& runs, ViewState& state, QWidget* parent = nullptr);
    TextTable asTable() const override;
    std::vector<ViewCommand> commands() override;
    std::vector<TextTable> moreTables() const override;
    MemoryChart& chart() { return *chart_; }
    MemoryChart& chartOf(Space space) { return *(space == Space::host ? host_ : space == Space::nvme ? disk_ : chart_); }
    void showLane(std::int32_t lane);

  private:
    void showRun();
    void showSeries();
    void goToPeak();
    void showTiers();
    std::vector<MemoryChart*> charts() const { return {chart_, host_, disk_}; }

    RunStore& runs_;
    ViewState& state_;
    QComboBox* lanes_ = nullptr;
    QLabel* words_ = nullptr;
    QToolButton* toPeak_ = nullptr;
    MemoryChart* chart_ = nullptr; // of the device; below it those of the node's memory and NVMe, where something lies there
    MemoryChart* host_ = nullptr;
    MemoryChart* disk_ = nullptr;
    MemoryKindsModel* kinds_ = nullptr;
    AliveModel* alive_ = nullptr;
    TiersModel* tiers_ = nullptr;
    QTableView* tiersTable_ = nullptr;
    std::shared_ptr<const RunData> data_;
};

} // namespace orrery
