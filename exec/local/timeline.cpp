#include "exec/local/timeline.hpp"

#include "exec/local/waits.hpp"
#include "sim/plan/issue_order.hpp"
#include "sim/trace/of_plan.hpp"
#include "topology/check.hpp"

#include <algorithm>
#include <map>
#include <utility>

namespace orrery {
namespace {

Time ps(std::int64_t ns) { return {ns * 1000}; }

} // namespace

Trace trace_of(const World& world, std::span<const OpTime> times, const std::string& source) {
    Trace t;
    t.name = world.plan.name;
    t.source = source;
    t.plan_hash = hash(world.plan);
    t.steps = static_cast<std::int32_t>(world.plan.steps);
    t.queues = queue_names(world.plan);
    for (int k = 0; k < memory_kind_count; ++k) t.memory_kinds.emplace_back(name(static_cast<MemoryKind>(k)));
    std::vector<std::int32_t> first_op; // of each block, in t.ops
    for (const Block& b : world.plan.blocks) {
        first_op.push_back(static_cast<std::int32_t>(t.ops.size()));
        for (const Op& op : b.ops) t.ops.push_back(trace_op(op));
    }
    std::map<int, Lane> lanes;
    std::map<int, std::vector<const OpTime*>> by_issue; // of each rank
    for (const OpTime& x : times) {
        const Rank& rank = world.rank(x.rank);
        const Issue& issue = rank.order->issues[x.issue];
        Lane& lane = lanes[x.rank];
        auto& own = by_issue[x.rank];
        own.resize(rank.order->issues.size(), nullptr);
        own[x.issue] = &x;
        lane.rank = x.rank;
        lane.stage = static_cast<std::int16_t>(rank.stage);
        Span span;
        span.op = first_op[issue.block] + issue.index;
        span.microbatch = issue.microbatch;
        for (QueueId q : queues_of(*issue.op)) {
            span.queue = q;
            if (x.posted < x.begin) {
                Span wait = span;
                wait.begin = ps(x.posted);
                wait.end = ps(x.begin);
                wait.kind = SpanKind::transfer_wait;
                wait.cause = std::holds_alternative<Exchange>(issue.op->work) ? WaitCause::receive : WaitCause::collective;
                lane.spans.push_back(wait);
            }
            span.begin = ps(x.begin);
            span.end = ps(x.end);
            lane.spans.push_back(span);
        }
        t.end = std::max(t.end, ps(x.end));
        if (issue.op->queue == compute_queue) lane.memory.push_back({ps(x.begin), {x.memory.begin(), x.memory.end()}});
    }
    for (auto& [rank, lane] : lanes) {
        const std::vector<Span> waits = waits_of(world.plan, *world.rank(rank).order, by_issue[rank], t.end);
        lane.spans.insert(lane.spans.end(), waits.begin(), waits.end());
        std::stable_sort(lane.spans.begin(), lane.spans.end(),
                         [](const Span& a, const Span& b) { return a.queue != b.queue ? a.queue < b.queue : a.begin < b.begin; });
        std::stable_sort(lane.memory.begin(), lane.memory.end(), [](const MemorySample& a, const MemorySample& b) { return a.at < b.at; });
        t.lanes.push_back(std::move(lane));
    }
    return t;
}

std::vector<OpTime> side_by_side(const World& world, std::span<const OpTime> serial) {
    const std::size_t queues = static_cast<std::size_t>(first_comm_queue) + world.plan.communicators.size();
    std::vector<std::vector<std::int64_t>> ended(world.ranks.size()), free(world.ranks.size(), std::vector<std::int64_t>(queues, 0));
    for (std::size_t r = 0; r < world.ranks.size(); ++r) ended[r].assign(world.ranks[r]->order->issues.size(), 0);
    std::vector<OpTime> all(serial.begin(), serial.end());
    for (std::size_t i = 0; i < all.size();) { // the order they ran in is one that all dependencies allow
        std::size_t end = i + 1;
        while (end < all.size() && all[i].meeting >= 0 && all[end].meeting == all[i].meeting) ++end;
        std::int64_t begin = 0, length = 0;
        for (std::size_t k = i; k < end; ++k) {
            OpTime& x = all[k];
            const IssueOrder& order = *world.rank(x.rank).order;
            const Issue& issue = order.issues[x.issue];
            std::int64_t ready = 0;
            for (std::int32_t d : order.deps_of(issue)) ready = std::max(ready, ended[x.rank][d]);
            for (QueueId q : queues_of(*issue.op)) ready = std::max(ready, free[x.rank][q]);
            length = std::max(length, x.meeting >= 0 ? x.end - x.begin : x.cpu);
            x.posted = ready;
            begin = std::max(begin, ready);
        }
        for (std::size_t k = i; k < end; ++k) {
            OpTime& x = all[k];
            const Issue& issue = world.rank(x.rank).order->issues[x.issue];
            x.begin = begin;
            x.end = begin + length;
            ended[x.rank][x.issue] = x.end;
            for (QueueId q : queues_of(*issue.op)) free[x.rank][q] = x.end;
        }
        i = end;
    }
    return all;
}

} // namespace orrery
