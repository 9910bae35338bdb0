// `simrun validate`: every row of a dataset of published measurements predicted and compared with what was measured.
// Dataset format: scenarios/validation/README.md. Errors are signed fractions, predicted / measured - 1.
#pragma once

#include "sim/cost/learned.hpp"
#include "sim/report/report.hpp"
#include "topology/indexed.hpp"

#include <functional>
#include <optional>
#include <string>
#include <vector>

namespace orrery {

struct RowFigures {
    std::optional<double> step_time_s, memory_gb, bubble_fraction;
    std::optional<bool> fits;
};

struct ValidationRow {
    std::string dataset, name, source, note;
    std::string scenario_json, base_dir;
    std::shared_ptr<const OwnConstants> constants{}; // what its scenario is predicted with: ParseOptions::constants
    RowFigures measured, predicted;
    MemoryMeasure memory_measure = MemoryMeasure::allocated; // what measured.memory_gb counts
    std::vector<std::string> assumed;                        // fields its source does not state
    std::string job;                          // rows of one job: the same model, cluster, batch and sequence, run by other strategies
    std::vector<double> step_time_readings_s; // where the source read the same run more than once
    std::optional<double> step_time_noise;    // relative standard deviation of a reading, where the row or its dataset states one
    bool held_out = false;                    // its dataset says so: no constant was fitted to any of its rows
    bool fits_not_comparable = false;         // it ran with what a scenario cannot say of its memory: its note says what
    bool doubtful = false;                    // odd by its source's own figures: its note says "Doubtful: .."
    Configuration configuration;              // what is like it, for error bars
    ByEnum<Category, double, category_count> breakdown_s{}; // where the predicted time goes
    CostShares shares{};                                    // by group of constants; 0 where they were not asked for
    std::optional<double> planned_share;                    // predicted peak, of what the device has
    double moving = 0;                                      // what comes and goes within a step, of that peak
    double step_time_bar = 0, memory_bar = 0;               // half widths of its interval
    CostFactors factors = no_factors;                       // it is predicted with, by group of constants
    std::string failure;                                    // why there is no prediction; empty: there is one
    bool refused = false; // .. because its scenario cannot be said or is not built; else the prediction itself went wrong

    std::optional<bool> fitted() const; // what is known of it: a run that was timed did

