// Several measured steps at once, averaged over how wide beliefs and how noisy readings may be.
#include "sim/trust/beliefs.hpp"
#include "sim/trust/normal.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <numbers>
#include <utility>
#include <vector>

namespace orrery {

namespace {

// Beside each its weight before anything was measured. Some software is predicted better than the spreads say, some is twice as far off. A
// reading scatters by a few per cent; now and then a run differs by what no constant describes.
struct Grid {
    std::array<std::pair<double, double>, 3> scales;
    std::array<std::pair<double, double>, 4> noises;
};
// Of steps: the weights are those that make the errors of new sources most likely, as they were when they were predicted first (expectation
// maximisation over 62 kinds of software of 26 sources; without any one source they differ by less than 0.05 of 1). Of memory: judged.
constexpr Grid of_steps{{{{0.2, 0.34}, {0.6, 0.21}, {2, 0.44}}}, {{{0.03, 0.41}, {0.08, 0.39}, {0.2, 0.12}, {0.5, 0.08}}}};
constexpr Grid of_memory{{{{0.2, 0.57}, {0.6, 0.29}, {2, 0.14}}}, {{{0.03, 0.3}, {0.08, 0.3}, {0.2, 0.3}, {0.5, 0.1}}}};

template <std::size_t N> struct Measurement {
    std::array<double, N> x;
    double off;
};

template <std::size_t N> struct Answer {
    Normal<N> beliefs;
    double noise = 0;
};

// The deviation whose half_width() holds four in five of the readings: that of the mixture's variance would hold more, as few are so noisy.
template <std::size_t N> double noise_of(const std::vector<Answer<N>>& answers, const std::vector<double>& weights) {
    double low = 0, high = 1;
    for (int halved = 0; halved < 40; ++halved) {
        const double middle = (low + high) / 2;
        double within = 0;
        for (std::size_t a = 0; a < answers.size(); ++a)
            within += weights[a] * std::erf(half_width(middle) / answers[a].noise / std::numbers::sqrt2);
        (within < 0.8 ? low : high) = middle;
    }
    return high;
}

// The mixture of all answers as one normal belief of the same mean and covariance.
template <std::size_t N> Answer<N> joined(const std::vector<Answer<N>>& answers, const std::vector<double>& weights) {
    Answer<N> out;
    for (std::size_t a = 0; a < answers.size(); ++a)
        for (std::size_t i = 0; i < N; ++i) out.beliefs.mean[i] += weights[a] * answers[a].beliefs.mean[i];
    for (std::size_t a = 0; a < answers.size(); ++a) {
        const Normal<N>& b = answers[a].beliefs;
        for (std::size_t i = 0; i < N; ++i)
            for (std::size_t j = 0; j < N; ++j)
                out.beliefs.covariance[i][j] +=
                    weights[a] * (b.covariance[i][j] + (b.mean[i] - out.beliefs.mean[i]) * (b.mean[j] - out.beliefs.mean[j]));
    }
    out.noise = noise_of(answers, weights);
    return out;
}

template <std::size_t N>
Answer<N> averaged(std::span<const Measurement<N>> readings, const std::array<double, N>& spreads, const Grid& grid) {
    std::vector<Answer<N>> answers;
    std::vector<double> weights;
    for (const auto& [scale, often] : grid.scales)
        for (const auto& [noise, as_often] : grid.noises) {
            std::array<double, N> scaled = spreads;
            for (double& s : scaled) s *= scale;
            Answer<N> answer{normal::independent(scaled), noise};
            double likely = std::log(often * as_often);
            for (const Measurement<N>& r : readings) likely += normal::observe(answer.beliefs, r.x, r.off, noise);
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
    std::vector<Measurement<belief_count>> readings;
    OpenFields left_open{}; // by any of them
    for (const Lesson& l : lessons) {
        readings.push_back({with_rest(l.shares), l.off});
        for (std::size_t f = 0; f < left_open.size(); ++f) left_open[f] = left_open[f] || l.left_open[f];
    }
    const auto answer = averaged<belief_count>(readings, spreads_before().with(left_open), of_steps);
    return {answer.beliefs, answer.noise};
}

MemoryTaught taught_by(std::span<const MemoryLesson> lessons) {
    std::vector<Measurement<2>> readings;
    for (const MemoryLesson& l : lessons) readings.push_back({{l.moving, 1}, l.off});
    const auto answer = averaged<2>(readings, memory_spreads, of_memory);
    return {answer.beliefs, answer.noise};
}

double expected_off(const MemoryBeliefs& b, double moving) { return normal::dot({moving, 1.0}, b.mean); }
double spread_of(const MemoryBeliefs& b, double moving) { return normal::spread(b, {moving, 1.0}); }

} // namespace orrery
