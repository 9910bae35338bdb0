// Tables that users hand over as CSV: failures of a run, measurements to fit.
#pragma once

#include <string>
#include <vector>

namespace orrery {

// The cells of one line. Commas between quotation marks belong to their cell; the marks do not, and neither does a carriage return.
std::vector<std::string> csv_cells(const std::string& line);

} // namespace orrery
