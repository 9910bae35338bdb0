// Copies between devices and their hosts' memory: what one takes alone, and what it puts on the links of its way.
#include "sim/cost/data.hpp"
#include "sim/cost/measured.hpp"

#include <algorithm>

namespace orrery {

namespace {

constexpr bool ways[] = {false, true}; // from the host, to the host

// The devices of a node, which follow one another: the first, and one beyond the last.
std::pair<int, int> node_around(const Fabric& fabric, int device) {
    int first = device, end = device + 1;
    while (first > 0 && fabric.node_of(first - 1) == fabric.node_of(device)) --first;
    while (end < fabric.devices() && fabric.node_of(end) == fabric.node_of(device)) ++end;
    return {first, end};
}

// How many of a node's devices have their way to the host, or back, over each link.
std::unordered_map<LinkId, int> copiers(const Fabric& fabric, int first, int end) {
    std::unordered_map<LinkId, int> users;
    for (int device = first; device < end; ++device)
        for (const bool to_host : ways)
            for (const LinkShare& l : fabric.copy_route(device, to_host)) ++users[l.link];
    return users;
}

} // namespace

double copy_rate(const Fabric& fabric, double share) {
    const auto [first, end] = node_around(fabric, 0);
    double least = 1e30;
    for (const auto& [link, sharing] : copiers(fabric, first, end)) {
        const Link& l = fabric.links()[link];
        least = std::min(least, l.capacity.value * 1e-6 / sharing * (l.kind == LinkKind::pcie ? share : 1));
    }
    return least;
}

// A byte takes of a PCIe link what is delivered of it alone (its eta), but never so much that copies of all devices, at the rate that each
// has then, do not find room: what they take from each other is in that rate already.
void CostModel::Data::load_copies(int of) const {
    const auto [first, end] = node_around(*fabric, of);
    const std::unordered_map<LinkId, int> users = copiers(*fabric, first, end);
    for (int d = first; d < end; ++d)
        for (const bool to_host : ways) {
            std::vector<LinkLoad>& loads = copies[static_cast<std::size_t>(d) * 2 + to_host];
            for (const LinkShare& s : fabric->copy_route(d, to_host)) {
                const Link& l = fabric->links()[s.link];
                const double delivered = l.kind == LinkKind::pcie ? pointwise.pcie_share : 1;
                loads.push_back({s.link, s.share, std::max(delivered, users.at(s.link) * pcie / (l.capacity.value * 1e-6))});
            }
        }
}

CommCost CostModel::copy(const Plan& plan, const Op& op, int rank) const {
    const Data& d = *data_;
    if (!d.kinds.empty()) return d.kinds[d.kind_of_node[d.fabric->node_of(rank)]].copy(plan, op, rank);
    const double bytes = static_cast<double>(std::get<Copy>(op.work).bytes.count);
    const Time whole = compute(plan, op).duration, start{std::min(whole.ps, Time::microseconds(d.pointwise.copy_us).ps)};
    const Time moving{whole.ps - start.ps};
    return {start, bytes, {moving.ps > 0 ? bytes / moving.seconds() : 1e15}, "copy"};
}

std::vector<LinkLoad> CostModel::copy_loads(const Plan& plan, const Op& op, int rank) const {
    const Data& d = *data_;
    if (!d.kinds.empty()) return d.kinds[d.kind_of_node[d.fabric->node_of(rank)]].copy_loads(plan, op, rank);
    if (measured_us(d.device, plan, op)) return {}; // what it was measured at may be more than the links are said to have
    if (d.copies.empty()) d.copies.resize(static_cast<std::size_t>(d.fabric->devices()) * 2);
    const bool to_host = std::get<Copy>(op.work).kind == CopyKind::device_to_host;
    const std::vector<LinkLoad>& loads = d.copies[static_cast<std::size_t>(rank) * 2 + to_host];
    if (loads.empty()) d.load_copies(rank);
    return loads;
}

} // namespace orrery
