// Programs: the schedule's steps and exchanges as actions of each pipeline rank, with the data-parallel blocks woven in and the
// optimizer at the end.
//
// After it: every program is one step's whole list of actions, in issue order; bind() then adds the dependencies.
#include "sim/plan/passes/data_parallel.hpp"
#include "sim/plan/passes/exchange.hpp"
#include "sim/plan/passes/exchange_blocks.hpp"
#include "sim/plan/passes/optimizer.hpp"
#include "sim/plan/passes/overlap.hpp"
#include "sim/plan/passes/passes.hpp"

#include <algorithm>
#include <cmath>
#include <fmt/format.h>

namespace orrery {
namespace {

// One stage's program as it grows.
struct Weaver {
    Lowering& l;
    const DataParallel& dp;
    int stage;
    const std::vector<ProgramStep>& steps;
    Program program;
    std::map<std::string, ExchangeBlocks>& exchange_blocks;

    std::int32_t push(std::int32_t block, std::int32_t first, std::int32_t last, std::array<std::int32_t, max_ports> mb) {
        Action a;
        a.block = block;
        a.first = first;
        a.last = last;
        a.microbatch = mb;
        program.actions.push_back(a);
        return static_cast<std::int32_t>(program.actions.size()) - 1;
    }
    std::int32_t push_block(std::int32_t block) {
        return push(block, 0, static_cast<std::int32_t>(l.plan.blocks[static_cast<std::size_t>(block)].ops.size()), {-1, -1, -1, -1});
    }
    std::vector<ExplicitDep> explicit_deps;
    // `op` of `action` waits for the last timed op of an earlier action.
    void wait_for_action(std::int32_t action, std::int32_t op, std::int32_t on) {
        const Action& a = program.actions[static_cast<std::size_t>(on)];
        const Block& b = l.plan.blocks[static_cast<std::size_t>(a.block)];
        for (std::int32_t i = a.last; i-- > a.first;)
            if (!is_memory_op(b.ops[static_cast<std::size_t>(i)].work)) { explicit_deps.push_back({action, {op, on, i}}); return; }
    }

    std::int32_t first_timed_op(std::int32_t block) const {
        const Block& b = l.plan.blocks[static_cast<std::size_t>(block)];
        for (std::size_t i = 0; i < b.ops.size(); ++i)
            if (!is_memory_op(b.ops[i].work)) return static_cast<std::int32_t>(i);
        return 0;
    }

    std::int32_t first_timed_op(std::int32_t block, std::int32_t first, std::int32_t last) const {
        const Block& b = l.plan.blocks[static_cast<std::size_t>(block)];
        for (std::int32_t i = first; i < last; ++i)
            if (!is_memory_op(b.ops[static_cast<std::size_t>(i)].work)) return i;
        return -1;
    }

    // Received in parts, ahead of the step that uses it: made whole right before that.
    struct Received { TransferStep transfer; std::int32_t block; std::array<std::int32_t, max_ports> microbatch; };
    std::vector<Received> to_gather;
    void gather_received(const ScheduleStep& step);

    void exchange(const ProgramStep& step);
    void run();

    // A compute step as blocks: one, or the two halves of a backward step where blocks are split. Joined steps are on ports of their own.
    struct Part { StepKind kind; std::size_t index; std::int32_t block; std::uint8_t port; };
    void add_parts(std::vector<Part>& parts, std::size_t index, std::uint8_t port) const;
    std::size_t compute(std::size_t index);      // the number of steps it has run
    void run_part(const Part& part);
    void run_together(const std::vector<Part>& parts);
    std::map<std::string, std::int32_t> overlapped_blocks;

    // Which data-parallel blocks stand before, in or behind a part.
    struct Woven {
        bool reduce_run = false, reduce_step = false;   // reduces buckets each run; those of a whole step
        bool gather = false, release = false, acquire = false;
        bool any() const { return reduce_run || reduce_step || gather || release || acquire; }
    };
    Woven woven(const Part& part) const;

