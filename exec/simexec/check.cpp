// `simexec check SCENARIO.json ..`: predict a step, run it, and set the two side by side: times by op kind and queue, memory. Of several
// scenarios a table, and how far off they are in the middle.
#include "exec/executors/executors.hpp"
#include "exec/local/timeline.hpp"
#include "exec/runtime/machine.hpp"
#include "exec/simexec/gpu.hpp"
#include "exec/simexec/merged.hpp"
#include "exec/simexec/others.hpp"
#include "exec/simexec/outputs.hpp"
#include "exec/simexec/training.hpp"
#include "sim/compare/compare.hpp"

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <functional>
#include <unistd.h>

namespace orrery::simexec {
namespace {

constexpr double patience = 60; // seconds that a rank may take without any progress

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
        result[i].cpu = cpu[middle];
        result[i].end = result[i].begin + wall[middle];
    }
    return result;
}

// The times of the ops of each step, after a step that warms up. Calls show(step) after each.
std::vector<std::vector<OpTime>> timed_steps(World& world, const Scenario& scenario, Executor& executor, int steps,
                                             const std::function<void(int)>& show) {
    const Corpus corpus{"", scenario.model.vocab_size, scenario.training.seed};
    std::vector<std::vector<OpTime>> records;
    for (int i = 0; i <= steps; ++i) {
        load_batch(world, corpus, i * world.plan.steps);
        std::vector<OpTime> record;
        executor.step(&record);
        if (i > 0) records.push_back(std::move(record));
        show(i);
    }
    return records;
}

Trace measure(const Scenario& scenario, int steps, const Options& options) {
    const auto world = make_world(scenario, routed_plan(scenario), DType::fp32);
    initialise(*world);
    const auto executor = serial_executor(*world);
    Progress progress(options);
    std::vector<std::vector<OpTime>> records =
        timed_steps(*world, scenario, *executor, steps, [&](int i) { progress.show(i, steps, "measuring"); });
    return trace_of(
        *world, side_by_side(*world, median_of(std::move(records))),
        fmt::format(
            "measured: {}, ops timed serially (thread CPU time, median of {} steps), then arranged as if ranks ran in parallel, on {}",
            gemm_library(), steps, processor_name()));
}

// The prediction gives each rank a core; this says where ranks share them.
std::string who_shares(const std::string& executor, int ranks) {
    RunOptions how;
    how.executor = executor;
    return shared_cores(cores_of(how, ranks));
}

// Ranks run beside each other, in threads of their own or as devices with queues: a step as it was by the clock, the middle one.
Trace measure_together(const Scenario& scenario, const std::string& executor, int steps, const Options& options) {
    const auto world = make_world(scenario, routed_plan(scenario), DType::fp32);
    initialise(*world);
    const auto running = make_executor(executor, *world, {patience, give_up});
    Progress progress(options);
    const std::vector<std::vector<OpTime>> records =
        timed_steps(*world, scenario, *running, steps, [&](int i) { progress.show(i, steps, "measuring"); });
    return trace_of(*world, records[middle_step(records, nullptr)],
                    fmt::format("measured: {}, {} executor, ranks beside each other in one process, the median of {} steps, on {}{}",
                                gemm_library(), executor, steps, processor_name(), who_shares(executor, scenario.world_size())));
}

// The process of one rank under mpirun: at rank 0 the trace of all, elsewhere nothing.
std::optional<Trace> measure_across(const Scenario& scenario, int steps, const Options& options) {
    const OrreryTransport& transport = open_transport("leave out --executor mpi");
    if (transport.size != scenario.world_size())
        throw std::runtime_error(fmt::format("the scenario has {}, and the job has {}: mpirun -n {} simexec check ..",
                                             counted(scenario.world_size(), "rank"), counted(transport.size, "process"),
                                             scenario.world_size()));
    const Others others = over(transport, patience);
    std::unique_ptr<Heartbeats> heartbeats = heartbeats_of(transport, patience);
    const auto world = make_world(scenario, routed_plan(scenario), DType::fp32, {transport.rank});
    if (options.verbose) std::fputs(fmt::format("rank {} is process {}\n", transport.rank, getpid()).c_str(), stderr);
    const auto executor = processes_executor(*world, transport, patience);
    std::optional<Trace> trace;
    or_end_all(transport, others, [&] {
        agree_on_terms(others, {{"program version", term(ORRERY_VERSION)},
                                {"plan", static_cast<std::int64_t>(hash(world->plan))},
                                {"number of --steps", steps}});
        initialise(*world);
        Progress progress(options);
        const std::vector<std::vector<OpTime>> records = timed_steps(*world, scenario, *executor, steps, [&](int i) {
            if (transport.rank == 0) progress.show(i, steps, "measuring");
        });
        trace = merged_trace(*world, records[middle_step(records, &others)],
                             fmt::format("measured: {}, a process a rank ({}), the median of {} steps, on {}{}", gemm_library(),
                                         transport.library, steps, processor_name(), who_shares("mpi", transport.size)),
                             others);
    });
    heartbeats.reset();
    transport.finish();
    return trace;
}

