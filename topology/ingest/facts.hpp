// The facts that importers find in files: what is inside a node, and how nodes are joined. cluster_file.cpp turns them into a cluster.
// A number is here only if a file states it: 0 or "" means that no file does.
#pragma once

#include <map>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

namespace orrery::ingest {

// A file as it was read: its name for messages and its text.
struct InputFile {
    std::string name, text;
};

// A file that cannot be used. The text is one line: "file:line: what is wrong: what to do".
struct IngestError : std::runtime_error {
    using std::runtime_error::runtime_error;
};
[[noreturn]] void refuse(const InputFile& file, int line, const std::string& what); // line 0: the file as a whole

// One part of a node. Parts form a tree by PCIe: sockets are roots, bridges, GPUs and NICs hang below. NVSwitches stand in it too.
struct Part {
    enum class Kind { socket, bridge, gpu, nic, nvswitch };
    Kind kind = Kind::bridge;
    std::string name;        // a bus id, or the name the file uses ("mlx5_0", "GPU3")
    int parent = -1;         // index into parts; -1: a root
    double gb_per_s = 0;     // of the link to its parent, one way, as the PCIe generation and width give it (GT/s x lanes / 8)
    double nic_gbit = 0;     // of a NIC's port, in Gbit/s, one way
    std::string network;     // of a NIC: infiniband, ethernet
    std::string model;       // of a GPU: its name as the file has it
    std::string vendor, pci; // PCI ids, lower case with 0x ("0x10de", "0x20b0")
    int line = 0;
};

// Links of a GPU outside PCIe: to another GPU, or to a switch (to = -1).
struct ScaleUpLink {
    int from = 0, to = -1, count = 0; // part indices; how many links run there
};

struct NodeFacts {
    std::string file, format; // "nccl topology"
    std::vector<Part> parts;
    std::vector<ScaleUpLink> links;
    std::string link_kind;                                 // nvlink, xgmi or "" where the file states none
    bool links_stated = false;                             // the format states scale-up links: none listed means none there
    std::string architecture;                              // "sm80", "gfx942"
    std::string cpu_vendor;                                // AuthenticAMD, GenuineIntel
    double memory_gb = 0;                                  // of the node, host memory
    double scale_up_gb_per_s = 0, scale_up_latency_us = 0; // of a GPU, one way, where a file states it outright
    std::string scale_up_kind;                             // a kind of intra_node, where a file states it outright
    std::map<std::string, int> counts;                     // elements met, by name: what the file holds
    std::vector<std::string> notes;

    int count(Part::Kind kind) const;
};

// A fabric as a graph: hosts' ports and switches. Only what the file states.
struct FabricVertex {
    enum class Kind { port, fabric_switch };
    Kind kind = Kind::port;
    std::string name;
    int host = -1;  // of a port
    int index = -1; // of a port: its place among its host's ports
    int level = -1; // of a switch: 0 leaf, 1 spine, 2 core
};
struct FabricLink {
    int a = 0, b = 0; // vertices; one physical link, both ways
    double gbit = 0, latency_us = -1;
};

struct FabricFacts {
    std::string file, format;
    std::vector<std::string> hosts;
    std::vector<FabricVertex> vertices;
    std::vector<FabricLink> links;
    std::vector<int> switches; // by level: leaves, spines, cores
    int nics_per_node = 0;
    double nic_gbit = 0, latency_us = 0;
    std::string network, topology; // a kind and a topology of inter_node
    int nodes_per_leaf = 0;
    int block_nodes = 0;    // of Slurm's blocks: nodes that are close to each other, a leaf's or an NVLink domain's
    std::vector<int> shape; // of a torus that closes in both dimensions
    double oversubscription = 0;
    int devices_per_node = 0;
    std::map<std::string, int> counts;
    std::vector<std::string> notes;

    int nodes() const { return static_cast<int>(hosts.size()); }
};

// Fills what follows from hosts, vertices and links: levels, NICs a node, rate, topology, nodes a leaf, oversubscription.
void describe(FabricFacts& fabric);

// The preset of scenarios/devices for a GPU's PCI id, its model's name or its architecture; "" where none is known.
struct DeviceGuess {
    std::string device;
    std::string why; // "" where the file leaves no doubt, else what was assumed
};
DeviceGuess device_of(const NodeFacts& node);
DeviceGuess device_of_name(std::string_view name); // "NVIDIA H100 80GB HBM3", "H100"

// The rate of a network card's port by its PCI id, in Gbit/s; 0: not known.
double card_gbit(std::string_view vendor, std::string_view device);

} // namespace orrery::ingest
