// Work between the workers' steps: the second phase of a round.
//
// Local SGD (Stich, arXiv:1805.09767; torchft's LocalSGD): the parameters become the mean of the workers' parameters; the optimizer's
// moments stay each worker's own. Where an fp32 copy of the parameters is kept, that copy is averaged and the parameters follow from it. A
// bucket at a time, so that one's division runs under the next one's reduction.
//
// FedAvg (McMahan et al., arXiv:1602.05629) does the same, and each worker's parameters weigh as much as it has samples.
//
// DiLoCo (Douillard et al., arXiv:2311.08105): each worker keeps what all had in common when they last met. The mean of what they moved
// away from it is the gradient of an outer optimizer, whose step all start from again.
//
// Streaming DiLoCo (Douillard et al., arXiv:2501.18512): fragments of the layers do so one after another, each once a round, at steps as
// far apart as can be. A fragment is sent some inner steps before what came back is merged with what the worker has become since.
//
// The outer optimizer's states may live in the host's memory, as OpenDiLoCo's do (arXiv:2407.07852): what a bucket or fragment needs of
// them is copied to the device when workers meet, and back.
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

#include <algorithm>
#include <fmt/format.h>
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

struct Meeting {
    Lowering& l;
    CommId workers;
    int stage;
    Block block{};
    const Synchronization& how = l.scenario.strategy.synchronization;

    std::int64_t elements(const std::vector<BufferId>& buffers) const {
        std::int64_t n = 0;
        for (BufferId b : buffers) {
            std::int64_t of_one = 1;
            for (std::int64_t d : l.buffer(b).shape) of_one *= d;
            n += of_one;
        }
        return n;
    }
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
        const BufferId b =
            add(name, Role::pseudo_gradient, MemoryKind::communication, stays ? Scope::run : Scope::action, std::move(shape), dtype);
        if (!stays) block.ops.push_back(memory_op(Alloc{b}, Phase::optimizer));
        return b;
    }
    void done(BufferId b) {
        if (!stays) block.ops.push_back(memory_op(Free{b}, Phase::optimizer));
    }

    void meet(const std::string& name, const std::vector<BufferId>& buffers) {
        l.scenario.strategy.diloco() ? step_outside(name, buffers) : average(name, buffers);
    }

    void average(const std::string& name, const std::vector<BufferId>& buffers) {
        Bytes size;
        for (BufferId b : buffers) size += bytes(l.buffer(b).shape, l.buffer(b).dtype);
        if (!l.plan.shares.empty()) pointwise("share." + name, PointwiseKind::own_share, elements(buffers), buffers, buffers);
        collective("sum." + name, CollectiveKind::all_reduce, size, l.buffer(buffers[0]).dtype, buffers, buffers);
        pointwise("average." + name, PointwiseKind::average, elements(buffers), buffers, buffers);
    }

    // The kernel runs on the collectives' own queue, between them or behind them: computation goes on meanwhile.
    void beside(const std::string& name, PointwiseKind kind, std::int64_t n, BufferId in, BufferId out) {
        pointwise(name, kind, n, {in}, {out}).queue = queue_of(workers);
    }

    // The mean of what workers moved, in the payload's type on the wire.
    void sum(const std::string& name, BufferId moved, std::int64_t n) {
        const DType wire = how.payload_dtype;
        if (wire == DType::fp32) return collective("sum." + name, CollectiveKind::all_reduce, bytes({n}, wire), wire, {moved}, {moved});
        if (wire == DType::fp16 || wire == DType::bf16) {
            const BufferId sent = brief("outer.sent." + name, {n}, wire);
            pointwise("pack." + name, PointwiseKind::cast, n, {moved}, {sent});
            collective("sum." + name, CollectiveKind::all_reduce, bytes({n}, wire), wire, {sent}, {sent});
            beside("unpack." + name, PointwiseKind::cast, n, sent, moved);
            return done(sent);
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
        for (BufferId b : {sent, received, added, own}) done(b);
    }

    // Buffers on their way while steps go on stay where they are.
    bool stays = false;

    // A state of the outer optimizer: where it lives, and where the device finds it while workers meet; the same where it lives there.
    struct State {
        BufferId home, here;
    };
    BufferId outer_state(const std::string& name, Role role, std::int64_t n) {
        const BufferId b = add(name, role, MemoryKind::optimizer_states, Scope::run, {n}, DType::fp32);
        if (how.outer_on_host) l.buffer(b).space = Space::host;
        return b;
    }
    State fetch(BufferId home) {
        if (!how.outer_on_host) return {home, home};
        const Buffer& x = l.buffer(home);
        const BufferId here = add("here." + x.name, x.role, MemoryKind::communication, Scope::action, x.shape, x.dtype);
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
        block.ops.push_back(std::move(op));
    }

    void step_outside(const std::string& name, const std::vector<BufferId>& buffers) {
        const State outer = fetch(outer_state("outer." + name, Role::outer_parameters, elements(buffers)));
        const BufferId moved = send(name, outer.here, buffers);
        step_from(name, outer, moved, buffers);
    }

    // outer: on the device. Returns what the workers' mean comes in.
    BufferId send(const std::string& name, BufferId outer, const std::vector<BufferId>& buffers) {
        const std::int64_t n = elements(buffers);
        const BufferId moved = brief("outer.moved." + name, {n}, DType::fp32);
        std::vector<BufferId> in{outer};
        in.insert(in.end(), buffers.begin(), buffers.end());
        pointwise("moved." + name, PointwiseKind::difference, n, in, {moved});
        sum(name, moved, n);
        return moved;
    }

    void step_from(const std::string& name, const State& outer, BufferId moved, const std::vector<BufferId>& buffers) {
        const std::int64_t n = elements(buffers);
        std::vector<State> states{outer};
        if (how.outer_optimizer == OuterOptimizer::nesterov)
            states.push_back(fetch(outer_state("outer.momentum." + name, Role::outer_momentum, n)));
        pointwise("average." + name, PointwiseKind::average, n, {moved}, {moved});
        std::vector<BufferId> from{moved}, to = buffers;
        for (const State& s : states) from.push_back(s.here), to.push_back(s.here);
        pointwise("outer_step." + name, PointwiseKind::outer_step, n, from, to);
        done(moved);
        for (const State& s : states) leave(s);
    }
};

