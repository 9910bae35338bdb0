// Every instance of every communicator: what its patterns cost it, which links they load, which ranks it holds.
#include "sim/engine/instances.hpp"

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <limits>
#include <map>
#include <unordered_map>
#include <utility>

namespace orrery {

namespace {

bool along(AxisMask m, Axis a) { return (m & mask(a)) != 0; }

// Where a communicator's instances stand, counted stage by stage: members are base + offset, in its order.
struct Layout {
    std::vector<std::int32_t> bases, offsets;
};

// Adds the steps along an axis (fastest first) to a list of places.
void spread(std::vector<std::int32_t>& ranks, const std::vector<int>& steps) {
    std::vector<std::int32_t> wider;
    wider.reserve(ranks.size() * steps.size());
    for (int s : steps)
        for (std::int32_t r : ranks) wider.push_back(r + s);
    ranks = std::move(wider);
}

Layout layout(const Plan& plan, const Communicator& comm) {
    Layout l{{0}, {0}};
    const auto add = [&](Axis a) { spread(along(comm.axes, a) ? l.offsets : l.bases, steps_along(plan, comm, a)); };
    for (Axis a : mesh_of(plan, comm).order)
        if (a != Axis::pp) add(a);
    add(Axis::pp); // last, as in members()
    return l;
}

struct InstanceFinder {
    Compilation& c;
    const Wires& wires;
    const std::vector<std::int16_t>& stage_of; // by rank
    std::vector<Layout> layouts = {};
    Unfolded all = {};
    std::map<std::pair<int, std::string>, std::int32_t> variant_ids = {};
    std::vector<int> ranks = {};
    const Places places{c.plan};

    // The cost of a communicator's patterns for an instance, and the loads of each: the same for all instances of one shape.
    struct Profile {
        CommId comm = 0;
        bool channel = false;
        std::int32_t instances = 0;
        std::int32_t costs = 0; // in Unfolded::costs
        std::uint64_t colour = 0;
        struct Loaded {
            std::int32_t variant, pattern;
        }; // a variant that loads links, and a pattern that has it
        std::vector<Loaded> loaded;
        std::vector<int> last; // ranks of the last instance taken to have it
    };
    std::vector<Profile> profiles = {};
    std::unordered_map<std::uint64_t, std::int32_t> profile_of = {}; // shape -> profile
    bool trust_shapes = true;

    // The bundle before this one, if it was one of the same communicator and kind: many lie as the one before them did.
    struct Before {
        CommId comm = -1;
        bool channel = false;
        std::int32_t profile = 0;
        std::vector<int> ranks;
        bool blocks_known = false; // of its links, so that they can be moved
    };
    Before before = {};
    LinkMoves moves = {};

    std::int32_t variant(const CommPattern& p, const std::string& algorithm) {
        int kind = p.copy       ? copy_kind
                   : p.transfer ? transfer_kind
                                : static_cast<int>(p.collective.kind) + 8 * static_cast<int>(p.collective.tokens) +
                                      128 * p.collective.whole + 256 * p.collective.copies;
        return variant_ids.try_emplace({kind, algorithm}, static_cast<std::int32_t>(variant_ids.size())).first->second;
    }

    // Does this bundle (a collective's instance, a channel, or a rank's copies) run pattern `p`?
    bool runs(const CommPattern& p, bool channel) const { return p.copy || (p.transfer == channel && (channel || ranks.size() > 1)); }
    CommCost cost_of(const CommPattern& p) const {
        if (p.copy) return c.costs.copy(*p.copy, ranks[0]);
        return p.transfer ? c.costs.transfer(p.bytes, ranks[0], ranks[1]) : c.costs.collective(p.collective, ranks);
    }
    std::vector<LinkLoad> loads_of(const CommPattern& p, const CommCost& cost) const {
        if (p.copy) return c.costs.copy_loads ? c.costs.copy_loads(*p.copy, ranks[0]) : std::vector<LinkLoad>{};
        return p.transfer ? c.costs.transfer_loads(ranks[0], ranks[1]) : c.costs.loads(p.collective, cost, ranks);
    }

