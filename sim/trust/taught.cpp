// Several measured steps at once, averaged over how wide beliefs and how noisy readings may be.
#include "sim/trust/beliefs.hpp"
#include "sim/trust/normal.hpp"

#include <algorithm>
#include <vector>

namespace orrery {

namespace {

// Beside each its weight before anything was measured. Most software is predicted better than the spreads say, which are those of sources
// that nobody had seen; some is twice as far off. A reading scatters by a few per cent; now and then a run differs by what no constant
// describes. Judged on the rows of 58 datasets (VALIDATION.md): with these the mean error falls from the first learned row on.
constexpr std::pair<double, double> scales[] = {{0.2, 2}, {0.6, 1}, {2, 0.5}};
constexpr std::pair<double, double> noises[] = {{0.03, 1}, {0.08, 1}, {0.2, 1}, {0.5, 0.3}};

template <std::size_t N> struct Reading {
    std::array<double, N> x;
    double off;
};

template <std::size_t N> struct Answer {
    Normal<N> beliefs;
    double noise = 0;
};

// The mixture of all answers as one normal belief of the same mean and covariance.
template <std::size_t N> Answer<N> joined(const std::vector<Answer<N>>& answers, const std::vector<double>& weights) {
    Answer<N> out;
    double noise = 0;
    for (std::size_t a = 0; a < answers.size(); ++a) {
        noise += weights[a] * answers[a].noise * answers[a].noise;
        for (std::size_t i = 0; i < N; ++i) out.beliefs.mean[i] += weights[a] * answers[a].beliefs.mean[i];
    }
    for (std::size_t a = 0; a < answers.size(); ++a) {
        const Normal<N>& b = answers[a].beliefs;
        for (std::size_t i = 0; i < N; ++i)
            for (std::size_t j = 0; j < N; ++j)
                out.beliefs.covariance[i][j] +=
                    weights[a] * (b.covariance[i][j] + (b.mean[i] - out.beliefs.mean[i]) * (b.mean[j] - out.beliefs.mean[j]));
    }
    out.noise = std::sqrt(noise);
    return out;
}

template <std::size_t N> Answer<N> averaged(std::span<const Reading<N>> readings, const std::array<double, N>& spreads) {
    std::vector<Answer<N>> answers;
    std::vector<double> weights;
    for (const auto& [scale, often] : scales)
        for (const auto& [noise, as_often] : noises) {
            std::array<double, N> scaled = spreads;
            for (double& s : scaled) s *= scale;
            Answer<N> answer{normal::independent(scaled), noise};
            double likely = std::log(often * as_often);
            for (const Reading<N>& r : readings) likely += normal::observe(answer.beliefs, r.x, r.off, noise);
            answers.push_back(answer);
            weights.push_back(likely);
        }
    const double top = *std::max_element(weights.begin(), weights.end());
    double all = 0;
    for (double& w : weights) all += w = std::exp(w - top);
    for (double& w : weights) w /= all;
    return joined(answers, weights);
}

} // namespace

Taught taught_by(std::span<const Lesson> lessons) {
    std::vector<Reading<belief_count>> readings;
    OpenFields left_open{}; // by any of them
    for (const Lesson& l : lessons) {
        readings.push_back({with_rest(l.shares), l.off});
        for (std::size_t f = 0; f < left_open.size(); ++f) left_open[f] = left_open[f] || l.left_open[f];
    }
    const auto answer = averaged<belief_count>(readings, spreads_before().with(left_open));
    return {answer.beliefs, answer.noise};
}

MemoryTaught taught_by(std::span<const MemoryLesson> lessons) {
    std::vector<Reading<2>> readings;
    for (const MemoryLesson& l : lessons) readings.push_back({{l.moving, 1}, l.off});
    const auto answer = averaged<2>(readings, memory_spreads);
    return {answer.beliefs, answer.noise};
}

double expected_off(const MemoryBeliefs& b, double moving) { return normal::dot({moving, 1.0}, b.mean); }
double spread_of(const MemoryBeliefs& b, double moving) { return normal::spread(b, {moving, 1.0}); }

} // namespace orrery
