// What the window does with files: opening, saving, the session, the command line.
#include "gui/app/main_window.hpp"

#include "gui/app/export.hpp"
#include "gui/app/palettes.hpp"
#include "gui/sweep/sweep_view.hpp"
#include "sim/scenario/sweep.hpp"

#include <QApplication>
#include <QCloseEvent>
#include <QDockWidget>
#include <QDropEvent>
#include <QFileDialog>
#include <QFileInfo>
#include <QMenu>
#include <QMimeData>
#include <QUrl>
#include <QSettings>
#include <QStatusBar>

#include <algorithm>

namespace orrery {
namespace {

constexpr int layout_version = 1;       // raised when docks change so that an old layout no longer fits
constexpr qsizetype recent_kept = 12;
constexpr qint64 largest_sweep = 64 << 20;

} // namespace

void MainWindow::open(const QStringList& paths) {
    for (const QString& path : paths) openOne(QFileInfo(path).absoluteFilePath());
}

// Sweeps are known by their text; scenarios and traces are the store's to tell apart, and to refuse.
void MainWindow::openOne(const QString& path) {
    const QFileInfo info(path);
    if (info.isFile()) remember(path);
    if (info.isFile() && info.size() < largest_sweep) {
        QFile file(path);
        const std::string text = file.open(QIODevice::ReadOnly) ? file.readAll().toStdString() : std::string{};
        if (is_sweep(text)) return openText(text, info.absolutePath(), info.completeBaseName());
    }
    state_.setCurrentRun(store_.open(path));
}

void MainWindow::openText(const std::string& text, const QString& base_dir, const QString& name) {
    if (!is_sweep(text)) return state_.setCurrentRun(store_.simulate(text, base_dir.toStdString(), name, {}));
    std::vector<ProblemEntry> entries;
    for (const Problem& p : sweep_->load(text, base_dir.toStdString(), name)) entries.push_back({name, QString::fromStdString(p.where), QString::fromStdString(p.what)});
    problems_->replace(name, entries);
    showView(entries.empty() ? QStringLiteral("sweep") : QStringLiteral("problems"));
    updateWelcome();
    if (entries.empty()) sweep_->start();
}

void MainWindow::apply(const Options& options) {
    if (options.compare && !store_.runs().empty()) {
        std::vector<RunId> runs;
        for (const Run& run : store_.runs()) runs.push_back(run.id);
        state_.setBaseline(runs.front());
        state_.setBrushedRuns(runs);
        state_.setCurrentRun(runs.front());
        showView(QStringLiteral("compare"));
    }
    if (options.view) state_.setTimeRange({options.view->first, options.view->second});
    if (!options.select.isEmpty()) selectByName(options.select);
    if (!options.dock.isEmpty()) showView(options.dock);
}

// "0:l17.qkv.fwd@3": the rank's lane, the first span of that op (and microbatch).
void MainWindow::selectByName(const QString& id) {
    const Run* run = store_.find(state_.currentRun());
    const std::string what = id.section(QLatin1Char(':'), 1).section(QLatin1Char('@'), 0, 0).toStdString();
    const QString microbatch = id.section(QLatin1Char('@'), 1);
    const int rank = id.section(QLatin1Char(':'), 0, 0).toInt();
    if (run && run->data->trace) {
        const Trace& trace = *run->data->trace;
        for (std::size_t l = 0; l < trace.lanes.size(); ++l) {
            if (trace.lanes[l].rank != rank) continue;
            const auto& spans = trace.lanes[l].spans;
            const auto it = std::find_if(spans.begin(), spans.end(), [&](const Span& s) {
                return s.op >= 0 && trace.ops[static_cast<std::size_t>(s.op)].name == what && (microbatch.isEmpty() || s.microbatch == microbatch.toInt());
            });
            if (it == spans.end()) continue;
            state_.setSelectedSlice({run->id, static_cast<std::int32_t>(l), static_cast<std::int32_t>(it - spans.begin())});
            return;
        }
    }
    complain(tr("command line"), tr("--select %1: the trace shown has no such op on such a rank (a folded trace shows one rank of those alike)").arg(id));
}

QString MainWindow::linkToHere() const {
    Options here;
    for (const Run& run : store_.runs())
        if (!run.path.isEmpty()) here.files << run.path;
    if (state_.timeRange().length() > 0) here.view = {state_.timeRange().begin, state_.timeRange().end};
    const SliceId slice = state_.selectedSlice();
    const Run* run = store_.find(slice.run);
    if (slice.valid() && run && run->data->trace) {
        const Lane& lane = run->data->trace->lanes[static_cast<std::size_t>(slice.lane)];
        const Span& span = lane.spans[static_cast<std::size_t>(slice.span)];
        if (span.op >= 0) {
            here.select = QStringLiteral("%1:%2").arg(lane.rank).arg(QString::fromStdString(run->data->trace->ops[static_cast<std::size_t>(span.op)].name));
            if (span.microbatch >= 0) here.select += QStringLiteral("@%1").arg(span.microbatch);
        }
    }
    return command_line(here);
}

void MainWindow::remember(const QString& path) {
    if (options_.fresh) return;
    QSettings settings;
    QStringList files = settings.value(QStringLiteral("recent")).toStringList();
    files.removeAll(path);
    files.prepend(path);
    while (files.size() > recent_kept) files.removeLast();
    settings.setValue(QStringLiteral("recent"), files);
}

void MainWindow::fillRecent() {
    recent_->clear();
    for (const QString& path : QSettings().value(QStringLiteral("recent")).toStringList())
        recent_->addAction(QFileInfo(path).fileName() + QStringLiteral("   ") + QFileInfo(path).absolutePath(), this, [this, path] { open({path}); });
    if (recent_->isEmpty()) recent_->addAction(tr("Nothing yet"))->setEnabled(false);
}

void MainWindow::saveDocument(bool under_new_name) {
    ScenarioDocument* document = documents_->current();
    if (!document) {
        statusBar()->showMessage(tr("The current run has no scenario to save"), 5000);
        return;
    }
    QString path = document->path();
    if (path.isEmpty() || under_new_name) path = QFileDialog::getSaveFileName(this, tr("Save the scenario"), path, tr("Scenarios (*.json)"));
    if (path.isEmpty()) return;
    const QString wrong = document->save(path);
    if (!wrong.isEmpty()) return complain(tr("save"), wrong);
    remember(path);
    statusBar()->showMessage(tr("%1 saved").arg(path), 5000);
}

QDockWidget* MainWindow::frontDock() const {
    for (const View& v : views_)
        if (v.dock->isAncestorOf(QApplication::focusWidget())) return v.dock;
    const auto front = std::find_if(views_.begin(), views_.end(), [](const View& v) { return v.place == Place::main && !v.dock->visibleRegion().isEmpty(); });
    return front == views_.end() ? views_.front().dock : front->dock;
}

void MainWindow::exportView() {
    QWidget* view = frontDock()->widget();
    const QAbstractItemModel* table = table_of(*view);
    const QString kinds = tr("Pictures (*.png *.svg *.pdf)") + (table ? tr(";;Tables (*.csv)") : QString{});
    const QString path = QFileDialog::getSaveFileName(this, tr("Export %1").arg(frontDock()->windowTitle()), frontDock()->windowTitle().toLower() + QStringLiteral(".png"), kinds);
    if (path.isEmpty()) return;
    const QString wrong = table && path.endsWith(QLatin1String(".csv")) ? export_csv(*table, path) : export_picture(*view, path);
    if (!wrong.isEmpty()) return complain(tr("export"), wrong);
    statusBar()->showMessage(tr("%1 written").arg(path), 5000);
}

void MainWindow::exportTrace() {
    const Run* run = store_.find(state_.currentRun());
    if (!run || !run->data->trace) return complain(tr("export"), tr("the current run has no trace"));
    const QString path = QFileDialog::getSaveFileName(this, tr("Export the trace"), run->name + QStringLiteral(".json"), tr("For ui.perfetto.dev (*.json);;Orrery traces (*.trace)"));
    if (path.isEmpty()) return;
    const QString wrong = export_trace(*run->data->trace, path);
    if (!wrong.isEmpty()) return complain(tr("export"), wrong);
    statusBar()->showMessage(tr("%1 written").arg(path), 5000);
}

void MainWindow::setTheme(const QString& theme) {
    apply_theme(*qApp, theme == QLatin1String("dark") ? Theme::dark : Theme::light);
    if (!options_.fresh) QSettings().setValue(QStringLiteral("theme"), theme);
}

// Scenarios are kept as texts, edits that were never saved included; traces as paths.
void MainWindow::saveSession() const {
    if (options_.fresh) return;
    QSettings settings;
    settings.setValue(QStringLiteral("geometry"), saveGeometry());
    settings.setValue(QStringLiteral("state"), saveState(layout_version));
    settings.beginWriteArray(QStringLiteral("session"));
    int i = 0;
    for (const Run& run : store_.runs()) {
        settings.setArrayIndex(i++);
        const ScenarioDocument* document = documents_->of(run.id);
        settings.setValue(QStringLiteral("name"), run.name);
        settings.setValue(QStringLiteral("path"), run.path);
        settings.setValue(QStringLiteral("text"), document ? QString::fromStdString(document->text()) : QString::fromStdString(run.data->scenario_json));
        settings.setValue(QStringLiteral("folder"), QString::fromStdString(run.data->base_dir));
        settings.setValue(QStringLiteral("baseline"), run.id == state_.baseline());
    }
    settings.endArray();
}

bool MainWindow::restoreSession() {
    QSettings settings;
    restoreGeometry(settings.value(QStringLiteral("geometry")).toByteArray());
    restoreState(settings.value(QStringLiteral("state")).toByteArray(), layout_version);
    if (!options_.files.isEmpty()) return false;
    const int runs = settings.beginReadArray(QStringLiteral("session"));
    for (int i = 0; i < runs; ++i) {
        settings.setArrayIndex(i);
        const std::string text = settings.value(QStringLiteral("text")).toString().toStdString();
        const QString path = settings.value(QStringLiteral("path")).toString();
        RunId id = 0;
        if (!text.empty()) id = store_.simulate(text, settings.value(QStringLiteral("folder")).toString().toStdString(), settings.value(QStringLiteral("name")).toString(), path);
        else if (QFileInfo(path).isFile()) id = store_.loadTrace(path);
        if (id != 0 && settings.value(QStringLiteral("baseline")).toBool()) state_.setBaseline(id);
    }
    settings.endArray();
    return runs > 0;
}

void MainWindow::closeEvent(QCloseEvent* event) {
    saveSession();
    event->accept();
}

void MainWindow::dragEnterEvent(QDragEnterEvent* event) {
    if (event->mimeData()->hasUrls()) event->acceptProposedAction();
}

void MainWindow::dropEvent(QDropEvent* event) {
    QStringList paths;
    for (const QUrl& url : event->mimeData()->urls())
        if (url.isLocalFile()) paths << url.toLocalFile();
    open(paths);
    event->acceptProposedAction();
}

} // namespace orrery
