// Does a sweep keep every result, survive kill -9, and rank what fits?
#include "sim/report/reuse.hpp"
#include "sim/sweep/sweep.hpp"

#include "sim/sweep/deal.hpp"
#include "sim/sweep/store.hpp"
#include "topology/indexed.hpp"

#include <fmt/format.h>
#include <gtest/gtest.h>
#include <sqlite3.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <csignal>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <sys/wait.h>
#include <thread>
#include <unistd.h>

namespace orrery {
namespace {

struct TemporaryFolder {
    std::filesystem::path path =
        std::filesystem::temp_directory_path() / ("orrery-sweep-" + std::to_string(getpid()) + "-" + std::to_string(count()));
    TemporaryFolder() { std::filesystem::create_directories(path); }
    ~TemporaryFolder() { std::filesystem::remove_all(path); }
    std::string file(const std::string& name) const { return (path / name).string(); }

  private:
    static long count() { return std::chrono::steady_clock::now().time_since_epoch().count(); }
};

// Microbatch sizes and tensor widths of a small GPT on one node; 3 does not divide anything, and some of it cannot fit.
SweepDocument document(const std::string& batches = "[1, 2, 4, 8]") {
    SweepResult r =
        parse_sweep(R"({"name": "small sweep", "model": {"layers": 4, "hidden_size": 1024, "attention_heads": 16, "vocab_size": 32000},
        "cluster": {"preset": "dgx-a100-40gb"}, "training": {"global_batch_size": 64, "micro_batch_size": 1, "sequence_length": 1024}, "strategy": {},
        "sweep": {"/strategy/tensor_parallel": [1, 2, 3, 4, 8], "/strategy/pipeline_parallel": [1, 2, 4], "/training/micro_batch_size": )" +
                    batches + R"(},
        "constraints": ["/strategy/tensor_parallel * /strategy/pipeline_parallel <= 8"]})");
    EXPECT_TRUE(r.problems.empty()) << to_text(r.problems);
    return std::move(r.document.value());
}

TEST(Sweep, KeepsEveryCombinationWithItsReason) {
    const TemporaryFolder folder;
    const SweepDocument d = document();
    const SweepRun run = run_sweep(d, folder.file("a.sqlite"));
    ASSERT_EQ(run.rows.size(), 60u);
    int fits = 0, impossible = 0;
    for (std::size_t i = 0; i < run.rows.size(); ++i) {
        const SweepRow& r = run.rows[i];
        EXPECT_EQ(r.index, static_cast<std::int64_t>(i));
        EXPECT_EQ(r.status == PointStatus::fits, r.reason.empty()) << r.label;
        EXPECT_NE(r.status, PointStatus::failed) << r.label << ": " << r.reason;
        EXPECT_EQ(r.step_time_s > 0, r.status == PointStatus::fits) << r.label;
        fits += r.status == PointStatus::fits;
        impossible += r.status == PointStatus::impossible;
    }
    EXPECT_GT(fits, 10);
    EXPECT_GE(impossible, 12) << "tensor_parallel = 3 divides nothing";
}

TEST(Sweep, StopsWhenToldAndKeepsWhatItHas) {
    const TemporaryFolder folder;
    const std::string file = folder.file("a.sqlite");
    std::size_t seen = 0;
    SweepRunOptions options;
    options.jobs = 1;
    options.found = [&](const SweepRow& row) { seen += !row.hash.empty(); };
    options.go_on = [&] { return seen < 7; };
    const SweepRun part = run_sweep(document(), file, options);
    EXPECT_TRUE(part.stopped);
    EXPECT_EQ(seen, 7u);
    EXPECT_TRUE(part.rows[7].hash.empty());
    EXPECT_NE(part.rows[7].reason.find("stopped"), std::string::npos);
    const SweepRun rest = run_sweep(document(), file);
    EXPECT_EQ(rest.reused, 7);
    EXPECT_FALSE(rest.stopped);
}

TEST(Sweep, GoesOnWhereItWas) {
    const TemporaryFolder folder;
    const std::string file = folder.file("a.sqlite");
    const SweepRun first = run_sweep(document("[1, 2]"), file);
    EXPECT_EQ(first.reused, 0);
    const SweepRun more = run_sweep(document("[1, 2, 4]"), file);
    EXPECT_EQ(more.reused, 30) << "a value more computes only what is new";
    const SweepRun again = run_sweep(document("[1, 2, 4]"), file);
    EXPECT_EQ(again.reused, 45);
    EXPECT_EQ(again.rows, more.rows);
}

TEST(Sweep, DoesNotDependOnTheNumberOfThreads) {
    const TemporaryFolder folder;
    SweepRunOptions one, three;
    one.jobs = 1;
    three.jobs = 3;
    EXPECT_EQ(run_sweep(document(), folder.file("1.sqlite"), one).rows, run_sweep(document(), folder.file("3.sqlite"), three).rows);
}

// Points that differ in links, devices or disturbances have one plan, where its schedule looks at none of them: what comes of it is what
// each gives alone.
TEST(Sweep, SharesPlansAndChangesNothing) {
    SweepResult r =
        parse_sweep(R"({"name": "networks", "model": {"layers": 4, "hidden_size": 1024, "attention_heads": 16, "vocab_size": 32000},
        "cluster": {"preset": "dgx-a100-40gb", "nodes": 2}, "training": {"global_batch_size": 64, "micro_batch_size": 1, "sequence_length": 1024}, "strategy": {"pipeline_parallel": 2},
        "sweep": {"/cluster/inter_node/gbit_per_s": [50, 200], "/cluster/device": ["a100-sxm-40gb", "a100-sxm-80gb"], "/strategy/schedule": ["1f1b", "zb-h1", "gpipe"],
                  "/perturb": [[], [{"slow": 1.5, "rank": 0}]], "/cluster/nodes": [1, 2]}})");
    ASSERT_TRUE(r.problems.empty()) << to_text(r.problems);
    const SweepDocument& d = *r.document;
    const SweepOrder order = evaluation_order(d);
    EXPECT_EQ(order.alike, 8);
    std::vector<std::int64_t> sorted = order.points;
    std::ranges::sort(sorted);
    for (std::int64_t i = 0; i < d.size(); ++i) EXPECT_EQ(sorted[i], i);
    ReadyPlans kept;
    int fits = 0;
    for (std::int64_t i : order.points) {
        const SweepRow alone = evaluate(d.point(i), i, ""), shared = evaluate(d.point(i), i, "", &kept);
        EXPECT_EQ(alone, shared) << alone.label;
        EXPECT_NE(alone.status, PointStatus::failed) << alone.reason;
        fits += alone.status == PointStatus::fits;
    }
    EXPECT_GT(fits, 20);
    EXPECT_EQ(d.size() - kept.reused(), 6); // on either number of nodes each of three schedules
    const TemporaryFolder folder;
    SweepRunOptions three;
    three.jobs = 3;
    const SweepRun run = run_sweep(d, folder.file("a.sqlite"), three);
    for (std::int64_t i = 0; i < d.size(); ++i) EXPECT_EQ(run.rows[i], evaluate(d.point(i), i, ""));
}

