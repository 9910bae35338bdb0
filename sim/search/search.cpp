#include "sim/search/search.hpp"

#include "sim/plan/lower.hpp"
#include "sim/report/report.hpp"
#include "sim/search/branches.hpp"
#include "sim/search/choose.hpp"
#include "sim/search/evaluate.hpp"
#include "sim/search/hints.hpp"
#include "sim/search/words.hpp"
#include "sim/sweep/key.hpp"
#include "sim/sweep/store.hpp"
#include "topology/at.hpp"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <functional>
#include <limits>
#include <map>
#include <memory>
#include <numeric>
#include <optional>
#include <set>

namespace orrery {

namespace {

// The bytes a device lacks; a plan that lacks nothing there lacks room on the host or on NVMe alone.
std::int64_t lacks(const SearchPoint& p) { return std::max<std::int64_t>(0, p.row.peak_bytes - p.row.capacity_bytes); }

class Search {
  public:
    Search(std::string_view json, const SearchOptions& options) : options_(options) {
        if (options_.progress) options_.space.listing = [this](std::size_t listed, std::size_t all) { report_listing(listed, all); };
        if (!options_.exhaustive) look_ahead(json);
        space_ = make_space(json, options_.space);
    }

    SearchResult run() {
        if (!begin()) return std::move(result_);
        explore();
        finish();
        explore_roomier();
        if (options_.refine && !options_.exhaustive) refine_best();
        say_limits();
        return std::move(result_);
    }

    bool homes_open() const { return space_.homes_open; }

  private:
    // For a part of a space.
    Search(StrategySpace part, const SearchOptions& options) : options_(options), space_(std::move(part)) {
        options_.batch = std::min<std::size_t>(options_.batch, 4); // one that fits is enough
        options_.progress = nullptr;
        keeps_all_ = true;
    }

    // A large space takes long to list. Some of its points are simulated before, of those that large jobs usually have: the best by their
    // bounds of each kind, until some kinds have one that fits. An answer, wherever the search is stopped, and few that are better are left
    // to open afterwards.
    void look_ahead(std::string_view json) {
        constexpr std::size_t most = 48, kinds = 8;
        SpaceOptions part = options_.space;
        part.few = true;
        part.listing = nullptr;
        ahead_ = std::unique_ptr<Search>(new Search(make_space(json, part), options_));
        if (ahead_->space_.forms.empty() || !ahead_->begin()) return;
        options_.fresh = false; // the file is new
        while (ahead_->all_.size() < most && goes_on()) {
            if (!ahead_->simulate_next() || ahead_->close_kinds() >= kinds) break;
        }
    }

    // Closes the kinds of which look_ahead() needs no more points: one fits, or three do not. Returns how many have one that fits.
    std::size_t close_kinds() {
        constexpr int tries = 3;
        std::map<std::string, int> missed;
        std::set<std::string> fit;
        for (const SearchPoint& p : all_) (p.row.status == PointStatus::fits ? (void)fit.insert(p.kind) : (void)++missed[p.kind]);
        closed_ = fit;
        for (const auto& [kind, times] : missed)
            if (times >= tries) closed_.insert(kind);
        return fit.size();
    }

    // Those points stand at their places now. Where the space was not listed as far, their forms are added.
    void take_ahead() {
        if (!ahead_) return;
        const StrategySpace& part = ahead_->space_;
        for (SearchPoint& p : ahead_->all_) {
            std::optional<PointId> id = same_point(space_, part, p.id);
            if (!id && !result_.whole) {
                space_.forms.push_back(part.forms[at(p.id.form)]);
                id = same_point(space_, part, p.id);
            }
            if (!id) continue;
            p.id = *id;
            taken_ahead_.insert(p.id);
            result_.counts.reused += p.row.index != -1;
            take(std::move(p));
        }
        ahead_.reset();
    }