    // The stages that share a communicator for the copies of a chunk come to its collectives in this order.
    std::vector<int> chunks_in_model_order() const {
        std::vector<int> order;
        const int length = static_cast<int>(l.chunks.size()) / l.plan.directions;
        for (int c = 0; c < length; ++c)
            for (int direction = 0; direction < l.plan.directions; ++direction) order.push_back(direction * length + c);
        return order;
    }

    // Where a part stands in its run: consecutive steps of its kind on its chunk, at most `stages` long, of one where a rank has one
    // chunk. Data-parallel blocks that repeat within a step do so once a run.
    struct RunPosition { bool starts, ends, last_of_chunk; };
    RunPosition run_position(const Part& part) const;
    // Of each compute step among those of its chunk: forwards, or steps that begin a backward; and steps that end one.
    std::vector<std::size_t> position, completed;
    void number_steps();

    // How many runs use a bucket's gathered weights now, and how many will still add to its gradients: runs of different chunks and
    // directions overlap, and tied embeddings belong to a bucket of one chunk and are used by another.
    struct Use { int weights = 0, gradients = 0; };
    std::map<const Bucket*, Use> uses;
    std::map<BufferId, const Bucket*> bucket_of_buffer;   // of parameters and gradients
    void find_buckets();

    // Pieces of a block, one a unit, in its own order (backward blocks run their units last to first), and the buckets each touches.
    struct Piece { std::int32_t first, last; int unit; std::vector<const Bucket*> buckets; };
    std::map<std::int32_t, std::vector<Piece>> pieces_of_block;
    const std::vector<Piece>& pieces_of(std::int32_t block, int chunk);
};

Weaver::RunPosition Weaver::run_position(const Part& part) const {
    const std::int64_t microbatches = l.plan.microbatches / l.plan.directions;
    const std::int64_t limit = l.plan.chunks_per_stage > 1 ? std::min<std::int64_t>(l.plan.stages, microbatches) : 1;
    const std::int64_t k = static_cast<std::int64_t>((part.kind == StepKind::weight ? completed : position)[part.index]);
    const bool last = k + 1 == microbatches;
    return {k % limit == 0, last || (k + 1) % limit == 0, last};
}

void Weaver::number_steps() {
    std::map<std::pair<int, int>, std::size_t> counts;
    position.assign(steps.size(), 0);
    completed.assign(steps.size(), 0);
    for (std::size_t i = 0; i < steps.size(); ++i) {
        if (steps[i].is_exchange) continue;
        const ScheduleStep& s = steps[i].step;
        if (s.kind != StepKind::weight) position[i] = counts[{s.kind == StepKind::forward ? 0 : 1, s.chunk}]++;
        if (s.kind == StepKind::weight || s.kind == StepKind::backward) completed[i] = counts[{2, s.chunk}]++;
    }
}

Weaver::Woven Weaver::woven(const Part& part) const {
    const RunPosition at = run_position(part);
    const bool forward = part.kind == StepKind::forward, completes = part.kind == StepKind::weight || part.kind == StepKind::backward;
    const bool begins_backward = part.kind == StepKind::input || part.kind == StepKind::backward;
    Woven w;
    w.reduce_run = completes && dp.reduces_each_run() && at.ends;
    w.reduce_step = completes && dp.active() && at.last_of_chunk && l.scenario.strategy.overlap.grad_reduce;
    w.gather = dp.gathers_in_step && at.starts && (forward || (!dp.keeps_until_backward && begins_backward));
    w.release = dp.gathers_in_step && at.ends && (forward ? !dp.keeps_until_backward : begins_backward);
    w.acquire = dp.reduces_each_run() && begins_backward && at.starts;
    return w;
}

void Weaver::add_parts(std::vector<Part>& parts, std::size_t index, std::uint8_t port) const {
    const ScheduleStep& s = steps[index].step;
    const ChunkBlocks& ends = l.chunks[static_cast<std::size_t>(s.chunk)];
    if (s.kind == StepKind::forward) parts.push_back({s.kind, index, ends.forward, port});
    else if (s.kind == StepKind::weight) parts.push_back({s.kind, index, ends.weight, port});
    else if (s.kind == StepKind::input || ends.weight < 0) parts.push_back({s.kind, index, ends.backward, port});
    else {
        parts.push_back({StepKind::input, index, ends.backward, port});
        parts.push_back({StepKind::weight, index, ends.weight, port});
    }
}

// Parts that data-parallel blocks stand between run one after the other: once a step, or once a run.
std::size_t Weaver::compute(std::size_t index) {
    const std::size_t count = steps[index].step.joined ? 2 : 1;
    std::vector<Part> parts;
    for (std::size_t i = 0; i < count; ++i) {
        gather_received(steps[index + i].step);
        add_parts(parts, index + i, static_cast<std::uint8_t>(i));
    }
    const bool apart = std::any_of(parts.begin(), parts.end(), [&](const Part& p) { return woven(p).any(); });
    if (parts.size() > 1 && !apart) run_together(parts);
    else
        for (const Part& p : parts) run_part(p);
    return count;
}

void Weaver::run_together(const std::vector<Part>& parts) {
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
        if (step.kind == StepKind::weight || (step.kind != StepKind::forward) != r.transfer.gradient || step.chunk != receiver || step.microbatch != r.transfer.microbatch) return false;
        push_block(r.block);
        program.actions.back().microbatch = r.microbatch;
        return true;
    });
}

