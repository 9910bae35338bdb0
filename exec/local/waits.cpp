#include "exec/local/waits.hpp"

#include <algorithm>
#include <limits>
#include <map>
#include <tuple>

namespace orrery {
namespace {

struct Why {
    WaitCause cause = WaitCause::host;
    bool bubble = false; // a partner has not come; else data move, or the rank is busy with something else
    friend bool operator==(const Why&, const Why&) = default;
};

class Waits {
  public:
    Waits(const Plan& plan, const IssueOrder& order, std::span<const OpTime* const> times) : order_(order), times_(times) {
        const std::size_t queues = static_cast<std::size_t>(first_comm_queue) + plan.communicators.size();
        std::vector<std::int32_t> last(queues, -1);
        before_.resize(order.issues.size());
        for (std::size_t i = 0; i < order.issues.size(); ++i) {
            if (!times_[i]) continue;
            for (QueueId q : queues_of(*order.issues[i].op)) {
                std::int32_t& tail = last[q];
                if (tail >= 0) before_[i].push_back(tail);
                tail = static_cast<std::int32_t>(i);
            }
        }
    }

    std::vector<Span> all(std::int64_t end) {
        std::int64_t at = 0;
        for (std::size_t i = 0; i < times_.size(); ++i) {
            const OpTime* const x = times_[i];
            if (!x || order_.issues[i].op->queue != compute_queue) continue;
            gap(at, x->begin, static_cast<std::int32_t>(i));
            at = std::max(at, x->end);
            if (!passes(static_cast<std::int32_t>(i))) continue;
            first_ = std::min(first_, x->begin);
            last_ = std::max(last_, x->end);
        }
        if (at < end) add(at, end, {WaitCause::drain, true}); // for the ranks that are still at work
        name_bubbles();
        return std::move(spans_);
    }

  private:
    bool communicates(std::int32_t i) const {
        const Work& w = order_.issues[i].op->work;
        return std::holds_alternative<Exchange>(w) || std::holds_alternative<Collective>(w);
    }
    // Whether it is of a forward or backward pass.
    bool passes(std::int32_t i) const {
        const Phase p = order_.issues[i].op->phase;
        return p == Phase::forward || p == Phase::backward_input || p == Phase::backward_weight || p == Phase::recompute;
    }
    const OpTime* time(std::int32_t i) const { return times_[i]; }
    WaitCause kind(std::int32_t i) const {
        const Work& w = order_.issues[i].op->work;
        return std::holds_alternative<Exchange>(w)     ? WaitCause::receive
               : std::holds_alternative<Collective>(w) ? WaitCause::collective
                                                       : WaitCause::dependency;
    }

    void gap(std::int64_t from, std::int64_t to, std::int32_t next) {
        while (from < to) {
            until_ = to;
            const Why w = of_dependencies(next, from);
            add(from, until_, w);
            from = until_;
        }
    }
    void add(std::int64_t from, std::int64_t to, const Why& w) {
        if (!spans_.empty() && whys_.back() == w && spans_.back().end.ps == from * 1000) {
            spans_.back().end = {to * 1000};
            return;
        }
        Span s;
        s.begin = {from * 1000};
        s.end = {to * 1000};
        s.kind = SpanKind::wait;
        s.cause = w.cause;
        spans_.push_back(s);
        whys_.push_back(w);
    }
    // The answer may be another one from then on.
    void look(std::int64_t now, std::int64_t when) {
        if (when > now) until_ = std::min(until_, when);
    }
    bool unmet(std::int32_t i, std::int64_t now) {
        if (const OpTime* const x = time(i)) {
            look(now, x->begin);
            look(now, x->end);
            return x->end > now;
        }
        return std::ranges::any_of(order_.deps_of(order_.issues[i]), [&](std::int32_t d) { return unmet(d, now); });
    }
    // One that moves data counts; else the first one's own reason.
    Why of_dependencies(std::int32_t i, std::int64_t now) {
        std::int32_t first = -1;
        for (std::int32_t d : order_.deps_of(order_.issues[i])) {
            if (!unmet(d, now)) continue;
            if (first < 0) first = d;
            if (time(d) && time(d)->begin <= now) return {kind(d), false};
        }
        return first < 0 ? Why{WaitCause::host, false} : follow(first, now);
    }
    // Why `i` has not ended: goes back in issue order only, so it comes to an end.
    Why follow(std::int32_t i, std::int64_t now) {
        const OpTime* const x = time(i);
        if (!x) return of_dependencies(i, now);
        for (std::int64_t when : {x->posted, x->begin, x->end}) look(now, when);
        if (x->begin <= now) return {kind(i), false};
        if (communicates(i) && x->posted <= now) return {kind(i), true};
        for (std::int32_t b : before_[i])
            if (unmet(b, now)) return follow(b, now);
        return of_dependencies(i, now);
    }
    void name_bubbles() {
        for (std::size_t i = 0; i < spans_.size(); ++i) {
            if (!whys_[i].bubble) continue;
            if (spans_[i].end.ps <= first_ * 1000)
                spans_[i].cause = WaitCause::warm_up;
            else if (spans_[i].begin.ps >= last_ * 1000)
                spans_[i].cause = WaitCause::drain;
        }
    }

