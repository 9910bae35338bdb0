// Measured searches for a person, for VALIDATION.md and as JSON.
#include "sim/report/terminal.hpp"
#include "sim/validate/searches.hpp"
#include "topology/text.hpp"

#include <fmt/format.h>
#include <nlohmann/json.hpp>

namespace orrery {

namespace {

using OrderedJson = nlohmann::ordered_json;

std::string percent(double x) { return fmt::format("{:.1f}", x * 100); }
std::string percent(const std::optional<double>& x) { return x ? percent(*x) : ""; }
std::string first_of(const SearchChoice& c) { return c.regret ? percent(*c.regret) : "out of memory"; }

struct Scored {
    SearchSummary summary;
    std::vector<JobChoices> jobs;
};

// Each search, then all jobs together where there are several searches.
std::vector<Scored> scored(const std::vector<MeasuredSearch>& searches) {
    std::vector<Scored> out;
    std::vector<JobChoices> all;
    for (const MeasuredSearch& s : searches) {
        Scored one;
        for (const MeasuredJob& job : s.jobs) one.jobs.push_back(choices_of(job));
        all.insert(all.end(), one.jobs.begin(), one.jobs.end());
        one.summary = summary_of(s.name, one.jobs);
        out.push_back(std::move(one));
    }
    if (searches.size() > 1) out.push_back({summary_of("all", all), {}});
    return out;
}

std::string out_of(int part, int whole) { return whole > 0 ? fmt::format("{} of {}", part, whole) : ""; }

std::vector<std::string> cells(const SearchSummary& s) {
    return {s.name,
            std::to_string(s.jobs),
            out_of(s.out_of_memory, s.strategies),
            percent(s.regret),
            percent(s.worst),
            percent(s.of_three),
            out_of(s.first_out_of_memory, s.jobs),
            percent(s.fastest) + (s.fastest_out_of_memory > 0 ? fmt::format(" ({})", s.fastest_out_of_memory) : ""),
            percent(s.told),
            percent(s.simple),
            percent(s.random),
            fmt::format("{:.2f}", s.tau),
            out_of(s.fits_right, s.fits_known)};
}

constexpr const char* headings[] = {
    "search",  "jobs",           "out of memory", "regret", "worst", "best of three",     "first out of memory",
    "fastest", "told what fits", "rule of thumb", "random", "tau",   "told to fit or not"};

// Jobs whose first choice was more than a measurement's noise from the best, or did not run.
bool missed(const JobChoices& j) { return !j.chosen.regret || *j.chosen.regret > measurement_noise; }

} // namespace

std::string searches_to_text(const std::vector<MeasuredSearch>& searches, const TextStyle& style) {
    if (searches.empty()) return {};
    std::string text;
    const std::vector<Scored> all = scored(searches);
    for (const Scored& s : all) {
        if (s.jobs.empty()) continue;
        Table t{{"job", "strategies", "regret", "of three", "fastest", "told", "rule", "tau", "first choice"},
                {false, true, true, true, true, true, true, true, false},
                {},
                true};
        for (const JobChoices& j : s.jobs) {
            const std::string first = first_of(j.chosen);
            t.rows.push_back({clip(j.job, 48), std::to_string(j.strategies),
                              paint(first,
                                    !j.chosen.regret ? Ink::red
                                    : missed(j)      ? Ink::yellow
                                                     : Ink::green,
                                    style),
                              percent(j.chosen.of_three), first_of(j.fastest), percent(j.told), percent(j.simple),
                              j.tau ? fmt::format("{:.2f}", *j.tau) : "", j.first});
        }
        text += paint(s.summary.name, Ink::bold, style) + "  measured search\n" + to_text(t, style) + "\n";
    }
    Table t;
    for (const char* c : headings) t.header.push_back(c), t.right.push_back(t.header.size() > 1);
    for (const Scored& s : all) t.rows.push_back(cells(s.summary));
    return text + to_text(t, style) +
           "  Regret in %: measured time of the first choice over the best, less 1. fastest: of those predicted to fit, without intervals "
           "(in "
           "brackets: how often it did not run).\n";
}

std::string searches_to_markdown(const std::vector<MeasuredSearch>& searches) {
    if (searches.empty()) return {};
    const std::vector<Scored> all = scored(searches);
    std::string text = "\n## Choosing a strategy\n\nJobs that somebody ran under several strategies (scenarios/validation/searches). "
                       "Regret: measured step time "
                       "of the strategy that is chosen, over\nthat of the best, less 1, in per cent; means over jobs, those whose first "
                       "choice ran out of memory "
                       "apart. Chosen as `simrun search` does, with\nintervals of time and memory that are drawn from other sources. "
                       "Fastest: without intervals, the "
                       "fastest predicted of those predicted to fit (in\nbrackets: how often it did not run). Told what fits: the fastest "
                       "predicted of those that ran. Rule of thumb: of "
                       "those that ran, micro batch 1, no\nrecompute, least tensor x pipeline. Random: any that ran. Tau: mean over jobs "
                       "of Kendall's.\n\n";
    std::string line = "|", rule = "|";
    for (const char* c : headings) line += std::string(" ") + c + " |", rule += "---|";
    text += line + "\n" + rule + "\n";
    for (const Scored& s : all) {
        text += "|";
        for (const std::string& cell : cells(s.summary)) text += " " + cell + " |";
        text += "\n";
    }
    std::string far;
    for (const Scored& s : all)
        for (const JobChoices& j : s.jobs)
            if (missed(j))
                far += fmt::format("| {} | {} | {} | {} | {} | {} |\n", s.summary.name, j.job, first_of(j.chosen), percent(j.told),
                                   percent(j.simple), j.first);
    if (!far.empty())
        text += fmt::format("\nJobs whose first choice is more than {:.0f} % from the best:\n\n| search | job | regret | told what fits | "
                            "rule of thumb "
                            "| first choice |\n|---|---|---|---|---|---|\n",
                            100 * measurement_noise) +
                far;
    return text;
}

std::string searches_to_json(const std::vector<MeasuredSearch>& searches) {
    OrderedJson list = OrderedJson::array();
    const auto put = [](OrderedJson& j, const char* key, const std::optional<double>& value) {
        j[key] = value ? OrderedJson(*value) : OrderedJson();
    };
    for (const Scored& s : scored(searches)) {
        const SearchSummary& m = s.summary;
        OrderedJson one{{"name", m.name},
                        {"jobs", m.jobs},
                        {"strategies", m.strategies},
                        {"out_of_memory", m.out_of_memory},
                        {"mean_regret", m.regret},
                        {"worst_regret", m.worst},
                        {"mean_regret_of_three", m.of_three},
                        {"first_choice_out_of_memory", m.first_out_of_memory},
                        {"mean_regret_fastest", m.fastest},
                        {"fastest_out_of_memory", m.fastest_out_of_memory},
                        {"mean_regret_told", m.told},
                        {"mean_regret_rule", m.simple},
                        {"mean_regret_random", m.random},
                        {"mean_kendall_tau", m.tau},
                        {"fits", {{"n", m.fits_known}, {"right", m.fits_right}}}};
        one["each"] = OrderedJson::array();
        for (const JobChoices& j : s.jobs) {
            OrderedJson job{{"job", j.job}, {"strategies", j.strategies}, {"first_choice", j.first}};
            put(job, "regret", j.chosen.regret);
            put(job, "regret_of_three", j.chosen.of_three);
            put(job, "regret_fastest", j.fastest.regret);
            put(job, "regret_told", j.told);
            put(job, "regret_rule", j.simple);
            put(job, "kendall_tau", j.tau);
            job["fits"] = {{"n", j.fits_known}, {"right", j.fits_right}};
            one["each"].push_back(job);
        }
        list.push_back(one);
    }
    return list.dump(1);
}

} // namespace orrery
