// The parts of bounds of time and of memory: costs of chunks, and elements of parameters. Private to this room.
#pragma once

#include "sim/schedules/schedule.hpp"
#include "sim/search/profile.hpp"
#include "topology/at.hpp"

#include <cstddef>
#include <vector>

namespace orrery {

// Seconds and bytes of a microbatch (PartCost).
struct ChunkCost {
    double forward = 0, backward = 0, weight = 0, host = 0, saved = 0, rise = 0;
    double kernels = 0, moving = 0, queue = 0, forward_slow = 0, backward_slow = 0;
    double late = 0;  // of a backward step in one: behind its input gradient
    double early = 0; // of the backward pass what may run before its gradient is whole: one layer's recomputation
};

// By chunk of one direction. kernels: these alone, where blocks are joined and one's communication runs under another's kernels.
std::vector<ChunkCost> chunk_costs(const Scenario& scenario, const Profile& profile, bool kernels);

// Bytes of a microbatch that a layer gives the next one, on each rank.
double handed_on(const Scenario& scenario);

// Seconds of a microbatch in which no kernel of the chunk runs, however long the data that slow kernels down are moving: the longer
// kernels are, the more of what they wait for is done beside them.
double certain_idle(const ChunkCost& chunk, double slowdown);
// The share of a second beside such kernels that they lose: 0.25 takes a fifth.
inline double lost(double slowdown) { return slowdown / (1 + slowdown); }
// How a communication slows kernels beside it: 0.25: they take 1.25 times as long.
double slows_beside(const CommCost& communication, const CostModel& cost);
// A step's time at least: its kernels, what is certainly idle, and what kernels lose while data move beside them (idle time apart).
double slowed(double kernels, double idle, double moving, double slowdown);

// Whether a forward and a backward step may run as one block.
bool joins(const Scenario& scenario, const ScheduleInfo& info);

// Elements of a rank, those of experts apart; tables: of the dense ones, those of the embedding and of the output layer.
struct Elements {
    double dense = 0, experts = 0, tables = 0;
};

std::vector<Elements> chunk_elements(const Scenario& scenario); // by chunk of one direction, tensor parallelism counted
// By stage, with the copies of all directions.
std::vector<Elements> stage_elements(const Scenario& scenario, const ScheduleInfo& info, const std::vector<Elements>& of_chunk);
// Whether optimizer states, gradients or parameters have a home elsewhere than on the devices.
bool states_leave(const Offload& offload);
// Bytes that a node has too little memory or NVMe for the states that live there, at least; 0: they fit, as far as can be said.
double over_at_home(const Scenario& scenario, const std::vector<Elements>& of_stage, int directions);
// Ranks that share what is sharded, with the copies of all directions.
Elements shards_of(const Scenario& scenario, int directions);

} // namespace orrery
