// The cost of a microbatch to a rank, layer by layer: measured on a small plan, of a few layers in one stage, that a strategy's own plan
// repeats. The small plan does not depend on stages, schedule, sharding, homes of states or data parallelism, so that one serves many
// strategies; bounds.hpp makes bounds of their steps from it.
#pragma once

#include "sim/cost/cost.hpp"

#include <mutex>
#include <unordered_map>
#include <vector>

namespace orrery {

// Seconds of one microbatch. forward and backward: from the first kernel to where the next layer's may begin, with the communication that
// stands between them, and what kernels lose at least to communication that they wait for; kernels alone: the sum of their durations.
// Recomputation is part of backward.
struct PartCost {
    double forward = 0, backward = 0;
    double forward_kernels = 0, backward_kernels = 0;
    double forward_slow = 0, backward_slow = 0; // were data moving all the time, so that every kernel is slowed down
    double weight = 0;                          // kernels of weight gradients, which may run when the input gradient has gone on its way
    double late = 0;                            // of these, what stands behind the last kernel that its input gradient needs
    double host = 0;                            // issuing all of it
    // While data move that slow kernels as much as any: by its busiest communicator, or by all of them one after another, whichever is
    // longer. What slows them less counts for as much less.
    double moving = 0;
    double queue = 0; // of the busiest communicator, latencies included: its operations run one after another
    // Of backward steps in one, beyond `backward`: what kernels lose while they wait, with those of weight gradients among them, for
    // communication that moves beside them.
    double lost_beside_weights = 0;
    double saved = 0; // bytes from the forward to the backward pass
    double rise = 0;  // bytes that the backward pass needs beside what is saved
};

struct Profile {
    std::vector<PartCost> layers;   // by layer of the small plan
    std::vector<std::int16_t> like; // by layer of the model, the layer of the small plan that stands for it
    PartCost head, tail;            // what stands before the first layer and behind the last
    double tail_peak = 0;           // bytes alive at most while the tail runs, without what layers and head saved
    double slowdown = 0;            // of kernels while data move, at most: 0.2: they take 1.2 times as long
    double reserve = 0;             // bytes of a device outside the plan, at least

    const PartCost& layer(int of_model) const { return layers[like[of_model]]; }
};

Profile profile_of(const Scenario& scenario, const Fabric& fabric);

// Profiles by what they depend on; for any number of threads.
class Profiles {
  public:
    const Profile& of(const Scenario& scenario, const Fabric& fabric);
    std::int64_t made() const { return made_; }

  private:
    struct Known {
        Training training;
        Strategy strategy;
        Runtime runtime;
        bool issues_within_linears; // of Practice: it follows from what a scenario leaves out
        Profile profile;
    };
    std::mutex mutex_;
    std::unordered_multimap<std::uint64_t, std::unique_ptr<Known>> known_;
    std::int64_t made_ = 0;
};

} // namespace orrery
