// Data parallelism in the drafts: parameters are gathered before the units that read them and released after, gradients reduced as soon as
// their last summand is there, once a step or once a run of microbatches. The blocks that do it come from `buckets`.
//
// After it: every piece of computation has the parameters it reads, and every gradient is reduced over its replicas. Compute steps are cut
// where something stands between their ops.
#include "sim/plan/passes/offload_shards.hpp"
#include "sim/plan/passes/passes.hpp"
#include "sim/plan/passes/pieces.hpp"

#include <algorithm>
#include <map>
#include <set>
#include <utility>

namespace orrery {
namespace {

// Where a part stands in its run: consecutive steps of its kind on its chunk, at most microbatch_group() long, of one where a rank has one
// chunk. Data-parallel blocks that repeat within a step do so once a run.
struct RunPosition {
    bool starts, ends, first_of_chunk, last_of_chunk;
};

// Which data-parallel blocks stand before, in or after a part.
struct Woven {
    bool reduce_run = false, reduce_step = false; // reduces buckets each run; those of a whole step
    bool gather = false, release = false, acquire = false;
    bool last = false; // of its chunk in the step: what copies of a shard add once they add now
    bool update = false;
    bool any() const { return reduce_run || reduce_step || gather || release || acquire || update; }
};

// A part of an action, and what stands around it.
struct WovenPart {
    DraftPart part;
    Woven now;
};

// How many runs use a bucket's gathered weights now, and how many will still add to its gradients: runs of different chunks and directions
// overlap.
struct Use {
    int weights = 0, gradients = 0;
};

// The last piece that wants a bucket's weights, and the last that makes its gradients.
struct LastUse {
    std::map<const Bucket*, std::size_t> weights, gradients;
    explicit LastUse(const std::vector<BlockPiece>& pieces) {
        for (std::size_t i = 0; i < pieces.size(); ++i) {
            for (const Bucket* b : pieces[i].weights) weights[b] = i;
            for (const Bucket* b : pieces[i].gradients) gradients[b] = i;
        }
    }
};

// One stage's draft as data parallelism is woven in.
class Weaver {
  public:
    Weaver(Lowering& l, int stage);
    void run();

    Lowering& l;
    const DataParallel& dp = l.data_parallel;
    BlockPieces pieces;
    std::map<const Bucket*, Use> uses;
    std::map<const Bucket*, int> unfinished; // chunks that will still add to its gradients in this step
    std::set<const Bucket*> reduced;         // those of which a run of this step has been
    std::int32_t drop = -1;                  // the block that lets go of what the last reduction reads; -1: none
    std::map<const std::vector<BlockPiece>*, LastUse> last_uses;

    DraftAction& push(DraftAction action) { return draft_.actions.emplace_back(std::move(action)); }
    DraftAction& push(std::int32_t block) { return push(run_of(l.plan, draft_, block)); }
    const Block& block(std::int32_t id) const { return l.plan.blocks[id]; }
    std::int32_t new_id() { return draft_.ids++; }

  private:
    bool deferred_adds_to(int chunk, const Bucket* b); // beside what its backward block adds
    RunPosition position(const DraftPart& part);
    Woven woven(const DraftPart& part);
    void compute(DraftAction action);
    void run_together(DraftAction action, const std::vector<WovenPart>& parts);
    void run_apart(const DraftAction& action, const WovenPart& part);
    void reduce_at_the_end();
    // Where steps flow into each other a step's reductions stand behind its last backward pass, with its update.
    bool reduces_early() const { return l.scenario.strategy.overlap.grad_reduce && !l.schedule->asynchronous; }

    int stage_;
    Draft& draft_;
    std::map<std::pair<int, int>, std::int64_t> met_; // steps so far by kind (forward, backward, weight) and chunk
};

// Flat units have two gathers in flight at most: a layer whose experts are a unit of their own has both.
bool both_in_one_layer(const Practice& practice, const std::vector<BlockPiece>& pieces) {
    return practice.sharding == Sharding::flat_units && std::any_of(pieces.begin(), pieces.end(), [](const BlockPiece& p) {
               return std::any_of(p.weights.begin(), p.weights.end(), [](const Bucket* b) { return b->expert && b->gather >= 0; });
           });
}

// The gathers that one part of a step needs before its pieces, and the releases and reductions after them.
struct Weaving {
    Weaver& w;
    const WovenPart& woven;
    const ScheduleStep& step = woven.part.step;
    const Woven& now = woven.now;
    const std::vector<BlockPiece>& pieces = w.pieces.of(woven.part.block, step.chunk);
    const LastUse& last = w.last_uses.try_emplace(&pieces, pieces).first->second;
    bool forward = step.kind == StepKind::forward;
    // Embedding and head may stay gathered through forward and backward (root, kept); what is gathered weight by weight has no root.
    bool whole_root = w.l.plan.stages == 1 && !w.dp.weight_by_weight;
    std::vector<std::int32_t> piece_action = std::vector<std::int32_t>(pieces.size(), -1); // ids
    std::vector<const Bucket*> gathered = {}, acquired = {}, to_copy = {};
    // How many units are gathered at once, the one in use among them. One more where single weights are gathered (assumed): XLA's scheduler
    // starts a gather as early as hides it, and the work under a small weight hides no large one.
    std::size_t ahead = !(w.dp.fetches ? w.l.scenario.strategy.overlap.offload : w.l.scenario.strategy.overlap.param_gather) ||
                                both_in_one_layer(w.l.practice, pieces) || behind_reductions()
                            ? 1
                        : w.dp.weight_by_weight ? 3
                                                : 2;
    std::int32_t unhidden = -1; // a reduction that the next piece has to wait for

