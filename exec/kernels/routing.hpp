// Which row of the experts' side each token of a router's map becomes: rows stand expert by expert, an expert's in the order of its tokens.
#pragma once

#include "exec/kernels/call.hpp"

#include <vector>

namespace orrery {

struct RoutedRow { std::int64_t token, expert, row; };

// map: [tokens, experts], of booleans. capacity > 0: each expert has so many rows, later tokens find it full; 0: as many as it has tokens.
std::vector<RoutedRow> routed_rows(const unsigned char* map, std::int64_t tokens, std::int64_t experts, std::int64_t capacity);

} // namespace orrery