    // False: there is nothing to search.
    bool begin() {
        result_.problems = space_.problems;
        result_.free = space_.free;
        result_.refused = space_.refused;
        result_.nearest_refusal = space_.nearest;
        result_.homes_open = space_.homes_open;
        keep_shard();
        if (result_.empty_part && !options_.database.empty())
            SweepStore{options_.database}; // whoever joins the parts' files finds this one
        result_.whole = !options_.space.go_on || options_.space.go_on();
        if (!result_.problems.empty()) return false;
        for (const SpaceMachine& machine : space_.machines) {
            objectives_.push_back(Objective::of(options_.by, options_.within_days, machine.variations.base(), result_.problems));
            result_.unproven = objectives_.back().unproven(machine.variations.base());
            if (space_.steps_differ) objectives_.back().step_tokens = tokens_of_a_step(space_.machines.front().variations.base());
        }
        if (options_.by == SearchBy::energy) result_.energy_basis = energy_of(space_, result_.problems);
        if (!result_.problems.empty()) return false;
        take_ahead();
        result_.counts.legal = space_.legal();
        if (space_.forms.empty()) return false;
        evaluator_ = std::make_unique<Evaluator>(space_, objectives_, options_);
        workers_ = std::make_unique<Workers>(space_, options_.space.jobs);
        branches_ =
            std::make_unique<Branches>(space_, objectives_, options_.by, options_.exhaustive, *workers_, [this] { return goes_on(); });
        return true;
    }

    void keep_shard() {
        if (options_.shard.whole()) return;
        std::vector<Form> mine;
        for (std::size_t i = 0; i < space_.forms.size(); ++i) {
            const std::string first = json_of(space_, {static_cast<std::int32_t>(i), 0, 0, 0});
            if (options_.shard.has(deal_hash({"", {}, first, std::nullopt}))) mine.push_back(space_.forms[i]);
        }
        result_.empty_part = mine.empty() && !space_.forms.empty();
        space_.forms = std::move(mine);
    }

    bool goes_on() const { return (!options_.space.go_on || options_.space.go_on()) && (!options_.go_on || options_.go_on()); }

    // A search that was stopped may have time left to refine what it found.
    bool refines_on() const { return options_.refine_on ? options_.refine_on() : goes_on(); }

    // No answer is looked for that is less than the gap better.
    double goal() const { return best_ * (1 - options_.gap); }

    bool worth(double bound) const {
        if (options_.exhaustive || bound < goal()) return true;
        if (options_.gap > 0) return false;
        return result_.counts.simulated + result_.counts.by_memory < ties_end_ && bound <= best_ * (1 + options_.ties);
    }

    // Bounds of memory leave much out. Where the fastest points by their bounds turn out not to fit, those come first that surely leave
    // more memory, until one fits: the more, the more points did not.
    static constexpr double rooms[] = {0, 0.25, 0.5, 0.75};
    void prefer_room() {
        if (options_.exhaustive || options_.by == SearchBy::memory) return;
        std::size_t wanted = room_;
        if (!lowering_) wanted = std::min(std::size(rooms) - 1, at(result_.counts.by_memory) / options_.batch);
        if (!keeps_all_ && !result_.points.empty()) wanted = 0;
        if (wanted != room_) branches_->prefer(rooms[room_ = wanted]);
    }

    // Some of what was put aside comes back; false: there is nothing.
    bool take_back() {
        if (!branches_->puts_aside()) return false;
        lowering_ = true;
        branches_->prefer(rooms[--room_]);
        return true;
    }

    // The next points to simulate: those of the lowest bounds, after all sets with a lower one were split; where that takes many small
    // plans, the best of those that are open already: a better best leaves fewer sets to split.
    std::vector<Branches::Set> next_batch() {
        constexpr std::int64_t many = 1000;
        constexpr std::size_t enough = 256;
        std::vector<Branches::Set> taken;
        while (taken.size() < options_.batch && later_.size() < enough && !branches_->empty() && worth(branches_->lowest_open()) &&
               goes_on()) {
            open_best(taken, branches_->lowest_open() < goal() ? goal() : best_ * (1 + options_.ties) * (1 + 1e-12));
            if (options_.exhaustive || branches_->counts().profiles < plans_ + many) continue;
            plans_ = branches_->counts().profiles;
            take_back();
            for (const Branches::Set& set : branches_->best_points((options_.batch + 1) / 2, goal())) take_point(set, taken);
            if (!taken.empty()) break;
        }
        for (const Branches::Set& set : later_) branches_->push(set);
        later_.clear();
        taken_kinds_.clear();
        return taken;
    }