    Profile profile(CommId comm, bool channel) {
        Profile out;
        out.comm = comm;
        out.channel = channel;
        out.costs = static_cast<std::int32_t>(all.costs.size());
        out.colour = mix(static_cast<std::uint64_t>(comm), channel);
        const auto& patterns = c.comms[at(comm)].patterns;
        for (std::size_t i = 0; i < patterns.size(); ++i) {
            CommCost cost;
            std::int32_t v = -1;
            if (runs(patterns[i], channel)) {
                cost = cost_of(patterns[i]);
                v = variant(patterns[i], cost.algorithm);
                auto known = std::find_if(out.loaded.begin(), out.loaded.end(), [&](const Profile::Loaded& l) { return l.variant == v; });
                if (loads_of(patterns[i], cost).empty())
                    v = -1;
                else if (known == out.loaded.end())
                    out.loaded.push_back({v, static_cast<std::int32_t>(i)});
                out.colour =
                    mix(out.colour, std::bit_cast<std::uint64_t>(cost.payload) ^ mix(std::bit_cast<std::uint64_t>(cost.cap.value)) ^
                                        mix(static_cast<std::uint64_t>(cost.latency.ps), static_cast<std::uint64_t>(v)) ^
                                        std::rotl(std::bit_cast<std::uint64_t>(cost.slows), 1));
            }
            all.costs.push_back(std::move(cost));
            all.variants.push_back(v);
        }
        return out;
    }

    // The profile of the instance in `ranks`: asked for once a shape.
    std::int32_t profile_for(CommId comm, bool channel) {
        std::uint64_t shape = c.costs.shape && trust_shapes ? c.costs.shape(ranks) : profiles.size();
        auto [it, fresh] =
            profile_of.try_emplace(mix(shape, static_cast<std::uint64_t>(comm) * 2 + channel), static_cast<std::int32_t>(profiles.size()));
        if (fresh) profiles.push_back(profile(comm, channel));
        Profile& p = profiles[at(it->second)];
        if (++p.instances > 1) p.last.assign(ranks.begin(), ranks.end());
        return it->second;
    }

    // Shapes are a cost model's promise. It is held to it on the last instance of each; where it breaks it, every instance is asked.
    bool shapes_hold() {
        for (const Profile& p : profiles) {
            if (p.instances < 2) continue;
            ranks = p.last;
            std::size_t kept = all.costs.size();
            std::uint64_t colour = profile(p.comm, p.channel).colour;
            all.costs.resize(kept);
            all.variants.resize(kept);
            if (colour != p.colour) return false;
        }
        return true;
    }

    // Loads come in few values, one after another: found from the last one used on.
    std::int32_t tag(std::int32_t v, double load, double taken) {
        auto& tags = all.graph.tags;
        const FoldGraph::Tag own{v, load, taken};
        auto n = static_cast<std::int32_t>(tags.size());
        for (std::int32_t t = last_tag; t < std::min(n, last_tag + 4); ++t)
            if (tags[at(t)] == own) return last_tag = t;
        auto [it, fresh] = tag_of.try_emplace(hash_of(own), n);
        if (!fresh && tags[at(it->second)] != own) engine_bug("two loads have one hash", v, n);
        if (fresh) tags.push_back(own);
        return last_tag = it->second;
    }
    std::unordered_map<std::uint64_t, std::int32_t> tag_of = {};
    std::int32_t last_tag = 0;

    bool lies_as_before(CommId comm, bool channel) {
        return trust_shapes && c.costs.moves && !is_of_copies(c.plan, comm) && before.comm == comm && before.channel == channel &&
               c.costs.moves(before.ranks, ranks, moves);
    }

    // The links of the bundle before, moved.
    FoldGraph::MovedLinks moved_links() {
        FoldGraph::MovedLinks links = all.graph.links_of.back();
        for (auto e = links.begin; e < links.end && !before.blocks_known; ++e) {
            FoldGraph::LinkEdge& edge = all.graph.link_edges[at(e)];
            edge.block = static_cast<std::int16_t>(moves.block_of(edge.link));
        }
        before.blocks_known = true;
        for (std::size_t b = 0; b < links.by.size(); ++b) links.by[b] += moves.blocks[b].by;
        return links;
    }

    FoldGraph::MovedLinks own_links(const Profile& p) {
        FoldGraph::MovedLinks links{static_cast<std::int32_t>(all.graph.link_edges.size()), 0};
        for (const Profile::Loaded& l : p.loaded)
            for (const LinkLoad& load : loads_of(c.comms[at(p.comm)].patterns[at(l.pattern)], all.costs[at(p.costs + l.pattern)]))
                if (load.load > 0) all.graph.link_edges.push_back({load.link, tag(l.variant, load.load, load.taken())});
        links.end = static_cast<std::int32_t>(all.graph.link_edges.size());
        before.blocks_known = false;
        return links;
    }

