// Does the Perfetto export say, exactly, what the trace says?
#include "sim/trace/trace.hpp"
#include "tests/unit/trace/sample.hpp"

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <map>
#include <set>
#include <stdexcept>
#include <string>
#include <vector>

namespace orrery {
namespace {

using nlohmann::json;

struct Exported {
    std::string text;
    json root;
    std::map<std::string, std::vector<json>> events; // by phase
};

Exported exported(const Trace& trace) {
    const auto path = (std::filesystem::temp_directory_path() / ("orrery_perfetto_" + std::to_string(::getpid()) + ".json")).string();
    export_perfetto(trace, path);
    std::ifstream in(path, std::ios::binary);
    Exported e;
    e.text = {std::istreambuf_iterator<char>(in), {}};
    std::filesystem::remove(path);
    e.root = json::parse(e.text);
    for (const json& event : e.root.at("traceEvents")) e.events[event.at("ph").get<std::string>()].push_back(event);
    return e;
}

std::int64_t picoseconds(const json& microseconds) { return std::llround(microseconds.get<double>() * 1e6); }

TEST(Perfetto, EveryEventIsWellFormed) {
    const Trace trace = sample_trace(4, 3, 30, true);
    const Exported e = exported(trace);
    EXPECT_EQ(e.root.at("displayTimeUnit"), "ms");
    EXPECT_EQ(e.root.at("otherData").at("name"), trace.name);
    EXPECT_EQ(e.root.at("otherData").at("plan"), "fedcba9876543210");
    std::set<std::string> phases;
    for (const auto& [phase, events] : e.events) {
        phases.insert(phase);
        for (const json& event : events) {
            EXPECT_TRUE(event.at("pid").is_number_unsigned());
            EXPECT_FALSE(event.at("name").get<std::string>().empty());
            if (phase == "M") continue;
            EXPECT_GE(event.at("ts").get<double>(), 0);
            EXPECT_TRUE(phase != "X" || event.at("dur").get<double>() >= 0);
            EXPECT_TRUE(phase == "C" || event.at("tid").is_number_unsigned());
        }
    }
    EXPECT_EQ(phases, (std::set<std::string>{"C", "M", "X", "f", "s"}));
}

TEST(Perfetto, SpansAreThoseOfTheTraceToThePicosecond) {
    const Trace trace = sample_trace(3, 2, 20, true);
    const Exported e = exported(trace);
    std::size_t at = 0;
    for (std::size_t l = 0; l < trace.lanes.size(); ++l)
        for (const Span& span : trace.lanes[l].spans) {
            const json& event = e.events.at("X").at(at++);
            EXPECT_EQ(event.at("pid"), l + 1);
            ASSERT_EQ(picoseconds(event.at("ts")), (span.begin - trace.begin).ps);
            ASSERT_EQ(picoseconds(event.at("dur")), (span.end - span.begin).ps);
            const json& args = event.at("args");
            if (span.op >= 0) {
                const TraceOp& op = trace.ops[span.op];
                EXPECT_EQ(args.at("kind"), op.kind);
                EXPECT_EQ(args.at("phase"), op.phase);
                EXPECT_EQ(args.at("layer"), op.layer);
                EXPECT_EQ(args.at("microbatch"), span.microbatch);
                EXPECT_EQ(args.at("bytes"), op.bytes);
                EXPECT_EQ(args.value("calls", 1), op.calls);
                EXPECT_EQ(args.value("flops", 0.0), op.flops);
            }
            if (span.kind == SpanKind::op) {
                EXPECT_EQ(event.at("name"), trace.ops[span.op].name);
                EXPECT_FALSE(args.contains("cause"));
            } else {
                EXPECT_EQ(args.at("cause"), name(span.cause));
                EXPECT_TRUE(event.at("name").get<std::string>().ends_with(name(span.cause)));
                EXPECT_TRUE(args.at("late").get<std::string>().starts_with("stage " + std::to_string(span.peer)));
            }
        }
    EXPECT_EQ(at, e.events.at("X").size());
}

TEST(Perfetto, TracksAreNamedAndSpansOnATrackNeverOverlap) {
    const Trace trace = sample_trace(3, 3, 40, true);
    const Exported e = exported(trace);
    std::map<std::size_t, std::string> processes, threads;
    for (const json& event : e.events.at("M")) {
        if (event.at("name") == "process_name") processes[event.at("pid")] = event.at("args").at("name");
        if (event.at("name") != "thread_name") continue;
        EXPECT_TRUE(threads.emplace(event.at("tid"), event.at("args").at("name")).second) << "thread ids are unique";
    }
    EXPECT_EQ(processes.at(1), "stage 0, rank 0");
    EXPECT_EQ(processes.at(2), "stage 1, rank 48 (x128)");
    EXPECT_EQ(threads.size(), 9u);
    std::map<std::pair<std::size_t, std::size_t>, std::int64_t> ends;
    for (const json& event : e.events.at("X")) {
        const std::size_t pid = event.at("pid"), tid = event.at("tid");
        ASSERT_TRUE(threads.contains(tid));
        EXPECT_FALSE(processes.contains(tid));
        std::int64_t& end = ends[{pid, tid}];
        const std::int64_t begin = picoseconds(event.at("ts"));
        ASSERT_GE(begin, end);
        // Perfetto keeps whole nanoseconds, of begin and duration apart: still no overlap.
        ASSERT_GE(begin / 1000 * 1000, end);
        end = begin / 1000 * 1000 + picoseconds(event.at("dur")) / 1000 * 1000;
    }
    EXPECT_EQ(ends.size(), 9u);
}

TEST(Perfetto, ArrowsStartAndEndInsideTheirSpans) {
    const Trace trace = sample_trace(4, 3, 40, true);
    const Exported e = exported(trace);
    ASSERT_EQ(e.events.at("s").size(), e.events.at("f").size());
    EXPECT_GT(e.events.at("s").size(), trace.flows.size() / 2);
    const auto inside = [&](const json& end, std::int32_t lane, std::int32_t index) {
        const Span& span = trace.lanes[lane].spans[index];
        const std::int64_t at = picoseconds(end.at("ts")) + trace.begin.ps;
        return end.at("pid") == lane + 1 && end.at("tid").get<int>() % 1000 == span.queue && at >= span.begin.ps && at < span.end.ps;
    };
    for (std::size_t i = 0; i < e.events.at("s").size(); ++i) {
        const json &start = e.events.at("s")[i], &finish = e.events.at("f")[i];
        EXPECT_EQ(start.at("id"), finish.at("id"));
        EXPECT_EQ(start.at("name"), finish.at("name"));
        EXPECT_EQ(start.at("cat"), finish.at("cat"));
        EXPECT_EQ(finish.at("bp"), "e");
        EXPECT_LE(start.at("ts").get<double>(), finish.at("ts").get<double>());
        const Flow& flow = trace.flows.at(start.at("id").get<std::size_t>() - 1);
        EXPECT_TRUE(inside(start, flow.from_lane, flow.from_span));
        EXPECT_TRUE(inside(finish, flow.to_lane, flow.to_span));
    }
}

TEST(Perfetto, MemoryIsACounterPerKind) {
    const Trace trace = sample_trace(2, 5, 10, false);
    const Exported e = exported(trace);
    ASSERT_EQ(e.events.at("C").size(), 10u);
    const json& third = e.events.at("C")[2];
    EXPECT_EQ(third.at("args"), (json{{"parameters", std::int64_t{7} << 30}, {"activations", std::int64_t{3} << 28}}));
    EXPECT_EQ(picoseconds(third.at("ts")), (trace.lanes[0].memory[2].at - trace.begin).ps);
}

TEST(Perfetto, TextIsEscaped) {
    Trace trace = sample_trace(1, 1, 1, false);
    trace.ops[0].name = "tab\t quote\" back\\ nul" + std::string(1, '\0') + " e\xcc\x81 \xe2\x86\x92 \xf0\x9f\x9a\x80";
    trace.ops[0].kind = "broken \xff\xc3 \xed\xa0\x80 \xc0\xaf";
    trace.queues[0] = "";
    const Exported e = exported(trace);
    const auto& spans = e.events.at("X");
    const auto is_wait = [](const json& s) { return s.at("cat") == "wait"; };
    const auto op = std::find_if_not(spans.begin(), spans.end(), is_wait);
    ASSERT_NE(op, spans.end());
    EXPECT_EQ(op->at("name"), trace.ops[0].name);
    const std::string bad = "\xef\xbf\xbd";
    EXPECT_EQ(op->at("cat"), "broken " + bad + bad + " " + bad + bad + bad + " " + bad + bad);
}

TEST(Perfetto, WhatCameBeforeTheStepIsNotNegative) {
    Trace trace = sample_trace(1, 1, 3, false);
    trace.lanes[0].spans[0].begin = trace.begin - Time{1'500'000};
    const Exported e = exported(trace);
    EXPECT_EQ(picoseconds(e.events.at("X")[0].at("ts")), 0);
    EXPECT_EQ(picoseconds(e.events.at("X")[1].at("ts")), (trace.lanes[0].spans[1].begin - trace.begin).ps + 1'500'000);
}

TEST(Perfetto, AnEmptyTraceIsValid) {
    const Exported e = exported({});
    EXPECT_TRUE(e.root.at("traceEvents").empty());
    EXPECT_THROW(export_perfetto({}, "/no/such/folder/x.json"), std::runtime_error);
}

} // namespace
} // namespace orrery
