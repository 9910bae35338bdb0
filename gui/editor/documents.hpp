// The scenario documents of the runs: one each, made when it is first shown, its text simulated again a moment after each change.
#pragma once

#include "gui/core/run.hpp"
#include "gui/editor/scenario_document.hpp"

#include <QFileSystemWatcher>
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
    // A run that comes back with text that was edited: simulated is what its figures are to be of, saved what its file held.
    void restore(RunId run, const std::string& simulated, const std::string& saved, const std::string& text);
    std::string simulatedText(RunId run) const; // what its figures are of; empty: not known
    void savedAs(RunId run);                    // its document was written to a file: that is the one to watch

  Q_SIGNALS:
    void currentChanged(orrery::ScenarioDocument* document);
    void problemsChanged(orrery::RunId run);
    void saveStateChanged(orrery::RunId run); // modified or saved
    // Another program wrote the file. Where nothing was changed here it was read again; else the changes here stand, and saving has to ask.
    void changedOnDisk(orrery::RunId run, bool read_again);

  private:
    void follow();
    void later(RunId run);
    void judge(RunId run); // whether its figures are of its text
    ScenarioDocument* make(RunId run, const std::string& simulated, const std::string& saved);
    void watch(const QString& path);
    void lookAtFile(const QString& path);

    RunStore& store_;
    ViewState& state_;
    std::map<RunId, std::unique_ptr<ScenarioDocument>> documents_;
    std::map<RunId, std::string> simulated_; // the text its figures are of
    std::set<RunId> waiting_;
    QUndoGroup undo_;
    QFileSystemWatcher watcher_;
    std::set<QString> settling_; // files that are looked at in a moment
    QTimer pause_;
    ScenarioDocument* current_ = nullptr;
    RunId run_of_current_ = 0;
    bool live_ = true;
};

} // namespace orrery
