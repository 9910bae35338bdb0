// The last run of a plan. The next scenario of the plan has the same programs, but for the durations of their ops; and where it is the same
// machine but for the names of its ranks and links, as where another order of the ranks leaves all groups as near as they were, nothing is
// run again.
#pragma once

#include "sim/engine/compile.hpp"

namespace orrery {

// Of one plan, in any order of its ranks.
struct RunMemo {
    Machine machine; // of `result`, without lane_of_rank and link_class; no lanes: there is none
    Simulation result;
    std::vector<std::int64_t> completions; // of its step, by bundle cost
    int max_steps = 0;
    std::uint64_t slower_up_to = 0;

    // What orrery::compile() gives, with the programs of the last machine, priced again. They are taken out of it: until keep() or known()
    // gives it all there is no other.
    Machine compile(const Plan& plan, const Costs& costs, const Wires& wires, const CompileOptions& options);
    // What running the machine gives, where it is the one of the last run; nothing: it is another one, or a trace is asked for. A known
    // machine is kept.
    std::optional<Simulation> known(Machine& now, const SimulateOptions& options);
    void keep(Machine&& ran, const Simulation& gave, std::vector<std::int64_t> times, const SimulateOptions& options);

  private:
    enum class Ops : std::uint8_t { compiled, priced_alike, priced_otherwise };
    bool has_programs_for(const Costs& costs, bool blocking) const;
    void keep_programs();

    std::vector<CommUse> comms_;   // of the machine's programs
    AlikeOps alike_;               // .. their ops; empty: not asked for yet
    bool whole_ = false;           // machine has its programs, and comms_ is theirs
    bool launch_blocking_ = false; // .. as they were compiled
    Ops ops_ = Ops::compiled;      // of the machine that compile() gave last, against those of `machine`
};

} // namespace orrery