    // Takes the best set if it is a point to simulate; else splits it, and others below `limit`.
    void open_best(std::vector<Branches::Set>& taken, double limit) {
        if (branches_->top().level != Branches::Level::ready) {
            branches_->split(limit);
            if (options_.progress && std::chrono::steady_clock::now() - reported_ > std::chrono::seconds(1)) report_progress();
            return;
        }
        take_point(branches_->pop(), taken);
    }

    void take_point(const Branches::Set& set, std::vector<Branches::Set>& taken) {
        if (taken_ahead_.erase(set.id) > 0) return;
        if (keeps_all_) { // a batch ahead takes one point of each kind
            const Scenario* s = workers_->first().resolved(space_, set.id);
            const std::string kind = s ? evaluator_->kind(*s) : "";
            if (closed_.contains(kind)) return;
            if (!taken_kinds_.insert(kind).second) return later_.push_back(set);
        }
        taken.push_back(set);
    }

    // False: there is nothing left that is worth it.
    bool simulate_next() {
        prefer_room();
        const std::vector<Branches::Set> batch = next_batch();
        if (batch.empty() && !take_back()) return false;
        simulate_all(batch);
        return true;
    }

    void explore() {
        while (goes_on() && simulate_next()) report_progress();
        count_all();
    }

    void count_all() {
        const Branches::Counts& counts = branches_->counts();
        result_.counts.legal = space_.legal();
        result_.refused = space_.refused;
        for (const auto& [where, count] : counts.refused) result_.counts.legal -= count, result_.refused[where] += count;
        result_.counts.by_memory_bound = counts.by_memory_bound;
        result_.counts.by_deadline = counts.by_deadline;
        result_.counts.profiles = counts.profiles;
        const double lowest = branches_->lowest();
        const std::int64_t left = branches_->points() + counts.too_tight - static_cast<std::int64_t>(taken_ahead_.size());
        result_.proven = result_.whole && (!(lowest < best_) || left == 0) && (result_.unproven.empty() || left == 0);
        result_.lowest_left = result_.proven ? best_ : result_.whole && result_.unproven.empty() ? lowest : 0;
        result_.near_enough = !result_.proven && options_.gap > 0 && result_.lowest_left >= goal() && std::isfinite(best_);
        result_.counts.by_time_bound = result_.proven || result_.near_enough ? left : 0;
        result_.counts.left = left - result_.counts.by_time_bound;
    }

    // Where the best leaves too little memory to be sure of, plans that leave more are looked at as far as they may be as fast within its
    // interval: the first of these leads (choose.hpp).
    void explore_roomier() {
        constexpr std::int64_t most = 128; // points more
        if (result_.points.empty() || !result_.proven || options_.exhaustive || options_.by == SearchBy::memory || !options_.shard.whole())
            return;
        const SearchPoint& best = result_.points.front();
        if (fits_surely(best.row)) return;
        double limit = best.score * (1 + best.row.step_time_error_bar);
        const auto lower_limit = [&] {
            for (const SearchPoint& p : result_.points)
                if (fits_surely(p.row)) limit = std::min(limit, p.score);
        };
        lower_limit();
        const double margin = margin_of(best.row);
        branches_->leave(margin);
        std::int64_t seen = 0;
        while (goes_on() && seen < most && branches_->lowest_open() < limit) {
            std::vector<Branches::Set> batch;
            while (batch.size() < options_.batch && !branches_->empty() && branches_->lowest_open() < limit && goes_on())
                open_best(batch, limit);
            seen += static_cast<std::int64_t>(batch.size());
            simulate_all(batch, margin);
            lower_limit();
            report_progress();
        }
        result_.roomier_sought = !(branches_->lowest_open() < limit);
        count_all();
        finish();
    }

