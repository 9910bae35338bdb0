// What the fit and the check share: the tables' measurements in the terms of sim/cost's laws.
#pragma once

#include "sim/fit/fit.hpp"

#include "sim/cost/gemm.hpp"

namespace orrery {

// A device in a short burst with operands that stay in its cache where they fit, as GEMM tables are measured.
GemmDevice burst_device(const Device& device, const std::string& dtype);
GemmProblem problem_of(const MeasuredTable& table, std::size_t row, const std::string& dtype);

// measured - law as a fixed time and one for each element, by least squares of relative residuals; neither below zero.
struct Cast { double fixed = 0, per_element = 0; };
Cast fit_cast(const std::vector<double>& law, const std::vector<double>& measured, const std::vector<double>& elements);

} // namespace orrery
