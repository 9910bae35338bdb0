#include "sim/search/search.hpp"

#include "sim/plan/lower.hpp"
#include "sim/report/report.hpp"
#include "sim/scenario/abilities.hpp"
#include "sim/scenario/parse.hpp"
#include "sim/search/bounds.hpp"
#include "sim/search/choose.hpp"
#include "sim/search/objective.hpp"
#include "sim/search/refine.hpp"
#include "sim/search/replan.hpp"
#include "sim/search/threads.hpp"
#include "sim/search/words.hpp"
#include "sim/sweep/store.hpp"

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <atomic>
#include <cmath>
#include <limits>
#include <memory>
#include <mutex>
#include <queue>
#include <stdexcept>

namespace orrery {

namespace {

constexpr const char* host_field = "/strategy/offload/optimizer";

// Points that share all but what happens once a step.
struct Item {
    double bound = 0, step_s = 0; // step_s: of its step
    std::int32_t form = 0;
    std::int16_t core = 0, recompute = 0;
};

struct Leaf {
    double bound = 0;
    PointId id;
    double step_s = 0;                        // a bound of its step, for those whose bounds are the same
    bool operator<(const Leaf& other) const { // the worse one, for a queue with the best on top
        if (bound != other.bound) return bound > other.bound;
        return step_s != other.step_s ? step_s > other.step_s : id > other.id;
    }
};

// Figures that a machine's points share.
struct Shared {
    std::unique_ptr<Profiles> profiles = std::make_unique<Profiles>();
    Objective objective{};
    struct Recompute {
        RecomputeKind kind;
        std::vector<RecomputeOp> ops;
        int segments;
    };
    std::vector<Recompute> recomputes;
};

// A thread's own.
struct Worker {
    std::vector<std::unique_ptr<Variation>> variations; // by machine
    std::vector<std::unique_ptr<Fabric>> fabrics;
    std::vector<std::unique_ptr<SharedWire>> sharings;
};

std::size_t at(std::int64_t i) { return static_cast<std::size_t>(i); }

// Layers alone whose recompute is not the same for all: bounds take what is certain of both.
Scenario bound_scenario(const Scenario& s, bool of_time) {
    Scenario b = s;
    const bool some = !s.strategy.recompute_layers.empty() || s.strategy.recompute_every > 0 || s.strategy.recompute_segments > 0;
    if (some && of_time) b.strategy.recompute = RecomputeKind::none, b.strategy.recompute_ops.clear();
    b.strategy.recompute_layers.clear();
    b.strategy.recompute_every = 0;
    return b;
}

class Search {
  public:
    Search(std::string_view json, const SearchOptions& options) : options_(options), space_(make_space(json, options.space)) {}

    SearchResult run() {
        result_.problems = space_.problems;
        result_.free = space_.free;
        result_.refused = space_.refused;
        result_.nearest_refusal = space_.nearest;
        result_.counts.legal = space_.legal();
        if (!result_.problems.empty() || space_.forms.empty()) return std::move(result_);
        prepare();
        if (!result_.problems.empty()) return std::move(result_);
        bound_items();
        explore();
        finish();
        if (options_.refine && !options_.exhaustive) refine_leader();
        say_limits();
        return std::move(result_);
    }

    // Whether optimizer states may go to the host: the scenario leaves that free, and its framework has it.
    bool may_use_host() const {
        if (space_.machines.empty()) return false;
        const Variations& v = space_.machines.front().variations;
        return !v.given("/strategy/offload") && !v.given(host_field) &&
               options_.space.space.find("/strategy/offload") == std::string::npos && abilities_of(v.base()).optimizer_on_host;
    }

  private:
    void prepare() {
        if (!options_.database.empty()) {
            store_ = std::make_unique<SweepStore>(options_.database);
            if (options_.fresh) store_->clear();
            known_ = store_->rows();
        }
        for (const SpaceMachine& machine : space_.machines) {
            Shared shared;
            shared.objective = Objective::of(options_.by, machine.variations.base(), result_.problems);
            result_.unproven = shared.objective.unproven(machine.variations.base());
            Variation variation(machine.variations);
            for (const GroupValue& r : machine.recomputes) {
                variation.with(r.settings);
                const Strategy& resolved = variation.resolved().strategy;
                shared.recomputes.push_back({resolved.recompute, resolved.recompute_ops, resolved.recompute_segments});
            }
            shared_.push_back(std::move(shared));
        }
        for (int t = 0; t < threads_for(options_.space.jobs); ++t) {
            Worker w;
            for (const SpaceMachine& machine : space_.machines) {
                w.variations.push_back(std::make_unique<Variation>(machine.variations));
                w.fabrics.push_back(std::make_unique<Fabric>(machine.variations.base().cluster));
                w.sharings.push_back(std::make_unique<SharedWire>(*w.fabrics.back()));
            }
            workers_.push_back(std::move(w));
        }
    }

