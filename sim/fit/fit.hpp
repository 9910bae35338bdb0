// Calibration from tables of measurements: how far a committed calibration is off on them, and new constants fitted to them.
//
// Known by their columns: GEMM latencies (dtype, m, n, k, us), attention rates (implementation, op, causal, head_dim, .., tflops),
// attention of an inference engine's prefill (seq_q, heads, .., fwd_us), its layers of experts (expert_ffn, top_k, .., fwd_us), collectives
// (system, devices, op, bytes, us) or points of their bus bandwidth (gpu, gpus, op, busbw_GBps), rates of experts' dispatch (ep,
// tokens_per_gpu, dispatch_gb_s) and passes over layers (forward_ms, backward_ms). The laws are those of sim/cost: a fit sets their few
// constants, never a point.
#pragma once

#include "sim/fit/table.hpp"

#include <functional>
#include <span>
#include <string>
#include <vector>

namespace orrery {

enum class TableKind { gemm, attention_rates, attention_prefill, experts, collectives, points, dispatch, passes, unknown };
TableKind kind_of(const MeasuredTable& table);

// One measurement and the calibration's word on it, both in us.
struct Compared {
    std::string op, dtype, size_class, device;
    double measured = 0, predicted = 0;
};

struct Deviation {
    std::string device, op, dtype, size_class; // "" where it is over all of them
    std::size_t n = 0;
    double median_abs = 0, mean_abs = 0, bias = 0;
};

// Every measurement of the table the committed calibration has a law and a device for; skipped: the others, with the reason.
struct Checked {
    std::vector<Compared> points;
    std::vector<std::string> skipped;
};
Checked check(const MeasuredTable& table);
// By device, op and dtype; and by size class within each.
std::vector<Deviation> deviations(std::span<const Compared> points);
std::string to_json(std::span<const Deviation> deviations, std::span<const std::string> skipped);
std::string to_text(std::span<const Deviation> deviations, std::span<const std::string> skipped);

// The constants of a table as a group of a calibration file (JSON), with source, number of points and residuals: every fifth
// measurement is kept out of the fit and scored. "not_determined" lists constants that the fit left beyond the limits of calibration files,
// and that stand at these limits instead: the table says nothing of them. Throws std::runtime_error where the table has no law to fit.
std::string fit(const MeasuredTable& table);

// Least squares with soft-L1 weights over parameters kept positive (steps are in their logarithms), Levenberg-Marquardt with finite
// differences. residual(parameters, i) for i < n. Stops at 60 iterations or a gain below 1e-6.
std::vector<double> least_squares(std::vector<double> parameters, std::size_t n,
                                  const std::function<double(const std::vector<double>&, std::size_t)>& residual, double soft = 0.05);

} // namespace orrery
