// Memory of a device besides the plan's buffers: context, communicator buffers, workspaces, the allocator's slack.
// Figures and their sources are data: scenarios/calibration/memory/reserve.json.
#pragma once

#include "sim/memory/memory.hpp"

#include <span>

namespace orrery {

// One item alone where the scenario says runtime.reserved_gb.
std::vector<ReserveItem> reserve(const Plan& plan, const Scenario& scenario, const Program& program);
// The cache of early software's allocator beyond the bytes that its replay shows; 0: later software.
ReserveItem early_cache(const Scenario& scenario, Bytes held);
std::string cache_source(); // where the caching allocator's rules are from

// The item of communicators' buffers, where replicas lie so that they take the fewest bytes: on one node or on several. A plan with more
// replicas and stages takes no less.
Bytes least_communicator_buffers(const Plan& plan, const Scenario& scenario, const Program& program);

// The buffers of one communicator of these ranks, as each of them holds them.
Bytes communicator_buffers(std::span<const int> ranks, const Cluster& cluster);

} // namespace orrery
