#include "sim/plan/passes/optimizer_block.hpp"

#include "sim/plan/passes/bucket_blocks.hpp"
#include "sim/plan/passes/muon.hpp"
#include "sim/plan/passes/passes.hpp"
#include "sim/plan/passes/sign_exchange.hpp"

#include <algorithm>
#include <fmt/format.h>
#include <set>

namespace orrery {
namespace {

OptimizerKind optimizer_kind(Optimizer optimizer) {
    switch (optimizer) {
    case Optimizer::sgd:
        return OptimizerKind::sgd;
    case Optimizer::momentum:
        return OptimizerKind::momentum;
    case Optimizer::adam:
    case Optimizer::adamw:
        return OptimizerKind::adam;
    case Optimizer::lamb:
        return OptimizerKind::lamb;
    case Optimizer::lars:
        return OptimizerKind::lars;
    case Optimizer::muon:
        return OptimizerKind::muon;
    }
    return OptimizerKind::adam;
}

int moments(OptimizerKind k) {
    switch (k) {
    case OptimizerKind::sgd:
        return 0;
    case OptimizerKind::momentum:
    case OptimizerKind::lars:
    case OptimizerKind::muon:
        return 1;
    default:
        return 2;
    }
}

bool sixteen_bit(DType t) { return t == DType::bf16 || t == DType::fp16; }

// The operands of a rank's optimizer: shards of buckets, or whole parameters.
struct Part {
    std::vector<BufferId> gradients, weights;
    std::int64_t elements = 0, experts = 0; // experts: of the elements
    std::vector<BufferId> counted;          // in the gradient norm: what several directions hold whole counts in the first
    std::int64_t counted_elements = 0;
};

void add_owned(const Lowering& l, const DataParallel& dp, const Bucket& b, Part& p) {
    const std::int64_t elements = dp.sharded(b) ? b.shard_elements : b.elements;
    p.elements += elements;
    if (b.expert) p.experts += elements;
    if (dp.sharded(b)) {
        p.gradients.push_back(b.gradient_shard);
        p.weights.push_back(b.weight_shard);
        return;
    }
    for (std::int32_t i : b.parameters) { // experts that no other rank has
        const Parameter& x = l.parameters[b.stage][i];
        p.gradients.push_back(x.gradient);
        p.weights.push_back(x.weight);
    }
}

// fragment: of streaming DiLoCo, what goes with it alone (buckets end where fragments do); -1: all. beside_muon: what Muon leaves to AdamW.
Part owned(const Lowering& l, const DataParallel& dp, int stage, int fragment = -1, bool beside_muon = false) {
    Part p;
    const auto& parameters = l.parameters[stage];
    const auto wanted = [&](const Parameter& x) {
        return x.trained() && (fragment < 0 || fragment_of(l, x) == fragment) && !(beside_muon && by_muon(l, x));
    };
    if (!dp.sharded()) {
        const int length = static_cast<int>(l.chunks.size()) / l.plan.directions;
        for (const Parameter& x : parameters) {
            if (!wanted(x)) continue;
            p.gradients.push_back(x.gradient);
            p.weights.push_back(x.weight);
            p.elements += x.elements;
            if (x.expert) p.experts += x.elements;
            if (x.chunk >= length) continue;
            p.counted.push_back(x.gradient);
            p.counted_elements += x.elements;
        }
        return p;
    }
    for (const auto& buckets : dp.buckets)
        for (const Bucket& b : buckets)
            if (b.stage == stage && b.trained && wanted(parameters[b.parameters.front()])) add_owned(l, dp, b, p);
    p.counted = p.gradients;
    p.counted_elements = p.elements;
    return p;
}

Buffer state(const std::string& what, Role role, int stage, std::int64_t elements, DType dtype) {
    Buffer b;
    b.role = role;
    b.name = fmt::format("opt.{}", what);
    b.shape = {elements};
    b.dtype = dtype;
    b.bytes = bytes(b.shape, dtype);
    b.kind = MemoryKind::optimizer_states;
    b.scope = Scope::run;
    b.stage = static_cast<std::int16_t>(stage);
    for (Axis a : {Axis::dp, Axis::cp}) b.placement.set(a, PlacementKind::sharded);
    return b;
}

// Axes over which ranks hold parts of what the stage's optimizer works on, or another number of copies than their neighbours: sums over
// them are sums over the whole tensors.
AxisMask summed_axes(const Lowering& l, const DataParallel& dp) {
    AxisMask axes = mask(Axis::tp);
    // Experts lie over a stage's ranks their own way: what one rank counts, another may hold along any axis, copies' included.
    const Strategy& st = l.scenario.strategy;
    const bool experts_apart =
        l.scenario.model.moe && (dp.sharded() || st.expert_parallel > 1 || st.expert_tensor_parallel != st.tensor_parallel);
    if (dp.shares_sharded() || experts_apart) axes |= mask(Axis::dp) | mask(Axis::cp);
    if (dp.shares_sharded()) axes |= dp.shard_axes;
    if (experts_apart) axes |= mask(Axis::dpr);
    return axes;
}

// Places `summand` as one over `axes`; how many ranks add theirs.
int place_summand(const Lowering& l, AxisMask axes, Buffer& summand) {
    int summands = 1;
    for (Axis a : {Axis::tp, Axis::cp, Axis::dp, Axis::dpr, Axis::pp})
        if ((axes & mask(a)) && l.plan.mesh.extent(a) > 1) {
            summand.placement.set(a, PlacementKind::partial);
            summands *= l.plan.mesh.extent(a);
        }
    return summands;
}

// A pair of numbers for each tensor of the stage.
Buffer norms_table(const Lowering& l, int stage) {
    std::set<TensorId> tensors;
    for (const Parameter& p : l.parameters[stage])
        if (p.trained()) tensors.insert(p.tensor);
    Buffer table;
    table.name = "opt.tensor_norms";
    table.role = Role::tensor_norms;
    table.shape = {static_cast<std::int64_t>(tensors.size()), 2};
    table.dtype = DType::fp32;
    table.bytes = bytes(table.shape, table.dtype);
    table.kind = MemoryKind::workspace;
    table.scope = Scope::step;
    table.stage = static_cast<std::int16_t>(stage);
    return table;
}

// Norms of whole tensors from those of parts; returns what `apply` reads, -1 where every rank has its tensors whole. masters: how many of
// the states, the first ones.
BufferId sum_tensor_norms(Lowering& l, const DataParallel& dp, const Part& part, const std::vector<BufferId>& states, OptimizerKind kind,
                          int stage, int masters, Block& out) {
    AxisMask axes = summed_axes(l, dp);
    std::vector<std::int16_t> stages;
    if (l.plan.directions > 1 && dp.sharded()) { // shards of a chunk lie on both stages that run it
        const int other = l.plan.stages - 1 - stage;
        axes |= mask(Axis::pp);
        stages = {static_cast<std::int16_t>(std::min(stage, other)), static_cast<std::int16_t>(std::max(stage, other))};
    }
    Buffer table = norms_table(l, stage);
    if (place_summand(l, axes, table) == 1) return -1;
    const BufferId summand = l.add(table);
    std::vector<BufferId> in = part.gradients, result{summand};
    if (masters == 0) in.insert(in.end(), part.weights.begin(), part.weights.end());
    in.insert(in.end(), states.begin(), kind == OptimizerKind::lars ? states.begin() + masters : states.end());
    if (kind == OptimizerKind::lamb) result.insert(result.end(), states.begin() + masters, states.end());
    const bool fused = l.scenario.runtime.fused_optimizer;
    out.ops.push_back(step_op("tensor_norms", OptimizerStep{kind, part.elements, fused, false, OptimizerStep::Part::norms}, in, result));
    const CommId comm =
        l.add_communicator(stages.empty() ? "tensor_norms" : fmt::format("tensor_norms.{}-{}", stages[0], stages[1]), axes, stages);
    table.name += ".total";
    table.storage = summand;
    table.placement = {};
    const BufferId total = l.add(table);
    out.ops.push_back(step_op("tensor_norms.reduce", Collective{CollectiveKind::all_reduce, comm, table.bytes, DType::fp32}, {summand},
                              {total}, queue_of(comm)));
    return total;
}

Collective summands(CommId comm, Bytes bytes, DType dtype) {
    Collective c{CollectiveKind::all_reduce, comm, bytes, dtype};
    c.operands = Collective::Operands::summands;
    return c;
}

// Under sequence parallelism each tensor-parallel rank has a summand of the gradients of what all of them hold. Those that leave the device
// run by run are summed before they do (sum_over_tensor_parallel).
void reduce_over_tensor_parallel(Lowering& l, const DataParallel& dp, int stage, Block& out) {
    if (l.tp() == 1 || (l.scenario.strategy.offload.gradients != Tier::none && dp.reduces_each_run())) return;
    std::vector<BufferId> partial;
    std::int64_t elements = 0;
    for (const Parameter& p : l.parameters[stage]) {
        if (p.expert || !p.trained() || l.buffer(p.gradient).placement.on(Axis::tp) != PlacementKind::partial) continue;
        partial.push_back(p.gradient);
        elements += p.elements;
    }
    if (partial.empty()) return;
    if (dp.shares_sharded()) { // on this rank's part of them, wherever in the shards they lie
        partial.clear();
        for (const auto& buckets : dp.buckets)
            for (const Bucket& b : buckets)
                if (b.stage == stage && !b.expert && b.trained &&
                    std::any_of(b.parameters.begin(), b.parameters.end(), [&](std::int32_t i) {
                        return l.buffer(l.parameters[stage][i].gradient).placement.on(Axis::tp) == PlacementKind::partial;
                    }))
                    partial.push_back(b.gradient_shard);
        elements = (elements + dp.shards - 1) / dp.shards;
    }
    const DType dtype = l.buffer(partial.front()).dtype;
    out.ops.push_back(step_op("finalize.tp", summands(l.comm("tp"), bytes({elements}, dtype), dtype), partial, partial,
                              queue_of(l.comm("tp")), Phase::gradient_reduce));
}

// An embedding that several stages use (tied to the head, or read again to predict further tokens): all hold the tensor, each has a summand
// of its gradient.
void reduce_tied_embedding(Lowering& l, const DataParallel& dp, int stage, Block& out) {
    const std::vector<std::int16_t> stages = stages_of_embedding(l);
    if (std::find(stages.begin(), stages.end(), stage) == stages.end()) return;
    for (const Parameter& p : l.parameters[stage]) {
        if (l.plan.tensors[p.tensor].use != TensorUse::embedding || !p.trained()) continue;
        l.buffer(p.gradient).placement.set(Axis::pp, PlacementKind::partial);
        const CommId comm = l.add_communicator("embedding", mask(Axis::pp), stages);
        BufferId g = p.gradient;
        std::int64_t elements = p.elements;
        if (dp.shares_sharded()) {
            elements = (elements + dp.shards - 1) / dp.shards;
            for (const auto& buckets : dp.buckets)
                for (const Bucket& b : buckets)
                    for (std::int32_t i : b.parameters)
                        if (b.stage == stage && l.parameters[stage][i].tensor == p.tensor) g = b.gradient_shard;
        }
        const DType dtype = l.buffer(g).dtype;
        out.ops.push_back(step_op("finalize.embedding", summands(comm, bytes({elements}, dtype), dtype), {g}, {g}, queue_of(comm),
                                  Phase::gradient_reduce));
    }
}

// The optimizer's block as it grows.
struct OptimizerBlock {
    Lowering& l;
    const DataParallel& dp;
    int stage;
    Part part;
    std::string suffix = {}; // of its states' names
    Block out = {};
    std::vector<BufferId> in = part.gradients; // of the step
    const Training& t = l.scenario.training;
    const bool fused = l.scenario.runtime.fused_optimizer;
    OptimizerKind kind = optimizer_kind(t.optimizer);