// Plans that do not fit have no dependencies; a device with more memory asks for them. Orders of ranks share a plan.
TEST(Sweep, SharesPlansThatFitSomewhere) {
    SweepResult r =
        parse_sweep(R"({"name": "memory", "model": {"layers": 4, "hidden_size": 2048, "attention_heads": 16, "vocab_size": 32000},
        "cluster": {"preset": "dgx-a100-40gb", "nodes": 2}, "training": {"global_batch_size": 32, "micro_batch_size": 1, "sequence_length": 1024}, "strategy": {"pipeline_parallel": 2},
        "sweep": {"/cluster/device/memory_gb": [3, 40], "/strategy/rank_order": ["tp-cp-ep-dp-pp", "pp-tp-cp-ep-dp"], "/cluster/inter_node/gbit_per_s": [25, 100]}})");
    ASSERT_TRUE(r.problems.empty()) << to_text(r.problems);
    const SweepDocument& d = *r.document;
    ReadyPlans kept, other(1, false);
    int fits = 0, does_not = 0;
    for (std::int64_t i = 0; i < d.size(); ++i) {
        const SweepRow alone = evaluate(d.point(i), i, "");
        EXPECT_EQ(alone, evaluate(d.point(i), i, "", &kept)) << alone.label;
        EXPECT_EQ(alone, evaluate(d.point(i), i, "", &other)) << alone.label;
        fits += alone.status == PointStatus::fits;
        does_not += alone.status == PointStatus::too_big;
    }
    EXPECT_EQ(fits, 4);
    EXPECT_EQ(does_not, 4);
    EXPECT_EQ(kept.reused(), 6);
}

