// The critical path of traces whose path is known, and of a sample's its adding up.
#include "sample.hpp"
#include "sim/trace/critical_path.hpp"

#include <gtest/gtest.h>

namespace orrery {
namespace {

Span op(std::int64_t begin, std::int64_t end, std::int32_t which, std::int16_t queue = 0) {
    return {Time{begin}, Time{end}, which, 0, queue, SpanKind::op, WaitCause::none, -1};
}
Span posted(std::int64_t begin, std::int64_t end, std::int32_t which, std::int16_t queue) {
    return {Time{begin}, Time{end}, which, 0, queue, SpanKind::transfer_wait, WaitCause::collective, -1};
}

// Lane 1 computes longer before the all-reduce (queue 1), lane 0 behind it.
Trace reduced() {
    Trace t;
    t.queues = {"compute", "dp"};
    t.ops.resize(4);
    t.lanes.resize(2);
    t.lanes[0].spans = {op(0, 10, 0), op(50, 90, 1), posted(10, 30, 2, 1), op(30, 50, 2, 1)};
    t.lanes[1].spans = {op(0, 30, 0), op(50, 60, 1), op(30, 50, 2, 1)};
    t.end = Time{90};
    return t;
}

TEST(CriticalPath, GoesThroughTheLaneThatPostedLast) {
    const auto path = critical_path(reduced());
    ASSERT_EQ(path.size(), 3u);
    EXPECT_EQ(path[0].lane, 1);
    EXPECT_EQ(path[0].span, 0);
    EXPECT_EQ(path[1].lane, 1);
    EXPECT_EQ(path[2].lane, 0);
    EXPECT_EQ(path[2].span, 1);
}

TEST(CriticalPath, FollowsATransferToItsSender) {
    Trace t = reduced();
    t.ops.resize(6);
    t.queues = {"compute", "send", "receive"};
    t.lanes[0].spans = {op(0, 40, 0), op(40, 50, 4, 1)};
    t.lanes[1].spans = {op(0, 5, 1), op(50, 70, 3), posted(5, 40, 5, 2), op(40, 50, 5, 2)};
    t.flows = {{0, 1, 1, 3}};
    const auto path = critical_path(t);
    ASSERT_EQ(path.size(), 3u);
    EXPECT_EQ(path[0].lane, 0);
    EXPECT_EQ(path[1].lane, 0);
    EXPECT_EQ(path[1].span, 1);
    EXPECT_EQ(path[2].lane, 1);
    EXPECT_EQ(path[2].span, 1);
}

TEST(CriticalPath, AGapIsSaidAndNothingOverlaps) {
    Trace t;
    t.queues = {"compute"};
    t.ops.resize(1);
    t.lanes.resize(1);
    t.lanes[0].spans = {op(5, 10, 0), op(10, 10, 0), op(17, 20, 0)};
    const auto path = critical_path(t);
    ASSERT_EQ(path.size(), 2u);
    EXPECT_EQ(path[0].gap.ps, 0);
    EXPECT_EQ(path[1].gap.ps, 7);
    EXPECT_TRUE(critical_path(Trace{}).empty());
}

TEST(CriticalPath, SpansAndGapsAddUp) {
    const Trace t = sample_trace(4, 6, 12, true);
    const auto path = critical_path(t);
    ASSERT_GT(path.size(), 10u);
    Time sum{0}, before = t.begin;
    for (std::size_t i = 0; i < path.size(); ++i) {
        const Span& s = t.lanes[path[i].lane].spans[path[i].span];
        if (i > 0) { EXPECT_EQ(s.begin, before + path[i].gap); }
        sum += s.end - s.begin + path[i].gap;
        before = s.end;
    }
    EXPECT_EQ(before, t.end);
    const Span& first = t.lanes[path[0].lane].spans[path[0].span];
    EXPECT_EQ(sum, t.end - first.begin);
}

} // namespace
} // namespace orrery
