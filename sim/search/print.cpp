#include "sim/search/print.hpp"

#include "sim/report/memory_margin.hpp"
#include "sim/scenario/suggest.hpp"
#include "sim/search/choose.hpp"
#include "topology/text.hpp"

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <cmath>

namespace orrery {

namespace {

std::string gigabytes(std::int64_t bytes) { return fmt::format("{:.1f}", Bytes{bytes}.gigabytes()); }

std::string days_text(double s) { return s >= 10 * 86400 ? fmt::format("{:.1f}", s / 86400) : fmt::format("{:.3g}", s / 86400); }

// A device's lack of memory, or, where its plan fits there, the node's, which the reason says.
std::string lacking(const SearchPoint& p) {
    const std::int64_t bytes = p.row.peak_bytes - p.row.capacity_bytes;
    return bytes > 0 ? gigabytes(bytes) + " GB a device" : "room on its node";
}

std::int64_t global_batch(const SearchPoint& p) {
    const auto training = nlohmann::json::parse(p.json.empty() ? "{}" : p.json).value("training", nlohmann::json::object());
    return training.value("global_batch_size", std::int64_t{0});
}

// Goodputs are compared to a thousandth (SweepRow::run_stretch()), and printed as they are.
double printed_score(const SearchPoint& p, SearchBy by) {
    return by == SearchBy::goodput && p.row.run_goodput > 0 ? 1 / p.row.run_goodput : p.score;
}

double target_usd(const SearchPoint& p) { return p.row.step_time_s > 0 ? p.cost_usd * p.row.time_to_target_s / p.row.step_time_s : 0; }

std::string strategy_of(const SearchPoint& p) { return p.row.label + (p.refined.empty() ? "" : ", " + p.refined); }

Table table_of(const SearchResult& result, const std::vector<const SearchPoint*>& which, const TextStyle& style) {
    const double best = std::min(result.points.front().score, named(result).score);
    Table t{{"", "step time", "80 % interval", "behind", "peak memory", "bubble", "MFU", "USD a step", "strategy"},
            {true, true, true, true, true, true, true, true, false},
            {},
            true};
    const auto add = [&](const std::string& title) {
        t.header.insert(t.header.end() - 1, title);
        t.right.insert(t.right.end() - 1, true);
    };
    const bool target = std::ranges::any_of(which, [](const SearchPoint* p) { return p->row.time_to_target_s > 0; });
    const bool stragglers = std::ranges::any_of(which, [](const SearchPoint* p) { return p->row.waits_for_stragglers(); });
    if (stragglers) add("stragglers");
    if (target) add("days to the target"), add("USD to the target");
    const bool runs = std::ranges::any_of(which, [](const SearchPoint* p) { return p->row.run_finished >= 0; });
    if (runs) add("goodput"), add("days"), add("USD of the run");
    for (const SearchPoint* point : which) {
        const SearchPoint& p = *point;
        const SweepRow& r = p.row;
        const std::string memory = gigabytes(r.peak_bytes) + " of " + gigabytes(r.capacity_bytes) + " GB";
        t.rows.push_back({std::to_string(t.rows.size() + 1), seconds_text(r.step_time_s), to_text(r.step_time_interval),
                          p.score > best ? fmt::format("{:.1f} %", (p.score / best - 1) * 100) : "",
                          !fits_surely(r) ? paint(memory + ", tight", Ink::yellow, style) : memory,
                          fmt::format("{:.1f} %", r.bubble_fraction * 100), fmt::format("{:.1f} %", r.mfu * 100),
                          p.cost_usd > 0 ? fmt::format("{:.3g}", p.cost_usd) : "",
                          strategy_of(p) + (p.limits.empty() ? "" : "; time: " + p.limits)});
        auto& cells = t.rows.back();
        if (stragglers) cells.insert(cells.end() - 1, r.straggler_fraction < 0 ? "" : fmt::format("{:.1f} %", r.straggler_fraction * 100));
        if (target) cells.insert(cells.end() - 1, {days_text(r.time_to_target_s), target_usd(p) > 0 ? metric(target_usd(p), 3) : ""});
        if (!runs) continue;
        const bool ends = r.run_finished >= 1;
        cells.insert(cells.end() - 1, {ends ? fmt::format("{:.2f} %", r.run_goodput * 100) : "",
                                       ends                 ? days_text(r.run_s)
                                       : r.run_finished < 0 ? ""
                                                            : "no end",
                                       r.run_cost_usd > 0 ? metric(r.run_cost_usd, 3) : ""});
    }
    return t;
}

std::string counted(const SearchResult& r, SearchBy by, const TextStyle& style) {
    const SearchCounts& c = r.counts;
    std::string text = fmt::format("{} legal points{}: {} simulated", grouped(c.legal),
                                   r.whole ? "" : ", as far as they were listed before the search was stopped", grouped(c.simulated));
    const auto add = [&](std::int64_t n, const std::string& why) {
        if (n > 0) text += fmt::format("; {} {}", grouped(n), why);
    };
    add(c.by_memory_bound, "cannot fit, by a bound of their memory");
    add(c.by_memory, "do not fit, by their plan");
    add(c.by_deadline, "cannot end in time, by a bound of their time");
    add(c.too_late, "do not end in time");
    const std::string more = r.near_enough ? fmt::format("more than {:.1f} % better", r.gap() * 100) : "better";
    add(c.by_time_bound,
        fmt::format("cannot be {} than the best, by a bound of their {}", more, by == SearchBy::memory ? "memory" : "time"));
    add(c.failed, "failed");
    add(c.left, "not looked at");
    text += r.tightest > 0 ? fmt::format(". Bounds are {:.0f} % of the simulated time (mean; {:.0f} to {:.0f}), from {} small plans.",
                                         r.mean_tightness * 100, r.loosest * 100, r.tightest * 100, grouped(c.profiles))
                           : fmt::format(". Bounds are from {} small plans.", grouped(c.profiles));
    if (c.reused > 0) text += fmt::format(" {} of the points that were simulated or do not fit were known from before.", grouped(c.reused));
    std::string rules;
    std::int64_t refused = 0;
    for (const auto& [where, n] : r.refused) refused += n, rules += fmt::format("{}{} {}", rules.empty() ? "" : ", ", where, grouped(n));
    if (refused > 0) text += fmt::format(" {} combinations are not legal, by the field that a rule names: {}.", grouped(refused), rules);
    return wrapped(text, style.width, "", "  ");
}

// The strategies within the interval of the first.
std::string ties(const SearchResult& r, const SearchPoint& first, const SearchOptions& options) {
    const auto near =
        std::count_if(r.points.begin(), r.points.end(), [&](const SearchPoint& p) { return p.score <= first.score * (1 + options.ties); });
    if (near < 2) return {};
    return fmt::format("{} simulated points are within {:.0f} % of the first: steps repeat no better, so they are ties.\n", grouped(near),
                       options.ties * 100);
}

std::vector<std::string> words_of(const std::string& label) {
    std::vector<std::string> words;
    for (std::size_t from = 0; from <= label.size();) {
        const std::size_t comma = std::min(label.find(", ", from), label.size());
        words.push_back(label.substr(from, comma - from));
        from = comma + 2;
    }
    return words;
}

// The kind of a strategy's word: "10 chunks a stage" and "20 chunks a stage" are of one.
std::string kind_of(std::string word) {
    std::erase_if(word, [](unsigned char c) { return std::isdigit(c) != 0; });
    return word;
}

// Points as good as the first, by what their strategies have that it has not.
std::string equals(const SearchResult& r, const SearchPoint& first, const TextStyle& style) {
    constexpr double alike = 0.001;
    constexpr std::size_t named = 4;
    const std::vector<std::string> own = words_of(first.row.label);
    std::vector<std::string> texts;
    for (const SearchPoint& p : r.points) {
        if (p.id == first.id || std::abs(p.score / first.score - 1) > alike) continue;
        std::string text;
        const std::vector<std::string> words = words_of(p.row.label);
        for (const std::string& w : words)
            if (std::find(own.begin(), own.end(), w) == own.end()) text += (text.empty() ? "" : ", ") + w;
        const auto has_kind = [&](const std::string& w) {
            return std::ranges::any_of(words, [&](const std::string& other) { return kind_of(other) == kind_of(w); });
        };
        for (const std::string& w : own)
            if (words.size() < own.size() && !has_kind(w)) text += (text.empty() ? "without " : ", without ") + w;
        if (!text.empty()) texts.push_back(fmt::format("{} ({:+.2f} %)", text, (p.score / first.score - 1) * 100));
    }
    if (texts.empty()) return {};
    std::string all = "Equal within 0.1 %: ";
    for (std::size_t i = 0; i < std::min(texts.size(), named); ++i) all += (i == 0 ? "" : "; ") + texts[i];
    if (texts.size() > named) all += fmt::format("; and {} more", texts.size() - named);
    return wrapped(all + ".", style.width, "", "  ") + "\n";
}

// Tokens of the scenario's "run"; 0: it has none, or its length is given in days.
double tokens_of_run(const SearchPoint& p) {
    const auto run = nlohmann::json::parse(p.json.empty() ? "{}" : p.json).value("run", nlohmann::json::object());
    const double steps = run.value("steps", 0.0);
    return steps > 0 ? steps * p.row.step_time_s * p.row.tokens_per_s : run.value("tokens", 0.0);
}

// Whether what is asked for is the time to the target, not that of the run.
bool until_target(const SearchResult& r, const SearchPoint& p) {
    return p.row.time_to_target_s > 0 && (r.until_target || tokens_of_run(p) <= 0);
}

// Without failures.
AtThisPace pace_of(const SearchPoint& p, double tokens) {
    const double seconds = tokens / p.row.tokens_per_s, steps = seconds / p.row.step_time_s;
    return {seconds, steps * p.cost_usd, steps * p.energy_j};
}

} // namespace

std::string no_answer(const SearchResult& r) {
    if (!r.points.empty() || !r.problems.empty()) return {};
    if (!r.whole && !r.nearest_miss && !r.nearest_late) return "the search was stopped before any point was simulated";
    if (r.empty_part) return "this part of the space is empty: all of its points fell to other parts, and nothing is left to do here";
    if (r.counts.legal <= 0)
        return "no combination of the free fields is legal" +
               (r.nearest_refusal.what.empty() ? std::string() : "; the first that was refused: " + r.nearest_refusal.what);
    const bool late = r.counts.by_deadline + r.counts.too_late > 0;
    if (r.nearest_late) {
        const SearchPoint& fastest = *r.nearest_late;
        const bool target = until_target(r, fastest);
        const double days = (target ? fastest.row.time_to_target_s : pace_of(fastest, tokens_of_run(fastest)).seconds) / 86400;
        const double over = days - r.within_days;
        return fmt::format("no legal point that fits{} {} in time, which is {:.6g} days: the fastest, {}, takes {} days without "
                           "failures{}. More or faster devices, or more days, would help",
                           r.counts.left > 0 ? ", of those looked at before the search was stopped," : "",
                           target ? "reaches its target" : "ends its run", r.within_days, fastest.row.label, days_text(days * 86400),
                           over > 0 ? fmt::format(", {} too many", days_text(over * 86400)) : ", and more with them");
    }
    if (late && !r.nearest_miss && r.counts.left == 0)
        return fmt::format("none of {} legal points can end its run in time, by a bound of their steps", grouped(r.counts.legal));
    if (!r.nearest_miss) return r.counts.left > 0 ? "the search was stopped before any point was simulated" : "no point could be simulated";
    constexpr const char* with[] = {"", ", with states and activations on the host too",
                                    ", with states and activations on the host and on NVMe too"};
    const std::int64_t seen = r.counts.legal - r.counts.left;
    return fmt::format("none of {} legal points fits in memory{}; the nearest found lacks {}: {}: {}. {}",
                       r.counts.left > 0 ? fmt::format("the {} that the search looked at, before it was stopped, of {}", grouped(seen),
                                                       grouped(r.counts.legal))
                                         : grouped(r.counts.legal),
                       with[static_cast<std::size_t>(r.reach)], lacking(*r.nearest_miss), r.nearest_miss->row.label,
                       r.nearest_miss->row.reason,
                       r.counts.left > 0 ? "A longer search, or one --by memory, may find one that fits"
                                         : "More devices, a smaller batch or sequence, or devices with more memory would help");
}

// The time and cost of all steps by this point, without losses.
static std::string whole_job(const SearchPoint& p) {
    if (p.row.tokens_per_s <= 0) return "";
    std::string text = "A trillion tokens by the first: " + to_text(pace_of(p, 1e12));
    if (const double tokens = tokens_of_run(p); tokens > 0) text += "; the run, without losses: " + to_text(pace_of(p, tokens));
    if (p.row.time_to_target_s > 0)
        text += fmt::format("; to the target, without losses: {}{}", span_text(p.row.time_to_target_s),
                            target_usd(p) > 0 ? ", " + metric(target_usd(p), 3) + " USD" : "");
    return text + "\n\n";
}

// A proof is of the fields that vary.
static std::string varied(const SearchResult& r, const TextStyle& style) {
    const std::string text = (r.free.empty() ? "Nothing was varied" : "Varied: " + join(r.free)) +
                             "; all else is as the scenario states it or its framework has it.";
    return wrapped(text, style.width, "", "  ") + "\n";
}

// Says where memory decided which plan is named, or where the named plan's is short.
static std::string on_memory(const SearchResult& r, const SearchOptions& options, const SearchPoint& first) {
    const SearchPoint& best = r.points.front();
    const std::string tie = first.refined.empty() && first.id != best.id ? " Others are as good; this one has most memory to spare." : "";
    if (fits_surely(first.row)) {
        if (fits_surely(best.row) || !(best.score < first.score)) return tie;
        return fmt::format(
            " The plan that leads by the model leaves less than {:.0f} % of the memory (tight), and of such plans some do not fit; "
            "the one named here is {:.1f} % behind it, within the interval, and leaves {:.0f} %.",
            margin_of(best.row) * 100, (first.score / best.score - 1) * 100, std::floor(to_spare(first.row) * 100));
    }
    std::string text = tie + fmt::format(" It leaves less than {:.0f} % of the memory (tight), and of such plans some do not fit.",
                                         margin_of(first.row) * 100);
    if (r.roomier_sought || options.exhaustive) return text + " No plan that leaves more is as fast within the interval.";
    return options.by == SearchBy::memory ? text : text + " Not all plans that leave more were looked at: --by memory does.";
}

// A refinement leads: what is proven is of the points before it.
static std::string on_refining(const SearchPoint& lead, const SearchPoint& first) {
    if (first.refined.empty()) return {};
    return fmt::format(
        " That is said of points with the usual split of layers, the first of which takes {}. The one named here was refined "
        "from such a point by simulation, {:.1f} % better, which is no part of a proof.",
        seconds_text(lead.row.step_time_s), (1 - first.score / lead.score) * 100);
}

// Steps are ranked by their price; a run's also depends on failures, and on spares, which are paid too.
static std::string cheaper_run(const SearchResult& r, const SearchPoint& first, const TextStyle& style) {
    const auto usd = [](const SearchPoint& p) { return p.row.run_finished >= 1 ? p.row.run_usd_per_trillion_tokens() : 0; };
    const SearchPoint* cheapest = &first;
    for (const SearchPoint& p : r.points)
        if (usd(p) > 0 && usd(p) < usd(*cheapest)) cheapest = &p;
    if (usd(*cheapest) >= 0.999 * usd(first)) return {};
    return wrapped(
               fmt::format("Ranked by the price of a step; the whole run, with its failures and spares, costs {:.1f} % less a token by {}: "
                           "--by run_cost ranks by that.",
                           (1 - usd(*cheapest) / usd(first)) * 100, cheapest->row.label),
               style.width, "", "  ") +
           "\n";
}

// Splits of layers other than the usual ones belong to no proof.
static std::string refined(const SearchResult& r, const SearchPoint& first, const TextStyle& style) {
    const SearchCounts& c = r.counts;
    if (c.refinements == 0) return {};
    std::string text =
        "\n" +
        wrapped(
            paint("Refined", Ink::bold, style) +
                fmt::format(
                    "  layers of chunks and recompute of single stages, of {}, by {} more simulations; no other strategy was tried with "
                    "another split of its layers{}",
                    c.refined == 1 ? "one strategy" : fmt::format("the best strategies of {} kinds", c.refined), grouped(c.refinements),
                    r.refined.empty() ? "; none is better" : ""),
            style.width, "", "  ");
    for (const SearchPoint& p : r.refined)
        text += wrapped(fmt::format("{}: {} ({:+.1f} %), {} of {} GB{}", p.refined, seconds_text(p.row.step_time_s),
                                    (p.score / first.score - 1) * 100, gigabytes(p.row.peak_bytes), gigabytes(p.row.capacity_bytes),
                                    p.id == first.id ? "" : "; " + p.row.label),
                        style.width, "  ", "    ");
    return text;
}

std::string to_text(const SearchResult& r, const SearchOptions& options, const TextStyle& style) {
    if (r.points.empty()) return {};
    const std::size_t lead = leader(r.points);
    const SearchPoint& first = named(r);
    std::string text = paint("Best strategy", Ink::bold, style) + ": " + strategy_of(first) + "\n";
    std::string proof = "Proven: none of the other legal points is better by the model.";
    if (r.proven && !options.shard.whole())
        proof = fmt::format(
            "Proven of part {} of {} of the space: none of its other legal points is better by the model. `simrun merge` joins the "
            "databases of the parts, and a search with that file says which is the best of all.",
            options.shard.index, options.shard.count);
    if (r.near_enough)
        proof = fmt::format("Proven within {:.2g} %: no other legal point is more than {:.1f} % better by the model.", options.gap * 100,
                            r.gap() * 100);
    else if (!r.proven && !r.unproven.empty())
        proof = "Not proven: " + r.unproven + ". The points that are fastest by the bound of their step were simulated.";
    else if (!r.proven && r.gap() < 1)
        proof = fmt::format("Not proven: the search was stopped. No legal point is more than {:.1f} % better by the model.", r.gap() * 100);
    else if (!r.proven)
        proof = "Not proven: the search was stopped before every point had a bound.";
    if (options.by == SearchBy::goodput)
        proof += " Goodputs are compared to a thousandth, as simulated runs tell no finer; of those as good the fastest step leads.";
    proof += on_refining(r.points[lead], first) + on_memory(r, options, first);
    text += wrapped(proof, style.width, "", "  ") + varied(r, style);
    if (!r.energy_basis.empty()) text += wrapped("Basis of the " + r.energy_basis + ".", style.width, "", "  ") + "\n";
    if (r.nearer_miss)
        text +=
            wrapped(fmt::format("Nothing fits with all states and activations on the devices{} (the nearest found lacks {}), so that some "
                                "are {}.",
                                r.reach == Reach::disk ? " or on the host" : "", lacking(*r.nearer_miss),
                                r.reach == Reach::disk ? "on NVMe" : "on the host"),
                    style.width, "", "  ") +
            "\n";
    for (const std::string& hint : r.hints) text += wrapped(hint, style.width, "", "  ");
    if (!r.hints.empty()) text += "\n";
    text += whole_job(first) + to_text(table_of(r, rows_of(r, static_cast<std::size_t>(options.top)), style), style);
    text += "\n";
    if (options.by == SearchBy::cost) text += cheaper_run(r, first, style);
    text += equals(r, first, style) + ties(r, first, options) + counted(r, options.by, style) + refined(r, r.points[lead], style);
    const std::vector<std::size_t> edge = frontier(r.points);
    if (edge.size() > 1) {
        std::vector<const SearchPoint*> few;
        for (std::size_t i = 0; i < std::min<std::size_t>(edge.size(), 8); ++i) few.push_back(&r.points[edge[i]]);
        text += "\n" + paint("Frontier", Ink::bold, style) +
                "  simulated points that no other beats in time, memory, devices and cost at once\n" +
                to_text(table_of(r, few, style), style);
    }
    return text;
}

std::string to_json(const SearchResult& r, const SearchOptions& options) {
    using Json = nlohmann::ordered_json;
    const auto point = [&](const SearchPoint& p) {
        Json j{{"strategy", p.row.label},
               {"kind", p.kind},
               {"score", printed_score(p, options.by)},
               {"bound", p.bound},
               {"step_time_s", p.row.step_time_s},
               {"tokens_per_s", p.row.tokens_per_s},
               {"mfu", p.row.mfu},
               {"bubble_fraction", p.row.bubble_fraction},
               {"world_size", p.row.world_size},
               {"peak_bytes", p.row.peak_bytes},
               {"capacity_bytes", p.row.capacity_bytes},
               {"step_time_error_bar", p.row.step_time_error_bar},
               {"step_time_faster", p.row.step_time_interval.faster},
               {"step_time_slower", p.row.step_time_interval.slower},
               {"memory_error_bar", p.row.memory_error_bar},
               {"tight", !fits_surely(p.row)},
               {"cost_usd", p.cost_usd},
               {"energy_j", p.energy_j},
               {"scenario", Json::parse(p.json)}};
        if (p.row.straggler_fraction >= 0) j["straggler_fraction"] = p.row.straggler_fraction;
        if (p.row.run_finished >= 0)
            j["run"] = {{"finished", p.row.run_finished},
                        {"goodput", p.row.run_goodput},
                        {"wall_s", p.row.run_s},
                        {"tokens", p.row.run_tokens},
                        {"cost_usd", p.row.run_cost_usd}};
        if (p.row.time_to_target_s > 0) {
            j["global_batch_size"] = global_batch(p);
            j["target"] = {{"time_to_target_s", p.row.time_to_target_s}};
            if (target_usd(p) > 0) j["target"]["cost_to_target_usd"] = target_usd(p);
        }
        const auto pace = [&](const char* key, double tokens) {
            const AtThisPace at = pace_of(p, tokens);
            j[key] = {{"tokens", tokens}, {"days", at.seconds / 86400}};
            if (at.cost_usd > 0) j[key]["cost_usd"] = at.cost_usd;
            if (at.energy_j > 0) j[key]["energy_j"] = at.energy_j;
        };
        if (p.row.step_time_s > 0 && p.row.tokens_per_s > 0) {
            pace("per_trillion_tokens", 1e12);
            if (const double tokens = tokens_of_run(p); tokens > 0) pace("run_at_this_pace", tokens);
        }
        if (!p.refined.empty()) j["refined"] = p.refined;
        if (!p.limits.empty()) j["limits"] = p.limits;
        return j;
    };
    const SearchCounts& c = r.counts;
    Json j{{"proven", r.proven},
           {"within_gap", r.proven || r.near_enough},
           {"gap", r.gap()},
           {"unproven", r.unproven},
           {"energy_basis", r.energy_basis},
           {"unit", unit(options.by)},
           {"counts",
            {{"legal", c.legal},
             {"simulated", c.simulated},
             {"reused", c.reused},
             {"cut_by_memory_bound", c.by_memory_bound},
             {"cut_by_memory", c.by_memory},
             {"cut_by_time_bound", c.by_time_bound},
             {"cut_by_deadline_bound", c.by_deadline},
             {"too_late", c.too_late},
             {"failed", c.failed},
             {"left", c.left}}},
           {"refused", r.refused},
           {"tightness", {{"mean", r.mean_tightness}, {"least", r.loosest}, {"most", r.tightest}}},
           {"free", r.free},
           {"hints", r.hints}};
    j["best"] = Json::array();
    if (!r.points.empty())
        for (const SearchPoint* p : rows_of(r, static_cast<std::size_t>(options.top))) j["best"].push_back(point(*p));
    j["refined"] = Json::array();
    for (const SearchPoint& p : r.refined) j["refined"].push_back(point(p));
    j["frontier"] = Json::array();
    if (!r.points.empty())
        for (const std::size_t i : frontier(r.points)) j["frontier"].push_back(point(r.points[i]));
    j["reach"] = name(r.reach);
    if (r.nearest_miss) j["nearest_miss"] = point(*r.nearest_miss);
    if (const std::string why = no_answer(r); !why.empty()) j["no_answer"] = why;
    return j.dump(1) + "\n";
}

std::string to_csv(const SearchResult& r, const SearchOptions& options) {
    const auto known = [](double figure) { return figure > 0 ? fmt::format("{}", figure) : std::string(); };
    const auto side = [](const SearchPoint& p, double TimeInterval::*of) {
        return p.row.step_time_interval.known() ? fmt::format("{}", p.row.step_time_interval.*of) : std::string();
    };
    std::string text =
        "strategy,score,bound,step_time_s,tokens_per_s,mfu,bubble_fraction,straggler_fraction,world_size,peak_bytes,capacity_bytes,"
        "step_time_error_bar,step_time_faster,step_time_slower,memory_error_bar,cost_usd,energy_j,run_goodput,run_days,run_cost_usd,global_"
        "batch_size,time_"
        "to_target_s,hash\n";
    for (const SearchPoint& p : r.points)
        text +=
            fmt::format("{},{},{},{},{},{},{},{},{},{},{},{},{},{},{},{},{},{},{},{},{},{},{}\n", csv_cell(p.row.label),
                        printed_score(p, options.by), p.bound, p.row.step_time_s, p.row.tokens_per_s, p.row.mfu, p.row.bubble_fraction,
                        p.row.straggler_fraction < 0 ? std::string() : fmt::format("{}", p.row.straggler_fraction), p.row.world_size,
                        p.row.peak_bytes, p.row.capacity_bytes, known(p.row.step_time_error_bar), side(p, &TimeInterval::faster),
                        side(p, &TimeInterval::slower), p.row.memory_error_bar, p.cost_usd, p.energy_j, known(p.row.run_goodput),
                        known(p.row.run_s / 86400), known(p.row.run_cost_usd), global_batch(p), known(p.row.time_to_target_s), p.row.hash);
    return text;
}

} // namespace orrery
