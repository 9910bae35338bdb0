// Keeps spans while the loop runs, and makes a Trace of one step of them.
#pragma once

#include "sim/engine/run.hpp"

#include <vector>

namespace orrery {

struct Recorder {
    struct Raw {
        Span span;
        std::int32_t step;
        Category category;
    };
    struct LaneRecord {
        std::vector<Raw> spans;
        bool idle = false;
        Why why;
        std::int64_t idle_since = 0;
        std::vector<std::int64_t> step_ends; // times; [k]: its step k + 1 had ended
    };
    struct RawFlow {
        std::int32_t from_lane, from, to_lane, to, step;
    };
    struct Moved {
        std::int64_t begin, end; // times its data moved
        std::int32_t cost;       // in Machine::bundle_costs
    };
    std::vector<LaneRecord> lanes;
    std::vector<Moved> moved;          // transfers and collectives, by end; those of earlier steps are dropped
    std::vector<RawFlow> flows;        // spans by number since the start: dropped ones count
    std::vector<std::int64_t> dropped; // by lane
    std::vector<std::int64_t> started; // by bundle
    explicit Recorder(const Machine& m) : lanes(m.lanes.size()), dropped(m.lanes.size(), 0), started(m.bundles.size(), 0) {}
};

void record_end(Recorder& r, const EventLoop& run, std::int32_t lane, int q); // a timed op ends
void record_start(Recorder& r, const EventLoop& run, std::int32_t bundle);
void record_bundle_end(Recorder& r, const EventLoop& run, std::int32_t bundle);
void record_wait(Recorder& r, const EventLoop& run, std::int32_t lane, bool idle, const Why& why);
void record_step_end(Recorder& r, const EventLoop& run, std::int32_t lane);

// How finely a trace tells what links carry over its step.
inline constexpr int link_bins = 256;

// The trace of step `step` (1: the first), which every lane has ended.
Trace trace_of(const Recorder& r, const EventLoop& run, std::int32_t step);

} // namespace orrery
