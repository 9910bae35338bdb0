// Plans kept for the scenarios that have the same: sweeps and searches predict thousands that differ in rates alone.
#pragma once

#include "sim/plan/inputs.hpp"
#include "sim/report/report.hpp"

#include <cstdint>
#include <deque>
#include <memory>

namespace orrery {

// A plan that is lowered and verified, and what its buffers come to. Its name is that of the scenario it was made from.
struct ReadyPlan {
    Plan plan;
    PlanMemory memory;
    std::shared_ptr<RunMemo> memo = {}; // of its last simulation
    bool bound = true;                  // false: it was asked for where it does not fit, has no dependencies and cannot be simulated
};

// The last few plans asked for. Not for several threads at once: each has its own.
class ReadyPlans {
  public:
    explicit ReadyPlans(std::size_t most = 2, bool verified = true) : most_(most), verified_(verified) {}
    // The plan of the scenario, kept from one that lowers alike or made now. Throws as verified_plan() does. only_if_fits: of one that does
    // not fit only what its memory needs.
    std::shared_ptr<const ReadyPlan> of(const Scenario& scenario, bool only_if_fits = false);
    std::int64_t reused() const { return reused_; } // how often it was there already

  private:
    struct Kept {
        PlanInputs inputs;
        std::shared_ptr<ReadyPlan> plan;
    };
    std::shared_ptr<const ReadyPlan> known(const PlanInputs& inputs, const Scenario& scenario, bool only_if_fits);
    std::size_t most_;
    bool verified_;
    std::deque<Kept> kept_; // the latest first
    std::int64_t reused_ = 0;
};

// predict() with a plan that is ready. The scenario must be one that it was asked for.
Prediction predict(const Scenario& scenario, const ReadyPlan& ready, PredictOptions options);

} // namespace orrery
