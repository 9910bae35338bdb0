// Gradients that travel as something smaller: as factors of low rank (PowerSGD, arXiv:1905.13727, as PyTorch's hook runs it), or as their
// largest elements with their places (Lin et al., arXiv:1712.01887, without its momentum correction).
//
// With error feedback a rank keeps what it did not send and adds it to its next gradients. What is made before the first collective runs
// where the hook runs, on the computation's queue; what comes between and after them on the collectives' own.
#include "sim/plan/passes/bucket_blocks.hpp"

#include "sim/plan/low_rank.hpp"

#include <algorithm>
#include <cmath>

namespace orrery {
namespace {

// The ops of one bucket's reduction, in order.
struct Way {
    Block& block;
    QueueId comm_queue;
    std::int32_t bucket;
    int rank;
    double min_ratio;
    bool here = true; // on the computation's queue, as long as nothing has been sent

    void compress(std::string name, Compress::Part part, std::int64_t elements, std::vector<BufferId> in, std::vector<BufferId> out) {
        Op op;
        op.name = std::move(name);
        op.work = Compress{part, elements, bucket, rank, min_ratio};
        op.queue = here ? compute_queue : comm_queue;
        op.phase = Phase::gradient_reduce;
        op.in = std::move(in);
        op.out = std::move(out);
        block.ops.push_back(std::move(op));
    }
    void collective(std::string name, CollectiveKind kind, CommId comm, Bytes bytes, DType dtype, BufferId in, BufferId out) {
        here = false;
        block.ops.push_back(
            comm_op(std::move(name), kind, comm, bytes, dtype, Phase::gradient_reduce, {in}, {out}, Collective::Operands::each));
    }
    void alloc(BufferId b) { block.ops.push_back(memory_op(Alloc{b}, Phase::gradient_reduce)); }
    void free(BufferId b) { block.ops.push_back(memory_op(Free{b}, Phase::gradient_reduce)); }
};

std::vector<BufferId> before(std::vector<BufferId> list, BufferId last) {
    if (last >= 0) list.push_back(last);
    return list;
}

} // namespace

// The part of a rank's gradients that was not sent; -1: nobody keeps it.
BufferId BucketBlocks::kept_error(const Bucket& b) {
    if (!l.scenario.strategy.compression.error_feedback) return -1;
    const BufferId error = flat(b, "g.error", Role::gradient_error, b.elements, grad_dtype, MemoryKind::optimizer_states, Scope::run,
                                PlacementKind::invariant);
    l.buffer(error).placement = {};
    return error;
}

void BucketBlocks::reduce_low_rank(Bucket& b, CommId comm, const std::vector<BufferId>& whole, Block& out) {
    const Compression& how = l.scenario.strategy.compression;
    const LowRank layout = low_rank(l.plan, planned(b), how.rank, how.min_ratio);
    const std::string name = bucket_name(b);
    if (layout.p == 0) { // none is a matrix
        out.ops.push_back(comm_op("reduce." + name, CollectiveKind::all_reduce, comm, bytes({b.elements}, grad_dtype), grad_dtype,
                                  Phase::gradient_reduce, whole, whole));
        return;
    }
    const auto factor = [&](const char* what, std::int64_t elements) {
        return short_lived(b, what, Role::gradient_factor, {elements}, grad_dtype);
    };
    Way way{out, queue_of(comm), b.id, how.rank, how.min_ratio};
    const BufferId error = kept_error(b);
    const BufferId fed = short_lived(b, "g.fed", Role::flat_gradients, {b.elements}, grad_dtype),
                   rest = layout.rest > 0 ? factor("g.rest", layout.rest) : -1;
    way.alloc(fed);
    if (rest >= 0) way.alloc(rest);
    way.compress("feed." + name, Compress::Part::feed, b.elements, before(whole, error), before({fed}, rest));
    const auto reduce = [&](const std::string& what, BufferId buffer, std::int64_t elements) {
        way.collective(what + name, CollectiveKind::all_reduce, comm, bytes({elements}, grad_dtype), grad_dtype, buffer, buffer);
    };
    const BufferId start =
        flat(b, "g.q.start", Role::factor_start, layout.q, grad_dtype, MemoryKind::optimizer_states, Scope::run, PlacementKind::invariant);
    l.buffer(start).placement = {};
    const BufferId p = factor("g.p", layout.p), q = factor("g.q", layout.q);
    way.alloc(p);
    way.compress("project." + name, Compress::Part::project, b.elements, {fed, start}, {p});
    if (rest >= 0) reduce("reduce.rest.", rest, layout.rest);
    reduce("reduce.p.", p, layout.p);
    way.compress("orthonormal." + name, Compress::Part::orthonormal, layout.p, {p}, {p});
    way.alloc(q);
    way.compress("turn." + name, Compress::Part::turn, b.elements, {fed, p}, {q});
    reduce("reduce.q.", q, layout.q);
    std::vector<BufferId> in;
    for (BufferId x : {p, q, rest})
        if (x >= 0) in.push_back(x);
    way.compress("expand." + name, Compress::Part::expand, b.elements, in, before(whole, start));
    if (error >= 0) {
        std::vector<BufferId> of{fed};
        of.insert(of.end(), whole.begin(), whole.end());
        way.compress("miss." + name, Compress::Part::miss, b.elements, of, {error});
    }
    in.push_back(fed);
    for (BufferId x : in) way.free(x);
}

void BucketBlocks::reduce_largest(Bucket& b, CommId comm, const std::vector<BufferId>& whole, Block& out) {
    const Compression& how = l.scenario.strategy.compression;
    const int ranks = size(l.plan, comm);
    const std::int64_t count =
        std::clamp<std::int64_t>(std::llround(how.density * static_cast<double>(b.elements)), 1, std::max<std::int64_t>(1, b.elements));
    const std::string name = bucket_name(b);
    Way way{out, queue_of(comm), b.id, how.rank, how.min_ratio};
    const BufferId error = kept_error(b);
    const BufferId fed = short_lived(b, "g.fed", Role::flat_gradients, {b.elements}, grad_dtype),
                   values = short_lived(b, "g.values", Role::gradient_slices, {count}, grad_dtype),
                   places = short_lived(b, "g.places", Role::gradient_places, {count}, DType::int32),
                   all = short_lived(b, "g.values.all", Role::gradient_summands, {ranks, count}, grad_dtype),
                   where = short_lived(b, "g.places.all", Role::gradient_places, {ranks, count}, DType::int32);
    l.buffer(where).placement = {}; // all ranks have the places of all
    way.alloc(fed);
    way.compress("feed." + name, Compress::Part::feed, b.elements, before(whole, error), {fed});
    way.alloc(values);
    way.alloc(places);
    way.compress("choose." + name, Compress::Part::choose, b.elements, {fed}, {values, places});
    if (error >= 0) way.compress("drop." + name, Compress::Part::drop, b.elements, {fed, places}, {error});
    way.free(fed);
    way.alloc(all);
    way.alloc(where);
    way.collective("gather.values." + name, CollectiveKind::all_gather, comm, bytes({ranks, count}, grad_dtype), grad_dtype, values, all);
    way.collective("gather.places." + name, CollectiveKind::all_gather, comm, bytes({ranks, count}, DType::int32), DType::int32, places,
                   where);
    way.free(values);
    way.free(places);
    way.compress("spread." + name, Compress::Part::spread, b.elements, {all, where}, whole);
    way.free(all);
    way.free(where);
}

} // namespace orrery
