#include "gui/core/run.hpp"

#include "gui/core/tracks.hpp"
#include "sim/trace/format.hpp"

#include <QFileInfo>
#include <QPromise>
#include <QtConcurrent/QtConcurrentRun>

#include <algorithm>
#include <fstream>
#include <sstream>

namespace orrery {

namespace {

// Larger than any scenario: what is beyond it is no text somebody wrote.
constexpr qint64 largest_scenario = 64 << 20;

bool is_trace_file(const QString& path) {
    std::ifstream in(path.toStdString(), std::ios::binary);
    std::string head(trace_file::magic.size(), '\0');
    in.read(head.data(), static_cast<std::streamsize>(head.size()));
    return in && head == trace_file::magic;
}

// As simrun --trace FILE.json writes it, and profilers do.
bool is_chrome_trace(const std::string& text) { return text.substr(0, 4096).find("\"traceEvents\"") != std::string::npos; }

std::shared_ptr<const RunData> failure(const QString& what) {
    auto data = std::make_shared<RunData>();
    data->problems.push_back({"", what.toStdString()});
    return data;
}

} // namespace

QString shown_name(const Run& run) {
    const QString name = run.name.isEmpty() ? RunStore::tr("run %1").arg(run.id) : run.name;
    if (run.state == RunState::working) return RunStore::tr("%1 (working)").arg(name);
    if (run.state == RunState::failed) return RunStore::tr("%1 (failed)").arg(name);
    return run.out_of_date ? RunStore::tr("%1 (out of date)").arg(name) : name;
}

QString out_of_date_words() {
    return RunStore::tr(
        "The scenario was changed and cannot be simulated as it stands: what is shown is of the text before. See Problems.");
}

RunStore::RunStore(QObject* parent) : QObject(parent) { qRegisterMetaType<orrery::RunId>("orrery::RunId"); }

RunStore::~RunStore() {
    for (auto& [id, job] : jobs_) {
        job.watcher->cancel();
        *job.stop = true;
    }
    for (auto& [id, job] : jobs_) {
        job.watcher->disconnect(this);
        job.watcher->waitForFinished();
    }
}

const Run* RunStore::find(RunId id) const { return const_cast<RunStore*>(this)->mutableFind(id); }

Run* RunStore::mutableFind(RunId id) {
    auto run = std::find_if(runs_.begin(), runs_.end(), [&](const Run& r) { return r.id == id; });
    return run == runs_.end() ? nullptr : &*run;
}

RunId RunStore::append(Run run) {
    run.id = next_++;
    if (!run.data) run.data = std::make_shared<RunData>();
    const RunId id = run.id;
    runs_.push_back(std::move(run));
    Q_EMIT runAdded(id);
    return id;
}

RunId RunStore::simulate(const std::string& scenario_json, const std::string& base_dir, const QString& name, const QString& path) {
    auto before = std::make_shared<RunData>();
    before->scenario_json = scenario_json;
    before->base_dir = base_dir;
    Run run;
    run.name = name;
    run.path = path;
    run.data = before;
    const RunId id = append(std::move(run));
    start(id, [=](const GoOn& go_on, StopFlag stop) { return simulate_run(scenario_json, base_dir, go_on, stop); });
    return id;
}

void RunStore::simulateAgain(RunId id, const std::string& scenario_json) {
    Run* run = mutableFind(id);
    if (!run) return;
    run->state = RunState::working;
    run->out_of_date = false;
    const std::string base_dir = run->data->base_dir;
    start(id, [=](const GoOn& go_on, StopFlag stop) { return simulate_run(scenario_json, base_dir, go_on, stop); });
    Q_EMIT runChanged(id);
}

RunId RunStore::loadTrace(const QString& path) {
    Run run;
    run.name = QFileInfo(path).completeBaseName();
    run.path = path;
    const RunId id = append(std::move(run));
    start(id, [path](const GoOn& go_on, StopFlag stop) { return load_run_trace(path.toStdString(), go_on, stop); });
    return id;
}

RunId RunStore::open(const QString& path) {
    const QFileInfo file(path);
    if (is_trace_file(path)) return loadTrace(path);
    const QString base = file.completeBaseName();
    QString wrong;
    if (!file.isFile())
        wrong = tr("%1: there is no such file").arg(path);
    else if (file.size() > largest_scenario)
        wrong = tr("%1: neither a trace nor a scenario (it is larger than any scenario)").arg(path);
    std::ifstream in(path.toStdString(), std::ios::binary);
    std::stringstream text;
    if (wrong.isEmpty()) text << in.rdbuf();
    if (wrong.isEmpty() && !in) wrong = tr("%1: cannot be read").arg(path);
    if (wrong.isEmpty() && is_chrome_trace(text.str()) && text.str().substr(0, 4096).find("\"whole run\"") != std::string::npos)
        wrong = tr("%1: a whole run for ui.perfetto.dev, which cannot be opened here: write it once more with simrun export --to run-trace")
                    .arg(path);
    else if (wrong.isEmpty() && is_chrome_trace(text.str()))
        wrong = tr("%1: a trace for ui.perfetto.dev, which cannot be opened here: write it once more with --trace and a name that does not "
                   "end in .json")
                    .arg(path);
    if (wrong.isEmpty()) return simulate(text.str(), file.absolutePath().toStdString(), base, path);
    Run run;
    run.name = base;
    run.path = path;
    const RunId id = append(std::move(run));
    start(id, [wrong](const GoOn&, StopFlag) { return failure(wrong); });
    return id;
}

RunId RunStore::add(std::shared_ptr<const RunData> data, const QString& name, const QString& path) {
    Run run;
    run.name = name;
    run.path = path;
    run.state = data->problems.empty() ? RunState::ready : RunState::failed;
    run.data = std::move(data);
    return append(std::move(run));
}

void RunStore::rename(RunId id, const QString& name) {
    Run* run = mutableFind(id);
    if (!run || run->name == name) return;
    run->name = name;
    Q_EMIT runChanged(id);
}

void RunStore::setPath(RunId id, const QString& path) {
    Run* run = mutableFind(id);
    if (!run || run->path == path) return;
    run->path = path;
    Q_EMIT runChanged(id);
}

void RunStore::setOutOfDate(RunId id, bool out_of_date) {
    Run* run = mutableFind(id);
    if (!run || run->out_of_date == out_of_date) return;
    run->out_of_date = out_of_date;
    Q_EMIT runChanged(id);
}

void RunStore::start(RunId id, Work work) {
    giveUp(id);
    auto* watcher = new Watcher(this);
    connect(watcher, &QFutureWatcherBase::progressTextChanged, this, [this, id](const QString& what) { Q_EMIT progress(id, what); });
    connect(watcher, &QFutureWatcherBase::finished, this, [this, id, watcher] {
        const auto future = watcher->future();
        finish(id, future.isCanceled() || future.resultCount() == 0 ? nullptr : future.result());
    });
    auto stop = std::make_shared<std::atomic<bool>>(false);
    jobs_[id] = {watcher, stop};
    watcher->setFuture(QtConcurrent::run(&pool_, [work = std::move(work), stop](QPromise<std::shared_ptr<const RunData>>& promise) {
        promise.setProgressRange(0, 8);
        int steps = 0;
        const GoOn go_on = [&](const QString& what) {
            promise.setProgressValueAndText(++steps, what);
            return !promise.isCanceled();
        };
        std::shared_ptr<const RunData> data;
        try {
            data = work(go_on, stop.get());
        } catch (const std::exception& e) { data = failure(QString::fromStdString(e.what())); }
        if (data) promise.addResult(std::move(data));
    }));
}

// The thread ends by itself, soon: nobody listens any more.
bool RunStore::giveUp(RunId id) {
    auto job = jobs_.find(id);
    if (job == jobs_.end()) return false;
    *job->second.stop = true;
    job->second.watcher->disconnect(this);
    job->second.watcher->cancel();
    job->second.watcher->deleteLater();
    jobs_.erase(job);
    return true;
}

void RunStore::finish(RunId id, std::shared_ptr<const RunData> data) {
    giveUp(id);
    Run* run = mutableFind(id);
    if (!run || !data) return;
    run->state = data->problems.empty() ? RunState::ready : RunState::failed;
    run->data = std::move(data);
    if (run->name.isEmpty() && run->data->scenario) run->name = QString::fromStdString(run->data->scenario->name);
    const bool wrong = run->state == RunState::failed;
    Q_EMIT runChanged(id);
    Q_EMIT progress(id, {});
    if (wrong) Q_EMIT failed(id);
}

void RunStore::cancel(RunId id) {
    if (!giveUp(id)) return;
    Q_EMIT progress(id, {});
    Run* run = mutableFind(id);
    if (!run) return;
    if (!run->data->report && !run->data->trace) return remove(id);
    run->state = RunState::ready;
    Q_EMIT runChanged(id);
}

void RunStore::cancelAll() {
    std::vector<RunId> ids;
    for (const auto& [id, job] : jobs_) ids.push_back(id);
    for (RunId id : ids) cancel(id);
}

void RunStore::remove(RunId id) {
    if (!find(id)) return;
    if (giveUp(id)) Q_EMIT progress(id, {});
    Q_EMIT runAboutToBeRemoved(id);
    std::erase_if(runs_, [&](const Run& r) { return r.id == id; });
    Q_EMIT runRemoved(id);
}

} // namespace orrery
