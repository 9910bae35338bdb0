#include "gui/core/view_state.hpp"

#include <algorithm>
#include <utility>

namespace orrery {

void ViewState::setCurrentRun(RunId run) {
    if (std::exchange(currentRun_, run) != run) Q_EMIT currentRunChanged(run);
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

void ViewState::setBrushedRuns(std::vector<RunId> runs) {
    if (runs == brushedRuns_) return;
    brushedRuns_ = std::move(runs);
    Q_EMIT brushedRunsChanged();
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
