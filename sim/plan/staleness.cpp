#include "sim/plan/staleness.hpp"

#include "sim/plan/weight_ages.hpp"

#include <algorithm>

namespace orrery {
namespace {

bool updates(const Block& block) {
    return block.kind == BlockKind::optimizer && std::any_of(block.ops.begin(), block.ops.end(), [](const Op& op) {
               const auto* step = std::get_if<OptimizerStep>(&op.work);
               return step && (step->part == OptimizerStep::Part::whole || step->part == OptimizerStep::Part::apply);
           });
}

// Calls f(microbatch, updates that its weights lack) for each gradient, as an update takes it.
template <class F> void each_gradient(const Plan& plan, const Program& program, F&& f) {
    std::vector<std::int64_t> read(static_cast<std::size_t>(plan.microbatches), -1); // by microbatch: updates its weights had seen
    std::vector<std::int64_t> written{0};                                            // by version: updates it has seen
    std::vector<std::int32_t> waiting;                                               // microbatches since the last update
    std::int64_t done = 0;
    for (const Action& a : program.actions) {
        const Block& block = plan.blocks[a.block];
        const std::int32_t m = a.microbatch[0];
        const auto version = static_cast<std::size_t>(block.version);
        if (version >= written.size()) written.resize(version + 1, 0);
        if (block.kind == BlockKind::forward && a.first == 0 && m >= 0) read[m] = written[version];
        if (block.kind == BlockKind::backward && a.first == 0 && m >= 0) waiting.push_back(m);
        if (!updates(block)) continue;
        for (std::int32_t m_waiting : waiting) f(m_waiting, done - read[m_waiting]);
        waiting.clear();
        written[version] = ++done;
    }
}

StageStaleness of_stage(const Plan& plan, const Program& program) {
    StageStaleness s;
    std::int64_t count = 0, sum = 0;
    each_gradient(plan, program, [&](std::int32_t, std::int64_t age) {
        s.worst = std::max(s.worst, age);
        sum += age;
        ++count;
    });
    s.mean = count > 0 ? static_cast<double>(sum) / static_cast<double>(count) : 0;
    for (const Buffer& b : plan.buffers)
        if (b.stage == program.stage && b.role == Role::parameter) s.versions = std::max(s.versions, b.version + 1);
    return s;
}

// The weights of a step have seen all updates but that with the gradients of the step before, which runs beside it.
bool is_delayed(const Plan& plan, const Program& program) {
    return std::any_of(plan.blocks.begin(), plan.blocks.end(), [&](const Block& block) {
        return block.stage == program.stage && std::any_of(block.ops.begin(), block.ops.end(), [](const Op& op) {
                   const auto* step = std::get_if<OptimizerStep>(&op.work);
                   return step && step->delayed;
               });
    });
}

bool trains(const Plan& plan, const Program& program) {
    return std::any_of(plan.buffers.begin(), plan.buffers.end(), [&](const Buffer& b) {
        return b.stage == program.stage && b.role == Role::parameter && plan.tensors[b.tensor].trained;
    });
}

} // namespace

std::vector<std::int64_t> weight_ages(const Plan& plan, const Program& program) {
    const auto microbatches = static_cast<std::size_t>(plan.microbatches);
    if (plan.steps <= 1) return is_delayed(plan, program) ? std::vector<std::int64_t>(microbatches, 1) : std::vector<std::int64_t>{};
    std::vector<std::int64_t> ages(microbatches, -1);
    each_gradient(plan, program, [&](std::int32_t m, std::int64_t age) { ages[static_cast<std::size_t>(m)] = age; });
    const bool fresh = std::all_of(ages.begin(), ages.end(), [](std::int64_t age) { return age <= 0; });
    return fresh ? std::vector<std::int64_t>{} : ages;
}

Staleness staleness(const Plan& plan) {
    Staleness all;
    double trained = 0; // stages
    for (const Program& program : plan.programs) {
        const StageStaleness s = plan.steps > 1              ? of_stage(plan, program)
                                 : is_delayed(plan, program) ? StageStaleness{1, 1, 2}
                                                             : StageStaleness{};
        all.worst = std::max(all.worst, s.worst);
        all.versions = std::max(all.versions, s.versions);
        if (trains(plan, program)) {
            all.mean += s.mean;
            ++trained;
        }
        all.stages.push_back(s);
    }
    if (trained > 0) all.mean /= trained;
    return all;
}

} // namespace orrery
