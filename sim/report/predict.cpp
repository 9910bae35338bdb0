// The pipeline from a parsed scenario to its report.
#include "sim/memory/samples.hpp"
#include "sim/plan/lower.hpp"
#include "sim/plan/verify.hpp"
#include "sim/report/report.hpp"

#include <stdexcept>

namespace orrery {

Plan verified_plan(const Scenario& scenario) {
    Plan plan = lower(scenario);
    std::vector<Violation> violations = verify(plan);
    const std::size_t n = violations.size();
    if (n > 5) violations.resize(5); // the first ones; `simrun plan` prints them all
    if (n > 0) throw std::logic_error("the lowered plan breaks " + std::to_string(n) + " rules:\n" + to_text(violations));
    return plan;
}

Prediction predict(const Scenario& scenario, const PredictOptions& options) {
    return predict(scenario, options.verify ? verified_plan(scenario) : lower(scenario), options);
}

Prediction predict(const Scenario& scenario, const Plan& plan, const PredictOptions& options) {
    const MemoryReport bytes = memory(plan, scenario);
    const Fabric fabric(scenario.cluster);
    const CostModel cost(scenario, fabric);
    Prediction p;
    p.too_big = options.only_if_fits && !bytes.fits;
    if (!p.too_big) p.simulation = simulate(plan, scenario, fabric, cost, options.simulate);
    if (p.simulation.deadlock) {
        std::string why = to_text(*p.simulation.deadlock);
        if (scenario.runtime.launch_blocking && scenario.strategy.overlap.pipeline)
            why += "\nWith runtime.launch_blocking a host that waits for an exchange posts nothing else, and strategy.overlap.pipeline "
                   "posts one by one: set one of them to false.";
        throw std::runtime_error(why);
    }
    if (p.simulation.trace) sample_memory(*p.simulation.trace, plan, bytes);
    p.report = report(scenario, plan, p.simulation, bytes, cost);
    return p;
}

} // namespace orrery
