// `simexec run --log FILE`: what each step brought, for people and programs that watch a run.
#pragma once

#include <cstdint>
#include <fstream>
#include <optional>
#include <string>

namespace orrery::simexec {

struct StepFacts {
    std::int64_t step = 0; // from 0
    double loss = 0;
    std::optional<double> gradient_norm; // before clipping; nothing: it was not computed, or stays on a device
    double learning_rate = 0, seconds = 0, tokens_per_s = 0;
    std::optional<double> mfu;
    std::optional<double> eval_loss; // behind the step, where it was evaluated
    std::int64_t memory_bytes = 0;   // at the peak of the fullest rank of this process, as the plan counts
};

// A row of CSV a step, or, where the file's name does not end in .csv, a line of JSON. Every line is written out at once.
class StepLog {
  public:
    // first: the run's first step. Rows of that step and later ones are removed from the file, because those steps are made again.
    // evaluates: its rows have a column for that. Throws std::runtime_error where the file cannot be written.
    StepLog(const std::string& file, std::int64_t first, bool evaluates = false);
    void add(const StepFacts& facts);

  private:
    std::string file_;
    bool csv_, evaluates_;
    std::ofstream out_;
};

} // namespace orrery::simexec
