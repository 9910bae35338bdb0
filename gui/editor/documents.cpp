#include "gui/editor/documents.hpp"

#include "gui/editor/presets.hpp"

#include <QFileInfo>
#include <QUndoStack>

#include <algorithm>

namespace orrery {

// Short enough to feel live, long enough that a number typed in full is simulated once.
constexpr int typing_pause_ms = 150;
constexpr int file_settles_ms = 100; // a file that is written anew is gone for a moment

Documents::Documents(RunStore& store, ViewState& state, QObject* parent) : QObject(parent), store_(store), state_(state) {
    pause_.setSingleShot(true);
    pause_.setInterval(typing_pause_ms);
    connect(&pause_, &QTimer::timeout, this, &Documents::simulateNow);
    connect(&watcher_, &QFileSystemWatcher::fileChanged, this, [this](const QString& path) {
        if (settling_.insert(path).second) QTimer::singleShot(file_settles_ms, this, [this, path] { lookAtFile(path); });
    });
    connect(&state_, &ViewState::currentRunChanged, this, &Documents::follow);
    connect(&store_, &RunStore::runChanged, this, [this](RunId id) {
        if (id == state_.currentRun()) follow();
    });
    connect(&store_, &RunStore::runAboutToBeRemoved, this, [this](RunId id) {
        waiting_.erase(id);
        simulated_.erase(id);
        const auto it = documents_.find(id);
        if (it == documents_.end()) return;
        if (current_ == it->second.get()) {
            current_ = nullptr;
            run_of_current_ = 0;
            Q_EMIT currentChanged(nullptr);
        }
        undo_.removeStack(&it->second->undoStack());
        documents_.erase(it);
    });
}

ScenarioDocument* Documents::of(RunId run) {
    if (const auto it = documents_.find(run); it != documents_.end()) return it->second.get();
    const Run* known = store_.find(run);
    if (!known || known->data->scenario_json.empty()) return nullptr;
    return make(run, known->data->scenario_json, known->data->scenario_json);
}

ScenarioDocument* Documents::make(RunId run, const std::string& simulated, const std::string& saved) {
    const Run& known = *store_.find(run);
    auto document = std::make_unique<ScenarioDocument>();
    document->load(saved, known.path, known.data->base_dir);
    undo_.addStack(&document->undoStack());
    simulated_[run] = simulated;
    connect(document.get(), &ScenarioDocument::changed, this, [this, run] { later(run); });
    connect(document.get(), &ScenarioDocument::saveStateChanged, this, [this, run] { Q_EMIT saveStateChanged(run); });
    watch(known.path);
    return (documents_[run] = std::move(document)).get();
}

void Documents::restore(RunId run, const std::string& simulated, const std::string& saved, const std::string& text) {
    const Run* known = store_.find(run);
    if (!known) return;
    if (const auto there = documents_.find(run); there != documents_.end()) { // the first run that came is already shown
        simulated_[run] = simulated;
        there->second->load(saved, known->path, known->data->base_dir);
    } else {
        make(run, simulated, saved);
    }
    ScenarioDocument* document = documents_.at(run).get();
    document->replace(text, tr("changes of the last session"));
    if (text == saved && text != simulated) later(run);
    QTimer::singleShot(0, this, [this, path = document->path()] { lookAtFile(path); }); // it may have changed since
}

std::string Documents::simulatedText(RunId run) const {
    const auto known = simulated_.find(run);
    return known == simulated_.end() ? std::string{} : known->second;
}

void Documents::savedAs(RunId run) {
    const ScenarioDocument* document = of(run);
    if (!document) return;
    store_.setPath(run, document->path());
    watch(document->path());
}

void Documents::watch(const QString& path) {
    if (!path.isEmpty() && QFileInfo::exists(path) && !watcher_.files().contains(path)) watcher_.addPath(path);
}

// Programs that write a file anew put another one in its place: it has to be watched again, once it is there.
void Documents::lookAtFile(const QString& path) {
    settling_.erase(path);
    watch(path);
    // A file that a document here has just written was not changed by another program: runs from the same file keep their text, and saving
    // them asks.
    const bool ours = std::any_of(documents_.begin(), documents_.end(),
                                  [&](const auto& d) { return d.second->path() == path && !d.second->differsOnDisk(); });
    if (ours) return;
    for (const auto& [run, document] : documents_) {
        if (document->path() != path || !document->differsOnDisk()) continue;
        const bool read = !document->isModified() && document->readAgain().isEmpty();
        Q_EMIT changedOnDisk(run, read);
    }
}

void Documents::follow() {
    ScenarioDocument* now = of(state_.currentRun());
    if (now == current_) return;
    current_ = now;
    run_of_current_ = now ? state_.currentRun() : 0;
    undo_.setActiveStack(now ? &now->undoStack() : nullptr);
    Q_EMIT currentChanged(now);
}

void Documents::later(RunId run) {
    waiting_.insert(run);
    judge(run);
    Q_EMIT problemsChanged(run);
    Q_EMIT saveStateChanged(run);
    if (live_) pause_.start();
}

void Documents::judge(RunId run) {
    const auto document = documents_.find(run);
    if (document == documents_.end()) return;
    const bool simulated_soon = live_ && document->second->parsed().scenario.has_value();
    store_.setOutOfDate(run, !simulated_soon && document->second->text() != simulated_[run]);
}

// Texts with mistakes wait: the figures on the screen are those of the last text that was right.
void Documents::simulateNow() {
    for (RunId run : std::set<RunId>(std::move(waiting_))) {
        const auto it = documents_.find(run);
        if (it == documents_.end()) continue;
        const ScenarioDocument& document = *it->second;
        if (!document.parsed().scenario || document.text() == simulated_[run]) continue;
        simulated_[run] = document.text();
        store_.simulateAgain(run, document.text());
    }
    waiting_.clear();
}

void Documents::setSimulateAsYouType(bool on) {
    live_ = on;
    for (const auto& [run, document] : documents_) judge(run);
    if (on) simulateNow();
}

RunId Documents::addCopy(const QString& name) {
    if (!current_) return 0;
    return store_.simulate(current_->text(), current_->baseDir(), name, {});
}

bool Documents::applyPreset(const std::string& id) {
    const auto all = presets();
    const auto preset = std::find_if(all.begin(), all.end(), [&](const Preset& p) { return id == p.id; });
    if (!current_ || preset == all.end()) return false;
    const auto& scenario = current_->parsed().scenario;
    const std::string strategy = with_preset(current_->text(), id, scenario ? scenario->cluster.devices_per_node : 8);
    return !strategy.empty() && current_->setField("/strategy", strategy, preset->title);
}

bool Documents::anyModified() const {
    return std::any_of(documents_.begin(), documents_.end(), [](const auto& d) { return d.second->isModified(); });
}

} // namespace orrery
