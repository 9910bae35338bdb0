// The formats that can be read, one file each. Internal to topology/ingest; users call ingest().
//
// Each reader throws IngestError where the file is damaged or another thing than it seems; what it returns is only what the file states.
#pragma once

#include "topology/ingest/facts.hpp"

#include <optional>
#include <span>
#include <string>

namespace orrery::ingest {

NodeFacts read_nccl_xml(const InputFile& file);   // NCCL_TOPO_DUMP_FILE, NCCL_TOPO_FILE, RCCL's
NodeFacts read_hwloc_xml(const InputFile& file);  // lstopo topo.xml, versions 2 and 3
NodeFacts read_nvidia_smi(const InputFile& file); // nvidia-smi topo -m, mx-smi topo -m
FabricFacts read_ibnetdiscover(const InputFile& file);
FabricFacts read_slurm_conf(const InputFile& file); // topology.conf: tree or block
FabricFacts read_slurm_yaml(const InputFile& file); // topology.yaml: tree, block or flat

// A whole system in one file. device: the GPU's name as the file has it.
struct SystemFacts {
    std::optional<NodeFacts> node;
    std::optional<FabricFacts> fabric;
    std::string device;
};
SystemFacts read_simai(const InputFile& file);     // the topology files of SimAI's generator
SystemFacts read_astra_sim(const InputFile& file); // network.yml of ASTRA-sim's analytical backend

// Which format a file has. The name is what --from takes.
struct Format {
    const char* name;
    const char* what;                          // in words, for messages and help
    bool (*looks_like)(std::string_view text); // by the content alone
};
std::span<const Format> formats();
const Format* format_of(std::string_view text); // nullptr: none
const Format* format_named(std::string_view name);

} // namespace orrery::ingest
