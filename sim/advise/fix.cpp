#include "sim/advise/fix.hpp"

#include "sim/advise/changes.hpp"
#include "sim/advise/smallest_cluster.hpp"
#include "sim/scenario/resolve.hpp"

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <chrono>
#include <set>
#include <span>
#include <utility>

namespace orrery {
namespace {

// The first field that a change sets: two changes of one field are not put together.
std::string first_field(const StrategyChange& c) {
    for (const ChangedField& f : c.fields)
        if (!f.value.empty()) return f.pointer;
    return {};
}

// Bytes of a device; where the node has no room for what lives there, no saving on devices helps.
double need(const Trial& t) {
    constexpr double nowhere = 1e18;
    return t.peak() + (t.report && t.report->memory.host.fits() && t.report->memory.disk.fits() ? 0 : nowhere);
}

class Search {
  public:
    Search(const std::string& json, const FixOptions& options) : json_(json), options_(options), memory_(options.trying) {
        memory_.simulate = false;
    }

    Fix find() {
        Fix fix;
        TryOptions as_if = options_.trying;
        as_if.too_big_too = true;
        as_if.simulate = options_.costs;
        const Trial base = try_one(json_, {}, as_if);
        if (!base.report || base.fits()) return fix;
        std::vector<Trial> fitting = single(*base.scenario);
        if (options_.precise)
            if (auto part = least_recompute(base)) fitting.push_back(std::move(*part));
        if (fitting.empty()) fitting = together();
        if (options_.precise || fitting.empty())
            if (auto known = first_of_guide(*base.scenario)) guided_ = fitting.emplace_back(std::move(*known)).change;
        if (!fitting.empty())
            choose(fix, fitting, *base.report);
        else
            more_nodes(fix, *base.scenario);
        fix.looked_at = looked_at_;
        fix.out_of_time = out_of_time_;
        return fix;
    }

  private:
    bool goes_on() {
        using Seconds = std::chrono::duration<double>;
        out_of_time_ =
            out_of_time_ || (options_.seconds > 0 && Seconds(std::chrono::steady_clock::now() - begin_).count() > options_.seconds);
        return !out_of_time_ && looked_at_ < limit_;
    }

    std::vector<Trial> look(const std::string& json, const std::vector<StrategyChange>& changes) {
        constexpr std::size_t at_once = 4;
        std::vector<Trial> all;
        for (std::size_t from = 0; from < changes.size() && goes_on(); from += at_once) {
            const std::size_t room = std::min<std::size_t>(at_once, static_cast<std::size_t>(limit_ - looked_at_));
            const std::size_t end = std::min(changes.size(), from + room);
            looked_at_ += static_cast<int>(end - from);
            std::vector<Trial> some = try_all(
                json, {changes.begin() + static_cast<std::ptrdiff_t>(from), changes.begin() + static_cast<std::ptrdiff_t>(end)}, memory_);
            std::move(some.begin(), some.end(), std::back_inserter(all));
        }
        return all;
    }

    // Changes of one field that fit. Keeps those that save most, of different fields, for together().
    std::vector<Trial> single(const Scenario& s) {
        std::vector<StrategyChange> changes = neighbours(s), more = memory_savers(s);
        changes.insert(changes.end(), more.begin(), more.end());
        std::vector<Trial> fitting;
        for (Trial& t : look(json_, changes)) {
            if (!t.report) continue;
            if (t.fits())
                fitting.push_back(std::move(t));
            else
                savers_.push_back(std::move(t));
        }
        std::ranges::stable_sort(savers_, {}, need);
        return fitting;
    }

    // The field's guide may know a strategy that differs in several fields and is faster than any single change.
    std::optional<Trial> first_of_guide(const Scenario& s) {
        for (const StrategyChange& c : guide(s))
            for (Trial& t : look(json_, {c}))
                if (t.fits()) return std::move(t);
        return {};
    }

