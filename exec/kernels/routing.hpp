// Which row of the experts' side each token of a router's map becomes: rows stand expert by expert, an expert's in the order of its tokens.
#pragma once

#include "exec/kernels/call.hpp"

#include <vector>

namespace orrery {

struct RoutedRow {
    std::int64_t token, expert, row;
};

// map: [tokens, experts], of booleans; rows are those of experts [first, last). capacity > 0: each expert has that number of rows at most,
// later tokens find it full, and padded: exactly that number; 0: as many as it has tokens.
struct ExpertRange {
    std::int64_t first, last;
};
std::vector<RoutedRow> routed_rows(const unsigned char* map, std::int64_t tokens, std::int64_t experts, ExpertRange here,
                                   std::int64_t capacity, bool padded);

} // namespace orrery
