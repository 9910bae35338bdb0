#include "sim/plan/passes/exchange.hpp"

#include "sim/plan/rendezvous.hpp"

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <map>
#include <optional>
#include <tuple>

namespace orrery {
namespace {

struct Pipeline {
    int (*stage_of)(int, int);
    int stages, chunks;

    // The transfer of what `step` makes to the chunk that needs it, if that lives on another rank. `send` as seen from its maker.
    std::optional<TransferStep> made_by(const ScheduleStep& step) const {
        if (step.kind == StepKind::weight) return std::nullopt;
        const bool gradient = step.kind != StepKind::forward;
        const int to = gradient ? step.chunk - 1 : step.chunk + 1;
        if (to < 0 || to >= chunks) return std::nullopt;
        const int from_stage = stage_of(step.chunk, stages), to_stage = stage_of(to, stages);
        if (from_stage == to_stage) return std::nullopt;
        return TransferStep{std::int16_t(from_stage), std::int16_t(to_stage), gradient, step.chunk, step.microbatch, true};
    }
};

// Where on its rank each value is used: index of the step in the rank's schedule, by (gradient, sending chunk, microbatch).
class Uses {
public:
    Uses(const Schedule& schedule, int chunks) : chunks_(chunks) {
        std::int64_t microbatches = 0;
        for (const auto& steps : schedule.ranks)
            for (const ScheduleStep& step : steps) microbatches = std::max<std::int64_t>(microbatches, step.microbatch + 1);
        for (auto& index : index_) index.assign(static_cast<std::size_t>(microbatches * chunks), -1);
        for (const auto& steps : schedule.ranks)
            for (std::size_t i = 0; i < steps.size(); ++i) {
                const bool gradient = steps[i].kind != StepKind::forward;
                const int sender = gradient ? steps[i].chunk + 1 : steps[i].chunk - 1;
                if (steps[i].kind == StepKind::weight || sender < 0 || sender >= chunks) continue;
                index_[gradient][at(sender, steps[i].microbatch)] = static_cast<std::int64_t>(i);
            }
    }

