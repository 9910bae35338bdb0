// "cluster" and its device: presets of the topology catalog with fields overridden, files, inline objects; latencies by kind where left
// out.
#include "sim/scenario/fields.hpp"
#include "sim/scenario/suggest.hpp"
#include "topology/catalog.hpp"

#include <nlohmann/json.hpp>

#include <algorithm>
#include <filesystem>

namespace orrery {
namespace {

void unknown_name(Reading& reading, const std::string& name, const std::string& where, const std::string& kind,
                  const std::vector<std::string>& names) {
    const std::string meant = did_you_mean(name, names);
    reading.problem(where, dotted(where) + " = \"" + name + "\" is not a known " + kind + (meant.empty() ? "." : meant) + " `simrun list " +
                               kind + "s` names them");
}

struct Latency {
    double us;
    const char* why;
};

Latency intra_latency(IntraKind kind) {
    switch (kind) {
    case IntraKind::nvswitch:
    case IntraKind::nvlink_mesh:
        return {0.6, "assumed: one hop of NVLink, the LL latency of NCCL's tuning table"};
    case IntraKind::infinity_fabric:
        return {0.8, "assumed: a hop of Infinity Fabric, a little over NVLink's"};
    case IntraKind::torus:
        return {1.0, "assumed: a hop of a chip-to-chip torus"};
    case IntraKind::pcie:
        return {1.0, "assumed: the PCIe latency of NCCL's tuning table"};
    case IntraKind::shared_memory:
        return {0.5, "assumed: a hand-over through shared memory"};
    case IntraKind::none:
        break;
    }
    return {0, "no link"};
}

Latency inter_latency(InterKind kind) {
    switch (kind) {
    case InterKind::infiniband:
        return {1.0, "assumed: NIC to NIC over one InfiniBand switch"};
    case InterKind::omni_path:
        return {1.0, "assumed: NIC to NIC over one Omni-Path switch, as InfiniBand"};
    case InterKind::roce:
        return {3.0, "assumed: RoCE, the middle of 2 to 5 us"};
    case InterKind::efa:
        return {12.0, "assumed: EFA's SRD transport"};
    case InterKind::ethernet:
        return {30.0, "assumed: the kernel's TCP"};
    case InterKind::torus:
        return {1.0, "assumed: a hop of a chip-to-chip torus"};
    case InterKind::none:
        break;
    }
    return {0, "no link"};
}

// One direction of the sixteen lanes that a device of this generation has, GB/s.
double pcie_gigabytes(const Device& device) {
    const std::string& a = device.architecture;
    if (a == "hopper" || a == "blackwell" || a == "cdna3" || a == "cdna4") return 64;
    return a == "volta" ? 16 : 32;
}

// The links of a node's devices where the scenario does not say how fast: their own links, or the slots they are in.
void fill_intra_bandwidth(Scenario& s, const std::string& where) {
    Cluster& c = s.cluster;
    std::string& why = s.defaults[where + "/intra_node/gb_per_s"];
    if (c.intra.kind != IntraKind::pcie || c.device.scale_up_kind == IntraKind::pcie || c.device.scale_up.value == 0) {
        c.intra.bandwidth = c.device.scale_up;
        why = "the device's scale-up bandwidth";
    } else if (c.host.pcie_bandwidth.value > 0) {
        c.intra.bandwidth = c.host.pcie_bandwidth;
        why = "host.pcie_gb_per_s: devices that PCIe joins have what its slots have";
    } else {
        c.intra.bandwidth = BytesPerSecond::gigabytes(pcie_gigabytes(c.device));
        why = "sixteen lanes of the PCIe generation the device came with";
    }
}

void check_fabric(Reading& reading, const std::string& where) {
    Cluster& c = reading.scenario.cluster;
    if (c.inter.fabric.empty()) return;
    const std::string at = where + "/inter_node/fabric";
    const auto fabric = find_fabric(c.inter.fabric);
    if (!fabric) return unknown_name(reading, c.inter.fabric, at, "fabric", fabric_names());
    if (!reading.has(where + "/inter_node/kind") && c.name.empty()) c.inter.kind = fabric->kind;
    if (c.inter.kind != fabric->kind)
        reading.problem(at, dotted(at) + " = \"" + c.inter.fabric + "\" is a network of kind " + name(fabric->kind) + ", not " +
                                name(c.inter.kind) + ": leave one of the two out");
}

// Fields that unlike nodes leave out are their device's, or as in the other nodes.
void fill_others(Reading& reading, const std::string& where) {
    Cluster& c = reading.scenario.cluster;
    for (std::size_t i = 0; i < c.others.size(); ++i) {
        OtherNodes& o = c.others[i];
        const std::string at = where + "/others/" + std::to_string(i);
        if (o.nic_bandwidth.value == 0) o.nic_bandwidth = c.inter.nic_bandwidth;
        if (o.scale_up.value > 0) continue;
        const bool slots = c.intra.kind == IntraKind::pcie && o.device.scale_up_kind != IntraKind::pcie;
        o.scale_up = slots ? BytesPerSecond::gigabytes(pcie_gigabytes(o.device)) : o.device.scale_up;
        if (o.scale_up.value == 0) o.scale_up = c.intra.bandwidth;
        reading.scenario.defaults[at + "/gb_per_s"] =
            slots ? "sixteen lanes of the PCIe generation the device came with" : "the device's scale-up bandwidth";
    }
}

// Between two sockets, by the generation of the slots (GB/s). Slots of 32: rings of eight L40S reach 14.4, their all-to-all 16 (7.0 on the
// bus, 16 of 56 messages on each way). Slots of 64: rings of eight RTX PRO 6000 and RTX 5090 reach 24.7 and 28 (NVIDIA/nccl issue 1639); an
// all-to-all's many flows reach 42 there, which one figure cannot say as well. Other slots: in proportion.
double between_sockets(double slot) {
    const double fourth = 15, fifth = 28;
    if (slot <= 32) return fourth * slot / 32;
    return slot <= 64 ? fourth + (fifth - fourth) * (slot - 32) / 32 : fifth * slot / 64;
}

// Defaults of a PCIe tree. Where no switches are named, each device has a root port of its socket's, and so do NICs; boards of more than
// four devices have two sockets.
void fill_tree(Reading& reading, const std::string& where) {
    Cluster& c = reading.scenario.cluster;
    PcieTree& t = c.intra.tree;
    const std::string tree = where + "/intra_node/pcie_tree";
    if (c.graph) return;
    const bool board = c.intra.kind == IntraKind::pcie && c.devices_per_node > 4 && c.devices_per_node % 2 == 0;
    if (board && t.devices_per_switch == 0 && t.sockets == 1 && !reading.has(tree + "/sockets")) {
        t.sockets = 2;
        reading.scenario.defaults[tree + "/sockets"] = "2: assumed of more than four devices that PCIe joins";
    }
    if (t.devices_per_switch == 0 && t.sockets > 1) {
        t.devices_per_switch = 1;
        if (!reading.has(tree + "/near_nics")) t.near_nics = false;
    }
    if (t.sockets < 2 || t.socket.value > 0) return;
    const double slot = c.intra.kind == IntraKind::pcie   ? c.intra.bandwidth.gigabytes()
                        : c.host.pcie_bandwidth.value > 0 ? c.host.pcie_bandwidth.gigabytes()
                                                          : pcie_gigabytes(c.device);
    t.socket = BytesPerSecond::gigabytes(between_sockets(slot));
    reading.scenario.defaults[tree + "/socket_gb_per_s"] =
        "fitted: collectives of eight devices over slots of PCIe 4 and 5, by the slot's rate";
}

void fill_links(Reading& reading, const std::string& where) {
    Scenario& s = reading.scenario;
    Cluster& c = s.cluster;
    check_fabric(reading, where);
    if (c.intra.bandwidth.value == 0) {
        fill_intra_bandwidth(s, where);
        if (c.devices_per_node == 1)
            c.intra.kind = IntraKind::none;
        else if (c.device.scale_up.value == 0)
            reading.problem(where + "/intra_node",
                            dotted(where) +
                                ".intra_node is missing: the device has no scale-up links of its own, so say its kind and gb_per_s");
    }
    fill_tree(reading, where);
    if (c.intra.latency.ps == 0 && c.intra.kind != IntraKind::none) {
        const Latency latency = intra_latency(c.intra.kind);
        c.intra.latency = Time::microseconds(latency.us);
        s.defaults[where + "/intra_node/latency_us"] = latency.why;
    }
    if (c.inter.kind != InterKind::none && c.inter.nic_bandwidth.value == 0) {
        if (reading.has(where + "/inter_node"))
            reading.problem(where + "/inter_node/gbit_per_s",
                            dotted(where) + ".inter_node.gbit_per_s is missing: the rate of one NIC, as in 400");
        else if (c.nodes > 1)
            reading.problem(where + "/inter_node",
                            dotted(where) + ".inter_node is missing: " + std::to_string(c.nodes) +
                                " nodes need a network, as in {\"kind\": \"infiniband\", \"nics_per_node\": 8, \"gbit_per_s\": 400}");
        else
            c.inter.kind = InterKind::none;
    }
    if (c.nodes > 1 && c.inter.kind == InterKind::none)
        reading.problem(where + "/inter_node/kind", dotted(where) + ".inter_node.kind = none leaves " + std::to_string(c.nodes) +
                                                        " nodes without a link: name the network, or set nodes = 1");
    if (c.inter.latency.ps == 0 && c.inter.kind != InterKind::none) {
        const Latency latency = inter_latency(c.inter.kind);
        c.inter.latency = Time::microseconds(latency.us);
        s.defaults[where + "/inter_node/latency_us"] = latency.why;
    }
    fill_others(reading, where);
}

// Fields a device without a preset cannot do without.
void check_inline_device(Reading& reading, const std::string& where) {
    const Device& d = reading.scenario.cluster.device;
    const auto missing = [&](const char* key, const char* what) {
        reading.problem(where + "/" + key, dotted(where) + "." + key + " is missing: " + what +
                                               ", or start from a preset: {\"preset\": \"h100-sxm-80gb\", ..}");
    };
    if (d.memory.count == 0) missing("memory_gb", "a device without a preset needs its memory");
    if (d.memory_bandwidth.value == 0) missing("memory_gb_per_s", "a device without a preset needs its memory bandwidth");
    if (d.peak.empty()) missing("peak_tflops", "a device without a preset needs its peak by precision");
    if (d.processors == 0) missing("processors", "a device without a preset needs its number of SMs, CUs or cores");
}

void read_cluster_object(Reading& reading, const Json& value, const std::string& where);

bool is_path(const std::string& name) { return name.ends_with(".json") || name.find('/') != std::string::npos; }

// The text of another file holds the cluster as it would stand here.
void read_cluster_file(Reading& reading, const std::string& path, const std::string& where) {
    const std::filesystem::path file = std::filesystem::path(reading.options.base_dir) / path;
    std::string text;
    if (!read_file(file.string(), text)) return reading.problem(where, dotted(where) + ": cannot read " + file.string());
    std::vector<Problem> problems;
    Json value = read_json(text, problems);
    for (const Problem& p : problems) reading.problem(where, file.string() + ": " + p.what);
    if (!problems.empty()) return;
    if (!value.is_object()) return reading.problem(where, file.string() + " must hold an object: a cluster's fields");
    if (value.contains("preset") && value["preset"].is_string() && is_path(value["preset"].get<std::string>()))
        return reading.problem(where,
                               file.string() + ": its preset is a file too: name a cluster (simrun list clusters), or give its fields");
    read_cluster_object(reading, value, where);
}

bool open_preset(Reading& reading, const std::string& name, const std::string& where) {
    const auto preset = find_cluster(name);
    if (!preset) return unknown_name(reading, name, where, "cluster", cluster_names()), false;
    reading.scenario.cluster = *preset;
    return true;
}

// Another device than the preset's comes with links of its own, and a device without a preset with its usual ones, unless the scenario says
// what joins them.
void take_devices_own_links(Reading& reading, const Json& value, const Cluster& preset, const std::string& where) {
    Cluster& c = reading.scenario.cluster;
    if (value.contains("intra_node") && value["intra_node"].is_object() && value["intra_node"].contains("kind")) return;
    const bool from_preset = !preset.name.empty();
    if (from_preset && (c.device.name == preset.device.name || c.device.scale_up.value == 0 || value.contains("intra_node"))) return;
    c.intra.kind = c.device.scale_up_kind;
    if (from_preset) c.intra.bandwidth = {}, c.intra.latency = {};
    if (c.device.scale_up.value > 0)
        reading.scenario.defaults[where + "/intra_node/kind"] = std::string(name(c.intra.kind)) + ": the device's own links";
}

// Another kind of link than the preset's has another latency, PCIe another rate, and another network is not the site's.
void forget_other_kinds(Reading& reading, const IntraNode& intra, const InterNode& inter, const std::string& where) {
    Cluster& c = reading.scenario.cluster;
    const auto free = [&](const char* field) { return !reading.has(where + field); };
    if (c.intra.kind != intra.kind) {
        if (free("/intra_node/latency_us")) c.intra.latency = {};
        if ((c.intra.kind == IntraKind::pcie || intra.kind == IntraKind::pcie) && free("/intra_node/gb_per_s")) c.intra.bandwidth = {};
    }
    if (c.inter.kind != inter.kind) {
        if (free("/inter_node/latency_us")) c.inter.latency = {};
        if (free("/inter_node/fabric")) c.inter.fabric.clear();
    }
}

void read_cluster_object(Reading& reading, const Json& value, const std::string& where) {
    if (const auto preset = value.find("preset"); preset != value.end()) {
        const std::string at = where + "/preset";
        if (!preset->is_string()) return reading.problem(at, dotted(at) + " = " + short_text(*preset) + " must be a cluster's name");
        const std::string name = preset->get<std::string>();
        if (is_path(name) && value.size() > 1) { // a file, and fields in the place of its own
            const std::size_t before = reading.problems.size();
            read_cluster_file(reading, name, where);
            if (reading.problems.size() != before) return;
        } else if (!open_preset(reading, name, at)) {
            return;
        }
    } else if (!value.contains("device")) {
        reading.problem(where + "/device",
                        dotted(where) + ".device is missing: a device's name, {\"preset\": name, field: override} or its fields");
    }
    const Cluster preset_as_it_was = reading.scenario.cluster;
    const std::size_t before = reading.problems.size();
    // The device first: a file lists fields in any order, and the graph and links fall back on it.
    if (const auto device = value.find("device"); device != value.end()) {
        reading.given.insert(where + "/device");
        read_device(reading, *device, where + "/device");
    }
    take_devices_own_links(reading, value, preset_as_it_was, where);
    const IntraNode intra = reading.scenario.cluster.intra;
    static constexpr const char* done[] = {"device", "preset"};
    read_object(reading, value, where, cluster_fields(), done);
    if (reading.problems.size() != before) return;
    forget_other_kinds(reading, intra, preset_as_it_was.inter, where);
    const Cluster& cluster = reading.scenario.cluster;
    if (const std::int64_t devices = static_cast<std::int64_t>(cluster.nodes) * cluster.devices_per_node; devices > 2'097'152)
        return reading.problem(where + "/nodes", dotted(where) + ".nodes x devices_per_node = " + std::to_string(devices) +
                                                     " is too large: at most 2097152 devices");
    if (!cluster.graph) return fill_links(reading, where);
    const auto& vertices = cluster.graph->vertices;
    const auto devices =
        std::count_if(vertices.begin(), vertices.end(), [](const auto& v) { return v.kind == ExplicitGraph::VertexKind::device; });
    if (devices != cluster.devices())
        reading.problem(where + "/nodes", dotted(where) + ".nodes x devices_per_node = " + std::to_string(cluster.devices()) +
                                              ", but the graph has " + std::to_string(devices) + " devices: leave both out");
}

} // namespace

void read_device(Reading& reading, const Json& value, const std::string& where) {
    Device& device = reading.scenario.cluster.device;
    const auto open = [&](const std::string& name, const std::string& at) {
        const auto preset = find_device(name);
        if (!preset) return unknown_name(reading, name, at, "device", device_names()), false;
        device = *preset;
        return true;
    };
    if (value.is_string()) return static_cast<void>(open(value.get<std::string>(), where));
    if (!value.is_object()) {
        return reading.problem(where, dotted(where) + " = " + short_text(value) + " is " + type_name(value) +
                                          ": expected a device's name, {\"preset\": name, field: override} or its fields");
    }
    static constexpr const char* preset_key[] = {"preset"};
    const auto preset = value.find("preset");
    if (preset != value.end()) {
        const std::string at = where + "/preset";
        if (!preset->is_string()) return reading.problem(at, dotted(at) + " = " + short_text(*preset) + " must be a device's name");
        if (!open(preset->get<std::string>(), at)) return;
    } else if (reading.scenario.cluster.name.empty()) {
        device = Device{};
    }
    const std::size_t before = reading.problems.size();
    read_object(reading, value, where, device_fields(), preset_key);
    for (const auto& [key, unused] : value.items())
        if (key != "preset" && key != "sources") device.sources[key] = "given in the scenario";
    if (device.power_w == 0) device.power_w = device.power_limit_w;
    if (reading.problems.size() == before) check_inline_device(reading, where);
}

void read_cluster(Reading& reading, const Json& value, const std::string& where) {
    if (value.is_string()) {
        const std::string name = value.get<std::string>();
        if (is_path(name)) return read_cluster_file(reading, name, where);
        if (open_preset(reading, name, where)) fill_links(reading, where);
        return;
    }
    if (!value.is_object()) {
        return reading.problem(where, dotted(where) + " = " + short_text(value) + " is " + type_name(value) +
                                          ": expected a preset's name, {\"preset\": name, \"nodes\": n}, a path or the cluster's fields");
    }
    read_cluster_object(reading, value, where);
}

} // namespace orrery
