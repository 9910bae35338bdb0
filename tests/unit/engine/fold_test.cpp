// Is the folded run the unfolded one? Bytes exactly, times within 1e-9.
#include "build.hpp"
#include "sim/engine/fold.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <random>
#include <tuple>

namespace orrery::engine_test {

namespace {

struct Case {
    const char* name;
    PipelineShape shape;
    Network net;
    bool saturated = false; // some link class carries more than one twin and is full
};

// Gradients of 8 replicas cross the nodes' NICs; stages of 12 ranks straddle nodes of 8.
std::vector<Case> cases() {
    std::vector<Case> list;
    PipelineShape s;
    s = {.tp = 2, .dp = 4, .pp = 2, .microbatches = 4, .bytes = 3000, .tp_bytes = 500, .grad_bytes = 20000, .optimizer = 700};
    list.push_back({"tp2 dp4 pp2, one NIC a node", s, {.ranks = 16, .devices_per_node = 8, .nics = 1}, true});
    list.push_back({"four NICs for eight devices", s, {.ranks = 16, .devices_per_node = 8, .nics = 4}, true});
    s = {.tp = 2, .dp = 6, .pp = 3, .microbatches = 5, .bytes = 3000, .tp_bytes = 500, .grad_bytes = 20000, .optimizer = 700};
    list.push_back({"stages that straddle nodes", s, {.ranks = 36, .devices_per_node = 8, .nics = 2}, true});
    s = {.tp = 1, .dp = 8, .pp = 4, .microbatches = 6, .bytes = 2500, .grad_bytes = 9000, .optimizer = 300};
    list.push_back({"an oversubscribed trunk", s, {.ranks = 32, .devices_per_node = 4, .nics = 4, .trunk = 2e9}, true});
    s.overlap_grads = true;
    s.grad_bytes = 2000;
    list.push_back({"data-parallel traffic over pipeline traffic", s, {.ranks = 32, .devices_per_node = 8, .nics = 1}, true});
    list.push_back({"the same with interference",
                    s,
                    {.ranks = 32, .devices_per_node = 8, .nics = 2, .compute_slowdown = 0.3, .communication_slowdown = 0.1},
                    true});
    s = {.tp = 2, .dp = 6, .pp = 4, .microbatches = 6, .bytes = 2500, .tp_bytes = 200, .grad_bytes = 9000, .optimizer = 300};
    list.push_back({"leaves that do not divide a group", s, {.ranks = 48, .devices_per_node = 4, .nics = 1, .trunk = 1.5e9}, true});
    s = {.tp = 4, .dp = 16, .pp = 4, .microbatches = 4, .bytes = 800, .tp_bytes = 300, .grad_bytes = 5000, .optimizer = 300};
    list.push_back({"256 ranks, a slow host", s, {.ranks = 256, .devices_per_node = 8, .nics = 2, .launch_ns = 400}, true});
    return list;
}

double full_share(const Simulation& s, LinkId link) {
    for (const LinkUse& u : s.links)
        if (u.link == link) return u.bytes;
    return -1;
}

void expect_same(const Machine& folded, const Simulation& f, const Simulation& u) {
    ASSERT_FALSE(f.deadlock) << to_text(*f.deadlock);
    ASSERT_FALSE(u.deadlock) << to_text(*u.deadlock);
    double step = static_cast<double>(u.step_time.ps);
    EXPECT_NEAR(static_cast<double>(f.step_time.ps), step, 1e-9 * step + 1);
    for (const LaneResult& lane : u.lanes) {
        const LaneResult& twin = f.lanes[folded.lane_of_rank[lane.rank]];
        for (std::size_t c = 0; c < category_count; ++c)
            EXPECT_NEAR(static_cast<double>(twin.breakdown[c].ps), static_cast<double>(lane.breakdown[c].ps), 1e-9 * step + 50)
                << "rank " << lane.rank << ", " << name(static_cast<Category>(c));
    }
    for (const LinkUse& l : f.links) EXPECT_EQ(l.bytes, full_share(u, l.link)) << "link " << l.link;
    std::int64_t twins = 0;
    for (const LinkUse& l : f.links) twins += l.twins;
    EXPECT_EQ(twins, static_cast<std::int64_t>(u.links.size()));
}

TEST(Fold, folded_equals_unfolded) {
    for (const Case& c : cases()) {
        SCOPED_TRACE(c.name);
        Plan plan = pipeline(c.shape);
        Machine folded = compile(plan, c.net.costs(), c.net.wires()), flat = compile(plan, c.net.costs(), c.net.wires(), {.fold = false});
        EXPECT_LT(folded.lanes.size(), flat.lanes.size());
        expect_same(folded, run(folded, {}), run(flat, {}));
    }
}

TEST(Fold, twins_on_a_link_count) {
    for (const Case& c : cases()) {
        SCOPED_TRACE(c.name);
        Plan plan = pipeline(c.shape);
        Machine folded = compile(plan, c.net.costs(), c.net.wires());
        Machine alone = folded; // each bundle class as if one of its members crossed each link
        for (LinkWeight& w : alone.shared) w.taken = std::min(w.taken, 1.0);
        for (BundleCost& b : alone.bundle_costs) b.limit = b.cap;
        double step = static_cast<double>(run(folded, {}).step_time.ps), wrong = static_cast<double>(run(alone, {}).step_time.ps);
        EXPECT_GT(std::abs(wrong - step), 1e-3 * step);
    }
}

TEST(Fold, a_straggler_anywhere_splits_classes_and_changes_nothing_else) {
    PipelineShape shape{.tp = 2, .dp = 4, .pp = 2, .microbatches = 3, .bytes = 300, .tp_bytes = 500, .grad_bytes = 2000, .optimizer = 700};
    Plan plan = pipeline(shape);
    for (int slow = 0; slow < 16; ++slow) {
        SCOPED_TRACE(slow);
        Network net{.ranks = 16, .devices_per_node = 8, .nics = 2};
        net.slowness.assign(16, 1.0);
        net.slowness[slow] = 1.5;
        Machine folded = compile(plan, net.costs(), net.wires()), flat = compile(plan, net.costs(), net.wires(), {.fold = false});
        Simulation f = run(folded, {});
        EXPECT_GT(f.step_time.ps, simulate(plan, {.ranks = 16, .devices_per_node = 8, .nics = 2}).step_time.ps);
        EXPECT_LT(folded.lanes.size(), flat.lanes.size());
        EXPECT_GT(folded.lanes.size(), 2u);
        expect_same(folded, f, run(flat, {}));
    }
}

TEST(Fold, a_degraded_link_splits_classes) {
    PipelineShape shape{.tp = 1, .dp = 8, .pp = 2, .microbatches = 3, .bytes = 3000, .grad_bytes = 20000, .optimizer = 700};
    Plan plan = pipeline(shape);
    Network net{.ranks = 16, .devices_per_node = 4, .nics = 2};
    for (int link : {0, 5, 17, 33, 38}) {
        SCOPED_TRACE(link);
        net.degraded = {{link, 3.0}};
        Machine folded = compile(plan, net.costs(), net.wires()), flat = compile(plan, net.costs(), net.wires(), {.fold = false});
        expect_same(folded, run(folded, {}), run(flat, {}));
    }
}

TEST(Fold, twins_are_one_lane_however_many) {
    PipelineShape shape{.tp = 8, .dp = 32, .pp = 4, .microbatches = 2, .bytes = 100, .tp_bytes = 100, .grad_bytes = 100, .optimizer = 100};
    Plan plan = pipeline(shape);
    Network net{.ranks = 1024, .devices_per_node = 8, .nics = 8};
    Machine m = compile(plan, net.costs(), net.wires());
    EXPECT_EQ(m.lanes.size(), 4u);
    for (const MachineLane& l : m.lanes) EXPECT_EQ(l.ranks, 256);
}

// A cost model may promise that ranks of one shape cost the same. A promise it breaks must not change the answer.
TEST(Fold, a_broken_promise_of_shapes_is_noticed) {
    PipelineShape shape{.tp = 1, .dp = 8, .pp = 2, .microbatches = 3, .bytes = 3000, .grad_bytes = 20000, .optimizer = 700};
    Plan plan = pipeline(shape);
    Network net{.ranks = 16, .devices_per_node = 4, .nics = 2};
    Costs uneven = net.costs(); // one pair of ranks has a longer way
    uneven.transfer = [of = uneven.transfer](Bytes bytes, int from, int to) {
        CommCost cost = of(bytes, from, to);
        if (from == 15 || to == 15) cost.latency += Time{5000 * ns};
        return cost;
    };
    Costs promised = uneven;
    promised.shape = [](std::span<const int>) { return std::uint64_t{1}; };
    Machine kept = compile(plan, promised, net.wires()), asked = compile(plan, uneven, net.wires());
    EXPECT_EQ(kept.lanes.size(), asked.lanes.size());
    EXPECT_EQ(run(kept, {}).step_time, run(asked, {}).step_time);
    Costs even = net.costs();
    even.shape = promised.shape;
    EXPECT_EQ(run(compile(plan, even, net.wires()), {}).step_time, simulate(plan, net).step_time);
}

// A collective too small to load links must not take the loads of the big ones of its kind with it.
TEST(Fold, loads_are_each_patterns_own) {
    Builder b(4, 1, 1);
    CommId tp = b.comm("tp", mask(Axis::tp));
    b.block(0, "F");
    std::int32_t small = b.collective(tp, 1), big = b.collective(tp, 1000, {small});
    b.compute(10, {big});
    b.act(0, {{small, -1, 2}});
    Network net{.ranks = 4};
    Costs costs = net.costs();
    costs.loads = [of = costs.loads](const Collective& work, const CommCost& cost, std::span<const int> ranks) {
        return work.bytes.count < 10 ? std::vector<LinkLoad>{} : of(work, cost, ranks);
    };
    Simulation s = run(compile(b.plan, costs, net.wires()), {});
    EXPECT_NEAR(s.step_time.seconds() * 1e9, 1010, 0.1);
    ASSERT_FALSE(s.links.empty());
    EXPECT_EQ(s.links[0].bytes, 1000);
}

TEST(Fold, jitter_is_per_rank_and_repeats) {
    PipelineShape shape{.tp = 2, .dp = 2, .pp = 2, .microbatches = 3, .bytes = 100, .tp_bytes = 100, .grad_bytes = 100, .optimizer = 100};
    Plan plan = pipeline(shape);
    Network net{.ranks = 8};
    Wires noisy = net.wires();
    noisy.jitter = 0.1;
    Machine m = compile(plan, net.costs(), noisy);
    EXPECT_EQ(m.lanes.size(), 8u);
    Simulation once = run(m, {}), again = run(m, {});
    EXPECT_EQ(once.step_time, again.step_time);
    EXPECT_NE(once.step_time, simulate(plan, net).step_time);
    noisy.seed = 7;
    EXPECT_NE(run(compile(plan, net.costs(), noisy), {}).step_time, once.step_time);
}

// The coarsest stable colouring as its definition has it: in each round a vertex is what it was and all that its neighbours were.
struct Plainly {
    const FoldGraph& g;
    std::vector<std::int64_t> rank, bundle, link; // colours; of links -1: nothing loads it