    std::int64_t of(const TransferStep& transfer) const { return index_[transfer.gradient][at(transfer.chunk, transfer.microbatch)]; }

private:
    std::size_t at(int chunk, int microbatch) const { return std::size_t(microbatch) * chunks_ + chunk; }
    int chunks_;
    std::vector<std::int64_t> index_[2];
};

using Receives = std::vector<std::vector<std::vector<TransferStep>>>; // by rank and step: what is to arrive before it

// A channel delivers in the order of its sends. Where a rank uses a later value first, what precedes it on the channel comes with it:
// hence the least use over all that follow.
Receives place_receives(const Schedule& schedule, const Pipeline& pipeline) {
    std::map<std::tuple<int, int, bool>, std::vector<TransferStep>> channels;
    for (const auto& steps : schedule.ranks)
        for (const ScheduleStep& step : steps)
            if (auto sent = pipeline.made_by(step)) channels[{sent->from_stage, sent->to_stage, sent->gradient}].push_back(*sent);
    const Uses uses(schedule, pipeline.chunks);
    Receives receives(schedule.ranks.size());
    for (std::size_t rank = 0; rank < schedule.ranks.size(); ++rank) receives[rank].resize(schedule.ranks[rank].size());
    for (auto& [channel, sent] : channels) {
        std::vector<std::int64_t> place(sent.size());
        std::int64_t least = std::int64_t(schedule.ranks[std::get<1>(channel)].size()) - 1;
        for (std::size_t k = sent.size(); k-- > 0;) place[k] = least = std::min(least, uses.of(sent[k]));
        for (std::size_t k = 0; k < sent.size(); ++k) {
            if (place[k] < 0) continue; // nobody uses it: the rendezvous will name it
            sent[k].send = false;
            receives[sent[k].to_stage][place[k]].push_back(sent[k]);
        }
    }
    return receives;
}

void append_exchange(std::vector<ProgramStep>& program, std::vector<TransferStep> transfers) {
    if (!transfers.empty()) program.push_back({true, {}, std::move(transfers)});
}

std::vector<ProgramStep> blocking(const std::vector<ScheduleStep>& steps, std::vector<std::vector<TransferStep>>& receives,
                                  const Pipeline& pipeline) {
    std::vector<ProgramStep> program;
    program.reserve(2 * steps.size() + 1);
    std::vector<TransferStep> pending; // sends of the step before
    for (std::size_t i = 0; i < steps.size(); ++i) {
        pending.insert(pending.end(), receives[i].begin(), receives[i].end());
        append_exchange(program, std::move(pending));
        pending.clear();
        program.push_back({false, steps[i], {}});
        if (auto sent = pipeline.made_by(steps[i])) pending.push_back(*sent);
    }
    append_exchange(program, std::move(pending));
    return program;
}

std::vector<ProgramStep> overlapped(const std::vector<ScheduleStep>& steps, const std::vector<std::vector<TransferStep>>& receives,
                                    const Pipeline& pipeline) {
    std::vector<ProgramStep> program;
    program.reserve(3 * steps.size() + 1);
    const auto post = [&](std::size_t i) {
        if (i < steps.size())
            for (const TransferStep& receive : receives[i]) append_exchange(program, {receive});
    };
    post(0);
    for (std::size_t i = 0; i < steps.size(); ++i) {
        post(i + 1);
        program.push_back({false, steps[i], {}});
        if (auto sent = pipeline.made_by(steps[i])) append_exchange(program, {*sent});
    }
    return program;
}

} // namespace

PipelineProgram insert_exchanges(const Schedule& schedule, int (*stage_of)(int, int), int stages, int chunks, bool overlap) {
    const Pipeline pipeline{stage_of, stages, chunks};
    Receives receives = place_receives(schedule, pipeline);
    PipelineProgram program;
    for (std::size_t rank = 0; rank < schedule.ranks.size(); ++rank)
        program.push_back(overlap ? overlapped(schedule.ranks[rank], receives[rank], pipeline)
                                  : blocking(schedule.ranks[rank], receives[rank], pipeline));
    const auto faults = overlap ? rendezvous(program, stage_of, chunks, true) : hoist_receives(program, stage_of, chunks);
    if (!faults.empty()) { // shapes that cannot run are refused by ScheduleInfo::check: whatever comes here is a schedule's bug
        std::fprintf(stderr, "insert_exchanges: the schedule cannot run:\n");
        for (const RendezvousFault& fault : faults) std::fprintf(stderr, "  %s\n", to_text(fault).c_str());
        std::abort();
    }
    return program;
}

std::string to_text(const PipelineProgram& program) {
    static constexpr char letters[] = {'F', 'B', 'I', 'W'};
    bool plain = true;
    for (const auto& steps : program) {
        int chunk = -1;
        for (const ProgramStep& action : steps) {
            if (action.is_exchange) continue;
            plain = plain && (chunk < 0 || chunk == action.step.chunk);
            chunk = action.step.chunk;
        }
    }
    std::string text;
    const auto name = [&](char letter, int chunk, int microbatch) {
        text += letter;
        if (!plain) text += std::to_string(chunk) + ".";
        text += std::to_string(microbatch);
    };
    for (std::size_t rank = 0; rank < program.size(); ++rank) {
        text += std::to_string(rank) + ":";
        for (const ProgramStep& action : program[rank]) {
            text += ' ';
            if (!action.is_exchange) {
                name(letters[static_cast<int>(action.step.kind)], action.step.chunk, action.step.microbatch);
                continue;
            }
            text += '{';
            for (const TransferStep& transfer : action.transfers) {
                if (text.back() != '{') text += ' ';
                name(transfer.gradient ? 'B' : 'F', transfer.chunk, transfer.microbatch);
                text += (transfer.send ? ">" : "<") + std::to_string(transfer.send ? transfer.to_stage : transfer.from_stage);
            }
            text += '}';
        }
        text += '\n';
    }
    return text;
}

} // namespace orrery
