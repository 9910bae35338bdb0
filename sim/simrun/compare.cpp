// `simrun compare A B`: two runs side by side, each a trace file or a scenario, which is simulated.
#include "sim/compare/compare.hpp"
#include "sim/simrun/command.hpp"
#include "sim/trace/format.hpp"

#include <algorithm>
#include <fstream>

namespace orrery::simrun {

namespace {

bool is_trace(const std::string& file) {
    std::ifstream in(file, std::ios::binary);
    std::string head(trace_file::magic.size(), '\0');
    in.read(head.data(), static_cast<std::streamsize>(head.size()));
    return in && head == trace_file::magic;
}

std::optional<Trace> trace_of(const std::string& file, const Options& options) {
    if (is_trace(file)) return load_trace(file);
    const std::optional<Scenario> scenario = load(file, options);
    if (!scenario) return std::nullopt;
    PredictOptions predicting;
    predicting.simulate.trace = true;
    Prediction p = predict(*scenario, predicting);
    if (!p.simulation.trace) throw std::logic_error(file + ": the simulator recorded no trace");
    return std::move(*p.simulation.trace);
}

} // namespace

int run_compare(const std::vector<std::string>& files, int worst, const Options& options) {
    std::vector<Trace> traces;
    for (const std::string& file : files) {
        auto trace = trace_of(file, options);
        if (!trace) return bad_input;
        traces.push_back(std::move(*trace));
    }
    const Comparison c = compare(traces[0], traces[1]);
    const bool json = options.json || options.output.ends_with(".json");
    if (options.quiet && !json && options.output.empty()) return done;
    return deliver(json ? to_json(c, worst) : to_text(c, worst < 0 ? 10 : worst, output_style(options)), options) ? done : bad_input;
}

} // namespace orrery::simrun
