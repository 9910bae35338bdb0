// Do the parts of a sweep make the whole, whoever is killed?
#include "sim/sweep/deal.hpp"
#include "sim/sweep/key.hpp"
#include "sim/sweep/merge.hpp"
#include "sim/sweep/shard.hpp"
#include "sim/sweep/store.hpp"

#include <gtest/gtest.h>

#include <csignal>
#include <filesystem>
#include <fstream>
#include <sys/stat.h>
#include <sys/wait.h>
#include <thread>
#include <unistd.h>

namespace orrery {
namespace {

struct Folder {
    std::filesystem::path path = std::filesystem::temp_directory_path() / ("orrery-shard-" + std::to_string(getpid()) +
                                                                           testing::UnitTest::GetInstance()->current_test_info()->name());
    Folder() { std::filesystem::create_directories(path); }
    ~Folder() { std::filesystem::remove_all(path); }
    std::string file(const std::string& name) const { return (path / name).string(); }
};

SweepDocument parts_document() {
    SweepResult r =
        parse_sweep(R"({"name": "parts", "model": {"layers": 4, "hidden_size": 1024, "attention_heads": 16, "vocab_size": 32000},
        "cluster": {"preset": "dgx-a100-40gb"}, "training": {"global_batch_size": 64, "micro_batch_size": 1, "sequence_length": 1024}, "strategy": {},
        "sweep": {"/strategy/tensor_parallel": [1, 2, 3, 4, 8], "/strategy/pipeline_parallel": [1, 2, 4], "/training/micro_batch_size": [1, 2, 4, 8]}})");
    EXPECT_TRUE(r.problems.empty()) << to_text(r.problems);
    return std::move(r.document.value());
}

TEST(Shard, ReadsItsTextAndSlurmsVariables) {
    const auto none = [](const char*) -> const char* { return nullptr; };
    const Shard s = parse_shard("3/8", none);
    EXPECT_EQ(s.index, 3);
    EXPECT_EQ(s.count, 8);
    EXPECT_TRUE(parse_shard("1/1", none).whole());
    for (const char* wrong : {"0/8", "9/8", "3", "/8", "3/", "a/b", "3/8x", "-1/8", "", "3/0", "1/99999999999999999999"})
        EXPECT_THROW(parse_shard(wrong, none), std::runtime_error) << wrong;
    std::map<std::string, std::string> variables{
        {"SLURM_ARRAY_TASK_ID", "14"}, {"SLURM_ARRAY_TASK_COUNT", "4"}, {"SLURM_ARRAY_TASK_MIN", "10"}, {"SLURM_ARRAY_TASK_STEP", "2"}};
    const auto slurm = [&](const char* name) { return variables.contains(name) ? variables.at(name).c_str() : nullptr; };
    EXPECT_EQ(parse_shard("slurm", slurm).index, 3) << "tasks 10, 12, 14, 16";
    EXPECT_EQ(parse_shard("slurm", slurm).count, 4);
    variables["SLURM_ARRAY_TASK_ID"] = "13";
    EXPECT_THROW(parse_shard("slurm", slurm), std::runtime_error) << "no task of that array";
    variables.clear();
    try {
        parse_shard("slurm", slurm);
        FAIL() << "there is no array";
    } catch (const std::runtime_error& e) { EXPECT_NE(std::string(e.what()).find("--array"), std::string::npos) << e.what(); }
}

TEST(Shard, EachPointIsInOnePartAndPartsAreAlike) {
    const SweepDocument d = parts_document();
    for (const std::int64_t n : {2, 8}) {
        std::vector<int> points(static_cast<std::size_t>(n));
        for (std::int64_t i = 0; i < d.size(); ++i) {
            int in = 0;
            for (std::int64_t k = 1; k <= n; ++k)
                if (Shard{k, n}.has(deal_hash(d.point(i)))) ++in, ++points[k - 1];
            EXPECT_EQ(in, 1);
        }
        for (const int p : points) EXPECT_GT(p, 0) << "60 points in " << n << " parts";
    }
}

// Eight machines, two of which are killed while they compute; one of them never comes back.
TEST(Shard, EightPartsMakeTheCsvOfOneMachine) {
    const Folder folder;
    const SweepDocument d = parts_document();
    const std::string whole = to_csv(d, run_sweep(d, folder.file("whole.sqlite")));
    std::vector<std::string> files;
    std::int64_t of_parts = 0;
    for (int k = 1; k <= 8; ++k) {
        files.push_back(folder.file(std::to_string(k) + ".sqlite"));
        SweepRunOptions options;
        options.jobs = 1;
        options.shard = {k, 8};
        if (k == 3 || k == 5) {
            const pid_t child = fork();
            if (child == 0) {
                int seen = 0;
                options.found = [&](const SweepRow&) {
                    if (++seen == 3) kill(getpid(), SIGKILL);
                };
                run_sweep(d, files.back(), options);
                _exit(1);
            }
            int status = 0;
            waitpid(child, &status, 0);
            ASSERT_TRUE(WIFSIGNALED(status));
            if (k == 5) continue;
            options.found = {};
        }
        const SweepRun run = run_sweep(d, files.back(), options);
        of_parts += static_cast<std::int64_t>(run.rows.size());
        for (const SweepRow& r : run.rows) EXPECT_TRUE(options.shard.has(deal_hash(d.point(r.index)))) << r.label;
        EXPECT_LT(run.rows.size(), 20u);
    }
    const Merged merged = merge_stores(files, folder.file("all.sqlite"));
    EXPECT_EQ(merged.differ, 0);
    EXPECT_GE(merged.added, of_parts);
    EXPECT_LT(merged.added, d.size()) << "the killed part lacks some";
    EXPECT_EQ(merge_stores(files, folder.file("all.sqlite")).added, 0) << "again: nothing is new";
    const SweepRun all = run_sweep(d, folder.file("all.sqlite"));
    EXPECT_EQ(all.reused, merged.added) << "what was computed is not computed again";
    EXPECT_EQ(to_csv(d, all), whole);
}

TEST(Merge, SaysWhatItCannotReadAndWhatDiffers) {
    const Folder folder;
    SweepRow row;
    row.hash = "0000000000000001", row.label = "a=1", row.status = PointStatus::fits, row.step_time_s = 1;
    SweepStore(folder.file("a.sqlite")).commit(std::span(&row, 1));
    row.step_time_s = 2;
    SweepStore(folder.file("b.sqlite")).commit(std::span(&row, 1));
    const Merged m = merge_stores({folder.file("a.sqlite"), folder.file("b.sqlite")}, folder.file("all.sqlite"));
    EXPECT_EQ(m.differ, 1);
    EXPECT_EQ(m.first_that_differs.at(0), "a=1");
    EXPECT_EQ(SweepStore(folder.file("all.sqlite")).rows().at(row.hash).step_time_s, 1) << "the first one stays";
    EXPECT_THROW(merge_stores({folder.file("a.sqlite"), folder.file("none.sqlite")}, folder.file("c.sqlite")), std::runtime_error);
    EXPECT_FALSE(std::filesystem::exists(folder.file("c.sqlite"))) << "nothing is written where a file is missing";
}

TEST(Merge, LeavesItsInputsAsTheyAre) {
    const Folder folder;
    std::ofstream(folder.file("killed.sqlite")); // before its first point
    EXPECT_EQ(merge_stores({folder.file("killed.sqlite")}, folder.file("all.sqlite")).read, 0);
    EXPECT_EQ(std::filesystem::file_size(folder.file("killed.sqlite")), 0U);
    ASSERT_EQ(mkfifo(folder.file("pipe").c_str(), 0600), 0);
    for (const std::string& other : {folder.file("pipe"), folder.file("."), std::string("/dev/zero")}) try {
            merge_stores({other}, folder.file("none.sqlite"));
            ADD_FAILURE() << other;
        } catch (const std::runtime_error& e) { EXPECT_NE(std::string(e.what()).find(other + " is a "), std::string::npos) << e.what(); }
    EXPECT_FALSE(std::filesystem::exists(folder.file("none.sqlite")));
}

TEST(Deal, RowsTravelWithEveryBit) {
    const SweepDocument d = parts_document();
    for (std::int64_t i = 0; i < d.size(); i += 7) {
        const SweepRow row = evaluate(d.point(i), i, "");
        EXPECT_EQ(row_of(bytes_of(row)), row);
    }
}

} // namespace
} // namespace orrery
