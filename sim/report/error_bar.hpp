// How far off predictions were on the validated rows most like a scenario: the error bar of its report.
// The rows are scenarios/calibration/validated/rows.json, which `simrun validate --rows` writes; compiled in.
#pragma once

#include "sim/scenario/practice.hpp"

#include <cstdint>
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
// For times sequences and hosts count as well, and stacks more; for memory they were found to tell nothing.
double distance_in_time(const Configuration& a, const Configuration& b);

// A validated row: signed errors, predicted / measured - 1.
struct Experience {
    Configuration configuration;
    std::string dataset, name;
    std::optional<double> step_time, memory;
    bool unseen = false; // no constant was fitted to a row of its source when it was predicted
};
std::string_view source_of(std::string_view dataset); // a part of it: the family of datasets, as rows of one source are in several files

// All rows of scenarios/calibration/validated. first_contact.json has errors of sources as they were when they were predicted for the first
// time; where rows.json has the same row, predicted after the causes were looked for, half of the mended square error counts: what helped
// these runs is expected to help other sources, but less.
const std::vector<Experience>& validated_rows();
const std::vector<Experience>& first_contacts();
std::vector<Experience> merged(std::vector<Experience> now, std::span<const Experience> first);
std::vector<Experience> read_experience(std::string_view json);
std::string write_experience(std::span<const Experience> rows); // one row a line

// The error that four in five of the unseen rows stay within, each weighted by exp(-d/1.5) of its distance d (memory: exp(-d/4)) and the
// inverse root of the weight of all rows of its source, at least 2 %. Rows whose source a constant was fitted to are left out: on new
// sources predictions were off by three times as much as on those (bars drawn from all rows held 19 % of the step times of nine new
// sources). Distance and weights are those whose bars, drawn without a source, hold four in five of its rows and are narrow; a test holds
// the four in five, VALIDATION.md prints it. Where none of the rows is of this device, what predictions were off by on devices before they
// had a row is added, in quadrature.
struct ErrorBar {
    double step_time = 0, memory = 0; // half widths as fractions; 0: no rows
    double transferred = 0;           // the part of step_time that stands for a device nobody validated
    int rows = 0, sources = 0;        // unseen rows with a step time, and their sources
    int learned = 0;                  // measured steps of one's own that step_time is by (sim/report/learned.cpp); 0: the rows'
    int same_device = 0;              // of all validated rows
    std::string nearest;              // "dataset / row", of all validated rows
    double nearest_error = 0;         // its predicted / measured - 1
};
ErrorBar error_bar(const Configuration& of, std::span<const Experience> rows);
std::string to_text(const ErrorBar& bar); // "step time within 18 %, ..: .. (nearest: ..)"

// Leave one source out: how many of the unseen rows lie in bars that are drawn without their source. by: the name of a group of rows.
struct Coverage {
    std::string by;
    int rows = 0, sources = 0;
    double mean_abs_error = 0, bias = 0, covered = 0, width = 0; // fractions; width: mean half width of the bars
};
enum class Figure : std::uint8_t { step_time, memory };
std::vector<Coverage> left_out_coverage(std::span<const Experience> rows, Figure figure); // of all, then by stack, then by device

} // namespace orrery
