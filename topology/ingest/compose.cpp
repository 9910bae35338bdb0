// Fills a cluster from facts, field by field: what the user states, else what a file states, else an assumption that is written down.
#include "topology/ingest/compose.hpp"
#include "topology/catalog.hpp"
#include "topology/ingest/text.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <functional>
#include <numeric>
#include <set>

namespace orrery::ingest {

namespace {

using Kind = Part::Kind;

const Part& part(const NodeFacts& node, int i) { return node.parts[i]; }

std::vector<int> parts_of(const NodeFacts& node, Kind kind) {
    std::vector<int> out;
    for (std::size_t i = 0; i < node.parts.size(); ++i)
        if (node.parts[i].kind == kind) out.push_back(static_cast<int>(i));
    return out;
}

// The PCIe bridge highest above a part, below its socket; -1: none.
int top_bridge(const NodeFacts& node, int i) {
    int top = -1;
    for (int up = part(node, i).parent; up >= 0; up = part(node, up).parent)
        if (part(node, up).kind == Kind::bridge) top = up;
    return top;
}

double port_gbit(const Part& nic) { return nic.nic_gbit > 0 ? nic.nic_gbit : card_gbit(nic.vendor, nic.pci); }

struct Composing {
    const SystemFacts& facts;
    const IngestOptions& options;
    ComposedCluster c;
    Device device;

    const NodeFacts* node() const { return facts.node ? &*facts.node : nullptr; }
    const FabricFacts* fabric() const { return facts.fabric ? &*facts.fabric : nullptr; }

