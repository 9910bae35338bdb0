// A strategy in words. Private to this room.
#pragma once

#include "sim/report/report.hpp"
#include "topology/indexed.hpp"

#include <array>
#include <string>

namespace orrery {

std::string kind_of(const Scenario& scenario);  // its degrees: "tensor 8 x pipeline 4 x data 2, expert 4 on 8 nodes"
std::string label_of(const Scenario& scenario); // all that a search may vary

std::string largest_parts(const ByEnum<Category, double, category_count>& seconds); // the three largest: "compute 90 %, bubble 5 %"

} // namespace orrery
