// Work between the workers' steps: the second phase of a round.
//
// Local SGD (Stich, arXiv:1805.09767; torchft's LocalSGD): the parameters become the mean of the workers' parameters; the optimizer's
// moments stay each worker's own. Where an fp32 copy of the parameters is kept, that copy is averaged and the parameters follow from it. A
// slice of about strategy.bucket_bytes at a time, and while it is on its way the one before it is merged: two are on the device at most.
//
// FedAvg (McMahan et al., arXiv:1602.05629) does the same, and each worker's parameters weigh as much as it has samples.
//
// DiLoCo (Douillard et al., arXiv:2311.08105): each worker keeps what all had in common when they last met. The mean of what they moved
// away from it is the gradient of an outer optimizer, whose step all start from again.
//
// Streaming DiLoCo (Douillard et al., arXiv:2501.18512): fragments of the layers do so one after another, each once a round, at steps as
// far apart as can be. A fragment is sent some inner steps before what came back is merged with what the worker has become since.
//
// The outer optimizer's states may live in the host's memory, as OpenDiLoCo's do (arXiv:2407.07852): what a slice or fragment needs of
// them is copied to the device when workers meet, and back. So are the fp32 copies of a worker's own optimizer where it steps on the host;
// where that steps on parameters themselves, its copies of them get what the workers agreed on.
//
// 0/1 Adam (Lu et al., arXiv:2202.06009, with the variance at rest): what a worker moved, times what Adam divides by, is summed as signs;
// the mean leads all from what they had in common to the same parameters, and is their momentum from there on.
//
// A worker may be several replicas that share every step: each averages what its optimizer steps on, which are its shards under ZeRO and
// FSDP, with its counterparts in the other workers.
//
// After it: each stage's parameters are averaged once a round, and Plan::further has the programs that do it.
#include "sim/plan/passes/bucket_blocks.hpp"
#include "sim/plan/passes/optimizer_block.hpp"
#include "sim/plan/passes/passes.hpp"
#include "sim/plan/passes/sign_exchange.hpp"
#include "topology/check.hpp"

#include <algorithm>
#include <fmt/format.h>
#include <map>
#include <utility>

namespace orrery {
namespace {

Op averaging_op(std::string name, Work work, QueueId queue, std::vector<BufferId> in, std::vector<BufferId> out) {
    Op op;
    op.name = std::move(name);
    op.work = std::move(work);
    op.queue = queue;
    op.phase = Phase::optimizer;
    op.in = std::move(in);
    op.out = std::move(out);
    return op;
}

// The copies of a stage's weights that the host's optimizer writes, by weight.
std::map<BufferId, BufferId> weights_on_host(const Lowering& l, int stage) {
    if (l.scenario.strategy.offload.optimizer == Tier::none) return {};
    const Plan& plan = l.plan;
    const auto what = [&](BufferId b) { return std::pair(plan.buffers[b].tensor, plan.buffers[b].bucket); };
    std::map<std::pair<TensorId, std::int32_t>, BufferId> there;
    for (const Block& block : plan.blocks)
        for (const Op& op : block.ops) {
            const auto* step = std::get_if<OptimizerStep>(&op.work);
            if (!step || !step->on_host || block.stage != stage) continue;
            for (BufferId b : op.out)
                if (plan.buffers[b].kind == MemoryKind::parameters) there[what(b)] = b;
        }
    std::map<BufferId, BufferId> copies;
    for (BufferId w : stepped_weights(l, stage))
        if (const auto copy = there.find(what(w)); copy != there.end()) copies[w] = copy->second;
    return copies;
}

struct Meeting {
    Lowering& l;
    CommId workers;
    int stage;
    Block block{};
    const Synchronization& how = l.scenario.strategy.synchronization;

    const std::map<BufferId, BufferId> on_host = weights_on_host(l, stage);
    Scope on_way = Scope::action; // the scope of room that is taken when something is sent: it is merged in this block, or in another
    std::int32_t left = -1;       // the last op that took a state back to the host: there is room for others

