// hwloc's XML (lstopo topo.xml): packages, NUMA nodes, PCI bridges and devices, what the operating system and NVML call them.
#include "topology/ingest/formats.hpp"
#include "topology/ingest/text.hpp"
#include "topology/ingest/xml.hpp"

#include <fmt/format.h>

#include <algorithm>

namespace orrery::ingest {

namespace {

using Kind = Part::Kind;

struct HwlocReading {
    const InputFile& file;
    NodeFacts facts;
    std::map<std::string, int> by_object; // gp_index -> part
};

// "0302 [10de:1db8] [10de:131d] a1 00": class, vendor and device.
struct PciType {
    std::string type, vendor, device;
};
PciType pci_type(const HwlocReading& r, const XmlElement& object) {
    const std::string_view text = object.attribute("pci_type");
    if (text.size() < 16 || text[4] != ' ' || text[5] != '[' || text[10] != ':')
        refuse(r.file, object.line,
               fmt::format("pci_type=\"{}\" is not hwloc's \"0302 [10de:20b0] ..\": the file is damaged", shown(text)));
    return {std::string(text.substr(0, 4)), "0x" + lower(text.substr(6, 4)), "0x" + lower(text.substr(11, 4))};
}

// hwloc states a link's GB/s after its encoding (15.75 for 16 lanes of PCIe 3); ours is before it (16).
double pcie_rate(const HwlocReading& r, const XmlElement& object) {
    const std::string_view text = object.attribute("pci_link_speed");
    const auto rate = text.empty() ? std::optional<double>(0) : number_of(text);
    if (!rate || *rate < 0 || *rate > 1000)
        refuse(r.file, object.line, fmt::format("pci_link_speed=\"{}\" is no rate in GB/s", shown(text)));
    return *rate * 130 / 128;
}

std::string_view info(const XmlElement& object, std::string_view name) {
    for (const XmlElement& child : object.children)
        if (child.name == "info" && child.attribute("name") == name) return child.attribute("value");
    return {};
}

void name_device(HwlocReading& r, const XmlElement& device, int index) {
    Part& part = r.facts.parts[index];
    for (const XmlElement& os : device.children) {
        if (os.name != "object" || os.attribute("type") != "OSDev") continue;
        r.by_object[std::string(os.attribute("gp_index"))] = index; // NVML's devices stand in NVLinkBandwidth
        if (const auto model = info(os, "GPUModel"); !model.empty()) part.model = model;
        const std::string_view name = os.attribute("name");
        if (part.kind == Kind::nic && !name.empty() && (name.starts_with("mlx") || part.name.find(':') != std::string::npos))
            part.name = name;
    }
}

// ATI's ES1000, RN50 and Rage XL on servers' boards, which compute nothing.
bool draws_the_console(std::string_view device) { return device == "0x515e" || device == "0x5159" || device == "0x4752"; }

void read_objects(HwlocReading& r, const XmlElement& element, int parent) {
    for (const XmlElement& object : element.children) {
        if (object.name != "object") continue;
        const std::string type(object.attribute("type"));
        if (type.empty()) refuse(r.file, object.line, "<object> has no type: the file is damaged, write it again with `lstopo topo.xml`");
        ++r.facts.counts[type];
        int here = parent;
        const auto add = [&](Kind kind, std::string name) {
            Part part;
            part.kind = kind, part.name = std::move(name), part.parent = parent, part.line = object.line;
            r.facts.parts.push_back(std::move(part));
            here = static_cast<int>(r.facts.parts.size()) - 1;
            r.by_object[std::string(object.attribute("gp_index"))] = here;
            return here;
        };
        if (type == "Package") {
            add(Kind::socket, "package" + std::string(object.attribute("os_index")));
            r.facts.cpu_vendor = info(object, "CPUVendor");
        } else if (type == "NUMANode") {
            if (const auto bytes = number_of(object.attribute("local_memory")); bytes && *bytes >= 0) r.facts.memory_gb += *bytes / 1e9;
        } else if (type == "Bridge" && object.attribute("bridge_type") != "0-1") {
            const int at = add(Kind::bridge, std::string(object.attribute("pci_busid")));
            r.facts.parts[at].gb_per_s = pcie_rate(r, object);
        } else if (type == "PCIDev") {
            const PciType pci = pci_type(r, object);
            const bool gpu =
                (pci.type.starts_with("03") && (pci.vendor == "0x10de" || (pci.vendor == "0x1002" && !draws_the_console(pci.device)))) ||
                pci.type == "1200";
            const bool nic = pci.type == "0207" || pci.type == "0200";
            if (gpu || nic || (pci.type == "0680" && pci.vendor == "0x10de")) {
                const int at = add(gpu ? Kind::gpu : nic ? Kind::nic : Kind::nvswitch, std::string(object.attribute("pci_busid")));
                Part& part = r.facts.parts[at];
                part.gb_per_s = pcie_rate(r, object);
                part.vendor = pci.vendor, part.pci = pci.device;
                if (nic) part.network = pci.type == "0207" ? "infiniband" : "ethernet";
                name_device(r, object, at);
            }
        }
        read_objects(r, object, here);
    }
}

// <distances2hetero name="NVLinkBandwidth"> lists "NVSwitch:81" or "PCIDev:12" by object, then a square of MB/s between them.
void read_nvlinks(HwlocReading& r, const XmlElement& distances) {
    std::vector<int> parts;
    std::vector<double> rates;
    for (const XmlElement& child : distances.children) {
        std::string text = child.text;
        std::replace(text.begin(), text.end(), '\n', ' ');
        for (const std::string_view word : words_of(text)) {
            if (child.name == "indexes") {
                const std::string object(word.substr(word.find(':') + 1));
                const auto found = r.by_object.find(object);
                parts.push_back(found == r.by_object.end() ? -1 : found->second);
            } else if (child.name == "u64values") {
                const double rate = number_of(word).value_or(-1);
                if (rate < 0) refuse(r.file, child.line, fmt::format("\"{}\" is no bandwidth in MB/s", shown(word)));
                rates.push_back(rate);
            }
        }
    }
    const std::size_t n = parts.size();
    if (rates.size() != n * n)
        refuse(r.file, distances.line,
               fmt::format("NVLinkBandwidth lists {} for {}, and needs {}: the file is cut off", counted(rates.size(), "value"),
                           counted(n, "object"), n * n));
    r.facts.links_stated = true;
    double least = 0;
    const auto kind_at = [&](std::size_t i) { return parts[i] < 0 ? std::optional<Kind>{} : std::optional(r.facts.parts[parts[i]].kind); };
    for (std::size_t i = 0; i < n; ++i)
        for (std::size_t j = 0; j < n; ++j)
            if (i != j && rates[i * n + j] > 0 && kind_at(i) == Kind::gpu)
                least = least == 0 ? rates[i * n + j] : std::min(least, rates[i * n + j]);
    for (std::size_t i = 0; i < n; ++i) {
        if (kind_at(i) != Kind::gpu) continue;
        double sum = 0;
        for (std::size_t j = 0; j < n; ++j) {
            if (i == j || rates[i * n + j] <= 0 || !kind_at(j) || kind_at(j) == Kind::socket) continue;
            const bool to_gpu = kind_at(j) == Kind::gpu;
            r.facts.links.push_back({parts[i], to_gpu ? parts[j] : -1, static_cast<int>(std::min(rates[i * n + j] / least, 1e6) + 0.5)});
            sum += rates[i * n + j] / 1000;
        }
        r.facts.scale_up_gb_per_s = std::max(r.facts.scale_up_gb_per_s, sum);
        if (sum > 0) r.facts.link_kind = "nvlink";
    }
}

} // namespace

NodeFacts read_hwloc_xml(const InputFile& file) {
    const XmlElement topology = read_xml(file);
    if (topology.name != "topology")
        refuse(file, topology.line, fmt::format("the root is <{}>, and hwloc's is <topology>", shown(topology.name)));
    HwlocReading r{file, {}, {}};
    r.facts.file = file.name, r.facts.format = "hwloc XML";
    read_objects(r, topology, -1);
    for (const XmlElement& child : topology.children)
        if (child.name.starts_with("distances2") && child.attribute("name") == "NVLinkBandwidth") read_nvlinks(r, child);
    if (r.facts.count(Kind::gpu) == 0)
        refuse(file, topology.line,
               "the file lists no GPU: run lstopo on a machine with GPUs, with I/O objects kept (`lstopo --whole-io topo.xml`)");
    return std::move(r.facts);
}

} // namespace orrery::ingest