    void report_progress() {
        if (!options_.progress) return;
        SearchProgress p;
        p.legal = result_.counts.legal, p.simulated = result_.counts.simulated, p.too_big = result_.counts.by_memory;
        p.left = branches_->points(goal());
        p.best = std::isinf(best_) ? 0 : best_;
        p.lowest_left = branches_->lowest();
        options_.progress(p);
        reported_ = std::chrono::steady_clock::now();
    }

    void report_listing(std::size_t listed, std::size_t all) {
        if (std::chrono::steady_clock::now() - reported_ < std::chrono::seconds(1)) return;
        SearchProgress p;
        p.listed = listed, p.to_list = all;
        options_.progress(p);
        reported_ = std::chrono::steady_clock::now();
    }

    // Those that differ in rank order alone one after another, as they have one plan. Those that a stopped search does not come to stay
    // where they were. room: of points whose plan leaves less than that share of the memory no more than this is worked out.
    void simulate_all(const std::vector<Branches::Set>& batch, double room = 0) {
        std::vector<std::size_t> order(batch.size()), begins;
        std::iota(order.begin(), order.end(), std::size_t{0});
        std::ranges::sort(order, {}, [&](std::size_t i) { return batch[i].id; });
        const auto alike = [&](std::size_t a, std::size_t b) {
            const PointId &x = batch[a].id, &y = batch[b].id;
            return x.form == y.form && x.core == y.core && x.recompute == y.recompute;
        };
        for (std::size_t k = 0; k < order.size(); ++k)
            if (k == 0 || !alike(order[k - 1], order[k])) begins.push_back(k);
        if (options_.elsewhere) fetch(batch, order, begins);
        std::vector<std::optional<SearchPoint>> found(batch.size());
        std::vector<char> tight(batch.size()); // to be dropped
        const std::vector<std::size_t> largest = largest_first(batch, order, begins);
        workers_->each(begins.size(), [&](Worker& w, std::size_t i) {
            const std::size_t g = largest[i], end = g + 1 < begins.size() ? begins[g + 1] : order.size();
            for (std::size_t k = begins[g]; k < end && goes_on(); ++k) {
                const Branches::Set& set = batch[order[k]];
                if (room > 0 && !evaluator_->leaves(w, set.id, room))
                    tight[order[k]] = 1;
                else
                    found[order[k]] = evaluator_->point(w, set.id, set.bound);
            }
        });
        std::vector<SearchPoint> points;
        for (std::size_t i = 0; i < batch.size(); ++i) {
            if (found[i])
                points.push_back(std::move(*found[i]));
            else if (tight[i])
                branches_->drop_tight();
            else
                branches_->push(batch[i]);
        }
        evaluator_->keep(points);
        if (keeps_all_) all_.insert(all_.end(), points.begin(), points.end());
        for (SearchPoint& p : points) {
            result_.counts.reused += p.row.index != -1;
            take(std::move(p));
        }
    }

    // The groups of a batch by what a simulation of theirs grows with, so that no thread is left with a long one at the end: each layer of
    // each microbatch on its stage, and more for a group's further points. The order decides no result.
    std::vector<std::size_t> largest_first(const std::vector<Branches::Set>& batch, const std::vector<std::size_t>& order,
                                           const std::vector<std::size_t>& begins) const {
        constexpr std::size_t one = 8; // in eighths: what further points of a plan take beside the first
        const auto size = [&](std::size_t g) {
            const std::size_t points = (g + 1 < begins.size() ? begins[g + 1] : order.size()) - begins[g];
            const FormShape& shape = space_.forms[at(batch[order[begins[g]]].id.form)].shape;
            return static_cast<std::size_t>(shape.microbatches) * (one + points - 1);
        };
        std::vector<std::size_t> largest(begins.size());
        std::iota(largest.begin(), largest.end(), std::size_t{0});
        std::ranges::stable_sort(largest, std::greater{}, size);
        return largest;
    }

