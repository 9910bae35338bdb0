// The statistics validation prints.
#pragma once

#include <span>
#include <vector>

namespace orrery {

double mean(std::span<const double> x);               // 0 for none
double median(std::vector<double> x);                 // 0 for none; the mean of the middle two for an even count

// Kendall's tau-b: concordant less discordant pairs over sqrt((pairs - ties in x)(pairs - ties in y)); 0 where undefined.
double kendall_tau(std::span<const double> x, std::span<const double> y);

} // namespace orrery
