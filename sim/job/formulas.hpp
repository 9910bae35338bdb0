// Theory of a run with failures at a constant rate. All times in one unit: m between failures, tau of work between saves, delta
// that a save blocks, r of a restart.
#pragma once

namespace orrery {

// Failures strike saves and restarts too: tau / (m e^(r/m) (e^((tau + delta)/m) - 1)).
double exact_goodput(double m, double tau, double delta, double r);
// First order (Kokolis et al., arXiv:2410.21680); far off where (r + tau/2) / m is not small: 0 where it is above 0.2.
double meta_ettr(double m, double tau, double delta, double r);
double young_interval(double m, double delta); // sqrt(2 delta m) (Young, 1974)
double daly_interval(double m, double delta);  // Young's less delta, at least delta (Daly, 2006, first order)

} // namespace orrery
