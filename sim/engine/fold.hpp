// Which ranks, communicator instances and links are alike: the coarsest stable colouring of their graph, by colour refinement with
// 64-bit hashes. Two ranks of one colour run the same program on devices alike and meet instances alike, and so on round the graph,
// so that they do the same at the same time (DESIGN: folding).
#pragma once

#include "topology/fabric.hpp"
#include "topology/mix.hpp"
#include "topology/runs.hpp"

#include <array>
#include <cstdint>
#include <vector>

namespace orrery {

// Bundles are the hubs: each names its ranks and its links. The ranks of a directed bundle have roles by their place. A link edge has
// a tag, an index in `tags`: which loads (variant) and how much.
struct FoldGraph {
    std::size_t ranks = 0, links = 0;
    std::vector<char> directed; // by bundle
    struct Tag {
        std::int32_t variant;
        double load, taken; // bytes, and those that it leaves others less (LinkLoad)
        bool operator==(const Tag&) const = default;
    };
    struct LinkEdge {
        std::int32_t link, tag;
        std::int16_t block = 0; // of links that move by as far
    };
    // The edges of a bundle's links: those of a bundle that lies as it does, moved.
    struct MovedLinks {
        std::int32_t begin, end; // in link_edges
        std::array<std::int32_t, LinkMoves::count> by{};
    };
    std::vector<std::int32_t> rank_begin{0}; // by bundle, one more than bundles
    std::vector<std::int32_t> rank_edges;
    std::vector<MovedLinks> links_of; // by bundle
    std::vector<LinkEdge> link_edges;
    std::vector<Tag> tags;

    std::size_t bundles() const { return links_of.size(); }
    // f(link, tag) for each edge of a bundle's links.
    template <class F> void each_link(std::size_t bundle, F&& f) const {
        const MovedLinks& moved = links_of[bundle];
        for (auto e = static_cast<std::size_t>(moved.begin); e < static_cast<std::size_t>(moved.end); ++e) {
            const LinkEdge& edge = link_edges[e];
            f(edge.link + moved.by[static_cast<std::size_t>(edge.block)], edge.tag);
        }
    }
};

std::uint64_t hash_of(const FoldGraph::Tag& t);

// First colours.
struct FoldColours {
    std::vector<std::uint64_t> rank, bundle;
    Runs<std::uint64_t> link;
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

Folding fold(const FoldGraph& graph, FoldColours colours);
Folding keep_apart(const FoldGraph& graph); // every vertex its own class: the unfolded run

} // namespace orrery
