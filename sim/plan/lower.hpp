// The recipe: scenario to plan, one line a pass (lower.cpp).
#pragma once

#include "sim/plan/plan.hpp"
#include "sim/plan/stop.hpp"

#include <memory>
#include <string>
#include <string_view>
#include <vector>

namespace orrery {

// The scenario must have come out of the parser without problems. Aborts (our bug) where a pass breaks its contract. Throws Stopped
// before the next pass once `stop` is set.
Plan lower(const Scenario& scenario, StopFlag stop = nullptr);
// The same plan, made without skipping what repeats: the reference.
Plan lower_action_by_action(const Scenario& scenario);

// In two steps, for whom the memory says whether the rest is worth while: it needs no dependencies, and these take a third of the time.
class UnboundPlan {
  public:
    explicit UnboundPlan(const Scenario& scenario); // which must outlive this
    ~UnboundPlan();
    const Plan& plan() const; // without any dependency
    Plan take() &&;           // .. for good
    Plan bound() &&;          // the whole plan, as lower() makes it

  private:
    std::unique_ptr<struct Lowering> lowering_;
};
// The plan of a scenario that differs in the order of its ranks alone.
void reorder_ranks(Plan& plan, const RankOrder& order);

// Text of the stage after `pass` (a name of pass_names()), for `simrun plan --after`. Throws std::invalid_argument for an unknown name.
std::string text_after(const Scenario& scenario, std::string_view pass);
std::vector<std::string> pass_names(); // in the order they run

} // namespace orrery
