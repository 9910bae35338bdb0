// compile(): a plan and its costs as the flat arrays of machine.hpp.
#include "sim/engine/compile.hpp"

#include "sim/engine/clock.hpp"
#include "sim/engine/fold.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <cstdio>
#include <cstdlib>
#include <stdexcept>
#include <tuple>
#include <unordered_map>

namespace orrery {

void engine_bug(const char* what, std::int64_t a, std::int64_t b) {
    std::fprintf(stderr, "orrery: engine: %s (%lld, %lld)\n", what, static_cast<long long>(a), static_cast<long long>(b));
    std::abort();
}

bool gathers_in_pieces(const Op& op) {
    const auto* work = std::get_if<Collective>(&op.work);
    return op.pieces > 1 && work && work->kind == CollectiveKind::all_gather;
}

Category communication_category(AxisMask axes, Phase phase) {
    if (axes & mask(Axis::pp)) return phase == Phase::exchange ? Category::exposed_pp : Category::exposed_dp;
    if (axes & (mask(Axis::dp) | mask(Axis::dpr) | mask(Axis::dpw))) return Category::exposed_dp;
    if (axes & mask(Axis::ep)) return Category::exposed_ep;
    if (axes & mask(Axis::cp)) return Category::exposed_cp;
    return Category::exposed_tp;
}

namespace {

constexpr int most_queues = 31; // a slot's waiters are bits of a word, the host's is the last

Category compute_category(Phase phase) {
    switch (phase) {
    case Phase::forward:
    case Phase::backward_input:
    case Phase::backward_weight:
        return Category::compute;
    case Phase::recompute:
        return Category::recompute;
    case Phase::optimizer:
        return Category::optimizer;
    case Phase::offload:
        return Category::offload;
    case Phase::exchange:
    case Phase::gradient_reduce:
    case Phase::param_gather:
        break;
    }
    return Category::other;
}

QueueId queue_served(const Op& op) { // -1: none, or several
    if (const auto* work = std::get_if<Collective>(&op.work)) return queue_of(work->comm);
    return std::holds_alternative<Exchange>(op.work) || std::holds_alternative<HostSync>(op.work) ? QueueId{-1} : op.queue;
}

// One queue serves both: its order says already that the later waits.
bool ordered(const Op& before, const Op& after) { return queue_served(before) >= 0 && queue_served(before) == queue_served(after); }

bool same(const Collective& a, const Collective& b) {
    return std::tie(a.kind, a.dtype, a.copies, a.groups, a.group_limit, a.times, a.whole, a.tokens) ==
           std::tie(b.kind, b.dtype, b.copies, b.groups, b.group_limit, b.times, b.whole, b.tokens);
}

CopyKind kind_of(const Op& copy) { return std::get<Copy>(copy.work).kind; }

// Counts that a device tells its host are no more than their latency.
bool shares_links(const Op& op) {
    return std::holds_alternative<Copy>(op.work) && op.share == 1 && op.phase == Phase::offload &&
           (op.queue == d2h_queue || op.queue == h2d_queue);
}

bool computes_in_pieces(const Op& op) { return op.pieces > 1 && op.queue == compute_queue; }

bool computation_behind(const Block& block, const Action& a, std::int32_t i) {
    for (++i; i < a.last; ++i)
        if (const Op& op = block.ops[at(i)];
            op.queue == compute_queue && !std::holds_alternative<Alloc>(op.work) && !std::holds_alternative<Free>(op.work))
            return true;
    return false;
}

// A linear in pieces starts with the gather in pieces that it reads, and the computation after it waits for both: left out is the
// kernels' interference (the engine's) and the time between two pieces.
bool starts_with(const Block& block, const Action& a, std::int32_t i, std::int32_t gather) {
    return computes_in_pieces(block.ops[at(i)]) && gathers_in_pieces(block.ops[at(gather)]) && computation_behind(block, a, i);
}

std::int64_t host_time(const Costs& costs, const Op& op, int kernels) {
    return at_most_clock((costs.host ? costs.host(op, kernels) : costs.launch * kernels).ps);
}

// Compiles one program: segments are kept for the whole plan, queues are the program's own.
struct ProgramCompiler {
    Compilation& c;
    const Program& source;
    CompiledProgram out{};
    std::vector<std::uint8_t> local = {}; // plan queue -> local queue + 1
    struct Known {
        std::int32_t first, last, segment;
    };
    std::unordered_map<std::int32_t, std::vector<Known>> known = {}; // by block
    std::vector<std::vector<std::int32_t>> position = {};            // by segment (from first_segment): op - first -> slot, -1 skipped
    std::int32_t first_segment = 0;

