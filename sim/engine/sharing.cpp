// Max-min fair sharing, incremental and exact. Rates are kept on a grid and sums of loads as integers, so that the answer is one
// well-defined set of numbers, and an update that touches a few links finds the very bits a solve from nothing would find.
//
// The problem. Fill: raise all rates together; when link l is full, at the level
//
//     L_l = floor((C_l - sum of w r over the bundles on l with r < L_l) / (sum of w over the bundles on l with r >= L_l))      (1)
//
// all bundles of l that still rise stop at L_l; a bundle also stops at its cap. Hence
//
//     r_b = min(cap_b, min over the links l of b of L_l),   L_l the smallest level for which (1) holds, infinite if none.       (2)
//
// floor() rounds down to the grid: doubles that are whole multiples of 2^-74 of the largest capacity. Sums of w r are integers of
// 128 bits, exact whatever their order.
//
// (2) has one solution. Take two, and the lowest level v at which they differ: link l is full at v in one and not in the other. The
// bundles on l below v have stopped at links or caps below v, where both agree; so (1) at v reads the same in both.
// So any (r, L) that satisfies (2), however found, is the answer. That is why update() may keep what it knows and re-solve locally.
//
// Rounding down keeps the fill monotone: a bundle that stops at v <= L_l = floor(R/W) leaves l at floor((R - w v)/(W - w)) >= L_l.
// No link is ever found full below a level already passed, so there are no tolerances anywhere below.
//
// The update. A sweep in ascending level over a heap of links to be looked at. All levels below the sweep are final. Above it a bundle
// is *presumed* at its old rate, or *free*: its old rate has lost its reason. Link l popped at key k: evaluate (1) with the bundles
// below k fixed and all others rising. Result k: l is full at k, whoever is above comes down to k (settle). Result above k:
// a lower bound of the level of l, its next key; and if l used to be full at k, the bundles it held there, and nothing else holds,
// are free (release). Both make the other links of these bundles be looked at, each from a lower bound of its level that is known
// without reading its bundles (at_least). A link whose bundles did not change is never read.
//
// Example. Links A, B, C = 12 each; p on A; q on A, B; s on B, C; t on C. Rates: all 6, every link full at 6. Remove p. A is looked at
// from its old level, 6: only q is left, A could rise to 12; so A lets go, but B holds q at 6 too: q stays. Finished, s and t unread.
// Remove s instead: B and C are looked at, at 6. B could rise to 12 and lets go of q, which A still holds; C lets go of t, which
// nothing holds: t is free, and C is full next at 12: t = 12.
#include "sim/engine/sharing.hpp"

#include "sim/engine/sharing_agenda.hpp"
#include "sim/engine/sharing_grid.hpp"
#include "sim/engine/sharing_link.hpp"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <limits>
#include <vector>

namespace orrery {
namespace {

using sharing::Agenda, sharing::Bundle, sharing::Crossing, sharing::Event, sharing::Link, sharing::Member, sharing::Rate, sharing::Wide;
using sharing::approximate, sharing::at_least, sharing::floor_to_grid, sharing::highest_rate, sharing::infinite, sharing::product;
using sharing::rate_bits, sharing::weight_bits;

constexpr double heaviest_use = 0x1p13; // a heavier one is entered as several, so that a weight fits 64 bits

[[noreturn]] void broken(const char* what, double a, double b) {
    std::fprintf(stderr, "orrery bug: sharing: %s (%.17g, %.17g)\n", what, a, b);
    std::abort();
}

} // namespace

class Sharing::Solver {
  public:
    explicit Solver(std::span<const double> capacities);
    std::int32_t add(std::span<const Use> uses, double cap);
    void set_cap(std::int32_t id, double cap);
    void remove(std::int32_t id);
    std::span<const std::int32_t> update();
    double rate(std::int32_t id) const { return bundles_[id].reported; }
    double load(std::int32_t link) const { return std::ldexp(static_cast<double>(links_[link].load), -weight_bits) * unit_; }

  private:
    struct Tally {
        Wide fixed = 0, rising = 0;
    };

    Link& link_at(std::int32_t i) { return links_[i]; }
    Bundle& bundle_at(std::int32_t i) { return bundles_[i]; }
    Rate& rate_at(std::int32_t i) { return rates_[i]; }

    void enter(std::int32_t id);
    void leave(std::int32_t id);
    void join(std::int32_t id, std::span<const Use> uses);
    void part(std::int32_t id);
    bool take(const Bundle& bundle, const Rate& rate);

    void queue(std::int32_t index, Link& link, double key);
    double next_key() const { return std::min(agenda_.second(), waiting_key_); }
    void mark(std::int32_t id, Bundle& bundle);

