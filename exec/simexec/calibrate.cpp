// `simexec calibrate`: measures this machine's kernels, copies and hand-overs, starts and saves; writes a cluster that scenarios take by
// name of the file.
#include "exec/calibrate/calibrate.hpp"
#include "exec/simexec/gpu.hpp"
#include "exec/simexec/measure_runs.hpp"
#include "exec/simexec/outputs.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <optional>
#include <string>
#include <unistd.h>
#include <vector>

namespace orrery::simexec {

namespace {

// At the scenarios' own sizes; nothing where one has problems, which have been printed.
std::optional<std::vector<KernelSample>> own_samples(const std::vector<std::string>& files, const Options& options,
                                                     const SampleOptions& sampling) {
    std::vector<Scenario> scenarios;
    for (const std::string& file : files) {
        std::optional<Scenario> scenario = load(file, options);
        if (!scenario) return std::nullopt;
        scenarios.push_back(std::move(*scenario));
    }
    std::vector<KernelSample> all;
    SampleOptions longer = sampling;
    longer.steps *= 4; // each size stands for itself: no law smooths it
    for (const Scenario& s : scenarios) {
        const std::vector<KernelSample> own = sample_own(longer, s);
        all.insert(all.end(), own.begin(), own.end());
    }
    return all;
}

// The command exists to write its profile: it does so under -q too.
Options as_json(Options options) {
    options.json = true;
    return options;
}

int calibrate_gpu(const std::vector<std::string>& files, const Options& options, const CalibrateOptions& how) {
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
    const auto own = own_samples(files, options, sampling);
    if (!own) return bad_input;
    const std::vector<KernelSample> samples = sample_kernels(sampling, gpu_calibration_scenarios(preset, how.scale));
    auto laws = fit_laws(samples);
    add_own_laws(laws, *own);
    return deliver(gpu_cluster_json(preset, on, issue_us, laws, samples), as_json(options));
}

} // namespace

int run_calibrate(const std::vector<std::string>& files, const Options& options, const CalibrateOptions& how) {
    if (const std::string why = why_unwritable({{"-o", options.output}}); !why.empty()) return refuse(why);
    if (how.device == "cuda") return calibrate_gpu(files, options, how);
    Progress progress(options);
    SampleOptions sampling;
    sampling.steps = how.steps;
    sampling.scale = how.scale;
    sampling.progress = [&](std::size_t at, std::size_t total) {
        progress.show(static_cast<int>(at), static_cast<int>(total), "models trained");
    };
    const auto own = own_samples(files, options, sampling);
    if (!own) return bad_input;
    const std::vector<KernelSample> samples = sample_kernels(sampling);
    const auto laws = fit_laws(samples);
    const MachineFacts machine = measure_machine();
    const RunFacts run = measure_runs(".simexec-calibrate-" + std::to_string(getpid()), how); // where checkpoints would be written
    auto written = laws;
    add_own_laws(written, *own);
    if (const int code = deliver(cluster_json(machine, written, samples, run), as_json(options)); code != done) return code;
    if (options.quiet || options.output.empty()) return done;
    Table table{{"kind of op", "points", "median error of its law"}, {false, true, true}, {}};
    for (const auto& [kind, law] : laws)
        table.rows.push_back({kind, fmt::format("{}", law.points), fmt::format("{:.1f} %", 100 * law.error)});
    Options screen = options;
    screen.output.clear();
    const auto sizes = std::ranges::count_if(*own, [](const KernelSample& s) { return s.part.empty(); });
    const std::string text = fmt::format("{}, {} processors, {}: {} sizes of {} kinds of op{}\n{}\nUse it: simexec check SCENARIO.json "
                                         "--calibration {}, or \"cluster\": \"{}\" in a scenario\n",
                                         machine.processor, machine.cores, machine.gemm, samples.size(), laws.size(),
                                         own->empty() ? "" : fmt::format(", and {} sizes of the scenarios given", sizes),
                                         to_text(table, output_style(screen)), options.output, options.output);
    return deliver(text, screen);
}

} // namespace orrery::simexec
