// Scenarios drawn at random from models, degrees, schedules and what goes with them.
#pragma once

#include "agree.hpp"

#include <optional>

namespace orrery::agree {

// The same for the same seed, its fields in `fields`; none where what was drawn is refused or cannot be executed.
// more: fields set behind those that are drawn.
std::optional<Scenario> draw(std::uint64_t seed, Fields& fields, const Fields& more = {});

} // namespace orrery::agree
