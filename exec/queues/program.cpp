#include "exec/queues/program.hpp"

#include "topology/check.hpp"

#include <algorithm>

namespace orrery {
namespace {

Standing standing_of(const World& world, const Rank& rank) {
    const StorageMap& map = rank.memory.map();
    Standing s;
    s.start.assign(map.slots, -1);
    s.room.assign(map.slots, 0);
    for (const StorageMap::Bucket& b : map.buckets) s.room[map.places[b.tensors[0]].slot] = b.stored;
    for (int space = 0; space < memories; ++space) s.fixed[space] = rank.memory.arena(space).extent();
    for (std::size_t b = 0; b < map.places.size(); ++b) {
        const BufferPlace& p = map.places[b];
        if (p.slot < 0) continue;
        const int space = arena_of(world.plan.buffers[b]);
        for (std::int32_t m = 0; m < (p.per_microbatch ? world.plan.microbatches : 1); ++m) {
            const std::byte* at = rank.memory.of_slot(p.slot + m);
            if (at) s.start[p.slot + m] = at - rank.memory.arena(space).base();
        }
    }
    return s;
}

class Maker {
  public:
    Maker(const World& world, Rank& rank, const StagePlan& stage, const RankPlaces& places)
        : world_(world), rank_(rank), stage_(stage), places_(places), touched_(stage.layout.lifetimes.size(), 0) {}

    RankProgram make() {
        const IssueOrder& order = *rank_.order;
        for (std::size_t i = 0; i < order.issues.size(); ++i) {
            program_.commands.emplace_back();
            if (!is_host_only(*order.issues[i].op)) add(order.issues[i], i, program_.commands.back());
        }
        return std::move(program_);
    }

  private:
    Operand operand(BufferId b, std::int32_t microbatch, std::int32_t life) const {
        const Lifetime& x = stage_.layout.lifetimes[life];
        return {rank_.memory.within(b, microbatch, places_.base[x.space] + x.offset), &world_.plan.buffers[b], b};
    }
    void add(const Issue& issue, std::size_t i, Command& c) {
        const auto& lives = stage_.layout.operands[i];
        const Op& op = *issue.op;
        std::size_t at = 0;
        if (const auto* x = std::get_if<Exchange>(&op.work)) {
            for (std::size_t k = 0; k < x->transfers.size(); ++k)
                (x->transfers[k].send ? c.in : c.out)
                    .push_back(operand(x->transfers[k].buffer,
                                       rank_.order->microbatches[static_cast<std::size_t>(issue.transfers_begin) + k], lives[at++]));
        } else {
            for (BufferId b : op.in) c.in.push_back(operand(b, issue.microbatch, lives[at++]));
            for (BufferId b : op.out) c.out.push_back(operand(b, issue.microbatch, lives[at++]));
        }
        for (std::int32_t life : lives) first_touch(life, c);
        const Attendance side = side_of(rank_, issue, c);
        c.counted = std::holds_alternative<Collective>(op.work) && is_counted(c.in, c.out);
        if (std::holds_alternative<Exchange>(op.work))
            c.calls = exchange_calls(world_, side);
        else if (c.counted)
            c.staging = most_staging(std::get<Collective>(op.work), c);
        else if (std::holds_alternative<Collective>(op.work)) {
            c.staging = collective_calls(world_, side, nullptr, room(op, lives)).staging;
            c.calls = collective_calls(world_, side, staging_at(stage_, places_, i, c.staging), room(op, lives));
        }
        if (makes_loss(op) || (world_.notes_routing && makes_routing(op)) || (rank_.scaling && clips(op))) {
            c.kept = program_.kept;
            c.result = makes_routing(op) ? 2 : 0;
            program_.kept += (bytes_of(world_, c.out[c.result]) + 7) / 8 * 8;
        }
    }
    // Rows of experts, whatever their counts are: each operand is one run, so rows that are sent and received go from it and to it as they
    // lie. The parts of a sum are copied, all as long as the longest, which has room in `out`.
    std::int64_t most_staging(const Collective& work, const Command& c) const {
        if (work.kind != CollectiveKind::reduce_scatter) return 0;
        const auto members = static_cast<std::int64_t>(world_.members[work.comm][rank_.rank].size());
        std::int64_t bytes = 0;
        for (const Operand& o : c.out) bytes += members * bytes_of(world_, o) + 256; // each begins at a multiple of 256
        return bytes;
    }
    // Bytes behind a collective's operands up to the end of their buckets.
    Room room(const Op& op, const std::vector<std::int32_t>& lives) const {
        const auto of = [&](std::size_t k) { return stage_.layout.lifetimes[lives[k]].room; };
        return {op.in.empty() ? 0 : of(0), op.out.empty() ? 0 : of(op.in.size())};
    }
    // Gradients that come and go begin as zero.
    void first_touch(std::int32_t life, Command& c) {
        if (touched_[life]) return;
        touched_[life] = 1;
        const Lifetime& x = stage_.layout.lifetimes[life];
        if (x.alloc < 0) return;
        std::byte* const to = places_.base[x.space] + x.offset;
        if (world_.plan.buffers[x.buffer].kind == MemoryKind::gradients)
            c.fills.push_back({to, x.bytes, 0});
        else if (rank_.memory.poisons())
            c.fills.push_back({to, x.bytes, 0xff});
    }