void Weaver::run_part(const Part& part) {
    const ScheduleStep& step = steps[part.index].step;
    const std::int32_t id = part.block;
    const std::array<std::int32_t, max_ports> mb{step.microbatch, -1, -1, -1};
    const std::int32_t size = static_cast<std::int32_t>(l.plan.blocks[static_cast<std::size_t>(id)].ops.size());
    const auto& buckets = dp.buckets[static_cast<std::size_t>(step.chunk)];
    const bool forward = part.kind == StepKind::forward;
    const auto [reduce_run, reduce_step, gather_now, release_now, acquire_now] = woven(part);
    const bool reduce_now = reduce_run || reduce_step;
    const bool whole_root = l.plan.stages == 1;   // FSDP's root unit (embedding and head) stays gathered through forward and backward

    if (!woven(part).any()) {
        push(id, 0, size, mb);
        return;
    }
    const std::vector<Piece>& pieces = pieces_of(id, step.chunk);
    const Graph& g = l.graphs[static_cast<std::size_t>(step.chunk)];
    const auto root = [&](int unit) { return whole_root && (g.unit_names[static_cast<std::size_t>(unit)] == "embedding" || g.unit_names[static_cast<std::size_t>(unit)] == "head"); };
    // Gathered in the forward pass and kept until the backward pass is through.
    const auto kept = [&](const Bucket& b) { return dp.keeps_until_backward || std::any_of(b.units.begin(), b.units.end(), [&](int u) { return b.chunk == step.chunk && root(u); }); };
    std::vector<std::int32_t> piece_action(pieces.size(), -1);
    std::vector<const Bucket*> gathered, acquired;
    const auto once = [](std::vector<const Bucket*>& list, const Bucket* b) {
        if (std::find(list.begin(), list.end(), b) != list.end()) return false;
        list.push_back(b);
        return true;
    };
    const auto last_piece_of = [&](const Bucket* b) {
        std::size_t last = 0;
        for (std::size_t i = 0; i < pieces.size(); ++i)
            if (std::find(pieces[i].buckets.begin(), pieces[i].buckets.end(), b) != pieces[i].buckets.end()) last = i;
        return last;
    };
    const Overlap& overlap = l.scenario.strategy.overlap;
    const std::size_t ahead = overlap.param_gather ? 2 : 1;
    const auto gather = [&](std::size_t i) {   // the parameters of piece i, kept at most so many units ahead of the computation
        if (!gather_now || i >= pieces.size()) return;
        for (const Bucket* b : pieces[i].buckets) {
            if (b->gather < 0 || (!forward && kept(*b)) || !once(gathered, b) || uses[b].weights++ > 0) continue;
            const std::int32_t a = push_block(b->gather);
            if (i >= ahead && piece_action[i - ahead] >= 0) wait_for_action(a, first_timed_op(b->gather), piece_action[i - ahead]);
        }
    };
    const auto release = [&](const Bucket* b) {
        if (b->release >= 0 && uses[b].weights > 0 && --uses[b].weights == 0) push_block(b->release);
    };
    std::int32_t unhidden = -1;   // a reduction that the next piece has to wait for
    const auto reduce = [&](const Bucket* b) {
        if (!(dp.reduces_each_run(*b) ? reduce_run : reduce_step)) return;
        if (b->reduce < 0 || uses[b].gradients == 0 || --uses[b].gradients > 0) return;
        const std::int32_t a = push_block(b->reduce);
        if (!overlap.grad_reduce && dp.reduces_each_run(*b)) unhidden = a;
    };
    if (forward && whole_root)
        for (std::size_t i = 0; i < pieces.size(); ++i)
            if (root(pieces[i].unit)) gather(i);
    std::size_t next = 0;
    for (std::size_t i = 0; i < pieces.size(); ++i) {
        for (; next < pieces.size() && next < i + ahead; ++next) gather(next);
        if (acquire_now)
            for (const Bucket* b : pieces[i].buckets)
                if (b->acquire >= 0 && once(acquired, b) && uses[b].gradients++ == 0) push_block(b->acquire);
        piece_action[i] = push(id, pieces[i].first, pieces[i].last, mb);
        if (const std::int32_t op = first_timed_op(id, pieces[i].first, pieces[i].last); unhidden >= 0 && op >= 0) {
            wait_for_action(piece_action[i], op, unhidden);
            unhidden = -1;
        }
        for (const Bucket* b : pieces[i].buckets) {
            if (last_piece_of(b) != i) continue;
            if (release_now && !(forward && kept(*b))) release(b);
            if (reduce_now) reduce(b);
        }
    }
    // Buckets of the chunk without a piece of their own in this block.
    for (const Bucket& b : buckets) {
        if (std::any_of(pieces.begin(), pieces.end(), [&](const Piece& p) { return std::find(p.buckets.begin(), p.buckets.end(), &b) != p.buckets.end(); })) continue;
        if (release_now && !forward && kept(b)) release(&b);
        if (reduce_now) reduce(&b);
    }
}

