#include "exec/local/meeting.hpp"

#include "exec/kernels/room.hpp"
#include "exec/kernels/rounding.hpp"
#include "exec/kernels/rows.hpp"
#include "exec/local/collectives.hpp"
#include "topology/check.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <numeric>

namespace orrery {
namespace {

Element element_of(DType t, DType real) {
    if (is_floating(t)) {
        const DType stored = stored_type(t, real);
        return stored == DType::fp64   ? Element::fp64
               : stored == DType::bf16 ? Element::bf16
               : stored == DType::fp16 ? Element::fp16
                                       : Element::fp32;
    }
    if (t == DType::int64) return Element::int64;
    if (t == DType::int32) return Element::fp32; // as wide; places are moved, never added
    require(t == DType::boolean || t == DType::uint8, "a collective of a type that is not stored");
    return Element::boolean;
}

Pieces pieces_of(std::span<const Operand> operands) {
    Pieces p;
    for (const Operand& o : operands) p.push_back({o.data, elements(*o.buffer)});
    return p;
}

// The sum over tensor-parallel ranks of gradients they all hold works on shards in which other gradients lie too: on those elements
// alone that are summands.
Pieces summands_of(const World& world, const std::vector<Operand>& operands, std::int64_t part_index, Axis axis) {
    Pieces p;
    for (const Operand& o : operands) {
        const auto size = static_cast<std::int64_t>(stored_bytes(o.buffer->dtype, world.real));
        const BucketLayout* layout = world.buckets.find(o.id);
        if (!layout || layout->shard == 0) {
            p.push_back({o.data, elements(*o.buffer)});
            continue;
        }
        const std::int64_t begin = part_index * layout->shard, end = begin + layout->shard;
        for (const BucketSegment& s : layout->segments) {
            const Buffer& gradient = world.plan.buffers[s.tensor];
            const std::int64_t from = std::max(begin, s.begin), to = std::min(end, s.end);
            if (gradient.placement.on(axis) == PlacementKind::partial && from < to)
                p.push_back({o.data + (from - begin) * size, to - from});
        }
    }
    return p;
}

Axis axis_of(const Communicator& c) {
    for (int a = 0; a < axis_count; ++a)
        if (c.axes & mask(static_cast<Axis>(a))) return static_cast<Axis>(a);
    broken("a communicator without axes");
}

// Rows of experts go as the router's counts say, operands concatenated: [sender][expert], how many rows each has for each. An
// all-to-all takes them between expert ranks; expert-tensor ranks gather what each has got so, and sum it in parts as long. By member of
// the communicator: the rows that go there from here, and come here from there.
struct RowsByMember {
    std::vector<std::int64_t> sent, received;
};
RowsByMember rows_by_member(const World& world, const Attendance& member) {
    const auto& work = std::get<Collective>(member.issue->op->work);
    const KernelContext& context = member.rank->context;
    const std::int64_t experts = world.facts.moe.experts, ranks = world.plan.expert_mesh.extent(Axis::ep), local = local_experts(context);
    const std::int64_t ep = context.expert_at[Axis::ep], tp = context.expert_at[Axis::tp];
    const auto* counts = reinterpret_cast<const std::int64_t*>(member.in.back().data);
    const auto rows = [&](std::int64_t from_ep, std::int64_t from_tp, std::int64_t to) {
        const std::int64_t* of = counts + sender(world.plan, from_ep, from_tp) * experts + to * local;
        return std::accumulate(of, of + local, std::int64_t{0});
    };
    RowsByMember out;
    if (work.kind == CollectiveKind::all_to_all) {
        const bool to_experts = member.out[0].buffer->expert && !member.in[0].buffer->expert;
        for (std::int64_t m = 0; m < ranks; ++m) {
            out.sent.push_back(to_experts ? rows(ep, tp, m) : rows(m, tp, ep));
            out.received.push_back(to_experts ? rows(m, tp, ep) : rows(ep, tp, m));
        }
        return out;
    }
    for (std::int64_t t = 0; t < world.plan.expert_mesh.extent(Axis::tp); ++t) {
        out.sent.push_back(0);
        for (std::int64_t from = 0; from < ranks; ++from) out.sent.back() += rows(from, t, ep);
    }
    const std::int64_t own = out.sent[tp];
    out.received.assign(out.sent.size(), own);
    if (work.kind == CollectiveKind::all_gather) std::swap(out.sent, out.received);
    return out;
}

// NoRoom where more come than the plan has room for.
void count_rows(const World& world, const Attendance& member, std::vector<CollectiveSides>& sides) {
    const RowsByMember rows = rows_by_member(world, member);
    const bool sums = std::get<Collective>(member.issue->op->work).kind == CollectiveKind::reduce_scatter;
    const std::int64_t here =
        sums ? *std::ranges::max_element(rows.sent) : std::accumulate(rows.received.begin(), rows.received.end(), std::int64_t{0});
    for (std::size_t i = 0; i < sides.size(); ++i) {
        const std::int64_t cols = member.out[i].buffer->shape.back();
        for (std::int64_t n : rows.sent) sides[i].sent.push_back(n * cols);
        for (std::int64_t n : rows.received) sides[i].received.push_back(n * cols);
        check_room(here, elements(sides[i].out) / cols);
    }
}

} // namespace

bool is_counted(std::span<const Operand> in, std::span<const Operand> out) {
    return in.size() == out.size() + 1 && in.back().buffer->role == Role::counts;
}

std::vector<CollectiveSides> sides_of(const World& world, const Attendance& member) {
    const Op& op = *member.issue->op;
    const auto& work = std::get<Collective>(op.work);
    const auto element = [&](std::size_t i) { return element_of(member.in[i].buffer->dtype, world.real); };
    if (work.operands == Collective::Operands::summands) { // in place
        const BucketLayout* layout = world.buckets.find(member.in[0].id);
        const std::int64_t index = layout && layout->shard > 0 ? member.rank->memory.part_index(layout->comm) : 0;
        const Pieces p = summands_of(world, member.in, index, axis_of(world.plan.communicators[work.comm]));
        return {{p, p, element(0)}};
    }
    const bool counted = is_counted(member.in, member.out);
    if (work.operands == Collective::Operands::joined) return {{pieces_of(member.in), pieces_of(member.out), element(0)}};
    std::vector<CollectiveSides> sides;
    for (std::size_t i = 0; i < member.out.size(); ++i)
        sides.push_back({pieces_of({&member.in[i], 1}), pieces_of({&member.out[i], 1}), element(i)});
    if (counted) count_rows(world, member, sides);
    return sides;
}

Attendance attend(Rank& rank, const Issue& issue, const IssueOrder& order) {
    Attendance s;
    s.rank = &rank;
    s.issue = &issue;
    const auto add = [&](BufferId b, std::int32_t microbatch, std::vector<Operand>& list) {
        list.push_back(rank.memory.operand(b, microbatch));
        s.blocks.push_back(rank.memory.block(b, microbatch));
        rank.memory.hold(s.blocks.back());
    };
    if (const auto* x = std::get_if<Exchange>(&issue.op->work)) {
        for (std::size_t k = 0; k < x->transfers.size(); ++k)
            add(x->transfers[k].buffer, order.microbatches[static_cast<std::size_t>(issue.transfers_begin) + k],
                x->transfers[k].send ? s.in : s.out);
        return s;
    }
    for (BufferId b : issue.op->in) add(b, issue.microbatch, s.in);
    for (BufferId b : issue.op->out) add(b, issue.microbatch, s.out);
    return s;
}

void finish(Attendance& side) {
    for (std::byte* b : side.blocks) side.rank->memory.let_go(b);
    side.blocks.clear();
}

void meet(World& world, std::span<Attendance* const> members) {
    const auto& work = std::get<Collective>(members[0]->issue->op->work);
    for (const Attendance* s : members) {
        const auto* other = std::get_if<Collective>(&s->issue->op->work);
        if (!other || other->kind != work.kind || other->comm != work.comm || s->in.size() != members[0]->in.size())
            broken(fmt::format("rank {} calls {} where rank {} calls {}", s->rank->rank, s->issue->op->name, members[0]->rank->rank,
                               members[0]->issue->op->name));
    }
    std::vector<std::vector<CollectiveSides>> sides;
    for (const Attendance* m : members) sides.push_back(sides_of(world, *m));
    for (std::size_t i = 0; i < sides[0].size(); ++i) {
        std::vector<Pieces> in, out;
        for (const auto& of_member : sides) {
            in.push_back(of_member[i].in);
            out.push_back(of_member[i].out);
        }
        const Element element = sides[0][i].element;
        switch (work.kind) {
        case CollectiveKind::all_reduce:
            all_reduce(in, out, element, work.maximum);
            break;
        case CollectiveKind::all_gather:
            all_gather(in, out, element, sides[0][i].received);
            break;
        case CollectiveKind::reduce_scatter:
            reduce_scatter(in, out, element, sides[0][i].sent);
            break;
        case CollectiveKind::all_to_all:
            if (sides[0][i].sent.empty()) {
                all_to_all(in, out, element);
            } else {
                std::vector<std::vector<std::int64_t>> counts;
                for (const auto& of_member : sides) counts.push_back(of_member[i].sent);
                all_to_all(in, out, element, counts);
            }
            break;
        case CollectiveKind::shift:
            shift(in, out, element, 1);
            break;
        case CollectiveKind::shift_back:
            shift(in, out, element, -1);
            break;
        case CollectiveKind::broadcast:
            broken("a broadcast, which no pass makes");
        }
    }
    for (const Attendance* m : members) store(*m);
}

void store(const Attendance& member) {
    const auto& work = std::get<Collective>(member.issue->op->work);
    const bool sums = work.kind == CollectiveKind::all_reduce || work.kind == CollectiveKind::reduce_scatter;
    if (sums) round_stored(member.out, member.rank->context); // what is only moved is stored as it was
}

const Operand& end_of(const Attendance& side, std::size_t k) {
    const auto& transfers = std::get<Exchange>(side.issue->op->work).transfers;
    std::size_t sends = 0, receives = 0;
    for (std::size_t i = 0; i < k; ++i) ++(transfers[i].send ? sends : receives);
    return transfers[k].send ? side.in[sends] : side.out[receives];
}

void transfer(const Attendance& sender, std::size_t k, const Attendance& receiver, std::size_t l) {
    const Operand &from = end_of(sender, k), &to = end_of(receiver, l);
    const DType real = sender.rank->context.real;
    const auto bytes = [&](const Operand& o) {
        return elements(*o.buffer) * static_cast<std::int64_t>(stored_bytes(o.buffer->dtype, real));
    };
    if (bytes(from) != bytes(to))
        broken(fmt::format("{} of {} bytes is received as {} of {}", from.buffer->name, bytes(from), to.buffer->name, bytes(to)));
    std::memcpy(to.data, from.data, static_cast<std::size_t>(bytes(from)));
}

} // namespace orrery
