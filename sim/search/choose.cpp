#include "sim/search/choose.hpp"

#include "sim/report/memory_margin.hpp"

#include <algorithm>
#include <set>

namespace orrery {

double to_spare(const SweepRow& r) {
    return r.capacity_bytes > 0 ? 1 - static_cast<double>(r.peak_bytes) / static_cast<double>(r.capacity_bytes) : 1;
}

double margin_of(const SweepRow& row) { return memory_margin(row.memory_error_bar > 0 ? row.memory_error_bar : 1); }

bool fits_surely(const SweepRow& row) { return row.status == PointStatus::fits && to_spare(row) >= margin_of(row); }

std::size_t leader(std::span<const Candidate> points) {
    const Candidate& best = points.front();
    std::size_t first = 0;
    while (first < points.size() && !points[first].surely && points[first].score <= best.score * (1 + best.time_interval)) ++first;
    if (first == points.size() || points[first].score > best.score * (1 + best.time_interval)) first = 0;
    std::size_t most = first;
    for (std::size_t i = first; i < points.size() && points[i].score <= points[first].score * 1.001; ++i)
        if (points[i].step_s <= points[first].step_s * 1.001 && points[i].surely >= points[most].surely &&
            points[i].to_spare > points[most].to_spare)
            most = i;
    return most;
}

std::size_t leader(const std::vector<SearchPoint>& points) {
    std::vector<Candidate> candidates;
    candidates.reserve(points.size());
    for (const SearchPoint& p : points)
        candidates.push_back({p.score, p.row.step_time_error_bar, fits_surely(p.row), to_spare(p.row), p.row.step_time_s});
    return leader(candidates);
}

std::vector<std::size_t> different(const std::vector<SearchPoint>& points, std::size_t leader, std::size_t most) {
    std::vector<std::size_t> out{leader};
    std::set<std::string> kinds{points[leader].kind};
    for (std::size_t i = 0; i < points.size() && out.size() < most; ++i)
        if (kinds.insert(points[i].kind).second) out.push_back(i);
    return out;
}

const SearchPoint& named(const SearchResult& result) {
    return result.refined.empty() ? result.points[leader(result.points)] : result.refined.front();
}

std::vector<const SearchPoint*> rows_of(const SearchResult& result, std::size_t most) {
    std::vector<const SearchPoint*> rows;
    if (!result.refined.empty()) rows.push_back(&result.refined.front());
    for (const std::size_t i : different(result.points, leader(result.points), most)) rows.push_back(&result.points[i]);
    if (rows.size() > std::max<std::size_t>(1, most)) rows.resize(std::max<std::size_t>(1, most));
    return rows;
}

std::vector<std::size_t> frontier(const std::vector<SearchPoint>& points) {
    // Compared by the token: steps of two points may have different numbers of tokens.
    const auto time = [](const SearchPoint& p) { return p.row.tokens_per_s > 0 ? 1 / p.row.tokens_per_s : p.row.step_time_s; };
    const auto cost = [&](const SearchPoint& p) { return p.row.step_time_s > 0 ? p.cost_usd / p.row.step_time_s * time(p) : 0; };
    const auto beats = [&](const SearchPoint& a, const SearchPoint& b) {
        const double time_a = time(a), time_b = time(b), cost_a = cost(a), cost_b = cost(b);
        const bool no_worse =
            time_a <= time_b && a.row.peak_bytes <= b.row.peak_bytes && a.row.world_size <= b.row.world_size && cost_a <= cost_b;
        return no_worse &&
               (time_a < time_b || a.row.peak_bytes < b.row.peak_bytes || a.row.world_size < b.row.world_size || cost_a < cost_b);
    };
    std::vector<std::size_t> out;
    for (std::size_t i = 0; i < points.size(); ++i)
        if (std::none_of(points.begin(), points.end(), [&](const SearchPoint& other) { return beats(other, points[i]); })) out.push_back(i);
    std::ranges::stable_sort(out, {}, [&](std::size_t i) { return time(points[i]); });
    // The first alone of points that are the same in all of these.
    const auto same = [&](std::size_t a, std::size_t b) {
        return points[a].row.step_time_s == points[b].row.step_time_s && points[a].row.peak_bytes == points[b].row.peak_bytes &&
               points[a].row.world_size == points[b].row.world_size;
    };
    out.erase(std::unique(out.begin(), out.end(), same), out.end());
    return out;
}

} // namespace orrery
