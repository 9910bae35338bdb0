// Signs there and back. Each rank adds up one slice: all send it their signs of that slice and their scale, it sends the signs and the
// scale of the sum to all. The error of either rounding is kept and added the next time.
#include "sim/plan/passes/sign_exchange.hpp"

#include "sim/plan/passes/bucket_blocks.hpp"

#include <utility>

namespace orrery {

BufferId SignExchange::brief(const std::string& name, Role role, std::vector<std::int64_t> shape, DType dtype, bool is_summand) {
    Buffer b;
    b.name = name;
    b.role = role;
    b.kind = MemoryKind::communication;
    b.scope = Scope::action;
    b.shape = std::move(shape);
    b.dtype = dtype;
    b.bytes = bytes(b.shape, dtype);
    b.stage = static_cast<std::int16_t>(stage);
    for (int a = 0; a < axis_count; ++a)
        if (is_summand && (partial >> a & 1)) b.placement.set(static_cast<Axis>(a), PlacementKind::partial);
    const BufferId id = l.add(std::move(b));
    block.ops.push_back(memory_op(Alloc{id}, phase));
    return id;
}

void SignExchange::compress(const std::string& name, Compress::Part part, std::int64_t elements, std::vector<BufferId> in,
                            std::vector<BufferId> out, QueueId queue) {
    Op op;
    op.name = name;
    op.work = Compress{part, elements};
    op.queue = queue;
    op.phase = phase;
    op.in = std::move(in);
    op.out = std::move(out);
    block.ops.push_back(std::move(op));
}

BufferId SignExchange::kept(const std::string& name, Role role, std::int64_t n) {
    if (!l.scenario.strategy.compression.error_feedback) return -1;
    Buffer b;
    b.name = name;
    b.role = role;
    b.kind = MemoryKind::optimizer_states;
    b.scope = Scope::run;
    b.shape = {n};
    b.dtype = DType::fp32;
    b.bytes = bytes(b.shape, b.dtype);
    b.stage = static_cast<std::int16_t>(stage);
    return l.add(std::move(b));
}

void SignExchange::sum(BufferId fed, std::int64_t n, BufferId into, BufferId error) {
    using Part = Compress::Part;
    const std::int64_t ranks = size(l.plan, comm), slice = (n + ranks - 1) / ranks;
    const auto send = [&](const std::string& name, CollectiveKind kind, std::vector<std::int64_t> shape, DType dtype, BufferId in,
                          BufferId out) {
        block.ops.push_back(comm_op(name, kind, comm, bytes(shape, dtype), dtype, phase, {in}, {out}, Collective::Operands::each));
    };
    const auto own_number = [&](const char* name) { // each rank has one
        const BufferId b = brief(name, Role::gradient_scale, {1}, DType::fp32, false);
        for (int a = 0; a < axis_count; ++a)
            if (l.plan.communicators[comm].axes >> a & 1) l.buffer(b).placement.set(static_cast<Axis>(a), PlacementKind::sharded);
        return b;
    };
    const auto done = [&](std::initializer_list<BufferId> list) {
        for (BufferId b : list) block.ops.push_back(memory_op(Free{b}, phase));
    };
    const BufferId signs = brief("signs", summand, {ranks, slice}, DType::int1, true), scale = own_number("signs.scale");
    compress("signs", Part::signs, n, {fed}, {signs, scale}, compute_queue);
    if (error >= 0) compress("unsent", Part::unsent, n, {fed, signs, scale}, {error}, compute_queue);
    done({fed});
    const BufferId arrived = brief("signs.received", received, {ranks, slice}, DType::int1, true),
                   scales = brief("signs.scales", Role::gradient_scale, {ranks}, DType::fp32, false);
    send("exchange.signs", CollectiveKind::all_to_all, {ranks, slice}, DType::int1, signs, arrived);
    send("gather.scales", CollectiveKind::all_gather, {ranks}, DType::fp32, scale, scales);
    done({signs, scale});
    const BufferId sum = brief("signs.sum", summand, {slice}, DType::fp32, true),
                   sum_error = kept("signs.sum.error", Role::sum_error, slice);
    std::vector<BufferId> summed{arrived, scales};
    if (sum_error >= 0) summed.push_back(sum_error);
    compress("sum.signs", Part::sum_signs, ranks * slice, summed, {sum}, own_queue);
    done({arrived, scales});
    const BufferId own = brief("signs.own", summand, {1, slice}, DType::int1, true), own_scale = own_number("signs.own.scale");
    compress("signs.own", Part::signs, slice, {sum}, {own, own_scale}, own_queue);
    if (sum_error >= 0) compress("unsent.own", Part::unsent, slice, {sum, own, own_scale}, {sum_error}, own_queue);
    done({sum});
    const BufferId all = brief("signs.all", summand, {ranks, slice}, DType::int1, true),
                   all_scales = brief("signs.all.scales", Role::gradient_scale, {ranks}, DType::fp32, false);
    send("gather.signs", CollectiveKind::all_gather, {ranks, slice}, DType::int1, own, all);
    send("gather.own.scales", CollectiveKind::all_gather, {ranks}, DType::fp32, own_scale, all_scales);
    done({own, own_scale});
    compress("unpack.signs", Part::unpack, n, {all, all_scales}, {into}, own_queue);
    done({all, all_scales});
}

} // namespace orrery