    // The least full recompute on the stages that are too full: by halving, as more layers never need more memory.
    std::optional<Trial> least_recompute(const Trial& base) {
        const Strategy& g = base.scenario->strategy;
        const MemoryReport& m = base.report->memory;
        if (g.recompute == RecomputeKind::full || g.recompute == RecomputeKind::list || g.recompute == RecomputeKind::budget ||
            m.stages.empty() || !m.host.fits() || !m.disk.fits())
            return {};
        int most = 0; // layers of a stage
        for (std::size_t stage = 0; stage < m.stages.size(); ++stage)
            most = std::max(most, base.scenario->model.layers / g.pipeline_parallel);
        const auto at = [&](int layers) {
            std::vector<int> by_stage;
            for (const StageMemory& s : m.stages) by_stage.push_back(s.peak > m.capacity ? layers : 0);
            ++looked_at_;
            return try_one(json_, recompute_of(by_stage), memory_);
        };
        Trial best = at(most);
        if (!best.fits()) return {};
        for (int low = 0, high = most; high - low > 1 && goes_on();) {
            const int middle = (low + high) / 2;
            Trial t = at(middle);
            if (t.fits())
                best = std::move(t), high = middle;
            else
                low = middle;
        }
        return best;
    }

    // The change that saves most, then with it the one that saves most in another field, until it fits: four changes at most.
    std::vector<Trial> together() {
        if (savers_.empty()) return {};
        StrategyChange sum = savers_.front().change;
        std::set<std::string> used{first_field(sum)};
        double least = need(savers_.front());
        for (int round = 0; round < 3; ++round) {
            std::vector<StrategyChange> next;
            for (const Trial& t : savers_)
                if (!used.contains(first_field(t.change)) && next.size() < 6) next.push_back(both(sum, t.change));
            std::vector<Trial> trials = look(json_, next), fitting;
            const Trial* best = nullptr;
            for (Trial& t : trials)
                if (t.report && (!best || need(t) < need(*best))) best = &t;
            if (!best || need(*best) >= least) break;
            sum = best->change;
            least = need(*best);
            for (const ChangedField& f : sum.fields) used.insert(f.pointer);
            for (Trial& t : trials)
                if (t.fits()) fitting.push_back(std::move(t));
            if (!fitting.empty()) return fitting;
        }
        return {};
    }

    // Has its own plans to look at, so that its answer does not depend on how many changes were tried before.
    void more_nodes(Fix& fix, const Scenario& base) {
        limit_ = looked_at_ + options_.most_for_clusters;
        const ParseResult other =
            options_.cluster_of.empty() ? ParseResult() : parse_scenario(options_.cluster_of, options_.trying.parsing);
        const bool same = !other.scenario || !other.problems.empty();
        const std::string& text = same ? json_ : options_.cluster_of;
        const bool hosts = options_.hosts && !nlohmann::json::parse(text).contains(nlohmann::json::json_pointer("/strategy/offload"));
        SmallestCluster found = smallest_cluster(
            same ? base : *other.scenario, [&](const std::vector<StrategyChange>& changes) { return look(text, changes); }, hosts);
        fix.cluster = std::move(found.on_devices);
        fix.with_hosts = std::move(found.on_hosts);
        fix.cut_short = found.cut_short;
    }

    // The fastest of those that fit: simulated, the ones that save least memory first, so that the bound leaves out what costs most.
    void choose(Fix& fix, std::vector<Trial>& fitting, const Report& base) {
        std::ranges::stable_sort(fitting, std::greater{}, [](const Trial& t) { return t.peak(); });
        if (!options_.costs) {
            fix.change = std::move(fitting.front());
            for (const Trial& t : std::span(fitting).subspan(1)) fix.further.push_back(t.change);
            if (guided_) fix.further.push_back(*guided_);
            return;
        }
        if (fitting.size() > 8) fitting.resize(8);
        std::vector<StrategyChange> changes;
        for (const Trial& t : fitting) changes.push_back(t.change);
        if (guided_ && std::ranges::none_of(changes, [&](const StrategyChange& c) { return c.words == guided_->words; }))
            changes.push_back(*guided_);
        for (Trial& t : try_all(json_, changes, options_.trying))
            if (t.fits() && t.report->step_time_s > 0 && (!fix.change || t.report->step_time_s < fix.change->report->step_time_s))
                fix.change = std::move(t);
        if (fix.change && base.step_time_s > 0) fix.costs = fix.change->report->step_time_s / base.step_time_s - 1;
    }

