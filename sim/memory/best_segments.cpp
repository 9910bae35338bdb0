#include "sim/memory/best_segments.hpp"

#include "sim/memory/memory.hpp"
#include "sim/plan/lower.hpp"
#include "sim/schedules/schedule.hpp"

#include <algorithm>
#include <fmt/format.h>

namespace orrery {
namespace {

// Layers of each stage that are recomputed, and the number of segments a chunk they are in.
struct Cut {
    int layers = 0, segments = 0;
};
struct Tried {
    Cut cut;
    bool fits = false;
    Bytes peak; // of the fullest stage
};

Scenario with(const Scenario& scenario, const Cut& cut) {
    Scenario s = scenario;
    Strategy& st = s.strategy;
    st.recompute = cut.layers > 0 ? RecomputeKind::full : RecomputeKind::none;
    st.recompute_segments = cut.layers > 0 ? cut.segments : 0;
    st.recompute_layers.clear();
    if (cut.layers > 0) st.recompute_layers = {cut.layers};
    return s;
}

Tried attempt(const Scenario& scenario, const Cut& cut) {
    const Scenario s = with(scenario, cut);
    const MemoryReport bytes = memory(lower(s), s);
    return {cut, bytes.fits, fullest(bytes).peak};
}

// The layers of the longest stage, and of the longest chunk.
std::pair<int, int> most_layers(const Strategy& s) {
    std::vector<int> of_stage(static_cast<std::size_t>(s.pipeline_parallel), 0);
    const int chunks = static_cast<int>(s.layers_per_chunk.size());
    const ScheduleInfo* const schedule = find_schedule(s.schedule);
    int longest = 0;
    for (int c = 0; c < chunks; ++c) {
        of_stage[schedule->stage_of(c, s.pipeline_parallel)] += s.layers_per_chunk[c];
        longest = std::max(longest, s.layers_per_chunk[c]);
    }
    return {*std::max_element(of_stage.begin(), of_stage.end()), longest};
}

// The cut of a given number of layers with the lowest peak. The longest segment is what is alive of layers, and each segment keeps its
// input: of the numbers that have the same longest one, the least.
Tried best_cut(const Scenario& scenario, int layers, int longest) {
    const int most = std::max(1, std::min(layers, longest));
    Tried best = attempt(scenario, {layers, 1});
    for (int length = most - 1, last = 1; length >= 1; --length) {
        const int segments = (most + length - 1) / length;
        if (segments == last) continue;
        last = segments;
        const Tried t = attempt(scenario, {layers, segments});
        if (t.peak < best.peak) best = t;
    }
    return best;
}

} // namespace

void settle(Scenario& scenario) {
    if (scenario.strategy.recompute_segments >= 0) return;
    const auto [most, longest] = most_layers(scenario.strategy);
    Tried chosen = attempt(scenario, {});
    if (!chosen.fits) {
        // While the values that other layers keep are freed before the first segment is recomputed, more recomputed layers need more
        // memory.
        chosen = best_cut(scenario, most, longest);
        for (int layers = most - 1; !chosen.fits && layers > 0 && most - layers <= 2 * chosen.cut.segments; --layers)
            if (const Tried t = best_cut(scenario, layers, longest); t.fits || t.peak < chosen.peak) chosen = t;
        for (int low = 1, high = chosen.cut.layers; chosen.fits && low < high;) { // the fewest layers that fit
            const int middle = (low + high) / 2;
            const Tried t = best_cut(scenario, middle, longest);
            if (t.fits)
                chosen = t, high = middle;
            else
                low = middle + 1;
        }
    }
    const Cut& cut = chosen.cut;
    scenario = with(scenario, cut);
    scenario.notes.push_back(
        cut.layers == 0
            ? "strategy.recompute = {segments: auto} recomputes nothing: all fits"
            : fmt::format("strategy.recompute = {{segments: auto}} recomputes {} of the {} layers of a stage, in {} segment{} a "
                          "chunk{}",
                          cut.layers, most, cut.segments, cut.segments == 1 ? "" : "s",
                          chosen.fits ? "" : ", which needs the least memory: nothing fits"));
}

} // namespace orrery
