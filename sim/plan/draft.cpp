#include "sim/plan/draft.hpp"

#include <algorithm>
#include <fmt/format.h>

namespace orrery {
namespace {

std::string step_text(const ScheduleStep& step, const std::string& ops) {
    static constexpr char letters[] = {'F', 'B', 'I', 'W'};
    return fmt::format("{}{}{}.{}", letters[static_cast<int>(step.kind)], step.chunk, ops, step.microbatch);
}

std::string transfer_text(const TransferStep& t) {
    return fmt::format("{}{}.{}{}{}", t.gradient ? 'B' : 'F', t.chunk, t.microbatch, t.send ? '>' : '<',
                       t.send ? t.to_stage : t.from_stage);
}

std::string action_text(const Plan& plan, const DraftAction& action) {
    std::string ops;
    if (action.run.block >= 0) {
        const Block& block = plan.blocks[action.run.block];
        if (action.run.first != 0 || action.run.last != static_cast<std::int32_t>(block.ops.size()))
            ops = fmt::format("[{}-{})", action.run.first, action.run.last);
        if (action.parts.empty() && action.transfers.empty()) {
            std::vector<std::int32_t> microbatches;
            for (std::int32_t m : action.run.microbatch)
                if (m >= 0) microbatches.push_back(m);
            return fmt::format("{}{}{}{}", block.name, ops, microbatches.empty() ? "" : ".", fmt::join(microbatches, ","));
        }
    }
    std::vector<std::string> names;
    for (const TransferStep& t : action.transfers) names.push_back(transfer_text(t));
    if (!names.empty()) return fmt::format("{{{}}}", fmt::join(names, " "));
    for (const ScheduleStep& s : steps_of(action)) names.push_back(step_text(s, ops));
    return names.size() > 1 ? fmt::format("({})", fmt::join(names, ";")) : names.front();
}

} // namespace

DraftAction run_of(const Plan& plan, Draft& draft, std::int32_t block) {
    DraftAction action;
    action.id = draft.ids++;
    action.run.block = block;
    action.run.last = static_cast<std::int32_t>(plan.blocks[block].ops.size());
    return action;
}

std::vector<ScheduleStep> steps_of(const DraftAction& action) {
    std::vector<ScheduleStep> steps;
    for (std::size_t i = 0; i < action.parts.size(); ++i) {
        const DraftPart& part = action.parts[i];
        if (i > 0 && part.port == action.parts[i - 1].port)
            steps.back().kind = StepKind::backward;
        else
            steps.push_back(part.step);
    }
    return steps;
}

Schedule steps_of(const std::vector<Draft>& drafts) {
    Schedule schedule;
    for (const Draft& draft : drafts) {
        auto& steps = schedule.ranks.emplace_back();
        for (const DraftAction& action : draft.actions)
            for (const ScheduleStep& step : steps_of(action)) steps.push_back(step);
    }
    return schedule;
}

std::int32_t first_timed_op(const Block& block, std::int32_t first, std::int32_t last) {
    for (std::int32_t i = first; i < last; ++i)
        if (!is_memory_op(block.ops[i].work)) return i;
    return -1;
}

std::int32_t first_op_of_computation(const Block& block, std::int32_t first, std::int32_t last) {
    const auto belongs = [](const Op& op) { return op.queue == compute_queue || op.queue >= first_comm_queue; };
    for (std::int32_t i = first; i < last; ++i)
        if (!is_memory_op(block.ops[i].work) && belongs(block.ops[i])) return i;
    return -1;
}

std::int32_t last_timed_op(const Block& block, std::int32_t first, std::int32_t last) {
    for (std::int32_t i = last; i-- > first;)
        if (!is_memory_op(block.ops[i].work)) return i;
    return -1;
}

std::string to_text(const Plan& plan, const std::vector<Draft>& drafts) {
    std::string text;
    for (std::size_t rank = 0; rank < drafts.size(); ++rank) {
        text += fmt::format("{}:", rank);
        for (const DraftAction& action : drafts[rank].actions) text += " " + action_text(plan, action);
        text += "\n";
    }
    return text;
}

} // namespace orrery
