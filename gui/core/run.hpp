// The runs that are loaded: a scenario with its report, plan and trace, or a trace alone. RunStore owns them, simulates and loads in
// the background, and tells the views.
#pragma once

#include "gui/core/view_state.hpp"
#include "sim/federated/federated.hpp"
#include "sim/loose/record.hpp"
#include "sim/memory/tiers.hpp"
#include "sim/plan/plan.hpp"
#include "sim/plan/stop.hpp"
#include "sim/report/report.hpp"
#include "sim/scenario/parse.hpp"
#include "sim/trace/trace.hpp"

#include <QFutureWatcher>
#include <QObject>
#include <QString>
#include <QThreadPool>

#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace orrery {

struct TrackStore; // gui/core/tracks.hpp

// The data of a run, never changed once made: views and threads keep it as long as they draw it.
struct RunData {
    std::string scenario_json, base_dir; // empty: only a trace was loaded
    std::optional<Scenario> scenario;
    std::optional<Plan> plan;
    std::optional<Report> report; // also with a plan that does not fit
    std::string way_out;          // of one that does not fit: what would
    std::vector<LinkUse> links;
    std::vector<std::int32_t> link_class; // by link of the cluster, which of `links` stands for it; empty: not known
    std::vector<LaneResult> lanes;
    std::vector<std::int32_t> lane_of_rank; // by rank, which of `lanes`, and of the trace's, stands for it; empty: not known
    std::optional<Trace> trace;
    TierCurve host_memory, disk_memory;                 // of the fullest node, at the trace's times
    std::vector<std::vector<std::int64_t>> weight_ages; // by stage and microbatch (weight_ages.hpp); empty: all weights are fresh
    std::optional<LooseRecord> workers;                 // of those that never meet all at once: a few steps of each
    std::optional<FederatedReport> federated;           // of clients; with the first rounds as its example
    std::shared_ptr<const TrackStore> tracks;           // of the trace, ready to be drawn
    std::vector<Problem> problems;                      // why the rest is missing; where: a JSON pointer, "" for the whole file
};

// The step's period where a report gives it, else the length of the trace (ranks that begin apart make it longer); 0: neither.
double step_seconds(const RunData& data);

enum class RunState { working, ready, failed }; // failed: see data->problems

struct Run {
    RunId id = 0;
    QString name;
    QString path; // the file it is from; empty: none
    RunState state = RunState::working;
    bool out_of_date = false; // its scenario was changed since, and cannot be simulated as it stands: data are of the text before
    std::shared_ptr<const RunData> data; // never null; while working again, what was known before
};

// As every view names a run: its name, or "run 3", and behind it what must be known of its figures: working, failed, out of date.
QString shown_name(const Run& run);
QString out_of_date_words(); // why figures are out of date, for tooltips

// The whole pipeline for a scenario's text, without a window. `go_on` is called with what comes next and may say no: then nothing;
// nothing too soon after `stop` is set.
using GoOn = std::function<bool(const QString& what)>;
std::shared_ptr<const RunData> simulate_run(const std::string& scenario_json, const std::string& base_dir, const GoOn& go_on,
                                            StopFlag stop = nullptr);
std::shared_ptr<const RunData> load_run_trace(const std::string& path, const GoOn& go_on, StopFlag stop = nullptr);
std::shared_ptr<const RunData> run_of_trace(Trace trace, StopFlag stop = nullptr);

class RunStore : public QObject {
    Q_OBJECT
  public:
    explicit RunStore(QObject* parent = nullptr);
    ~RunStore() override;

    const std::vector<Run>& runs() const { return runs_; } // in the order they were added
    const Run* find(RunId id) const;                       // null where there is none (any more)
    bool busy() const { return !jobs_.empty(); }

    // Each gives a run at once, in state working; runChanged follows when it is ready or failed.
    RunId simulate(const std::string& scenario_json, const std::string& base_dir, const QString& name = {}, const QString& path = {});
    void simulateAgain(RunId id, const std::string& scenario_json); // a work in progress is given up for it
    RunId loadTrace(const QString& path);
    RunId open(const QString& path); // a scenario or a trace, by what is in it
    RunId add(std::shared_ptr<const RunData> data, const QString& name, const QString& path = {}); // one that is ready
    void rename(RunId id, const QString& name);
    void setPath(RunId id, const QString& path); // the file it is saved in from now on
    void setOutOfDate(RunId id, bool out_of_date);
    void cancel(RunId id); // what was known before stays; a run that never was ready goes
    void cancelAll();
    void remove(RunId id);

  Q_SIGNALS:
    void runAdded(orrery::RunId id);
    void runChanged(orrery::RunId id);
    void runAboutToBeRemoved(orrery::RunId id);
    void runRemoved(orrery::RunId id);
    void progress(orrery::RunId id, const QString& what); // "simulating"; empty: done
    void failed(orrery::RunId id);                        // see its problems

  private:
    using Work = std::function<std::shared_ptr<const RunData>(const GoOn&, StopFlag)>;
    using Watcher = QFutureWatcher<std::shared_ptr<const RunData>>;
    struct Job {
        Watcher* watcher = nullptr;
        std::shared_ptr<std::atomic<bool>> stop;
    };
    Run* mutableFind(RunId id);
    RunId append(Run run);
    void start(RunId id, Work work);
    void finish(RunId id, std::shared_ptr<const RunData> data);
    bool giveUp(RunId id); // false: there was nothing under way

    std::vector<Run> runs_;
    std::map<RunId, Job> jobs_;
    QThreadPool pool_; // its own: whoever else works in the background need not wait
    RunId next_ = 1;
};

} // namespace orrery
