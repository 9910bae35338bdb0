// `simrun learn ROWS.json.. -o mine.json`: a user's own measured steps become a calibration.
#include "sim/report/terminal.hpp"
#include "sim/simrun/command.hpp"
#include "sim/validate/lessons.hpp"
#include "topology/text.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <set>

namespace orrery::simrun {

namespace {

using Rows = std::vector<ValidationRow>;

struct Sums {
    int n = 0, inside = 0;
    double before = 0, after = 0, bias_before = 0, bias_after = 0;

    void add(double b, double a, double bar) {
        ++n;
        before += std::abs(b), after += std::abs(a), bias_before += b, bias_after += a;
        inside += std::abs(a) <= bar * (1 + a);
    }
    std::string text(const char* what) const {
        if (n == 0) return {};
        return fmt::format("  {} of {} rows: mean error {:.1f} -> {:.1f} %, bias {:+.1f} -> {:+.1f} %, {} of {} inside the 80 % interval\n",
                           what, n, 100 * before / n, 100 * after / n, 100 * bias_before / n, 100 * bias_after / n, inside, n);
    }
};

std::string error_text(std::optional<double> e) { return e ? fmt::format("{:+.1f} %", *e * 100) : ""; }

std::string compared(const std::string& title, const Rows& before, const Rows& after) {
    Table t{
        {"row", "measured", "time before", "after", "measured", "memory before", "after"}, {false, true, true, true, true, true, true}, {}};
    Sums time, memory;
    for (std::size_t i = 0; i < before.size(); ++i) {
        const ValidationRow &b = before[i], &a = after[i];
        if (!b.failure.empty() || !a.failure.empty()) continue;
        const auto &s = b.measured.step_time_s, &gb = b.measured.memory_gb;
        t.rows.push_back({clip(b.name, 44), s ? fmt::format("{:.4g} s", *s) : "", error_text(b.step_time_error()),
                          error_text(a.step_time_error()), gb ? fmt::format("{:.1f} GB", *gb) : "", error_text(b.memory_error()),
                          error_text(a.memory_error())});
        if (s) time.add(*b.step_time_error(), *a.step_time_error(), a.step_time_bar);
        if (gb) memory.add(*b.memory_error(), *a.memory_error(), a.memory_bar);
    }
    return title + "\n" + to_text(t, {}) + time.text("step time") + memory.text("memory");
}

std::string in_words(const LearnedConstants& l) {
    std::string text = fmt::format("{}, {}: {} row{}\n", l.device, name(l.stack), l.rows, l.rows == 1 ? "" : "s");
    const auto factor = [&](const char* what, double mean, double variance) {
        text += fmt::format("  {:<24} x {:.2f}  +- {:.0f} %\n", what, std::exp(mean), 100 * std::sqrt(std::max(0.0, variance)));
    };
    for (std::size_t i = 0; i < l.time.mean.size(); ++i)
        factor(i == cost_group_count ? "all of a step" : orrery::in_words(static_cast<CostGroup>(i)), l.time.mean[i],
               l.time.covariance[i][i]);
    if (!l.memory) return text;
    const auto& m = l.memory->beliefs;
    factor("memory within a step", m.mean[0], m.covariance[0][0]);
    factor("memory, all of it", m.mean[1], m.covariance[1][1]);
    return text;
}

// Rows that were learned from prove nothing.
Rows held(Rows rows, const Rows& learned) {
    std::set<std::string> known;
    for (const ValidationRow& r : learned) known.insert(r.scenario_json);
    std::erase_if(rows, [&](const ValidationRow& r) { return known.contains(r.scenario_json); });
    return rows;
}

// The rows of several files, and where each file's begin.
struct Read {
    Rows rows;
    std::vector<std::size_t> begins;
    const std::string& file_of(std::size_t row, const std::vector<std::string>& files) const {
        return files[static_cast<std::size_t>(std::upper_bound(begins.begin(), begins.end(), row) - begins.begin()) - 1];
    }
};

std::optional<Read> read_files(const std::vector<std::string>& files, const Options& options) {
    Read all;
    for (const std::string& file : files) {
        auto rows = read_rows({file}, options);
        if (!rows) return std::nullopt;
        all.begins.push_back(all.rows.size());
        std::ranges::move(*rows, std::back_inserter(all.rows));
    }
    return all;
}

bool usable(const Options& options) {
    if (!options.constants || !options.constants->holds_learned()) return true;
    complain("--calibration names a file of `simrun learn`: give all rows to one `simrun learn` instead, old and new");
    return false;
}

} // namespace

int run_learn(const std::vector<std::string>& files, const Options& options, const LearnCommand& command) {
    if (!usable(options)) return bad_input;
    const auto read = read_files(files, options);
    const auto checked = read_rows(command.check, options);
    if (!read || !checked) return bad_input;
    ProgressBar progress("learning", options);
    const auto show = [&](std::size_t n, std::size_t total) { progress.show(n, total); };
    LearnedRows learned;
    try {
        learned = learn_from(read->rows, options.jobs, show);
    } catch (const OddRow& e) { throw InputError(read->file_of(e.row, files) + ": " + e.what()); }
    if (!options.quiet)
        for (const std::string& one : learned.left_out) std::fputs(("simrun: note: not learned: " + printable(one) + "\n").c_str(), stderr);
    if (learned.constants.empty()) {
        complain("these files hold no row to learn from: a row has a scenario and \"measured\": {\"step_time_s\", \"memory_gb\"} "
                 "(scenarios/validation/README.md)");
        return bad_input;
    }
    std::string text;
    for (const LearnedConstants& l : learned.constants) text += in_words(l);
    text += compared("\nRows learned from (their errors after it prove nothing)", learned.before, learned.after);
    if (!command.check.empty()) {
        const Rows others = held(*checked, read->rows);
        const Rows before = validate(others, options.jobs, show).rows;
        text += others.empty()
                    ? "\nNo other rows to check\n"
                    : compared("\nOther rows, not learned from", before, predicted_with(others, learned.constants, options.jobs, show));
    }
    const std::string file = write_learned(learned.constants);
    if (options.output.empty()) {
        if (!options.quiet) std::fputs(text.c_str(), stderr);
        return deliver(file, options) ? done : bad_input;
    }
    if (!deliver(file, options)) return bad_input;
    Options shown = options;
    shown.output.clear();
    return options.quiet || deliver(text + "\nUse it: simrun job.json --calibration " + options.output + "\n", shown) ? done : bad_input;
}

} // namespace orrery::simrun
