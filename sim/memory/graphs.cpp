// With F_c and B_c the most that a chunk's captured ops need for a moment in its forward and its backward block, E what other ops do:
//
//   pools = max over chunks of F_c and B_c, in one pool;  or sum over chunks of F_c x microbatches in flight, and max of B_c
//   beside the plan's peak, which has the larger of G = max(F, B) and E:  pools - G + min(G, E)
//
// What the forward pass leaves for the backward pass lies in the pools too, as long as it would lie anywhere.
#include "sim/memory/graphs.hpp"

#include <algorithm>
#include <map>
#include <set>

namespace orrery {
namespace {

// Bytes at most, at a moment.
struct Temporary {
    std::int64_t captured = 0, eager = 0;
};

bool in_a_graph(const Op& op) { return op.layer >= 0 && !op.eager; }

// Counts buffers that a block both allocates and frees; a buffer is captured or eager as the first op that touches it is.
Temporary temporary(const Plan& plan, const Block& block) {
    std::map<BufferId, bool> captured; // what is allocated and freed here
    std::set<BufferId> allocated;
    for (const Op& op : block.ops) {
        if (const auto* a = std::get_if<Alloc>(&op.work)) allocated.insert(a->buffer);
        if (const auto* f = std::get_if<Free>(&op.work); f && allocated.contains(f->buffer)) captured[f->buffer] = false;
    }
    std::set<BufferId> met;
    for (const Op& op : block.ops)
        if (!is_memory_op(op.work))
            for (const auto* list : {&op.out, &op.in})
                for (const BufferId b : *list)
                    if (const auto it = captured.find(b); it != captured.end() && met.insert(b).second) it->second = in_a_graph(op);
    Temporary most, now;
    const auto change = [&](BufferId b, int sign) {
        const auto it = captured.find(b);
        if (it == captured.end() || plan.buffers[b].space != Space::device) return;
        (it->second ? now.captured : now.eager) += sign * plan.buffers[b].bytes.count;
        most.captured = std::max(most.captured, now.captured);
        most.eager = std::max(most.eager, now.eager);
    };
    for (const Op& op : block.ops) {
        if (const auto* a = std::get_if<Alloc>(&op.work)) change(a->buffer, 1);
        if (const auto* f = std::get_if<Free>(&op.work)) change(f->buffer, -1);
    }
    return most;
}

// The most microbatches of each chunk that a program has between their forward and backward passes.
std::map<std::int16_t, int> most_in_flight(const Plan& plan, const Program& program) {
    std::map<std::int16_t, int> now, most;
    const auto passes = [&](const Block& block, bool begins, bool ends) {
        if (block.kind == BlockKind::forward && begins) most[block.chunk] = std::max(most[block.chunk], ++now[block.chunk]);
        if (block.kind == BlockKind::backward && ends) --now[block.chunk];
    };
    for (const Action& a : program.actions) {
        const Block& block = plan.blocks[a.block];
        const bool begins = a.first == 0, ends = a.last == static_cast<std::int32_t>(block.ops.size());
        passes(block, block.parts.empty() && begins, block.parts.empty() && ends);
        for (const BlockPart& part : block.parts) passes(plan.blocks[part.block], begins, ends);
    }
    return most;
}

} // namespace

Bytes graph_pools(const Plan& plan, const Practice& practice, const Program& program) {
    if (!practice.graph_pools) return {};
    std::map<std::int16_t, std::int64_t> forward; // by chunk
    std::int64_t backward = 0, eager = 0;
    std::set<std::int32_t> blocks;
    for (const Action& a : program.actions) {
        blocks.insert(a.block);
        for (const BlockPart& part : plan.blocks[a.block].parts) blocks.insert(part.block);
    }
    for (const std::int32_t id : blocks) {
        const Block& block = plan.blocks[id];
        if (!block.parts.empty()) continue; // its parts' ops
        const Temporary most = temporary(plan, block);
        eager = std::max(eager, most.eager);
        if (block.kind == BlockKind::forward)
            forward[block.chunk] = std::max(forward[block.chunk], most.captured);
        else
            backward = std::max(backward, most.captured);
    }
    std::int64_t largest = backward, pools = backward;
    for (const auto& [chunk, bytes] : forward) largest = std::max(largest, bytes);
    if (practice.graph_pool_a_microbatch)
        for (const auto& [chunk, count] : most_in_flight(plan, program)) pools += count * forward[chunk];
    else
        pools = largest;
    return Bytes{pools - largest + std::min(largest, eager)};
}

} // namespace orrery
