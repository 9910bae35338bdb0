// Which ranks, communicator instances and links are alike: the coarsest stable colouring of their graph, by colour refinement with
// 64-bit hashes. Two ranks of one colour run the same program on devices alike and meet instances alike, and so on round the graph,
// so that they do the same at the same time (DESIGN: folding).
#pragma once

#include "topology/mix.hpp"

#include <cstdint>
#include <vector>

namespace orrery {

// Bundles are the hubs: each names its ranks and its links. The ranks of a directed bundle have roles by their place. A link edge has
// a tag, an index in `tags`: which loads (variant) and how much.
struct FoldGraph {
    std::vector<std::uint64_t> rank, bundle, link; // first colours
    std::vector<char> directed;                    // by bundle
    struct Tag {
        std::int32_t variant;
        double load;
    };
    struct LinkEdge {
        std::int32_t link, tag;
    };
    std::vector<std::int32_t> rank_begin{0}, link_begin{0}; // by bundle, one more than bundles
    std::vector<std::int32_t> rank_edges;
    std::vector<LinkEdge> link_edges;
    std::vector<Tag> tags;
};

// Classes numbered in order of their first member.
struct Classes {
    std::vector<std::int32_t> of;    // vertex -> class; -1: a link nothing loads
    std::vector<std::int32_t> first; // class -> its first vertex
    std::vector<std::int32_t> size;
    int count() const { return static_cast<int>(first.size()); }
};

struct Folding {
    Classes ranks, bundles, links;
    int rounds = 0;
};

Folding fold(const FoldGraph& graph);
Folding keep_apart(const FoldGraph& graph); // every vertex its own class: the unfolded run

} // namespace orrery