    std::uint8_t queue(QueueId q) {
        if (at(q) >= local.size()) local.resize(at(q) + 1, 0);
        if (!local[at(q)]) {
            out.queues.push_back(q);
            if (out.queues.size() > most_queues) engine_bug("a program uses too many queues", source.stage, q);
            local[at(q)] = static_cast<std::uint8_t>(out.queues.size());
        }
        return static_cast<std::uint8_t>(local[at(q)] - 1);
    }

    std::int64_t host(const Op& op, int kernels) const { return host_time(c.costs, op, kernels); }

    std::int32_t pattern(CommId comm, const CommPattern& p) {
        auto& list = c.comms[at(comm)].patterns;
        for (std::size_t i = 0; i < list.size(); ++i) {
            const CommPattern& o = list[i];
            if (o.transfer != p.transfer || o.bytes != p.bytes || o.by_engines != p.by_engines) continue;
            if (p.copy ? kind_of(*o.copy) == kind_of(*p.copy) : p.transfer || same(o.collective, p.collective))
                return static_cast<std::int32_t>(i);
        }
        list.push_back(p);
        return static_cast<std::int32_t>(list.size() - 1);
    }

    void add_collective(const Op& op, const Collective& work, CompiledOp o) {
        CommUse& use = c.comms[at(work.comm)];
        use.collects[at(source.stage)] = 1;
        o.kind = OpClass::collective;
        o.category = static_cast<std::uint8_t>(communication_category(c.plan.communicators[at(work.comm)].axes, op.phase));
        o.queue = queue(queue_of(work.comm));
        o.pattern = pattern(work.comm, {false, work, work.bytes, nullptr, gathers_in_pieces(op)});
        o.host = host(op, 1); // NCCL launches one kernel
        c.machine.ops.push_back(o);
    }

    // Transfers the same way on one communicator become one. One slot a queue: the exchange itself, then shadows.
    void add_exchange(const Op& op, const Exchange& work, CompiledOp o) {
        std::vector<Transfer> merged;
        for (const Transfer& t : work.transfers) {
            auto same = std::find_if(merged.begin(), merged.end(), [&](const Transfer& m) { return m.comm == t.comm && m.send == t.send; });
            if (same != merged.end())
                same->bytes += t.bytes;
            else
                merged.push_back(t);
        }
        std::vector<std::uint8_t> queues;
        o.kind = OpClass::exchange;
        o.pattern = static_cast<std::int32_t>(c.machine.transfers.size());
        o.transfers = static_cast<std::int16_t>(merged.size());
        o.category = static_cast<std::uint8_t>(Category::exposed_pp);
        o.host = host(op, 1);
        for (const Transfer& t : merged) {
            CommUse& use = c.comms[at(t.comm)];
            (t.send ? use.sends : use.receives)[at(source.stage)] = 1;
            std::uint8_t q = queue(queue_of(t.comm));
            if (std::find(queues.begin(), queues.end(), q) == queues.end()) queues.push_back(q);
            c.machine.transfers.push_back({q, t.send, pattern(t.comm, {true, {}, t.bytes})});
            o.category = static_cast<std::uint8_t>(communication_category(c.plan.communicators[at(t.comm)].axes, op.phase));
        }
        if (queues.empty()) {
            o.kind = OpClass::timed;
            o.duration = 0;
            o.queue = queue(op.queue);
            c.machine.ops.push_back(o);
            return;
        }
        if (queues.size() > 16) engine_bug("an exchange occupies too many queues", source.stage, static_cast<std::int64_t>(queues.size()));
        o.slots = static_cast<std::uint8_t>(queues.size());
        o.queue = queues[0];
        c.machine.ops.push_back(o);
        for (std::size_t k = 1; k < queues.size(); ++k) {
            CompiledOp shadow;
            shadow.kind = OpClass::shadow;
            shadow.queue = queues[k];
            shadow.pattern = static_cast<std::int32_t>(k);
            shadow.source = o.source;
            shadow.category = o.category;
            c.machine.ops.push_back(shadow);
        }
    }

