// `simexec check SCENARIO.json`: predict a step, run it, and set the two side by side: times by op kind and queue, memory.
#include "exec/local/timeline.hpp"
#include "exec/runtime/machine.hpp"
#include "exec/simexec/command.hpp"
#include "sim/compare/compare.hpp"

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <algorithm>

namespace orrery::simexec {
namespace {

// Ops come in the same order in every step of the serial executor: of each, the median times.
std::vector<OpTime> median_of(std::vector<std::vector<OpTime>> steps) {
    std::vector<OpTime> result = steps[0];
    std::vector<std::int64_t> cpu, wall;
    for (std::size_t i = 0; i < result.size(); ++i) {
        cpu.clear();
        wall.clear();
        for (const auto& s : steps) {
            cpu.push_back(s[i].cpu);
            wall.push_back(s[i].end - s[i].begin);
        }
        const auto middle = static_cast<std::ptrdiff_t>(cpu.size() / 2);
        std::nth_element(cpu.begin(), cpu.begin() + middle, cpu.end());
        std::nth_element(wall.begin(), wall.begin() + middle, wall.end());
        result[i].cpu = cpu[static_cast<std::size_t>(middle)];
        result[i].end = result[i].begin + wall[static_cast<std::size_t>(middle)];
    }
    return result;
}

Trace measure(const Scenario& scenario, int steps, const Options& options) {
    const auto world = make_world(scenario, DType::fp32);
    initialise(*world);
    const auto executor = serial_executor(*world);
    const Corpus corpus{"", scenario.model.vocab_size, scenario.training.seed};
    std::vector<std::vector<OpTime>> records;
    Progress progress(options);
    for (int i = 0; i <= steps; ++i) {   // the first warms up
        load_batch(*world, corpus, i);
        std::vector<OpTime> record;
        executor->step(&record);
        if (i > 0) records.push_back(std::move(record));
        progress.show(i, steps, "measuring");
    }
    return trace_of(*world, side_by_side(*world, median_of(std::move(records))),
                    fmt::format("measured: {}, ops timed one by one (thread CPU time, median of {} steps) and laid side by side, on {}", gemm_library(), steps, processor_name()));
}

// A calibrated cluster has a rank a core: as many as the scenario has ranks, each as it was measured alone.
std::optional<std::string> cluster_of(const std::string& file, int ranks) {
    const auto text = read_text(file);
    if (!text) return std::nullopt;
    auto json = nlohmann::ordered_json::parse(*text, nullptr, false);
    if (!json.is_object()) return complain(file + " is no cluster description"), std::nullopt;
    json["nodes"] = 1;
    json["devices_per_node"] = ranks;
    return "cluster=" + json.dump();
}

} // namespace

int run_check(const std::string& file, const Options& asked, const CheckOptions& how) {
    // What this executor is: its memory is the plan's own, and the thread that issues an op runs it (what that takes is under a microsecond).
    Options options = asked;
    options.overrides.insert(options.overrides.begin(), {"runtime.allocator=plan", "runtime.launch_us=0"});
    std::optional<Scenario> scenario = load(file, options);
    if (!scenario) return bad_input;
    if (!how.calibration.empty()) {
        const auto cluster = cluster_of(how.calibration, scenario->world_size());
        if (!cluster) return bad_input;
        Options here = options;
        here.overrides.push_back(*cluster);
        scenario = load(file, here);
        if (!scenario) return bad_input;
    }
    PredictOptions predicting;
    predicting.simulate.trace = true;
    const Prediction predicted = predict(*scenario, predicting);
    if (!predicted.simulation.trace) throw std::runtime_error("the simulator recorded no trace");
    const Trace measured = measure(*scenario, how.steps, options);
    if (!how.trace.empty()) save(measured, how.trace);
    const Comparison c = compare(*predicted.simulation.trace, measured);
    const bool json = options.json || options.output.ends_with(".json");
    return deliver(json ? to_json(c) : to_text(c, how.worst, output_style(options)), options) ? done : bad_input;
}

} // namespace orrery::simexec
