// The clock of matrix kernels (products, attention) in a layer, against the sustained one.
//
// A board's controller holds the mean power of tens of milliseconds at the limit. Kernels that the memory binds draw less power and take
// as long at any clock, so that matrix kernels between them run faster than where one follows another. The power of matrix kernels goes
// with the square of the clock, as the clock goes with the root of a limit. In units of the limit, P is the power of matrix kernels at the
// sustained clock and q that of the others. The sustained clock holds the limit where matrix kernels have the share s of the time:
//   s P + (1 - s) q = 1
// In a layer with M of matrix kernels at the sustained clock and m of others the clock is r times the sustained one, so that
//   P r^2 M/r + q m = M/r + m     =>     r = (k + sqrt(k^2 + 4 P)) / 2 P,     k = (1 - q) m / M
// and never faster than the burst's. Example: s 1, q 0.43: P 1; where M has 0.7 of the time r is 1.130, where 0.95 it is 1.015.
//
// The time is T = M/r + m, and dT/dm = 1 - (1 - q) / (1 + P r^2) > 0: a faster memory or fewer kernels lower the clock of the products,
// but by less than they save.
#pragma once

namespace orrery {

// matrix: seconds of matrix kernels at the sustained clock, others: of the rest. share > 0, power <= 1. 1 where there are no matrix
// kernels.
double mixed_clock(double matrix, double others, double share, double power);

} // namespace orrery
