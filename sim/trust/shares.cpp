// The time of a step, by the group of constants that it rests on.
#include "sim/trust/shares.hpp"

#include <algorithm>
#include <initializer_list>
#include <map>
#include <numeric>
#include <tuple>

namespace orrery {

namespace {

std::size_t at(CostGroup g) { return static_cast<std::size_t>(g); }

constexpr const char* group_names[] = {"products", "experts", "attention", "memory", "host", "links-inside", "links-between"};
constexpr const char* group_words[] = {"matrix products", "products of experts", "attention kernels",     "kernels that move bytes",
                                       "host time",       "links inside nodes",  "networks between nodes"};

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

// Whether the ranks of rank 0's group along one of these axes stand on several nodes.
bool leaves_node(const Mesh& mesh, int of_a_node, std::initializer_list<Axis> axes) {
    return std::any_of(axes.begin(), axes.end(), [&](Axis axis) {
        Coordinates last{};
        last[static_cast<std::size_t>(axis)] = mesh.extent(axis) - 1;
        return mesh.rank_of(last) >= of_a_node; // rank 0 stands on the first node
    });
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
    const auto wait = [&](Category c, const Mesh& mesh, std::initializer_list<Axis> axes) {
        shares[at(leaves_node(mesh, scenario.cluster.devices_per_node, axes) ? CostGroup::links_between : CostGroup::links_inside)] +=
            of(c);
    };
    wait(Category::exposed_tp, plan.mesh, {Axis::tp});
    wait(Category::exposed_cp, plan.mesh, {Axis::cp});
    wait(Category::exposed_ep, plan.expert_mesh, {Axis::ep});
    wait(Category::exposed_pp, plan.mesh, {Axis::pp});
    wait(Category::exposed_dp, plan.mesh, {Axis::dp, Axis::dpr});
    scale_to_one(shares); // a bubble is time in which other stages do the same
    return shares;
}

} // namespace orrery
