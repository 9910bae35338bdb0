// The window and files: opening, saving, exporting, the command line.
#include "gui/app/main_window.hpp"

#include "gui/app/execution_view.hpp"
#include "gui/app/export.hpp"
#include "gui/core/memory_series.hpp"
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
#include <QRegularExpression>
#include <QSettings>
#include <QStatusBar>
#include <QUrl>

#include <algorithm>

namespace orrery {
namespace {

constexpr qsizetype recent_kept = 12;
constexpr qint64 largest_sweep = 64 << 20;

// The name that --select has for a span: its op, or what it waits for.
std::string link_name(const Trace& trace, const Span& s) { return s.op >= 0 ? trace.ops[s.op].name : std::string(name(s.cause)); }

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
    for (const Problem& p : sweep_->load(text, base_dir.toStdString(), name))
        entries.push_back({name, QString::fromStdString(p.where), QString::fromStdString(p.what)});
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
        if (options.dock.isEmpty()) showView(QStringLiteral("compare"));
    }
    if (options.view) state_.setTimeRange({options.view->first, options.view->second});
    if (!options.select.isEmpty()) selectByName(options.select);
    if (!options.dock.isEmpty() && !options.screenshot.isEmpty()) showView(options.dock);
}

// "0:l17.qkv@3#1": of the rank's lane the second span of that op, or of a wait for that cause, of microbatch 3.
void MainWindow::selectByName(const QString& id) {
    static const QRegularExpression form(QStringLiteral("^(\\d+):([^@#]+)(?:@(\\d+))?(?:#(\\d+))?$"));
    const auto wanted = form.match(id);
    const Run* run = store_.find(state_.currentRun());
    if (wanted.hasMatch() && run && run->data->trace) {
        const Trace& trace = *run->data->trace;
        const std::string what = wanted.captured(2).toStdString();
        const std::int32_t microbatch = wanted.captured(3).isEmpty() ? -1 : wanted.captured(3).toInt();
        int before = wanted.captured(4).toInt();
        for (std::size_t l = 0; l < trace.lanes.size(); ++l) {
            const auto& spans = trace.lanes[l].spans;
            for (std::size_t i = 0; trace.lanes[l].rank == wanted.captured(1).toInt() && i < spans.size(); ++i) {
                if (link_name(trace, spans[i]) != what || (microbatch >= 0 && spans[i].microbatch != microbatch) || before-- > 0) continue;
                state_.setSelectedSlice({run->id, static_cast<std::int32_t>(l), static_cast<std::int32_t>(i)});
                return;
            }
        }
    }
    complain(tr("command line"),
             tr("--select %1: the trace shown has no such op on such a rank (a folded trace shows one rank of those alike)").arg(id));
}

