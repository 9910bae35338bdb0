#include "sim/engine/fold.hpp"

#include "topology/at.hpp"
#include "topology/pages.hpp"

#include <algorithm>
#include <bit>
#include <cstddef>
#include <utility>

namespace orrery {

std::uint64_t hash_of(const FoldGraph::Tag& t) {
    return mix(std::bit_cast<std::uint64_t>(t.load) ^ mix(std::bit_cast<std::uint64_t>(t.taken)), static_cast<std::uint64_t>(t.variant));
}

namespace {

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

// Colours of links; 0: nothing loads it. Half of a large cluster's links are such, and they lie together.
using LinkColours = Pages<std::uint64_t>;

// f(index, colour) for each vertex that has one.
template <class F> void each_colour(const std::vector<std::uint64_t>& colours, F&& f) {
    for (std::size_t i = 0; i < colours.size(); ++i) f(i, colours[i]);
}
template <class F> void each_colour(LinkColours& colours, F&& f) { colours.each(f); }

// Numbers the distinct colours in order of first appearance. split, by class: it is a part of a class of before; at first all are.
template <class Colours> void number(Colours& colours, Classes& c, std::vector<char>& split) {
    if (c.of.empty()) c.of.assign(colours.size(), -1);
    std::vector<std::int32_t> part_of, parts(c.first.size()); // by new class, its old one; by old class, new ones
    c.first.clear();
    c.size.clear();
    Numbering numbering;
    each_colour(colours, [&](std::size_t i, std::uint64_t colour) {
        const std::int32_t k = numbering.of(colour, c.count());
        if (k == c.count()) {
            c.first.push_back(static_cast<std::int32_t>(i));
            c.size.push_back(0);
            part_of.push_back(c.of[i]);
            if (c.of[i] >= 0) ++parts[at(c.of[i])];
        }
        c.of[i] = k;
        ++c.size[at(k)];
    });
    split.clear();
    for (const std::int32_t whole : part_of) split.push_back(whole < 0 || parts[at(whole)] > 1);
}

bool any(const std::vector<char>& flags) { return std::find(flags.begin(), flags.end(), 1) != flags.end(); }

template <class F> LinkColours colours_of_loaded(const FoldGraph& g, F&& colour) {
    LinkColours of(g.links);
    for (std::size_t b = 0; b < g.bundles(); ++b)
        g.each_link(b, [&](std::int32_t link, std::int32_t) {
            if (std::uint64_t& own = of[at(link)]; own == 0) own = colour(at(link));
        });
    return of;
}

struct Colours {
    std::vector<std::uint64_t> rank, bundle;
    LinkColours link;
};

// By class: those that the last round split off others. Members of one class have as many neighbours of each class that it did not split.
struct Splits {
    std::vector<char> ranks, bundles, links;
};

// A bundle sees the colours of its ranks and links, mixed, as far as the last round told them apart: that is worked out once a class, as
// long as classes are few.
class Sights {
  public:
    Sights(const FoldGraph& g, const std::vector<std::uint64_t>& tags, const Folding& f, const Splits& split, Colours& c)
        : g_(g), tags_(tags), f_(f), split_(split), c_(c) {
        for (std::size_t k = 0; k < f.ranks.first.size(); ++k) of_rank_.push_back(split.ranks[k] ? mix(c.rank[at(f.ranks.first[k])]) : 0);
        constexpr std::size_t few = 1 << 16;
        if (f.links.first.size() * tags.size() > few) return;
        for (std::size_t k = 0; k < f.links.first.size(); ++k)
            for (const std::uint64_t tag : tags) of_link_.push_back(split.links[k] ? mix(c.link[at(f.links.first[k])] ^ tag) : 0);
    }

    // Whether it sees any that were told apart: all bundles of a class do, or none.
    bool changed(std::size_t b) const {
        for (auto e = at(g_.rank_begin[b]); e < at(g_.rank_begin[b + 1]); ++e)
            if (split_.ranks[at(f_.ranks.of[at(g_.rank_edges[e])])]) return true;
        bool seen = false;
        g_.each_link(b, [&](std::int32_t link, std::int32_t) { seen = seen || split_.links[at(f_.links.of[at(link)])]; });
        return seen;
    }