    void fetch(const std::vector<Branches::Set>& batch, const std::vector<std::size_t>& order, const std::vector<std::size_t>& begins) {
        std::vector<std::vector<PointId>> groups(begins.size());
        for (std::size_t g = 0; g < begins.size(); ++g)
            for (std::size_t k = begins[g]; k < (g + 1 < begins.size() ? begins[g + 1] : order.size()); ++k)
                groups[g].push_back(batch[order[k]].id);
        evaluator_->fetch(groups);
    }

    void take(SearchPoint p) {
        const bool endless = of_run(options_.by) && p.row.status == PointStatus::fits && p.row.run_finished < 1;
        if (p.row.status == PointStatus::failed || p.row.status == PointStatus::impossible || endless) {
            ++result_.counts.failed;
            return;
        }
        if (p.row.status == PointStatus::too_big) {
            ++result_.counts.by_memory;
            if (!result_.nearest_miss || lacks(p) < lacks(*result_.nearest_miss)) result_.nearest_miss = std::move(p);
            return;
        }
        if (objectives_[at(space_.forms[at(p.id.form)].machine)].late(p.row)) {
            ++result_.counts.too_late;
            if (!result_.nearest_late || result_.nearest_late->row.tokens_per_s < p.row.tokens_per_s) result_.nearest_late = std::move(p);
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
            result_.nearest_late.reset();
            evaluator_->say_interval(result_.points.front()); // the leader is chosen by it (choose.hpp)
            return;
        }
        find_nearest();
    }

    // Plans say which of the points that lack least by their bounds is the nearest: of a device's memory first, then of its node's.
    void find_nearest() {
        std::optional<SearchPoint>& nearest = result_.nearest_miss;
        std::vector<Miss> misses = branches_->nearest();
        if (nearest) std::erase_if(misses, [&](const Miss& m) { return m.device > static_cast<double>(lacks(*nearest)); });
        std::vector<SearchPoint> found(misses.size());
        workers_->each(misses.size(), [&](Worker& w, std::size_t i) {
            if (i == 0 || goes_on()) found[i] = evaluator_->point(w, misses[i].id, 0);
        });
        std::optional<std::int64_t> of_node; // what the node of `nearest` lacks, where it was asked for
        const auto lacks_there = [&](const SearchPoint& p) { return evaluator_->lacks_on_node(workers_->first(), p.id); };
        for (SearchPoint& p : found) {
            if (p.row.status != PointStatus::too_big || (nearest && lacks(p) > lacks(*nearest))) continue;
            std::optional<std::int64_t> there;
            if (nearest && lacks(p) == lacks(*nearest)) {
                if (!of_node) of_node = lacks_there(*nearest);
                there = lacks_there(p);
                if (*there >= *of_node) continue;
            }
            of_node = there;
            nearest = std::move(p);
        }
    }

    // Where the time goes, how sure it is, and what a run comes to, for the points that are printed.
    void say_limits() {
        if (result_.points.empty() || options_.top == 0) return;
        std::vector<std::size_t> few = different(result_.points, leader(result_.points), at(options_.top));
        for (const std::size_t i : frontier(result_.points))
            if (std::ranges::find(few, i) == few.end()) few.push_back(i);
        if (result_.refined.empty())
            say_first(result_.points[few.front()]);
        else
            say_first(result_.refined.front());
        // A search that was stopped ends soon: there, what takes longer than a moment is left out, but for the first's.
        const auto enough = std::chrono::steady_clock::now() + std::chrono::seconds(1);
        workers_->each(few.size(), [&](Worker& w, std::size_t i) {
            SearchPoint& p = result_.points[few[i]];
            if (!p.limits.empty() || (!refines_on() && std::chrono::steady_clock::now() > enough)) return;
            if (const Scenario* s = w.resolved(space_, p.id)) say_limits_of(p, *s);
        });
    }

