// The start of a rank's device and its libraries, before the first step: kernels are compiled, communicators made, members connected.
#include "exec/kernels/rows.hpp"
#include "exec/queues/runner.hpp"

#include <algorithm>
#include <map>
#include <set>
#include <tuple>

namespace orrery {

// Before there is any communication: an allocation may wait for the whole device, and a device that waits for a peer for ever. Integers say
// where a kernel reads and writes; no gather has filled them, and what lay there before is another buffer's.
void Runner::warm_kernels() {
    if (!separate_) return;
    for (int space = 0; space < memories; ++space)
        if (places_.base[space]) check(device_.fill(places_.base[space], 0, stage_.layout.extent[space], compute_queue), "warming up");
    synchronise();
    Shapes seen;
    for (std::size_t i = 0; i < program_.commands.size(); ++i) {
        const Op& op = *at(i).op;
        const Command& c = program_.commands[i];
        const bool computes = !is_host_only(op) && !std::holds_alternative<Collective>(op.work) &&
                              !std::holds_alternative<Exchange>(op.work) && !std::holds_alternative<Copy>(op.work) &&
                              !std::holds_alternative<HostWork>(op.work);
        if (!computes) continue;
        for (const Operand& o : c.in)
            if (!is_floating(o.buffer->dtype))
                check(device_.fill(o.data, 0, bytes_of(world_, o), home(static_cast<std::int32_t>(i))), "warming up");
        check(device_.run(op, c.in, c.out, rank_.context, home(static_cast<std::int32_t>(i))), op.name.c_str());
        synchronise();
        warm_rows(i, seen);
    }
}

namespace {

// The most rows that fit all operands; for a matrix product, the rows of its input.
std::int64_t room_for_rows(const Op& op, const Command& c) {
    const auto rows = [](const Operand& o) { return elements(*o.buffer) / std::max<std::int64_t>(o.buffer->shape.back(), 1); };
    if (std::holds_alternative<Linear>(op.work)) return rows(c.in[0]);
    std::int64_t least = rows(c.in[0]);
    if (const auto* permute = std::get_if<Permute>(&op.work)) least = std::min(least, permute->rows);
    for (const auto* list : {&c.in, &c.out})
        for (const Operand& o : *list)
            if (is_floating(o.buffer->dtype)) least = std::min(least, rows(o));
    return least;
}

} // namespace

// Warming up on zeros gave experts no rows, so none of their kernels has run. One that is first needed in a step is loaded there, which may
// wait for the device to be idle (CUDA's programming guide, on lazy loading), while communication on it waits for a peer that stands just
// so. So each shape of product runs once more, with all rows for one expert, then an eighth less each time: exec/cuda/gemm.cu chooses a
// kernel for every eighth of rows.
void Runner::warm_rows(std::size_t i, Shapes& seen) {
    const Op& op = *at(i).op;
    const Command& c = program_.commands[i];
    const Operand* counts = counts_among(c.in);
    if (!counts) return;
    const auto* product = std::get_if<Linear>(&op.work);
    if (!seen.insert(product ? std::tuple(op.work.index(), static_cast<int>(product->direction), product->n, product->k)
                             : std::tuple(op.work.index(), 0, std::int64_t{0}, elements(*c.in[0].buffer)))
             .second)
        return;
    std::vector<std::int64_t> sent(static_cast<std::size_t>(elements(*counts->buffer)), 0);
    const auto first = static_cast<std::size_t>(rank_.context.expert_at[Axis::ep] * local_experts(rank_.context));
    const QueueId queue = home(static_cast<std::int32_t>(i));
    for (std::int64_t rows = room_for_rows(op, c); rows > 0; rows = product && rows > 16 ? rows - rows / 8 : 0) {
        sent[first] = rows; // from the first sender
        check(device_.copy(counts->data, sent.data(), static_cast<std::int64_t>(sent.size()) * 8, queue), "warming up");
        check(device_.run(op, c.in, c.out, rank_.context, queue), op.name.c_str());
        synchronise();
    }
}

// A communicator has two minutes to come up (exec/cuda/nccl.hpp), and a thread that asks longer than twice that does not come back.
constexpr double connecting_s = 300;

std::int64_t Runner::words_of(CommId c) const { return 8 * (static_cast<std::int64_t>(members(c).size()) + 1); }

std::int64_t Runner::free_memory() {
    std::int64_t free = 0, total = 0;
    check(device_.memory(free, total), "memory that is free");
    return free;
}

// Members that are gone since the last time.
void Runner::measured(const std::string& what, std::int64_t& free) {
    const std::int64_t now = free_memory();
    const auto at = std::ranges::find(taken_, what, &CommunicatorMemory::name);
    (at == taken_.end() ? taken_.emplace_back(CommunicatorMemory{what, 0}) : *at).bytes += free - now;
    free = now;
}

void Runner::connect(const WorldId& id) {
    if (!delays_.empty() || world_.plan.mesh.ranks() == 1) return; // a library's communicators take a gigabyte, of one rank, too
    const Armed armed = arm(std::max(job_.last_resort, connecting_s));
    std::byte* words = nullptr; // a word for each member, and one: allocated before free memory is looked at
    std::int64_t needed = 8;
    for (std::size_t c = 0; c < comms_.size(); ++c) needed += words_of(static_cast<CommId>(c));
    check(device_.allocate(needed, MemorySpace::device, &words), "warming up");
    owned_.push_back(words);
    std::int64_t free = separate_ ? free_memory() : 0;
    const auto note = [&](const std::string& what) {
        if (separate_) measured(what, free);
    };
    if (!job_.all_here) {
        check(device_.allocate(losses_at_once() * 8, MemorySpace::device, &shared_losses_), "losses");
        owned_.push_back(shared_losses_);
        check(device_.allocate(losses_at_once() * 8, MemorySpace::host, &host_losses_), "losses");
        owned_.push_back(host_losses_);
    }
    check(device_.connect(id, world_.plan.mesh.ranks(), rank_.rank, "world", everyone_), "connecting to the other ranks");
    if (shared_losses_) warm_losses();
    note("world");
    const std::vector<CommUse> used = uses();
    for (std::size_t c = 0; c < comms_.size(); ++c) {
        beat();
        const bool used_here = used[c].sums || used[c].peers != Peers::none; // else no memory is spent on it: all its members agree
        const std::vector<int>& of = members(static_cast<CommId>(c));
        const auto me = std::ranges::find(of, rank_.rank) - of.begin();
        check(everyone_->split(used_here && !of.empty() ? of[0] : -1, static_cast<int>(me), world_.plan.communicators[c].name, comms_[c]),
              "making a communicator");
        if (comms_[c]) note(world_.plan.communicators[c].name);
    }
    for (std::size_t c = 0; c < comms_.size(); ++c) {
        if (!comms_[c]) continue;
        beat();
        warm_up(static_cast<CommId>(c), used[c], words);
        if (separate_) warm_calls(static_cast<CommId>(c));
        words += words_of(static_cast<CommId>(c));
        note(world_.plan.communicators[c].name);
    }
    synchronise();
}

// By the whole plan, not by this rank's program: where ranks disagree on a communicator the step finds out, and says who waits for whom.
std::vector<Runner::CommUse> Runner::uses() const {
    std::vector<CommUse> used(comms_.size());
    const auto use_of = [&](const Op& op, bool counted) {
        if (const auto* x = std::get_if<Exchange>(&op.work))
            for (const Transfer& t : x->transfers) used[t.comm].peers = Peers::all;
        const auto* c = std::get_if<Collective>(&op.work);
        if (!c) return;
        CommUse& use = used[c->comm];
        if (c->kind == CollectiveKind::shift || c->kind == CollectiveKind::shift_back)
            use.peers = std::max(use.peers, Peers::neighbours);
        else if (counted || c->kind == CollectiveKind::all_to_all)
            use.peers = Peers::all;
        else
            use.sums = true;
    };
    for (std::size_t i = 0; i < rank_.order->issues.size(); ++i) {
        const auto* c = std::get_if<Collective>(&rank_.order->issues[i].op->work);
        if (c && c->kind == CollectiveKind::all_gather && program_.commands[i].counted) use_of(*rank_.order->issues[i].op, true);
    }
    for (const Block& block : world_.plan.blocks)
        for (const Op& op : block.ops) use_of(op, false);
    return used;
}

std::int64_t Runner::losses_at_once() const {
    constexpr std::int64_t most = 1 << 20; // of a long batch's losses: the rest follows through the same memory
    return std::min(most, static_cast<std::int64_t>(world_.losses.size()));
}

// As share_losses() will.
void Runner::warm_losses() {
    const std::int64_t all = static_cast<std::int64_t>(world_.losses.size()), most = losses_at_once();
    check(device_.fill(shared_losses_, 0, most * 8, compute_queue), "warming up");
    for (const std::int64_t n : {most, all % most})
        if (n > 0) check(everyone_->all_reduce(shared_losses_, shared_losses_, n, DType::fp64, false, compute_queue), "warming up");
    synchronise();
}

// Whether the plan has the same collectives on each stage of a communicator that spans stages. Where it has not, the step finds out, and
// says who waits for whom.
bool Runner::alike_on_stages(CommId c) const {
    const Plan& plan = world_.plan;
    if (!(plan.communicators[c].axes & mask(Axis::pp))) return true;
    std::map<int, std::set<std::tuple<CollectiveKind, std::int64_t, DType>>> of_stage;
    for (const int m : members(c)) of_stage[plan.mesh.coordinates(m)[Axis::pp]];
    for (const Block& block : plan.blocks) {
        const auto stage = of_stage.find(block.stage);
        if (stage == of_stage.end()) continue;
        for (const Op& op : block.ops)
            if (const auto* work = std::get_if<Collective>(&op.work); work && work->comm == c)
                stage->second.emplace(work->kind, work->bytes.count, work->dtype);
    }
    return std::ranges::all_of(of_stage, [&](const auto& stage) { return stage.second == of_stage.begin()->second; });
}

namespace {

// The calls as if each member were sent equally many rows. Empty where the op makes no collective call.
std::vector<CommCall> even_rows(const Collective& work, const Command& c, std::int64_t members, DType real) {
    if (work.kind != CollectiveKind::reduce_scatter) return {};
    const std::int64_t shard = std::min(elements(*c.in[0].buffer) / members, elements(*c.out[0].buffer));
    return {{CommCall::Kind::reduce_scatter, work.comm, c.in[0].data, c.out[0].data, shard, stored_type(c.in[0].buffer->dtype, real)}};
}

} // namespace

// NCCL chooses an algorithm by a call's kind, type and size, and connects members for it when it is first chosen (group.cc:
// ncclCollPreconnect; ring, tree, NVLS and PAT apart). So each unlike call of the step is made once, on memory that holds nothing yet. All
// members have the same ones, and make them in one order whatever their programs' is.
void Runner::warm_calls(CommId c) {
    if (!alike_on_stages(c)) return;
    std::map<std::tuple<CommCall::Kind, DType, bool, std::int64_t>, CommCall> unlike;
    for (std::size_t i = 0; i < program_.commands.size(); ++i) {
        const auto* work = std::get_if<Collective>(&at(i).op->work);
        if (!work || work->comm != c) continue;
        const Command& command = program_.commands[i];
        const auto members_here = static_cast<std::int64_t>(members(c).size());
        for (const CommCall& k : command.counted ? even_rows(*work, command, members_here, world_.real) : command.calls.calls)
            if (k.kind != CommCall::Kind::send && k.kind != CommCall::Kind::receive && k.elements > 0)
                unlike.emplace(std::tuple(k.kind, k.dtype, k.maximum, k.elements), k);
    }
    for (const auto& [shape, one] : unlike) call({{}, {}, {one}}, queue_of(c), false);
    synchronise(); // the next one's may lie in the same memory
}

// Libraries connect members when they first need to: here those that the plan's ops will need, for connections take memory.
void Runner::warm_up(CommId c, const CommUse& use, std::byte* words) {
    const std::vector<int>& of = members(c);
    const auto size = static_cast<int>(of.size()), me = static_cast<int>(std::ranges::find(of, rank_.rank) - of.begin());
    const QueueId q = queue_of(c);
    check(device_.fill(words, 0, 8 * (size + 1), q), "warming up");
    StreamCommunicator& comm = *comms_[c];
    if (use.sums) check(comm.all_reduce(words, words, 1, DType::fp32, false, q), "warming up");
    if (use.peers == Peers::none || size == 1) return;
    const auto near = [&](int m) { return (m + 1) % size == me || (me + 1) % size == m; };
    check(device_.begin_group(), "warming up");
    for (int m = 0; m < size; ++m) {
        if (m == me || (use.peers == Peers::neighbours && !near(m))) continue;
        check(comm.send(words, 1, DType::fp32, m, q), "warming up");
        check(comm.receive(words + 8 * (m + 1), 1, DType::fp32, m, q), "warming up");
    }
    check(device_.end_group(), "warming up");
}

} // namespace orrery
