// A prediction laid over a measurement: of each rank the predicted lane above the measured one, the error of each kind of op, and the
// slices that are furthest off, each a jump away.
#pragma once

#include "gui/core/as_table.hpp"
#include "gui/core/compare.hpp"
#include "gui/core/run.hpp"

#include <QFutureWatcher>
#include <QWidget>

#include <memory>
#include <optional>
#include <utility>

class QComboBox;
class QLabel;

namespace orrery {

class ErrorsModel;
class Legend;
class OffendersModel;
class Timeline;

class PredictedMeasured : public QWidget {
    Q_OBJECT
  public:
    PredictedMeasured(RunStore& runs, ViewState& state, QWidget* parent = nullptr);
    ~PredictedMeasured() override;
    Timeline& timeline() { return *line_; }
    void choose(RunId predicted, RunId measured); // as the user does in the two boxes
    TextTable errors() const;                     // by kind of op
    TextTable offenders() const;                  // the slices that are furthest off

  private:
    struct Answer {
        std::shared_ptr<const Overlaid> overlaid;
        std::shared_ptr<const RunData> picture;
        Agreement agreement;
    };
    void fillChoices();
    void setRuns(RunId predicted, RunId measured);
    void ask();
    void showAnswer();
    void jump(int row);
    std::optional<std::int64_t> origin() const; // where the current run's step begins, if it is one of the two
    void showRange();                           // the range all views share
    void tellRange(TimeRange range);

    RunStore& runs_;
    ViewState& state_;
    QComboBox *predicted_ = nullptr, *measured_ = nullptr;
    QLabel* words_ = nullptr;
    Timeline* line_ = nullptr;
    ErrorsModel* errors_ = nullptr;
    OffendersModel* offenders_ = nullptr;
    Legend* legend_ = nullptr;
    std::pair<RunId, RunId> wanted_;
    RunId shownPredicted_ = 0, shownMeasured_ = 0;
    std::shared_ptr<const RunData> predictedData_, measuredData_;
    QFutureWatcher<Answer> work_;
    Answer answer_;
    bool telling_ = false;
};

} // namespace orrery
