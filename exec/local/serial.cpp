// The serial executor. Each rank's host issues its ops in order: a computation runs at once where what it waits for is done; a communication is
// posted on its queues and runs when it is at their heads and its partners are there. A host that meets a computation that cannot run
// yet stops there, and the next rank has its turn; only where all stop do hosts issue further, as far as the next communication.
#include "exec/local/clock.hpp"
#include "exec/local/executor.hpp"
#include "exec/local/meeting.hpp"
#include "topology/check.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <deque>

namespace orrery {
namespace {

// Posted, or a computation issued behind one that could not run yet.
struct Posted {
    Side side;
    std::int32_t issue = 0;
    std::int64_t when = 0;
    bool arrived = false;                 // at the head of all its queues, and all it waits for is done
    bool begun = false;                   // an exchange: the peers of all its transfers have arrived
    std::vector<char> moved;              // of an exchange, by transfer
    std::vector<QueueId> queues;
};

struct Host {
    Rank* rank = nullptr;
    std::size_t next = 0;                             // in its issue order
    std::vector<char> done;                           // by issue
    std::vector<std::deque<Posted*>> queues;          // by QueueId
    std::vector<std::unique_ptr<Posted>> posted;
    std::size_t waiting = 0;                          // entries of `posted`

    const Issue& issue(std::size_t i) const { return rank->order->issues[i]; }
    bool ready(const Issue& i) const {
        for (std::int32_t d : rank->order->deps_of(i))
            if (!done[static_cast<std::size_t>(d)]) return false;
        return true;
    }
};

bool communicates(const Op& op) { return std::holds_alternative<Collective>(op.work) || std::holds_alternative<Exchange>(op.work); }

class Serial final : public Executor {
  public:
    explicit Serial(World& world) : world_(world) {
        for (auto& r : world_.ranks) {
            require(r != nullptr, "the serial executor runs all ranks");
            Host h;
            h.rank = r.get();
            h.done.resize(r->order->issues.size());
            h.queues.resize(static_cast<std::size_t>(first_comm_queue) + world_.plan.communicators.size());
            hosts_.push_back(std::move(h));
        }
    }

    const char* name() const override { return "serial"; }

    void step(std::vector<OpTime>* record) override {
        record_ = record;
        began_ = wall_ns();
        for (Host& h : hosts_) {
            h.next = 0;
            std::fill(h.done.begin(), h.done.end(), 0);
        }
        for (bool further = false;;) {
            bool progress = false, finished = true;
            for (Host& h : hosts_) {
                progress = advance(h, further) || progress;
                finished = finished && h.next == h.done.size() && h.waiting == 0;
            }
            if (finished) return;
            if (!progress && further) throw StandsStill(describe());
            further = !progress;
        }
    }

  private:
    bool advance(Host& h, bool further);
    bool serve_queues(Host& h);
    bool serve(Host& h, Posted& p);
    void post(Host& h, const Issue& issue);
    void run_now(Host& h, const Issue& issue);
    void complete(Host& h, Posted& p, std::int64_t begin, std::int64_t cpu_begin);
    bool try_collective(Posted& p);
    bool try_exchange(Host& h, Posted& p);
    Posted* arrived(int rank, QueueId queue) {
        auto& q = hosts_[static_cast<std::size_t>(rank)].queues[static_cast<std::size_t>(queue)];
        return !q.empty() && q.front()->arrived ? q.front() : nullptr;
    }
    struct Peer { Host* host; Posted* posted; std::size_t transfer; };
    Peer peer_of(Host& h, Posted& p, std::size_t k);
    std::string describe();
    std::string waits_for(Host& h, Posted& p);
    std::string where(const Host& h) const {
        return h.next < h.done.size() ? " (which stands at " + place(world_.plan, h.issue(h.next)) + ")" : " (which has issued all)";
    }
    std::int64_t now() const { return record_ ? wall_ns() - began_ : 0; }
    std::int64_t cpu() const { return record_ ? cpu_ns() : 0; }

