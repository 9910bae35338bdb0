#include "sim/engine/fold.hpp"

#include <algorithm>
#include <bit>
#include <cstddef>
#include <utility>

namespace orrery {

namespace {

std::size_t z(std::int64_t i) { return static_cast<std::size_t>(i); }

// The class of each colour, by open addressing: few colours are a few cache lines, however many vertices have them.
class Numbering {
  public:
    // The class of a colour; `next` where it is new.
    std::int32_t of(std::uint64_t colour, std::int32_t next) {
        Place& p = place(colour);
        if (p.number >= 0) return p.number;
        p = {colour, next};
        if (2 * ++count_ > places_.size()) grow();
        return next;
    }

  private:
    struct Place {
        std::uint64_t colour = 0;
        std::int32_t number = -1;
    };
    Place& place(std::uint64_t colour) {
        std::size_t at = colour & (places_.size() - 1);
        while (places_[at].number >= 0 && places_[at].colour != colour) at = (at + 1) & (places_.size() - 1);
        return places_[at];
    }
    void grow() {
        const std::vector<Place> before = std::exchange(places_, std::vector<Place>(4 * places_.size()));
        for (const Place& p : before)
            if (p.number >= 0) place(p.colour) = p;
    }

    std::vector<Place> places_ = std::vector<Place>(64);
    std::size_t count_ = 0;
};

// Numbers the distinct colours of `colours` in order of first appearance; vertices with used[i] == 0 get none.
void number(const std::vector<std::uint64_t>& colours, const std::vector<char>& used, Classes& c) {
    c.of.assign(colours.size(), -1);
    c.first.clear();
    c.size.clear();
    Numbering numbering;
    for (std::size_t i = 0; i < colours.size(); ++i) {
        if (!used.empty() && !used[i]) continue;
        const std::int32_t k = c.of[i] = numbering.of(colours[i], c.count());
        if (k == c.count()) {
            c.first.push_back(static_cast<std::int32_t>(i));
            c.size.push_back(0);
        }
        ++c.size[z(k)];
    }
}

std::vector<char> loaded_links(const FoldGraph& g) {
    std::vector<char> used(g.link.size(), 0);
    for (const auto& e : g.link_edges) used[z(e.link)] = 1;
    return used;
}

std::uint64_t hash_of(const FoldGraph::Tag& t) { return mix(std::bit_cast<std::uint64_t>(t.load), static_cast<std::uint64_t>(t.variant)); }

// One round: every vertex's colour becomes a hash of its own and of the multiset of its neighbours' (sums commute).
void refine(const FoldGraph& g, const std::vector<std::uint64_t>& tags, Folding& f, std::vector<std::uint64_t>& rank,
            std::vector<std::uint64_t>& bundle, std::vector<std::uint64_t>& link) {
    std::vector<std::uint64_t> next_rank(rank.size()), next_link(link.size());
    std::vector<std::uint64_t> mixed(rank.size()); // what most edges, those of no role, need of a rank
    for (std::size_t i = 0; i < rank.size(); ++i) next_rank[i] = mixed[i] = mix(rank[i]);
    for (std::size_t i = 0; i < link.size(); ++i) next_link[i] = mix(link[i]);
    for (std::size_t b = 0; b < bundle.size(); ++b) {
        const std::uint64_t own = bundle[b], mine = mix(own);
        std::uint64_t sum = mine;
        std::uint64_t role = 0;
        for (auto e = z(g.rank_begin[b]); e < z(g.rank_begin[b + 1]); ++e, role += static_cast<std::uint64_t>(g.directed[b])) {
            const std::size_t r = z(g.rank_edges[e]);
            sum += role == 0 ? mixed[r] : mix(rank[r] + role);
            next_rank[r] += role == 0 ? mine : mix(own + role);
        }
        std::int32_t last = -1; // tags come one after another
        std::uint64_t tag = 0, tagged = 0;
        for (auto e = z(g.link_begin[b]); e < z(g.link_begin[b + 1]); ++e) {
            if (g.link_edges[e].tag != last) {
                last = g.link_edges[e].tag;
                tag = tags[z(last)];
                tagged = mix(own ^ tag);
            }
            sum += mix(link[z(g.link_edges[e].link)] ^ tag);
            next_link[z(g.link_edges[e].link)] += tagged;
        }
        bundle[b] = sum;
    }
    rank = std::move(next_rank);
    link = std::move(next_link);
    ++f.rounds;
}

} // namespace

Folding fold(const FoldGraph& g) {
    Folding f;
    std::vector<char> used = loaded_links(g);
    std::vector<std::uint64_t> rank = g.rank, bundle = g.bundle, link = g.link, tags;
    for (const FoldGraph::Tag& t : g.tags) tags.push_back(hash_of(t));
    int before = -1;
    for (;;) {
        number(rank, {}, f.ranks);
        number(bundle, {}, f.bundles);
        number(link, used, f.links);
        int now = f.ranks.count() + f.bundles.count() + f.links.count();
        if (now == before) return f; // a round only ever splits: the same count is the same partition
        before = now;
        refine(g, tags, f, rank, bundle, link);
    }
}

Folding keep_apart(const FoldGraph& g) {
    auto each = [](std::size_t n) {
        std::vector<std::uint64_t> own(n);
        for (std::size_t i = 0; i < n; ++i) own[i] = mix(i);
        return own;
    };
    Folding f;
    number(each(g.rank.size()), {}, f.ranks);
    number(each(g.bundle.size()), {}, f.bundles);
    number(each(g.link.size()), loaded_links(g), f.links);
    return f;
}

} // namespace orrery
