// Programs: the schedule's steps and exchanges as actions of each pipeline rank, with the data-parallel blocks woven in and the
// optimizer at the end.
//
// After it: every program is one step's whole list of actions, in issue order; bind() then adds the dependencies.
#include "sim/plan/passes/optimizer.hpp"
#include "sim/plan/passes/overlap.hpp"
#include "sim/plan/passes/passes.hpp"
#include "sim/plan/passes/weaver.hpp"

#include <algorithm>
#include <cmath>
#include <fmt/format.h>
#include <initializer_list>
#include <set>

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

namespace {

double block_flops(const Plan& plan, std::int32_t block) {
    double sum = 0;
    if (block >= 0)
        for (const Op& op : plan.blocks[static_cast<std::size_t>(block)].ops) sum += flops(op.work).count;
    return sum;
}

// Bytes of a microbatch's own buffers that the blocks `from` write and the blocks `to` read: what is held in between.
double bytes_kept(const Plan& plan, std::initializer_list<std::int32_t> from, std::initializer_list<std::int32_t> to) {
    const auto buffer = [&](BufferId b) -> const Buffer& { return plan.buffers[static_cast<std::size_t>(b)]; };
    std::set<BufferId> written, kept;
    for (std::int32_t block : from)
        for (const Op& op : plan.blocks[static_cast<std::size_t>(block)].ops)
            for (BufferId b : op.out)
                if (buffer(b).scope == Scope::microbatch) written.insert(storage(plan, b));
    for (std::int32_t block : to)
        for (const Op& op : plan.blocks[static_cast<std::size_t>(block)].ops)
            for (BufferId b : op.in)
                if (written.contains(storage(plan, b))) kept.insert(storage(plan, b));
    double bytes = 0;
    for (BufferId b : kept) bytes += static_cast<double>(buffer(b).bytes.count);
    return bytes;
}

// What a microbatch still holds when only its weight step is left, of all that its forward step leaves behind: in sixteenths, rounded up.
double share_owed(const Plan& plan, const ChunkBlocks& chunk) {
    if (chunk.weight < 0) return 1;
    const double whole = bytes_kept(plan, {chunk.forward}, {chunk.backward, chunk.weight});
    const double owed = bytes_kept(plan, {chunk.forward, chunk.backward}, {chunk.weight});
    return whole > 0 ? std::clamp(std::ceil(16 * owed / whole) / 16, 1.0 / 16, 1.0) : 1;
}

// Schedules that plan with times get them from the middle chunk's FLOPs, and a transfer's from the NIC: rough, as the real
// planner's profile would be better, but the same for every cost model, so that the plan does not depend on it.
void set_relative_times(const Lowering& l, ScheduleShape& shape) {
    if (!l.schedule->splits_backward) return;
    const ChunkBlocks& middle = l.chunks[l.chunks.size() / 2];
    const double forward = block_flops(l.plan, middle.forward);
    if (forward <= 0) return;
    shape.owed = share_owed(l.plan, middle);
    // In eighths of a forward step: finer differences would only make orders that alike chunks do not share.
    shape.input = std::max(1.0, std::round(8 * block_flops(l.plan, middle.backward) / forward)) / 8;
    shape.weight = std::max(1.0, std::round(8 * block_flops(l.plan, middle.weight) / forward)) / 8;
    const Cluster& cluster = l.scenario.cluster;
    const auto peak = cluster.device.peak.find(name(activation_dtype(l.scenario)));
    const double rate =
        cluster.nodes > 1 && cluster.inter.nic_bandwidth.value > 0 ? cluster.inter.nic_bandwidth.value : cluster.intra.bandwidth.value;
    if (peak == cluster.device.peak.end() || peak->second.value <= 0 || rate <= 0 || middle.input < 0) return;
    constexpr double usual_efficiency = 0.5; // of the peak: what dense training reaches
    const double seconds = forward / (usual_efficiency * peak->second.value);
    const double transfer = static_cast<double>(l.plan.buffers[static_cast<std::size_t>(middle.input)].bytes.count) / rate;
    shape.communication = std::floor(16 * transfer / seconds) / 16;
}

} // namespace

void arrange(Lowering& l) {
    const ScheduleInfo& info = *l.schedule;
    ScheduleShape shape;
    shape.stages = l.plan.stages;
    shape.chunks_per_stage = l.scenario.strategy.virtual_pipeline;
    shape.microbatches = l.plan.microbatches;
    shape.post_validation = l.scenario.strategy.post_validation;
    const Strategy& st = l.scenario.strategy;
    shape.join = st.overlap.expert_parallel && (st.expert_parallel > 1 || info.joins_without_experts);
    set_relative_times(l, shape);
    const Schedule schedule = info.make(shape);
    const auto steps = insert_exchanges(schedule, info.stage_of, l.plan.stages, static_cast<int>(l.chunks.size()),
                                        l.scenario.strategy.overlap.pipeline, info.directions);
    const DataParallel dp = data_parallel(l);
    std::map<std::string, ExchangeBlocks> exchange_blocks;
    for (int stage = 0; stage < l.plan.stages; ++stage) {
        Weaver w{l, dp, stage, steps[static_cast<std::size_t>(stage)], {}, exchange_blocks, {}, {}, {}, {}, {}, {}, {}, {}};
        w.run();
        l.explicit_deps.push_back(std::move(w.explicit_deps));
        l.plan.programs.push_back(std::move(w.program));
    }
}

} // namespace orrery
