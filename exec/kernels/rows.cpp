#include "exec/kernels/rows.hpp"

namespace orrery {

RowGroups row_groups(const Call&, std::int64_t rows, std::int64_t groups) {
    RowGroups out;
    require(rows % groups == 0, "rows of experts do not divide");
    for (std::int64_t g = 0; g < groups; ++g) {
        out.begin.push_back(g * (rows / groups));
        out.count.push_back(rows / groups);
    }
    return out;
}

} // namespace orrery
