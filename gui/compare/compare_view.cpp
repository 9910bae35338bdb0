#include "gui/compare/compare_view.hpp"

#include "gui/compare/predicted_measured.hpp"
#include "gui/compare/side_by_side.hpp"

namespace orrery {

CompareView::CompareView(RunStore& runs, ViewState& state, QWidget* parent)
    : QTabWidget(parent), sideBySide_(new SideBySide(runs, state)), predictedMeasured_(new PredictedMeasured(runs, state)) {
    setAccessibleName(tr("Compare"));
    addTab(sideBySide_, tr("Above each other"));
    addTab(predictedMeasured_, tr("Predicted over measured"));
}

} // namespace orrery