    // predicted / measured - 1 where both are known; -1 (nothing predicted, 100% off) for a row that failed, none for a refused one.
    std::optional<double> step_time_error() const, memory_error() const;
};

struct ErrorSummary {
    int n = 0; // rows with this measurement, failed ones included
    double mean_abs_error = 0, median_abs_error = 0, bias = 0;
    double kendall_tau = 0; // tau-b of predicted against measured, failed rows left out
    std::string worst;      // name of the row with the largest error
    double worst_error = 0;
    int sound = 0; // rows that are not doubtful, and their mean absolute error
    double sound_mean_abs_error = 0;
    double sound_kendall_tau = 0;
    // Over the rows that are not doubtful and whose readings have a known noise (statistics.hpp).
    struct Noisy {
        double noise = 0, attainable_tau = 0, tau_beyond_noise = 0;
        std::int64_t pairs_beyond_noise = 0;
    };
    std::optional<Noisy> noisy;
};
// Over the rows that state whether they fitted; and over these and the timed ones, which therefore fitted.
struct FitsSummary {
    int n = 0;
    double accuracy = 0;
    int known = 0;
    double accuracy_of_known = 0;
};
// For two rows of one job: is the faster one predicted to be the faster? Step times nearer than the noise of measurements are ties, and not
// asked about.
struct PairsSummary {
    std::int64_t n = 0, right = 0, ties = 0;
};
struct ValidationSummary {
    std::string dataset;
    ErrorSummary step_time, memory;
    FitsSummary fits;
    PairsSummary pairs;
    int failed = 0, refused = 0; // refused rows are in no other figure
};
inline constexpr double measurement_noise =
    0.02; // published step times have two or three digits, and steps differ by a per cent or two from run to run

struct Validation {
    std::vector<ValidationRow> rows;
    ValidationSummary overall, held_out, fitted; // all rows; those no constant was fitted to, and the others
    std::vector<ValidationSummary> by_dataset;   // in the order they came
};

// problems: what is wrong with the file or its rows; where there are any, rows are not all there is. other_table: its rows hold no
// scenarios at all, it is a table of something else.
struct DatasetResult {
    std::vector<ValidationRow> rows;
    std::vector<std::string> problems;
    bool other_table = false;
};
DatasetResult load_dataset(const std::string& path);

using Progress = std::function<void(std::size_t done, std::size_t total)>; // called by one thread at a time

// Fills in the predictions, rows side by side on `jobs` threads (0: all cores). Result and order do not depend on it.
// shares: the rows' sensitivities too, which takes some five times as long.
Validation validate(std::vector<ValidationRow> rows, int jobs = 0, const Progress& progress = {}, bool shares = false);

// Predicts one row in place. Never throws: what goes wrong is row.failure.
void predict_row(ValidationRow& row, bool shares = false);
Validation summarise(std::vector<ValidationRow> rows);

// The noise of a dataset's step times, row by row: what the row or its dataset states, else the scatter of the dataset's repeated readings
// (readings of a row, and rows of one scenario) if these have three degrees of freedom. Nothing where that leaves a row without.
std::optional<std::vector<double>> noise_of(const std::vector<const ValidationRow*>& rows);

std::string to_json(const Validation& validation); // as DESIGN.md says
std::string to_csv(const Validation& validation);
std::string to_html(const Validation& validation);       // self-contained: errors by dataset, predicted against measured, every row
std::string for_whom(const Validation& validation);      // its first page: for whom predictions are good and for whom not, in words
std::string to_markdown(const Validation& validation);   // VALIDATION.md; figures are read back by regressions()
std::string to_experience(const Validation& validation); // what error bars are made of (sim/report/error_bar.hpp)
// Its rows as those of a new source: each predicted without the factor that its own source had a part in (with_uncounted_left_out()), and
// merged with first contacts.
std::vector<Experience> left_out_rows(const Validation& validation);

// The spreads of beliefs (sim/trust/beliefs.hpp) from the rows of datasets that no constant was fitted to.
std::string to_spreads(const Validation& validation);

// Lessons of a few measured steps of one's own (sim/trust): of each software on each device of a dataset (as `simrun learn` keeps them
// apart) with four sound rows and more, the mean absolute error of the rows that were not learned from: for none, one, three and all others
// learned, the mean over single rows, draws of three, and rows left out in turn. By the linear law; `simrun learn` predicts again.
struct LearnedFrom {
    std::string dataset, device;
    Stack stack = Stack::other;
    int rows = 0;
    double none = 0, bias = 0;
    struct After {
        double error = 0, covered = 0, width = 0; // of the other rows; covered: share of them in the intervals, width: mean half width
    };
    After one{}, three{}, all{};
    bool unseen = false; // no constant was fitted to the dataset
};
// first: of sources that no constant was fitted to at their first prediction, with its errors where kept (first_contact.json), else of now.
std::vector<LearnedFrom> learned_from(const Validation& validation, Figure figure = Figure::step_time, bool first = false);

// `simrun learn`: what the rows teach about each stack on each device that they ran on. Rows are predicted three times: with the factors
// learned so far in place, as the law is linear only near them. left_out: rows that teach nothing, and why.
struct LearnedRows {
    std::vector<LearnedConstants> constants;
    std::vector<ValidationRow> before, after; // the rows as they were and are predicted now
    std::vector<std::string> left_out;
};
LearnedRows learn_from(std::vector<ValidationRow> rows, int jobs = 0, const Progress& progress = {});
// The rows predicted with what was learned beside the constants that they carry.
std::vector<ValidationRow> predicted_with(std::vector<ValidationRow> rows, std::span<const LearnedConstants> learned, int jobs = 0,
                                          const Progress& progress = {});

// Datasets whose mean absolute error (time, memory; or share of wrong fits) is more than `allowed` above that in an earlier VALIDATION.md,
// a sentence each. Rows that were not there then, and datasets that are not here now, are no regression.
std::vector<std::string> regressions(const Validation& now, const std::string& earlier, double allowed = 0.01);
std::string to_text(const Validation& validation, const TextStyle& style = {});

} // namespace orrery