    // The step's parts, and what else the point's simulation left out: its interval, its run.
    static void say_limits_of(SearchPoint& p, const Scenario& s) {
        const bool parts_known = std::ranges::any_of(p.parts_s, [](double seconds) { return seconds > 0; });
        const bool run_known = !s.run || p.row.run_finished >= 0;
        if (!parts_known || !has_interval(p.row) || !run_known) {
            PredictOptions predicting;
            predicting.shares_up_to = has_interval(p.row) ? 0 : interval_shares;
            const Prediction prediction = predict(s, lower(s), predicting);
            if (!has_interval(p.row)) set_interval(p.row, prediction);
            p.parts_s = prediction.report.breakdown_s;
            if (!run_known) add_run(p.row, s, prediction);
        }
        p.limits = largest_parts(p.parts_s);
    }

    // The same for the point that is named first, and the hints beside it.
    void say_first(SearchPoint& p) {
        const std::optional<Scenario> s = evaluator_->scenario(p);
        if (!s) return;
        say_limits_of(p, *s);
        const std::size_t machine = at(space_.forms[at(p.id.form)].machine);
        const Unasked unasked{space_.homes_open && options_.space.farthest == Reach::devices, space_.synchronization_open,
                              !options_.space.compression && space_.compression_open};
        const double wait = p.row.step_time_s > 0 ? p.parts_s[Category::exposed_dp] / p.row.step_time_s : 0;
        result_.hints = hints(*s, p.row, wait, unasked, objectives_[machine]);
    }

    // The usual split of layers that stages do not divide puts strategies in the wrong order: beside the leader, the best of each other
    // kind is refined that may come to be better then.
    void refine_best() {
        if (result_.points.empty()) return;
        const bool of_steps = options_.by != SearchBy::memory && options_.by != SearchBy::goodput; // least_share() says nothing of these
        const std::size_t lead = leader(result_.points);
        SearchPoint best = result_.points[lead];
        for (const std::size_t i : different(result_.points, lead, at(of_steps ? std::max(1, options_.top) : 1))) {
            const SearchPoint& from = result_.points[i];
            const Scenario* resolved = workers_->first().resolved(space_, from.id);
            if (!resolved || !refines_on()) continue;
            const Scenario scenario = *resolved;
            if (i != lead && from.score * least_share(scenario, from.row, refine_fields(from)) >= best.score) continue;
            std::vector<SearchPoint> steps = refinements(scenario, from);
            if (i == lead) result_.refined = steps;
            if (steps.empty() || !(steps.back().score < best.score) || (fits_surely(best.row) && !fits_surely(steps.back().row))) continue;
            best = steps.back();
            if (i != lead) result_.refined.push_back(std::move(steps.back()));
        }
        std::ranges::stable_sort(result_.refined, {}, &SearchPoint::score);
        for (SearchPoint& p : result_.refined) evaluator_->say_interval(p);
    }

    RefineFields refine_fields(const SearchPoint& from) const {
        const Variations& variations = space_.machines[at(space_.forms[at(from.id.form)].machine)].variations;
        return {!variations.given("/strategy/layer_split"),
                !variations.given("/strategy/recompute") && !variations.given("/strategy/recompute_layers")};
    }

    std::vector<SearchPoint> refinements(const Scenario& scenario, const SearchPoint& from) {
        const std::int64_t before = result_.counts.refinements;
        std::vector<SearchPoint> steps = refine(scenario, from, refine_fields(from), [&](const std::vector<Refinement>& moves) {
            std::vector<SearchPoint> found(moves.size());
            workers_->each(moves.size(), [&](Worker&, std::size_t i) {
                found[i].row.status = PointStatus::impossible;
                if (refines_on()) found[i] = evaluator_->refined(from, moves[i]);
            });
            result_.counts.refinements += static_cast<std::int64_t>(moves.size());
            return found;
        });
        result_.counts.refined += result_.counts.refinements > before;
        return steps;
    }