    // `work(worker, i)` for each i below n, side by side.
    template <typename Work> void each(std::size_t n, Work work) {
        std::atomic<std::size_t> next{0}, worker{0};
        in_threads(std::min<int>(static_cast<int>(n), threads_for(options_.space.jobs)), [&] {
            Worker& mine = workers_[worker++];
            for (std::size_t i = next++; i < n; i = next++) work(mine, i);
        });
    }

    // All layers recompute the same.
    static bool plain(const Scenario& s) { return s.strategy.recompute_layers.empty() && s.strategy.recompute_every == 0; }

    // The bound of a step, or of memory, without recomputation, which only adds: so that points that differ in it share a small plan until
    // one is opened.
    double bound_of(Worker& w, const Scenario& s, std::int32_t machine) {
        const Fabric& fabric = *w.fabrics[at(machine)];
        Shared& shared = shared_[at(machine)];
        if (options_.by == SearchBy::memory) {
            Scenario best = bound_scenario(s, false);
            best.strategy.zero_stage = 3;
            best.strategy.shard_group_size = 0;
            return memory_bound(best, shared.profiles->of(best, fabric), in_flight_);
        }
        Scenario b = bound_scenario(s, true);
        b.strategy.recompute = RecomputeKind::none;
        b.strategy.recompute_ops.clear();
        b.strategy.recompute_segments = 0;
        return time_bound(b, shared.profiles->of(b, fabric), in_flight_);
    }

    double score_bound(double step_or_bytes, const Scenario& s, std::int32_t machine) const {
        return options_.by == SearchBy::memory ? step_or_bytes : shared_[at(machine)].objective.bound(step_or_bytes, s);
    }

    void bound_items() {
        std::vector<std::vector<Item>> found(space_.forms.size());
        std::atomic<std::int64_t> done{0};
        each(space_.forms.size(), [&](Worker& w, std::size_t i) {
            if (options_.space.go_on && !options_.space.go_on()) return;
            if (++done % 512 == 0) report_bounding(done);
            const Form& form = space_.forms[i];
            Variation& variation = *w.variations[at(form.machine)];
            for (std::size_t c = 0; c < form.cores.size(); ++c) {
                Settings all = form.settings;
                all.insert(all.end(), form.cores[c].settings.begin(), form.cores[c].settings.end());
                if (!variation.with(all)) continue;
                Scenario s = variation.resolved();
                const auto& recomputes = shared_[at(form.machine)].recomputes;
                double without = 0; // the bound that all recomputations share
                for (std::size_t r = 0; r < recomputes.size(); ++r) {
                    s.strategy.recompute = recomputes[r].kind;
                    s.strategy.recompute_ops = recomputes[r].ops;
                    s.strategy.recompute_segments = recomputes[r].segments;
                    if (!options_.exhaustive && (r == 0 || options_.by == SearchBy::memory)) without = bound_of(w, s, form.machine);
                    found[i].push_back({score_bound(without, s, form.machine), without, static_cast<std::int32_t>(i),
                                        static_cast<std::int16_t>(c), static_cast<std::int16_t>(r)});
                }
            }
        });
        if (options_.space.go_on && !options_.space.go_on()) bounded_ = false;
        for (auto& f : found) items_.insert(items_.end(), f.begin(), f.end());
        std::ranges::stable_sort(items_, {}, [](const Item& i) { return std::pair(i.bound, i.step_s); });
        for (std::size_t i = 0; i < shared_.size(); ++i) result_.counts.profiles += shared_[i].profiles->made();
    }

    void report_bounding(std::int64_t forms) {
        if (!options_.progress) return;
        const std::lock_guard lock(reporting_);
        SearchProgress p;
        p.legal = result_.counts.legal;
        p.left = result_.counts.legal;
        p.bounded = static_cast<double>(forms) / static_cast<double>(space_.forms.size());
        options_.progress(p);
    }

    std::int64_t rests(const Item& item) const { return static_cast<std::int64_t>(space_.forms[at(item.form)].rests.size()); }

