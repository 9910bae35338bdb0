// Programs: the draft's steps and transfers as actions of each pipeline rank, with the gathers, releases and reductions of data parallelism
// woven in and the optimizer at the end.
//
// After it: every program is one step's whole list of actions, in issue order; bind() then adds the dependencies.
#include "sim/plan/passes/optimizer.hpp"
#include "sim/plan/passes/overlap.hpp"
#include "sim/plan/passes/passes.hpp"
#include "sim/plan/passes/weaver.hpp"

#include <algorithm>
#include <fmt/format.h>

namespace orrery {

void Weaver::add_parts(std::vector<Part>& parts, std::size_t index, std::uint8_t port) const {
    const ScheduleStep& s = steps[index].step;
    const ChunkBlocks& ends = l.chunks[static_cast<std::size_t>(s.chunk)];
    if (s.kind == StepKind::forward)
        parts.push_back({s.kind, index, ends.forward, port});
    else if (s.kind == StepKind::weight)
        parts.push_back({s.kind, index, ends.weight, port});
    else if (s.kind == StepKind::input || ends.weight < 0)
        parts.push_back({s.kind, index, ends.backward, port});
    else {
        parts.push_back({StepKind::input, index, ends.backward, port});
        parts.push_back({StepKind::weight, index, ends.weight, port});
    }
}

std::size_t Weaver::compute(std::size_t index) {
    const std::size_t count = steps[index].step.joined ? 2 : 1;
    std::vector<Part> parts;
    for (std::size_t i = 0; i < count; ++i) {
        gather_received(steps[index + i].step);
        add_parts(parts, index + i, static_cast<std::uint8_t>(i));
    }
    const bool between = std::any_of(parts.begin(), parts.end(), [&](const Part& p) { return woven(p).any(); });
    if (parts.size() > 1 && (count > 1 || !between))
        run_together(parts);
    else
        for (const Part& p : parts) run_part(p);
    return count;
}

void Weaver::push_joined(const std::vector<Part>& parts) {
    std::string key;
    std::vector<BlockPart> blocks;
    std::array<std::int32_t, max_ports> mb{-1, -1, -1, -1};
    for (const Part& p : parts) {
        key += fmt::format(" {}", p.block);
        blocks.push_back({p.block, p.port});
        mb[p.port] = steps[p.index].step.microbatch;
    }
    auto [it, fresh] = overlapped_blocks.try_emplace(key, -1);
    if (fresh) it->second = make_overlapped_block(l, blocks);
    push_block(it->second);
    program.actions.back().microbatch = mb;
}

void Weaver::exchange(const ProgramStep& step) {
    const bool blocking = !l.scenario.strategy.overlap.pipeline;
    std::string key = fmt::format("s{}", stage);
    for (const TransferStep& t : step.transfers) key += fmt::format(" {}{}{}", t.send ? "send" : "recv", t.gradient ? "B" : "F", t.chunk);
    auto [it, fresh] = exchange_blocks.try_emplace(key);
    if (fresh) it->second = make_exchange_block(l, stage, step.transfers, blocking);
    std::array<std::int32_t, max_ports> mb{-1, -1, -1, -1};
    for (std::size_t i = 0; i < step.transfers.size(); ++i) mb[i] = step.transfers[i].microbatch;
    push_block(it->second.exchange);
    program.actions.back().microbatch = mb;
    if (it->second.gather >= 0) to_gather.push_back({step.transfers[0], it->second.gather, mb});
}

void Weaver::gather_received(const ScheduleStep& step) {
    std::erase_if(to_gather, [&](const Received& r) {
        const int receiver = r.transfer.gradient ? r.transfer.chunk - 1 : r.transfer.chunk + 1;
        if (step.kind == StepKind::weight || (step.kind != StepKind::forward) != r.transfer.gradient || step.chunk != receiver ||
            step.microbatch != r.transfer.microbatch)
            return false;
        push_block(r.block);
        program.actions.back().microbatch = r.microbatch;
        return true;
    });
}

void Weaver::run() {
    number_steps();
    program.stage = static_cast<std::int16_t>(stage);
    find_buckets();
    if (const std::int32_t begin = make_begin_block(l, dp, stage); !l.plan.blocks[static_cast<std::size_t>(begin)].ops.empty())
        push_block(begin);
    for (std::size_t i = 0; i < steps.size();) {
        if (!steps[i].is_exchange)
            i += compute(i);
        else
            exchange(steps[i++]);
    }
    if (dp.active() && !l.scenario.strategy.overlap.grad_reduce)
        for (int c : chunks_in_model_order())
            for (const Bucket& b : dp.buckets[static_cast<std::size_t>(c)])
                if (b.stage == stage && b.reduce >= 0 && !dp.reduces_each_run(b)) push_block(b.reduce);
    push_block(make_optimizer_block(l, dp, stage));
    if (dp.sharded() && !dp.gathers_in_step) { // parameters of the next step, in the order its forward pass wants them
        for (int c : chunks_in_model_order()) {
            const auto& buckets = dp.buckets[static_cast<std::size_t>(c)];
            for (std::size_t k = buckets.size(); k-- > 0;)
                if (buckets[k].stage == stage && buckets[k].gather >= 0) push_block(buckets[k].gather);
        }
    }
}

void arrange(Lowering& l) {
    std::map<std::string, ExchangeBlocks> exchange_blocks;
    for (int stage = 0; stage < l.plan.stages; ++stage) {
        Weaver w{l, l.data_parallel, stage, l.draft[static_cast<std::size_t>(stage)], {}, exchange_blocks, {}, {}, {}, {}, {}, {}, {}, {}};
        w.run();
        l.explicit_deps.push_back(std::move(w.explicit_deps));
        l.plan.programs.push_back(std::move(w.program));
    }
}

} // namespace orrery