std::optional<Trace> on_gpu(const std::string& file, const Scenario& scenario, const Options& options, const CheckOptions& how) {
    const std::optional<LaunchedRank> any = launched_rank(), launched = any && any->size > 1 ? any : std::nullopt;
    if (any && any->size > 1 && any->size != scenario.world_size())
        throw std::runtime_error(fmt::format("the scenario has {}, and {} started {}", counted(scenario.world_size(), "rank"), any->by,
                                             counted(any->size, "process")));
    const auto world = make_world(scenario, routed_plan(scenario), stored_on_gpu(scenario),
                                  launched ? std::vector<int>{launched->rank} : std::vector<int>{});
    initialise(*world);
    Progress progress(options);
    const Measured m = measure_on_gpu(*world, {"", scenario.model.vocab_size, scenario.training.seed}, how.steps, {}, progress, launched);
    if (!how.row.empty() && (!launched || launched->rank == 0)) {
        Options row = options;
        row.output = how.row;
        deliver(measured_row(file, options.overrides, m, std::filesystem::exists(how.row) ? read_text(how.row) : std::nullopt), row);
    }
    const std::string source =
        fmt::format("measured: a step with events (the median of {}; without them a step takes {:.6f} s) on {}", how.steps, m.step_s, m.on);
    if (m.others) return merged_trace(*world, m.times, source, *m.others);
    return trace_of(*world, m.times, source);
}

} // namespace

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

