// Lessons of a user's own measured steps: factors on the durations of groups of constants and on memory, for one kind of software on one
// device. `simrun learn ROWS -o FILE` writes them (the law: sim/trust/beliefs.hpp), --calibration FILE applies them.
#pragma once

#include "sim/cost/groups.hpp"
#include "sim/scenario/practice.hpp"

#include <nlohmann/json_fwd.hpp>

#include <array>
#include <optional>
#include <span>
#include <string>

namespace orrery {

inline constexpr int belief_count = cost_group_count + 1; // the groups, and what no group describes
// The law that a file was learned by; its noise means nothing by another. 1, of files that name none: the noise was the spread of all that
// was thought possible, which held 92 instead of 80 steps in a hundred. 2: the noise that holds four in five, weights of new sources.
inline constexpr int learned_law = 2;
using BeliefArray = std::array<double, belief_count>;

// Normal beliefs about logarithms of factors.
template <std::size_t N> struct Normal {
    std::array<double, N> mean{};
    std::array<std::array<double, N>, N> covariance{};
};
using Beliefs = Normal<belief_count>;
using MemoryBeliefs = Normal<2>; // what comes and goes within a step; the whole figure

struct LearnedConstants {
    std::string device;
    Stack stack = Stack::other;
    int rows = 0; // measured steps they are from
    Beliefs time;
    double noise = 0; // standard deviation of what a measured step was off by after learning
    struct Memory {
        int rows = 0;
        MemoryBeliefs beliefs;
        double noise = 0;
    };
    std::optional<Memory> memory;

    CostFactors factors() const;               // on durations, that of what no group describes included
    double memory_factor(std::size_t i) const; // 1 where no memory was measured
};

// An object of a calibration file: {"what": "learned", "law", "device", "stack", "rows", "factors": {group: factor}, "covariance", ..}.
// Throws std::runtime_error, which names what is missing or beyond its limits (factors: 1/20 to 20).
LearnedConstants read_learned(const nlohmann::json& file);
std::string write_learned(std::span<const LearnedConstants> all); // a list of them
const char* belief_name(std::size_t i);                           // the group's, or "rest"

} // namespace orrery
