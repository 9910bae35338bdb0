// A comparison for a person: the step, by op kind, queue and cause of waiting, the worst ops, memory.
#include "sim/compare/compare.hpp"
#include "sim/report/terminal.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

namespace orrery {

namespace {

// A change in per cent; of what was nothing before there is none.
std::string change(double now, double before) {
    if (before <= 0) return now > 0 ? "new" : "";
    const double percent = (now / before - 1) * 100;
    return std::abs(percent) < 0.05 ? "0.0 %" : fmt::format("{:+.1f} %", percent);
}

struct Words {
    std::string a, b, change;
};

Words words(const Comparison& c) {
    if (c.measured) return {"predicted", "measured", "error"};
    return {"A", "B", "B to A"};
}

// Traces of months (simrun export --to run-trace) are of no step.
const char* compared(const Comparison& c) { return c.a.source.find("whole run") != std::string::npos ? "run" : "step"; }

// For a prediction: its error. For two runs: the change from the first to the second.
std::string change_of(const Comparison& c, double a, double b) { return c.measured ? change(a, b) : change(b, a); }

std::string heading(const std::string& text, const TextStyle& style) { return "\n" + paint(text, Ink::bold, style) + "\n"; }

std::string table_of(const std::string& what, const std::vector<Pair>& pairs, const Comparison& c, const TextStyle& style) {
    const Words w = words(c);
    Table table{{what, w.a, w.b, "difference", w.change, "spans " + w.a, "spans " + w.b}, {false, true, true, true, true, true, true}, {}};
    for (const Pair& p : pairs) {
        table.rows.push_back({p.name, seconds_text(p.a.seconds), seconds_text(p.b.seconds),
                              seconds_text(c.measured ? p.difference() : -p.difference()), change_of(c, p.a.seconds, p.b.seconds),
                              fmt::format("{:.6g}", p.a.count), fmt::format("{:.6g}", p.b.count)});
    }
    return to_text(table, style);
}

std::string worst_ops(const Comparison& c, int worst, const TextStyle& style) {
    std::vector<Pair> listed;
    for (const Pair& p : c.alike) {
        if (static_cast<int>(listed.size()) == worst || p.difference() == 0) break;
        listed.push_back(p);
    }
    return listed.empty() ? "every op takes the same time in both\n" : table_of("op", listed, c, style);
}

// Why one of two scenarios is slower, and whether predictions can tell them apart.
std::string parts_of(const Comparison& c, const TextStyle& style) {
    std::string text;
    if (c.most_ratio > 0) {
        const bool sure = c.least_ratio > 1 || c.most_ratio < 1;
        text = wrapped(
            fmt::format("B's step takes {:+.1f} %, 80 % interval {:+.1f} to {:+.1f} %: so far off were predicted differences of {} "
                        "pairs of strategies of one job; {}",
                        (c.b.step_s / c.a.step_s - 1) * 100, (c.least_ratio - 1) * 100, (c.most_ratio - 1) * 100, c.known_pairs,
                        sure ? fmt::format("{} is the faster", c.most_ratio < 1 ? "B" : "A") : "which is the faster is not certain"),
            style.width, "", "  ");
    }
    Table table{{"part", "A", "B", "difference", "of A's step"}, {false, true, true, true, true}, {}};
    for (const Pair& p : c.parts)
        if (std::max(p.a.seconds, p.b.seconds) >= 0.0005 * c.a.step_s)
            table.rows.push_back({p.name, seconds_text(p.a.seconds), seconds_text(p.b.seconds), seconds_text(-p.difference()),
                                  fmt::format("{:+.1f} %", -p.difference() / c.a.step_s * 100)});
    return text + heading("Time of a step (means over all devices; they add up)", style) + to_text(table, style);
}

std::string memory_of(const Comparison& c, const TextStyle& style) {
    const Words w = words(c);
    Table table{{"memory", w.a + ", GB", w.b + ", GB", w.change}, {false, true, true, true}, {}};
    const auto add = [&](const MemoryPair& m) {
        table.rows.push_back({m.name, fmt::format("{:.6f}", m.a / 1e9), fmt::format("{:.6f}", m.b / 1e9), change_of(c, m.a, m.b)});
    };
    for (const MemoryPair& m : c.memory) add(m);
    if (c.stages.size() > 1) {
        for (const MemoryPair& m : c.stages) add(m);
    }
    return to_text(table, style);
}

} // namespace

std::string to_text(const Comparison& c, int worst, const TextStyle& style) {
    const Words w = words(c);
    std::string text = fmt::format("{}: {} ({}, {} ranks)\n{}: {} ({}, {} ranks)\n\n", w.a, c.a.name, c.a.source, grouped(c.a.ranks), w.b,
                                   c.b.name, c.b.source, grouped(c.b.ranks));
    text += fmt::format("{:4}  {}  {}   {}\n", compared(c), seconds_text(c.a.step_s), seconds_text(c.b.step_s),
                        paint(change_of(c, c.a.step_s, c.b.step_s), Ink::bold, style));
    if (!c.parts.empty()) text += parts_of(c, style);
    if (c.mean_ratio > 0 && c.measured) {
        text += fmt::format("ops   {} / {}: {:.3f} (geometric mean of {}); nine in ten within a factor of {:.3f}\n", w.a, w.b, c.mean_ratio,
                            grouped(static_cast<std::int64_t>(c.ops.size())), c.decile_ratio);
    }
    text += heading("By kind of op", style) + table_of("kind", c.kinds, c, style);
    text += heading("By queue", style) + table_of("queue", c.queues, c, style);
    if (!c.waits.empty()) text += heading("Causes of waiting", style) + table_of("cause", c.waits, c, style);
    text += heading("Ops with the largest difference (l*: of all layers together)", style) + worst_ops(c, worst, style);
    if (!c.memory.empty()) text += heading("Memory at the peak of the fullest rank", style) + memory_of(c, style);
    for (const std::string& note : c.notes) text += fmt::format("\nnote: {}", note);
    if (!c.notes.empty()) text += "\n";
    return text + fmt::format("\ntimes: means over ranks of one {}; waits of transfers that were posted and moved nothing are left out\n",
                              compared(c));
}

} // namespace orrery