    // The results of opening an item.
    struct Opened {
        std::vector<Leaf> leaves;
        std::map<std::string, std::int64_t> refused; // by rules that look at all fields at once
        std::int64_t by_memory_bound = 0;
        double least_over = std::numeric_limits<double>::infinity();
        PointId least_over_id;
    };

    // The points of an item, each with its own bound; those whose memory cannot do are counted.
    Opened open(Worker& w, const Item& item) {
        Opened found;
        const Form& form = space_.forms[at(item.form)];
        const std::size_t machine = at(form.machine);
        for (std::int32_t r = 0; r < rests(item); ++r) {
            const PointId id{item.form, item.core, item.recompute, r};
            const Scenario* s = w.variations[machine]->with(settings_of(space_, id));
            if (!s) {
                ++found.refused[w.variations[machine]->problems().front().where];
                continue;
            }
            if (options_.exhaustive) {
                found.leaves.push_back({item.bound, id, item.step_s});
                continue;
            }
            const Scenario b = bound_scenario(*s, false);
            const Profile& profile = shared_[machine].profiles->of(b, *w.fabrics[machine]);
            const double bytes = memory_bound(b, profile, in_flight_, w.sharings[machine].get());
            const auto capacity = static_cast<double>(s->cluster.device.memory.count);
            if (bytes > capacity) {
                ++found.by_memory_bound;
                if (bytes - capacity < found.least_over) found.least_over = bytes - capacity, found.least_over_id = id;
                continue;
            }
            double step_s = item.step_s;
            if (options_.by != SearchBy::memory && plain(*s))
                step_s = std::max(step_s, time_bound(b, profile, in_flight_, w.sharings[machine].get()));
            found.leaves.push_back({score_bound(options_.by == SearchBy::memory ? bytes : step_s, *s, form.machine), id, step_s});
        }
        return found;
    }

    // The next items side by side; a fixed number, so that nothing depends on threads.
    void open_next(std::size_t& next) {
        const std::size_t n = std::min<std::size_t>(64, items_.size() - next);
        std::vector<Opened> found(n);
        each(n, [&](Worker& w, std::size_t i) { found[i] = open(w, items_[next + i]); });
        next += n;
        for (const Opened& o : found) {
            for (const Leaf& leaf : o.leaves) leaves_.push(leaf);
            for (const auto& [where, count] : o.refused) result_.counts.legal -= count, result_.refused[where] += count;
            result_.counts.by_memory_bound += o.by_memory_bound;
            if (o.least_over < least_over_) least_over_ = o.least_over, least_over_id_ = o.least_over_id;
        }
    }

    bool worth(double bound) const {
        if (options_.exhaustive) return true;
        if (bound < best_) return true;
        return result_.counts.simulated + result_.counts.by_memory < ties_end_ && bound <= best_ * (1 + options_.ties);
    }

    void explore() {
        std::size_t next = 0;
        while (true) {
            if (options_.space.go_on && !options_.space.go_on()) break;
            std::vector<Leaf> taken;
            bool proven = false;
            while (taken.size() < options_.batch) {
                const double of_item = next < items_.size() ? items_[next].bound : std::numeric_limits<double>::infinity();
                const double of_leaf = leaves_.empty() ? std::numeric_limits<double>::infinity() : leaves_.top().bound;
                const double lowest = std::min(of_item, of_leaf);
                if (std::isinf(lowest) || !worth(lowest)) {
                    proven = true;
                    break;
                }
                if (of_item <= of_leaf) {
                    open_next(next);
                } else {
                    taken.push_back(leaves_.top());
                    leaves_.pop();
                }
            }
            simulate_all(taken);
            report_progress(next);
            if (proven && taken.empty()) break;
        }
        std::int64_t left = static_cast<std::int64_t>(leaves_.size());
        for (std::size_t i = next; i < items_.size(); ++i) left += rests(items_[i]);
        const double lowest = std::min(next < items_.size() ? items_[next].bound : std::numeric_limits<double>::infinity(),
                                       leaves_.empty() ? std::numeric_limits<double>::infinity() : leaves_.top().bound);
        result_.proven = bounded_ && (!(lowest < best_) || left == 0) && (result_.unproven.empty() || left == 0);
        result_.lowest_left = result_.proven ? best_ : bounded_ && result_.unproven.empty() ? lowest : 0;
        (result_.proven ? result_.counts.by_time_bound : result_.counts.left) = left;
    }

