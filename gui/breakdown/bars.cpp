#include "gui/breakdown/bars.hpp"

#include "gui/core/categories.hpp"

#include <algorithm>
#include <map>

namespace orrery {
namespace {

Breakdown seconds_of(const LaneResult& lane) {
    Breakdown out{};
    for (std::size_t c = 0; c < out.size(); ++c) out[c] = lane.breakdown[c].seconds();
    return out;
}

std::vector<Bar> strategy_bars(const RunStore& store, const ViewState& state) {
    std::vector<Bar> out;
    const auto add = [&](const Run& run) {
        if (run.data->report && run.data->report->step_time_s > 0)
            out.push_back({run.id, -1, shown_name(run), run.data->report->breakdown_s});
    };
    if (state.brushedRuns().size() > 1) {
        for (RunId id : state.brushedRuns())
            if (const Run* run = store.find(id)) add(*run);
    }
    if (out.empty())
        for (const Run& run : store.runs()) add(run);
    return out;
}

std::vector<Bar> stage_bars(const Run& run) {
    struct Sum {
        Breakdown seconds{};
        double ranks = 0;
        std::int32_t first = -1;
    };
    std::map<int, Sum> stages;
    for (const LaneResult& lane : run.data->lanes) {
        Sum& sum = stages[lane.stage];
        const Breakdown mine = seconds_of(lane);
        for (std::size_t c = 0; c < mine.size(); ++c) sum.seconds[c] += mine[c] * lane.ranks;
        sum.ranks += lane.ranks;
        if (sum.first < 0) sum.first = lane.rank;
    }
    std::vector<Bar> out;
    for (auto& [stage, sum] : stages) {
        for (double& s : sum.seconds) s /= sum.ranks;
        out.push_back({run.id, sum.first, BreakdownView::tr("stage %1").arg(stage), sum.seconds});
    }
    return out;
}

std::vector<Bar> rank_bars(const Run& run) {
    std::vector<Bar> out;
    for (const LaneResult& lane : run.data->lanes) {
        const QString name = lane.ranks > 1 ? BreakdownView::tr("rank %1 and %n like it", "", lane.ranks - 1).arg(lane.rank)
                                            : BreakdownView::tr("rank %1").arg(lane.rank);
        out.push_back({run.id, lane.rank, name, seconds_of(lane)});
    }
    std::stable_sort(out.begin(), out.end(), [](const Bar& a, const Bar& b) { return a.rank < b.rank; });
    return out;
}

} // namespace

std::vector<Bar> bars(const RunStore& store, const ViewState& state, BarsOf of) {
    if (of == BarsOf::strategies) return strategy_bars(store, state);
    const Run* run = store.find(state.currentRun());
    if (!run) return {};
    return of == BarsOf::stages ? stage_bars(*run) : rank_bars(*run);
}

} // namespace orrery
