// Is the folded run the unfolded one? Bytes exactly, times within 1e-9.
#include "build.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <map>

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

} // namespace

} // namespace orrery::engine_test
