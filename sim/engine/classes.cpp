// From instances to the machine's lanes, bundle classes and link classes: folded, each class shown by its first member.
#include "sim/engine/clock.hpp"
#include "sim/engine/instances.hpp"
#include "topology/input_error.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <map>
#include <span>
#include <tuple>
#include <utility>

namespace orrery {

namespace {

struct ClassMaker {
    Compilation& c;
    const Wires& wires;
    const std::vector<std::int16_t>& stage_of; // by rank
    const Unfolded& all;
    const Folding& f;
    std::vector<LinkLoad> own_loads = {};

    int local_queue(std::int32_t program, QueueId q) const {
        const auto& queues = c.machine.programs[at(program)].queues;
        auto it = std::find(queues.begin(), queues.end(), q);
        return it == queues.end() ? -1 : static_cast<int>(it - queues.begin());
    }

    void make_lanes() {
        Machine& m = c.machine;
        std::int32_t queues = 0;
        for (int k = 0; k < f.ranks.count(); ++k) {
            MachineLane lane;
            lane.rank = f.ranks.first[at(k)];
            lane.ranks = f.ranks.size[at(k)];
            lane.program = stage_of[at(lane.rank)];
            lane.kind = wires.kind.empty() ? std::int16_t{0} : wires.kind[at(lane.rank)];
            lane.slowness = wires.slowness.empty() ? 1 : wires.slowness[at(lane.rank)];
            lane.queues = queues;
            queues += static_cast<std::int32_t>(m.programs[at(lane.program)].queues.size());
            m.lanes.push_back(lane);
        }
        m.lane_comms.resize(at(queues));
    }

    void add_member(std::int32_t lane, CommId comm) {
        Machine& m = c.machine;
        int q = local_queue(m.lanes[at(lane)].program, queue_served(c.plan, comm));
        m.members.push_back({lane, static_cast<std::int16_t>(q)});
    }

