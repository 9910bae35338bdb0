// Beliefs about the constants: for each group of them, by which factor measured times differ from predicted ones.
//
// A step of predicted time T and shares s (shares.hpp) is measured to take T exp(sum_g s_g x_g + r): x_g is the logarithm of the factor of
// group g, r that of what no group describes (a source's software, clocks, way to measure). All are normal; before anything was measured
// their means are 0 and their standard deviations the spreads of scenarios/calibration/trust/spreads.json. A measured step updates them
// exactly (a linear observation of a Gaussian: Kalman 1960). The law is linear in the logarithm, so it is good for factors near 1; for
// large ones a prediction has to be made again with the factors in place.
#pragma once

#include "sim/cost/learned.hpp"
#include "sim/scenario/open_fields.hpp"
#include "sim/trust/shares.hpp"

#include <array>
#include <span>
#include <string>

namespace orrery {

// Standard deviations of x_g and r; open: what is added, in squares, where a field is left to its default.
struct Spreads {
    BeliefArray stated{};
    std::array<double, open_fields.size()> open{};

    BeliefArray with(const OpenFields& left_open) const;
};
// Whose spread an open field adds to: the index of a belief.
inline constexpr std::array<std::size_t, open_fields.size()> widened{static_cast<std::size_t>(CostGroup::attention), cost_group_count};
const Spreads& spreads_before(); // any measurement: those compiled in

BeliefArray with_rest(const CostShares& shares);                        // and 1 for r
Beliefs beliefs_before(const OpenFields& left_open);                    // independent, of the spreads before
Beliefs beliefs_of(const BeliefArray& spreads);                         // independent, of these standard deviations
double spread_of(const BeliefArray& spreads, const CostShares& shares); // of independent beliefs

// One measured step: off = ln(measured / predicted), noise: its standard deviation (of a reading, and of what the law leaves out).
// Returns the logarithm of how likely it was, but for a constant.
double learn(Beliefs& beliefs, const CostShares& shares, double off, double noise);

// Several of them. How noisy the steps are, and how far off constants are for this software, is not known before and is weighed by how
// likely it makes them (a sum over a grid of both: Bayesian model averaging): one row far off may be an odd one, three that agree are not.
struct Lesson {
    CostShares shares{};
    double off = 0;
    OpenFields left_open{};
};
struct Taught {
    Beliefs beliefs;
    double noise = 0; // of a further step, beside the spread of the beliefs: half_width() of both holds four in five
};
Taught taught_by(std::span<const Lesson> lessons);

// The same of memory. A figure differs by what comes and goes within a step (activations, buffers, the allocator) and by the whole of it;
// moving: the share of the predicted figure that comes and goes (parameters, gradients and optimizer states do not).
struct MemoryLesson {
    double moving = 0, off = 0;
};
struct MemoryTaught {
    MemoryBeliefs beliefs;
    double noise = 0;
};
MemoryTaught taught_by(std::span<const MemoryLesson> lessons);
double expected_off(const MemoryBeliefs& beliefs, double moving);
double spread_of(const MemoryBeliefs& beliefs, double moving);
// Before any row: what comes and goes within 25 %, the whole figure within 4: judged on rows that nothing was fitted to.
inline constexpr std::array<double, 2> memory_spreads{0.25, 0.04};

// Half width of the interval that a normal quantity of this standard deviation lies in four times of five.
constexpr double half_width(double deviation) { return 1.2816 * deviation; }

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
    OpenFields left_open{};
};
Spreads fitted_spreads(std::span<const Observed> rows, const Spreads& before);
// Beliefs before any row: gemm tables within 8 %, experts' products 25, attention 15, kernels that move bytes 50 (which of them
// are fused is seldom stated), host times 50, links inside nodes 30, networks between them 40, the rest 7; another attention kernel takes
// 15 % more or less, software of another year 8: judged, not measured.
inline constexpr Spreads judged_spreads{{0.08, 0.25, 0.15, 0.5, 0.5, 0.3, 0.4, 0.07}, {0.15, 0.08}};

std::string write_spreads(const Spreads& spreads, std::size_t rows, std::size_t sources);

} // namespace orrery
