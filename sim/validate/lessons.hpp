// The lesson of one row: how far off its prediction was, and what it rests on.
#pragma once

#include "sim/trust/beliefs.hpp"
#include "sim/validate/validate.hpp"

namespace orrery {

// Nothing of a row that failed, is doubtful or was predicted without shares. off: ln(measured / predicted).
std::optional<Lesson> lesson_of(const ValidationRow& row);
std::optional<MemoryLesson> memory_lesson_of(const ValidationRow& row);

} // namespace orrery
