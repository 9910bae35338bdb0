// Predictions and plans of tests, and two simulations that must have taken the same course.
#pragma once

#include "sim/engine/simulate.hpp"
#include "sim/plan/verify.hpp"
#include "sim/report/report.hpp"
#include "tests/laws/scenarios.hpp"

#include <gtest/gtest.h>

namespace orrery::laws {

inline Report report_of(const Gpt& g) { return predict(g.make()).report; }
inline double step_of(const Gpt& g) { return report_of(g).step_time_s; }
inline double step_of(const Scenario& s) { return predict(s).report.step_time_s; }

inline Plan verified(const Scenario& s) {
    Plan plan = lower(s);
    EXPECT_TRUE(verify(plan).empty()) << to_text(verify(plan));
    return plan;
}
inline Plan verified(const Gpt& g) { return verified(g.make()); }

// To the picosecond and the byte.
inline void expect_identical(const Simulation& a, const Simulation& b) {
    ASSERT_FALSE(a.deadlock || b.deadlock);
    EXPECT_EQ(a.step_time, b.step_time);
    EXPECT_EQ(a.stats.steps, b.stats.steps);
    ASSERT_EQ(a.lanes.size(), b.lanes.size());
    for (std::size_t l = 0; l < a.lanes.size(); ++l) {
        EXPECT_EQ(a.lanes[l].breakdown, b.lanes[l].breakdown) << "lane " << l;
        EXPECT_EQ(a.lanes[l].compute_busy, b.lanes[l].compute_busy);
        EXPECT_EQ(a.lanes[l].hardware_flops, b.lanes[l].hardware_flops);
        EXPECT_EQ(a.lanes[l].ranks, b.lanes[l].ranks);
    }
    ASSERT_EQ(a.links.size(), b.links.size());
    for (std::size_t l = 0; l < a.links.size(); ++l) EXPECT_EQ(a.links[l].bytes, b.links[l].bytes);
    EXPECT_EQ(a.stats.events + a.stats.replayed_ops, b.stats.events + b.stats.replayed_ops);
}

} // namespace orrery::laws
