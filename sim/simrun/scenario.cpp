// `simrun SCENARIO.json`: simulate it, print its report. Several scenarios: one table.
#include "sim/advise/advise.hpp"
#include "sim/federated/federated.hpp"
#include "sim/job/whole_run.hpp"
#include "sim/search/replan.hpp"
#include "sim/simrun/command.hpp"
#include "sim/trace/critical_path.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <filesystem>

namespace orrery::simrun {

namespace {

double seconds_since(std::chrono::steady_clock::time_point begin) {
    return std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
}

// -v: where each default came from, the largest buffers, the busiest links, what the simulation did.
std::string details(const Prediction& p, const Scenario& scenario, double took, const TextStyle& style) {
    std::string text = "\n" + paint("Largest buffers at the peak", Ink::bold, style) + "\n";
    Table buffers{{"buffers", "alive", "GB (1e9)"}, {false, true, true}, {}};
    for (const LiveBuffer& b : fullest(p.report.memory).largest) {
        buffers.rows.push_back({b.name, grouped(b.count), fmt::format("{:.3f}", b.bytes.gigabytes())});
    }
    text += to_text(buffers, style) + "\n" + paint("Defaults", Ink::bold, style) + "\n";
    Table defaults{{"field", "from"}, {false, false}, {}};
    for (const auto& [pointer, from] : scenario.defaults) defaults.rows.push_back({pointer, from});
    const SimulationStats& s = p.simulation.stats;
    return text + to_text(defaults, style) +
           fmt::format("\n{} events, {} ops replayed, {} lanes, {} steps, in {}\n", grouped(static_cast<std::int64_t>(s.events)),
                       grouped(static_cast<std::int64_t>(s.replayed_ops)), s.lanes, s.steps, seconds_text(took));
}

// The time on the critical path by kind of op.
std::string critical(const Trace& trace, double step_s, const TextStyle& style) {
    double all = 0;
    std::vector<std::pair<double, std::string>> sorted;
    for (const auto& [kind, seconds] : seconds_on_path(trace, step_s, [](const Trace&t, const Span&s) { return t.ops[s.op].kind; })) {
        all += seconds;
        if (seconds > 0) sorted.emplace_back(-seconds, kind);
    }
    std::ranges::sort(sorted);
    Table table{{"kind of op", "time", "share"}, {false, true, true}, {}};
    for (const auto& [seconds, kind] : sorted)
        table.rows.push_back({kind, seconds_text(-seconds), fmt::format("{:.1f} %", -seconds / all * 100)});
    return "\n" + paint("Critical path of a step", Ink::bold, style) +
           fmt::format("  {}{}\n", seconds_text(all),
                       all > 1.001 * step_s ? ": ranks, or the end of a step and the next step, lie side by side" : "") +
           to_text(table, style);
}

bool save_trace(const Simulation& simulation, const std::string& path) {
    if (!simulation.trace) {
        complain("the simulator recorded no trace");
        return false;
    }
    try {
        if (path.ends_with(".json"))
            export_perfetto(*simulation.trace, path);
        else
            save(*simulation.trace, path);
        return true;
    } catch (const std::exception& e) {
        complain(e.what());
        return false;
    }
}

// report.json with another member, the last.
std::string with_member(std::string report, const std::string& name, const std::string& value) {
    report.erase(report.rfind('}'));
    while (!report.empty() && report.back() == '\n') report.pop_back();
    return report + ",\n  \"" + name + "\": " + value + "\n}\n";
}

// The report of a step, and of the whole run or the rounds where the scenario has them: of a job that does not fit, that they were not
// simulated.
std::string report_text(const Scenario& scenario, const Prediction& p, bool json, const TextStyle& style, const WholeRunOptions& how) {
    const std::string text = json ? to_json(p.report) : to_text(p.report, scenario, style);
    if (!scenario.run && !scenario.federated) return text;
    const char* const member = scenario.run ? "run" : "federated";
    if (!p.report.memory.fits || !why_saves_do_not_fit(scenario, p.report).empty())
        return json ? with_member(text, member,
                                  p.report.memory.fits ? R"({"simulated": false, "reason": "its saves do not fit"})"
                                                       : R"({"simulated": false, "reason": "the job does not fit"})")
                    : text + "\n" + paint(scenario.run ? "The whole run" : "Federated learning", Ink::bold, style) +
                          (p.report.memory.fits
                               ? "  was not simulated: " + why_saves_do_not_fit(scenario, p.report) + "\n"
                               : "  was not simulated: the job does not fit. Make it fit first (simrun search, or more nodes)\n");
    if (scenario.federated) {
        const FederatedReport r = federated(*scenario.federated, federated_task(scenario, p.report.step_time_s), scenario.training.seed);
        return json ? with_member(text, member, to_json(r)) : text + to_text(r, scenario, style);
    }
    const WholeRunReport run = whole_run(scenario, p, how);
    return json ? with_member(text, member, to_json(run)) : text + to_text(run, scenario, style);
}

// Whole runs side by side, of the scenarios that have one.
Table table_of_runs() { return {{"the whole run", "goodput", "days", "tokens", "USD"}, {false, true, true, true, true}, {}}; }
std::vector<std::string> row_of_run(const Scenario& scenario, const Prediction& p, const Options& options) {
    const std::string name = clip(scenario.name, 40);
    if (!why_it_does_not_fit(scenario, p.report).empty()) return {name, "does not fit", "", "", ""};
    const RunFigures run = run_figures(scenario, p, {options.jobs, {}});
    if (run.finished < 1) return {name, "comes to no end", "", "", ""};
    return {name, fmt::format("{:.2f} %", run.goodput * 100), fmt::format("{:.1f}", run.wall_s / 86400), metric(run.tokens, 3),
            run.cost_usd > 0 ? metric(run.cost_usd, 3) : "not known"};
}

} // namespace

std::string why_it_does_not_fit(const Scenario& scenario, const Report& report) {
    return report.memory.fits ? why_saves_do_not_fit(scenario, report) : why_not(report.memory);
}

Replan replan_of(const std::string& file, const Options& options) {
    const auto text = read_input(file);
    if (!text) return {};
    ParseOptions parsing;
    parsing.base_dir = std::filesystem::path(file).parent_path().string();
    parsing.overrides = options.overrides;
    parsing.constants = options.constants;
    return replan_by_search(whole_text(*text, parsing), parsing, options.jobs);
}

int run_scenario(const std::string& file, const Options& options, const ScenarioOptions& how) {
    const std::optional<Scenario> scenario = load(file, options);
    if (!scenario) return bad_input;
    PredictOptions predicting;
    predicting.simulate.fold = how.fold;
    predicting.simulate.replay = how.replay;
    // As long as the prediction itself several times; what was learned needs them for its interval.
    predicting.shares = options.verbose || (options.constants && options.constants->holds_learned());
    const bool json = options.json || options.output.ends_with(".json");
    predicting.cache = json ? CacheOf::all : options.quiet && options.output.empty() ? CacheOf::no_stage : CacheOf::fullest;
    if (json || !options.quiet || !options.output.empty()) predicting.shares_up_to = interval_shares;
    predicting.simulate.trace = !how.trace.empty() || (options.verbose && !json);
    predicting.simulate.only_small_traces = how.trace.empty();
    const auto begin = std::chrono::steady_clock::now();
    Prediction p = naming(file, [&] { return predict(*scenario, predicting); });
    if (scenario->run && !p.report.memory.fits)
        p.report.notes.emplace_back("the whole run is not simulated, as its step does not fit in memory");
    const double took = seconds_since(begin);
    if (!how.trace.empty() && !save_trace(p.simulation, how.trace)) return bad_input;
    TextStyle style = output_style(options);
    style.detailed = options.verbose;
    std::string text = naming(file, [&] { return report_text(*scenario, p, json, style, {options.jobs, replan_of(file, options)}); });
    if (options.verbose && !json && p.simulation.trace) text += critical(*p.simulation.trace, p.report.step_time_s, style);
    if (options.verbose && !json) text += details(p, *scenario, took, style);
    if ((json || !options.quiet || !options.output.empty()) && !deliver(text, options)) return bad_input;
    const std::string why = why_it_does_not_fit(*scenario, p.report);
    if (why.empty()) return done;
    complain(file + " does not fit: " + why);
    if (!options.quiet && !p.report.memory.fits) hint_at_way_out(file, options);
    return too_big;
}

void drop_column(Table& table, const std::string& title) {
    const auto column = std::ranges::find(table.header, title) - table.header.begin();
    table.header.erase(table.header.begin() + column);
    table.right.erase(table.right.begin() + column);
    for (auto& cells : table.rows) cells.erase(cells.begin() + column);
}

int run_scenarios(const std::vector<std::string>& files, const Options& options) {
    Table table{{"scenario", "devices", "step time", "80 % interval", "tokens/s", "MFU", "bubble", "stragglers", "peak memory", "fits"},
                {false, true, true, true, true, true, true, true, true, false},
                {}};
    const TextStyle style = output_style(options);
    Table runs = table_of_runs();
    std::string json;
    int code = done;
    bool stragglers = false;
    std::vector<std::pair<std::string, std::string>> too_large; // a file, and its saves' reason or ""
    for (const std::string& file : files) {
        const std::optional<Scenario> scenario = load(file, options);
        if (!scenario) return bad_input;
        PredictOptions predicting;
        predicting.cache = options.json ? CacheOf::all : CacheOf::no_stage;
        predicting.shares_up_to = interval_shares;
        const Prediction p = naming(file, [&] { return predict(*scenario, predicting); });
        const Report& r = p.report;
        const std::string saves = r.memory.fits ? why_saves_do_not_fit(*scenario, r) : "";
        const bool fits = r.memory.fits && saves.empty();
        if (!fits) code = too_big, too_large.emplace_back(file, saves);
        if (options.json)
            json += (json.empty() ? "[\n" : ",\n") + naming(file, [&] {
                        return report_text(*scenario, p, true, style, {options.jobs, replan_of(file, options)});
                    });
        if (scenario->run && !options.json) runs.rows.push_back(naming(file, [&] { return row_of_run(*scenario, p, options); }));
        const double waits = r.breakdown_s[Category::straggler_wait] / r.step_time_s;
        stragglers = stragglers || waits >= 0.0005; // as printed
        table.rows.push_back({clip(r.name, 40), grouped(r.world_size), seconds_text(r.step_time_s), to_text(r.error_bar.interval),
                              metric(r.tokens_per_s, 3), fmt::format("{:.1f} %", r.mfu * 100),
                              fmt::format("{:.1f} %", r.bubble_fraction * 100), fmt::format("{:.1f} %", waits * 100),
                              fmt::format("{:.1f} of {:.1f} GB", fullest(r.memory).peak.gigabytes(), r.memory.capacity.gigabytes()),
                              paint(std::string(fits ? "yes" : "no") + (r.narrow() ? ", narrowly" : ""),
                                    !fits        ? Ink::red
                                    : r.narrow() ? Ink::yellow
                                                 : Ink::green,
                                    style)});
    }
    if (options.quiet && !options.json && options.output.empty()) return code;
    if (!stragglers) drop_column(table, "stragglers");
    const std::string text = to_text(table, style) + (runs.rows.empty() ? "" : "\n" + to_text(runs, style));
    if (!deliver(options.json ? json + "]\n" : text, options)) return bad_input;
    for (const auto& [file, saves] : too_large) {
        complain(file + " does not fit" + (saves.empty() ? "" : ": " + saves));
        if (saves.empty()) hint_at_way_out(file, options);
    }
    return code;
}

} // namespace orrery::simrun
