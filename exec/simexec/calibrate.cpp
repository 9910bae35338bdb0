// `simexec calibrate`: measures this machine's kernels, copies and hand-overs; writes a cluster that scenarios take by name of the file.
#include "exec/calibrate/calibrate.hpp"
#include "exec/simexec/gpu.hpp"
#include "exec/simexec/supervised.hpp"
#include "exec/supervise/supervise.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <unistd.h>

namespace orrery::simexec {

namespace {

int calibrate_gpu(const Options& options, const CalibrateOptions& how) {
    std::string why_not;
    std::string on;
    {
        const auto gpu = open_cuda(0, why_not);
        if (!gpu) throw std::runtime_error("--device cuda: " + why_not);
        on = gpu->name();
    }
    const std::string preset = device_preset(on);
    Progress progress(options);
    SampleOptions sampling;
    sampling.steps = how.steps;
    sampling.progress = [&](std::size_t at, std::size_t total) {
        progress.show(static_cast<int>(at), static_cast<int>(total), "models trained");
    };
    sampling.stored = stored_on_gpu;
    sampling.executor = [&](World& world) {
        Fleet fleet = cuda_fleet(world, std::nullopt, 120);
        on = fleet.devices[0]->name() + ", " + fleet.software;
        return queues_executor(world, std::move(fleet));
    };
    sampling.warm_s = 1;
    const double issue_us = sample_issue(sampling, gpu_issue_scenario(preset));
    const std::vector<KernelSample> samples = sample_kernels(sampling, gpu_calibration_scenarios(preset, how.scale));
    return deliver(gpu_cluster_json(preset, on, issue_us, fit_laws(samples), samples), options) ? done : bad_input;
}

// From the launch of a process to its first step, the median of several, of a model so small that nothing else counts.
double measure_start(const std::filesystem::path& folder) {
    std::filesystem::create_directories(folder);
    const auto file = folder / "small.json";
    std::ofstream(file) << R"({"name": "start", "model": {"layers": 1, "hidden_size": 16, "attention_heads": 1, "vocab_size": 32},
        "cluster": {"preset": "local-cpu", "nodes": 1, "devices_per_node": 1},
        "training": {"global_batch_size": 1, "micro_batch_size": 1, "sequence_length": 8, "precision": "fp32"}, "strategy": {}})";
    WatchedSignals signals;
    std::vector<double> took;
    for (int i = 0; i < 5; ++i) {
        std::filesystem::remove(folder / record_name);
        RunRecord(folder / record_name, i).add("launch", 0);
        const Ending e = attempt({std::filesystem::read_symlink("/proc/self/exe").string(), "run", file.string(), "--steps", "1", "-q",
                                  "--watch", folder.string(), "--attempt", std::to_string(i)},
                                 folder / watch_name, {}, signals);
        const auto events = read_record(folder / record_name);
        if (e.how != Ended::finished || events.size() < 2) throw std::runtime_error("the start of a process cannot be measured: " + e.what);
        took.push_back(events[1].time_s - events[0].time_s);
    }
    std::ranges::sort(took);
    return took[took.size() / 2];
}

} // namespace

int run_calibrate(const Options& options, const CalibrateOptions& how) {
    if (how.device == "cuda") return calibrate_gpu(options, how);
    Progress progress(options);
    SampleOptions sampling;
    sampling.steps = how.steps;
    sampling.scale = how.scale;
    sampling.progress = [&](std::size_t at, std::size_t total) {
        progress.show(static_cast<int>(at), static_cast<int>(total), "models trained");
    };
    const std::vector<KernelSample> samples = sample_kernels(sampling);
    const auto laws = fit_laws(samples);
    const MachineFacts machine = measure_machine();
    const std::filesystem::path folder = ".simexec-calibrate-" + std::to_string(getpid()); // where checkpoints would be written
    const SaveFacts saves = measure_saves(folder);
    if (!deliver(cluster_json(machine, laws, samples, saves), options)) return bad_input;
    if (!how.run.empty()) {
        const std::string run = run_json(saves, measure_start(folder));
        std::filesystem::remove_all(folder);
        if (!console::deliver("simexec", run, how.run)) return bad_input;
    }
    if (options.quiet || options.output.empty()) return done;
    Table table{{"kind of op", "points", "median error of its law"}, {false, true, true}, {}};
    for (const auto& [kind, law] : laws)
        table.rows.push_back({kind, fmt::format("{}", law.points), fmt::format("{:.1f} %", 100 * law.error)});
    Options screen = options;
    screen.output.clear();
    const std::string text = fmt::format("{}, {} processors, {}: {} sizes of {} kinds of op\n{}\nUse it: simexec check SCENARIO.json "
                                         "--calibration {}, or \"cluster\": \"{}\" in a scenario\n",
                                         machine.processor, machine.cores, machine.gemm, samples.size(), laws.size(),
                                         to_text(table, output_style(screen)), options.output, options.output);
    return deliver(text, screen) ? done : bad_input;
}

} // namespace orrery::simexec