    // Post-validation checks the norm after the step and rolls back (zero-bubble paper): nothing waits for it, and nothing is clipped.
    bool post_validation() const { return l.scenario.strategy.post_validation; }

    void clip() {
        Buffer norm = norm_buffer();
        const BufferId total = sum_norm(norm);
        if (post_validation()) return;
        if (l.practice.reads_gradient_norm)
            out.ops.push_back(step_op("gradient_norm.wait", HostSync{}, {total}, {}, host_queue, Phase::optimizer));
        norm.name = "opt.clip";
        norm.role = Role::clipping_factor;
        norm.storage = -1;
        norm.placement = {};
        const BufferId scale = l.add(norm);
        std::vector<BufferId> clip_in{total}, clip_out{scale};
        clip_in.insert(clip_in.end(), part.gradients.begin(), part.gradients.end());
        clip_out.insert(clip_out.end(), part.gradients.begin(), part.gradients.end());
        out.ops.push_back(step_op("clip", Pointwise{PointwiseKind::clip, Direction::forward, part.elements, fused}, clip_in, clip_out));
        in.push_back(scale);
    }

    Buffer norm_buffer() const {
        Buffer norm = state("norm", Role::gradient_norm, stage, 1, DType::fp32);
        norm.kind = MemoryKind::workspace;
        norm.scope = Scope::step;
        norm.placement = {};
        return norm;
    }

