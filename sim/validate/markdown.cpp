// VALIDATION.md: the figures by dataset, then the rows that miss by most and where their predicted time goes. Same rows, same bytes.
#include "sim/report/pair_bar.hpp"
#include "sim/trace/format.hpp"
#include "sim/validate/breakdown.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <sstream>

namespace orrery {

namespace {

constexpr double shown_from = 0.10; // rows that miss by more are listed

std::string percent(double x) { return fmt::format("{:.1f}", x * 100); }
std::string signed_percent(double x) { return fmt::format("{:+.1f}", x * 100); }

std::string escaped(std::string text) {
    for (std::size_t at = 0; (at = text.find('|', at)) != std::string::npos; at += 2) text.insert(at, "\\");
    return text;
}

std::string line(const std::string& dataset, const char* what, const ErrorSummary& s) {
    if (s.n == 0) return {};
    const auto tau = [&](bool known, double value) { return known && s.n > 2 ? fmt::format("{:.2f}", value) : ""; };
    const ErrorSummary::Noisy noisy = s.noisy.value_or(ErrorSummary::Noisy{});
    return fmt::format("| {} | {} | {} | {} | {} | {} | {} | {} | {} | {} | {} | {} {} |\n", dataset, what, s.n, percent(s.mean_abs_error),
                       percent(s.median_abs_error), signed_percent(s.bias), s.sound < s.n ? percent(s.sound_mean_abs_error) : "",
                       tau(true, s.kendall_tau), tau(s.sound < s.n, s.sound_kendall_tau), tau(s.noisy.has_value(), noisy.attainable_tau),
                       tau(noisy.pairs_beyond_noise > 0, noisy.tau_beyond_noise), signed_percent(s.worst_error), escaped(s.worst));
}

std::string fits_line(const std::string& dataset, const FitsSummary& f) {
    return f.n == 0 ? "" : fmt::format("| {} | fits | {} | {} | | | | | | | | |\n", dataset, f.n, percent(1 - f.accuracy));
}

std::string pairs(const Validation& v) {
    std::string text;
    const auto add = [&](const std::string& dataset, const PairsSummary& p) {
        if (p.n > 0)
            text += fmt::format("| {} | {} | {} | {} |\n", dataset, p.n, percent(static_cast<double>(p.right) / static_cast<double>(p.n)),
                                p.ties);
    };
    for (const ValidationSummary& s : v.by_dataset) add(s.dataset, s.pairs);
    if (!text.empty()) add("all", v.overall.pairs);
    return text;
}

double share_that_ran(const Validation& v) {
    double ran = 0, known = 0;
    for (const ValidationRow& r : v.rows)
        if (const auto fitted = r.fitted()) ran += *fitted, ++known;
    return known > 0 ? ran / known : 0;
}

// Answers to "does it fit?" by how near to the limit the plan is.
std::string fitting(const Validation& v) {
    constexpr double edges[] = {0, 0.8, 0.9, 0.95, 1, 1.05, 1.1, 1.2, 1e9};
    std::string text;
    for (std::size_t i = 0; i + 1 < std::size(edges); ++i) {
        int fitted = 0, did_not = 0;
        for (const ValidationRow& r : v.rows)
            if (r.fitted() && r.planned_share && *r.planned_share > edges[i] && *r.planned_share <= edges[i + 1])
                ++(*r.fitted() ? fitted : did_not);
        if (fitted + did_not == 0) continue;
        const std::string range = edges[i + 1] > 10 ? fmt::format("more than {:.0f} %", edges[i] * 100)
                                                    : fmt::format("{:.0f} to {:.0f} %", edges[i] * 100, edges[i + 1] * 100);
        text += fmt::format("| {} | {} | {} |\n", range, fitted, did_not);
    }
    return text;
}

std::string misses(const Validation& v) {
    std::string text;
    for (const ValidationSummary& d : v.by_dataset) {
        std::vector<const ValidationRow*> rows;
        for (const ValidationRow& r : v.rows)
            if (r.dataset == d.dataset && r.failure.empty() && std::abs(r.step_time_error().value_or(0)) > shown_from) rows.push_back(&r);
        std::stable_sort(rows.begin(), rows.end(),
                         [](const auto* a, const auto* b) { return std::abs(*a->step_time_error()) > std::abs(*b->step_time_error()); });
        const std::size_t all = rows.size();
        if (rows.size() > 6) rows.resize(6);
        for (const ValidationRow* r : rows)
            text += fmt::format("| {} | {} | {} | {} |\n", escaped(r->dataset), escaped(r->name), signed_percent(*r->step_time_error()),
                                largest_shares(*r));
        if (all > rows.size()) text += fmt::format("| {} | and {} more | | |\n", escaped(d.dataset), all - rows.size());
    }
    return text;
}

// Bars drawn from all other unseen sources, and what they hold.
std::string left_out(const Validation& v) {
    const std::vector<Experience> rows = left_out_rows(v);
    std::string text;
    for (const auto& [figure, what] : {std::pair{Figure::step_time, "step time"}, {Figure::memory, "memory"}})
        for (const Coverage& c : left_out_coverage(rows, figure))
            text += fmt::format("| {} | {} | {} | {} | {} | {} | {} | {} | {} | {} |\n", what, c.by, c.rows, c.sources,
                                percent(c.mean_abs_error), signed_percent(c.bias), percent(c.covered), percent(c.width),
                                figure == Figure::memory ? "" : percent(c.below), figure == Figure::memory ? "" : percent(c.above));
    if (const Coverage c = left_out_pairs(rows); c.rows > 0)
        text += fmt::format("| difference of two steps | pairs | {} | {} | {} | {} | {} | {} |  |  |\n", c.rows, c.sources,
                            percent(c.mean_abs_error), signed_percent(c.bias), percent(c.covered), percent(c.width));
    return text;
}

std::string line(const LearnedFrom& l, const char* what) {
    return fmt::format("| {} | {} | {} | {} | {} | {} | {} | {} | {} | {} | {} | {} |\n", l.dataset, what, l.rows, signed_percent(l.bias),
                       percent(l.none), percent(l.one.error), percent(l.three.error), percent(l.all.error), percent(l.one.covered),
                       percent(l.three.covered), percent(l.one.width), percent(l.three.width));
}

// The mean over kinds; nothing where there are fewer than two.
std::string mean_line(const std::string& title, const char* what, const std::vector<LearnedFrom>& all, bool (*is)(const LearnedFrom&)) {
    LearnedFrom mean{title, {}};
    int n = 0;
    for (const LearnedFrom& l : all) {
        if (!is(l)) continue;
        ++n, mean.rows += l.rows, mean.bias += l.bias, mean.none += l.none;
        for (const auto& [sum, of] : {std::pair{&mean.one, &l.one}, {&mean.three, &l.three}, {&mean.all, &l.all}})
            sum->error += of->error, sum->covered += of->covered, sum->width += of->width;
    }
    if (n < 2) return {};
    mean.bias /= n, mean.none /= n;
    for (LearnedFrom::After* sum : {&mean.one, &mean.three, &mean.all}) sum->error /= n, sum->covered /= n, sum->width /= n;
    mean.dataset += fmt::format(" ({})", n);
    return line(mean, what);
}

constexpr double far_off = 0.1; // from here on a few measured steps are told to halve an error

// The effect of one's own measured rows on the predictions of the others.
std::string learned(const Validation& v) {
    std::string text;
    for (const auto& [figure, what] : {std::pair{Figure::step_time, "step time"}, {Figure::memory, "memory"}}) {
        const std::vector<LearnedFrom> now = learned_from(v, figure), first = learned_from(v, figure, true);
        for (LearnedFrom l : now) {
            l.dataset += fmt::format(", {}, {}", l.device, name(l.stack));
            text += line(l, what);
        }
        const auto far = [](const LearnedFrom& l) { return l.none > far_off; };
        const auto near = [](const LearnedFrom& l) { return l.none <= far_off; };
        text += mean_line("all", what, now, [](const LearnedFrom&) { return true; });
        text += mean_line("fitted to nothing", what, now, [](const LearnedFrom& l) { return l.unseen; });
        text += mean_line("new sources", what, first, [](const LearnedFrom&) { return true; });
        text += mean_line("new sources more than 10 % off", what, first, far);
        text += mean_line("new sources up to 10 % off", what, first, near);
    }
    return text;
}

// How predictions do on sources that they have not seen, and what measured steps add.
std::string what_new_sources_can_expect(const Validation& v) {
    std::string text;
    if (const std::string unseen = left_out(v); !unseen.empty())
        text +=
            "\n## Sources that no constant was fitted to, each left out in turn\n\nThe 80 % interval of a report is drawn from these rows. "
            "Here each row's interval is drawn from the rows of all other sources: what a\n"
            "new source can expect; so is the one factor that is fitted to all of them, on the time of what several devices do beside the "
            "kernels that are counted\n(\"uncounted\" in scenarios/calibration/pointwise.json): each row is predicted with that of all "
            "other sources. Covered: share of rows inside their interval (80 is promised). Width: mean half width. Less, more: "
            "shares of rows\n"
            "that took less than their interval says, and more. Errors of sources that were used to find causes count as they were when "
            "they were first predicted, half of what\n"
            "was mended since taken off (in squares).\n"
            "Stacks: modules (Megatron-Core, NeMo, Transformer Engine), eager (FSDP, torchtitan, Composer, nanotron), zero (DeepSpeed), "
            "other.\n\n"
            "| of | rows | number | sources | mean error | bias | covered | width | less | more "
            "|\n|---|---|---|---|---|---|---|---|---|---|\n" +
            unseen;
    if (const std::string taught = learned(v); !taught.empty())
        text +=
            "\n## What measured steps of one's own teach\n\n`simrun learn` updates what is believed of kernels, hosts, links and memory by "
            "measured steps. Mean error in per cent of\n"
            "the other rows of a software on a device, after none, one, three and all other rows were learned: over single rows, draws of "
            "three, and each row left\n"
            "out in turn. \"All others\" is what learning can come to: a dataset whose rows are off at random keeps "
            "its error, however many are learned.\n"
            "Covered and width: share of the other rows in the intervals that one and three rows leave (80 is promised), and their mean "
            "half width.\n"
            "New sources: those that no constant was fitted to when they were predicted for the first time; with the errors that they had "
            "then where these were\nkept (nine datasets), else with those of today. How far constants may be off and how noisy rows may be "
            "was fitted to the same sources.\nMeans over kinds (their number in brackets).\n\n"
            "| rows of | of | rows | bias | none | one | three | all others | covered by one | by three | width by one | by three |\n"
            "|---|---|---|---|---|---|---|---|---|---|---|---|\n" +
            taught;
    return text;
}

} // namespace

std::string largest_shares(const ValidationRow& row, int how_many) {
    double total = 0;
    std::vector<std::pair<double, int>> parts;
    for (int c = 0; c < category_count; ++c) {
        const double part = row.breakdown_s[c];
        parts.push_back({part, c});
        total += part;
    }
    if (total <= 0) return {};
    std::stable_sort(parts.begin(), parts.end(), [](const auto& a, const auto& b) { return a.first > b.first; });
    std::string text;
    for (int i = 0; i < how_many && parts[i].first > 0.005 * total; ++i)
        text +=
            fmt::format("{}{} {:.0f} %", i == 0 ? "" : ", ", name(static_cast<Category>(parts[i].second)), 100 * parts[i].first / total);
    return text;
}

std::string to_markdown(const Validation& v) {
    std::string text =
        "# Validation: predictions against published measurements\n\n" + for_whom(v) +
        "\n## Datasets\n\nWritten by `./dev validate`; the rows and their sources are in scenarios/validation. Errors are predicted / "
        "measured - 1, in per "
        "cent; a row\n"
        "whose prediction failed counts as 100. \"Sound\": without the rows that are odd by their source's own figures (their notes say "
        "why).\n"
        "Tau: Kendall's rank correlation of predicted and measured. Attainable: what a predictor that knew every true time would reach, by "
        "the\n"
        "noise of the readings (a dataset's own repeats, or what it states), of the sound rows. Beyond noise: tau of their pairs that lie "
        "further\n"
        "apart than two standard deviations of that noise. For `fits` the error is the share of wrong answers. Fitted to nothing: no "
        "constant of\n"
        "the models of time and memory was fitted to a row of these datasets, which is what a new family can expect; to the others some "
        "were.\n\n"
        "| dataset | of | rows | mean error | median | bias | sound | tau | sound tau | attainable | beyond noise | worst row |\n"
        "|---|---|---|---|---|---|---|---|---|---|---|---|\n";
    for (const ValidationSummary& s : v.by_dataset)
        text += line(s.dataset, "step time", s.step_time) + line(s.dataset, "memory", s.memory) + fits_line(s.dataset, s.fits);
    if (v.held_out.step_time.n > 0 && v.fitted.step_time.n > 0)
        for (const auto& [name, s] : {std::pair{"datasets fitted to nothing", &v.held_out}, {"the others", &v.fitted}})
            text += line(name, "step time", s->step_time) + line(name, "memory", s->memory);
    text += line("all", "step time", v.overall.step_time) + line("all", "memory", v.overall.memory) + fits_line("all", v.overall.fits);
    if (const std::string ranked = pairs(v); !ranked.empty())
        text += fmt::format("\n## Strategies of one job, two by two\n\nThe same model on the same devices with the same batch: is the "
                            "faster of two strategies predicted to be the faster? Step times\n"
                            "within {:.0f} % of each other are ties, and left out.\n\n| dataset | pairs | ranked as measured, % | ties "
                            "|\n|---|---|---|---|\n",
                            100 * measurement_noise) +
                ranked;
    if (const std::string ranges = fitting(v); !ranges.empty())
        text += fmt::format("\n## Does it fit?\n\nRuns that were timed did. {} rows say whether they fit: {} % are planned rightly "
                            "(\"it fits\" for all would be right for {} %: few runs that failed\n"
                            "are published). By what is planned for the fullest stage, of what the device has (more than 100 % is planned "
                            "not to fit):\n\n"
                            "| planned | ran | did not fit |\n|---|---|---|\n",
                            v.overall.fits.known, percent(v.overall.fits.accuracy_of_known), percent(share_that_ran(v))) +
                ranges;
    if (v.overall.failed + v.overall.refused > 0) {
        text += fmt::format("\n## Rows without a prediction\n\n{} refused (a scenario cannot say them, or they are not built): in no other "
                            "figure. {} failed: counted as 100 % off.\n\n",
                            v.overall.refused, v.overall.failed);
        for (const ValidationRow& r : v.rows)
            if (!r.failure.empty()) text += fmt::format("- {} / {}: {}\n", r.dataset, r.name, r.failure.substr(0, r.failure.find('\n')));
    }
    text += what_new_sources_can_expect(v);
    if (const std::string far = misses(v); !far.empty())
        text += fmt::format("\n## Step times off by more than {:.0f} %, and where their predicted time goes\n\n| dataset | row | error | "
                            "predicted time |\n|---|---|---|---|\n",
                            shown_from * 100) +
                far;
    return text;
}

std::vector<std::string> regressions(const Validation& now, const std::string& earlier, double allowed) {
    std::vector<std::string> worse;
    std::istringstream lines(earlier);
    bool datasets = true; // other tables name datasets too
    for (std::string one; std::getline(lines, one);) {
        if (one.starts_with("## ")) datasets = one == "## Datasets";
        if (!datasets) continue;
        std::vector<std::string> cells;
        std::istringstream parts(one);
        for (std::string c; std::getline(parts, c, '|');) {
            const auto first = c.find_first_not_of(' '), last = c.find_last_not_of(' ');
            cells.push_back(first == std::string::npos ? "" : c.substr(first, last - first + 1));
        }
        if (cells.size() < 5 || !cells[0].empty()) continue;
        for (const ValidationSummary& s : now.by_dataset) {
            if (s.dataset != cells[1]) continue;
            const bool fits = cells[2] == "fits";
            const ErrorSummary* e = cells[2] == "step time" ? &s.step_time : cells[2] == "memory" ? &s.memory : nullptr;
            const int n = fits ? s.fits.n : e ? e->n : 0;
            if (n == 0 || std::to_string(n) != cells[3]) continue; // other rows: not the same figure
            const double error = fits ? 1 - s.fits.accuracy : e->mean_abs_error, was = std::strtod(cells[4].c_str(), nullptr) / 100;
            if (error > was + allowed + 0.0005)
                worse.push_back(fmt::format("{}, {}: mean error {} %, was {} %", s.dataset, cells[2], percent(error), cells[4]));
        }
    }
    return worse;
}

std::vector<Experience> left_out_rows(const Validation& v) {
    return merged(with_uncounted_left_out(read_experience(to_experience(v))), first_contacts());
}

std::string to_experience(const Validation& v) {
    std::vector<Experience> rows;
    for (const ValidationRow& r : v.rows) {
        if (!r.failure.empty() || r.doubtful) continue;
        Experience e{r.configuration, r.dataset, r.name, r.step_time_error(), r.memory_error(), r.held_out, {}, 0};
        if (r.held_out && !r.job.empty()) e.job = fmt::format("{:08x}", static_cast<std::uint32_t>(trace_file::checksum(r.job)));
        e.predicted_s = r.predicted.step_time_s.value_or(0);
        if (e.step_time || e.memory) rows.push_back(std::move(e));
    }
    return write_experience(rows);
}

} // namespace orrery
