// Rows of tokens by expert: which rows each of a rank's matrices works on.
#pragma once

#include "exec/kernels/call.hpp"
#include "exec/kernels/room.hpp"

#include <vector>

namespace orrery {

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