    // The part of one bucket that is updated in the backward pass: nothing waits for it.
    void add_to_norm(BufferId& norm) {
        std::vector<BufferId> from = part.counted;
        if (norm >= 0) {
            from.push_back(norm);
        } else {
            Buffer made = norm_buffer();
            place_summand(l, summed_axes(l, dp), made);
            norm = l.add(std::move(made));
        }
        out.ops.push_back(step_op("gradient_norm" + suffix, GradientNorm{part.counted_elements, fused}, from, {norm}));
    }

    // After the last of them, for the check that may undo the step.
    void sum_norm_of_updates() {
        if (dp.norm < 0) return;
        Buffer total = norm_buffer();
        const AxisMask axes = summed_axes(l, dp);
        if (place_summand(l, axes, total) == 1) return;
        const CommId world = l.add_communicator("norm", axes);
        total.name = "opt.norm.total";
        total.storage = dp.norm;
        total.placement = {};
        reduce_norm(world, dp.norm, l.add(std::move(total)));
    }

    void reduce_norm(CommId world, BufferId summand, BufferId total) {
        out.ops.push_back(step_op("gradient_norm.reduce", Collective{CollectiveKind::all_reduce, world, {4}, DType::fp32}, {summand},
                                  {total}, queue_of(world), Phase::optimizer));
    }

