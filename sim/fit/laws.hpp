// Shared by the fit and the check: the tables' measurements in the terms of sim/cost's laws.
#pragma once

#include "sim/fit/fit.hpp"

#include "sim/cost/gemm.hpp"

namespace orrery {

double rounded(double x); // to three digits, as constants are written

// A device in a short burst with operands that stay in its cache where they fit, as GEMM tables are measured.
GemmDevice burst_device(const Device& device, const std::string& dtype);
GemmProblem problem_of(const MeasuredTable& table, std::size_t row, const std::string& dtype);

// The time of an 8-bit op's cast of its input: a fixed time, one for each element, and more for each element that does not stay in the
// cache: 3 bytes an element, of which `share` of the cache holds what it can (half of it on chips whose cache is two that copy each other).
struct Cast {
    double fixed = 0, per_element = 0, beyond = 0, share = 1;
    double us(double elements, double l2) const;
};
// measured - law, by least squares of relative residuals (soft beyond 5 %); nothing below zero. l2: bytes.
Cast fit_cast(const std::vector<double>& law, const std::vector<double>& measured, const std::vector<double>& elements, double l2);

// The catalogue's device of that name, which a table's file is named for. Throws std::runtime_error where there is none; prefix: of such
// names.
Device device_named(const MeasuredTable& table, const std::string& name, const char* prefix);

// The machine of a communication table: `nodes` nodes of `devices` devices, links inside from the datasheet, nothing said of the network.
Cluster measured_cluster(const Device& device, int devices_per_node, int nodes = 1);

// Collectives of one domain of links, and of nodes whose network the table's `system` says ("RoCE CX-7 8x400 Gbps per node").
Checked check_collectives(const MeasuredTable& table);
// Single points of bus bandwidth (gpu, gpus, nodes, op, bytes, busbw_GBps) in the columns of those; skipped: why some are left out.
MeasuredTable collectives_of(const MeasuredTable& points, std::vector<std::string>& skipped);
// Dispatch and combine of experts' tokens, by published rates of DeepEP.
Checked check_dispatch(const MeasuredTable& table);
// Forward and backward passes over layers (layers, hidden_size, .., forward_ms) or over a mixture's layer (case, forward_ms, backward_ms).
Checked check_passes(const MeasuredTable& table);

} // namespace orrery
