#include "exec/local/meeting.hpp"

#include "exec/local/collectives.hpp"
#include "topology/check.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>

namespace orrery {
namespace {

Element element_of(DType t, DType real) {
    if (is_floating(t)) return real == DType::fp64 ? Element::fp64 : Element::fp32;
    if (t == DType::int64) return Element::int64;
    require(t == DType::boolean || t == DType::uint8, "a collective of a type that is not stored");
    return Element::boolean;
}

Pieces pieces_of(const std::vector<Operand>& operands) {
    Pieces p;
    for (const Operand& o : operands) p.push_back({o.data, elements(*o.buffer)});
    return p;
}

// The sum over tensor-parallel ranks of gradients they all hold works on shards in which other gradients lie too: on those elements
// alone that are summands.
Pieces summands_of(const World& world, const std::vector<Operand>& operands, std::int64_t part_index, Axis axis) {
    Pieces p;
    const std::int64_t size = static_cast<std::int64_t>(stored_bytes(DType::fp32, world.real));
    for (const Operand& o : operands) {
        const BucketLayout* layout = world.buckets.find(o.id);
        if (!layout || layout->shard == 0) {
            p.push_back({o.data, elements(*o.buffer)});
            continue;
        }
        const std::int64_t begin = part_index * layout->shard, end = begin + layout->shard;
        for (const Segment& s : layout->segments) {
            const Buffer& gradient = world.plan.buffers[static_cast<std::size_t>(s.tensor)];
            const std::int64_t from = std::max(begin, s.begin), to = std::min(end, s.end);
            if (gradient.placement.on(axis) == PlacementKind::partial && from < to) p.push_back({o.data + (from - begin) * size, to - from});
        }
    }
    return p;
}

Axis axis_of(const Communicator& c) {
    for (int a = 0; a < axis_count; ++a)
        if (c.axes & mask(static_cast<Axis>(a))) return static_cast<Axis>(a);
    broken("a communicator without axes");
}

struct Call {
    World& world;
    std::span<Side* const> sides;
    const Collective& work;
    std::vector<Pieces> in, out;
    Element element;

    void take(std::size_t from_operand, std::size_t to_operand) {
        in.clear();
        out.clear();
        const auto slice = [&](const std::vector<Operand>& all) {
            return std::vector<Operand>(all.begin() + static_cast<std::ptrdiff_t>(from_operand), all.begin() + static_cast<std::ptrdiff_t>(to_operand));
        };
        for (Side* s : sides) {
            in.push_back(pieces_of(slice(s->in)));
            out.push_back(pieces_of(slice(s->out)));
        }
        element = element_of(sides[0]->in[from_operand].buffer->dtype, world.real);
    }
    void take_all() {
        in.clear();
        out.clear();
        for (Side* s : sides) {
            in.push_back(pieces_of(s->in));
            out.push_back(pieces_of(s->out));
        }
        element = element_of(sides[0]->in[0].buffer->dtype, world.real);
    }
    void sum_gradients() {   // finalize: in place
        const Axis axis = axis_of(world.plan.communicators[static_cast<std::size_t>(work.comm)]);
        for (Side* s : sides) {
            const BucketLayout* layout = world.buckets.find(s->in[0].id);
            const std::int64_t index = layout && layout->shard > 0 ? s->rank->memory.part_index(layout->comm) : 0;
            in.push_back(summands_of(world, s->in, index, axis));
        }
        out = in;
        element = element_of(sides[0]->in[0].buffer->dtype, world.real);
        all_reduce(in, out, element, work.maximum);
    }
    void run() {
        const Op& op = *sides[0]->issue->op;
        switch (work.kind) {
        case CollectiveKind::all_reduce:
            if (op.phase == Phase::gradient_reduce && op.in == op.out) return sum_gradients();
            take_all();
            return all_reduce(in, out, element, work.maximum);
        case CollectiveKind::all_gather: take_all(); return all_gather(in, out, element);
        case CollectiveKind::reduce_scatter: take_all(); return reduce_scatter(in, out, element);
        case CollectiveKind::all_to_all: take_all(); return all_to_all(in, out, element);
        case CollectiveKind::shift: take_all(); return shift(in, out, element, 1);
        case CollectiveKind::shift_back: take_all(); return shift(in, out, element, -1);
        case CollectiveKind::broadcast: broken("a broadcast, which no pass makes");
        }
    }
};

} // namespace

Side side_of(Rank& rank, const Issue& issue, const IssueOrder& order) {
    Side s;
    s.rank = &rank;
    s.issue = &issue;
    const auto add = [&](BufferId b, std::int32_t microbatch, std::vector<Operand>& list) {
        list.push_back(rank.memory.operand(b, microbatch));
        s.blocks.push_back(rank.memory.block(b, microbatch));
        rank.memory.hold(s.blocks.back());
    };
    if (const auto* x = std::get_if<Exchange>(&issue.op->work)) {
        for (std::size_t k = 0; k < x->transfers.size(); ++k)
            add(x->transfers[k].buffer, order.microbatches[static_cast<std::size_t>(issue.transfers_begin) + k], x->transfers[k].send ? s.in : s.out);
        return s;
    }
    for (BufferId b : issue.op->in) add(b, issue.microbatch, s.in);
    for (BufferId b : issue.op->out) add(b, issue.microbatch, s.out);
    return s;
}

void finish(Side& side) {
    for (std::byte* b : side.blocks) side.rank->memory.let_go(b);
    side.blocks.clear();
}

void meet(World& world, std::span<Side* const> sides) {
    const auto& work = std::get<Collective>(sides[0]->issue->op->work);
    for (const Side* s : sides) {
        const auto* other = std::get_if<Collective>(&s->issue->op->work);
        if (!other || other->kind != work.kind || other->comm != work.comm || s->in.size() != sides[0]->in.size())
            broken(fmt::format("rank {} calls {} where rank {} calls {}", s->rank->rank, s->issue->op->name, sides[0]->rank->rank, sides[0]->issue->op->name));
    }
    Call{world, sides, work, {}, {}, Element::fp32}.run();
}

const Operand& end_of(const Side& side, std::size_t k) {
    const auto& transfers = std::get<Exchange>(side.issue->op->work).transfers;
    std::size_t sends = 0, receives = 0;
    for (std::size_t i = 0; i < k; ++i) ++(transfers[i].send ? sends : receives);
    return transfers[k].send ? side.in[sends] : side.out[receives];
}

void transfer(const Side& sender, std::size_t k, const Side& receiver, std::size_t l) {
    const Operand &from = end_of(sender, k), &to = end_of(receiver, l);
    const DType real = sender.rank->context.real;
    const auto bytes = [&](const Operand& o) { return elements(*o.buffer) * static_cast<std::int64_t>(stored_bytes(o.buffer->dtype, real)); };
    if (bytes(from) != bytes(to)) broken(fmt::format("{} of {} bytes is received as {} of {}", from.buffer->name, bytes(from), to.buffer->name, bytes(to)));
    std::memcpy(to.data, from.data, static_cast<std::size_t>(bytes(from)));
}

} // namespace orrery
