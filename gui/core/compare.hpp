// Two runs side by side: what differs in a range of time, and how far a prediction was from what was measured, op by op.
#pragma once

#include "gui/core/queries.hpp"

#include <QString>

#include <atomic>
#include <vector>

namespace orrery {

// How times of one run are laid over another's: both from the first work of their step; by_step also stretches steps to one length.
enum class Alignment : std::uint8_t { by_time, by_step };
// A time of `from` as one of `to`; a step is as long as Trace::begin .. Trace::end.
std::int64_t align(Alignment how, const TrackStore& from, const TrackStore& to, std::int64_t t);

// A row of a table of differences: of a kind and op or cause, what each run has of it (area() gives the figures).
struct Difference {
    SliceKind kind = SliceKind::other;
    QString what;
    std::vector<double> covered; // ps by run, mean over ranks
    std::vector<std::int64_t> slices;
    double change(std::size_t run) const { return covered[run] - covered[0]; }
};
// Runs in the order given, the first the baseline. Largest change first. Transfers that are only posted are left out: how early a receive
// is posted costs no time, and where something waits for it that wait is a row.
std::vector<Difference> differences(const std::vector<std::vector<AreaRow>>& runs);

// Predicted and measured slices of one op: the same name, microbatch and occurrence, on the lane of that rank, or one of its stage.
struct OpError {
    std::string kind;
    std::int64_t slices = 0;
    double predicted = 0, measured = 0; // ps, added up
    double absolute = 0;                // mean of |predicted / measured - 1| over slices
    double error() const { return measured > 0 ? predicted / measured - 1 : 0; }
};
struct Offender {
    SpanRef predicted, measured;
    double difference = 0; // ps, predicted - measured
};
struct Agreement {
    std::vector<OpError> kinds;                         // most measured time first
    std::vector<Offender> offenders;                    // largest |difference| first
    std::int64_t only_predicted = 0, only_measured = 0; // slices without their like
};
Agreement agreement(const Trace& predicted, const Trace& measured, std::size_t most_offenders,
                    const std::atomic<bool>* cancelled = nullptr);

// Both in one trace, a predicted lane above the measured one of the same rank, times from each step's first work; names: what the lanes
// are.
struct Overlaid {
    Trace trace;
    std::vector<QString> names;
    std::vector<std::int32_t> predicted_lane, measured_lane; // an original's lane -> its (first) lane here; -1: not shown
    std::int32_t measured_ops = 0;                           // added to an op's number of the measured trace
    std::int64_t predicted_opens = 0, measured_opens = 0;    // what was zero here in the originals
};
Overlaid overlay(const Trace& predicted, const Trace& measured);
// Where a span of an original is in the overlay's trace (which may have been moved elsewhere); invalid: not shown.
SpanRef in_overlay(const Overlaid& overlaid, const Trace& trace, const Trace& original, SpanRef ref, bool is_predicted);

// The lane that shows a rank, or stands for one of its stage; -1: none.
std::int32_t like_lane(const Trace& in, const Lane& lane);

} // namespace orrery
