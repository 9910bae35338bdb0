// Reports of predictions that a user's own measured steps have moved.
#include "sim/cost/own_constants.hpp"
#include "sim/report/report.hpp"
#include "sim/trust/beliefs.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

namespace orrery {

namespace {

constexpr double least_noise = 0.02; // published steps differ by that much from run to run

std::string in_words(const LearnedConstants& l) {
    std::string text;
    for (std::size_t i = 0; i < l.time.mean.size(); ++i) {
        if (std::abs(l.time.mean[i]) < 0.005) continue;
        const char* what = i == cost_group_count ? "all" : in_words(static_cast<CostGroup>(i));
        text += fmt::format("{}{} x {:.2f}", text.empty() ? "" : ", ", what, std::exp(l.time.mean[i]));
    }
    if (text.empty()) text = "durations as they were";
    if (l.memory) text += fmt::format("; memory: what comes and goes x {:.2f}, all x {:.2f}", l.memory_factor(0), l.memory_factor(1));
    return fmt::format("{} measured steps of {} on {}: {}", l.rows, name(l.stack), l.device, text);
}

} // namespace

void set_bars_by_learned(Report& r, const Scenario& scenario) {
    const LearnedConstants* l = learned_for(scenario);
    if (!l) return;
    r.provenance.push_back({"learned", "measured", in_words(*l)});
    ErrorBar& bar = r.error_bar;
    if (r.shares != CostShares{}) {
        const double width = std::max(least_noise, half_width(std::hypot(spread_of(l->time, r.shares), l->noise)));
        bar.step_time = width, bar.learned = l->rows, bar.transferred = 0, bar.all_stated = 0;
        bar.interval.faster = std::max(least_noise, -std::expm1(-width)), bar.interval.slower = std::max(least_noise, std::expm1(width));
    }
    if (l->memory && !r.memory.stages.empty()) {
        const double spread = spread_of(l->memory->beliefs, moving_share(fullest(r.memory)));
        bar.memory = std::max(least_noise, half_width(std::hypot(spread, l->memory->noise)));
    }
}

} // namespace orrery
