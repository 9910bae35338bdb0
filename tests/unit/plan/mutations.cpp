#include "tests/unit/plan/mutations.hpp"
#include "topology/at.hpp"

#include <algorithm>
#include <functional>
#include <map>

namespace orrery::test {
namespace {

// Puts each op of `block` where `place` says (-1: nowhere) in every dependency, and rebuilds the programs' lists.
void move_ops(Plan& plan, std::int32_t block, const std::function<std::int32_t(std::int32_t)>& place) {
    for (Program& p : plan.programs) {
        std::vector<ActionDep> deps;
        const std::int32_t count = static_cast<std::int32_t>(p.actions.size());
        for (Action& a : p.actions) {
            const std::int32_t begin = static_cast<std::int32_t>(deps.size());
            for (std::int32_t d = a.deps_begin; d < a.deps_end; ++d) {
                ActionDep dep = p.deps[at(d)];
                if (a.block == block) dep.op = place(dep.op);
                if (p.actions[at(dep.on_action < 0 ? count + dep.on_action : dep.on_action)].block == block) dep.on_op = place(dep.on_op);
                if (dep.op >= 0 && dep.on_op >= 0) deps.push_back(dep);
            }
            a.deps_begin = begin;
            a.deps_end = static_cast<std::int32_t>(deps.size());
        }
        p.deps = std::move(deps);
    }
    for (Op& op : plan.blocks[at(block)].ops) {
        for (std::int32_t& d : op.deps) d = place(d);
        std::erase(op.deps, -1);
    }
}

// The same for the actions of a program.
void move_actions(Program& p, const std::function<std::int32_t(std::int32_t)>& place, std::int32_t count_after, std::int32_t cut_a,
                  std::int32_t cut_b) {
    std::vector<ActionDep> deps;
    const std::int32_t count = static_cast<std::int32_t>(p.actions.size());
    for (std::int32_t i = 0; i < count; ++i) {
        Action& a = p.actions[at(i)];
        const std::int32_t begin = static_cast<std::int32_t>(deps.size());
        for (std::int32_t d = a.deps_begin; d < a.deps_end; ++d) {
            ActionDep dep = p.deps[at(d)];
            const bool before = dep.on_action < 0;
            const std::int32_t on = before ? count + dep.on_action : dep.on_action;
            if (place(on) < 0 || (!before && i == cut_b && on == cut_a)) continue;
            dep.on_action = before ? place(on) - count_after : place(on);
            deps.push_back(dep);
        }
        a.deps_begin = begin;
        a.deps_end = static_cast<std::int32_t>(deps.size());
    }
    p.deps = std::move(deps);
}

struct Uses {
    bool reads = false, writes = false, memory = false;
};

// (storage, microbatch or -1) -> what is done to it.
using UseMap = std::map<std::pair<BufferId, std::int32_t>, Uses>;

void add_uses(const Plan& plan, const Op& op, const Action* action, UseMap& uses) {
    const auto use = [&](BufferId b, std::uint8_t port) -> Uses& {
        const BufferId root = storage(plan, b);
        const Buffer& x = plan.buffers[at(root)];
        const bool passing = (x.scope == Scope::microbatch || x.scope == Scope::action) && x.kind != MemoryKind::parameters &&
                             x.kind != MemoryKind::gradients;
        return uses[{root, action && passing ? action->microbatch[port] : -1}];
    };
    if (const auto* a = std::get_if<Alloc>(&op.work)) {
        use(a->buffer, op.port).memory = true;
        return;
    }
    if (const auto* f = std::get_if<Free>(&op.work)) {
        use(f->buffer, op.port).memory = true;
        return;
    }
    if (const auto* x = std::get_if<Exchange>(&op.work)) {
        for (const Transfer& t : x->transfers) (t.send ? use(t.buffer, t.port).reads : use(t.buffer, t.port).writes) = true;
        return;
    }
    for (BufferId b : op.in) use(b, op.port).reads = true;
    for (BufferId b : op.out) use(b, op.port).writes = true;
}

bool conflict(const UseMap& a, const UseMap& b) {
    for (const auto& [key, u] : a) {
        const auto it = b.find(key);
        if (it == b.end()) continue;
        const Uses& v = it->second;
        if (u.memory || v.memory) return true;
        const bool sums = u.reads && u.writes && v.reads && v.writes;
        if ((u.writes || v.writes) && !sums) return true;
    }
    return false;
}

} // namespace

void drop_op(Plan& plan, std::int32_t block, std::int32_t op) {
    move_ops(plan, block, [op](std::int32_t i) { return i == op ? -1 : i - (i > op); });
    Block& b = plan.blocks[at(block)];
    b.ops.erase(b.ops.begin() + op);
    for (std::int32_t& u : b.unit_begin) u -= u > op;
    for (Program& p : plan.programs)
        for (Action& a : p.actions) {
            if (a.block != block) continue;
            a.first -= a.first > op;
            a.last -= a.last > op;
        }
}

void swap_ops(Plan& plan, std::int32_t block, std::int32_t op) {
    Block& b = plan.blocks[at(block)];
    std::erase(b.ops[at(op) + 1].deps, op);
    move_ops(plan, block, [op](std::int32_t i) { return i == op ? op + 1 : i == op + 1 ? op : i; });
    std::swap(b.ops[at(op)], b.ops[at(op) + 1]);
}

void drop_action(Plan& plan, std::size_t program, std::int32_t action) {
    Program& p = plan.programs[program];
    move_actions(
        p, [action](std::int32_t i) { return i == action ? -1 : i - (i > action); }, static_cast<std::int32_t>(p.actions.size()) - 1, -1,
        -1);
    p.actions.erase(p.actions.begin() + action);
}

void swap_actions(Plan& plan, std::size_t program, std::int32_t action) {
    Program& p = plan.programs[program];
    move_actions(
        p, [action](std::int32_t i) { return i == action       ? action + 1
                                             : i == action + 1 ? action
                                                               : i; },
        static_cast<std::int32_t>(p.actions.size()), action, action + 1);
    std::swap(p.actions[at(action)], p.actions[at(action) + 1]);
}

bool depend(const Plan& plan, const Op& a, const Op& b) {
    UseMap ua, ub;
    add_uses(plan, a, nullptr, ua);
    add_uses(plan, b, nullptr, ub);
    return conflict(ua, ub);
}

bool depend(const Plan& plan, const Action& a, const Action& b) {
    const auto uses = [&](const Action& x) {
        UseMap u;
        for (std::int32_t i = x.first; i < x.last; ++i) add_uses(plan, plan.blocks[at(x.block)].ops[at(i)], &x, u);
        return u;
    };
    return conflict(uses(a), uses(b));
}

} // namespace orrery::test