// The stage's own copy of parameters, or moment; -1: there is none.
BufferId state_of(const Plan& plan, int stage, Role role) {
    for (std::size_t b = 0; b < plan.buffers.size(); ++b)
        if (plan.buffers[b].stage == stage && plan.buffers[b].role == role) return static_cast<BufferId>(b);
    return -1;
}

// 0/1 Adam's exchange of a stage: of its parameters, or of the fp32 copy that these follow.
void exchange_drift(Meeting& m, const std::vector<BufferId>& kept) {
    Lowering& l = m.l;
    const std::int64_t n = m.elements(kept);
    const BufferId first = state_of(l.plan, m.stage, Role::first_moment), second = state_of(l.plan, m.stage, Role::second_moment),
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
    std::vector<BufferId> bucket;
    Bytes size;
    const BufferId master = state_of(l.plan, stage, Role::master);
    const bool signs = l.scenario.strategy.sends_signs();
    int buckets = 0;
    const auto close = [&] {
        if (!bucket.empty() && master < 0 && !signs) a.meet(fmt::format("b{}", buckets++), bucket);
        bucket.clear();
        size = {};
    };
    for (BufferId weight : weights) {
        bucket.push_back(weight);
        size += l.buffer(weight).bytes;
        if (size >= l.scenario.strategy.bucket_bytes) close();
    }
    close();
    if (signs && !weights.empty()) exchange_drift(a, master >= 0 ? std::vector<BufferId>{master} : weights);
    if (master >= 0 && !weights.empty()) {
        if (!signs) a.meet("master", {master});
        a.block.ops.push_back(averaging_op("cast.master", Pointwise{PointwiseKind::cast, Direction::forward, a.elements(weights), true},
                                           compute_queue, {master}, weights));
    }
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
    sends.stays = merges.stays = true;
    if (!weights.empty()) {
        const std::int64_t elements = sends.elements(weights);
        const std::string name = fmt::format("f{}", f);
        const BufferId master = master_of(l.plan, weights);
        const std::vector<BufferId> kept = master >= 0 ? std::vector<BufferId>{master} : weights;
        const Meeting::State outer = sends.fetch(sends.outer_state("outer." + name, Role::outer_parameters, elements));
        const BufferId moved = sends.send(name, outer.here, kept);
        sends.drop(outer);
        merges.step_from(name, merges.fetch(outer.home), moved, kept);
        if (master >= 0)
            merges.block.ops.push_back(averaging_op("cast." + name, Pointwise{PointwiseKind::cast, Direction::forward, elements, true},
                                                    compute_queue, {master}, weights));
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
