// Where in the model something is dropped: every rank, every strategy and the recomputation drop the same elements of one place.
#pragma once

#include <cstdint>

namespace orrery {

enum class DropoutSite : std::uint8_t { none, embedding, attention, after_attention, after_mlp };

} // namespace orrery
