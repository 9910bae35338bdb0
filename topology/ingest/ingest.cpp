// Files in, a cluster out: each file's format by its content, its facts, then what they amount to together.
#include "topology/ingest/ingest.hpp"
#include "topology/ingest/compose.hpp"
#include "topology/ingest/text.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>

namespace orrery::ingest {

namespace {

bool has(std::string_view text, std::string_view what) { return text.substr(0, 1u << 16).find(what) != std::string_view::npos; }

// The first words of the first line that says something: neither empty nor a comment.
std::vector<std::string_view> first_words(std::string_view text) {
    for (const TextLine& line : lines_of(text.substr(0, 1u << 14)))
        if (const auto words = words_of(line.text); !words.empty() && !words.front().starts_with('#')) return words;
    return {};
}

constexpr std::array<Format, 8> known{{
    {"nccl", "NCCL topology XML (NCCL_TOPO_DUMP_FILE)", [](std::string_view t) { return has(t, "<system") || has(t, "<graphs"); }},
    {"hwloc", "hwloc XML (lstopo topo.xml)", [](std::string_view t) { return has(t, "<topology"); }},
    {"nvidia-smi", "the output of nvidia-smi topo -m", [](std::string_view t) { return has(t, "GPU0") && has(t, "X") && !has(t, "<"); }},
    {"ibnetdiscover", "the output of ibnetdiscover", [](std::string_view t) { return has(t, "switchguid=") || has(t, "caguid="); }},
    {"slurm", "Slurm's topology.conf",
     [](std::string_view t) {
         const auto w = first_words(t);
         return !w.empty() &&
                (lower(w[0]).starts_with("switchname=") || lower(w[0]).starts_with("blockname=") || lower(w[0]).starts_with("blocksizes="));
     }},
    {"slurm-yaml", "Slurm's topology.yaml",
     [](std::string_view t) { return has(t, "topology:") && (has(t, "- topology:") || has(t, "tree:") || has(t, "block:")); }},
    {"astra-sim", "ASTRA-sim's network.yml", [](std::string_view t) { return has(t, "npus_count"); }},
    {"simai", "SimAI's topology file",
     [](std::string_view t) {
         const auto w = first_words(t);
         return w.size() >= 5 && w.size() <= 6 &&
                std::all_of(w.begin(), w.begin() + 5, [](std::string_view x) { return whole_number_of(x).has_value(); });
     }},
}};

std::string format_names() {
    std::string out;
    for (const Format& f : known) out += (out.empty() ? "" : ", ") + std::string(f.name);
    return out;
}

const Format& format_for(const InputFile& file, const IngestOptions& options) {
    if (!options.from.empty()) {
        const Format* named = format_named(options.from);
        if (!named) refuse(file, 0, fmt::format("--from {} is no format: {}", shown(options.from), format_names()));
        return *named;
    }
    if (file.text.find_first_not_of(" \t\r\n") == std::string::npos) refuse(file, 0, "the file is empty");
    const Format* found = format_of(file.text);
    if (!found)
        refuse(file, 0, fmt::format("this is no file that is known by its content: name its format with --from ({})", format_names()));
    return *found;
}

template <class Facts> std::string summary(const Facts& facts) {
    std::string out;
    for (const auto& [what, n] : facts.counts)
        if (n > 0 && !what.starts_with("class ")) out += fmt::format("{}{} {}", out.empty() ? "" : ", ", n, what);
    return fmt::format("{}: {}: {}", facts.file, facts.format, out);
}

void put_node(SystemFacts& all, NodeFacts node, std::vector<std::string>& found, const InputFile& file) {
    if (all.node) refuse(file, 0, fmt::format("it describes a node, and so does {}: give one of them", all.node->file));
    found.push_back(summary(node));
    all.node = std::move(node);
}

void put_fabric(SystemFacts& all, FabricFacts fabric, std::vector<std::string>& found, const InputFile& file) {
    if (all.fabric) refuse(file, 0, fmt::format("it describes a fabric, and so does {}: give one of them", all.fabric->file));
    std::string levels;
    for (const int n : fabric.switches) levels += fmt::format("{}{}", levels.empty() ? "" : " + ", n);
    found.push_back(summary(fabric) +
                    (levels.empty() ? "" : fmt::format("; {} hosts below {} switches (leaves, then upwards)", fabric.nodes(), levels)));
    all.fabric = std::move(fabric);
}

} // namespace

std::span<const Format> formats() { return known; }

const Format* format_of(std::string_view text) {
    for (const Format& f : known)
        if (f.looks_like(text)) return &f;
    return nullptr;
}

const Format* format_named(std::string_view name) {
    for (const Format& f : known)
        if (name == f.name) return &f;
    return nullptr;
}

SystemFacts read_files(std::span<const InputFile> files, const IngestOptions& options, std::vector<std::string>& found) {
    SystemFacts all;
    for (const InputFile& file : files) {
        if (file.text.size() > (1u << 28)) refuse(file, 0, "the file is larger than 256 MiB: this is no description of a machine");
        const std::string_view format = format_for(file, options).name;
        if (format == "nccl")
            put_node(all, read_nccl_xml(file), found, file);
        else if (format == "hwloc")
            put_node(all, read_hwloc_xml(file), found, file);
        else if (format == "nvidia-smi")
            put_node(all, read_nvidia_smi(file), found, file);
        else if (format == "ibnetdiscover")
            put_fabric(all, read_ibnetdiscover(file), found, file);
        else if (format == "slurm")
            put_fabric(all, read_slurm_conf(file), found, file);
        else if (format == "slurm-yaml")
            put_fabric(all, read_slurm_yaml(file), found, file);
        else {
            SystemFacts system = format == "simai" ? read_simai(file) : read_astra_sim(file);
            put_fabric(all, std::move(*system.fabric), found, file);
            // A node's own file says more of it than a simulator's input.
            if (!all.node) all.node = std::move(system.node);
            if (all.device.empty()) all.device = system.device;
        }
    }
    return all;
}

Ingested ingest(std::span<const InputFile> files, const IngestOptions& options) {
    if (files.empty()) throw IngestError("no file was named");
    Ingested out;
    const SystemFacts facts = read_files(files, options, out.found);
    const ComposedCluster cluster = compose(facts, options);
    constexpr double most_drawn = 200'000; // parts of a graph: beyond, routes between all devices take minutes
    const double drawn =
        static_cast<double>(cluster.nodes) * (facts.node ? static_cast<double>(facts.node->parts.size()) : cluster.devices_per_node);
    if (options.graph && drawn > most_drawn)
        throw IngestError(fmt::format("{}: a graph of {:.0f} parts is too large: leave --graph out", files[0].name, drawn));
    out.cluster = options.graph ? graph_text(cluster, facts) : cluster_text(cluster);
    out.assumed = cluster.assumed;
    out.notes = cluster.notes;
    if (options.graph)
        out.assumed.push_back({"graph", "0.5 us a PCIe hop and a cable, 0.3 us a scale-up hop", "no file states latencies of hops"});
    return out;
}

} // namespace orrery::ingest
