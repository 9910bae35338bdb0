#include "exec/local/replay.hpp"

#include "exec/kernels/random.hpp"
#include "exec/local/clock.hpp"
#include "exec/local/meeting.hpp"
#include "exec/local/meetings.hpp"
#include "topology/check.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <map>
#include <optional>

namespace orrery {
namespace {

// Elements of `to` from those of `from`, again from the start where these end.
void fill_from(const Pieces& from, const Pieces& to, Element element) {
    const std::int64_t n = elements(to), have = elements(from);
    if (n == 0 || have == 0) return;
    const std::vector<std::byte> bytes = packed(from, 0, have, element); // both may be the same memory
    for (std::int64_t at = 0; at < n; at += have) unpack(bytes.data(), to, at, std::min(have, n - at), element);
}

// As if every member had sent what this one has; a sum stays this one's summand.
void stand_in(World& world, const Attendance& side, int index, int members) {
    const auto kind = std::get<Collective>(side.issue->op->work).kind;
    for (const CollectiveSides& s : sides_of(world, side)) {
        if (kind == CollectiveKind::reduce_scatter) {
            const std::int64_t n = elements(s.out);
            require(n * members >= elements(s.in), "a reduce-scatter's parts do not hold its sum");
            unpack(packed(s.in, index * n, n, s.element).data(), s.out, 0, n, s.element);
        } else {
            fill_from(s.in, s.out, s.element);
        }
    }
}

// Stands for a neighbour's data: the same numbers every time; zeros would be computed faster than numbers.
void receive(const Operand& to, DType real) {
    const std::int64_t n = elements(*to.buffer);
    if (!is_floating(to.buffer->dtype)) return;
    for (std::int64_t i = 0; i < n; ++i) {
        const double x = 0.02 * normal(0, name_key("replay"), static_cast<std::uint64_t>(i % 4096));
        write_element(to.data, i, x, stored_type(to.buffer->dtype, real));
    }
}

class Replay final : public Executor {
  public:
    Replay(World& world, std::vector<Delay> delays) : world_(world), rank_(*only(world)), delays_(std::move(delays)) {
        require(delays_.size() == rank_.order->issues.size(), "delays of another rank");
    }
    const char* name() const override { return "replay"; }

    void step(std::vector<OpTime>* record) override {
        const std::size_t n = rank_.order->issues.size();
        ended_.assign(n, 0);
        free_.assign(static_cast<std::size_t>(first_comm_queue) + world_.plan.communicators.size(), 0);
        for (std::size_t i = 0; i < n; ++i) {
            const Issue& issue = rank_.order->issues[i];
            if (const auto* a = std::get_if<Alloc>(&issue.op->work))
                rank_.memory.allocate(a->buffer, issue.microbatch);
            else if (const auto* f = std::get_if<Free>(&issue.op->work))
                rank_.memory.release(f->buffer, issue.microbatch);
            else
                run(i, record);
        }
    }

  private:
    static Rank* only(World& world) {
        Rank* found = nullptr;
        for (auto& r : world.ranks) {
            if (!r) continue;
            require(found == nullptr, "a replay is of one rank");
            found = r.get();
        }
        require(found != nullptr, "a replay is of one rank");
        return found;
    }

    // How long the op worked here: the thread's own time, or, where a device does the work, until it was done.
    std::int64_t work(const Issue& issue, const Attendance& side) {
        const bool host = world_.machine.name == "cpu";
        const std::int64_t begin = host ? cpu_ns() : wall_ns();
        run_op(world_, rank_, issue, side.in, side.out);
        return (host ? cpu_ns() : wall_ns()) - begin;
    }

    void communicate(const Attendance& side) {
        if (const auto* x = std::get_if<Exchange>(&side.issue->op->work)) {
            for (std::size_t k = 0; k < x->transfers.size(); ++k)
                if (!x->transfers[k].send) receive(end_of(side, k), world_.real);
            return;
        }
        const auto& members = world_.members[std::get<Collective>(side.issue->op->work).comm][rank_.rank];
        stand_in(world_, side, static_cast<int>(std::find(members.begin(), members.end(), rank_.rank) - members.begin()),
                 static_cast<int>(members.size()));
    }

    void run(std::size_t i, std::vector<OpTime>* record) {
        const Issue& issue = rank_.order->issues[i];
        const bool moves = std::holds_alternative<Collective>(issue.op->work) || std::holds_alternative<Exchange>(issue.op->work);
        Attendance side = attend(rank_, issue, *rank_.order);
        Delay takes = delays_[i];
        if (moves)
            communicate(side);
        else
            takes = {0, work(issue, side)};
        finish(side);
        std::int64_t posted = 0;
        for (std::int32_t d : rank_.order->deps_of(issue)) posted = std::max(posted, ended_[d]);
        const std::vector<QueueId> queues = queues_of(*issue.op);
        for (QueueId q : queues) posted = std::max(posted, free_[q]);
        const std::int64_t begin = posted + takes.wait, end = begin + takes.move;
        ended_[i] = end;
        for (QueueId q : queues) free_[q] = end;
        if (record && !std::holds_alternative<HostSync>(issue.op->work))
            record->push_back(
                {rank_.rank, static_cast<std::int32_t>(i), -1, posted, begin, end, moves ? 0 : takes.move, rank_.memory.device().by_kind});
    }

