#include "exec/local/meetings.hpp"

#include "exec/local/standstill.hpp"
#include "topology/check.hpp"

#include <algorithm>

namespace orrery {

bool is_posted(const Op& op) {
    return op.queue >= first_comm_queue || std::holds_alternative<Exchange>(op.work) || std::holds_alternative<Collective>(op.work);
}

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
    for (QueueId q : p->queues) h.queues[q].push_back(p.get());
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
            if (h.queues[q].front() != &p) return std::nullopt;
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
    auto& q = hosts_[rank].queues[queue];
    return !q.empty() && q.front()->arrived ? q.front() : nullptr;
}

std::optional<Move> Meetings::take_collective(Posted& p) {
    const auto& work = std::get<Collective>(p.side.issue->op->work);
    Move m;
    for (int r : world_.members[work.comm][p.side.rank->rank]) {
        Posted* end = arrived(r, queue_of(work.comm));
        if (!end || kind_of(*end) != work.kind) return std::nullopt;
        m.ends.push_back({&hosts_[r], end});
    }
    for (Move::End& e : m.ends) e.posted->moving = true;
    return m;
}

Meetings::Peer Meetings::peer_of(Issuer& h, Posted& p, std::size_t k) {
    const Transfer& t = std::get<Exchange>(p.side.issue->op->work).transfers[k];
    const std::int32_t ordinal = h.rank->order->ordinals[static_cast<std::size_t>(p.side.issue->transfers_begin) + k];
    for (int m : world_.members[t.comm][h.rank->rank]) {
        if (m == h.rank->rank) continue;
        Issuer& other = hosts_[m];
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
        m.transfers.push_back(transfers[k].send ? Move::Transfer{mine, k, theirs, peer.transfer}
                                                : Move::Transfer{theirs, peer.transfer, mine, k});
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
        if (record)
            record->push_back(
                {e.host->rank->rank, e.posted->issue, meeting, e.posted->when, begin, end, cpu, e.host->rank->memory.device().by_kind});
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
    h.done[p.issue] = 1;
    for (QueueId q : p.queues) {
        require(h.queues[q].front() == &p, "what ends is not at the head of its queue");
        h.queues[q].pop_front();
    }
    const auto it = std::find_if(h.posted.begin(), h.posted.end(), [&](const auto& own) { return own.get() == &p; });
    std::swap(*it, h.posted.back());
    h.posted.pop_back();
}

Deadlock Meetings::blocked() const {
    std::vector<Stand> stands;
    for (const Issuer& h : hosts_) {
        Stand s{h.rank, h.done, std::vector<char>(h.done.size(), 0)};
        for (const auto& p : h.posted) s.arrived[p->issue] = p->arrived;
        stands.push_back(std::move(s));
    }
    return orrery::blocked(world_, stands);
}

} // namespace orrery
