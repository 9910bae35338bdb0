// The scheduler after the zero-bubble schedules: runs the pipeline in integer ticks, each rank choosing what to do next by the
// rules of a policy, and keeps the order that came out. Cost is linear in the steps run; long schedules repeat their steady state.
#pragma once

#include "sim/schedules/schedule.hpp"

#include <cstdint>
#include <initializer_list>
#include <vector>

namespace orrery {

// How a rank chooses. In flight is a (chunk, microbatch) pair from the forward step to the end of the weight step; one that waits for
// its weight step alone counts as what it still holds (ScheduleShape::owed), as the limit is one of memory.
struct ZeroBubblePolicy {
    int limit = 1;               // most in flight on a rank, in microbatches' activations
    std::vector<int> ahead;      // per rank: how many forwards ahead of its input steps it runs before a ready input step goes first
    bool prompt_weights = false; // while forwards are left, a weight step follows its input step; else it waits for a gap or for memory
    double patience = 1;         // the gap a waiting weight step needs, in its own length
};

// One run of the pipeline by a policy, transfers at their given time.
Schedule run_zero_bubble(const ScheduleShape& shape, int (*stage_of)(int chunk, int stages), const ZeroBubblePolicy& policy);

// Candidates for one chunk a stage: the last rank runs one forward ahead, each earlier rank `slope` more, within the limit. Slope 1 is
// 1F1B; 2 fills the time until the first gradient is back where F = I. The slopes' order is their preference.
std::vector<ZeroBubblePolicy> one_chunk_policies(const ScheduleShape& shape, int limit, std::initializer_list<double> slopes);

// The order by the policy that does best on a few microbatches a stage; ties go to the earlier one. The measure is the period where
// the optimizer needs no barrier, else the makespan. With slow links each policy also plans as if a step lasted until its result has
// arrived, and as if links were free: choosing by exact arrivals alone takes every late one as a gap and loses its rhythm.
Schedule best_zero_bubble(const ScheduleShape& shape, int (*stage_of)(int chunk, int stages),
                          const std::vector<ZeroBubblePolicy>& policies);

} // namespace orrery
