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

  private:
    std::uint64_t state_[4];
};

} // namespace orrery
