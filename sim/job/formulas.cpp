#include "sim/job/formulas.hpp"

#include <algorithm>
#include <cmath>

namespace orrery {

double exact_goodput(double m, double tau, double delta, double r) { return tau / (m * std::exp(r / m) * std::expm1((tau + delta) / m)); }

double meta_ettr(double m, double tau, double delta, double r) {
    const double lost = (r + tau / 2) / m;
    return lost > 0.2 ? 0 : (1 - lost) / (1 + delta / tau);
}

double young_interval(double m, double delta) { return std::sqrt(2 * delta * m); }
double daly_interval(double m, double delta) { return std::max(delta, young_interval(m, delta) - delta); }

} // namespace orrery
