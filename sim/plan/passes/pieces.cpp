#include "sim/plan/passes/pieces.hpp"

#include <algorithm>

namespace orrery {

bool among(const std::vector<const Bucket*>& list, const Bucket* b) { return std::find(list.begin(), list.end(), b) != list.end(); }

bool once(std::vector<const Bucket*>& list, const Bucket* b) {
    if (among(list, b)) return false;
    list.push_back(b);
    return true;
}

namespace {

bool gathers_behind_recomputation(const Lowering& l) {
    const Strategy& st = l.scenario.strategy;
    return l.practice.gathers_where_used && st.zero_stage == 3 && !st.overlap.param_gather && !l.data_parallel.fetches;
}

// The first op of [begin, end) after the recomputation it starts with; end where there is none of either.
std::int32_t behind_recomputation(const Block& block, std::int32_t begin, std::int32_t end) {
    std::int32_t last = end;
    for (std::int32_t i = begin; i < end; ++i)
        if (block.ops[i].phase == Phase::recompute) last = i + 1;
    return last;
}

bool recomputation_alone(const Block& block, std::int32_t begin, std::int32_t end) {
    return std::all_of(block.ops.begin() + begin, block.ops.begin() + end, [](const Op& op) { return op.phase == Phase::recompute; });
}

} // namespace

BlockPieces::BlockPieces(const Lowering& l, int stage) : l_(l), bucket_of_(l.plan.buffers.size(), nullptr) {
    for (const auto& of_chunk : l.data_parallel.buckets)
        for (const Bucket& b : of_chunk)
            for (std::int32_t i : b.parameters) {
                if (b.stage != stage) continue;
                const Parameter& p = l.parameters[stage][i];
                bucket_of_[p.weight] = &b;
                if (p.trained()) bucket_of_[p.gradient] = &b;
            }
}

// A unit cut before each op that is the first to touch a weight that is a bucket of its own; smaller ones come with the op that first reads
// them.
void BlockPieces::cut_by_weight(const Block& block, const BlockPiece& unit, std::vector<BlockPiece>& pieces) const {
    BlockPiece piece{unit.first, unit.first, unit.unit, {}, {}, false, unit.remade};
    std::vector<const Bucket*> own, touched; // buckets of their own: of the piece, of an op (it may read two: a weight and its bias)
    std::int32_t group = unit.first;         // where the allocations before the next op begin
    for (std::int32_t i = unit.first; i < unit.last; ++i) {
        const Op& op = block.ops[i];
        if (std::holds_alternative<Alloc>(op.work)) continue;
        touched.clear();
        each_bucket(op, [&](const Bucket* b, BufferId) {
            if (b->alone) once(touched, b);
        });
        if (!own.empty() && std::any_of(touched.begin(), touched.end(), [&](const Bucket* b) { return !among(own, b); })) {
            piece.last = group;
            pieces.push_back(std::move(piece));
            piece = {group, group, unit.unit, {}, {}, false, unit.remade};
            own.clear();
        }
        for (const Bucket* b : touched) once(own, b);
        each_bucket(op, [&](const Bucket* b, BufferId id) {
            const bool gradient = l_.plan.buffers[id].kind == MemoryKind::gradients;
            once(gradient ? piece.gradients : piece.weights, b);
        });
        group = i + 1;
    }
    piece.last = unit.last;
    pieces.push_back(std::move(piece));
}

const std::vector<BlockPiece>& BlockPieces::of(std::int32_t id, int chunk) {
    const auto [it, fresh] = of_block_.try_emplace(id);
    std::vector<BlockPiece>& pieces = it->second;
    if (!fresh) return pieces;
    const Block& block = l_.plan.blocks[id];
    for (std::size_t u = 0; u < block.unit_begin.size(); ++u) {
        const std::int32_t begin = block.unit_begin[u],
                           end = u + 1 < block.unit_begin.size() ? block.unit_begin[u + 1] : static_cast<std::int32_t>(block.ops.size());
        if (begin == end) continue;
        BlockPiece p{begin, end, block.ops[begin].unit, {}, {}, false, recomputation_alone(block, begin, end)};
        if (l_.data_parallel.weight_by_weight) {
            cut_by_weight(block, p, pieces);
            continue;
        }
        for (const Bucket& b : l_.data_parallel.buckets[chunk])
            if (std::find(b.units.begin(), b.units.end(), p.unit) != b.units.end()) once(p.weights, &b);
        for (std::int32_t i = begin; i < end; ++i) each_bucket(block.ops[i], [&](const Bucket* b, BufferId) { once(p.weights, b); });
        if (!p.remade) p.gradients = p.weights;
        const std::int32_t cut = gathers_behind_recomputation(l_) ? behind_recomputation(block, begin, end) : end;
        if (cut < end) {
            pieces.push_back({begin, cut, p.unit, p.weights, p.gradients});
            p.first = cut;
            p.again = true;
        }
        pieces.push_back(std::move(p));
    }
    return pieces;
}

const std::vector<const Bucket*>& BlockPieces::read_late(int chunk) {
    const auto [it, fresh] = late_.try_emplace(chunk);
    if (!fresh) return it->second;
    std::vector<const Bucket*> forward;
    for (const BlockPiece& p : of(l_.chunks[chunk].forward, chunk))
        for (const Bucket* b : p.weights) once(forward, b);
    for (const BlockPiece& p : of(l_.chunks[chunk].backward, chunk))
        for (const Bucket* b : p.weights)
            if (!among(forward, b)) once(it->second, b);
    return it->second;
}

std::vector<const Bucket*> BlockPieces::added_to(int chunk) {
    const ChunkBlocks& ends = l_.chunks[chunk];
    std::vector<const Bucket*> met;
    for (const Bucket& b : l_.data_parallel.buckets[chunk]) once(met, &b);
    for (std::int32_t block : {ends.backward, ends.weight}) {
        if (block < 0) continue;
        for (const BlockPiece& p : of(block, chunk))
            for (const Bucket* b : p.gradients) once(met, b);
    }
    return met;
}

} // namespace orrery
