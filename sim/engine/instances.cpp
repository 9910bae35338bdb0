// Second half of compile(): every instance of every communicator with its cost and the loads it puts on links; folded; lanes,
// bundle classes and link classes of the machine.
#include "sim/engine/compile.hpp"
#include "sim/engine/fold.hpp"

#include <algorithm>
#include <array>
#include <bit>
#include <limits>
#include <map>
#include <unordered_map>
#include <utility>

namespace orrery {

namespace {

constexpr std::uint8_t transfer_kind = 255;

bool along(AxisMask m, Axis a) { return (m & mask(a)) != 0; }

// Where a communicator's instances stand: members are base + offset, in its order.
struct Layout { std::vector<std::int32_t> bases, offsets; };

// Adds `counts` steps along each axis (fastest first) to a list of rank numbers.
void spread(std::vector<std::int32_t>& ranks, const std::vector<int>& steps) {
    std::vector<std::int32_t> wider;
    wider.reserve(ranks.size() * steps.size());
    for (int s : steps) for (std::int32_t r : ranks) wider.push_back(r + s);
    ranks = std::move(wider);
}

Layout layout(const Plan& plan, const Communicator& comm) {
    Layout l{{0}, {0}};
    for (Axis a : mesh_of(plan, comm).order) spread(along(comm.axes, a) ? l.offsets : l.bases, steps_along(plan, comm, a));
    return l;
}

// Everything before folding: bundles one after another, with what each costs.
struct Unfolded {
    struct Bundle { CommId comm; std::int32_t member; std::int32_t costs; };   // member: a channel's sender, -1: a collective's instance
    std::vector<Bundle> bundles;
    std::vector<CommCost> costs;                 // of its communicator's patterns, from Bundle::costs
    std::vector<std::int32_t> variants;          // beside costs: which loads, -1 none
    FoldGraph graph;
};

struct BundleCompiler {
    Compilation& c;
    const Wires& wires;
    std::vector<Layout> layouts = {};
    Unfolded all = {};
    std::map<std::pair<int, std::string>, std::int32_t> variant_ids = {};
    std::vector<int> ranks = {};
    std::vector<LinkLoad> own_loads = {};
    std::vector<std::int16_t> stage_of = {};   // by rank

    // What the patterns of a communicator cost an instance, and which loads each has: the same for all of one shape.
    struct Profile {
        CommId comm = 0;
        bool channel = false;
        std::int32_t instances = 0;
        std::int32_t costs = 0;                                        // in Unfolded::costs
        std::uint64_t colour = 0;
        struct Loaded { std::int32_t variant, pattern; };              // a variant that loads links, and a pattern that has it
        std::vector<Loaded> loaded;
        std::vector<int> last;                                         // ranks of the last instance taken to have it
    };
    std::vector<Profile> profiles = {};
    std::unordered_map<std::uint64_t, std::int32_t> profile_of = {};   // shape -> profile
    bool trust_shapes = true;

    std::int32_t variant(const Pattern& p, const std::string& algorithm) {
        int kind = p.transfer ? transfer_kind : static_cast<int>(p.collective.kind) + 256 * p.collective.copies;
        return variant_ids.try_emplace({kind, algorithm}, static_cast<std::int32_t>(variant_ids.size())).first->second;
    }

    // Does this bundle (a collective's instance, or a channel) run pattern `p`?
    bool runs(const Pattern& p, bool channel) const { return p.transfer == channel && (channel || ranks.size() > 1); }
    CommCost cost_of(const Pattern& p) const { return p.transfer ? c.costs.transfer(p.bytes, ranks[0], ranks[1]) : c.costs.collective(p.collective, ranks); }
    std::vector<LinkLoad> loads_of(const Pattern& p, const CommCost& cost) const {
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
                if (loads_of(patterns[i], cost).empty()) v = -1;
                else if (known == out.loaded.end()) out.loaded.push_back({v, static_cast<std::int32_t>(i)});
                out.colour = mix(out.colour, std::bit_cast<std::uint64_t>(cost.payload) ^ mix(std::bit_cast<std::uint64_t>(cost.cap.value)) ^
                                                 mix(static_cast<std::uint64_t>(cost.latency.ps), static_cast<std::uint64_t>(v)));
            }
            all.costs.push_back(std::move(cost));
            all.variants.push_back(v);
        }
        return out;
    }

