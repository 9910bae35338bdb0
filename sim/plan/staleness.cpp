#include "sim/plan/staleness.hpp"

#include <algorithm>

namespace orrery {
namespace {

bool updates(const Block& block) {
    return block.kind == BlockKind::optimizer && std::any_of(block.ops.begin(), block.ops.end(), [](const Op& op) {
               const auto* step = std::get_if<OptimizerStep>(&op.work);
               return step && (step->part == OptimizerStep::Part::whole || step->part == OptimizerStep::Part::apply);
           });
}

StageStaleness of_stage(const Plan& plan, const Program& program) {
    StageStaleness s;
    std::vector<std::int64_t> read(static_cast<std::size_t>(plan.microbatches), -1); // by microbatch: updates its weights had seen
    std::vector<std::int64_t> written{0};                                            // by version: updates it has seen
    std::vector<std::int64_t> waiting;                                               // microbatches since the last update
    std::int64_t done = 0, count = 0, sum = 0;
    for (const Action& a : program.actions) {
        const Block& block = plan.blocks[a.block];
        const std::int32_t m = a.microbatch[0];
        const auto version = static_cast<std::size_t>(block.version);
        if (version >= written.size()) written.resize(version + 1, 0);
        if (block.kind == BlockKind::forward && a.first == 0 && m >= 0) read[m] = written[version];
        if (block.kind == BlockKind::backward && a.first == 0 && m >= 0) waiting.push_back(read[m]);
        if (!updates(block)) continue;
        for (std::int64_t seen : waiting) {
            s.worst = std::max(s.worst, done - seen);
            sum += done - seen;
            ++count;
        }
        waiting.clear();
        written[version] = ++done;
    }
    s.mean = count > 0 ? static_cast<double>(sum) / static_cast<double>(count) : 0;
    for (const Buffer& b : plan.buffers)
        if (b.stage == program.stage && b.role == Role::parameter) s.versions = std::max(s.versions, b.version + 1);
    return s;
}

// The weights of a step have seen all updates but that with the gradients of the step before, which runs beside it.
StageStaleness of_delayed(const Plan& plan, const Program& program) {
    const bool delayed = std::any_of(plan.blocks.begin(), plan.blocks.end(), [&](const Block& block) {
        return block.stage == program.stage && std::any_of(block.ops.begin(), block.ops.end(), [](const Op& op) {
                   const auto* step = std::get_if<OptimizerStep>(&op.work);
                   return step && step->delayed;
               });
    });
    return delayed ? StageStaleness{1, 1, 2} : StageStaleness{};
}

} // namespace

Staleness staleness(const Plan& plan) {
    Staleness all;
    for (const Program& program : plan.programs) {
        const StageStaleness s = plan.steps > 1 ? of_stage(plan, program) : of_delayed(plan, program);
        all.worst = std::max(all.worst, s.worst);
        all.versions = std::max(all.versions, s.versions);
        all.mean += s.mean / static_cast<double>(plan.programs.size());
        all.stages.push_back(s);
    }
    return all;
}

} // namespace orrery