void Weaver::find_buckets() {
    for (const auto& of_chunk : dp.buckets)
        for (const Bucket& b : of_chunk)
            for (std::int32_t i : b.parameters) {
                if (b.stage != stage) continue;
                const Parameter& p = l.parameters[static_cast<std::size_t>(stage)][static_cast<std::size_t>(i)];
                bucket_of_buffer[p.weight] = bucket_of_buffer[p.gradient] = &b;
            }
    if (!dp.active()) return;
    // Reduced once a step: when every chunk that adds to it has done so.
    for (int c = 0; c < static_cast<int>(l.chunks.size()); ++c) {
        if (l.graphs[static_cast<std::size_t>(c)].stage != stage) continue;
        const ChunkBlocks& ends = l.chunks[static_cast<std::size_t>(c)];
        std::vector<const Bucket*> met;
        for (const Piece& p : pieces_of(l.schedule->splits_backward ? ends.weight : ends.backward, c)) met.insert(met.end(), p.buckets.begin(), p.buckets.end());
        for (const Bucket& b : dp.buckets[static_cast<std::size_t>(c)]) met.push_back(&b);
        std::sort(met.begin(), met.end());
        met.erase(std::unique(met.begin(), met.end()), met.end());
        for (const Bucket* b : met)
            if (!dp.reduces_each_run(*b)) ++uses[b].gradients;
    }
}

