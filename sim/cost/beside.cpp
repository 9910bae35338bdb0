// A communication slows computation beside it on its devices: its kernels hold processors, and the bytes that they move take memory
// bandwidth and power.
//   slowdown = x / (1 - x) + w r min(1, 3 b / B) / m,   x = k P / A
// P of the device's A processors: NCCL's kernels have a block for each channel, which shares its processor with no other kernel; k of them
// computation misses. Its b bytes/us on the bus are read and written 3 times over in the memory of B: from the last member, into the
// buffer, and on to the next. m is 3 b / B of a ring over the NVLink of eight H100, whose whole w and whose part r by bytes are measured
// beside a matrix product (pointwise.json: ring_slowdown, bytes_share), and k makes the rest of it. A lesser rate of as many bytes takes as
// much in all: better links are never slower.
// Example: that ring 0.43, k = 1.17; copy engines in its place 0.16.
//
// Where nothing is known of the kernels (RCCL, TPUs, a host's processors) and between nodes a whole that is fitted to steps serves
// (compute_slowdown). Between nodes NCCL has two channels a NIC, and four where a NIC has 400 Gb/s, up to 16 (ncclTopoDupChannels,
// ncclTopoPostset; logs of H100 nodes with eight NICs: 16), two for a message to another node: by the law above 0.04 for one NIC of 400
// Gb/s and 0.31 for eight. With these counts, and with processors held through latencies and waits too, FSDP over 4 x 200 Gb/s and
// ZeRO 1 over 4 x 100 Gb/s are predicted 1 to 3 % shorter, which are short already; all other sources together come out alike.
#include "sim/cost/data.hpp"

#include <algorithm>

namespace orrery {

// The channels of the links that lead to members; 0: not known. One phase of the hierarchical way is inside a node.
double CostModel::Data::channels(const Group& g, const CollectiveTime& t) const {
    if (g.nodes > 1 && t.algorithm != Algorithm::hierarchical) return 0;
    const bool multicasts = t.algorithm == Algorithm::nvls || t.algorithm == Algorithm::nvls_tree;
    return (multicasts ? links.nvls_channels : links.ring_channels) * std::min(1.0, g.reach);
}

namespace {

constexpr double ring_processors = 24.0 / 132, ring_memory = 3 * 363.0 / 3352; // of that ring
constexpr double most_missed = 0.9;                                            // of all processors: computation keeps some

} // namespace

double CostModel::Data::slowed_by_processors(double held) const {
    const double ring = pointwise.ring_slowdown * (1 - pointwise.bytes_share), missed = ring / (1 + ring) / ring_processors;
    const double all = std::max(1, device.processors), taken = std::min(most_missed, missed * std::min(held, all) / all);
    return taken / (1 - taken);
}

double CostModel::Data::slowed_by_bytes(double bus) const {
    return pointwise.ring_slowdown * pointwise.bytes_share * std::min(1.0, 3 * bus / bandwidth) / ring_memory;
}

void CostModel::Data::take_beside(CommCost& c, double held, double bus) const {
    if (held <= 0) return;
    c.processors = held;
    c.slows_by_bytes = slowed_by_bytes(bus);
    c.slows = slowed_by_processors(held) + c.slows_by_bytes;
}

double CostModel::most_slowdown() const {
    const Data& d = *data_;
    double most = 0;
    if (!d.kinds.empty()) {
        for (const CostModel& kind : d.kinds) most = std::max(most, kind.most_slowdown());
        return most;
    }
    const double whole = d.pointwise.compute_slowdown, ring = d.links.ring_channels;
    if (ring <= 0) return whole;
    const double nvls = d.links.has_nvls ? d.links.nvls_channels : ring, tokens = d.experts ? d.token_processors() : ring;
    // A switch that adds makes the bus look twice as fast as the links.
    most = std::max({d.slowed_by_processors(ring) + d.slowed_by_bytes(d.links.link_rate),
                     d.slowed_by_processors(nvls) + d.slowed_by_bytes((d.links.has_nvls ? 2 : 1) * d.links.link_rate),
                     d.slowed_by_processors(tokens) + d.slowed_by_bytes(d.links.link_rate)});
    const bool parts = d.custom_graph || d.domain.wiring != Wiring::switched; // a group may use a part of the links
    const bool whole_too = d.nodes > 1 || parts || !d.device.kernels.empty(); // of links between nodes and measured kernels
    return std::max(most, whole_too ? whole : 0);
}

} // namespace orrery
