// The state that all views share: the time shown, what is selected, pinned, brushed. Views change it and listen to it; none talks to
// another.
#pragma once

#include <QObject>

#include <cstdint>
#include <vector>

namespace orrery {

using RunId = int; // given by RunStore; 0: none

// Picoseconds since the begin of the trace.
struct TimeRange {
    std::int64_t begin = 0, end = 0;
    std::int64_t length() const { return end - begin; }
    friend bool operator==(const TimeRange&, const TimeRange&) = default;
};

// A span of a run's trace; lane < 0: none.
struct SliceId {
    RunId run = 0;
    std::int32_t lane = -1, span = -1;
    bool valid() const { return lane >= 0; }
    friend bool operator==(const SliceId&, const SliceId&) = default;
};

// A setter that changes nothing sends no signal.
//
// Current and brushed runs agree: where any run is brushed, the current one is among them. Who sets one of the two changes the other with
// it, and both are in place before the first signal. Swept points (numbers below zero) are brushed beside runs, never current.
class ViewState : public QObject {
    Q_OBJECT
  public:
    explicit ViewState(QObject* parent = nullptr) : QObject(parent) {}

    RunId currentRun() const { return currentRun_; }   // the one that single-run views show
    TimeRange timeRange() const { return timeRange_; } // length 0: the whole run
    SliceId selectedSlice() const { return selectedSlice_; }
    RunId baseline() const { return baseline_; }                                      // what others are compared with
    const std::vector<RunId>& brushedRuns() const { return brushedRuns_; }            // chosen in a table or plot, in that order
    std::vector<RunId> highlighted() const;                                           // the brushed runs, else the current one alone
    const std::vector<std::int32_t>& selectedRanks() const { return selectedRanks_; } // empty: all; global ranks, ascending
    std::int32_t microbatch() const { return microbatch_; }                           // highlighted; -1: none
    std::int64_t cursor() const { return cursor_; }                                   // the linked time cursor; -1: none

    void setCurrentRun(RunId run);
    void setTimeRange(TimeRange range);
    void setSelectedSlice(SliceId slice);
    void setBaseline(RunId run);
    // current: which of them is to be current; where it is none of them: the one that is, else the last run among them.
    void setBrushedRuns(std::vector<RunId> runs, RunId current = 0);
    void setSelectedRanks(std::vector<std::int32_t> ranks);
    void setMicrobatch(std::int32_t microbatch);
    void setCursor(std::int64_t ps);

  Q_SIGNALS:
    void currentRunChanged(orrery::RunId run);
    void timeRangeChanged(orrery::TimeRange range);
    void selectedSliceChanged(orrery::SliceId slice);
    void baselineChanged(orrery::RunId run);
    void brushedRunsChanged();
    void selectedRanksChanged();
    void microbatchChanged(std::int32_t microbatch);
    void cursorChanged(std::int64_t ps);

  private:
    void choose(std::vector<RunId> brushed, RunId current);
    RunId currentRun_ = 0, baseline_ = 0;
    TimeRange timeRange_;
    SliceId selectedSlice_;
    std::vector<RunId> brushedRuns_;
    std::vector<std::int32_t> selectedRanks_;
    std::int32_t microbatch_ = -1;
    std::int64_t cursor_ = -1;
};

} // namespace orrery
