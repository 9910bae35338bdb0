// The statistics validation prints.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace orrery {

double mean(std::span<const double> x); // 0 for none
double median(std::vector<double> x);   // 0 for none; the mean of the middle two for an even count

// Kendall's tau-b: concordant less discordant pairs over sqrt((pairs - ties in x)(pairs - ties in y)); 0 where undefined.
double kendall_tau(std::span<const double> x, std::span<const double> y);

// The tau that measurements with these relative standard deviations allow (one each, normal in the logarithm). For two that differ by d =
// |ln(a/b)|, with s = sqrt(noise_a^2 + noise_b^2), a second reading keeps the order with probability Phi(d/s), so a predictor that knows
// the truth expects the mean over pairs of 2 Phi(d/s) - 1 = erf(d / (s sqrt 2)). The measured distances stand for the true ones and hold
// the noise too: if anything too much.
double attainable_tau(std::span<const double> measured, std::span<const double> noise);

// Kendall's tau over the pairs whose order is not in doubt: measured further apart than two standard deviations of their difference. 0 for
// none.
struct TauBeyondNoise {
    double tau = 0;
    std::int64_t pairs = 0;
};
TauBeyondNoise tau_beyond_noise(std::span<const double> predicted, std::span<const double> measured, std::span<const double> noise);

// The relative standard deviation of repeated readings, pooled over the runs that were read more than once, with its degrees of freedom.
// Readings of a run that agree in every digit are one, printed twice.
struct Scatter {
    double relative = 0;
    int degrees = 0;
};
Scatter scatter_of_repeats(const std::vector<std::vector<double>>& runs);

} // namespace orrery