    const World& world_;
    Rank& rank_;
    const StagePlan& stage_;
    const RankPlaces& places_;
    std::vector<char> touched_; // by lifetime
    RankProgram program_;
};

} // namespace

std::int64_t bytes_of(const World& world, const Operand& o) {
    return elements(*o.buffer) * static_cast<std::int64_t>(stored_bytes(o.buffer->dtype, world.real));
}

namespace {

// By issue, with addresses as they would be: only where runs follow each other matters.
std::vector<std::int64_t> staging_of_issues(const World& world, Rank& rank, const StagePlan& stage) {
    RankPlaces nowhere;
    for (int space = 0; space < memories; ++space) nowhere.base[space] = rank.memory.arena(space).base();
    nowhere.staging.assign(static_cast<std::size_t>(stage.queues.queues()), nullptr);
    std::vector<std::int64_t> bytes;
    for (const Command& c : rank_program(world, rank, stage, nowhere).commands) bytes.push_back(c.staging);
    return bytes;
}

} // namespace

// How much collectives copy depends on where buffers lie, and these on it: planned again until it is enough.
StagePlan stage_plan(const World& world, Rank& rank) {
    constexpr int most_rounds = 4;
    const Standing standing = standing_of(world, rank);
    std::vector<std::int64_t> staging(rank.order->issues.size(), 0);
    StagePlan stage{QueueOrder(world.plan, *rank.order), {}};
    for (int round = 0; round < most_rounds; ++round) {
        stage.layout = plan_layout(world.plan, *rank.order, stage.queues, rank.memory.map(), standing, staging);
        bool more = false;
        const std::vector<std::int64_t> needed = staging_of_issues(world, rank, stage);
        for (std::size_t i = 0; i < staging.size(); ++i) {
            more = more || needed[i] > staging[i];
            staging[i] = std::max(staging[i], needed[i]);
        }
        if (!more) break;
    }
    return stage;
}

std::byte* staging_at(const StagePlan& stage, const RankPlaces& places, std::size_t issue, std::int64_t bytes) {
    if (bytes == 0) return nullptr;
    const StagingPlace& planned = stage.layout.staging[issue];
    return bytes <= planned.bytes ? places.base[0] + planned.offset : places.staging[stage.queues[issue].queues[0]];
}

RankProgram rank_program(const World& world, Rank& rank, const StagePlan& stage, const RankPlaces& places) {
    return Maker(world, rank, stage, places).make();
}

std::vector<std::int64_t> staging_beside(const World& world, Rank& rank, const StagePlan& stage) {
    std::vector<std::int64_t> most(static_cast<std::size_t>(stage.queues.queues()), 0);
    const std::vector<std::int64_t> needed = staging_of_issues(world, rank, stage);
    for (std::size_t i = 0; i < needed.size(); ++i) {
        if (needed[i] <= stage.layout.staging[i].bytes) continue;
        std::int64_t& of_queue = most[stage.queues[i].queues[0]];
        of_queue = std::max(of_queue, needed[i]);
    }
    return most;
}

Attendance side_of(Rank& rank, const Issue& issue, const Command& command) {
    Attendance side;
    side.rank = &rank;
    side.issue = &issue;
    side.in = command.in;
    side.out = command.out;
    return side;
}

} // namespace orrery
