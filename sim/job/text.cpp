// The whole run for a person.
#include "sim/job/whole_run.hpp"
#include "sim/report/terminal.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

namespace orrery {
namespace {

std::string percent(double share) { return fmt::format("{:.1f} %", share * 100); }
std::string bytes_text(double b) {
    if (b >= 1e18) return fmt::format("{:.2f} EB", b / 1e18);
    if (b >= 1e15) return fmt::format("{:.2f} PB", b / 1e15);
    return b >= 1e12 ? fmt::format("{:.2f} TB", b / 1e12) : fmt::format("{:.1f} GB", b / 1e9);
}

std::string heading_of(const std::string& text, const std::string& aside, const TextStyle& style) {
    return "\n" + paint(text, Ink::bold, style) + "  " + paint(aside, Ink::dim, style) + "\n";
}

std::string head(const WholeRunReport& r, const Scenario& s, const TextStyle& style) {
    std::string text =
        heading_of("The whole run", fmt::format("{} simulated run{}; p10, p50, p90", r.seeds, r.seeds == 1 ? "" : "s"), style);
    const auto row = [&](const char* what, const std::string& low, const std::string& mid, const std::string& high) {
        text += "  " + pad_right(what, 14) + pad_left(low, 12) + pad_left(mid, 12) + pad_left(high, 12) + "\n";
    };
    if (r.ideal_s > 0)
        row("time", span_text(r.wall_s.p10), span_text(r.wall_s.p50), span_text(r.wall_s.p90));
    else
        row("tokens", metric(r.tokens.p10, 4), metric(r.tokens.p50, 4), metric(r.tokens.p90, 4));
    row("goodput", percent(r.goodput.p10), percent(r.goodput.p50), percent(r.goodput.p90));
    row("ETTR", percent(r.ettr.p10), percent(r.ettr.p50), percent(r.ettr.p90));
    std::string more = fmt::format("{:.1f} failures and {:.1f} interruptions a run", r.failures, r.interruptions);
    if (r.mttf_s > 0) more += ", one every " + span_text(r.mttf_s) + " (MTTF)";
    if (r.planned > 0) more += fmt::format("; {:.1f} planned ones beside", r.planned);
    more += fmt::format("; {} spare node{}{}; {} of all nodes' time under repair. ", r.spares, r.spares == 1 ? "" : "s",
                        r.spares_assumed ? " (assumed: enough in 99 of 100 moments)" : "", percent(r.unavailable));
    if (r.ideal_s > 0) more += "Without any trouble it takes " + span_text(r.ideal_s) + ". ";
    more += fmt::format("The median is off by {} by chance (one standard error).",
                        r.ideal_s > 0 ? span_text(r.wall_s.error50) : percent(r.goodput.error50));
    text += wrapped(more, style.width, "  ", "  ");
    std::string money = fmt::format("{} device hours", metric(r.device_hours, 4));
    if (r.cost_usd > 0) money += ", " + metric(r.cost_usd, 4) + " USD";
    if (r.spares > 0) money += " (spares counted)";
    if (r.energy_j > 0) money += ", " + metric(r.energy_j / 3600, 4, "Wh") + " at most" + (r.spares > 0 ? " (spares not counted)" : "");
    text += "  " + money + "\n";
    if (!r.target.empty())
        text += wrapped(fmt::format("{}: {} sequences, {} steps, {}{}", r.target, metric(r.target_samples, 4), metric(r.target_steps, 4),
                                    span_text(r.target_s), r.target_usd > 0 ? ", " + metric(r.target_usd, 4) + " USD" : ""),
                        style.width, "  ", "    ");
    (void)s;
    return text;
}

std::string lost_table(const WholeRunReport& r, const TextStyle& style) {
    std::string text = heading_of("Time of the run", "mean over the runs", style);
    const double wall = std::max(r.mean_wall_s, 1e-12);
    const auto row = [&](const std::string& what, double seconds, Ink ink) {
        text += "  " + pad_right(what, 28) + bar(seconds / wall, 30, ink, style) +
                pad_left(fmt::format("{:.2f} %", seconds / wall * 100), 10) + pad_left(span_text(seconds), 12) + "\n";
    };
    row("productive", r.productive_s, Ink::green);
    for (std::size_t i = 0; i < lost_times; ++i)
        if (r.lost_s[i] > 0) row(in_words(static_cast<LostTime>(i)), r.lost_s[i], Ink::red);
    return text;
}

std::string saves_text(const WholeRunReport& r, const Scenario& s, const TextStyle& style) {
    std::string text = heading_of("Checkpoints", name(s.run->checkpoint.kind), style);
    std::string line = fmt::format("{} each, every {} steps ({}){}: steps stand still for {}", bytes_text(r.state_bytes),
                                   grouped(r.save_every), span_text(static_cast<double>(r.save_every) * r.step_s),
                                   r.save_auto ? ", the best found" : "", span_text(r.save.block_s));
    if (r.save.write_s > 0) line += ", written after " + span_text(r.save.write_s);
    if (r.save.host_bytes > 0) line += ", up to " + bytes_text(r.save.host_bytes) + " in a node's memory";
    if (r.save.nvme_bytes > 0) line += ", up to " + bytes_text(r.save.nvme_bytes) + " on its NVMe";
    if (r.save.write_factor > 1) line += fmt::format(", steps meanwhile {:.2f} % longer", (r.save.write_factor - 1) * 100);
    line += fmt::format("; {} saves a run, {} to storage", grouped(static_cast<std::int64_t>(std::llround(r.saves))),
                        bytes_text(r.storage_bytes));
    if (r.near_bytes > 0) line += ", " + bytes_text(r.near_bytes) + " nearer";
    if (r.fallbacks > 0) line += fmt::format("; {:.2f} times a run all near copies were lost", r.fallbacks);
    text += wrapped(line, style.width, "  ", "    ");
    std::string best = "best interval: " + span_text(r.best_s) + " on the simulated curve (of those within 0.1 points of the best " +
                       (r.least_s > 0 ? "and not below " + span_text(r.least_s) + " " : "") + "the longest, for storage's sake)";
    if (r.young_s > 0) best += ", Young " + span_text(r.young_s) + ", Daly " + span_text(r.daly_s);
    if (r.young_mttf_s > 0)
        best += fmt::format("; with the {} between interruptions of the simulated runs Young {}, Daly {}", span_text(r.mttf_s),
                            span_text(r.young_mttf_s), span_text(r.daly_mttf_s));
    text += wrapped(best, style.width, "  ", "    ");
    if (r.failure_every_s <= 0) return text;
    line = fmt::format("a failure every {}, a restart of {}: the exact law of synchronous saves gives goodput {}",
                       span_text(r.failure_every_s), span_text(r.restart_s), percent(r.exact));
    line += r.meta > 0 ? ", Meta's first-order ETTR " + percent(r.meta) : "; Meta's first-order ETTR does not hold here";
    return text + wrapped(line, style.width, "  ", "    ");
}

std::string elastic_text(const WholeRunReport& r, const TextStyle& style) {
    if (r.elastic.empty()) return "";
    Table table{{"when a node is lost", "spares", "step, a node less", "of the tokens", "goodput", r.ideal_s > 0 ? "time" : "steps"},
                {false, true, true, true, true, true},
                {}};
    for (const ElasticOption& e : r.elastic)
        table.rows.push_back({e.name + (e.chosen ? " (this run)" : ""), grouped(e.spares),
                              e.pace.step_s > 0 ? (e.pace.bound ? "at least " : "") + seconds_text(e.pace.step_s) : "waits",
                              e.pace.step_s > 0 ? percent(e.pace.share) : "", percent(e.goodput),
                              r.ideal_s > 0 ? span_text(e.wall_s) : metric(e.steps, 5)});
    std::string text = heading_of("Elastic options",
                                  fmt::format("means over {} seeds; at least: a formula that leaves costs out",
                                              r.elastic_seeds < r.seeds ? fmt::format("the first {} of {}", r.elastic_seeds, r.seeds)
                                                                        : grouped(r.elastic_seeds)),
                                  style) +
                       to_text(table, style);
    if (r.replanned)
        text += wrapped(fmt::format("re-planned on {} node{} by search: {}; {} of {} strategies simulated, {}", grouped(r.replanned->nodes),
                                    r.replanned->nodes == 1 ? "" : "s", r.replanned->strategy, grouped(r.replanned->simulated),
                                    grouped(r.replanned->legal),
                                    r.replanned->proven ? "the others cannot be faster" : "the others not looked at"),
                        style.width, "  ", "    ");
    else
        text += "  re-planned: the best layout near its own\n";
    return text;
}

} // namespace

std::string to_text(const WholeRunReport& r, const Scenario& s, const TextStyle& style) {
    std::string text = head(r, s, style) + lost_table(r, style) + saves_text(r, s, style) + elastic_text(r, style);
    for (const std::string& note : r.notes) text += wrapped(note, style.width, "  - ", "    ");
    return text;
}

} // namespace orrery
