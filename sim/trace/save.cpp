// Writes a trace in the compact form described in README.md.
#include "sim/trace/bytes.hpp"
#include "sim/trace/format.hpp"
#include "sim/trace/trace.hpp"
#include "topology/output_file.hpp"

#include <array>
#include <cstdio>
#include <cstdlib>

namespace orrery {
namespace {

void put_texts(ByteWriter& out, const std::vector<std::string>& texts) {
    out.number(texts.size());
    for (const std::string& t : texts) out.text(t);
}

void put_op(ByteWriter& out, const TraceOp& op) {
    out.text(op.name);
    out.text(op.kind);
    out.text(op.phase);
    out.integer(op.layer);
    out.real(op.flops);
    out.integer(op.bytes);
    out.integer(op.calls);
}

// Most spans begin where the one before on their queue ended, and last as long as the op did before: two bytes of zero.
void put_spans(ByteWriter& out, const Trace& trace, const Lane& lane) {
    ByteWriter ops, durations, gaps;
    RunWriter queues;
    std::array<RunWriter, 2> microbatches, states, peers; // [0] of spans without an op, [1] of those with one
    std::vector<std::int64_t> lasted(trace.ops.size() + 1, 0);
    std::int32_t op = 0;
    std::int64_t ended = trace.begin.ps;
    std::int32_t queue = -1;
    for (const Span& s : lane.spans) {
        if (s.queue != queue) ended = trace.begin.ps;
        queue = s.queue;
        ops.number(s.op < 0 ? 0 : 1 + zigzag(std::int64_t{s.op} - op));
        if (s.op >= 0) op = s.op;
        std::int64_t& last = lasted[s.op + 1];
        const std::int64_t duration = difference(s.end.ps, s.begin.ps);
        durations.integer(difference(duration, last));
        last = duration;
        gaps.integer(difference(s.begin.ps, ended));
        ended = s.end.ps;
        queues.add(s.queue);
        const std::size_t which = s.op >= 0;
        microbatches[which].add(s.microbatch);
        states[which].add(static_cast<std::int64_t>(s.kind) * 16 + static_cast<std::int64_t>(s.cause));
        peers[which].add(s.peer);
    }
    out.number(lane.spans.size());
    for (const std::string& column : {ops.bytes, durations.bytes, gaps.bytes, queues.take()}) out.text(column);
    for (std::size_t which : {0u, 1u})
        for (const std::string& column : {microbatches[which].take(), states[which].take(), peers[which].take()}) out.text(column);
}

void put_memory(ByteWriter& out, const Trace& trace, const Lane& lane) {
    out.number(lane.memory.size());
    std::int64_t at = trace.begin.ps;
    std::vector<std::int64_t> bytes(trace.memory_kinds.size(), 0);
    for (const MemorySample& sample : lane.memory) {
        out.integer(difference(sample.at.ps, at));
        at = sample.at.ps;
        for (std::size_t k = 0; k < bytes.size(); ++k) out.integer(difference(sample.bytes[k], bytes[k]));
        bytes = sample.bytes;
    }
}

void put_flows(ByteWriter& out, const std::vector<Flow>& flows) {
    out.number(flows.size());
    Flow before{0, 0, 0, 0};
    for (const Flow& f : flows) {
        out.integer(std::int64_t{f.from_lane} - before.from_lane);
        out.integer(std::int64_t{f.from_span} - before.from_span);
        out.integer(std::int64_t{f.to_lane} - before.to_lane);
        out.integer(std::int64_t{f.to_span} - before.to_span);
        before = f;
    }
}

void put_links(ByteWriter& out, const std::vector<LinkSeries>& links) {
    out.number(links.size());
    for (const LinkSeries& l : links) {
        out.integer(l.link);
        out.integer(l.twins);
        out.text(l.name);
        out.real(l.capacity);
        out.number(l.bytes.size());
        std::int64_t before = 0;
        for (const std::int64_t b : l.bytes) {
            out.integer(difference(b, before));
            before = b;
        }
    }
}

std::string payload(const Trace& trace) {
    ByteWriter out;
    out.text(trace.name);
    out.text(trace.source);
    out.fixed(trace.plan_hash, 8);
    out.integer(trace.begin.ps);
    out.integer(trace.end.ps);
    out.integer(trace.period.ps);
    out.integer(trace.steps);
    put_texts(out, trace.queues);
    put_texts(out, trace.memory_kinds);
    out.number(trace.ops.size());
    for (const TraceOp& op : trace.ops) put_op(out, op);
    out.number(trace.lanes.size());
    for (const Lane& lane : trace.lanes) {
        out.integer(lane.rank);
        out.integer(lane.ranks);
        out.integer(lane.stage);
        put_spans(out, trace, lane);
        put_memory(out, trace, lane);
    }
    put_flows(out, trace.flows);
    put_links(out, trace.links);
    return std::move(out.bytes);
}

} // namespace

void save(const Trace& trace, const std::string& path) {
    if (const std::string p = trace_file::problem(trace); !p.empty()) {
        std::fprintf(stderr, "orrery bug: a trace that cannot be saved: %s\n", p.c_str());
        std::abort();
    }
    const std::string body = payload(trace);
    ByteWriter header;
    header.bytes = trace_file::magic;
    header.fixed(trace_file::version, 4);
    header.fixed(body.size(), 8);
    header.fixed(trace_file::checksum(body), 8);

    OutputFile file = open_output(path);
    const bool written = std::fwrite(header.bytes.data(), 1, header.bytes.size(), file.get()) == header.bytes.size() &&
                         std::fwrite(body.data(), 1, body.size(), file.get()) == body.size();
    close_output(std::move(file), written, path);
}

} // namespace orrery
