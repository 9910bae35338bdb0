#include "gui/app/main_window.hpp"

#include "gui/app/execution_view.hpp"
#include "gui/app/palettes.hpp"
#include "gui/app/welcome.hpp"
#include "gui/breakdown/bars.hpp"
#include "gui/breakdown/pareto.hpp"
#include "gui/compare/compare_view.hpp"
#include "gui/compare/predicted_measured.hpp"
#include "gui/editor/scenario_editor.hpp"
#include "gui/memory/memory_view.hpp"
#include "gui/placement/placement_view.hpp"
#include "gui/run/whole_run_view.hpp"
#include "gui/strategies/strategies_model.hpp"
#include "gui/strategies/strategies_view.hpp"
#include "gui/sweep/sweep_view.hpp"
#include "gui/timeline/timeline_view.hpp"
#include "gui/topology/topology_view.hpp"
#include "gui/workers/workers_view.hpp"

#include <QDockWidget>
#include <QFileInfo>
#include <QLabel>
#include <QMessageBox>
#include <QProgressBar>
#include <QPushButton>
#include <QStatusBar>
#include <QToolButton>

#include <algorithm>

namespace orrery {

constexpr int autosave_ms = 3000;

namespace {

// The points of a sweep that table and frontier show: those that have figures, those that do not fit among them.
std::vector<SweptPoint> swept_points(const SweepModel& model) {
    std::vector<SweptPoint> out;
    for (int point = 0; point < model.rowCount(); ++point) {
        const SweepRow* row = model.row(static_cast<std::size_t>(point));
        if (!row || (row->status != PointStatus::fits && row->status != PointStatus::too_big)) continue;
        Figures f;
        f.devices = static_cast<double>(row->world_size);
        if (row->step_time_s > 0) f.step_s = row->step_time_s;
        f.interval = row->step_time_interval;
        if (row->tokens_per_s > 0) f.tokens_per_s = row->tokens_per_s;
        if (row->mfu > 0) f.mfu = row->mfu;
        if (row->step_time_s > 0) f.bubble = row->bubble_fraction;
        if (row->step_time_s > 0 && row->straggler_fraction >= 0) f.stragglers = row->straggler_fraction;
        if (row->cost_usd > 0) f.cost_usd = row->cost_usd;
        f.peak_bytes = static_cast<double>(row->peak_bytes);
        f.capacity_bytes = static_cast<double>(row->capacity_bytes);
        f.fits = row->status == PointStatus::fits;
        f.narrow = row->narrow();
        f.why_not = QString::fromStdString(row->reason);
        out.push_back({point, QString::fromStdString(row->label), std::move(f)});
    }
    return out;
}

} // namespace

MainWindow::MainWindow(const Options& options, QWidget* parent)
    : QMainWindow(parent), options_(options),
      theme_(new ThemeChoice(!options.fresh, options.theme.isEmpty() && options.fresh ? QStringLiteral("light") : options.theme, this)),
      documents_(new Documents(store_, state_, this)), actions_(new ActionRegistry(*this)), problems_(new ProblemsModel(this)),
      search_(new SearchJob(this)) {
    setWindowTitle(tr("Orrery"));
    setObjectName(QStringLiteral("main"));
    setAcceptDrops(true);
    setDockNestingEnabled(true);
    setTabPosition(Qt::AllDockWidgetAreas, QTabWidget::North);
    makeViews();
    makeActions();
    makeStatusBar();
    welcome_ = new WelcomePage(*actions_, this);
    connect(welcome_, &WelcomePage::dismissed, this, [this] { welcome_closed_ = true; });
    connect(welcome_, &WelcomePage::exampleChosen, this,
            [this](const QString& name) { openText(std::string(example_text(name)), {}, name); });
    ask_ = [this](const QString& question, const QString& yes) {
        QMessageBox box(QMessageBox::Question, tr("Orrery"), question, QMessageBox::Cancel, this);
        QPushButton* go_on = box.addButton(yes, QMessageBox::AcceptRole);
        box.setDefaultButton(QMessageBox::Cancel);
        box.exec();
        return box.clickedButton() == go_on;
    };
    resize(options_.size);
    defaultLayout();
    default_state_ = saveState();
    followStore();
    updateWelcome();
}

MainWindow::~MainWindow() = default;

const std::vector<MainWindow::ViewKind>& MainWindow::viewKinds() {
    using W = MainWindow;
    static const std::vector<ViewKind> kinds = {
        {"strategies", QT_TR_NOOP("Strategies"), Place::top, [](W& w) -> QWidget* { return new StrategiesView(w.store_, w.state_); }},
        {"scenario", QT_TR_NOOP("Scenario"), Place::left,
         [](W& w) -> QWidget* { return new ScenarioEditor(w.store_, w.state_, *w.documents_); }},
        {"timeline", QT_TR_NOOP("Timeline"), Place::main, [](W& w) -> QWidget* { return new TimelineView(w.store_, w.state_); }},
        {"compare", QT_TR_NOOP("Compare"), Place::main, [](W& w) -> QWidget* { return new CompareView(w.store_, w.state_); }},
        {"memory", QT_TR_NOOP("Memory"), Place::main, [](W& w) -> QWidget* { return new MemoryView(w.store_, w.state_); }},
        {"breakdown", QT_TR_NOOP("Breakdown"), Place::main, [](W& w) -> QWidget* { return new BreakdownView(w.store_, w.state_); }},
        {"pareto", QT_TR_NOOP("Frontier"), Place::main, [](W& w) -> QWidget* { return new ParetoView(w.store_, w.state_); }},
        {"placement", QT_TR_NOOP("Placement"), Place::main, [](W& w) -> QWidget* { return new PlacementView(w.store_, w.state_); }},
        {"topology", QT_TR_NOOP("Topology"), Place::main, [](W& w) -> QWidget* { return new TopologyView(w.store_, w.state_); }},
        {"run", QT_TR_NOOP("Whole run"), Place::main, [](W& w) -> QWidget* { return new WholeRunView(w.store_, w.state_); }},
        {"workers", QT_TR_NOOP("Workers"), Place::main, [](W& w) -> QWidget* { return new WorkersView(w.store_, w.state_); }},
        {"sweep", QT_TR_NOOP("Sweep"), Place::main, [](W& w) -> QWidget* { return new SweepView(w.store_, w.state_); }},
        {"execution", QT_TR_NOOP("Execution"), Place::main,
         [](W& w) -> QWidget* { return new ExecutionView(w.store_, w.state_, *w.documents_); }},
        {"problems", QT_TR_NOOP("Problems"), Place::bottom, [](W& w) -> QWidget* { return new ProblemsView(*w.problems_); }},
    };
    return kinds;
}

QStringList MainWindow::viewNames() {
    QStringList out;
    for (const ViewKind& kind : viewKinds()) out << QLatin1String(kind.name);
    return out;
}

void MainWindow::makeViews() {
    for (const ViewKind& kind : viewKinds()) {
        const QString name = QLatin1String(kind.name);
        QWidget* widget = kind.make(*this);
        auto* dock = new QDockWidget(tr(kind.title), this);
        dock->setObjectName(QStringLiteral("dock.") + name);
        dock->setWidget(widget);
        widget->setObjectName(QStringLiteral("view.") + name);
        views_.push_back({name, dock, kind.place});
    }
    strategies_ = &viewOf<StrategiesView>("strategies");
    editor_ = &viewOf<ScenarioEditor>("scenario");
    timeline_ = &viewOf<TimelineView>("timeline");
    compare_ = &viewOf<CompareView>("compare");
    sweep_ = &viewOf<SweepView>("sweep");
    joinViews();
}

void MainWindow::joinViews() {
    auto& pareto = viewOf<ParetoView>("pareto");
    connect(sweep_, &SweepView::pointsChanged, this, [this, &pareto] {
        showSwept();
        pareto.setSwept(swept_points(sweep_->model()));
    });
    const auto again = [this] { showSwept(); }; // less those that are runs now
    connect(&store_, &RunStore::runAdded, this, again);
    connect(&store_, &RunStore::runRemoved, this, again);
    joinSearch();
    connect(strategies_, &StrategiesView::sweptRequested, this, [this](int number) {
        if (number >= FoundPoints::first_number) return;
        sweep_->selectPoint(number);
        sweep_->addSelected();
    });
    connect(&pareto, &ParetoView::sweptChosen, sweep_, &SweepView::selectPoint);
    connect(sweep_, &SweepView::failed, this, &MainWindow::complain);
    connect(sweep_, &SweepView::runningChanged, this, [this](bool running) {
        if (!running && idle()) Q_EMIT becameIdle();
    });
    auto& execution = viewOf<ExecutionView>("execution");
    connect(&execution, &ExecutionView::failed, this, &MainWindow::complain);
    connect(&execution, &ExecutionView::measured, this, [this](RunId run, RunId prediction) {
        if (state_.baseline() == 0) state_.setBaseline(prediction); // one that is pinned stays
        state_.setBrushedRuns({prediction, run}, prediction);
        compare_->predictedMeasured().choose(prediction, run);
        compare_->setCurrentWidget(&compare_->predictedMeasured());
        showView(QStringLiteral("compare"));
    });
    connect(&viewOf<ProblemsView>("problems"), &ProblemsView::jump, this, &MainWindow::jumpTo);
    connect(strategies_, &StrategiesView::editRequested, this, [this](RunId run) {
        state_.setCurrentRun(run);
        showView(QStringLiteral("scenario"));
    });
}

void MainWindow::showSwept() {
    std::vector<SweptPoint> points = swept_points(sweep_->model());
    // Those that do not fit say nothing in the table but that they do not; the sweep's own says why.
    std::erase_if(points, [](const SweptPoint& p) { return !p.figures.fits.value_or(false); });
    const std::vector<SweptPoint> found = found_.points();
    points.insert(points.end(), found.begin(), found.end());
    strategies_->model().setSwept(points);
}

QWidget* MainWindow::view(const QString& name) const {
    const auto it = std::find_if(views_.begin(), views_.end(), [&](const View& v) { return v.name == name; });
    return it == views_.end() ? nullptr : it->dock->widget();
}

void MainWindow::showView(const QString& name) {
    const auto it = std::find_if(views_.begin(), views_.end(), [&](const View& v) { return v.name == name; });
    if (it == views_.end()) return;
    it->dock->show();
    it->dock->raise();
    it->dock->widget()->setFocus(Qt::ShortcutFocusReason);
}

// The editor on the left; right of it the table, the views of a run as tabs below it, problems at the bottom.
void MainWindow::defaultLayout() {
    for (const View& v : views_) {
        v.dock->setFloating(false);
        addDockWidget(v.place == Place::left ? Qt::LeftDockWidgetArea : Qt::RightDockWidgetArea, v.dock);
        v.dock->show();
    }
    const auto first = [this](Place place) {
        return std::find_if(views_.begin(), views_.end(), [&](const View& v) { return v.place == place; })->dock;
    };
    splitDockWidget(first(Place::top), first(Place::main), Qt::Vertical);
    splitDockWidget(first(Place::main), first(Place::bottom), Qt::Vertical);
    for (const View& v : views_)
        if (v.place == Place::main && v.dock != first(Place::main)) tabifyDockWidget(first(Place::main), v.dock);
    first(Place::main)->raise();
    resizeDocks({first(Place::left), first(Place::top)}, {width() * 3 / 10, width() * 7 / 10}, Qt::Horizontal);
    resizeDocks({first(Place::top), first(Place::main), first(Place::bottom)},
                {height() * 22 / 100, height() * 69 / 100, height() * 9 / 100}, Qt::Vertical);
    first(Place::bottom)->setVisible(problems_->rowCount() > 0); // comes with the first problem
}

void MainWindow::makeStatusBar() {
    doing_ = new QLabel;
    progress_ = new QProgressBar;
    progress_->setRange(0, 0);
    progress_->setMaximumWidth(160);
    progress_->setTextVisible(false);
    progress_->setAccessibleName(tr("Work in progress"));
    cancel_ = new QToolButton;
    cancel_->setDefaultAction(actions_->find(QStringLiteral("run.cancel")));
    statusBar()->addPermanentWidget(doing_);
    statusBar()->addPermanentWidget(progress_);
    statusBar()->addPermanentWidget(cancel_);
    progress_->hide();
    cancel_->hide();
}

void MainWindow::followStore() {
    connect(&store_, &RunStore::progress, this, &MainWindow::showProgress);
    connect(&store_, &RunStore::failed, this, &MainWindow::runFailed);
    connect(&store_, &RunStore::runAdded, this, [this](RunId id) {
        if (state_.currentRun() == 0) state_.setCurrentRun(id);
        updateWelcome();
    });
    connect(&store_, &RunStore::runRemoved, this, [this](RunId id) {
        if (state_.baseline() == id) state_.setBaseline(0);
        std::vector<RunId> brushed = state_.brushedRuns();
        std::erase(brushed, id);
        state_.setBrushedRuns(std::move(brushed)); // another of them becomes current
        if (state_.currentRun() == id) state_.setCurrentRun(store_.runs().empty() ? 0 : store_.runs().front().id);
        updateWelcome();
    });
    autosave_.setSingleShot(true);
    autosave_.setInterval(autosave_ms);
    connect(&autosave_, &QTimer::timeout, this, &MainWindow::saveSession);
    const auto later = [this] { autosave_.start(); };
    connect(&store_, &RunStore::runAdded, this, later);
    connect(&store_, &RunStore::runRemoved, this, later);
    connect(&store_, &RunStore::runChanged, this, later);
    connect(&state_, &ViewState::baselineChanged, this, later);
    connect(&state_, &ViewState::currentRunChanged, this, later);
    connect(timeline_, &TimelineView::notesChanged, this, later);
    connect(documents_, &Documents::saveStateChanged, this, &MainWindow::updateTitle);
    connect(documents_, &Documents::currentChanged, this, &MainWindow::updateTitle);
    connect(documents_, &Documents::changedOnDisk, this, &MainWindow::fileChanged);
    connect(&state_, &ViewState::currentRunChanged, this, &MainWindow::updateTitle);
    connect(&store_, &RunStore::runChanged, this, &MainWindow::updateTitle);
    connect(documents_, &Documents::problemsChanged, this, [this](RunId run) {
        autosave_.start();
        const ScenarioDocument* document = documents_->of(run);
        const Run* known = store_.find(run);
        if (!document || !known) return;
        std::vector<ProblemEntry> entries;
        for (const Problem& p : document->parsed().problems)
            entries.push_back({known->name, QString::fromStdString(p.where), QString::fromStdString(p.what)});
        problems_->replace(known->name, entries);
    });
}

void MainWindow::showProgress(RunId id, const QString& what) {
    if (what.isEmpty())
        working_.erase(id);
    else
        working_.insert(id);
    const bool busy = !working_.empty();
    progress_->setVisible(busy);
    cancel_->setVisible(busy);
    actions_->find(QStringLiteral("run.cancel"))->setEnabled(busy);
    const Run* run = store_.find(id);
    doing_->setText(!busy                 ? QString{}
                    : working_.size() > 1 ? tr("%n runs", "", static_cast<int>(working_.size()))
                    : run                 ? tr("%1: %2").arg(run->name, what)
                                          : what);
    if (idle()) Q_EMIT becameIdle();
}

// The file of the run that is shown, or its name, and a star where it has changes that are not saved.
void MainWindow::updateTitle() {
    const Run* run = store_.find(state_.currentRun());
    const ScenarioDocument* document = documents_->current();
    const QString path = document ? document->path() : run ? run->path : QString{};
    const QString shown = !path.isEmpty() ? QFileInfo(path).fileName() : run ? run->name : QString{};
    setWindowTitle(shown.isEmpty() ? tr("Orrery") : tr("%1[*] \u2013 Orrery").arg(shown));
    setWindowFilePath(path);
    setWindowModified(document && document->isModified());
}

void MainWindow::fileChanged(RunId run, bool read_again) {
    const ScenarioDocument* document = documents_->of(run);
    if (!document) return;
    const QString path = document->path();
    if (read_again) {
        statusBar()->showMessage(tr("%1 was changed by another program: it was read again").arg(path), 10000);
        return;
    }
    complain(QFileInfo(path).fileName(),
             tr("%1 was changed by another program; your changes here stay, and saving will ask first").arg(path));
}

bool MainWindow::idle() const { return !store_.busy() && !sweep_->running() && !search_->running(); }

// Problems go to their dock, never into a box that stops the work.
void MainWindow::complain(const QString& source, const QString& what) {
    problems_->add({source, {}, what});
    showView(QStringLiteral("problems"));
    statusBar()->showMessage(source + QStringLiteral(": ") + what, 10000);
}

// A file that is nothing we know leaves a message, not a row.
void MainWindow::runFailed(RunId id) {
    const Run* run = store_.find(id);
    if (!run) return;
    std::vector<ProblemEntry> entries;
    for (const Problem& p : run->data->problems)
        entries.push_back({run->name, QString::fromStdString(p.where), QString::fromStdString(p.what)});
    problems_->replace(run->name, entries);
    showView(QStringLiteral("problems"));
    statusBar()->showMessage(tr("%1: %2").arg(run->name, entries.empty() ? tr("failed") : entries.front().what), 10000);
    const std::string& text = run->data->scenario_json;
    const bool text_file = !text.empty() && text.find('\0') == std::string::npos &&
                           text.find_first_not_of(" \t\r\n") != std::string::npos && text[text.find_first_not_of(" \t\r\n")] == '{';
    if (!run->data->report && !run->data->trace && !text_file) store_.remove(id);
}

void MainWindow::updateWelcome() {
    const bool empty = store_.runs().empty() && !sweep_->model().document() && !welcome_closed_;
    welcome_->setVisible(empty);
    if (!empty) return;
    const int top = menuWidget() ? menuWidget()->height() : 0;
    welcome_->setGeometry(0, top, width(), height() - top - statusBar()->height());
    welcome_->raise();
    welcome_->setFocus();
}

void MainWindow::resizeEvent(QResizeEvent* event) {
    QMainWindow::resizeEvent(event);
    updateWelcome();
}

void MainWindow::jumpTo(const QString& source, const QString& where) {
    for (const Run& run : store_.runs()) {
        if (run.name != source) continue;
        state_.setCurrentRun(run.id);
        if (!documents_->current()) return;
        showView(QStringLiteral("scenario"));
        editor_->jumpTo(where.toStdString());
        return;
    }
}

} // namespace orrery
