#include "exec/kernels/rows.hpp"

namespace orrery {

std::vector<std::int64_t> local_counts(const Operand& counts, const KernelContext& c, std::int64_t local) {
    const std::int64_t *sent = reinterpret_cast<const std::int64_t*>(counts.data), first = c.expert_at[Axis::ep] * local;
    const std::int64_t experts = c.facts.moe.experts > 0 ? c.facts.moe.experts : local, senders = elements(*counts.buffer) / experts;
    std::vector<std::int64_t> out(static_cast<std::size_t>(local), 0);
    for (std::int64_t r = 0; r < senders; ++r)
        for (std::int64_t e = 0; e < local; ++e) out[e] += sent[r * experts + first + e];
    return out;
}

RowGroups row_groups(const Call& call, std::int64_t rows, std::int64_t groups) {
    RowGroups out;
    if (const Operand* counts = counts_among(call.in)) {
        std::int64_t at = 0;
        for (const std::int64_t n : local_counts(*counts, call.context, groups)) {
            out.begin.push_back(at);
            out.count.push_back(n);
            at += n;
        }
        check_room(at, rows);
        return out;
    }
    require(rows % groups == 0, "rows of experts do not divide");
    for (std::int64_t g = 0; g < groups; ++g) {
        out.begin.push_back(g * (rows / groups));
        out.count.push_back(rows / groups);
    }
    return out;
}

} // namespace orrery
