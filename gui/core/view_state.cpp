#include "gui/core/view_state.hpp"

#include <algorithm>
#include <utility>

namespace orrery {

namespace {
bool among(const std::vector<RunId>& runs, RunId run) { return std::find(runs.begin(), runs.end(), run) != runs.end(); }
} // namespace

void ViewState::choose(std::vector<RunId> brushed, RunId current) {
    const bool other_brush = brushed != brushedRuns_, other_run = current != currentRun_;
    brushedRuns_ = std::move(brushed);
    currentRun_ = current;
    if (other_brush) Q_EMIT brushedRunsChanged();
    if (other_run && currentRun_ == current) Q_EMIT currentRunChanged(current);
}

std::vector<RunId> ViewState::highlighted() const {
    if (!brushedRuns_.empty() || currentRun_ == 0) return brushedRuns_;
    return {currentRun_};
}

void ViewState::setCurrentRun(RunId run) {
    if (brushedRuns_.empty() || among(brushedRuns_, run)) return choose(brushedRuns_, run);
    choose(run == 0 ? std::vector<RunId>{} : std::vector<RunId>{run}, run);
}

void ViewState::setTimeRange(TimeRange range) {
    if (std::exchange(timeRange_, range) != range) Q_EMIT timeRangeChanged(range);
}

void ViewState::setSelectedSlice(SliceId slice) {
    if (std::exchange(selectedSlice_, slice) != slice) Q_EMIT selectedSliceChanged(slice);
}

void ViewState::setBaseline(RunId run) {
    if (std::exchange(baseline_, run) != run) Q_EMIT baselineChanged(run);
}

void ViewState::setBrushedRuns(std::vector<RunId> runs, RunId current) {
    if (current <= 0 || !among(runs, current)) current = currentRun_;
    const auto last = std::find_if(runs.rbegin(), runs.rend(), [](RunId r) { return r > 0; });
    if (last != runs.rend() && !among(runs, current)) current = *last;
    choose(std::move(runs), current);
}

void ViewState::setSelectedRanks(std::vector<std::int32_t> ranks) {
    std::sort(ranks.begin(), ranks.end());
    ranks.erase(std::unique(ranks.begin(), ranks.end()), ranks.end());
    if (ranks == selectedRanks_) return;
    selectedRanks_ = std::move(ranks);
    Q_EMIT selectedRanksChanged();
}

void ViewState::setMicrobatch(std::int32_t microbatch) {
    if (std::exchange(microbatch_, microbatch) != microbatch) Q_EMIT microbatchChanged(microbatch);
}

void ViewState::setCursor(std::int64_t ps) {
    if (std::exchange(cursor_, ps) != ps) Q_EMIT cursorChanged(ps);
}

} // namespace orrery