    void add_timed(const Op& op, CompiledOp o) {
        ComputeCost cost = c.costs.compute(op);
        o.duration = cost.duration.ps;
        o.host = op.queue == host_queue ? 0 : host(op, cost.kernels);
        o.queue = queue(op.queue);
        o.category = static_cast<std::uint8_t>(op.queue == compute_queue    ? compute_category(op.phase)
                                               : op.phase == Phase::offload ? Category::offload
                                                                            : Category::other);
        if (o.duration < 0) engine_bug("an op's duration is negative", source.stage, o.source);
        if (c.costs.copy && shares_links(op)) {
            const CommId comm = copies_on(c.plan, op.queue);
            c.comms[at(comm)].collects[at(source.stage)] = 1;
            o.kind = OpClass::copy;
            o.pattern = pattern(comm, {false, {}, std::get<Copy>(op.work).bytes, &op});
        }
        for (std::size_t k = 0; k < c.costs.compute_of_kind.size(); ++k) {
            std::vector<std::int64_t>& own = c.machine.durations_of_kind[k];
            own.resize(c.machine.ops.size(), 0);
            own.push_back(c.costs.compute_of_kind[k](op).duration.ps);
        }
        c.machine.ops.push_back(o);
    }

    std::int32_t segment(const Action& a) {
        auto& list = known[a.block];
        for (const Known& k : list)
            if (k.first == a.first && k.last == a.last) return k.segment;
        const Block& block = c.plan.blocks[at(a.block)];
        Machine& m = c.machine;
        auto id = static_cast<std::int32_t>(m.segments.size());
        m.segments.push_back({static_cast<std::int32_t>(m.ops.size()), 0, a.block});
        std::vector<std::int32_t> slot(at(a.last - a.first), -1);
        std::int32_t computed = -1; // the computation ahead
        for (std::int32_t i = a.first; i < a.last; ++i) {
            const Op& op = block.ops[at(i)];
            if (std::holds_alternative<Alloc>(op.work) || std::holds_alternative<Free>(op.work)) continue;
            auto here = static_cast<std::int32_t>(m.ops.size()) - m.segments[at(id)].begin;
            slot[at(i - a.first)] = here;
            CompiledOp o;
            o.source = i;
            o.deps_begin = static_cast<std::int32_t>(m.deps.size());
            const auto wait_for = [&](std::int32_t d) {
                if (d < a.first || d >= i || slot[at(d - a.first)] < 0) return;
                std::int32_t distance = here - slot[at(d - a.first)];
                if (!ordered(block.ops[at(d)], op) && distance < m.window) m.deps.push_back(distance);
            };
            for (std::int32_t d : op.deps)
                if (!starts_with(block, a, i, d)) wait_for(d);
            if (op.queue == compute_queue) {
                if (computed >= 0 && computes_in_pieces(block.ops[at(computed)]))
                    for (std::int32_t d : block.ops[at(computed)].deps)
                        if (gathers_in_pieces(block.ops[at(d)])) wait_for(d);
                computed = i;
            }
            o.deps_count = static_cast<std::int32_t>(m.deps.size()) - o.deps_begin;
            if (const auto* work = std::get_if<Collective>(&op.work))
                add_collective(op, *work, o);
            else if (const auto* exchange = std::get_if<Exchange>(&op.work))
                add_exchange(op, *exchange, o);
            else if (std::holds_alternative<HostSync>(op.work)) {
                o.kind = OpClass::sync;
                o.category = static_cast<std::uint8_t>(Category::other);
                m.ops.push_back(o);
            } else
                add_timed(op, o);
        }
        m.segments[at(id)].end = static_cast<std::int32_t>(m.ops.size());
        position.push_back(std::move(slot));
        list.push_back({a.first, a.last, id});
        return id;
    }

