// The window's commands: every one of them is in the registry, nothing else has a shortcut.
#include "gui/app/command_palette.hpp"
#include "gui/app/key_sheet.hpp"
#include "gui/app/main_window.hpp"
#include "gui/app/palettes.hpp"
#include "gui/app/welcome.hpp"
#include "gui/editor/presets.hpp"
#include "gui/strategies/strategies_view.hpp"
#include "gui/sweep/sweep_view.hpp"

#include <QAction>
#include <QActionGroup>
#include <QApplication>
#include <QClipboard>
#include <QDockWidget>
#include <QFileDialog>
#include <QMenu>
#include <QMenuBar>
#include <QStatusBar>
#include <QUndoGroup>

namespace orrery {
namespace {

// The least a scenario needs, to be filled in.
constexpr const char* new_scenario = R"({
  "name": "new scenario",
  "model": "llama3-8b",
  "cluster": {"preset": "dgx-h100", "nodes": 1},
  "training": {"global_batch_size": 64, "micro_batch_size": 1, "sequence_length": 8192, "precision": "bf16"},
  "strategy": {"framework": "megatron", "tensor_parallel": 2, "sequence_parallel": true}
}
)";

} // namespace

void MainWindow::makeActions() {
    makeFileActions();
    makeEditActions();
    makePresetActions();
    makeViewActions();
    makeHelpActions();
    makeCommandsOfViews();
    actions_->fill(*menuBar());
    if (auto* file = menuBar()->findChild<QMenu*>(QStringLiteral("menu.File"))) {
        recent_ = new QMenu(tr("Open &recent"), file);
        file->insertMenu(actions_->find(QStringLiteral("file.save")), recent_);
        connect(recent_, &QMenu::aboutToShow, this, &MainWindow::fillRecent);
    }
}

void MainWindow::makeFileActions() {
    const QString file = tr("&File");
    actions_->add({QStringLiteral("file.new"), file, tr("&New scenario"), tr("Opens a small scenario, to be changed"), {QKeySequence::New}},
                  [this] { openText(new_scenario, {}, tr("new scenario")); });
    actions_->add({QStringLiteral("file.open"), file, tr("&Open\u2026"), tr("Opens scenarios, sweeps or traces"), {QKeySequence::Open}},
                  [this] {
                      open(QFileDialog::getOpenFileNames(this, tr("Open"), {},
                                                         tr("Scenarios, sweeps and traces (*.json *.trace *.ort);;All files (*)")));
                  });
    actions_->add({QStringLiteral("file.save"),
                   file,
                   tr("&Save the scenario"),
                   tr("Writes the file that it was read from"),
                   {QKeySequence::Save},
                   true},
                  [this] { saveDocument(false); });
    actions_->add({QStringLiteral("file.save_as"),
                   file,
                   tr("Save the scenario &as\u2026"),
                   tr("Writes another file"),
                   {QKeySequence(Qt::CTRL | Qt::SHIFT | Qt::Key_S)}},
                  [this] { saveDocument(true); });
    actions_->add({QStringLiteral("file.export"),
                   file,
                   tr("&Export this view\u2026"),
                   tr("As PNG, SVG, PDF or CSV"),
                   {QKeySequence(Qt::CTRL | Qt::Key_E)},
                   true},
                  [this] { exportView(); });
    actions_->add({QStringLiteral("file.export_trace"),
                   file,
                   tr("Export the &trace\u2026"),
                   tr("As JSON for ui.perfetto.dev, or in Orrery's own format"),
                   {}},
                  [this] { exportTrace(); });
    actions_->add({QStringLiteral("file.quit"),
                   file,
                   tr("&Quit"),
                   tr("The session comes back at the next start"),
                   {QKeySequence(Qt::CTRL | Qt::Key_Q)},
                   true},
                  [this] { close(); });
}

