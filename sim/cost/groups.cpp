// The names of the groups, and which law times which op.
#include "sim/cost/groups.hpp"

namespace orrery {

namespace {

constexpr const char* group_names[] = {"products", "experts", "attention", "memory", "host", "links-inside", "links-between"};
constexpr const char* group_words[] = {"matrix products", "products of experts", "attention kernels",     "kernels that move bytes",
                                       "host time",       "links inside nodes",  "networks between nodes"};

} // namespace

const char* name(CostGroup g) { return group_names[static_cast<std::size_t>(g)]; }
const char* in_words(CostGroup g) { return group_words[static_cast<std::size_t>(g)]; }

CostGroup group_of(const Work& work) {
    if (const auto* linear = std::get_if<Linear>(&work)) return linear->groups > 1 ? CostGroup::experts : CostGroup::products;
    if (std::holds_alternative<Matmul>(work) || std::holds_alternative<Attention>(work) || std::holds_alternative<Softmax>(work))
        return CostGroup::attention;
    if (const auto* step = std::get_if<OptimizerStep>(&work); step && step->part == OptimizerStep::Part::orthogonal)
        return CostGroup::products;
    if (std::holds_alternative<Copy>(work) || std::holds_alternative<HostSync>(work) || std::holds_alternative<HostWork>(work))
        return CostGroup::host;
    return CostGroup::memory;
}

} // namespace orrery
