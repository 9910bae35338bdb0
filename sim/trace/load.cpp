// Reads a trace file. Whatever the bytes are, the result is a consistent trace or an error that names the file and what is wrong;
// memory is taken only for what the bytes at hand can fill.
#include "sim/trace/bytes.hpp"
#include "sim/trace/format.hpp"
#include "sim/trace/trace.hpp"
#include "topology/text.hpp"

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <limits>
#include <memory>

namespace orrery {
namespace {

constexpr std::int64_t i16_max = std::numeric_limits<std::int16_t>::max(), i32_max = std::numeric_limits<std::int32_t>::max();

struct Header {
    std::uint64_t size = 0, sum = 0;
};

Header header(std::string_view bytes) {
    if (bytes.empty()) throw std::runtime_error("is empty");
    const std::size_t same = std::min(bytes.size(), trace_file::magic.size());
    if (bytes.substr(0, same) != trace_file::magic.substr(0, same)) {
        const std::size_t first = bytes.find_first_not_of(" \t\r\n");
        const bool json = first != std::string_view::npos && bytes[first] == '{';
        throw std::runtime_error(json ? "is not a trace of Orrery; it looks like JSON" : "is not a trace of Orrery");
    }
    if (bytes.size() < trace_file::header_bytes) throw std::runtime_error("is truncated within its header");
    ByteReader in(bytes.substr(trace_file::magic.size()));
    if (const std::uint64_t v = in.fixed(4); v != trace_file::version)
        throw std::runtime_error("has trace format version " + std::to_string(v) + "; this program reads version " +
                                 std::to_string(trace_file::version) +
                                 (v < trace_file::version ? ": record it again" : ": a later program wrote it"));
    Header h;
    h.size = in.fixed(8);
    h.sum = in.fixed(8);
    return h;
}

// The payload, its size and checksum verified. Its buffer grows with what has been read, not with what the header claims.
std::string read_payload(const std::string& path) {
    const auto fail = [] { throw std::runtime_error(std::string("cannot be read: ") + std::strerror(errno)); };
    const std::unique_ptr<std::FILE, int (*)(std::FILE*)> file(std::fopen(path.c_str(), "rb"), std::fclose);
    if (!file) fail();
    const auto read = [&](char* to, std::size_t most) {
        const std::size_t n = std::fread(to, 1, most, file.get());
        if (std::ferror(file.get())) fail();
        return n;
    };
    std::array<char, trace_file::header_bytes> start;
    const Header h = header({start.data(), read(start.data(), start.size())});
    std::string body;
    for (std::size_t got = 0; got < h.size;) {
        body.resize(got + static_cast<std::size_t>(std::min<std::uint64_t>(h.size - got, std::max<std::size_t>(got, 1 << 20))));
        const std::size_t n = read(body.data() + got, body.size() - got);
        if (n == 0) throw std::runtime_error("is truncated: " + std::to_string(got) + " of " + std::to_string(h.size) + " bytes are there");
        got += n;
    }
    if (char more = 0; read(&more, 1) > 0) throw std::runtime_error("is corrupt: something follows its end");
    if (trace_file::checksum(body) != h.sum) throw std::runtime_error("is corrupt: its checksum does not match");
    return body;
}

std::vector<std::string> texts(ByteReader& in, const char* what, std::size_t most) {
    const std::size_t n = in.count(what);
    if (n > most) throw std::runtime_error("claims " + std::to_string(n) + " " + what);
    std::vector<std::string> result(n);
    for (std::string& t : result) t = printable(in.text());
    return result;
}

TraceOp trace_op(ByteReader& in) {
    TraceOp op;
    op.name = printable(in.text());
    op.kind = printable(in.text());
    op.phase = printable(in.text());
    op.layer = static_cast<std::int16_t>(in.integer_in(-i16_max - 1, i16_max, "layer"));
    op.flops = in.real();
    op.bytes = in.integer();
    op.calls = static_cast<std::int32_t>(in.integer_in(1, i32_max, "number of calls"));
    return op;
}

struct SpanColumns {
    ByteReader ops, durations, gaps;
    RunReader queues;
    std::array<RunReader, 2> microbatches, states, peers;