    // The slot of op `op` (index in its block) of action `a`, in the segment; -1: it takes no slot.
    std::int32_t slot_of(std::int32_t a, std::int32_t op) const {
        const Action& action = source.actions[at(a)];
        if (op < action.first || op >= action.last) engine_bug("a dependency names an op outside its action", a, op);
        return position[at(out.actions[at(a)].segment - first_segment)][at(op - action.first)];
    }

    void link_actions(const std::vector<std::int64_t>& base) {
        Machine& m = c.machine;
        auto count = static_cast<std::int32_t>(source.actions.size());
        for (std::int32_t a = 0; a < count; ++a) {
            CompiledAction& action = out.actions[at(a)];
            action.deps_begin = static_cast<std::int32_t>(m.action_deps.size());
            for (std::int32_t d = source.actions[at(a)].deps_begin; d < source.actions[at(a)].deps_end; ++d) {
                const ActionDep& dep = source.deps[at(d)];
                std::int32_t on = dep.on_action < 0 ? count + dep.on_action : dep.on_action;
                std::int32_t here = slot_of(a, dep.op), there = slot_of(on, dep.on_op);
                if (here < 0 || there < 0) continue;
                std::int64_t distance = base[at(a)] + here - base[at(on)] - there + (dep.on_action < 0 ? out.step_slots : 0);
                if (distance <= 0) engine_bug("an action depends on a later one", a, dep.on_action);
                if (distance < m.window)
                    m.action_deps.push_back({here, static_cast<std::int32_t>(distance)}); // farther back the host has waited for it
            }
            action.deps_end = static_cast<std::int32_t>(m.action_deps.size());
            std::stable_sort(m.action_deps.begin() + action.deps_begin, m.action_deps.end(),
                             [](const CompiledDep& x, const CompiledDep& y) { return x.position < y.position; });
        }
    }

    // Actions with one segment and one list of dependencies get one signature.
    void sign() {
        const auto& deps = c.machine.action_deps;
        std::unordered_map<std::uint64_t, std::int32_t> seen;
        seen.reserve(out.actions.size());
        auto same = [&](const CompiledAction& x, const CompiledAction& y) {
            if (x.segment != y.segment || x.deps_end - x.deps_begin != y.deps_end - y.deps_begin) return false;
            return std::equal(
                deps.begin() + x.deps_begin, deps.begin() + x.deps_end, deps.begin() + y.deps_begin,
                [](const CompiledDep& p, const CompiledDep& q) { return p.position == q.position && p.distance == q.distance; });
        };
        for (std::size_t a = 0; a < out.actions.size(); ++a) {
            CompiledAction& action = out.actions[a];
            std::uint64_t h = mix(static_cast<std::uint64_t>(action.segment));
            for (std::int32_t d = action.deps_begin; d < action.deps_end; ++d)
                h = mix(h, static_cast<std::uint64_t>(deps[at(d)].position) << 32 | static_cast<std::uint32_t>(deps[at(d)].distance));
            auto [it, fresh] = seen.try_emplace(h, static_cast<std::int32_t>(a));
            action.signature = fresh || same(out.actions[at(it->second)], action) ? it->second : static_cast<std::int32_t>(a);
        }
    }

