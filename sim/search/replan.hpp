// Another strategy for a run that goes on with fewer nodes (run.elastic = replan): by a search of bounded effort.
#pragma once

#include "sim/job/whole_run.hpp"
#include "sim/scenario/parse.hpp"

#include <string>

namespace orrery {

// Re-plans the scenario of this text, its overrides in it (whole_text()). parsing: of its files and constants. Each number of nodes is
// searched once and kept; may be called from several threads. Looked at are the clusters that half, the same and twice the tensor degree
// and pipelines of nearly as many, half and twice the stages can fill, of each tensor degree the two with the least work a device, and on
// them at most 24 strategies (6 where there are more than 2,048 devices): chunks, recomputation, 1F1B or the run's own schedule. The batch
// stays: where it cannot be dealt out evenly it is rounded up.
Replan replan_by_search(std::string json, ParseOptions parsing, int jobs);

} // namespace orrery
