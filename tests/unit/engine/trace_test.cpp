// Does the trace say what happened, with nothing missing and nothing twice?
#include "build.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <map>

namespace orrery::engine_test {

namespace {

PipelineShape shape_of(int pp) {
    return {.tp = 2, .dp = 2, .pp = pp, .microbatches = 6, .bytes = 700, .tp_bytes = 300, .grad_bytes = 2000, .optimizer = 700};
}

TEST(EngineTrace, compute_and_waits_fill_each_lanes_step) {
    Plan plan = pipeline(shape_of(4));
    Network net{.ranks = 16, .devices_per_node = 4, .nics = 2, .launch_ns = 20};
    Simulation s = simulate(plan, net, {.trace = true});
    ASSERT_TRUE(s.trace);
    for (const Lane& lane : s.trace->lanes) {
        std::vector<std::pair<std::int64_t, std::int64_t>> covered;
        std::int64_t total = 0;
        for (const Span& span : lane.spans) {
            if (span.queue != compute_queue) continue;
            covered.push_back({span.begin.ps, span.end.ps});
            total += span.end.ps - span.begin.ps;
        }
        std::sort(covered.begin(), covered.end());
        for (std::size_t i = 1; i < covered.size(); ++i) EXPECT_EQ(covered[i].first, covered[i - 1].second) << "stage " << lane.stage;
        EXPECT_EQ(total, s.step_time.ps);
    }
}

TEST(EngineTrace, every_op_of_every_microbatch_is_there_once) {
    Plan plan = pipeline(shape_of(4));
    Simulation s = simulate(plan, {.ranks = 16, .devices_per_node = 4, .nics = 2}, {.trace = true});
    ASSERT_TRUE(s.trace);
    for (const Lane& lane : s.trace->lanes) {
        std::map<std::pair<std::int32_t, std::int32_t>, int> seen;
        std::size_t ops = 0;
        for (const Span& span : lane.spans)
            if (span.kind == SpanKind::op) {
                ++ops;
                EXPECT_EQ((++seen[{span.op, span.microbatch}]), 1) << s.trace->ops[span.op].name;
            }
        const Program& p = plan.programs[lane.stage];
        std::size_t expected = 0;
        for (const Action& a : p.actions) expected += static_cast<std::size_t>(a.last - a.first);
        EXPECT_EQ(ops, expected);
    }
}

TEST(EngineTrace, bins_of_a_link_add_up_to_what_it_carried) {
    for (int pp : {1, 4}) {
        Plan plan = pipeline(shape_of(pp));
        Simulation s = simulate(plan, {.ranks = 4 * pp, .devices_per_node = 4, .nics = 2}, {.trace = true});
        ASSERT_TRUE(s.trace);
        std::size_t loaded = 0;
        for (const LinkUse& use : s.links) {
            loaded += use.bytes > 0;
            for (const LinkSeries& link : s.trace->links) {
                if (link.link != use.link) continue;
                EXPECT_EQ(link.twins, use.twins);
                double sum = 0;
                for (std::int64_t b : link.bytes) sum += static_cast<double>(b);
                // The window of a pipeline is longer than its period: stages begin their steps one after the other.
                if (pp == 1)
                    EXPECT_NEAR(sum, use.bytes, 1e-6 * use.bytes + 2);
                else
                    EXPECT_GE(sum, use.bytes * (1 - 1e-6) - 2);
                EXPECT_LE(sum, 2 * use.bytes);
                --loaded;
            }
        }
        EXPECT_FALSE(s.trace->links.empty());
        EXPECT_EQ(loaded, 0u) << "a loaded link has no series";
    }
}

TEST(EngineTrace, waits_name_their_cause) {
    PipelineShape shape;
    shape.pp = 4;
    Plan plan = pipeline(shape);
    Simulation s = simulate(plan, {.ranks = 4}, {.trace = true});
    ASSERT_TRUE(s.trace);
    for (const Lane& lane : s.trace->lanes) {
        std::map<WaitCause, std::int64_t> waited;
        for (const Span& span : lane.spans)
            if (span.kind == SpanKind::wait) waited[span.cause] += span.end.ps - span.begin.ps;
        std::int64_t stage = lane.stage;
        EXPECT_EQ(waited[WaitCause::warm_up] + waited[WaitCause::drain] + waited[WaitCause::receive], 3 * 3000 * ns);
        if (stage == 3) { EXPECT_EQ(waited[WaitCause::receive], 0); }
        if (stage == 0) { EXPECT_GT(waited[WaitCause::receive], 0); }
    }
}

TEST(EngineTrace, a_transfer_starts_when_data_moves_and_both_ends_meet) {
    Plan plan = pipeline(shape_of(2));
    Simulation s = simulate(plan, {.ranks = 8, .devices_per_node = 4, .nics = 2}, {.trace = true});
    ASSERT_TRUE(s.trace);
    EXPECT_EQ(s.trace->flows.size(), 12u); // six microbatches, up and down
    for (const Flow& f : s.trace->flows) {
        const Span& from = s.trace->lanes[f.from_lane].spans[f.from_span];
        const Span& to = s.trace->lanes[f.to_lane].spans[f.to_span];
        EXPECT_EQ(from.begin, to.begin);
        EXPECT_EQ(from.end, to.end);
        EXPECT_GT(to.end, to.begin);
        EXPECT_EQ(from.queue, to.queue);
        EXPECT_EQ(from.microbatch, to.microbatch);
        EXPECT_NE(f.from_lane, f.to_lane);
    }
}

TEST(EngineTrace, tracing_changes_no_time) {
    Plan plan = pipeline(shape_of(4));
    Network net{.ranks = 16, .devices_per_node = 4, .nics = 2};
    Simulation with = simulate(plan, net, {.trace = true}), without = simulate(plan, net);
    EXPECT_EQ(with.step_time, without.step_time);
    for (std::size_t l = 0; l < with.lanes.size(); ++l) EXPECT_EQ(with.lanes[l].breakdown, without.lanes[l].breakdown);
}

} // namespace

} // namespace orrery::engine_test
