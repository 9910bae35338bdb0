// What workers do between their steps: the second phase of a round.
//
// Local SGD (Stich, arXiv:1805.09767; torchft's LocalSGD): the parameters become the mean of the workers' parameters; the optimizer's
// moments stay each worker's own. Where an fp32 copy of the parameters is kept, that copy is averaged and the parameters follow from it. A
// bucket at a time, so that one's division runs under the next one's reduction.
//
// After it: each stage's parameters are averaged once a round, and Plan::further has the programs that do it.
#include "sim/plan/passes/passes.hpp"

#include <fmt/format.h>

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

struct Averaging {
    Lowering& l;
    CommId workers;
    Block block{};

    void average(const std::string& name, const std::vector<BufferId>& buffers) {
        std::int64_t elements = 0;
        Bytes size;
        for (BufferId b : buffers) {
            std::int64_t n = 1;
            for (std::int64_t d : l.buffer(b).shape) n *= d;
            elements += n;
            size += bytes(l.buffer(b).shape, l.buffer(b).dtype);
        }
        const DType dtype = l.buffer(buffers[0]).dtype;
        block.ops.push_back(
            averaging_op("sum." + name, Collective{CollectiveKind::all_reduce, workers, size, dtype}, queue_of(workers), buffers, buffers));
        block.ops.push_back(averaging_op("average." + name, Pointwise{PointwiseKind::average, Direction::forward, elements, true},
                                         compute_queue, buffers, buffers));
    }
};

// The fp32 copy of the stage's parameters; -1: there is none.
BufferId master_of(const Plan& plan, int stage) {
    for (std::size_t b = 0; b < plan.buffers.size(); ++b)
        if (plan.buffers[b].stage == stage && plan.buffers[b].role == Role::master) return static_cast<BufferId>(b);
    return -1;
}

std::int32_t averaging_block(Lowering& l, int stage) {
    Averaging a{l, l.add_communicator("workers", l.plan.workers)};
    a.block.name = fmt::format("average:{}", stage);
    a.block.kind = BlockKind::other;
    a.block.stage = static_cast<std::int16_t>(stage);
    std::vector<BufferId> weights, bucket;
    Bytes size;
    const BufferId master = master_of(l.plan, stage);
    int buckets = 0;
    const auto close = [&] {
        if (!bucket.empty() && master < 0) a.average(fmt::format("b{}", buckets++), bucket);
        bucket.clear();
        size = {};
    };
    std::int64_t elements = 0;
    for (const Parameter& p : l.parameters[stage]) {
        weights.push_back(p.weight);
        bucket.push_back(p.weight);
        elements += p.elements;
        size += l.buffer(p.weight).bytes;
        if (size >= l.scenario.strategy.bucket_bytes) close();
    }
    close();
    if (master >= 0 && !weights.empty()) {
        a.average("master", {master});
        a.block.ops.push_back(averaging_op("cast.master", Pointwise{PointwiseKind::cast, Direction::forward, elements, true}, compute_queue,
                                           {master}, weights));
    }
    return l.add(std::move(a.block));
}

} // namespace

void synchronization(Lowering& l) {
    if (l.plan.workers == 0) return;
    PlanPhase& phase = l.plan.further.emplace_back();
    for (int stage = 0; stage < l.plan.stages; ++stage) {
        const std::int32_t block = averaging_block(l, stage);
        Action action;
        action.block = block;
        action.last = static_cast<std::int32_t>(l.plan.blocks[block].ops.size());
        Program& program = phase.programs.emplace_back();
        program.stage = static_cast<std::int16_t>(stage);
        program.actions.push_back(action);
    }
}

} // namespace orrery
