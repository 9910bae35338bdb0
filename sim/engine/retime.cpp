// A compiled machine with other durations: what compile() made of costs, and no more, is made again from what the machine keeps of them.
#include "sim/engine/clock.hpp"
#include "sim/engine/compile.hpp"

#include <algorithm>
#include <utility>

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
    for (std::size_t u = 0; u < m.uses.size(); ++u)
        if (of_copy[u]) m.uses[u].weight *= std::min(1.0, by[CostGroup::host] / by[m.links[at(m.uses[u].link)].group]);
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

std::int32_t costs_end(const Machine& m, const BundleClass& c) {
    const auto next = static_cast<std::size_t>(&c - m.bundles.data()) + 1;
    return next < m.bundles.size() ? m.bundles[next].costs : static_cast<std::int32_t>(m.bundle_costs.size());
}

void set_limits(const Machine& m, BundleCost& cost, const OwnLimits& own) {
    cost.cap = cost.limit = own.least();
    for (std::int32_t u = cost.uses_begin; u < cost.uses_end; ++u)
        cost.limit = std::min(cost.limit, m.links[at(m.uses[at(u)].link)].capacity / m.uses[at(u)].weight);
}

void find_shared(Machine& m) {
    std::vector<double> most(m.links.size(), 0), of_bundle(m.links.size(), 0);
    const auto for_costs = [&](const BundleClass& b, auto&& action) {
        for (std::int32_t i = b.costs; i < costs_end(m, b); ++i) action(m.bundle_costs[at(i)]);
    };
    for (const BundleClass& b : m.bundles) {
        for_costs(b, [&](const BundleCost& cost) {
            for (std::int32_t u = cost.uses_begin; u < cost.uses_end; ++u) {
                double& high = of_bundle[at(m.uses[at(u)].link)];
                high = std::max(high, m.uses[at(u)].weight * cost.limit);
            }
        });
        for_costs(b, [&](const BundleCost& cost) {
            for (std::int32_t u = cost.uses_begin; u < cost.uses_end; ++u)
                most[at(m.uses[at(u)].link)] += std::exchange(of_bundle[at(m.uses[at(u)].link)], 0);
        });
    }
    std::vector<std::int32_t> number(m.links.size(), -1);
    m.shared_capacity.clear();
    m.shared.clear();
    for (std::size_t l = 0; l < m.links.size(); ++l) {
        if (most[l] <= m.links[l].capacity * (1 + 1e-12)) continue;
        number[l] = static_cast<std::int32_t>(m.shared_capacity.size());
        m.shared_capacity.push_back(m.links[l].capacity);
    }
    for (BundleCost& cost : m.bundle_costs) {
        cost.shared_begin = static_cast<std::int32_t>(m.shared.size());
        for (std::int32_t u = cost.uses_begin; u < cost.uses_end; ++u)
            if (std::int32_t n = number[at(m.uses[at(u)].link)]; n >= 0) m.shared.push_back({n, m.uses[at(u)].weight});
        cost.shared_end = static_cast<std::int32_t>(m.shared.size());
    }
}

Machine retimed(Machine m, const CostFactors& by) {
    retime_ops(m, by);
    retime_bundles(m, by);
    find_shared(m);
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
