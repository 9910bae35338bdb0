#include "sim/plan/issue_order.hpp"

#include "topology/check.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <utility>

namespace orrery {

IssueOrder issue_order(const Plan& plan, const Program& program) {
    IssueOrder order;
    order.stage = program.stage;
    std::vector<std::int32_t> first_of_action; // the issue of each action's first op
    using Instance = std::pair<std::int32_t, std::array<std::int32_t, max_ports>>;
    std::map<Instance, std::vector<std::int32_t>> issued; // a block bound to its microbatches: the issue of each op, where it is cut too
    std::map<CommId, std::int32_t> transfers;
    std::int32_t step = 0;
    for (std::size_t a = 0; a < program.actions.size(); ++a) {
        const Action& action = program.actions[a];
        if (static_cast<std::size_t>(step) < program.step_begins.size() && program.step_begins[step] == static_cast<std::int32_t>(a))
            ++step;
        const Block& block = plan.blocks[action.block];
        auto& of_block = issued[{action.block, action.microbatch}];
        of_block.resize(block.ops.size(), -1);
        first_of_action.push_back(static_cast<std::int32_t>(order.issues.size()));
        std::int32_t dep = action.deps_begin;
        for (std::int32_t i = action.first; i < action.last; ++i) {
            const Op& op = block.ops[i];
            Issue issue{&op, action.block, i, static_cast<std::int32_t>(a), action.microbatch[op.port]};
            issue.step = step;
            issue.deps_begin = static_cast<std::int32_t>(order.deps.size());
            for (std::int32_t d : op.deps)
                if (of_block[d] >= 0) order.deps.push_back(of_block[d]);
            for (; dep < action.deps_end && program.deps[dep].op == i; ++dep) {
                const ActionDep& on = program.deps[dep];
                if (on.on_action < 0) continue;
                order.deps.push_back(first_of_action[on.on_action] + on.on_op - program.actions[on.on_action].first);
            }
            issue.deps_end = static_cast<std::int32_t>(order.deps.size());
            if (const auto* x = std::get_if<Exchange>(&op.work)) {
                issue.transfers_begin = static_cast<std::int32_t>(order.ordinals.size());
                for (const Transfer& t : x->transfers) {
                    order.ordinals.push_back(transfers[t.comm]++);
                    order.microbatches.push_back(action.microbatch[t.port]);
                }
            }
            of_block[i] = static_cast<std::int32_t>(order.issues.size());
            order.issues.push_back(issue);
        }
        require(dep == action.deps_end, "an action's dependencies are not in the order of its ops");
    }
    return order;
}

std::optional<BucketRoom> bucket_room(const Plan& plan, const IssueOrder& order, std::int32_t alloc, BufferId b) {
    const Buffer& buffer = plan.buffers[static_cast<std::size_t>(b)];
    const bool gradients = buffer.role == Role::gradient;
    if (buffer.bucket < 0 || (!gradients && buffer.role != Role::parameter)) return std::nullopt;
    const auto at = [&](std::int32_t i) -> const Issue& { return order.issues[static_cast<std::size_t>(i)]; };
    if (!gradients) return BucketRoom{at(alloc).action, buffer.bucket, false};
    // Gradients that come apart, each as its product runs, lie apart.
    std::int32_t first = alloc;
    while (first > 0 && std::holds_alternative<Alloc>(at(first - 1).op->work) && at(first - 1).action == at(first).action) --first;
    return BucketRoom{first, buffer.bucket, true};
}

std::string place(const Plan& plan, const Issue& issue) {
    const Block& block = plan.blocks[issue.block];
    const std::string op = issue.op->name.empty() ? "op " + std::to_string(issue.index) : issue.op->name;
    return fmt::format("{} of {} (action {})", op, block.name, issue.action);
}

std::vector<QueueId> queues_of(const Op& op) {
    std::vector<QueueId> queues{op.queue};
    if (const auto* x = std::get_if<Exchange>(&op.work))
        for (const Transfer& t : x->transfers)
            if (std::find(queues.begin(), queues.end(), queue_of(t.comm)) == queues.end()) queues.push_back(queue_of(t.comm));
    return queues;
}

} // namespace orrery
