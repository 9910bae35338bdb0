// The links of a slice to others: the trace knows transfers and collectives, the plan knows dependencies.
#include "gui/core/queries.hpp"
#include "topology/at.hpp"

#include <algorithm>

namespace orrery {

namespace {

void add_transfers(const Trace& trace, SpanRef ref, std::vector<Arrow>& out) {
    for (const Flow& f : trace.flows) {
        const SpanRef from{f.from_lane, f.from_span}, to{f.to_lane, f.to_span};
        if (from == ref || to == ref) out.push_back({from, to, ArrowKind::transfer});
    }
}

// The members of a collective run it together: on each lane's queue of that name, the same op of the same microbatch at that time.
void add_members(const TrackStore& store, SpanRef ref, std::vector<Arrow>& out) {
    const Trace& trace = *store.trace;
    const Span& s = span_of(trace, ref);
    const std::int64_t middle = s.begin.ps + (s.end.ps - s.begin.ps) / 2;
    for (const Track& t : store.tracks) {
        if (t.lane == ref.lane || t.queue != s.queue) continue;
        const std::int32_t i = slice_at(store, t, middle);
        if (i < 0) continue;
        const Span& other = slice(store, t, i);
        if (other.op < 0 || other.microbatch != s.microbatch || trace.ops[at(other.op)].name != trace.ops[at(s.op)].name) continue;
        out.push_back({ref, {t.lane, span_index(t, i)}, ArrowKind::collective});
    }
}

// The span of an op of that name and microbatch on a lane that ended last before `before`.
std::optional<SpanRef> find_span(const Trace& trace, std::int32_t lane, const std::string& name, std::int32_t microbatch,
                                 std::int64_t before) {
    std::vector<bool> wanted(trace.ops.size());
    for (std::size_t o = 0; o < trace.ops.size(); ++o) wanted[o] = trace.ops[o].name == name;
    std::optional<SpanRef> best;
    const auto& spans = trace.lanes[at(lane)].spans;
    for (std::size_t i = 0; i < spans.size(); ++i) {
        const Span& s = spans[i];
        if (s.op < 0 || !wanted[at(s.op)] || s.kind != SpanKind::op || s.microbatch != microbatch || s.end.ps > before) continue;
        if (!best || span_of(trace, *best).end < s.end) best = SpanRef{lane, static_cast<std::int32_t>(i)};
    }
    return best;
}

// Names of the timed ops that op `o` of the block waits for, through those that take no time.
void timed_dependencies(const Block& block, std::int32_t o, int depth, std::vector<const Op*>& out) {
    for (std::int32_t d : block.ops[at(o)].deps) {
        const Op& op = block.ops[at(d)];
        if (!is_memory_op(op.work) && !std::holds_alternative<HostSync>(op.work))
            out.push_back(&op);
        else if (depth < 8)
            timed_dependencies(block, d, depth + 1, out);
    }
}

void add_dependencies(const Trace& trace, const Plan& plan, SpanRef ref, std::vector<Arrow>& out) {
    const Span& s = span_of(trace, ref);
    const Lane& lane = trace.lanes[at(ref.lane)];
    if (lane.stage < 0 || at(lane.stage) >= plan.programs.size()) return;
    const Program& program = plan.programs[at(lane.stage)];
    const std::string& name = trace.ops[at(s.op)].name;
    const auto arrow_from = [&](const Op& op, const Action& action) {
        const auto from = find_span(trace, ref.lane, op.name, action.microbatch[op.port], s.begin.ps);
        if (from) out.push_back({*from, ref, ArrowKind::dependency});
    };
    for (const Action& a : program.actions) {
        const Block& block = plan.blocks[at(a.block)];
        for (std::int32_t o = a.first; o < a.last; ++o) {
            const Op& op = block.ops[at(o)];
            if (op.name != name || a.microbatch[op.port] != s.microbatch) continue;
            std::vector<const Op*> before;
            timed_dependencies(block, o, 0, before);
            for (const Op* b : before) arrow_from(*b, a);
            for (std::int32_t d = a.deps_begin; d < a.deps_end; ++d) {
                const ActionDep& dep = program.deps[at(d)];
                if (dep.op != o || dep.on_action < 0) continue;
                const Action& other = program.actions[at(dep.on_action)];
                arrow_from(plan.blocks[at(other.block)].ops[at(dep.on_op)], other);
            }
            return;
        }
    }
}

} // namespace

std::vector<Arrow> arrows_of(const TrackStore& store, const Plan* plan, SpanRef ref) {
    std::vector<Arrow> out;
    const Trace& trace = *store.trace;
    const Span& s = span_of(trace, ref);
    add_transfers(trace, ref, out);
    if (s.op < 0) return out;
    if (kind_of(s, store.op_kinds) == SliceKind::collective) add_members(store, ref, out);
    if (plan) add_dependencies(trace, *plan, ref, out);
    return out;
}

} // namespace orrery
