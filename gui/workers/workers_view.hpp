// Workers of the current run that never meet all at once, or the clients of its federated rounds: what each does, and how old what it uses
// is.
#pragma once

#include "gui/core/as_table.hpp"
#include "gui/core/run.hpp"
#include "gui/core/view_command.hpp"

#include <QWidget>

class QLabel;
class QTableView;

namespace orrery {

struct WorkersCourse;
class CourseModel;
class CoursePlot;
class Legend;

class WorkersView : public QWidget, public AsTable, public HasCommands {
    Q_OBJECT
  public:
    WorkersView(RunStore& runs, ViewState& state, QWidget* parent = nullptr);
    TextTable asTable() const override;
    std::vector<ViewCommand> commands() override;
    CoursePlot& plot() { return *plot_; }
    QString words() const;

  private:
    void showRun();

    RunStore& runs_;
    ViewState& state_;
    QLabel* words_ = nullptr;
    CoursePlot* plot_ = nullptr;
    CourseModel* spans_ = nullptr;
    QTableView* table_ = nullptr;
    Legend* legend_ = nullptr;
    std::shared_ptr<const RunData> shown_;
    std::shared_ptr<const WorkersCourse> course_;
};

} // namespace orrery
