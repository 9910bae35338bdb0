#include "sim/search/branches.hpp"

#include "sim/scenario/abilities.hpp"
#include "sim/search/form_bound.hpp"
#include "topology/at.hpp"

#include <algorithm>

namespace orrery {

namespace {

Settings joined(const Settings& a, const Settings& b) {
    Settings all = a;
    all.insert(all.end(), b.begin(), b.end());
    return all;
}

// Layers alone whose recompute is not the same for all: bounds take what is certain of both.
Scenario bound_scenario(const Scenario& s, bool of_time) {
    const bool some = s.strategy.recomputes_some() || s.strategy.recomputes_segments();
    Scenario b = some && of_time ? without_recompute(s) : s;
    b.strategy.recompute_layers.clear();
    b.strategy.recompute_every = b.strategy.recompute_per_chunk = 0;
    return b;
}

// All layers recompute the same.
bool plain(const Scenario& s) { return !s.strategy.recomputes_some(); }

} // namespace

Branches::Branches(const StrategySpace& space, const std::vector<Objective>& objectives, SearchBy by, bool exhaustive, Workers& workers,
                   std::function<bool()> go_on)
    : space_(space), objectives_(objectives), by_(by), exhaustive_(exhaustive), workers_(workers), go_on_(std::move(go_on)) {
    std::vector<FormBounds> of_machine;
    for (std::size_t m = 0; m < space.machines.size(); ++m) {
        profiles_.push_back(std::make_unique<Profiles>());
        recomputes_.emplace_back();
        Variation& variation = *workers.first().variations[m];
        for (const GroupValue& r : space.machines[m].recomputes) {
            variation.with(r.settings);
            const Strategy& resolved = variation.resolved().strategy;
            recomputes_.back().push_back({resolved.recompute, resolved.recompute_ops, resolved.recompute_segments,
                                          resolved.recompute_segment_layers, resolved.recompute_budget});
        }
        of_machine.emplace_back(space.machines[m].variations.base());
    }
    for (std::size_t i = 0; i < space.forms.size(); ++i) {
        const Form& form = space.forms[i];
        Set set;
        set.id.form = static_cast<std::int32_t>(i);
        if (!exhaustive && by != SearchBy::memory && !space.cores_change_work) {
            set.step_s = of_machine[at(form.machine)].of(form.shape);
            set.bound = score(set.step_s, space.machines[at(form.machine)].variations.base(), at(form.machine));
        }
        if (late(set, space.machines[at(form.machine)].variations.base(), at(form.machine)))
            counts_.by_deadline += points_of(set);
        else
            heap_.push_back(set);
    }
    std::make_heap(heap_.begin(), heap_.end());
}

double Branches::score(double step_or_bytes, const Scenario& s, std::size_t machine) const {
    return by_ == SearchBy::memory ? step_or_bytes : objectives_[machine].bound(step_or_bytes, s);
}

// No point of the set ends its run in time.
bool Branches::late(const Set& set, const Scenario& s, std::size_t machine) const {
    return !exhaustive_ && set.step_s > objectives_[machine].longest_step(s);
}

std::size_t Branches::machine_of(const PointId& id) const { return at(space_.forms[at(id.form)].machine); }

void Branches::push(const Set& set) {
    if (is_tight(set)) return aside_.push_back(set);
    heap_.push_back(set);
    std::push_heap(heap_.begin(), heap_.end());
}

Branches::Set Branches::pop() {
    std::pop_heap(heap_.begin(), heap_.end());
    const Set set = heap_.back();
    heap_.pop_back();
    return set;
}

void Branches::prefer(double share) {
    preferred_ = share;
    std::vector<Set> all = std::move(heap_);
    all.insert(all.end(), aside_.begin(), aside_.end());
    heap_.clear();
    aside_.clear();
    for (const Set& set : all) (is_tight(set) ? aside_ : heap_).push_back(set);
    std::make_heap(heap_.begin(), heap_.end());
}

double Branches::lowest() const {
    double least = lowest_open();
    for (const Set& set : aside_) least = std::min(least, set.bound);
    return least;
}

std::vector<Branches::Set> Branches::best_points(std::size_t most, double limit) {
    constexpr float little = 0.7F; // bounds leave a quarter of a plan's bytes out, as a mean
    std::map<std::int32_t, Set> of_form;
    const auto before = [&](const Set& a, const Set& b) {
        const bool tight = a.filled > little, other = b.filled > little;
        return tight != other ? other : b < a;
    };
    for (const Set& set : heap_) {
        if (set.level < Level::point || !(set.bound < limit)) continue;
        const auto [it, fresh] = of_form.try_emplace(set.id.form, set);
        if (!fresh && before(set, it->second)) it->second = set;
    }
    std::vector<Set> taken;
    for (const auto& [form, set] : of_form) taken.push_back(set);
    std::ranges::sort(taken, before);
    if (taken.size() > most) taken.resize(most);
    std::erase_if(heap_, [&](const Set& set) {
        return std::ranges::any_of(taken, [&](const Set& t) { return t.id == set.id && t.level == set.level; });
    });
    std::make_heap(heap_.begin(), heap_.end());
    return taken;
}

std::int64_t Branches::points_of(const Set& set) const {
    const Form& form = space_.forms[at(set.id.form)];
    std::int64_t n = 1;
    if (set.level <= Level::recompute) n *= static_cast<std::int64_t>(form.rests.size());
    if (set.level <= Level::priced) n *= static_cast<std::int64_t>(recomputes_[at(form.machine)].size());
    if (set.level == Level::form) n *= static_cast<std::int64_t>(form.cores.size());
    return n;
}

std::int64_t Branches::points(double below) const {
    std::int64_t n = 0;
    for (const std::vector<Set>* sets : {&heap_, &aside_})
        for (const Set& set : *sets)
            if (set.bound < below) n += points_of(set);
    return n;
}

void Branches::split(double limit) {
    std::vector<Set> taken;
    while (taken.size() < 64 && !heap_.empty() && top().level != Level::ready && (exhaustive_ || top().bound < limit))
        taken.push_back(pop());
    std::vector<Split> found(taken.size());
    workers_.each(taken.size(), [&](Worker& w, std::size_t i) {
        if (go_on_()) found[i] = split_of(w, taken[i]);
        if (!go_on_()) found[i] = {{taken[i]}, {}}; // it may not be whole
    });
    for (const Split& s : found) {
        for (const Set& set : s.sets) push(set);
        for (const auto& [where, count] : s.counts.refused) counts_.refused[where] += count;
        counts_.by_memory_bound += s.counts.by_memory_bound;
        counts_.by_deadline += s.counts.by_deadline;
        counts_.too_tight += s.counts.too_tight;
        counts_.misses.add(s.counts.misses);
    }
    counts_.profiles = 0;
    for (const auto& p : profiles_) counts_.profiles += p->made();
}

Branches::Split Branches::split_of(Worker& w, const Set& set) {
    Split split;
    switch (set.level) {
    case Level::form:
        split_form(w, set, split);
        break;
    case Level::core:
        price_core(w, set, split);
        break;
    case Level::priced:
        split_core(w, set, split);
        break;
    case Level::recompute:
        split_recompute(w, set, split);
        break;
    case Level::point:
    case Level::walked:
    case Level::ready:
        sharpen_point(w, set, split);
        break;
    }
    // A part of a set is no better than the set.
    for (Set& part : split.sets) part.step_s = std::max(part.step_s, set.step_s), part.bound = std::max(part.bound, set.bound);
    return split;
}

// The bound of a step without what data parallelism adds. Recomputation only adds, so that points that differ in it share
// the small plan without any.
double Branches::bound_of(Worker& w, const Scenario& s, std::size_t machine, bool recomputed) {
    const Fabric& fabric = *w.fabrics[machine];
    Scenario b = bound_scenario(s, true);
    if (!recomputed) b = without_recompute(std::move(b));
    return time_bound(b, profiles_[machine]->of(b, fabric), in_flight_);
}

// Bytes of a device that points need at least, whatever rest they have: all is sharded, and away what the framework can send away.
double Branches::least_memory(Worker& w, const Scenario& s, std::size_t machine) {
    Scenario best = bound_scenario(s, false);
    best.strategy.zero_stage = 3;
    best.strategy.shard_group_size = 0;
    if (space_.may_leave) {
        const Abilities can = abilities_of(space_.machines[machine].variations.base());
        const auto away = [](bool may, Tier& tier) {
            if (may) tier = Tier::cpu;
        };
        const bool parameters = can.has_home("parameters"), gradients = parameters || can.has_home("gradients");
        Offload& o = best.strategy.offload;
        away(parameters, o.parameters);
        away(gradients, o.gradients);
        away(gradients || can.has_home("optimizer"), o.optimizer);
        away(can.has_home("activations"), o.activations);
    }
    return memory_bound(best, profiles_[machine]->of(best, *w.fabrics[machine]), in_flight_);
}

// Of a point.
double Branches::memory_of(Worker& w, const Scenario& s, std::size_t machine) {
    const Scenario b = bound_scenario(s, false);
    return memory_bound(b, profiles_[machine]->of(b, *w.fabrics[machine]), in_flight_, w.sharings[machine].get());
}

std::vector<Miss> Branches::nearest() {
    Misses points;
    Worker& w = workers_.first();
    for (Miss miss : counts_.misses.all()) {
        const Form& form = space_.forms[at(miss.id.form)];
        const std::size_t rests = miss.whole ? form.rests.size() : 0;
        if (!miss.whole) points.add(miss);
        for (std::size_t r = 0; r < rests; ++r) {
            miss.id.rest = static_cast<std::int32_t>(r);
            const Scenario* s = w.resolved(space_, miss.id);
            if (s) points.add(miss_of(*s, miss.id, memory_of(w, *s, at(form.machine)), home_bound(*s)));
        }
    }
    return points.all();
}

void Branches::keep(Split& split, const Set& set, bool late) const {
    if (late)
        split.counts.by_deadline += points_of(set);
    else
        split.sets.push_back(set);
}

void Branches::split_form(Worker& w, const Set& set, Split& split) {
    const Form& form = space_.forms[at(set.id.form)];
    const std::size_t machine = at(form.machine);
    for (std::size_t c = 0; c < form.cores.size() && go_on_(); ++c) {
        Set core = set;
        core.id.core = static_cast<std::int32_t>(c);
        core.level = exhaustive_ || by_ == SearchBy::memory ? Level::priced : Level::core;
        Variation& variation = *w.variations[machine];
        const bool rings = core.level == Level::core && form.shape.context >= fewest_ring;
        const Scenario* s = rings ? variation.with(joined(form.settings, form.cores[c].settings)) : nullptr;
        if (s) core.step_s = std::max(set.step_s, ring_bound(*s, *w.fabrics[machine])), core.bound = score(core.step_s, *s, machine);
        keep(split, core, s && late(core, *s, machine));
    }
}

// By its own small plan.
void Branches::price_core(Worker& w, const Set& set, Split& split) {
    const Form& form = space_.forms[at(set.id.form)];
    const std::size_t machine = at(form.machine);
    Set core = set;
    core.level = Level::priced;
    const Scenario* s = w.variations[machine]->with(joined(form.settings, form.cores[at(set.id.core)].settings));
    if (s) core.step_s = bound_of(w, *s, machine, false), core.bound = score(core.step_s, *s, machine);
    keep(split, core, s && late(core, *s, machine));
}

void Branches::split_core(Worker& w, const Set& set, Split& split) {
    const Form& form = space_.forms[at(set.id.form)];
    const std::size_t machine = at(form.machine);
    Variation& variation = *w.variations[machine];
    const bool known = !exhaustive_ && variation.with(joined(form.settings, form.cores[at(set.id.core)].settings));
    Scenario s = variation.resolved();
    for (std::size_t r = 0; r < recomputes_[machine].size() && go_on_(); ++r) {
        Set one = set;
        one.id.recompute = static_cast<std::int32_t>(r);
        one.level = Level::recompute;
        const Recompute& recompute = recomputes_[machine][r];
        s.strategy.recompute = recompute.kind;
        s.strategy.recompute_ops = recompute.ops;
        s.strategy.recompute_segments = recompute.segments;
        s.strategy.recompute_segment_layers = recompute.segment_layers;
        s.strategy.recompute_budget = recompute.budget;
        if (known) {
            const double bytes = least_memory(w, s, machine);
            if (Miss miss = miss_of(s, one.id, bytes, 0); miss.lacks()) {
                miss.whole = true;
                split.counts.misses.add(miss);
                split.counts.by_memory_bound += points_of(one);
                continue;
            }
            const double bound = by_ == SearchBy::memory ? bytes : bound_of(w, s, machine, plain(s));
            one.bound = score(bound, s, machine);
            if (by_ != SearchBy::memory) one.step_s = bound;
        }
        keep(split, one, known && late(one, s, machine));
    }
}

// The points of a set, each with its own bound; those whose memory cannot do are counted.
void Branches::split_recompute(Worker& w, const Set& set, Split& split) {
    const Form& form = space_.forms[at(set.id.form)];
    const std::size_t machine = at(form.machine);
    for (std::size_t r = 0; r < form.rests.size(); ++r) {
        Set point = set;
        point.id.rest = static_cast<std::int32_t>(r);
        point.level = exhaustive_ ? Level::ready : Level::point;
        const Scenario* s = w.resolved(space_, point.id);
        if (!s) {
            ++split.counts.refused[w.variations[machine]->problems().front().where];
            continue;
        }
        if (!exhaustive_) {
            const Scenario b = bound_scenario(*s, false);
            const Profile& profile = profiles_[machine]->of(b, *w.fabrics[machine]);
            const double bytes = memory_bound(b, profile, in_flight_, w.sharings[machine].get());
            if (const Miss miss = miss_of(*s, point.id, bytes, home_bound(*s)); miss.lacks()) {
                ++split.counts.by_memory_bound;
                split.counts.misses.add(miss);
                continue;
            }
            point.filled = static_cast<float>(bytes / static_cast<double>(s->cluster.device.memory.count));
            if (bytes > (1 - left_) * static_cast<double>(s->cluster.device.memory.count)) {
                ++split.counts.too_tight;
                continue;
            }
            if (by_ != SearchBy::memory && plain(*s))
                point.step_s = std::max(set.step_s, time_bound(b, profile, in_flight_, w.sharings[machine].get()));
            point.bound = score(by_ == SearchBy::memory ? bytes : point.step_s, *s, machine);
            if (by_ == SearchBy::memory || !plain(*s)) point.level = Level::ready;
            if (late(point, *s, machine)) {
                ++split.counts.by_deadline;
                continue;
            }
        }
        split.sets.push_back(point);
    }
}

// A point with its next bound: the longest way takes less to work out than all stages' transfers.
void Branches::sharpen_point(Worker& w, const Set& set, Split& split) {
    const std::size_t machine = machine_of(set.id);
    Set point = set;
    point.level = set.level == Level::point ? Level::walked : Level::ready;
    if (const Scenario* s = w.resolved(space_, set.id)) {
        const Scenario b = bound_scenario(*s, false);
        const Profile& profile = profiles_[machine]->of(b, *w.fabrics[machine]);
        SharedWire& sharing = *w.sharings[machine];
        const double own =
            set.level == Level::point ? path_bound(b, profile, in_flight_, sharing) : time_bound(b, profile, in_flight_, &sharing, true);
        point.step_s = std::max(set.step_s, own);
        point.bound = score(point.step_s, *s, machine);
        if (late(point, *s, machine)) {
            ++split.counts.by_deadline;
            return;
        }
    }
    split.sets.push_back(point);
}

} // namespace orrery
