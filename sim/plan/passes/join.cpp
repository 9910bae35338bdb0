// Joins blocks that run as one: a forward and a backward step of different chunks or microbatches, or the two halves of a backward step,
// where data parallelism needs nothing between them. Parts of one port are an input-gradient block and the weight-gradient block of the
// same chunk; there are at most two ports.
//
// After it: every action runs one block. In a joined block every op stands after those of its part it depends on. Where experts exchange
// tokens, the order is that of Megatron-Core's TransformerLayerSchedulePlan.run (core/models/common/model_chunk_schedule_plan.py, 2025),
// layer by layer, b the backward and f the forward step:
//   communication: combine b | dispatch f, dispatch b | combine f
//   computation:   attention f | experts b, experts f | attention b
// All other communication (tensor and context parallelism) is inside these parts, and their computation waits for it. Where no tokens are
// exchanged, ports take turns wherever one waits for its communication.
#include "sim/plan/passes/passes.hpp"

#include <algorithm>
#include <fmt/format.h>
#include <map>
#include <set>

namespace orrery {
namespace {

struct PartOp {
    std::size_t part;
    std::int32_t op;
};

// An op with the allocations before it, from `first` on, and the frees after it: these follow it wherever it goes.
struct Group {
    std::size_t part;
    std::int32_t first, op;
    std::vector<PartOp> frees;
};

struct Parts {
    const Plan& plan;
    const std::vector<BlockPart>& list;

    const Block& block(std::size_t part) const { return plan.blocks[list[part].block]; }
    const Op& op(const Group& g) const { return block(g.part).ops[g.op]; }
    bool computes(const Group& g) const { return op(g).queue == compute_queue; }
    bool speaks(const Group& g) const { return op(g).queue >= first_comm_queue; }

    std::vector<Group> groups(std::size_t part) const {
        const auto& ops = block(part).ops;
        std::vector<Group> out;
        std::int32_t first = 0;
        for (std::int32_t i = 0; i < static_cast<std::int32_t>(ops.size()); ++i) {
            const Work& work = ops[i].work;
            if (std::holds_alternative<Alloc>(work)) continue;
            if (std::holds_alternative<Free>(work))
                out.back().frees.push_back({part, i});
            else
                out.push_back({part, first, i, {}});
            first = i + 1;
        }
        return out;
    }
    BufferId freed(const PartOp& f) const { return std::get<Free>(block(f.part).ops[f.op].work).buffer; }
};

// The input half may still use what the weight half frees: each free goes after the last op that touches its buffer.
void settle_frees(const Parts& parts, std::vector<Group>& groups) {
    std::vector<std::size_t> last(parts.plan.buffers.size(), 0);
    for (std::size_t i = 0; i < groups.size(); ++i)
        for (const auto* list : {&parts.op(groups[i]).in, &parts.op(groups[i]).out})
            for (BufferId b : *list) last[storage(parts.plan, b)] = i;
    std::vector<std::vector<PartOp>> frees(groups.size());
    for (std::size_t i = 0; i < groups.size(); ++i)
        for (const PartOp& f : groups[i].frees) frees[std::max(i, last[parts.freed(f)])].push_back(f);
    for (std::size_t i = 0; i < groups.size(); ++i) groups[i].frees = std::move(frees[i]);
}

// The weight-gradient ops among the input-gradient ops, in their order: each after the op that hands on the gradient it reads, and after
// communication that follows there, which it then hides; as early as that, so that gradients do not pile up.
std::vector<Group> merge_halves(const Parts& parts, const std::vector<Group>& inputs, const std::vector<Group>& weights) {
    constexpr std::int32_t never = -1;
    struct Use {
        std::int32_t written = never, read = never;
    }; // the last write, and the first read after it
    std::vector<Use> uses(parts.plan.buffers.size());
    const auto use = [&](BufferId b) -> Use& { return uses[storage(parts.plan, b)]; };
    std::int32_t first_computation = 0;
    for (std::int32_t i = static_cast<std::int32_t>(inputs.size()); i-- > 0;) {
        const Op& op = parts.op(inputs[i]);
        if (parts.computes(inputs[i])) first_computation = i;
        for (BufferId b : op.out)
            if (Use& u = use(b); u.written == never) u.written = i;
        for (BufferId b : op.in)
            if (Use& u = use(b); u.written == never) u.read = i;
    }
    std::vector<Group> out;
    std::size_t next = 0;
    const auto flush = [&](std::int32_t before) {
        for (; next < weights.size(); ++next) {
            std::int32_t ready = first_computation;
            const Op& op = parts.op(weights[next]);
            for (const auto* list : {&op.in, &op.out})
                for (BufferId b : *list)
                    if (const Use& u = use(b); u.written != never) ready = std::max({ready, u.written, u.read});
            if (ready >= before) return;
            out.push_back(weights[next]);
        }
    };
    for (std::int32_t i = 0; i < static_cast<std::int32_t>(inputs.size()); ++i) {
        if (parts.computes(inputs[i])) flush(i);
        out.push_back(inputs[i]);
    }
    flush(static_cast<std::int32_t>(inputs.size()));
    settle_frees(parts, out);
    return out;
}

// One port's ops in order, and what its communication still moves.
struct Side {
    std::vector<Group> groups;
    std::size_t next = 0;
    std::vector<BufferId> moving;
    std::vector<char> rests = {}; // by group: whether the other port gets the turn before it, whatever is moving

