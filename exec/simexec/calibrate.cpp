// `simexec calibrate`: measures this machine's kernels, copies and hand-overs; writes a cluster that scenarios take by name of the file.
#include "exec/calibrate/calibrate.hpp"
#include "exec/simexec/command.hpp"

#include <fmt/format.h>

namespace orrery::simexec {

int run_calibrate(const Options& options, const CalibrateOptions& how) {
    Progress progress(options);
    SampleOptions sampling;
    sampling.steps = how.steps;
    sampling.scale = how.scale;
    sampling.progress = [&](std::size_t at, std::size_t total) { progress.show(static_cast<int>(at), static_cast<int>(total), "models trained"); };
    const std::vector<KernelSample> samples = sample_kernels(sampling);
    const auto laws = fit_laws(samples);
    const MachineFacts machine = measure_machine();
    if (!deliver(cluster_json(machine, laws, samples), options)) return bad_input;
    if (options.quiet || options.output.empty()) return done;
    Table table{{"kind of op", "points", "median error of its law"}, {false, true, true}, {}};
    for (const auto& [kind, law] : laws) table.rows.push_back({kind, fmt::format("{}", law.points), fmt::format("{:.1f} %", 100 * law.error)});
    Options screen = options;
    screen.output.clear();
    const std::string text = fmt::format("{}, {} processors, {}: {} sizes of {} kinds of op\n{}\nUse it: simexec check SCENARIO.json --calibration {}, or \"cluster\": \"{}\" in a scenario\n", machine.processor, machine.cores, machine.gemm,
                                         samples.size(), laws.size(), to_text(table, output_style(screen)), options.output, options.output);
    return deliver(text, screen) ? done : bad_input;
}

} // namespace orrery::simexec
