// Blocking exchanges of interleaved schedules: do ranks go in one rhythm, whatever a backward step takes?
#include "sim/plan/passes/exchange_lockstep.hpp"
#include "sim/plan/passes/exchange_order.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <tuple>

namespace orrery {
namespace {

// End of the last step where forward and backward steps take this long, transfers nothing, and an exchange waits for all it meets.
std::int64_t makespan(const PipelineProgram& program, std::int64_t forward, std::int64_t backward) {
    using Key = std::tuple<int, int, bool, int, int>;
    std::map<Key, std::int64_t> posted;
    std::vector<std::size_t> at(program.size(), 0);
    std::vector<std::int64_t> now(program.size(), 0);
    std::vector<bool> has_posted(program.size(), false);
    const auto key = [](const TransferStep& t) { return Key{t.from_stage, t.to_stage, t.gradient, t.chunk, t.microbatch}; };
    std::map<Key, int> ends;
    for (bool moved = true; moved;) {
        moved = false;
        for (std::size_t r = 0; r < program.size(); ++r)
            for (; at[r] < program[r].size(); ++at[r], has_posted[r] = false, moved = true) {
                const ProgramStep& a = program[r][at[r]];
                if (!a.is_exchange) {
                    now[r] += a.step.kind == StepKind::forward ? forward : backward;
                    continue;
                }
                if (!has_posted[r])
                    for (const TransferStep& t : a.transfers) posted[key(t)] = std::max(posted[key(t)], now[r]), ++ends[key(t)];
                has_posted[r] = true;
                if (std::any_of(a.transfers.begin(), a.transfers.end(), [&](const TransferStep& t) { return ends[key(t)] < 2; })) break;
                for (const TransferStep& t : a.transfers) now[r] = std::max(now[r], posted[key(t)]);
            }
    }
    for (std::size_t r = 0; r < program.size(); ++r) EXPECT_EQ(at[r], program[r].size()) << "rank " << r << " stands still";
    return *std::max_element(now.begin(), now.end());
}

TEST(Lockstep, BubbleIsThePapersWhateverABackwardStepTakes) {
    const ScheduleInfo& info = *find_schedule("interleaved-1f1b");
    for (int p : {2, 4, 8})
        for (int v : {2, 3})
            for (int m : {p, 2 * p, 4 * p})
                for (std::int64_t backward : {1, 2, 3, 4}) {
                    ScheduleShape shape;
                    shape.stages = p;
                    shape.chunks_per_stage = v;
                    shape.microbatches = m;
                    const auto program = insert_exchanges(info.make(shape), info.stage_of, p, p * v, false);
                    // Narayanan et al.: (p - 1) chunk steps of each kind beyond m v of each.
                    const std::int64_t ideal = (m * v + p - 1) * (1 + backward);
                    EXPECT_EQ(makespan(program, 1, backward), ideal) << "p " << p << " v " << v << " m " << m << " backward " << backward;
                }
}

TEST(Lockstep, GroupsOfMoreMicrobatchesKeepTheBubble) {
    const ScheduleInfo& info = *find_schedule("interleaved-1f1b");
    for (int p : {2, 4})
        for (int v : {2, 3})
            for (int group : {p, p + 1, 2 * p})
                for (int m : {2 * group, 2 * group + p})
                    for (std::int64_t backward : {1, 2, 3}) {
                        ScheduleShape shape;
                        shape.stages = p;
                        shape.chunks_per_stage = v;
                        shape.microbatches = m;
                        shape.group = group;
                        const auto program = insert_exchanges(info.make(shape), info.stage_of, p, p * v, false);
                        EXPECT_EQ(makespan(program, 1, backward), (m * v + p - 1) * (1 + backward))
                            << "p " << p << " v " << v << " m " << m << " group " << group << " backward " << backward;
                    }
}

TEST(Lockstep, LeavesSchedulesWithSplitBackwardAlone) {
    const ScheduleInfo& info = *find_schedule("zb-v");
    ScheduleShape shape;
    shape.stages = 4;
    shape.chunks_per_stage = 2;
    shape.microbatches = 8;
    EXPECT_FALSE(lockstep_exchanges(info.make(shape), info.stage_of, 4, 8));
}

} // namespace
} // namespace orrery
