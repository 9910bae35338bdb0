// An explicit cluster graph:
//   {"vertices": [{"name": "gpu0", "kind": "device"|"nic"|"switch"|"host", "node": 0}, ..],
//    "links": [{"from": "gpu0", "to": "sw0", "gb_per_s": 450 | "gbit_per_s": 400, "latency_us": 0.6, "duplex": true}, ..]}
// Every device vertex is one rank slot, in the order listed. duplex (the default) is a link each way.
#include "sim/scenario/fields.hpp"
#include "sim/scenario/suggest.hpp"

#include <nlohmann/json.hpp>

#include <algorithm>
#include <map>
#include <set>

namespace orrery {
namespace {

using Kind = ExplicitGraph::VertexKind;

constexpr double most_distances = 5e7; // routes keep one of 16 bytes from every vertex to every device

bool only(Reading& reading, const Json& item, const std::string& where, const std::vector<std::string>& keys) {
    bool clean = true;
    for (const auto& [key, unused] : item.items()) {
        if (std::find(keys.begin(), keys.end(), key) != keys.end()) continue;
        const auto near = nearest(key, keys);
        reading.problem(where + pointer_step(key), dotted(where + pointer_step(key)) + " is not a field" +
                                                       (near ? ": did you mean \"" + *near + "\"?" : ". Known here: " + join(keys)));
        clean = false;
    }
    return clean;
}

void read_vertex(Reading& reading, const Json& item, const std::string& where, std::map<std::string, int>& index, ExplicitGraph& graph) {
    static const std::vector<std::string> kinds = {"device", "nic", "switch", "host"};
    if (!item.is_object() || !item.contains("name") || !item["name"].is_string() || !item.contains("kind") || !item["kind"].is_string())
        return reading.problem(where, dotted(where) + " = " + short_text(item) +
                                          " must be a vertex: {\"name\": \"gpu0\", \"kind\": \"device\", \"node\": 0}");
    if (!only(reading, item, where, {"name", "kind", "node"})) return;
    ExplicitGraph::Vertex vertex;
    vertex.name = item["name"].get<std::string>();
    if (!is_name(vertex.name))
        return reading.problem(where + "/name", dotted(where) + ".name = " + short_text(item["name"]) +
                                                    " holds a line break or another control character: leave it out");
    const std::string kind = item["kind"].get<std::string>();
    const auto found = std::find(kinds.begin(), kinds.end(), kind);
    if (found == kinds.end()) {
        const auto near = nearest(kind, kinds);
        return reading.problem(where + "/kind", dotted(where) + ".kind = \"" + kind + "\" is not known" +
                                                    (near ? ": did you mean \"" + *near + "\"?" : ".") + " It is one of " + join(kinds));
    }
    vertex.kind = static_cast<Kind>(found - kinds.begin());
    if (item.contains("node")) {
        if (!item["node"].is_number_integer() || item["node"].get<double>() < 0 || item["node"].get<double>() > 1e7)
            return reading.problem(where + "/node",
                                   dotted(where) + ".node = " + short_text(item["node"]) + " must be a whole number, 0 the first");
        vertex.node = item["node"].get<int>();
    }
    if (!index.emplace(vertex.name, static_cast<int>(graph.vertices.size())).second)
        return reading.problem(where + "/name",
                               dotted(where) + ".name = \"" + vertex.name + "\" is another vertex's too: names must differ");
    graph.vertices.push_back(std::move(vertex));
}

int end_of(Reading& reading, const Json& item, const char* key, const std::string& where, const std::map<std::string, int>& index) {
    const std::string at = where + "/" + key;
    if (!item.contains(key) || !item[key].is_string()) return reading.problem(at, dotted(at) + " is missing: the name of a vertex"), -1;
    const std::string name = item[key].get<std::string>();
    if (const auto found = index.find(name); found != index.end()) return found->second;
    std::vector<std::string> names;
    for (const auto& [known, unused] : index) names.push_back(known);
    const auto near = nearest(name, names);
    reading.problem(at, dotted(at) + " = \"" + name + "\" is no vertex" + (near ? ": did you mean \"" + *near + "\"?" : ""));
    return -1;
}

void read_link(Reading& reading, const Json& item, const std::string& where, const std::map<std::string, int>& index,
               ExplicitGraph& graph) {
    if (!item.is_object())
        return reading.problem(where, dotted(where) + " = " + short_text(item) +
                                          " must be a link: {\"from\": \"gpu0\", \"to\": \"sw0\", \"gb_per_s\": 450, \"latency_us\": 0.6}");
    if (!only(reading, item, where, {"from", "to", "gb_per_s", "gbit_per_s", "latency_us", "duplex"})) return;
    ExplicitGraph::Edge edge;
    edge.from = end_of(reading, item, "from", where, index);
    edge.to = end_of(reading, item, "to", where, index);
    const auto number = [&](const char* key, double least, double most) {
        const Json& value = item[key];
        if (value.is_number() && value.get<double>() >= least && value.get<double>() <= most) return value.get<double>();
        reading.problem(where + "/" + key, dotted(where) + "." + key + " = " + short_text(value) + " must be a number from " +
                                               plain_number(least) + " to " + plain_number(most));
        return 1.0;
    };
    if (item.contains("gb_per_s") == item.contains("gbit_per_s"))
        reading.problem(where, dotted(where) + " needs one rate: gb_per_s (bytes) or gbit_per_s (bits)");
    else
        edge.bandwidth = item.contains("gb_per_s") ? BytesPerSecond::gigabytes(number("gb_per_s", 1e-3, 1e6))
                                                   : BytesPerSecond::gigabits(number("gbit_per_s", 1e-3, 1e7));
    edge.latency = Time::microseconds(item.contains("latency_us") ? number("latency_us", 0, 1e6) : 1.0);
    if (item.contains("duplex") && !item["duplex"].is_boolean())
        reading.problem(where + "/duplex", dotted(where) + ".duplex = " + short_text(item["duplex"]) + " must be true or false");
    const bool duplex = !item.contains("duplex") || !item["duplex"].is_boolean() || item["duplex"].get<bool>();
    if (edge.from < 0 || edge.to < 0) return;
    if (edge.from == edge.to) return reading.problem(where, dotted(where) + " joins " + graph.vertices[edge.from].name + " to itself");
    graph.edges.push_back(edge);
    if (duplex) graph.edges.push_back({edge.to, edge.from, edge.bandwidth, edge.latency});
}

// Every device must reach every other: walk from the first, forwards and backwards along the links.
void check_reach(Reading& reading, const std::string& where, const ExplicitGraph& graph) {
    for (const bool forwards : {true, false}) {
        std::vector<std::vector<int>> next(graph.vertices.size());
        for (const auto& e : graph.edges) next[forwards ? e.from : e.to].push_back(forwards ? e.to : e.from);
        const auto first = std::find_if(graph.vertices.begin(), graph.vertices.end(), [](const auto& v) { return v.kind == Kind::device; });
        std::vector<bool> seen(graph.vertices.size());
        std::vector<int> open = {static_cast<int>(first - graph.vertices.begin())};
        seen[open[0]] = true;
        while (!open.empty()) {
            const int at = open.back();
            open.pop_back();
            for (const int to : next[at])
                if (!seen[to]) seen[to] = true, open.push_back(to);
        }
        for (std::size_t v = 0; v < graph.vertices.size(); ++v) {
            if (graph.vertices[v].kind != Kind::device || seen[v]) continue;
            reading.problem(where + "/links", dotted(where) + ".links leave no way " + (forwards ? "from " : "back to ") + first->name +
                                                  (forwards ? " to " : " from ") + graph.vertices[v].name);
            return;
        }
    }
}

} // namespace

void read_graph(Reading& reading, const Json& value, const std::string& where) {
    if (!value.is_object() || !value.contains("vertices") || !value["vertices"].is_array() || !value.contains("links") ||
        !value["links"].is_array())
        return reading.problem(where,
                               dotted(where) + " = " + short_text(value) + " must be an object with the lists \"vertices\" and \"links\"");
    const std::size_t before = reading.problems.size();
    only(reading, value, where, {"vertices", "links"});
    ExplicitGraph graph;
    std::map<std::string, int> index;
    for (std::size_t i = 0; i < value["vertices"].size(); ++i)
        read_vertex(reading, value["vertices"][i], where + "/vertices/" + std::to_string(i), index, graph);
    if (reading.problems.size() != before) return;
    for (std::size_t i = 0; i < value["links"].size(); ++i)
        read_link(reading, value["links"][i], where + "/links/" + std::to_string(i), index, graph);
    if (reading.problems.size() != before) return;

    std::map<int, int> per_node;
    int devices = 0;
    for (auto& vertex : graph.vertices) {
        if (vertex.kind != Kind::device) continue;
        vertex.node = std::max(vertex.node, 0);
        ++per_node[vertex.node];
        ++devices;
    }
    if (devices == 0)
        return reading.problem(where + "/vertices", dotted(where) + ".vertices hold no device: at least one vertex has kind = device");
    if (static_cast<double>(devices) * static_cast<double>(graph.vertices.size()) > most_distances)
        return reading.problem(where + "/vertices",
                               dotted(where) + ".vertices hold " + std::to_string(devices) + " devices among " +
                                   std::to_string(graph.vertices.size()) +
                                   " vertices: a graph has at most 50 million pairs of a device and a vertex; describe "
                                   "larger clusters by intra_node and inter_node");
    check_reach(reading, where, graph);
    // Nodes that hold unlike numbers of devices count as one: the graph's own vertices still say which node each is on.
    Cluster& cluster = reading.scenario.cluster;
    const int first = per_node.begin()->second;
    const bool alike = std::all_of(per_node.begin(), per_node.end(), [&](const auto& n) { return n.second == first; });
    cluster.nodes = alike ? static_cast<int>(per_node.size()) : 1;
    cluster.devices_per_node = alike ? first : devices;
    cluster.graph = std::move(graph);
}

} // namespace orrery
