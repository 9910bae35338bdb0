#include "sim/report/pair_bar.hpp"

#include <algorithm>
#include <cmath>
#include <map>
#include <set>
#include <utility>
#include <vector>

namespace orrery {
namespace {

constexpr double reach = 6, pair_source_share = 0.5, unexplained = 0.06, of_ratio = 0.3, least_pair_bar = 0.02;

struct RowPair {
    const Experience *a, *b;
    double off; // ln(measured ratio / predicted ratio)
    std::string_view source;
};

std::vector<RowPair> pairs_of(std::span<const Experience> rows) {
    std::map<std::pair<std::string_view, std::string_view>, std::vector<const Experience*>> jobs;
    for (const Experience& e : rows)
        if (e.unseen && e.step_time && *e.step_time > -1 && !e.job.empty() && e.predicted_s > 0) jobs[{e.dataset, e.job}].push_back(&e);
    std::vector<RowPair> pairs;
    for (const auto& [job, of_job] : jobs)
        for (std::size_t i = 0; i < of_job.size(); ++i)
            for (std::size_t j = i + 1; j < of_job.size(); ++j)
                pairs.push_back({of_job[i], of_job[j], std::log1p(*of_job[i]->step_time) - std::log1p(*of_job[j]->step_time),
                                 source_of(of_job[i]->dataset)});
    return pairs;
}

// By the constants that one of the two rests on more than the other.
double spread_of_difference(const Configuration& a, const Configuration& b, const Spreads& spreads) {
    double variance = 0;
    for (std::size_t g = 0; g < a.shares.size(); ++g) variance += std::pow((a.shares[g] - b.shares[g]) * spreads.stated[g], 2);
    for (std::size_t f = 0; f < widened.size(); ++f) {
        if (widened[f] >= a.shares.size()) continue; // the rest: the same of both
        const double x = a.left_open[f] ? a.shares[widened[f]] : 0, y = b.left_open[f] ? b.shares[widened[f]] : 0;
        variance += std::pow((x - y) * spreads.open[f], 2);
    }
    return std::sqrt(variance);
}

double unit_of(const Configuration& a, double a_s, const Configuration& b, double b_s, bool by_shares, const Spreads& spreads) {
    const double shares = by_shares ? spread_of_difference(a, b, spreads) : 0;
    return std::sqrt(std::hypot(shares, unexplained, of_ratio * std::log(b_s / a_s)));
}

PairBar bar_of(const PredictedStep& a, const PredictedStep& b, const std::vector<RowPair>& pairs, const Spreads& spreads,
               std::string_view without) {
    const bool by_shares = a.configuration.has_shares() && b.configuration.has_shares();
    struct Weighed {
        double off, weight;
        std::string_view source;
    };
    std::vector<Weighed> all;
    std::map<std::string_view, double> of_source;
    for (const RowPair& p : pairs) {
        const Configuration &x = p.a->configuration, &y = p.b->configuration;
        if ((!without.empty() && p.source == without) || (by_shares && (!x.has_shares() || !y.has_shares()))) continue;
        const double straight = distance_in_time(a.configuration, x) + distance_in_time(b.configuration, y),
                     crossed = distance_in_time(a.configuration, y) + distance_in_time(b.configuration, x);
        const double weight = std::exp(-std::min(straight, crossed) / 2 / reach);
        all.push_back({std::abs(p.off) / unit_of(x, p.a->predicted_s, y, p.b->predicted_s, by_shares, spreads), weight, p.source});
        of_source[p.source] += weight;
    }
    PairBar bar;
    bar.pairs = static_cast<int>(all.size()), bar.sources = static_cast<int>(of_source.size());
    double sum = 0, within = 0;
    for (Weighed& w : all) sum += w.weight *= std::pow(of_source[w.source], pair_source_share - 1);
    std::sort(all.begin(), all.end(), [](const Weighed& x, const Weighed& y) { return x.off < y.off; });
    for (const Weighed& w : all)
        if ((within += w.weight) >= 0.8 * sum) {
            bar.width = std::max(least_pair_bar, w.off * unit_of(a.configuration, a.s, b.configuration, b.s, by_shares, spreads));
            break;
        }
    return bar;
}

} // namespace

PairBar pair_bar(const PredictedStep& a, const PredictedStep& b, std::span<const Experience> rows, const Spreads& spreads) {
    if (a.s <= 0 || b.s <= 0) return {};
    return bar_of(a, b, pairs_of(rows), spreads, {});
}

Coverage left_out_pairs(std::span<const Experience> rows) {
    Coverage c{"pairs", 0};
    const std::vector<RowPair> pairs = pairs_of(rows);
    std::map<std::string_view, Spreads> spreads;
    for (const RowPair& p : pairs) {
        if (!spreads.contains(p.source)) spreads[p.source] = spreads_by(rows, p.source);
        const PairBar bar =
            bar_of({p.a->configuration, p.a->predicted_s}, {p.b->configuration, p.b->predicted_s}, pairs, spreads[p.source], p.source);
        ++c.rows;
        c.mean_abs_error += std::abs(p.off), c.bias += p.off, c.width += bar.width, c.covered += std::abs(p.off) <= bar.width;
    }
    c.sources = static_cast<int>(spreads.size());
    for (double* sum : {&c.mean_abs_error, &c.bias, &c.width, &c.covered}) *sum /= std::max(1, c.rows);
    return c;
}

} // namespace orrery