    // The norm of all gradients: ranks that hold the same ones (replicas) have the same summand, and the sum is over the others.
    BufferId sum_norm(Buffer& norm) {
        // Stages with nothing to train have no part in it.
        std::vector<std::int16_t> stages;
        for (std::int16_t s = 0; s < l.plan.stages; ++s)
            if (std::any_of(l.parameters[s].begin(), l.parameters[s].end(), [](const Parameter& p) { return p.trained(); }))
                stages.push_back(s);
        const bool all = static_cast<int>(stages.size()) == l.plan.stages;
        const AxisMask axes = static_cast<AxisMask>(summed_axes(l, dp) | (stages.size() > 1 ? mask(Axis::pp) : 0));
        const int summands = place_summand(l, axes, norm);
        const BufferId summand = l.add(norm);
        out.ops.push_back(step_op("gradient_norm", GradientNorm{part.counted_elements, fused}, part.counted, {summand}));
        if (summands == 1) return summand;
        const CommId world = l.add_communicator("norm", axes, all || stages.size() == 1 ? std::vector<std::int16_t>{} : stages);
        norm.name = "opt.norm.total";
        norm.storage = summand;
        norm.placement = {};
        const BufferId total = l.add(norm);
        reduce_norm(world, summand, total);
        return total;
    }

