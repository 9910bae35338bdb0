#include "gui/topology/load.hpp"
#include "topology/at.hpp"

#include <algorithm>
#include <cctype>
#include <map>
#include <queue>
#include <set>
#include <tuple>

namespace orrery {
namespace {

constexpr double full = 0.8;        // what protocols carry at best: 85 % of a PCIe link's rate, as much or more of a NIC's
constexpr double slowest_up = 1000; // bytes per second: a link that is down keeps a billionth of its rate (topology/links.cpp)

// Nodes to draw: those a loaded link belongs to, two at least; where they are too many, first those whose links the trace itself shows.
std::vector<int> nodes_shown(const Fabric& fabric, const Trace& trace, const std::vector<int>& series, int most) {
    std::set<int> loaded;
    for (std::size_t i = 0; i < series.size(); ++i) {
        const bool own = series[i] >= 0 && at(trace.links[at(series[i])].link) == i;
        if (own && fabric.links()[i].node >= 0) loaded.insert(fabric.links()[i].node);
    }
    for (std::size_t i = 0; i < series.size() && static_cast<int>(loaded.size()) < most; ++i)
        if (series[i] >= 0 && fabric.links()[i].node >= 0) loaded.insert(fabric.links()[i].node);
    for (int n = 0; n < fabric.nodes() && static_cast<int>(loaded.size()) < std::min(most, 2); ++n) loaded.insert(n);
    std::vector<int> out(loaded.begin(), loaded.end());
    if (static_cast<int>(out.size()) > most) out.resize(at(most));
    return out;
}

// Devices 0, what joins them inside a node by how far it is from them (a host beside what it is joined to), NICs on one level above,
// switches between nodes by how far they are from a node.
std::vector<int> levels_of(const ExplicitGraph& graph) {
    using Kind = ExplicitGraph::VertexKind;
    std::vector<int> level(graph.vertices.size(), -1);
    std::vector<std::vector<int>> next(graph.vertices.size());
    for (const auto& e : graph.edges) next[at(e.from)].push_back(e.to);
    std::queue<int> open;
    const auto spread = [&](auto&& into, int least) {
        while (!open.empty()) {
            const int v = open.front();
            open.pop();
            for (int w : next[at(v)])
                if (level[at(w)] < 0 && into(graph.vertices[at(w)])) {
                    level[at(w)] = std::max(least, level[at(v)]) + 1;
                    open.push(w);
                }
        }
    };
    const auto begin_with = [&](auto&& which) {
        for (std::size_t v = 0; v < level.size(); ++v)
            if (which(v)) open.push(static_cast<int>(v));
    };
    for (std::size_t v = 0; v < level.size(); ++v)
        if (graph.vertices[v].kind == Kind::device) level[v] = 0;
    begin_with([&](std::size_t v) { return level[v] == 0; });
    spread([](const auto& w) { return w.kind == Kind::switch_ && w.node >= 0; }, 0);
    int inside = 1;
    for (std::size_t v = 0; v < level.size(); ++v) {
        if (graph.vertices[v].kind == Kind::host)
            for (int w : next[v]) level[v] = std::max(level[v], level[at(w)]);
        if (level[v] < 0 && graph.vertices[v].node >= 0 && graph.vertices[v].kind != Kind::nic) level[v] = 1; // joined to no device
        inside = std::max(inside, level[v]);
    }
    for (std::size_t v = 0; v < level.size(); ++v)
        if (graph.vertices[v].kind == Kind::nic) level[v] = inside + 1;
    begin_with([&](std::size_t v) { return level[v] >= 0; });
    spread([](const auto&) { return true; }, inside + 1);
    for (int& l : level)
        if (l < 0) l = inside + 2; // joined to nothing
    return level;
}

// Nodes side by side, what is on one level of a node spread over its width; switches between nodes over all of it.
void place(ClusterPicture& p) {
    std::map<std::pair<int, int>, std::vector<std::size_t>> rows; // node (-1: between nodes), level
    std::map<int, double> widths, left;
    for (std::size_t v = 0; v < p.vertices.size(); ++v) {
        auto& row = rows[{p.vertices[v].node, p.vertices[v].level}];
        row.push_back(v);
        if (p.vertices[v].node >= 0) widths[p.vertices[v].node] = std::max(widths[p.vertices[v].node], static_cast<double>(row.size()));
    }
    double x = 0;
    for (const auto& [node, width] : widths) {
        left[node] = x;
        x += width + 0.8;
    }
    p.width = std::max(1.0, x - 0.8);
    for (const auto& [key, row] : rows) {
        const double from = key.first >= 0 ? left[key.first] : 0, width = key.first >= 0 ? widths[key.first] : p.width;
        for (std::size_t i = 0; i < row.size(); ++i)
            p.vertices[row[i]].x = from + width * (static_cast<double>(i) + 0.5) / static_cast<double>(row.size());
    }
}

// "node3.gpu1 > nvswitch" -> "node#.gpu# > nvswitch"
std::string shape(const std::string& name) {
    std::string out;
    for (char c : name)
        if (!std::isdigit(static_cast<unsigned char>(c)))
            out += c;
        else if (out.empty() || out.back() != '#')
            out += '#';
    return out;
}

// Both directions of a shape under one name: "gpu# > nvswitch" for "node3.nvswitch > gpu1" too.
std::string shape_both_ways(const std::string& name) {
    std::string both = shape(name);
    for (std::size_t node = both.find("node#."); node != std::string::npos; node = both.find("node#.")) both.erase(node, 6);
    const std::size_t arrow = both.find(" > ");
    if (arrow == std::string::npos) return both;
    const std::string from = both.substr(0, arrow), to = both.substr(arrow + 3);
    return from < to ? from + " > " + to : to + " > " + from;
}

// Links of one shape, node by node, share the series among them where each series stands for the run of links that begins with its own:
// then the runs' lengths are the counts of the trace, one behind the other, and no link is left.
void share(const std::vector<LinkId>& links, const Trace& trace, std::vector<int>& series) {
    std::vector<int> run; // by link
    for (std::size_t i = 0; i < links.size(); ++i) {
        if (run.size() > i) {
            if (series[at(links[i])] >= 0) return; // a series begins inside another's run
            continue;
        }
        const int own = series[at(links[i])];
        if (own < 0) return;
        run.resize(i + at(trace.links[at(own)].twins), own);
    }
    if (run.size() != links.size()) return;
    for (std::size_t i = 0; i < links.size(); ++i) series[at(links[i])] = run[i];
}

} // namespace

std::vector<int> series_of_links(const Fabric& fabric, const Trace& trace, const std::vector<LinkId>& like) {
    std::vector<int> out(fabric.links().size(), -1);
    for (std::size_t s = 0; s < trace.links.size(); ++s)
        if (const LinkId link = trace.links[s].link; link >= 0 && at(link) < out.size()) out[at(link)] = static_cast<int>(s);
    if (like.size() == out.size()) {
        for (std::size_t l = 0; l < out.size(); ++l) out[l] = like[l] < 0 ? -1 : out[at(like[l])];
        return out;
    }
    for (std::string (*key)(const std::string&) : {shape, shape_both_ways}) {
        std::map<std::string, std::vector<LinkId>> groups;
        for (std::size_t i = 0; i < out.size(); ++i)
            groups[key(fabric.link_name(static_cast<LinkId>(i)))].push_back(static_cast<LinkId>(i));
        for (auto& [name, links] : groups) {
            std::stable_sort(links.begin(), links.end(),
                             [&](LinkId a, LinkId b) { return fabric.links()[at(a)].node < fabric.links()[at(b)].node; });
            share(links, trace, out);
        }
    }
    return out;
}

int bins(const Trace& trace) { return trace.links.empty() ? 0 : static_cast<int>(trace.links.front().bytes.size()); }

std::vector<LinkLoadRow> link_loads(const Trace& trace) {
    std::vector<LinkLoadRow> rows;
    const double step = (trace.end - trace.begin).seconds(), bin = bins(trace) > 0 ? step / bins(trace) : 0;
    for (const LinkSeries& s : trace.links) {
        LinkLoadRow row{s.link, s.name, s.twins, s.capacity};
        for (std::int64_t b : s.bytes) {
            row.bytes += static_cast<double>(b);
            const double share = bin > 0 && s.capacity > 0 ? static_cast<double>(b) / (bin * s.capacity) : 0;
            row.peak = std::max(row.peak, share);
            if (share > full) row.busy += 1.0 / static_cast<double>(s.bytes.size());
        }
        row.mean = step > 0 && s.capacity > 0 ? row.bytes / (step * s.capacity) : 0;
        rows.push_back(std::move(row));
    }
    std::stable_sort(rows.begin(), rows.end(), [](const LinkLoadRow& a, const LinkLoadRow& b) {
        return std::tie(a.busy, a.peak, a.bytes) > std::tie(b.busy, b.peak, b.bytes);
    });
    return rows;
}

std::vector<double> utilisation(const Trace& trace, std::int64_t begin, std::int64_t end) {
    const std::int64_t whole = (trace.end - trace.begin).ps;
    if (end <= begin) {
        begin = 0;
        end = whole;
    }
    std::vector<double> out;
    const int n = bins(trace);
    for (const LinkSeries& s : trace.links) {
        double bytes = 0;
        for (int b = 0; b < n && whole > 0; ++b) { // a bin partly inside counts in part
            const double from = static_cast<double>(whole) * b / n, to = static_cast<double>(whole) * (b + 1) / n;
            const double inside = std::min(to, static_cast<double>(end)) - std::max(from, static_cast<double>(begin));
            if (inside > 0) bytes += static_cast<double>(s.bytes[at(b)]) * inside / (to - from);
        }
        const double seconds = static_cast<double>(end - begin) * 1e-12;
        out.push_back(seconds > 0 && s.capacity > 0 ? bytes / (seconds * s.capacity) : 0);
    }
    return out;
}

ClusterPicture picture(const Fabric& fabric, const Trace& trace, int most, const std::vector<LinkId>& like) {
    const ExplicitGraph graph = fabric.graph();
    const std::vector<int> series = series_of_links(fabric, trace, like), nodes = nodes_shown(fabric, trace, series, most),
                           level = levels_of(graph);
    ClusterPicture p;
    p.nodes = static_cast<int>(nodes.size());
    p.nodes_left_out = fabric.nodes() - p.nodes;
    // Switches between nodes are drawn where something drawn leads up to them.
    std::vector<char> drawn(graph.vertices.size(), 0);
    for (std::size_t v = 0; v < drawn.size(); ++v) drawn[v] = std::binary_search(nodes.begin(), nodes.end(), graph.vertices[v].node);
    for (bool more = true; more;) {
        more = false;
        for (const auto& e : graph.edges)
            if (drawn[at(e.from)] && !drawn[at(e.to)] && graph.vertices[at(e.to)].node < 0 && level[at(e.to)] > level[at(e.from)]) {
                drawn[at(e.to)] = 1;
                more = true;
            }
    }
    std::vector<int> number(drawn.size(), -1);
    for (std::size_t v = 0; v < drawn.size(); ++v) {
        if (!drawn[v]) continue;
        number[v] = static_cast<int>(p.vertices.size());
        p.vertices.push_back({graph.vertices[v].name, graph.vertices[v].kind, graph.vertices[v].node, level[v], 0});
        p.levels = std::max(p.levels, level[v] + 1);
    }
    for (std::size_t e = 0; e < graph.edges.size(); ++e) {
        const int from = number[at(graph.edges[e].from)], to = number[at(graph.edges[e].to)];
        if (from < 0 || to < 0) continue;
        const LinkId link = e < fabric.links().size() ? static_cast<LinkId>(e) : -1;
        const int shows = link >= 0 ? series[at(link)] : -1;
        const bool down = link >= 0 && fabric.links()[at(link)].capacity.value < slowest_up;
        p.edges.push_back({from, to, link, shows, shows >= 0 && trace.links[at(shows)].link == link, down});
    }
    place(p);
    return p;
}

void lay_as_grid(ClusterPicture& p, const std::array<int, 3>& rows, int devices_per_node) {
    const auto device = [&](int v) { return p.vertices[at(v)].kind == ExplicitGraph::VertexKind::device; };
    for (const auto& e : p.edges)
        if (e.series >= 0 && !(device(e.from) && device(e.to))) return;
    std::vector<int> number(p.vertices.size(), -1);
    std::map<int, int> local; // devices of a node so far
    std::vector<ClusterPicture::Vertex> kept;
    for (std::size_t v = 0; v < p.vertices.size(); ++v) {
        if (!device(static_cast<int>(v))) continue;
        ClusterPicture::Vertex one = p.vertices[v];
        const int unit = one.node * devices_per_node + local[one.node]++;
        const int slice = unit % rows[0], column = unit / rows[0] % rows[1];
        one.level = unit / rows[0] / rows[1];
        one.x = slice * (rows[1] + 1) + column + 0.5;
        number[v] = static_cast<int>(kept.size());
        kept.push_back(std::move(one));
    }
    std::erase_if(p.edges, [&](const auto& e) { return number[at(e.from)] < 0 || number[at(e.to)] < 0; });
    for (auto& e : p.edges) {
        e.from = number[at(e.from)];
        e.to = number[at(e.to)];
    }
    p.vertices = std::move(kept);
    p.width = rows[0] * (rows[1] + 1) - 1;
    p.levels = 1;
    for (const auto& v : p.vertices) p.levels = std::max(p.levels, v.level + 1);
}

} // namespace orrery
