// Mixtures of experts: what routing, permuting, dispatching and combining become, forward and backward.
//
// Rows travel in one of two ways. Permuted first (all-to-all dispatcher): a row per token and expert, sorted by expert, goes to the
// expert's rank; there, rows of several senders are sorted by local expert. Tokens first (all-gather, DeepEP, HybridEP): tokens travel and
// are permuted where they arrive. The adjoint of either way is the way back, of a gather a reduce-scatter.
#include "sim/plan/emitter.hpp"

#include "sim/scenario/scenario.hpp"

namespace orrery {
namespace {

bool gathers(const Runtime& r) { return r.token_dispatcher == TokenDispatcher::allgather; }

} // namespace

// Padded rows are known beforehand, and kernels that run all experts at once read the counts on the device. Otherwise the host launches
// expert by expert and must know each one's rows, whatever brings them.
bool host_waits_for_counts(const Scenario& s) { return s.model.moe && !s.model.moe->pads() && !s.runtime.fused_experts; }

// cuDNN's grouped products with an activation inside ask for features in whole tiles of 256 on each side of an expert's linears
// (Transformer Engine's forward_grouped_mlp.py checks it, and runs products, activation and casts as kernels of their own where it does not
// hold).
bool experts_fit_tiles(const Scenario& s) {
    const std::int64_t tile = 256;
    return s.model.moe && s.model.hidden_size % tile == 0 && s.model.moe->expert_ffn_size % tile == 0;
}

// torch._grouped_mm reads them on the device, and only an exchange between ranks asks the host for them.
bool Emitter::host_waits() const {
    const bool on_device = l.practice.expert_rows != ExpertRows::kernels && s().strategy.expert_parallel == 1;
    return host_waits_for_counts(s()) && !on_device;
}

// Megatron adds a bias in a sequence of kernels an expert unless the products' kernels do; PyTorch's operators repeat it for all rows at
// once.
bool Emitter::biases_by_expert() const { return !s().runtime.fused_experts && l.practice.expert_rows == ExpertRows::kernels; }

bool Emitter::in_no_graph(const Node& n) const {
    if (!s().runtime.cuda_graphs || !host_waits()) return false;
    if (n.kind == NodeKind::permute || n.kind == NodeKind::unpermute || n.kind == NodeKind::dispatch || n.kind == NodeKind::combine)
        return true;
    const auto of_experts = [&](ValueId v) { return value(v).expert; };
    return std::any_of(n.in.begin(), n.in.end(), of_experts) || std::any_of(n.out.begin(), n.out.end(), of_experts);
}

bool Emitter::made_by_activation(ValueId v) const {
    const std::int32_t node = producer[v];
    return node >= 0 && g.nodes[node].kind == NodeKind::activation;
}

bool Emitter::read_by_activation(ValueId v) const {
    return std::any_of(g.nodes.begin(), g.nodes.end(), [&](const Node& n) { return n.kind == NodeKind::activation && n.in[0] == v; });
}

// The counts of all ranks that rows may come from, to the host, which waits for them where it must.
void Emitter::know_counts(const Node& n, BufferId counts, const std::string& suffix) {
    if (!host_waits_for_counts(s())) return;
    const bool told = n.dispatches_tokens && !gathers(s().runtime); // a dispatch of tokens tells each rank what it will get
    const bool over_ep = s().strategy.expert_parallel > 1, over_tensor = s().strategy.expert_tensor_parallel > 1;
    // (Not behind rows that are on their way: Megatron's dispatcher gathers them over its tp_ep group, which has a stream of its own beside
    // the ep group's; megatron/core/transformer/moe/token_dispatcher.py, preprocess.)
    const char* const comm = over_ep || n.dispatches_tokens ? "ep.etp" : "etp";
    if (!told && (over_ep || over_tensor)) {
        Buffer all = l.buffer(counts);
        const int ranks = size(l.plan, l.comm(comm));
        all.name += ".all" + suffix;
        all.shape = {ranks * l.buffer(counts).shape[0]};
        all.bytes = bytes(all.shape, all.dtype);
        const BufferId gathered = l.add(std::move(all));
        emit_collective(n.name + ".counts" + suffix, CollectiveKind::all_gather, l.buffer(gathered).bytes, DType::int64, counts, gathered,
                        comm);
        counts = gathered;
    }
    if (!told) counts_of.try_emplace(n.layer, counts);
    if (l.practice.static_shapes || !host_waits()) return; // products read them where they are
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

// Whole tokens to every rank that has one of their experts, and the sums of what these bring back.
void Emitter::move_tokens(const std::vector<BufferId>& from, const std::vector<BufferId>& to, bool to_experts, const std::string& name) {
    const MoeSpec& e = *s().model.moe;
    const BufferId outside = to_experts ? from[0] : to[0], inside = to_experts ? to[0] : from[0];
    if (gathers(s().runtime)) {
        collect_rows(name, to_experts ? CollectiveKind::all_gather : CollectiveKind::reduce_scatter, l.buffer(inside).bytes, from, to,
                     "ep.etp");
        return;
    }
    const std::int16_t copies = static_cast<std::int16_t>(e.top_k * s().strategy.expert_tensor_parallel);
    // A token's few probabilities and experts are next to nothing beside its columns.
    const DType dtype = l.buffer(from[0]).dtype;
    const Bytes size = bytes({l.buffer(outside).shape[0] * copies, s().model.hidden_size}, dtype);
    Op op = make_op(name,
                    Collective{CollectiveKind::all_to_all, l.comm("ep.etp"), size, dtype, copies, static_cast<std::int16_t>(e.groups),
                               static_cast<std::int16_t>(e.group_limit)},
                    from, to);
    std::get<Collective>(op.work).tokens = !to_experts                      ? Collective::Tokens::come_back
                                           : phase == Phase::backward_input ? Collective::Tokens::go_again
                                                                            : Collective::Tokens::go;
    op.queue = queue_of(l.comm("ep.etp"));
    push(std::move(op));
}

// A collective over rows and what goes along with each; `most` bounds the rows that are counted, `size` is the bytes of the first buffers.
void Emitter::collect_rows(const std::string& name, CollectiveKind kind, Bytes size, const std::vector<BufferId>& in,
                           const std::vector<BufferId>& out, const char* comm, std::int64_t most) {
    const auto moved = [&](BufferId b) {
        std::vector<std::int64_t> shape = l.buffer(b).shape;
        shape[0] = std::min(shape[0], most);
        return bytes(shape, l.buffer(b).dtype);
    };
    Op op = make_op(name, Collective{kind, l.comm(comm), size, l.buffer(in[0]).dtype}, in, out);
    auto& work = std::get<Collective>(op.work);
    for (std::size_t i = 1; i < in.size(); ++i) work.bytes = work.bytes + std::max(moved(in[i]), moved(out[i]));
    op.queue = queue_of(work.comm);
    push(std::move(op));
}

// Rows (or tokens) from their ranks to the experts' and back, and what goes along with each: from and to have the placements of their ends.
void Emitter::move_rows(const Node& n, const std::vector<BufferId>& from, const std::vector<BufferId>& to, bool to_experts,
                        const std::string& name) {
    if (n.dispatches_tokens) return move_tokens(from, to, to_experts, name);
    const MoeSpec& e = *s().model.moe;
    const Strategy& st = s().strategy;
    const DType dtype = l.buffer(from[0]).dtype;
    const std::int64_t h = s().model.hidden_size;
    const BufferId outside = to_experts ? from[0] : to[0], inside = to_experts ? to[0] : from[0];
    // Stations on the way: outside -> (all-to-all) -> received -> (gather over expert-tensor ranks) -> gathered -> (sort) -> inside.
    const bool exchanges = st.expert_parallel > 1, gathered = st.expert_tensor_parallel > 1;
    const std::int64_t local = e.experts / st.expert_parallel;
    const bool sorts = local > 1;
    const std::int64_t rows = l.buffer(inside).shape[0], part = rows / st.expert_tensor_parallel;
    const std::int64_t arriving = filled(n.kind == NodeKind::dispatch ? n.out[0] : n.in[0]) / st.expert_tensor_parallel;
    std::vector<BufferId> at = from;
    const auto station = [&](const char* what, std::int64_t count, bool shared, bool last) {
        if (last) return to;
        std::vector<BufferId> made;
        for (std::size_t i = 0; i < to.size(); ++i) {
            Buffer b = l.buffer(to_experts ? to[i] : from[i]);
            const PlacementKind whole = b.placement.on(Axis::tp);
            b.name = l.buffer(to[i]).name + what;
            b.shape[0] = count;
            b.bytes = bytes(b.shape, b.dtype);
            b.placement.set(Axis::tp, shared ? whole : PlacementKind::sharded);
            b.storage = -1;
            made.push_back(l.add(std::move(b)));
        }
        return made;
    };
    const auto sort = [&](const std::vector<BufferId>& b) {
        emit(name + ".sort",
             Permute{Permute::Part::sort, to_experts ? Direction::forward : Direction::backward, rows, rows, h, s().runtime.permute_fusion,
                     l.practice.expert_rows, phase == Phase::backward_input},
             with_counts(n, at), b);
        at = b;
    };
    const auto exchange = [&](const std::vector<BufferId>& b) {
        // A rank of the slowest group sends back the rows it receives: its rows bound the exchange.
        const Bytes size = std::max(bytes({arriving, h}, dtype), l.buffer(outside).bytes);
        if (l.practice.worst_case_rows) // what no row fills is zero (ragged_all_to_all writes into jnp.zeros)
            emit(name + ".zeros", Pointwise{PointwiseKind::zero, Direction::forward, l.buffer(b[0]).shape[0] * h, true}, {}, {b[0]});
        collect_rows(name, CollectiveKind::all_to_all, size, at, b, "ep", std::max(arriving, l.buffer(outside).shape[0]));
        block->ops.back().in = with_counts(n, std::move(block->ops.back().in));
        at = b;
    };
    const auto over_tensor = [&](const std::vector<BufferId>& b) {
        collect_rows(name + ".etp", to_experts ? CollectiveKind::all_gather : CollectiveKind::reduce_scatter, bytes({rows, h}, dtype), at,
                     b, "etp");
        block->ops.back().in = with_counts(n, std::move(block->ops.back().in));
        at = b;
    };
    if (to_experts) {
        if (exchanges) exchange(station(".received", part, false, !gathered && !sorts));
        if (gathered) over_tensor(station(".gathered", rows, true, !sorts));
        if (sorts) sort(to);
    } else {
        if (sorts) sort(station(".unsorted", rows, true, !gathered && !exchanges));
        if (gathered) over_tensor(station(".scattered", part, false, !exchanges));
        if (exchanges) exchange(to);
    }
}

// Beside what an op reads of experts' rows: how many each rank sends to each expert, where these numbers are known on the way.
std::vector<BufferId> Emitter::with_counts(const Node& n, std::vector<BufferId> read) {
    const bool of_experts = n.params.empty() || value(n.params[0]).dims[0] == DimKind::expert;
    if (const auto it = counts_of.find(n.layer); of_experts && it != counts_of.end()) read.push_back(it->second);
    return read;
}

void Emitter::forward_route(const Node& n, const Making& m) {
    const MoeSpec& e = *s().model.moe;
    const std::vector<BufferId> read = with_weights(n, {m.in[0]});
    emit(name_of(n, m),
         Router{Direction::forward, rows(n.in[0]), e.experts, e.top_k, e.scoring == RouterScoring::sigmoid, e.groups,
                s().runtime.permute_fusion},
         read, {output(n, 0, m), output(n, 1, m), output(n, 2, m)});
}

// Each choice of experts is an outer product of its weights and its places, and two are added; of more choices the places are whole numbers
// first, and kept for the gradient of the weights.
void Emitter::make_masks(const Node& n, const Making& m) {
    const std::string name = name_of(n, m);
    Value v = value(n.in[1]);
    v.shape = {rows(n.in[0]), rows(n.out[0])};
    const auto one_hot = [&](const std::string& what, DType dtype, std::vector<BufferId> from) {
        const BufferId made = make(name + what, v, dtype);
        emit(name + what, Pointwise{PointwiseKind::one_hot, Direction::forward, elements(v), n.fused}, std::move(from), {made});
        return made;
    };
    const BufferId map = m.in[1], scores = m.in[3];
    const int choices = s().model.moe->top_k;
    Masks masks;
    masks.probabilities = n.in[3];
    BufferId weights = -1;
    if (choices > 2) {
        masks.places = one_hot(".places", DType::fp32, {one_hot(".places.int64", DType::int64, {map})});
        weights = one_hot(".weights", DType::fp32, {scores, masks.places});
    } else {
        weights = one_hot(".weights", DType::fp32, {map, scores});
        if (choices == 2) weights = one_hot(".weights.sum", DType::fp32, {weights, one_hot(".weights.second", DType::fp32, {map, scores})});
    }
    const DType act = activation_dtype(s());
    masks.sent = one_hot(".mask", act, {one_hot(".mask.bool", DType::boolean, {weights})});
    masks.fetched = one_hot(".weights.cast", act, {weights});
    masks_of[n.layer] = masks;
}

// Gradients of the mask's weights, for the product that fetched the rows: dy times the rows in the activations' dtype, cast to fp32, summed
// over each expert's slots.
void Emitter::mask_gradients(const Node& n, BufferId dy) {
    Masks& masks = masks_of.at(n.layer);
    if (!needs_gradient[masks.probabilities]) return;
    Value v = value(n.in[1]);
    v.shape = {rows(n.out[0]), rows(n.in[0])};
    const auto one_hot = [&](const std::string& what, const Value& like, DType dtype, std::vector<BufferId> from) {
        const BufferId made = make(n.name + what, like, dtype);
        l.buffer(made).placement = l.buffer(dy).placement;
        emit(n.name + what, Pointwise{PointwiseKind::one_hot, Direction::backward, elements(v), n.fused}, std::move(from), {made});
        return made;
    };
    const BufferId narrow = one_hot(".weights.grad", v, activation_dtype(s()), {dy, need(n.in[0])});
    std::vector<BufferId> wide{one_hot(".weights.grad.fp32", v, DType::fp32, {narrow})};
    if (masks.places >= 0) wide.push_back(masks.places);
    masks.gradient = one_hot(".scores.grad", value(masks.probabilities), DType::fp32, wide);
}

// Whether rows from several ranks are sorted by expert where they arrive.
bool Emitter::sorts_arrivals() const {
    const Strategy& st = s().strategy;
    const bool moves = st.expert_parallel > 1 || st.expert_tensor_parallel > 1;
    return moves && s().runtime.token_dispatcher == TokenDispatcher::alltoall && s().model.moe->experts / st.expert_parallel > 1;
}

// Whether rows are padded, and taken out of the padded ones again, by an index of their own: a sort where rows arrive pads them as well.
bool Emitter::pads_rows() const { return l.practice.expert_rows == ExpertRows::padded && !sorts_arrivals(); }

// By an index; where the experts' kernel wants rows padded, by a second one to these.
void Emitter::forward_permute(const Node& n, const Making& m) {
    if (!n.dispatches_tokens) know_counts(n, m.in[2], m.again ? ".again" : "");
    const bool padded = pads_rows();
    const BufferId sent = output(n, 0, m), gathered = padded ? make(name_of(n, m) + ".rows", value(n.out[0]), dtype_of(n)) : sent;
    std::vector<BufferId> read{m.in[0], m.in[1], m.in[3]};
    if (l.practice.keeps_masks) {
        make_masks(n, m);
        read.push_back(masks_of.at(n.layer).sent);
    }
    emit(name_of(n, m),
         Permute{Permute::Part::gather, Direction::forward, rows(n.in[0]), rows(n.out[0]), cols(n.out[0]), s().runtime.permute_fusion,
                 l.practice.expert_rows},
         std::move(read), {gathered, output(n, 1, m)});
    if (padded)
        emit(name_of(n, m) + ".pad", Pointwise{PointwiseKind::pad_rows, Direction::forward, elements(value(n.out[0])), n.fused}, {gathered},
             {sent});
}

void Emitter::forward_dispatch(const Node& n, const Making& m) {
    if (n.dispatches_tokens) know_counts(n, m.in[1], m.again ? ".again" : "");
    std::vector<BufferId> from{m.in[0]};
    from.insert(from.end(), m.in.begin() + 2, m.in.end());
    move_rows(n, from, outputs(n, m), true, name_of(n, m));
}

void Emitter::forward_combine(const Node& n, const Making& m) { move_rows(n, {m.in[0]}, {output(n, 0, m)}, false, name_of(n, m)); }

void Emitter::forward_weigh(const Node& n, const Making& m) {
    emit(name_of(n, m), Pointwise{PointwiseKind::weigh, Direction::forward, elements(value(n.out[0])), n.fused}, m.in, {output(n, 0, m)});
}

void Emitter::forward_weighted_bias(const Node& n, const Making& m) {
    const bool fused = s().runtime.fused_experts;
    emit(name_of(n, m),
         Pointwise{PointwiseKind::weighted_bias, Direction::forward, elements(value(n.out[0])), n.fused, fused, biases_by_expert()},
         with_counts(n, {m.in[0], m.in[1], weight(n.params[0])}), {output(n, 0, m)});
}

// The experts' rows in fp32, which are kept for the gradient of their weights.
BufferId Emitter::widen_rows(const Node& n, const std::string& name, BufferId rows) {
    const Value& v = value(n.in[0]);
    const BufferId wide = make(name + ".rows.fp32", v, DType::fp32);
    emit(name + ".widen", Pointwise{PointwiseKind::cast, Direction::forward, elements(v), n.fused}, {rows}, {wide});
    wide_rows[n.layer] = wide;
    return wide;
}

// What of the experts' rows is summed. By an index: out of the padded rows, in fp32; or weighted, where a compiler makes one kernel of it
// all, which leaves the rows themselves for the gradient of the weights.
BufferId Emitter::rows_to_sum(const Node& n, const std::string& name, BufferId rows) {
    const Value& v = value(n.in[0]);
    if (l.practice.expert_rows == ExpertRows::padded) {
        BufferId plain = rows;
        if (pads_rows()) {
            plain = make(name + ".rows", v, v.dtype);
            emit(name + ".unpad", Pointwise{PointwiseKind::pad_rows, Direction::input_gradient, elements(v), n.fused}, {rows}, {plain});
        }
        return widen_rows(n, name, plain);
    }
    if (l.practice.expert_rows != ExpertRows::added) return rows;
    const BufferId read = n.fused ? rows : widen_rows(n, name, rows), scored = make(name + ".scored", v, v.dtype);
    emit(name + ".score", Pointwise{PointwiseKind::score_rows, Direction::forward, elements(v), n.fused}, {read}, {scored});
    return scored;
}

void Emitter::forward_unpermute(const Node& n, const Making& m) {
    std::vector<BufferId> in = m.in;
    in[0] = rows_to_sum(n, name_of(n, m), in[0]);
    if (l.practice.keeps_masks) in.push_back(masks_of.at(n.layer).fetched);
    emit(name_of(n, m),
         Permute{Permute::Part::scatter, Direction::forward, rows(n.out[0]), rows(n.in[0]), cols(n.out[0]), s().runtime.permute_fusion,
                 l.practice.expert_rows},
         in, {output(n, 0, m)});
}

bool Emitter::sums_read_rows(const Node& n) const {
    const ExpertRows by = l.practice.expert_rows;
    const bool reads =
        l.practice.keeps_masks || l.practice.loops_over_experts || by == ExpertRows::gathered || (by == ExpertRows::added && n.fused);
    return n.kind == NodeKind::unpermute && reads;
}

// How many rows of whole sequences each expert has: the sum over the ranks that hold parts of them (Megatron-Core reduces over its
// tensor-and-context-parallel group).
BufferId Emitter::loads_of_sequence(const Node& n) {
    const BufferId own = need(n.out[2]);
    const bool tensor = l.tp() > 1, context = s().strategy.context_parallel > 1;
    if (!tensor && !context) return own;
    const char* const comm = tensor && context ? "tp.cp" : tensor ? "tp" : "cp";
    const BufferId all = make(value(n.out[2]).name + ".sum", value(n.out[2]), DType::int64);
    emit_collective(n.name + ".loads", CollectiveKind::all_reduce, l.buffer(all).bytes, DType::int64, own, all, comm);
    return all;
}

void Emitter::adjoint_route(const Node& n, BufferId dy) {
    const bool fused = s().runtime.permute_fusion;
    const MoeSpec& e = *s().model.moe;
    std::vector<BufferId> read{dy, need(n.out[0]), need(n.out[1])}, written;
    if (e.auxiliary_loss) { // its gradient is that of shares of tokens times mean probabilities: a constant per expert
        const BufferId sum = view(value(n.out[0]).name + ".grad.aux", dy, l.buffer(dy).placement);
        emit(n.name + ".auxiliary", Pointwise{PointwiseKind::balance, Direction::backward, elements(value(n.out[0])), true},
             {dy, read[1], loads_of_sequence(n)}, {sum});
        read[0] = sum;
    }
    written.push_back(fresh_gradient(n.in[0]));
    for (ValueId p : n.params) { // a bias against unequal loads: what it is corrected by are the loads, summed like a gradient
        if (!value(p).trained) continue;
        read.push_back(weight_gradient(p));
        written.push_back(weight_gradient(p));
    }
    emit(n.name + ".bwd",
         Router{Direction::backward, rows(n.in[0]), e.experts, e.top_k, e.scoring == RouterScoring::sigmoid, e.groups, fused}, read,
         written);
    add_gradient(n.in[0], written[0], true);
}

void Emitter::adjoint_permute(const Node& n, BufferId dy) {
    const bool fused = s().runtime.permute_fusion;
    const BufferId dx = fresh_gradient(n.in[0]), dp = fresh_gradient(n.in[3], ".grad", DType::fp32);
    if (pads_rows()) {
        const BufferId plain = fresh_gradient(n.out[0], ".rows.grad");
        emit(n.name + ".pad.bwd", Pointwise{PointwiseKind::pad_rows, Direction::backward, elements(value(n.out[0])), n.fused}, {dy},
             {plain});
        dy = plain;
    }
    std::vector<BufferId> read{dy, gradient_of(n.out[1]), need(n.in[1]), need(n.in[3])};
    if (l.practice.keeps_masks) {
        const Masks& masks = masks_of.at(n.layer);
        read.push_back(masks.sent);
        if (masks.gradient >= 0) read.push_back(masks.gradient);
    }
    emit(n.name + ".bwd",
         Permute{Permute::Part::scatter, Direction::backward, rows(n.in[0]), rows(n.out[0]), cols(n.out[0]), fused, l.practice.expert_rows},
         std::move(read), {dx, dp});
    add_gradient(n.in[0], dx, true);
    add_gradient(n.in[3], dp, true);
}

// Operands with a gradient come back: rows or tokens, and their probabilities.
void Emitter::adjoint_dispatch(const Node& n, BufferId dy) {
    std::vector<BufferId> from{dy, gradient_of(n.out[1])}, to{fresh_gradient(n.in[0]), fresh_gradient(n.in[2], ".grad", DType::fp32)};
    move_rows(n, from, to, false, n.name + ".adjoint");
    flush_weight_ops();
    add_gradient(n.in[2], to[1], true);
    add_gradient(n.in[0], to[0], true);
}

void Emitter::adjoint_combine(const Node& n, BufferId dy) {
    dy = cast_gradient(n, n.out[0], dy, n.gradient_dtype);
    const BufferId dx = fresh_gradient(n.in[0], ".grad", n.gradient_dtype);
    move_rows(n, {dy}, {dx}, true, n.name + ".adjoint");
    flush_weight_ops();
    add_gradient(n.in[0], dx, true);
}

void Emitter::adjoint_weigh(const Node& n, BufferId dy) {
    const BufferId dx = fresh_gradient(n.in[0]), dp = fresh_gradient(n.in[1], ".grad", DType::fp32);
    const BufferId x = need(n.in[0]), p = need(n.in[1]);
    emit(n.name + ".bwd", Pointwise{PointwiseKind::weigh, Direction::backward, elements(value(n.out[0])), n.fused}, {dy, x, p}, {dx, dp});
    add_gradient(n.in[0], dx, true);
    add_gradient(n.in[1], dp, true);
}

// The rows' gradient is dy itself; d probability = dy b, db = the sum of p dy.
void Emitter::adjoint_weighted_bias(const Node& n, BufferId dy) {
    if (needs_gradient[n.in[1]]) {
        const BufferId dp = fresh_gradient(n.in[1], ".bias.grad", DType::fp32);
        emit(n.name + ".bwd",
             Pointwise{PointwiseKind::weighted_bias, Direction::backward, elements(value(n.out[0])), n.fused, false, biases_by_expert()},
             with_counts(n, {dy, weight(n.params[0])}), {dp});
        add_gradient(n.in[1], dp, true);
    }
    if (value(n.params[0]).trained) {
        const BufferId db = weight_gradient(n.params[0]);
        emit(n.name + ".grad",
             Pointwise{PointwiseKind::weighted_bias, Direction::weight_gradient, elements(value(n.out[0])), n.fused, false,
                       biases_by_expert()},
             with_counts(n, {dy, need(n.in[1]), db}), {db});
    }
    add_gradient(n.in[0], dy, false);
}

void Emitter::adjoint_unpermute(const Node& n, BufferId dy) {
    const bool fused = s().runtime.permute_fusion;
    dy = cast_gradient(n, n.out[0], dy, n.gradient_dtype);
    const BufferId drows = fresh_gradient(n.in[0], ".grad", n.gradient_dtype);
    std::vector<BufferId> read{dy, need(n.in[1])}, weighted; // for the gradient of the weights, the rows themselves
    if (sums_read_rows(n)) weighted.push_back(need(n.in[0]));
    if (const auto wide = wide_rows.find(n.layer); wide != wide_rows.end()) weighted.push_back(wide->second);
    if (l.practice.keeps_masks) {
        read.push_back(masks_of.at(n.layer).fetched);
        mask_gradients(n, dy);
    }
    const bool apart = l.practice.expert_rows == ExpertRows::added, padded = pads_rows();
    if (!apart) read.insert(read.end(), weighted.begin(), weighted.end());
    const BufferId back = apart    ? fresh_gradient(n.in[0], ".scored.grad", n.gradient_dtype)
                          : padded ? fresh_gradient(n.in[0], ".rows.grad", n.gradient_dtype)
                                   : drows;
    emit(n.name + ".bwd",
         Permute{Permute::Part::gather, Direction::backward, rows(n.out[0]), rows(n.in[0]), cols(n.out[0]), fused, l.practice.expert_rows},
         read, {back});
    if (apart)
        emit(n.name + ".score.bwd", Pointwise{PointwiseKind::score_rows, Direction::backward, elements(value(n.in[0])), n.fused},
             {back, weighted.front()}, {drows});
    if (padded)
        emit(n.name + ".unpad.bwd", Pointwise{PointwiseKind::pad_rows, Direction::weight_gradient, elements(value(n.in[0])), n.fused},
             {back}, {drows});
    add_gradient(n.in[0], drows, true);
}

} // namespace orrery