    // A state of the outer optimizer: where it lives, and where the device finds it while workers meet; the same where it lives there.
    struct State {
        BufferId home = -1, here = -1;
    };
    // A slice or fragment between sending and merging.
    struct Sent {
        std::string name;
        std::vector<BufferId> buffers, followers; // followers: parameters that are cast from these
        State master{};                           // the fp32 copy that is among `buffers`; none: there is none
        State common{};                           // of an outer optimizer: where all started; none: the buffers are averaged
        std::vector<BufferId> way{};              // what the mean of their moves comes in, and further room that it takes until then
    };

    std::int64_t elements(const std::vector<BufferId>& buffers) const { return elements_of(l, buffers); }
    Op& pointwise(const std::string& name, PointwiseKind kind, std::int64_t n, std::vector<BufferId> in, std::vector<BufferId> out) {
        block.ops.push_back(averaging_op(name, Pointwise{kind, Direction::forward, n, true}, compute_queue, std::move(in), std::move(out)));
        return block.ops.back();
    }
    void collective(const std::string& name, CollectiveKind kind, Bytes size, DType dtype, std::vector<BufferId> in,
                    std::vector<BufferId> out) {
        block.ops.push_back(averaging_op(name, Collective{kind, workers, size, dtype}, queue_of(workers), std::move(in), std::move(out)));
    }
    BufferId add(const std::string& name, Role role, MemoryKind kind, Scope scope, std::vector<std::int64_t> shape, DType dtype) {
        Buffer b;
        b.name = name;
        b.role = role;
        b.kind = kind;
        b.scope = scope;
        b.shape = std::move(shape);
        b.dtype = dtype;
        b.bytes = bytes(b.shape, dtype);
        b.stage = static_cast<std::int16_t>(stage);
        return l.add(std::move(b));
    }
    BufferId brief(const std::string& name, std::vector<std::int64_t> shape, DType dtype) {
        const BufferId b = add(name, Role::pseudo_gradient, MemoryKind::communication, on_way, std::move(shape), dtype);
        block.ops.push_back(memory_op(Alloc{b}, Phase::optimizer));
        return b;
    }
    void done(BufferId b) { block.ops.push_back(memory_op(Free{b}, Phase::optimizer)); }
    void cast(const std::string& name, const std::vector<BufferId>& from, const std::vector<BufferId>& to) {
        pointwise("cast." + name, PointwiseKind::cast, elements(to), from, to);
    }

    Sent send(const std::string& name, const std::vector<BufferId>& buffers, const std::vector<BufferId>& followers) {
        Sent s{name, buffers, followers};
        l.scenario.strategy.diloco() ? send_moves(s) : sum_in_place(s);
        return s;
    }
    Sent send_master(const std::string& name, BufferId home, const std::vector<BufferId>& followers) {
        const State master = fetch(home);
        Sent s = send(name, {master.here}, followers);
        s.master = master;
        return s;
    }
    void merge(const Sent& s) {
        if (s.way.empty()) {
            pointwise("average." + s.name, PointwiseKind::average, elements(s.buffers), s.buffers, s.buffers);
            if (!s.followers.empty()) cast(s.name, s.buffers, s.followers);
        } else {
            step_outside(s);
        }
        tell_host(s);
    }

    // The host's optimizer goes on from what the workers agreed on: from its fp32 copies, or from the parameters themselves. What it keeps
    // of them beside fp32 copies, from where they go to the device, is cast there.
    void tell_host(const Sent& s) {
        if (s.master.home >= 0) leave(s.master);
        const std::vector<BufferId>& weights = s.master.home >= 0 ? s.followers : s.buffers;
        std::vector<BufferId> copies;
        for (BufferId w : weights)
            if (const auto kept = on_host.find(w); kept != on_host.end()) copies.push_back(kept->second);
        if (copies.empty()) return;
        if (s.master.home < 0)
            for (BufferId w : weights) copy(CopyKind::device_to_host, w, on_host.at(w));
        else if (l.plan.buffers[s.master.home].space == Space::host) {
            Op& op = pointwise("cast.host." + s.name, PointwiseKind::cast, elements(copies), {s.master.home}, copies);
            op.queue = host_queue;
            op.phase = Phase::offload;
        }
    }

