// A step as an interpreter ran it: spans per lane and queue, waits with their cause, memory, bytes by link. Reports, exports and
// comparisons read this and never ask where it came from.
#pragma once

#include "topology/units.hpp"

#include <cstdint>
#include <string>
#include <vector>

namespace orrery {

enum class SpanKind : std::uint8_t { op, transfer_wait, wait }; // transfer_wait: a collective or transfer posted, its data not yet moving
enum class WaitCause : std::uint8_t { none, warm_up, drain, receive, collective, host, memory, dependency };
const char* name(WaitCause c);

struct TraceOp {
    std::string name; // "l17.qkv.fwd"
    std::string kind; // kind_name() of its work
    std::string phase;
    std::int16_t layer = -1;
    double flops = 0;
    std::int64_t bytes = 0; // of all calls
    std::int32_t calls = 1; // collectives of the software, one after another, that the op stands for (the runtime makes one of them)
};

struct Span {
    Time begin, end;
    std::int32_t op = -1; // index in Trace::ops; -1: none (a wait)
    std::int32_t microbatch = -1;
    std::int16_t queue = 0; // index in Trace::queues
    SpanKind kind = SpanKind::op;
    WaitCause cause = WaitCause::none;
    std::int32_t peer = -1; // wait: the lane that was late
};

struct MemorySample {
    Time at;
    std::vector<std::int64_t> bytes;
}; // by Trace::memory_kinds

struct Lane {
    std::int32_t rank = 0;  // the rank it shows
    std::int32_t ranks = 1; // how many ranks it stands for
    std::int16_t stage = 0;
    std::vector<Span> spans; // sorted by (queue, begin)
    std::vector<MemorySample> memory;
};

struct Flow {
    std::int32_t from_lane, from_span, to_lane, to_span;
}; // a transfer's two ends

// The load of one link (in a folded trace: of each of `twins` links with the same load), in bins of equal length over the step shown. A
// transfer's bytes are spread evenly over the time its data moved.
struct LinkSeries {
    std::int32_t link = -1; // in the cluster's graph
    std::int32_t twins = 1;
    std::string name;                // "node3.gpu1 > nvswitch"
    double capacity = 0;             // bytes per second
    std::vector<std::int64_t> bytes; // by bin
};

struct Trace {
    std::string name;
    std::string source; // "simulated", "measured: .."
    std::uint64_t plan_hash = 0;
    Time begin, end;                 // of the step shown, or of a round
    Time period;                     // from one such step or round to the next; 0: not known, begin to end stands for it
    std::int32_t steps = 1;          // training steps in it
    std::vector<std::string> queues; // "compute", "tp", "pp.up", ...
    std::vector<std::string> memory_kinds;
    std::vector<TraceOp> ops;
    std::vector<Lane> lanes;
    std::vector<Flow> flows;
    std::vector<LinkSeries> links; // those that carried anything; all with as many bins

    // Of one training step.
    double step_s() const { return (period.ps > 0 ? period : end - begin).seconds() / steps; }
};

// Compact binary form (magic, version, columns of varints). Throws std::runtime_error with the file and what is wrong with it.
void save(const Trace& trace, const std::string& path);
Trace load_trace(const std::string& path);

// Chrome/Perfetto JSON: one process per lane, one named track per queue, flow arrows, memory counters.
void export_perfetto(const Trace& trace, const std::string& path);

} // namespace orrery
