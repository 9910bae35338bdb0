// The scenario documents of the runs: one each, made when it is first shown, its text simulated again a moment after each change.
#pragma once

#include "gui/core/run.hpp"
#include "gui/editor/scenario_document.hpp"

#include <QObject>
#include <QTimer>
#include <QUndoGroup>

#include <map>
#include <memory>
#include <set>

namespace orrery {

class Documents : public QObject {
    Q_OBJECT
  public:
    Documents(RunStore& store, ViewState& state, QObject* parent = nullptr);

    ScenarioDocument* current() const { return current_; } // of the current run; null: none, or a trace alone
    RunId currentRun() const { return run_of_current_; }
    ScenarioDocument* of(RunId run); // null where the run has no scenario
    QUndoGroup& undoGroup() { return undo_; }
    bool simulateAsYouType() const { return live_; }
    void setSimulateAsYouType(bool on);
    void simulateNow();
    bool applyPreset(const std::string& id); // of presets.hpp, to the current document: one step to undo
    RunId addCopy(const QString& name);      // of the current document, as a run of its own; 0: there is none
    bool anyModified() const;

  Q_SIGNALS:
    void currentChanged(orrery::ScenarioDocument* document);
    void problemsChanged(orrery::RunId run);

  private:
    void follow();
    void later(RunId run);

    RunStore& store_;
    ViewState& state_;
    std::map<RunId, std::unique_ptr<ScenarioDocument>> documents_;
    std::map<RunId, std::string> simulated_; // the text its figures are of
    std::set<RunId> waiting_;
    QUndoGroup undo_;
    QTimer pause_;
    ScenarioDocument* current_ = nullptr;
    RunId run_of_current_ = 0;
    bool live_ = true;
};

} // namespace orrery