// The run that is shown comes last, as the last file opened is the one shown; of compared runs the baseline comes first.
QString MainWindow::linkToHere() const {
    Options here;
    const QDockWidget* front = frontDock();
    for (const View& v : views_)
        if (v.dock == front) here.dock = v.name;
    std::vector<RunId> runs;
    here.compare = here.dock == QLatin1String("compare") && state_.brushedRuns().size() > 1;
    if (here.compare)
        runs = state_.brushedRuns();
    else
        for (const Run& run : store_.runs()) runs.push_back(run.id);
    const RunId lead = here.compare ? state_.baseline() : state_.currentRun();
    std::stable_sort(runs.begin(), runs.end(),
                     [&](RunId a, RunId b) { return here.compare ? a == lead && b != lead : b == lead && a != lead; });
    RunId shown = 0;
    for (RunId id : runs) {
        const Run* run = store_.find(id);
        if (!run || run->path.isEmpty()) continue;
        here.files << run->path;
        if (!here.compare || shown == 0) shown = id;
    }
    here.compare = here.compare && here.files.size() > 1;
    if (!here.compare && here.dock == QLatin1String("compare")) here.dock.clear();
    if (state_.timeRange().length() > 0) here.view = {state_.timeRange().begin, state_.timeRange().end};
    const SliceId slice = state_.selectedSlice();
    const Run* run = store_.find(slice.run);
    if (slice.valid() && slice.run == shown && run && run->data->trace) {
        const Trace& trace = *run->data->trace;
        const Lane& lane = trace.lanes[slice.lane];
        const Span& span = lane.spans[slice.span];
        const std::string name = link_name(trace, span);
        const auto alike = std::count_if(lane.spans.begin(), lane.spans.begin() + slice.span, [&](const Span& s) {
            return link_name(trace, s) == name && (span.microbatch < 0 || s.microbatch == span.microbatch);
        });
        here.select = QStringLiteral("%1:%2").arg(lane.rank).arg(QString::fromStdString(name));
        if (span.microbatch >= 0) here.select += QStringLiteral("@%1").arg(span.microbatch);
        if (alike > 0) here.select += QStringLiteral("#%1").arg(alike);
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
        recent_->addAction(QFileInfo(path).fileName() + QStringLiteral("   ") + QFileInfo(path).absolutePath(), this,
                           [this, path] { open({path}); });
    if (recent_->isEmpty()) recent_->addAction(tr("Nothing yet"))->setEnabled(false);
}

void MainWindow::saveDocument(bool under_new_name) {
    ScenarioDocument* document = documents_->current();
    if (!document) {
        statusBar()->showMessage(tr("The current run has no scenario to save"), 5000);
        return;
    }
    QString path = document->path();
    if (path.isEmpty() || under_new_name)
        path = QFileDialog::getSaveFileName(this, tr("Save the scenario"), path, tr("Scenarios (*.json)"));
    if (path.isEmpty()) return;
    const bool asks = path == document->path() && document->differsOnDisk();
    if (asks &&
        !ask_(tr("%1 was changed by another program since it was read. Saving overwrites those changes.").arg(path), tr("Overwrite"))) {
        statusBar()->showMessage(tr("%1 was not saved").arg(path), 5000);
        return;
    }
    const QString wrong = document->save(path);
    if (!wrong.isEmpty()) return complain(tr("save"), wrong);
    documents_->savedAs(documents_->currentRun());
    remember(path);
    statusBar()->showMessage(tr("%1 saved").arg(path), 5000);
}

QDockWidget* MainWindow::frontDock() const {
    for (const View& v : views_)
        if (v.dock->isAncestorOf(QApplication::focusWidget())) return v.dock;
    const auto front = std::find_if(views_.begin(), views_.end(),
                                    [](const View& v) { return v.place == Place::main && !v.dock->visibleRegion().isEmpty(); });
    return front == views_.end() ? views_.front().dock : front->dock;
}

void MainWindow::exportView() {
    QWidget* view = frontDock()->widget();
    const QString kinds = tr("Pictures (*.png *.svg *.pdf);;Tables (*.csv)");
    const QString path = QFileDialog::getSaveFileName(this, tr("Export %1").arg(frontDock()->windowTitle()),
                                                      frontDock()->windowTitle().toLower() + QStringLiteral(".png"), kinds);
    if (path.isEmpty()) return;
    const bool table = path.endsWith(QLatin1String(".csv"), Qt::CaseInsensitive);
    const QStringList files = table ? csv_paths(*view, path) : QStringList{path};
    for (const QString& file : files) { // the dialog asked for the first
        const bool asks = file != path && QFileInfo::exists(file);
        if (asks && !ask_(tr("%1 is there already.").arg(file), tr("Overwrite"))) return;
    }
    const QString wrong = table ? export_csv(*view, path) : export_picture(*view, path);
    if (!wrong.isEmpty()) return complain(tr("export"), wrong);
    statusBar()->showMessage(tr("Written: %1").arg(files.join(QStringLiteral(", "))), 5000);
}

void MainWindow::deleteMeasured() {
    const MeasuredRuns& kept = viewOf<ExecutionView>("execution").kept();
    const int count = kept.count();
    if (count == 0) return statusBar()->showMessage(tr("There are no measured runs"), 5000);
    const QString question =
        tr("%n measured run(s), %1 in all, will be deleted, and removed from the table.", "", count).arg(bytes_text(kept.size()));
    if (!ask_(question, tr("Delete"))) return;
    std::vector<RunId> open;
    for (const Run& run : store_.runs())
        if (kept.holds(run.path)) open.push_back(run.id);
    for (RunId id : open) store_.remove(id);
    kept.clear();
    statusBar()->showMessage(tr("%n measured run(s) deleted", "", count), 5000);
}

void MainWindow::exportTrace() {
    const Run* run = store_.find(state_.currentRun());
    if (!run || !run->data->trace) return complain(tr("export"), tr("the current run has no trace"));
    const QString path = QFileDialog::getSaveFileName(this, tr("Export the trace"), run->name + QStringLiteral(".json"),
                                                      tr("For ui.perfetto.dev (*.json);;Orrery traces (*.trace)"));
    if (path.isEmpty()) return;
    const QString wrong = export_trace(*run->data->trace, path);
    if (!wrong.isEmpty()) return complain(tr("export"), wrong);
    statusBar()->showMessage(tr("%1 written").arg(path), 5000);
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