    bool done() const { return next == groups.size(); }
};

// Whether it takes rows or tokens to experts or back, on any part of their way. (Counts of rows are whole numbers.)
bool moves_tokens(const Parts& parts, const Group& g) {
    const auto* c = std::get_if<Collective>(&parts.op(g).work);
    return c != nullptr && parts.plan.communicators[c->comm].expert && c->dtype != DType::int64;
}

// A layer without experts has the same two parts, and nothing to wait for: where its MLP begins (or, going back, its attention), and at its
// outer end, the side has to stop by itself, as Megatron goes from layer to layer.
void mark_rests(const Parts& parts, Side& side, bool forward) {
    constexpr std::int16_t none = -1;
    std::set<std::int16_t> mixtures, met;
    for (const Group& g : side.groups)
        if (moves_tokens(parts, g)) mixtures.insert(parts.op(g).layer);
    const auto dense = [&](std::int16_t layer) { return layer != none && !mixtures.contains(layer); };
    std::int16_t before = none;
    for (std::size_t i = 0; i < side.groups.size(); ++i) {
        const Op& op = parts.op(side.groups[i]);
        const bool begins = met.insert(op.layer).second; // (weight gradients may come later than their layer)
        if (begins && dense(forward ? before : op.layer)) side.rests[i] = 1;
        if (op.mlp_border && dense(op.layer)) side.rests[i] = 1;
        if (begins) before = op.layer;
    }
}

bool waits(const Parts& parts, const Side& side) {
    const Group& g = side.groups[side.next];
    if (!parts.computes(g)) return false;
    for (const auto* list : {&parts.op(g).in, &parts.op(g).out})
        for (BufferId b : *list)
            if (std::find(side.moving.begin(), side.moving.end(), storage(parts.plan, b)) != side.moving.end()) return true;
    return false;
}

// Each side in turn, up to the computation that waits for its own communication. by_layer: for an exchange of tokens alone, and the
// backward step begins: its first exchange is under way while the forward step attends.
std::vector<Group> interleave(const Parts& parts, Side (&sides)[2], int backward, bool by_layer) {
    for (int s = 0; s < 2; ++s) {
        sides[s].rests.assign(sides[s].groups.size(), 0);
        if (by_layer) mark_rests(parts, sides[s], s != backward);
    }
    std::vector<Group> out;
    for (int turn = by_layer ? backward : 0; !sides[0].done() || !sides[1].done(); turn = 1 - turn) {
        Side& side = sides[turn];
        side.moving.clear(); // the other side's computation has been issued since
        for (; !side.done() && !waits(parts, side); ++side.next) {
            if (side.rests[side.next]) {
                side.rests[side.next] = 0;
                break;
            }
            const Group& g = side.groups[side.next];
            if (by_layer ? moves_tokens(parts, g) : parts.speaks(g))
                for (BufferId b : parts.op(g).out) side.moving.push_back(storage(parts.plan, b));
            out.push_back(g);
        }
    }
    return out;
}

void append(const Parts& parts, const Group& g, std::vector<std::vector<std::int32_t>>& moved, Block& out) {
    const auto add = [&](std::size_t part, std::int32_t i) {
        Op op = parts.block(part).ops[i];
        op.port = parts.list[part].port;
        for (std::int32_t& d : op.deps) d = moved[part][d];
        std::sort(op.deps.begin(), op.deps.end());
        if (auto* x = std::get_if<Exchange>(&op.work))
            for (Transfer& t : x->transfers) t.port = op.port;
        moved[part][i] = static_cast<std::int32_t>(out.ops.size());
        out.ops.push_back(std::move(op));
    };
    for (std::int32_t i = g.first; i <= g.op; ++i) add(g.part, i);
    for (const PartOp& f : g.frees) add(f.part, f.op);
}

std::string name_of(const Parts& parts) {
    std::string name;
    for (std::size_t i = 0; i < parts.list.size(); ++i) {
        const Block& b = parts.block(i);
        if (b.kind == BlockKind::weight) continue; // its other half has named both
        const bool whole = i + 1 < parts.list.size() && parts.block(i + 1).kind == BlockKind::weight;
        name += (name.empty() ? "" : ";") + (whole ? fmt::format("B{}", b.chunk) : b.name);
    }
    return parts.list.back().port > 0 ? "(" + name + ")" : name;
}

// One block of all ops of `list`, each on its part's port.
std::int32_t make_joined_block(Lowering& l, const std::vector<BlockPart>& list) {
    const Parts parts{l.plan, list};
    Side sides[2];
    for (std::size_t i = 0; i < list.size(); ++i) {
        std::vector<Group>& mine = sides[list[i].port].groups;
        mine = parts.block(i).kind == BlockKind::weight ? merge_halves(parts, mine, parts.groups(i)) : parts.groups(i);
    }
    Block out;
    out.name = name_of(parts);
    out.kind = BlockKind::backward;
    out.stage = parts.block(0).stage;
    out.chunk = list.back().port > 0 ? std::int16_t{-1} : parts.block(0).chunk;
    out.parts = list;
    std::vector<std::vector<std::int32_t>> moved;
    std::size_t ops = 0;
    for (std::size_t i = 0; i < list.size(); ++i) {
        moved.emplace_back(parts.block(i).ops.size(), -1);
        ops += parts.block(i).ops.size();
    }
    out.ops.reserve(ops);
    const int backward = parts.block(0).kind == BlockKind::forward ? list.back().port : 0;
    const Strategy& st = l.scenario.strategy;
    const bool exchanges = l.scenario.model.moe && (st.expert_parallel > 1 || st.expert_tensor_parallel > 1);
    for (const Group& g : interleave(parts, sides, backward, exchanges)) append(parts, g, moved, out);
    return l.add(std::move(out));
}

} // namespace

void join(Lowering& l) {
    for (Draft& draft : l.drafts) {
        std::map<std::vector<std::int32_t>, std::int32_t> joined; // by their parts' blocks
        for (DraftAction& action : draft.actions) {
            if (action.run.block >= 0) continue;
            std::vector<std::int32_t> key;
            std::vector<BlockPart> list;
            for (const DraftPart& part : action.parts) {
                key.push_back(part.block);
                list.push_back({part.block, part.port});
            }
            auto [it, fresh] = joined.try_emplace(key, -1);
            if (fresh) it->second = make_joined_block(l, list);
            action.run.block = it->second;
            action.run.last = static_cast<std::int32_t>(l.plan.blocks[it->second].ops.size());
        }
        // A chunk with nothing trained at or below it has no backward pass.
        std::erase_if(draft.actions, [](const DraftAction& action) { return action.run.first == action.run.last; });
    }
}

} // namespace orrery
