// `simrun export SCENARIO --to FORMAT`: a scenario's plan or simulated step for other programs. To add a format: a function and a line of
// the table.
#include "sim/job/whole_run.hpp"
#include "sim/plan/lower.hpp"
#include "sim/report/loose.hpp"
#include "sim/simrun/command.hpp"
#include "sim/simrun/dot.hpp"
#include "sim/simrun/workers_csv.hpp"

#include "sim/scenario/suggest.hpp"

#include <fmt/format.h>

#include <cstdio>
#include <filesystem>
#include <functional>

namespace orrery::simrun {

namespace {

int export_trace(const Scenario& scenario, const std::string& file, const Options& options) {
    const std::string path = options.output.empty() ? std::filesystem::path(file).stem().string() + ".perfetto.json" : options.output;
    PredictOptions predicting;
    predicting.simulate.trace = true;
    const Prediction p = naming(file, [&] { return predict(scenario, predicting); });
    if (!p.simulation.trace) {
        complain("the simulator recorded no trace");
        return our_bug;
    }
    export_perfetto(*p.simulation.trace, path);
    if (!options.quiet) std::fputs(fmt::format("{}: open it at ui.perfetto.dev\n", path).c_str(), stderr);
    return done;
}

int export_dot(const Scenario& scenario, const std::string& file, const Options& options) {
    return deliver(to_dot(naming(file, [&] { return lower(scenario); })), options) ? done : bad_input;
}

// The timeline of the whole run: states, restarts, saves, evaluations of the first simulated run.
int export_run(const Scenario& scenario, const std::string& file, const Options& options,
               const std::function<int(const WholeRunReport&)>& write) {
    if (!scenario.run) {
        complain(file + " is of one step: give it \"run\", as in {\"run\": {\"days\": 30}}, to export a run's timeline");
        return bad_input;
    }
    const Prediction p = naming(file, [&] { return predict(scenario); });
    if (const std::string why = why_it_does_not_fit(scenario, p.report); !why.empty()) {
        complain(file + " does not fit, so that there is no run to export: " + why);
        return too_big;
    }
    return write(naming(file, [&] { return whole_run(scenario, p, {options.jobs, {}}); }));
}
int export_run_perfetto(const Scenario& scenario, const std::string& file, const Options& options) {
    return export_run(scenario, file, options,
                      [&](const WholeRunReport& r) { return deliver(timeline_perfetto(r), options) ? done : bad_input; });
}
int export_run_csv(const Scenario& scenario, const std::string& file, const Options& options) {
    return export_run(scenario, file, options,
                      [&](const WholeRunReport& r) { return deliver(timeline_csv(r), options) ? done : bad_input; });
}
int export_run_trace(const Scenario& scenario, const std::string& file, const Options& options) {
    const std::string path = options.output.empty() ? std::filesystem::path(file).stem().string() + ".run.trace" : options.output;
    return export_run(scenario, file, options, [&](const WholeRunReport& r) {
        save(timeline_trace(r), path);
        if (options.quiet) return done;
        std::fputs(fmt::format("{}: open it with simgui\n", path).c_str(), stderr);
        if (r.example.wall_s > longest_timeline_s)
            std::fputs(fmt::format("a trace ends after {:.0f} days; this run takes {:.0f}: --to run-perfetto or run-csv has all of it\n",
                                   longest_timeline_s / 86400, r.example.wall_s / 86400)
                           .c_str(),
                       stderr);
        return done;
    });
}

// A few steps of workers that meet servers or peers as they please, or the first rounds of federated clients, as simgui draws them.
int export_workers(const Scenario& scenario, const std::string& file, const Options& options) {
    constexpr int steps = 6, most_workers = 64, rounds = 4;
    if (!scenario.strategy.loose() && !scenario.federated) {
        complain(file + " has no workers that meet as they please: give it strategy.synchronization.kind parameter_server, gossip or "
                        "async_average, or \"federated\"");
        return bad_input;
    }
    const Plan plan = naming(file, [&] { return lower(scenario); });
    const Prediction p = naming(file, [&] { return predict(scenario, plan, {}); });
    if (!p.report.memory.fits) {
        complain(file + " does not fit, so that there are no workers to export: " + why_not(p.report.memory));
        return too_big;
    }
    if (scenario.federated) {
        const FederatedTask task = federated_task(scenario, p.report.step_time_s);
        return deliver(to_csv(federated(*scenario.federated, task, scenario.training.seed, rounds).example), options) ? done : bad_input;
    }
    const LooseRecord record = record_workers(scenario, plan, p.simulation.step_time.seconds(), steps, most_workers, {});
    return deliver(to_csv(record), options) ? done : bad_input;
}

struct Exporter {
    const char* name;
    const char* what; // for --help
    int (*run)(const Scenario& scenario, const std::string& file, const Options& options);
};
constexpr Exporter exporters[] = {
    {"perfetto", "the simulated step as a trace for ui.perfetto.dev", export_trace},
    {"run-perfetto", "the timeline of a whole run (\"run\") for ui.perfetto.dev", export_run_perfetto},
    {"run-csv", "the same as a table", export_run_csv},
    {"run-trace", "the same as a trace that simgui opens", export_run_trace},
    {"workers-csv", "steps of workers with servers or peers, or rounds of federated clients, as a table", export_workers},
    {"dot", "the plan's op graphs for Graphviz", export_dot},
};

} // namespace

std::vector<std::string> export_formats() {
    std::vector<std::string> names;
    for (const Exporter& e : exporters) names.emplace_back(e.name);
    return names;
}

std::string export_help() {
    std::string text;
    for (const Exporter& e : exporters) text += fmt::format("{}{}: {}", text.empty() ? "" : "; ", e.name, e.what);
    return text;
}

int run_export(const std::string& file, const std::string& to, const Options& options) {
    for (const Exporter& e : exporters) {
        if (to != e.name) continue;
        const std::optional<Scenario> scenario = load(file, options);
        return scenario ? e.run(*scenario, file, options) : bad_input;
    }
    const auto meant = nearest(to, export_formats());
    complain(fmt::format("cannot export to {}{}: choose {}", to, meant ? " (did you mean " + *meant + "?)" : "", join(export_formats())));
    return bad_input;
}

} // namespace orrery::simrun