    // The bundle of the ranks in `ranks`: a whole instance, or a channel's sender and receiver.
    void add_bundle(CommId comm, std::int32_t member) {
        const bool channel = member >= 0, moved = lies_as_before(comm, channel);
        const std::int32_t id = moved ? before.profile : profile_for(comm, channel);
        Profile& p = profiles[at(id)];
        if (moved) {
            ++p.instances;
            p.last.assign(ranks.begin(), ranks.end());
        }
        all.graph.links_of.push_back(moved ? moved_links() : own_links(p));
        before.comm = comm;
        before.channel = channel;
        before.profile = id;
        before.ranks.assign(ranks.begin(), ranks.end());
        all.bundles.push_back({comm, member, p.costs});
        all.colours.bundle.push_back(p.colour);
        all.graph.directed.push_back(channel);
        all.graph.rank_edges.insert(all.graph.rank_edges.end(), ranks.begin(), ranks.end());
        all.graph.rank_begin.push_back(static_cast<std::int32_t>(all.graph.rank_edges.size()));
    }

    void add_instances(CommId comm) {
        const CommUse& use = c.comms[at(comm)];
        if (use.patterns.empty()) return;
        const Layout& l = layouts[at(comm)];
        std::vector<int> whole;
        for (std::int32_t base : l.bases) {
            whole.clear();
            bool collects = false;
            for (std::int32_t o : l.offsets) {
                whole.push_back(places.rank(base + o));
                collects = collects || use.collects[at(stage_of[at(whole.back())])];
            }
            if (collects) {
                ranks = whole;
                add_bundle(comm, -1);
            }
            for (std::size_t i = 0; i < whole.size(); ++i) {
                int next = whole[(i + 1) % whole.size()];
                if (!use.sends[at(stage_of[at(whole[i])])] && !use.receives[at(stage_of[at(next)])]) continue;
                ranks = {whole[i], next};
                add_bundle(comm, static_cast<std::int32_t>(i));
            }
        }
    }

    void add_copies(CommId comm) {
        for (std::size_t r = 0; r < stage_of.size() && !c.comms[at(comm)].patterns.empty(); ++r) {
            if (!c.comms[at(comm)].collects[at(stage_of[r])]) continue;
            ranks = {static_cast<int>(r)};
            add_bundle(comm, -1);
        }
    }

    // The loads of others on each link: the least and the most of one.
    std::vector<std::pair<double, double>> loads_beside(std::size_t first_copy) const {
        std::vector<std::pair<double, double>> out(wires.capacity.size(), {std::numeric_limits<double>::infinity(), 0});
        for (std::size_t b = 0; b < first_copy; ++b)
            all.graph.each_link(b, [&](LinkId link, std::int32_t tag) {
                auto& [least, most] = out[at(link)];
                least = std::min(least, all.graph.tags[at(tag)].load);
                most = std::max(most, all.graph.tags[at(tag)].load);
            });
        return out;
    }

    // Links are shared by equal rates of payload, and what a payload is differs: of a gather all that is gathered, of which a device's slot
    // carries a part. So that a copy is one flow among those of its links, its payload is counted in units that load them as the others'
    // bytes do (the geometric mean of the least and the most of these).
    void weigh_copies(std::size_t first) {
        const std::vector<std::pair<double, double>> beside = loads_beside(first);
        std::map<std::pair<std::int32_t, std::uint64_t>, std::int32_t> weighed; // costs, units a byte -> costs in units
        for (std::size_t b = first; b < all.bundles.size(); ++b) {
            const auto [begin, end, by] = all.graph.links_of[b]; // a copy's links are its own
            double own = 0, least = std::numeric_limits<double>::infinity(), most = 0;
            for (auto e = begin; e < end; ++e) {
                const FoldGraph::LinkEdge& edge = all.graph.link_edges[at(e)];
                if (beside[at(edge.link)].second <= 0) continue;
                own = std::max(own, all.graph.tags[at(edge.tag)].taken);
                least = std::min(least, beside[at(edge.link)].first);
                most = std::max(most, beside[at(edge.link)].second);
            }
            if (most <= 0) continue;
            const double units = own / std::sqrt(least * most);
            Unfolded::Bundle& bundle = all.bundles[b];
            const auto [it, fresh] = weighed.try_emplace({bundle.costs, std::bit_cast<std::uint64_t>(units)}, bundle.costs);
            if (fresh) it->second = costs_in_units(bundle, units);
            bundle.costs = it->second;
            all.colours.bundle[b] = mix(all.colours.bundle[b], std::bit_cast<std::uint64_t>(units));
            for (auto e = begin; e < end; ++e) {
                FoldGraph::LinkEdge& edge = all.graph.link_edges[at(e)];
                const FoldGraph::Tag old = all.graph.tags[at(edge.tag)];
                edge.tag = tag(old.variant, old.load / units, old.taken / units);
            }
        }
    }

