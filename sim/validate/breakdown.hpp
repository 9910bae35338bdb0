// Where a row's predicted time goes, in a few words.
#pragma once

#include "sim/validate/validate.hpp"

namespace orrery {

// The largest shares of the predicted step: "compute 71 %, bubble 20 %, tensor-parallel 6 %". Empty for a row that failed.
std::string largest_shares(const ValidationRow& row, int how_many = 3);

} // namespace orrery
