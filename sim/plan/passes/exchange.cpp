// The exchange pass: the transfers between pipeline stages, as actions of blocks of their own (exchange_order.cpp says where they stand,
// exchange_blocks.cpp what they do).
//
// After it: every step finds its input on its rank. A tensor that arrives in parts is made whole right before the step that uses it.
#include "sim/plan/passes/exchange_blocks.hpp"
#include "sim/plan/passes/passes.hpp"

#include <array>
#include <map>

namespace orrery {
namespace {

// One stage's draft with its transfers.
class Exchanger {
  public:
    Exchanger(Lowering& l, int stage) : l_(l), stage_(stage), draft_(l.drafts[stage]) {}

    // `program`: the same steps with the transfers between them.
    void run(std::vector<ProgramStep> program) {
        std::vector<DraftAction> steps = std::move(draft_.actions);
        draft_.actions.clear();
        auto next = steps.begin();
        for (std::size_t i = 0; i < program.size(); ++i) {
            if (program[i].is_exchange) {
                exchange(std::move(program[i].transfers));
                continue;
            }
            for (const ScheduleStep& step : steps_of(*next)) make_whole(step);
            if (program[i].step.joined) ++i; // both are one action
            draft_.actions.push_back(std::move(*next++));
        }
    }

  private:
    // Received in parts, ahead of the step that uses it.
    struct Received {
        TransferStep transfer;
        DraftAction gather;
    };

    void exchange(std::vector<TransferStep> transfers) {
        const bool blocking = !l_.scenario.strategy.overlap.pipeline;
        Channels key{};
        for (std::size_t i = 0; i < transfers.size(); ++i)
            key[i] = 1 + (transfers[i].send ? 1 : 0) + (transfers[i].gradient ? 2 : 0) + 4 * std::int32_t{transfers[i].chunk};
        auto [it, fresh] = blocks_.try_emplace(key);
        if (fresh) it->second = make_exchange_block(l_, stage_, transfers, blocking);
        DraftAction action = run_of(l_.plan, draft_, it->second.exchange);
        for (std::size_t i = 0; i < transfers.size(); ++i) action.run.microbatch[i] = transfers[i].microbatch;
        if (it->second.gather >= 0) {
            received_.push_back({transfers[0], run_of(l_.plan, draft_, it->second.gather)});
            received_.back().gather.run.microbatch = action.run.microbatch;
        }
        action.transfers = std::move(transfers);
        draft_.actions.push_back(std::move(action));
    }

    void make_whole(const ScheduleStep& step) {
        std::erase_if(received_, [&](Received& r) {
            const int receiver = r.transfer.gradient ? r.transfer.chunk - 1 : r.transfer.chunk + 1;
            if (step.kind == StepKind::weight || (step.kind != StepKind::forward) != r.transfer.gradient || step.chunk != receiver ||
                step.microbatch != r.transfer.microbatch)
                return false;
            draft_.actions.push_back(std::move(r.gather));
            return true;
        });
    }

    Lowering& l_;
    int stage_;
    Draft& draft_;
    using Channels = std::array<std::int32_t, max_ports>; // of the transfers of an exchange; 0: none
    std::map<Channels, ExchangeBlocks> blocks_;
    std::vector<Received> received_;
};

} // namespace

namespace {

// Gradients of what has nothing trained below it are not sent.
void leave_out_unwanted(const Lowering& l, PipelineProgram& program) {
    const auto unwanted = [&](const TransferStep& t) { return t.gradient && l.chunks[t.chunk].input_gradient < 0; };
    for (std::vector<ProgramStep>& steps : program) {
        for (ProgramStep& step : steps) std::erase_if(step.transfers, unwanted);
        std::erase_if(steps, [](const ProgramStep& step) { return step.is_exchange && step.transfers.empty(); });
    }
}

} // namespace

void exchange(Lowering& l) {
    PipelineProgram program = insert_exchanges(steps_of(l.drafts), l.schedule->stage_of, l.plan.stages, static_cast<int>(l.chunks.size()),
                                               l.scenario.strategy.overlap.pipeline, l.schedule->directions);
    leave_out_unwanted(l, program);
    for (int stage = 0; stage < l.plan.stages; ++stage) Exchanger(l, stage).run(std::move(program[stage]));
}

} // namespace orrery
