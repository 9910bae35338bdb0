// Constraints of a sweep: comparisons such as "/strategy/tensor_parallel * /strategy/pipeline_parallel <= 64". Private to this room.
//   comparison = sum ("<=" | "<" | ">=" | ">" | "==" | "!=") sum
//   sum        = product {("+" | "-") product}
//   product    = factor {("*" | "/" | "%") factor}
//   factor     = number | JSON pointer | "(" sum ")" | "-" factor
#pragma once

#include "sim/scenario/json_text.hpp"

#include <nlohmann/json_fwd.hpp>

#include <functional>
#include <optional>
#include <string>
#include <string_view>

namespace orrery {

// The value of a pointer in a scenario; nothing if it is absent or no number.
using Lookup = std::function<std::optional<double>(const std::string& pointer)>;

// holds: the answer, where there is no error. An error is a sentence: where the text stops making sense, or which field has no number.
struct ConstraintAnswer {
    bool holds = false;
    std::string error;
    bool syntax = false; // the error is in the text, whatever the fields are
};
ConstraintAnswer evaluate_constraint(std::string_view text, const Lookup& lookup);

} // namespace orrery
