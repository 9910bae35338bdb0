// Which preset a GPU is, by PCI id, model name or architecture; and what a network card's id says of its port.
#include "topology/ingest/facts.hpp"
#include "topology/ingest/text.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <utility>

namespace orrery::ingest {

namespace {

// PCI ids as pci.ids lists them (pci-ids.ucw.cz), those of Hopper, Blackwell and MI300 to MI355X compared with what others took from it and
// with lspci's output on such machines.
constexpr std::array<std::pair<std::string_view, const char*>, 25> by_id{
    {{"0x10de:0x1db1", "v100-sxm2-16gb"}, {"0x10de:0x1db5", "v100-sxm2-32gb"}, {"0x10de:0x20b0", "a100-sxm-40gb"},
     {"0x10de:0x20b2", "a100-sxm-80gb"},  {"0x10de:0x20b5", "a100-pcie-80gb"}, {"0x10de:0x20f3", "a800-sxm-80gb"},
     {"0x10de:0x2330", "h100-sxm-80gb"},  {"0x10de:0x2331", "h100-pcie-80gb"}, {"0x10de:0x2324", "h800-sxm-80gb"},
     {"0x10de:0x2329", "h20-sxm-96gb"},   {"0x10de:0x2335", "h200-sxm-141gb"}, {"0x10de:0x2901", "b200-192gb"},
     {"0x10de:0x3182", "b300-288gb"},     {"0x10de:0x2941", "gb200"},          {"0x10de:0x31c2", "gb300"},
     {"0x10de:0x31c3", "gb300"},          {"0x10de:0x26b9", "l40s"},           {"0x10de:0x26ba", "l20"},
     {"0x10de:0x2204", "rtx-3090"},       {"0x10de:0x2684", "rtx-4090"},       {"0x1002:0x7408", "mi250x"},
     {"0x1002:0x740c", "mi250x"},         {"0x1002:0x74a1", "mi300x"},         {"0x1002:0x74a5", "mi325x"},
     {"0x1002:0x75a3", "mi355x"}}};

// Words that must all stand in a model's name; the first match counts, so the longer come first. sure: the name leaves one preset.
struct NameRule {
    std::array<std::string_view, 3> words;
    const char* device;
    bool sure;
};
constexpr std::array<NameRule, 26> by_name{{{{"gb300"}, "gb300", true},
                                            {{"gb200"}, "gb200", true},
                                            {{"b300"}, "b300-288gb", true},
                                            {{"b200"}, "b200-192gb", true},
                                            {{"h200"}, "h200-sxm-141gb", true},
                                            {{"h100", "pcie"}, "h100-pcie-80gb", true},
                                            {{"h100", "80gb", "hbm3"}, "h100-sxm-80gb", true},
                                            {{"h100"}, "h100-sxm-80gb", false},
                                            {{"h800"}, "h800-sxm-80gb", false},
                                            {{"h20"}, "h20-sxm-96gb", false},
                                            {{"a800"}, "a800-sxm-80gb", false},
                                            {{"a100", "pcie", "80gb"}, "a100-pcie-80gb", true},
                                            {{"a100", "40gb"}, "a100-sxm-40gb", true},
                                            {{"a100", "80gb"}, "a100-sxm-80gb", true},
                                            {{"a100"}, "a100-sxm-80gb", false},
                                            {{"v100", "sxm2", "16gb"}, "v100-sxm2-16gb", true},
                                            {{"v100", "sxm2", "32gb"}, "v100-sxm2-32gb", true},
                                            {{"v100", "32gb"}, "v100-sxm2-32gb", false},
                                            {{"v100"}, "v100-sxm2-16gb", false},
                                            {{"l40s"}, "l40s", true},
                                            {{"4090"}, "rtx-4090", true},
                                            {{"3090"}, "rtx-3090", true},
                                            {{"mi250"}, "mi250x", false},
                                            {{"mi300x"}, "mi300x", true},
                                            {{"mi325x"}, "mi325x", true},
                                            {{"mi355x"}, "mi355x", true}}};

constexpr std::array<std::pair<std::string_view, const char*>, 7> by_architecture{{{"sm70", "v100-sxm2-32gb"},
                                                                                   {"sm80", "a100-sxm-80gb"},
                                                                                   {"sm90", "h100-sxm-80gb"},
                                                                                   {"sm100", "b200-192gb"},
                                                                                   {"gfx90a", "mi250x"},
                                                                                   {"gfx940", "mi300x"},
                                                                                   {"gfx942", "mi300x"}}};

// NVLinks of a GPU, all together, by generation: 6 (V100), 12 (A100), 18 (H100, B200).
const char* by_links(int links) {
    return links == 18 ? "h100-sxm-80gb" : links == 12 ? "a100-sxm-80gb" : links == 6 ? "v100-sxm2-32gb" : nullptr;
}

// NVLinks of the first GPU. nvidia-smi shows in every cell all links where a switch joins all pairs, else those of the pair.
int links_of_first(const NodeFacts& node) {
    const auto first = std::find_if(node.parts.begin(), node.parts.end(), [](const Part& p) { return p.kind == Part::Kind::gpu; });
    if (first == node.parts.end() || node.link_kind != "nvlink") return 0;
    const int from = static_cast<int>(first - node.parts.begin());
    int sum = 0, most = 0;
    for (const ScaleUpLink& l : node.links)
        if (l.from == from) sum += l.count, most = std::max(most, l.count);
    return node.format.starts_with("nvidia-smi") && most > 4 ? most : sum;
}

} // namespace

int NodeFacts::count(Part::Kind kind) const {
    return static_cast<int>(std::count_if(parts.begin(), parts.end(), [&](const Part& p) { return p.kind == kind; }));
}

DeviceGuess device_of_name(std::string_view name) {
    const std::string text = lower(name);
    for (const NameRule& rule : by_name)
        if (std::all_of(rule.words.begin(), rule.words.end(), [&](std::string_view w) { return text.find(w) != std::string::npos; }))
            return {rule.device, rule.sure ? "" : fmt::format("the file says {}, of which there are several", shown(name))};
    return {};
}

DeviceGuess device_of(const NodeFacts& node) {
    for (const Part& p : node.parts) {
        if (p.kind != Part::Kind::gpu) continue;
        for (const auto& [id, device] : by_id)
            if (id == p.vendor + ":" + p.pci) return {device, ""};
        if (!p.model.empty())
            if (DeviceGuess guess = device_of_name(p.model); !guess.device.empty()) return guess;
    }
    for (const auto& [architecture, device] : by_architecture)
        if (architecture == node.architecture) return {device, fmt::format("the usual device of {}", architecture)};
    if (const int links = links_of_first(node); by_links(links))
        return {by_links(links), fmt::format("the usual device with {} NVLinks", links)};
    return {};
}

double card_gbit(std::string_view vendor, std::string_view device) {
    static constexpr std::array<std::pair<std::string_view, double>, 8> mellanox{{{"0x1013", 100},
                                                                                  {"0x1015", 25},
                                                                                  {"0x1017", 100},
                                                                                  {"0x1019", 100},
                                                                                  {"0x101b", 200},
                                                                                  {"0x101d", 100},
                                                                                  {"0x1021", 400},
                                                                                  {"0x1023", 800}}};
    if (vendor != "0x15b3") return 0;
    for (const auto& [id, gbit] : mellanox)
        if (id == device) return gbit;
    return 0;
}

} // namespace orrery::ingest