    using Seen =
        std::pair<std::int64_t, std::vector<std::tuple<std::int64_t, std::int64_t, double>>>; // own; neighbour, role or variant, load
    static std::size_t number(std::vector<std::int64_t>& of, std::vector<Seen>& seen) {
        std::map<Seen, std::int64_t> known;
        for (std::size_t i = 0; i < of.size(); ++i) {
            std::sort(seen[i].second.begin(), seen[i].second.end());
            if (of[i] >= 0) of[i] = known.try_emplace(seen[i], static_cast<std::int64_t>(known.size())).first->second;
        }
        return known.size();
    }
    std::size_t round() {
        const auto owns = [](const std::vector<std::int64_t>& of) {
            std::vector<Seen> seen;
            for (const std::int64_t own : of) seen.push_back({own, {}});
            return seen;
        };
        std::vector<Seen> ranks = owns(rank), bundles = owns(bundle), links = owns(link);
        for (std::size_t b = 0; b < g.bundles(); ++b) {
            std::int64_t role = 0;
            for (auto e = g.rank_begin[b]; e < g.rank_begin[b + 1]; ++e, role += g.directed[b]) {
                const auto r = static_cast<std::size_t>(g.rank_edges[static_cast<std::size_t>(e)]);
                bundles[b].second.emplace_back(rank[r], role, -1.0);
                ranks[r].second.emplace_back(bundle[b], role, -1.0);
            }
            g.each_link(b, [&](std::int32_t l, std::int32_t t) {
                const FoldGraph::Tag& tag = g.tags[static_cast<std::size_t>(t)];
                bundles[b].second.emplace_back(link[static_cast<std::size_t>(l)], 100 + tag.variant, tag.load);
                links[static_cast<std::size_t>(l)].second.emplace_back(bundle[b], 100 + tag.variant, tag.load);
            });
        }
        return number(rank, ranks) + number(bundle, bundles) + number(link, links);
    }
};

// Few ranks, links and kinds of each, so that classes split one after another: chains of bundles, and rings with a flaw.
FoldGraph drawn(std::mt19937& random, FoldColours& colours, Plainly& plain) {
    const auto draw = [&](std::size_t n) { return static_cast<std::int32_t>(random() % n); };
    FoldGraph g;
    g.ranks = 4 + random() % 30, g.links = 40000; // two pages
    g.tags = {{0, 1, 1}, {0, 2, 2}, {1, 1, 1}};
    const std::size_t bundles = g.ranks + random() % 20, step = 1 + random() % 3, kinds = 1 + random() % 2;
    std::vector<std::int64_t> link(g.links, -1);
    for (std::size_t b = 0; b < bundles; ++b) {
        const bool ring = b < g.ranks;
        const auto begin = static_cast<std::int32_t>(g.link_edges.size());
        if (ring)
            g.rank_edges.insert(g.rank_edges.end(), {static_cast<std::int32_t>(b), static_cast<std::int32_t>((b + step) % g.ranks)});
        else
            for (int k = 0; k < 3; ++k) g.rank_edges.push_back(draw(g.ranks));
        for (std::int32_t k = 0; k < (ring ? 2 : draw(3)); ++k) {
            const std::int32_t l = ring ? static_cast<std::int32_t>(b / 2 * 3000) % 40000 : draw(14) * 3000;
            g.link_edges.push_back({l, ring ? k : draw(3)});
            link[static_cast<std::size_t>(l)] = 0;
        }
        g.links_of.push_back({begin, static_cast<std::int32_t>(g.link_edges.size())});
        g.rank_begin.push_back(static_cast<std::int32_t>(g.rank_edges.size()));
        g.directed.push_back(ring);
        plain.bundle.push_back(ring ? 0 : draw(kinds) + 1);
        colours.bundle.push_back(mix(static_cast<std::uint64_t>(plain.bundle.back())));
    }
    plain.rank.assign(g.ranks, 0);
    if (random() % 2) plain.rank[static_cast<std::size_t>(draw(g.ranks))] = 1;
    for (const std::int64_t r : plain.rank) colours.rank.push_back(mix(static_cast<std::uint64_t>(r)));
    colours.link.push_back(mix(7), g.links);
    plain.link = std::move(link);
    return g;
}

void expect_classes(const Classes& c, const std::vector<std::int64_t>& plain) {
    std::map<std::int64_t, std::int32_t> number; // in order of first members
    std::vector<std::int32_t> of, first, size;
    for (std::size_t i = 0; i < plain.size(); ++i) {
        of.push_back(plain[i] < 0 ? -1 : number.try_emplace(plain[i], static_cast<std::int32_t>(number.size())).first->second);
        if (of[i] < 0) continue;
        if (static_cast<std::size_t>(of[i]) == first.size()) first.push_back(static_cast<std::int32_t>(i)), size.push_back(0);
        ++size[static_cast<std::size_t>(of[i])];
    }
    EXPECT_EQ(c.of, of);
    EXPECT_EQ(c.first, first);
    EXPECT_EQ(c.size, size);
}

TEST(Fold, is_the_coarsest_stable_colouring) {
    std::mt19937 random(11);
    int longest = 0;
    for (int i = 0; i < 40; ++i) {
        SCOPED_TRACE(i);
        FoldColours colours;
        FoldGraph g;
        Plainly plain{g, {}, {}, {}};
        g = drawn(random, colours, plain);
        const Folding f = fold(g, colours);
        std::size_t before = 0;
        for (std::size_t now = plain.round(); now != before; now = plain.round()) before = now;
        expect_classes(f.ranks, plain.rank);
        expect_classes(f.bundles, plain.bundle);
        expect_classes(f.links, plain.link);
        longest = std::max(longest, f.rounds);
    }
    EXPECT_GT(longest, 4); // one class after another
}

} // namespace

} // namespace orrery::engine_test
