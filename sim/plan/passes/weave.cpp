// Data parallelism woven into a stage's program: parameters are gathered before the units that read them and released after, gradients
// reduced as soon as their last summand is there, once a step or once a run of microbatches.
#include "sim/plan/passes/weaver.hpp"

#include <algorithm>

namespace orrery {

Weaver::RunPosition Weaver::run_position(const Part& part) const {
    const std::int64_t microbatches = l.plan.microbatches / l.plan.directions;
    const std::int64_t limit = l.plan.chunks_per_stage > 1 ? std::min<std::int64_t>(l.plan.stages, microbatches) : 1;
    const std::int64_t k = static_cast<std::int64_t>((part.kind == StepKind::weight ? completed : position)[part.index]);
    const bool last = k + 1 == microbatches;
    return {k % limit == 0, last || (k + 1) % limit == 0, last};
}

void Weaver::number_steps() {
    std::map<std::pair<int, int>, std::size_t> counts;
    position.assign(steps.size(), 0);
    completed.assign(steps.size(), 0);
    for (std::size_t i = 0; i < steps.size(); ++i) {
        if (steps[i].is_exchange) continue;
        const ScheduleStep& s = steps[i].step;
        if (s.kind != StepKind::weight) position[i] = counts[{s.kind == StepKind::forward ? 0 : 1, s.chunk}]++;
        if (s.kind == StepKind::weight || s.kind == StepKind::backward) completed[i] = counts[{2, s.chunk}]++;
    }
}

Weaver::Woven Weaver::woven(const Part& part) const {
    const RunPosition at = run_position(part);
    const bool forward = part.kind == StepKind::forward, completes = part.kind == StepKind::weight || part.kind == StepKind::backward;
    const bool begins_backward = part.kind == StepKind::input || part.kind == StepKind::backward;
    Woven w;
    w.reduce_run = completes && dp.reduces_each_run() && at.ends;
    w.reduce_step = completes && dp.active() && at.last_of_chunk && l.scenario.strategy.overlap.grad_reduce;
    w.gather = dp.gathers_in_step && at.starts && (forward || (!dp.keeps_until_backward && begins_backward));
    w.release = dp.gathers_in_step && at.ends && (forward ? !dp.keeps_until_backward : begins_backward);
    w.acquire = begins_backward && (dp.reduces_each_run() ? at.starts : dp.made_in_backward && position[part.index] == 0);
    return w;
}

namespace {

bool among(const std::vector<const Bucket*>& list, const Bucket* b) { return std::find(list.begin(), list.end(), b) != list.end(); }

bool once(std::vector<const Bucket*>& list, const Bucket* b) {
    if (among(list, b)) return false;
    list.push_back(b);
    return true;
}

// The last piece that wants a bucket's weights, and the last that makes its gradients.
struct LastUse {
    std::map<const Bucket*, std::size_t> weights, gradients;
    explicit LastUse(const std::vector<Weaver::Piece>& pieces) {
        for (std::size_t i = 0; i < pieces.size(); ++i) {
            for (const Bucket* b : pieces[i].weights) weights[b] = i;
            for (const Bucket* b : pieces[i].gradients) gradients[b] = i;
        }
    }
};

// Flat units have two gathers in flight at most: a layer whose experts are a unit of their own has both.
bool both_in_one_layer(const Practice& practice, const std::vector<Weaver::Piece>& pieces) {
    return practice.sharding == Sharding::flat_units && std::any_of(pieces.begin(), pieces.end(), [](const Weaver::Piece& p) {
               return std::any_of(p.weights.begin(), p.weights.end(), [](const Bucket* b) { return b->expert && b->gather >= 0; });
           });
}

// The gathers that one part of a step needs before its pieces, and the releases and reductions after them.
struct Weaving {
    Weaver& w;
    const Weaver::Part& part;
    const ScheduleStep& step = w.steps[part.index].step;
    Weaver::Woven now = w.woven(part);
    const std::vector<Weaver::Piece>& pieces = w.pieces_of(part.block, step.chunk);
    LastUse last{pieces};
    bool forward = part.kind == StepKind::forward;
    // FSDP's root unit (embedding and head) stays gathered through forward and backward; what is gathered weight by weight has no root.
    bool whole_root = w.l.plan.stages == 1 && !w.dp.weight_by_weight;
    std::vector<std::int32_t> piece_action = std::vector<std::int32_t>(pieces.size(), -1);
    std::vector<const Bucket*> gathered = {}, acquired = {}, to_copy = {};
    // How many units are gathered at once, the one in use among them. Of single weights one more, assumed: XLA's scheduler starts a gather
    // as early as hides it, and the work under a small weight hides no large one.
    std::size_t ahead = !w.l.scenario.strategy.overlap.param_gather || both_in_one_layer(w.l.practice, pieces) ? 1
                        : w.dp.weight_by_weight                                                                ? 3
                                                                                                               : 2;
    std::int32_t unhidden = -1; // a reduction that the next piece has to wait for