// An order of ranks that brings a group onto one node makes its buffers smaller: of two orders with one plan, one alone may fit.
TEST(Sweep, SharesPlansThatFitInOneOrderOfRanks) {
    const auto orders = [](const std::string& memory, const std::string& first, const std::string& second) {
        return parse_sweep(R"({"model": {"layers": 4, "hidden_size": 2048, "attention_heads": 16, "vocab_size": 32000},
            "cluster": {"preset": "dgx-a100-40gb", "nodes": 2, "device": {"memory_gb": )" +
                           memory + R"(}}, "training": {"global_batch_size": 32, "micro_batch_size": 1, "sequence_length": 1024},
            "runtime": {"year": 2026}, "strategy": {"pipeline_parallel": 2}, "sweep": {"/strategy/rank_order": [")" +
                           first + "\", \"" + second + "\"]}}");
    };
    std::string near = "tp-cp-ep-dp-pp", far = "pp-tp-cp-ep-dp";
    SweepResult all = orders("40", near, far);
    ASSERT_TRUE(all.document.has_value()) << to_text(all.problems);
    const std::int64_t a = evaluate(all.document->point(0), 0, "").peak_bytes, b = evaluate(all.document->point(1), 1, "").peak_bytes;
    ASSERT_NE(a, b) << "the orders need the same memory";
    if (a > b) std::swap(near, far);
    const std::string between = std::to_string(static_cast<double>(a + b) / 2e9);
    for (const auto& [first, second] : {std::pair{near, far}, {far, near}}) {
        SweepResult r = orders(between, first, second);
        ReadyPlans kept;
        for (std::int64_t i = 0; i < 2; ++i) {
            const SweepRow alone = evaluate(r.document->point(i), i, "");
            EXPECT_EQ(alone.status, (i == 0 ? first : second) == near ? PointStatus::fits : PointStatus::too_big) << alone.reason;
            EXPECT_EQ(alone, evaluate(r.document->point(i), i, "", &kept)) << alone.label;
        }
    }
}

// A path in a scenario stands for what is in the file.
TEST(Sweep, ComputesAgainWhatAFileChanged) {
    const TemporaryFolder folder;
    const auto write = [&](const char* preset) { std::ofstream(folder.file("machine.json")) << R"({"preset": ")" << preset << "\"}"; };
    ParseOptions parsing;
    parsing.base_dir = folder.path.string();
    SweepResult r = parse_sweep(R"({"model": "gpt2-124m", "cluster": "machine.json", "strategy": {},
        "training": {"global_batch_size": 16, "micro_batch_size": 1, "sequence_length": 1024}, "sweep": {"/training/micro_batch_size": [1, 2]}})",
                                parsing);
    ASSERT_TRUE(r.document.has_value());
    write("dgx-a100-80gb");
    const SweepRun before = run_sweep(*r.document, folder.file("a.sqlite"));
    EXPECT_EQ(run_sweep(*r.document, folder.file("a.sqlite")).reused, 2);
    write("dgx-h100");
    const SweepRun after = run_sweep(*r.document, folder.file("a.sqlite"));
    EXPECT_EQ(after.reused, 0);
    EXPECT_LT(after.rows[0].step_time_s, before.rows[0].step_time_s);
    write("dgx-a100-80gb");
    EXPECT_EQ(run_sweep(*r.document, folder.file("a.sqlite")).rows, before.rows);
    // Another machine has the file elsewhere, and the same parts of the sweep.
    const TemporaryFolder elsewhere;
    std::filesystem::copy(folder.file("machine.json"), elsewhere.file("machine.json"));
    SweepPoint moved = r.document->point(0);
    moved.base_dir = elsewhere.path.string();
    EXPECT_EQ(point_hash(moved), point_hash(r.document->point(0)));
}

