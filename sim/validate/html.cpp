// A validation as one HTML page without scripts: errors by dataset as bars, predicted against measured as a scatter, every row in a table.
#include "sim/validate/breakdown.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

namespace orrery {

namespace {

constexpr const char* style = R"(<style>
:root{--ink:#1b1e24;--paper:#fff;--faint:#8a8f99;--line:#dcdfe5;--good:#2f7d4f;--bad:#b4442e}
@media(prefers-color-scheme:dark){:root{--ink:#e6e8ec;--paper:#16181d;--faint:#8f95a1;--line:#333842;--good:#63b784;--bad:#e07a62}}
body{font:14px/1.45 system-ui,sans-serif;color:var(--ink);background:var(--paper);max-width:1080px;margin:2rem auto;padding:0 1rem}
h1{font-size:1.5rem}h2{font-size:1.1rem;margin-top:2rem}table{border-collapse:collapse;width:100%}
th,td{padding:.15rem .5rem;text-align:right;border-bottom:1px solid var(--line)}th:first-child,td:first-child{text-align:left}
.bad{color:var(--bad)}.good{color:var(--good)}.faint{color:var(--faint)}text{fill:var(--ink);font-size:11px}
.axis{stroke:var(--line)}.even{stroke:var(--faint);stroke-dasharray:4 3}
</style>
)";

std::string html_escaped(const std::string& text) {
    std::string out;
    for (char c : text) out += c == '<' ? "&lt;" : c == '>' ? "&gt;" : c == '&' ? "&amp;" : c == '"' ? "&quot;" : std::string(1, c);
    return out;
}

std::string colour(std::size_t i, std::size_t n) {
    return fmt::format("hsl({:.0f} 55% 50%)", 360.0 * static_cast<double>(i) / static_cast<double>(std::max<std::size_t>(1, n)));
}

struct Dot {
    double predicted, measured;
    std::size_t dataset;
    std::string title;
};

std::vector<Dot> dots(const Validation& v, bool memory) {
    std::vector<Dot> out;
    for (const ValidationRow& r : v.rows) {
        const auto p = memory ? r.predicted.memory_gb : r.predicted.step_time_s, m = memory ? r.measured.memory_gb : r.measured.step_time_s;
        if (!p || !m || *p <= 0 || *m <= 0 || !r.failure.empty()) continue;
        const auto at =
            std::find_if(v.by_dataset.begin(), v.by_dataset.end(), [&](const ValidationSummary& s) { return s.dataset == r.dataset; });
        out.push_back({*p, *m, static_cast<std::size_t>(at - v.by_dataset.begin()),
                       fmt::format("{} / {}: {:.4g} against {:.4g} ({:+.1f} %)", r.dataset, r.name, *p, *m, 100 * (*p / *m - 1))});
    }
    return out;
}

// Both axes logarithmic, whole decades.
std::string scatter(const Validation& v, bool memory, const char* unit) {
    const std::vector<Dot> all = dots(v, memory);
    if (all.empty()) return {};
    double low = 1e300, high = 0;
    for (const Dot& d : all) low = std::min({low, d.predicted, d.measured}), high = std::max({high, d.predicted, d.measured});
    const double from = std::floor(std::log10(low)), to = std::max(from + 1, std::ceil(std::log10(high)));
    constexpr double side = 460, left = 60, top = 10;
    const auto at = [&](double x) { return (std::log10(x) - from) / (to - from) * side; };
    std::string svg =
        fmt::format("<svg viewBox=\"0 0 {0} {1}\" width=\"{0}\" height=\"{1}\" role=\"img\">\n", left + side + 10, top + side + 40);
    for (double d = from; d <= to; ++d) {
        const double x = left + at(std::pow(10, d)), y = top + side - at(std::pow(10, d));
        svg += fmt::format("<line class=\"axis\" x1=\"{0:.1f}\" x2=\"{0:.1f}\" y1=\"{1}\" y2=\"{2}\"/><text x=\"{0:.1f}\" y=\"{3}\" "
                           "text-anchor=\"middle\">{4:g}</text>\n",
                           x, top, top + side, top + side + 15, std::pow(10, d));
        svg += fmt::format("<line class=\"axis\" x1=\"{0}\" x2=\"{1}\" y1=\"{2:.1f}\" y2=\"{2:.1f}\"/><text x=\"{3}\" y=\"{4:.1f}\" "
                           "text-anchor=\"end\">{5:g}</text>\n",
                           left, left + side, y, left - 5, y + 4, std::pow(10, d));
    }
    svg += fmt::format("<line class=\"even\" x1=\"{}\" y1=\"{}\" x2=\"{}\" y2=\"{}\"/>\n", left, top + side, left + side, top);
    for (const Dot& d : all)
        svg +=
            fmt::format("<circle cx=\"{:.1f}\" cy=\"{:.1f}\" r=\"3.2\" fill=\"{}\" fill-opacity=\".75\"><title>{}</title></circle>\n",
                        left + at(d.measured), top + side - at(d.predicted), colour(d.dataset, v.by_dataset.size()), html_escaped(d.title));
    return svg + fmt::format("<text x=\"{}\" y=\"{}\" text-anchor=\"middle\">measured, {}</text><text transform=\"translate(14 {}) "
                             "rotate(-90)\" text-anchor=\"middle\">predicted, {}</text></svg>\n",
                             left + side / 2, top + side + 34, unit, top + side / 2, unit);
}

std::string bars(const Validation& v, bool memory) {
    std::string rows;
    double widest = 0.05;
    for (const ValidationSummary& s : v.by_dataset)
        widest = std::max(widest, std::min(0.5, (memory ? s.memory : s.step_time).mean_abs_error));
    for (std::size_t i = 0; i < v.by_dataset.size(); ++i) {
        const ErrorSummary& e = memory ? v.by_dataset[i].memory : v.by_dataset[i].step_time;
        if (e.n == 0) continue;
        rows += fmt::format(
            "<tr><td><span style=\"color:{}\">&#9679;</span> {}</td><td>{}</td><td style=\"text-align:left;width:40%\"><svg width=\"100%\" "
            "height=\"12\"><rect height=\"12\" width=\"{:.1f}%\" fill=\"{}\"/></svg></td>"
            "<td>{:.1f} %</td><td>{:.1f} %</td><td>{:+.1f} %</td><td>{:.2f}</td><td>{}</td><td>{}</td></tr>\n",
            colour(i, v.by_dataset.size()), html_escaped(v.by_dataset[i].dataset), e.n, 100 * std::min(1.0, e.mean_abs_error / widest),
            colour(i, v.by_dataset.size()), e.mean_abs_error * 100, e.median_abs_error * 100, e.bias * 100, e.kendall_tau,
            e.noisy ? fmt::format("{:.2f}", e.noisy->attainable_tau) : "",
            e.noisy && e.noisy->pairs_beyond_noise > 0 ? fmt::format("{:.2f}", e.noisy->tau_beyond_noise) : "");
    }
    if (rows.empty()) return {};
    return "<table><tr><th>dataset</th><th>rows</th><th></th><th>mean error</th><th>median</th><th>bias</th><th>rank "
           "corr.</th><th>attainable</th><th>beyond noise</th></tr>\n" +
           rows + "</table>\n";
}

std::string cell(const std::optional<double>& v) { return v ? fmt::format("<td>{:.4g}</td>", *v) : "<td></td>"; }
std::string error_cell(const std::optional<double>& e) {
    if (!e) return "<td></td>";
    return fmt::format("<td class=\"{}\">{:+.1f} %</td>", std::abs(*e) < 0.05 ? "good" : std::abs(*e) < 0.15 ? "" : "bad", *e * 100);
}

std::string all_rows(const Validation& v) {
    std::string text = "<table><tr><th>row</th><th>predicted s</th><th>measured s</th><th>error</th><th>predicted GB</th><th>measured "
                       "GB</th><th>error</th><th>predicted time</th></tr>\n";
    for (const ValidationSummary& s : v.by_dataset) {
        text += "<tr><th colspan=\"8\">" + html_escaped(s.dataset) + "</th></tr>\n";
        for (const ValidationRow& r : v.rows) {
            if (r.dataset != s.dataset) continue;
            text += "<tr><td>" + html_escaped(r.name) + (r.doubtful ? " <span class=\"faint\">(doubtful)</span>" : "") + "</td>" +
                    cell(r.predicted.step_time_s) + cell(r.measured.step_time_s) + error_cell(r.step_time_error()) +
                    cell(r.predicted.memory_gb) + cell(r.measured.memory_gb) + error_cell(r.memory_error()) + "<td class=\"faint\">" +
                    html_escaped(r.failure.empty() ? largest_shares(r) : r.failure.substr(0, 80)) + "</td></tr>\n";
        }
    }
    return text + "</table>\n";
}

} // namespace

std::string to_html(const Validation& v) {
    std::string page = "<!doctype html><html lang=\"en\"><head><meta charset=\"utf-8\"><title>Validation</title>\n" + std::string(style) +
                       "</head><body>\n<h1>Predictions against published measurements</h1>\n";
    page += fmt::format("<p>{} rows of {} datasets, {} without a prediction (each counted as 100 % off). Mean error of step time {:.1f} %, "
                        "of memory {:.1f} %.</p>\n",
                        v.rows.size(), v.by_dataset.size(), v.overall.failed, v.overall.step_time.mean_abs_error * 100,
                        v.overall.memory.mean_abs_error * 100);
    page += "<h2>Step time</h2>\n" + scatter(v, false, "s") + bars(v, false);
    if (const std::string memory = scatter(v, true, "GB"); !memory.empty()) page += "<h2>Memory</h2>\n" + memory + bars(v, true);
    return page + "<h2>Rows</h2>\n" + all_rows(v) + "</body></html>\n";
}

} // namespace orrery
