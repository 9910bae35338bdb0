// Does a trace come back from its file as it went in, is the file small, and is any other file refused with a clear word?
#include "sim/trace/bytes.hpp"
#include "sim/trace/format.hpp"
#include "sim/trace/of_plan.hpp"
#include "sim/trace/trace.hpp"
#include "tests/unit/trace/sample.hpp"

#include <gtest/gtest.h>

#include <unistd.h>

#include <cstdint>
#include <filesystem>
#include <fstream>
#include <initializer_list>
#include <iterator>
#include <limits>
#include <random>
#include <stdexcept>
#include <string>

namespace orrery {
namespace {

class TraceFile : public testing::Test {
  protected:
    std::string path_ = (std::filesystem::temp_directory_path() / ("orrery_trace_" + std::to_string(::getpid()) + ".trace")).string();

    void TearDown() override { std::filesystem::remove(path_); }
    std::string read() const {
        std::ifstream in(path_, std::ios::binary);
        return {std::istreambuf_iterator<char>(in), {}};
    }
    void write(const std::string& bytes) const {
        std::filesystem::remove(path_); // overwriting a file makes ext4 flush it, thousands of times here
        std::ofstream(path_, std::ios::binary) << bytes;
    }
    // The message of load_trace about these bytes; empty if it takes them.
    std::string complaint(const std::string& bytes) const {
        write(bytes);
        try {
            load_trace(path_);
        } catch (const std::runtime_error& e) {
            const std::string what = e.what();
            EXPECT_TRUE(what.starts_with(path_)) << what;
            return what.substr(path_.size());
        }
        return {};
    }
    // A file with this payload, its size and checksum right.
    static std::string sealed(const std::string& payload) {
        ByteWriter out;
        out.bytes = trace_file::magic;
        out.fixed(trace_file::version, 4);
        out.fixed(payload.size(), 8);
        out.fixed(trace_file::checksum(payload), 8);
        return out.bytes + payload;
    }
};

// An op of a plan may stand for several collectives of the software: a trace says what all of them move, and how many they are.
TEST(TraceOps, NameTheBytesOfAllCalls) {
    Op op;
    Collective c{CollectiveKind::all_gather, 0, Bytes{1000}, DType::bf16};
    c.times = 7;
    op.work = c;
    EXPECT_EQ(trace_op(op).bytes, 7000);
    EXPECT_EQ(trace_op(op).calls, 7);
    c.times = 1;
    op.work = c;
    EXPECT_EQ(trace_op(op).bytes, 1000);
    EXPECT_EQ(trace_op(op).calls, 1);
    EXPECT_EQ(trace_op(Op{}).calls, 1);
}

void expect_equal(const Trace& a, const Trace& b) {
    EXPECT_EQ(a.name, b.name);
    EXPECT_EQ(a.source, b.source);
    EXPECT_EQ(a.plan_hash, b.plan_hash);
    EXPECT_EQ(a.begin, b.begin);
    EXPECT_EQ(a.end, b.end);
    EXPECT_EQ(a.period, b.period);
    EXPECT_EQ(a.steps, b.steps);
    EXPECT_EQ(a.queues, b.queues);
    EXPECT_EQ(a.memory_kinds, b.memory_kinds);
    ASSERT_EQ(a.ops.size(), b.ops.size());
    for (std::size_t i = 0; i < a.ops.size(); ++i) {
        const TraceOp &x = a.ops[i], &y = b.ops[i];
        EXPECT_EQ(std::tie(x.name, x.kind, x.phase, x.layer), std::tie(y.name, y.kind, y.phase, y.layer));
        EXPECT_EQ(std::tie(x.flops, x.bytes, x.calls), std::tie(y.flops, y.bytes, y.calls));
    }
    ASSERT_EQ(a.lanes.size(), b.lanes.size());
    for (std::size_t l = 0; l < a.lanes.size(); ++l) {
        const Lane &x = a.lanes[l], &y = b.lanes[l];
        EXPECT_EQ(std::tie(x.rank, x.ranks, x.stage), std::tie(y.rank, y.ranks, y.stage));
        ASSERT_EQ(x.spans.size(), y.spans.size());
        for (std::size_t i = 0; i < x.spans.size(); ++i) {
            const Span &p = x.spans[i], &q = y.spans[i];
            ASSERT_EQ(std::tie(p.begin, p.end, p.op, p.microbatch, p.queue, p.kind, p.cause, p.peer),
                      std::tie(q.begin, q.end, q.op, q.microbatch, q.queue, q.kind, q.cause, q.peer))
                << "lane " << l << " span " << i;
        }
        ASSERT_EQ(x.memory.size(), y.memory.size());
        for (std::size_t i = 0; i < x.memory.size(); ++i) {
            EXPECT_EQ(x.memory[i].at, y.memory[i].at);
            EXPECT_EQ(x.memory[i].bytes, y.memory[i].bytes);
        }
    }
    ASSERT_EQ(a.links.size(), b.links.size());
    for (std::size_t i = 0; i < a.links.size(); ++i) {
        const LinkSeries &x = a.links[i], &y = b.links[i];
        EXPECT_TRUE(x.link == y.link && x.twins == y.twins && x.name == y.name && x.capacity == y.capacity && x.bytes == y.bytes)
            << "link " << i;
    }
    ASSERT_EQ(a.flows.size(), b.flows.size());
    for (std::size_t i = 0; i < a.flows.size(); ++i) {
        const Flow &x = a.flows[i], &y = b.flows[i];
        EXPECT_EQ(std::tie(x.from_lane, x.from_span, x.to_lane, x.to_span), std::tie(y.from_lane, y.from_span, y.to_lane, y.to_span));
    }
}

TEST_F(TraceFile, ComesBackAsItWas) {
    for (const bool noise : {false, true}) {
        const Trace trace = sample_trace(5, 4, 60, noise);
        save(trace, path_);
        expect_equal(load_trace(path_), trace);
    }
}

TEST_F(TraceFile, ComesBackAtTheEdges) {
    constexpr auto low = std::numeric_limits<std::int64_t>::min(), high = std::numeric_limits<std::int64_t>::max();
    Trace trace;
    save(trace, path_);
    expect_equal(load_trace(path_), trace);
    trace.begin = {high};
    trace.end = {low};
    trace.queues = {"", std::string("a\0b", 3)};
    trace.ops = {{"", "", "", -1, -0.0, low}, {"\xff", "k", "p", INT16_MAX, 1e308, high}};
    trace.lanes.resize(2);
    const Span longest{{low}, {high}, 1, INT32_MAX, 0, SpanKind::op, WaitCause::none, 1};
    const Span shortest{{low}, {low}, 0, INT32_MIN, 1, SpanKind::wait, WaitCause::dependency, -1};
    trace.lanes[0] = {INT32_MAX, 0, -3, {longest, shortest}, {{{high}, {}}, {{low}, {}}}};
    save(trace, path_);
    trace.queues[1] = "a\\x00b"; // names are read as they may be printed
    trace.ops[1].name = "\\xff";
    expect_equal(load_trace(path_), trace);
}

TEST_F(TraceFile, SameTraceSameBytes) {
    save(sample_trace(3, 3, 30, true), path_);
    const std::string first = read();
    save(sample_trace(3, 3, 30, true), path_);
    EXPECT_EQ(read(), first);
}

TEST_F(TraceFile, IsSmall) {
    for (const bool noise : {false, true}) {
        const Trace trace = sample_trace(8, 64, 100, noise);
        std::size_t spans = 0;
        for (const Lane& lane : trace.lanes) spans += lane.spans.size();
        ASSERT_GT(spans, 90000u);
        save(trace, path_);
        EXPECT_LT(static_cast<double>(std::filesystem::file_size(path_)) / static_cast<double>(spans), noise ? 8 : 5);
    }
}

TEST_F(TraceFile, SaysWhatIsWrong) {
    save(sample_trace(2, 2, 20, true), path_);
    const std::string good = read();
    EXPECT_EQ(complaint(good), "");
    EXPECT_EQ(complaint(""), " is empty");
    EXPECT_EQ(complaint("\n {\"name\": \"a scenario\"}"), " is not a trace of Orrery; it looks like JSON");
    EXPECT_EQ(complaint(std::string(1000, '\0')), " is not a trace of Orrery");
    EXPECT_EQ(complaint(good.substr(0, 20)), " is truncated within its header");
    EXPECT_EQ(complaint(good.substr(0, good.size() - 1)),
              " is truncated: " + std::to_string(good.size() - 29) + " of " + std::to_string(good.size() - 28) + " bytes are there");
    EXPECT_EQ(complaint(good + "x"), " is corrupt: something follows its end");
    std::string newer = good;
    newer[8] = 9;
    EXPECT_EQ(complaint(newer), " has trace format version 9; this program reads version 4: a later program wrote it");
    std::string older = good;
    older[8] = 3;
    EXPECT_EQ(complaint(older), " has trace format version 3; this program reads version 4: record it again");
    std::string flipped = good;
    flipped[good.size() / 2] = static_cast<char>(flipped[good.size() / 2] ^ 1);
    EXPECT_EQ(complaint(flipped), " is corrupt: its checksum does not match");

    std::filesystem::remove(path_);
    EXPECT_THROW(load_trace(path_), std::runtime_error);
    try {
        load_trace(std::filesystem::temp_directory_path().string());
        ADD_FAILURE() << "a folder was loaded";
    } catch (const std::runtime_error& e) { EXPECT_NE(std::string(e.what()).find("cannot be read"), std::string::npos) << e.what(); }
    EXPECT_THROW(save({}, path_ + "/no/such/folder"), std::runtime_error);
}

TEST_F(TraceFile, EveryFlippedBitIsSeen) {
    save(sample_trace(2, 1, 6, true), path_);
    const std::string good = read();
    for (std::size_t i = 0; i < good.size(); ++i) {
        std::string bad = good;
        bad[i] = static_cast<char>(bad[i] ^ (1 << i % 8));
        EXPECT_NE(complaint(bad), "") << "byte " << i;
    }
}

// Bytes that pass the checksum and still are nonsense: refused or a consistent trace, never a crash.
TEST_F(TraceFile, NonsenseThatPassesTheChecksum) {
    save(sample_trace(2, 2, 8, true), path_);
    const std::string payload = read().substr(trace_file::header_bytes);
    std::mt19937_64 random(11);
    int refused = 0;
    constexpr int rounds = 4000;
    for (int round = 0; round < rounds; ++round) {
        std::string bad = payload;
        for (int n = 1 + static_cast<int>(random() % 4); n > 0; --n) {
            const std::size_t at = random() % bad.size();
            switch (random() % 4) {
            case 0:
                bad[at] = static_cast<char>(random());
                break;
            case 1:
                bad[at] = static_cast<char>(bad[at] ^ (1 << random() % 8));
                break;
            case 2:
                bad.erase(at, 1 + random() % 16);
                break;
            default:
                bad.insert(at, random() % 2 ? std::string("\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01") : std::string(1, '\x7f'));
                break;
            }
            if (bad.empty()) bad = "x";
        }
        write(sealed(bad));
        try {
            EXPECT_EQ(trace_file::problem(load_trace(path_)), "");
        } catch (const std::runtime_error& e) {
            EXPECT_NE(std::string(e.what()).find("is corrupt: "), std::string::npos) << e.what();
            ++refused;
        }
    }
    EXPECT_GT(refused, rounds / 2);
}

TEST_F(TraceFile, HugeCountsTakeNoMemory) {
    const auto after_header = [&](std::initializer_list<std::uint64_t> numbers) {
        ByteWriter out;
        out.text("name");
        out.text("source");
        out.fixed(0, 8);
        for (const int begin_end_period_steps : {0, 0, 0, 1}) out.integer(begin_end_period_steps);
        for (const std::uint64_t n : numbers) out.number(n);
        return complaint(sealed(out.bytes));
    };
    constexpr std::uint64_t huge = std::uint64_t{1} << 62;
    EXPECT_EQ(after_header({huge}), " is corrupt: claims 4611686018427387904 queues in 0 bytes");
    EXPECT_EQ(after_header({0, 0, huge}), " is corrupt: claims 4611686018427387904 ops in 0 bytes");
    EXPECT_EQ(after_header({0, 0, 0, huge}), " is corrupt: claims 4611686018427387904 lanes in 0 bytes");

    ByteWriter header; // a file that claims an exabyte
    header.bytes = trace_file::magic;
    header.fixed(trace_file::version, 4);
    header.fixed(std::uint64_t{1} << 60, 8);
    header.fixed(0, 8);
    EXPECT_NE(complaint(header.bytes + "abc").find("is truncated: 3 of 1152921504606846976 bytes"), std::string::npos);
}

TEST(TraceDeathTest, AnInconsistentTraceIsNotSaved) {
    Trace trace = sample_trace(1, 1, 4, false);
    trace.lanes[0].spans[1].op = 4;
    EXPECT_DEATH(save(trace, "never-written.trace"), "lane 0, span 1: there is no op 4");
}

} // namespace
} // namespace orrery
