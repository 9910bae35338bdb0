// The time of a step, by the group of constants that it rests on.
#include "sim/trust/shares.hpp"

#include <map>
#include <numeric>
#include <tuple>

namespace orrery {

namespace {

std::size_t at(CostGroup g) { return static_cast<std::size_t>(g); }

constexpr const char* group_names[] = {"products", "experts", "attention", "memory", "host", "links-inside", "links-between"};
constexpr const char* group_words[] = {
    "matrix products", "products of experts", "attention kernels", "kernels that move bytes", "host time", "links inside nodes", "networks between nodes"};

// Host and copy queues have no place here: what the device waits for of theirs is the host's.
CostGroup group_of(const Work& work) {
    if (const auto* linear = std::get_if<Linear>(&work)) return linear->groups > 1 ? CostGroup::experts : CostGroup::products;
    if (std::holds_alternative<Matmul>(work) || std::holds_alternative<Attention>(work) || std::holds_alternative<Softmax>(work))
        return CostGroup::attention;
    return CostGroup::memory;
}

bool computes(const Op& op) {
    return op.queue == compute_queue && !is_memory_op(op.work) && !std::holds_alternative<Collective>(op.work) &&
           !std::holds_alternative<Exchange>(op.work) && !std::holds_alternative<HostSync>(op.work);
}

// What a rank of each stage computes in a round, by group, summed over the stages.
CostShares computed(const Plan& plan, const CostModel& cost) {
    std::map<std::tuple<std::int32_t, std::int32_t, std::int32_t>, std::int64_t> runs; // of ops [first, last) of a block
    for (const Program& p : plan.programs)
        for (const Action& a : p.actions) ++runs[{a.block, a.first, a.last}];
    CostShares sum{};
    for (const auto& [range, times] : runs) {
        const auto& [block, first, last] = range;
        const std::vector<Op>& ops = plan.blocks[static_cast<std::size_t>(block)].ops;
        for (std::int32_t i = first; i < last; ++i) {
            const Op& op = ops[static_cast<std::size_t>(i)];
            if (computes(op)) sum[at(group_of(op.work))] += cost.compute(plan, op).duration.seconds() * static_cast<double>(times);
        }
    }
    return sum;
}

// Whether ranks that differ along these axes stand on several nodes.
bool leaves_node(const Plan& plan, const Scenario& s, AxisMask axes) {
    for (std::size_t c = 0; c < plan.communicators.size(); ++c) {
        if (!(plan.communicators[c].axes & axes)) continue;
        const std::vector<int> ranks = members(plan, static_cast<CommId>(c), 0);
        for (int rank : ranks)
            if (rank / s.cluster.devices_per_node != ranks.front() / s.cluster.devices_per_node) return true;
    }
    return false;
}

void scale_to_one(CostShares& shares) {
    const double all = std::accumulate(shares.begin(), shares.end(), 0.0);
    if (all <= 0) return;
    for (double& share : shares) share /= all;
}

} // namespace

const char* name(CostGroup g) { return group_names[at(g)]; }
const char* in_words(CostGroup g) { return group_words[at(g)]; }

CostShares cost_shares(const Plan& plan, const Scenario& scenario, const Simulation& simulation, const CostModel& cost) {
    std::array<double, category_count> spent{};
    for (const LaneResult& lane : simulation.lanes)
        for (std::size_t c = 0; c < spent.size(); ++c) spent[c] += lane.breakdown[c].seconds() * lane.ranks;
    const auto of = [&](Category c) { return spent[static_cast<std::size_t>(c)]; };

    CostShares shares = computed(plan, cost);
    scale_to_one(shares);
    for (double& share : shares) share *= of(Category::compute) + of(Category::recompute) + of(Category::optimizer);
    shares[at(CostGroup::host)] += of(Category::other) + of(Category::offload);
    const auto wait = [&](Category c, AxisMask axes) {
        if (of(c) > 0) shares[at(leaves_node(plan, scenario, axes) ? CostGroup::links_between : CostGroup::links_inside)] += of(c);
    };
    wait(Category::exposed_tp, mask(Axis::tp));
    wait(Category::exposed_cp, mask(Axis::cp));
    wait(Category::exposed_ep, mask(Axis::ep));
    wait(Category::exposed_pp, mask(Axis::pp));
    wait(Category::exposed_dp, static_cast<AxisMask>(mask(Axis::dp) | mask(Axis::dpr)));
    scale_to_one(shares); // a bubble is time in which other stages do the same
    return shares;
}

} // namespace orrery
