// The window: how far a host issues ahead of what has ended.
#include "sim/engine/compile.hpp"

#include "topology/input_error.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <bit>

namespace orrery {
namespace {

// A rank must be able to post what the actions around a waiting transfer exchange: room for several of the longest stretches between two
// exchanges. (A pass over a chunk is one action, or one for each unit where its parameters are gathered unit by unit.)
std::int64_t window_of_exchanges(const Plan& plan) {
    std::vector<char> exchanges(plan.blocks.size(), 0);
    for (std::size_t b = 0; b < plan.blocks.size(); ++b)
        exchanges[b] = std::any_of(plan.blocks[b].ops.begin(), plan.blocks[b].ops.end(),
                                   [](const Op& op) { return std::holds_alternative<Exchange>(op.work); });
    std::int64_t longest = 0;
    for (const Program& p : plan.programs) {
        const bool any = std::any_of(p.actions.begin(), p.actions.end(), [&](const Action& a) { return exchanges[at(a.block)] != 0; });
        std::int64_t stretch = 0;
        for (const Action& a : p.actions) {
            if (exchanges[at(a.block)] != 0)
                stretch = 0;
            else if (any && plan.blocks[at(a.block)].kind != BlockKind::optimizer)
                stretch += a.last - a.first;
            longest = std::max<std::int64_t>({longest, stretch, a.last - a.first});
        }
    }
    const auto slots = static_cast<std::int64_t>(std::bit_ceil(static_cast<std::uint64_t>(4 * longest)));
    return std::clamp<std::int64_t>(slots, 1024, 65536) - 16;
}

// Collectives of workers that later steps wait for, the kernels between them, and updates on the host beside a step hold their own queue
// alone, and the host goes on: as far as the farthest that waits.
bool goes_on_beside(const Plan& plan, const Op& op) {
    if (const auto* step = std::get_if<OptimizerStep>(&op.work); step && step->delayed) return true;
    return op.queue >= first_comm_queue && (plan.communicators[op.queue - first_comm_queue].axes & plan.workers) != 0;
}

bool any_beside(const Plan& plan) {
    return plan.workers != 0 || std::any_of(plan.blocks.begin(), plan.blocks.end(), [&](const Block& b) {
               return b.kind == BlockKind::optimizer &&
                      std::any_of(b.ops.begin(), b.ops.end(), [&](const Op& op) { return goes_on_beside(plan, op); });
           });
}

std::int64_t reach_of(const Plan& plan) {
    constexpr std::int64_t most = std::int64_t{1} << 21;
    if (!any_beside(plan)) return 0;
    std::int64_t farthest = 0;
    for (const Program& p : plan.programs) {
        std::vector<std::int64_t> begin(p.actions.size());
        std::int64_t slots = 0;
        for (std::size_t a = 0; a < p.actions.size(); ++a) {
            begin[a] = slots - p.actions[at(a)].first;
            slots += p.actions[at(a)].last - p.actions[at(a)].first;
        }
        for (std::size_t a = 0; a < p.actions.size(); ++a)
            for (std::int32_t d = p.actions[at(a)].deps_begin; d < p.actions[at(a)].deps_end; ++d) {
                const ActionDep& dep = p.deps[at(d)];
                const std::size_t on =
                    dep.on_action < 0 ? at(static_cast<std::int64_t>(p.actions.size()) + dep.on_action) : at(dep.on_action);
                if (!goes_on_beside(plan, plan.blocks[p.actions[at(on)].block].ops[dep.on_op])) continue;
                farthest = std::max(farthest, begin[a] + dep.op - begin[on] - dep.on_op + (dep.on_action < 0 ? slots : 0));
            }
    }
    if (farthest > most)
        throw InputError(plan.workers != 0
                             ? fmt::format("/strategy/synchronization/overlap_steps: what is sent is waited for {} ops later, and at most "
                                           "{} are followed: lower overlap_steps or the number of microbatches",
                                           farthest, most)
                             : fmt::format("/strategy/offload/delayed_update: the step beside the update has {} ops, and at most {} are "
                                           "followed: lower the number of microbatches, or set it to false",
                                           farthest, most));
    return farthest;
}

} // namespace

std::int64_t window_of(const Plan& plan) {
    const std::int64_t window = window_of_exchanges(plan), reach = reach_of(plan);
    return reach < window ? window : reach + window;
}

} // namespace orrery
