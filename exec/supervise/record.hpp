// supervised.csv: what happened to a supervised run, an event a line: time (UNIX, s), attempt, event, step, loss.
//   launch   the supervisor starts an attempt         begin  its ranks are ready for the step
//   step     that step is done, with its loss         saved  a checkpoint after so many steps stands, or is being written: training goes on
//   written  and it stands, as the end of a step found
//   end      the attempt is over, by the supervisor: finished, killed, lost, silent, stuck, stopped, refused
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

namespace orrery {

struct RunEvent {
    double time_s = 0;
    int attempt = 0;
    std::string what;
    std::int64_t step = 0;
    double loss = 0;
    std::string how; // of an end
};

// Appends; each event is one write, so that it is there whole or not at all. Losses have all their digits.
class RunRecord {
  public:
    RunRecord(const std::filesystem::path& file, int attempt); // throws std::runtime_error
    ~RunRecord();
    RunRecord(const RunRecord&) = delete;
    RunRecord& operator=(const RunRecord&) = delete;
    void add(const std::string& what, std::int64_t step, double loss = 0, const std::string& how = "") const;

  private:
    int file_ = -1, attempt_ = 0;
};

std::vector<RunEvent> read_record(const std::filesystem::path& file); // lines that are none are left out

// The goodput of a supervised run. Times of attempts that died before their first step count as restarts.
struct RunSummary {
    std::int64_t steps = 0; // different ones that were trained
    int attempts = 0;
    double step_s = 0;          // mean, each as long as it took the time it counted
    double wall_s = 0;          // from the first step to the last event
    double goodput = 0;         // those steps' time over the wall time
    double wasted_s = 0;        // steps that were done again
    double restart_s = 0;       // from an end to the next first step, in the mean
    std::vector<double> losses; // by step; of one done again the last
    double largest_redo = 0;    // largest difference between two losses of one step, relative
};
RunSummary summary(const std::vector<RunEvent>& events);

} // namespace orrery