    World& world_;
    std::vector<Host> hosts_;
    std::vector<OpTime>* record_ = nullptr;
    std::int64_t began_ = 0;
    std::vector<Operand> in_, out_;
};

bool Serial::advance(Host& h, bool further) {
    bool progress = h.waiting > 0 && serve_queues(h);
    while (h.next < h.done.size()) {
        const Issue& issue = h.issue(h.next);
        const Op& op = *issue.op;
        if (const auto* a = std::get_if<Alloc>(&op.work)) {
            h.rank->memory.allocate(a->buffer, issue.microbatch);
            h.done[h.next] = 1;
        } else if (const auto* f = std::get_if<Free>(&op.work)) {
            h.rank->memory.release(f->buffer, issue.microbatch);
            h.done[h.next] = 1;
        } else if (communicates(op) || op.queue >= first_comm_queue) {
            post(h, issue);
            ++h.next;
            serve_queues(h);
            progress = true;
            if (further) return true;
            continue;
        } else if (h.queues[static_cast<std::size_t>(op.queue)].empty() && h.ready(issue)) {
            run_now(h, issue);
        } else {
            if (!further || std::holds_alternative<HostSync>(op.work)) return progress;
            post(h, issue);
        }
        ++h.next;
        progress = true;
    }
    return progress;
}

void Serial::run_now(Host& h, const Issue& issue) {
    in_.clear();
    out_.clear();
    for (BufferId b : issue.op->in) in_.push_back(h.rank->memory.operand(b, issue.microbatch));
    for (BufferId b : issue.op->out) out_.push_back(h.rank->memory.operand(b, issue.microbatch));
    const std::int64_t begin = now(), cpu_begin = cpu();
    run_op(world_, *h.rank, issue, in_, out_);
    h.done[h.next] = 1;
    if (record_) record_->push_back({h.rank->rank, static_cast<std::int32_t>(h.next), begin, begin, now(), cpu() - cpu_begin});
}

void Serial::post(Host& h, const Issue& issue) {
    auto p = std::make_unique<Posted>();
    p->side = side_of(*h.rank, issue, *h.rank->order);
    p->issue = static_cast<std::int32_t>(h.next);
    p->when = now();
    p->queues.push_back(issue.op->queue);
    if (const auto* x = std::get_if<Exchange>(&issue.op->work)) {
        p->moved.resize(x->transfers.size());
        for (const Transfer& t : x->transfers)
            if (std::find(p->queues.begin(), p->queues.end(), queue_of(t.comm)) == p->queues.end()) p->queues.push_back(queue_of(t.comm));
    }
    for (QueueId q : p->queues) h.queues[static_cast<std::size_t>(q)].push_back(p.get());
    h.posted.push_back(std::move(p));
    ++h.waiting;
}

bool Serial::serve_queues(Host& h) {
    bool progress = false;
    for (std::size_t q = 0; q < h.queues.size(); ++q)
        while (!h.queues[q].empty() && serve(h, *h.queues[q].front())) progress = true;
    return progress;
}

// True: it is done, and gone from its queues.
bool Serial::serve(Host& h, Posted& p) {
    if (!p.arrived) {
        for (QueueId q : p.queues)
            if (h.queues[static_cast<std::size_t>(q)].front() != &p) return false;
        if (!h.ready(*p.side.issue)) return false;
        p.arrived = true;
    }
    const Op& op = *p.side.issue->op;
    if (std::holds_alternative<Collective>(op.work)) return try_collective(p);
    if (std::holds_alternative<Exchange>(op.work)) return try_exchange(h, p);
    const std::int64_t begin = now(), cpu_begin = cpu();
    run_op(world_, *h.rank, *p.side.issue, p.side.in, p.side.out);
    complete(h, p, begin, cpu_begin);
    return true;
}

void Serial::complete(Host& h, Posted& p, std::int64_t begin, std::int64_t cpu_begin) {
    finish(p.side);
    h.done[static_cast<std::size_t>(p.issue)] = 1;
    if (record_) record_->push_back({h.rank->rank, p.issue, p.when, begin, now(), cpu() - cpu_begin});
    for (QueueId q : p.queues) {
        require(h.queues[static_cast<std::size_t>(q)].front() == &p, "what ends is not at the head of its queue");
        h.queues[static_cast<std::size_t>(q)].pop_front();
    }
    const auto it = std::find_if(h.posted.begin(), h.posted.end(), [&](const auto& own) { return own.get() == &p; });
    std::swap(*it, h.posted.back());
    h.posted.pop_back();
    --h.waiting;
}

bool Serial::try_collective(Posted& p) {
    const auto& work = std::get<Collective>(p.side.issue->op->work);
    const auto& members = world_.members[static_cast<std::size_t>(work.comm)][static_cast<std::size_t>(p.side.rank->rank)];
    std::vector<Posted*> ends;
    std::vector<Side*> sides;
    for (int m : members) {
        ends.push_back(arrived(m, queue_of(work.comm)));
        if (!ends.back()) return false;
        sides.push_back(&ends.back()->side);
    }
    const std::int64_t begin = now(), cpu_begin = cpu();
    meet(world_, sides);
    for (std::size_t i = 0; i < members.size(); ++i) complete(hosts_[static_cast<std::size_t>(members[i])], *ends[i], begin, cpu_begin);
    return true;
}

Serial::Peer Serial::peer_of(Host& h, Posted& p, std::size_t k) {
    const Transfer& t = std::get<Exchange>(p.side.issue->op->work).transfers[k];
    const std::int32_t ordinal = h.rank->order->ordinals[static_cast<std::size_t>(p.side.issue->transfers_begin) + k];
    for (int m : world_.members[static_cast<std::size_t>(t.comm)][static_cast<std::size_t>(h.rank->rank)]) {
        if (m == h.rank->rank) continue;
        Host& other = hosts_[static_cast<std::size_t>(m)];
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

// An exchange begins when the peers of all its transfers have arrived; a transfer moves when the exchanges at both ends have begun.
bool Serial::try_exchange(Host& h, Posted& p) {
    std::vector<Peer> peers;
    for (std::size_t k = 0; k < p.moved.size(); ++k) peers.push_back(p.moved[k] ? Peer{} : peer_of(h, p, k));
    if (!p.begun)
        for (const Peer& peer : peers)
            if (!peer.posted) return false;
    p.begun = true;
    const auto ended = [](const Posted& x) { return std::all_of(x.moved.begin(), x.moved.end(), [](char c) { return c != 0; }); };
    const auto& transfers = std::get<Exchange>(p.side.issue->op->work).transfers;
    const std::int64_t begin = now(), cpu_begin = cpu();
    for (std::size_t k = 0; k < p.moved.size(); ++k) {
        if (p.moved[k]) continue;
        Posted& other = *peers[k].posted;
        if (!other.begun) {   // it begins as soon as all of its peers are there: now, perhaps
            bool all = true;
            for (std::size_t l = 0; l < other.moved.size(); ++l) all = all && (other.moved[l] || peer_of(*peers[k].host, other, l).posted);
            other.begun = all;
        }
        if (!other.begun) continue;
        if (transfers[k].send) transfer(p.side, k, other.side, peers[k].transfer);
        else transfer(other.side, peers[k].transfer, p.side, k);
        p.moved[k] = other.moved[peers[k].transfer] = 1;
        if (ended(other)) complete(*peers[k].host, other, begin, cpu_begin);
    }
    if (!ended(p)) return false;
    complete(h, p, begin, cpu_begin);
    return true;
}

std::string Serial::waits_for(Host& h, Posted& p) {
    if (const auto* c = std::get_if<Collective>(&p.side.issue->op->work))
        for (int m : world_.members[static_cast<std::size_t>(c->comm)][static_cast<std::size_t>(h.rank->rank)])
            if (!arrived(m, queue_of(c->comm)))
                return fmt::format("rank {} on communicator {}{}", m, world_.plan.communicators[static_cast<std::size_t>(c->comm)].name, where(hosts_[static_cast<std::size_t>(m)]));
    if (const auto* x = std::get_if<Exchange>(&p.side.issue->op->work))
        for (std::size_t k = 0; k < x->transfers.size(); ++k)
            if (!p.moved[k])
                if (const Peer peer = peer_of(h, p, k); !peer.posted || !peer.posted->begun)
                    return fmt::format("the {} of rank {} on communicator {}{}", x->transfers[k].send ? "receive" : "send", peer.host->rank->rank,
                                       world_.plan.communicators[static_cast<std::size_t>(x->transfers[k].comm)].name, where(*peer.host));
    return "its place in its queues";
}

std::string Serial::describe() {
    std::string text;
    int blocked = 0;
    for (Host& h : hosts_) {
        Posted* at = nullptr;
        for (auto& q : h.queues)
            if (!q.empty() && q.front()->arrived && (!at || q.front()->issue < at->issue)) at = q.front();
        if (!at && h.next == h.done.size()) continue;
        ++blocked;
        const Issue& issue = at ? *at->side.issue : h.issue(h.next);
        std::string on = at ? waits_for(h, *at) : "its place in its queues";
        if (!at)
            for (std::int32_t d : h.rank->order->deps_of(issue))
                if (!h.done[static_cast<std::size_t>(d)]) on = place(world_.plan, h.issue(static_cast<std::size_t>(d)));
        text += fmt::format("  rank {}: {} waits for {}\n", h.rank->rank, place(world_.plan, issue), on);
    }
    return fmt::format("deadlock: {} ranks are blocked\n{}", blocked, text);
}

} // namespace

std::unique_ptr<Executor> serial_executor(World& world) { return std::make_unique<Serial>(world); }

} // namespace orrery
