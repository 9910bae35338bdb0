// A validation as JSON, as CSV and for a person.
#include "sim/report/terminal.hpp"
#include "sim/validate/validate.hpp"
#include "topology/text.hpp"

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <cmath>

namespace orrery {

namespace {

using OrderedJson = nlohmann::ordered_json;

void put(OrderedJson& j, const char* key, const std::optional<double>& v) {
    if (v) j[key] = *v;
}

OrderedJson figures(const RowFigures& f) {
    OrderedJson j = OrderedJson::object();
    put(j, "step_time_s", f.step_time_s);
    put(j, "memory_gb", f.memory_gb);
    if (f.fits) j["fits"] = *f.fits;
    put(j, "bubble_fraction", f.bubble_fraction);
    return j;
}

OrderedJson errors(const ErrorSummary& s) {
    OrderedJson j = {
        {"n", s.n},
        {"mean_abs_error", s.mean_abs_error},
        {"median_abs_error", s.median_abs_error},
        {"bias", s.bias},
        {"kendall_tau", s.kendall_tau},
        {"worst", s.worst},
        {"worst_error", s.worst_error},
        {"without_doubtful", {{"n", s.sound}, {"mean_abs_error", s.sound_mean_abs_error}, {"kendall_tau", s.sound_kendall_tau}}}};
    if (s.noisy)
        j["without_doubtful"].update(OrderedJson{{"noise", s.noisy->noise},
                                                 {"attainable_tau", s.noisy->attainable_tau},
                                                 {"tau_beyond_noise", s.noisy->tau_beyond_noise},
                                                 {"pairs_beyond_noise", s.noisy->pairs_beyond_noise}});
    return j;
}

OrderedJson summary(const ValidationSummary& s) {
    OrderedJson j;
    j["step_time"] = errors(s.step_time);
    j["memory"] = errors(s.memory);
    j["fits"] = {{"n", s.fits.n}, {"accuracy", s.fits.accuracy}, {"known", s.fits.known}, {"accuracy_of_known", s.fits.accuracy_of_known}};
    j["pairs"] = {{"n", s.pairs.n},
                  {"ranked_right", s.pairs.n > 0 ? static_cast<double>(s.pairs.right) / static_cast<double>(s.pairs.n) : 0},
                  {"ties", s.pairs.ties}};
    j["failed"] = s.failed;
    j["refused"] = s.refused;
    return j;
}

OrderedJson row_json(const ValidationRow& r) {
    OrderedJson j;
    j["dataset"] = r.dataset;
    j["name"] = r.name;
    j["predicted"] = figures(r.predicted);
    j["measured"] = figures(r.measured);
    j["error"] = OrderedJson::object();
    put(j["error"], "step_time", r.step_time_error());
    put(j["error"], "memory", r.memory_error());
    if (r.failure.empty()) {
        OrderedJson parts;
        for (int c = 0; c < category_count; ++c) parts[name(static_cast<Category>(c))] = r.breakdown_s[c];
        j["breakdown_s"] = parts;
        for (int g = 0; g < cost_group_count && r.shares != CostShares{}; ++g)
            j["sensitivities"][name(static_cast<CostGroup>(g))] = r.shares[g];
    }
    if (r.doubtful) j["doubtful"] = true;
    static constexpr const char* measures[] = {"allocated", "reserved", "device", "resident"};
    if (r.measured.memory_gb) j["memory_measure"] = measures[static_cast<std::size_t>(r.memory_measure)];
    if (!r.assumed.empty()) j["assumed"] = r.assumed;
    return j;
}

std::string csv_cell(const std::optional<double>& v) { return v ? fmt::format("{}", *v) : ""; }
std::string csv_cell(const std::optional<bool>& v) { return v ? (*v ? "true" : "false") : ""; }

std::string error_percent(double fraction) { return fmt::format("{:+.1f} %", fraction * 100); }

std::string error_text(const std::optional<double>& e, const ValidationRow& r, const TextStyle& style) {
    if (!e) return "";
    if (r.refused) return "refused";
    if (!r.failure.empty()) return paint("failed", Ink::red, style);
    const double size = std::abs(*e);
    return paint(error_percent(*e), size < 0.05 ? Ink::green : size < 0.15 ? Ink::plain : size < 0.3 ? Ink::yellow : Ink::red, style);
}

std::string value(const std::optional<double>& v, const char* unit) { return v ? fmt::format("{:.4g} {}", *v, unit) : ""; }

std::string rows_text(const Validation& v, const std::string& dataset, const TextStyle& style) {
    Table t;
    t.header = {"row", "step time", "measured", "error", "memory", "measured", "error", "fits"};
    t.right = {false, true, true, true, true, true, true, true};
    for (const ValidationRow& r : v.rows) {
        if (r.dataset != dataset) continue;
        std::string fits;
        // For a run that was timed, only a wrong answer is printed.
        const bool right = r.failure.empty() && r.predicted.fits == r.fitted();
        if (r.measured.fits || (r.fitted() && !right)) { fits = paint(right ? "right" : "wrong", right ? Ink::green : Ink::red, style); }
        const bool time = r.measured.step_time_s.has_value(), memory = r.measured.memory_gb.has_value();
        t.rows.push_back({clip(r.name, std::max(20, style.width - 72)), time ? value(r.predicted.step_time_s, "s") : "",
                          value(r.measured.step_time_s, "s"), error_text(r.step_time_error(), r, style),
                          memory ? value(r.predicted.memory_gb, "GB") : "", value(r.measured.memory_gb, "GB"),
                          error_text(r.memory_error(), r, style), fits});
    }
    return to_text(t, style);
}

void summary_row(Table& t, const std::string& name, const char* what, const ErrorSummary& s) {
    if (s.n == 0) return;
    t.rows.push_back({name, what, std::to_string(s.n), fmt::format("{:.1f} %", s.mean_abs_error * 100),
                      fmt::format("{:.1f} %", s.median_abs_error * 100), error_percent(s.bias),
                      s.n > 2 ? fmt::format("{:.3f}", s.kendall_tau) : "", s.noisy ? fmt::format("{:.3f}", s.noisy->attainable_tau) : "",
                      s.noisy && s.noisy->pairs_beyond_noise > 0 ? fmt::format("{:.3f}", s.noisy->tau_beyond_noise) : "",
                      fmt::format("{} {}", error_percent(s.worst_error), clip(s.worst, 36))});
}

std::string summary_text(const Validation& v, const TextStyle& style) {
    Table t;
    t.header = {"dataset", "of", "rows", "mean error", "median", "bias", "rank corr.", "attainable", "beyond noise", "worst row"};
    t.right = {false, false, true, true, true, true, true, true, true, false};
    std::string fits;
    const auto add = [&](const ValidationSummary& s, const std::string& name) {
        summary_row(t, name, "step time", s.step_time);
        summary_row(t, name, "memory", s.memory);
        if (s.pairs.n > 0)
            fits += fmt::format("  {}: {:.1f} % of {} pairs of one job ranked as measured ({} ties within {:.0f} %)\n", name,
                                100.0 * static_cast<double>(s.pairs.right) / static_cast<double>(s.pairs.n), s.pairs.n, s.pairs.ties,
                                100 * measurement_noise);
        if (s.fits.n > 0) fits += fmt::format("  {}: {:.0f} % of {} right about whether it fits\n", name, s.fits.accuracy * 100, s.fits.n);
        if (s.fits.known > s.fits.n && (s.fits.accuracy_of_known < 1 || s.dataset.empty()))
            fits += fmt::format("  {}: {:.1f} % of {} right about whether it fits, where runs that were timed count as fitting\n", name,
                                s.fits.accuracy_of_known * 100, s.fits.known);
    };
    for (const ValidationSummary& s : v.by_dataset) add(s, s.dataset);
    if (v.held_out.step_time.n > 0 && v.fitted.step_time.n > 0) {
        add(v.held_out, "fitted to nothing");
        add(v.fitted, "the others");
    }
    if (v.by_dataset.size() > 1) add(v.overall, "all");
    return to_text(t, style) + fits;
}

} // namespace

std::string to_json(const Validation& v) {
    OrderedJson j;
    j["rows"] = OrderedJson::array();
    for (const ValidationRow& r : v.rows) j["rows"].push_back(row_json(r));
    j["summary"] = summary(v.overall);
    if (v.held_out.step_time.n > 0) j["summary"]["held_out"] = summary(v.held_out);
    OrderedJson datasets = OrderedJson::object();
    for (const ValidationSummary& s : v.by_dataset) datasets[s.dataset] = summary(s);
    j["datasets"] = datasets;
    j["failed"] = OrderedJson::array();
    j["refused"] = OrderedJson::array();
    for (const ValidationRow& r : v.rows)
        if (!r.failure.empty())
            j[r.refused ? "refused" : "failed"].push_back({{"dataset", r.dataset}, {"name", r.name}, {"reason", r.failure}});
    return j.dump(1) + "\n";
}

std::string to_csv(const Validation& v) {
    std::string text =
        "dataset,name,predicted_step_time_s,measured_step_time_s,step_time_error,predicted_memory_gb,measured_memory_gb,memory_error,"
        "predicted_fits,measured_fits,failure";
    for (int c = 0; c < category_count; ++c) text += std::string(",") + name(static_cast<Category>(c)) + "_s";
    text += "\n";
    for (const ValidationRow& r : v.rows) {
        text += fmt::format("{},{},{},{},{},{},{},{},{},{},{}", csv_cell(r.dataset), csv_cell(r.name), csv_cell(r.predicted.step_time_s),
                            csv_cell(r.measured.step_time_s), csv_cell(r.step_time_error()), csv_cell(r.predicted.memory_gb),
                            csv_cell(r.measured.memory_gb), csv_cell(r.memory_error()), csv_cell(r.predicted.fits),
                            csv_cell(r.measured.fits), csv_cell(r.failure));
        for (double part : r.breakdown_s) text += r.failure.empty() ? fmt::format(",{}", part) : ",";
        text += "\n";
    }
    return text;
}

std::string to_text(const Validation& v, const TextStyle& style) {
    std::string text;
    for (const ValidationSummary& s : v.by_dataset) {
        text += paint(s.dataset, Ink::bold, style) + "\n" + rows_text(v, s.dataset, style) + "\n";
    }
    for (const bool refused : {true, false}) {
        const int n = refused ? v.overall.refused : v.overall.failed;
        if (n == 0) continue;
        text += paint(fmt::format("{} {}", n,
                                  refused ? "refused: a scenario cannot say them or they are not built; they are in no other figure"
                                          : "failed, each counted as 100 % off"),
                      Ink::red, style) +
                "\n";
        for (const ValidationRow& r : v.rows)
            if (!r.failure.empty() && r.refused == refused)
                text += "  " + r.dataset + " / " + r.name + ": " + clip(r.failure, std::max(40, style.width - 10)) + "\n";
        text += "\n";
    }
    return text + summary_text(v, style);
}

} // namespace orrery
