// The chain of spans that a step's length rests on: each began when the one before it ended, the last is the last to end.
#pragma once

#include "sim/trace/trace.hpp"

#include <functional>
#include <map>
#include <string>
#include <vector>

namespace orrery {

// gap: time between the end of the step before on the path and this span's begin (a launch, the host; in a measured trace also noise).
struct PathStep {
    std::int32_t lane = 0, span = 0;
    Time gap;
};

// In order of time. Found from times alone, back from the span that ends last: what ended just as a span began let it begin; a collective
// or a transfer that was waited for was let begin by the lane that posted last. Where two ended at once, the one on the span's own
// queue is taken. Spans and gaps add up to the time from the first span's begin to the last one's end.
std::vector<PathStep> critical_path(const Trace& trace);

// Ops at a step's end may run on beside the next step (updates on the host), which begins late for those of the step before: the path has
// their time at its end, and as a gap at its begin. That gap, where there is one, is made shorter by what the path is longer than the step.
void count_once(std::vector<PathStep>& path, const Trace& trace);

// Seconds of one step, by what `name` calls a span on the path (a kind of op, a resource); gaps are "launches, host". A trace of a round
// has several steps, and from the first begin to the last end it is longer than what steps are apart: the seconds are scaled to step_s.
std::map<std::string, double> seconds_on_path(const Trace& trace, double step_s,
                                              const std::function<std::string(const Trace&, const Span&)>& name);

} // namespace orrery
