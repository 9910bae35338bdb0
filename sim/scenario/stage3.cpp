#include "sim/scenario/stage3.hpp"

namespace orrery {

bool trainer_under_deepspeed(const Scenario& s) {
    if (s.strategy.framework != Framework::deepspeed || s.runtime.year < 2021 || s.strategy.context_parallel > 1) return false;
    const bool own_mixture = s.model.moe && (s.model.moe->capacity_factor > 0 || s.strategy.expert_parallel > 1);
    return (s.model.gated() || s.model.norm == NormKind::rmsnorm) && !own_mixture;
}

namespace stage3 {

Sizes sizes_of(const Scenario& s) {
    const Strategy& t = s.strategy;
    const bool trainer = t.zero_stage == 3 && t.tensor_parallel == 1 && t.pipeline_parallel == 1 && trainer_under_deepspeed(s);
    if (!trainer) return {};
    return {10 * s.model.hidden_size, 9 * s.model.hidden_size * s.model.hidden_size / 10};
}

} // namespace stage3
} // namespace orrery
