// A scenario that can be predicted: read, one that lowering knows, and with what it leaves to be chosen by memory (strategy.recompute =
// {"segments": "auto"}) chosen. simrun, sweeps, advice, validation and simgui begin here.
#pragma once

#include "sim/scenario/parse.hpp"

#include <string_view>

namespace orrery {

// Problems of the text, or, where it has none, of what is not modelled. Throws as lowering does where a plan that is tried cannot be made.
ParseResult ready_scenario(std::string_view json_text, const ParseOptions& options = {});
void make_ready(ParseResult& parsed); // the same of one that was parsed

} // namespace orrery
