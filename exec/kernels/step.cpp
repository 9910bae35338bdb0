// The parts of an optimizer step, for every device (optimizer.hpp).
#include "exec/kernels/buckets.hpp"
#include "exec/kernels/loss_scale.hpp"
#include "exec/kernels/optimizer.hpp"
#include "exec/kernels/shards.hpp"

#include <algorithm>
#include <cmath>

namespace orrery {
namespace {

// Whether another rank's summand of the norm goes into the same sum as this rank's. Experts lie over the ranks their own way: two that
// differ along one of their axes may differ along any of the others'.
bool adds_to_the_same(const KernelContext& k, const Buffer& norm, int other) {
    const Coordinates there = k.plan.mesh.coordinates(other);
    for (Axis a : {Axis::tp, Axis::cp, Axis::ep, Axis::dp, Axis::dpr, Axis::dpw, Axis::pp})
        if (there[a] != k.at[a] && norm.placement.on(a) != PlacementKind::partial) return false;
    return true;
}

// Whether this rank is the one that counts the tensor's elements, of those that hold the same and whose summands are added up.
// `divided`: the axes over which shards of the bucket lie that it is in; 0: it is no part of one.
bool counts(const KernelContext& k, const Buffer& norm, const Buffer& tensor, AxisMask divided) {
    for (Axis a : {Axis::tp, Axis::cp, Axis::ep, Axis::dp, Axis::dpr, Axis::dpw}) {
        const bool data = divided != 0 && (a == Axis::dp || a == Axis::cp || (a == Axis::dpr && (divided & mask(a))));
        if (data || tensor.placement.on(a) == PlacementKind::sharded) continue;
        Coordinates first = tensor.expert ? k.expert_at : k.at;
        if (first[a] == 0) continue;
        first[a] = 0;
        if (adds_to_the_same(k, norm, tensor.expert ? rank_of_experts(k.plan, first) : k.plan.mesh.rank_of(first))) return false;
    }
    if (tensor.placement.on(Axis::pp) != PlacementKind::partial || norm.placement.on(Axis::pp) != PlacementKind::partial) return true;
    // On several stages: the first of those that count it.
    const std::int16_t here = tensor.stage;
    for (const Block& block : k.plan.blocks) {
        if (block.kind != BlockKind::optimizer || block.stage >= here) continue;
        for (const Op& op : block.ops) {
            if (!std::holds_alternative<GradientNorm>(op.work)) continue;
            for (BufferId b : op.in) {
                if (k.plan.buffers[b].tensor == tensor.tensor) return false;
                if (const BucketLayout* layout = k.buckets.find(b); layout && k.plan.directions == 1)
                    for (const BucketSegment& s : layout->segments)
                        if (k.plan.buffers[s.tensor].tensor == tensor.tensor) return false;
            }
        }
    }
    return true;
}

} // namespace

StepConstants step_constants(const KernelContext& c) {
    const OptimizerFacts& o = c.facts.optimizer;
    const double t = static_cast<double>(updates_before(c) + 1);
    const double warm = o.warmup_steps > 0 ? std::min(1.0, t / static_cast<double>(o.warmup_steps)) : 1.0;
    const double second = c.facts.frozen_from > 0 ? std::min(t, static_cast<double>(c.facts.frozen_from)) : t; // its steps so far
    return {o.learning_rate * warm,
            o.beta1,
            o.beta2,
            o.epsilon,
            o.weight_decay,
            o.momentum,
            1 - std::pow(o.beta1, t),
            1 - std::pow(o.beta2, second),
            o.decoupled,
            updates_before(c) == 0,
            1 / loss_factor(c)};
}

bool move_on(LossScale& s) {
    if (!s.checked) return true;
    const bool overflowed = s.overflowed;
    s.checked = s.overflowed = false;
    if (overflowed) {
        const bool least = s.factor <= 1;
        s.factor = least ? 1 : s.factor / 2;
        s.good_steps = 0;
        ++s.skipped;
        return !least;
    }
    if (++s.good_steps < LossScale::growth_interval) return true;
    s.factor *= 2;
    s.good_steps = 0;
    return true;
}

double clipping_factor(double squares, double limit) { return std::min(1.0, limit / (std::sqrt(squares) + 1e-6)); }

std::vector<Range> counted_ranges(const KernelContext& c, const Operand& gradient, const Buffer& norm) {
    const BucketLayout* layout = c.buckets.find(gradient.id);
    std::vector<Range> out;
    if (!layout) {
        if (counts(c, norm, *gradient.buffer, 0)) out.push_back({0, elements(*gradient.buffer)});
        return out;
    }
    const int self = c.plan.mesh.rank_of(c.at);
    const std::vector<int> ranks = members(c.plan, layout->comm, self);
    const AxisMask divided = c.plan.communicators[layout->comm].axes;
    const std::int64_t begin = (std::find(ranks.begin(), ranks.end(), self) - ranks.begin()) * layout->shard, end = begin + layout->shard;
    for (const BucketSegment& s : layout->segments)
        if (std::max(s.begin, begin) < std::min(s.end, end) && counts(c, norm, c.plan.buffers[s.tensor], divided))
            out.push_back({std::max(s.begin, begin) - begin, std::min(s.end, end) - begin});
    return out;
}

std::vector<TensorSlice> tensor_slices(const KernelContext& c, std::span<const Operand> operands, const Buffer& norms) {
    const auto tensor = [&](BufferId b) { return c.plan.buffers[b].tensor; };
    std::vector<TensorSlice> slices;
    std::vector<TensorId> own, all; // a slice's; those of the stage
    for (std::size_t i = 0; i < operands.size(); ++i) {
        const BucketLayout* layout = c.buckets.find(operands[i].id);
        if (!layout) {
            all.push_back(tensor(operands[i].id));
            slices.push_back({i, 0, elements(*operands[i].buffer), 0, counts(c, norms, *operands[i].buffer, 0)});
            own.push_back(all.back());
            continue;
        }
        const int self = c.plan.mesh.rank_of(c.at);
        const std::vector<int> ranks = members(c.plan, layout->comm, self);
        const std::int64_t begin = (std::find(ranks.begin(), ranks.end(), self) - ranks.begin()) * layout->shard,
                           end = begin + layout->shard;
        for (const BucketSegment& s : layout->segments) {
            all.push_back(tensor(s.tensor));
            const std::int64_t from = std::max(s.begin, begin), to = std::min(s.end, end);
            if (from >= to) continue;
            slices.push_back(
                {i, from - begin, to - begin, 0, counts(c, norms, c.plan.buffers[s.tensor], c.plan.communicators[layout->comm].axes)});
            own.push_back(all.back());
        }
    }
    std::sort(all.begin(), all.end());
    all.erase(std::unique(all.begin(), all.end()), all.end());
    for (std::size_t i = 0; i < slices.size(); ++i) slices[i].slot = std::lower_bound(all.begin(), all.end(), own[i]) - all.begin();
    return slices;
}

double trust_ratio(const KernelContext& c, OptimizerKind kind, double weights, double other) {
    const double nw = std::sqrt(weights), no = std::sqrt(other);
    if (!(nw > 0 && no > 0)) return 1;
    return kind == OptimizerKind::lamb ? nw / no : c.facts.optimizer.trust * nw / (no + c.facts.optimizer.weight_decay * nw);
}

} // namespace orrery