    void sum_in_place(const Sent& s) {
        const std::vector<BufferId>& buffers = s.buffers;
        Bytes size;
        for (BufferId b : buffers) size += bytes(l.buffer(b).shape, l.buffer(b).dtype);
        if (!l.plan.shares.empty()) pointwise("share." + s.name, PointwiseKind::own_share, elements(buffers), buffers, buffers);
        collective("sum." + s.name, CollectiveKind::all_reduce, size, l.buffer(buffers[0]).dtype, buffers, buffers);
    }

    // The kernel runs on the collectives' own queue, between them or behind them: computation goes on meanwhile.
    void beside(const std::string& name, PointwiseKind kind, std::int64_t n, BufferId in, BufferId out) {
        pointwise(name, kind, n, {in}, {out}).queue = queue_of(workers);
    }

    // The sum of what workers moved, in the payload's type on the wire. Returns the further room that it takes.
    std::vector<BufferId> sum(const std::string& name, BufferId moved, std::int64_t n) {
        const DType wire = how.payload_dtype;
        if (wire == DType::fp32) {
            collective("sum." + name, CollectiveKind::all_reduce, bytes({n}, wire), wire, {moved}, {moved});
            return {};
        }
        if (wire == DType::fp16 || wire == DType::bf16) {
            const BufferId sent = brief("outer.sent." + name, {n}, wire);
            pointwise("pack." + name, PointwiseKind::cast, n, {moved}, {sent});
            collective("sum." + name, CollectiveKind::all_reduce, bytes({n}, wire), wire, {sent}, {sent});
            beside("unpack." + name, PointwiseKind::cast, n, sent, moved);
            return {sent};
        }
        // Whole numbers with a scale a block are added up where they are wide: each worker adds one slice and gives it to all.
        const std::int64_t ranks = l.scenario.strategy.worker_count(), slice = (n + ranks - 1) / ranks;
        const BufferId sent = brief("outer.sent." + name, {ranks, 1, slice}, wire),
                       received = brief("outer.received." + name, {ranks, 1, slice}, wire),
                       added = brief("outer.added." + name, {slice}, DType::fp32), own = brief("outer.own." + name, {slice}, wire);
        pointwise("pack." + name, PointwiseKind::by_owner, n, {moved}, {sent});
        collective("exchange." + name, CollectiveKind::all_to_all, bytes({ranks, slice}, wire), wire, {sent}, {received});
        beside("sum." + name, PointwiseKind::sum_parts, ranks * slice, received, added);
        beside("pack.sum." + name, PointwiseKind::cast, slice, added, own);
        collective("share." + name, CollectiveKind::all_gather, bytes({ranks, slice}, wire), wire, {own}, {sent});
        beside("unpack." + name, PointwiseKind::cast, n, sent, moved);
        return {sent, received, added, own};
    }

    BufferId outer_state(const std::string& name, Role role, std::int64_t n) {
        const BufferId b = add(name, role, MemoryKind::optimizer_states, Scope::run, {n}, DType::fp32);
        if (how.outer_on_host) l.buffer(b).space = Space::host;
        return b;
    }
    State fetch(BufferId home) {
        const Buffer& x = l.buffer(home);
        if (x.space != Space::host) return {home, home};
        const Role role = x.role == Role::master ? Role::master_copy : x.role;
        const BufferId here = add("here." + x.name, role, MemoryKind::communication, Scope::action, x.shape, x.dtype);
        block.ops.push_back(memory_op(Alloc{here}, Phase::optimizer));
        copy(CopyKind::host_to_device, home, here);
        return {home, here};
    }
    void drop(const State& s) {
        if (s.here != s.home) block.ops.push_back(memory_op(Free{s.here}, Phase::optimizer));
    }
    void leave(const State& s) {
        if (s.here != s.home) copy(CopyKind::device_to_host, s.here, s.home);
        drop(s);
    }
    void copy(CopyKind kind, BufferId from, BufferId to) {
        const bool comes = kind == CopyKind::host_to_device;
        Op op = averaging_op((comes ? "from_host." : "to_host.") + l.buffer(comes ? from : to).name, Copy{kind, l.buffer(from).bytes},
                             comes ? h2d_queue : d2h_queue, {from}, {to});
        op.phase = Phase::offload;
        if (comes && left >= 0) op.deps.push_back(left);
        if (!comes) left = static_cast<std::int32_t>(block.ops.size());
        block.ops.push_back(std::move(op));
    }