namespace {

struct Checked {
    Comparison comparison;
    bool elsewhere = false; // rank 0's process says what came out
    double compute_predicted = 0, compute_measured = 0;
};

// Nothing where the scenario, or the calibration, has problems: they have been printed.
std::optional<Checked> check_one(const std::string& file, const Options& options, const CheckOptions& how) {
    std::optional<Scenario> scenario = load(file, options);
    if (!scenario) return std::nullopt;
    if (!how.calibration.empty()) {
        const auto cluster = cluster_of(how.calibration, scenario->world_size());
        if (!cluster) return std::nullopt;
        Options here = options;
        here.overrides.push_back(*cluster);
        scenario = load(file, here);
        if (!scenario) return std::nullopt;
    }
    if (how.device == "cuda" && scenario->cluster.device.launch_us < 0)
        scenario->cluster.device.launch_us = scenario->runtime.launch_us = gpu_issue_us;
    PredictOptions predicting;
    predicting.simulate.trace = true;
    const Prediction predicted = predict(*scenario, routed_plan(*scenario), predicting);
    if (!predicted.simulation.trace) throw std::runtime_error("the simulator recorded no trace");
    const std::optional<Trace> measured = how.device == "cuda"    ? on_gpu(file, *scenario, options, how)
                                          : how.executor == "mpi" ? measure_across(*scenario, how.steps, options)
                                          : how.executor == "serial"
                                              ? measure(*scenario, how.steps, options)
                                              : std::optional(measure_together(*scenario, how.executor, how.steps, options));
    if (!measured) return Checked{{}, true};
    if (!how.trace.empty()) write_trace_file(*measured, how.trace, how.trace);
    Checked c{compare(*predicted.simulation.trace, *measured)};
    for (const Pair& q : c.comparison.queues)
        if (q.name == "compute") c.compute_predicted = q.a.seconds, c.compute_measured = q.b.seconds;
    return c;
}

double error_of(double predicted, double measured) { return measured > 0 ? predicted / measured - 1 : 0; }

// A line a scenario, and the median of what they are off.
int check_many(const std::vector<std::string>& files, const Options& options, const CheckOptions& how) {
    Table table{{"scenario", "ranks", "compute predicted", "measured", "error", "step predicted", "measured", "error", "peak memory"},
                {false, true, true, true, true, true, true, true, false},
                {}};
    nlohmann::ordered_json json;
    std::vector<double> errors;
    bool shares = false;
    for (const std::string& file : files) {
        const auto checked = check_one(file, options, how);
        if (!checked) return bad_input;
        if (checked->elsewhere) continue;
        const Comparison& c = checked->comparison;
        const double compute = error_of(checked->compute_predicted, checked->compute_measured), step = error_of(c.a.step_s, c.b.step_s);
        shares = shares || (how.device == "cpu" && !who_shares(how.executor, c.b.ranks).empty());
        const bool same = !c.memory.empty() && c.memory.back().a == c.memory.back().b;
        errors.push_back(std::abs(compute));
        table.rows.push_back({c.a.name, fmt::format("{}", c.b.ranks), seconds_text(checked->compute_predicted),
                              seconds_text(checked->compute_measured), fmt::format("{:+.1f} %", 100 * compute), seconds_text(c.a.step_s),
                              seconds_text(c.b.step_s), fmt::format("{:+.1f} %", 100 * step), same ? "as predicted" : "not as predicted"});
        json["scenarios"].push_back({{"file", file},
                                     {"name", c.a.name},
                                     {"ranks", c.b.ranks},
                                     {"compute_predicted_s", checked->compute_predicted},
                                     {"compute_measured_s", checked->compute_measured},
                                     {"compute_error", compute},
                                     {"step_predicted_s", c.a.step_s},
                                     {"step_measured_s", c.b.step_s},
                                     {"step_error", step},
                                     {"memory_as_predicted", same}});
    }
    if (errors.empty()) return done; // elsewhere
    std::sort(errors.begin(), errors.end());
    const double median = errors.size() % 2 ? errors[errors.size() / 2] : (errors[errors.size() / 2 - 1] + errors[errors.size() / 2]) / 2;
    json["median_compute_error"] = median;
    const std::string text = to_text(table, output_style(options)) +
                             fmt::format("\ntime of computation: {:.1f} % off (median of {} scenarios)\n", 100 * median, errors.size()) +
                             (shares ? "where there are more ranks than cores here, measured times hold waits for a core\n" : "");
    return deliver(options.json || options.output.ends_with(".json") ? json.dump(2) + "\n" : text, options);
}

} // namespace

int run_check(const std::vector<std::string>& files, const Options& asked, const CheckOptions& how) {
    // Facts about this executor: its memory is the plan's own, and the thread that issues an op runs it (what that takes is under a
    // microsecond).
    Options options = asked;
    options.overrides.insert(options.overrides.begin(), "runtime.allocator=plan");
    if (how.device == "cpu") options.overrides.insert(options.overrides.begin(), "runtime.launch_us=0");
    if (how.device == "cuda" && (how.executor == "threads" || how.executor == "mpi"))
        return refuse("--device cuda checks with --executor queues, a GPU a rank: leave out --executor " + how.executor);
    if (how.executor == "mpi" && files.size() > 1) return refuse("--executor mpi checks one scenario a call");
    if (how.device == "cpu" && how.executor != "mpi")
        if (const std::string why = several_started("run"); !why.empty()) return refuse(why);
    if (const std::string why = why_unwritable({{"-o", options.output}, {"--trace", how.trace}, {"--row", how.row}}); !why.empty())
        return refuse(why);
    if (files.size() > 1) return check_many(files, options, how);
    const auto checked = check_one(files[0], options, how);
    if (!checked) return bad_input;
    if (checked->elsewhere) return done;
    const bool json = options.json || options.output.ends_with(".json");
    const std::string as = fmt::format("predicted as it runs here: runtime.allocator = plan{}\n",
                                       how.device == "cpu" ? ", runtime.launch_us = 0 (simrun alone takes the framework's)" : "");
    return deliver(json ? to_json(checked->comparison, how.worst)
                        : to_text(checked->comparison, how.worst < 0 ? worst_shown : how.worst, output_style(options)) + as,
                   options);
}

} // namespace orrery::simexec
