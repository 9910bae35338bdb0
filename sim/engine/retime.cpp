// A compiled machine with other durations: what compile() made of costs, and no more, is made again from what the machine keeps of them.
#include "sim/engine/clock.hpp"
#include "sim/engine/compile.hpp"
#include "sim/engine/deciding.hpp"

#include <algorithm>

namespace orrery {

namespace {

std::int64_t longer(std::int64_t ps, double factor) { return at_most_clock(static_cast<std::int64_t>(static_cast<double>(ps) * factor)); }

// f(op's place, its group) for each op that has work of its own.
template <class F> void each_op(const Machine& m, F&& f) {
    for (const Segment& s : m.segments)
        for (std::int32_t o = s.begin; o < s.end; ++o)
            if (const CompiledOp& op = m.ops[at(o)]; op.kind == OpClass::timed || op.kind == OpClass::copy)
                f(at(o), group_of(m.plan->blocks[at(s.block)].ops[at(op.source)].work));
}

void retime_ops(Machine& m, const CostFactors& by) {
    each_op(m, [&](std::size_t o, CostGroup group) {
        m.ops[o].duration = longer(m.ops[o].duration, by[group]);
        for (std::vector<std::int64_t>& own : m.durations_of_kind)
            if (o < own.size()) own[o] = longer(own[o], by[group]);
    });
    for (CompiledOp& op : m.ops) op.host = longer(op.host, by[CostGroup::host]);
}

// Alone a copy is as fast as its own group says: slower links give others less beside it.
void retime_copy_loads(Machine& m, const CostFactors& by) {
    std::vector<char> of_copy(m.uses.size());
    for (const BundleCost& cost : m.bundle_costs)
        if (cost.kind == copy_kind) std::fill(of_copy.begin() + cost.uses_begin, of_copy.begin() + cost.uses_end, 1);
    for (std::size_t u = 0; u < m.uses.size(); ++u) {
        if (!of_copy[u]) continue;
        m.uses[u].taken *= std::min(1.0, by[CostGroup::host] / by[m.links[at(m.uses[u].link)].group]);
    }
}

void retime_bundles(Machine& m, const CostFactors& by) {
    for (MachineLink& l : m.links) l.capacity /= by[l.group];
    retime_copy_loads(m, by);
    for (std::size_t i = 0; i < m.bundle_costs.size(); ++i) {
        BundleCost& cost = m.bundle_costs[i];
        OwnLimits& own = m.own_limits[i];
        const double factor = by[own.group];
        cost.latency = longer(cost.latency, factor);
        own.protocol /= factor;
        for (std::size_t g = 0; g < own.links.size(); ++g) own.links[g] /= cost.kind == copy_kind ? std::min(by[g], factor) : by[g];
        set_limits(m, cost, own);
    }
}

} // namespace

Machine retimed(Machine m, const CostFactors& by) {
    retime_ops(m, by);
    retime_bundles(m, by);
    find_shared(m);
    keep_deciding_links(m);
    return m;
}

bool rests_on(const Machine& m, CostGroup group) {
    if (group == CostGroup::host) return true;
    bool found = std::any_of(m.own_limits.begin(), m.own_limits.end(), [&](const OwnLimits& own) { return own.group == group; }) ||
                 std::any_of(m.links.begin(), m.links.end(), [&](const MachineLink& l) { return l.group == group; });
    each_op(m, [&](std::size_t, CostGroup of) { found = found || of == group; });
    return found;
}

} // namespace orrery
