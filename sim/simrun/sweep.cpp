// `simrun SWEEP.json`: every combination on all cores, kept in an SQLite file, ranked at the end.
#include "sim/ranks/ranks.hpp"
#include "sim/search/replan.hpp"
#include "sim/sweep/deal.hpp"

#include "sim/console/command_line.hpp"
#include "sim/simrun/command.hpp"

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <map>

namespace orrery::simrun {

namespace {

RankBy rank_by(const std::string& name) {
    for (const RankBy by : all_rankings())
        if (name == orrery::name(by)) return by;
    return RankBy::tokens_per_s;
}

// The best, as many as are asked for.
std::vector<std::size_t> best(const SweepRun& run, const SweepOptions& how) {
    std::vector<std::size_t> order = ranked(run, rank_by(how.by));
    if (order.size() > static_cast<std::size_t>(how.top)) order.resize(how.top);
    return order;
}

std::string known(double figure) { return figure > 0 ? metric(figure, 3) : "-"; }

bool of_run(RankBy by) { return by == RankBy::goodput || by == RankBy::run_time || by == RankBy::run_cost; }

// Points with "run": what becomes of a step in the end. Where they are ranked by a figure of steps alone, that too.
std::string ranking_of_runs(const SweepRun& run, const std::vector<std::size_t>& first, RankBy by, const TextStyle& style) {
    Table t{{"", "what varies", "step time", "MFU", "peak memory", "goodput", "days", "tokens", "USD", "USD/T tokens", ""},
            {true, false, true, true, true, true, true, true, true, true, false},
            {}};
    const bool energy = by == RankBy::energy, cost = by == RankBy::cost;
    if (energy || cost) {
        t.header.insert(t.header.begin() + 3, energy ? "MWh/T tokens, steps alone" : "USD/T tokens, steps alone");
        t.right.insert(t.right.begin() + 3, true);
    }
    for (const std::size_t i : first) {
        const SweepRow& r = run.rows[i];
        const bool ends = r.run_finished >= 1;
        t.rows.push_back({std::to_string(t.rows.size() + 1), r.label, seconds_text(r.step_time_s), fmt::format("{:.1f} %", r.mfu * 100),
                          fmt::format("{:.1f} of {:.1f} GB", Bytes{r.peak_bytes}.gigabytes(), Bytes{r.capacity_bytes}.gigabytes()),
                          ends ? fmt::format("{:.2f} %", r.run_goodput * 100) : "-", ends ? fmt::format("{:.4g}", r.run_s / 86400) : "-",
                          known(r.run_tokens), known(r.run_cost_usd), known(r.run_usd_per_trillion_tokens()),
                          r.run_finished >= 0 && !ends
                              ? paint(fmt::format("{:.0f} % of the runs end", r.run_finished * 100), Ink::yellow, style)
                          : r.narrow() ? paint("narrowly", Ink::yellow, style)
                                       : ""});
        if (energy || cost)
            t.rows.back().insert(t.rows.back().begin() + 3,
                                 energy ? known(r.per_trillion_tokens(r.energy_j) / 3.6e9) : known(r.per_trillion_tokens(r.cost_usd)));
    }
    return to_text(t, style) + "goodput, days and tokens: the median of the simulated runs; USD of all nodes and spares, the mean\n";
}

std::string ranking(const SweepRun& run, const SweepOptions& how, const TextStyle& style) {
    const bool energy = rank_by(how.by) == RankBy::energy;
    Table t{{"", "what varies", "step time", "80 % interval", "tokens/s", "a device", "MFU", "bubble", "peak memory",
             energy ? "MWh/T tokens" : "USD/T tokens", ""},
            {true, false, true, true, true, true, true, true, true, true, false},
            {}};
    const std::vector<std::size_t> first = best(run, how);
    if (std::ranges::any_of(first, [&](std::size_t i) { return run.rows[i].run_finished >= 0; }))
        return ranking_of_runs(run, first, rank_by(how.by), style);
    const bool targets = std::any_of(first.begin(), first.end(), [&](std::size_t i) { return run.rows[i].time_to_target_s > 0; });
    const bool stragglers = std::ranges::any_of(first, [&](std::size_t i) { return run.rows[i].waits_for_stragglers(); });
    if (stragglers) { // behind the bubble
        t.header.insert(t.header.begin() + 8, "stragglers");
        t.right.insert(t.right.begin() + 8, true);
    }
    if (targets) { // training.convergence says when steps have led to one
        t.header.insert(t.header.end() - 1, "to the target");
        t.right.insert(t.right.end() - 1, true);
    }
    for (const std::size_t i : first) {
        const SweepRow& r = run.rows[i];
        t.rows.push_back({std::to_string(t.rows.size() + 1), r.label, seconds_text(r.step_time_s), to_text(r.step_time_interval),
                          metric(r.tokens_per_s, 4), metric(r.tokens_per_s_per_gpu, 4), fmt::format("{:.1f} %", r.mfu * 100),
                          fmt::format("{:.1f} %", r.bubble_fraction * 100),
                          fmt::format("{:.1f} of {:.1f} GB", Bytes{r.peak_bytes}.gigabytes(), Bytes{r.capacity_bytes}.gigabytes()),
                          energy ? known(r.per_trillion_tokens(r.energy_j) / 3.6e9) : known(r.per_trillion_tokens(r.cost_usd)),
                          r.narrow() ? paint("narrowly", Ink::yellow, style) : ""});
        if (stragglers)
            t.rows.back().insert(t.rows.back().begin() + 8,
                                 r.straggler_fraction < 0 ? "" : fmt::format("{:.1f} %", r.straggler_fraction * 100));
        if (targets) t.rows.back().insert(t.rows.back().end() - 1, fmt::format("{:.4g} days", r.time_to_target_s / 86400));
    }
    return t.rows.empty() ? std::string() : to_text(t, style);
}

// The best as scenarios, 1.json the best of all. False, with a message, where they cannot be written.
bool write_best(const SweepDocument& document, const SweepRun& run, const SweepOptions& how, const Options& options) {
    std::vector<std::pair<std::string, std::string>> files;
    for (const std::size_t i : best(run, how))
        files.emplace_back(fmt::format("{}.json", files.size() + 1),
                           nlohmann::ordered_json::parse(document.point(run.rows[i].index).json).dump(1) + "\n");
    return write_scenarios(how.write, files, options);
}

// Why points cannot be, the commonest reason first, with how many say so.
std::vector<std::pair<std::string, std::int64_t>> commonest_reasons(const SweepRun& run) {
    std::map<std::string, std::int64_t> reasons;
    for (const SweepRow& r : run.rows)
        if (r.status == PointStatus::impossible || r.status == PointStatus::failed) ++reasons[r.reason];
    std::vector<std::pair<std::string, std::int64_t>> sorted(reasons.begin(), reasons.end());
    std::stable_sort(sorted.begin(), sorted.end(), [](const auto& a, const auto& b) { return a.second > b.second; });
    return sorted;
}

// How many of each, and the commonest reasons of what cannot be.
std::string counts(const SweepRun& run, const TextStyle& style) {
    std::map<std::string, std::int64_t> status;
    for (const SweepRow& r : run.rows) ++status[name(r.status)];
    std::string text =
        fmt::format("{} combination{}", grouped(static_cast<std::int64_t>(run.rows.size())), run.rows.size() == 1 ? "" : "s");
    for (const auto& [what, n] : status) text += fmt::format(", {} {}", grouped(n), what == "fits" && n != 1 ? "fit" : what);
    if (run.reused > 0) text += fmt::format("; {} were known from before", grouped(run.reused));
    text += "\n";
    const auto sorted = commonest_reasons(run);
    for (std::size_t i = 0; i < sorted.size() && i < 5; ++i) {
        text += fmt::format("  {:>6} x {}\n", sorted[i].second, clip(sorted[i].first, std::max(40, style.width - 12)));
    }
    return text;
}

// "sweep.sqlite", of a part "sweep.3-of-8.sqlite".
std::string database_of(const std::string& file, const Options& options, const Shard& shard) {
    if (!options.output.empty()) return options.output;
    const std::string part = shard.whole() ? "" : fmt::format(".{}-of-{}", shard.index, shard.count);
    return std::filesystem::path(file).stem().string() + part + ".sqlite";
}

// Under mpirun rank 0 deals and tells; the others compute, and have no run to tell of. An error of one ends all.
std::optional<SweepRun> on_ranks(const SweepDocument& document, const std::string& database, const SweepRunOptions& running) {
    const OrreryTransport& transport = open_transport("start simrun without mpirun");
    std::optional<SweepRun> run;
    try {
        if (transport.rank == 0)
            run = deal_sweep(document, database, running, transport);
        else
            work_for_sweep(document, transport, running.replans);
    } catch (const std::exception& e) {
        complain(e.what());
        transport.abort_all(bad_input);
    }
    transport.finish();
    return run;
}

// The point that misses its memory by least, and what would make it fit.
std::string nearest_miss(const SweepDocument& document, const SweepRun& run, const Options& options) {
    const auto lacks = [](const SweepRow& r) { return std::max<std::int64_t>(0, r.peak_bytes - r.capacity_bytes); };
    const SweepRow* nearest = nullptr;
    for (const SweepRow& r : run.rows)
        if (r.status == PointStatus::too_big && (!nearest || lacks(r) < lacks(*nearest))) nearest = &r;
    if (!nearest) return {};
    const std::string out = way_out(document.point(nearest->index).json, options, document.base_dir());
    return fmt::format("nearest to fit of those that are too big: {}, which lacks {}{}{}\n", nearest->label,
                       lacks(*nearest) > 0 ? fmt::format("{:.1f} GB", Bytes{lacks(*nearest)}.gigabytes()) : "room on its node",
                       out.empty() ? "" : "; ", out);
}

// The figure to rank by, where no point that fits has it and the ranking would say nothing; empty: some point has it.
std::string not_known(const SweepRun& run, RankBy by) {
    const auto none = [&](auto&& has) {
        return std::ranges::none_of(run.rows, [&](const SweepRow& r) { return r.status == PointStatus::fits && has(r); });
    };
    if (none([](const SweepRow&) { return true; }) && !of_run(by)) return {};
    if (of_run(by) && none([](const SweepRow& r) { return r.run_finished >= 0; }))
        return "ranks whole runs, and no point that fits has \"run\": add one, as in scenarios/runs";
    if (by == RankBy::time_to_target_s && none([](const SweepRow& r) { return r.time_to_target_s > 0; }))
        return "ranks by the time to a target, and no point that fits has one: add training.convergence";
    if (by == RankBy::cost && none([](const SweepRow& r) { return r.cost_usd > 0; }))
        return "needs a price, and no device's is known: set cluster.price_usd_per_device_hour";
    if (by == RankBy::energy && none([](const SweepRow& r) { return r.energy_j > 0; }))
        return "needs a power, and no device's is known: set cluster.device.power_w";
    return {};
}

// Says why where no point has an answer.
int end_of_sweep(const std::string& file, const SweepRun& run) {
    const auto is = [&](PointStatus s) {
        return std::any_of(run.rows.begin(), run.rows.end(), [&](const SweepRow& r) { return r.status == s; });
    };
    if (is(PointStatus::fits)) return done;
    const bool large = is(PointStatus::too_big);
    const auto reasons = commonest_reasons(run);
    complain(fmt::format("{}: none of its {} combinations {}{}", file, grouped(static_cast<std::int64_t>(run.rows.size())),
                         large ? "fits in memory" : "can be predicted",
                         large || reasons.empty() ? "" : "; most often, because " + reasons.front().first));
    return large ? too_big : bad_input;
}

} // namespace

int run_sweep(const std::string& file, const Options& options, const SweepOptions& how) {
    const SweepResult loaded = load_sweep(file, options.overrides, options.constants);
    if (!loaded.document || !loaded.problems.empty()) {
        complain(file, loaded.problems);
        return bad_input;
    }
    if (const std::string why = why_not_written(how.write); !why.empty()) return complain(why), bad_input;
    const bool ranks = started_as_ranks();
    SweepRun run;
    std::string database;
    {
        ProgressBar progress("sweeping", options);
        SweepRunOptions running{options.jobs, how.fresh, [&](std::size_t n, std::size_t total) { progress.show(n, total); }};
        running.replans = [&](const std::string& json) {
            ParseOptions parsing;
            parsing.base_dir = loaded.document->base_dir();
            parsing.constants = options.constants;
            return replan_by_search(json, parsing, 1);
        };
        try {
            if (!how.shard.empty()) running.shard = parse_shard(how.shard, [](const char* name) { return std::getenv(name); });
            database = database_of(file, options, running.shard);
            const std::string lost = console::lost_file({}, {{"the file of results (-o)", database}, {"--csv", how.csv}});
            if (!lost.empty()) throw std::runtime_error(lost);
            if (ranks && !how.shard.empty()) throw std::runtime_error("under mpirun ranks share all points: leave --shard out");
            std::optional<SweepRun> all =
                ranks ? on_ranks(*loaded.document, database, running) : orrery::run_sweep(*loaded.document, database, running);
            if (!all) return done;
            run = std::move(*all);
        } catch (const std::runtime_error& e) {
            complain(e.what());
            return bad_input;
        }
    }
    Options to_stdout = options;
    to_stdout.output.clear();
    if (!how.csv.empty()) {
        Options csv = options;
        csv.output = how.csv;
        if (!deliver(to_csv(*loaded.document, run), csv)) return bad_input;
    }
    if (!how.write.empty() && !write_best(*loaded.document, run, how, options)) return bad_input;
    const TextStyle style = output_style(to_stdout);
    if (options.json) {
        if (!deliver(to_json(*loaded.document, run, rank_by(how.by)), to_stdout)) return bad_input;
    } else if (!options.quiet) {
        const std::string title = paint(loaded.document->name().empty() ? file : loaded.document->name(), Ink::bold, style);
        const std::string table = not_known(run, rank_by(how.by)).empty() ? ranking(run, how, style) : std::string();
        if (!deliver(title + "\n" + table + counts(run, style) + nearest_miss(*loaded.document, run, options) + "results: " + database +
                         "\n",
                     to_stdout))
            return bad_input;
    }
    if (const std::string lacks = not_known(run, rank_by(how.by)); !lacks.empty() && how.shard.empty()) {
        complain("--by " + how.by + " " + lacks);
        return bad_input;
    }
    if (!how.shard.empty()) return done; // whether any point of all fits, no part knows
    return end_of_sweep(file, run);
}

} // namespace orrery::simrun
