// Advice as text and as JSON.
#include "sim/advise/advise.hpp"

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <algorithm>

namespace orrery {
namespace {

using OrderedJson = nlohmann::ordered_json;

std::string heading(const std::string& text, const std::string& aside, const TextStyle& style) {
    return "\n" + paint(text, Ink::bold, style) + (aside.empty() ? "" : "  " + paint(aside, Ink::dim, style)) + "\n";
}

std::string table_of(const Advice& a, const std::vector<Trial>& trials, std::size_t most, const TextStyle& style) {
    Table t{
        {"change", "step time", "80 % interval", "against now", "peak memory", "USD/T tokens"}, {false, true, true, true, true, true}, {}};
    for (const Trial& trial : trials) {
        if (t.rows.size() == most) break;
        const Report& r = *trial.report;
        const AtThisPace pace = at_this_pace(r, 1e12);
        t.rows.push_back(
            {trial.change.words, seconds_text(r.step_time_s), to_text(r.error_bar.interval),
             fmt::format("{:+.1f} %", (r.step_time_s / a.report.step_time_s - 1) * 100),
             fmt::format("{:.1f} GB ({:+.1f} GB){}", trial.peak() * 1e-9,
                         (trial.peak() - static_cast<double>(fullest(a.report.memory).peak.count)) * 1e-9, r.narrow() ? ", narrowly" : ""),
             pace.cost_usd > 0 ? metric(pace.cost_usd, 3) : "-"});
    }
    return to_text(t, style);
}

std::string limits_text(const Advice& a, const TextStyle& style) {
    std::string text = heading("What limits it", "the critical path of a step, by resource", style);
    if (a.path.empty())
        text += wrapped("The critical path is not known: the step has too many ops to be recorded.", style.width, "  ", "    ");
    double all = 0;
    for (const OnPath& p : a.path) all += p.seconds;
    for (const OnPath& p : a.path)
        if (p.seconds >= 0.005 * all)
            text += "  " + pad_right(p.resource, 34) + fmt::format("{:5.1f} %  {:>10}\n", p.seconds / all * 100, seconds_text(p.seconds));
    if (all > 1.02 * a.report.step_time_s)
        text += wrapped(fmt::format("From the first op to the last it is {}: the next step begins before all is done.", seconds_text(all)),
                        style.width, "  ", "    ");
    if (a.next)
        text += wrapped(fmt::format("Next bottleneck: {}with {} {:.0f} times as fast the step takes {}. The step follows it to {:.0f} % "
                                    "(1 % slower, and the step is {:.2f} % longer); {} {} to {:.0f} %",
                                    a.next->first == a.next->next ? "none; " : "", a.next->first, a.next->times,
                                    seconds_text(a.next->step_time_s), a.next->first_share * 100, a.next->first_share,
                                    a.next->first == a.next->next ? "then still" : "then most", a.next->next, a.next->next_share * 100),
                        style.width, "  ", "    ");
    return text;
}

std::string faster_text(const Advice& a, const TextStyle& style) {
    std::string text = heading("A better machine", "a rate 10 % higher, and what it buys", style);
    for (const FasterPart& f : a.faster)
        text += "  " + pad_right(f.part, 34) +
                (std::abs(f.gain) < 0.0005 ? std::string("nothing\n") : fmt::format("{:4.1f} % of the step\n", f.gain * 100));
    return text;
}

OrderedJson trial_json(const Trial& t, double now) {
    OrderedJson j{{"change", t.change.words}};
    if (!t.refused.empty()) return j.update(OrderedJson{{"refused", t.refused}}), j;
    const Report& r = *t.report;
    j["fits"] = t.fits();
    j["peak_bytes"] = fullest(r.memory).peak.count;
    j["capacity_bytes"] = r.memory.capacity.count;
    j["memory_error_bar"] = r.error_bar.memory;
    if (r.step_time_s > 0) {
        j["step_time_s"] = r.step_time_s;
        j["step_time_error_bar"] = r.error_bar.step_time;
        if (now > 0) j["against_now"] = r.step_time_s / now - 1;
        if (r.cost_usd > 0) j["cost_usd"] = r.cost_usd;
    }
    j["scenario"] = OrderedJson::parse(t.json);
    return j;
}

} // namespace

std::string to_text(const Advice& a, const TextStyle& style) {
    std::string text = paint(a.name, Ink::bold, style) + "\n" + wrapped(a.verdict, style.width, "  ", "  ");
    text += limits_text(a, style) + faster_text(a, style);
    if (!a.better.empty())
        text += heading("Headroom that could be spent", "one change each; `simrun search` looks at all combinations", style) +
                table_of(a, a.better, 5, style);
    if (!a.otherwise.empty())
        text +=
            heading("Another training", "none is free: how it converges then is not predicted", style) + table_of(a, a.otherwise, 5, style);
    if (!a.safer.empty())
        text += heading("Changes that make it fit surely", "by more than the error of memory predictions", style) +
                table_of(a, a.safer, 3, style);
    if (a.fix && a.fix->change)
        text += heading("The cheapest change that fits", fmt::format("of {} plans looked at", a.fix->looked_at), style) +
                table_of(a, {*a.fix->change}, 1, style);
    text += heading("Why not", "each simulated", style);
    for (const WhyNot& w : a.why_not)
        text += wrapped(w.trial.change.words + "?  " + w.answer +
                            (w.most > w.least ? fmt::format(" (80 % interval of the difference: {:+.0f} to {:+.0f} %{})", w.least * 100,
                                                            w.most * 100, w.inside ? ", so it is not certain" : "")
                                              : ""),
                        style.width, "  - ", "    ");
    text += heading("The field's guide",
                    "it says: data parallel where a device holds the model; dense models: tensor, pipeline, ZeRO; "
                    "experts: expert parallel; where memory is tight: recompute, offload",
                    style);
    text += wrapped(a.guide.answer, style.width, "  ", "    ");
    return text + paint(fmt::format("{} predictions\n", a.simulated), Ink::dim, style);
}

std::string to_json(const Advice& a) {
    const double now = a.report.step_time_s;
    OrderedJson j{{"name", a.name},
                  {"verdict", a.verdict},
                  {"fits", a.report.memory.fits},
                  {"step_time_s", now},
                  {"step_time_error_bar", a.report.error_bar.step_time}};
    j["critical_path"] = OrderedJson::array();
    for (const OnPath& p : a.path) j["critical_path"].push_back({{"resource", p.resource}, {"seconds", p.seconds}});
    for (int g = 0; g < cost_group_count; ++g) j["sensitivities"][name(static_cast<CostGroup>(g))] = a.report.shares[g];
    if (a.report.input.stall_s > 0) j["sensitivities"]["samples"] = a.report.input.share;
    if (a.next)
        j["next_bottleneck"] = {{"first", a.next->first}, {"first_share", a.next->first_share},
                                {"next", a.next->next},   {"next_share", a.next->next_share},
                                {"times", a.next->times}, {"step_time_s", a.next->step_time_s}};
    j["ten_percent_faster"] = OrderedJson::array();
    for (const FasterPart& f : a.faster)
        j["ten_percent_faster"].push_back({{"part", f.part}, {"step_time_s", f.step_time_s}, {"gain", f.gain}});
    for (const auto& [key, trials] : {std::pair{"better", &a.better}, {"another_training", &a.otherwise}, {"safer", &a.safer}}) {
        j[key] = OrderedJson::array();
        for (const Trial& t : *trials) j[key].push_back(trial_json(t, now));
    }
    if (a.fix) {
        j["fix"] = {{"text", to_text(*a.fix)}, {"plans_looked_at", a.fix->looked_at}};
        if (a.fix->change) j["fix"]["change"] = trial_json(*a.fix->change, now);
        if (a.fix->cluster) j["fix"]["cluster"] = trial_json(*a.fix->cluster, now);
        if (a.fix->with_hosts) j["fix"]["cluster_with_states_on_hosts"] = trial_json(*a.fix->with_hosts, now);
    }
    j["why_not"] = OrderedJson::array();
    for (const WhyNot& w : a.why_not) {
        OrderedJson one = trial_json(w.trial, now);
        one["answer"] = w.answer;
        one["inside_interval"] = w.inside;
        if (w.most > w.least) one["interval"] = {w.least, w.most};
        j["why_not"].push_back(std::move(one));
    }
    j["guide"] = {{"confirmed", a.guide.confirmed}, {"answer", a.guide.answer}};
    if (a.guide.strategy) j["guide"]["strategy"] = trial_json(*a.guide.strategy, now);
    j["predictions"] = a.simulated;
    return j.dump(1) + "\n";
}

} // namespace orrery