    const std::string& json_;
    const FixOptions& options_;
    TryOptions memory_;
    std::vector<Trial> savers_;
    std::optional<StrategyChange> guided_;
    int looked_at_ = 0, limit_ = options_.most;
    bool out_of_time_ = false;
    std::chrono::steady_clock::time_point begin_ = std::chrono::steady_clock::now();
};

// The memory of a step settles after a few microbatches a chunk: jobs of very many are tried with fewer. Empty: there are not so many.
std::string with_fewer_microbatches(const std::string& json, const Scenario& s) {
    const std::int64_t enough = 64LL * s.strategy.pipeline_parallel * s.strategy.virtual_pipeline;
    if (s.microbatches() <= 16 * enough || asynchronous_schedule(s.strategy)) return {};
    const std::int64_t batch = s.training.global_batch_size / s.microbatches() * enough;
    return with(json, {"", {{"/training/global_batch_size", std::to_string(batch)}}});
}

} // namespace

Fix cheapest_fix(const std::string& json, const FixOptions& options) {
    const ParseResult parsed = parse_scenario(json, options.trying.parsing);
    const std::string small = parsed.scenario ? with_fewer_microbatches(json, *parsed.scenario) : std::string();
    if (small.empty()) return Search(json, options).find();
    FixOptions of_small = options;
    of_small.costs = false;
    const std::string& of_cluster = options.cluster_of.empty() ? json : options.cluster_of;
    if (!options.cluster_of.empty())
        if (const ParseResult other = parse_scenario(options.cluster_of, options.trying.parsing); other.scenario)
            if (const std::string fewer = with_fewer_microbatches(options.cluster_of, *other.scenario); !fewer.empty())
                of_small.cluster_of = fewer;
    Fix fix = Search(small, of_small).find();
    for (std::optional<Trial>* found : {&fix.change, &fix.cluster, &fix.with_hosts}) {
        if (!*found) continue;
        Trial whole = try_one(found == &fix.change ? json : of_cluster, (*found)->change, options.trying);
        found->reset();
        if (whole.fits()) *found = std::move(whole);
    }
    // A change that makes more microbatches may make too many of them.
    for (const StrategyChange& other : std::exchange(fix.further, {}))
        if (!fix.change)
            if (Trial whole = try_one(json, other, options.trying); whole.fits()) fix.change = std::move(whole);
    return fix;
}

std::string to_text(const Fix& fix) {
    const auto room = [](const Trial& t) {
        return fmt::format("{:.1f} of {:.1f} GB", t.peak() * 1e-9, t.report->memory.capacity.gigabytes());
    };
    if (fix.change) {
        const Report& r = *fix.change->report;
        std::string text = fmt::format("the cheapest change found that fits: {} ({}", fix.change->change.words, room(*fix.change));
        if (r.step_time_s > 0)
            text += fmt::format("; a step takes {}{}", step_text(r),
                                fix.costs != 0 ? fmt::format(", {:+.1f} % against this one if it did fit", fix.costs * 100) : "");
        return text + ")";
    }
    if (fix.cluster || fix.with_hosts) {
        std::string text = "no change of the strategy that was tried fits; the smallest cluster found that does: ";
        if (fix.cluster) text += fmt::format("{} ({})", fix.cluster->change.words, room(*fix.cluster));
        if (fix.with_hosts)
            text += fmt::format("{}{} ({})", fix.cluster ? ", or " : "", fix.with_hosts->change.words, room(*fix.with_hosts));
        return fix.cut_short ? text + "; not all smaller ones were tried" : text;
    }
    if (fix.out_of_time)
        return fmt::format("nothing among the first {} changes and larger clusters fits: `simrun advise` looks at more of them",
                           fix.looked_at);
    return fmt::format(
        "nothing among {} changes and larger clusters fits: a smaller batch, sequence or model, or devices with more memory would help",
        fix.looked_at);
}

} // namespace orrery
