// `simrun plan SCENARIO [--after PASS]`: the plan as text, verified.
#include "sim/plan/lower.hpp"
#include "sim/plan/verify.hpp"
#include "sim/simrun/command.hpp"

#include "sim/scenario/suggest.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cstdio>

namespace orrery::simrun {

int run_plan(const std::string& file, const std::string& after, const Options& options) {
    const std::vector<std::string> passes = pass_names();
    if (!after.empty() && std::find(passes.begin(), passes.end(), after) == passes.end()) {
        const auto meant = nearest(after, passes);
        complain(
            fmt::format("no pass is called {}{}; the passes are {}", after, meant ? " (did you mean " + *meant + "?)" : "", join(passes)));
        return bad_input;
    }
    const std::optional<Scenario> scenario = load(file, options);
    if (!scenario) return bad_input;
    if (!after.empty()) return deliver(naming(file, [&] { return text_after(*scenario, after); }), options) ? done : bad_input;
    const Plan plan = naming(file, [&] { return lower(*scenario); });
    if (!deliver(to_text(plan), options)) return bad_input;
    const std::vector<Violation> violations = verify(plan);
    if (!violations.empty()) {
        complain("the plan breaks " + std::to_string(violations.size()) + " rules; this is a bug in simrun\n" + to_text(violations));
        return our_bug;
    }
    if (!options.quiet) std::fputs("verified: every rule holds\n", stderr);
    return done;
}

} // namespace orrery::simrun
