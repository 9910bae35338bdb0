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

TextTable CompareView::asTable() const {
    return currentWidget() == predictedMeasured_ ? predictedMeasured_->errors() : sideBySide_->asTable();
}

std::vector<TextTable> CompareView::moreTables() const {
    if (currentWidget() != predictedMeasured_) return {};
    return {predictedMeasured_->offenders()};
}

std::vector<ViewCommand> CompareView::commands() {
    const QString align = tr("Chooses how the times of one run are laid beside another's");
    return {
        {QStringLiteral("above"), tabText(0), tr("Shows runs above each other, and what differs"), {}, {}, [this] { setCurrentIndex(0); }},
        {QStringLiteral("over"),
         tabText(1),
         tr("Shows a prediction over the measurement of the same plan"),
         {},
         {},
         [this] { setCurrentIndex(1); }},
        {QStringLiteral("by_time"), tr("Align by time"), align, {}, {}, [this] { sideBySide_->setAlignment(Alignment::by_time); }},
        {QStringLiteral("by_step"), tr("Align by step"), align, {}, {}, [this] { sideBySide_->setAlignment(Alignment::by_step); }}};
}

} // namespace orrery
