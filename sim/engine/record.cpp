#include "sim/engine/record.hpp"

#include "sim/trace/of_plan.hpp"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <tuple>

namespace orrery {

namespace {

// Which step (1: the first) the op in slot `index` belongs to.
std::int32_t step_of(const LaneState& l, std::int64_t index) {
    std::int32_t step = l.steps_done + 1;
    for (std::int64_t end : l.step_ends) step += index >= end;
    return step;
}

std::int32_t microbatch_of(const EventLoop& run, std::int32_t lane, const Slot& s) {
    const CompiledAction& a = run.program(lane).actions[at(s.action)];
    const Block& block = run.m.plan->blocks[at(run.m.segments[at(a.segment)].block)];
    const Op& op = block.ops[at(run.m.ops[at(s.op)].source)];
    return run.m.plan->programs[at(run.m.lanes[at(lane)].program)].actions[at(s.action)].microbatch[op.port];
}

std::int32_t add(Recorder& r, const EventLoop& run, std::int32_t lane, int q, std::int64_t index, std::int64_t begin, SpanKind kind) {
    const Slot& s = run.slot(lane, index);
    const CompiledOp& op = run.m.ops[at(s.op)];
    Span span;
    span.begin = {begin};
    span.end = {run.now};
    span.op = op.kind == OpClass::shadow ? s.op - op.pattern : s.op;
    span.microbatch = microbatch_of(run, lane, s);
    span.queue = run.program(lane).queues[at(q)];
    span.kind = kind;
    auto& list = r.lanes[at(lane)].spans;
    list.push_back({span, step_of(run.lanes[at(lane)], index), static_cast<Category>(op.category)});
    return static_cast<std::int32_t>(r.dropped[at(lane)] + static_cast<std::int64_t>(list.size()) - 1);
}

// A side of a communication: the wait since it was posted, then the data.
std::int32_t add_side(Recorder& r, const EventLoop& run, std::int32_t lane, int q, std::int32_t bundle) {
    std::int64_t index = run.queue(lane, q).head;
    const CompiledOp& op = run.m.ops[at(run.slot(lane, index).op)];
    std::int64_t main = op.kind == OpClass::shadow ? index - op.pattern : index;
    std::int64_t posted = run.queue(lane, run.m.ops[at(run.slot(lane, main).op)].queue).begin, started = r.started[at(bundle)];
    if (posted < started) {
        add(r, run, lane, q, index, posted, SpanKind::transfer_wait);
        Span& wait = r.lanes[at(lane)].spans.back().span;
        wait.end = {started};
        wait.cause = run.m.bundles[at(bundle)].channel ? WaitCause::receive : WaitCause::collective;
    }
    return add(r, run, lane, q, index, started, SpanKind::op);
}

void close_wait(Recorder& r, const EventLoop& run, std::int32_t lane) {
    auto& record = r.lanes[at(lane)];
    if (!record.idle || record.idle_since == run.now) return;
    Span span;
    span.begin = {record.idle_since};
    span.end = {run.now};
    span.kind = SpanKind::wait;
    span.cause = record.why.cause;
    span.peer = record.why.peer;
    record.spans.push_back({span, static_cast<std::int32_t>(record.step_ends.size()) + 1, record.why.category});
}

} // namespace

void record_end(Recorder& r, const EventLoop& run, std::int32_t lane, int q) {
    std::int64_t index = run.queue(lane, q).head;
    if (run.m.ops[at(run.slot(lane, index).op)].kind == OpClass::timed) add(r, run, lane, q, index, run.queue(lane, q).begin, SpanKind::op);
}

void record_start(Recorder& r, const EventLoop& run, std::int32_t bundle) { r.started[at(bundle)] = run.now; }

void record_bundle_end(Recorder& r, const EventLoop& run, std::int32_t bundle) {
    const BundleClass& c = run.m.bundles[at(bundle)];
    r.moved.push_back({r.started[at(bundle)], run.now, run.bundles[at(bundle)].cost});
    std::int32_t side[2] = {-1, -1};
    for (std::int32_t i = c.members_begin; i < c.members_end; ++i) {
        const BundleMember& who = run.m.members[at(i)];
        std::int32_t id = add_side(r, run, who.lane, who.queue, bundle);
        if (c.channel) side[i - c.members_begin] = id;
    }
    if (!c.channel) return;
    const BundleMember *from = &run.m.members[at(c.members_begin)], *to = from + 1;
    std::int32_t step = step_of(run.lanes[at(from->lane)], run.queue(from->lane, from->queue).head);
    r.flows.push_back({from->lane, side[0], to->lane, side[1], step});
}

void record_wait(Recorder& r, const EventLoop& run, std::int32_t lane, bool idle, const Why& why) {
    auto& record = r.lanes[at(lane)];
    if (idle == record.idle &&
        (!idle || (why.category == record.why.category && why.cause == record.why.cause && why.peer == record.why.peer)))
        return;
    close_wait(r, run, lane);
    record.idle = idle;
    record.why = why;
    record.idle_since = run.now;
}

namespace {

// Steps that every lane has done. A lane that waits for nobody is several steps ahead of the others where steps are shorter than the
// launch window.
std::int32_t done_by_all(const EventLoop& run) {
    std::int32_t least = INT32_MAX;
    for (const LaneState& l : run.lanes) least = std::min(least, l.steps_done);
    return least;
}

} // namespace

// Waits are cut at the end of a step; spans of the steps before the last that all have done are dropped.
void record_step_end(Recorder& r, const EventLoop& run, std::int32_t lane) {
    auto& record = r.lanes[at(lane)];
    close_wait(r, run, lane);
    record.idle_since = run.now;
    record.step_ends.push_back(run.now);
    const std::int32_t kept = done_by_all(run);
    auto old = std::find_if(record.spans.begin(), record.spans.end(), [&](const Recorder::Raw& s) { return s.step >= kept; });
    r.dropped[at(lane)] += old - record.spans.begin();
    record.spans.erase(record.spans.begin(), old);
    if (lane != run.reference || kept < 2) return;
    std::int64_t begin = INT64_MAX; // of step `kept`
    for (const auto& l : r.lanes)
        if (l.step_ends.size() >= at(kept - 1)) begin = std::min(begin, l.step_ends[at(kept - 2)]);
    std::erase_if(r.moved, [&](const Recorder::Moved& m) { return m.end < begin; });
}

namespace {

void name_ops(Trace& t, const Machine& m) {
    for (const Segment& s : m.segments)
        for (std::int32_t o = s.begin; o < s.end; ++o) {
            const CompiledOp& op = m.ops[at(o)];
            t.ops.push_back(op.kind == OpClass::shadow ? TraceOp{} : trace_op(m.plan->blocks[at(s.block)].ops[at(op.source)]));
        }
}

// A bubble before a stage's first forward or backward op of the step is its warm-up, after its last its drain.
void name_waits(std::vector<Span>& spans, const std::vector<Category>& categories) {
    Time first = Time::never(), last{0};
    for (std::size_t i = 0; i < spans.size(); ++i) {
        if (spans[i].kind != SpanKind::op || spans[i].queue != compute_queue) continue;
        if (categories[i] != Category::compute && categories[i] != Category::recompute) continue;
        first = std::min(first, spans[i].begin);
        last = std::max(last, spans[i].end);
    }
    for (std::size_t i = 0; i < spans.size(); ++i) {
        if (spans[i].kind != SpanKind::wait || categories[i] != Category::bubble) continue;
        if (spans[i].end <= first)
            spans[i].cause = WaitCause::warm_up;
        else if (spans[i].begin >= last)
            spans[i].cause = WaitCause::drain;
    }
}

// The bytes of one transfer in each bin, what falls outside the step shown left out. Rounded so that the bins' sum is the bytes'.
void spread(std::vector<std::int64_t>& bins, double bytes, std::int64_t begin, std::int64_t end, std::int64_t length) {
    const auto n = static_cast<std::int64_t>(bins.size());
    const double span = static_cast<double>(std::max<std::int64_t>(end - begin, 1)),
                 bin = static_cast<double>(length) / static_cast<double>(n);
    const auto upto = [&](double t) { return std::llround(bytes * std::clamp((t - static_cast<double>(begin)) / span, 0.0, 1.0)); };
    const auto first = std::clamp<std::int64_t>(static_cast<std::int64_t>(static_cast<double>(begin) / bin), 0, n - 1);
    std::int64_t before = upto(static_cast<double>(first) * bin);
    for (std::int64_t i = first; i < n; ++i) {
        const std::int64_t now = upto(i + 1 == n ? static_cast<double>(length) : static_cast<double>(i + 1) * bin);
        bins[at(i)] += now - before;
        before = now;
        if (static_cast<double>(i + 1) * bin >= static_cast<double>(end)) break;
    }
}

void add_links(Trace& t, const Recorder& r, const Machine& m, std::int64_t origin) {
    std::vector<std::int32_t> place(m.links.size(), -1);
    for (const Recorder::Moved& moved : r.moved) {
        if (moved.cost < 0 || moved.end < origin || moved.begin > origin + t.end.ps) continue;
        const BundleCost& cost = m.bundle_costs[at(moved.cost)];
        for (std::int32_t u = cost.uses_begin; u < cost.uses_end; ++u) {
            const LinkWeight& use = m.uses[at(u)];
            const MachineLink& link = m.links[at(use.link)];
            std::int32_t& i = place[at(use.link)];
            if (i < 0) {
                i = static_cast<std::int32_t>(t.links.size());
                t.links.push_back({link.link, link.twins, {}, link.capacity, std::vector<std::int64_t>(link_bins, 0)});
            }
            spread(t.links[at(i)].bytes, cost.payload * use.weight, moved.begin - origin, moved.end - origin, t.end.ps);
        }
    }
    std::ranges::sort(t.links, {}, &LinkSeries::link);
}

} // namespace

Trace trace_of(const Recorder& r, const EventLoop& run, std::int32_t step) {
    const Machine& m = run.m;
    Trace t;
    t.name = m.plan->name;
    t.source = "simulated";
    t.queues = queue_names(*m.plan);
    name_ops(t, m);
    std::int64_t origin = INT64_MAX;
    for (const auto& record : r.lanes) origin = std::min(origin, step > 1 ? record.step_ends[at(step - 2)] : 0);
    std::vector<std::vector<std::int32_t>> number(m.lanes.size()); // raw span -> its place in the trace
    for (std::size_t l = 0; l < m.lanes.size(); ++l) {
        const auto& record = r.lanes[l];
        std::vector<std::int32_t> order;
        for (std::size_t i = 0; i < record.spans.size(); ++i)
            if (record.spans[i].step == step) order.push_back(static_cast<std::int32_t>(i));
        std::stable_sort(order.begin(), order.end(), [&](std::int32_t x, std::int32_t y) {
            const Span &a = record.spans[at(x)].span, &b = record.spans[at(y)].span;
            return std::tie(a.queue, a.begin.ps, a.end.ps) < std::tie(b.queue, b.begin.ps, b.end.ps);
        });
        Lane lane;
        lane.rank = m.lanes[l].rank;
        lane.ranks = m.lanes[l].ranks;
        lane.stage = m.programs[at(m.lanes[l].program)].stage;
        std::vector<Category> categories;
        number[l].assign(record.spans.size(), -1);
        for (std::int32_t i : order) {
            Span s = record.spans[at(i)].span;
            s.begin.ps -= origin;
            s.end.ps -= origin;
            number[l][at(i)] = static_cast<std::int32_t>(lane.spans.size());
            lane.spans.push_back(s);
            categories.push_back(record.spans[at(i)].category);
        }
        name_waits(lane.spans, categories);
        t.end = std::max(t.end, Time{record.step_ends[at(step - 1)] - origin});
        t.lanes.push_back(std::move(lane));
    }
    add_links(t, r, m, origin);
    for (const auto& f : r.flows) {
        auto place = [&](std::int32_t lane, std::int32_t raw) {
            std::int64_t i = raw - r.dropped[at(lane)];
            return i < 0 || at(i) >= number[at(lane)].size() ? -1 : number[at(lane)][at(i)];
        };
        std::int32_t from = place(f.from_lane, f.from), to = place(f.to_lane, f.to);
        if (from >= 0 && to >= 0) t.flows.push_back({f.from_lane, from, f.to_lane, to});
    }
    return t;
}

} // namespace orrery