    void source(const std::string& field, const std::string& text) { c.sources.emplace_back(field, text); }
    template <class F> void read(const std::string& field, const F& from) {
        source(field, fmt::format("read: {} ({})", from.file, from.format));
    }
    void assume(const std::string& field, const std::string& value, const std::string& why) {
        source(field, "assumed: " + why);
        c.assumed.push_back({field, value, why});
    }
    const InputFile first_file() const { return {node() ? node()->file : fabric()->file, ""}; }
};

void choose_device(Composing& k) {
    if (!k.options.device.empty()) {
        k.c.device = k.options.device;
        k.source("device", "given: --device");
    } else {
        DeviceGuess guess = k.facts.device.empty() ? DeviceGuess{} : device_of_name(k.facts.device);
        if (guess.device.empty() && k.node()) guess = device_of(*k.node());
        if (guess.device.empty())
            refuse(k.first_file(), 0,
                   "which GPU this machine has is not said, or is none that is known: add --device NAME (`simrun list devices`)");
        k.c.device = guess.device;
        if (!guess.why.empty())
            k.assume("device", guess.device, guess.why);
        else if (k.node())
            k.read("device", *k.node());
        else
            k.read("device", *k.fabric());
    }
    const auto preset = find_device(k.c.device);
    if (!preset) refuse(k.first_file(), 0, fmt::format("\"{}\" is no known device (`simrun list devices` names them)", shown(k.c.device)));
    k.device = *preset;
}

// Whose trays of four devices share the switches of a rack.
bool of_a_rack(const Composing& k) { return k.device.name.starts_with("gb200") || k.device.name.starts_with("gb300"); }

void choose_counts(Composing& k) {
    if (k.options.nodes > 0) {
        k.c.nodes = k.options.nodes, k.source("nodes", "given: --nodes");
        if (k.fabric() && k.fabric()->nodes() > 0 && k.fabric()->nodes() != k.c.nodes)
            k.c.notes.push_back(fmt::format("the fabric's file lists {}; --nodes {} is used",
                                            counted(static_cast<std::size_t>(k.fabric()->nodes()), "host"), k.c.nodes));
    } else if (k.fabric() && k.fabric()->nodes() > 0) {
        k.c.nodes = k.fabric()->nodes(), k.read("nodes", *k.fabric());
    } else {
        k.c.nodes = 1, k.assume("nodes", "1", "the files describe one node; --nodes N says how many there are");
    }
    const int gpus = k.node() ? k.node()->count(Kind::gpu) : 0;
    if (gpus > 0) {
        k.c.devices_per_node = gpus, k.read("devices_per_node", *k.node());
        if (k.fabric() && k.fabric()->devices_per_node > 0 && k.fabric()->devices_per_node != gpus)
            k.c.notes.push_back(fmt::format("{} lists {} a node, {} {}: the node's own file counts", k.fabric()->file,
                                            k.fabric()->devices_per_node, k.node()->file, gpus));
    } else {
        const bool ports = k.fabric()->nics_per_node > 1;
        k.c.devices_per_node = ports ? k.fabric()->nics_per_node : of_a_rack(k) ? 4 : 8;
        k.assume("devices_per_node", fmt::format("{}", k.c.devices_per_node),
                 ports          ? "as many GPUs as network ports; a file of the node (NCCL's XML) says"
                 : of_a_rack(k) ? "a tray's four; a file of the node (NCCL's XML) says"
                                : "the usual eight; a file of the node (NCCL's XML) says");
    }
    if (static_cast<double>(k.c.nodes) * k.c.devices_per_node > 1e7)
        refuse(k.first_file(), 0, "more than ten million devices: at most that many can be simulated");
}

const char* usual_links(const Device& device) {
    return device.vendor == "amd" ? "infinity-fabric" : device.architecture == "volta" ? "nvlink-mesh" : "nvswitch";
}

// One direction of a PCIe slot by generation, GB/s.
double usual_pcie(const Device& device) {
    return device.architecture == "volta"                                                                    ? 16
           : device.architecture == "hopper" || device.architecture == "blackwell" || device.vendor == "amd" ? 64
                                                                                                             : 32;
}

void take_pcie(Composing& k) {
    k.c.intra_kind = "pcie", k.read("intra_node.kind", *k.node());
    if (k.c.pcie_gb_per_s > 0) {
        k.c.intra_gb_per_s = k.c.pcie_gb_per_s, k.read("intra_node.gb_per_s", *k.node());
    } else {
        k.c.intra_gb_per_s = usual_pcie(k.device);
        k.assume("intra_node.gb_per_s", fmt::format("{:g}", k.c.intra_gb_per_s), "16 lanes of the PCIe generation this device has");
    }
}

void choose_inside(Composing& k) {
    if (k.c.devices_per_node == 1) return;
    const NodeFacts* node = k.node();
    int links = 0;
    const ScaleUp how = node ? scale_up_of(*node, links) : ScaleUp::none;
    if (node && node->scale_up_latency_us > 0) k.c.intra_latency_us = node->scale_up_latency_us, k.read("intra_node.latency_us", *node);
    if (node && !node->scale_up_kind.empty()) {
        k.c.intra_kind = node->scale_up_kind, k.read("intra_node.kind", *node);
    } else if (how == ScaleUp::some || (node && node->links_stated && how == ScaleUp::none)) {
        if (how == ScaleUp::some)
            k.c.notes.emplace_back(
                "scale-up links join some GPUs only: the short form cannot say so and takes PCIe for all of them; --graph keeps them");
        return take_pcie(k);
    } else if (how != ScaleUp::none) {
        k.c.intra_kind = node->link_kind == "xgmi" ? "infinity-fabric" : how == ScaleUp::through_switch ? "nvswitch" : "nvlink-mesh";
        k.read("intra_node.kind", *node);
    } else if (k.device.scale_up.value > 0) {
        k.c.intra_kind = usual_links(k.device);
        k.assume("intra_node.kind", k.c.intra_kind, fmt::format("how {} are usually joined; the files do not say", k.c.device));
    } else if (node) {
        return take_pcie(k);
    } else {
        k.c.intra_kind = "pcie", k.c.intra_gb_per_s = usual_pcie(k.device);
        k.assume("intra_node", fmt::format("pcie, {:g} GB/s", k.c.intra_gb_per_s),
                 "the device has no scale-up links; 16 lanes of its PCIe generation");
        return;
    }
    const double each = k.device.architecture == "blackwell" ? 50 : 25; // GB/s one way: NVLink 5; 2 to 4
    if (node && node->scale_up_gb_per_s > 0) {
        k.c.intra_gb_per_s = node->scale_up_gb_per_s, k.read("intra_node.gb_per_s", *node);
    } else if (links > 0 && node->link_kind == "nvlink") {
        k.c.intra_gb_per_s = links * each;
        k.source("intra_node.gb_per_s",
                 fmt::format("read: {} NVLinks a GPU in {}; datasheet: {:g} GB/s each way of one", links, node->file, each));
    } else {
        k.c.intra_gb_per_s = k.device.scale_up.value / 1e9;
        if (k.c.intra_gb_per_s <= 0)
            refuse(k.first_file(), 0,
                   fmt::format("the GPUs are joined by links whose rate is not known for {}: name the right --device", k.c.device));
        k.assume("intra_node.gb_per_s", fmt::format("{:g}", k.c.intra_gb_per_s), fmt::format("the datasheet figure of {}", k.c.device));
    }
}

void choose_network_kind(Composing& k, const Part* nic) {
    const auto is = [&](const char* kind) { k.c.inter_kind = kind; };
    if (!k.options.network.empty()) return is(k.options.network.c_str()), k.source("inter_node.kind", "given: --network");
    if (k.fabric() && !k.fabric()->network.empty()) return is(k.fabric()->network.c_str()), k.read("inter_node.kind", *k.fabric());
    if (nic && nic->network == "infiniband") return is("infiniband"), k.read("inter_node.kind", *k.node());
    if (nic && nic->vendor == "0x1d0f") return is("efa"), k.assume("inter_node.kind", "efa", "an Amazon card is an Elastic Fabric Adapter");
    if (nic && nic->network == "ethernet") {
        const bool tcp = nic->name.starts_with("eth") || (port_gbit(*nic) > 0 && port_gbit(*nic) < 100);
        is(tcp ? "ethernet" : "roce");
        return k.assume("inter_node.kind", k.c.inter_kind,
                        tcp ? "an Ethernet card below 100 Gb/s or without RDMA" : "an Ethernet card of 100 Gb/s or more runs RoCE");
    }
    is("infiniband");
    k.assume("inter_node.kind", "infiniband", "no file names the network; --network KIND does");
}

void choose_rate(Composing& k, const Part* nic) {
    const std::string field = "inter_node.gbit_per_s";
    const auto assume = [&](double gbit, const std::string& why) {
        k.c.nic_gbit = gbit, k.assume(field, fmt::format("{:g}", gbit), why + "; --nic-gbit says it");
    };
    if (k.options.nic_gbit > 0) return k.c.nic_gbit = k.options.nic_gbit, k.source(field, "given: --nic-gbit");
    if (k.fabric() && k.fabric()->nic_gbit > 0) return k.c.nic_gbit = k.fabric()->nic_gbit, k.read(field, *k.fabric());
    if (nic && nic->nic_gbit > 0) return k.c.nic_gbit = nic->nic_gbit, k.read(field, *k.node());
    if (nic && card_gbit(nic->vendor, nic->pci) > 0) return assume(card_gbit(nic->vendor, nic->pci), "what this card can do at most");
    if (nic && nic->gb_per_s > 0) {
        double fits = 10;
        for (const double port : {25.0, 50.0, 100.0, 200.0, 400.0, 800.0})
            if (port <= nic->gb_per_s * 8) fits = port;
        if (nic->gb_per_s * 8 >= 10)
            return assume(fits, fmt::format("the fastest port that its PCIe link of {:g} GB/s can feed", nic->gb_per_s));
    }
    const std::string& a = k.device.architecture;
    assume(a == "hopper" || a == "blackwell" || a == "cdna3" ? 400
           : a == "ampere" || a == "cdna2"                   ? 200
                                                             : 100,
           fmt::format("usual beside {}", k.c.device));
}

void choose_network(Composing& k) {
    const FabricFacts* f = k.fabric();
    if (k.node()) k.c.nics = nics_near_gpus(*k.node(), k.c.notes);
    const Part* nic = k.c.nics.empty() ? nullptr : &part(*k.node(), k.c.nics.front());
    if (k.c.nodes == 1 && !nic && !(f && f->nics_per_node > 0)) return; // nothing to say of a network
    choose_network_kind(k, nic);
    if (f && f->nics_per_node > 0) {
        k.c.nics_per_node = f->nics_per_node, k.read("inter_node.nics_per_node", *f);
        if (nic && static_cast<int>(k.c.nics.size()) != f->nics_per_node)
            k.c.notes.push_back(fmt::format("the node has {} near its GPUs, the fabric sees {}: the fabric's count is used",
                                            counted(k.c.nics.size(), "NIC"), f->nics_per_node));
    } else if (nic) {
        k.c.nics_per_node = static_cast<int>(k.c.nics.size()), k.read("inter_node.nics_per_node", *k.node());
    } else {
        k.c.nics_per_node = k.c.devices_per_node;
        k.assume("inter_node.nics_per_node", fmt::format("{}", k.c.nics_per_node), "one a GPU; no file lists the NICs");
    }
    if (k.c.nics_per_node > 10'000) refuse(k.first_file(), 0, "more than 10,000 NICs a node: this is no node");
    choose_rate(k, nic);
    if (f && f->latency_us > 0) k.c.inter_latency_us = f->latency_us, k.read("inter_node.latency_us", *f);
    if (f && f->block_nodes > 0) {
        k.c.topology = "fat-tree";
        k.assume("inter_node.topology", "fat-tree", "blocks do not say how switches are joined");
        if (of_a_rack(k) && (k.c.intra_kind == "nvswitch" || k.c.intra_kind.empty())) {
            k.c.domain_nodes = f->block_nodes, k.read("intra_node.domain_nodes", *f);
        } else {
            k.c.nodes_per_leaf = f->block_nodes, k.read("inter_node.nodes_per_leaf", *f);
            k.c.notes.push_back(fmt::format("blocks of up to {}: each is taken for the nodes below one leaf",
                                            counted(static_cast<std::size_t>(f->block_nodes), "node")));
        }
    } else if (f && !f->topology.empty()) {
        k.c.topology = f->topology, k.read("inter_node.topology", *f);
    } else {
        k.c.topology = "fat-tree";
        k.assume("inter_node.topology", "fat-tree", "no file describes the switches");
    }
    if (f && !f->shape.empty() &&
        static_cast<std::int64_t>(f->shape[0]) * f->shape[1] == static_cast<std::int64_t>(k.c.nodes) * k.c.devices_per_node)
        k.c.shape = f->shape, k.read("inter_node.shape", *f), k.read("inter_node.wrap", *f);
    if (f && f->nodes_per_leaf > 0 && (k.c.topology == "fat-tree" || k.c.topology == "rail-optimized"))
        k.c.nodes_per_leaf = f->nodes_per_leaf, k.read("inter_node.nodes_per_leaf", *f);
    if (f && f->oversubscription > 0) {
        k.c.oversubscription = std::min(1000.0, f->oversubscription), k.read("inter_node.oversubscription", *f);
    } else if (k.c.topology == "fat-tree" || k.c.topology == "rail-optimized") {
        k.assume("inter_node.oversubscription", "1", "as much bandwidth up as down");
    }
}

void choose_host(Composing& k) {
    const NodeFacts* node = k.node();
    if (!node) return;
    for (const int gpu : parts_of(*node, Kind::gpu)) {
        const double rate = part(*node, gpu).gb_per_s;
        if (rate > 0) k.c.pcie_gb_per_s = k.c.pcie_gb_per_s > 0 ? std::min(k.c.pcie_gb_per_s, rate) : rate;
    }
    constexpr double least = 2; // GB/s, eight lanes of the first generation
    if (k.c.pcie_gb_per_s > 0 && k.c.pcie_gb_per_s < least) {
        k.c.notes.push_back(
            fmt::format("GPUs' PCIe links of {:g} GB/s were read while they slept to save power: they are not used", k.c.pcie_gb_per_s));
        k.c.pcie_gb_per_s = 0;
    }
    if (k.c.pcie_gb_per_s > 0) k.read("host.pcie_gb_per_s", *node);
    if (node->memory_gb > 0) k.c.host_memory_gb = node->memory_gb, k.read("host.memory_gb", *node);
}

// Far beyond what any machine has: a digit too many in a damaged file.
void need_plausible(const Composing& k) {
    const auto check = [&](const char* field, double value, double most) {
        if (value > most)
            refuse(k.first_file(), 0, fmt::format("{} would be {:g}, more than any machine has: the file is damaged", field, value));
    };
    check("intra_node.gb_per_s", k.c.intra_gb_per_s, 1e5);
    check("intra_node.latency_us", k.c.intra_latency_us, 1e6);
    check("inter_node.gbit_per_s", k.c.nic_gbit, 1e6);
    check("inter_node.latency_us", k.c.inter_latency_us, 1e6);
    check("host.memory_gb", k.c.host_memory_gb, 1e6);
}

} // namespace

std::vector<int> nics_near_gpus(const NodeFacts& node, std::vector<std::string>& notes) {
    const std::vector<int> all = parts_of(node, Kind::nic);
    std::set<int> with_gpu;
    for (const int gpu : parts_of(node, Kind::gpu))
        if (const int top = top_bridge(node, gpu); top >= 0) with_gpu.insert(top);
    std::vector<int> near;
    for (const int nic : all)
        if (with_gpu.contains(top_bridge(node, nic))) near.push_back(nic);
    // Where no NIC shares a bridge with a GPU, the fastest ones count.
    const std::vector<int>& from = near.empty() ? all : near;
    double best = 0;
    for (const int nic : from) best = std::max(best, port_gbit(part(node, nic)));
    std::vector<int> out;
    std::string left;
    for (const int nic : from)
        if (port_gbit(part(node, nic)) >= best) out.push_back(nic);
    for (const int nic : all)
        if (std::find(out.begin(), out.end(), nic) == out.end()) left += (left.empty() ? "" : ", ") + part(node, nic).name;
    if (!left.empty()) notes.push_back(fmt::format("NICs left out, as they are slower or under no GPU's PCIe switch: {}", left));
    return out;
}

ScaleUp scale_up_of(const NodeFacts& node, int& links_of_a_gpu) {
    const std::vector<int> gpus = parts_of(node, Kind::gpu);
    std::map<int, int> sum, most;
    std::set<std::pair<int, int>> pairs;
    bool to_switch = false;
    for (const ScaleUpLink& l : node.links) {
        sum[l.from] += l.count, most[l.from] = std::max(most[l.from], l.count);
        if (l.to < 0)
            to_switch = true;
        else
            pairs.insert({std::min(l.from, l.to), std::max(l.from, l.to)});
    }
    if (sum.empty()) return ScaleUp::none;
    links_of_a_gpu = std::max_element(sum.begin(), sum.end(), [](const auto& a, const auto& b) { return a.second < b.second; })->second;
    if (to_switch) return sum.size() == gpus.size() ? ScaleUp::through_switch : ScaleUp::some;
    // A matrix shows every pair with all links of a GPU where a switch joins them: more than the 18 that any GPU has.
    if (pairs.size() == gpus.size() * (gpus.size() - 1) / 2 && links_of_a_gpu > 18 && node.link_kind == "nvlink") {
        links_of_a_gpu = most.begin()->second;
        return ScaleUp::through_switch;
    }
    std::map<int, int> group; // union-find over the pairs
    for (const int g : gpus) group[g] = g;
    const std::function<int(int)> root = [&](int i) { return group[i] == i ? i : group[i] = root(group[i]); };
    for (const auto& [a, b] : pairs) group[root(a)] = root(b);
    const bool joined = std::all_of(gpus.begin(), gpus.end(), [&](int g) { return root(g) == root(gpus.front()); });
    return joined ? ScaleUp::each_other : ScaleUp::some;
}

ComposedCluster compose(const SystemFacts& facts, const IngestOptions& options) {
    Composing k{facts, options, {}, {}};
    choose_device(k);
    choose_counts(k);
    choose_host(k);
    choose_inside(k);
    choose_network(k);
    need_plausible(k);
    for (const auto* notes : {k.node() ? &k.node()->notes : nullptr, k.fabric() ? &k.fabric()->notes : nullptr})
        if (notes) k.c.notes.insert(k.c.notes.end(), notes->begin(), notes->end());
    k.c.name = fmt::format("{} x {} {}", k.c.nodes, k.c.devices_per_node, k.c.device);
    return std::move(k.c);
}

} // namespace orrery::ingest