    void report_progress(std::size_t next) {
        if (!options_.progress) return;
        SearchProgress p{result_.counts.legal, result_.counts.simulated, static_cast<std::int64_t>(leaves_.size()),
                         std::isinf(best_) ? 0 : best_};
        p.lowest_left = std::min(next < items_.size() ? items_[next].bound : std::numeric_limits<double>::infinity(),
                                 leaves_.empty() ? std::numeric_limits<double>::infinity() : leaves_.top().bound);
        for (std::size_t i = next; i < items_.size() && items_[i].bound < best_; ++i) p.left += rests(items_[i]);
        options_.progress(p);
    }

    SweepRow evaluated(const Scenario& s, const std::string& json) const {
        const bool run = of_run(options_.by), replan = run && s.run && s.run->elastic == Elasticity::replan;
        return evaluate_scenario(s, run, replan ? replan_by_search(json, options_.space.parsing, 1) : Replan{});
    }

    SearchPoint evaluate(Worker& w, const Leaf& leaf) {
        SearchPoint p;
        const std::int32_t machine = space_.forms[at(leaf.id.form)].machine;
        p.id = leaf.id;
        p.bound = leaf.bound;
        p.json = json_of(space_, leaf.id);
        const Scenario* resolved = w.variations[at(machine)]->with(settings_of(space_, leaf.id));
        if (!resolved) throw std::logic_error("search: a legal point is refused: " + p.json);
        const std::string hash = point_hash({"", {}, p.json, std::nullopt});
        p.kind = kind_of(*resolved);
        if (const auto it = known_.find(hash); it != known_.end() && (!of_run(options_.by) || complete(it->second, p.json))) {
            p.row = it->second;
            p.row.label = label_of(*resolved);
        } else {
            p.row = evaluated(*resolved, p.json);
            p.row.hash = hash;
            p.row.label = label_of(*resolved);
            p.row.index = -1; // new
        }
        price(p, resolved->cluster);
        p.score = shared_[at(machine)].objective.score(p.row);
        return p;
    }

    static void price(SearchPoint& p, const Cluster& cluster) {
        p.cost_usd = usd_per_second(cluster, static_cast<int>(p.row.world_size)) * p.row.step_time_s;
        p.energy_j = watts_of(cluster, static_cast<int>(p.row.world_size)) * p.row.step_time_s;
    }

    void simulate_all(const std::vector<Leaf>& leaves) {
        std::vector<SearchPoint> found(leaves.size());
        if (!leaves.empty()) each(leaves.size(), [&](Worker& w, std::size_t i) { found[i] = evaluate(w, leaves[i]); });
        std::vector<SweepRow> fresh;
        for (SearchPoint& p : found) {
            if (p.row.index == -1)
                fresh.push_back(p.row);
            else
                ++result_.counts.reused;
            take(std::move(p));
        }
        if (store_ && !fresh.empty()) store_->commit(fresh);
    }

    void take(SearchPoint p) {
        const bool endless = of_run(options_.by) && p.row.status == PointStatus::fits && p.row.run_finished < 1;
        if (p.row.status == PointStatus::failed || p.row.status == PointStatus::impossible || endless) {
            ++result_.counts.failed;
            return;
        }
        if (p.row.status == PointStatus::too_big) {
            ++result_.counts.by_memory;
            const auto over = static_cast<double>(p.row.peak_bytes - p.row.capacity_bytes);
            if (!result_.nearest_miss || over < static_cast<double>(result_.nearest_miss->row.peak_bytes - p.row.capacity_bytes))
                result_.nearest_miss = std::move(p);
            return;
        }
        ++result_.counts.simulated;
        if (options_.by != SearchBy::memory && p.score > 0) {
            const double tightness = p.bound / p.score;
            tightness_ += tightness;
            result_.tightest = std::max(result_.tightest, tightness);
            result_.loosest = std::min(result_.loosest, tightness);
        }
        if (p.score < best_) best_ = p.score, ties_end_ = result_.counts.simulated + result_.counts.by_memory + options_.most_ties;
        result_.points.push_back(std::move(p));
    }

    void finish() {
        std::ranges::stable_sort(result_.points, [](const SearchPoint& a, const SearchPoint& b) {
            if (a.score != b.score) return a.score < b.score;
            return a.row.step_time_s != b.row.step_time_s ? a.row.step_time_s < b.row.step_time_s : a.id < b.id;
        });
        if (result_.counts.simulated > 0) result_.mean_tightness = tightness_ / static_cast<double>(result_.counts.simulated);
        if (!result_.points.empty()) {
            result_.nearest_miss.reset();
            return;
        }
        if (result_.nearest_miss || std::isinf(least_over_)) return;
        result_.nearest_miss = evaluate(workers_.front(), {0, least_over_id_}); // by its plan, not by its bound
    }