    bool root(int unit) const {
        const UnitKind kind = w.l.graphs[static_cast<std::size_t>(step.chunk)].unit_kinds[static_cast<std::size_t>(unit)];
        return whole_root && (kind == UnitKind::embedding || kind == UnitKind::head);
    }
    // Gathered in the forward pass and kept until the backward pass is through.
    bool kept(const Bucket& b) const {
        return w.dp.keeps_until_backward ||
               std::any_of(b.units.begin(), b.units.end(), [&](int u) { return b.chunk == step.chunk && root(u); });
    }
    // The parameters of piece i, kept at most a given number of units ahead of the computation.
    void gather(std::size_t i) {
        if (!now.gather) return;
        for (const Bucket* b : pieces[i].weights) {
            if (b->gather < 0 || (!forward && kept(*b)) || !once(gathered, b) || w.uses[b].weights++ > 0) continue;
            const std::int32_t a = w.push_block(b->gather);
            if (b->copy_out >= 0) to_copy.push_back(b);
            if (i >= ahead && piece_action[i - ahead] >= 0) w.wait_for_action(a, w.first_timed_op(b->gather), piece_action[i - ahead]);
            // A parameter that is gathered where it is used is requested after the reduction that nothing hides.
            if (ahead == 1 && unhidden >= 0) w.wait_for_action(a, w.first_timed_op(b->gather), unhidden);
        }
    }
    // Parameters gathered for piece i are stored where its parameters are.
    void copy_out(std::size_t i) {
        for (const Bucket* b : pieces[i].weights)
            if (std::erase(to_copy, b) > 0) w.push_block(b->copy_out);
    }
    void gather_roots() {
        if (!forward || !whole_root) return;
        for (std::size_t i = 0; i < pieces.size(); ++i)
            if (root(pieces[i].unit)) gather(i);
    }
    void acquire(std::size_t i) {
        if (!now.acquire) return;
        for (const Bucket* b : pieces[i].gradients)
            if (b->acquire >= 0 && once(acquired, b) && w.uses[b].gradients++ == 0) w.push_block(b->acquire);
    }
    void release(const Bucket* b) {
        if (now.release && b->release >= 0 && w.uses[b].weights > 0 && --w.uses[b].weights == 0) w.push_block(b->release);
    }
    void reduce(const Bucket* b) {
        if (!(w.dp.reduces_each_run(*b) ? now.reduce_run : now.reduce_step)) return;
        if (b->reduce < 0 || w.uses[b].gradients == 0 || --w.uses[b].gradients > 0) return;
        const std::int32_t a = w.push_block(b->reduce);
        if (!w.l.scenario.strategy.overlap.grad_reduce && w.dp.reduces_each_run(*b)) unhidden = a;
    }
    // Behind piece i: the buckets that no later piece touches, or that the next one gathers anew.
    void settle(std::size_t i) {
        const Weaver::Piece& piece = pieces[i];
        const bool anew = now.gather && i + 1 < pieces.size() && pieces[i + 1].again;
        for (const Bucket* b : piece.weights) {
            if (anew && !kept(*b) && std::erase(gathered, b) > 0) release(b);
            if (last.weights.at(b) == i && !(forward && kept(*b))) release(b);
        }
        for (const Bucket* b : piece.gradients)
            if (last.gradients.at(b) == i) reduce(b);
    }
    // Buckets without a piece of their own in this block: the chunk's, and others that its other half adds to (an embedding of further
    // tokens).
    void settle_rest() {
        for (const Bucket* b : w.added_to(step.chunk)) {
            if (!forward && b->chunk == step.chunk && kept(*b) && !last.weights.contains(b)) release(b);
            if (!last.gradients.contains(b)) reduce(b);
        }
    }
};

} // namespace

void Weaver::run_part(const Part& part) {
    const std::array<std::int32_t, max_ports> mb{steps[part.index].step.microbatch, -1, -1, -1};
    if (!woven(part).any()) {
        push(part.block, 0, static_cast<std::int32_t>(l.plan.blocks[static_cast<std::size_t>(part.block)].ops.size()), mb);
        return;
    }
    Weaving weaving{*this, part};
    weaving.gather_roots();
    std::size_t next = 0;
    for (std::size_t i = 0; i < weaving.pieces.size(); ++i) {
        const Piece& piece = weaving.pieces[i];
        for (; next < weaving.pieces.size() && next < i + weaving.ahead; ++next) weaving.gather(next);
        weaving.copy_out(i);
        weaving.acquire(i);
        weaving.piece_action[i] = push(part.block, piece.first, piece.last, mb);
        if (const std::int32_t op = first_timed_op(part.block, piece.first, piece.last); weaving.unhidden >= 0 && op >= 0) {
            wait_for_action(weaving.piece_action[i], op, weaving.unhidden);
            weaving.unhidden = -1;
        }
        weaving.settle(i);
    }
    weaving.settle_rest();
}

// A joined block is not cut: what its parts want gathered comes before it, a unit after another, and what they leave after it.
void Weaver::run_together(const std::vector<Part>& parts) {
    std::vector<Weaving> all;
    for (const Part& p : parts)
        if (woven(p).any()) all.push_back(Weaving{*this, p});
    for (Weaving& weaving : all) {
        weaving.gather_roots();
        for (std::size_t i = 0; i < weaving.pieces.size(); ++i) {
            weaving.gather(i);
            weaving.copy_out(i);
            weaving.acquire(i);
        }
    }
    push_joined(parts);
    for (Weaving& weaving : all) {
        for (std::size_t i = 0; i < weaving.pieces.size(); ++i) weaving.settle(i);
        weaving.settle_rest();
    }
}

void Weaver::find_buckets() {
    for (const auto& of_chunk : dp.buckets)
        for (const Bucket& b : of_chunk)
            for (std::int32_t i : b.parameters) {
                if (b.stage != stage) continue;
                const Parameter& p = l.parameters[static_cast<std::size_t>(stage)][static_cast<std::size_t>(i)];
                bucket_of_buffer[p.weight] = bucket_of_buffer[p.gradient] = &b;
            }
    if (!dp.active()) return;
    // Reduced once a step: when every chunk that adds to it has done so.
    for (int c = 0; c < static_cast<int>(l.chunks.size()); ++c) {
        if (l.graphs[static_cast<std::size_t>(c)].stage != stage) continue;
        for (const Bucket* b : added_to(c))
            if (!dp.reduces_each_run(*b)) ++uses[b].gradients;
    }
}

std::vector<const Bucket*> Weaver::added_to(int chunk) {
    const ChunkBlocks& ends = l.chunks[static_cast<std::size_t>(chunk)];
    std::vector<const Bucket*> met;
    const auto meet = [&](const Bucket* b) { once(met, b); };
    for (const Bucket& b : dp.buckets[static_cast<std::size_t>(chunk)]) meet(&b);
    for (std::int32_t block : {ends.backward, ends.weight}) {
        if (block < 0) continue;
        for (const Piece& p : pieces_of(block, chunk))
            for (const Bucket* b : p.gradients) meet(b);
    }
    return met;
}

bool Weaver::gathers_behind_recomputation() const {
    const Strategy& st = l.scenario.strategy;
    return l.practice.gathers_where_used && st.zero_stage == 3 && !st.overlap.param_gather;
}

// The first op of [begin, end) after the recomputation it starts with; end where there is none of either.
std::int32_t Weaver::behind_recomputation(const Block& block, std::int32_t begin, std::int32_t end) const {
    std::int32_t last = end;
    for (std::int32_t i = begin; i < end; ++i)
        if (block.ops[static_cast<std::size_t>(i)].phase == Phase::recompute) last = i + 1;
    return last;
}

// A unit cut before each op that is the first to touch a weight that is a bucket of its own; smaller ones come with the op that first reads
// them.
void Weaver::cut_by_weight(const Block& block, const Piece& unit, std::vector<Piece>& pieces) const {
    Piece piece{unit.first, unit.first, unit.unit, {}, {}};
    std::vector<const Bucket*> own, touched; // buckets of their own: of the piece, of an op (it may read two: a weight and its bias)
    std::int32_t group = unit.first;         // where the allocations before the next op begin
    for (std::int32_t i = unit.first; i < unit.last; ++i) {
        const Op& op = block.ops[static_cast<std::size_t>(i)];
        if (std::holds_alternative<Alloc>(op.work)) continue;
        touched.clear();
        each_bucket(op, [&](const Bucket* b, BufferId) {
            if (b->alone) once(touched, b);
        });
        if (!own.empty() && std::any_of(touched.begin(), touched.end(), [&](const Bucket* b) { return !among(own, b); })) {
            piece.last = group;
            pieces.push_back(std::move(piece));
            piece = {group, group, unit.unit, {}, {}};
            own.clear();
        }
        for (const Bucket* b : touched) once(own, b);
        each_bucket(op, [&](const Bucket* b, BufferId id) {
            once(l.buffer(id).kind == MemoryKind::gradients ? piece.gradients : piece.weights, b);
        });
        group = i + 1;
    }
    piece.last = unit.last;
    pieces.push_back(std::move(piece));
}

const std::vector<Weaver::Piece>& Weaver::pieces_of(std::int32_t id, int chunk) {
    const auto [it, fresh] = pieces_of_block.try_emplace(id);
    std::vector<Piece>& pieces = it->second;
    if (!fresh) return pieces;
    const Block& block = l.plan.blocks[static_cast<std::size_t>(id)];
    for (std::size_t u = 0; u < block.unit_begin.size(); ++u) {
        const std::int32_t begin = block.unit_begin[u],
                           end = u + 1 < block.unit_begin.size() ? block.unit_begin[u + 1] : static_cast<std::int32_t>(block.ops.size());
        if (begin == end) continue;
        Piece p{begin, end, block.ops[static_cast<std::size_t>(begin)].unit, {}, {}};
        if (dp.weight_by_weight) {
            cut_by_weight(block, p, pieces);
            continue;
        }
        for (const Bucket& b : dp.buckets[static_cast<std::size_t>(chunk)])
            if (std::find(b.units.begin(), b.units.end(), p.unit) != b.units.end()) once(p.weights, &b);
        for (std::int32_t i = begin; i < end; ++i)
            each_bucket(block.ops[static_cast<std::size_t>(i)], [&](const Bucket* b, BufferId) { once(p.weights, b); });
        p.gradients = p.weights;
        const std::int32_t cut = gathers_behind_recomputation() ? behind_recomputation(block, begin, end) : end;
        if (cut < end) {
            pieces.push_back({begin, cut, p.unit, p.weights, p.gradients});
            p.first = cut;
            p.again = true;
        }
        pieces.push_back(std::move(p));
    }
    return pieces;
}

} // namespace orrery
