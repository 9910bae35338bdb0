// A process of a supervised run: its signs of life, and the record of its steps. Where nobody supervises it does nothing.
#pragma once

#include "exec/supervise/beats.hpp"
#include "exec/supervise/record.hpp"

#include <optional>
#include <string>

namespace orrery::simexec {

class Supervised {
  public:
    // folder: of the supervisor (--watch), "" where there is none. Rank 0 keeps the record.
    Supervised(const std::string& folder, int attempt, int rank);
    void begin(std::int64_t step); // ready to train it
    void step(std::int64_t done, double loss);
    void saved(std::int64_t step);   // training goes on; the checkpoint may still be written
    void written(std::int64_t step); // it stands

  private:
    std::optional<Beats> beats_;
    std::optional<RunRecord> record_;
    std::int64_t first_ = 0;
};

inline constexpr const char* record_name = "supervised.csv"; // in the folder of checkpoints
inline constexpr const char* watch_name = ".watch";          // the folder of beats in it

} // namespace orrery::simexec
