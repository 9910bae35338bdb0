// `simexec replay SCENARIO.json --rank R`: one rank of a job of any size, its kernels for real, its communication as predicted delays.
#include "exec/local/replay.hpp"
#include "exec/local/timeline.hpp"
#include "exec/runtime/machine.hpp"
#include "exec/simexec/gpu.hpp"
#include "exec/simexec/outputs.hpp"
#include "sim/compare/compare.hpp"

#include <fmt/format.h>

#include <algorithm>

namespace orrery::simexec {
namespace {

constexpr int most_unfolded = 256; // ranks simulated one by one: so that each has its own lane

// Steps of a replay have the same ops in the same order: of each the median length, and the timeline of the step whose total is the median.
std::vector<OpTime> middle_of(std::vector<std::vector<OpTime>> steps) {
    const auto end = [](const std::vector<OpTime>& s) {
        std::int64_t last = 0;
        for (const OpTime& t : s) last = std::max(last, t.end);
        return last;
    };
    std::sort(steps.begin(), steps.end(), [&](const auto& a, const auto& b) { return end(a) < end(b); });
    return steps[steps.size() / 2];
}

} // namespace

int run_replay(const std::string& file, const Options& asked, const ReplayOptions& how) {
    Options options = asked; // as in `check`: memory is the plan's own
    options.overrides.insert(options.overrides.begin(), "runtime.allocator=plan");
    const std::optional<Scenario> scenario = load(file, options, true);
    if (!scenario) return bad_input;
    const int ranks = scenario->world_size();
    if (how.rank < 0 || how.rank >= ranks) return refuse(fmt::format("--rank {}: the scenario has ranks 0 to {}", how.rank, ranks - 1));
    if (const std::string why = why_unwritable({{"-o", options.output}, {"--trace", how.trace}}); !why.empty()) return refuse(why);
    const Plan plan = executed_plan(*scenario);
    PredictOptions predicting;
    predicting.simulate.trace = true;
    predicting.simulate.fold = ranks > most_unfolded;
    const Prediction predicted = predict(*scenario, plan, predicting);
    if (!predicted.simulation.trace) throw std::runtime_error("the simulator recorded no trace");
    const int stage = plan.mesh.coordinates(how.rank)[Axis::pp];
    const StageMemory& needed = predicted.report.memory.stages[stage];
    if (how.device == "cpu" && static_cast<double>(needed.allocated_peak.count) > 0.8 * static_cast<double>(physical_memory()))
        throw OutOfMemory(
            fmt::format("rank {} needs {} bytes, and this machine has {}: try a smaller training.micro_batch_size, or more ranks", how.rank,
                        grouped(needed.allocated_peak.count), grouped(physical_memory())));
    const bool gpu = how.device == "cuda";
    const auto world = make_world(*scenario, plan, gpu ? stored_on_gpu(*scenario) : DType::fp32, {how.rank});
    world->facts.forced_routing = scenario->model.moe.has_value(); // what others' routers send is not known: experts take rows evenly
    const Rank& rank = world->rank(how.rank);
    const Lane& lane = lane_of(*predicted.simulation.trace, how.rank, rank.stage);
    initialise(*world);
    load_batch(*world, {"", scenario->model.vocab_size, scenario->training.seed}, 0);
    Progress progress(options);
    std::vector<OpTime> times;
    std::string on;
    const std::vector<Delay> delays = predicted_delays(*world, rank, lane);
    if (gpu) { // its queues stand still for as long
        std::vector<std::int64_t> ns;
        for (const Delay& d : delays) ns.push_back(d.wait + d.move);
        const Measured m =
            measure_on_gpu(*world, {"", scenario->model.vocab_size, scenario->training.seed}, how.steps, std::move(ns), progress);
        times = m.times;
        begin_with_moves(times, delays);
        on = m.on;
    } else {
        const auto executor = replay_executor(*world, delays);
        std::vector<std::vector<OpTime>> records;
        for (int i = 0; i <= how.steps; ++i) { // the first warms up
            std::vector<OpTime> record;
            executor->step(&record);
            if (i > 0) records.push_back(std::move(record));
            progress.show(i, how.steps, "replaying");
        }
        times = middle_of(std::move(records));
        on = fmt::format("{}, thread CPU time, on {}", gemm_library(), processor_name());
    }
    const Trace measured =
        trace_of(*world, times, fmt::format("measured: rank {} of {} replayed ({}), others' part as predicted", how.rank, ranks, on));
    if (!how.trace.empty()) write_trace_file(measured, how.trace, how.trace);
    Comparison c = compare(alone(*predicted.simulation.trace, lane), measured);
    if (lane.rank != how.rank) c.notes.push_back(fmt::format("predicted: rank {}, which stands for {} alike", lane.rank, lane.ranks));
    const bool json = options.json || options.output.ends_with(".json");
    return deliver(json ? to_json(c, how.worst) : to_text(c, how.worst < 0 ? worst_shown : how.worst, output_style(options)), options);
}

} // namespace orrery::simexec
