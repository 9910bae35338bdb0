// The calibration's predictions of measured collectives: inside a domain of links, and between nodes.
#include "sim/fit/laws.hpp"

#include "sim/cost/collectives.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <map>
#include <regex>
#include <set>

namespace orrery {

namespace {

const std::map<std::string, CollectiveKind> ops = {{"all_gather", CollectiveKind::all_gather},
                                                   {"all_reduce", CollectiveKind::all_reduce},
                                                   {"reduce_scatter", CollectiveKind::reduce_scatter},
                                                   {"alltoall", CollectiveKind::all_to_all},
                                                   {"broadcast", CollectiveKind::broadcast}};

// How published measurements begin the names of their systems, and whose presets those are.
constexpr std::array<std::pair<std::string_view, const char*>, 10> published{{{"A100-SXM4-40GB", "a100-sxm-40gb"},
                                                                              {"A100-40GB", "a100-sxm-40gb"},
                                                                              {"A100-SXM4-80GB", "a100-sxm-80gb"},
                                                                              {"A100-80GB", "a100-sxm-80gb"},
                                                                              {"H100-80GB", "h100-sxm-80gb"},
                                                                              {"H200", "h200-sxm-141gb"},
                                                                              {"B200", "b200-192gb"},
                                                                              {"B300", "b300-288gb"},
                                                                              {"GB200", "gb200"},
                                                                              {"GB300", "gb300"}}};

std::optional<Device> device_of(const std::string& system) {
    if (auto exact = find_device(system)) return exact;
    for (const auto& [begin, preset] : published)
        if (system.starts_with(begin)) return find_device(preset);
    return std::nullopt;
}

InterKind network_of(const std::string& system) {
    const auto says = [&](const char* word) { return system.find(word) != std::string::npos; };
    return says("EFA")                          ? InterKind::efa
           : says("TCPX")                       ? InterKind::ethernet
           : says("RoCE")                       ? InterKind::roce
           : says("InfiniBand") || says(" IB ") ? InterKind::infiniband
                                                : InterKind::none;
}

// A node's NICs as "8x400 Gb": their number and Gb/s; nothing where the name does not say.
std::optional<std::pair<double, double>> nics_of(const std::string& system) {
    static const std::regex form("([0-9]+)x(?: HDR)? ?([0-9]+) ?Gb");
    std::smatch found;
    if (!std::regex_search(system, found, form)) return std::nullopt;
    return std::pair{std::stod(found[1]), std::stod(found[2])};
}

struct Measured {
    CollectiveKind kind;
    int devices = 1, nodes = 1;
    double bytes = 0;
    bool one_byte = false, multicast = false;
};

double domain_us(const Device& device, const Measured& m) {
    LinkTable links = link_table(measured_cluster(device, 8));
    for (const LinkTable::Box& b : links.fitted_box) {
        if (b.devices != m.devices) continue;
        links.simple_rate = b.ring, links.direct_rate = b.direct, links.ll_rate = b.ll, links.choice_bus = b.bus;
        links.reduce_factor = b.reduce;
        return as_chosen(links, m.kind, m.devices, m.bytes, m.one_byte).us;
    }
    return single_node(links, m.kind, m.devices, m.bytes, m.one_byte, m.multicast, CollectiveAlgorithm::automatic).us;
}

// Nothing where the system's name does not say what joins its nodes.
std::optional<double> between_us(const Device& device, const Measured& m, const std::string& system, const OwnConstants* own) {
    const InterKind kind = network_of(system);
    const auto nics = nics_of(system);
    if (kind == InterKind::none || !nics || system.find("SHARP") != std::string::npos || system.find("rack") != std::string::npos)
        return std::nullopt;
    Cluster cluster = measured_cluster(device, m.devices / m.nodes, m.nodes);
    cluster.inter.kind = kind;
    cluster.inter.nic_bandwidth.value = nics->second * 1e9 / 8;
    Group group;
    group.n = m.devices, group.nodes = m.nodes, group.lanes = m.devices / m.nodes;
    group.nic_rate = nics->first * nics->second * 1e3 / 8;
    return multi_node(link_table(cluster), fabric_table(cluster, own), group, m.kind, m.bytes, m.one_byte, m.multicast,
                      CollectiveAlgorithm::automatic)
        .us;
}

} // namespace

Cluster measured_cluster(const Device& device, int devices_per_node, int nodes) {
    Cluster cluster;
    cluster.device = device;
    cluster.devices_per_node = devices_per_node;
    cluster.nodes = nodes;
    cluster.intra = {device.scale_up.value > 1e11 ? IntraKind::nvswitch : IntraKind::pcie, device.scale_up, Time::microseconds(0.6)};
    return cluster;
}

Checked check_collectives(const MeasuredTable& t) {
    Checked out;
    std::set<std::string> without;
    for (std::size_t i = 0; i < t.rows.size(); ++i) {
        const bool superseded = t.has("preferred") && t.text(i, "preferred") == "0" && t.text(i, "source") == "aiconfigurator";
        if (superseded) continue;
        const std::string& system = t.text(i, "system");
        const auto device = device_of(system);
        const auto op = ops.find(t.text(i, "op"));
        if (!device || op == ops.end() || t.number(i, "us") <= 0) {
            without.insert(system + " " + t.text(i, "op"));
            continue;
        }
        Measured m{op->second, static_cast<int>(t.number(i, "devices")), static_cast<int>(t.number(i, "nodes")), t.number(i, "bytes")};
        m.one_byte = t.text(i, "variant").find("int8") != std::string::npos;
        const bool off = t.text(i, "variant") == "no multicast";
        m.multicast = !off && (device->architecture == "hopper" || device->architecture == "blackwell");
        // A rack's trays are nodes, but one domain of links.
        const bool one_domain = m.nodes == 1 || (system.find("NVL72") != std::string::npos && m.devices <= 72);
        const std::optional<double> us = one_domain ? domain_us(*device, m) : between_us(*device, m, system, t.constants.get());
        if (!us) {
            without.insert(system + ": what joins its nodes is not said");
            continue;
        }
        const bool graphs = t.has("source") && t.text(i, "source") == "aiconfigurator"; // replayed: no host between two of them
        out.points.push_back({one_domain ? op->first : op->first + " between nodes",
                              m.one_byte                   ? "int8"
                              : off                        ? "no NVLS"
                              : graphs || !t.has("source") ? "half"
                                                           : "published",
                              m.bytes > 1048576 ? "over 1 MB" : "up to 1 MB", device->name, t.number(i, "us"), *us});
    }
    for (const std::string& w : without) out.skipped.push_back(t.file + ": no law for " + w);
    return out;
}

} // namespace orrery
