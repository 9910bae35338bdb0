// Slurm's topology.conf and topology.yaml: trees of switches, blocks of nodes, or flat. They name nodes and switches, and state no rates.
#include "topology/ingest/formats.hpp"
#include "topology/ingest/text.hpp"
#include "topology/ingest/yaml.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <functional>
#include <set>

namespace orrery::ingest {

namespace {

using VertexKind = FabricVertex::Kind;

struct SlurmSwitch {
    std::string name;
    std::vector<std::string> nodes, switches;
    int line = 0;
};

std::vector<std::string> names_of(const InputFile& file, int line, std::string_view text) {
    auto names = host_list(text);
    if (!names) refuse(file, line, fmt::format("\"{}\" is no host list such as node[01-16,20]", shown(text)));
    return std::move(*names);
}

// A tree: which switch is above which, and the nodes below.
void build_tree(const InputFile& file, const std::vector<SlurmSwitch>& switches, FabricFacts& f) {
    std::map<std::string, int> vertex;
    for (const SlurmSwitch& s : switches) {
        FabricVertex v;
        v.kind = VertexKind::fabric_switch, v.name = s.name;
        if (!vertex.emplace(s.name, static_cast<int>(f.vertices.size())).second)
            refuse(file, s.line, fmt::format("switch {} stands twice", shown(s.name)));
        f.vertices.push_back(std::move(v));
        ++f.counts["switch"];
    }
    std::map<std::string, int> above;
    std::set<std::string> known;
    for (const SlurmSwitch& s : switches) {
        const int here = vertex.at(s.name);
        for (const std::string& child : s.switches) {
            const auto found = vertex.find(child);
            if (found == vertex.end())
                refuse(file, s.line, fmt::format("switch {} is named below {}, and no line describes it", shown(child), shown(s.name)));
            if (!above.emplace(child, here).second)
                refuse(file, s.line, fmt::format("switch {} is below two switches, which a tree cannot be", shown(child)));
            f.links.push_back({found->second, here, 0, -1});
        }
        for (const std::string& node : s.nodes) {
            if (!known.insert(node).second)
                refuse(file, s.line, fmt::format("node {} is below two switches, which a tree cannot be", shown(node)));
            FabricVertex v;
            v.name = node, v.host = f.nodes();
            f.hosts.push_back(node);
            f.links.push_back({static_cast<int>(f.vertices.size()), here, 0, -1});
            f.vertices.push_back(std::move(v));
        }
    }
    for (const SlurmSwitch& s : switches) { // a switch above itself
        std::set<int> met;
        for (auto up = above.find(s.name); up != above.end(); up = above.find(f.vertices[up->second].name))
            if (!met.insert(up->second).second) refuse(file, s.line, fmt::format("switch {} is above itself", shown(s.name)));
    }
    if (f.hosts.empty()) refuse(file, 0, "the tree has no nodes: a leaf switch lists them with Nodes=");
    f.counts["node"] = f.nodes();
    describe(f);
    // Slurm's tree stands for a fabric of many switches at each level: counts of switches and ports are its, not the network's.
    f.nics_per_node = 0, f.nic_gbit = 0, f.oversubscription = 0;
}

struct SlurmBlock {
    std::vector<std::string> nodes;
    int line = 0;
};

void build_blocks(const InputFile& file, const std::vector<SlurmBlock>& blocks, FabricFacts& f) {
    std::set<std::string> known;
    std::size_t most = 0;
    for (const SlurmBlock& b : blocks) {
        for (const std::string& node : b.nodes) {
            if (!known.insert(node).second) refuse(file, b.line, fmt::format("node {} is in two blocks", shown(node)));
            f.hosts.push_back(node);
        }
        most = std::max(most, b.nodes.size());
    }
    if (f.hosts.empty()) refuse(file, 0, "no block holds a node: a block lists them with Nodes=");
    f.counts["block"] = static_cast<int>(blocks.size());
    f.counts["node"] = f.nodes();
    f.block_nodes = static_cast<int>(most);
}

std::map<std::string, std::string> pairs_of(const InputFile& file, const TextLine& line) {
    std::map<std::string, std::string> out;
    for (const std::string_view word : words_of(line.text.substr(0, line.text.find('#')))) {
        const std::size_t equals = word.find('=');
        if (equals == std::string_view::npos || equals == 0) refuse(file, line.number, fmt::format("\"{}\" is no KEY=VALUE", shown(word)));
        if (!out.emplace(lower(word.substr(0, equals)), word.substr(equals + 1)).second)
            refuse(file, line.number, fmt::format("{} stands twice in one line", shown(word.substr(0, equals))));
    }
    return out;
}

const YamlValue& need_list(const InputFile& file, const YamlValue& of, const char* key) {
    const YamlValue* v = of.field(key);
    if (!v || v->kind != YamlValue::Kind::list) refuse(file, of.line, fmt::format("{} needs a list {}", "this topology", key));
    return *v;
}

std::string need_text(const InputFile& file, const YamlValue& of, const char* key) {
    const YamlValue* v = of.field(key);
    if (!v || v->kind != YamlValue::Kind::text || v->text.empty()) refuse(file, of.line, fmt::format("an entry needs \"{}: name\"", key));
    return v->text;
}

// "node[1-4]" or a list of such texts; nothing where the field is absent.
std::vector<std::string> names_in(const InputFile& file, const YamlValue& of, const char* key) {
    std::vector<std::string> out;
    const YamlValue* v = of.field(key);
    if (!v) return out;
    if (v->kind == YamlValue::Kind::mapping) refuse(file, v->line, fmt::format("{} must be a host list", key));
    if (v->kind == YamlValue::Kind::text) return names_of(file, v->line, v->text);
    for (const YamlValue& item : v->items)
        for (std::string& name : names_of(file, item.line, item.text)) out.push_back(std::move(name));
    return out;
}

void read_one(const InputFile& file, const YamlValue& topology, FabricFacts& f) {
    const YamlValue *tree = topology.field("tree"), *block = topology.field("block");
    if (tree) {
        std::vector<SlurmSwitch> switches;
        for (const YamlValue& s : need_list(file, *tree, "switches").items)
            switches.push_back({need_text(file, s, "switch"), names_in(file, s, "nodes"), names_in(file, s, "children"), s.line});
        build_tree(file, switches, f);
    } else if (block) {
        std::vector<SlurmBlock> blocks;
        for (const YamlValue& b : need_list(file, *block, "blocks").items) {
            (void)need_text(file, b, "block");
            blocks.push_back({names_in(file, b, "nodes"), b.line});
        }
        build_blocks(file, blocks, f);
    } else {
        refuse(file, topology.line,
               "the topology is flat: it says nothing of the network. Give the fabric by another file (ibnetdiscover), or --nodes alone");
    }
}

} // namespace

FabricFacts read_slurm_conf(const InputFile& file) {
    FabricFacts f;
    f.file = file.name, f.format = "Slurm topology.conf";
    std::vector<SlurmSwitch> switches;
    std::vector<SlurmBlock> blocks;
    for (const TextLine& line : lines_of(file.text)) {
        const auto pairs = pairs_of(file, line);
        if (pairs.empty()) continue;
        const auto names = [&](const char* key) {
            return pairs.contains(key) ? names_of(file, line.number, pairs.at(key)) : std::vector<std::string>{};
        };
        if (pairs.contains("switchname")) {
            switches.push_back({pairs.at("switchname"), names("nodes"), names("switches"), line.number});
            if (switches.back().nodes.empty() == switches.back().switches.empty())
                refuse(file, line.number, fmt::format("switch {} needs one of Nodes= and Switches=", shown(switches.back().name)));
        } else if (pairs.contains("blockname")) {
            blocks.push_back({names("nodes"), line.number});
        } else if (!pairs.contains("blocksizes")) {
            refuse(
                file, line.number,
                fmt::format("\"{}\" begins no line of topology.conf: expected SwitchName=, BlockName= or BlockSizes=", shown(line.text)));
        }
    }
    if (switches.empty() == blocks.empty())
        refuse(file, 0,
               switches.empty() ? "no switch and no block in the file" : "the file has switches and blocks: Slurm takes one of the two");
    if (!switches.empty())
        build_tree(file, switches, f);
    else
        build_blocks(file, blocks, f);
    return f;
}

FabricFacts read_slurm_yaml(const InputFile& file) {
    const YamlValue root = read_yaml(file);
    if (root.kind != YamlValue::Kind::list || root.items.empty())
        refuse(file, root.line, "topology.yaml is a list of topologies (- topology: name), and this is not");
    FabricFacts f;
    f.file = file.name, f.format = "Slurm topology.yaml";
    const YamlValue* chosen = &root.items.front();
    for (const YamlValue& t : root.items)
        if (const YamlValue* d = t.field("cluster_default"); d && lower(d->text) == "true") chosen = &t;
    const std::string name = need_text(file, *chosen, "topology");
    if (root.items.size() > 1)
        f.notes.push_back(fmt::format("of {} topologies, {} is taken (cluster_default, else the first)", root.items.size(), shown(name)));
    read_one(file, *chosen, f);
    return f;
}

} // namespace orrery::ingest
