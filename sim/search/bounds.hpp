// Bounds from below of a strategy's step time and memory, in microseconds of work: never above what the simulator and the memory walk say.
// A point whose bound is worse than a point already simulated need not be simulated.
#pragma once

#include "sim/search/profile.hpp"
#include "sim/search/sharing.hpp"

#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <tuple>
#include <vector>

namespace orrery {

struct Schedule;
struct ScheduleInfo;

// Steps of one chunk: forward, both halves of backward in one, or input and weight gradients apart.
struct StepCounts {
    int forward = 0, backward = 0, input = 0, weight = 0;
};

// Facts of the order of a stage's steps, whatever they cost.
class InFlight {
  public:
    // A stage before one of its steps. Runs of steps of a chunk (passes/data_parallel.cpp) have begun and not ended: where each run
    // gathers and reduces, its parameters (gathered) and gradients (summed) are whole.
    struct Moment {
        std::vector<std::pair<int, int>> held; // chunk of any direction, microbatches
        std::vector<int> gathered, summed;     // chunks
        int begins = -1;                       // chunk whose backward step comes next; -1: it is a forward step
        int forward = -1;                      // chunk whose forward step comes next
    };
    struct Held {
        std::vector<std::pair<int, int>> of_chunk; // chunk of any direction, microbatches: at the moment that most are held
        // For orders that depend on times (of_chunk is empty then): one microbatch of each of a stage's chunks, before its first backward
        // step.
        std::vector<std::pair<int, int>> at_least;
        int late_weights = -1; // weight steps after its last other backward step; -1: any number
        // By chunk. first: until the last chunk's first forward step, that one too. last: from the step that completes a chunk's gradients
        // before any other's on. Empty: not certain.
        std::vector<StepCounts> first, last;
        // How often a chunk's parameters are gathered where each run of its steps gathers what no other has gathered (ZeRO 3): in steps of
        // as many microbatches as are looked at, and for each one more.
        double gathers = 0, more_gathers = 0;
        std::int64_t microbatches = 0; // that are looked at
        // Before steps, those that no other has more than in all of: microbatches held, chunks whose parameters are whole, chunks whose
        // gradients are.
        std::vector<Moment> moments;
    };
    const std::vector<Held>& of(const Scenario& scenario); // by stage; for any number of threads
    // All steps of all stages; null: there are too many of them. For any number of threads.
    std::shared_ptr<const Schedule> order_of(const Scenario& scenario);

  private:
    std::mutex mutex_, ordering_;
    std::map<std::tuple<std::string, int, int, int, std::int64_t>, std::shared_ptr<const Schedule>> orders_;
    std::map<std::tuple<std::string, int, int, int, std::int64_t>, std::vector<Held>> known_;
};

// Seconds. The kernels of the busiest stage and the communication between them, and what stands before a stage's first microbatch and
// behind its last: pipelines fill and drain. 0 where nothing can be said (jitter). With `sharing` what data parallelism adds: reductions
// that nothing is left to hide, gathers before the next step, and all that a stage's queue of them has to do. With `transfers` what passes
// between stages moves beside these on the links that both use, which takes longer to work out.
double time_bound(const Scenario& scenario, const Profile& profile, InFlight& in_flight, SharedWire* sharing = nullptr,
                  bool transfers = false);
// Seconds: the longest way through the first stage's steps and what they wait for on other stages, with transfers and the reductions
// behind. Takes longer to work out than time_bound, as it looks at every step. 0 where nothing can be said: one stage, joined steps, an
// order that depends on times.
double path_bound(const Scenario& scenario, const Profile& profile, InFlight& in_flight, SharedWire& sharing);
// Bytes of the fullest stage: parameters, gradients and optimizer states as they are sharded, what is saved of the microbatches in flight,
// and the reserve. With `sharing` the buffers of the communicator that it needs. What lives elsewhere counts as nothing.
double memory_bound(const Scenario& scenario, const Profile& profile, InFlight& in_flight, SharedWire* sharing = nullptr);

// A scenario whose time bound holds for every recompute: nothing is made again.
Scenario without_recompute(Scenario scenario);

// Bytes that a node's memory or NVMe lacks at least for what lives there; 0 where nothing can be said.
double home_bound(const Scenario& scenario);

// Seconds of a step in which a stage's data move, at least; time: of one pass over its parameters; transfers: what else passes their link.
double sharing_moves(const Scenario& scenario, const InFlight::Held& held, const SharingTime& time, double transfers = 0);
// Bytes of a microbatch that a rank sends from one chunk to the next.
double transfer_bytes(const Scenario& scenario);
// Seconds of a microbatch: what the stage's ranks send and receive, on the link of their SharingTime (time), as its kernels count it
// (SharingTime::beside).
double transfers_beside(const Scenario& scenario, const ScheduleInfo& info, int stage, SharedWire& sharing, const SharingTime& time,
                        double most);
// Some perturbation makes a rank faster, or all of them now and then: nothing is certain then.
bool uncertain(const Scenario& scenario);
// Learning from measured steps may have made kernels faster or slower, each group by its own factor: all shrink by the least of them.
double least_factor(const Scenario& scenario);

} // namespace orrery
