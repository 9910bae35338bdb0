// Comparing runs: above each other, or a prediction over a measurement.
#pragma once

#include "gui/core/as_table.hpp"
#include "gui/core/run.hpp"
#include "gui/core/view_command.hpp"

#include <QTabWidget>

namespace orrery {

class PredictedMeasured;
class SideBySide;

class CompareView : public QTabWidget, public AsTable, public HasCommands {
    Q_OBJECT
  public:
    CompareView(RunStore& runs, ViewState& state, QWidget* parent = nullptr);
    // The table of the page in front: what differs; or the errors by kind of op, with the slices that are furthest off as a second table.
    TextTable asTable() const override;
    std::vector<TextTable> moreTables() const override;
    std::vector<ViewCommand> commands() override;
    SideBySide& sideBySide() { return *sideBySide_; }
    PredictedMeasured& predictedMeasured() { return *predictedMeasured_; }

  private:
    SideBySide* sideBySide_;
    PredictedMeasured* predictedMeasured_;
};

} // namespace orrery
