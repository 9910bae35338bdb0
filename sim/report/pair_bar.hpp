// The interval of a difference: what two predicted steps of one job are off by alike does not change which of them is the faster.
#pragma once

#include "sim/report/error_bar.hpp"

#include <span>

namespace orrery {

struct PredictedStep {
    Configuration configuration;
    double s = 0; // step time
};

// The measured ratio of two steps is the predicted one times exp(-width) to exp(width), four times of five. By pairs of unseen runs of one
// job under two strategies: the errors of their ratios, each in its own unit, weighted by exp(-d/6) of the mean distance d of their
// runs and the inverse root of the weight of their source. The unit is the root of what is expected of a difference: the shares of groups
// of constants in which the two differ, each times its spread, three tenths of the ratio's logarithm, and 6 %, which no constant explains.
struct PairBar {
    double width = 0; // of a logarithm; 0: there are no pairs
    int pairs = 0, sources = 0;
};
PairBar pair_bar(const PredictedStep& a, const PredictedStep& b, std::span<const Experience> rows,
                 const Spreads& spreads = spreads_before());

// Leave one source out: how many of the pairs lie within what the pairs of all other sources say. mean_abs_error and bias: of the ratios'
// logarithms; width: the mean.
Coverage left_out_pairs(std::span<const Experience> rows);

} // namespace orrery