    // The sum of what a bundle is, of its ranks and of its links.
    std::uint64_t of_bundle(std::size_t b) {
        std::uint64_t sum = mix(c_.bundle[b]), role = 0;
        for (auto e = at(g_.rank_begin[b]); e < at(g_.rank_begin[b + 1]); ++e, role += static_cast<std::uint64_t>(g_.directed[b])) {
            const std::size_t r = at(g_.rank_edges[e]), k = at(f_.ranks.of[r]);
            sum += role == 0 ? of_rank_[k] : split_.ranks[k] ? mix(c_.rank[r] + role) : 0;
        }
        if (of_link_.empty())
            g_.each_link(b, [&](std::int32_t link, std::int32_t tag) {
                if (split_.links[at(f_.links.of[at(link)])]) sum += mix(c_.link[at(link)] ^ tags_[at(tag)]);
            });
        else
            g_.each_link(b,
                         [&](std::int32_t link, std::int32_t tag) { sum += of_link_[at(f_.links.of[at(link)]) * tags_.size() + at(tag)]; });
        return sum;
    }

  private:
    const FoldGraph& g_;
    const std::vector<std::uint64_t>& tags_;
    const Folding& f_;
    const Splits& split_;
    Colours& c_;
    std::vector<std::uint64_t> of_rank_, of_link_; // by class; of links by tag, too
};

// Adds what a bundle is to what its ranks and its links see.
void show(const FoldGraph& g, const std::vector<std::uint64_t>& tags, Colours& c, std::size_t b) {
    const std::uint64_t own = c.bundle[b], mine = mix(own);
    std::uint64_t role = 0;
    for (auto e = at(g.rank_begin[b]); e < at(g.rank_begin[b + 1]); ++e, role += static_cast<std::uint64_t>(g.directed[b]))
        c.rank[at(g.rank_edges[e])] += role == 0 ? mine : mix(own + role);
    std::int32_t last = -1; // tags come one after another
    std::uint64_t tagged = 0;
    g.each_link(b, [&](std::int32_t link, std::int32_t tag) {
        if (tag != last) last = tag, tagged = mix(own ^ tags[at(tag)]);
        c.link[at(link)] += tagged;
    });
}

// One round: a vertex's colour becomes a hash of its own and of the multiset of its neighbours' (sums commute), of those neighbours that
// the round before told apart: of all others it has as many as the vertices of its colour have. Bundles look first and keep what they saw
// apart, so that ranks and links, of which there are more, need no second array.
void refine(const FoldGraph& g, const std::vector<std::uint64_t>& tags, const Folding& f, const Splits& split, Colours& c) {
    std::vector<std::uint64_t> seen = c.bundle;
    if (any(split.ranks) || any(split.links)) {
        Sights sights(g, tags, f, split, c);
        std::vector<char> changed;
        for (const std::int32_t first : f.bundles.first) changed.push_back(sights.changed(at(first)));
        for (std::size_t b = 0; b < seen.size(); ++b)
            if (changed[at(f.bundles.of[b])]) seen[b] = sights.of_bundle(b);
    }
    if (any(split.bundles))
        for (std::size_t b = 0; b < seen.size(); ++b)
            if (split.bundles[at(f.bundles.of[b])]) show(g, tags, c, b);
    c.bundle = std::move(seen);
}

} // namespace

Folding fold(const FoldGraph& g, FoldColours first) {
    Folding f;
    Colours c{std::move(first.rank), std::move(first.bundle), colours_of_loaded(g, [&](std::size_t link) { return first.link[link]; })};
    std::vector<std::uint64_t> tags;
    for (const FoldGraph::Tag& t : g.tags) tags.push_back(hash_of(t));
    Splits split;
    number(c.rank, f.ranks, split.ranks);
    number(c.bundle, f.bundles, split.bundles);
    number(c.link, f.links, split.links);
    for (int before = -1;; ++f.rounds) {
        const int now = f.ranks.count() + f.bundles.count() + f.links.count();
        if (now == before) return f; // a round only ever splits: the same count is the same partition
        before = now;
        const bool shown = any(split.bundles), saw = any(split.ranks) || any(split.links);
        refine(g, tags, f, split, c);
        if (shown) number(c.rank, f.ranks, split.ranks), number(c.link, f.links, split.links);
        if (saw) number(c.bundle, f.bundles, split.bundles);
        if (!shown) split.ranks.assign(split.ranks.size(), 0), split.links.assign(split.links.size(), 0);
        if (!saw) split.bundles.assign(split.bundles.size(), 0);
    }
}

Folding keep_apart(const FoldGraph& g) {
    const auto own = [](std::size_t i) { return mix(i + 1); };
    const auto each = [&](std::size_t n) {
        std::vector<std::uint64_t> colours(n);
        for (std::size_t i = 0; i < n; ++i) colours[i] = own(i);
        return colours;
    };
    Folding f;
    const std::vector<std::uint64_t> ranks = each(g.ranks), bundles = each(g.bundles());
    LinkColours links = colours_of_loaded(g, own);
    std::vector<char> split;
    number(ranks, f.ranks, split);
    number(bundles, f.bundles, split);
    number(links, f.links, split);
    return f;
}

} // namespace orrery
