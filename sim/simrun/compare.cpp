// `simrun compare A B`: two runs side by side, each a trace file or a scenario, which is simulated.
#include "sim/compare/compare.hpp"
#include "sim/plan/in_flight.hpp"
#include "sim/plan/lower.hpp"
#include "sim/simrun/command.hpp"
#include "sim/trace/format.hpp"

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <stdexcept>

namespace orrery::simrun {

namespace {

std::string head_of(const std::string& file) {
    // A pipe may never end, nor some files of /proc, which say that they have no bytes: what reads the scenario refuses both.
    std::error_code unknown;
    if (!std::filesystem::is_regular_file(file, unknown) || std::filesystem::file_size(file, unknown) == 0) return {};
    std::ifstream in(file, std::ios::binary);
    std::string head(256, '\0');
    in.read(head.data(), static_cast<std::streamsize>(head.size()));
    head.resize(in.gcount());
    return head;
}

bool is_trace(const std::string& file) { return head_of(file).starts_with(trace_file::magic); }

// Names the kind of a file that is neither a trace nor a scenario; nothing if it may be a scenario.
std::string other_than_scenario(const std::string& head) {
    if (head.find("\"whole run\"") != std::string::npos || head.starts_with("begin_day,end_day,"))
        return "the timeline of a whole run cannot be compared in this form: simrun export --to run-trace writes one that can, and simrun "
               "A.json "
               "B.json prints the runs of two scenarios side by side";
    if (head.find("\"traceEvents\"") != std::string::npos)
        return "a trace for ui.perfetto.dev cannot be compared: write it once more with --trace and a name that does not end in .json";
    const auto first = head.find_first_not_of(" \t\r\n", head.starts_with("\xEF\xBB\xBF") ? 3 : 0); // Windows' mark of UTF-8
    return first != std::string::npos && head[first] != '{' && head[first] != '[' ? "is neither a trace nor a scenario (a JSON object)"
                                                                                  : "";
}

// A run: of a scenario there is a report, too.
struct Run {
    Trace trace;
    std::optional<Report> report;
};

// The scenario's plan; of a trace that the runtime wrote, with what is in flight bounded as it was there.
Plan plan_like(const Scenario& scenario, std::optional<std::uint64_t> traced) {
    Plan plan = lower(scenario);
    if (!traced || hash(plan) == *traced) return plan;
    Plan bounded = bound_flight(plan);
    return hash(bounded) == *traced ? bounded : plan;
}

std::optional<Run> run_of(const std::string& file, const Options& options, std::optional<std::uint64_t> traced) {
    const std::string head = head_of(file);
    if (head.starts_with(trace_file::magic)) {
        try {
            return Run{load_trace(file), std::nullopt};
        } catch (const std::runtime_error& e) {
            complain(std::string(e.what()) + "; write it once more (simrun job.json --trace, simexec run --trace)");
            return std::nullopt;
        }
    }
    if (const std::string what = other_than_scenario(head); !what.empty()) {
        complain(file + ": " + what);
        return std::nullopt;
    }
    const std::optional<Scenario> scenario = load(file, options);
    if (!scenario) return std::nullopt;
    PredictOptions predicting;
    predicting.cache = CacheOf::all;
    predicting.simulate.trace = true;
    predicting.shares_up_to = 1'000'000; // the interval of the difference rests on them
    Prediction p = naming(file, [&] { return predict(*scenario, plan_like(*scenario, traced), predicting); });
    if (!p.simulation.trace) throw std::logic_error(file + ": the simulator recorded no trace");
    return Run{std::move(*p.simulation.trace), std::move(p.report)};
}

} // namespace

int run_compare(const std::vector<std::string>& files, int worst, const Options& options) {
    std::vector<Run> runs(2);
    std::optional<std::uint64_t> traced; // the plan of a trace
    std::vector<std::size_t> order{0, 1};
    if (!is_trace(files[0])) std::ranges::reverse(order); // a trace first: it says whose plan a scenario is compared with
    for (const std::size_t i : order) {
        auto run = run_of(files[i], options, traced);
        if (!run) return bad_input;
        if (is_trace(files[i])) traced = run->trace.plan_hash;
        runs[i] = std::move(*run);
    }
    const auto of_months = [](const Run& r) { return r.trace.source.find("whole run") != std::string::npos; };
    if (of_months(runs[0]) != of_months(runs[1])) {
        complain(fmt::format("{} is of a whole run, {} of one step: compare two runs (simrun export --to run-trace), or two steps",
                             files[of_months(runs[0]) ? 0 : 1], files[of_months(runs[0]) ? 1 : 0]));
        return bad_input;
    }
    Comparison c = compare(runs[0].trace, runs[1].trace);
    if (runs[0].report && runs[1].report) add_reports(c, *runs[0].report, *runs[1].report);
    int code = done;
    for (std::size_t i = 0; i < 2; ++i) {
        if (!runs[i].report || runs[i].report->memory.fits) continue;
        complain(files[i] + " does not fit: " + why_not(runs[i].report->memory) + "; its times are those if it did");
        if (!options.quiet) hint_at_way_out(files[i], options);
        code = too_big;
    }
    const bool json = options.json || options.output.ends_with(".json");
    if (options.quiet && !json && options.output.empty()) return code;
    return deliver(json ? to_json(c, worst) : to_text(c, worst < 0 ? 10 : worst, output_style(options)), options)
               ? code
               : static_cast<int>(bad_input);
}

} // namespace orrery::simrun
