#include "exec/kernels/rows.hpp"

namespace orrery {

RowGroups row_groups(const Call& call, std::int64_t rows, std::int64_t groups) {
    RowGroups out;
    for (const Operand& o : call.in)
        if (o.buffer->dtype == DType::int64) {
            const std::int64_t* counts = reinterpret_cast<const std::int64_t*>(o.data);
            std::int64_t at = 0;
            for (std::int64_t g = 0; g < groups; at += counts[g++]) {
                out.begin.push_back(at);
                out.count.push_back(counts[g]);
            }
            require(at <= rows, "experts have more rows than the plan has room for");
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
