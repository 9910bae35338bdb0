// Writes a trace in the Chrome trace event format, which ui.perfetto.dev opens: a process per lane, a track per queue, a complete
// event per span, flow arrows between the two ends of a transfer, a counter track per kind of memory.
// Format: "Trace Event Format", Google, 2016. Times there are microseconds; six decimals are picoseconds, exactly.
#include "sim/trace/trace.hpp"
#include "topology/output_file.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <set>
#include <string_view>

namespace orrery {
namespace {

// The length of the UTF-8 sequence that starts here, 0 if it is none.
std::size_t utf8_length(std::string_view s) {
    const auto byte = [&](std::size_t i) { return i < s.size() ? static_cast<unsigned char>(s[i]) : 0u; };
    const auto follows = [&](std::size_t i) { return (byte(i) & 0xc0) == 0x80; };
    const unsigned a = byte(0), b = byte(1);
    if (a < 0x80) return 1;
    if (a >= 0xc2 && a < 0xe0) return follows(1) ? 2 : 0;
    if (a >= 0xe0 && a < 0xf0) return follows(1) && follows(2) && !(a == 0xe0 && b < 0xa0) && !(a == 0xed && b >= 0xa0) ? 3 : 0;
    if (a < 0xf0 || a >= 0xf5 || (a == 0xf0 && b < 0x90) || (a == 0xf4 && b >= 0x90)) return 0;
    return follows(1) && follows(2) && follows(3) ? 4 : 0;
}

// As a JSON string, quotes included; what is not UTF-8 becomes U+FFFD.
std::string json_text(std::string_view s) {
    std::string out = "\"";
    for (std::size_t i = 0; i < s.size();) {
        const std::size_t n = utf8_length(s.substr(i));
        const char c = s[i];
        if (n == 0)
            out += "\\ufffd";
        else if (c == '"' || c == '\\')
            (out += '\\') += c;
        else if (static_cast<unsigned char>(c) < 0x20 || c == 0x7f)
            out += fmt::format("\\u{:04x}", static_cast<unsigned>(c));
        else
            out += s.substr(i, n);
        i += std::max<std::size_t>(n, 1);
    }
    return out += '"';
}

std::string lane_name(const Lane& lane) {
    const std::string twins = lane.ranks > 1 ? fmt::format(" (x{})", lane.ranks) : "";
    return fmt::format("stage {}, rank {}{}", lane.stage, lane.rank, twins);
}

class PerfettoWriter {
  public:
    PerfettoWriter(const Trace& trace, const std::string& path) : trace_(trace), path_(path), file_(open_output(path)) {
        origin_ = trace.begin.ps;
        for (const Lane& lane : trace.lanes) {
            for (const Span& s : lane.spans) origin_ = std::min(origin_, s.begin.ps);
            for (const MemorySample& m : lane.memory) origin_ = std::min(origin_, m.at.ps);
        }
        for (const TraceOp& op : trace.ops) ops_.push_back(describe(op));
    }

    void write() {
        add(R"({{"displayTimeUnit":"ms","otherData":{{"name":{},"source":{},"plan":"{:016x}"}},"traceEvents":[)", json_text(trace_.name),
            json_text(trace_.source), trace_.plan_hash);
        for (std::size_t l = 0; l < trace_.lanes.size(); ++l) {
            name_tracks(l);
            for (const Span& span : trace_.lanes[l].spans) put_span(l, span);
            for (const MemorySample& sample : trace_.lanes[l].memory) put_memory(l, sample);
        }
        for (std::size_t i = 0; i < trace_.flows.size(); ++i) put_flow(i, trace_.flows[i]);
        add("\n]}}\n");
        flush();
        close_output(std::move(file_), true, path_);
    }

  private:
    struct OpText {
        std::string name, category, args;
    };

    template <class... Args> void add(fmt::format_string<Args...> format, Args&&... args) {
        fmt::format_to(std::back_inserter(buffer_), format, std::forward<Args>(args)...);
        if (buffer_.size() > 1 << 20) flush();
    }
    void flush() {
        if (std::fwrite(buffer_.data(), 1, buffer_.size(), file_.get()) != buffer_.size()) close_output(std::move(file_), false, path_);
        buffer_.clear();
    }
    // Every event begins on a line of its own.
    void next_event() {
        add("{}\n", first_ ? "" : ",");
        first_ = false;
    }

    static OpText describe(const TraceOp& op) {
        std::string args = fmt::format(R"("kind":{},"phase":{})", json_text(op.kind), json_text(op.phase));
        if (op.layer >= 0) args += fmt::format(R"(,"layer":{})", op.layer);
        if (op.bytes != 0) args += fmt::format(R"(,"bytes":{})", op.bytes);
        if (op.calls > 1) args += fmt::format(R"(,"calls":{})", op.calls);
        if (op.flops != 0 && std::isfinite(op.flops)) args += fmt::format(R"(,"flops":{})", op.flops);
        return {json_text(op.name), json_text(op.kind), args};
    }

    // A process's id is never one of its threads', or its track would be shown as the main thread.
    std::size_t pid(std::size_t lane) const { return lane + 1; }
    std::size_t tid(std::size_t lane, std::int16_t queue) const {
        return pid(lane) * std::max<std::size_t>(1000, trace_.queues.size() + 1) + static_cast<std::size_t>(queue);
    }

