// The time of data parallelism's collectives, and of states that live elsewhere: from below, as the cost model prices them.
#pragma once

#include "sim/cost/cost.hpp"

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <tuple>

namespace orrery {

// Seconds of one pass over a stage's parameters that are not experts', all its collectives one after another with no latency.
struct SharingTime {
    double reduce = 0, gather = 0;             // moving data, at the best rate of their algorithms
    double link_reduce = 0, link_gather = 0;   // of these, on one link that both use
    double layers = 1;                         // the share of layers in it: tables at the model's ends are not gathered for a backward pass
    double reduce_slows = 0, gather_slows = 0; // how they slow kernels beside them, at least (CommCost::slows)

    // The same times as kernels count them, where a second that slows them by `most` counts as one: what slows them less counts less.
    SharingTime beside(double most) const;
};

struct Elements;

// Seconds that a rank's states elsewhere take in a step.
struct AwayTime {
    double busiest = 0; // copies one way, reads or writes of NVMe, or the update: whatever takes longest
    double update = 0;  // of these, the update on the host
    bool after = false; // it begins when the last gradient is there, and the next step waits for all of it
};

// Remembers what it has worked out: one for each thread and machine.
class SharedWire {
  public:
    explicit SharedWire(const Fabric& fabric) : fabric_(fabric) {}
    // elements: of one rank of the stage, divided among tensor-parallel ranks alone. 0 where nothing can be said: local steps, gradients
    // elsewhere.
    SharingTime of(const Scenario& scenario, const Elements& elements, int stage = 0);
    // Bytes of the buffers of the communicator that shares gradients; 0 where nothing can be said.
    double buffers(const Scenario& scenario);
    // Seconds that bytes take from a stage's rank to another's. alone: with the links to themselves, latency included; moving: the least
    // that they occupy a link, at the fastest rate of the way.
    struct Hop {
        double alone, moving, slows; // slows: CommCost::slows
    };
    Hop hop(const Scenario& scenario, int from_stage, int to_stage, double bytes);
    // Seconds in which the link of the stage's SharingTime moves what its ranks send from one stage to another, `bytes` each; 0 before
    // of() was asked, and where none of them passes it.
    double on_link(const Scenario& scenario, int stage, int from_stage, int to_stage, double bytes);
    // elements: of a stage, tensor parallelism counted, with the copies of all directions. Zero where nothing is away or can be said.
    AwayTime away(const Scenario& scenario, const Elements& elements, int directions);

  private:
    struct Group;
    struct Rate;
    Rate rate(Group& group, CollectiveKind kind, DType dtype, double bytes);
    Group& group_of(const Scenario& scenario, int stage = 0);
    struct HostRates { // seconds a byte, and an element
        double to_host, from_host, read, write, update;
    };
    const CostModel& cost_of(const Scenario& scenario);
    HostRates rates_of_host(const Scenario& scenario);

    const Fabric& fabric_;
    using Key = std::tuple<int, int, int, int, int, int, RankOrder, int>; // tensor, context, shards, replicas, stages, ZeRO, order, stage
    std::map<Key, std::shared_ptr<Group>> groups_;
    std::optional<HostRates> host_; // of the machine
};

// ZeRO stage and times as a stage has them (passes/buckets.cpp).
struct SharingPractice {
    int zero = 0;
    bool active = false;          // there are ranks to share with
    bool gathers_in_step = false; // parameters are gathered unit by unit in each pass
    bool keeps = false;           // and kept until the backward pass is through
    bool one_queue = false;       // gathers and reductions are of one communicator
};
SharingPractice sharing_practice(const Scenario& scenario);

} // namespace orrery