    // Parameters that are fp32 as shards, or at their homes on the host, need no other copy of it.
    bool masters_at_home() const {
        return dp.wide_shards || l.practice.fp32_parameters || std::all_of(part.weights.begin(), part.weights.end(), [&](BufferId w) {
                   const auto home = l.homes.find(w);
                   return home != l.homes.end() && l.buffer(home->second).dtype == DType::fp32;
               });
    }

    // The fp32 copies of 16-bit parameters, one for each slice that workers meet with, else one; then the moments.
    std::vector<BufferId> states() {
        std::vector<BufferId> made;
        const DType act = activation_dtype(l.scenario);
        if (t.master_weights && sixteen_bit(act) && !masters_at_home()) {
            const DType type = t.master_remainders && act == DType::bf16 ? DType::bf16 : DType::fp32;
            const auto slices = meeting_slices(l, part.weights);
            for (std::size_t i = 0; i < slices.size(); ++i) {
                const bool one = slices.size() == 1;
                made.push_back(l.add(state("master" + (one ? suffix : fmt::format("{}.b{}", suffix, i)), Role::master, stage,
                                           one ? part.elements : elements_of(l, slices[i]), type)));
            }
        }
        for (int i = 0; i < moments(kind); ++i)
            made.push_back(l.add(state((i == 0 ? "moment1" : "moment2") + suffix, i == 0 ? Role::first_moment : Role::second_moment, stage,
                                       part.elements, t.moment_dtype)));
        return made;
    }

    // The fp32 copies of 16-bit moments are room that is written; the step itself widens what it reads. -1: there are none.
    BufferId widen_moments() {
        const bool widens = sixteen_bit(t.moment_dtype) && l.practice.widens_moments,
                   roots = !fused && t.moment_dtype != DType::uint8 && l.practice.foreach_temporaries; // of all second moments at once
        if (kind != OptimizerKind::adam || !(widens || roots)) return -1;
        Buffer copies = widens ? state("wide_moments" + suffix, Role::wide_moments, stage,
                                       2 * std::max(part.experts, part.elements - part.experts), DType::fp32)
                               : state("roots" + suffix, Role::wide_moments, stage, part.elements, t.moment_dtype);
        copies.kind = MemoryKind::workspace;
        copies.scope = Scope::action;
        const BufferId wide = l.add(copies);
        out.ops.push_back(step_op({}, Alloc{wide}, {}, {}, host_queue));
        out.ops.push_back(step_op(widens ? "widen_moments" : "moment_roots",
                                  Pointwise{PointwiseKind::zero, Direction::forward, copies.shape[0], fused}, {}, {wide}));
        in.push_back(wide);
        return wide;
    }

