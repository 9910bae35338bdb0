// How far off predictions were on the validated rows most like a scenario: the error bar of its report.
// The rows are scenarios/calibration/validated/rows.json, which `simrun validate --rows` writes; compiled in.
#pragma once

#include "sim/scenario/practice.hpp"

#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace orrery {

// The features by which two runs are alike for a cost model.
struct Configuration {
    std::string device, architecture;
    Stack stack = Stack::other;
    int precision_bits = 16;
    bool experts = false;
    int devices = 1, tensor = 1, pipeline = 1, context = 1, expert = 1, zero = 0;
    int sequence = 0;      // tokens; 0: not compared
    double host_share = 0; // of the predicted step, what devices wait for their hosts
    bool recompute = false;
    bool measured = false; // the device comes with kernels measured on it (simexec calibrate): not compared
};
Configuration configuration_of(const Scenario& scenario);

// 0: alike in all that is compared. About 1 for a factor of 4 in one degree of parallelism, 3 for another architecture's device.
double distance(const Configuration& a, const Configuration& b);
// For times sequences and hosts count as well; for memory they were found to tell nothing.
double distance_in_time(const Configuration& a, const Configuration& b);

// A validated row: signed errors, predicted / measured - 1.
struct Experience {
    Configuration configuration;
    std::string dataset, name;
    std::optional<double> step_time, memory;
};
const std::vector<Experience>& validated_rows();
std::vector<Experience> read_experience(std::string_view json);
std::string write_experience(std::span<const Experience> rows); // one row a line

// The error that four in five of the rows stay within, each weighted by exp(-d) of its distance d (of a dataset together at most half of
// all weight), at least 2 %, and widened by the rows' weighted mean distance m to 1 + 0.05 m: unlike rows promise less. Weights, share and
// slope are what makes four in five rows of a source that is left out stay within bars drawn from the others with the narrowest bars (by
// the interval score of Gneiting and Raftery, 2007; a test holds them to the four in five). Where none of the rows is of this device, what
// predictions were off by on devices before they had a row is added, in quadrature.
struct ErrorBar {
    double step_time = 0, memory = 0; // half widths as fractions; 0: no rows
    double transferred = 0;           // the part of step_time that stands for a device nobody validated
    int rows = 0, same_device = 0;    // of the rows that make the step time's, those that weigh a tenth of the nearest and more
    std::string nearest;              // "dataset / row"
    double nearest_error = 0;         // its predicted / measured - 1
};
ErrorBar error_bar(const Configuration& of, std::span<const Experience> rows);
std::string to_text(const ErrorBar& bar); // "step time within 5 %, ..: .. (nearest: ..)"

} // namespace orrery
