// network.yml of ASTRA-sim's analytical backend: a list of dimensions, each with its kind, size, bandwidth a link and latency.
#include "topology/ingest/formats.hpp"
#include "topology/ingest/text.hpp"
#include "topology/ingest/yaml.hpp"

#include <fmt/format.h>

#include <algorithm>

namespace orrery::ingest {

namespace {

std::vector<std::string> list_of(const InputFile& file, const YamlValue& root, const char* key) {
    const YamlValue* v = root.field(key);
    if (!v) refuse(file, 0, fmt::format("{} is missing: one value a dimension, as in {}: [8, 4]", key, key));
    std::vector<std::string> out;
    if (v->kind == YamlValue::Kind::text) out.push_back(v->text);
    for (const YamlValue& item : v->items) out.push_back(item.text);
    if (out.empty()) refuse(file, v->line, fmt::format("{} must be a list: one value a dimension", key));
    return out;
}

std::vector<double> numbers_of(const InputFile& file, const YamlValue& root, const char* key, std::size_t dimensions) {
    const auto texts = list_of(file, root, key);
    const int line = root.field(key)->line;
    if (texts.size() != dimensions)
        refuse(file, line,
               fmt::format("{} has {}, topology has {}", key, counted(texts.size(), "value"), counted(dimensions, "dimension")));
    std::vector<double> out;
    for (const std::string& text : texts) {
        const auto value = number_of(text);
        if (!value || *value < 0 || *value > 1e7) refuse(file, line, fmt::format("{}: \"{}\" is no number: fill it in", key, shown(text)));
        out.push_back(*value);
    }
    return out;
}

} // namespace

SystemFacts read_astra_sim(const InputFile& file) {
    const YamlValue root = read_yaml(file);
    const auto kinds = list_of(file, root, "topology");
    const int line = root.field("topology")->line;
    for (const std::string& kind : kinds)
        if (kind != "Ring" && kind != "Switch" && kind != "FullyConnected")
            refuse(file, line, fmt::format("\"{}\" is no dimension that is known: Ring, Switch or FullyConnected", shown(kind)));
    const auto sizes = numbers_of(file, root, "npus_count", kinds.size()), rates = numbers_of(file, root, "bandwidth", kinds.size()),
               latencies = numbers_of(file, root, "latency", kinds.size());
    double product = 1;
    for (const double n : sizes) {
        product *= n;
        if (n < 1 || n != static_cast<int>(n) || product > 1e7)
            refuse(file, root.field("npus_count")->line, "npus_count must be whole numbers from 1 whose product is at most ten million");
    }
    if (std::any_of(rates.begin(), rates.end(), [](double r) { return r <= 0; }))
        refuse(file, root.field("bandwidth")->line, "every bandwidth must be above 0 GB/s");
    if (kinds.size() > 2)
        refuse(
            file, line,
            fmt::format("{} dimensions: a cluster has one inside a node and one between nodes. Write a graph by hand, or merge dimensions",
                        kinds.size()));

    SystemFacts out;
    NodeFacts node;
    node.file = file.name, node.format = "ASTRA-sim network";
    const bool torus = kinds.size() == 2 && kinds[0] == "Ring" && kinds[1] == "Ring";
    for (int g = 0; g < static_cast<int>(sizes[0]); ++g) {
        Part part;
        part.kind = Part::Kind::gpu, part.name = fmt::format("NPU{}", g), part.line = line;
        node.parts.push_back(std::move(part));
    }
    // A ring has a link each way round, a fully connected NPU one to each other.
    const double links = kinds[0] == "Ring" ? (torus ? 4 : 2) : kinds[0] == "FullyConnected" ? sizes[0] - 1 : 1;
    node.scale_up_gb_per_s = rates[0] * std::max(1.0, links);
    node.scale_up_latency_us = latencies[0] / 1000;
    node.scale_up_kind = sizes[0] == 1 ? "none" : kinds[0] == "Ring" ? "torus" : kinds[0] == "FullyConnected" ? "nvlink-mesh" : "nvswitch";
    FabricFacts f;
    f.file = file.name, f.format = "ASTRA-sim network", f.devices_per_node = static_cast<int>(sizes[0]);
    for (int h = 0; h < (kinds.size() > 1 ? static_cast<int>(sizes[1]) : 1); ++h) f.hosts.push_back(fmt::format("node{}", h));
    if (kinds.size() > 1) {
        // Each NPU has its own link in every dimension.
        f.nics_per_node = static_cast<int>(sizes[0]);
        f.nic_gbit = rates[1] * 8 * (torus ? 4 : 1);
        f.latency_us = latencies[1] / 1000;
        f.topology = torus ? "torus" : "single-switch";
        if (torus)
            f.network = "torus", f.shape = {static_cast<int>(sizes[0]), static_cast<int>(sizes[1])};
        else if (kinds[1] != "Switch")
            f.notes.push_back(fmt::format("a dimension {} between nodes is taken for one switch of the same rate", kinds[1]));
    }
    f.counts["dimensions"] = static_cast<int>(kinds.size());
    f.counts["npus"] = static_cast<int>(product);
    out.node = std::move(node);
    out.fabric = std::move(f);
    return out;
}

} // namespace orrery::ingest
