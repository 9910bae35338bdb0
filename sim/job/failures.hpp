// The machine's events and their times: a stream of events in the order of time that the job cannot change, so that two jobs with one
// seed meet the same failures. Private to this room.
#pragma once

#include "sim/job/job.hpp"
#include "sim/job/random.hpp"
#include "topology/indexed.hpp"

#include <queue>
#include <vector>

namespace orrery {

struct MachineEvent {
    enum class Kind : std::uint8_t { failure, group, planned, slow_node, slow_link, lost_nic, none } kind = Kind::none;
    double time_s = 0;
    int slot = 0, slots = 1; // which of the job's places for nodes; a group's first one, and how many; of a trace: the node
    FailingPart part = FailingPart::gpu;
    bool repaired = true; // the node goes away, for so long; else it starts again
    double repair_s = 0;
    double lasts_s = 0; // of a degradation
};

class FailureStream {
  public:
    FailureStream(const TrainingJob& job, int number);
    const MachineEvent& peek() const { return next_; }
    void pop() { draw(next_); }

  private:
    void draw(MachineEvent& event);
    MachineEvent from_trace();
    void fill(MachineEvent& event, JobRandom& random) const; // part, transient, repair
    double repair_s(JobRandom& random) const;
    void draw_steady(MachineEvent& event, double at, JobRandom& random);
    struct Later {
        double time_s;
        int slot;
        bool operator>(const Later& o) const { return time_s > o.time_s; }
    };

    const TrainingJob& job_;
    JobRandom random_;
    MachineEvent next_;
    double time_s_ = 0; // of the last event with a constant rate
    double rates_[6];   // events in a second, summed up: failures, racks, switches, planned, and so on
    double mean_s_ = 0; // between two of them
    ByEnum<FailingPart, double, failing_parts> parts_{};
    std::array<std::uint8_t, 256> part_from_{};                              // by the first 8 bits of a draw: the first part it may mean
    double tail_days_ = 0;                                                   // mean beyond the last decile
    std::priority_queue<Later, std::vector<Later>, std::greater<>> waiting_; // weibull: next of each slot; bursts: what follows
    std::size_t trace_at_ = 0;
    double trace_from_s_ = 0, trace_length_s_ = 0;
};

} // namespace orrery
