// Comparison of two traces whose differences are known.
#include "sim/compare/compare.hpp"
#include "tests/unit/trace/sample.hpp"

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

namespace orrery {
namespace {

// Every span lasts `factor` times as long, queue by queue from the begin; memory grows by it too.
Trace stretched(Trace t, int factor) {
    const auto move = [&](Time at) { return t.begin + (at - t.begin) * factor; };
    for (Lane& lane : t.lanes) {
        for (Span& s : lane.spans) s.begin = move(s.begin), s.end = move(s.end);
        for (MemorySample& m : lane.memory)
            for (std::int64_t& bytes : m.bytes) bytes *= factor;
    }
    t.end = move(t.end);
    t.period.ps *= factor;
    return t;
}

const Pair* find(const std::vector<Pair>& pairs, const std::string& name) {
    for (const Pair& p : pairs)
        if (p.name == name) return &p;
    return nullptr;
}

// Ranks of a pipeline begin one after the other, so that a trace is longer than what steps are apart; a round's trace has several.
TEST(Compare, AStepIsWhatStepsAreApart) {
    Trace t = sample_trace(2, 3, 5, false);
    t.steps = 1, t.period = {};
    const double whole = compare(t, t).a.step_s, kinds = compare(t, t).kinds.front().a.seconds;
    EXPECT_DOUBLE_EQ(whole, (t.end - t.begin).seconds());
    t.steps = 4;
    t.period = Time::seconds(0.8 * whole);
    EXPECT_NEAR(compare(t, t).a.step_s, 0.2 * whole, 1e-9);
    EXPECT_NEAR(compare(t, t).kinds.front().a.seconds, kinds / 4, 1e-12);
}

TEST(Compare, ATraceDiffersFromItselfInNothing) {
    const Trace t = sample_trace(3, 4, 6, true);
    const Comparison c = compare(t, t);
    EXPECT_FALSE(c.measured);
    EXPECT_DOUBLE_EQ(c.mean_ratio, 1);
    EXPECT_DOUBLE_EQ(c.decile_ratio, 1);
    ASSERT_FALSE(c.kinds.empty());
    for (const Pair& p : c.kinds) EXPECT_EQ(p.difference(), 0) << p.name;
    EXPECT_TRUE(c.only_a.empty());
    EXPECT_NE(to_text(c).find("every op takes the same time in both"), std::string::npos);
}

TEST(Compare, ThePredictionComesFirstWhicheverWayTheyAreNamed) {
    const Trace predicted = sample_trace(2, 3, 5, false);
    Trace real = stretched(predicted, 2);
    real.source = "measured: a machine";
    for (const Comparison& c : {compare(predicted, real), compare(real, predicted)}) {
        EXPECT_TRUE(c.measured);
        EXPECT_EQ(c.a.source, "simulated");
        EXPECT_NEAR(c.mean_ratio, 0.5, 1e-12);
        EXPECT_NEAR(c.b.step_s, 2 * c.a.step_s, 1e-12);
        const auto json = nlohmann::json::parse(to_json(c));
        EXPECT_NEAR(json["error"].get<double>(), -0.5, 1e-12);
        EXPECT_NEAR(json["kinds"][0]["error"].get<double>(), -0.5, 1e-12);
        ASSERT_FALSE(c.memory.empty());
        EXPECT_EQ(c.memory.back().name, "peak");
        EXPECT_EQ(c.memory.back().b, 2 * c.memory.back().a);
    }
}

TEST(Compare, SaysWhereRanksSharedCores) {
    const Trace predicted = sample_trace(2, 3, 5, false);
    Trace real = stretched(predicted, 2);
    real.source = "measured: OpenBLAS on a machine, 4 ranks share 2 cores, threads executor";
    EXPECT_NE(to_text(compare(predicted, real)).find("4 ranks share 2 cores, so an op's time holds its waits for a core"),
              std::string::npos);
    real.source = "measured: OpenBLAS on a machine, 2 threads a rank, threads executor";
    EXPECT_TRUE(compare(predicted, real).notes.empty());
}

TEST(Compare, AFoldedLaneWeighsAsManyRanksAsItStandsFor) {
    Trace folded = sample_trace(1, 2, 4, false);
    folded.lanes[0].ranks = 3;
    folded.flows.clear();
    Trace unfolded = folded;
    unfolded.lanes[0].ranks = 1;
    unfolded.lanes.push_back(unfolded.lanes[0]);
    unfolded.lanes.push_back(unfolded.lanes[0]);
    const Comparison c = compare(folded, unfolded);
    EXPECT_EQ(c.a.ranks, c.b.ranks);
    for (const Pair& p : c.kinds) {
        EXPECT_NEAR(p.a.seconds, p.b.seconds, 1e-15) << p.name;
        EXPECT_NEAR(p.a.count, p.b.count, 1e-9) << p.name;
    }
}

TEST(Compare, TheOpThatGrewIsTheWorstAndWaitsAreApart) {
    Trace a = sample_trace(2, 3, 6, false);
    a.period = {}, a.steps = 1;
    Trace b = a;
    const Time more = Time::seconds(0.5);
    for (Span& s : b.lanes[1].spans)
        if (s.kind == SpanKind::op && s.op == 4) s.end += more;
    for (Span& s : b.lanes[0].spans)
        if (s.kind == SpanKind::wait && s.queue == 0 && s.cause == WaitCause::receive) s.end += more;
    const Comparison c = compare(a, b);
    ASSERT_FALSE(c.ops.empty());
    EXPECT_EQ(c.ops[0].name, a.ops[4].name);
    EXPECT_EQ(c.ops[0].stage, 1);
    EXPECT_EQ(c.alike[0].name, "l*.qkv.fwd"); // every layer's op of the sample
    EXPECT_EQ(c.alike.size(), 1u);
    const Pair* waits = find(c.waits, name(WaitCause::receive));
    ASSERT_TRUE(waits);
    // Lanes stand for 1 and 128 ranks; two of three microbatches wait for a receive.
    EXPECT_NEAR(-waits->difference(), 2 * 0.5 / 129, 1e-9);
    const Pair* kind = find(c.kinds, a.ops[4].kind);
    ASSERT_TRUE(kind);
    EXPECT_GT(-kind->difference(), 0.49 * 128 / 129);
}

TEST(Compare, SaysWhichOpsTheOtherLacksAndThatPlansDiffer) {
    const Trace a = sample_trace(1, 2, 3, false);
    Trace b = sample_trace(1, 2, 5, false);
    b.source = "measured: a machine";
    b.plan_hash ^= 1;
    const Comparison c = compare(a, b);
    EXPECT_TRUE(c.only_a.empty());
    EXPECT_EQ(c.only_b.size(), 2u);
    EXPECT_NE(to_text(c).find("different plans"), std::string::npos);
}

} // namespace
} // namespace orrery
