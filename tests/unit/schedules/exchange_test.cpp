// Do the transfers between stages meet? Every value that is needed elsewhere is sent and received once, in the same order at both ends,
// and no rank waits for ever; and what is wrong with a program is found and named.
#include "sim/plan/rendezvous.hpp"
#include "tests/unit/schedules/dry_run.hpp"

#include <gtest/gtest.h>

#include <ctime>
#include <map>
#include <tuple>

namespace orrery::test {
namespace {

struct Case {
    const ScheduleInfo* info;
    ScheduleShape shape;
    Schedule schedule;
    bool overlap;
    PipelineProgram program;
    int chunks() const { return shape.stages * shape.chunks_per_stage * info->directions; }
    // The chunk a step's input comes from; -1: from outside.
    int sender(int chunk, bool gradient) const {
        const int length = chunks() / info->directions, from = gradient ? chunk + 1 : chunk - 1;
        return from >= 0 && from / length == chunk / length ? from : -1;
    }
    std::vector<RendezvousFault> faults() const { return rendezvous(program, info->stage_of, chunks(), overlap, info->directions); }
    std::string where() const {
        return std::string(info->name) + " p" + std::to_string(shape.stages) + " v" + std::to_string(shape.chunks_per_stage) + " m" +
               std::to_string(shape.microbatches) + (overlap ? " overlapped" : " blocking");
    }
};

Case make_case(const ScheduleInfo& info, const ScheduleShape& shape, bool overlap) {
    Case made{&info, shape, info.make(shape), overlap, {}};
    made.program = insert_exchanges(made.schedule, info.stage_of, shape.stages, made.chunks(), overlap, info.directions);
    return made;
}

template <class Visit> void for_every_case(Visit visit) {
    for (const ScheduleInfo& info : schedules())
        for (ScheduleShape shape : shapes()) {
            if (!info.check(shape).empty() || shape.microbatches > 24) continue;
            shape.post_validation = shape.microbatches % 2;
            shape.join = shape.microbatches % 4 == 0;
            for (bool overlap : {false, true}) visit(make_case(info, shape, overlap));
        }
}

using Channel = std::tuple<int, int, bool>;

TEST(Exchange, MovesEachNeededValueOnceInOneOrderAtBothEnds) {
    for_every_case([](const Case& c) {
        std::map<Channel, std::vector<std::pair<int, int>>> sent, received;
        for (int rank = 0; rank < c.shape.stages; ++rank) {
            std::vector<ScheduleStep> computed;
            for (const ProgramStep& action : c.program[rank]) {
                if (!action.is_exchange) computed.push_back(action.step);
                ASSERT_EQ(action.is_exchange, !action.transfers.empty()) << c.where();
                for (const TransferStep& t : action.transfers) {
                    ASSERT_EQ(t.send ? t.from_stage : t.to_stage, rank) << c.where();
                    (t.send ? sent : received)[{t.from_stage, t.to_stage, t.gradient}].push_back({t.chunk, t.microbatch});
                }
            }
            ASSERT_EQ(computed, c.schedule.ranks[rank]) << c.where() << ": the schedule's order is kept";
        }
        ASSERT_EQ(sent, received) << c.where();
        std::size_t moved = 0, needed = 0;
        for (auto& [channel, values] : sent) {
            moved += values.size();
            std::sort(values.begin(), values.end());
            ASSERT_EQ(std::adjacent_find(values.begin(), values.end()), values.end()) << c.where() << ": sent twice";
        }
        for (int chunk = 0; chunk + 1 < c.chunks(); ++chunk)
            if (c.sender(chunk + 1, false) == chunk &&
                c.info->stage_of(chunk, c.shape.stages) != c.info->stage_of(chunk + 1, c.shape.stages))
                needed += 2 * c.shape.microbatches / c.info->directions;
        ASSERT_EQ(moved, needed) << c.where();
    });
}

TEST(Exchange, NeverStandsStill) {
    for_every_case([](const Case& c) {
        const auto faults = c.faults();
        ASSERT_TRUE(faults.empty()) << c.where() << "\n" << to_text(faults[0]) << "\n" << to_text(c.program);
    });
}

// When a program ends by the clock, links free: an exchange begins when the peers of all its transfers have posted, a transfer is done
// when the exchanges at both its ends have begun. Every end's times are looked up until nothing new is known.
double makespan(const Case& c, const StepTimes& times) {
    using End = std::tuple<int, int, bool, int, int, bool>;
    const int stages = c.shape.stages;
    std::map<End, double> posted, begun;
    std::vector<std::size_t> at(stages, 0);
    std::vector<double> now(stages, 0);
    const auto end = [](const TransferStep& t, bool send) {
        return End(int(t.from_stage), int(t.to_stage), t.gradient, int(t.chunk), int(t.microbatch), send);
    };
    const auto known = [](const std::map<End, double>& ends, const End& e) {
        const auto found = ends.find(e);
        return found == ends.end() ? -1.0 : found->second;
    };
    const auto done = [&](const TransferStep& t) {
        const double a = known(begun, end(t, true)), b = known(begun, end(t, false));
        return a < 0 || b < 0 ? -1.0 : std::max(a, b);
    };
    bool moved = true;
    // Latest of a time over an exchange's transfers; -1 where one is not known.
    const auto latest = [](const std::vector<TransferStep>& transfers, auto time) {
        double most = 0;
        for (const TransferStep& t : transfers) {
            const double one = time(t);
            if (one < 0) return -1.0;
            most = std::max(most, one);
        }
        return most;
    };
    const auto post = [&](const std::vector<TransferStep>& transfers, double time) {
        for (const TransferStep& t : transfers) moved = posted.try_emplace(end(t, t.send), time).second || moved;
        const double start = latest(transfers, [&](const TransferStep& t) {
            const double peer = known(posted, end(t, !t.send));
            return peer < 0 ? peer : std::max(peer, known(posted, end(t, t.send)));
        });
        if (start < 0) return;
        for (const TransferStep& t : transfers) moved = begun.try_emplace(end(t, t.send), start).second || moved;
    };
    const auto input = [&](int rank, const ScheduleStep& s) -> double {
        const bool gradient = s.kind != StepKind::forward;
        const int sender = c.sender(s.chunk, gradient);
        if (s.kind == StepKind::weight || sender < 0) return 0;
        const int from = c.info->stage_of(sender, stages);
        if (from == rank) return 0;
        return done({std::int16_t(from), std::int16_t(rank), gradient, std::int16_t(sender), s.microbatch, false});
    };
    std::vector<std::vector<const ProgramStep*>> left_behind(stages); // overlapped: posted, not yet begun
    while (moved) {
        moved = false;
        for (int rank = 0; rank < stages; ++rank) {
            for (const ProgramStep* action : left_behind[rank]) post(action->transfers, 0);
            while (at[rank] < c.program[rank].size()) {
                const ProgramStep& action = c.program[rank][at[rank]];
                if (action.is_exchange) {
                    post(action.transfers, now[rank]);
                    const double over = latest(action.transfers, done);
                    if (!c.overlap && over < 0) break;
                    if (c.overlap)
                        left_behind[rank].push_back(&action);
                    else
                        now[rank] = std::max(now[rank], over);
                } else {
                    const std::size_t count = action.step.joined ? 2 : 1;
                    double ready = now[rank], length = 0;
                    for (std::size_t i = at[rank]; i < at[rank] + count; ++i) {
                        const double one = input(rank, c.program[rank][i].step);
                        ready = one < 0 || ready < 0 ? -1 : std::max(ready, one);
                        length += times.of(c.program[rank][i].step.kind);
                    }
                    if (ready < 0) break;
                    now[rank] = ready + length;
                    at[rank] += count - 1;
                }
                ++at[rank];
                moved = true;
            }
            std::erase_if(left_behind[rank], [&](const ProgramStep* action) { return latest(action->transfers, done) >= 0; });
        }
    }
    for (int rank = 0; rank < stages; ++rank) EXPECT_EQ(at[rank], c.program[rank].size()) << c.where();
    return *std::max_element(now.begin(), now.end());
}

// Free links must not change a schedule's time. One exception is real: where a blocking rank of an interleaved schedule is in the middle
// of a backward step when a value is made for it, the sender waits (Megatron overlaps these transfers unless told not to).
TEST(Exchange, CostsNoTimeOnFreeLinks) {
    for (const ScheduleInfo& info : schedules())
        for (int p : {2, 3, 4, 7, 8})
            for (bool overlap : {true, false}) {
                ScheduleShape shape{.stages = p, .microbatches = 4 * p};
                while (!info.check(shape).empty() && shape.chunks_per_stage < 4) ++shape.chunks_per_stage;
                if (!info.check(shape).empty()) continue;
                const Case c = make_case(info, shape, overlap);
                const double ideal = dry_run(c.schedule, info.stage_of, c.chunks(), shape.microbatches, {}, 1, info.directions).makespan;
                const bool may_wait = !overlap && !info.splits_backward && shape.chunks_per_stage > 1 && p % 3 == 2;
                EXPECT_LE(makespan(c, {}), ideal * (may_wait ? 1.25 : 1) + 1e-9) << c.where();
            }
}

TEST(Exchange, HasAtMostFourTransfersOnDifferentChannels) {
    for_every_case([](const Case& c) {
        for (const auto& steps : c.program)
            for (const ProgramStep& action : steps) {
                ASSERT_LE(action.transfers.size(), 4u) << c.where();
                std::map<Channel, int> on;
                for (const TransferStep& t : action.transfers)
                    ASSERT_EQ(++on[Channel(t.from_stage, t.to_stage, t.gradient)], 1) << c.where();
            }
    });
}

TEST(Exchange, GroupsAsMegatronDoes) {
    const ScheduleInfo& info = schedule_named("1f1b");
    EXPECT_EQ(to_text(make_case(info, {.stages = 2, .microbatches = 3}, false).program),
              "0: F0 {F0>1} F1 {F1>1 B0<1} B0 F2 {F2>1 B1<1} B1 {B2<1} B2\n"
              "1: {F0<0} F0 B0 {B0>0 F1<0} F1 B1 {B1>0 F2<0} F2 B2 {B2>0}\n");
    EXPECT_EQ(to_text(make_case(info, {.stages = 2, .microbatches = 2}, true).program), "0: F0 {F0>1} {B0<1} F1 {F1>1} {B1<1} B0 B1\n"
                                                                                        "1: {F0<0} F0 {F1<0} B0 {B0>0} F1 B1 {B1>0}\n");
}

TEST(Exchange, BetweenChunksOfOneRankMovesNothing) {
    const Case c = make_case(schedule_named("zb-v"), {.stages = 1, .chunks_per_stage = 2, .microbatches = 3}, false);
    for (const ProgramStep& action : c.program[0]) EXPECT_FALSE(action.is_exchange);
}

// The textbook standstill: both send first and receive afterwards.
TEST(Rendezvous, NamesWhoWaitsForWhom) {
    const TransferStep up{0, 1, false, 0, 0, true}, down{1, 0, false, 1, 0, true};
    const auto other = [](TransferStep t) {
        t.send = !t.send;
        return t;
    };
    const PipelineProgram program = {
        {{false, {StepKind::forward, 0, 0}, {}}, {true, {}, {up}}, {true, {}, {other(down)}}, {false, {StepKind::forward, 2, 0}, {}}},
        {{true, {}, {down}}, {true, {}, {other(up)}}, {false, {StepKind::forward, 1, 0}, {}}},
    };
    const auto faults = rendezvous(
        program, [](int chunk, int stages) { return chunk % stages; }, 3, false);
    std::string text;
    for (const RendezvousFault& fault : faults) text += to_text(fault) + "\n";
    EXPECT_EQ(text, "rank 1, action 0: sends the activation of chunk 1, microbatch 0 to rank 0 before it is made\n"
                    "rank 0, action 1: waits for rank 1 to receive the activation of chunk 0, microbatch 0\n"
                    "rank 1, action 0: waits for rank 0 to receive the activation of chunk 1, microbatch 0\n");
}

// Which programs the mutations are made to: small ones of every schedule.
template <class Visit> void for_small_cases(Visit visit) {
    for (const ScheduleInfo& info : schedules())
        for (bool overlap : {false, true}) {
            ScheduleShape shape{.stages = info.directions > 1 ? 4 : 3, .microbatches = info.directions > 1 ? 8 : 6};
            while (!info.check(shape).empty()) ++shape.chunks_per_stage;
            visit(make_case(info, shape, overlap));
        }
}

TEST(Rendezvous, FindsADroppedExchangeOrTransfer) {
    int mutations = 0;
    for_small_cases([&](const Case& good) {
        for (std::size_t rank = 0; rank < good.program.size(); ++rank)
            for (std::size_t i = 0; i < good.program[rank].size(); ++i) {
                if (!good.program[rank][i].is_exchange) continue;
                Case bad = good;
                bad.program[rank].erase(bad.program[rank].begin() + std::ptrdiff_t(i));
                EXPECT_FALSE(bad.faults().empty()) << good.where() << " rank " << rank << " without exchange " << i;
                for (std::size_t t = 0; t < good.program[rank][i].transfers.size(); ++t, ++mutations) {
                    bad = good;
                    auto& transfers = bad.program[rank][i].transfers;
                    transfers.erase(transfers.begin() + std::ptrdiff_t(t));
                    EXPECT_FALSE(bad.faults().empty()) << good.where() << " rank " << rank << " exchange " << i << " without " << t;
                }
            }
    });
    EXPECT_GT(mutations, 500);
}

// Is this program right on its own terms? Each value received before its step and sent behind it, channels in one order at both ends.
bool keeps_the_rules(const Case& c) {
    std::map<Channel, std::vector<std::pair<int, int>>> sent, received;
    for (int rank = 0; rank < c.shape.stages; ++rank) {
        std::map<std::tuple<bool, int, int>, bool> made, here;
        for (const ProgramStep& action : c.program[rank]) {
            for (const TransferStep& t : action.transfers) {
                (t.send ? sent : received)[{t.from_stage, t.to_stage, t.gradient}].push_back({t.chunk, t.microbatch});
                if (t.send && !made[{t.gradient, t.chunk, t.microbatch}]) return false;
                if (!t.send) here[{t.gradient, t.chunk, t.microbatch}] = true;
            }
            const ScheduleStep& s = action.step;
            if (action.is_exchange || s.kind == StepKind::weight) continue;
            const bool gradient = s.kind != StepKind::forward;
            const int sender = c.sender(s.chunk, gradient);
            const bool from_elsewhere = sender >= 0 && c.info->stage_of(sender, c.shape.stages) != rank;
            if (from_elsewhere && !here[{gradient, sender, s.microbatch}]) return false;
            made[{gradient, s.chunk, s.microbatch}] = true;
        }
    }
    return sent == received;
}

TEST(Rendezvous, FindsTwoExchangesSwapped) {
    int found = 0, harmless = 0;
    for_small_cases([&](const Case& good) {
        ASSERT_TRUE(keeps_the_rules(good));
        for (std::size_t rank = 0; rank < good.program.size(); ++rank)
            for (std::size_t i = 0; i < good.program[rank].size(); ++i)
                for (std::size_t j = i + 1; j < std::min(good.program[rank].size(), i + 12); ++j) {
                    if (!good.program[rank][i].is_exchange || !good.program[rank][j].is_exchange) continue;
                    Case bad = good;
                    std::swap(bad.program[rank][i], bad.program[rank][j]);
                    const bool said = !bad.faults().empty();
                    if (!keeps_the_rules(bad)) {
                        ++found;
                        EXPECT_TRUE(said) << good.where() << " rank " << rank << ": " << i << " and " << j << "\n" << to_text(bad.program);
                    } else if (!said) {
                        ++harmless; // two receives posted in another order, both in time: still a program that runs
                        EXPECT_GT(makespan(bad, {}), 0);
                    }
                }
    });
    EXPECT_GT(found, 1000);
    EXPECT_LT(harmless, found);
}

// A schedule that uses a later value first still runs: the channel's earlier value comes along.
TEST(Exchange, DeliversInSendingOrderWhateverTheOrderOfUse) {
    const auto stage_of = [](int chunk, int) { return chunk; };
    const auto step = [](StepKind kind, int chunk, int microbatch) { return ScheduleStep{kind, std::int16_t(chunk), microbatch}; };
    constexpr auto F = StepKind::forward, B = StepKind::backward;
    Schedule schedule;
    schedule.ranks = {{step(F, 0, 0), step(F, 0, 1), step(B, 0, 1), step(B, 0, 0)},
                      {step(F, 1, 1), step(B, 1, 1), step(F, 1, 0), step(B, 1, 0)}};
    for (bool overlap : {false, true}) {
        const PipelineProgram program = insert_exchanges(schedule, stage_of, 2, 2, overlap);
        EXPECT_TRUE(rendezvous(program, stage_of, 2, overlap).empty()) << to_text(program);
    }
}

TEST(Exchange, IsLinearInMicrobatches) {
    const ScheduleInfo& info = schedule_named("zb-v");
    const ScheduleShape shape{16, 2, 2000};
    const Schedule schedule = info.make(shape);
    const std::clock_t begin = std::clock();
    const PipelineProgram program = insert_exchanges(schedule, info.stage_of, 16, 32, false);
    EXPECT_LT(double(std::clock() - begin) / CLOCKS_PER_SEC, 1.0); // 0.03 in a release build on an idle core
    EXPECT_EQ(rendezvous(program, info.stage_of, 32, false).size(), 0u);
}

} // namespace
} // namespace orrery::test
