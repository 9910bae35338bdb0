// Runs above each other, moving together, with a table of what differs in the range or the area shown.
#pragma once

#include "gui/core/as_table.hpp"
#include "gui/core/compare.hpp"
#include "gui/core/run.hpp"

#include <QFutureWatcher>
#include <QWidget>

#include <atomic>
#include <memory>
#include <vector>

class QComboBox;
class QLabel;
class QSplitter;
class QTableView;
class QTimer;

namespace orrery {

class DifferenceModel;
class Legend;
class Timeline;

class SideBySide : public QWidget {
    Q_OBJECT
  public:
    SideBySide(RunStore& runs, ViewState& state, QWidget* parent = nullptr);
    ~SideBySide() override;
    std::vector<Timeline*> timelines() const;
    void setAlignment(Alignment how);
    TextTable asTable() const; // what differs

  private:
    struct Pane {
        RunId run = 0;
        QWidget* box = nullptr;
        QLabel* title = nullptr;
        Timeline* line = nullptr;
    };
    std::vector<RunId> wanted() const;
    void refresh();
    Pane makePane(RunId run);
    void lineUp();
    void setTitles();
    void setLimits();
    void follow(std::size_t from);    // the others show what pane `from` shows
    void showState();                 // the range all views share, in the panes
    void tellState(std::size_t from); // and theirs to the others
    void showCursor(std::int64_t t);
    const TrackStore* currentStore() const; // whose time the shared range is in
    void askDifferences();
    void showDifferences();
    std::int64_t moved(std::size_t from, std::size_t to, std::int64_t t) const;

    RunStore& runs_;
    ViewState& state_;
    Alignment how_ = Alignment::by_time;
    QComboBox* alignment_ = nullptr;
    QSplitter* stack_ = nullptr;
    QLabel *hint_ = nullptr, *title_ = nullptr;
    std::vector<Pane> panes_;
    bool following_ = false, telling_ = false;
    Legend* legend_ = nullptr;
    QTableView* table_ = nullptr;
    QTimer* delay_ = nullptr;
    DifferenceModel* model_ = nullptr;
    QFutureWatcher<std::vector<Difference>> work_;
    std::shared_ptr<std::atomic<bool>> cancelled_;
};

} // namespace orrery
