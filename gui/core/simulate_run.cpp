// From a scenario's text or a trace's file to a run, on whatever thread it is called.
#include "gui/core/run.hpp"
#include "gui/core/tr.hpp"
#include "gui/core/tracks.hpp"
#include "sim/advise/fix.hpp"
#include "sim/memory/ready.hpp"
#include "sim/plan/lower.hpp"
#include "sim/plan/weight_ages.hpp"
#include "sim/report/loose.hpp"
#include "sim/report/report.hpp"

#include <algorithm>
#include <utility>

namespace orrery {

namespace {

// Ranks begin a step apart: some before the moment that the trace counts from. Moved so that the first work of the step is at zero.
// Receives that were posted earlier still stay before it: nothing of the step happens there.
void count_from_first_work(Trace& trace) {
    const Time first = first_work(trace);
    if (first >= Time{}) return;
    const Time by = Time{} - first;
    trace.begin = trace.begin + by;
    trace.end = trace.end + by;
    for (Lane& lane : trace.lanes) {
        for (Span& s : lane.spans) s.begin = s.begin + by, s.end = s.end + by;
        for (MemorySample& m : lane.memory) m.at = m.at + by;
    }
}

void keep_trace(RunData& data, Trace trace, StopFlag stop) {
    data.trace = std::move(trace);
    data.tracks = std::make_shared<const TrackStore>(tracks_of(*data.trace, stop));
}

constexpr int steps_shown = 6, workers_shown = 64, rounds_shown = 4, tasks_shown = 2000;

// Workers that meet servers or peers as they please, and clients that are asked in rounds: what they do beside the step that the timeline
// has.
void follow_clients(RunData& data, double step_s, const SimulateOptions& options) {
    const Scenario& s = *data.scenario;
    if (s.strategy.loose() && step_s > 0) data.workers = record_workers(s, *data.plan, step_s, steps_shown, workers_shown, options);
    if (!s.federated || !data.report->memory.fits) return;
    const Federated& f = *s.federated;
    const bool stream = f.aggregation == Aggregation::fedbuff;
    const double asked = std::max(1.0, stream ? f.buffer : f.sampled * f.overcommit);
    const double most = stream ? rounds_shown * f.sampled / asked : rounds_shown;
    const int rounds = static_cast<int>(std::clamp(tasks_shown / asked, 1.0, std::max(1.0, most)));
    data.federated = federated(f, federated_task(s, data.report->step_time_s), s.training.seed, rounds);
}

// A scenario that would fit: by memory alone, so that it is there as one types.
std::string way_out(const RunData& data) {
    FixOptions fixing;
    fixing.trying.parsing.base_dir = data.base_dir;
    fixing.trying.jobs = 1;
    fixing.costs = false;
    fixing.most = 36;
    return to_text(cheapest_fix(data.scenario_json, fixing));
}

} // namespace

std::shared_ptr<const RunData> simulate_run(const std::string& scenario_json, const std::string& base_dir, const GoOn& go_on,
                                            StopFlag stop) {
    auto data = std::make_shared<RunData>();
    data->scenario_json = scenario_json;
    data->base_dir = base_dir;
    if (!go_on(tr("reading"))) return nullptr;
    try {
        ParseResult parsed = ready_scenario(scenario_json, {.base_dir = base_dir, .overrides = {}});
        data->problems = std::move(parsed.problems);
        data->scenario = std::move(parsed.scenario);
        if (!data->scenario || !data->problems.empty()) return data;
        const Scenario& scenario = *data->scenario;
        if (!go_on(tr("planning"))) return nullptr;
        data->plan = lower(scenario, stop);
        if (!go_on(tr("simulating"))) return nullptr;
        PredictOptions predicting;
        predicting.simulate.stop = stop;
        predicting.simulate.trace = predicting.simulate.only_small_traces = true;
        predicting.shares_up_to = interval_shares;
        predicting.cache = CacheOf::all;
        Prediction p = predict(scenario, *data->plan, predicting);
        Simulation& simulation = p.simulation;
        data->report = std::move(p.report);
        data->links = std::move(simulation.links);
        data->lane_of_rank = std::move(simulation.lane_of_rank);
        data->link_class = std::move(simulation.link_class);
        data->lanes = std::move(simulation.lanes);
        if (!data->report->memory.fits) data->way_out = way_out(*data);
        if (data->report->staleness.worst > 0)
            for (const Program& program : data->plan->programs) data->weight_ages.push_back(weight_ages(*data->plan, program));
        follow_clients(*data, simulation.step_time.seconds(), predicting.simulate);
        if (!go_on(tr("preparing the timeline"))) return nullptr;
        if (simulation.trace) count_from_first_work(*simulation.trace);
        if (simulation.trace) keep_trace(*data, std::move(*simulation.trace), stop);
        if (data->trace)
            for (const auto& [curve, space] : {std::pair{&data->host_memory, Space::host}, {&data->disk_memory, Space::nvme}})
                *curve = tier_curve(*data->trace, *data->plan, data->report->memory, data->lane_of_rank,
                                    std::max(1, scenario.cluster.devices_per_node), space);
    } catch (const Stopped&) { return nullptr; } catch (const std::exception& e) {
        data->problems.push_back({"", e.what()});
    }
    return data;
}

double step_seconds(const RunData& data) {
    if (data.report && data.report->step_time_s > 0) return data.report->step_time_s;
    return data.trace ? data.trace->step_s() : 0;
}

std::shared_ptr<const RunData> load_run_trace(const std::string& path, const GoOn& go_on, StopFlag stop) {
    if (!go_on(tr("reading"))) return nullptr;
    Trace trace = load_trace(path);
    count_from_first_work(trace);
    if (!go_on(tr("preparing the timeline"))) return nullptr;
    try {
        return run_of_trace(std::move(trace), stop);
    } catch (const Stopped&) { return nullptr; }
}

std::shared_ptr<const RunData> run_of_trace(Trace trace, StopFlag stop) {
    auto data = std::make_shared<RunData>();
    keep_trace(*data, std::move(trace), stop);
    return data;
}

} // namespace orrery
