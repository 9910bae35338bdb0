#include "sim/engine/memo.hpp"

#include <algorithm>

namespace orrery {

namespace {

bool same_lane(const MachineLane& a, const MachineLane& b) {
    return a.ranks == b.ranks && a.program == b.program && a.kind == b.kind && a.slowness == b.slowness && a.queues == b.queues;
}

bool same_link(const MachineLink& a, const MachineLink& b) { return a.twins == b.twins && a.capacity == b.capacity && a.group == b.group; }

bool same_ops(const Machine& a, const Machine& b) {
    return a.window == b.window && a.ops == b.ops && a.durations_of_kind == b.durations_of_kind && a.deps == b.deps &&
           a.action_deps == b.action_deps && a.transfers == b.transfers && a.segments == b.segments && a.programs == b.programs;
}

bool same_devices(const Machine& a, const Machine& b) {
    return std::equal(a.lanes.begin(), a.lanes.end(), b.lanes.begin(), b.lanes.end(), same_lane) && a.lane_comms == b.lane_comms &&
           a.interference == b.interference && a.jitter == 0 && b.jitter == 0; // with jitter each rank is its own
}

bool same_links(const Machine& a, const Machine& b) {
    return a.bundles == b.bundles && a.members == b.members && a.bundle_costs == b.bundle_costs && a.own_limits == b.own_limits &&
           a.uses == b.uses && a.shared == b.shared && a.shared_capacity == b.shared_capacity &&
           std::equal(a.links.begin(), a.links.end(), b.links.begin(), b.links.end(), same_link);
}

} // namespace

std::optional<Simulation> RunMemo::known(const Machine& now, const SimulateOptions& options) const {
    if (options.trace || !options.replay || options.max_steps != max_steps || options.slower_up_to != slower_up_to || machine.lanes.empty())
        return std::nullopt;
    if (!same_links(machine, now) || !same_devices(machine, now) || !same_ops(machine, now)) return std::nullopt;
    Simulation s = result;
    for (std::size_t l = 0; l < s.lanes.size(); ++l) s.lanes[l].rank = now.lanes[l].rank;
    for (std::size_t l = 0; l < s.links.size(); ++l) s.links[l].link = now.links[l].link;
    s.lane_of_rank = now.lane_of_rank;
    s.link_class = now.link_class;
    return s;
}

void RunMemo::keep(Machine&& ran, const Simulation& gave, const SimulateOptions& options) {
    if (options.trace || !options.replay || gave.deadlock) return;
    machine = std::move(ran);
    result = gave;
    max_steps = options.max_steps;
    slower_up_to = options.slower_up_to;
}

} // namespace orrery
