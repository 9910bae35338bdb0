// The fields of "cluster", its device and its links.
#include "sim/scenario/fields.hpp"
#include "sim/scenario/whole_run_text.hpp"

#include <nlohmann/json.hpp>

namespace orrery {
namespace {

// Limits of one device, link or node: beyond them a figure is a slip of the unit, not a machine.
Field figure(const char* key, ScaledSlot slot, const char* help, double least, double most, const char* unit) {
    return Field{key, slot, help}.least(least).most(most).in(unit);
}
Field gb_per_s(const char* key, ScaledSlot slot, const char* help) { return figure(key, slot, help, 1e-3, 1e6, "GB/s"); }
Field gb(const char* key, ScaledSlot slot, const char* help) { return figure(key, slot, help, 1e-3, 1e6, "GB"); }

constexpr const char* sources_schema = R"({"type":"object","additionalProperties":{"type":"string"}})";

} // namespace

const Fields& device_fields() {
    static const Fields fields = {
        Field{"name", TextSlot{[](Scenario& s) { return &s.cluster.device.name; }}, "a name for reports"},
        Field{"title", TextSlot{[](Scenario& s) { return &s.cluster.device.title; }}, "its full name"},
        Field{"vendor", TextSlot{[](Scenario& s) { return &s.cluster.device.vendor; }}, "who makes it"}.one_of(
            {"nvidia", "amd", "google", "cpu"}),
        Field{"architecture", TextSlot{[](Scenario& s) { return &s.cluster.device.architecture; }}, "chooses kernels' calibration"},
        Field{"processors", IntSlot{[](Scenario& s) { return &s.cluster.device.processors; }}, "SMs, CUs or cores"}.least(1).most(1e6),
        gb(
            "memory_gb", [](Scenario& s, double v) { s.cluster.device.memory = Bytes::gigabytes(v); }, "memory as the driver shows it"),
        figure(
            "memory_mib", [](Scenario& s, double v) { s.cluster.device.memory = Bytes::mebibytes(v); }, "memory as the driver shows it",
            1e-3, 1e9, "MiB"),
        gb_per_s(
            "memory_gb_per_s", [](Scenario& s, double v) { s.cluster.device.memory_bandwidth = BytesPerSecond::gigabytes(v); },
            "memory bandwidth, datasheet peak"),
        figure(
            "l2_mib", [](Scenario& s, double v) { s.cluster.device.l2_cache = Bytes::mebibytes(v); }, "last-level cache", 1e-3, 1e6, "MiB"),
        Field{"peak_tflops", CustomSlot{read_peak}, "dense peak by precision"}.in("TFLOP/s").like(
            R"({"type":"object","additionalProperties":{"type":"number","minimum":1e-6,"maximum":1e6}})"),
        gb_per_s(
            "scale_up_gb_per_s", [](Scenario& s, double v) { s.cluster.device.scale_up = BytesPerSecond::gigabytes(v); },
            "NVLink or its like, one direction"),
        Field{"scale_up_kind", ChoiceSlot{[](Scenario& s, int i) { s.cluster.device.scale_up_kind = static_cast<IntraKind>(i); }},
              "what those links are, where intra_node does not say"}
            .one_of({"nvswitch", "nvlink-mesh", "pcie", "infinity-fabric", "torus", "shared-memory", "none"}),
        figure(
            "power_w", [](Scenario& s, double v) { s.cluster.device.power_limit_w = v; },
            "power limit it runs at; below the board's own, clocks fall", 0.1, 1e6, "W"),
        Field{"price_usd_per_hour", NumberSlot{[](Scenario& s) { return &s.cluster.device.price_usd_per_hour; }}, "price of one device"}
            .over(0)
            .most(1e6)
            .in("USD/h"),
        Field{"kernels", CustomSlot{read_kernels}, "measured laws by kind of op, as simexec calibrate writes them"}.like(
            R"({"type":"object","additionalProperties":{"type":"object","properties":{"start_us":{"type":"number","minimum":0,"maximum":1e9},"gflops_per_s":{"anyOf":[{"const":0},{"type":"number","minimum":1e-3,"maximum":1e15}]},"gb_per_s":{"anyOf":[{"const":0},{"type":"number","minimum":1e-3,"maximum":1e15}]}},"additionalProperties":{"type":"number","minimum":0}}})"),
        Field{"launch_us", NumberSlot{[](Scenario& s) { return &s.cluster.device.launch_us; }}, "host time to launch a kernel"}
            .least(0)
            .most(1e6)
            .in("us"),
        Field{"sources", CustomSlot{ignore}, "where each figure is from"}.like(sources_schema),
    };
    return fields;
}

namespace {

const Fields& tree_fields() {
    static const Fields fields = {
        Field{"devices_per_switch", IntSlot{[](Scenario& s) { return &s.cluster.intra.tree.devices_per_switch; }},
              "devices under one PCIe switch; 0: each at a root port of its socket"}
            .least(0)
            .most(100'000),
        Field{"sockets", IntSlot{[](Scenario& s) { return &s.cluster.intra.tree.sockets; }},
              "processors of a node, each with a host bridge for its share of the switches; default: 2 of more than four devices that PCIe "
              "joins"}
            .least(1)
            .most(64),
        gb_per_s(
            "bridge_gb_per_s", [](Scenario& s, double v) { s.cluster.intra.tree.bridge = BytesPerSecond::gigabytes(v); },
            "of a switch's way to its host bridge, each direction; default: a device's own slot"),
        gb_per_s(
            "socket_gb_per_s", [](Scenario& s, double v) { s.cluster.intra.tree.socket = BytesPerSecond::gigabytes(v); },
            "between two sockets, each direction; default: 15 with slots of 32, 28 with slots of 64 (measured collectives of eight "
            "devices; "
            "NCCL counts 16 for AMD, 10 for Skylake, 22 for Sapphire Rapids)"),
        Field{"near_nics", BoolSlot{[](Scenario& s) { return &s.cluster.intra.tree.near_nics; }},
              "a NIC hangs on the switch of its devices; false: on a host bridge"},
    };
    return fields;
}

} // namespace

const Fields& intra_fields() {
    static const Fields fields = {
        Field{"kind", ChoiceSlot{[](Scenario& s, int i) { s.cluster.intra.kind = static_cast<IntraKind>(i); }},
              "what joins the devices of a node"}
            .one_of({"nvswitch", "nvlink-mesh", "pcie", "infinity-fabric", "torus", "shared-memory", "none"}),
        gb_per_s(
            "gb_per_s", [](Scenario& s, double v) { s.cluster.intra.bandwidth = BytesPerSecond::gigabytes(v); },
            "per device, each direction"),
        figure(
            "latency_us", [](Scenario& s, double v) { s.cluster.intra.latency = Time::microseconds(v); },
            "device to device; default: by kind", 1e-6, 1e6, "us"),
        Field{"domain_nodes", IntSlot{[](Scenario& s) { return &s.cluster.intra.domain_nodes; }},
              "nodes whose devices share one NVSwitch (GB200 NVL72: 18 nodes of 4)"}
            .least(1)
            .most(100'000),
        Field{"pcie_tree", SectionSlot{tree_fields, [](Scenario&) {}}, "PCIe switches, host bridges and sockets of a node"},
    };
    return fields;
}

namespace {

void read_hashed_routes(Reading& reading, const Json& value, const std::string& where) {
    if (!value.is_boolean()) return reading.problem(where, dotted(where) + " = " + short_text(value) + " must be true or false");
    reading.scenario.cluster.inter.routing = value.get<bool>() ? Routing::ecmp : Routing::even;
}

void read_shape(Reading& reading, const Json& value, const std::string& where) {
    std::vector<int>& shape = reading.scenario.cluster.inter.shape;
    shape.clear();
    bool fine = value.is_array() && (value.size() == 2 || value.size() == 3);
    for (std::size_t i = 0; fine && i < value.size(); ++i) {
        fine = value[i].is_number_integer() && value[i].get<double>() >= 1 && value[i].get<double>() < 1e6;
        if (fine) shape.push_back(value[i].get<int>());
    }
    if (!fine)
        reading.problem(where, dotted(where) + " = " + short_text(value) + " must be a torus's two or three dimensions, as in [4, 4, 8]");
}

void read_wrap(Reading& reading, const Json& value, const std::string& where) {
    std::vector<bool>& wrap = reading.scenario.cluster.inter.wrap;
    wrap.clear();
    bool fine = value.is_array();
    for (std::size_t i = 0; fine && i < value.size(); ++i) {
        fine = value[i].is_boolean();
        if (fine) wrap.push_back(value[i].get<bool>());
    }
    if (!fine)
        reading.problem(where, dotted(where) + " = " + short_text(value) + " must be a list of true and false, one a dimension of shape");
}

const Fields& sharp_fields() {
    static const Fields fields = {
        Field{"trees", IntSlot{[](Scenario& s) { return &s.cluster.inter.sharp.trees; }},
              "groups that the switches can reduce for at the same time; with more, all take rings; 0: no limit"}
            .least(0)
            .most(1e6),
        Field{"levels", IntSlot{[](Scenario& s) { return &s.cluster.inter.sharp.levels; }},
              "of switches that reduce: groups that span more take rings; 0: no limit"}
            .least(0)
            .most(3),
    };
    return fields;
}

const Fields& dragonfly_fields() {
    static const Fields fields = {
        Field{"groups", IntSlot{[](Scenario& s) { return &s.cluster.inter.dragonfly.groups; }},
              "of the machine; default: as many as the nodes take"}
            .least(0)
            .most(2000),
        Field{"switches_per_group", IntSlot{[](Scenario& s) { return &s.cluster.inter.dragonfly.switches_per_group; }},
              "each joined to all others of its group"}
            .least(1)
            .most(1000),
        Field{"nodes_per_switch", IntSlot{[](Scenario& s) { return &s.cluster.inter.dragonfly.nodes_per_switch; }}, "with all their NICs"}
            .least(1)
            .most(1000),
        Field{"global_links", IntSlot{[](Scenario& s) { return &s.cluster.inter.dragonfly.global_links; }},
              "between two groups, each of a NIC's rate"}
            .least(1)
            .most(10000),
    };
    return fields;
}

} // namespace

const Fields& inter_fields() {
    static const Fields fields = {
        Field{"kind", ChoiceSlot{[](Scenario& s, int i) { s.cluster.inter.kind = static_cast<InterKind>(i); }}, "the network between nodes"}
            .one_of({"infiniband", "roce", "ethernet", "omni-path", "efa", "torus", "none"}),
        Field{"fabric", TextSlot{[](Scenario& s) { return &s.cluster.inter.fabric; }},
              "the site whose network it is (simrun list fabrics); default: what is usual of the kind"},
        Field{"nics_per_node", IntSlot{[](Scenario& s) { return &s.cluster.inter.nics_per_node; }}, "network ports of a node"}
            .least(1)
            .most(10000),
        figure(
            "gbit_per_s", [](Scenario& s, double v) { s.cluster.inter.nic_bandwidth = BytesPerSecond::gigabits(v); },
            "per NIC, each direction", 1e-3, 1e7, "Gb/s"),
        figure(
            "latency_us", [](Scenario& s, double v) { s.cluster.inter.latency = Time::microseconds(v); },
            "NIC to NIC through one switch; default: by kind", 1e-6, 1e6, "us"),
        Field{"topology", ChoiceSlot{[](Scenario& s, int i) { s.cluster.inter.topology = static_cast<InterTopology>(i); }},
              "how switches are joined"}
            .one_of({"fat-tree", "rail-optimized", "rail-only", "single-switch", "torus", "dragonfly", "dual-plane"}),
        Field{"oversubscription", NumberSlot{[](Scenario& s) { return &s.cluster.inter.oversubscription; }},
              "a leaf's capacity down / up; below 1: more up than down"}
            .least(1e-3)
            .most(1000),
        Field{"nodes_per_leaf", IntSlot{[](Scenario& s) { return &s.cluster.inter.nodes_per_leaf; }},
              "nodes under one leaf switch; 0: the topology's default"}
            .least(0)
            .most(1e6),
        Field{"routing", ChoiceSlot{[](Scenario& s, int i) { s.cluster.inter.routing = static_cast<Routing>(i); }},
              "how traffic takes equal-cost paths. even, spray: over all that are up; ecmp: as hashes of flows fall; planned: whole flows, "
              "those of paths that are down dealt over the others; adaptive: by what is left of each, in a dragonfly half by third groups"}
            .one_of({"even", "ecmp", "planned", "adaptive", "spray"}),
        Field{"queue_pairs", IntSlot{[](Scenario& s) { return &s.cluster.inter.queue_pairs; }}, "of a flow, each with a hash of its own"}
            .least(1)
            .most(1024),
        Field{"hashed_routes", CustomSlot{read_hashed_routes}, "true: routing = ecmp"}.like(R"({"type":"boolean"})"),
        Field{"dimensions", IntSlot{[](Scenario& s) { return &s.cluster.inter.dimensions; }},
              "of a torus whose shape is not given: 2 or 3; a device's rate is divided over two links in each"}
            .least(2)
            .most(3),
        Field{"shape", CustomSlot{read_shape},
              "of a torus: two or three dimensions; default: as near a cube or a square (dimensions) as there is, and of cubes of 4 where "
              "devices make whole ones"}
            .like(R"({"type":"array","items":{"type":"integer","minimum":1},"minItems":2,"maxItems":3})"),
        Field{"wrap", CustomSlot{read_wrap},
              "whether a dimension's rows close to rings; it goes with shape. Default: those of 4, 8, 12.. in three dimensions, of 16 in "
              "two; where no shape is given all rows of a torus inside a node, or of nodes"}
            .like(R"({"type":"array","items":{"type":"boolean"}})"),
        Field{"planes", IntSlot{[](Scenario& s) { return &s.cluster.inter.planes; }},
              "networks without a common switch, a port of each NIC in each; dual-plane: 2"}
            .least(1)
            .most(16),
        Field{"ports_per_nic", IntSlot{[](Scenario& s) { return &s.cluster.inter.ports_per_nic; }},
              "that a NIC's rate is divided over; default: one a plane"}
            .least(1)
            .most(16),
        Field{"sharp", SectionSlot{sharp_fields, [](Scenario&) {}}, "limits of collective_algorithm = sharp"},
        Field{"down", CustomSlot{read_down}, "links that are down, in part or for part of the time: a leaf's uplinks, a node's NICs"}.like(
            R"({"type":"array","maxItems":100000,"items":{"type":"object","properties":{"leaf":{"type":"integer","minimum":0},"uplink":{"type":"integer","minimum":0},"uplinks":{"type":"integer","minimum":1},"node":{"type":"integer","minimum":0},"nic":{"type":"integer","minimum":0},"port":{"type":"integer","minimum":0},"share":{"type":"number","exclusiveMinimum":0,"maximum":1},"flaps_per_hour":{"type":"number","minimum":0},"flap_s":{"type":"number","minimum":0}},"additionalProperties":false}})"),
        Field{"dragonfly", SectionSlot{dragonfly_fields, [](Scenario&) {}}, "of topology dragonfly: its groups of switches"},
    };
    return fields;
}

const Fields& host_fields() {
    static const Fields fields = {
        gb(
            "memory_gb", [](Scenario& s, double v) { s.cluster.host.memory = Bytes::gigabytes(v); }, "of a node"),
        gb_per_s(
            "memory_gb_per_s", [](Scenario& s, double v) { s.cluster.host.memory_bandwidth = BytesPerSecond::gigabytes(v); }, "of a node"),
        gb(
            "cxl_gb", [](Scenario& s, double v) { s.cluster.host.cxl = Bytes::gigabytes(v); },
            "memory behind CXL, of a node; what is offloaded lies in both kinds by their capacities"),
        gb_per_s(
            "cxl_gb_per_s", [](Scenario& s, double v) { s.cluster.host.cxl_bandwidth = BytesPerSecond::gigabytes(v); }, "of a node"),
        gb_per_s(
            "pcie_gb_per_s", [](Scenario& s, double v) { s.cluster.host.pcie_bandwidth = BytesPerSecond::gigabytes(v); },
            "per device, each direction"),
        gb(
            "nvme_gb", [](Scenario& s, double v) { s.cluster.host.nvme = Bytes::gigabytes(v); }, "of a node"),
        gb_per_s(
            "nvme_gb_per_s", [](Scenario& s, double v) { s.cluster.host.nvme_bandwidth = BytesPerSecond::gigabytes(v); }, "of a node"),
        gb_per_s(
            "nvme_read_gb_per_s", [](Scenario& s, double v) { s.cluster.host.nvme_read = BytesPerSecond::gigabytes(v); },
            "of a node; default: nvme_gb_per_s"),
        gb_per_s(
            "nvme_write_gb_per_s", [](Scenario& s, double v) { s.cluster.host.nvme_write = BytesPerSecond::gigabytes(v); },
            "of a node; default: nvme_gb_per_s"),
        figure(
            "adam_gparams_per_s", [](Scenario& s, double v) { s.cluster.host.adam_rate = v * 1e9; },
            "10^9 parameters a second that a node's processors update by Adam; default: what memory_gb_per_s gives", 1e-6, 1e6,
            "10^9 parameters/s"),
        Field{
            "speed", NumberSlot{[](Scenario& s) { return &s.cluster.host.speed; }},
            "of one core at launches and the software's Python, against a DGX H100's (two Xeon 8480C): at 0.5 launches, calls of modules, "
            "hooks, exchanges and reads that the host waits for take twice as long. Times that the scenario states (launch_us, batch_us, "
            "dataloader_us) stay as they are"}
            .least(0.01)
            .most(100),
    };
    return fields;
}

const Fields& cluster_fields() {
    static const Fields fields = {
        Field{"preset", CustomSlot{ignore}, "a cluster's name (simrun list clusters)"}.like(R"({"type":"string"})"),
        Field{"name", TextSlot{[](Scenario& s) { return &s.cluster.name; }}, "a name for reports"},
        Field{"title", CustomSlot{ignore}, "its full name"}.like(R"({"type":"string"})"),
        Field{"device", CustomSlot{read_device}, "a device's name, {\"preset\": name, field: override} or the fields"},
        Field{"nodes", IntSlot{[](Scenario& s) { return &s.cluster.nodes; }}, "nodes used"}.least(1).most(1'000'000),
        Field{"devices_per_node", IntSlot{[](Scenario& s) { return &s.cluster.devices_per_node; }}, "devices of a node"}.least(1).most(
            100'000),
        Field{"intra_node", SectionSlot{intra_fields, [](Scenario&) {}}, "links inside a node"},
        Field{"inter_node", SectionSlot{inter_fields, [](Scenario&) {}}, "the network between nodes"},
        Field{"others", CustomSlot{read_other_nodes},
              "nodes with another device, the last of the cluster's nodes: {\"nodes\", \"device\", \"gb_per_s\", \"gbit_per_s\"}"}
            .like(
                R"({"type":"array","maxItems":64,"items":{"type":"object","properties":{"nodes":{"type":"integer","minimum":1},"device":{},"gb_per_s":{"type":"number","minimum":1e-3,"maximum":1e6},"gbit_per_s":{"type":"number","minimum":1e-3,"maximum":1e7}},"required":["nodes","device"],"additionalProperties":false}})"),
        Field{"host", SectionSlot{host_fields, [](Scenario&) {}}, "the node's processor, memory and disks"},
        Field{"storage", SectionSlot{storage_fields, [](Scenario&) {}}, "what all nodes save to and read from"},
        Field{"run", CustomSlot{read_usual_run},
              "what runs here take, measured (simexec calibrate): fields of run but its length; those that a scenario's run leaves out"}
            .like(R"({"type":"object"})"),
        Field{"graph", CustomSlot{read_graph}, "an explicit graph in place of intra_node and inter_node: vertices and links"},
        Field{"power_w_per_node", NumberSlot{[](Scenario& s) { return &s.cluster.power_w_per_node; }}, "host, fans and NICs of a node"}
            .least(0)
            .most(1e8)
            .in("W"),
        Field{"price_usd_per_device_hour", NumberSlot{[](Scenario& s) { return &s.cluster.price_usd_per_device_hour; }},
              "price of a device here"}
            .over(0)
            .most(1e6)
            .in("USD/h"),
        Field{"sources", CustomSlot{ignore}, "where each figure is from"}.like(sources_schema),
    };
    return fields;
}

} // namespace orrery
