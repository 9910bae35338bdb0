// Names of wait causes, and what makes a trace consistent.
#include "sim/trace/trace.hpp"

#include "sim/trace/format.hpp"

#include <fmt/format.h>

#include <cstring>

namespace orrery {

const char* name(WaitCause c) {
    switch (c) {
    case WaitCause::none:
        return "none";
    case WaitCause::warm_up:
        return "warm-up";
    case WaitCause::drain:
        return "drain";
    case WaitCause::receive:
        return "receive";
    case WaitCause::collective:
        return "collective";
    case WaitCause::host:
        return "host";
    case WaitCause::memory:
        return "memory";
    case WaitCause::dependency:
        return "dependency";
    }
    return "unknown";
}

namespace trace_file {
namespace {

bool inside(std::int64_t i, std::size_t size) { return i >= 0 && i < static_cast<std::int64_t>(size); }

std::string lane_problem(const Trace& trace, std::size_t l) {
    const Lane& lane = trace.lanes[l];
    for (std::size_t i = 0; i < lane.spans.size(); ++i) {
        const Span& s = lane.spans[i];
        const auto where = [&] { return fmt::format("lane {}, span {}", l, i); };
        if (!inside(s.queue, trace.queues.size())) return fmt::format("{}: there is no queue {}", where(), s.queue);
        if (s.op != -1 && !inside(s.op, trace.ops.size())) return fmt::format("{}: there is no op {}", where(), s.op);
        if (s.peer != -1 && !inside(s.peer, trace.lanes.size()))
            return fmt::format("{}: there is no lane {} that could be late", where(), s.peer);
        if (s.end < s.begin) return fmt::format("{}: ends at {} ps, before it begins at {} ps", where(), s.end.ps, s.begin.ps);
        if (i == 0) continue;
        const Span& before = lane.spans[i - 1];
        if (s.queue < before.queue || (s.queue == before.queue && s.begin < before.begin))
            return where() + ": spans are not sorted by queue and begin";
    }
    for (std::size_t i = 0; i < lane.memory.size(); ++i)
        if (lane.memory[i].bytes.size() != trace.memory_kinds.size())
            return fmt::format("lane {}, memory sample {}: {} figures for {} kinds", l, i, lane.memory[i].bytes.size(),
                               trace.memory_kinds.size());
    return {};
}

} // namespace

std::string problem(const Trace& trace) {
    if (trace.queues.size() > INT16_MAX) return fmt::format("{} queues", trace.queues.size());
    for (std::size_t l = 0; l < trace.lanes.size(); ++l)
        if (std::string p = lane_problem(trace, l); !p.empty()) return p;
    for (std::size_t i = 0; i < trace.links.size(); ++i) {
        const LinkSeries& l = trace.links[i];
        if (l.twins < 1 || !(l.capacity > 0)) return fmt::format("link {} ({}): {} links of {} bytes/s", i, l.name, l.twins, l.capacity);
        if (l.bytes.size() != trace.links[0].bytes.size())
            return fmt::format("link {} ({}): {} bins where others have {}", i, l.name, l.bytes.size(), trace.links[0].bytes.size());
    }
    for (std::size_t i = 0; i < trace.flows.size(); ++i) {
        const Flow& f = trace.flows[i];
        const auto exists = [&](std::int32_t lane, std::int32_t span) {
            return inside(lane, trace.lanes.size()) && inside(span, trace.lanes[lane].spans.size());
        };
        if (!exists(f.from_lane, f.from_span) || !exists(f.to_lane, f.to_span))
            return fmt::format("flow {}: from lane {} span {} to lane {} span {}: there is no such span", i, f.from_lane, f.from_span,
                               f.to_lane, f.to_span);
    }
    return {};
}

std::uint64_t checksum(std::string_view bytes) {
    std::uint64_t h = 0x9e3779b97f4a7c15u ^ bytes.size();
    const auto mix = [&](std::string_view part) { // as a little-endian number
        std::uint64_t word = 0;
        for (std::size_t i = part.size(); i-- > 0;) word = word << 8 | static_cast<unsigned char>(part[i]);
        h = (h ^ word) * 0xd6e8feb86659fd93u;
        h ^= h >> 32;
    };
    for (; bytes.size() >= 8; bytes.remove_prefix(8)) mix(bytes.substr(0, 8));
    mix(bytes);
    return h;
}

} // namespace trace_file
} // namespace orrery
