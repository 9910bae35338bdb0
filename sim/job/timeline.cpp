// The timeline of one simulated run: for Perfetto, which counts microseconds, as a table, and as a trace of ours, which counts picoseconds.
#include "sim/job/whole_run.hpp"
#include "sim/plan/plan.hpp"

#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include <algorithm>
#include <map>

namespace orrery {
namespace {

constexpr std::int64_t most_saves = 100'000; // each one a slice of its own

struct Slice {
    double begin_s, end_s;
    std::string name;
};

// Each save that ended, or where they are too many those of a span of training together.
std::vector<Slice> saves_of(const JobOutcome& run) {
    std::int64_t all = 0;
    for (const JobSpan& s : run.timeline) all += s.saves.number;
    std::vector<Slice> out;
    for (const JobSpan& s : run.timeline) {
        const JobSpan::Saves& v = s.saves;
        const auto begin = [&](std::int64_t i) { return std::max(s.begin_s, v.first_s + static_cast<double>(i) * v.every_s); };
        const auto end = [&](std::int64_t i) { return std::min(s.end_s, v.first_s + static_cast<double>(i) * v.every_s + v.lasts_s); };
        if (all <= most_saves)
            for (std::int64_t i = 0; i < v.number; ++i) out.push_back({begin(i), end(i), "save"});
        else if (v.number > 0)
            out.push_back({begin(0), end(v.number - 1), fmt::format("{} saves", v.number)});
    }
    return out;
}

std::string quoted(const std::string& cell) { return cell.find(',') == std::string::npos ? cell : '"' + cell + '"'; }

} // namespace

std::string detail_words(const JobSpan& s) {
    if (s.saves.number == 0) return s.detail;
    const std::string saves = fmt::format("{} save{}", s.saves.number, s.saves.number == 1 ? "" : "s");
    return s.detail.empty() ? saves : s.detail + ", " + saves;
}

std::string timeline_perfetto(const WholeRunReport& report) {
    using Json = nlohmann::ordered_json;
    std::string text = "{\"displayTimeUnit\": \"ms\", \"otherData\": {\"whole run\": true}, \"traceEvents\": [\n";
    const auto named = [](const char* what, int track, const std::string& name) {
        return Json{{"ph", "M"}, {"pid", 1}, {"tid", track}, {"name", what}, {"args", {{"name", name}}}}.dump();
    };
    const auto slice = [](int track, const Slice& s) {
        return Json{
            {"ph", "X"}, {"pid", 1}, {"tid", track}, {"name", s.name}, {"ts", s.begin_s * 1e6}, {"dur", (s.end_s - s.begin_s) * 1e6}};
    };
    text += named("process_name", 1, report.name + ", seed 0") + ",\n" + named("thread_name", 1, "run") + ",\n" +
            named("thread_name", 2, "saves");
    for (const JobSpan& s : report.example.timeline) {
        Json event = slice(1, {s.begin_s, s.end_s, s.what});
        if (const std::string detail = detail_words(s); !detail.empty()) event["args"] = {{"detail", detail}};
        text += ",\n" + event.dump();
    }
    for (const Slice& s : saves_of(report.example)) text += ",\n" + slice(2, s).dump();
    return text + "\n]}\n";
}

std::string timeline_csv(const WholeRunReport& report) {
    std::string text = "begin_day,end_day,what,detail\n";
    for (const JobSpan& s : report.example.timeline)
        text += fmt::format("{:.6f},{:.6f},{},{}\n", s.begin_s / 86400, s.end_s / 86400, quoted(s.what), quoted(detail_words(s)));
    return text;
}

Trace timeline_trace(const WholeRunReport& report) {
    Trace out;
    out.name = report.name;
    out.source = "simulated: the whole run, seed 0";
    out.queues = {"run", "saves"};
    out.lanes.emplace_back().ranks = std::max(1, report.devices);
    std::map<std::string, std::int32_t> known;
    const auto op = [&](const std::string& name, const std::string& kind, Phase phase) {
        const auto [at, fresh] = known.try_emplace(name, static_cast<std::int32_t>(out.ops.size()));
        if (fresh) {
            TraceOp& o = out.ops.emplace_back();
            o.name = name;
            o.kind = kind;
            o.phase = orrery::name(phase);
        }
        return at->second;
    };
    const auto add = [&](const Slice& s, std::int16_t queue, std::int32_t of) {
        Span span;
        span.begin = Time::seconds(std::min(s.begin_s, longest_timeline_s));
        span.end = Time::seconds(std::min(s.end_s, longest_timeline_s));
        span.queue = queue;
        span.op = of;
        if (span.end > span.begin) out.lanes[0].spans.push_back(span);
        out.end = std::max(out.end, span.end);
    };
    for (const JobSpan& s : report.example.timeline) {
        const bool trains = s.what.starts_with("training");
        add({s.begin_s, s.end_s, ""}, 0,
            op(s.detail.empty() ? s.what : s.what + ": " + s.detail, s.what,
               s.what == "training" ? Phase::forward
               : trains             ? Phase::recompute
                                    : Phase::optimizer));
    }
    for (const Slice& s : saves_of(report.example)) add(s, 1, op(s.name, "save", Phase::optimizer));
    return out;
}

} // namespace orrery