const std::vector<Weaver::Piece>& Weaver::pieces_of(std::int32_t id, int chunk) {
    const auto [it, fresh] = pieces_of_block.try_emplace(id);
    std::vector<Piece>& pieces = it->second;
    if (!fresh) return pieces;
    const Block& block = l.plan.blocks[static_cast<std::size_t>(id)];
    const auto add = [](Piece& p, const Bucket* b) {
        if (std::find(p.buckets.begin(), p.buckets.end(), b) == p.buckets.end()) p.buckets.push_back(b);
    };
    for (std::size_t u = 0; u < block.unit_begin.size(); ++u) {
        const std::int32_t begin = block.unit_begin[u], end = u + 1 < block.unit_begin.size() ? block.unit_begin[u + 1] : static_cast<std::int32_t>(block.ops.size());
        if (begin == end) continue;
        Piece p{begin, end, block.ops[static_cast<std::size_t>(begin)].unit, {}};
        for (const Bucket& b : dp.buckets[static_cast<std::size_t>(chunk)])
            if (std::find(b.units.begin(), b.units.end(), p.unit) != b.units.end()) add(p, &b);
        for (std::int32_t i = begin; i < end; ++i)
            for (const auto* list : {&block.ops[static_cast<std::size_t>(i)].in, &block.ops[static_cast<std::size_t>(i)].out})
                for (BufferId b : *list)
                    if (const auto found = bucket_of_buffer.find(b); found != bucket_of_buffer.end()) add(p, found->second);
        pieces.push_back(std::move(p));
    }
    return pieces;
}

void Weaver::run() {
    number_steps();
    program.stage = static_cast<std::int16_t>(stage);
    find_buckets();
    if (const std::int32_t begin = make_begin_block(l, dp, stage); !l.plan.blocks[static_cast<std::size_t>(begin)].ops.empty()) push_block(begin);
    for (std::size_t i = 0; i < steps.size();) {
        if (!steps[i].is_exchange) i += compute(i);
        else exchange(steps[i++]);
    }
    if (dp.active() && !l.scenario.strategy.overlap.grad_reduce)
        for (int c : chunks_in_model_order())
            for (const Bucket& b : dp.buckets[static_cast<std::size_t>(c)])
                if (b.stage == stage && b.reduce >= 0 && !dp.reduces_each_run(b)) push_block(b.reduce);
    push_block(make_optimizer_block(l, dp, stage));
    if (dp.sharded() && !dp.gathers_in_step) {   // parameters of the next step, in the order its forward pass wants them
        for (int c : chunks_in_model_order()) {
            const auto& buckets = dp.buckets[static_cast<std::size_t>(c)];
            for (std::size_t k = buckets.size(); k-- > 0;)
                if (buckets[k].stage == stage && buckets[k].gather >= 0) push_block(buckets[k].gather);
        }
    }
}

double block_flops(const Plan& plan, std::int32_t block) {
    double sum = 0;
    if (block >= 0)
        for (const Op& op : plan.blocks[static_cast<std::size_t>(block)].ops) sum += flops(op.work).count;
    return sum;
}

// Schedules that plan with times get them from the middle chunk's FLOPs, and a transfer's from the NIC: rough, as the real
// planner's profile would be better, but the same for every cost model, so that the plan does not depend on it.
void set_relative_times(const Lowering& l, ScheduleShape& shape) {
    if (!l.schedule->splits_backward) return;
    const ChunkBlocks& middle = l.chunks[l.chunks.size() / 2];
    const double forward = block_flops(l.plan, middle.forward);
    if (forward <= 0) return;
    // In eighths of a forward step: finer differences would only make orders that alike chunks do not share.
    shape.input = std::max(1.0, std::round(8 * block_flops(l.plan, middle.backward) / forward)) / 8;
    shape.weight = std::max(1.0, std::round(8 * block_flops(l.plan, middle.weight) / forward)) / 8;
    const Cluster& cluster = l.scenario.cluster;
    const auto peak = cluster.device.peak.find(name(activation_dtype(l.scenario)));
    const double rate = cluster.nodes > 1 && cluster.inter.nic_bandwidth.value > 0 ? cluster.inter.nic_bandwidth.value : cluster.intra.bandwidth.value;
    if (peak == cluster.device.peak.end() || peak->second.value <= 0 || rate <= 0 || middle.input < 0) return;
    constexpr double usual_efficiency = 0.5;   // of the peak: what dense training reaches
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
    shape.join = l.scenario.strategy.overlap.expert_parallel;
    set_relative_times(l, shape);
    const Schedule schedule = info.make(shape);
    const auto steps = insert_exchanges(schedule, info.stage_of, l.plan.stages, static_cast<int>(l.chunks.size()), l.scenario.strategy.overlap.pipeline,
                                        info.directions);
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
