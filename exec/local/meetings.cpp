#include "exec/local/meetings.hpp"

#include "topology/check.hpp"

#include <fmt/format.h>

#include <algorithm>

namespace orrery {

bool is_posted(const Op& op) { return op.queue >= first_comm_queue || std::holds_alternative<Exchange>(op.work) || std::holds_alternative<Collective>(op.work); }

namespace {

std::optional<CollectiveKind> kind_of(const Posted& p) {
    const auto* c = std::get_if<Collective>(&p.side.issue->op->work);
    return c ? std::optional(c->kind) : std::nullopt;
}

} // namespace

Meetings::Meetings(World& world) : world_(world) {
    for (auto& r : world_.ranks) {
        require(r != nullptr, "ranks of one process meet where all are");
        Issuer h;
        h.rank = r.get();
        h.done.resize(r->order->issues.size());
        h.queues.resize(static_cast<std::size_t>(first_comm_queue) + world_.plan.communicators.size());
        hosts_.push_back(std::move(h));
    }
}

void Meetings::begin_step() {
    moves_ = 0;
    for (Issuer& h : hosts_) {
        h.next = 0;
        std::fill(h.done.begin(), h.done.end(), 0);
    }
}

void Meetings::post(Issuer& h, std::size_t index, std::int64_t when) {
    const Issue& issue = h.issue(index);
    auto p = std::make_unique<Posted>();
    p->side = attend(*h.rank, issue, *h.rank->order);
    p->issue = static_cast<std::int32_t>(index);
    p->when = when;
    p->queues = queues_of(*issue.op);
    if (const auto* x = std::get_if<Exchange>(&issue.op->work)) p->moved.resize(x->transfers.size());
    for (QueueId q : p->queues) h.queues[static_cast<std::size_t>(q)].push_back(p.get());
    h.posted.push_back(std::move(p));
}

std::optional<Move> Meetings::take(Issuer& h) {
    if (h.posted.empty()) return std::nullopt;
    for (auto& q : h.queues)
        if (!q.empty())
            if (auto m = take(h, *q.front())) return m;
    return std::nullopt;
}

std::optional<Move> Meetings::take(Issuer& h, Posted& p) {
    if (p.moving) return std::nullopt;
    if (!p.arrived) {
        for (QueueId q : p.queues)
            if (h.queues[static_cast<std::size_t>(q)].front() != &p) return std::nullopt;
        if (!h.ready(*p.side.issue)) return std::nullopt;
        p.arrived = true;
    }
    const Op& op = *p.side.issue->op;
    if (std::holds_alternative<Collective>(op.work)) return take_collective(p);
    if (std::holds_alternative<Exchange>(op.work)) return take_exchange(h, p);
    p.moving = true;
    return Move{{{&h, &p}}, {}};
}

Posted* Meetings::arrived(int rank, QueueId queue) {
    auto& q = hosts_[static_cast<std::size_t>(rank)].queues[static_cast<std::size_t>(queue)];
    return !q.empty() && q.front()->arrived ? q.front() : nullptr;
}

std::optional<Move> Meetings::take_collective(Posted& p) {
    const auto& work = std::get<Collective>(p.side.issue->op->work);
    Move m;
    for (int r : world_.members[static_cast<std::size_t>(work.comm)][static_cast<std::size_t>(p.side.rank->rank)]) {
        Posted* end = arrived(r, queue_of(work.comm));
        if (!end || kind_of(*end) != work.kind) return std::nullopt;
        m.ends.push_back({&hosts_[static_cast<std::size_t>(r)], end});
    }
    for (Move::End& e : m.ends) e.posted->moving = true;
    return m;
}

Meetings::Peer Meetings::peer_of(Issuer& h, Posted& p, std::size_t k) {
    const Transfer& t = std::get<Exchange>(p.side.issue->op->work).transfers[k];
    const std::int32_t ordinal = h.rank->order->ordinals[static_cast<std::size_t>(p.side.issue->transfers_begin) + k];
    for (int m : world_.members[static_cast<std::size_t>(t.comm)][static_cast<std::size_t>(h.rank->rank)]) {
        if (m == h.rank->rank) continue;
        Issuer& other = hosts_[static_cast<std::size_t>(m)];
        Posted* const at = arrived(m, queue_of(t.comm));
        const auto* x = at ? std::get_if<Exchange>(&at->side.issue->op->work) : nullptr;
        if (!x) return {&other, nullptr, 0};
        for (std::size_t l = 0; l < x->transfers.size(); ++l)
            if (x->transfers[l].comm == t.comm && x->transfers[l].send != t.send &&
                other.rank->order->ordinals[static_cast<std::size_t>(at->side.issue->transfers_begin) + l] == ordinal)
                return {&other, at, l};
        return {&other, nullptr, 0};
    }
    broken("a transfer without a peer");
}

// As in an NCCL group each transfer moves as soon as its partner has arrived too, whatever the others of the group wait for.
std::optional<Move> Meetings::take_exchange(Issuer& h, Posted& p) {
    const auto& transfers = std::get<Exchange>(p.side.issue->op->work).transfers;
    Move m;
    for (std::size_t k = 0; k < p.moved.size(); ++k) {
        if (p.moved[k]) continue;
        const Peer peer = peer_of(h, p, k);
        if (!peer.posted) continue;
        p.moved[k] = peer.posted->moved[peer.transfer] = 1;
        const Move::End mine{&h, &p}, theirs{peer.host, peer.posted};
        m.transfers.push_back(transfers[k].send ? Move::Transfer{mine, k, theirs, peer.transfer} : Move::Transfer{theirs, peer.transfer, mine, k});
    }
    if (m.transfers.empty()) return std::nullopt;
    return m;
}

void Meetings::move(const Move& m) {
    for (const Move::Transfer& t : m.transfers) transfer(t.from.posted->side, t.k, t.to.posted->side, t.l);
    if (m.ends.empty()) return;
    Attendance& first = m.ends[0].posted->side;
    if (!std::holds_alternative<Collective>(first.issue->op->work)) return run_op(world_, *first.rank, *first.issue, first.in, first.out);
    std::vector<Attendance*> members;
    for (const Move::End& e : m.ends) members.push_back(&e.posted->side);
    meet(world_, members);
}

void Meetings::settle(const Move& m, std::int64_t begin, std::int64_t end, std::int64_t cpu, std::vector<OpTime>* record) {
    const std::int32_t meeting = moves_++;
    const auto ended = [&](const Move::End& e) {
        if (record) record->push_back({e.host->rank->rank, e.posted->issue, meeting, e.posted->when, begin, end, cpu, e.host->rank->memory.device().by_kind});
        complete(*e.host, *e.posted);
    };
    for (const Move::End& e : m.ends) ended(e);
    for (const Move::Transfer& t : m.transfers) t.from.posted->moved[t.k] = t.to.posted->moved[t.l] = 2;
    std::vector<Move::End> over;
    for (const Move::Transfer& t : m.transfers)
        for (const Move::End& e : {t.from, t.to}) {
            const bool known = std::any_of(over.begin(), over.end(), [&](const Move::End& o) { return o.posted == e.posted; });
            if (!known && std::all_of(e.posted->moved.begin(), e.posted->moved.end(), [](char c) { return c == 2; })) over.push_back(e);
        }
    for (const Move::End& e : over) ended(e);
}

void Meetings::complete(Issuer& h, Posted& p) {
    finish(p.side);
    h.done[static_cast<std::size_t>(p.issue)] = 1;
    for (QueueId q : p.queues) {
        require(h.queues[static_cast<std::size_t>(q)].front() == &p, "what ends is not at the head of its queue");
        h.queues[static_cast<std::size_t>(q)].pop_front();
    }
    const auto it = std::find_if(h.posted.begin(), h.posted.end(), [&](const auto& own) { return own.get() == &p; });
    std::swap(*it, h.posted.back());
    h.posted.pop_back();
}

// The first of what it has issued, or would issue next, that is not done.
std::optional<std::size_t> Meetings::oldest(const Issuer& h) const {
    for (std::size_t i = 0; i < h.done.size(); ++i)
        if (!h.done[i] && !is_memory_op(h.issue(i).op->work)) return i;
    return std::nullopt;
}

std::string Meetings::where(const Issuer& h) const {
    const auto at = oldest(h);
    return at ? " (which stands at " + place(world_.plan, h.issue(*at)) + ")" : "";
}

std::string Meetings::waits_for(Issuer& h, Posted& p) {
    const auto& comm_name = [&](CommId c) -> const std::string& { return world_.plan.communicators[static_cast<std::size_t>(c)].name; };
    if (const auto* c = std::get_if<Collective>(&p.side.issue->op->work)) {
        const auto& members = world_.members[static_cast<std::size_t>(c->comm)][static_cast<std::size_t>(h.rank->rank)];
        for (int m : members)
            if (const Posted* end = arrived(m, queue_of(c->comm)); end && kind_of(*end) != c->kind)
                return "the members of communicator " + comm_name(c->comm) + " called different collectives";
        for (int m : members)
            if (!arrived(m, queue_of(c->comm))) return fmt::format("rank {} on communicator {}{}", m, comm_name(c->comm), where(hosts_[static_cast<std::size_t>(m)]));
    }
    if (const auto* x = std::get_if<Exchange>(&p.side.issue->op->work))
        for (std::size_t k = 0; k < x->transfers.size(); ++k)
            if (!p.moved[k]) {
                const Peer peer = peer_of(h, p, k);
                return fmt::format("the {} of rank {} on communicator {}{}", x->transfers[k].send ? "receive" : "send", peer.host->rank->rank, comm_name(x->transfers[k].comm), where(*peer.host));
            }
    return "its partners";
}

Deadlock Meetings::blocked() {
    Deadlock d;
    for (Issuer& h : hosts_) {
        Posted* at = nullptr;
        for (auto& q : h.queues)
            if (!q.empty() && q.front()->arrived && (!at || q.front()->issue < at->issue)) at = q.front();
        if (at) {
            d.blocked.push_back({h.rank->rank, place(world_.plan, *at->side.issue), waits_for(h, *at)});
            continue;
        }
        const auto first = oldest(h);
        if (!first) continue;
        std::string on = "its place in its queues";
        for (std::int32_t dep : h.rank->order->deps_of(h.issue(*first)))
            if (!h.done[static_cast<std::size_t>(dep)]) {
                on = place(world_.plan, h.issue(static_cast<std::size_t>(dep)));
                break;
            }
        d.blocked.push_back({h.rank->rank, place(world_.plan, h.issue(*first)), on});
    }
    return d;
}

} // namespace orrery