    std::int32_t costs_in_units(const Unfolded::Bundle& bundle, double units) {
        const auto begin = static_cast<std::int32_t>(all.costs.size());
        for (std::size_t i = 0; i < c.comms[at(bundle.comm)].patterns.size(); ++i) {
            CommCost cost = all.costs[at(bundle.costs) + i];
            cost.payload *= units;
            cost.cap.value *= units;
            all.costs.push_back(std::move(cost));
            all.variants.push_back(all.variants[at(bundle.costs) + i]);
        }
        return begin;
    }

    void colour_ranks_and_links() {
        FoldColours& colours = all.colours;
        all.graph.ranks = stage_of.size();
        all.graph.links = wires.capacity.size();
        colours.rank.reserve(stage_of.size());
        for (std::size_t r = 0; r < stage_of.size(); ++r) {
            std::uint64_t own = mix(static_cast<std::uint64_t>(stage_of[r]));
            if (!wires.slowness.empty()) own = mix(own, std::bit_cast<std::uint64_t>(wires.slowness[r]));
            if (!wires.kind.empty()) own = mix(own, static_cast<std::uint64_t>(wires.kind[r]) + 1);
            if (wires.jitter > 0) own = mix(own, r + 1);
            colours.rank.push_back(own);
        }
        wires.capacity.each_run(
            [&](double capacity, std::size_t count) { colours.link.push_back(mix(std::bit_cast<std::uint64_t>(capacity)), count); });
    }

    // For a million ranks these arrays are hundreds of megabytes: grown step by step they would be copied, and there twice. Room that is
    // not used costs nothing.
    void make_room() {
        std::size_t instances = 0, ends = 0; // ends: a rank in an instance
        for (std::size_t i = 0; i < layouts.size(); ++i) {
            if (c.comms[i].patterns.empty()) continue;
            instances += layouts[i].bases.size();
            ends += layouts[i].bases.size() * layouts[i].offsets.size();
        }
        const std::size_t bundles = instances + ends; // a channel from each end at most
        all.bundles.reserve(bundles);
        all.colours.bundle.reserve(bundles);
        all.graph.directed.reserve(bundles);
        all.graph.links_of.reserve(bundles);
        all.graph.rank_begin.reserve(bundles + 1);
        all.graph.rank_edges.reserve(3 * ends);
    }

    void add_all() {
        all = {};
        profiles.clear();
        profile_of.clear();
        tag_of.clear();
        last_tag = 0;
        before = {};
        colour_ranks_and_links();
        make_room();
        for (std::size_t i = 0; i < c.plan.communicators.size(); ++i) add_instances(static_cast<CommId>(i));
        const std::size_t first = all.bundles.size();
        for (std::size_t i = c.plan.communicators.size(); i < c.comms.size(); ++i) add_copies(static_cast<CommId>(i));
        if (first < all.bundles.size()) weigh_copies(first);
    }
};

} // namespace

std::vector<std::int16_t> stages_of_ranks(const Plan& plan) {
    std::vector<std::int16_t> stages;
    int stride = plan.mesh.stride(Axis::pp), extent = plan.mesh.extent(Axis::pp);
    for (int r = 0; r < plan.mesh.ranks(); ++r) stages.push_back(static_cast<std::int16_t>(r / stride % extent));
    return stages;
}

Unfolded find_instances(Compilation& c, const Wires& wires, const std::vector<std::int16_t>& stage_of) {
    InstanceFinder f{c, wires, stage_of};
    for (const Communicator& comm : c.plan.communicators) f.layouts.push_back(layout(c.plan, comm));
    f.add_all();
    if (c.costs.shape && !f.shapes_hold()) {
        f.trust_shapes = false;
        f.add_all();
    }
    return std::move(f.all);
}

} // namespace orrery
