// Memory over time of a rank of the current run.
#pragma once

#include "gui/core/as_table.hpp"
#include "gui/core/run.hpp"
#include "gui/core/view_command.hpp"

#include <QWidget>

class QComboBox;
class QLabel;
class QToolButton;

namespace orrery {

class AliveModel;
class MemoryChart;
class MemoryKindsModel;

class MemoryView : public QWidget, public AsTable, public HasCommands {
    Q_OBJECT
  public:
    MemoryView(RunStore& runs, ViewState& state, QWidget* parent = nullptr);
    TextTable asTable() const override;
    std::vector<ViewCommand> commands() override;
    MemoryChart& chart() { return *chart_; }
    void showLane(std::int32_t lane);

  private:
    void showRun();
    void showSeries();
    void goToPeak();
    QString tierWords(const QString& where, const NodeMemory& tier) const;

    RunStore& runs_;
    ViewState& state_;
    QComboBox* lanes_ = nullptr;
    QLabel* words_ = nullptr;
    QToolButton* toPeak_ = nullptr;
    MemoryChart* chart_ = nullptr;
    MemoryKindsModel* kinds_ = nullptr;
    AliveModel* alive_ = nullptr;
    std::shared_ptr<const RunData> data_;
};

} // namespace orrery
