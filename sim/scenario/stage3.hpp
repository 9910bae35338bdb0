// DeepSpeed's ZeRO-3 as its configuration is by default (deepspeed/runtime/zero/config.py). All in elements.
#pragma once

#include <cstdint>

namespace orrery::stage3 {

constexpr std::int64_t param_persistence_threshold = 100'000; // parameters of at most so many stay whole in all passes
constexpr std::int64_t prefetch_bucket_size = 50'000'000;     // asked for ahead and together; a larger parameter is gathered by itself
constexpr std::int64_t max_live_parameters = 1'000'000'000;   // whole at once
constexpr std::int64_t max_reuse_distance = 1'000'000'000;    // a parameter that is used again within so many stays whole

} // namespace orrery::stage3
