#include "sim/scenario/uncounted.hpp"

namespace orrery {

bool leaves_uncounted(const Scenario& s) {
    const Framework software = s.strategy.framework;
    const bool own_runtime = s.runtime.plan_allocator && software != Framework::jax;
    return !own_runtime && software != Framework::composer;
}

} // namespace orrery