TEST(Sweep, LosesNothingWhenItIsKilled) {
    const TemporaryFolder folder;
    const std::string file = folder.file("killed.sqlite");
    const SweepDocument d = document();
    const pid_t child = fork();
    ASSERT_GE(child, 0);
    if (child == 0) {
        SweepRunOptions slow; // one thread, a little sleep a point, so that the kill comes in the middle
        slow.jobs = 1;
        slow.progress = [](std::size_t, std::size_t) { std::this_thread::sleep_for(std::chrono::milliseconds(10)); };
        run_sweep(d, file, slow);
        _exit(0);
    }
    std::size_t stored = 0;
    for (int tries = 0; tries < 400 && stored < 8; ++tries) {
        std::this_thread::sleep_for(std::chrono::milliseconds(5));
        if (std::filesystem::exists(file)) {
            try {
                stored = SweepStore(file).rows().size();
            } catch (const std::runtime_error&) {} // the child is making the table
        }
    }
    kill(child, SIGKILL);
    int status = 0;
    waitpid(child, &status, 0);
    ASSERT_TRUE(WIFSIGNALED(status)) << "the child was to be killed in the middle";
    const SweepRun resumed = run_sweep(d, file);
    EXPECT_GE(resumed.reused, static_cast<std::int64_t>(stored)) << "what was seen in the file is still there";
    EXPECT_LT(resumed.reused, 60) << "and there was something left to do";
    EXPECT_EQ(resumed.rows, run_sweep(d, folder.file("whole.sqlite")).rows);
}

TEST(Sweep, RanksOnlyWhatFitsBestFirst) {
    const TemporaryFolder folder;
    const SweepRun run = run_sweep(document(), folder.file("a.sqlite"));
    const std::vector<std::size_t> order = ranked(run, RankBy::tokens_per_s);
    for (std::size_t i = 0; i < order.size(); ++i) {
        EXPECT_EQ(run.rows[order[i]].status, PointStatus::fits);
        if (i > 0) { EXPECT_GE(run.rows[order[i - 1]].tokens_per_s, run.rows[order[i]].tokens_per_s); }
    }
    const std::vector<std::size_t> by_memory = ranked(run, RankBy::peak_bytes);
    EXPECT_LE(run.rows[by_memory.front()].peak_bytes, run.rows[by_memory.back()].peak_bytes);
}

// Where training.convergence says what a target takes, batches are ranked by the time to it, and the file keeps it.
TEST(Sweep, RanksBatchesByTheTimeToATarget) {
    const TemporaryFolder folder;
    const SweepResult parsed =
        parse_sweep(R"({"name": "batches", "model": {"layers": 4, "hidden_size": 1024, "attention_heads": 16, "vocab_size": 32000},
        "cluster": {"preset": "dgx-a100-40gb"}, "strategy": {},
        "training": {"global_batch_size": 64, "micro_batch_size": 1, "sequence_length": 1024,
                     "convergence": {"min_samples": 10000, "critical_batch_size": 64}},
        "sweep": {"/training/global_batch_size": [8, 64, 512, 4096]}})",
                    {});
    ASSERT_TRUE(parsed.document.has_value());
    const SweepRun run = run_sweep(*parsed.document, folder.file("a.sqlite"));
    const std::vector<std::size_t> order = ranked(run, RankBy::time_to_target_s);
    ASSERT_EQ(order.size(), 4u);
    for (const SweepRow& r : run.rows) {
        const double batch = 64 * (r.index == 0 ? 0.125 : r.index == 1 ? 1 : r.index == 2 ? 8 : 64);
        EXPECT_NEAR(r.time_to_target_s, 10000 * (1 + batch / 64) / batch * r.step_time_s, 1e-9 * r.time_to_target_s);
    }
    for (std::size_t i = 1; i < order.size(); ++i) EXPECT_LE(run.rows[order[i - 1]].time_to_target_s, run.rows[order[i]].time_to_target_s);
    EXPECT_EQ(run_sweep(*parsed.document, folder.file("a.sqlite")).rows, run.rows) << "read back from the file";
}

