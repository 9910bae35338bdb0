// Interleaved 1F1B in Megatron's order: v chunks a rank, chunk c on stage c mod p, microbatches in groups of N, which are p where nobody
// says (its --microbatch-group-size-per-virtual-pipeline-stage). A rank runs 2 (p - rank - 1) + (v - 1) N forwards first, then alternates;
// with joined steps one more, so that a forward and the backward step that follows it do not need each other (its
// --overlap-moe-expert-parallel-comm). Checks and order: get_pp_rank_microbatches, get_schedule_table and
// forward_backward_pipelining_with_interleaving of megatron/core/pipeline_parallel/schedules.py, v0.9 and later. The last group has what
// the others leave: with fewer than p in it, ranks would wait for each other, and Megatron refuses.
#include "sim/schedules/schedule.hpp"
#include "sim/schedules/support/placement.hpp"

#include <algorithm>

namespace orrery {

static std::int64_t group_of(const ScheduleShape& shape) { return shape.group > 0 ? shape.group : shape.stages; }

static void check_groups(const ScheduleShape& shape, std::vector<ShapeProblem>& problems) {
    const std::int64_t p = shape.stages, m = shape.microbatches, group = group_of(shape), rest = m % group;
    const std::string stages = "pipeline_parallel = " + std::to_string(p), stated = "microbatch_group_size = " + std::to_string(group);
    if (group == p && rest != 0)
        problems.push_back({ShapeCount::microbatches,
                            "interleaved-1f1b needs microbatches to be a multiple of " + stages + ", not " + std::to_string(m),
                            (m / p + 1) * p});
    else if (group < p)
        problems.push_back({ShapeCount::group, "interleaved-1f1b needs microbatch_group_size of at least " + stages + ", not " +
                                                   std::to_string(group) + ": the stages would wait for each other"});
    else if (group > m)
        problems.push_back(
            {ShapeCount::microbatches, "interleaved-1f1b needs at least " + stated + " microbatches, not " + std::to_string(m), group});
    else if (rest != 0 && rest < p)
        problems.push_back({ShapeCount::microbatches,
                            "interleaved-1f1b with " + stated + " needs a last group that is whole or at least " + stages + ", not the " +
                                std::to_string(rest) + " that " + std::to_string(m) + " microbatches leave",
                            m - rest + p});
}

static std::vector<ShapeProblem> check_interleaved(const ScheduleShape& shape) {
    std::vector<ShapeProblem> problems = check_counts("interleaved-1f1b", shape);
    if (shape.stages < 2)
        problems.push_back({ShapeCount::stages, "interleaved-1f1b needs pipeline_parallel of at least 2, not " +
                                                    std::to_string(shape.stages) +
                                                    ": with one stage there is nothing to interleave; leave out the schedule"});
    if (shape.chunks_per_stage < 2)
        problems.push_back({ShapeCount::chunks_per_stage, "interleaved-1f1b needs virtual_pipeline of at least 2, not " +
                                                              std::to_string(shape.chunks_per_stage) +
                                                              ": with one chunk a stage the schedule is 1f1b"});
    if (shape.stages > 1 && shape.microbatches > 0) check_groups(shape, problems);
    return problems;
}

// The k-th forward (backward) of a rank: groups of microbatches go through the rank's chunks in order (in reverse).
static ScheduleStep nth(StepKind kind, const ScheduleShape& shape, int rank, std::int64_t k) {
    const std::int64_t p = shape.stages, v = shape.chunks_per_stage, whole = group_of(shape);
    const std::int64_t before = k / (whole * v) * whole, group = std::min(whole, shape.microbatches - before), inside = k - before * v;
    std::int64_t local = inside / group;
    if (kind == StepKind::backward) local = v - 1 - local;
    return step(kind, static_cast<int>(local * p + rank), before + inside % group);
}

static Schedule make_interleaved(const ScheduleShape& shape) {
    Schedule schedule;
    const std::int64_t total = shape.microbatches * shape.chunks_per_stage;
    for (int rank = 0; rank < shape.stages; ++rank) {
        auto& steps = schedule.ranks.emplace_back();
        steps.reserve(2 * total);
        const std::int64_t ahead = 2 * (shape.stages - rank - 1) + std::int64_t(shape.chunks_per_stage - 1) * group_of(shape) + shape.join;
        const std::int64_t warmup = std::min(total, ahead);
        for (std::int64_t k = 0; k < total + warmup; ++k) {
            if (k < total) steps.push_back(nth(StepKind::forward, shape, rank, k));
            if (k < total && k >= warmup) steps.back().joined = shape.join;
            if (k >= warmup) steps.push_back(nth(StepKind::backward, shape, rank, k - warmup));
        }
    }
    return schedule;
}

extern constinit const ScheduleInfo schedule_interleaved_1f1b = {
    .name = "interleaved-1f1b",
    .title = "Interleaved 1F1B (Megatron)",
    .source = "Narayanan et al., Efficient Large-Scale Language Model Training on GPU Clusters, arXiv:2104.04473",
    .summary = "v chunks a stage: bubble (p-1)/(v m) of the ideal time for v times the transfers",
    .splits_backward = false,
    .stage_of = stage_in_rounds,
    .check = check_interleaved,
    .make = make_interleaved,
    .transfers = ScheduleTransfers::overlappable, // Megatron's overlap_p2p_comm
    .joins_without_experts = true,
    .groups_microbatches = true,
};

} // namespace orrery