    SpanColumns(ByteReader& in, const Trace& trace) {
        ops = ByteReader(in.text());
        durations = ByteReader(in.text());
        gaps = ByteReader(in.text());
        queues = RunReader(in.text(), 0, static_cast<std::int64_t>(trace.queues.size()) - 1, "queue");
        for (std::size_t which : {0u, 1u}) {
            microbatches[which] = RunReader(in.text(), -i32_max - 1, i32_max, "microbatch");
            states[which] = RunReader(in.text(), 0, 255, "span state");
            peers[which] = RunReader(in.text(), -1, static_cast<std::int64_t>(trace.lanes.size()) - 1, "peer lane");
        }
    }
    void expect_end() const {
        ops.expect_end("ops");
        durations.expect_end("durations");
        gaps.expect_end("gaps");
        queues.expect_end();
        for (const auto* columns : {&microbatches, &states, &peers})
            for (const RunReader& column : *columns) column.expect_end();
    }
};

void set_state(Span& span, std::int64_t state) {
    if (state / 16 > static_cast<std::int64_t>(SpanKind::wait) || state % 16 > static_cast<std::int64_t>(WaitCause::dependency))
        throw std::runtime_error("span state " + std::to_string(state) + " is unknown");
    span.kind = static_cast<SpanKind>(state / 16);
    span.cause = static_cast<WaitCause>(state % 16);
}

std::vector<Span> spans(ByteReader& in, const Trace& trace) {
    const std::size_t count = in.count("spans");
    SpanColumns columns(in, trace);
    if (count > std::min({columns.ops.left(), columns.durations.left(), columns.gaps.left()}))
        throw std::runtime_error("claims " + std::to_string(count) + " spans, more than its columns can hold");
    std::vector<Span> result(count);
    std::vector<std::int64_t> lasted(trace.ops.size() + 1, 0);
    std::int64_t op = 0, ended = trace.begin.ps;
    std::int32_t queue = -1;
    for (Span& s : result) {
        s.queue = static_cast<std::int16_t>(columns.queues.next());
        if (s.queue != queue) ended = trace.begin.ps;
        queue = s.queue;
        const std::uint64_t code = columns.ops.number();
        if (code > 0) {
            op = sum(op, unzigzag(code - 1));
            if (op < 0 || op >= static_cast<std::int64_t>(trace.ops.size()))
                throw std::runtime_error("op " + std::to_string(op) + " is out of range");
            s.op = static_cast<std::int32_t>(op);
        }
        std::int64_t& last = lasted[s.op + 1];
        last = sum(last, columns.durations.integer());
        s.begin.ps = sum(ended, columns.gaps.integer());
        s.end.ps = ended = sum(s.begin.ps, last);
        const std::size_t which = s.op >= 0;
        s.microbatch = static_cast<std::int32_t>(columns.microbatches[which].next());
        set_state(s, columns.states[which].next());
        s.peer = static_cast<std::int32_t>(columns.peers[which].next());
    }
    columns.expect_end();
    return result;
}

std::vector<MemorySample> memory(ByteReader& in, const Trace& trace) {
    const std::size_t count = in.count("memory samples", trace.memory_kinds.size() + 1);
    std::vector<MemorySample> result(count);
    std::int64_t at = trace.begin.ps;
    std::vector<std::int64_t> bytes(trace.memory_kinds.size(), 0);
    for (MemorySample& sample : result) {
        sample.at.ps = at = sum(at, in.integer());
        for (std::int64_t& b : bytes) b = sum(b, in.integer());
        sample.bytes = bytes;
    }
    return result;
}

std::vector<Flow> flows(ByteReader& in) {
    std::vector<Flow> result(in.count("flows", 4));
    const auto next = [&](std::int32_t before) {
        const std::int64_t v = sum(before, in.integer());
        if (v < 0 || v > i32_max) throw std::runtime_error("an end of a flow, " + std::to_string(v) + ", is out of range");
        return static_cast<std::int32_t>(v);
    };
    Flow before{0, 0, 0, 0};
    for (Flow& f : result) before = f = {next(before.from_lane), next(before.from_span), next(before.to_lane), next(before.to_span)};
    return result;
}

std::vector<LinkSeries> links(ByteReader& in) {
    std::vector<LinkSeries> result(in.count("links", 12));
    for (LinkSeries& l : result) {
        l.link = static_cast<std::int32_t>(in.integer_in(-1, i32_max, "link"));
        l.twins = static_cast<std::int32_t>(in.integer_in(1, i32_max, "number of links"));
        l.name = printable(in.text());
        l.capacity = in.real();
        l.bytes.resize(in.count("bins"));
        std::int64_t before = 0;
        for (std::int64_t& b : l.bytes) b = before = sum(before, in.integer());
    }
    return result;
}

Trace parse(ByteReader in) {
    Trace trace;
    trace.name = printable(in.text());
    trace.source = printable(in.text());
    trace.plan_hash = in.fixed(8);
    trace.begin.ps = in.integer();
    trace.end.ps = in.integer();
    trace.period.ps = in.integer_in(0, std::numeric_limits<std::int64_t>::max(), "period");
    trace.steps = static_cast<std::int32_t>(in.integer_in(1, i32_max, "number of steps"));
    trace.queues = texts(in, "queues", static_cast<std::size_t>(i16_max));
    trace.memory_kinds = texts(in, "memory kinds", 4096);
    trace.ops.resize(in.count("ops", 13));
    for (TraceOp& op : trace.ops) op = trace_op(in);
    trace.lanes.resize(in.count("lanes", 15));
    for (Lane& lane : trace.lanes) {
        lane.rank = static_cast<std::int32_t>(in.integer_in(-i32_max - 1, i32_max, "rank"));
        lane.ranks = static_cast<std::int32_t>(in.integer_in(-i32_max - 1, i32_max, "number of ranks"));
        lane.stage = static_cast<std::int16_t>(in.integer_in(-i16_max - 1, i16_max, "stage"));
        lane.spans = spans(in, trace);
        lane.memory = memory(in, trace);
    }
    trace.flows = flows(in);
    trace.links = links(in);
    in.expect_end("the file");
    if (const std::string p = trace_file::problem(trace); !p.empty()) throw std::runtime_error(p);
    return trace;
}

} // namespace

Trace load_trace(const std::string& path) {
    std::string body;
    try {
        body = read_payload(path);
    } catch (const std::runtime_error& e) { throw std::runtime_error(path + " " + e.what()); }
    try {
        return parse(ByteReader(body));
    } catch (const std::runtime_error& e) { throw std::runtime_error(path + " is corrupt: " + e.what()); }
}

} // namespace orrery
