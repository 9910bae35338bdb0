// The changes that advice is made of.
#pragma once

#include "sim/advise/trial.hpp"

namespace orrery {

StrategyChange set_field(const std::string& words, const std::string& pointer, const std::string& value);
// Degrees of a strategy, 0: as they are; what follows from them is left to defaults. virtual stages are given up where they do not divide.
struct Degrees {
    int tensor = 0, pipeline = 0, context = 0, expert = 0;
};
StrategyChange set_degrees(const Scenario& from, const Degrees& degrees);
StrategyChange set_nodes(int nodes);

// One step from the scenario in each field: degrees and virtual stages doubled and halved, micro batch, recompute, ZeRO, sequence
// parallelism, overlaps that are off.
std::vector<StrategyChange> neighbours(const Scenario& scenario);
// Another kind in each field that has kinds, of those that the framework has (abilities_of()): token dispatcher, context parallelism,
// schedule, order of ranks.
std::vector<StrategyChange> other_kinds(const Scenario& scenario);
// Changes that change the numbers of the training too, so that no figure of a step says whether they are better: replicas that meet
// seldom, gradients in fewer bits; of workers that meet already how often, in what dtype and in how many fragments they send.
std::vector<StrategyChange> other_trainings(const Scenario& scenario);
// More changes that save memory: states and activations on the host or on NVMe, losses in chunks.
std::vector<StrategyChange> memory_savers(const Scenario& scenario);
// Full recompute of so many layers on these stages (0: none of a stage's).
StrategyChange recompute_of(const std::vector<int>& layers_by_stage);

// Strategies that a colleague would ask about, those that are not the scenario's own.
std::vector<StrategyChange> colleagues_questions(const Scenario& scenario);
// The strategies of the field's guide for this job, the simplest first: it takes the first that fits. Dense: data parallel; tensor within a
// node x pipeline with ZeRO 1; mixtures: expert parallel; then the same with full recompute, then with optimizer states on the host.
std::vector<StrategyChange> guide(const Scenario& scenario);
// Strategies of this many nodes that need little memory, all with full recompute and microbatches of 1: ZeRO 3 alone; ZeRO 1 with tensor
// and sequence parallelism within a node (mixtures: expert parallelism), each number of stages that divides the nodes, the fewest first,
// and context parallelism for sequences of over 16,384 tokens; the scenario's own, and it with as many stages more as there are nodes.
// on_hosts: optimizer states in the hosts' memory; else nothing there.
std::vector<StrategyChange> least_memory(const Scenario& scenario, int nodes, bool on_hosts);

} // namespace orrery
