// Do the schedules obey the laws of their papers? Times come from the dry run; bubbles are in units of one part of a step (F = I = W = 1
// of a chunk). Sources: arXiv:1811.06965 (GPipe), 2104.04473 (1F1B, interleaved), 2401.10241 (zero bubble, table 2), 2405.15362 (V).
#include "tests/unit/schedules/dry_run.hpp"

#include <gtest/gtest.h>

namespace orrery::test {
namespace {

struct Made {
    const ScheduleInfo& info;
    ScheduleShape shape;
    Schedule schedule;
    int chunks() const { return shape.stages * shape.chunks_per_stage * info.directions; }
    double makespan(const StepTimes& times) const {
        return dry_run(schedule, info.stage_of, chunks(), shape.microbatches, times, 1, info.directions).makespan;
    }
    double period(const StepTimes& times) const {
        return steady_period(schedule, info.stage_of, chunks(), shape.microbatches, times, info.directions);
    }
    double ideal(const StepTimes& times) const {
        return double(shape.chunks_per_stage * shape.microbatches) * (times.forward + times.input + times.weight);
    }
};

Made make(const char* name, int p, int v, std::int64_t m, const StepTimes& times = {}, bool post_validation = false) {
    const ScheduleInfo& info = schedule_named(name);
    const ScheduleShape shape{p, v, m, times.forward, times.input, times.weight, times.communication, post_validation};
    EXPECT_TRUE(info.check(shape).empty());
    return {info, shape, info.make(shape)};
}

constexpr double tiny = 1e-9;

TEST(Bubble, OfNaiveModelParallelismLeavesOneDeviceBusy) {
    for (int p : {1, 2, 3, 8})
        for (int m : {1, 4, 9}) {
            const StepTimes times{1, 0.7, 1.6};
            const Made made = make("none", p, 1, m, times);
            EXPECT_NEAR(made.makespan(times), p * made.ideal(times), 1e-6) << p << " " << m;
        }
}

TEST(Bubble, OfGPipeAnd1F1BIsPMinus1OverM) {
    for (const char* name : {"gpipe", "1f1b"})
        for (int p : {1, 2, 3, 4, 8})
            for (int m : {1, 2, 4, 7, 8, 30})
                for (const StepTimes& times : {StepTimes{}, StepTimes{1, 1.2, 0.8}, StepTimes{2, 1, 0.5}}) {
                    const Made made = make(name, p, 1, m, times);
                    EXPECT_NEAR(made.makespan(times) / made.ideal(times) - 1, (p - 1.0) / m, tiny) << name << " " << p << " " << m;
                }
}

TEST(Bubble, OfInterleavedIsPMinus1OverVM) {
    for (int p : {2, 3, 4, 8})
        for (int v : {2, 3, 5})
            for (int groups : {1, 2, 5})
                for (const StepTimes& times : {StepTimes{}, StepTimes{1, 1.2, 0.8}}) {
                    const int m = groups * p;
                    const Made made = make("interleaved-1f1b", p, v, m, times);
                    EXPECT_NEAR(made.makespan(times) / made.ideal(times) - 1, (p - 1.0) / (v * m), tiny) << p << " " << v << " " << m;
                }
}

// Table 2 of the paper: (p-1)(F+I-W). Where W is longer than I, what is left is the wait for the first forward, (p-1) F.
TEST(Bubble, OfZeroBubbleH1IsAThirdOf1F1B) {
    for (int p : {1, 2, 3, 4, 6, 8, 16})
        for (int m : {p, p + 1, 2 * p, 3 * p + 2, 8 * p, 11 * p})
            for (const StepTimes& times : {StepTimes{}, StepTimes{1, 1.1, 0.8}, StepTimes{1, 1.4, 0.6}, StepTimes{1, 0.9, 1.2}}) {
                const Made made = make("zb-h1", p, 1, m, times);
                const double law = (p - 1) * (times.forward + std::max(0.0, times.input - times.weight));
                if (m < 2 * p && times.input != 1) continue; // too few microbatches to reach the steady state
                EXPECT_NEAR(made.makespan(times) - made.ideal(times), law, 1e-6) << p << " " << m;
            }
}

// (p-1)(F+I-2W), never less than nothing.
TEST(Bubble, OfZeroBubbleH2FollowsThePaperForUnequalParts) {
    for (int p : {2, 3, 4, 8})
        for (const StepTimes& times : {StepTimes{1, 1.1, 0.8}, StepTimes{1, 1.4, 0.6}, StepTimes{1, 0.9, 1.2}}) {
            const Made made = make("zb-h2", p, 1, 6 * p, times, true);
            const double law = (p - 1) * std::max(0.0, times.forward + times.input - 2 * times.weight);
            EXPECT_NEAR(made.period(times) - made.ideal(times), law, 1e-6) << p;
        }
}

TEST(Bubble, OfZeroBubbleH2AndVIsNoneWithPostValidation) {
    for (int p : {1, 2, 3, 4, 5, 6, 7, 8, 12, 16})
        for (int m : {2 * p - 1, 2 * p, 3 * p + 1, 9 * p}) {
            const Made h2 = make("zb-h2", p, 1, m, {}, true);
            EXPECT_NEAR(h2.period({}), h2.ideal({}), tiny) << "zb-h2 " << p << " " << m;
            if (m < 2 * p) continue;
            const Made v = make("zb-v", p, 2, m, {}, true);
            EXPECT_NEAR(v.period({}), v.ideal({}), tiny) << "zb-v " << p << " " << m;
        }
}

// With a barrier at the optimizer the step is the makespan: the parallelogram's slant, p - 1 parts, is what remains.
TEST(Bubble, OfZeroBubbleH2AndVWithABarrierIsTheSlant) {
    for (int p : {2, 4, 8}) {
        EXPECT_NEAR(make("zb-h2", p, 1, 4 * p).makespan({}) - 3 * 4 * p, p - 1, tiny);
        EXPECT_NEAR(make("zb-v", p, 2, 4 * p).makespan({}) - 6 * 4 * p, p - 1, tiny);
    }
}

// (p/2-1)(F&B + B - 3W) of DeepSeek-V3's table 2, with an overlapped pair F&B as long as both its halves and B a whole backward step;
// DualPipe-V the same of p ranks, each with two chunks. Exact where I = F; where I is longer some of it finds a gap.
TEST(Bubble, OfDualPipeFollowsThePaper) {
    const auto expect = [](const Made& made, const StepTimes& times, int pairs, const std::string& where) {
        const double whole = times.input + times.weight, law = pairs * (times.forward + whole + whole - 3 * times.weight);
        const double bubble = made.makespan(times) - made.ideal(times);
        EXPECT_NEAR(bubble, law, times.input == times.forward ? 1e-6 : law + 1e-6) << where;
        EXPECT_LE(bubble, law + 1e-6) << where;
        EXPECT_GE(bubble, 0.85 * law - 1e-6) << where;
    };
    for (const StepTimes& times : {StepTimes{}, StepTimes{1, 1, 0.7}, StepTimes{2, 2, 1}, StepTimes{1, 1.1, 0.8}, StepTimes{1, 1.4, 0.6}}) {
        for (int p : {2, 4, 6, 8, 16})
            for (int m : {2 * p, 2 * p + 2, 5 * p})
                expect(make("dualpipe", p, 1, m, times), times, p / 2 - 1, "dualpipe " + std::to_string(p) + " " + std::to_string(m));
        for (int p : {1, 2, 3, 4, 8})
            for (int m : {2 * p, 2 * p + 1, 5 * p})
                expect(make("dualpipe-v", p, 2, m, times), times, p - 1, "dualpipe-v " + std::to_string(p) + " " + std::to_string(m));
    }
}

TEST(InFlight, FollowsThePapers) {
    for (int p : {1, 2, 3, 4, 8})
        for (int m : {1, 3, 2 * p, 5 * p})
            for (int rank = 0; rank < p; ++rank) {
                const auto peak = [&](const char* name, int v) { return peak_in_flight(make(name, p, v, m).schedule.ranks[rank]); };
                EXPECT_EQ(peak("none", 1), 1);
                EXPECT_EQ(peak("gpipe", 1), m);
                EXPECT_EQ(peak("1f1b", 1), std::min(m, p - rank));
                EXPECT_LE(peak("zb-h1", 1), p);
                EXPECT_LE(peak("zb-h2", 1), 2 * p - 1);
                EXPECT_LE(peak("zb-v", 2), 2 * p);
                if (m < 2 * p) continue;
                EXPECT_LE(peak("dualpipe-v", 2), 2 * p + 1);
                EXPECT_LE(p % 2 == 0 ? peak("dualpipe", 1) : 0, p + 1);
            }
}

// Most activations held at once, in those of one microbatch, where one that waits for its weight step holds `owed` of them.
double peak_held(const std::vector<ScheduleStep>& steps, double owed) {
    double held = 0, peak = 0;
    for (const ScheduleStep& s : steps) {
        held += s.kind == StepKind::forward ? 1 : s.kind == StepKind::input ? owed - 1 : s.kind == StepKind::weight ? -owed : -1;
        peak = std::max(peak, held);
    }
    return peak;
}

// The limit is one of memory: where an input step frees most of what its microbatch held, more may wait for their weight steps.
TEST(InFlight, WeightStepsThatHoldLessWaitLonger) {
    for (const StepTimes& times : {StepTimes{}, StepTimes{1, 1.1, 0.8, 0}, StepTimes{1, 1.4, 0.6, 0}})
        for (int p : {4, 8}) {
            ScheduleShape shape{p, 1, 6 * p, times.forward, times.input, times.weight, times.communication, true};
            int most = 0;
            for (double owed : {1.0, 0.4}) {
                shape.owed = owed;
                const Schedule made = schedule_named("zb-h2").make(shape);
                int in_flight = 0;
                for (const auto& steps : made.ranks) {
                    EXPECT_LE(peak_held(steps, owed), 2 * p - 1 + tiny) << p << " " << owed;
                    in_flight = std::max(in_flight, peak_in_flight(steps));
                }
                if (owed < 1) { EXPECT_GT(in_flight, most) << p; }
                most = in_flight;
            }
        }
}

// Forwards before the first backward, and one more while alternating: 2 (p - rank - 1) + (v - 1) p + 1 chunk activations.
TEST(InFlight, OfInterleavedIsMegatrons) {
    for (int p : {2, 4})
        for (int v : {2, 3})
            for (int groups : {2, 4})
                for (int rank = 0; rank < p; ++rank) {
                    const Made made = make("interleaved-1f1b", p, v, groups * p);
                    const int expected = std::min(v * groups * p, 2 * (p - rank - 1) + (v - 1) * p + 1);
                    EXPECT_EQ(peak_in_flight(made.schedule.ranks[rank]), expected) << p << " " << v << " " << groups << " " << rank;
                }
}

// Larger groups keep more, 2 (p - rank - 1) + (v - 1) N + 1, lose no time where transfers take none, and are never slower where they do.
TEST(InFlight, OfInterleavedGrowsWithItsGroups) {
    const ScheduleInfo& info = schedule_named("interleaved-1f1b");
    for (int p : {2, 4, 8})
        for (int v : {2, 3}) {
            const int m = 12 * p;
            const auto of = [&](std::int64_t group, std::int64_t count, const StepTimes& times) {
                const ScheduleShape shape{.stages = p, .chunks_per_stage = v, .microbatches = count, .group = group};
                EXPECT_TRUE(info.check(shape).empty()) << p << " " << count << " " << group;
                const Schedule made = info.make(shape);
                for (int rank = 0; rank < p; ++rank) {
                    const std::int64_t held = std::min<std::int64_t>(v * count, 2 * (p - rank - 1) + (v - 1) * group + 1);
                    EXPECT_EQ(peak_in_flight(made.ranks[rank]), held) << p << " " << v << " " << count << " " << group << " " << rank;
                }
                return dry_run(made, info.stage_of, p * v, count, times).makespan;
            };
            for (double transfer : {0.0, 0.3, 1.0, 2.0}) {
                const StepTimes times{1, 1, 1, transfer};
                double before = of(p, m, times);
                for (std::int64_t group : {2 * p, 3 * p, 4 * p}) {
                    const double now = of(group, m, times);
                    EXPECT_LE(now, before + tiny) << p << " " << v << " " << group << " " << transfer;
                    before = now;
                }
            }
            for (std::int64_t group : {p + 1, 2 * p, 3 * p - 1}) {
                const std::int64_t count = 3 * group + p; // the last group has p
                EXPECT_NEAR(of(group, count, {}), 3.0 * static_cast<double>(v * count + p - 1), tiny) << p << " " << v << " " << group;
            }
        }
}

// Real parts are not equal. The order must still pay: never slower than 1F1B, more memory never slower, and near the ideal.
TEST(Unequal, ZeroBubbleBeats1F1BAndKeepsItsLimits) {
    const std::vector<StepTimes> cases = {{1, 1.1, 0.8, 0}, {1, 1.4, 0.6, 0}, {1, 0.9, 1.2, 0}, {1, 1.2, 0.9, 0.1}, {2, 2.4, 1.5, 0.5}};
    for (const StepTimes& times : cases)
        for (int p : {2, 4, 8}) {
            const int m = 6 * p;
            const double plain = make("1f1b", p, 1, m, times).makespan(times);
            const Made h1 = make("zb-h1", p, 1, m, times), h2 = make("zb-h2", p, 1, m, times, true), v = make("zb-v", p, 2, m, times, true);
            EXPECT_LT(h1.makespan(times), plain) << p;
            EXPECT_LE(h2.period(times), h1.period(times) + tiny) << p;
            // The V has twice the transfers. It stays below 1F1B with half of them all the same.
            EXPECT_LT(v.period(times) - v.ideal(times), plain - h1.ideal(times)) << p;
            for (int rank = 0; rank < p; ++rank) {
                EXPECT_LE(peak_in_flight(h1.schedule.ranks[rank]), p);
                EXPECT_LE(peak_in_flight(h2.schedule.ranks[rank]), 2 * p - 1);
                EXPECT_LE(peak_in_flight(v.schedule.ranks[rank]), 2 * p);
            }
        }
}

// A steady state that loses time at every microbatch is none: the bubble must not grow with their number, slow links or not.
TEST(Unequal, BubblesDoNotGrowWithMicrobatches) {
    for (const StepTimes& times : {StepTimes{1, 1.1, 0.8, 0}, StepTimes{1, 1, 1, 0.1}, StepTimes{2, 2.4, 1.5, 0.5}})
        for (int p : {4, 8})
            for (const char* name : {"zb-h1", "zb-h2", "zb-v"}) {
                const int v = std::string(name) == "zb-v" ? 2 : 1;
                const Made few = make(name, p, v, 8 * p, times, true), many = make(name, p, v, 40 * p, times, true);
                EXPECT_NEAR(few.period(times) - few.ideal(times), many.period(times) - many.ideal(times), 1e-6) << name << " " << p;
            }
}

// A period that was simulated once can be skipped: in the middle of a long step the order repeats with every microbatch.
TEST(Unequal, OrdersRepeatWithEveryMicrobatch) {
    for (const char* name : {"zb-h1", "zb-h2", "zb-v"}) {
        const int v = std::string(name) == "zb-v" ? 2 : 1;
        const Made made = make(name, 4, v, 100, {1, 1.17, 0.83, 0.03}, true);
        for (const auto& steps : made.schedule.ranks)
            for (std::size_t i = 40 * 3 * v; i < 60u * 3 * v; ++i) {
                ScheduleStep next = steps[i];
                ++next.microbatch;
                ASSERT_EQ(steps[i + 3 * v], next) << name << " step " << i;
            }
    }
}

} // namespace
} // namespace orrery::test
