// The learning rate over a run: up in the scenario's warm-up, then down as `simexec run --decay` asks.
#pragma once

#include <cstdint>

namespace orrery::simexec {

// Not at all, in a straight line, or as half a cosine (Loshchilov and Hutter, arXiv:1608.03983, without restarts).
enum class RateDecay : std::uint8_t { none, linear, cosine };

struct RateSchedule {
    double rate = 0;          // after the warm-up
    std::int64_t warm_up = 0; // steps
    RateDecay decay = RateDecay::none;
    std::int64_t decay_steps = 0; // the first step with the least rate: a run of as many trains in its last step, too (as PyTorch's do)
    double least = 0;             // what is left then, a share of the rate

    double decayed(std::int64_t step) const; // without the warm-up, which the optimizer applies. step: from 0
    // With it. left_out: steps before this one that have updated nothing, which the warm-up does not count.
    double at(std::int64_t step, std::int64_t left_out = 0) const;
};

} // namespace orrery::simexec
