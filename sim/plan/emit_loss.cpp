// The loss: over all rows of a microbatch at once, its gradient in the backward pass; or over some rows at a time, each with the output
// layer's product before it and all gradients of it behind it.
#include "sim/plan/emitter.hpp"

#include <fmt/format.h>

namespace orrery {
namespace {

// The same value of some rows.
Value of_rows(Value v, const LossRows& r) {
    v.shape[0] = r.count;
    return v;
}

} // namespace

// maximum -> sums -> loss. Where each tensor-parallel rank has a part of the vocabulary, the statistics are reduced in place between them.
LossMade Emitter::emit_loss(const Node& n, const LossRows& r, BufferId logits, const std::vector<BufferId>& out) {
    const std::string name = n.name + r.suffix;
    const auto ahead = static_cast<std::int16_t>(tokens_ahead(n) + 1);
    const auto part = [&](CrossEntropy::Part p) { return CrossEntropy{p, r.count, cols(n.out[1]), n.fused, ahead, r.first}; };
    const Bytes row{r.count * 4};
    const Placement whole = value(n.out[2]).placement;
    const bool divided = value(n.out[1]).placement.on(Axis::tp) == PlacementKind::sharded;
    const auto reduced = [&](const char* what, BufferId local, Bytes size, bool maximum) {
        if (!divided) return local;
        Placement partial = whole;
        partial.set(Axis::tp, PlacementKind::partial);
        l.buffer(local).placement = partial;
        const BufferId sum = view(n.name + what + r.suffix, local, whole);
        Op& op = emit_collective(n.name + what + ".reduce" + r.suffix, CollectiveKind::all_reduce, size, DType::fp32, local, sum);
        std::get<Collective>(op.work).maximum = maximum;
        return sum;
    };
    const BufferId local_max = make(name + ".local_max", of_rows(value(n.out[0]), r), DType::fp32);
    emit(name + ".max", part(CrossEntropy::Part::maximum), {logits}, {local_max});
    const BufferId max = reduced(".max", local_max, row, true);
    const BufferId local_sums = make(name + ".local_sums", of_rows(value(n.out[2]), r), DType::fp32);
    std::vector<BufferId> sums{out[1], local_sums};
    if (out.size() > 3) sums.push_back(out[3]);
    if (l.practice.shifts_logits_apart && !n.fused) sums.push_back(make(name + ".shifted", of_rows(value(n.out[1]), r), DType::fp32));
    emit(name + ".sums", part(CrossEntropy::Part::sums), {logits, max, tokens_buffer(ahead)}, sums);
    const BufferId stats = reduced(".sums", local_sums, row * 2, false);
    emit(name, part(CrossEntropy::Part::loss), {stats}, {out[0]});
    return {out[1], stats, out.size() > 3 ? out[3] : -1};
}

// The gradient of the logits.
BufferId Emitter::emit_loss_gradient(const Node& n, const LossRows& r, const LossMade& made, const Value& logits) {
    const auto ahead = static_cast<std::int16_t>(tokens_ahead(n) + 1);
    const std::string name = logits.name + ".grad" + r.suffix;
    BufferId dx = -1;
    if (n.in_place) {
        const BufferId kept = l.buffer(made.kept).storage >= 0 ? l.buffer(made.kept).storage : made.kept;
        dx = view(name, kept, l.buffer(made.kept).placement);
    } else {
        dx = make(name, of_rows(logits, r), activation_dtype(s()));
        l.buffer(dx).placement = gradient_placement(logits.placement);
    }
    std::vector<BufferId> in{made.kept, made.stats, tokens_buffer(ahead)}, out{dx};
    if (made.second >= 0) in.push_back(made.second);
    if (n.gradient_twice) {
        const DType wide = l.practice.compiled_loss_casts_apart ? DType::fp32 : value(n.out[1]).dtype;
        out.push_back(make(fmt::format("{}.{}.grad{}", n.name, orrery::name(wide), r.suffix), of_rows(logits, r), wide));
        if (made.second >= 0 && l.practice.hands_logits_out)
            out.push_back(make(n.name + ".handed_out" + r.suffix, of_rows(logits, r), wide));
        // Four copies in fp32 are gone when the 16-bit gradient comes: beside it and the three that are counted, the rest of the fourth.
        if (made.second >= 0 && l.practice.wide_loss_gradient)
            out.push_back(make(n.name + ".exponentials" + r.suffix, of_rows(logits, r), activation_dtype(s())));
    }
    emit(n.name + ".grad" + r.suffix, CrossEntropy{CrossEntropy::Part::gradient, r.count, cols(n.out[1]), n.fused, ahead, r.first}, in,
         out);
    return dx;
}

// The host reads the loss, where software does so.
void Emitter::read_loss(const Node& n, BufferId loss) {
    if (!l.practice.reads_loss || s().runtime.cuda_graphs) return;
    Op read = make_op(n.name + ".read", HostSync{}, {loss}, {});
    read.queue = host_queue;
    push(std::move(read));
}

void Emitter::forward_loss(const Node& n, const Making& m) {
    const LossRows all{0, rows(n.in[0]), m.again ? ".again" : ""};
    const BufferId loss = output(n, 0, m), whose = l.buffer(m.in[0]).storage >= 0 ? l.buffer(m.in[0]).storage : m.in[0];
    std::vector<BufferId> out{loss, -1, -1};
    if (n.in_place) m.out[n.out[1]] = view(value(n.out[1]).name + all.suffix, whose, value(n.out[1]).placement);
    out[1] = output(n, 1, m);
    if (n.out.size() > 3) out.push_back(output(n, 3, m));
    m.out[n.out[2]] = emit_loss(n, all, m.in[0], out).stats;
    if (!m.again) read_loss(n, loss);
}

void Emitter::adjoint_loss(const Node& n, BufferId) {
    const LossMade made{need(n.out[1]), need(n.out[2]), n.out.size() > 3 ? need(n.out[3]) : -1};
    add_gradient(n.in[0], emit_loss_gradient(n, {0, rows(n.in[0]), ""}, made, value(n.in[0])), true);
}

// (Node::late: in the backward pass.)
void Emitter::forward_chunked_loss(const Node&, const Making&) {}

// Rows of the input are read where they stand, and their gradients written so: all other values are of the chunk alone.
void Emitter::adjoint_chunked_loss(const Node& n, BufferId) {
    const ValueId x = n.in[0];
    const bool learns = needs_gradient[n.out[0]] != 0;
    const BufferId input = need(x), dx = learns ? fresh_gradient(x) : -1, loss = make(value(n.out[0]).name, value(n.out[0]), DType::fp32);
    const DType act = activation_dtype(s());
    const std::int64_t all = rows(x), size = (all + n.chunks - 1) / n.chunks;
    const auto& w = value(n.params[0]).shape;
    Value logits = value(n.out[1]);
    logits.name = n.name + ".logits";
    logits.dtype = act;
    const auto product = [&](Direction direction, const LossRows& r, DType out) {
        Linear work{direction, r.count, w[0], w[1], 1, n.gemm_dtype, out};
        work.first = r.first;
        return work;
    };
    for (std::int64_t first = 0, chunk = 0; first < all; first += size, ++chunk) {
        const LossRows r{first, std::min(size, all - first), fmt::format(".{}", chunk)};
        phase = Phase::forward;
        const BufferId y = make(logits.name + r.suffix, of_rows(logits, r), act);
        // (Autocast remembers no cast of a view, as the turned weight is: each chunk has one of its own.)
        const BufferId head = narrows_weight(n, n.params[0]) ? cast_of_weight(n, n.params[0], ".narrow" + r.suffix) : weight(n.params[0]);
        emit(logits.name + r.suffix, product(Direction::forward, r, act), {input, head}, {y});
        std::vector<BufferId> out{loss, -1, -1};
        out[1] = n.in_place ? view(value(n.out[1]).name + r.suffix, y, value(n.out[1]).placement)
                            : make(value(n.out[1]).name + r.suffix, of_rows(value(n.out[1]), r), value(n.out[1]).dtype);
        if (n.out.size() > 3) out.push_back(make(value(n.out[3]).name + r.suffix, of_rows(value(n.out[3]), r), value(n.out[3]).dtype));
        const LossMade made = emit_loss(n, r, y, out);
        if (!learns) continue;
        phase = Phase::backward_input;
        const BufferId dy = emit_loss_gradient(n, r, made, logits);
        if (needs_gradient[x]) emit(logits.name + ".dgrad" + r.suffix, product(Direction::input_gradient, r, act), {dy, head}, {dx});
        phase = Phase::backward_weight;
        if (value(n.params[0]).trained)
            for (Op& op : weight_gradient_ops(n, logits.name + ".wgrad" + r.suffix, product(Direction::weight_gradient, r, act), dy, input))
                push(std::move(op));
        phase = Phase::backward_input;
    }
    read_loss(n, loss);
    if (learns) add_gradient(x, dx, true);
}

void Emitter::forward_join_vocabulary(const Node& n, const Making& m) {
    const Value& part = value(n.in[0]);
    const BufferId parts = make(name_of(n, m) + ".parts", one_behind_another(part), part.dtype), joined = output(n, 0, m);
    gather_columns(name_of(n, m), m.in[0], parts, {joined});
}

// Every rank has the gradient of all logits: it takes that of its own.
void Emitter::adjoint_join_vocabulary(const Node& n, BufferId dy) {
    const BufferId own = fresh_gradient(n.in[0]);
    emit(n.name + ".bwd", Pointwise{PointwiseKind::join_columns, Direction::backward, elements(value(n.in[0])), true}, {dy}, {own});
    add_gradient(n.in[0], own, true);
}

} // namespace orrery
