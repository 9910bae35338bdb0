// A layer of experts as inference engines' profilers time it (TensorRT-LLM's fused op): router, tokens sorted by expert, two grouped
// products with the activation between, outputs summed; one rank of its group, nothing sent. Training's layers are planned op by op: it is
// not timed by this.
//
//   rows    tokens top_k / ep in balance, over min(experts / ep, rows) experts; skewed by a power law, the group that gets most
//   (expert_rows) t = start + per_expert experts + P(gate f, h) + P(h, f) + copy (2 rows f (gate + 1) + (4 + in) rows h + 2 tokens h) / B
//   P: the tile law over all experts' tiles at once (cost/gemm.hpp), operands from memory; f = ffn / tp; gate = 2, without a gate 1
// Example: H100, 16-bit, 8192 tokens of 4096 to 8 of 128 experts of 1536: 512 rows an expert, some 5 ms of products at 3/4 of dense ones'
// rate.
#pragma once

#include "sim/fit/fit.hpp"

#include "sim/cost/gemm.hpp"

namespace orrery {

struct ExpertsProblem {
    double tokens = 1, hidden = 1, ffn = 1, experts = 1, top_k = 1, ep = 1; // ffn: of this rank's share
    double gate = 2, skew = 0;                                              // skew: the power law's exponent, 0: balanced
};

bool is_experts(const MeasuredTable& table);
ExpertsProblem experts_problem(const MeasuredTable& table, std::size_t row);
// Rows of each of the rank's experts that has any. A skewed draw is the mean of some draws, each sorted, of loads that follow x^-skew
// between 1 and 0.8 tokens (0.01 and 2 where experts are more than rows), none above the tokens: aiconfigurator's generator.
std::vector<double> expert_rows(const ExpertsProblem& problem);
// us. device: cold; rows as expert_rows has them.
double experts_us(const ExpertsTable& table, const GemmDevice& device, const ExpertsProblem& problem, std::span<const double> rows,
                  double in_bytes);

Checked check_experts(const MeasuredTable& table);
// Seven constants for each type of a table, as JSON text by type; the products' efficiency is the dense ones'.
std::string fit_experts(const MeasuredTable& table);

} // namespace orrery
