// NCCL's and RCCL's topology XML: <system> holds <cpu>, which hold nested <pci>; a dump adds <gpu> with <nvlink> or <xgmi>, and <net>.
#include "topology/ingest/formats.hpp"
#include "topology/ingest/text.hpp"
#include "topology/ingest/xml.hpp"

#include <fmt/format.h>

#include <algorithm>

namespace orrery::ingest {

namespace {

using Kind = Part::Kind;

struct Target {
    int from, line, count;
    std::string bus_id, kind;
};

// The file in progress. Links name bus ids that may come later: they are resolved in the end.
struct NcclReading {
    const InputFile& file;
    NodeFacts facts;
    std::vector<Target> targets;
    std::map<std::string, int> by_bus_id;
    int unclassed = 0;
};

// "16.0 GT/s PCIe" x width, one way, in GB/s; 0 where the file leaves it out.
double pcie_rate(NcclReading& r, const XmlElement& pci) {
    const std::string_view speed = pci.attribute("link_speed"), width = pci.attribute("link_width");
    if (speed.empty() || width.empty()) return 0;
    const auto words = words_of(speed);
    if (words.empty() || words.front() == "Unknown") return 0;
    const double rate = number_of(words.front()).value_or(-1);
    const int lanes = whole_number_of(width).value_or(-1);
    if (rate < 0 || rate > 1000 || lanes < 0 || lanes > 64)
        refuse(r.file, pci.line,
               fmt::format("link_speed=\"{}\" link_width=\"{}\" is no PCIe link: expected \"16.0 GT/s PCIe\" and \"16\"", shown(speed),
                           shown(width)));
    return rate * lanes / 8;
}

int add(NcclReading& r, Kind kind, const XmlElement& element, std::string name, int parent) {
    Part part;
    part.kind = kind, part.name = std::move(name), part.parent = parent, part.line = element.line;
    r.facts.parts.push_back(std::move(part));
    return static_cast<int>(r.facts.parts.size()) - 1;
}

void read_gpu(NcclReading& r, const XmlElement& gpu, int part) {
    r.facts.links_stated = true;
    const std::string gcn(gpu.attribute("gcn"));
    if (!gcn.empty())
        r.facts.architecture = gcn.starts_with("gfx") ? gcn : gcn == "910" ? "gfx90a" : "gfx" + gcn;
    else if (const auto sm = gpu.attribute("sm"); !sm.empty())
        r.facts.architecture = "sm" + std::string(sm);
    for (const XmlElement& link : gpu.children) {
        if (link.name != "nvlink" && link.name != "xgmi") continue;
        ++r.facts.counts[link.name];
        const auto count = whole_number_of(link.attribute("count"));
        if (!count || *count < 1 || *count > 1000 || link.attribute("target").empty())
            refuse(r.file, link.line,
                   fmt::format("<{}> needs a target and a count from 1, and has target=\"{}\" count=\"{}\"", link.name,
                               shown(link.attribute("target")), shown(link.attribute("count"))));
        r.facts.counts[link.name + "_sum"] += *count;
        r.facts.link_kind = link.name;
        r.targets.push_back(
            {part, link.line, *count, std::string(link.attribute("target")), link.attribute("tclass") == "0x068000" ? "switch" : "device"});
    }
}

// A NIC's ports: each <net> is one. `part` is the NIC's own part where its PCI device made one, else -1.
void read_nic(NcclReading& r, const XmlElement& nic, int part, int parent) {
    for (const XmlElement& net : nic.children) {
        if (net.name != "net") continue;
        ++r.facts.counts["net"];
        const int port = part >= 0 && r.facts.parts[part].nic_gbit == 0
                             ? part
                             : add(r, Kind::nic, net, std::string(net.attribute("name")), part >= 0 ? r.facts.parts[part].parent : parent);
        Part& p = r.facts.parts[port];
        if (part >= 0 && port != part) {
            const Part& card = r.facts.parts[part];
            p.network = card.network, p.vendor = card.vendor, p.pci = card.pci, p.gb_per_s = card.gb_per_s;
        }
        if (!net.attribute("name").empty()) p.name = net.attribute("name");
        const auto speed = net.attribute("speed").empty() ? std::optional<double>(0) : number_of(net.attribute("speed"));
        if (!speed || *speed < 0 || *speed > 1e8)
            refuse(r.file, net.line, fmt::format("speed=\"{}\" of <net> is no number of Mbit/s", shown(net.attribute("speed"))));
        p.nic_gbit = *speed / 1000;
        if (p.network.empty() && p.name.starts_with("eth")) p.network = "ethernet";
    }
}

void read_children(NcclReading& r, const XmlElement& element, int parent);

void read_pci(NcclReading& r, const XmlElement& pci, int parent) {
    ++r.facts.counts["pci"];
    const std::string id(pci.attribute("busid")), type(pci.attribute("class"));
    if (id.empty()) refuse(r.file, pci.line, "<pci> has no busid: the file is damaged, write it again with NCCL_TOPO_DUMP_FILE");
    ++r.facts.counts["class " + (type.empty() ? "none" : type)];
    const bool gpu_inside = std::any_of(pci.children.begin(), pci.children.end(), [](const XmlElement& c) { return c.name == "gpu"; });
    const bool gpu = gpu_inside || type.starts_with("0x03") || type == "0x120000";
    const bool nic = type.starts_with("0x02");
    if (type.empty() && !gpu_inside && pci.children.empty()) ++r.unclassed;
    const int part = add(r, gpu ? Kind::gpu : nic ? Kind::nic : type == "0x068000" ? Kind::nvswitch : Kind::bridge, pci, id, parent);
    if (!r.by_bus_id.emplace(id, part).second)
        refuse(r.file, pci.line, fmt::format("bus id {} stands twice: the file is damaged", shown(id)));
    Part& p = r.facts.parts[part];
    p.gb_per_s = pcie_rate(r, pci);
    p.vendor = lower(pci.attribute("vendor")), p.pci = lower(pci.attribute("device"));
    if (nic) p.network = type == "0x020700" ? "infiniband" : "ethernet";
    for (const XmlElement& child : pci.children) {
        if (child.name == "gpu") ++r.facts.counts["gpu"], read_gpu(r, child, part);
        if (child.name == "nic") read_nic(r, child, nic ? part : -1, part);
    }
    read_children(r, pci, part);
}

void read_children(NcclReading& r, const XmlElement& element, int parent) {
    for (const XmlElement& child : element.children) {
        if (child.name == "pci") read_pci(r, child, parent);
        if (child.name == "nic" && element.name == "cpu") read_nic(r, child, -1, parent);
    }
}

void resolve_targets(NcclReading& r) {
    int hidden = 0;
    for (const Target& t : r.targets) {
        const auto to = r.by_bus_id.find(t.bus_id);
        if (t.kind == "switch")
            r.facts.links.push_back({t.from, -1, t.count});
        else if (to == r.by_bus_id.end())
            refuse(r.file, t.line,
                   fmt::format("a link leads to {}, and no <pci> has this busid: the file is cut off or was edited", shown(t.bus_id)));
        else if (to->second == t.from)
            ++hidden;
        else
            r.facts.links.push_back({t.from, to->second, t.count});
    }
    if (hidden > 0)
        r.facts.notes.push_back(
            fmt::format("links of {} end at the GPU itself: a virtual machine hides where they lead, so they are left out",
                        counted(static_cast<std::size_t>(hidden), "GPU")));
}

} // namespace

NodeFacts read_nccl_xml(const InputFile& file) {
    const XmlElement system = read_xml(file);
    if (system.name == "graphs")
        refuse(file, system.line,
               "this is NCCL's graph of channels, not its topology: dump the topology with NCCL_TOPO_DUMP_FILE=topo.xml");
    if (system.name != "system")
        refuse(file, system.line, fmt::format("the root is <{}>, and an NCCL topology has <system>", shown(system.name)));
    NcclReading r{file, {}, {}, {}, 0};
    r.facts.file = file.name, r.facts.format = "NCCL topology";
    for (const XmlElement& cpu : system.children) {
        if (cpu.name != "cpu") continue;
        ++r.facts.counts["cpu"];
        if (!cpu.attribute("vendor").empty()) r.facts.cpu_vendor = cpu.attribute("vendor");
        const int socket = add(r, Kind::socket, cpu, "cpu" + std::string(cpu.attribute("numaid")), -1);
        read_children(r, cpu, socket);
    }
    if (r.unclassed > 0)
        refuse(file, system.line,
               fmt::format(
                   "{} without a class: which is a GPU and which a NIC is not said. Dump the file on the machine with NCCL_TOPO_DUMP_FILE",
                   r.unclassed == 1 ? "a <pci> is" : fmt::format("{} <pci> are", r.unclassed)));
    resolve_targets(r);
    if (r.facts.count(Kind::gpu) == 0) refuse(file, system.line, "the file lists no GPU: dump it on a machine with GPUs");
    return std::move(r.facts);
}

} // namespace orrery::ingest
