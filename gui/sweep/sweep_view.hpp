// A sweep: run it, watch it, stop it, see it as a table and a map, and take points over into the table of strategies.
#pragma once

#include "gui/core/run.hpp"
#include "gui/core/view_command.hpp"

#include <QWidget>

#include "gui/sweep/sweep_model.hpp"

class QComboBox;
class QLabel;
class QProgressBar;
class QPushButton;
class QSortFilterProxyModel;
class QTableView;
class QTimer;

namespace orrery {

class HeatPlot;
class SweepJob;

class SweepView : public QWidget, public HasCommands {
    Q_OBJECT
  public:
    SweepView(RunStore& store, ViewState& state, QWidget* parent = nullptr);
    ~SweepView() override;

    // The problems of the text; empty: it is shown, and can be run.
    std::vector<Problem> load(const std::string& text, const std::string& base_dir, const QString& name);
    void start();
    void cancel();
    bool running() const;
    bool complete() const { return complete_; } // every point computed
    const std::string& text() const { return text_; }
    const QString& name() const { return name_; }
    void setDatabase(const QString& path) { database_ = path; } // else one in the user's cache, by the sweep's text
    SweepModel& model() { return *model_; }
    HeatPlot& heat() { return *heat_; }
    QTableView& table() { return *table_; }
    std::vector<ViewCommand> commands() override;
    void addSelected(); // to the strategies; says of those that cannot be what is wrong with them

    void selectPoint(int point);

  Q_SIGNALS:
    void pointsChanged(); // a few times a second while it runs
    void runningChanged(bool running);
    void failed(const QString& name, const QString& what);

  private:
    void makeTable();
    void layOut();
    void showMap();
    void showProgress();
    void over(bool stopped, const QString& error);
    QString databasePath() const;

    RunStore& store_;
    ViewState& state_;
    std::shared_ptr<const SweepDocument> document_;
    QString name_, database_;
    std::string text_;
    bool complete_ = false;
    SweepJob* job_;
    SweepModel* model_;
    QSortFilterProxyModel* sorted_;
    HeatPlot* heat_;
    QTableView* table_;
    QLabel *title_, *words_;
    QProgressBar* progress_;
    QPushButton *run_, *add_;
    QComboBox *x_, *y_, *metric_;
    QTimer* redraw_;
};

} // namespace orrery