    // The momentum of 1-bit Adam and 1-bit LAMB is what is summed, as signs; the second moment stands still.
    void step_on_signs() {
        const std::vector<BufferId> kept = states();
        const BufferId first = kept[kept.size() - 2];
        AxisMask axes = 0;
        for (Axis a : {Axis::cp, Axis::dp, Axis::dpr}) axes |= mask(a);
        const CommId comm = l.add_communicator("dp.reduce", axes);
        SignExchange way{l, out, comm, stage, Phase::gradient_reduce, Role::gradient_slices, Role::gradient_summands, axes, queue_of(comm)};
        const BufferId error = way.kept("opt.error", Role::gradient_error, part.elements),
                       fed = way.brief("opt.fed", Role::gradient_slices, {part.elements}, DType::fp32, true);
        std::vector<BufferId> fed_by = part.gradients;
        fed_by.push_back(first);
        if (error >= 0) fed_by.push_back(error);
        way.compress("feed", Compress::Part::feed_momentum, part.elements, fed_by, {fed}, compute_queue);
        way.sum(fed, part.elements, first, error);
        const bool mastered = kept.size() > 2;
        const auto on = [&](OptimizerStep::Part what) {
            const bool operators = l.practice.stack == Stack::zero; // of PyTorch, one after another (onebit_adam.py)
            OptimizerStep work{kind, part.elements, fused && !operators, false, what};
            work.frozen = true;
            return work;
        };
        std::vector<BufferId> from, to = part.weights;
        if (kind == OptimizerKind::lamb) {
            Buffer table = norms_table(l, stage);
            std::vector<BufferId> of = mastered ? std::vector<BufferId>{} : part.weights;
            of.insert(of.end(), kept.begin(), kept.end());
            from.push_back(l.add(table));
            out.ops.push_back(step_op("tensor_norms", on(OptimizerStep::Part::norms), of, from));
        }
        from.insert(from.end(), kept.begin(), kept.end());
        if (mastered) to.push_back(kept[0]);
        out.ops.push_back(step_op("optimizer", on(OptimizerStep::Part::apply), from, to));
    }

    void step() {
        if (l.scenario.strategy.sends_signs() && dp.active()) return step_on_signs();
        const std::vector<BufferId> kept = states();
        const bool layer_wise = kind == OptimizerKind::lamb || kind == OptimizerKind::lars;
        const int masters = static_cast<int>(kept.size()) - moments(kind);
        const BufferId norms = layer_wise ? sum_tensor_norms(l, dp, part, kept, kind, stage, masters, out) : -1;
        auto part_of_step = OptimizerStep::Part::whole;
        if (norms >= 0) { // LAMB has used its gradients: they are in the moments
            part_of_step = OptimizerStep::Part::apply;
            in = kind == OptimizerKind::lamb ? std::vector<BufferId>{} : part.gradients;
            in.push_back(norms);
        }
        in.insert(in.end(), kept.begin(), kept.end());
        const bool steps_on_wide = dp.wide_shards || l.practice.fp32_parameters;
        if (steps_on_wide && part_of_step == OptimizerStep::Part::whole) // what it steps on is read, too
            in.insert(in.end(), part.weights.begin(), part.weights.end());
        const bool keeps_moments = norms >= 0 && kind == OptimizerKind::lamb;
        std::vector<BufferId> result = part.weights;
        result.insert(result.end(), kept.begin(), keeps_moments ? kept.begin() + masters : kept.end());
        const BufferId wide = widen_moments(), flat = layer_wise ? -1 : copy_gradients();
        OptimizerStep work{kind, part.elements, fused, false, part_of_step};
        work.frozen = l.scenario.strategy.compresses() == GradientCompression::zero_one_adam && l.plan.workers != 0;
        out.ops.push_back(step_op("optimizer", work, in, result));
        for (const BufferId made : {wide, flat})
            if (made >= 0) out.ops.push_back(step_op({}, Free{made}, {}, {}, host_queue));
    }

    // Gradients in the masters' dtype, which the step makes of narrower ones; what of them it lets go of. (Interpreters update from the
    // gradients themselves.) -1: nothing.
    BufferId widen_gradients() {
        Buffer wide = state("wide_gradients" + suffix, Role::step_gradients, stage, part.elements, DType::fp32);
        const bool kept = l.practice.keeps_wide_gradients;
        if (!kept) wide.kind = MemoryKind::workspace;
        wide.scope = kept ? Scope::run : Scope::action;
        const BufferId id = l.add(std::move(wide));
        if (!kept) out.ops.push_back(step_op({}, Alloc{id}, {}, {}, host_queue));
        const Pointwise cast{PointwiseKind::cast, Direction::forward, part.elements, true};
        out.ops.push_back(step_op("widen_gradients", cast, part.gradients, {id}));
        in.push_back(id);
        return kept ? -1 : id;
    }