void MainWindow::makeEditActions() {
    const QString edit = tr("&Edit");
    actions_->add({QStringLiteral("edit.undo"), edit, tr("&Undo"), tr("Takes back the last change of the scenario"), {QKeySequence::Undo}},
                  *documents_->undoGroup().createUndoAction(this, tr("&Undo")));
    actions_->add({QStringLiteral("edit.redo"), edit, tr("&Redo"), tr("Makes the change again that was taken back"), {QKeySequence::Redo}},
                  *documents_->undoGroup().createRedoAction(this, tr("&Redo")));
    const QString run = tr("&Run");
    actions_->add({QStringLiteral("run.copy"),
                   run,
                   tr("&Copy as a new strategy"),
                   tr("Adds a copy of the current scenario, to change and compare"),
                   {QKeySequence(Qt::CTRL | Qt::Key_D)}},
                  [this] {
                      const Run* from = store_.find(state_.currentRun());
                      if (const RunId id = documents_->addCopy(from ? tr("%1, copy").arg(from->name) : QString{}); id != 0)
                          state_.setCurrentRun(id);
                  });
    actions_->add({QStringLiteral("run.baseline"),
                   run,
                   tr("&Pin as baseline"),
                   tr("Compares the other runs with it; again: unpins it"),
                   {QKeySequence(Qt::CTRL | Qt::Key_B)}},
                  [this] { strategies_->pinCurrent(); });
    actions_->add({QStringLiteral("run.remove"),
                   run,
                   tr("&Remove from the table"),
                   tr("Removes the runs chosen in the table; their files stay"),
                   {QKeySequence(Qt::CTRL | Qt::Key_Delete)}},
                  [this] { strategies_->removeSelected(); });
    actions_->add({QStringLiteral("run.filter"),
                   run,
                   tr("&Filter the table"),
                   tr("Filters the table by name or figures"),
                   {QKeySequence(Qt::CTRL | Qt::Key_L)}},
                  [this] {
                      showView(QStringLiteral("strategies"));
                      strategies_->focusFilter();
                  });
    QAction& live = actions_->add({QStringLiteral("run.live"),
                                   run,
                                   tr("Simulate as you &type"),
                                   tr("Simulates a moment after each change of the scenario"),
                                   {},
                                   true},
                                  [] {});
    live.setCheckable(true);
    live.setChecked(true);
    connect(&live, &QAction::toggled, documents_, &Documents::setSimulateAsYouType);
    actions_->add({QStringLiteral("run.sweep"),
                   run,
                   tr("Run or stop the s&weep"),
                   tr("Runs or stops the sweep that is open"),
                   {QKeySequence(Qt::CTRL | Qt::Key_R)}},
                  [this] {
                      showView(QStringLiteral("sweep"));
                      sweep_->running() ? sweep_->cancel() : sweep_->start();
                  });
    actions_->add(
        {QStringLiteral("run.now"), run, tr("&Simulate now"), tr("Simulates the scenario as it stands"), {QKeySequence(Qt::Key_F5)}},
        [this] { documents_->simulateNow(); });
    actions_
        ->add({QStringLiteral("run.cancel"),
               run,
               tr("Cance&l"),
               tr("Stops all that is being simulated or loaded"),
               {QKeySequence(Qt::CTRL | Qt::Key_Period)}},
              [this] {
                  store_.cancelAll();
                  sweep_->cancel();
                  search_->cancel();
              })
        .setEnabled(false);
    makeSearchAction(run);
    makeMeasuredAction(run);
}

void MainWindow::makeMeasuredAction(const QString& menu) {
    actions_->add({QStringLiteral("run.delete_measured"),
                   menu,
                   tr("Delete measured runs\u2026"),
                   tr("Deletes the traces of runs on this machine, which are kept for the next start"),
                   {},
                   true},
                  [this] { deleteMeasured(); });
}

// A view's command brings the view to the front first: what it does is to be seen.
void MainWindow::makeCommandsOfViews() {
    for (const View& v : views_) {
        auto* has = dynamic_cast<HasCommands*>(v.dock->widget());
        if (!has) continue;
        for (const ViewCommand& command : has->commands())
            actions_->addOfView(v.name, v.dock->windowTitle(), command, [this, name = v.name, run = command.run] {
                showView(name);
                run();
            });
    }
    const QString tables = tr("Tables");
    actions_->addHint(tables, tr("Sort by a column"), tr("click its header"));
    actions_->addHint(tables, tr("Choose several rows"), QStringLiteral("Shift+Up, Shift+Down"));
    actions_->addHint(tables, tr("Copy the chosen rows"), QKeySequence(QKeySequence::Copy).toString(QKeySequence::NativeText));
}

