// Workers that never meet all at once, followed one by one: each trains parameters of its own, and meets servers or peers over the fabric
// between its steps or beside them. A worker's step alone is the plan's, timed by the engine.
#pragma once

#include "sim/cost/cost.hpp"
#include "sim/engine/sharing.hpp"
#include "sim/engine/simulate.hpp"

#include <cstdint>
#include <functional>
#include <limits>
#include <span>
#include <vector>

namespace orrery {

// The message of one rank to one other, or to one server: a connection of its own, each byte with what it takes of links (LinkLoad).
struct LooseFlow {
    double bytes = 0, cap = std::numeric_limits<double>::infinity(); // cap in bytes a second
    std::vector<Sharing::Use> uses = {};
    std::vector<double> loads = {}; // bytes on each of these links
    std::int32_t lane = -1;         // of the clock that follows it
};

// A worker's message to a peer, or its part for one server: flows that begin together and go on independently.
struct LooseWay {
    double latency_s = 0;
    std::vector<LooseFlow> flows;
};

struct LooseWork {
    Synchronization how;
    std::vector<double> step_s;                                     // by worker: of its step alone
    std::vector<double> capacity;                                   // of links, bytes a second
    int servers = 0;                                                // parameter_server: each has an equal part
    std::function<LooseWay(int worker, int server)> push = nullptr; // a worker's part for a server
    std::function<LooseWay(int worker, int server)> pull = nullptr; // and what comes back
    std::function<LooseWay(int from, int to)> send = nullptr;       // of others: a worker's parameters to another
    double update_s = 0;                                            // of the servers, each on its part
    double mix_s = 0;                                               // of a device: a message into its parameters
    double slowdown = 0;                                            // of computation while data move: 0.1 makes it 1.1 times as long
    std::uint64_t seed = 0;
};

struct LooseLink {
    LinkId link = -1;
    double share = 0; // of its capacity that is used
};

struct LooseReport {
    double step_s = 0;                 // in which all workers together take as many steps as there are workers
    double fastest = 1;                // the steps of the worker with the most, over the mean
    double wait_s = 0;                 // of it a worker neither steps nor mixes; mean
    double staleness = 0;              // parameter_server: updates between what a gradient was made with and its own; else steps between
    double worst_staleness = 0;        // sending parameters and averaging with what came
    int versions = 1;                  // of the parameters that are in use at once
    double bytes_per_step = 0;         // sent in step_s by all
    double server_share = 0;           // of the time that servers update
    double steps_between_averages = 0; // of a worker (gossip, async_average)
    LooseLink busiest;                 // the link with the largest share
    std::vector<double> link_bytes;    // by link of the fabric, in step_s
};

// Throws Stopped where `stop` says so.
LooseReport follow(const LooseWork& work, StopFlag stop = nullptr);

// The work of a scenario whose strategy is loose(): `step_s` is a worker's step alone on devices that no perturbation slows; those that
// are slow are simulated again. The work refers to all of them.
LooseWork loose_work(const Scenario& scenario, const Plan& plan, const Fabric& fabric, const CostModel& cost, double step_s,
                     const SimulateOptions& options);

// The scenario without what makes workers unlike: slow ranks and nodes.
Scenario with_equal_workers(const Scenario& scenario);

} // namespace orrery