    // What the step holds of the gradients while it updates. -1: nothing.
    BufferId copy_gradients() {
        const bool flat = l.practice.flat_step_gradients && l.scenario.strategy.offload.optimizer == Tier::none;
        if (flat) return flatten_gradients();
        return l.practice.widens_gradients ? widen_gradients() : -1;
    }

    // The gradients side by side in a buffer of their own, and again in the masters' dtype, where the first copy goes. (Interpreters update
    // from the gradients themselves, which are the same.)
    BufferId flatten_gradients() {
        const auto copied = [&](const std::string& name, PointwiseKind how, DType dtype, const std::vector<BufferId>& from) {
            Buffer copy = state(name + suffix, Role::step_gradients, stage, part.elements, dtype);
            copy.kind = MemoryKind::workspace;
            copy.scope = Scope::action;
            const BufferId id = l.add(std::move(copy));
            out.ops.push_back(step_op({}, Alloc{id}, {}, {}, host_queue));
            out.ops.push_back(step_op(name, Pointwise{how, Direction::forward, part.elements, true}, from, {id}));
            return id;
        };
        const DType own = l.buffer(part.gradients.front()).dtype;
        std::vector<BufferId> from = part.gradients;
        if (l.practice.copies_own_gradients) from = {copied("own_gradients", PointwiseKind::copy, own, from)};
        const BufferId flat = copied("flatten_gradients", PointwiseKind::copy, own, from);
        const bool widens = t.master_weights && own != DType::fp32;
        const BufferId wide = widens ? copied("widen_gradients", PointwiseKind::cast, DType::fp32, {flat}) : flat;
        if (widens) out.ops.push_back(step_op({}, Free{flat}, {}, {}, host_queue));
        if (l.practice.copies_own_gradients) out.ops.push_back(step_op({}, Free{from.front()}, {}, {}, host_queue));
        in.push_back(wide);
        return wide;
    }

    // Sub-groups of what the rank owns, each with states of its own, one after another: each ends with the first part that fills it.
    void step_on_groups() {
        const std::vector<BufferId> scale(in.begin() + static_cast<std::ptrdiff_t>(part.gradients.size()), in.end());
        const Part all = std::exchange(part, Part{});
        int groups = 0;
        for (std::size_t i = 0; i < all.gradients.size(); ++i) {
            const Buffer& gradient = l.buffer(all.gradients[i]);
            part.gradients.push_back(all.gradients[i]);
            part.weights.push_back(all.weights[i]);
            part.elements += elements_of(gradient);
            if (gradient.expert) part.experts += elements_of(gradient);
            const bool ends = i + 1 == all.gradients.size();
            if (part.elements < l.practice.step_group && !ends) continue;
            in = part.gradients;
            in.insert(in.end(), scale.begin(), scale.end());
            suffix = groups == 0 && ends ? "" : fmt::format(".g{}", groups);
            ++groups;
            step();
            part = Part{};
        }
    }

    // Whether it is more than one. (Groups of states that come from the host are cut there; workers meet with masters of slices.)
    bool steps_on_groups() const {
        return l.practice.step_group > 0 && part.elements > l.practice.step_group && l.practice.flat_step_gradients &&
               l.plan.workers == 0 && l.scenario.strategy.offload.optimizer == Tier::none;
    }

