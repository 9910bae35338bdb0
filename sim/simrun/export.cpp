// `simrun export SCENARIO --to FORMAT`: a scenario's plan or simulated step for other programs. To add a format: a function and a line of
// the table.
#include "sim/plan/lower.hpp"
#include "sim/simrun/command.hpp"
#include "sim/simrun/dot.hpp"

#include "sim/scenario/suggest.hpp"

#include <fmt/format.h>

#include <cstdio>
#include <filesystem>

namespace orrery::simrun {

namespace {

int export_trace(const Scenario& scenario, const std::string& file, const Options& options) {
    const std::string path = options.output.empty() ? std::filesystem::path(file).stem().string() + ".perfetto.json" : options.output;
    PredictOptions predicting;
    predicting.simulate.trace = true;
    const Prediction p = predict(scenario, predicting);
    if (!p.simulation.trace) {
        complain("the simulator recorded no trace");
        return our_bug;
    }
    export_perfetto(*p.simulation.trace, path);
    if (!options.quiet) std::fputs(fmt::format("{}: open it at ui.perfetto.dev\n", path).c_str(), stderr);
    return done;
}

int export_dot(const Scenario& scenario, const std::string&, const Options& options) {
    return deliver(to_dot(lower(scenario)), options) ? done : bad_input;
}

struct Exporter {
    const char* name;
    const char* what; // for --help
    int (*run)(const Scenario& scenario, const std::string& file, const Options& options);
};
constexpr Exporter exporters[] = {
    {"perfetto", "the simulated step as a trace for ui.perfetto.dev", export_trace},
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