void MainWindow::makePresetActions() {
    const QString menu = tr("&Strategy");
    for (const Preset& preset : presets())
        actions_->add({QStringLiteral("strategy.") + QLatin1String(preset.id),
                       menu,
                       preset.title,
                       preset.tip,
                       {},
                       preset.id == std::string("recompute-none")},
                      [this, id = preset.id] {
                          if (!documents_->applyPreset(id)) statusBar()->showMessage(tr("The current run has no scenario to change"), 5000);
                      });
}

void MainWindow::makeViewActions() {
    const QString menu = tr("&View");
    int number = 0;
    for (const View& v : views_) {
        ++number;
        QList<QKeySequence> keys;
        if (number <= 10) keys << QKeySequence(Qt::CTRL | static_cast<Qt::Key>(Qt::Key_0 + number % 10));
        const QString name = v.name;
        actions_->add({QStringLiteral("view.") + name, menu, v.dock->windowTitle(), tr("Brings the view to the front"), keys},
                      [this, name] { showView(name); });
    }
    makeThemeActions(menu);
    actions_->add({QStringLiteral("view.full"), menu, tr("&Full screen"), tr("Full screen, and back"), {QKeySequence(Qt::Key_F11)}, true},
                  [this] { setWindowState(windowState() ^ Qt::WindowFullScreen); });
    actions_->add({QStringLiteral("view.reset"), menu, tr("&Reset layout"), tr("Puts every view back to its first place"), {}},
                  [this] { restoreState(default_state_); });
    actions_->add({QStringLiteral("view.link"),
                   menu,
                   tr("Copy a link to &here"),
                   tr("Copies the command line that shows these files, this time and this selection"),
                   {QKeySequence(Qt::CTRL | Qt::SHIFT | Qt::Key_C)},
                   true},
                  [this] {
                      QApplication::clipboard()->setText(linkToHere());
                      statusBar()->showMessage(tr("Copied: %1").arg(linkToHere()), 8000);
                  });
}

void MainWindow::makeThemeActions(const QString& menu) {
    auto* choices = new QActionGroup(this);
    const auto choice = [&](const char* id, const QString& text, const QString& tip, bool first) {
        const QString name = QString::fromLatin1(id);
        QAction& action =
            actions_->add({QStringLiteral("view.") + name, menu, text, tip, {}, first}, [this, name] { theme_->choose(name); });
        action.setCheckable(true);
        choices->addAction(&action);
    };
    choice("light", tr("&Light"), tr("Dark text on a light ground"), true);
    choice("dark", tr("&Dark"), tr("Light text on a dark ground"), false);
    choice("system", tr("As the des&ktop"), tr("Light or dark as the desktop is, also when it changes"), false);
    actions_->add({QStringLiteral("view.other_theme"),
                   menu,
                   tr("Light or dark"),
                   tr("Switches to the other one"),
                   {QKeySequence(Qt::CTRL | Qt::SHIFT | Qt::Key_D)}},
                  [this] { theme_->toggle(); });
    const auto tick = [this] { actions_->find(QStringLiteral("view.") + theme_->name())->setChecked(true); };
    connect(theme_, &ThemeChoice::changed, this, tick);
    tick();
}

void MainWindow::makeHelpActions() {
    const QString help = tr("&Help");
    actions_->add({QStringLiteral("help.palette"),
                   help,
                   tr("&Commands\u2026"),
                   tr("Find any command by a few letters"),
                   {QKeySequence(Qt::CTRL | Qt::SHIFT | Qt::Key_P)}},
                  [this] {
                      auto* palette = new CommandPalette(*actions_, this);
                      palette->open();
                  });
    actions_->add({QStringLiteral("help.keys"),
                   help,
                   tr("&Keys"),
                   tr("Shows every key on one page"),
                   {QKeySequence(Qt::Key_Question), QKeySequence(Qt::Key_F1)}},
                  [this] {
                      auto* sheet = new KeySheet(*actions_, this);
                      sheet->show();
                  });
    actions_->add({QStringLiteral("help.examples"), help, tr("&Examples"), tr("Shows example scenarios to begin with"), {}}, [this] {
        welcome_->show();
        welcome_->raise();
        welcome_->setFocus();
    });
}

} // namespace orrery
