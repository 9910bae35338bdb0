// Lifetimes: Alloc before the first access of each activation's storage, Free after the last, wherever in the chunk's blocks these
// are. Buffers that cross stages are allocated where they are received and freed where they are sent (exchange_blocks.cpp).
//
// After it: every microbatch buffer that is not received has one Alloc; every one that is not sent has one Free; a buffer met in
// one block alone has scope action.
#include "sim/plan/emit.hpp"
#include "sim/plan/passes/bucket_blocks.hpp"
#include "sim/plan/passes/passes.hpp"

#include <algorithm>

namespace orrery {
namespace {

struct Access {
    std::int32_t block = -1, op = -1;
};
struct Life {
    Access first, last;
    bool one_block = true;
};

// Blocks of a stage's chunks in the order a microbatch passes them.
std::vector<std::int32_t> passage(const Lowering& l, int stage) {
    std::vector<std::int32_t> order;
    const int chunks = static_cast<int>(l.chunks.size());
    const auto here = [&](int c) { return l.graphs[c].stage == stage; };
    for (int c = 0; c < chunks; ++c)
        if (here(c)) order.push_back(l.chunks[c].forward);
    for (int c = chunks; c-- > 0;)
        if (here(c)) order.push_back(l.chunks[c].backward);
    for (int c = chunks; c-- > 0;)
        if (here(c) && l.chunks[c].weight >= 0) order.push_back(l.chunks[c].weight);
    return order;
}

void insert_memory_ops(Block& block, const std::vector<std::pair<std::int32_t, BufferId>>& allocs,
                       const std::vector<std::pair<std::int32_t, BufferId>>& frees) {
    std::vector<Op> ops;
    std::vector<std::int32_t> moved(block.ops.size());
    ops.reserve(block.ops.size() + allocs.size() + frees.size());
    std::size_t a = 0, f = 0;
    for (std::size_t i = 0; i < block.ops.size(); ++i) {
        for (; a < allocs.size() && allocs[a].first == static_cast<std::int32_t>(i); ++a)
            ops.push_back(memory_op_beside(Alloc{allocs[a].second}, block.ops[i]));
        moved[i] = static_cast<std::int32_t>(ops.size());
        ops.push_back(std::move(block.ops[i]));
        for (; f < frees.size() && frees[f].first == static_cast<std::int32_t>(i); ++f)
            ops.push_back(memory_op_beside(Free{frees[f].second}, ops.back()));
    }
    for (Op& op : ops)
        for (std::int32_t& d : op.deps) d = moved[d];
    block.ops = std::move(ops);
    set_units(block);
}

// Values that cross stages. A gradient that nothing before it wants is not there.
void mark_ends(const Lowering& l, std::vector<char>& received, std::vector<char>& sent) {
    const auto mark = [&](std::vector<char>& list, BufferId b) {
        if (b >= 0) list[storage(l.plan, b)] = 1;
    };
    for (std::size_t c = 0; c < l.chunks.size(); ++c) {
        const ChunkBlocks& ends = l.chunks[c];
        const bool from_afar = l.graphs[c].input >= 0 && l.graphs[c - 1].stage != l.graphs[c].stage;
        const bool to_afar = l.graphs[c].output >= 0 && l.graphs[c + 1].stage != l.graphs[c].stage;
        if (from_afar) {
            mark(received, ends.input);
            mark(sent, ends.input_gradient);
        }
        if (to_afar) {
            mark(sent, ends.output);
            mark(received, ends.output_gradient);
        }
    }
}

} // namespace

void lifetimes(Lowering& l) {
    Plan& plan = l.plan;
    std::vector<char> received(plan.buffers.size(), 0), sent(plan.buffers.size(), 0);
    mark_ends(l, received, sent);
    std::vector<Life> lives(plan.buffers.size()); // of all stages: none has a buffer of another
    std::vector<std::vector<std::pair<std::int32_t, BufferId>>> allocs(plan.blocks.size()), frees(plan.blocks.size());
    for (int stage = 0; stage < plan.stages; ++stage) {
        const std::vector<std::int32_t> order = passage(l, stage);
        std::vector<BufferId> met;
        for (std::int32_t b : order) {
            const Block& block = plan.blocks[b];
            for (std::size_t i = 0; i < block.ops.size(); ++i)
                for (const auto* list : {&block.ops[i].in, &block.ops[i].out})
                    for (BufferId raw : *list) {
                        const BufferId id = storage(plan, raw);
                        if (l.buffer(id).scope != Scope::microbatch) continue;
                        Life& life = lives[id];
                        if (life.first.block < 0) {
                            life.first = {b, static_cast<std::int32_t>(i)};
                            met.push_back(id);
                        } else if (life.first.block != b)
                            life.one_block = false;
                        life.last = {b, static_cast<std::int32_t>(i)};
                    }
        }
        for (BufferId cast : l.cached_casts) // those that the backward pass does not read
            if (Life& life = lives[cast]; l.buffer(cast).stage == stage && plan.blocks[life.last.block].kind == BlockKind::forward)
                life.last.op = static_cast<std::int32_t>(plan.blocks[life.last.block].ops.size()) - 1;
        for (BufferId buffer : met) {
            const auto id = static_cast<std::size_t>(buffer);
            const Life& life = lives[id];
            // A gradient that is sent is freed after its transfer, unless a later weight-gradient block still reads it.
            const bool last_in_weight = plan.blocks[life.last.block].kind == BlockKind::weight;
            const bool saved_output = sent[id] && plan.blocks[life.first.block].kind == BlockKind::forward &&
                                      plan.blocks[life.last.block].kind != BlockKind::forward;
            if (!received[id]) allocs[life.first.block].push_back({life.first.op, static_cast<BufferId>(id)});
            if (!sent[id] || last_in_weight || saved_output) {
                frees[life.last.block].push_back({life.last.op, static_cast<BufferId>(id)});
                sent[id] = 0;
            }
            if (life.one_block && !received[id] && !sent[id]) l.buffer(static_cast<BufferId>(id)).scope = Scope::action;
        }
        for (std::int32_t b : order) {
            auto &a = allocs[b], &f = frees[b];
            std::sort(a.begin(), a.end());
            std::sort(f.begin(), f.end());
            insert_memory_ops(plan.blocks[b], a, f);
        }
    }
    for (std::size_t id = 0; id < sent.size(); ++id) l.buffer(static_cast<BufferId>(id)).freed_by_send = sent[id] != 0;
}

} // namespace orrery
