// Points side by side on all cores; one more thread writes what is finished, as many rows a commit as have come meanwhile, so that a
// slow disk delays no prediction.
#include "sim/sweep/sweep.hpp"

#include "sim/cost/own_constants.hpp"
#include "sim/job/whole_run.hpp"
#include "sim/memory/ready.hpp"
#include "sim/plan/lower.hpp"
#include "sim/report/reuse.hpp"
#include "sim/sweep/key.hpp"
#include "sim/sweep/writer.hpp"
#include "topology/input_error.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <mutex>
#include <thread>

namespace orrery {

namespace {

std::string in_one_line(const std::vector<Problem>& problems) {
    std::string text;
    for (const Problem& p : problems) text += (text.empty() ? "" : "; ") + (p.where.empty() ? "" : p.where + ": ") + p.what;
    return text;
}

void fill(SweepRow& row, const Prediction& prediction) {
    const Report& r = prediction.report;
    set_interval(row, prediction);
    row.world_size = r.world_size;
    row.step_time_s = r.step_time_s;
    row.tokens_per_s = r.tokens_per_s;
    row.tokens_per_s_per_gpu = r.tokens_per_s_per_gpu;
    row.mfu = r.mfu;
    row.hfu = r.hfu;
    row.bubble_fraction = r.bubble_fraction;
    row.straggler_fraction = r.step_time_s > 0 ? r.breakdown_s[Category::straggler_wait] / r.step_time_s : 0;
    row.time_to_target_s = r.target.s;
    row.peak_bytes = r.memory.stages.empty() ? 0 : fullest(r.memory).peak.count;
    row.capacity_bytes = r.memory.capacity.count;
    row.memory_error_bar = r.error_bar.memory;
    row.cost_usd = r.cost_usd;
    row.energy_j = r.energy_j;
    row.status = r.memory.fits ? PointStatus::fits : PointStatus::too_big;
    row.reason = why_not(r.memory);
}

} // namespace

const char* name(PointStatus s) {
    switch (s) {
    case PointStatus::fits:
        return "fits";
    case PointStatus::too_big:
        return "too big";
    case PointStatus::impossible:
        return "impossible";
    case PointStatus::failed:
        break;
    }
    return "failed";
}

void add_run(SweepRow& row, const Scenario& scenario, const Prediction& prediction, const Replan& replan) {
    if (!scenario.run || row.status != PointStatus::fits) return;
    if (std::string why = why_saves_do_not_fit(scenario, prediction.report); !why.empty()) {
        row.status = PointStatus::too_big;
        row.reason = std::move(why);
        return;
    }
    const RunFigures run = run_figures(scenario, prediction, {1, replan});
    row.run_finished = run.finished;
    row.run_goodput = run.goodput;
    row.run_s = run.wall_s;
    row.run_tokens = run.tokens;
    row.run_cost_usd = run.cost_usd;
}

bool complete(const SweepRow& row, const std::string& json) { return has_run(row, json) && has_interval(row); }

bool has_run(const SweepRow& row, const std::string& json) {
    return row.status != PointStatus::fits || row.run_finished >= 0 || json.find("\"run\":") == std::string::npos;
}

void set_interval(SweepRow& row, const Prediction& prediction) {
    row.step_time_error_bar = prediction.report.error_bar.step_time;
    row.step_time_interval = prediction.report.error_bar.interval;
}

bool has_interval(const SweepRow& row) { return row.status != PointStatus::fits || row.step_time_error_bar >= 0; }

SweepOrder evaluation_order(const SweepDocument& document) {
    const auto& axes = document.axes();
    // How many devices there are decides how many ranks: of the cluster the rest decides times alone.
    const auto of_plans = [&](std::size_t a) {
        const std::string& p = axes[a].pointer;
        return !p.starts_with("/perturb") &&
               (!p.starts_with("/cluster/") || p == "/cluster/preset" || p == "/cluster/nodes" || p == "/cluster/devices_per_node");
    };
    SweepOrder order;
    for (std::size_t a = 0; a < axes.size(); ++a)
        if (!of_plans(a)) order.alike *= static_cast<std::int64_t>(axes[a].values.size());
    std::vector<std::pair<std::int64_t, std::int64_t>> keyed; // the number its plan's values make; the point
    for (std::int64_t i = 0; i < document.size(); ++i) {
        std::int64_t key = 0, unit = 1, left = i;
        for (std::size_t a = axes.size(); a-- > 0;) { // the last axis is the fastest
            const auto values = static_cast<std::int64_t>(axes[a].values.size());
            if (of_plans(a)) {
                key += left % values * unit;
                unit *= values;
            }
            left /= values;
        }
        keyed.emplace_back(key, i);
    }
    std::ranges::sort(keyed);
    for (const auto& [key, i] : keyed) order.points.push_back(i);
    return order;
}

namespace {

// In a handler: what the exception says of a point. A user's values may be impossible; anything else is a failure.
void told_by_exception(SweepRow& row) {
    try {
        throw;
    } catch (const InputError& e) {
        row.status = PointStatus::impossible;
        row.reason = e.what();
    } catch (const std::bad_alloc&) {
        row.status = PointStatus::failed;
        row.reason = "there is not enough memory to predict it";
    } catch (const std::exception& e) {
        row.status = PointStatus::failed;
        row.reason = e.what();
    }
}

} // namespace

SweepRow evaluate_scenario(const Scenario& scenario, bool whole_run, const Replan& replan, ReadyPlans* kept, bool interval,
                           ByEnum<Category, double, category_count>* parts_s) {
    SweepRow row;
    try {
        PredictOptions predicting;
        predicting.meetings = false;
        predicting.only_if_fits = true;
        predicting.shares_up_to = interval ? interval_shares : 0;
        ReadyPlans none(1, false);
        const std::shared_ptr<const ReadyPlan> plan = (kept ? *kept : none).of(scenario, true);
        const Prediction prediction = predict(scenario, *plan, predicting);
        fill(row, prediction);
        const SimulationStats& stats = prediction.simulation.stats;
        if (!interval && stats.events + stats.replayed_ops < interval_shares) row.step_time_error_bar = -1, row.step_time_interval = {};
        if (parts_s && !prediction.too_big) *parts_s = prediction.report.breakdown_s;
        if (whole_run) add_run(row, scenario, prediction, replan);
    } catch (...) { told_by_exception(row); }
    return row;
}

SweepRow evaluate(const SweepPoint& point, std::int64_t index, const std::string& base_dir, ReadyPlans* kept, const Replans& replans) {
    SweepRow row;
    row.index = index;
    row.hash = point_hash(point);
    row.label = point.label;
    if (point.rejected) {
        row.status = PointStatus::impossible;
        row.reason = *point.rejected;
        return row;
    }
    try {
        ParseOptions parsing;
        parsing.base_dir = base_dir;
        parsing.constants = point.constants;
        const ParseResult parsed = ready_scenario(point.json, parsing);
        if (!parsed.problems.empty() || !parsed.scenario) {
            row.status = PointStatus::impossible;
            row.reason = in_one_line(parsed.problems);
            return row;
        }
        PredictOptions predicting;
        predicting.meetings = false;
        predicting.only_if_fits = true;
        predicting.shares_up_to = interval_shares;
        ReadyPlans none;
        const std::shared_ptr<const ReadyPlan> plan = (kept ? *kept : none).of(*parsed.scenario, true);
        const Prediction prediction = predict(*parsed.scenario, *plan, predicting);
        fill(row, prediction);
        const bool replan = replans && parsed.scenario->run && parsed.scenario->run->elastic == Elasticity::replan;
        add_run(row, *parsed.scenario, prediction, replan ? replans(point.json) : Replan{});
    } catch (...) { told_by_exception(row); }
    return row;
}

namespace {

// Rows of other machines' points go; those that a stopped run did not come to say so.
void settle(SweepRun& run) {
    for (std::size_t i = 0; run.stopped && i < run.rows.size(); ++i) {
        SweepRow& row = run.rows[i];
        if (!row.hash.empty() || row.index < 0) continue;
        row.index = static_cast<std::int64_t>(i);
        row.reason = "not computed: the sweep was stopped";
    }
    std::erase_if(run.rows, [](const SweepRow& row) { return row.index < 0; });
}

} // namespace

SweepRun run_sweep(const SweepDocument& document, const std::string& database, const SweepRunOptions& options) {
    SweepStore store(database);
    if (options.fresh) store.clear();
    const std::map<std::string, SweepRow> known = store.rows();
    SweepRun run;
    run.rows.resize(document.size());
    Writer writer(store);
    std::atomic<std::int64_t> next{0}, reused{0};
    std::atomic<bool> stopped{false};
    std::mutex counting;
    std::size_t finished = 0;
    const SweepOrder order = evaluation_order(document);
    const int jobs = options.jobs > 0 ? options.jobs : static_cast<int>(std::max(1u, std::thread::hardware_concurrency()));
    // As many at once as have one plan, but so that all threads have their share.
    const std::int64_t at_once = std::clamp<std::int64_t>(order.alike, 1, std::max<std::int64_t>(1, document.size() / (4 * jobs)));
    const auto work = [&] {
        ReadyPlans kept;
        for (std::int64_t k = 0, end = 0;; ++k) {
            if (k >= end) {
                k = next.fetch_add(at_once);
                end = std::min(k + at_once, document.size());
            }
            if (k >= document.size() || writer.broken()) return;
            const std::int64_t i = order.points[k];
            if (options.go_on && !options.go_on()) stopped = true;
            if (stopped) return;
            const SweepPoint point = document.point(i);
            SweepRow& row = run.rows[i];
            const std::string hash = point_hash(point);
            if (!options.shard.whole() && !options.shard.has(deal_hash(point))) {
                const std::lock_guard lock(counting);
                row.index = -1; // another machine's
                if (++finished; options.progress) options.progress(finished, run.rows.size());
                continue;
            }
            if (const auto it = known.find(hash); it != known.end() && complete(it->second, point.json)) {
                row = it->second;
                row.index = i;
                ++reused;
            } else {
                row = evaluate(point, i, document.base_dir(), &kept, options.replans);
                writer.add(row);
            }
            const std::lock_guard lock(counting);
            if (options.found) options.found(row);
            if (++finished; options.progress) options.progress(finished, run.rows.size());
        }
    };
    std::vector<std::thread> threads;
    for (int t = 1; t < std::min<std::int64_t>(jobs, document.size()); ++t) threads.emplace_back(work);
    work();
    for (std::thread& t : threads) t.join();
    writer.finish();
    run.reused = reused;
    run.stopped = stopped;
    settle(run);
    return run;
}

} // namespace orrery
