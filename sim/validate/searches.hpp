// Measured searches: jobs that somebody ran under several strategies. How well a prediction chooses among these, beside how far off it is.
// Format orrery-search/1: scenarios/validation/README.md.
#pragma once

#include "sim/validate/validate.hpp"

#include <optional>
#include <string>
#include <vector>

namespace orrery {

// One job: the same model, devices, batch and software under several strategies. A strategy is a row; its name is what it sets.
struct MeasuredJob {
    std::string name, source;
    std::vector<ValidationRow> strategies; // without a measured step time and not known to run out of memory: not chosen from
    double best_step_time_s = 0;           // measured, of the sound ones; where all are doubtful, of these
};

struct MeasuredSearch {
    std::string name, source;
    std::vector<MeasuredJob> jobs;
};

struct SearchFile {
    bool is_one = false; // the file says "format": "orrery-search/1"; otherwise the rest is empty, and it may be a dataset
    MeasuredSearch search;
    std::vector<std::string> problems;
};
SearchFile load_search(const std::string& path);

// Fills in the predictions. Scenarios that `known` has rows of are not predicted again.
void predict_searches(std::vector<MeasuredSearch>& searches, const std::vector<ValidationRow>& known, int jobs, const Progress& progress);

// Regret: measured step time of what was chosen over the best measured, less 1. Below 0 where a doubtful row was faster than the best.
struct SearchChoice {
    std::optional<double> regret;   // of the first choice; none: it did not fit in memory, or nothing is predicted to fit
    std::optional<double> of_three; // of the best of the first three that ran
};

struct JobChoices {
    std::string job;
    int strategies = 0, out_of_memory = 0;
    SearchChoice chosen;          // as `simrun search` chooses: with intervals of time and memory
    SearchChoice fastest;         // predicted fastest of those predicted to fit
    std::optional<double> told;   // regret of the fastest of those that really ran: the prediction of time alone
    std::optional<double> simple; // expected regret of the rule of thumb, which is told what runs; see rule_of_thumb()
    std::optional<double> random; // expected regret of any that ran
    std::optional<double> tau;    // Kendall's tau-b of predicted and measured step times, of three strategies and more
    int fits_known = 0, fits_right = 0;
    std::string first; // what was chosen
};
JobChoices choices_of(const MeasuredJob& job);

// Means over jobs; `of` jobs count. Out of memory: first choices that did not run.
struct SearchSummary {
    std::string name;
    int jobs = 0, strategies = 0, out_of_memory = 0;
    int first_out_of_memory = 0, fastest_out_of_memory = 0;
    double regret = 0, worst = 0, of_three = 0, fastest = 0, told = 0, simple = 0, random = 0, tau = 0;
    int fits_known = 0, fits_right = 0;
};
SearchSummary summary_of(const std::string& name, const std::vector<JobChoices>& jobs);

std::string searches_to_text(const std::vector<MeasuredSearch>& searches, const TextStyle& style = {});
std::string searches_to_markdown(const std::vector<MeasuredSearch>& searches); // a section of VALIDATION.md; empty for none
std::string searches_to_json(const std::vector<MeasuredSearch>& searches);     // a list, an object a search

} // namespace orrery