    // A point with other layers a chunk, and other layers recomputed.
    SearchPoint refined(const SearchPoint& from, const Refinement& r) {
        SearchPoint p;
        p.id = from.id;
        p.kind = from.kind;
        auto json = nlohmann::ordered_json::parse(from.json);
        json["strategy"]["layer_split"] = r.layers;
        if (!r.recomputed.empty()) json["strategy"]["recompute_layers"] = r.recomputed;
        p.json = json.dump();
        const std::int32_t machine = space_.forms[at(from.id.form)].machine;
        ParseOptions parsing = options_.space.parsing;
        parsing.overrides.clear(); // they are in the text
        const ParseResult parsed = parse_scenario(p.json, parsing);
        p.row.status = PointStatus::impossible;
        if (!parsed.scenario || !parsed.problems.empty() || !unsupported(*parsed.scenario).empty()) return p;
        p.row = evaluated(*parsed.scenario, p.json);
        p.row.label = label_of(*parsed.scenario);
        price(p, parsed.scenario->cluster);
        p.score = shared_[at(machine)].objective.score(p.row);
        return p;
    }

    // Where the time goes, of those that are printed.
    void say_limits() {
        if (result_.points.empty() || options_.top == 0) return;
        const std::vector<std::size_t> few = different(result_.points, leader(result_.points), at(options_.top));
        each(few.size(), [&](Worker& w, std::size_t i) {
            SearchPoint& p = result_.points[few[i]];
            const Scenario* s = w.variations[at(space_.forms[at(p.id.form)].machine)]->with(settings_of(space_, p.id));
            if (!s) return;
            const Prediction prediction = predict(*s, lower(*s), {});
            p.limits = largest_parts(prediction.report.breakdown_s);
            if (p.row.run_finished < 0) add_run(p.row, *s, prediction);
        });
    }

    void refine_leader() {
        const auto goes_on = [&] { return !options_.space.go_on || options_.space.go_on(); };
        if (result_.points.empty() || !goes_on()) return;
        const SearchPoint from = result_.points[leader(result_.points)];
        const std::int32_t machine = space_.forms[at(from.id.form)].machine;
        const Variations& variations = space_.machines[at(machine)].variations;
        const Scenario* resolved = workers_.front().variations[at(machine)]->with(settings_of(space_, from.id));
        if (!resolved) return;
        const Scenario scenario = *resolved;
        const RefineFields fields{!variations.given("/strategy/layer_split"),
                                  !variations.given("/strategy/recompute") && !variations.given("/strategy/recompute_layers")};
        result_.refined = refine(scenario, from, fields, [&](const std::vector<Refinement>& moves) {
            std::vector<SearchPoint> found(moves.size());
            each(moves.size(), [&](Worker&, std::size_t i) {
                found[i].row.status = PointStatus::impossible;
                if (goes_on()) found[i] = refined(from, moves[i]);
            });
            result_.counts.refinements += static_cast<std::int64_t>(moves.size());
            return found;
        });
        std::ranges::reverse(result_.refined);
    }

    const SearchOptions& options_;
    StrategySpace space_;
    SearchResult result_;
    std::vector<Shared> shared_;
    std::vector<Worker> workers_;
    InFlight in_flight_;
    std::vector<Item> items_;
    std::priority_queue<Leaf> leaves_;
    double best_ = options_.beat, tightness_ = 0;
    bool bounded_ = true; // every point has a bound: the search was not stopped before
    std::mutex reporting_;
    std::int64_t ties_end_ = 0;
    double least_over_ = std::numeric_limits<double>::infinity();
    PointId least_over_id_;
    std::unique_ptr<SweepStore> store_;
    std::map<std::string, SweepRow> known_;
};

} // namespace

SearchResult search(std::string_view json_text, const SearchOptions& options) {
    Search first(json_text, options);
    const bool host = first.may_use_host();
    SearchResult result = first.run();
    if (!host || !result.points.empty() || !result.nearest_miss || result.counts.left > 0) return result;
    SearchOptions again = options;
    nlohmann::json space =
        options.space.space.empty() ? nlohmann::json::object() : nlohmann::json::parse(options.space.space, nullptr, false, true);
    space[host_field] = {"cpu"};
    again.space.space = space.dump();
    again.fresh = false;
    SearchResult with_host = Search(json_text, again).run();
    if (with_host.points.empty()) return result;
    with_host.without_host = std::move(result.nearest_miss);
    return with_host;
}

} // namespace orrery
