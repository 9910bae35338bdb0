// DeepSpeed's ZeRO-3 as it is configured where no field of a scenario says it. All in elements.
#pragma once

#include "sim/scenario/scenario.hpp"

#include <cstdint>

namespace orrery::stage3 {

// By default (deepspeed/runtime/zero/config.py).
struct Sizes {
    std::int64_t param_persistence_threshold = 100'000; // a parameter of at most that many elements stays whole in all passes
    std::int64_t prefetch_bucket_size = 50'000'000;     // asked for ahead and together; a larger parameter is gathered by itself
};
constexpr std::int64_t max_live_parameters = 1'000'000'000; // whole at once
constexpr std::int64_t max_reuse_distance = 1'000'000'000;  // a parameter stays whole until its next use if fewer elements are used before

// Hugging Face's Trainer resolves "auto" by the hidden size, for these two and reduce_bucket_size (trainer_config_finalize of
// transformers/integrations/deepspeed.py): prefetch buckets of 0.9 hidden^2, parameters of up to 10 hidden stay whole.
Sizes sizes_of(const Scenario& scenario);

} // namespace orrery::stage3

namespace orrery {

// Whether DeepSpeed trains a model of Transformers', as Hugging Face's Trainer has it (transformers/integrations/deepspeed.py, of January
// 2021): the model is built like Llama. Megatron-DeepSpeed trains GPTs so, whose MLPs are not gated and whose norms are LayerNorms, splits
// sequences (Ulysses) and has DeepSpeed's own mixtures, of a capacity or across ranks.
bool trainer_under_deepspeed(const Scenario& scenario);

} // namespace orrery
