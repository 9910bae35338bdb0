// Runs the current scenario for real: simexec as a process of its own, its output as it comes, its trace opened beside the prediction.
#pragma once

#include "gui/app/measured_runs.hpp"
#include "gui/core/as_table.hpp"
#include "gui/core/run.hpp"
#include "gui/editor/documents.hpp"

#include <QProcess>
#include <QWidget>

class QComboBox;
class QLabel;
class QLineEdit;
class QPlainTextEdit;
class QProgressBar;
class QPushButton;
class QSpinBox;

namespace orrery {

// Beside this program, else on the PATH; empty: not there.
QString find_simexec();

class ExecutionView : public QWidget, public AsTable {
    Q_OBJECT
  public:
    ExecutionView(RunStore& store, ViewState& state, Documents& documents, QWidget* parent = nullptr);
    ~ExecutionView() override;

    TextTable asTable() const override;
    // The scenario with this number of devices, in one node; all else it asks for has to suit them.
    static std::string withRanks(const std::string& scenario, int ranks);

    void setProgram(const QString& path); // tests bring their own
    MeasuredRuns& kept() { return kept_; }
    void start(); // the current scenario
    void stop();
    bool running() const { return process_.state() != QProcess::NotRunning; }
    QString log() const;

  Q_SIGNALS:
    void failed(const QString& source, const QString& what);
    void measured(orrery::RunId run, orrery::RunId prediction);

  private:
    void layOut();
    void read();
    void follow(const QString& line);
    QString complaint() const;
    void over(int code, QProcess::ExitStatus status);
    void refresh();
    void launch(const QString& scenario);
    void forget(); // the folder of a run that came to nothing

    RunStore& store_;
    ViewState& state_;
    Documents& documents_;
    QProcess process_;
    MeasuredRuns kept_;
    QString folder_, trace_; // of the run: its scenario and trace
    RunId prediction_ = 0;
    QString name_, rest_; // rest_: a line whose end has not come yet
    bool stopping_ = false;
    QLineEdit* program_;
    QComboBox* executor_;
    QSpinBox *steps_, *ranks_;
    QLineEdit* more_;
    QPushButton* run_;
    QLabel* words_;
    QProgressBar* progress_;
    QPlainTextEdit* log_;
};

} // namespace orrery
