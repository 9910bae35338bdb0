// Bounds from below of a strategy's step time and memory, in microseconds of work: never above what the simulator and the memory walk say.
// A point whose bound is worse than a point already simulated need not be simulated.
#pragma once

#include "sim/search/profile.hpp"

#include <map>
#include <mutex>
#include <string>
#include <tuple>
#include <vector>

namespace orrery {

// How many microbatches of each of its chunks a stage holds at most at once, by the order of its steps.
class InFlight {
  public:
    struct Held {
        std::vector<std::pair<int, int>> of_chunk; // chunk of any direction, microbatches: at the moment that most are held
        int late_weights = -1;                     // weight steps after its last other backward step; -1: any number
    };
    const std::vector<Held>& of(const Scenario& scenario); // by stage; for any number of threads

  private:
    std::mutex mutex_;
    std::map<std::tuple<std::string, int, int, std::int64_t>, std::vector<Held>> known_;
};

// Seconds. The kernels of the busiest stage and the communication between them, and what stands before a stage's first microbatch and
// behind its last: pipelines fill and drain. 0 where nothing can be said (jitter).
double time_bound(const Scenario& scenario, const Profile& profile, InFlight& in_flight);
// Bytes of the fullest stage: parameters, gradients and optimizer states as they are sharded, what is saved of the microbatches in flight,
// and the reserve.
double memory_bound(const Scenario& scenario, const Profile& profile, InFlight& in_flight);

} // namespace orrery
