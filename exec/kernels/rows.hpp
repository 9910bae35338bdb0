// Rows of tokens by expert: which rows each of a rank's matrices works on.
#pragma once

#include "exec/kernels/call.hpp"
#include "exec/kernels/room.hpp"

#include <vector>

namespace orrery {

// Rows of each of a rank's `local` experts, of all that send to it. counts: [sender][expert], all experts.
std::vector<std::int64_t> local_counts(const Operand& counts, const KernelContext& context, std::int64_t local);

struct RowGroups {
    std::vector<std::int64_t> begin, count;
};

// All rows in one group; or as the op's counts say, an operand of integers; or equal groups (a capacity, or forced routing).
RowGroups row_groups(const Call& call, std::int64_t rows, std::int64_t groups);

} // namespace orrery
