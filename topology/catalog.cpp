// Reads the embedded device and cluster files. They are part of the program: a fault in one is our bug, not the user's.
#include "topology/catalog.hpp"

#include "topology/check.hpp"

#include <fmt/format.h>
#include <nlohmann/json.hpp>

namespace orrery {
namespace {

using Json = nlohmann::json;

const EmbeddedFile* find(std::span<const EmbeddedFile> files, std::string_view name) {
    for (const EmbeddedFile& file : files)
        if (file.name == name) return &file;
    return nullptr;
}

std::vector<std::string> names(std::span<const EmbeddedFile> files) {
    std::vector<std::string> out;
    for (const EmbeddedFile& file : files) out.emplace_back(file.name);
    return out;
}

Json parse(const EmbeddedFile& file) {
    Json json = Json::parse(file.text, nullptr, false);
    require(json.is_object(), fmt::format("{}.json is not a JSON object", file.name));
    return json;
}

double number(const Json& object, const char* key) {
    const auto it = object.find(key);
    return it == object.end() ? 0 : it->get<double>();
}

std::map<std::string, std::string> sources(const Json& json) { return json.at("sources").get<std::map<std::string, std::string>>(); }

Device read_device(const Json& json) {
    Device d;
    d.name = json.at("name").get<std::string>();
    d.title = json.at("title").get<std::string>();
    d.vendor = json.at("vendor").get<std::string>();
    d.architecture = json.at("architecture").get<std::string>();
    d.processors = json.at("processors").get<int>();
    d.memory = Bytes::mebibytes(json.at("memory_mib").get<double>());
    d.memory_bandwidth = BytesPerSecond::gigabytes(json.at("memory_gb_per_s").get<double>());
    d.l2_cache = Bytes::mebibytes(json.at("l2_mib").get<double>());
    for (const auto& [precision, tera] : json.at("peak_tflops").items()) d.peak[precision] = FlopsPerSecond::tera(tera.get<double>());
    d.scale_up = BytesPerSecond::gigabytes(json.at("scale_up_gb_per_s").get<double>());
    const auto joined = parse_intra_kind(json.at("scale_up_kind").get<std::string>());
    require(joined.has_value(), "the scale_up_kind of a device file is unknown");
    d.scale_up_kind = *joined;
    if (json.contains("package")) {
        const Json& package = json["package"];
        d.dies = package.at("dies").get<int>();
        d.die_share = package.at("die_link_gb_per_s").get<double>() / json.at("scale_up_gb_per_s").get<double>();
        require(d.dies > 1 && d.die_share > 0 && d.die_share * (d.dies - 1) < 1, "the dies of a package take all links of a device file");
    }
    d.power_w = number(json, "power_w");
    d.price_usd_per_hour = number(json, "price_usd_per_hour");
    d.sources = sources(json);
    return d;
}

IntraNode read_intra(const Json& json) {
    const auto kind = parse_intra_kind(json.at("kind").get<std::string>());
    require(kind.has_value(), "intra_node.kind of a cluster file is unknown");
    return {*kind, BytesPerSecond::gigabytes(json.at("gb_per_s").get<double>()), Time::microseconds(json.at("latency_us").get<double>()),
            json.value("domain_nodes", 1)};
}

InterNode read_inter(const Json& json) {
    const auto kind = parse_inter_kind(json.at("kind").get<std::string>());
    const auto topology = parse_inter_topology(json.at("topology").get<std::string>());
    require(kind && topology, "inter_node.kind or .topology of a cluster file is unknown");
    InterNode n;
    n.kind = *kind;
    n.topology = *topology;
    n.nics_per_node = json.at("nics_per_node").get<int>();
    n.nic_bandwidth = BytesPerSecond::gigabits(json.at("gbit_per_s").get<double>());
    n.latency = Time::microseconds(json.at("latency_us").get<double>());
    n.oversubscription = json.value("oversubscription", 1.0);
    n.nodes_per_leaf = json.value("nodes_per_leaf", 0);
    n.dimensions = json.value("dimensions", n.dimensions);
    if (json.contains("dragonfly")) {
        const Json& d = json["dragonfly"];
        n.dragonfly = {d.at("groups").get<int>(), d.at("switches_per_group").get<int>(), d.at("nodes_per_switch").get<int>(),
                       d.at("global_links").get<int>()};
    }
    const auto routing = parse_routing(json.value("routing", std::string("even")));
    require(routing.has_value(), "inter_node.routing of a cluster file is unknown");
    n.routing = *routing;
    n.queue_pairs = json.value("queue_pairs", 1);
    n.fabric = json.value("fabric", std::string());
    return n;
}

Host read_host(const Json& json) {
    return {Bytes::gigabytes(number(json, "memory_gb")),
            BytesPerSecond::gigabytes(number(json, "memory_gb_per_s")),
            Bytes::gigabytes(number(json, "cxl_gb")),
            BytesPerSecond::gigabytes(number(json, "cxl_gb_per_s")),
            BytesPerSecond::gigabytes(number(json, "pcie_gb_per_s")),
            Bytes::gigabytes(number(json, "nvme_gb")),
            BytesPerSecond::gigabytes(number(json, "nvme_gb_per_s")),
            0};
}

Cluster read_cluster(const Json& json) {
    Cluster c;
    c.name = json.at("name").get<std::string>();
    const auto device = find_device(json.at("device").get<std::string>());
    require(device.has_value(), fmt::format("the device of cluster {} is unknown", c.name));
    c.device = *device;
    c.nodes = json.value("nodes", 1);
    c.devices_per_node = json.at("devices_per_node").get<int>();
    c.intra = read_intra(json.at("intra_node"));
    c.inter = read_inter(json.at("inter_node"));
    c.host = read_host(json.at("host"));
    c.power_w_per_node = number(json, "power_w_per_node");
    c.price_usd_per_device_hour = number(json, "price_usd_per_device_hour");
    c.sources = sources(json);
    return c;
}

SiteFabric read_site_fabric(const Json& json) {
    const auto kind = parse_inter_kind(json.at("kind").get<std::string>());
    require(kind.has_value(), "the kind of a fabric file is unknown");
    return {json.at("name").get<std::string>(), json.at("title").get<std::string>(), *kind};
}

// Runs `read` on the file of this name. A JSON exception here is a fault of the file.
template <class Read>
auto load(std::span<const EmbeddedFile> files, std::string_view name, Read read) -> std::optional<decltype(read(Json{}))> {
    const EmbeddedFile* file = find(files, name);
    if (!file) return std::nullopt;
    try {
        return read(parse(*file));
    } catch (const Json::exception& e) { broken(fmt::format("{}.json: {}", name, e.what())); }
}

} // namespace

std::vector<std::string> device_names() { return names(device_files()); }
std::vector<std::string> cluster_names() { return names(cluster_files()); }
std::optional<Device> find_device(std::string_view name) { return load(device_files(), name, read_device); }
std::vector<std::string> fabric_names() { return names(fabric_files()); }
std::optional<SiteFabric> find_fabric(std::string_view name) { return load(fabric_files(), name, read_site_fabric); }
std::optional<Cluster> find_cluster(std::string_view name) { return load(cluster_files(), name, read_cluster); }

} // namespace orrery
