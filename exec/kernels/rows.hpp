// Rows of tokens by expert: which rows each of a rank's matrices works on.
#pragma once

#include "exec/kernels/call.hpp"
#include "exec/kernels/room.hpp"
#include "sim/model/expert_load.hpp"

#include <algorithm>
#include <span>
#include <vector>

namespace orrery {

// Whether a capacity drops rows and pads none.
inline bool cuts(const MoeSpec& moe) { return moe.capacity_factor > 0 && !moe.pads(); }

// Rows that each expert takes at most of a rank's `tokens`; 0: all. rows: of `local` experts, equal parts where a capacity pads.
inline std::int64_t most_rows(const MoeSpec& moe, std::int64_t tokens, std::int64_t rows, std::int64_t local) {
    return moe.pads() ? rows / local : cuts(moe) ? expert_capacity(moe, tokens) : 0;
}

// Experts of a rank.
inline std::int64_t local_experts(const KernelContext& c) { return c.facts.moe.experts / c.plan.expert_mesh.extent(Axis::ep); }

// The operand that says how many rows experts have; null: none of them does.
inline const Operand* counts_among(std::span<const Operand> operands) {
    const auto found = std::ranges::find_if(operands, [](const Operand& o) { return o.buffer->role == Role::counts; });
    return found == operands.end() ? nullptr : &*found;
}

// Rows of each of a rank's `local` experts, of all that send to it. counts: [sender][expert], all experts.
std::vector<std::int64_t> local_counts(const Operand& counts, const KernelContext& context, std::int64_t local);

// Counts stand in the order of the communicator that told them: where those of expert rank `ep`, expert-tensor rank `tp` are.
inline std::int64_t sender(const Plan& plan, std::int64_t ep, std::int64_t tp) {
    const Mesh& mesh = plan.expert_mesh;
    return mesh.stride(Axis::tp) < mesh.stride(Axis::ep) ? ep * mesh.extent(Axis::tp) + tp : tp * mesh.extent(Axis::ep) + ep;
}

// And those of the r-th part of what has come together on a rank: expert-tensor rank by rank what each got from the expert ranks.
inline std::int64_t arrived(const Plan& plan, std::int64_t r) {
    const std::int64_t experts = plan.expert_mesh.extent(Axis::ep);
    return sender(plan, r % experts, r / experts);
}

struct RowGroups {
    std::vector<std::int64_t> begin, count;
};

// All rows in one group; or as the op's counts say, an operand of integers; or equal groups (a capacity, or forced routing).
RowGroups row_groups(const Call& call, std::int64_t rows, std::int64_t groups);

} // namespace orrery
