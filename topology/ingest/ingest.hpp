// Files that describe real machines, as a cluster that scenarios take: `simrun ingest FILE.. -o cluster.json`.
//
// One file describes a node (NCCL's XML, nvidia-smi topo -m, hwloc's XML), another the fabric (ibnetdiscover, Slurm's topology), some both
// (SimAI, ASTRA-sim). Figures that no file states are assumed, marked so in "sources" of the cluster, and listed apart.
#pragma once

#include "topology/ingest/facts.hpp"
#include "topology/ingest/formats.hpp"

#include <span>
#include <string>
#include <vector>

namespace orrery::ingest {

// The user's statements; they come before those of files.
struct IngestOptions {
    std::string from;    // a format's name for all files; "": by content
    std::string device;  // a preset of scenarios/devices
    std::string network; // a kind of inter_node
    int nodes = 0;
    double nic_gbit = 0; // Gbit/s of a NIC
    bool graph = false;  // an explicit graph (PCIe tree, NICs, switches) in place of intra_node and inter_node
};

struct Assumption {
    std::string field, value, why; // "inter_node.gbit_per_s", "400", "what the card can do at most"
};

struct Ingested {
    std::string cluster;             // JSON, one line a section
    std::vector<std::string> found;  // what each file holds, in words
    std::vector<Assumption> assumed; // every number and word that no file states
    std::vector<std::string> notes;  // what was left out or taken for something simpler
};

// Throws IngestError: one line that says where, what and what to do.
Ingested ingest(std::span<const InputFile> files, const IngestOptions& options);

// The node and the fabric of the files, before anything is assumed.
SystemFacts read_files(std::span<const InputFile> files, const IngestOptions& options, std::vector<std::string>& found);

} // namespace orrery::ingest