TEST(Sweep, CsvHasALinePerCombination) {
    const TemporaryFolder folder;
    const SweepDocument d = document("[1]");
    const std::string csv = to_csv(d, run_sweep(d, folder.file("a.sqlite")));
    EXPECT_EQ(std::count(csv.begin(), csv.end(), '\n'), 16);
    EXPECT_EQ(csv.rfind("/strategy/tensor_parallel,/strategy/pipeline_parallel,/training/micro_batch_size,status,reason", 0), 0u)
        << csv.substr(0, 120);
}

TEST(SweepStore, TellsAFileThatIsNotItsOwn) {
    const TemporaryFolder folder;
    const std::string file = folder.file("text.sqlite");
    std::FILE* f = std::fopen(file.c_str(), "w");
    std::fputs("this is no database, but long enough to be read as one: ........................................................\n", f);
    std::fclose(f);
    EXPECT_THROW(SweepStore{file}, std::runtime_error);
    EXPECT_THROW(SweepStore{folder.file("no/such/folder.sqlite")}, std::runtime_error);
}

// The file stays as it was, byte for byte.
TEST(SweepStore, LeavesAnotherProgramsDatabaseAlone) {
    const TemporaryFolder folder;
    for (const char* content : {"CREATE TABLE notes (text TEXT)", "PRAGMA application_id=7", "CREATE TABLE points (x REAL, y REAL)"}) {
        const std::string file = folder.file("other.sqlite");
        std::filesystem::remove(file);
        sqlite3* db = nullptr;
        ASSERT_EQ(sqlite3_open(file.c_str(), &db), SQLITE_OK);
        ASSERT_EQ(sqlite3_exec(db, content, nullptr, nullptr, nullptr), SQLITE_OK);
        sqlite3_close(db);
        const auto bytes = [&] {
            std::stringstream text;
            text << std::ifstream(file, std::ios::binary).rdbuf();
            return text.str();
        };
        const std::string before = bytes();
        ASSERT_FALSE(before.empty()) << content;
        EXPECT_THROW(SweepStore{file}, std::runtime_error) << content;
        EXPECT_EQ(bytes(), before) << content;
    }
}

// Processes, as programs that are started together are: SQLite's locks of one process hide what happens between several.
TEST(SweepStore, SeveralProgramsMayStartOnOneNewFile) {
    const TemporaryFolder folder;
    for (int round = 0; round < 20; ++round) {
        const std::string file = folder.file("shared" + std::to_string(round) + ".sqlite");
        std::vector<pid_t> children;
        for (int i = 0; i < 4; ++i) {
            const pid_t child = fork();
            ASSERT_GE(child, 0);
            if (child == 0) {
                int code = 0;
                try {
                    SweepRow row;
                    row.hash = std::to_string(i);
                    SweepStore(file).commit(std::span(&row, 1));
                } catch (const std::exception&) { code = 1; }
                _exit(code);
            }
            children.push_back(child);
        }
        for (const pid_t child : children) {
            int status = 0;
            waitpid(child, &status, 0);
            EXPECT_EQ(status, 0) << file;
        }
        EXPECT_EQ(SweepStore(file).rows().size(), 4u);
    }
}

TEST(SweepStore, GivesBackWhatItWasGiven) {
    const TemporaryFolder folder;
    SweepRow r;
    r.hash = "0123456789abcdef", r.label = "a=1 'quoted'", r.status = PointStatus::fits, r.reason = "stage 0 \"needs\" more";
    r.world_size = 8, r.step_time_s = 0.1 + 0.2, r.mfu = 1.0 / 3, r.peak_bytes = INT64_C(90000000001), r.capacity_bytes = 85520809984,
    r.step_time_error_bar = 0.05, r.step_time_interval = {0.02, 0.08}, r.memory_error_bar = 0.08;
    r.cost_usd = 1.25, r.energy_j = 3e6, r.straggler_fraction = 0.125;
    SweepRow big = r;
    big.hash = "of one that is too big", big.status = PointStatus::too_big;
    big.step_time_s = big.mfu = big.cost_usd = big.energy_j = 0, big.straggler_fraction = -1;
    SweepStore(folder.file("a.sqlite")).commit(std::vector<SweepRow>{r, big});
    const auto rows = SweepStore(folder.file("a.sqlite")).rows();
    ASSERT_EQ(rows.size(), 2u);
    EXPECT_EQ(rows.at(r.hash), r);
    EXPECT_EQ(rows.at(big.hash), big);
}

