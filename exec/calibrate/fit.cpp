// From samples to laws: of each kind of op start, FLOP rate and byte rate, by least squares of relative errors.
#include "sim/fit/fit.hpp"
#include "exec/calibrate/calibrate.hpp"

#include <algorithm>
#include <cmath>

namespace orrery {

namespace {

constexpr double shortest_us = 0.05; // below the clock's own cost nothing is known

KernelLaw law_of(const std::vector<double>& p, bool computes) {
    // us, us per MB and us per MFLOP, kept positive by the fit: 1 us per MB is 1000 GB/s, 1 us per MFLOP 1000 GFLOP/s.
    KernelLaw law{p[0], 0, 1e3 / p[1]};
    if (computes) law.gflops_per_s = 1e3 / p[2];
    return law;
}

FittedLaw fit_one(const std::vector<const KernelSample*>& samples) {
    const bool computes = std::ranges::any_of(samples, [](const KernelSample* s) { return s->size.flops > 0; });
    double fastest_byte = 1e9, fastest_flop = 1e9, shortest = 1e9;
    for (const KernelSample* s : samples) {
        const double us = std::max(s->us, shortest_us);
        shortest = std::min(shortest, us);
        if (s->size.bytes > 0) fastest_byte = std::min(fastest_byte, us / (s->size.bytes * 1e-6));
        if (s->size.flops > 0) fastest_flop = std::min(fastest_flop, us / (s->size.flops * 1e-6));
    }
    std::vector<double> start{shortest / 2, computes ? fastest_byte / 8 : fastest_byte};
    if (computes) start.push_back(fastest_flop);
    const auto ratio = [&](const std::vector<double>& p, std::size_t i) {
        return law_us(law_of(p, computes), samples[i]->size) / std::max(samples[i]->us, shortest_us);
    };
    const std::vector<double> p = least_squares(
        start, samples.size(), [&](const std::vector<double>& q, std::size_t i) { return std::log(ratio(q, i)); }, 0.1);
    FittedLaw fitted{law_of(p, computes), static_cast<int>(samples.size()), 0};
    std::vector<double> errors;
    for (std::size_t i = 0; i < samples.size(); ++i) errors.push_back(std::abs(ratio(p, i) - 1));
    std::ranges::nth_element(errors, errors.begin() + static_cast<std::ptrdiff_t>(errors.size() / 2));
    fitted.error = errors[errors.size() / 2];
    return fitted;
}

} // namespace

std::map<std::string, FittedLaw> fit_laws(std::span<const KernelSample> samples) {
    std::map<std::string, std::vector<const KernelSample*>> by_key;
    for (const KernelSample& s : samples) by_key[s.key].push_back(&s);
    std::map<std::string, FittedLaw> laws;
    for (const auto& [key, mine] : by_key) laws[key] = fit_one(mine);
    return laws;
}

void add_own_laws(std::map<std::string, FittedLaw>& laws, std::span<const KernelSample> samples) {
    for (const KernelSample& s : samples)
        laws[s.part.empty() ? kernel_key(s.key, s.size) : kernel_key(s.key, s.size, s.part)] = {{s.us, 0, 0}, 1, 0};
}

} // namespace orrery
