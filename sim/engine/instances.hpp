// Inside of compile(): every instance of every communicator before folding. instances.cpp finds them; classes.cpp folds them.
#pragma once

#include "sim/engine/compile.hpp"
#include "sim/engine/fold.hpp"

#include <cstdint>
#include <vector>

namespace orrery {

// Everything before folding: bundles one after another, with what each costs.
struct Unfolded {
    struct Bundle {
        CommId comm;
        std::int32_t member;
        std::int32_t costs;
    }; // member: a channel's sender, -1: a collective's instance
    std::vector<Bundle> bundles;
    std::vector<CommCost> costs;        // of its communicator's patterns, from Bundle::costs
    std::vector<std::int32_t> variants; // beside costs: which loads, -1 none
    FoldGraph graph;
    FoldColours colours;
};

std::vector<std::int16_t> stages_of_ranks(const Plan& plan);
Unfolded find_instances(Compilation& c, const Wires& wires, const std::vector<std::int16_t>& stage_of);

} // namespace orrery
