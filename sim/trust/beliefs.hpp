// What is believed of the constants: for each group of them, by which factor measured times differ from predicted ones.
//
// A step of predicted time T and shares s (shares.hpp) is measured to take T exp(sum_g s_g x_g + r): x_g is the logarithm of the factor of
// group g, r that of what no group describes (a source's software, clocks, way to measure). All are normal; before anything was measured
// their means are 0 and their standard deviations the spreads of scenarios/calibration/trust/spreads.json. A measured step updates them
// exactly (a linear observation of a Gaussian: Kalman 1960). The law is linear in the logarithm, so it is good for factors near 1; for
// large ones a prediction has to be made again with the factors in place.
#pragma once

#include "sim/trust/shares.hpp"

#include <array>
#include <span>
#include <string>

namespace orrery {

inline constexpr int belief_count = cost_group_count + 1; // the last one is r
using BeliefArray = std::array<double, belief_count>;

struct Beliefs {
    BeliefArray mean{};
    std::array<BeliefArray, belief_count> covariance{};
};

Beliefs beliefs_before();                       // any measurement: the spreads as they are compiled in
Beliefs beliefs_of(const BeliefArray& spreads); // independent, of these standard deviations

// One measured step: off = ln(measured / predicted), noise: its standard deviation (of a reading, and of what the law leaves out).
void learn(Beliefs& beliefs, const CostShares& shares, double off, double noise);
inline constexpr double learning_noise = 0.12; // the least at which one learned row helps the others of most datasets (VALIDATION.md)

double expected_off(const Beliefs& beliefs, const CostShares& shares); // the mean of ln(measured / predicted)
double spread_of(const Beliefs& beliefs, const CostShares& shares);    // its standard deviation

// The part of the variance of a step that each belief stands for; they add up to 1. All 0 where there are no shares.
BeliefArray parts_of_spread(const Beliefs& beliefs, const CostShares& shares);

// Spreads from steps that no constant was fitted to: least squares of their squared errors (at most 0.4 each: beyond, a run differs by what
// no constant describes) on squared shares, none below half of `before`, each source weighing as the square root of its rows, held to
// `before` where the rows tell little.
struct Observed {
    CostShares shares{};
    double off = 0; // ln(predicted / measured)
    std::string source;
};
BeliefArray fitted_spreads(std::span<const Observed> rows, const BeliefArray& before);
// What was believed before any row: gemm tables within 8 %, experts' products 25, attention 15, kernels that move bytes 50 (which of them
// are fused is seldom stated), host times 50, links inside nodes 30, networks between them 40, the rest 7: judged, not measured.
inline constexpr BeliefArray judged_spreads{0.08, 0.25, 0.15, 0.5, 0.5, 0.3, 0.4, 0.07};

std::string write_spreads(const BeliefArray& spreads, std::size_t rows, std::size_t sources);

} // namespace orrery
