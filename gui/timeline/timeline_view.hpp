// The timeline of the current run with what belongs to it: overview, grouping, filter, search, legend; details of the selection, what an
// area holds, markers.
#pragma once

#include "gui/core/as_table.hpp"
#include "gui/core/run.hpp"
#include "gui/timeline/timeline.hpp"

#include <QFutureWatcher>
#include <QWidget>

#include <atomic>
#include <map>
#include <memory>

class QComboBox;
class QLabel;
class QLineEdit;
class QTabWidget;
class QTableView;
class QTimer;
class QToolButton;

namespace orrery {

class AreaModel;
class FactsModel;
class Legend;
class MarkersModel;
class Minimap;

class TimelineView : public QWidget, public AsTable, public HasCommands {
    Q_OBJECT
  public:
    TimelineView(RunStore& runs, ViewState& state, QWidget* parent = nullptr);
    ~TimelineView() override;

    TextTable asTable() const override;
    std::vector<ViewCommand> commands() override;
    Timeline& timeline() { return *timeline_; }
    std::vector<Marker> notes(RunId run) const; // on the ruler, kept a run
    void setNotes(RunId run, std::vector<Marker> notes);
    void search(const QString& text, bool forward); // selects the next match; says where there is none

  Q_SIGNALS:
    void notesChanged();

  private:
    void makeControls();
    QWidget* makePanels();
    void connectTimeline();
    void connectState();
    void showRun();
    void showRange();
    void showSelection();
    void askArea();
    void showArea();
    void toggleCriticalPath();
    void addMarker(std::int64_t ps);
    void say(const QString& message);

    RunStore& runs_;
    ViewState& state_;
    Timeline* timeline_ = nullptr;
    Minimap* minimap_ = nullptr;
    Legend* legend_ = nullptr;
    QComboBox* grouping_ = nullptr;
    QLineEdit *filter_ = nullptr, *search_ = nullptr;
    QToolButton* critical_ = nullptr;
    QLabel *message_ = nullptr, *areaTitle_ = nullptr;
    QTabWidget* panels_ = nullptr;
    QTableView* markersTable_ = nullptr;
    FactsModel* facts_ = nullptr;
    AreaModel* area_ = nullptr;
    MarkersModel* markers_ = nullptr;
    QTimer* areaDelay_ = nullptr;
    struct AreaAnswer {
        std::vector<AreaRow> rows;
        double length = 0;
    };
    QFutureWatcher<AreaAnswer> areaWork_;
    std::shared_ptr<std::atomic<bool>> areaCancelled_;
    QFutureWatcher<std::vector<PathStep>> pathWork_;
    std::map<RunId, std::vector<Marker>> markersOf_;
    RunId shown_ = 0;
    bool fitted_ = true; // all of the run is shown: then all of the next one, too
};

} // namespace orrery
