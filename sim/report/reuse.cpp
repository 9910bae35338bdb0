#include "sim/report/reuse.hpp"

#include "sim/plan/lower.hpp"
#include "sim/plan/verify.hpp"

#include <algorithm>
#include <utility>

namespace orrery {

std::shared_ptr<const ReadyPlan> ReadyPlans::of(const Scenario& scenario) {
    PlanInputs inputs = plan_inputs(scenario);
    const auto same = std::find_if(kept_.begin(), kept_.end(), [&](const Kept& k) { return k.inputs == inputs; });
    if (same != kept_.end()) {
        ++reused_;
        std::rotate(kept_.begin(), same, same + 1);
        return kept_.front().plan;
    }
    while (!kept_.empty() && kept_.size() >= most_) kept_.pop_back(); // before the next is made: a plan may be large
    Plan plan = verified_ ? verified_plan(scenario) : lower(scenario);
    PlanMemory memory = walk(plan);
    auto made = std::make_shared<const ReadyPlan>(ReadyPlan{std::move(plan), std::move(memory)});
    kept_.push_front({std::move(inputs), made});
    return made;
}

Prediction predict(const Scenario& scenario, const ReadyPlan& ready, PredictOptions options) {
    options.walked = &ready.memory;
    return predict(scenario, ready.plan, options);
}

} // namespace orrery
