// SimAI's topology files: "nodes GPUs-per-server NVSwitches switches links GPU", the ids of all switches, then a link a line.
#include "topology/ingest/formats.hpp"
#include "topology/ingest/text.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>

namespace orrery::ingest {

namespace {

struct SimaiLink {
    int a, b, line;
    double gbit, us;
};

struct SimaiHead {
    int nodes, per_server, nvswitches, switches, links;
    std::string gpu;
    int gpus() const { return nodes - nvswitches - switches; }
};

double with_unit(const InputFile& file, int line, std::string_view text, std::string_view unit, double most) {
    const auto value = text.ends_with(unit) ? number_of(text.substr(0, text.size() - unit.size())) : std::nullopt;
    if (!value || *value < 0 || *value > most) refuse(file, line, fmt::format("\"{}\" is no number with {}", shown(text), unit));
    return *value;
}

SimaiHead read_head(const InputFile& file, const TextLine& line) {
    const auto words = words_of(line.text);
    std::array<int, 5> n{};
    for (std::size_t i = 0; i < 5; ++i) {
        const auto value = i < words.size() ? whole_number_of(words[i]) : std::nullopt;
        if (!value || *value > 10'000'000)
            refuse(file, line.number, "the first line is: nodes, GPUs a server, NVSwitches, other switches, links, GPU type; this is not");
        n[i] = *value;
    }
    const SimaiHead head{n[0], n[1], n[2], n[3], n[4], words.size() > 5 ? std::string(words[5]) : ""};
    if (head.gpus() < 1 || head.per_server < 1 || head.gpus() % head.per_server != 0)
        refuse(file, line.number,
               fmt::format("{} nodes less {} switches leave {} GPUs, which are no servers of {}", head.nodes,
                           head.nvswitches + head.switches, head.gpus(), head.per_server));
    return head;
}

std::vector<SimaiLink> read_links(const InputFile& file, const std::vector<TextLine>& lines, const SimaiHead& head) {
    std::vector<SimaiLink> out;
    for (std::size_t i = 2; i < lines.size(); ++i) {
        const auto words = words_of(lines[i].text);
        if (words.empty()) continue;
        if (words.size() < 4) refuse(file, lines[i].number, "a link is: from, to, rate, latency, error rate; the line is cut off");
        const auto a = whole_number_of(words[0]), b = whole_number_of(words[1]);
        if (!a || !b || *a >= head.nodes || *b >= head.nodes || *a == *b)
            refuse(file, lines[i].number,
                   fmt::format("\"{} {}\" are no two of the {} ids from 0", shown(words[0]), shown(words[1]), head.nodes));
        out.push_back({*a, *b, lines[i].number, with_unit(file, lines[i].number, words[2], "Gbps", 1e6),
                       with_unit(file, lines[i].number, words[3], "ms", 1e3) * 1000});
        if (out.back().gbit <= 0) refuse(file, lines[i].number, "the link has no rate");
    }
    if (static_cast<int>(out.size()) != head.links)
        refuse(file, lines.back().number,
               fmt::format("the first line says {}, the file has {}: it is cut off", counted(static_cast<std::size_t>(head.links), "link"),
                           out.size()));
    return out;
}

// The file's ids in its order: GPUs, then switches; of the switches NVSwitches come first.
std::vector<int> read_switches(const InputFile& file, const TextLine& line, const SimaiHead& head) {
    std::vector<int> out;
    for (const std::string_view word : words_of(line.text)) {
        const auto id = whole_number_of(word);
        if (!id || *id < head.gpus() || *id >= head.nodes)
            refuse(file, line.number, fmt::format("\"{}\" is no id of a switch (from {} below {})", shown(word), head.gpus(), head.nodes));
        out.push_back(*id);
    }
    if (static_cast<int>(out.size()) != head.nvswitches + head.switches)
        refuse(file, line.number,
               fmt::format("the line lists {}, the first line says {}", counted(out.size(), "switch"), head.nvswitches + head.switches));
    return out;
}

NodeFacts node_of(const InputFile& file, const SimaiHead& head) {
    NodeFacts node;
    node.file = file.name, node.format = "SimAI topology";
    for (int g = 0; g < head.per_server; ++g) {
        Part part;
        part.kind = Part::Kind::gpu, part.name = fmt::format("GPU{}", g), part.model = head.gpu, part.line = 1;
        node.parts.push_back(std::move(part));
    }
    node.links_stated = true;
    return node;
}

} // namespace

SystemFacts read_simai(const InputFile& file) {
    const auto lines = lines_of(file.text);
    if (lines.size() < 2)
        refuse(file, 0, "the file is cut off: SimAI's topology has a line of counts, a line of switches and a line a link");
    const SimaiHead head = read_head(file, lines[0]);
    const auto switches = read_switches(file, lines[1], head);
    const auto links = read_links(file, lines, head);

    SystemFacts out;
    NodeFacts node = node_of(file, head);
    FabricFacts f;
    f.file = file.name, f.format = "SimAI topology", f.devices_per_node = head.per_server;
    for (int h = 0; h < head.gpus() / head.per_server; ++h) f.hosts.push_back(fmt::format("server{}", h));
    std::map<int, int> vertex; // of a switch by id
    for (std::size_t i = static_cast<std::size_t>(head.nvswitches); i < switches.size(); ++i) {
        FabricVertex v;
        v.kind = FabricVertex::Kind::fabric_switch, v.name = fmt::format("switch{}", switches[i]);
        if (!vertex.emplace(switches[i], static_cast<int>(f.vertices.size())).second)
            refuse(file, 2, fmt::format("switch {} stands twice", switches[i]));
        f.vertices.push_back(std::move(v));
    }
    std::map<int, double> inside; // rate of a GPU's links to NVSwitches
    std::map<int, int> ports;     // of a GPU
    for (const SimaiLink& l : links) {
        const int gpu = std::min(l.a, l.b), other = std::max(l.a, l.b);
        const bool from_gpu = gpu < head.gpus();
        if (from_gpu && !vertex.contains(other)) {
            inside[gpu] += l.gbit / 8;
            node.scale_up_latency_us = l.us;
            if (gpu < head.per_server) node.links.push_back({gpu, other < head.gpus() ? other % head.per_server : -1, 1});
        } else if (from_gpu) {
            FabricVertex v;
            v.host = gpu / head.per_server;
            // Ports of one GPU stand beside one another, so that a rail keeps its number.
            v.name = fmt::format("server{} {:06}.{:02}", v.host, gpu % head.per_server, ports[gpu]++);
            f.links.push_back({static_cast<int>(f.vertices.size()), vertex.at(other), l.gbit, l.us});
            f.latency_us = 2 * l.us;
            f.vertices.push_back(std::move(v));
        } else if (vertex.contains(gpu) && vertex.contains(other)) {
            f.links.push_back({vertex.at(gpu), vertex.at(other), l.gbit, l.us});
        } else {
            refuse(file, l.line,
                   fmt::format("{} and {} are two switches of which one is an NVSwitch: a server's links stay inside it", gpu, other));
        }
    }
    for (const auto& [gpu, rate] : inside) node.scale_up_gb_per_s = std::max(node.scale_up_gb_per_s, rate);
    if (!inside.empty())
        node.link_kind = "nvlink",
        node.notes.emplace_back(
            "SimAI writes what its NVLinks deliver, not what the datasheet says: compare intra_node.gb_per_s with the device's");
    f.counts = {
        {"nodes", head.nodes}, {"nvswitches", head.nvswitches}, {"switches", head.switches}, {"links", static_cast<int>(links.size())}};
    describe(f);
    out.node = std::move(node);
    out.fabric = std::move(f);
    out.device = head.gpu;
    return out;
}

} // namespace orrery::ingest
