// The field's rules of thumb as claims that are simulated: on how many random jobs each holds.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

namespace orrery {

struct RuleResult {
    std::string claim, measure;  // measure: what `effects` are
    int applies = 0;             // jobs that the rule says something of
    int holds = 0, ties = 0;     // ties: within 2 %, which no measurement tells apart
    std::vector<double> effects; // of each job that it applies to, as a ratio; above 1: the rule is right
};

// So many random jobs (dense models and mixtures, 1 to 32 nodes of four kinds), each with the first strategy of the field's guide that
// fits.
std::vector<RuleResult> check_rules(int jobs, std::uint64_t seed, int threads, const std::function<void(int done)>& progress = {});
std::string to_markdown(const std::vector<RuleResult>& rules, int jobs);

} // namespace orrery