    void send_moves(Sent& s) {
        const std::int64_t n = elements(s.buffers);
        s.common = fetch(outer_state("outer." + s.name, Role::outer_parameters, n));
        const BufferId moved = brief("outer.moved." + s.name, {n}, DType::fp32);
        std::vector<BufferId> in{s.common.here};
        in.insert(in.end(), s.buffers.begin(), s.buffers.end());
        pointwise("moved." + s.name, PointwiseKind::difference, n, in, {moved});
        s.way = sum(s.name, moved, n);
        s.way.insert(s.way.begin(), moved);
    }

    void step_outside(const Sent& s) {
        const std::int64_t n = elements(s.buffers);
        const BufferId moved = s.way.front();
        std::vector<State> states{s.common};
        if (how.outer_optimizer == OuterOptimizer::nesterov)
            states.push_back(fetch(outer_state("outer.momentum." + s.name, Role::outer_momentum, n)));
        pointwise("average." + s.name, PointwiseKind::average, n, {moved}, {moved});
        std::vector<BufferId> from{moved}, to = s.buffers;
        for (const State& state : states) from.push_back(state.here), to.push_back(state.here);
        pointwise("outer_step." + s.name, PointwiseKind::outer_step, n, from, to);
        if (!s.followers.empty()) cast(s.name, s.buffers, s.followers);
        for (BufferId b : s.way) done(b);
        for (const State& state : states) leave(state);
    }
};

// The stage's own copies of parameters, or moments, in their order.
std::vector<BufferId> states_of(const Plan& plan, int stage, Role role) {
    std::vector<BufferId> states;
    for (std::size_t b = 0; b < plan.buffers.size(); ++b)
        if (plan.buffers[b].stage == stage && plan.buffers[b].role == role) states.push_back(static_cast<BufferId>(b));
    return states;
}

// 0/1 Adam's exchange of a stage: of its parameters, or of the fp32 copy that these follow.
void exchange_drift(Meeting& m, const std::vector<BufferId>& kept) {
    Lowering& l = m.l;
    const std::int64_t n = m.elements(kept);
    const BufferId first = states_of(l.plan, m.stage, Role::first_moment).front(),
                   second = states_of(l.plan, m.stage, Role::second_moment).front(),
                   common = m.add("outer.parameters", Role::outer_parameters, MemoryKind::optimizer_states, Scope::run, {n}, DType::fp32);
    SignExchange way{
        l, m.block, m.workers, m.stage, Phase::optimizer, Role::pseudo_gradient, Role::pseudo_gradient, 0, queue_of(m.workers)};
    const BufferId error = way.kept("opt.error", Role::gradient_error, n), fed = m.brief("outer.moved", {n}, DType::fp32);
    std::vector<BufferId> from{common};
    from.insert(from.end(), kept.begin(), kept.end());
    from.push_back(second);
    if (error >= 0) from.push_back(error);
    way.compress("feed", Compress::Part::feed_drift, n, from, {fed}, compute_queue);
    const BufferId mean = m.brief("outer.mean", {n}, DType::fp32);
    way.sum(fed, n, mean, error);
    m.pointwise("average", PointwiseKind::average, n, {mean}, {mean});
    std::vector<BufferId> to{common};
    to.insert(to.end(), kept.begin(), kept.end());
    to.push_back(first);
    way.compress("apply", Compress::Part::apply_drift, n, {mean, second}, to, compute_queue);
    m.done(mean);
}

Meeting meeting(Lowering& l, int stage, const char* what) {
    Meeting m{l, l.add_communicator("workers", l.plan.workers), stage};
    m.block.name = fmt::format("{}:{}", what, stage);
    m.block.kind = BlockKind::other;
    m.block.stage = static_cast<std::int16_t>(stage);
    return m;
}

std::int32_t averaging_block(Lowering& l, int stage) {
    Meeting a = meeting(l, stage, "average");
    const std::vector<BufferId> weights = stepped_weights(l, stage);
    if (weights.empty()) return l.add(std::move(a.block));
    const std::vector<BufferId> masters = states_of(l.plan, stage, Role::master);
    if (l.scenario.strategy.sends_signs()) {
        exchange_drift(a, masters.empty() ? weights : masters);
        if (!masters.empty()) a.cast("master", masters, weights);
        return l.add(std::move(a.block));
    }
    const std::vector<std::vector<BufferId>> slices = meeting_slices(l, weights);
    require(masters.empty() || masters.size() == slices.size(), "workers meet in other slices than the optimizer has copies for");
    std::vector<Meeting::Sent> sent; // each is merged while the next one is on its way
    for (std::size_t i = 0; i < slices.size(); ++i) {
        const std::string name = fmt::format("b{}", i);
        sent.push_back(masters.empty() ? a.send(name, slices[i], {}) : a.send_master(name, masters[i], slices[i]));
        if (i > 0) a.merge(sent[i - 1]);
    }
    a.merge(sent.back());
    return l.add(std::move(a.block));
}

// The fp32 copy that the optimizer steps on of these weights; -1: it steps on them.
BufferId master_of(const Plan& plan, const std::vector<BufferId>& weights) {
    for (const Block& block : plan.blocks)
        for (const Op& op : block.ops)
            if (std::holds_alternative<OptimizerStep>(op.work) && std::find(op.out.begin(), op.out.end(), weights.front()) != op.out.end())
                for (BufferId b : op.out)
                    if (plan.buffers[b].role == Role::master) return b;
    return -1;
}

// A stage's fragment: the block that sends it, and the block that merges what came back.
std::pair<std::int32_t, std::int32_t> fragment_blocks(Lowering& l, int stage, int f) {
    const std::vector<BufferId> weights = stepped_weights(l, stage, f);
    Meeting sends = meeting(l, stage, "send"), merges = meeting(l, stage, "merge");
    sends.on_way = Scope::microbatch;
    if (!weights.empty()) {
        const std::string name = fmt::format("f{}", f);
        const BufferId master = master_of(l.plan, weights);
        Meeting::Sent sent = master >= 0 ? sends.send_master(name, master, weights) : sends.send(name, weights, {});
        sends.drop(sent.common);
        sent.common = merges.fetch(sent.common.home);
        merges.merge(sent);
    }
    const std::int32_t send = l.add(std::move(sends.block));
    return {send, l.add(std::move(merges.block))};
}

void run(const Lowering& l, Program& program, std::int32_t block) {
    Action action;
    action.block = block;
    action.last = static_cast<std::int32_t>(l.plan.blocks[block].ops.size());
    program.actions.push_back(action);
}

Program program_of(const Lowering& l, int stage, std::int32_t block) {
    Program program;
    program.stage = static_cast<std::int16_t>(stage);
    run(l, program, block);
    return program;
}

// Parameters that a worker's replicas keep whole beside their shards are gathered again from what these have become. fragment: of that one
// alone; -1: all.
void gather_again(const Lowering& l, int stage, Program& program, int fragment = -1) {
    if (!l.data_parallel.sharded() || l.data_parallel.gathers_in_step) return;
    for (const auto& buckets : l.data_parallel.buckets)
        for (const Bucket& b : buckets)
            if (b.stage == stage && b.trained && b.gather >= 0 && (fragment < 0 || fragment_of(l, b) == fragment))
                run(l, program, b.gather);
}

// Fragment f of n is merged after (f + 1) / n of the round's steps, and sent overlap_steps before.
void stream(Lowering& l) {
    const Synchronization& how = l.scenario.strategy.synchronization;
    std::int64_t done = 0;
    bool merged = false; // the phase before is a merge
    const bool sharded = l.data_parallel.sharded();
    const auto steps_until = [&](std::int64_t step) {
        if (step == done) return;
        if (done == 0)
            l.plan.repeat = step;
        else {
            PlanPhase& phase = l.plan.further.emplace_back();
            phase.steps = true;
            phase.repeat = step - done;
            phase.behind = merged && sharded ? PlanPhase::before : PlanPhase::nothing; // gathers read what was merged
        }
        done = step;
    };
    for (int f = 0; f < how.fragments; ++f) {
        const std::int64_t end = how.inner_steps * (f + 1) / how.fragments;
        steps_until(end - how.overlap_steps);
        PlanPhase send, merge;
        for (int stage = 0; stage < l.plan.stages; ++stage) {
            const auto [sends, merges] = fragment_blocks(l, stage, f);
            send.programs.push_back(program_of(l, stage, sends));
            gather_again(l, stage, merge.programs.emplace_back(program_of(l, stage, merges)), f);
        }
        // Gathers have read what is merged; what a merge wrote to the host is read again.
        send.behind = sharded || how.outer_on_host ? PlanPhase::before : PlanPhase::nothing;
        merge.behind = static_cast<std::int32_t>(l.plan.further.size());
        l.plan.further.push_back(std::move(send));
        merged = false;
        steps_until(end);
        l.plan.further.push_back(std::move(merge));
        merged = true;
    }
}

} // namespace

int fragment_of(const Lowering& l, const Parameter& p) {
    const Synchronization& how = l.scenario.strategy.synchronization;
    std::int64_t layers = 0, own = -1;
    bool behind = false;
    for (const Graph& g : l.graphs) {
        if (g.stage != p.stage) continue;
        for (int unit = 0; unit < g.units; ++unit) {
            const bool layer = g.unit_kinds[unit] == UnitKind::layer;
            if (g.chunk == p.chunk && unit == p.unit) {
                own = layer ? layers : -1;
                behind = !layer && layers > 0;
            }
            layers += layer;
        }
    }
    if (own < 0) return behind ? how.fragments - 1 : 0;
    return static_cast<int>(how.strided ? own % how.fragments : own * how.fragments / std::max<std::int64_t>(1, layers));
}

int fragment_of(const Lowering& l, const Bucket& b) { return fragment_of(l, l.parameters[b.stage][b.parameters.front()]); }

std::vector<std::vector<BufferId>> meeting_slices(const Lowering& l, const std::vector<BufferId>& weights) {
    const Strategy& st = l.scenario.strategy;
    if (l.plan.workers == 0 || l.plan.apart || st.streaming() || st.sends_signs()) return {weights};
    std::vector<std::vector<BufferId>> slices;
    Bytes size = st.bucket_bytes; // of the last slice
    for (BufferId weight : weights) {
        if (size >= st.bucket_bytes) {
            slices.emplace_back();
            size = {};
        }
        slices.back().push_back(weight);
        size += l.plan.buffers[weight].bytes;
    }
    return slices;
}

void synchronization(Lowering& l) {
    if (l.plan.workers == 0 || l.plan.apart) return;
    if (l.scenario.strategy.streaming()) return stream(l);
    PlanPhase& phase = l.plan.further.emplace_back();
    for (int stage = 0; stage < l.plan.stages; ++stage) {
        Program& program = phase.programs.emplace_back(program_of(l, stage, averaging_block(l, stage)));
        gather_again(l, stage, program);
    }
}

} // namespace orrery