    const IssueOrder& order_;
    std::span<const OpTime* const> times_;
    std::vector<std::vector<std::int32_t>> before_; // on each of an issue's queues, the one before it
    std::vector<Span> spans_;
    std::vector<Why> whys_;
    std::int64_t until_ = 0, first_ = std::numeric_limits<std::int64_t>::max() / 1000, last_ = 0;
};

// The k-th send of a communicator's line meets the k-th receive. A line goes from one stage to the other of a communicator's two members.
void begin_exchanges(const World& world, std::span<OpTime> record) {
    std::map<std::tuple<CommId, int, std::int32_t>, std::pair<const OpTime*, const OpTime*>> pairs; // communicator, sender, number
    const auto key_of = [&](const OpTime& t, const Transfer& x, std::int32_t number) {
        const auto& members = world.members[x.comm][t.rank];
        const int other = members[0] == t.rank ? members[1] : members[0];
        return std::tuple{x.comm, x.send ? t.rank : other, number};
    };
    const auto each = [&](OpTime& t, auto&& f) {
        const IssueOrder& order = *world.rank(t.rank).order;
        const Issue& issue = order.issues[t.issue];
        const auto* e = std::get_if<Exchange>(&issue.op->work);
        if (!e) return;
        for (std::size_t k = 0; k < e->transfers.size(); ++k) {
            if (world.members[e->transfers[k].comm][t.rank].size() != 2) continue;
            const std::int32_t number = order.ordinals[static_cast<std::size_t>(issue.transfers_begin) + k];
            f(e->transfers[k], key_of(t, e->transfers[k], number));
        }
    };
    for (OpTime& t : record) each(t, [&](const Transfer& x, const auto& key) { (x.send ? pairs[key].first : pairs[key].second) = &t; });
    std::vector<std::pair<OpTime*, std::int64_t>> begins;
    for (OpTime& t : record) {
        std::int64_t begin = std::numeric_limits<std::int64_t>::max();
        each(t, [&](const Transfer&, const auto& key) {
            const auto& [from, to] = pairs[key];
            if (from && to) begin = std::min(begin, std::max(from->posted, to->posted));
        });
        if (begin != std::numeric_limits<std::int64_t>::max()) begins.emplace_back(&t, std::clamp(begin, t.posted, t.end));
    }
    for (auto& [t, begin] : begins) t->begin = begin;
}

} // namespace

std::vector<Span> waits_of(const Plan& plan, const IssueOrder& order, std::span<const OpTime* const> times, Time end) {
    return Waits(plan, order, times).all(end.ps / 1000);
}

void find_begins(const World& world, std::span<OpTime> record) {
    std::map<std::tuple<CommId, int, std::int64_t>, std::vector<OpTime*>> meetings; // communicator, its first member, number of the call
    std::map<std::pair<int, CommId>, std::int64_t> calls;
    for (OpTime& t : record) {
        const auto* c = std::get_if<Collective>(&world.rank(t.rank).order->issues[t.issue].op->work);
        if (!c) continue;
        const auto& members = world.members[c->comm][t.rank];
        meetings[{c->comm, members[0], calls[{t.rank, c->comm}]++}].push_back(&t);
    }
    std::int32_t number = 0;
    for (auto& [key, ends] : meetings) {
        std::int64_t begin = 0;
        for (const OpTime* t : ends) begin = std::max(begin, t->posted);
        for (OpTime* t : ends) {
            t->begin = std::clamp(begin, t->posted, t->end);
            t->meeting = number;
        }
        ++number;
    }
    begin_exchanges(world, record);
}

} // namespace orrery
