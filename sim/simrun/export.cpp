// `simrun export SCENARIO --to perfetto|dot`: the simulated step, or the plan's op graphs, for other programs.
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

} // namespace

std::vector<std::string> export_formats() { return {"perfetto", "dot"}; }

int run_export(const std::string& file, const std::string& to, const Options& options) {
    if (to != "perfetto" && to != "dot") {
        const auto meant = nearest(to, export_formats());
        complain(
            fmt::format("cannot export to {}{}: choose {}", to, meant ? " (did you mean " + *meant + "?)" : "", join(export_formats())));
        return bad_input;
    }
    const std::optional<Scenario> scenario = load(file, options);
    if (!scenario) return bad_input;
    if (to == "perfetto") return export_trace(*scenario, file, options);
    return deliver(to_dot(lower(*scenario)), options) ? done : bad_input;
}

} // namespace orrery::simrun
