// The window: views in docks, one registry of commands, the session. It joins the parts and knows nothing of how they work.
#pragma once

#include "gui/app/actions.hpp"
#include "gui/app/options.hpp"
#include "gui/app/problems.hpp"
#include "gui/core/run.hpp"
#include "gui/editor/documents.hpp"
#include "gui/search/found_points.hpp"
#include "gui/search/search_job.hpp"

#include <QMainWindow>
#include <QTimer>

#include <functional>
#include <set>
#include <vector>

class QDockWidget;
class QLabel;
class QMenu;
class QProgressBar;
class QToolButton;

namespace orrery {

class CompareView;
class ScenarioEditor;
class StrategiesView;
class ThemeChoice;
class TimelineView;
class SweepView;
class WelcomePage;

class MainWindow : public QMainWindow {
    Q_OBJECT
  public:
    explicit MainWindow(const Options& options, QWidget* parent = nullptr);
    ~MainWindow() override;

    static QStringList viewNames(); // what --dock takes

    void open(const QStringList& paths); // scenarios, traces, sweeps; problems go to their dock
    void apply(const Options& options);  // what the command line asks for, once files are open
    void showView(const QString& name);
    bool idle() const; // nothing is being simulated or loaded

    RunStore& store() { return store_; }
    ViewState& state() { return state_; }
    ActionRegistry& registry() { return *actions_; }
    ProblemsModel& problems() { return *problems_; }
    Documents& documents() { return *documents_; }
    QWidget* view(const QString& name) const;

    // Who answers questions before something is lost; tests answer themselves. The question, and what saying yes does.
    using Ask = std::function<bool(const QString& question, const QString& yes)>;
    void setAsk(Ask ask) { ask_ = std::move(ask); }

    bool restoreSession(); // false: there was none
    void saveSession() const;

  Q_SIGNALS:
    void becameIdle();

  protected:
    void closeEvent(QCloseEvent* event) override;
    void dragEnterEvent(QDragEnterEvent* event) override;
    void dropEvent(QDropEvent* event) override;
    void resizeEvent(QResizeEvent* event) override;

  private:
    // left: a column of its own; top: over the tabs of main; bottom: under them.
    enum class Place { left, top, main, bottom };
    struct View {
        QString name;
        QDockWidget* dock;
        Place place;
    };
    // All views, each said once, in the order of their tabs and keys.
    struct ViewKind {
        const char *name, *title;
        Place place;
        QWidget* (*make)(MainWindow& window);
    };
    static const std::vector<ViewKind>& viewKinds();
    template <class V> V& viewOf(const char* name) const { return *qobject_cast<V*>(view(QLatin1String(name))); }
    void restoreSweep();
    void makeViews();
    void joinViews(); // what one does for another
    void makeActions();
    void makeMeasuredAction(const QString& menu);
    void makeSearchAction(const QString& menu);
    void joinSearch();
    void findBest();
    void searchOver(const SearchResult& result, const QString& error);
    void showSwept(); // points of the sweep and of the search, in the table
    void makeCommandsOfViews();
    void makeFileActions();
    void makeEditActions();
    void makePresetActions();
    void makeViewActions();
    void makeThemeActions(const QString& menu);
    void makeHelpActions();
    void makeStatusBar();
    void defaultLayout();
    void followStore();
    void runFailed(RunId id);
    void showProgress(RunId id, const QString& what);
    void updateWelcome();
    void jumpTo(const QString& source, const QString& where);
    void openOne(const QString& path);
    void openText(const std::string& text, const QString& base_dir, const QString& name); // a scenario or a sweep
    void complain(const QString& source, const QString& what);
    void updateTitle();
    void fileChanged(RunId run, bool read_again);
    void deleteMeasured();
    void exportView();
    void exportTrace();
    QDockWidget* frontDock() const; // the one with the focus, else the one in front
    void remember(const QString& path);
    void fillRecent();
    void saveDocument(bool under_new_name);
    void selectByName(const QString& id);
    QString linkToHere() const;

    Options options_;
    ThemeChoice* theme_;
    RunStore store_;
    ViewState state_;
    Documents* documents_;
    ActionRegistry* actions_;
    ProblemsModel* problems_;
    std::vector<View> views_;
    StrategiesView* strategies_ = nullptr;
    ScenarioEditor* editor_ = nullptr;
    SweepView* sweep_ = nullptr;
    SearchJob* search_;
    FoundPoints found_;
    std::string searched_dir_; // what paths of the searched scenario start from
    TimelineView* timeline_ = nullptr;
    CompareView* compare_ = nullptr;
    WelcomePage* welcome_ = nullptr;
    QMenu* recent_ = nullptr;
    QLabel* doing_ = nullptr;
    QProgressBar* progress_ = nullptr;
    QToolButton* cancel_ = nullptr;
    std::set<RunId> working_;
    QByteArray default_state_;
    QTimer autosave_; // a crash costs a few seconds of work
    bool welcome_closed_ = false;
    Ask ask_;
};

} // namespace orrery
