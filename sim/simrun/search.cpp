// `simrun search SCENARIO.json`: the best strategy for what the scenario leaves free.
#include "sim/search/search.hpp"

#include "sim/advise/advise.hpp"
#include "sim/ranks/ranks.hpp"
#include "sim/search/choose.hpp"
#include "sim/search/print.hpp"
#include "sim/simrun/command.hpp"
#include "sim/sweep/crew.hpp"

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <csignal>
#include <cstdio>
#include <filesystem>
#include <string_view>
#include <utility>

namespace orrery::simrun {

namespace {

std::atomic<bool> interrupted{false};

void stop(int) { interrupted = true; }

constexpr std::pair<const char*, SearchBy> figures[] = {{"time", SearchBy::time},
                                                        {"tokens_per_s_per_gpu", SearchBy::device_time},
                                                        {"cost", SearchBy::cost},
                                                        {"energy", SearchBy::energy},
                                                        {"memory", SearchBy::memory},
                                                        {"goodput", SearchBy::goodput},
                                                        {"run_time", SearchBy::run_time},
                                                        {"run_cost", SearchBy::run_cost},
                                                        {"target_time", SearchBy::target_time},
                                                        {"target_cost", SearchBy::target_cost}};

SearchBy search_by(const std::string& name) {
    const auto it = std::ranges::find(figures, name, [](const auto& f) { return std::string_view(f.first); });
    return it == std::end(figures) ? SearchBy::time : it->second;
}

// The best of each kind as scenarios, 1.json the first. False, with a message, where they cannot be written.
bool write_best(const SearchResult& r, const SearchOptions& searching, const std::string& folder, const Options& options) {
    std::vector<std::pair<std::string, std::string>> files;
    for (const SearchPoint* p : rows_of(r, static_cast<std::size_t>(searching.top)))
        files.emplace_back(fmt::format("{}.json", files.size() + 1), nlohmann::ordered_json::parse(p->json).dump(1) + "\n");
    return write_scenarios(folder, files, options);
}

int exit_of(const SearchResult& r) {
    if (!r.points.empty() || r.empty_part) return done;
    return r.nearest_miss || r.nearest_late || r.counts.by_deadline > 0 ? too_big : bad_input;
}

SearchOptions options_of(const Options& options, const SearchCommand& command, const std::string& file) {
    SearchOptions searching;
    searching.space.parsing.base_dir = std::filesystem::path(file).parent_path().string();
    searching.space.parsing.overrides = options.overrides;
    searching.space.parsing.constants = options.constants;
    searching.space.jobs = options.jobs;
    constexpr double for_refining = 0.15;                            // of --seconds
    const bool refine = !command.no_refine && command.shard.empty(); // of the best of all, once the parts are joined
    const auto before = [timed = command.seconds > 0, start = std::chrono::steady_clock::now()](double seconds) {
        const auto until = start + std::chrono::duration<double>(seconds);
        return [until, timed] { return !interrupted.load() && !(timed && std::chrono::steady_clock::now() > until); };
    };
    searching.space.go_on = before(command.seconds * (refine ? 1 - for_refining : 1));
    searching.refine_on = before(command.seconds);
    const auto allowed = [&](const char* what) { return std::ranges::find(command.allow, what) != command.allow.end(); };
    if (allowed("offload")) searching.space.farthest = Reach::disk;
    searching.space.compression = allowed("compression");
    searching.by = search_by(command.by);
    searching.top = command.top;
    searching.database = command.database;
    searching.fresh = command.fresh;
    searching.refine = refine;
    searching.within_days = command.within_days;
    searching.gap = command.gap / 100;
    return searching;
}

// Under mpirun rank 0 searches and deals the points to all; nothing: this rank is another, and has nothing to tell. An error of one ends
// all.
std::optional<SearchResult> searched(const std::string& text, SearchOptions searching) {
    if (!started_as_ranks()) return search(text, searching);
    const OrreryTransport& transport = open_transport("start simrun without mpirun");
    const EvaluateText evaluate = [&searching](const std::string& json, ReadyPlans& kept) { return evaluate_text(json, searching, kept); };
    std::optional<SearchResult> result;
    try {
        if (transport.rank == 0) {
            searching.elsewhere = [&](const std::vector<PointGroup>& groups) { return deal_groups(groups, evaluate, transport); };
            result = search(text, searching);
            dismiss_crew(transport);
        } else
            work_for_search(evaluate, transport);
    } catch (const std::exception& e) {
        complain(e.what());
        transport.abort_all(bad_input);
    }
    transport.finish();
    return result;
}

// Shown while it lasts.
std::string progress_text(const SearchProgress& p, double seconds, SearchBy by) {
    if (p.to_list > 0) return fmt::format("searching: {} of {} combinations of degrees listed", grouped(p.listed), grouped(p.to_list));
    const double rate = static_cast<double>(p.simulated) / std::max(1e-9, seconds);
    const bool soon = rate > 0 && static_cast<double>(p.left) / rate < 86400; // more says that most will not be looked at
    return fmt::format("searching: {} of {} points simulated, {}{} left to look at{}{}{}", grouped(p.simulated), grouped(p.legal),
                       p.too_big > 0 ? grouped(p.too_big) + " do not fit, " : "", grouped(p.left),
                       soon ? fmt::format(", at most {} more", span_text(static_cast<double>(p.left) / rate)) : "",
                       p.best > 0 ? fmt::format(", best {:.4g} {}", p.best, unit(by)) : "",
                       p.best > p.lowest_left ? fmt::format(", none more than {:.1f} % better", 100 * (1 - p.lowest_left / p.best)) : "");
}

} // namespace

std::vector<std::string> search_figures() {
    std::vector<std::string> names;
    for (const auto& [name, by] : figures) names.emplace_back(name);
    return names;
}

bool refused_search(const std::string& file, const std::string& text, const Options& options, const SearchCommand& command) {
    SearchOptions searching = options_of(options, command, file);
    if (!command.space.empty()) {
        const auto space = read_input(command.space);
        if (!space) return true;
        searching.space.space = *space;
    }
    searching.refine = false;
    searching.top = 0;
    searching.go_on = [] { return false; };
    const SearchResult nothing = search(text, searching);
    if (!nothing.problems.empty())
        complain(command.space.empty() ? file : file + " with " + command.space, nothing.problems);
    else if (nothing.counts.legal <= 0)
        complain(file + ": " + no_answer(nothing));
    return !nothing.problems.empty() || nothing.counts.legal <= 0;
}

int run_search(const std::string& file, const Options& options, const SearchCommand& command) {
    const auto text = read_input(file);
    if (!text) return bad_input;
    if (const std::string why = why_not_written(command.write); !why.empty()) return complain(why), bad_input;
    SearchOptions searching = options_of(options, command, file);
    if (!command.shard.empty()) {
        try {
            searching.shard = parse_shard(command.shard, [](const char* name) { return std::getenv(name); });
        } catch (const std::runtime_error& e) {
            complain(e.what());
            return bad_input;
        }
        if (command.database.empty()) {
            complain("--shard needs --database FILE, which keeps what this part simulates");
            return bad_input;
        }
    }
    if (!command.space.empty()) {
        const auto space = read_input(command.space);
        if (!space) return bad_input;
        searching.space.space = *space;
    }
    searching.intervals = !command.csv.empty() || !searching.shard.whole(); // whoever reads the parts' files may print any point
    console::StatusLine line(!options.quiet);
    searching.progress = [&](const SearchProgress& p) {
        if (line.due()) line.show(progress_text(p, line.seconds(), searching.by));
    };
    interrupted = false;
    const auto before = std::signal(SIGINT, stop); // what was found until then is kept
    const std::optional<SearchResult> found = searched(*text, searching);
    std::signal(SIGINT, before);
    line.show("");
    if (!found) return done;
    const SearchResult& result = *found;
    if (!result.problems.empty()) {
        complain(command.space.empty() ? file : file + " with " + command.space, result.problems);
        return bad_input;
    }
    if (!command.csv.empty()) {
        Options csv = options;
        csv.output = command.csv;
        if (!deliver(to_csv(result, searching), csv)) return bad_input;
    }
    if (!command.write.empty() && !result.points.empty() && !write_best(result, searching, command.write, options)) return bad_input;
    const bool json = options.json || options.output.ends_with(".json");
    if (json || !options.quiet || !options.output.empty())
        if (!deliver(json ? to_json(result, searching) : to_text(result, searching, output_style(options)), options)) return bad_input;
    if (result.empty_part) {
        if (!options.quiet) std::fputs(fmt::format("simrun: {}: {}\n", file, no_answer(result)).c_str(), stderr);
    } else if (const std::string why = no_answer(result); !why.empty()) {
        const double extra = command.seconds > 0 ? std::min(20.0, 0.1 * command.seconds) : 20; // that was to be all
        const std::string out = result.nearest_miss && !interrupted
                                    ? way_out(result.nearest_miss->json, options, searching.space.parsing.base_dir,
                                              whole_text(*text, searching.space.parsing), result.homes_open, extra)
                                    : "";
        complain(file + ": " + why + (out.empty() ? "" : ". From the nearest, " + out));
    }
    return exit_of(result);
}

} // namespace orrery::simrun
