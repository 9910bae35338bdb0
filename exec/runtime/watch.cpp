#include "exec/runtime/watch.hpp"

#include "exec/kernels/buckets.hpp"
#include "exec/kernels/rows.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

namespace orrery {
namespace {

// Index of the first element that is no number, -1: all are. What is finite times zero is zero: a sum that the compiler may make in lanes.
template <class T> std::int64_t first_bad(const T* x, std::int64_t n) {
    constexpr std::int64_t lanes = 16;
    T sum[lanes] = {};
    const std::int64_t whole = n / lanes * lanes;
    for (std::int64_t i = 0; i < whole; i += lanes)
        for (std::int64_t k = 0; k < lanes; ++k) sum[k] += x[i + k] * T(0);
    bool good = true;
    for (const T s : sum) good = good && s == T(0);
    for (std::int64_t i = good ? whole : 0; i < n; ++i)
        if (!std::isfinite(x[i])) return i;
    return -1;
}

std::int64_t first_bad(const Operand& o, DType stored, std::int64_t n) {
    if (stored == DType::fp64) return first_bad(reinterpret_cast<const double*>(o.data), n);
    if (stored == DType::fp32) return first_bad(reinterpret_cast<const float*>(o.data), n);
    for (std::int64_t i = 0; i < n; ++i)
        if (!std::isfinite(read_element(o.data, i, stored))) return i;
    return -1;
}

// "the gradient of l0.qkv.weight, whose element 5 of 80": of this rank's part of the tensor, where `at` lies in a shard of several too.
std::string element_text(const World& world, const Rank& rank, const Operand& o, std::int64_t at) {
    const auto text = [&](const Buffer& b, std::int64_t i) {
        const bool gradient = b.role == Role::gradient;
        return fmt::format("{}{}, whose element {} of {}", gradient ? "the gradient of " : "",
                           gradient ? world.plan.tensors[b.tensor].name : b.name, i, elements(b));
    };
    if (const BucketLayout* layout = world.buckets.find(o.id)) {
        const std::int64_t in_bucket = at + (layout->shard > 0 ? rank.memory.part_index(layout->comm) * layout->shard : 0);
        for (const BucketSegment& s : layout->segments)
            if (in_bucket >= s.begin && in_bucket < s.end) return text(world.plan.buffers[s.tensor], in_bucket - s.begin);
    }
    return text(*o.buffer, at);
}

// n: its first elements alone.
void look_at(const World& world, const Rank& rank, const Issue& issue, const Operand& o, const char* what_it_does, std::int64_t n) {
    if (!is_floating(o.buffer->dtype)) return;
    const std::int64_t at = first_bad(o, stored_type(o.buffer->dtype, world.real), n);
    if (at < 0) return;
    throw NotFinite(fmt::format("training has failed at step {}: rank {}: {} {} {} is no number: try a smaller training.learning_rate "
                                "or training.gradient_clipping, or a larger training.warmup_steps",
                                rank.context.step, rank.rank, place(world.plan, issue), what_it_does, element_text(world, rank, o, at)));
}

// Whether other ops have yet to write some rows of what it writes: a chunked loss makes losses and gradients of some rows at a time.
bool rows_to_come(const Op& op, const Buffer& out) {
    const auto* loss = std::get_if<CrossEntropy>(&op.work);
    if (loss && loss->part == CrossEntropy::Part::loss) return loss->first + loss->tokens < elements(out);
    const auto* linear = std::get_if<Linear>(&op.work);
    return linear && linear->first >= 0 && linear->direction == Direction::input_gradient &&
           (linear->first + linear->m) * linear->k < elements(out);
}

// How many elements of a result mean something. Where experts have room, rows that nobody sent hold whatever was there before; how many
// were sent is told to products and to what sorts rows, and what stands between these is looked at where they read it.
std::int64_t elements_made(const World& world, const Rank& rank, const Op& op, const Operand& o, std::span<const Operand> in) {
    const Buffer& b = *o.buffer;
    const auto* permute = std::get_if<Permute>(&op.work);
    const bool whole = !leaves_expert_room(world.scenario) || world.facts.forced_routing || !b.expert || b.role != Role::activation ||
                       (permute && permute->part != Permute::Part::sort);
    if (whole) return elements(b);
    const Operand* counts = counts_among(in);
    if (!counts) return 0;
    std::int64_t rows = 0;
    for (const std::int64_t n : local_counts(*counts, rank.context, local_experts(rank.context))) rows += n;
    return std::min(rows * (elements(b) / b.shape[0]), elements(b));
}

} // namespace

void watch_before(const World& world, const Rank& rank, const Issue& issue, std::span<const Operand> in) {
    if (world.watch == Watch::nothing || !std::holds_alternative<OptimizerStep>(issue.op->work)) return;
    if (rank.scaling) return; // a step whose gradients overflow is left out
    for (const Operand& o : in)
        if (o.buffer->kind == MemoryKind::gradients) look_at(world, rank, issue, o, "is given", elements(*o.buffer));
}

void watch_after(const World& world, const Rank& rank, const Issue& issue, std::span<const Operand> out, std::span<const Operand> in) {
    if (world.watch == Watch::nothing) return;
    const auto* loss = std::get_if<CrossEntropy>(&issue.op->work);
    if (world.watch == Watch::ends && !(loss && loss->part == CrossEntropy::Part::loss)) return;
    // Gradients may overflow; what an optimizer makes may not.
    if (rank.scaling && !makes_loss(*issue.op) && issue.op->phase != Phase::forward &&
        !std::holds_alternative<OptimizerStep>(issue.op->work))
        return;
    for (const Operand& o : out)
        if (!rows_to_come(*issue.op, *o.buffer)) look_at(world, rank, issue, o, "makes", elements_made(world, rank, *issue.op, o, in));
}

} // namespace orrery