    struct Microseconds {
        std::uint64_t whole, fraction;
    };
    static Microseconds between(std::int64_t from, std::int64_t to) { // unsigned: holds any difference there is
        const std::uint64_t ps = static_cast<std::uint64_t>(to) - static_cast<std::uint64_t>(from);
        return {ps / 1'000'000, ps % 1'000'000};
    }
    Microseconds instant(Time t) const { return between(origin_, t.ps); }

    void name_tracks(std::size_t l) {
        const Lane& lane = trace_.lanes[l];
        next_event();
        add(R"({{"ph":"M","pid":{},"name":"process_name","args":{{"name":{}}}}})", pid(l), json_text(lane_name(lane)));
        next_event();
        add(R"({{"ph":"M","pid":{},"name":"process_sort_index","args":{{"sort_index":{}}}}})", pid(l), l);
        std::set<std::int16_t> queues;
        for (const Span& span : lane.spans) queues.insert(span.queue);
        for (std::int16_t queue : queues) {
            next_event();
            add(R"({{"ph":"M","pid":{},"tid":{},"name":"thread_name","args":{{"name":{}}}}})", pid(l), tid(l, queue),
                json_text(trace_.queues[queue]));
            next_event();
            add(R"({{"ph":"M","pid":{},"tid":{},"name":"thread_sort_index","args":{{"sort_index":{}}}}})", pid(l), tid(l, queue), queue);
        }
    }

    void put_span(std::size_t l, const Span& span) {
        const auto [ts, ts_fraction] = instant(span.begin);
        const auto [dur, dur_fraction] = between(span.begin.ps, span.end.ps);
        next_event();
        add(R"({{"ph":"X","pid":{},"tid":{},"ts":{}.{:06},"dur":{}.{:06},)", pid(l), tid(l, span.queue), ts, ts_fraction, dur,
            dur_fraction);
        const OpText* op = span.op >= 0 ? &ops_[span.op] : nullptr;
        if (span.kind == SpanKind::op)
            add(R"("name":{},"cat":{},"args":{{)", op ? op->name : "\"op\"", op ? op->category : "\"op\"");
        else if (span.kind == SpanKind::transfer_wait)
            add(R"("name":"transfer wait: {}","cat":"wait","args":{{)", name(span.cause));
        else
            add(R"("name":"wait: {}","cat":"wait","args":{{)", name(span.cause));
        put_args(span, op);
        add("}}}}");
    }

    void put_args(const Span& span, const OpText* op) {
        const char* comma = "";
        const auto put = [&](const char* key, const auto& value) {
            add(R"({}"{}":{})", comma, key, value);
            comma = ",";
        };
        if (span.kind != SpanKind::op && op) put("op", op->name);
        if (op) {
            add("{}{}", comma, op->args);
            comma = ",";
        }
        if (span.microbatch >= 0) put("microbatch", span.microbatch);
        if (span.cause != WaitCause::none) put("cause", json_text(name(span.cause)));
        if (span.peer >= 0) put("late", json_text(lane_name(trace_.lanes[span.peer])));
    }

    void put_memory(std::size_t l, const MemorySample& sample) {
        const auto [ts, fraction] = instant(sample.at);
        next_event();
        add(R"({{"ph":"C","pid":{},"ts":{}.{:06},"name":"memory, bytes","args":{{)", pid(l), ts, fraction);
        for (std::size_t k = 0; k < sample.bytes.size(); ++k)
            add(R"({}{}:{})", k ? "," : "", json_text(trace_.memory_kinds[k]), sample.bytes[k]);
        add("}}}}");
    }

    // Readers bind either end to the slice that is open at its instant, and drop an arrow that goes back in time.
    void put_flow(std::size_t id, const Flow& flow) {
        const Span& from = trace_.lanes[flow.from_lane].spans[flow.from_span];
        const Span& to = trace_.lanes[flow.to_lane].spans[flow.to_span];
        const Time arrives = std::max(from.begin, to.begin);
        if (arrives > to.begin && arrives >= to.end) return;
        const auto end = [&](const char* phase, std::int32_t lane, std::int16_t queue, Time at) {
            const auto [ts, fraction] = instant(at);
            next_event();
            add(R"({{"ph":{},"id":{},"pid":{},"tid":{},"ts":{}.{:06},"name":"transfer","cat":"transfer"}})", phase, id + 1,
                pid(static_cast<std::size_t>(lane)), tid(static_cast<std::size_t>(lane), queue), ts, fraction);
        };
        end("\"s\"", flow.from_lane, from.queue, from.begin);
        end("\"f\",\"bp\":\"e\"", flow.to_lane, to.queue, arrives);
    }

    const Trace& trace_;
    std::string path_;
    OutputFile file_;
    fmt::memory_buffer buffer_;
    std::vector<OpText> ops_;
    std::int64_t origin_ = 0;
    bool first_ = true;
};

} // namespace

void export_perfetto(const Trace& trace, const std::string& path) { PerfettoWriter(trace, path).write(); }

} // namespace orrery
