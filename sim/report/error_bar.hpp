// How far off predictions were on the validated rows most like a scenario: the error bar of its report.
// The rows are scenarios/calibration/validated/rows.json, which `simrun validate --rows` writes; compiled in.
#pragma once

#include "sim/scenario/practice.hpp"
#include "sim/trust/beliefs.hpp"

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
    // Not compared; the expected size of the error follows from them: shares of the step by group of constants (all 0: not known), and the
    // fields that are left open.
    CostShares shares{};
    OpenFields left_open{};

    bool has_shares() const { return shares != CostShares{}; }
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
    // Unseen rows of one dataset with the same job differ by their strategies alone; empty: not known.
    std::string job{};
    double predicted_s = 0; // step time
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

// Eight of ten steps take from (1 - faster) to (1 + slower) times what is predicted. Both 0: not known.
struct TimeInterval {
    double faster = 0, slower = 0;

    bool known() const { return faster > 0 || slower > 0; }
    friend bool operator==(const TimeInterval&, const TimeInterval&) = default;
};
std::string to_text(const TimeInterval& interval); // "-5 +16 %"; empty: not known

// The interval of a prediction. An error is expected to be the larger, the more of the step rests on constants that are not sure: its unit
// is the square root of spread_of() its shares by the spreads before any measurement (sim/trust); the root, because those spreads are
// fitted to few rows: with it intervals that hold as many rows are narrower. Software of some stacks is further off than that: the unit is
// longer by what rows of the stack are off in it, against all rows, held to all where few sources have it. The errors of the unseen rows,
// each in its own unit, are weighted by exp(-d/8) of the distance d (but for stacks, which have their units) and the inverse root of the
// weight of all rows of the source; the tenths of that weight at both ends are left out, and the rest is scaled by the unit of this step.
// (Conformal prediction with normalised and weighted residuals: Papadopoulos et al. 2008, Tibshirani et al., arXiv:1904.06019.) So an
// interval is narrower where a step rests on surer constants, and where a field is stated. Without shares all errors count as they are,
// weighted by exp(-d/3), those of memory by exp(-d/4). At least 2 % on either side.
//
// Rows whose source a constant was fitted to are left out: on new sources predictions were off by three times as much as on those (bars
// drawn from all rows held 19 % of the step times of nine new sources). Distances and weights are those whose bars, drawn without a source,
// hold four in five of its rows and are narrow; a test holds the four in five, VALIDATION.md prints it. Where none of the rows is of this
// device, what predictions were off by on devices before they had a row is added, in quadrature.
struct ErrorBar {
    double step_time = 0, memory = 0; // half widths as fractions, the same to both sides; 0: no rows
    TimeInterval interval;            // of the step time
    double transferred = 0;           // the part of step_time that stands for a device nobody validated
    double all_stated = 0;            // step_time, were no field of open_fields left open; 0: none is
    int rows = 0, sources = 0;        // unseen rows with a step time, and their sources
    int learned = 0;                  // measured steps of one's own that step_time is by (sim/report/learned.cpp); 0: the rows'
    int same_device = 0;              // of all validated rows
    std::string nearest;              // "dataset / row", of all validated rows
    double nearest_error = 0;         // its predicted / measured - 1
};
ErrorBar error_bar(const Configuration& of, std::span<const Experience> rows, const Spreads& spreads = spreads_before());
std::string to_text(const ErrorBar& bar); // "80 % interval: step time from 5 % less to 16 % more, ..; nearest validated run: .."

// The factor of uncounted() (sim/cost/own_constants.hpp) that rows want which no other constant was fitted to, as they are predicted now,
// with the factor in place: with it the mean error is least, each source weighing as the root of its rows. 1 to 1.6, in steps of a
// hundredth; without those of the source `without`. The factor in place where no row is of its stacks.
double uncounted_by(std::span<const Experience> rows, std::string_view without = {});
// Each row's error as it would be by the factor that the rows of all other sources want: linear in the share of kernels that move bytes.
std::vector<Experience> with_uncounted_left_out(std::vector<Experience> rows);

// Leave one source out: how many of the unseen rows lie in bars that are drawn without their source, the spreads fitted without it too.
// by: the name of a group of rows.
struct Coverage {
    std::string by;
    int rows = 0, sources = 0;
    double mean_abs_error = 0, bias = 0, covered = 0, width = 0; // fractions; width: mean half width of the bars
    double below = 0, above = 0;                                 // of step times: shares of rows that took less, and more
};
enum class Figure : std::uint8_t { step_time, memory };
// Fitted to the unseen rows, without those of the source `without`.
Spreads spreads_by(std::span<const Experience> rows, std::string_view without = {});
std::vector<Coverage> left_out_coverage(std::span<const Experience> rows, Figure figure); // of all, then by stack, then by device

} // namespace orrery
