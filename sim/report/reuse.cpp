#include "sim/report/reuse.hpp"

#include "sim/engine/memo.hpp"
#include "sim/plan/lower.hpp"
#include "sim/plan/verify.hpp"

#include <algorithm>
#include <utility>

namespace orrery {

namespace {

bool fits(const ReadyPlan& ready, const Scenario& scenario) { return memory(ready.plan, ready.memory, scenario, CacheOf::no_stage).fits; }

} // namespace

// One that is kept, with its ranks in this order; nullptr: there is none, or it has no dependencies where they are asked for. The order
// comes first: which ranks of a group share a node decides buffers of its communicators, and so whether the plan fits.
std::shared_ptr<const ReadyPlan> ReadyPlans::known(const PlanInputs& inputs, const Scenario& scenario, bool only_if_fits) {
    const auto same = std::find_if(kept_.begin(), kept_.end(), [&](const Kept& k) { return k.inputs == inputs; });
    if (same == kept_.end()) return nullptr;
    if (same->plan->plan.mesh.order != scenario.strategy.rank_order) {
        if (same->plan.use_count() > 1) same->plan = std::make_shared<ReadyPlan>(*same->plan); // somebody has it still
        reorder_ranks(same->plan->plan, scenario.strategy.rank_order);
    }
    if (!same->plan->bound && (!only_if_fits || fits(*same->plan, scenario))) {
        kept_.erase(same);
        return nullptr;
    }
    std::rotate(kept_.begin(), same, same + 1);
    return kept_.front().plan;
}

std::shared_ptr<const ReadyPlan> ReadyPlans::of(const Scenario& scenario, bool only_if_fits) {
    PlanInputs inputs = plan_inputs(scenario);
    inputs.strategy.rank_order = {};
    if (std::shared_ptr<const ReadyPlan> same = known(inputs, scenario, only_if_fits)) {
        ++reused_;
        return same;
    }
    while (!kept_.empty() && kept_.size() >= most_) kept_.pop_back(); // before the next is made: a plan may be large
    UnboundPlan unbound(scenario);
    auto made = std::make_shared<ReadyPlan>();
    made->memory = walk(unbound.plan());
    made->bound = !only_if_fits || memory(unbound.plan(), made->memory, scenario, CacheOf::no_stage).fits;
    if (made->bound) {
        made->memo = std::make_shared<RunMemo>();
        made->plan = std::move(unbound).bound();
        if (verified_) require_verified(made->plan);
    } else
        made->plan = std::move(unbound).take();
    kept_.push_front({std::move(inputs), made});
    return made;
}

Prediction predict(const Scenario& scenario, const ReadyPlan& ready, PredictOptions options) {
    options.walked = &ready.memory;
    options.bound = ready.bound;
    options.memo = ready.memo.get();
    return predict(scenario, ready.plan, options);
}

} // namespace orrery
