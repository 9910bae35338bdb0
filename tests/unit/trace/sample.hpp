// A trace that looks like a pipeline's: per lane, ops of several microbatches on a few queues, waits between them, transfers, memory.
#pragma once

#include "sim/trace/trace.hpp"

#include <cstdint>
#include <random>
#include <string>

namespace orrery {

inline Trace sample_trace(int lanes, int microbatches, int ops_per_microbatch, bool noise) {
    std::mt19937_64 random(7);
    Trace t;
    t.name = "sample \"quoted\" \\ name";
    t.source = "simulated";
    t.plan_hash = 0xfedcba9876543210u;
    t.begin = Time::seconds(3.25);
    t.period = Time::seconds(1.5);
    t.steps = 3;
    t.queues = {"compute", "tp", "pp.up"};
    t.memory_kinds = {"parameters", "activations"};
    for (int i = 0; i < ops_per_microbatch; ++i)
        t.ops.push_back({"l" + std::to_string(i) + ".qkv.fwd", i % 3 ? "linear" : "all_gather", "forward", static_cast<std::int16_t>(i),
                         1.5e12 * i, std::int64_t{1} << i % 40, i % 3 ? 1 : 1 + i});
    for (int l = 0; l < lanes; ++l) {
        Lane lane{48 * l, l % 2 ? 128 : 1, static_cast<std::int16_t>(l), {}, {}};
        for (std::int16_t q = 0; q < 3; ++q) {
            Time at = t.begin + Time{1000 * l};
            for (int m = 0; m < microbatches; ++m) {
                const Time waited{static_cast<std::int64_t>(random() % 5'000'000'000)};
                const WaitCause cause = m ? WaitCause::receive : WaitCause::warm_up;
                lane.spans.push_back({at, at + waited, -1, -1, q, SpanKind::wait, cause, (l + 1) % lanes});
                at += waited;
                for (int i = q; i < ops_per_microbatch; i += q + 1) {
                    const std::int64_t ps = 123'456'789 + 1'000'003 * i + (noise ? static_cast<std::int64_t>(random() % 2'000'000) : 0);
                    if (q > 0 && i % 5 == 0) {
                        const Time posted{ps / 3};
                        lane.spans.push_back({at, at + posted, i, m, q, SpanKind::transfer_wait, WaitCause::collective, (l + 1) % lanes});
                        at += posted;
                    }
                    lane.spans.push_back({at, at + Time{ps}, i, m, q, SpanKind::op, WaitCause::none, -1});
                    at = lane.spans.back().end;
                }
                if (q == 0) lane.memory.push_back({at, {std::int64_t{7} << 30, (std::int64_t{m} + 1) << 28}});
            }
            t.end = std::max(t.end, at);
        }
        t.lanes.push_back(std::move(lane));
    }
    for (std::int32_t l = 0; l + 1 < lanes; ++l) {
        const auto last = static_cast<std::int32_t>(t.lanes[l].spans.size()) - 1;
        t.flows.push_back({l, last, l + 1, last});
        t.flows.push_back({l + 1, 1, l, 1});
    }
    for (int l = 0; l < 3; ++l)
        t.links.push_back({l, 1 + l, "node" + std::to_string(l) + ".gpu0 > nvswitch", 450e9, {0, 0, std::int64_t{1} << (30 + l), 7, 0}});
    return t;
}

} // namespace orrery
