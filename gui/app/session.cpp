// The session: what was open and how it was looked at, there again at the next start, a crash included.
#include "gui/app/main_window.hpp"

#include "gui/sweep/sweep_view.hpp"
#include "gui/timeline/timeline_view.hpp"

#include <QFileInfo>
#include <QSettings>

namespace orrery {
namespace {

constexpr int layout_version = 2; // raised when docks change so that an old layout no longer fits

QStringList notes_as_text(const std::vector<Marker>& notes) {
    QStringList out;
    for (const Marker& m : notes) out << QString::number(m.at) + QLatin1Char(' ') + m.note;
    return out;
}

std::vector<Marker> notes_of_text(const QStringList& lines) {
    std::vector<Marker> out;
    for (const QString& line : lines) {
        bool good = false;
        const std::int64_t at = line.section(QLatin1Char(' '), 0, 0).toLongLong(&good);
        if (good) out.push_back({at, line.section(QLatin1Char(' '), 1)});
    }
    return out;
}

} // namespace

// Scenarios are kept as texts: as they stand, as their files had them, and the one that the figures are of; traces as paths.
void MainWindow::saveSession() const {
    if (options_.fresh) return;
    QSettings settings;
    settings.setValue(QStringLiteral("geometry"), saveGeometry());
    settings.setValue(QStringLiteral("state"), saveState(layout_version));
    settings.remove(QStringLiteral("session"));
    settings.beginWriteArray(QStringLiteral("session"), static_cast<int>(store_.runs().size()));
    int i = 0;
    for (const Run& run : store_.runs()) {
        settings.setArrayIndex(i++);
        const ScenarioDocument* document = documents_->of(run.id);
        settings.setValue(QStringLiteral("name"), run.name);
        settings.setValue(QStringLiteral("path"), run.path);
        const std::string& read = run.data->scenario_json;
        settings.setValue(QStringLiteral("text"), QString::fromStdString(document ? document->text() : read));
        settings.setValue(QStringLiteral("saved"), QString::fromStdString(document ? document->saved() : read));
        settings.setValue(QStringLiteral("simulated"), QString::fromStdString(document ? documents_->simulatedText(run.id) : read));
        settings.setValue(QStringLiteral("folder"), QString::fromStdString(run.data->base_dir));
        settings.setValue(QStringLiteral("baseline"), run.id == state_.baseline());
        settings.setValue(QStringLiteral("current"), run.id == state_.currentRun());
        settings.setValue(QStringLiteral("notes"), notes_as_text(timeline_->notes(run.id)));
    }
    settings.endArray();
    settings.setValue(QStringLiteral("range"), QVariantList{qlonglong(state_.timeRange().begin), qlonglong(state_.timeRange().end)});
    const bool sweep = sweep_->model().document() != nullptr;
    settings.setValue(QStringLiteral("sweep/text"), sweep ? QString::fromStdString(sweep_->text()) : QString{});
    settings.setValue(QStringLiteral("sweep/folder"), sweep ? QString::fromStdString(sweep_->model().document()->base_dir()) : QString{});
    settings.setValue(QStringLiteral("sweep/name"), sweep_->name());
    settings.setValue(QStringLiteral("sweep/complete"), sweep_->complete());
}

// A sweep that was through comes back with its results, which are kept; one that was stopped waits to be run.
void MainWindow::restoreSweep() {
    const QSettings settings;
    const std::string text = settings.value(QStringLiteral("sweep/text")).toString().toStdString();
    if (text.empty()) return;
    const bool good = sweep_
                          ->load(text, settings.value(QStringLiteral("sweep/folder")).toString().toStdString(),
                                 settings.value(QStringLiteral("sweep/name")).toString())
                          .empty();
    if (good && settings.value(QStringLiteral("sweep/complete")).toBool()) sweep_->start();
}

bool MainWindow::restoreSession() {
    QSettings settings;
    restoreGeometry(settings.value(QStringLiteral("geometry")).toByteArray());
    restoreState(settings.value(QStringLiteral("state")).toByteArray(), layout_version);
    if (!options_.files.isEmpty()) return false;
    const QVariantList range = settings.value(QStringLiteral("range")).toList();
    RunId current = 0;
    const int runs = settings.beginReadArray(QStringLiteral("session"));
    for (int i = 0; i < runs; ++i) {
        settings.setArrayIndex(i);
        const std::string text = settings.value(QStringLiteral("text")).toString().toStdString();
        const QString path = settings.value(QStringLiteral("path")).toString(), name = settings.value(QStringLiteral("name")).toString();
        RunId id = 0;
        if (!text.empty()) {
            const auto kept = [&](const char* key) {
                return settings.value(QLatin1String(key), settings.value(QStringLiteral("text"))).toString().toStdString();
            };
            ScenarioDocument now; // text with mistakes keeps the figures of the text before, and says that they are out of date
            now.load(text, path, settings.value(QStringLiteral("folder")).toString().toStdString());
            const std::string simulated = now.parsed().scenario ? text : kept("simulated");
            id = store_.simulate(simulated, settings.value(QStringLiteral("folder")).toString().toStdString(), name, path);
            documents_->restore(id, simulated, kept("saved"), text);
        } else if (QFileInfo(path).isFile()) {
            id = store_.loadTrace(path);
            store_.rename(id, name);
        } else {
            complain(tr("session"), tr("%1 is no longer there").arg(path.isEmpty() ? name : path));
        }
        if (id == 0) continue;
        timeline_->setNotes(id, notes_of_text(settings.value(QStringLiteral("notes")).toStringList()));
        if (settings.value(QStringLiteral("baseline")).toBool()) state_.setBaseline(id);
        if (settings.value(QStringLiteral("current")).toBool()) current = id;
    }
    settings.endArray();
    if (current != 0) state_.setCurrentRun(current);
    if (current != 0 && range.size() == 2) state_.setTimeRange({range[0].toLongLong(), range[1].toLongLong()});
    restoreSweep();
    return runs > 0;
}

} // namespace orrery