// Results of a version that knew no error bars are read, and say that they do not know them.
TEST(SweepStore, ReadsResultsOfBeforeThereWereErrorBars) {
    const TemporaryFolder folder;
    const std::string file = folder.file("old.sqlite");
    sqlite3* db = nullptr;
    ASSERT_EQ(sqlite3_open(file.c_str(), &db), SQLITE_OK);
    EXPECT_EQ(
        sqlite3_exec(db,
                     "CREATE TABLE points (hash TEXT PRIMARY KEY, label TEXT, status TEXT, reason TEXT, world_size INTEGER, step_time_s "
                     "REAL, tokens_per_s REAL, "
                     "tokens_per_s_per_gpu REAL, mfu REAL, hfu REAL, bubble_fraction REAL, peak_bytes INTEGER, capacity_bytes INTEGER);"
                     "INSERT INTO points VALUES ('h', 'a=1', 'fits', '', 8, 1.5, 2, 3, 0.4, 0.4, 0.1, 99, 100)",
                     nullptr, nullptr, nullptr),
        SQLITE_OK);
    sqlite3_close(db);
    const auto rows = SweepStore(file).rows();
    ASSERT_EQ(rows.size(), 1u);
    EXPECT_EQ(rows.at("h").step_time_s, 1.5);
    EXPECT_EQ(rows.at("h").step_time_error_bar, 0);
    EXPECT_FALSE(rows.at("h").step_time_interval.known());
    EXPECT_EQ(rows.at("h").straggler_fraction, -1);
    EXPECT_FALSE(rows.at("h").narrow()) << "how far off memory may be is not known";
}

// Waiting for a slow rank of the own stage is no bubble, and a column of its own: in rows, their file, CSV, JSON and between ranks.
TEST(Sweep, KeepsTheWaitForStragglersApart) {
    SweepResult read =
        parse_sweep(R"({"name": "slow", "model": {"layers": 4, "hidden_size": 1024, "attention_heads": 16, "vocab_size": 32000},
        "cluster": {"preset": "dgx-a100-40gb"}, "training": {"global_batch_size": 64, "micro_batch_size": 1, "sequence_length": 1024}, "strategy": {},
        "sweep": {"/perturb": [[], [{"slow": 1.5, "rank": 0}]]}})");
    ASSERT_TRUE(read.problems.empty()) << to_text(read.problems);
    const SweepDocument& d = *read.document;
    const TemporaryFolder folder;
    const SweepRun run = run_sweep(d, folder.file("a.sqlite"));
    ASSERT_EQ(run.rows.size(), 2u);
    const SweepRow &even = run.rows[0], &slow = run.rows[1];
    EXPECT_FALSE(even.waits_for_stragglers());
    EXPECT_GT(slow.straggler_fraction, 0.01);
    EXPECT_LT(slow.straggler_fraction, 0.4);
    EXPECT_EQ(slow.bubble_fraction, 0) << "there is no pipeline";
    EXPECT_EQ(SweepStore(folder.file("a.sqlite")).rows().at(slow.hash).straggler_fraction, slow.straggler_fraction);
    EXPECT_EQ(row_of(bytes_of(slow)), slow);
    EXPECT_EQ(nlohmann::json::parse(to_json(d, run, RankBy::step_time_s)).at("points").at(1).at("straggler_fraction"),
              slow.straggler_fraction);
    EXPECT_NE(to_csv(d, run).find(fmt::format(",{},", slow.straggler_fraction)), std::string::npos);
}

