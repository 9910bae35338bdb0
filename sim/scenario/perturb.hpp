// The effects of a scenario's perturbations on the cluster, and the links they name.
#pragma once

#include "sim/scenario/scenario.hpp"
#include "topology/fabric.hpp"

#include <string>
#include <vector>

namespace orrery {

bool has_jitter(const std::vector<Perturbation>& perturbations);

const char* class_name(LinkKind kind); // nic, scale_up, trunk, pcie, copy

// Whether a perturbation of links means this one: its name or its class; of one node, where an index is given.
bool means(const Perturbation& p, const Fabric& fabric, LinkId link);

// All NICs, or all links between the devices of a node, slower (or partly taken by others): that is a cluster of slower ones, so that
// the cost model chooses for those and collectives reach the same share of them. Marks the perturbations it has applied.
void apply_to_cluster(Scenario& scenario);

// Why a perturbation of links means none of this cluster's, with what there is; empty where it means one, or none at all.
std::string unknown_link(const Perturbation& p, const Fabric& fabric);

// "node 3 1.2 x slower; others take 50 % of nic": for a report's head.
std::string perturbation_text(const std::vector<Perturbation>& perturbations);

} // namespace orrery
