// Gaussian beliefs about groups of constants.
#include "sim/trust/beliefs.hpp"
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

constexpr std::size_t n = belief_count;

// min |A v - b|^2 with v >= least, of its normal equations: projected coordinate descent, which converges as A'A is positive definite.
BeliefArray bounded(const std::array<BeliefArray, n>& matrix, const BeliefArray& right, BeliefArray v, const BeliefArray& least) {
    for (int sweep = 0; sweep < 2000; ++sweep)
        for (std::size_t i = 0; i < n; ++i) {
            if (matrix[i][i] <= 0) continue;
            v[i] = std::max(least[i], v[i] + (right[i] - normal::dot(matrix[i], v)) / matrix[i][i]);
        }
    return v;
}

} // namespace

BeliefArray with_rest(const CostShares& shares) {
    BeliefArray x{};
    std::copy(shares.begin(), shares.end(), x.begin());
    x[cost_group_count] = 1;
    return x;
}

Beliefs beliefs_of(const BeliefArray& spreads) { return normal::independent(spreads); }

Beliefs beliefs_before() {
    static const BeliefArray spreads = [] {
        for (const EmbeddedFile& f : spread_files()) {
            if (f.name != "spreads") continue;
            BeliefArray read{};
            const nlohmann::json of = nlohmann::json::parse(f.text).at("spreads");
            for (std::size_t i = 0; i < n; ++i) read[i] = of.at(belief_name(i)).get<double>();
            return read;
        }
        throw std::logic_error("scenarios/calibration/trust/spreads.json is not compiled in");
    }();
    return beliefs_of(spreads);
}

double learn(Beliefs& b, const CostShares& shares, double off, double noise) { return normal::observe(b, with_rest(shares), off, noise); }

double expected_off(const Beliefs& b, const CostShares& shares) { return normal::dot(with_rest(shares), b.mean); }
double spread_of(const Beliefs& b, const CostShares& shares) { return normal::spread(b, with_rest(shares)); }

BeliefArray parts_of_spread(const Beliefs& b, const CostShares& shares) {
    const BeliefArray x = with_rest(shares), cx = normal::times(b.covariance, x);
    const double all = normal::dot(x, cx);
    BeliefArray parts{};
    if (all > 0 && *std::max_element(shares.begin(), shares.end()) > 0)
        for (std::size_t i = 0; i < n; ++i) parts[i] = x[i] * cx[i] / all;
    return parts;
}

BeliefArray fitted_spreads(std::span<const Observed> rows, const BeliefArray& before) {
    constexpr double most = 0.4, hold = 50;
    std::map<std::string, double> of_source;
    for (const Observed& r : rows) of_source[r.source] += 1;
    std::array<BeliefArray, n> matrix{};
    BeliefArray right{}, start{};
    for (const Observed& r : rows) {
        BeliefArray x = with_rest(r.shares);
        for (double& v : x) v *= v;
        const double weight = 1 / std::sqrt(of_source[r.source]), off = std::min(std::abs(r.off), most);
        for (std::size_t i = 0; i < n; ++i) {
            right[i] += weight * x[i] * off * off;
            for (std::size_t j = 0; j < n; ++j) matrix[i][j] += weight * x[i] * x[j];
        }
    }
    // As if `hold` mean rows had said `before`.
    for (std::size_t i = 0; i < n; ++i) {
        start[i] = before[i] * before[i];
        const double as_much = rows.empty() ? 1 : hold * matrix[i][i] / static_cast<double>(rows.size());
        matrix[i][i] += as_much;
        right[i] += as_much * start[i];
    }
    BeliefArray least = start; // rows that tell little of a group do not make it certain: at least half of what was believed before
    for (double& v : least) v /= 4;
    BeliefArray spreads = bounded(matrix, right, start, least);
    for (double& v : spreads) v = std::sqrt(v);
    return spreads;
}

std::string write_spreads(const BeliefArray& spreads, std::size_t rows, std::size_t sources) {
    nlohmann::ordered_json j;
    j["what"] = "standard deviations of ln(measured / predicted) by group of constants; written by simrun validate --spreads";
    j["from"] = {{"rows", rows}, {"sources", sources}};
    for (std::size_t i = 0; i < n; ++i) j["spreads"][belief_name(i)] = std::round(spreads[i] * 1000) / 1000;
    return j.dump(1) + "\n";
}

} // namespace orrery
