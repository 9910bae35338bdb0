// The load of the links of a run: over the step, at its busiest, at an instant. From a trace's series; where the cluster is known, with
// the place of each link in it. No Qt here.
#pragma once

#include "sim/trace/trace.hpp"
#include "topology/fabric.hpp"

#include <array>
#include <cstdint>
#include <string>
#include <vector>

namespace orrery {

struct LinkLoadRow {
    LinkId link = -1;
    std::string name;
    int twins = 1;             // links alike, this one included
    double capacity = 0;       // bytes per second
    double bytes = 0;          // in the step
    double mean = 0, peak = 0; // shares of the capacity: over the step, and in the busiest bin
    double busy = 0;           // share of the step in which it is over four fifths full
};
// By falling time at the limit, then peak, then bytes: the first one limits, where any does.
std::vector<LinkLoadRow> link_loads(const Trace& trace);

// For each link of the fabric the series that shows it, or -1. A folded trace shows one link of those alike; which they are the simulation
// says (`like`: by link the one that stands for it, or -1). A trace from a file says only how many: there links whose names differ only in
// their numbers share a series where runs of these lengths, node by node, cover them all.
std::vector<int> series_of_links(const Fabric& fabric, const Trace& trace, const std::vector<LinkId>& like = {});

int bins(const Trace& trace);
// Shares of the capacity by series, over [begin, end) picoseconds since the trace's begin; of the whole step where end <= begin.
std::vector<double> utilisation(const Trace& trace, std::int64_t begin, std::int64_t end);

// The part of a cluster to draw: the nodes whose links are in the trace, at most `most`, and the switches above them. Vertices stand
// on levels, devices lowest.
struct ClusterPicture {
    struct Vertex {
        std::string name;
        ExplicitGraph::VertexKind kind;
        int node, level;
        double x;
    }; // x: 0 .. width
    // Indices of vertices. series: of Trace::links, -1: none shows it; own: it is this link's, not that of one like it. down: it carries
    // nothing.
    struct Edge {
        int from, to;
        LinkId link;
        int series;
        bool own, down;
    };
    std::vector<Vertex> vertices;
    std::vector<Edge> edges;
    double width = 1;
    int levels = 1;
    int nodes = 0, nodes_left_out = 0;
};
ClusterPicture picture(const Fabric& fabric, const Trace& trace, int most, const std::vector<LinkId>& like = {});

// The picture of a torus as a grid: a slice beside the other for each place of the shortest dimension; a row is a level. Devices alone are
// drawn. Where other vertices carry something the picture stays as it is.
void lay_as_grid(ClusterPicture& picture, const std::array<int, 3>& rows, int devices_per_node);

} // namespace orrery