    // Without backward prefetch the parameters of a unit (of FullyShardedDataParallel, or of DeepSpeed's ZeRO-3) are asked for where the
    // backward pass comes to it, which is behind the reduction of the unit before: both are of one communicator. Where nothing is reduced,
    // as in the forward pass, the host is ahead of the device and asks in time.
    bool behind_reductions() const {
        const bool of_one_communicator = w.l.practice.sharding == Sharding::flat_units || w.l.practice.copies_with_collectives;
        return !forward && of_one_communicator && !w.l.scenario.strategy.overlap.backward_prefetch && (now.reduce_run || now.reduce_step);
    }
    bool is(int unit, UnitKind kind) const { return w.l.graphs[step.chunk].unit_kinds[unit] == kind; }
    // A unit of the root, which is gathered as a pass begins.
    bool root(int unit) const {
        return whole_root && w.l.practice.root_is_a_unit && (is(unit, UnitKind::embedding) || is(unit, UnitKind::head));
    }
    // By the backward pass: the output layer.
    bool is_wanted_first(int unit) const {
        return whole_root && (is(unit, UnitKind::head) || (w.l.scenario.model.tied_embeddings && is(unit, UnitKind::embedding)));
    }
    // Gathered in the forward pass and kept until the backward pass is through.
    bool kept(const Bucket& b) const {
        if (among(w.pieces.read_late(step.chunk), &b)) return false;
        return w.dp.keeps_until_backward ||
               std::any_of(b.units.begin(), b.units.end(), [&](int u) { return b.chunk == step.chunk && (root(u) || is_wanted_first(u)); });
    }
    // The parameters of piece i, kept at most a given number of units ahead of the computation.
    void gather(std::size_t i) {
        if (!now.gather) return;
        for (const Bucket* b : pieces[i].weights) {
            if (b->gather < 0 || (!forward && kept(*b)) || !once(gathered, b) || w.uses[b].weights++ > 0) continue;
            const std::int32_t block = !forward && b->gather_again >= 0 ? b->gather_again : b->gather;
            if (block == b->gather && b->read >= 0) w.push(b->read);
            DraftAction& a = w.push(block);
            if (b->copy_out >= 0) to_copy.push_back(b);
            const std::int32_t op = first_timed_op(w.block(block), 0, a.run.last);
            if (i >= ahead && piece_action[i - ahead] >= 0) a.waits.push_back({op, piece_action[i - ahead]});
            // A parameter that is gathered where it is used is requested after the reduction that nothing hides.
            if (ahead == 1 && unhidden >= 0) a.waits.push_back({op, unhidden});
        }
    }
    // Parameters gathered for piece i are stored where its parameters are.
    void copy_out(std::size_t i) {
        for (const Bucket* b : pieces[i].weights)
            if (std::erase(to_copy, b) > 0) w.push(b->copy_out);
    }
    void gather_roots() {
        if (!forward || !whole_root) return;
        for (std::size_t i = 0; i < pieces.size(); ++i)
            if (root(pieces[i].unit)) gather(i);
    }
    void acquire(std::size_t i) {
        if (!now.acquire) return;
        for (const Bucket* b : pieces[i].gradients) {
            const bool reduced_soon = b->made_anew && w.dp.reduces_each_run(*b); // made by the run itself, which reduces them when it ends
            if ((b->acquire >= 0 || reduced_soon) && once(acquired, b) && w.uses[b].gradients++ == 0 && b->acquire >= 0) w.push(b->acquire);
        }
    }
    void release(const Bucket* b) {
        if (now.release && b->release >= 0 && w.uses[b].weights > 0 && --w.uses[b].weights == 0) w.push(b->release);
    }
    // The block of this run: the first of a step and the last may have others than those between them.
    std::int32_t reduction_of(const Bucket& b) {
        const bool first = w.reduced.insert(&b).second, ends = now.last && w.unfinished[&b] <= 1;
        return first && b.reduce_first >= 0 ? b.reduce_first : ends && b.reduce_last >= 0 ? b.reduce_last : b.reduce;
    }
    void reduce(const Bucket* b) {
        if (!(w.dp.reduces_each_run(*b) ? now.reduce_run : now.reduce_step)) return;
        if (b->reduce < 0 || w.uses[b].gradients == 0 || --w.uses[b].gradients > 0) return;
        drop();
        const std::int32_t reduction = w.push(reduction_of(*b)).id;
        w.drop = b->drop;
        if (b->replicate >= 0 && now.last && w.unfinished[b] == 1) w.push(b->replicate);
        if (b->store >= 0 && now.last && w.unfinished[b] <= 1) w.push(b->store);
        if (b->update >= 0) w.push(b->update);
        const Overlap& overlap = w.l.scenario.strategy.overlap;
        if (!(w.dp.sends ? overlap.offload : overlap.grad_reduce) && w.dp.reduces_each_run(*b)) unhidden = reduction;
    }
    void drop() {
        if (w.drop >= 0) w.push(std::exchange(w.drop, -1));
    }
    // Its gradients are complete: they are reduced, or used at once where nobody else has a part of them.
    void finish(const Bucket* b) {
        if (b->reduce < 0 && b->update >= 0 && now.last)
            w.push(b->update);
        else
            reduce(b);
    }
    // Whether a piece behind piece i that has been gathered for wants them too.
    bool wanted_soon(const Bucket* b, std::size_t i) const {
        for (std::size_t next = i + 1; next < std::min(pieces.size(), i + ahead); ++next)
            if (among(pieces[next].weights, b)) return true;
        return false;
    }
    // After piece i: the buckets that no later piece touches, or that the next one gathers anew. (Not in a run of several steps, which
    // gathers in its first and releases in its last.)
    void settle(std::size_t i) {
        const BlockPiece& piece = pieces[i];
        const bool anew =
            now.gather && now.release && i + 1 < pieces.size() && (pieces[i + 1].again || (piece.remade && !w.l.practice.keeps_regathered));
        for (const Bucket* b : piece.weights) {
            if (anew && !kept(*b) && !wanted_soon(b, i) && std::erase(gathered, b) > 0) release(b);
            if (last.weights.at(b) == i && !(forward && kept(*b))) release(b);
        }
        for (const Bucket* b : piece.gradients)
            if (last.gradients.at(b) == i) finish(b);
    }
    // Buckets without a piece of their own in this block: the chunk's, and others that its other half adds to (an embedding of further
    // tokens). Deferred gradients are the output layer's alone: all others are complete with the other half.
    void settle_rest() {
        const bool output_alone = step.kind == StepKind::weight && w.l.defers_output(step.chunk);
        for (const Bucket* b : w.pieces.added_to(step.chunk)) {
            if (output_alone && !last.gradients.contains(b)) continue;
            if (!forward && b->chunk == step.chunk && kept(*b) && !last.weights.contains(b)) release(b);
            if (!last.gradients.contains(b)) finish(b);
            if (now.last) --w.unfinished[b];
        }
        drop();
    }
};

Weaver::Weaver(Lowering& lowering, int stage) : l(lowering), pieces(lowering, stage), stage_(stage), draft_(lowering.drafts[stage]) {
    if (!dp.active()) return;
    for (int c = 0; c < static_cast<int>(l.chunks.size()); ++c)
        if (l.graphs[c].stage == stage)
            for (const Bucket* b : pieces.added_to(c)) unfinished[b] += 1 + (deferred_adds_to(c, b) ? 1 : 0);
    // Reduced once a step: when every chunk that adds to it has done so.
    for (int c = 0; c < static_cast<int>(l.chunks.size()); ++c) {
        if (l.graphs[c].stage != stage) continue;
        for (const Bucket* b : pieces.added_to(c))
            if (!dp.reduces_each_run(*b)) uses[b].gradients += 1 + (deferred_adds_to(c, b) ? 1 : 0);
    }
}

bool Weaver::deferred_adds_to(int chunk, const Bucket* b) {
    if (!l.defers_output(chunk)) return false;
    const std::vector<BlockPiece>& of_weight = pieces.of(l.chunks[chunk].weight, chunk);
    return std::any_of(of_weight.begin(), of_weight.end(), [&](const BlockPiece& p) { return among(p.gradients, b); });
}

RunPosition Weaver::position(const DraftPart& part) {
    const std::int64_t microbatches = l.plan.microbatches / l.plan.directions;
    const std::int64_t limit = l.scenario.strategy.run_of(l.plan.chunks_per_stage, microbatches);
    const int kind = part.step.kind == StepKind::forward ? 0 : part.step.kind == StepKind::weight ? 2 : 1;
    const std::int64_t k = met_[{kind, part.step.chunk}]++;
    const bool last = k + 1 == microbatches;
    return {k % limit == 0, last || (k + 1) % limit == 0, k == 0, last};
}

Woven Weaver::woven(const DraftPart& part) {
    const RunPosition at = position(part);
    const StepKind kind = part.step.kind;
    const bool forward = kind == StepKind::forward, completes = !forward && (kind != StepKind::input || l.defers_output(part.step.chunk));
    const bool begins_backward = kind == StepKind::input || kind == StepKind::backward;
    Woven w;
    w.reduce_run = completes && dp.reduces_each_run() && at.ends;
    w.reduce_step = completes && dp.active() && at.last_of_chunk && reduces_early();
    const bool gathers_backward = begins_backward && (!dp.keeps_until_backward || !pieces.read_late(part.step.chunk).empty());
    w.gather = dp.gathers_in_step && at.starts && (forward || gathers_backward);
    w.release = dp.gathers_in_step && at.ends && (forward ? !dp.keeps_until_backward : begins_backward);
    w.last = completes && at.last_of_chunk;
    w.update = w.last && l.scenario.training.optimizer_in_backward;
    w.acquire = begins_backward && (dp.reduces_each_run() ? at.starts : dp.made_in_backward && at.first_of_chunk);
    return w;
}

void Weaver::compute(DraftAction action) {
    std::vector<WovenPart> parts;
    for (const DraftPart& part : action.parts) parts.push_back({part, woven(part)});
    const bool between = std::any_of(parts.begin(), parts.end(), [](const WovenPart& p) { return p.now.any(); });
    if (!between)
        push(std::move(action));
    else if (parts.back().part.port > 0)
        run_together(std::move(action), parts);
    else
        for (const WovenPart& part : parts) run_apart(action, part);
}

// Joined steps are not cut: what they want gathered comes before them, a unit after another, and what they leave after them.
void Weaver::run_together(DraftAction action, const std::vector<WovenPart>& parts) {
    std::vector<Weaving> all;
    for (const WovenPart& p : parts)
        if (p.now.any()) all.push_back(Weaving{*this, p});
    for (Weaving& weaving : all) {
        weaving.gather_roots();
        for (std::size_t i = 0; i < weaving.pieces.size(); ++i) {
            weaving.gather(i);
            weaving.copy_out(i);
            weaving.acquire(i);
        }
    }
    push(std::move(action));
    for (Weaving& weaving : all) {
        for (std::size_t i = 0; i < weaving.pieces.size(); ++i) weaving.settle(i);
        weaving.settle_rest();
    }
}

// A step, or one of the halves of a backward step, that runs by itself: cut in pieces where something stands between them.
void Weaver::run_apart(const DraftAction& action, const WovenPart& woven) {
    DraftAction whole = run_of(l.plan, draft_, woven.part.block);
    whole.parts = {woven.part};
    whole.run.microbatch = action.run.microbatch;
    if (!woven.now.any()) {
        push(std::move(whole));
        return;
    }
    Weaving weaving{*this, woven};
    weaving.gather_roots();
    std::size_t next = 0;
    for (std::size_t i = 0; i < weaving.pieces.size(); ++i) {
        const BlockPiece& piece = weaving.pieces[i];
        for (; next < weaving.pieces.size() && next < i + weaving.ahead; ++next) weaving.gather(next);
        weaving.copy_out(i);
        weaving.acquire(i);
        DraftAction cut = whole;
        cut.id = weaving.piece_action[i] = new_id();
        cut.run.first = piece.first;
        cut.run.last = piece.last;
        const std::int32_t op = first_op_of_computation(block(woven.part.block), piece.first, piece.last);
        if (weaving.unhidden >= 0 && op >= 0) cut.waits.push_back({op, std::exchange(weaving.unhidden, -1)});
        push(std::move(cut));
        weaving.settle(i);
    }
    weaving.settle_rest();
}

void Weaver::reduce_at_the_end() {
    for (int c : l.chunks_in_model_order())
        for (const Bucket& b : dp.buckets[c])
            if (b.stage == stage_ && b.reduce >= 0 && !dp.reduces_each_run(b)) push(b.reduce);
}

void Weaver::run() {
    std::vector<DraftAction> before = std::move(draft_.actions);
    draft_.actions.clear();
    for (DraftAction& action : before)
        if (action.parts.empty())
            push(std::move(action));
        else
            compute(std::move(action));
    if (dp.active() && !reduces_early()) reduce_at_the_end();
    if (l.scenario.strategy.offload.parameters == Tier::nvme) read_ahead(l, draft_);
}

} // namespace

void data_parallel(Lowering& l) {
    for (int stage = 0; stage < l.plan.stages; ++stage) Weaver(l, stage).run();
}

} // namespace orrery
