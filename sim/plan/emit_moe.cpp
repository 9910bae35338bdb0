// Mixtures of experts: what routing, permuting, dispatching and combining become, forward and backward.
//
// Rows travel in one of two ways. Permuted first (all-to-all dispatcher): a row per token and expert, sorted by expert, goes to the
// expert's rank; there, rows of several senders are sorted by local expert. Tokens first (all-gather, DeepEP, HybridEP): tokens travel and are permuted where
// they arrive. The adjoint of either way is the way back, of a gather a reduce-scatter.
#include "sim/plan/emitter.hpp"

#include "sim/scenario/scenario.hpp"

namespace orrery {
namespace {

bool gathers(const Runtime& r) { return r.token_dispatcher == "allgather"; }

// Whether the host must know how many rows there are before it can launch what works on them: padded rows are known beforehand, and
// DeepEP's and HybridEP's kernels leave the counts on the device.
bool host_waits_for_counts(const Scenario& s) {
    return s.model.moe->capacity_factor <= 0 && (s.runtime.token_dispatcher == "alltoall" || gathers(s.runtime));
}

} // namespace

// The counts of all ranks, to the host, which waits for them.
void Emitter::know_counts(const Node& n, BufferId counts, const std::string& suffix) {
    if (!host_waits_for_counts(s())) return;
    if (l.comm_ids.count("ep") != 0 && size(l.plan, l.comm("ep")) > 1) {
        Buffer all = l.buffer(counts);
        const int ranks = size(l.plan, l.comm("ep"));
        all.name += ".all" + suffix;
        all.shape = {ranks * l.buffer(counts).shape[0]};
        all.bytes = bytes(all.shape, all.dtype);
        const BufferId gathered = l.add(std::move(all));
        emit_collective(n.name + ".counts" + suffix, CollectiveKind::all_gather, l.buffer(gathered).bytes, DType::int64, counts, gathered, "ep");
        counts = gathered;
    }
    Buffer host = l.buffer(counts);
    host.name += ".host" + suffix;
    host.space = Space::host;
    const BufferId known = l.add(std::move(host));
    Op copy = make_op(n.name + ".counts.copy" + suffix, Copy{CopyKind::device_to_host, l.buffer(counts).bytes}, {counts}, {known});
    copy.queue = d2h_queue;
    push(std::move(copy));
    Op wait = make_op(n.name + ".counts.wait" + suffix, HostSync{}, {known}, {});
    wait.queue = host_queue;
    push(std::move(wait));
}

// Rows (or tokens) from their ranks to the experts' and back. from and to have the placements of their ends.
void Emitter::move_rows(const Node& n, BufferId from, BufferId to, bool to_experts, const std::string& name) {
    const MoeSpec& e = *s().model.moe;
    const Strategy& st = s().strategy;
    const DType dtype = l.buffer(from).dtype;
    const std::int64_t h = s().model.hidden_size;
    const BufferId outside = to_experts ? from : to, inside = to_experts ? to : from;
    if (n.dispatches_tokens && gathers(s().runtime)) {
        emit_collective(name, to_experts ? CollectiveKind::all_gather : CollectiveKind::reduce_scatter, l.buffer(inside).bytes, dtype, from, to, "ep.etp");
        return;
    }
    if (n.dispatches_tokens) {
        const std::int16_t copies = static_cast<std::int16_t>(e.top_k * st.expert_tensor_parallel);
        Op& op = emit_collective(name, CollectiveKind::all_to_all, bytes({l.buffer(outside).shape[0] * copies, h}, dtype), dtype, from, to, "ep.etp");
        auto& work = std::get<Collective>(op.work);
        work.copies = copies;
        work.groups = static_cast<std::int16_t>(e.groups);
        work.group_limit = static_cast<std::int16_t>(e.group_limit);
        return;
    }
    // Stations on the way: outside -> (all-to-all) -> received -> (gather over expert-tensor ranks) -> gathered -> (sort) -> inside.
    const bool exchanges = st.expert_parallel > 1, gathered = st.expert_tensor_parallel > 1;
    const std::int64_t local = e.experts / st.expert_parallel;
    const bool sorts = local > 1;
    const auto station = [&](const char* what, std::int64_t rows, PlacementKind over_tp, bool last) {
        if (last) return to;
        Buffer b = l.buffer(inside);
        b.name = l.buffer(to).name + what;
        b.shape[0] = rows;
        b.bytes = bytes(b.shape, dtype);
        b.dtype = dtype;
        b.placement.set(Axis::tp, over_tp);
        b.storage = -1;
        return l.add(std::move(b));
    };
    const std::int64_t rows = l.buffer(inside).shape[0], part = rows / st.expert_tensor_parallel;
    const PlacementKind whole = l.buffer(inside).placement.on(Axis::tp);
    const auto sort = [&](BufferId a, BufferId b) {
        emit(name + ".sort", Permute{Permute::Part::sort, to_experts ? Direction::forward : Direction::backward, rows, rows, h, false, s().runtime.permute_fusion}, {a}, {b});
    };
    BufferId at = from;
    const auto exchange = [&](BufferId b) {
        // What a rank of the slowest group receives is what it sends back: its rows bound the exchange.
        const Bytes size = std::max(bytes({part, h}, dtype), l.buffer(outside).bytes);
        emit_collective(name, CollectiveKind::all_to_all, size, dtype, at, b, "ep");
        at = b;
    };
    const auto over_tensor = [&](BufferId b) {
        emit_collective(name + ".etp", to_experts ? CollectiveKind::all_gather : CollectiveKind::reduce_scatter, bytes({rows, h}, dtype), dtype, at, b, "etp");
        at = b;
    };
    if (to_experts) {
        if (exchanges) exchange(station(".received", part, PlacementKind::sharded, !gathered && !sorts));
        if (gathered) over_tensor(station(".gathered", rows, whole, !sorts));
        if (sorts) sort(at, to);
    } else {
        if (sorts) { const BufferId b = station(".unsorted", rows, whole, !gathered && !exchanges); sort(at, b); at = b; }
        if (gathered) over_tensor(station(".scattered", part, PlacementKind::sharded, !exchanges));
        if (exchanges) exchange(to);
    }
}

// A small tensor that goes the way of the communication just issued.
void Emitter::take_along(BufferId from, BufferId to) {
    Op& op = block->ops.back();
    op.in.push_back(from);
    op.out.push_back(to);
    auto& work = std::get<Collective>(op.work);
    if (work.copies == 0) work.bytes = work.bytes + std::max(l.buffer(from).bytes, l.buffer(to).bytes);
}

bool Emitter::forward_experts(const Node& n, const std::vector<BufferId>& in, std::vector<BufferId>& out, bool recomputing) {
    const auto output = [&](std::size_t i) { return output_for(n.out[i], out, recomputing); };
    const std::string suffix = recomputing ? ".again" : "", name = n.name + suffix;
    const bool fused = s().runtime.permute_fusion;
    switch (n.kind) {
    case NodeKind::route: {
        const MoeSpec& e = *s().model.moe;
        std::vector<BufferId> read{in[0]};
        for (ValueId p : n.params) read.push_back(weight(p));
        emit(name, Router{Direction::forward, rows(n.in[0]), e.experts, e.top_k, e.scoring == "sigmoid", e.groups, fused}, read, {output(0), output(1), output(2)});
        return true;
    }
    case NodeKind::permute:
        if (!n.dispatches_tokens) know_counts(n, in[2], suffix);
        emit(name, Permute{Permute::Part::gather, Direction::forward, rows(n.in[0]), rows(n.out[0]), cols(n.out[0]), false, fused}, {in[0], in[1]}, {output(0)});
        return true;
    case NodeKind::dispatch:
        if (n.dispatches_tokens) know_counts(n, in[1], suffix);
        move_rows(n, in[0], output(0), true, name);
        if (n.dispatches_tokens) take_along(in[2], output(1)), take_along(in[3], output(2));
        return true;
    case NodeKind::combine:
        move_rows(n, in[0], output(0), false, name);
        return true;
    case NodeKind::unpermute:
        emit(name, Permute{Permute::Part::scatter, Direction::forward, rows(n.out[0]), rows(n.in[0]), cols(n.out[0]), true, fused}, in, {output(0)});
        return true;
    default: return false;
    }
}

bool Emitter::backward_experts(const Node& n, BufferId dy) {
    const bool fused = s().runtime.permute_fusion;
    switch (n.kind) {
    case NodeKind::route: {
        const MoeSpec& e = *s().model.moe;
        std::vector<BufferId> read{dy, need(n.out[0]), need(n.out[1])}, written;
        if (e.auxiliary_loss) {   // its gradient is that of shares of tokens times mean probabilities: a constant per expert
            const BufferId sum = view(value(n.out[0]).name + ".grad.aux", dy, l.buffer(dy).placement);
            emit(n.name + ".auxiliary", Pointwise{PointwiseKind::add, Direction::backward, elements(value(n.out[0])), true}, {dy, read[1]}, {sum});
            read[0] = sum;
        }
        written.push_back(fresh_gradient(n.in[0]));
        for (ValueId p : n.params) {   // a bias against unequal loads: what it is corrected by are the loads, summed like a gradient
            read.push_back(weight_gradient(p));
            written.push_back(weight_gradient(p));
        }
        emit(n.name + ".bwd", Router{Direction::backward, rows(n.in[0]), e.experts, e.top_k, e.scoring == "sigmoid", e.groups, fused}, read, written);
        add_gradient(n.in[0], written[0], true);
        return true;
    }
    case NodeKind::permute: {
        const BufferId dx = fresh_gradient(n.in[0]);
        emit(n.name + ".bwd", Permute{Permute::Part::scatter, Direction::backward, rows(n.in[0]), rows(n.out[0]), cols(n.out[0]), false, fused}, {dy, need(n.in[1])}, {dx});
        add_gradient(n.in[0], dx, true);
        return true;
    }
    case NodeKind::dispatch:
    case NodeKind::combine: {
        const BufferId dx = fresh_gradient(n.in[0]);
        move_rows(n, dy, dx, n.kind == NodeKind::combine, n.name + ".adjoint");
        if (n.kind == NodeKind::dispatch && n.dispatches_tokens) {
            const BufferId dp = fresh_gradient(n.in[2], ".grad", DType::fp32);
            take_along(gradient[static_cast<std::size_t>(n.out[1])], dp);
            add_gradient(n.in[2], dp, true);
        }
        flush_weight_ops();
        add_gradient(n.in[0], dx, true);
        return true;
    }
    case NodeKind::unpermute: {
        const BufferId drows = fresh_gradient(n.in[0]), dp = fresh_gradient(n.in[1], ".grad", DType::fp32);
        const BufferId sent = need(n.in[0]), probabilities = need(n.in[1]), map = need(n.in[2]);
        const auto work = [&](Permute::Part part) { return Permute{part, Direction::backward, rows(n.out[0]), rows(n.in[0]), cols(n.out[0]), true, fused}; };
        emit(n.name + ".bwd", work(Permute::Part::gather), {dy, probabilities, map}, {drows});
        emit(n.name + ".scores", work(Permute::Part::score), {dy, sent, map}, {dp});
        add_gradient(n.in[0], drows, true);
        add_gradient(n.in[1], dp, true);
        return true;
    }
    default: return false;
    }
}

} // namespace orrery
