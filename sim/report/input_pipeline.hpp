// How soon the samples of a step are ready ("training.data"), and the stall of a step that waits for them.
#pragma once

#include "sim/report/report.hpp"

#include <string>

namespace orrery {

// Who reads: devices with their workers, on nodes, from storage. Rates in bytes a second; 0: no limit.
struct InputSupply {
    double devices = 1, nodes = 1, storage = 0, per_node = 0;
    const char* of_node = "a node's link to storage"; // what limits per_node
};
// The rate that one node reaches at storage: its limit there or its network cards, and the requests that it has in flight. 0: nothing says.
double storage_rate_of_node(const Cluster& cluster);
// The readers of a scenario and their rates.
InputSupply input_supply(const Scenario& scenario);

// Seconds until `samples` of a step lie ready, and what limits it: the slowest of storage, the nodes' links, readers and decoding.
struct InputPeriod {
    double seconds = 0;
    const char* limit = "";
    double spread = 0; // standard deviation from step to step, as a share of it
};
InputPeriod input_period(const InputPipeline& data, double samples, const InputSupply& supply);

// Batches are read ahead while steps run: a step waits for what the period is longer than itself. Periods that vary are evened out by the
// batches that lie ready, workers x prefetch of them: a Brownian motion between an empty and a full store, whose mean wait is known.
// Without workers the training process reads between steps: it waits for all of the period.
double input_stall(const InputPipeline& data, double step_s, const InputPeriod& period);

// How closely the whole step, wait included, follows its own computation: d ln(step + stall) / d ln(step). If computation and samples both
// take k times as long, so does the step, so the samples' share is 1 minus this.
double computing_share(const InputPipeline& data, double step_s, const InputPeriod& period);

// Readers begin all at once, one batch each, and share what they read from: the first batch is ready when the first of every reader is.
double input_first_batch(const InputPipeline& data, const InputPeriod& period);

// Adds the stall to a report's step, and says so in its notes. Nothing where the scenario has no training.data.
void wait_for_input(Report& report, const Scenario& scenario);

} // namespace orrery