    CompiledProgram compile() {
        out.stage = source.stage;
        queue(compute_queue);
        first_segment = static_cast<std::int32_t>(c.machine.segments.size());
        std::vector<std::int64_t> base;
        std::vector<double> segment_flops;
        for (const Action& a : source.actions) {
            std::int32_t s = segment(a);
            if (at(s - first_segment) == segment_flops.size()) {
                double sum = 0;
                for (std::int32_t i = a.first; i < a.last; ++i) sum += flops(c.plan.blocks[at(a.block)].ops[at(i)].work).count;
                segment_flops.push_back(sum);
            }
            CompiledAction action;
            action.segment = s;
            base.push_back(out.step_slots);
            out.actions.push_back(action);
            out.step_slots += c.machine.segments[at(s)].end - c.machine.segments[at(s)].begin;
            out.flops += segment_flops[at(s - first_segment)];
        }
        link_actions(base);
        sign();
        return std::move(out);
    }
};

} // namespace

void compile_programs(Compilation& c, bool launch_blocking) {
    c.machine.window = launch_blocking ? 1 : window_of(c.plan);
    c.comms.resize(c.plan.communicators.size() + 2); // copies_on()
    for (CommUse& use : c.comms) use.collects = use.sends = use.receives = std::vector<char>(at(c.plan.stages), 0);
    for (const Program& p : c.plan.programs) c.machine.programs.push_back(ProgramCompiler{c, p}.compile());
    check_computation(c.machine);
}

namespace {

struct OpPrice {
    bool known = false;
    std::int64_t duration = 0, host = 0;
    std::vector<std::int64_t> of_kind = {}; // durations, of nodes of kind 1, 2 ..
};

// Collectives and exchanges take their time from their communicator: their price is the host's alone.
OpPrice price_of(const Costs& costs, const Op& op) {
    if (std::holds_alternative<Collective>(op.work) || std::holds_alternative<Exchange>(op.work))
        return {true, 0, host_time(costs, op, 1), std::vector<std::int64_t>(costs.compute_of_kind.size())};
    const ComputeCost cost = costs.compute(op);
    OpPrice price{true, cost.duration.ps, op.queue == host_queue ? 0 : host_time(costs, op, cost.kernels)};
    for (const auto& of_kind : costs.compute_of_kind) price.of_kind.push_back(of_kind(op).duration.ps);
    return price;
}

} // namespace

bool price_programs(Compilation& c, const AlikeOps& alike) {
    Machine& m = c.machine;
    const std::optional<std::vector<std::int32_t>>& layers = c.costs.layers;
    const auto number_of = [&](std::int16_t layer) {
        return layer >= 0 && at(layer) < layers->size() ? at((*layers)[at(layer)]) : std::size_t{0};
    };
    const std::size_t numbers = layers && !layers->empty() ? at(*std::max_element(layers->begin(), layers->end())) + 1 : 1;
    std::vector<OpPrice> prices(layers ? at(alike.count) * numbers : 1);
    bool differs = false;
    const auto set = [&](std::int64_t& was, std::int64_t is) {
        differs = differs || was != is;
        was = is;
    };
    for (const Segment& s : m.segments)
        for (std::int32_t o = s.begin; o < s.end; ++o) {
            CompiledOp& compiled = m.ops[at(o)];
            if (compiled.kind == OpClass::shadow || compiled.kind == OpClass::sync) continue;
            OpPrice& price = prices[layers ? at(alike.of[at(o)].number) * numbers + number_of(alike.of[at(o)].layer) : 0];
            if (!layers || !price.known) price = price_of(c.costs, c.plan.blocks[at(s.block)].ops[at(compiled.source)]);
            if (price.duration < 0) engine_bug("an op's duration is negative", s.block, compiled.source);
            set(compiled.host, price.host);
            if (compiled.kind == OpClass::collective || compiled.kind == OpClass::exchange) continue;
            set(compiled.duration, price.duration);
            for (std::size_t k = 0; k < price.of_kind.size() && at(o) < m.durations_of_kind[k].size(); ++k)
                set(m.durations_of_kind[k][at(o)], price.of_kind[k]);
        }
    check_computation(m);
    return differs;
}

void begin_machine(Compilation& c, const Wires& wires) {
    c.machine.plan = &c.plan;
    c.machine.interference = c.costs.interference;
    c.machine.jitter = wires.jitter;
    c.machine.seed = wires.seed;
    c.machine.durations_of_kind.resize(c.costs.compute_of_kind.size());
}

Machine compile(const Plan& plan, const Costs& costs, const Wires& wires, const CompileOptions& options) {
    Compilation c{plan, costs, {}, {}};
    begin_machine(c, wires);
    stop_if(options.stop);
    compile_programs(c, options.launch_blocking);
    stop_if(options.stop);
    compile_bundles(c, wires, options.fold);
    stop_if(options.stop);
    return std::move(c.machine);
}

} // namespace orrery
