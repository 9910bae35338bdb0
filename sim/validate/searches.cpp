// Reads measured searches and chooses among their strategies, as `simrun search` does and as a rule of thumb does.
#include "sim/validate/searches.hpp"

#include "sim/report/memory_margin.hpp"
#include "sim/scenario/input_file.hpp"
#include "sim/scenario/parse.hpp"
#include "sim/search/choose.hpp"
#include "sim/validate/statistics.hpp"
#include "topology/text.hpp"

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <filesystem>
#include <limits>
#include <map>
#include <tuple>

namespace orrery {

namespace {

using Json = nlohmann::json; // sorted keys: two texts of one scenario are one

// "tensor_parallel 4, overlap/pipeline true"
std::string words(const Json& set) {
    std::string text;
    for (const auto& [pointer, value] : set.items())
        text += fmt::format("{}{} {}", text.empty() ? "" : ", ", pointer.substr(pointer.find('/', 1) + 1),
                            value.is_string() ? value.get<std::string>() : value.dump());
    return printable(text);
}

std::optional<double> above_zero(const Json& object, const char* key) {
    if (!object.contains(key) || !object.at(key).is_number() || !(object.at(key).get<double>() > 0)) return std::nullopt;
    return object.at(key).get<double>();
}

std::string text_of(const Json& object, const char* key, const std::string& otherwise = "") {
    return object.contains(key) && object.at(key).is_string() ? printable(object.at(key).get<std::string>()) : otherwise;
}

// Faults of a configuration; empty: none.
std::string fault_of(const Json& c) {
    if (!c.is_object() || !c.contains("set") || !c.at("set").is_object())
        return "must have \"set\": an object of JSON pointers and values, as in {\"/strategy/tensor_parallel\": 4}";
    for (const auto& [pointer, value] : c.at("set").items())
        if (pointer.empty() || pointer.front() != '/')
            return "\"set\" has \"" + printable(pointer) + "\", which is no JSON pointer: begin with /";
    if (!c.contains("measured") || !c.at("measured").is_object())
        return "must have \"measured\": an object with step_time_s, memory_gb or fits";
    const Json& m = c.at("measured");
    for (const char* key : {"step_time_s", "memory_gb"})
        if (m.contains(key) && !above_zero(m, key)) return std::string("measured: \"") + key + "\" must be a number above 0";
    if (m.contains("fits") && !m.at("fits").is_boolean()) return "measured: \"fits\" must be true or false";
    if (!m.contains("fits") && !m.contains("step_time_s")) return "measured: must say step_time_s, or whether it fits";
    return {};
}

ValidationRow row_of(const Json& c, const Json& base, const std::string& source, const std::string& base_dir) {
    ValidationRow row;
    Json scenario = base;
    for (const auto& [pointer, value] : c.at("set").items()) scenario[Json::json_pointer(pointer)] = value;
    scenario.erase("name");
    row.name = words(c.at("set"));
    row.source = source;
    row.base_dir = base_dir;
    row.scenario_json = scenario.dump();
    row.doubtful = c.contains("doubtful") && c.at("doubtful") == true;
    row.measured.step_time_s = above_zero(c.at("measured"), "step_time_s");
    row.measured.memory_gb = above_zero(c.at("measured"), "memory_gb");
    if (c.at("measured").contains("fits")) row.measured.fits = c.at("measured").at("fits").get<bool>();
    return row;
}

// One that is ranked by something else than step time is left out.
bool by_time(const Json& job) { return text_of(job, "objective", "step_time_s") == "step_time_s"; }

void read_job(SearchFile& file, const Json& job, const std::string& where, const std::string& base_dir) {
    const auto wrong = [&](const std::string& what) { file.problems.push_back(where + ": " + what); };
    if (!job.is_object() || !job.contains("scenario") || !job.at("scenario").is_object() || !job.contains("configurations") ||
        !job.at("configurations").is_array())
        return wrong("must be an object with \"scenario\" (an object) and \"configurations\" (a list)");
    if (!by_time(job)) return;
    MeasuredJob out;
    out.name = text_of(job, "name");
    out.source = text_of(job, "source", file.search.source);
    constexpr double none = std::numeric_limits<double>::infinity();
    double best = none, best_doubtful = none;
    std::size_t at = 0;
    for (const Json& c : job.at("configurations")) {
        const std::string here = fmt::format("configurations[{}]", at++);
        if (const std::string fault = fault_of(c); !fault.empty()) {
            wrong(here + ": " + fault);
            continue;
        }
        try {
            out.strategies.push_back(row_of(c, job.at("scenario"), out.source, base_dir));
        } catch (const Json::exception& e) {
            wrong(here + ": \"set\" cannot be applied to the scenario: " + printable(e.what()));
            continue;
        }
        out.strategies.back().dataset = file.search.name;
        double& of = out.strategies.back().doubtful ? best_doubtful : best;
        of = std::min(of, out.strategies.back().measured.step_time_s.value_or(none));
    }
    out.best_step_time_s = best < none ? best : best_doubtful;
    if (out.best_step_time_s == none) return wrong("has no configuration with a step time");
    file.search.jobs.push_back(std::move(out));
}

std::string canonical(const std::string& scenario) {
    Json j = Json::parse(scenario, nullptr, false);
    if (j.is_object()) j.erase("name");
    return j.dump();
}

// Regret expected of one of these, each as likely.
std::optional<double> expected(const std::vector<double>& times, double best) {
    if (times.empty()) return std::nullopt;
    return mean(times) / best - 1;
}

// The rule of thumb: of those that run, micro batch 1, no recompute, and the least tensor x pipeline. Told which
// run; equals count as their mean.
std::optional<double> rule_of_thumb(const MeasuredJob& job) {
    std::tuple<std::int64_t, int, int> least{std::numeric_limits<std::int64_t>::max(), 0, 0};
    std::vector<double> times;
    for (const ValidationRow& row : job.strategies) {
        if (!row.measured.step_time_s) continue;
        ParseOptions options;
        options.base_dir = row.base_dir;
        const ParseResult parsed = parse_scenario(row.scenario_json, options);
        if (!parsed.scenario) continue;
        const Scenario& s = *parsed.scenario;
        const int recompute = s.strategy.recompute == RecomputeKind::none ? 0 : s.strategy.recompute == RecomputeKind::full ? 2 : 1;
        const std::tuple key{s.training.micro_batch_size, recompute, s.strategy.tensor_parallel * s.strategy.pipeline_parallel};
        if (key > least) continue;
        if (key < least) times.clear();
        least = key;
        times.push_back(*row.measured.step_time_s);
    }
    return expected(times, job.best_step_time_s);
}

// Experience without the source of a row: what a new source would be told.
ErrorBar interval_without(const ValidationRow& row) {
    std::vector<Experience> others;
    const std::string_view own = source_of(row.dataset);
    for (const Experience& e : validated_rows())
        if (source_of(e.dataset) != own) others.push_back(e);
    return error_bar(row.configuration, others);
}

SearchChoice choice_of(const MeasuredJob& job, const std::vector<std::size_t>& order) {
    SearchChoice c;
    if (order.empty()) return c;
    const auto time = [&](std::size_t i) { return job.strategies[i].measured.step_time_s; };
    if (time(order.front())) c.regret = *time(order.front()) / job.best_step_time_s - 1;
    for (std::size_t i = 0; i < std::min<std::size_t>(3, order.size()); ++i)
        if (time(order[i])) c.of_three = std::min(c.of_three.value_or(1e9), *time(order[i]) / job.best_step_time_s - 1);
    return c;
}

bool predicted(const ValidationRow& row) { return row.failure.empty() && row.predicted.step_time_s; }

// Those that are predicted to fit, the chosen one first, then as fast as they are predicted.
std::vector<std::size_t> by_search(const MeasuredJob& job, std::vector<std::size_t> order) {
    if (order.empty()) return order;
    std::vector<Candidate> candidates;
    for (const std::size_t i : order) {
        const ValidationRow& row = job.strategies[i];
        const ErrorBar bar = interval_without(row);
        const double share = row.planned_share.value_or(0);
        candidates.push_back({*row.predicted.step_time_s, bar.step_time, 1 - share >= memory_margin(bar.memory), 1 - share});
    }
    const auto lead = static_cast<std::ptrdiff_t>(leader(candidates));
    std::rotate(order.begin(), order.begin() + lead, order.begin() + lead + 1);
    return order;
}

} // namespace

SearchFile load_search(const std::string& path) {
    SearchFile file;
    std::string text;
    if (!read_file(path, text)) return file;       // load_dataset says why
    if (!json_problems(text).empty()) return file; // load_dataset says which
    const Json j = Json::parse(text, nullptr, false, true);
    if (!j.is_object() || text_of(j, "format") != "orrery-search/1") return file;
    file.is_one = true;
    file.search.name = text_of(j, "name", std::filesystem::path(path).stem().string());
    file.search.source = text_of(j, "source");
    if (!j.contains("jobs") || !j.at("jobs").is_array()) {
        file.problems.push_back(path + ": a measured search must have a list of \"jobs\"");
        return file;
    }
    std::size_t at = 0;
    const std::string base_dir = std::filesystem::path(path).parent_path().string();
    for (const Json& job : j.at("jobs"))
        read_job(file, job, fmt::format("{}: jobs[{}]{}", path, at++, job.is_object() ? " (" + text_of(job, "name") + ")" : ""), base_dir);
    return file;
}

void predict_searches(std::vector<MeasuredSearch>& searches, const std::vector<ValidationRow>& known, int jobs, const Progress& progress) {
    std::map<std::string, ValidationRow> by_scenario;
    for (const ValidationRow& row : known) by_scenario.emplace(canonical(row.scenario_json), row);
    std::vector<ValidationRow> missing;
    std::map<std::string, bool> asked;
    for (const MeasuredSearch& s : searches)
        for (const MeasuredJob& job : s.jobs)
            for (const ValidationRow& row : job.strategies)
                if (!by_scenario.contains(row.scenario_json) && asked.emplace(row.scenario_json, true).second) missing.push_back(row);
    if (!missing.empty())
        for (ValidationRow& row : validate(std::move(missing), jobs, progress).rows) by_scenario.emplace(row.scenario_json, row);
    for (MeasuredSearch& s : searches)
        for (MeasuredJob& job : s.jobs)
            for (ValidationRow& row : job.strategies) {
                const ValidationRow& of = by_scenario.at(row.scenario_json);
                row.predicted = of.predicted;
                row.planned_share = of.planned_share;
                row.configuration = of.configuration;
                row.failure = of.failure;
            }
}

JobChoices choices_of(const MeasuredJob& job) {
    JobChoices c;
    c.job = job.name;
    c.strategies = static_cast<int>(job.strategies.size());
    std::vector<std::size_t> order, ran;
    std::vector<double> times, ours, measured;
    for (std::size_t i = 0; i < job.strategies.size(); ++i) {
        const ValidationRow& row = job.strategies[i];
        if (row.measured.fits == false) ++c.out_of_memory;
        if (row.measured.fits && row.predicted.fits) ++c.fits_known, c.fits_right += row.measured.fits == row.predicted.fits;
        if (row.measured.step_time_s) times.push_back(*row.measured.step_time_s);
        const bool known = row.measured.step_time_s || row.measured.fits == false; // of one that ran nobody may say how fast
        if (!predicted(row) || !known) continue;
        if (row.predicted.fits.value_or(true)) order.push_back(i);
        if (!row.measured.step_time_s) continue;
        ran.push_back(i);
        ours.push_back(*row.predicted.step_time_s);
        measured.push_back(*row.measured.step_time_s);
    }
    const auto faster = [&](std::size_t a, std::size_t b) {
        return *job.strategies[a].predicted.step_time_s < *job.strategies[b].predicted.step_time_s;
    };
    std::ranges::stable_sort(order, faster);
    std::ranges::stable_sort(ran, faster);
    c.fastest = choice_of(job, order);
    const std::vector<std::size_t> chosen = by_search(job, order);
    c.chosen = choice_of(job, chosen);
    if (!chosen.empty()) c.first = job.strategies[chosen.front()].name;
    if (!ran.empty()) c.told = *job.strategies[ran.front()].measured.step_time_s / job.best_step_time_s - 1;
    if (ran.size() > 2) c.tau = kendall_tau(ours, measured);
    c.simple = rule_of_thumb(job);
    c.random = expected(times, job.best_step_time_s);
    return c;
}

SearchSummary summary_of(const std::string& name, const std::vector<JobChoices>& jobs) {
    SearchSummary s;
    s.name = name;
    std::vector<double> regrets, of_three, fastest, told, simple, random, taus;
    const auto take = [](std::vector<double>& to, const std::optional<double>& value) {
        if (value) to.push_back(*value);
    };
    for (const JobChoices& job : jobs) {
        ++s.jobs;
        s.strategies += job.strategies;
        s.out_of_memory += job.out_of_memory;
        s.first_out_of_memory += !job.chosen.regret;
        s.fastest_out_of_memory += !job.fastest.regret;
        s.fits_known += job.fits_known;
        s.fits_right += job.fits_right;
        take(regrets, job.chosen.regret);
        take(of_three, job.chosen.of_three);
        take(fastest, job.fastest.regret);
        take(told, job.told);
        take(simple, job.simple);
        take(random, job.random);
        take(taus, job.tau);
    }
    s.regret = mean(regrets);
    s.worst = regrets.empty() ? 0 : *std::ranges::max_element(regrets);
    s.of_three = mean(of_three);
    s.fastest = mean(fastest);
    s.told = mean(told);
    s.simple = mean(simple);
    s.random = mean(random);
    s.tau = mean(taus);
    return s;
}

} // namespace orrery
