// The lesson of one row: how far off its prediction was, and what it rests on.
#pragma once

#include "sim/trust/beliefs.hpp"
#include "sim/validate/validate.hpp"

#include <stdexcept>
#include <string>

namespace orrery {

// Nothing of a row that failed, is doubtful or was predicted without shares. off: ln(measured / predicted).
std::optional<Lesson> lesson_of(const ValidationRow& row);
std::optional<MemoryLesson> memory_lesson_of(const ValidationRow& row);

// A measured figure that is so far from what is predicted that its unit, or its row, is another: learn_from() throws it.
struct OddRow : std::runtime_error {
    OddRow(const std::string& what, std::size_t which) : std::runtime_error(what), row(which) {}
    std::size_t row; // of those it was given
};

} // namespace orrery
