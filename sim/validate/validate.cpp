// Predictions of all rows, side by side, and their errors summed up.
#include "sim/validate/validate.hpp"

#include "sim/memory/ready.hpp"
#include "sim/scenario/parse.hpp"
#include "sim/validate/statistics.hpp"

#include <algorithm>
#include <atomic>
#include <cmath>
#include <map>
#include <mutex>
#include <thread>

namespace orrery {

namespace {

std::optional<double> error(const ValidationRow& row, std::optional<double> predicted, std::optional<double> measured) {
    if (!measured || *measured == 0 || row.refused) return std::nullopt;
    if (!row.failure.empty() || !predicted) return -1.0;
    return *predicted / *measured - 1;
}

std::string in_one_line(const std::vector<Problem>& problems) {
    std::string text;
    for (const Problem& p : problems) text += (text.empty() ? "" : "; ") + (p.where.empty() ? "" : p.where + ": ") + p.what;
    return text;
}

struct Points {
    std::vector<double> errors, predicted, measured, sound, sound_predicted, sound_measured;
    std::vector<const ValidationRow*> sound_rows; // those of sound_predicted
    std::string worst;
};

ErrorSummary summary_of(const Points& p) {
    ErrorSummary s;
    s.n = static_cast<int>(p.errors.size());
    std::vector<double> sizes;
    for (double e : p.errors) sizes.push_back(std::abs(e));
    s.mean_abs_error = mean(sizes);
    s.median_abs_error = median(sizes);
    s.bias = mean(p.errors);
    s.kendall_tau = kendall_tau(p.predicted, p.measured);
    s.worst = p.worst;
    s.sound = static_cast<int>(p.sound.size());
    s.sound_mean_abs_error = mean(p.sound);
    s.sound_kendall_tau = kendall_tau(p.sound_predicted, p.sound_measured);
    for (double e : p.errors) {
        if (std::abs(e) > std::abs(s.worst_error)) s.worst_error = e;
    }
    return s;
}

void add(Points& p, const ValidationRow& row, std::optional<double> e, std::optional<double> predicted, std::optional<double> measured) {
    if (!e) return;
    const bool worst = std::none_of(p.errors.begin(), p.errors.end(), [&](double x) { return std::abs(x) >= std::abs(*e); });
    if (worst) p.worst = row.name;
    p.errors.push_back(*e);
    if (!row.doubtful) p.sound.push_back(std::abs(*e));
    if (!row.failure.empty() || !predicted) return;
    p.predicted.push_back(*predicted), p.measured.push_back(*measured);
    if (!row.doubtful) p.sound_predicted.push_back(*predicted), p.sound_measured.push_back(*measured), p.sound_rows.push_back(&row);
}

// The rank correlation that the measurements' own noise allows.
std::optional<ErrorSummary::Noisy> noisy_of(const Points& time) {
    const auto noise = noise_of(time.sound_rows);
    if (!noise || noise->size() < 2) return std::nullopt;
    const TauBeyondNoise beyond = tau_beyond_noise(time.sound_predicted, time.sound_measured, *noise);
    return ErrorSummary::Noisy{median(*noise), attainable_tau(time.sound_measured, *noise), beyond.tau, beyond.pairs};
}

using Rows = std::vector<const ValidationRow*>;

// Pairs of rows of one dataset that are of one job.
PairsSummary pairs_of(const Rows& rows) {
    PairsSummary p;
    for (std::size_t i = 0; i < rows.size(); ++i) {
        const ValidationRow& a = *rows[i];
        if (!a.measured.step_time_s || a.job.empty() || a.refused) continue;
        for (std::size_t j = i + 1; j < rows.size(); ++j) {
            const ValidationRow& b = *rows[j];
            if (b.dataset != a.dataset || b.job != a.job || !b.measured.step_time_s || b.refused) continue;
            const double x = *a.measured.step_time_s, y = *b.measured.step_time_s;
            if (std::abs(x - y) <= measurement_noise * std::min(x, y)) {
                ++p.ties;
                continue;
            }
            ++p.n;
            p.right += a.failure.empty() && b.failure.empty() &&
                       (x < y ? *a.predicted.step_time_s < *b.predicted.step_time_s : *b.predicted.step_time_s < *a.predicted.step_time_s);
        }
    }
    return p;
}

// dataset: the one they are all of; empty: of several.
ValidationSummary summary_of(const std::string& dataset, const Rows& rows) {
    ValidationSummary s;
    s.dataset = dataset;
    Points time, memory;
    int right = 0, known_right = 0;
    for (const ValidationRow* row : rows) {
        const ValidationRow& r = *row;
        add(time, r, r.step_time_error(), r.predicted.step_time_s, r.measured.step_time_s);
        add(memory, r, r.memory_error(), r.predicted.memory_gb, r.measured.memory_gb);
        s.refused += r.refused;
        if (r.refused) continue;
        s.failed += !r.failure.empty();
        if (!r.fitted()) continue;
        const bool agrees = r.failure.empty() && r.predicted.fits == r.fitted();
        ++s.fits.known;
        known_right += agrees;
        if (!r.measured.fits) continue;
        ++s.fits.n;
        right += agrees;
    }
    s.step_time = summary_of(time);
    if (!dataset.empty()) s.step_time.noisy = noisy_of(time);
    s.memory = summary_of(memory);
    s.pairs = pairs_of(rows);
    if (s.fits.n > 0) s.fits.accuracy = static_cast<double>(right) / s.fits.n;
    if (s.fits.known > 0) s.fits.accuracy_of_known = static_cast<double>(known_right) / s.fits.known;
    return s;
}

} // namespace

std::optional<std::vector<double>> noise_of(const std::vector<const ValidationRow*>& rows) {
    std::map<std::string, std::vector<double>> runs;
    for (const ValidationRow* r : rows) {
        std::vector<double>& readings = runs[r->scenario_json];
        if (r->measured.step_time_s && r->step_time_readings_s.empty()) readings.push_back(*r->measured.step_time_s);
        readings.insert(readings.end(), r->step_time_readings_s.begin(), r->step_time_readings_s.end());
    }
    std::vector<std::vector<double>> repeated;
    for (auto& [scenario, readings] : runs) repeated.push_back(std::move(readings));
    const Scatter scatter = scatter_of_repeats(repeated);
    std::vector<double> noise;
    for (const ValidationRow* r : rows) {
        if (!r->step_time_noise && scatter.degrees < 3) return std::nullopt;
        noise.push_back(r->step_time_noise.value_or(scatter.relative));
    }
    return noise;
}

std::optional<bool> ValidationRow::fitted() const {
    if (fits_not_comparable) return std::nullopt;
    if (!measured.fits && measured.step_time_s) return true;
    return measured.fits;
}

std::optional<double> ValidationRow::step_time_error() const { return error(*this, predicted.step_time_s, measured.step_time_s); }
std::optional<double> ValidationRow::memory_error() const { return error(*this, predicted.memory_gb, measured.memory_gb); }

void predict_row(ValidationRow& row, bool shares) {
    try {
        ParseOptions options;
        options.base_dir = row.base_dir;
        options.constants = row.constants;
        ParseResult parsed = ready_scenario(row.scenario_json, options);
        if (!parsed.problems.empty()) {
            row.failure = in_one_line(parsed.problems);
            row.refused = true;
            return;
        }
        PredictOptions predicting;
        predicting.meetings = false;
        predicting.shares = shares;
        predicting.shares_up_to = interval_shares;
        predicting.cache = CacheOf::all;
        predicting.simulate.factors = row.factors;
        const Prediction p = predict(*parsed.scenario, predicting);
        row.breakdown_s = p.report.breakdown_s;
        row.shares = p.report.shares;
        row.configuration = configuration_of(*parsed.scenario, p.report);
        row.configuration.left_open = open_fields_of(*parsed.scenario, row.assumed);
        row.predicted.step_time_s = p.report.step_time_s;
        row.predicted.bubble_fraction = p.report.bubble_fraction;
        row.predicted.fits = p.report.memory.fits;
        row.step_time_bar = p.report.error_bar.step_time, row.memory_bar = p.report.error_bar.memory;
        row.planned_share = 1 - p.report.headroom();
        if (!p.report.memory.stages.empty()) row.moving = moving_share(fullest(p.report.memory));
        Bytes peak;
        for (const StageMemory& s : p.report.memory.stages) peak = std::max(peak, peak_as(s, row.memory_measure));
        row.predicted.memory_gb = peak.gigabytes();
    } catch (const std::exception& e) { row.failure = e.what(); }
}

Validation validate(std::vector<ValidationRow> rows, int jobs, const Progress& progress, bool shares) {
    if (jobs <= 0) jobs = static_cast<int>(std::max(1u, std::thread::hardware_concurrency()));
    std::atomic<std::size_t> next{0};
    std::size_t done = 0;
    std::mutex counting;
    const auto work = [&] {
        for (std::size_t i = next++; i < rows.size(); i = next++) {
            predict_row(rows[i], shares);
            const std::lock_guard lock(counting);
            if (++done; progress) progress(done, rows.size());
        }
    };
    std::vector<std::thread> threads;
    for (int t = 1; t < std::min<int>(jobs, static_cast<int>(rows.size())); ++t) threads.emplace_back(work);
    work();
    for (std::thread& t : threads) t.join();
    return summarise(std::move(rows));
}

Validation summarise(std::vector<ValidationRow> rows) {
    Validation v;
    v.rows = std::move(rows);
    Rows all, of_kind[2];
    std::vector<std::pair<std::string, Rows>> datasets; // in the order they came
    for (const ValidationRow& r : v.rows) {
        all.push_back(&r);
        of_kind[r.held_out].push_back(&r);
        auto known = std::find_if(datasets.begin(), datasets.end(), [&](const auto& d) { return d.first == r.dataset; });
        if (known == datasets.end()) known = datasets.insert(datasets.end(), {r.dataset, {}});
        known->second.push_back(&r);
    }
    v.overall = summary_of("", all);
    v.fitted = summary_of("", of_kind[false]);
    v.held_out = summary_of("", of_kind[true]);
    for (const auto& [dataset, its_rows] : datasets) v.by_dataset.push_back(summary_of(dataset, its_rows));
    return v;
}

} // namespace orrery