    World& world_;
    Rank& rank_;
    std::vector<Delay> delays_;
    std::vector<std::int64_t> ended_, free_;
};

} // namespace

const Lane& lane_of(const Trace& predicted, int rank, int stage) {
    const Lane* found = nullptr;
    for (const Lane& l : predicted.lanes) {
        if (l.rank == rank) return l;
        if (l.stage == stage && l.rank < rank && (!found || l.rank > found->rank)) found = &l; // lanes show the first of those alike
    }
    if (!found) throw std::runtime_error(fmt::format("the prediction has no lane for rank {} of stage {}", rank, stage));
    return *found;
}

Trace alone(const Trace& predicted, const Lane& lane) {
    Trace t;
    t.name = predicted.name;
    t.source = predicted.source;
    t.plan_hash = predicted.plan_hash;
    t.queues = predicted.queues;
    t.memory_kinds = predicted.memory_kinds;
    t.ops = predicted.ops;
    t.lanes.push_back(lane);
    t.lanes[0].ranks = 1;
    if (lane.spans.empty()) return t;
    Time begin = lane.spans[0].begin, end = lane.spans[0].end;
    for (const Span& s : lane.spans) {
        begin = std::min(begin, s.begin);
        end = std::max(end, s.end);
    }
    for (Span& s : t.lanes[0].spans) {
        s.begin.ps -= begin.ps;
        s.end.ps -= begin.ps;
    }
    for (MemorySample& m : t.lanes[0].memory) m.at.ps -= begin.ps;
    t.end.ps = end.ps - begin.ps;
    return t;
}

std::vector<Delay> predicted_delays(const World& world, const Rank& rank, const Lane& lane) {
    struct Moved {
        Time posted, begin, end;
    };
    std::vector<std::vector<Moved>> by_queue(static_cast<std::size_t>(first_comm_queue) + world.plan.communicators.size());
    Time posted{-1};
    for (const Span& s : lane.spans) { // by queue, then begin
        if (s.queue < first_comm_queue || s.kind == SpanKind::wait) continue;
        if (static_cast<std::size_t>(s.queue) >= by_queue.size())
            throw std::runtime_error("the prediction has communicators that the rank has not: it is of another plan");
        if (s.kind == SpanKind::op) by_queue[s.queue].push_back({posted.ps >= 0 && posted < s.begin ? posted : s.begin, s.begin, s.end});
        posted = s.kind == SpanKind::transfer_wait ? s.begin : Time{-1};
    }
    std::vector<std::size_t> next(by_queue.size(), 0);
    std::vector<Delay> delays;
    for (const Issue& i : rank.order->issues) {
        std::map<QueueId, std::size_t> moves; // how many of its own the op has on each queue
        if (const auto* x = std::get_if<Exchange>(&i.op->work))
            for (const Transfer& t : x->transfers) ++moves[queue_of(t.comm)];
        else if (i.op->queue >= first_comm_queue && !is_memory_op(i.op->work))
            moves[i.op->queue] = 1;
        std::optional<Moved> all; // an exchange is posted once, and ends with its last transfer
        for (const auto& [queue, count] : moves)
            for (std::size_t k = 0; k < count; ++k) {
                const auto& list = by_queue[queue];
                std::size_t& at = next[queue];
                if (at == list.size())
                    throw std::runtime_error("the prediction has fewer communications than the rank: it is of another plan");
                const Moved& m = list[at++];
                all = all ? Moved{std::min(all->posted, m.posted), std::min(all->begin, m.begin), std::max(all->end, m.end)} : m;
            }
        delays.push_back(all ? Delay{(all->begin.ps - all->posted.ps) / 1000, (all->end.ps - all->begin.ps) / 1000} : Delay{});
    }
    for (std::size_t q = 0; q < next.size(); ++q)
        if (next[q] != by_queue[q].size())
            throw std::runtime_error("the prediction has more communications than the rank: it is of another plan");
    return delays;
}

void begin_with_moves(std::vector<OpTime>& times, const std::vector<Delay>& delays) {
    for (OpTime& t : times) {
        const Delay& d = delays.at(static_cast<std::size_t>(t.issue));
        if (d.wait == 0) continue;
        t.begin = std::max(t.begin, t.end - d.move);
        t.cpu = t.end - t.begin;
    }
}

std::unique_ptr<Executor> replay_executor(World& world, std::vector<Delay> delays) {
    return std::make_unique<Replay>(world, std::move(delays));
}

} // namespace orrery
