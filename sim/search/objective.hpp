// The figure that a search makes small: of a simulated point, and its bound from below, which follows from a bound of the step.
#pragma once

#include "sim/search/search.hpp"

#include <limits>

namespace orrery {

bool of_run(SearchBy by);    // a figure of the scenario's "run"
bool of_target(SearchBy by); // of its training.convergence
double tokens_of_a_step(const Scenario& scenario);
// Says what the machines' energies count: energy_basis() and each machine's assumptions. Adds a problem where the power of nodes is known
// for some machines alone: those would rank behind the others for it.
std::string energy_of(const StrategySpace& space, std::vector<Problem>& problems);

struct Objective {
    SearchBy by = SearchBy::time;
    double per_second = 1;                                     // device_time: devices; cost, run_cost: USD; energy: watts
    double within_s = std::numeric_limits<double>::infinity(); // a run that takes longer is no answer
    double run_steps = 0, run_tokens = 0;                      // how long the run is, where within_s is finite; 0: until the target
    double step_tokens = 0;                                    // scores are for this number of tokens; 0: all steps have the same

    // A machine's figures. Problems: what it lacks.
    static Objective of(SearchBy by, double within_days, const Scenario& scenario, std::vector<Problem>& problems);
    // Whether the run takes longer than it may: with failures where the search ranks by a figure of the run, else by its steps alone. Where
    // it has no length of its own, or the search ranks by the target, the run ends at the target.
    bool late(const SweepRow& row) const;
    double seconds_of_run(const SweepRow& row) const;    // what late() compares with within_s
    double longest_step(const Scenario& scenario) const; // seconds of a step of a run that ends just in time
    double score(const SweepRow& row) const;
    // Not above the score of any point of this scenario's batch whose step takes step_s or longer (not of memory). A whole run takes no
    // less time than its steps, and costs no less: goodput is at most 1. That holds where no state of the machine is faster than the
    // whole one, see unproven().
    double bound(double step_s, const Scenario& scenario) const;
    bool until_target() const { return run_steps <= 0 && run_tokens <= 0; } // what within_s is of
    // Why no bound holds; empty: they do.
    std::string unproven(const Scenario& scenario) const;
};

} // namespace orrery
