#include "gui/editor/documents.hpp"

#include "gui/editor/presets.hpp"

#include <QUndoStack>

#include <algorithm>

namespace orrery {

// Short enough to feel live, long enough that a number typed in full is simulated once.
constexpr int typing_pause_ms = 150;

Documents::Documents(RunStore& store, ViewState& state, QObject* parent) : QObject(parent), store_(store), state_(state) {
    pause_.setSingleShot(true);
    pause_.setInterval(typing_pause_ms);
    connect(&pause_, &QTimer::timeout, this, &Documents::simulateNow);
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
    auto document = std::make_unique<ScenarioDocument>();
    document->load(known->data->scenario_json, known->path, known->data->base_dir);
    undo_.addStack(&document->undoStack());
    simulated_[run] = known->data->scenario_json;
    connect(document.get(), &ScenarioDocument::changed, this, [this, run] { later(run); });
    return (documents_[run] = std::move(document)).get();
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
    Q_EMIT problemsChanged(run);
    if (live_) pause_.start();
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
