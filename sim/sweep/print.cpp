// A finished sweep: ranked, as CSV and as JSON.
#include "sim/sweep/sweep.hpp"
#include "topology/text.hpp"

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <functional>
#include <limits>
#include <utility>

namespace orrery {

namespace {

double known_small(double figure) { return figure > 0 ? -figure : -std::numeric_limits<double>::infinity(); }

// Larger is better.
double merit(const SweepRow& r, RankBy by) {
    switch (by) {
    case RankBy::tokens_per_s:
        return r.tokens_per_s;
    case RankBy::tokens_per_s_per_gpu:
        return r.tokens_per_s_per_gpu;
    case RankBy::mfu:
        return r.mfu;
    case RankBy::step_time_s:
        return -r.step_time_s;
    case RankBy::peak_bytes:
        return -static_cast<double>(r.peak_bytes);
    case RankBy::cost:
        return known_small(r.per_trillion_tokens(r.cost_usd));
    case RankBy::energy:
        return known_small(r.per_trillion_tokens(r.energy_j));
    case RankBy::time_to_target_s:
        return known_small(r.time_to_target_s);
    case RankBy::goodput:
        return known_small(r.run_goodput > 0 ? r.run_stretch() : 0);
    case RankBy::run_time:
        return known_small(r.run_tokens > 0 ? r.run_s / r.run_tokens : 0);
    case RankBy::run_cost:
        return known_small(r.run_usd_per_trillion_tokens());
    }
    return 0;
}

nlohmann::ordered_json run_json(const SweepRow& r) {
    nlohmann::ordered_json j{{"finished", r.run_finished}};
    if (r.run_goodput > 0) j.update({{"goodput", r.run_goodput}, {"wall_s", r.run_s}, {"tokens", r.run_tokens}});
    if (r.run_cost_usd > 0) j.update({{"cost_usd", r.run_cost_usd}, {"usd_per_trillion_tokens", r.run_usd_per_trillion_tokens()}});
    return j;
}

// A JSON text as a person writes it: strings without their quotes.
std::string bare(const std::string& json) {
    return json.size() > 1 && json.front() == '"' ? nlohmann::json::parse(json).get<std::string>() : json;
}

} // namespace

const char* name(RankBy by) {
    static constexpr const char* names[] = {"tokens_per_s", "tokens_per_s_per_gpu", "mfu",     "step_time_s", "peak_bytes", "cost",
                                            "energy",       "time_to_target_s",     "goodput", "run_time",    "run_cost"};
    return names[static_cast<std::size_t>(by)];
}

std::vector<RankBy> all_rankings() {
    std::vector<RankBy> all;
    for (int i = 0; i <= static_cast<int>(RankBy::run_cost); ++i) all.push_back(static_cast<RankBy>(i));
    return all;
}

std::vector<std::size_t> ranked(const SweepRun& run, RankBy by) {
    std::vector<std::size_t> order;
    for (std::size_t i = 0; i < run.rows.size(); ++i) {
        if (run.rows[i].status == PointStatus::fits) order.push_back(i);
    }
    // Where nothing fails, slow and fast points alike lose nothing.
    const auto merits = [&](std::size_t i) {
        return std::pair(merit(run.rows[i], by), by == RankBy::goodput ? merit(run.rows[i], RankBy::run_time) : 0.0);
    };
    std::ranges::stable_sort(order, std::greater{}, merits);
    return order;
}

// Figures of a point: what was not predicted is left empty, and so is what is not known.
std::string to_csv(const SweepDocument& document, const SweepRun& run) {
    std::string text;
    for (const SweepAxis& a : document.axes()) text += csv_cell(a.pointer) + ",";
    text += "status,reason,world_size,step_time_s,tokens_per_s,tokens_per_s_per_gpu,mfu,hfu,bubble_fraction,straggler_fraction,peak_bytes,"
            "capacity_bytes,step_time_error_bar,step_time_faster,step_time_slower,memory_error_bar,cost_usd,energy_j,days_per_trillion_"
            "tokens,usd_per_trillion_"
            "tokens,"
            "kwh_per_trillion_tokens,time_to_target_s,run_goodput,run_days,run_tokens,run_cost_usd,hash\n";
    for (const SweepRow& r : run.rows) {
        for (const std::string& v : document.point(r.index).values) text += csv_cell(bare(v)) + ",";
        text += fmt::format("{},{},", name(r.status), csv_cell(r.reason));
        const bool fits = r.status == PointStatus::fits, sized = fits || r.status == PointStatus::too_big;
        const auto cell = [&](bool known, auto value) { text += known ? fmt::format("{},", value) : ","; };
        cell(sized, r.world_size);
        for (double v : {r.step_time_s, r.tokens_per_s, r.tokens_per_s_per_gpu, r.mfu, r.hfu, r.bubble_fraction}) cell(fits, v);
        cell(fits && r.straggler_fraction >= 0, r.straggler_fraction);
        cell(sized, r.peak_bytes);
        cell(sized, r.capacity_bytes);
        cell(fits && r.step_time_error_bar > 0, r.step_time_error_bar);
        for (double v : {r.step_time_interval.faster, r.step_time_interval.slower}) cell(fits && r.step_time_interval.known(), v);
        cell(sized && r.memory_error_bar > 0, r.memory_error_bar);
        cell(fits && r.cost_usd > 0, r.cost_usd);
        cell(fits && r.energy_j > 0, r.energy_j);
        cell(fits, r.per_trillion_tokens(r.step_time_s) / 86400);
        cell(fits && r.cost_usd > 0, r.per_trillion_tokens(r.cost_usd));
        cell(fits && r.energy_j > 0, r.per_trillion_tokens(r.energy_j) / 3.6e6);
        cell(fits && r.time_to_target_s > 0, r.time_to_target_s);
        for (double v : {r.run_goodput, r.run_s / 86400, r.run_tokens, r.run_cost_usd}) cell(fits && v > 0, v);
        text += r.hash + "\n";
    }
    return text;
}

std::string to_json(const SweepDocument& document, const SweepRun& run, RankBy by) {
    using Json = nlohmann::ordered_json;
    Json j;
    j["name"] = document.name();
    j["points"] = Json::array();
    for (const SweepRow& r : run.rows) {
        Json values = Json::object();
        const SweepPoint point = document.point(r.index);
        for (std::size_t a = 0; a < point.values.size(); ++a) values[document.axes()[a].pointer] = Json::parse(point.values[a]);
        Json p{{"values", values}, {"status", name(r.status)}};
        if (!r.reason.empty()) p["reason"] = r.reason;
        if (r.status == PointStatus::fits || r.status == PointStatus::too_big) {
            p.update({{"world_size", r.world_size}, {"peak_bytes", r.peak_bytes}, {"capacity_bytes", r.capacity_bytes}});
        }
        if (r.status == PointStatus::fits) {
            p.update({{"step_time_s", r.step_time_s},
                      {"tokens_per_s", r.tokens_per_s},
                      {"tokens_per_s_per_gpu", r.tokens_per_s_per_gpu},
                      {"mfu", r.mfu},
                      {"hfu", r.hfu},
                      {"bubble_fraction", r.bubble_fraction},
                      {"step_time_error_bar", r.step_time_error_bar},
                      {"step_time_faster", r.step_time_interval.faster},
                      {"step_time_slower", r.step_time_interval.slower},
                      {"memory_error_bar", r.memory_error_bar},
                      {"narrow", r.narrow()}});
            if (r.straggler_fraction >= 0) p["straggler_fraction"] = r.straggler_fraction;
            if (r.cost_usd > 0) p.update({{"cost_usd", r.cost_usd}, {"usd_per_trillion_tokens", r.per_trillion_tokens(r.cost_usd)}});
            if (r.energy_j > 0) p.update({{"energy_j", r.energy_j}, {"j_per_trillion_tokens", r.per_trillion_tokens(r.energy_j)}});
            if (r.time_to_target_s > 0) p["time_to_target_s"] = r.time_to_target_s;
            if (r.run_finished >= 0) p["run"] = run_json(r);
        }
        j["points"].push_back(p);
    }
    j["ranking"] = ranked(run, by);
    return j.dump(1) + "\n";
}

} // namespace orrery
