// Recomputation belongs to the backward pass: no stage begins it before the gradient is there, as autograd is called with it.
#include "sim/engine/compile.hpp"
#include "tests/laws/scenarios.hpp"

#include <algorithm>

namespace orrery::laws {
namespace {

TEST(RecomputeLaws, WaitsForTheGradient) {
    for (const char* schedule : {"1f1b", "interleaved-1f1b", "zb-h1"}) {
        Gpt gpt;
        gpt.layers = 8;
        gpt.pp = 4;
        gpt.vp = std::string(schedule) == "interleaved-1f1b" ? 2 : 1;
        gpt.microbatches = 8;
        gpt.tied = false;
        gpt.recompute = "full";
        gpt.schedule = schedule;
        gpt.extra_strategy = R"(, "overlap": {"pipeline": true})";
        const Plan plan = lower(gpt.make());
        int waits = 0;
        for (const Program& program : plan.programs)
            for (std::int32_t i = 0; i < static_cast<std::int32_t>(program.actions.size()); ++i) {
                const Action& a = program.actions[i];
                const Block& block = plan.blocks[a.block];
                if (block.kind != BlockKind::backward || a.first > 0) continue;
                std::int32_t first = -1;
                for (std::int32_t op = a.first; op < a.last && first < 0; ++op)
                    if (block.ops[op].queue == compute_queue) first = op;
                for (std::int32_t d = a.deps_begin; d < a.deps_end; ++d) {
                    const ActionDep& dep = program.deps[static_cast<std::size_t>(d)];
                    const std::int32_t on =
                        dep.on_action < 0 ? dep.on_action + static_cast<std::int32_t>(program.actions.size()) : dep.on_action;
                    if (plan.blocks[program.actions[on].block].kind != BlockKind::exchange || block.ops[dep.op].queue != compute_queue)
                        continue;
                    EXPECT_EQ(dep.op, first) << schedule << ", stage " << program.stage << ", action " << i;
                    EXPECT_EQ(block.ops[dep.op].phase, Phase::recompute) << schedule;
                    ++waits;
                }
            }
        EXPECT_GE(waits, 3 * 8 / 2) << schedule; // of three stages and eight microbatches; one wait may imply the next
    }
}

} // namespace
} // namespace orrery::laws
