// Is a plan that lacks an op, or has two in the wrong order, ever called good? Every op and action of every example is dropped once, and
// neighbours that depend on each other change places.
#include "tests/unit/plan/mutations.hpp"
#include "tests/unit/plan/plans.hpp"

#include <functional>

namespace orrery::test {
namespace {

std::size_t at(std::int64_t i) { return static_cast<std::size_t>(i); }

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

TEST(VerifyMutation, MissesNoDroppedOp) {
    for_every_example([](Plan& plan, Tally& tally) {
        const auto used = used_blocks(plan);
        for (std::int32_t b = 0; b < static_cast<std::int32_t>(plan.blocks.size()); ++b)
            for (std::int32_t i = 0; used[at(b)] && i < static_cast<std::int32_t>(plan.blocks[at(b)].ops.size()); ++i)
                attempt(plan, b, tally, text_of(plan, plan.blocks[at(b)], i), [&](Plan& p) { drop_op(p, b, i); });
    });
}

TEST(VerifyMutation, MissesNoSwappedOps) {
    for_every_example([](Plan& plan, Tally& tally) {
        const auto used = used_blocks(plan);
        for (std::int32_t b = 0; b < static_cast<std::int32_t>(plan.blocks.size()); ++b)
            for (std::int32_t i = 0; used[at(b)] && i + 1 < static_cast<std::int32_t>(plan.blocks[at(b)].ops.size()); ++i) {
                const auto& ops = plan.blocks[at(b)].ops;
                if (!depend(plan, ops[at(i)], ops[at(i) + 1])) continue;
                attempt(plan, b, tally, text_of(plan, plan.blocks[at(b)], i) + " and the next", [&](Plan& p) { swap_ops(p, b, i); });
            }
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

} // namespace
} // namespace orrery::test