    void make_bundles() {
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
    struct Weight {
        std::int32_t bundle, variant, link;
        double weight, taken;
    };
    std::vector<Weight> weights() const {
        std::vector<Weight> w;
        const FoldGraph& g = all.graph;
        // Bundles of a class come by the hundred: where a table of all three holds them, they are added up as they come.
        std::size_t variants = 0;
        for (const FoldGraph::Tag& t : g.tags) variants = std::max(variants, at(t.variant) + 1);
        const std::size_t of_a_bundle = variants * at(f.links.count());
        constexpr std::size_t most = 1 << 18;
        std::vector<std::int32_t> place(of_a_bundle <= most / std::max(1, f.bundles.count()) ? of_a_bundle * at(f.bundles.count()) : 0, -1);
        for (std::size_t b = 0; b < g.bundles(); ++b)
            g.each_link(b, [&](LinkId link, std::int32_t tag) {
                const std::int32_t k = f.links.of[at(link)];
                if (f.links.first[at(k)] != link) return;
                const FoldGraph::Tag& t = g.tags[at(tag)];
                if (!place.empty()) {
                    std::int32_t& here = place[at(f.bundles.of[b]) * of_a_bundle + at(t.variant) * at(f.links.count()) + at(k)];
                    if (here >= 0) {
                        w[at(here)].weight += t.load, w[at(here)].taken += t.taken;
                        return;
                    }
                    here = static_cast<std::int32_t>(w.size());
                }
                w.push_back({f.bundles.of[b], t.variant, k, t.load, t.taken});
            });
        std::stable_sort(w.begin(), w.end(), [](const Weight& x, const Weight& y) {
            return std::tie(x.bundle, x.variant, x.link) < std::tie(y.bundle, y.variant, y.link);
        });
        std::size_t kept = 0;
        for (const Weight& x : w) {
            if (kept && std::tie(w[kept - 1].bundle, w[kept - 1].variant, w[kept - 1].link) == std::tie(x.bundle, x.variant, x.link))
                w[kept - 1].weight += x.weight, w[kept - 1].taken += x.taken;
            else
                w[kept++] = x;
        }
        w.resize(kept);
        return w;
    }

    void make_links() {
        for (int k = 0; k < f.links.count(); ++k)
            c.machine.links.push_back(
                {f.links.first[at(k)], f.links.size[at(k)], wires.capacity[at(f.links.first[at(k)])], group_of_link(f.links.first[at(k)])});
    }

    CostGroup group_of_link(LinkId link) const { return wires.group ? wires.group(link) : CostGroup::links_inside; }

    CostGroup group_of_bundle(std::int32_t bundle) const {
        const Unfolded::Bundle& b = all.bundles[at(bundle)];
        if (is_of_copies(c.plan, b.comm)) return CostGroup::host;
        const auto begin = all.graph.rank_edges.begin();
        return c.costs.group ? c.costs.group({begin + all.graph.rank_begin[at(bundle)], begin + all.graph.rank_begin[at(bundle) + 1]})
                             : CostGroup::links_inside;
    }

    // Rates at which one instance alone fills one of its links, by the links' group.
    OwnLimits own_limits(std::int32_t bundle, std::int32_t of_variant) {
        own_loads.clear();
        all.graph.each_link(at(bundle), [&](LinkId link, std::int32_t tag) {
            if (const FoldGraph::Tag& t = all.graph.tags[at(tag)]; t.variant == of_variant) own_loads.push_back({link, t.taken});
        });
        std::sort(own_loads.begin(), own_loads.end(), [](const LinkLoad& x, const LinkLoad& y) { return x.link < y.link; });
        OwnLimits limits;
        limits.group = group_of_bundle(bundle);
        limits.links.fill(std::numeric_limits<double>::infinity());
        for (std::size_t i = 0; i < own_loads.size();) {
            double sum = 0;
            LinkId link = own_loads[i].link;
            for (; i < own_loads.size() && own_loads[i].link == link; ++i) sum += own_loads[i].load;
            double& limit = limits.links[group_of_link(link)];
            limit = std::min(limit, wires.capacity[at(link)] / sum);
        }
        return limits;
    }

    // A gather in pieces goes from device to device by copy engines (Transformer Engine's ring exchange, use_ce in its initialize_ub;
    // torch's asynchronous tensor parallelism, copies into symmetric memory), and so does a copy to the host, on its own way.
    double slowdown_by(const CommCost& cost, const CommPattern& pattern) const {
        if (pattern.copy) return 0;
        const double own = pattern.by_engines && cost.slows >= 0 ? cost.slows_by_bytes : cost.slows;
        return own >= 0 ? own : c.costs.interference.compute_slowdown;
    }

    // Costs of each bundle class: one cap that its own links allow, and the uses of each variant.
    void make_costs(const std::vector<Weight>& w) {
        Machine& m = c.machine;
        std::size_t next = 0;
        for (std::size_t k = 0; k < m.bundles.size(); ++k) {
            std::map<std::int32_t, std::pair<std::int32_t, std::int32_t>> uses; // variant -> range
            std::map<std::int32_t, OwnLimits> own;                              // by variant
            for (; next < w.size() && w[next].bundle == static_cast<std::int32_t>(k); ++next) {
                auto here = static_cast<std::int32_t>(m.uses.size());
                auto& range = uses.try_emplace(w[next].variant, here, here).first->second;
                m.uses.push_back({w[next].link, w[next].weight, w[next].taken});
                range.second = here + 1;
            }
            const Unfolded::Bundle& b = all.bundles[at(f.bundles.first[k])];
            const auto& patterns = c.comms[at(b.comm)].patterns;
            m.bundles[k].costs = static_cast<std::int32_t>(m.bundle_costs.size());
            for (std::size_t p = 0; p < patterns.size(); ++p) {
                const CommCost& cost = all.costs[at(b.costs) + p];
                BundleCost out;
                out.latency = at_most_clock(cost.latency.ps);
                out.payload = cost.payload;
                out.slows = slowdown_by(cost, patterns[p]);
                out.kind = patterns[p].copy       ? copy_kind
                           : patterns[p].transfer ? transfer_kind
                                                  : static_cast<std::uint8_t>(patterns[p].collective.kind);
                auto range = uses.find(all.variants[at(b.costs) + p]);
                if (range != uses.end()) std::tie(out.uses_begin, out.uses_end) = range->second;
                const auto [known, fresh] = own.try_emplace(all.variants[at(b.costs) + p]);
                if (fresh) known->second = own_limits(f.bundles.first[k], known->first);
                m.own_limits.push_back(known->second);
                m.own_limits.back().protocol = cost.cap.value;
                set_limits(m, out, m.own_limits.back());
                if (out.payload > 0 && !(out.limit > 0))
                    throw InputError(fmt::format("the links of {} have no bandwidth: check the rates of the cluster's links and "
                                                 "the perturbations of links",
                                                 name_of(c.plan, b.comm)));
                m.bundle_costs.push_back(out);
            }
        }
    }
};

} // namespace

std::int32_t costs_end(const Machine& m, const BundleClass& c) {
    const auto next = static_cast<std::size_t>(&c - m.bundles.data()) + 1;
    return next < m.bundles.size() ? m.bundles[next].costs : static_cast<std::int32_t>(m.bundle_costs.size());
}

void set_limits(const Machine& m, BundleCost& cost, const OwnLimits& own) {
    cost.cap = cost.limit = own.least();
    for (std::int32_t u = cost.uses_begin; u < cost.uses_end; ++u)
        cost.limit = std::min(cost.limit, m.links[at(m.uses[at(u)].link)].capacity / m.uses[at(u)].taken);
}

void find_shared(Machine& m) {
    std::vector<double> most(m.links.size(), 0), of_bundle(m.links.size(), 0);
    const auto for_costs = [&](const BundleClass& b, auto&& action) {
        for (std::int32_t i = b.costs; i < costs_end(m, b); ++i) action(m.bundle_costs[at(i)]);
    };
    for (const BundleClass& b : m.bundles) {
        for_costs(b, [&](const BundleCost& cost) {
            for (std::int32_t u = cost.uses_begin; u < cost.uses_end; ++u) {
                double& high = of_bundle[at(m.uses[at(u)].link)];
                high = std::max(high, m.uses[at(u)].taken * cost.limit);
            }
        });
        for_costs(b, [&](const BundleCost& cost) {
            for (std::int32_t u = cost.uses_begin; u < cost.uses_end; ++u)
                most[at(m.uses[at(u)].link)] += std::exchange(of_bundle[at(m.uses[at(u)].link)], 0);
        });
    }
    std::vector<std::int32_t> number(m.links.size(), -1);
    m.shared_capacity.clear();
    m.shared.clear();
    for (std::size_t l = 0; l < m.links.size(); ++l) {
        if (most[l] <= m.links[l].capacity * (1 + 1e-12)) continue;
        number[l] = static_cast<std::int32_t>(m.shared_capacity.size());
        m.shared_capacity.push_back(m.links[l].capacity);
    }
    for (BundleCost& cost : m.bundle_costs) {
        cost.shared_begin = static_cast<std::int32_t>(m.shared.size());
        for (std::int32_t u = cost.uses_begin; u < cost.uses_end; ++u)
            if (std::int32_t n = number[at(m.uses[at(u)].link)]; n >= 0) m.shared.push_back({n, m.uses[at(u)].weight, m.uses[at(u)].taken});
        cost.shared_end = static_cast<std::int32_t>(m.shared.size());
    }
}

void compile_bundles(Compilation& c, const Wires& wires, bool fold_ranks) {
    std::vector<std::int16_t> stage_of = stages_of_ranks(c.plan);
    Unfolded all = find_instances(c, wires, stage_of);
    Folding f = fold_ranks ? fold(all.graph, std::move(all.colours)) : keep_apart(all.graph);
    ClassMaker make{c, wires, stage_of, all, f};
    make.make_lanes();
    make.make_bundles();
    make.make_links();
    make.make_costs(make.weights());
    find_shared(c.machine);
    c.machine.lane_of_rank = std::move(f.ranks.of);
    c.machine.link_class = std::move(f.links.of);
}

} // namespace orrery
