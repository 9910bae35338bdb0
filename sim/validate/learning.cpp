// What a source's own rows teach about its other rows, by the beliefs of sim/trust.
#include "sim/trust/beliefs.hpp"
#include "sim/validate/validate.hpp"

#include <cmath>
#include <map>
#include <numeric>
#include <set>

namespace orrery {

namespace {

// A row that can be learned from, and how far off it was: ln(measured / predicted).
struct Lesson {
    const ValidationRow* row;
    double off;
};

std::optional<Lesson> lesson(const ValidationRow& r) {
    const std::optional<double> error = r.step_time_error();
    if (!error || r.shares == CostShares{} || !r.failure.empty() || r.doubtful || *error <= -1) return std::nullopt;
    return Lesson{&r, -std::log1p(*error)};
}

// Mean |predicted / measured - 1| of the lessons outside [first, first + n) of the ring after learning from those inside.
double error_after(const std::vector<Lesson>& ring, std::size_t first, std::size_t n) {
    Beliefs beliefs = beliefs_before();
    const auto learned = [&](std::size_t i) { return (i + ring.size() - first) % ring.size() < n; };
    for (std::size_t i = 0; i < n; ++i) {
        const Lesson& l = ring[(first + i) % ring.size()];
        learn(beliefs, l.row->shares, l.off, learning_noise);
    }
    double sum = 0;
    for (std::size_t i = 0; i < ring.size(); ++i)
        if (!learned(i)) sum += std::abs(std::expm1(expected_off(beliefs, ring[i].row->shares) - ring[i].off));
    return sum / static_cast<double>(ring.size() - n);
}

double mean_after(const std::vector<Lesson>& ring, std::size_t n) {
    double sum = 0;
    for (std::size_t first = 0; first < ring.size(); ++first) sum += error_after(ring, first, n);
    return sum / static_cast<double>(ring.size());
}

// Rows of a file stand in groups that are alike: every k-th row in turn, so that three in a row are not three of one kind.
std::vector<Lesson> dealt(const std::vector<Lesson>& rows) {
    std::size_t step = rows.size() / 3;
    while (step > 1 && std::gcd(step, rows.size()) != 1) --step;
    std::vector<Lesson> out;
    for (std::size_t i = 0; i < rows.size(); ++i) out.push_back(rows[i * std::max<std::size_t>(1, step) % rows.size()]);
    return out;
}

} // namespace

std::vector<LearnedFrom> learned_from(const Validation& v) {
    std::vector<std::string> order;
    std::map<std::string, std::vector<Lesson>> by_dataset;
    for (const ValidationRow& r : v.rows)
        if (const auto l = lesson(r)) {
            if (by_dataset[r.dataset].empty()) order.push_back(r.dataset);
            by_dataset[r.dataset].push_back(*l);
        }
    std::vector<LearnedFrom> out;
    for (const std::string& dataset : order) {
        const std::vector<Lesson> ring = dealt(by_dataset[dataset]);
        if (ring.size() < 4) continue;
        out.push_back({dataset, static_cast<int>(ring.size()), error_after(ring, 0, 0), mean_after(ring, 1), mean_after(ring, 3),
                       ring.front().row->held_out});
    }
    return out;
}

std::string to_spreads(const Validation& v) {
    std::vector<Observed> rows;
    std::set<std::string> sources;
    for (const ValidationRow& r : v.rows) {
        const auto l = lesson(r);
        if (!l || !r.held_out) continue;
        rows.push_back({r.shares, -l->off, std::string(source_of(r.dataset))});
        sources.insert(rows.back().source);
    }
    return write_spreads(fitted_spreads(rows, judged_spreads), rows.size(), sources.size());
}

} // namespace orrery