// What was not predicted, and what is not known, has no figure: no 0 that a spreadsheet would count.
TEST(Sweep, LeavesCellsEmptyWhereNothingIsKnown) {
    const TemporaryFolder folder;
    const SweepDocument d = document();
    const SweepRun run = run_sweep(d, folder.file("a.sqlite"));
    std::istringstream lines(to_csv(d, run));
    std::string line;
    std::getline(lines, line);
    const auto cells_of = [](const std::string& text) {
        std::vector<std::string> cells{""};
        bool quoted = false;
        for (const char c : text) {
            if (c == '"') quoted = !quoted;
            if (c == ',' && !quoted)
                cells.emplace_back();
            else
                cells.back() += c;
        }
        return cells;
    };
    const std::vector<std::string> head = cells_of(line);
    const auto at = [&](const char* name) {
        const auto it = std::ranges::find(head, name);
        EXPECT_NE(it, head.end()) << name;
        return static_cast<std::size_t>(it - head.begin());
    };
    ByEnum<PointStatus, int, 4> seen{};
    for (const SweepRow& r : run.rows) {
        std::getline(lines, line);
        const std::vector<std::string> cells = cells_of(line);
        ASSERT_EQ(cells.size(), head.size()) << line;
        const bool fits = r.status == PointStatus::fits;
        ++seen[r.status];
        for (const char* name : {"step_time_s", "tokens_per_s", "mfu", "bubble_fraction", "straggler_fraction", "cost_usd", "energy_j",
                                 "usd_per_trillion_tokens", "days_per_trillion_tokens", "kwh_per_trillion_tokens"})
            EXPECT_EQ(cells[at(name)].empty(), !fits) << name << " of " << line;
        EXPECT_EQ(cells[at("peak_bytes")].empty(), r.status == PointStatus::impossible) << line;
    }
    EXPECT_GT(seen[PointStatus::fits], 0);
    EXPECT_GT(seen[PointStatus::impossible], 0);
}

// Two kinds of devices at prices of their own: the order by cost is that of USD a token, not of seconds; a device without a price is last.
TEST(Sweep, RanksByCostAndEnergyOfAToken) {
    SweepResult r =
        parse_sweep(R"({"name": "money", "model": {"layers": 4, "hidden_size": 1024, "attention_heads": 16, "vocab_size": 32000},
        "cluster": {"preset": "dgx-h100", "nodes": 1}, "training": {"global_batch_size": 64, "micro_batch_size": 1, "sequence_length": 1024}, "strategy": {},
        "sweep": {"/cluster/device": ["h100-sxm-80gb", "a100-sxm-80gb", "h20-sxm-96gb"], "/training/global_batch_size": [32, 64]}})");
    ASSERT_TRUE(r.problems.empty()) << to_text(r.problems);
    const TemporaryFolder folder;
    const SweepRun run = run_sweep(*r.document, folder.file("a.sqlite"));
    ASSERT_EQ(run.rows.size(), 6u);
    for (const RankBy by : {RankBy::cost, RankBy::energy}) {
        const std::vector<std::size_t> order = ranked(run, by);
        const auto figure = [&](std::size_t i) {
            const SweepRow& row = run.rows[i];
            return row.per_trillion_tokens(by == RankBy::cost ? row.cost_usd : row.energy_j);
        };
        ASSERT_EQ(order.size(), 6u);
        for (std::size_t k = 1; k < order.size(); ++k)
            EXPECT_TRUE(figure(order[k]) == 0 || (figure(order[k - 1]) > 0 && figure(order[k - 1]) <= figure(order[k])));
        EXPECT_EQ(figure(order.back()) == 0, by == RankBy::cost) << "no price of that device is known, but its power is";
    }
    const SweepRow& row = run.rows.front();
    const double tokens = row.tokens_per_s * row.step_time_s;
    EXPECT_NEAR(tokens, 32 * 1024, 1e-6);
    EXPECT_NEAR(row.per_trillion_tokens(row.cost_usd), row.cost_usd / tokens * 1e12, 1e-6 * row.cost_usd / tokens * 1e12);
    EXPECT_EQ(run_sweep(*r.document, folder.file("a.sqlite")).rows, run.rows) << "cost and energy come back from the file";
}

} // namespace
} // namespace orrery
