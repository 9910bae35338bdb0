// The last run of a plan. The next scenario of the plan may be the same machine but for the names of its ranks and links, as where another
// order of the ranks leaves all groups as near as they were: then nothing is run again.
#pragma once

#include "sim/engine/machine.hpp"

namespace orrery {

struct RunMemo {
    Machine machine; // of `result`, without lane_of_rank and link_class; no lanes: there is none
    Simulation result;
    int max_steps = 0;
    std::uint64_t slower_up_to = 0;

    // What running the machine gives, where it is the one of the last run; nothing: it is another one, or a trace is asked for.
    std::optional<Simulation> known(const Machine& now, const SimulateOptions& options) const;
    void keep(Machine&& ran, const Simulation& gave, const SimulateOptions& options);
};

} // namespace orrery