    // The profile of the instance in `ranks`: asked for once a shape.
    std::int32_t profile_for(CommId comm, bool channel) {
        std::uint64_t shape = c.costs.shape && trust_shapes ? c.costs.shape(ranks) : profiles.size();
        auto [it, fresh] = profile_of.try_emplace(mix(shape, static_cast<std::uint64_t>(comm) * 2 + channel), static_cast<std::int32_t>(profiles.size()));
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
    std::int32_t tag(std::int32_t v, double load) {
        auto& tags = all.graph.tags;
        auto is = [&](std::int32_t t) { return tags[at(t)].variant == v && tags[at(t)].load == load; };
        auto n = static_cast<std::int32_t>(tags.size());
        for (std::int32_t t = last_tag; t < std::min(n, last_tag + 4); ++t) if (is(t)) return last_tag = t;
        auto [it, fresh] = tag_of.try_emplace(mix(std::bit_cast<std::uint64_t>(load), static_cast<std::uint64_t>(v)), n);
        if (!fresh && !is(it->second)) engine_bug("two loads have one hash", v, n);
        if (fresh) tags.push_back({v, load});
        return last_tag = it->second;
    }
    std::unordered_map<std::uint64_t, std::int32_t> tag_of = {};
    std::int32_t last_tag = 0;

    // The bundle of the ranks in `ranks`: a whole instance, or a channel's sender and receiver.
    void add_bundle(CommId comm, std::int32_t member) {
        bool channel = member >= 0;
        std::int32_t id = profile_for(comm, channel);
        const Profile& p = profiles[at(id)];
        for (const Profile::Loaded& l : p.loaded)
            for (const LinkLoad& load : loads_of(c.comms[at(comm)].patterns[at(l.pattern)], all.costs[at(p.costs + l.pattern)]))
                if (load.load > 0) all.graph.link_edges.push_back({load.link, tag(l.variant, load.load)});
        all.bundles.push_back({comm, member, p.costs});
        all.graph.bundle.push_back(p.colour);
        all.graph.link_begin.push_back(static_cast<std::int32_t>(all.graph.link_edges.size()));
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
                whole.push_back(base + o);
                collects = collects || use.collects[at(stage_of[at(base + o)])];
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

    void colour_ranks_and_links() {
        FoldGraph& g = all.graph;
        for (std::size_t r = 0; r < stage_of.size(); ++r) {
            std::uint64_t own = mix(static_cast<std::uint64_t>(stage_of[r]));
            if (!wires.slowness.empty()) own = mix(own, std::bit_cast<std::uint64_t>(wires.slowness[r]));
            if (wires.jitter > 0) own = mix(own, r + 1);
            g.rank.push_back(own);
        }
        for (double capacity : wires.capacity) g.link.push_back(mix(std::bit_cast<std::uint64_t>(capacity)));
    }

    void add_all() {
        all = {};
        profiles.clear();
        profile_of.clear();
        tag_of.clear();
        last_tag = 0;
        colour_ranks_and_links();
        for (std::size_t i = 0; i < c.plan.communicators.size(); ++i) add_instances(static_cast<CommId>(i));
    }

    int local_queue(std::int32_t program, QueueId q) const {
        const auto& queues = c.machine.programs[at(program)].queues;
        auto it = std::find(queues.begin(), queues.end(), q);
        return it == queues.end() ? -1 : static_cast<int>(it - queues.begin());
    }

    void make_lanes(const Folding& f) {
        Machine& m = c.machine;
        m.lane_of_rank = f.ranks.of;
        std::int32_t queues = 0;
        for (int k = 0; k < f.ranks.count(); ++k) {
            MachineLane lane;
            lane.rank = f.ranks.first[at(k)];
            lane.ranks = f.ranks.size[at(k)];
            lane.program = stage_of[at(lane.rank)];
            lane.slowness = wires.slowness.empty() ? 1 : wires.slowness[at(lane.rank)];
            lane.queues = queues;
            queues += static_cast<std::int32_t>(m.programs[at(lane.program)].queues.size());
            m.lanes.push_back(lane);
        }
        m.lane_comms.resize(at(queues));
    }

    void add_member(std::int32_t lane, CommId comm) {
        Machine& m = c.machine;
        int q = local_queue(m.lanes[at(lane)].program, queue_of(comm));
        m.members.push_back({lane, static_cast<std::int16_t>(q)});
    }

    void make_bundles(const Folding& f) {
        Machine& m = c.machine;
        std::vector<std::int32_t> seen(m.lanes.size(), -1);
        for (int k = 0; k < f.bundles.count(); ++k) {
            const Unfolded::Bundle& b = all.bundles[at(f.bundles.first[at(k)])];
            BundleClass out;
            out.comm = b.comm;
            out.channel = b.member >= 0;
            out.twins = f.bundles.size[at(k)];
            out.members_begin = static_cast<std::int32_t>(m.members.size());
            auto first = f.bundles.first[at(k)];
            for (auto e = all.graph.rank_begin[at(first)]; e < all.graph.rank_begin[at(first) + 1]; ++e) {
                std::int32_t lane = f.ranks.of[at(all.graph.rank_edges[at(e)])];
                if (!out.channel && std::exchange(seen[at(lane)], k) == k) continue;
                add_member(lane, b.comm);
            }
            out.members_end = static_cast<std::int32_t>(m.members.size());
            for (std::int32_t i = out.members_begin; i < out.members_end; ++i) {
                const BundleMember& who = m.members[at(i)];
                if (who.queue < 0) continue;
                LaneComm& lc = m.lane_comms[at(m.lanes[at(who.lane)].queues + who.queue)];
                (!out.channel ? lc.collective : i == out.members_begin ? lc.send : lc.receive) = k;
            }
            m.bundles.push_back(out);
        }
    }

    // Weight of each bundle class, per variant, on one link of each class: what crosses the class's first link, twins summed.
    struct Weight { std::int32_t bundle, variant, link; double weight; };
    std::vector<Weight> weights(const Folding& f) const {
        std::vector<Weight> w;
        const FoldGraph& g = all.graph;
        for (std::size_t b = 0; b < all.bundles.size(); ++b)
            for (auto e = g.link_begin[b]; e < g.link_begin[b + 1]; ++e) {
                const auto& edge = g.link_edges[at(e)];
                std::int32_t k = f.links.of[at(edge.link)];
                if (f.links.first[at(k)] == edge.link) w.push_back({f.bundles.of[b], g.tags[at(edge.tag)].variant, k, g.tags[at(edge.tag)].load});
            }
        std::stable_sort(w.begin(), w.end(), [](const Weight& x, const Weight& y) {
            return std::tie(x.bundle, x.variant, x.link) < std::tie(y.bundle, y.variant, y.link);
        });
        std::size_t kept = 0;
        for (const Weight& x : w) {
            if (kept && std::tie(w[kept - 1].bundle, w[kept - 1].variant, w[kept - 1].link) == std::tie(x.bundle, x.variant, x.link)) w[kept - 1].weight += x.weight;
            else w[kept++] = x;
        }
        w.resize(kept);
        return w;
    }

    void make_links(const Folding& f) {
        for (int k = 0; k < f.links.count(); ++k)
            c.machine.links.push_back({f.links.first[at(k)], f.links.size[at(k)], wires.capacity[at(f.links.first[at(k)])]});
    }

    // Rate at which one instance alone fills one of its links.
    double own_limit(std::int32_t bundle, std::int32_t of_variant) {
        own_loads.clear();
        for (auto e = all.graph.link_begin[at(bundle)]; e < all.graph.link_begin[at(bundle) + 1]; ++e)
            if (const auto& edge = all.graph.link_edges[at(e)]; all.graph.tags[at(edge.tag)].variant == of_variant)
                own_loads.push_back({edge.link, all.graph.tags[at(edge.tag)].load});
        std::sort(own_loads.begin(), own_loads.end(), [](const LinkLoad& x, const LinkLoad& y) { return x.link < y.link; });
        double limit = std::numeric_limits<double>::infinity();
        for (std::size_t i = 0; i < own_loads.size();) {
            double sum = 0;
            LinkId link = own_loads[i].link;
            for (; i < own_loads.size() && own_loads[i].link == link; ++i) sum += own_loads[i].load;
            limit = std::min(limit, wires.capacity[at(link)] / sum);
        }
        return limit;
    }

    // Costs of each bundle class: one cap that its own links allow, and the uses of each variant.
    void make_costs(const std::vector<Weight>& w, const Folding& f) {
        Machine& m = c.machine;
        std::size_t next = 0;
        for (std::size_t k = 0; k < m.bundles.size(); ++k) {
            std::map<std::int32_t, std::pair<std::int32_t, std::int32_t>> uses;   // variant -> range
            for (; next < w.size() && w[next].bundle == static_cast<std::int32_t>(k); ++next) {
                auto here = static_cast<std::int32_t>(m.uses.size());
                auto& range = uses.try_emplace(w[next].variant, here, here).first->second;
                m.uses.push_back({w[next].link, w[next].weight});
                range.second = here + 1;
            }
            const Unfolded::Bundle& b = all.bundles[at(f.bundles.first[k])];
            const auto& patterns = c.comms[at(b.comm)].patterns;
            m.bundles[k].costs = static_cast<std::int32_t>(m.bundle_costs.size());
            for (std::size_t p = 0; p < patterns.size(); ++p) {
                const CommCost& cost = all.costs[at(b.costs) + p];
                BundleCost out;
                out.latency = cost.latency.ps;
                out.payload = cost.payload;
                out.cap = cost.cap.value;
                out.kind = patterns[p].transfer ? transfer_kind : static_cast<std::uint8_t>(patterns[p].collective.kind);
                auto range = uses.find(all.variants[at(b.costs) + p]);
                if (range != uses.end()) std::tie(out.uses_begin, out.uses_end) = range->second;
                out.cap = std::min(out.cap, own_limit(f.bundles.first[k], all.variants[at(b.costs) + p]));
                out.limit = out.cap;
                for (std::int32_t u = out.uses_begin; u < out.uses_end; ++u)
                    out.limit = std::min(out.limit, m.links[at(m.uses[at(u)].link)].capacity / m.uses[at(u)].weight);
                if (out.payload > 0 && !(out.limit > 0)) engine_bug("a communication has no bandwidth", b.comm, static_cast<std::int64_t>(p));
                m.bundle_costs.push_back(out);
            }
        }
    }

    // A link that all bundles together cannot fill never slows one: only the others are shared.
    void find_shared() {
        Machine& m = c.machine;
        std::vector<double> most(m.links.size(), 0), of_bundle(m.links.size(), 0);
        auto for_costs = [&](const BundleClass& b, auto&& action) {
            for (std::size_t p = 0; p < c.comms[at(b.comm)].patterns.size(); ++p) action(m.bundle_costs[at(b.costs) + p]);
        };
        for (const BundleClass& b : m.bundles) {
            for_costs(b, [&](const BundleCost& cost) {
                for (std::int32_t u = cost.uses_begin; u < cost.uses_end; ++u) {
                    double& high = of_bundle[at(m.uses[at(u)].link)];
                    high = std::max(high, m.uses[at(u)].weight * cost.limit);
                }
            });
            for_costs(b, [&](const BundleCost& cost) {
                for (std::int32_t u = cost.uses_begin; u < cost.uses_end; ++u) most[at(m.uses[at(u)].link)] += std::exchange(of_bundle[at(m.uses[at(u)].link)], 0);
            });
        }
        std::vector<std::int32_t> number(m.links.size(), -1);
        for (std::size_t l = 0; l < m.links.size(); ++l) {
            if (most[l] <= m.links[l].capacity * (1 + 1e-12)) continue;
            number[l] = static_cast<std::int32_t>(m.shared_capacity.size());
            m.shared_capacity.push_back(m.links[l].capacity);
        }
        for (BundleCost& cost : m.bundle_costs) {
            cost.shared_begin = static_cast<std::int32_t>(m.shared.size());
            for (std::int32_t u = cost.uses_begin; u < cost.uses_end; ++u)
                if (std::int32_t n = number[at(m.uses[at(u)].link)]; n >= 0) m.shared.push_back({n, m.uses[at(u)].weight});
            cost.shared_end = static_cast<std::int32_t>(m.shared.size());
        }
    }
};

} // namespace

void compile_bundles(Compilation& c, const Wires& wires, bool fold_ranks) {
    BundleCompiler b{c, wires};
    for (const Communicator& comm : c.plan.communicators) b.layouts.push_back(layout(c.plan, comm));
    std::int64_t ranks = 1;
    for (int n : c.plan.mesh.size) ranks *= n;
    std::int64_t pp_stride = c.plan.mesh.stride(Axis::pp);
    for (std::int64_t r = 0; r < ranks; ++r) b.stage_of.push_back(static_cast<std::int16_t>(r / pp_stride % c.plan.mesh.extent(Axis::pp)));
    b.add_all();
    if (c.costs.shape && !b.shapes_hold()) {
        b.trust_shapes = false;
        b.add_all();
    }
    Folding f = fold_ranks ? fold(b.all.graph) : keep_apart(b.all.graph);
    b.make_lanes(f);
    b.make_bundles(f);
    b.make_links(f);
    b.make_costs(b.weights(f), f);
    b.find_shared();
}

} // namespace orrery
