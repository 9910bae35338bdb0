// Comparing runs: above each other, or a prediction over a measurement.
#pragma once

#include "gui/core/run.hpp"

#include <QTabWidget>

namespace orrery {

class PredictedMeasured;
class SideBySide;

class CompareView : public QTabWidget {
    Q_OBJECT
  public:
    CompareView(RunStore& runs, ViewState& state, QWidget* parent = nullptr);
    SideBySide& sideBySide() { return *sideBySide_; }
    PredictedMeasured& predictedMeasured() { return *predictedMeasured_; }

  private:
    SideBySide* sideBySide_;
    PredictedMeasured* predictedMeasured_;
};

} // namespace orrery