    // Matrices of layers by Muon, then all else by AdamW: as two optimizers, one after the other.
    void step_as_muon() {
        const std::vector<BufferId> scale(in.begin() + static_cast<std::ptrdiff_t>(part.gradients.size()), in.end());
        const std::vector<MuonSet> sets = muon_sets(l, stage);
        for (std::size_t i = 0; i < sets.size(); ++i) {
            part = Part{};
            part.gradients = sets[i].gradients;
            part.weights = sets[i].weights;
            part.elements = sets[i].elements;
            suffix = sets.size() > 1 ? fmt::format(".m{}", i) : "";
            const std::vector<BufferId> kept = states();
            orrery::step_by_muon(l, stage, sets[i], {kept.size() > 1 ? kept.front() : -1, kept.back(), scale}, suffix, out);
        }
        part = owned(l, dp, stage, -1, true);
        if (part.weights.empty()) return;
        kind = OptimizerKind::adam;
        suffix = ".adamw";
        in = part.gradients;
        in.insert(in.end(), scale.begin(), scale.end());
        step();
    }

    // Fragments of the model that are sent apart have states of their own.
    void step_on_fragments() {
        const std::vector<BufferId> scale(in.begin() + static_cast<std::ptrdiff_t>(part.gradients.size()), in.end());
        for (int f = 0; f < l.scenario.strategy.synchronization.fragments; ++f) {
            part = owned(l, dp, stage, f);
            if (part.weights.empty()) continue;
            in = part.gradients;
            in.insert(in.end(), scale.begin(), scale.end());
            suffix = fmt::format(".f{}", f);
            step();
        }
    }
};

} // namespace

Op step_op(std::string name, Work work, std::vector<BufferId> in, std::vector<BufferId> out, QueueId queue, Phase phase) {
    Op op;
    op.name = std::move(name);
    op.work = std::move(work);
    op.queue = queue;
    op.phase = phase;
    op.in = std::move(in);
    op.out = std::move(out);
    return op;
}

std::vector<BufferId> stepped_weights(const Lowering& l, int stage, int fragment) {
    return owned(l, l.data_parallel, stage, fragment).weights;
}

std::int32_t make_optimizer_block(Lowering& l, int stage) {
    const DataParallel& dp = l.data_parallel;
    OptimizerBlock made{l, dp, stage, owned(l, dp, stage)};
    made.out.name = fmt::format("optimizer:{}", stage);
    made.out.kind = BlockKind::optimizer;
    made.out.stage = static_cast<std::int16_t>(stage);
    reduce_over_tensor_parallel(l, dp, stage, made.out);
    reduce_tied_embedding(l, dp, stage, made.out);
    if (l.scenario.training.optimizer_in_backward) {
        made.sum_norm_of_updates();
    } else if (!made.part.gradients.empty()) {
        if (made.t.gradient_clipping > 0) made.clip();
        if (l.plan.served) return l.add(std::move(made.out));
        if (l.scenario.strategy.streaming())
            made.step_on_fragments();
        else if (made.kind == OptimizerKind::muon)
            made.step_as_muon();
        else
            made.steps_on_groups() ? made.step_on_groups() : made.step();
    }
    return l.add(std::move(made.out));
}

std::int32_t make_update_block(Lowering& l, const Bucket& b) {
    const DataParallel& dp = l.data_parallel;
    Part part;
    add_owned(l, dp, b, part);
    part.counted = part.gradients;
    part.counted_elements = part.elements;
    const std::string name = bucket_name(b);
    OptimizerBlock made{l, dp, b.stage, part, "." + name};
    made.out.name = "update:" + name;
    made.out.kind = BlockKind::optimizer;
    made.out.stage = static_cast<std::int16_t>(b.stage);
    made.out.chunk = static_cast<std::int16_t>(b.chunk);
    if (made.t.gradient_clipping > 0) made.add_to_norm(l.data_parallel.norm);
    made.step();
    if (dp.sharded(b))
        for (Op& op : made.out.ops)
            if (op.queue == compute_queue) op.queue = queue_of(l.plan.buckets[b.id].reduce);
    for (BufferId g : part.gradients) {
        l.buffer(g).scope = Scope::action;
        made.out.ops.push_back(step_op({}, Free{g}, {}, {}, host_queue));
    }
    return l.add(std::move(made.out));
}

} // namespace orrery
