// Random numbers that are the same on every machine: xoshiro256+ (Blackman and Vigna, 2018), seeded by splitmix64.
#pragma once

#include "topology/mix.hpp"

#include <cmath>
#include <cstdint>

namespace orrery {

class JobRandom {
  public:
    explicit JobRandom(std::uint64_t seed) {
        for (std::uint64_t& word : state_) {
            word = mix(seed);
            seed += 0x9e3779b97f4a7c15u;
        }
    }
    std::uint64_t next() {
        const std::uint64_t result = state_[0] + state_[3], t = state_[1] << 17;
        state_[2] ^= state_[0];
        state_[3] ^= state_[1];
        state_[1] ^= state_[2];
        state_[0] ^= state_[3];
        state_[2] ^= t;
        state_[3] = (state_[3] << 45) | (state_[3] >> 19);
        return result;
    }
    double share() { return static_cast<double>(static_cast<std::int64_t>(next() >> 11)) * 0x1.0p-53; } // in [0, 1)
    int below(int n) { return static_cast<int>(share() * n); }
    double exponential() { return -std::log(1 - share()); }                                                  // of mean 1
    double weibull(double shape) { return std::pow(exponential(), 1 / shape) / std::tgamma(1 + 1 / shape); } // of mean 1
    // The rest of such a time, seen at a moment long after the first: its density is the chance to last so long (Cox, Renewal Theory,
    // 1962).
    double weibull_left(double shape) { return std::pow(gamma(1 / shape), 1 / shape) / std::tgamma(1 + 1 / shape); }
    // Of mean and variance `a` > 0 (Marsaglia and Tsang, 2000).
    double gamma(double a) {
        if (a < 1) return gamma(a + 1) * std::pow(1 - share(), 1 / a);
        const double d = a - 1.0 / 3, c = 1 / std::sqrt(9 * d);
        for (;;) {
            const double x = std::sqrt(2 * exponential()) * std::cos(2 * 3.14159265358979323846 * share()), v = std::pow(1 + c * x, 3);
            if (v > 0 && std::log(1 - share()) < x * x / 2 + d * (1 - v + std::log(v))) return d * v;
        }
    }

  private:
    std::uint64_t state_[4];
};

} // namespace orrery
