// Is every schedule of the catalog a schedule? Each step once, where its chunk lives, in an order that can run.
#include "tests/unit/schedules/dry_run.hpp"

#include <gtest/gtest.h>

#include <ctime>
#include <filesystem>
#include <set>

namespace orrery::test {
namespace {

TEST(Catalog, HoldsEveryFileOfTheFolderUnderItsOwnName) {
    std::set<std::string> files, names;
    for (const auto& entry : std::filesystem::directory_iterator(std::string(ORRERY_SOURCE_DIR) + "/sim/schedules"))
        if (entry.path().extension() == ".cpp") {
            std::string stem = entry.path().stem().string();
            std::replace(stem.begin(), stem.end(), '_', '-');
            files.insert(stem);
        }
    std::string before;
    for (const ScheduleInfo& info : schedules()) {
        EXPECT_LT(before, info.name) << "sorted by name";
        before = info.name;
        names.insert(info.name);
        EXPECT_EQ(find_schedule(info.name), &info);
        for (const char* text : {info.title, info.source, info.summary}) EXPECT_GT(std::string(text).size(), 3u) << info.name;
    }
    EXPECT_EQ(files, names);
    for (const char* name : {"none", "gpipe", "1f1b", "interleaved-1f1b", "zb-h1", "zb-h2", "zb-v", "dualpipe", "dualpipe-v"})
        EXPECT_TRUE(names.count(name)) << name;
    EXPECT_EQ(find_schedule("1F1B"), nullptr);
}

// "" or what is wrong: a step missing, twice, on the wrong rank or out of order.
std::string faults(const ScheduleInfo& info, const ScheduleShape& shape, const Schedule& schedule) {
    const int chunks = shape.stages * shape.chunks_per_stage * info.directions;
    if (schedule.ranks.size() != std::size_t(shape.stages)) return "number of ranks";
    std::vector<int> done(std::size_t(chunks * shape.microbatches), 0); // 1: forward done, 2: input, 3: all
    const auto own = [&](int chunk, std::int64_t microbatch) {          // a direction's chunks run its own share of the microbatches
        return chunk / (chunks / info.directions) == microbatch / (shape.microbatches / info.directions);
    };
    for (int rank = 0; rank < shape.stages; ++rank) {
        const auto& steps = schedule.ranks[rank];
        for (std::size_t i = 0; i < steps.size(); ++i) {
            const ScheduleStep& step = steps[i];
            if (step.joined && (i + 1 == steps.size() || steps[i + 1].joined)) return "joined with nothing, or with too much";
            if (step.joined && (step.kind != StepKind::forward || steps[i + 1].kind != StepKind::backward)) return "joined with its like";
            if (step.joined && step.chunk == steps[i + 1].chunk && step.microbatch == steps[i + 1].microbatch) return "joined with itself";
            if (step.chunk < 0 || step.chunk >= chunks) return "no such chunk";
            if (step.microbatch < 0 || step.microbatch >= shape.microbatches) return "no such microbatch";
            if (!own(step.chunk, step.microbatch)) return "another direction's microbatch";
            if (info.stage_of(step.chunk, shape.stages) != rank) return "chunk on the wrong rank";
            int& state = done[std::size_t(step.microbatch) * chunks + step.chunk];
            const bool split = step.kind == StepKind::input || step.kind == StepKind::weight;
            if (split && !info.splits_backward) return "backward of the wrong kind";
            const int before = step.kind == StepKind::forward ? 0 : step.kind == StepKind::weight ? 2 : 1;
            if (state != before) return "step twice or too early";
            state = step.kind == StepKind::backward ? 3 : before + 1;
        }
    }
    for (std::size_t i = 0; i < done.size(); ++i)
        if (done[i] != 3 && own(int(i) % chunks, std::int64_t(i) / chunks)) return "a step is missing";
    return "";
}

TEST(Schedules, RunEachStepOnceOnItsRankAndNeverStandStill) {
    for (const ScheduleInfo& info : schedules()) {
        int accepted = 0;
        for (ScheduleShape shape : shapes())
            for (bool other : {false, true}) {
                shape.post_validation = shape.join = other;
                if (!info.check(shape).empty()) continue;
                ++accepted;
                const Schedule schedule = info.make(shape);
                const std::string where = std::string(info.name) + " p" + std::to_string(shape.stages) + " v" +
                                          std::to_string(shape.chunks_per_stage) + " m" + std::to_string(shape.microbatches);
                ASSERT_EQ(faults(info, shape, schedule), "") << where;
                const int chunks = shape.stages * shape.chunks_per_stage * info.directions;
                for (const StepTimes& times : {StepTimes{}, StepTimes{1, 2.5, 0.3, 0.7}})
                    ASSERT_TRUE(dry_run(schedule, info.stage_of, chunks, shape.microbatches, times, 1, info.directions).finished) << where;
            }
        EXPECT_GE(accepted, 30) << info.name;
    }
}

TEST(Schedules, SameShapeGivesTheSameOrder) {
    for (const ScheduleInfo& info : schedules()) {
        ScheduleShape shape{4, 1, 12, 1, 1.3, 0.8};
        while (!info.check(shape).empty() && shape.chunks_per_stage < 4) ++shape.chunks_per_stage;
        ASSERT_TRUE(info.check(shape).empty()) << info.name;
        EXPECT_EQ(to_text(info.make(shape)), to_text(info.make(shape))) << info.name;
    }
}

TEST(Schedules, PrintAsShortText) {
    EXPECT_EQ(to_text(schedule_named("1f1b").make({.stages = 2, .microbatches = 3})), "0: F0 F1 B0 F2 B1 B2\n1: F0 B0 F1 B1 F2 B2\n");
    EXPECT_EQ(to_text(schedule_named("gpipe").make({.stages = 2, .microbatches = 2})), "0: F0 F1 B0 B1\n1: F0 F1 B0 B1\n");
    EXPECT_EQ(to_text(schedule_named("none").make({.stages = 2, .microbatches = 2})), "0: F0 B0 F1 B1\n1: F0 B0 F1 B1\n");
    // A stage alone hides one microbatch's dispatch and combine under the next one's forward pass; two stages would wait for each other.
    EXPECT_EQ(to_text(schedule_named("none").make({.stages = 1, .microbatches = 3, .join = true})), "0: F0 (F1;B0) (F2;B1) B2\n");
    EXPECT_EQ(to_text(schedule_named("none").make({.stages = 1, .microbatches = 1, .join = true})), "0: F0 B0\n");
    EXPECT_EQ(to_text(schedule_named("none").make({.stages = 2, .microbatches = 1, .join = true})), "0: F0 B0\n1: F0 B0\n");
    EXPECT_EQ(to_text(schedule_named("zb-h1").make({.stages = 2, .microbatches = 2})), "0: F0 F1 I0 W0 I1 W1\n1: F0 I0 F1 I1 W0 W1\n");
    EXPECT_EQ(to_text(schedule_named("interleaved-1f1b").make({.stages = 2, .chunks_per_stage = 2, .microbatches = 2})),
              "0: F0.0 F0.1 F2.0 F2.1 B2.0 B2.1 B0.0 B0.1\n1: F1.0 F1.1 F3.0 B3.0 F3.1 B3.1 B1.0 B1.1\n");
}

// The table in a comment of Megatron's forward_backward_pipelining_with_interleaving: PP2 N3M5 with VP2.
TEST(Schedules, InterleavedGroupsAreMegatronsTable) {
    const Schedule made = schedule_named("interleaved-1f1b").make({.stages = 2, .chunks_per_stage = 2, .microbatches = 5, .group = 3});
    for (int rank = 0; rank < 2; ++rank) {
        std::vector<int> forward[2], backward[2]; // microbatches, model chunks
        for (const ScheduleStep& s : made.ranks[rank]) {
            auto& of = s.kind == StepKind::forward ? forward : backward;
            of[0].push_back(s.microbatch);
            of[1].push_back(s.kind == StepKind::forward ? s.chunk / 2 : 1 - s.chunk / 2);
        }
        for (const auto& of : {forward, backward}) {
            EXPECT_EQ(of[0], (std::vector<int>{0, 1, 2, 0, 1, 2, 3, 4, 3, 4})) << rank;
            EXPECT_EQ(of[1], (std::vector<int>{0, 0, 0, 1, 1, 1, 0, 0, 1, 1})) << rank;
        }
    }
}

TEST(Schedules, SayWhyAShapeCannotBeAndAWayOut) {
    const auto says = [](const char* name, ScheduleShape shape, const char* part) {
        std::string all;
        for (const ShapeProblem& problem : schedule_named(name).check(shape)) all += problem.what + "\n";
        EXPECT_NE(all.find(part), std::string::npos) << all;
    };
    says("zb-v", {.stages = 4, .chunks_per_stage = 1, .microbatches = 8}, "zb-v needs virtual_pipeline = 2, not 1");
    says("zb-h1", {.stages = 4, .chunks_per_stage = 2, .microbatches = 8}, "zb-h1 needs virtual_pipeline = 1, not 2");
    says("1f1b", {.stages = 4, .chunks_per_stage = 2, .microbatches = 8}, "interleaved-1f1b");
    says("interleaved-1f1b", {.stages = 4, .chunks_per_stage = 2, .microbatches = 7},
         "interleaved-1f1b needs microbatches to be a multiple of pipeline_parallel = 4, not 7");
    EXPECT_EQ(schedule_named("interleaved-1f1b").check({.stages = 4, .chunks_per_stage = 2, .microbatches = 7}).front().instead, 8);
    says("interleaved-1f1b", {.stages = 4, .chunks_per_stage = 1, .microbatches = 8}, "the schedule is 1f1b");
    const auto grouped = [](std::int64_t m, std::int64_t group) {
        return ScheduleShape{.stages = 4, .chunks_per_stage = 2, .microbatches = m, .group = group};
    };
    says("interleaved-1f1b", grouped(8, 3), "microbatch_group_size of at least pipeline_parallel = 4, not 3");
    says("interleaved-1f1b", grouped(8, 9), "at least microbatch_group_size = 9 microbatches, not 8");
    says("interleaved-1f1b", grouped(13, 5),
         "a last group that is whole or at least pipeline_parallel = 4, not the 3 that 13 microbatches");
    EXPECT_EQ(schedule_named("interleaved-1f1b").check(grouped(13, 5)).front().instead, 14);
    for (std::int64_t m : {5, 9, 10, 14, 15}) EXPECT_TRUE(schedule_named("interleaved-1f1b").check(grouped(m, 5)).empty()) << m;
    says("gpipe", {.stages = 4, .chunks_per_stage = 1, .microbatches = 0}, "microbatches from 1");
    says("gpipe", {.stages = 40000, .chunks_per_stage = 1, .microbatches = 1}, "pipeline_parallel from 1");
    EXPECT_TRUE(schedule_named("zb-v").check({.stages = 4, .chunks_per_stage = 2, .microbatches = 1}).empty());
    EXPECT_EQ(schedule_named("dualpipe").check({.stages = 3, .chunks_per_stage = 2, .microbatches = 5}).size(), 3u) << "all at once";
}

// 5,000 microbatches on 16 stages are ordinary: a hundred times the microbatches must not cost a thousand times the work.
TEST(Schedules, AreMadeInTimeLinearInMicrobatches) {
    for (const ScheduleInfo& info : schedules()) {
        ScheduleShape shape{16, 1, 4992, 1, 1.1, 0.9, 0.1};
        while (!info.check(shape).empty() && shape.chunks_per_stage < 4) ++shape.chunks_per_stage;
        const std::clock_t begin = std::clock();
        const Schedule schedule = info.make(shape);
        const double seconds = double(std::clock() - begin) / CLOCKS_PER_SEC;
        const auto forwards = std::count_if(schedule.ranks[0].begin(), schedule.ranks[0].end(),
                                            [](const ScheduleStep& step) { return step.kind == StepKind::forward; });
        EXPECT_EQ(forwards, 4992 * shape.chunks_per_stage) << info.name;
        EXPECT_LT(seconds, 0.3) << info.name; // 0.03 in a release build on an idle core
    }
}

} // namespace
} // namespace orrery::test
