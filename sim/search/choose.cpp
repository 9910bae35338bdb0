#include "sim/search/choose.hpp"

#include <algorithm>
#include <set>

namespace orrery {

namespace {

double to_spare(const SweepRow& r) {
    return r.capacity_bytes > 0 ? 1 - static_cast<double>(r.peak_bytes) / static_cast<double>(r.capacity_bytes) : 1;
}

} // namespace

bool fits_surely(const SweepRow& row) { return row.status == PointStatus::fits && !row.narrow(); }

std::size_t leader(const std::vector<SearchPoint>& points, double ties) {
    const double best = points.front().score;
    const auto first_within = [&](double share) {
        for (std::size_t i = 0; i < points.size() && points[i].score <= best * (1 + share); ++i)
            if (fits_surely(points[i].row)) return i;
        return points.size();
    };
    const std::size_t sure = first_within(std::max(ties, points.front().row.step_time_error_bar));
    if (sure == points.size()) return 0;
    std::size_t most = sure;
    for (std::size_t i = sure; i < points.size() && points[i].score <= points[sure].score * (1 + ties); ++i)
        if (fits_surely(points[i].row) && to_spare(points[i].row) > to_spare(points[most].row)) most = i;
    return sure == 0 && most != 0 && points[most].score > best * (1 + ties) ? 0 : most;
}

std::vector<std::size_t> different(const std::vector<SearchPoint>& points, std::size_t leader, std::size_t most) {
    std::vector<std::size_t> out{leader};
    std::set<std::string> kinds{points[leader].kind};
    for (std::size_t i = 0; i < points.size() && out.size() < most; ++i)
        if (kinds.insert(points[i].kind).second) out.push_back(i);
    return out;
}

std::vector<std::size_t> frontier(const std::vector<SearchPoint>& points) {
    const auto beats = [](const SearchPoint& a, const SearchPoint& b) {
        const bool no_worse = a.row.step_time_s <= b.row.step_time_s && a.row.peak_bytes <= b.row.peak_bytes &&
                              a.row.world_size <= b.row.world_size && a.cost_usd <= b.cost_usd;
        return no_worse && (a.row.step_time_s < b.row.step_time_s || a.row.peak_bytes < b.row.peak_bytes ||
                            a.row.world_size < b.row.world_size || a.cost_usd < b.cost_usd);
    };
    std::vector<std::size_t> out;
    for (std::size_t i = 0; i < points.size(); ++i)
        if (std::none_of(points.begin(), points.end(), [&](const SearchPoint& other) { return beats(other, points[i]); })) out.push_back(i);
    std::ranges::stable_sort(out, {}, [&](std::size_t i) { return points[i].row.step_time_s; });
    // Of points that are the same in all of these the first alone.
    const auto same = [&](std::size_t a, std::size_t b) {
        return points[a].row.step_time_s == points[b].row.step_time_s && points[a].row.peak_bytes == points[b].row.peak_bytes &&
               points[a].row.world_size == points[b].row.world_size;
    };
    out.erase(std::unique(out.begin(), out.end(), same), out.end());
    return out;
}

} // namespace orrery
