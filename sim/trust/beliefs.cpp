// Gaussian beliefs about groups of constants.
#include "sim/trust/beliefs.hpp"
#include "sim/scenario/fields.hpp"
#include "sim/trust/normal.hpp"

#include "topology/catalog.hpp"

#include <nlohmann/json.hpp>

#include <algorithm>
#include <cmath>
#include <map>
#include <stdexcept>
#include <vector>

namespace orrery {

std::span<const EmbeddedFile> spread_files(); // generated from scenarios/calibration/trust

namespace {

constexpr std::size_t open_count = open_fields.size(), all_count = belief_count + open_count;
using All = std::array<double, all_count>; // the beliefs, then what open fields add

All all_of(const Spreads& s) {
    All a{};
    std::copy(s.stated.begin(), s.stated.end(), a.begin());
    std::copy(s.open.begin(), s.open.end(), a.begin() + belief_count);
    return a;
}

Spreads spreads_of(const All& a) {
    Spreads s;
    std::copy_n(a.begin(), belief_count, s.stated.begin());
    std::copy_n(a.begin() + belief_count, open_count, s.open.begin());
    return s;
}

// The factor by which a step's variance grows with the square of each spread.
All variances(const Observed& r) {
    const BeliefArray x = with_rest(r.shares);
    All a{};
    for (std::size_t i = 0; i < x.size(); ++i) a[i] = x[i] * x[i];
    for (std::size_t f = 0; f < open_count; ++f) a[belief_count + f] = r.left_open[f] ? a[widened[f]] : 0;
    return a;
}

// min |A v - b|^2 with v >= least, of its normal equations: projected coordinate descent, which converges as A'A is positive definite.
All bounded(const std::array<All, all_count>& matrix, const All& right, All v, const All& least) {
    for (int sweep = 0; sweep < 2000; ++sweep)
        for (std::size_t i = 0; i < all_count; ++i) {
            if (matrix[i][i] <= 0) continue;
            v[i] = std::max(least[i], v[i] + (right[i] - normal::dot(matrix[i], v)) / matrix[i][i]);
        }
    return v;
}

} // namespace

BeliefArray Spreads::with(const OpenFields& left_open) const {
    BeliefArray wider = stated;
    for (std::size_t f = 0; f < open_count; ++f)
        if (left_open[f]) wider[widened[f]] = std::hypot(wider[widened[f]], open[f]);
    return wider;
}

BeliefArray with_rest(const CostShares& shares) {
    BeliefArray x{};
    std::copy(shares.begin(), shares.end(), x.begin());
    x[cost_group_count] = 1;
    return x;
}

Beliefs beliefs_of(const BeliefArray& spreads) { return normal::independent(spreads); }

const Spreads& spreads_before() {
    static const Spreads spreads = [] {
        for (const EmbeddedFile& f : spread_files()) {
            if (f.name != "spreads") continue;
            Spreads read;
            const nlohmann::json file = nlohmann::json::parse(f.text);
            for (std::size_t i = 0; i < belief_count; ++i) read.stated[i] = file.at("spreads").at(belief_name(i)).get<double>();
            for (std::size_t i = 0; i < open_count; ++i) read.open[i] = file.at("left open").at(dotted(open_fields[i])).get<double>();
            return read;
        }
        throw std::logic_error("scenarios/calibration/trust/spreads.json is not compiled in");
    }();
    return spreads;
}

Beliefs beliefs_before(const OpenFields& left_open) { return beliefs_of(spreads_before().with(left_open)); }

double spread_of(const BeliefArray& spreads, const CostShares& shares) {
    double variance = 0;
    const BeliefArray x = with_rest(shares);
    for (std::size_t i = 0; i < x.size(); ++i) variance += x[i] * x[i] * spreads[i] * spreads[i];
    return std::sqrt(variance);
}

double learn(Beliefs& b, const CostShares& shares, double off, double noise) { return normal::observe(b, with_rest(shares), off, noise); }

double expected_off(const Beliefs& b, const CostShares& shares) { return normal::dot(with_rest(shares), b.mean); }
double spread_of(const Beliefs& b, const CostShares& shares) { return normal::spread(b, with_rest(shares)); }

BeliefArray parts_of_spread(const Beliefs& b, const CostShares& shares) {
    const BeliefArray x = with_rest(shares), cx = normal::times(b.covariance, x);
    const double all = normal::dot(x, cx);
    BeliefArray parts{};
    if (all > 0 && *std::max_element(shares.begin(), shares.end()) > 0)
        for (std::size_t i = 0; i < parts.size(); ++i) parts[i] = x[i] * cx[i] / all;
    return parts;
}

Spreads fitted_spreads(std::span<const Observed> rows, const Spreads& judged) {
    constexpr double most = 0.4, hold = 50;
    std::map<std::string, double> of_source;
    for (const Observed& r : rows) of_source[r.source] += 1;
    const All before = all_of(judged);
    std::array<All, all_count> matrix{};
    All right{}, start{};
    for (const Observed& r : rows) {
        const All x = variances(r);
        const double weight = 1 / std::sqrt(of_source[r.source]), off = std::min(std::abs(r.off), most);
        for (std::size_t i = 0; i < all_count; ++i) {
            right[i] += weight * x[i] * off * off;
            for (std::size_t j = 0; j < all_count; ++j) matrix[i][j] += weight * x[i] * x[j];
        }
    }
    // As if `hold` mean rows had said `before`.
    for (std::size_t i = 0; i < all_count; ++i) {
        start[i] = before[i] * before[i];
        const double as_much = rows.empty() ? 1 : hold * matrix[i][i] / static_cast<double>(rows.size());
        matrix[i][i] += as_much;
        right[i] += as_much * start[i];
    }
    All least = start; // rows that tell little of a group do not make it certain: at least half of what was believed before
    for (double& v : least) v /= 4;
    All spreads = bounded(matrix, right, start, least);
    for (double& v : spreads) v = std::sqrt(v);
    return spreads_of(spreads);
}

std::string write_spreads(const Spreads& spreads, std::size_t rows, std::size_t sources) {
    const auto rounded = [](double x) { return std::round(x * 1000) / 1000; };
    nlohmann::ordered_json j;
    j["what"] = "standard deviations of ln(measured / predicted) by group of constants, and what is added (in squares) where a scenario "
                "leaves a field open; written by simrun validate --spreads";
    j["from"] = {{"rows", rows}, {"sources", sources}};
    for (std::size_t i = 0; i < belief_count; ++i) j["spreads"][belief_name(i)] = rounded(spreads.stated[i]);
    for (std::size_t i = 0; i < open_count; ++i) j["left open"][dotted(open_fields[i])] = rounded(spreads.open[i]);
    return j.dump(1) + "\n";
}

} // namespace orrery