    SearchOptions options_;
    StrategySpace space_;
    std::unique_ptr<Search> ahead_;     // its points, until this space is listed
    std::set<PointId> taken_ahead_;     // .. and whose sets are still among the branches
    std::set<std::string> closed_;      // kinds of which no more points are looked at (of a part alone)
    std::set<std::string> taken_kinds_; // of a batch of a part
    std::vector<Branches::Set> later_;  // as those, after the batch
    std::size_t room_ = 0;              // of rooms: what is preferred
    bool lowering_ = false;             // nothing that left more memory was found
    std::int64_t plans_ = 0;            // small plans that were made when points came out of their turn
    bool keeps_all_ = false;            // in all_: every point that was simulated
    std::vector<SearchPoint> all_;
    std::chrono::steady_clock::time_point reported_ = std::chrono::steady_clock::now();
    SearchResult result_;
    std::vector<Objective> objectives_; // by machine
    std::unique_ptr<Evaluator> evaluator_;
    std::unique_ptr<Workers> workers_;
    std::unique_ptr<Branches> branches_;
    double best_ = options_.beat, tightness_ = 0;
    std::int64_t ties_end_ = 0;
};

} // namespace

namespace {

bool nothing_fits(const SearchResult& r) {
    return r.problems.empty() && r.points.empty() && !r.nearest_late && r.nearest_miss && r.counts.left == 0;
}

// The answer to both searches, neither of which found anything that fits.
void join(SearchResult& all, SearchResult&& farther) {
    for (auto count : {&SearchCounts::legal, &SearchCounts::by_memory_bound, &SearchCounts::by_memory, &SearchCounts::failed,
                       &SearchCounts::profiles, &SearchCounts::reused})
        all.counts.*count += farther.counts.*count;
    if (farther.nearest_miss && lacks(*farther.nearest_miss) < lacks(*all.nearest_miss)) all.nearest_miss = std::move(farther.nearest_miss);
    if (farther.counts.legal > 0) all.reach = farther.reach;
}

} // namespace

namespace {

// The fastest that fits, whenever it ends.
std::optional<SearchPoint> fastest(std::string_view json_text, SearchOptions options) {
    options.by = of_target(options.by) ? SearchBy::target_time : SearchBy::time;
    options.within_days = 0;
    options.refine = options.fresh = false;
    options.top = 0;
    SearchResult r = Search(json_text, options).run();
    return r.points.empty() ? std::nullopt : std::optional(std::move(r.points.front()));
}

SearchResult search_near_and_far(std::string_view json_text, const SearchOptions& options) {
    Search first(json_text, options);
    SearchResult result = first.run();
    result.reach = options.space.farthest;
    SearchOptions again = options;
    again.fresh = false;
    for (Reach reach : {Reach::host, Reach::disk}) {
        if (reach <= options.space.farthest || reach > options.reach || !first.homes_open() || !nothing_fits(result)) continue;
        again.space.nearest = again.space.farthest = reach;
        SearchResult farther = Search(json_text, again).run();
        farther.reach = reach;
        if (nothing_fits(farther) || farther.counts.legal == 0) {
            join(result, std::move(farther));
            continue;
        }
        farther.nearer_miss = std::move(result.nearest_miss);
        return farther;
    }
    return result;
}

} // namespace

SearchResult search(std::string_view json_text, const SearchOptions& options) {
    SearchResult result = search_near_and_far(json_text, options);
    result.within_days = options.within_days;
    result.until_target = of_target(options.by);
    if (result.points.empty() && result.counts.by_deadline + result.counts.too_late > 0 && result.counts.left == 0)
        if (std::optional<SearchPoint> point = fastest(json_text, options)) result.nearest_late = std::move(point);
    return result;
}

} // namespace orrery
