// Is a plan that lacks an op, or has two in the wrong order, ever called good? Ops and actions of every example are dropped one at a time,
// and neighbours that depend on each other change places.
#include "tests/unit/plan/mutations.hpp"
#include "tests/unit/plan/plans.hpp"
#include "topology/at.hpp"

#include <algorithm>
#include <functional>

namespace orrery::test {
namespace {

std::string text_of(const Plan& plan, const Block& block, std::int32_t op) {
    const Op& o = block.ops[at(op)];
    std::string name = o.name.empty() ? kind_name(o.work) : o.name;
    if (const auto* a = std::get_if<Alloc>(&o.work)) name = "alloc " + plan.buffers[at(a->buffer)].name;
    if (const auto* f = std::get_if<Free>(&o.work)) name = "free " + plan.buffers[at(f->buffer)].name;
    return block.name + " op " + std::to_string(op) + " " + name;
}

struct Tally {
    int made = 0, missed = 0;
    std::string first;
};

// Breaks the plan, verifies, and puts blocks and programs back.
void attempt(Plan& plan, std::int32_t block, Tally& tally, const std::string& what, const std::function<void(Plan&)>& break_it) {
    const Block saved = plan.blocks[at(block)];
    const std::vector<Program> programs = plan.programs;
    break_it(plan);
    ++tally.made;
    if (verify(plan).empty()) {
        if (++tally.missed <= 12) tally.first += "  " + what + "\n";
    }
    plan.blocks[at(block)] = saved;
    plan.programs = programs;
}

template <class Visit> void for_every_example(Visit visit) {
    Tally all;
    for (const Example& e : examples()) {
        Plan plan = plan_of(e.overrides);
        Tally tally;
        visit(plan, tally);
        EXPECT_EQ(tally.missed, 0) << e.name << ": of " << tally.made << " broken plans these pass:\n" << tally.first;
        EXPECT_GT(tally.made, 0) << e.name;
        all.made += tally.made;
    }
    testing::Test::RecordProperty("broken_plans", all.made);
}

std::vector<char> used_blocks(const Plan& plan) {
    std::vector<char> used(plan.blocks.size(), 0);
    for (const Program& p : plan.programs)
        for (const Action& a : p.actions) used[at(a.block)] = 1;
    return used;
}

struct Place {
    std::int32_t block, op;
};

// Every op, or where there are many every second, third, ... of them, at least 300: examples share most kinds of ops.
template <class Wanted> std::vector<Place> sample(const Plan& plan, Wanted wanted) {
    const auto used = used_blocks(plan);
    std::vector<Place> all, chosen;
    for (std::int32_t b = 0; b < static_cast<std::int32_t>(plan.blocks.size()); ++b)
        for (std::int32_t i = 0; used[at(b)] && i < static_cast<std::int32_t>(plan.blocks[at(b)].ops.size()); ++i)
            if (wanted(plan.blocks[at(b)].ops, at(i))) all.push_back({b, i});
    const std::size_t stride = std::max<std::size_t>(1, all.size() / 300);
    for (std::size_t k = plan.buffers.size() % stride; k < all.size(); k += stride) chosen.push_back(all[k]);
    return chosen;
}

TEST(VerifyMutation, MissesNoDroppedOp) {
    for_every_example([](Plan& plan, Tally& tally) {
        // A host that reads a value of the device and does nothing with it is behind, not wrong. A copy onto itself is there for its time.
        const auto matters = [&](const std::vector<Op>& ops, std::size_t i) {
            const auto* copy = std::get_if<Pointwise>(&ops[i].work);
            if (copy != nullptr && copy->kind == PointwiseKind::copy && ops[i].in == ops[i].out) return false;
            return !std::holds_alternative<HostSync>(ops[i].work) || plan.buffers[at(ops[i].in.front())].space == Space::host;
        };
        for (const Place& p : sample(plan, matters))
            attempt(plan, p.block, tally, text_of(plan, plan.blocks[at(p.block)], p.op),
                    [&](Plan& broken) { drop_op(broken, p.block, p.op); });
    });
}

TEST(VerifyMutation, MissesNoSwappedOps) {
    for_every_example([](Plan& plan, Tally& tally) {
        const auto dependent = [&](const std::vector<Op>& ops, std::size_t i) {
            return i + 1 < ops.size() && depend(plan, ops[i], ops[i + 1]);
        };
        for (const Place& p : sample(plan, dependent))
            attempt(plan, p.block, tally, text_of(plan, plan.blocks[at(p.block)], p.op) + " and the next",
                    [&](Plan& broken) { swap_ops(broken, p.block, p.op); });
    });
}

TEST(VerifyMutation, MissesNoDroppedAction) {
    for_every_example([](Plan& plan, Tally& tally) {
        for (std::size_t s = 0; s < plan.programs.size(); ++s)
            for (std::int32_t i = 0; i < static_cast<std::int32_t>(plan.programs[s].actions.size()); ++i) {
                const Action& a = plan.programs[s].actions[at(i)];
                if (a.first == a.last) continue; // of an empty block: nothing is lost
                attempt(plan, a.block, tally,
                        "stage " + std::to_string(s) + " action " + std::to_string(i) + " " + plan.blocks[at(a.block)].name,
                        [&](Plan& p) { drop_action(p, s, i); });
            }
    });
}

TEST(VerifyMutation, MissesNoSwappedActions) {
    for_every_example([](Plan& plan, Tally& tally) {
        for (std::size_t s = 0; s < plan.programs.size(); ++s)
            for (std::int32_t i = 0; i + 1 < static_cast<std::int32_t>(plan.programs[s].actions.size()); ++i) {
                const auto& actions = plan.programs[s].actions;
                if (!depend(plan, actions[at(i)], actions[at(i) + 1])) continue;
                attempt(plan, actions[at(i)].block, tally,
                        "stage " + std::to_string(s) + " action " + std::to_string(i) + " " + plan.blocks[at(actions[at(i)].block)].name +
                            " and the next",
                        [&](Plan& p) { swap_actions(p, s, i); });
            }
    });
}

// New weights that come back from the host lie in the tensors that the backward pass still reads, whichever of the bucket's these are: with
// the copy's wait for the last of them taken away, nothing orders the two.
TEST(VerifyMutation, AShardInPlaceIsAPartOfEveryTensorOfItsBucket) {
    Plan plan = plan_of({"strategy.data_parallel=2", "cluster.devices_per_node=2", "strategy.zero_stage=1", "strategy.framework=deepspeed",
                         "training.precision=bf16", "training.master_weights=false", "training.moment_dtype=fp32",
                         "strategy.offload.optimizer=cpu", "strategy.offload.delayed_update=true"});
    ASSERT_EQ(to_text(verify(plan)), "");
    Tally tally;
    for (std::int32_t b = 0; b < static_cast<std::int32_t>(plan.blocks.size()); ++b)
        for (std::int32_t i = 0; i < static_cast<std::int32_t>(plan.blocks[b].ops.size()); ++i) {
            const Op& op = plan.blocks[b].ops[i];
            if (op.queue != h2d_queue || op.out.empty() || plan.buffers[op.out[0]].role != Role::parameter_shard) continue;
            attempt(plan, b, tally, text_of(plan, plan.blocks[b], i), [&](Plan& broken) { // it waits for the step's begin and update alone
                Program& program = broken.programs[0];
                for (const Action& a : program.actions)
                    for (std::int32_t d = a.deps_begin; a.block == b && d < a.deps_end; ++d)
                        if (ActionDep& dep = program.deps[at(d)]; dep.op == i && dep.on_action > 1) dep.on_action = 0, dep.on_op = 0;
            });
        }
    EXPECT_GT(tally.made, 0);
    EXPECT_EQ(tally.missed, 0) << tally.first;
}

} // namespace
} // namespace orrery::test