    bool finished();
    void recall();
    bool stale(const Event& event);
    double visit(std::int32_t index, double sweep);
    Tally tally(const Link& link, double sweep) const;
    void fill(Link& link, const Tally& sums);
    void let_go(Link& link);
    void settle(std::int32_t id, double level);
    void release(std::int32_t id, double sweep);
    void set_free(std::int32_t id, double sweep);
    bool held(const Bundle& bundle, double level);
    void collect();

    double unit_ = 1; // bytes per second of one grid unit
    std::vector<Link> links_;
    std::vector<Bundle> bundles_;
    std::vector<Rate> rates_;          // of bundles: presumed or final, infinite while free
    std::vector<std::int32_t> vacant_; // ids to use again
    Agenda agenda_;                    // entries overtaken by a lower key stay and are skipped
    std::vector<Event> waiting_;       // links that had room, which rarely fill up: kept out of the heap until
    double waiting_key_ = infinite;    // ... the sweep comes to the lowest of their keys
    std::int32_t free_ = 0;            // free bundles
    std::int32_t full_queued_ = 0;     // links in the heap that were full
    std::vector<std::int32_t> touched_, changed_;
    std::vector<std::uint64_t> bits_; // scratch of collect()
};

Sharing::Solver::Solver(std::span<const double> capacities) : links_(capacities.size()) {
    double largest = 0;
    for (double c : capacities) {
        if (!(c >= 0)) broken("capacity is negative or not a number", c, 0);
        if (c < infinite) largest = std::max(largest, c);
    }
    int exponent = 0;
    if (largest > 0) std::frexp(largest, &exponent);
    unit_ = std::ldexp(1.0, exponent - rate_bits);
    for (std::size_t i = 0; i < capacities.size(); ++i) {
        links_[i].limits = capacities[i] < infinite;
        if (links_[i].limits) links_[i].capacity = static_cast<Wide>(std::floor(capacities[i] / unit_)) << weight_bits;
    }
}

std::int32_t Sharing::Solver::add(std::span<const Use> uses, double cap) {
    std::int32_t id;
    if (vacant_.empty()) {
        id = static_cast<std::int32_t>(bundles_.size());
        bundles_.emplace_back();
        rates_.emplace_back();
    } else {
        id = vacant_.back();
        vacant_.pop_back();
    }
    Bundle& bundle = bundle_at(id);
    bundle.present = bundle.fresh = true;
    bundle.reported = 0;
    bundle.cap = cap;
    join(id, uses);
    enter(id);
    return id;
}

void Sharing::Solver::set_cap(std::int32_t id, double cap) {
    if (!bundle_at(id).present) broken("set_cap of a bundle that is not there", id, cap);
    if (bundle_at(id).cap == cap) return;
    leave(id);
    bundle_at(id).cap = cap;
    enter(id);
}

void Sharing::Solver::remove(std::int32_t id) {
    if (!bundle_at(id).present) broken("remove of a bundle that is not there", id, 0);
    leave(id);
    part(id);
    bundle_at(id).present = bundle_at(id).fresh = false;
    vacant_.push_back(id);
}

void Sharing::Solver::join(std::int32_t id, std::span<const Use> uses) {
    Bundle& bundle = bundle_at(id);
    bundle.crossings.clear();
    for (const Use& use : uses) {
        if (use.link < 0 || static_cast<std::size_t>(use.link) >= links_.size()) broken("there is no such link", use.link, id);
        Link& link = link_at(use.link);
        if (!link.limits) continue;
        if (!(use.weight > 0) || use.weight > 0x1p24) broken("weight is not above 0 and at most 2^24", use.weight, use.link);
        for (double rest = use.weight; rest > 0; rest -= heaviest_use) {
            const double rounded = std::min(rest, heaviest_use) * (1ull << weight_bits) + 0.5;
            const auto weight = std::max<std::uint64_t>(1, static_cast<std::uint64_t>(rounded));
            bundle.crossings.push_back({weight, use.link, static_cast<std::int32_t>(link.members.size())});
            link.members.push_back({weight, id, static_cast<std::int32_t>(bundle.crossings.size()) - 1});
            link.weight += weight;
        }
    }
}

void Sharing::Solver::part(std::int32_t id) {
    for (const Crossing& crossing : bundle_at(id).crossings) {
        Link& link = link_at(crossing.link);
        const Member last = link.members.back();
        link.members[crossing.slot] = last;
        bundle_at(last.bundle).crossings[last.use].slot = crossing.slot;
        link.members.pop_back();
        link.weight -= crossing.weight;
    }
}

// A bundle that fits at its cap on links that are not full takes it, and nobody else is affected; any other starts free.
void Sharing::Solver::enter(std::int32_t id) {
    Bundle& bundle = bundle_at(id);
    if (!(bundle.cap >= 0)) broken("cap is negative or not a number", bundle.cap, id);
    bundle.limit = std::floor(std::min(bundle.cap / unit_, highest_rate));
    const Rate limit = Rate::of(bundle.limit);
    mark(id, bundle);
    if (take(bundle, limit))
        rate_at(id) = limit;
    else
        set_free(id, 0);
}

void Sharing::Solver::leave(std::int32_t id) {
    const Rate rate = rate_at(id);
    if (rate.value == infinite) --free_;
    for (const Crossing& c : bundle_at(id).crossings) {
        Link& link = link_at(c.link);
        link.discount(c.weight, rate);
        if (link.full()) queue(c.link, link, link.level);
    }
}

// Adds the bundle's load at this rate to its links, if they all have room and are not full; else changes nothing.
bool Sharing::Solver::take(const Bundle& bundle, const Rate& rate) {
    for (std::size_t i = 0; i < bundle.crossings.size(); ++i) {
        const Crossing& c = bundle.crossings[i];
        Link& link = link_at(c.link);
        const bool idle = !link.full() && link.free == 0;
        const bool absurd = static_cast<double>(c.weight) * rate.value > 0x1p125; // above any capacity, and product() would overflow
        if (idle && !absurd && link.load + product(c.weight, rate) <= link.capacity) {
            link.load += product(c.weight, rate);
            continue;
        }
        while (i-- > 0) link_at(bundle.crossings[i].link).load -= product(bundle.crossings[i].weight, rate);
        return false;
    }
    return true;
}

void Sharing::Solver::queue(std::int32_t index, Link& link, double key) {
    if (link.queued && link.key <= key) return;
    if (!link.queued && link.full()) ++full_queued_;
    link.queued = true;
    link.firm = false;
    link.key = key;
    if (link.full()) return agenda_.push({key, index});
    waiting_.push_back({key, index});
    waiting_key_ = std::min(waiting_key_, key);
}

void Sharing::Solver::mark(std::int32_t id, Bundle& bundle) {
    if (bundle.marked) return;
    bundle.marked = true;
    touched_.push_back(id);
}

std::span<const std::int32_t> Sharing::Solver::update() {
    while (!finished()) {
        const Event event = agenda_.top();
        if (stale(event)) {
            agenda_.pop();
        } else if (event.what < 0) {
            agenda_.pop();
            settle(~event.what, event.key);
        } else {
            const double next = visit(event.what, event.key);
            if (next < infinite)
                agenda_.replace_top({next, event.what});
            else
                agenda_.pop();
        }
    }
    collect();
    return changed_;
}

bool Sharing::Solver::stale(const Event& event) {
    if (event.what >= 0) return !link_at(event.what).queued || link_at(event.what).key != event.key;
    const Bundle& bundle = bundle_at(~event.what);
    return !bundle.present || rate_at(~event.what).value < infinite || bundle.limit != event.key;
}

// Is there nothing left to look at? If there is, the top of the agenda is what comes next.
bool Sharing::Solver::finished() {
    if (free_ == 0 && full_queued_ == 0) agenda_.move_to(waiting_); // all that remains is links that had room
    if (!waiting_.empty() && (agenda_.empty() || agenda_.top().key >= waiting_key_)) recall();
    return agenda_.empty();
}

// Waiting links whose bundles all have rates, and that have room for them, are done; the others join the agenda.
void Sharing::Solver::recall() {
    for (const Event& event : waiting_) {
        if (stale(event)) continue;
        if (event.what >= 0 && !link_at(event.what).full() && link_at(event.what).fits())
            link_at(event.what).queued = false;
        else
            agenda_.push(event);
    }
    waiting_.clear();
    waiting_key_ = infinite;
}

// Looks at a link; returns where to look at it again, or infinity.
double Sharing::Solver::visit(std::int32_t index, double sweep) {
    Link& link = link_at(index);
    if (link.full()) {
        --full_queued_;
    } else if (link.fits()) {
        link.queued = false;
        return infinite;
    }
    for (;;) {
        link.key = sweep; // and still queued: what follows shall not queue it again
        link.firm = true;
        double level = at_least(link);
        if (level <= sweep) {
            const Tally sums = tally(link, sweep);
            if (sums.fixed > link.capacity) broken("a link is overfull below the sweep", approximate(sums.fixed), sweep);
            level = sums.rising ? floor_to_grid(link.capacity - sums.fixed, sums.rising) : infinite;
            if (level < sweep) broken("a level below the sweep", level, sweep);
            if (level == sweep || level == infinite) {
                link.queued = false;
                link.level = level;
                if (level == sweep) fill(link, sums);
                return infinite;
            }
        } else {
            link.firm = link.level == sweep; // then all that may still become free was counted as rising
        }
        if (link.level == sweep) let_go(link);
        sweep = std::min(level, link.level);
        if (next_key() >= sweep) continue;
        link.key = sweep;
        if (link.full()) ++full_queued_;
        return sweep;
    }
}

Sharing::Solver::Tally Sharing::Solver::tally(const Link& link, double sweep) const {
    Wide high = 0, low = 0, fixed = 0;
    for (const Member& member : link.members) {
        const Rate& rate = rates_[member.bundle];
        const std::uint64_t weight = member.weight & -static_cast<std::uint64_t>(rate.value < sweep); // a branch here is a coin toss
        high += static_cast<Wide>(weight) * rate.high;
        low += static_cast<Wide>(weight) * rate.low;
        fixed += weight;
    }
    return {(high << 40) + low, link.weight - fixed};
}

void Sharing::Solver::fill(Link& link, const Tally& sums) {
    link.room = link.capacity - sums.fixed;
    link.rising = sums.rising;
    for (const Member& member : link.members)
        if (rate_at(member.bundle).value > link.level) settle(member.bundle, link.level);
}

void Sharing::Solver::let_go(Link& link) {
    const double level = link.level;
    link.level = infinite;
    for (const Member& member : link.members)
        if (rate_at(member.bundle).value == level && !held(bundle_at(member.bundle), level)) release(member.bundle, level);
}

bool Sharing::Solver::held(const Bundle& bundle, double level) {
    if (bundle.limit == level) return true;
    for (const Crossing& c : bundle.crossings)
        if (link_at(c.link).level == level) return true;
    return false;
}

// The rate becomes `level`, final: from free, or down from a presumed rate, which can only raise the levels of other full links.
void Sharing::Solver::settle(std::int32_t id, double level) {
    Bundle& bundle = bundle_at(id);
    const Rate before = rate_at(id), after = Rate::of(level);
    rate_at(id) = after;
    if (before.value == infinite) --free_;
    mark(id, bundle);
    for (const Crossing& c : bundle.crossings) {
        Link& link = link_at(c.link);
        link.discount(c.weight, before);
        link.count(c.weight, after);
        if (before.value < infinite && link.full() && link.level > level) queue(c.link, link, link.level);
    }
}

void Sharing::Solver::release(std::int32_t id, double sweep) {
    for (const Crossing& c : bundle_at(id).crossings) link_at(c.link).discount(c.weight, rate_at(id));
    mark(id, bundle_at(id));
    set_free(id, sweep);
}

void Sharing::Solver::set_free(std::int32_t id, double sweep) {
    const Bundle& bundle = bundle_at(id);
    rate_at(id) = Rate::of(infinite);
    ++free_;
    for (const Crossing& c : bundle.crossings) {
        Link& link = link_at(c.link);
        link.count(c.weight, rate_at(id));
        if (!link.queued || !link.firm) queue(c.link, link, std::min(std::max(sweep, at_least(link)), link.level));
    }
    if (bundle.limit < highest_rate || bundle.crossings.empty()) agenda_.push({bundle.limit, ~id});
}

void Sharing::Solver::collect() {
    changed_.clear();
    for (std::int32_t id : touched_) {
        Bundle& bundle = bundle_at(id);
        bundle.marked = false;
        if (!bundle.present) continue;
        const double value = rate_at(id).value;
        const double rate = value == bundle.limit ? bundle.cap : value * unit_;
        if (rate == bundle.reported && !bundle.fresh) continue;
        bundle.reported = rate;
        bundle.fresh = false;
        changed_.push_back(id);
    }
    touched_.clear();
    if (changed_.size() < 64) {
        std::sort(changed_.begin(), changed_.end());
        return;
    }
    bits_.assign((bundles_.size() + 63) / 64, 0);
    for (std::int32_t id : changed_) bits_[static_cast<std::size_t>(id) / 64] |= 1ull << (id % 64);
    changed_.clear();
    for (std::size_t word = 0; word < bits_.size(); ++word)
        for (std::uint64_t rest = bits_[word]; rest; rest &= rest - 1)
            changed_.push_back(static_cast<std::int32_t>(word * 64 + static_cast<std::size_t>(std::countr_zero(rest))));
}

Sharing::Sharing(std::span<const double> link_capacities) : solver_(std::make_unique<Solver>(link_capacities)) {}
Sharing::Sharing(Sharing&&) noexcept = default;
Sharing& Sharing::operator=(Sharing&&) noexcept = default;
Sharing::~Sharing() = default;
std::int32_t Sharing::add(std::span<const Use> uses, double cap) { return solver_->add(uses, cap); }
void Sharing::set_cap(std::int32_t bundle, double cap) { solver_->set_cap(bundle, cap); }
void Sharing::remove(std::int32_t bundle) { solver_->remove(bundle); }
std::span<const std::int32_t> Sharing::update() { return solver_->update(); }
double Sharing::rate(std::int32_t bundle) const { return solver_->rate(bundle); }
double Sharing::load(std::int32_t link) const { return solver_->load(link); }

} // namespace orrery
