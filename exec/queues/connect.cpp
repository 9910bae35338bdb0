// The start of a rank's device and its libraries, before the first step: kernels are compiled, communicators made, members connected.
#include "exec/queues/runner.hpp"

#include <algorithm>

namespace orrery {

// Before there is any communication: an allocation may wait for the whole device, and a device that waits for a peer for ever. Integers say
// where a kernel reads and writes; no gather has filled them, and what lay there before is another buffer's.
void Runner::warm_kernels() {
    if (!separate_) return;
    for (int space = 0; space < memories; ++space)
        if (places_.base[space]) check(device_.fill(places_.base[space], 0, stage_.layout.extent[space], compute_queue), "warming up");
    synchronise();
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
    }
}

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
    std::byte* words = nullptr; // a word for each member, and one: allocated before free memory is looked at
    std::int64_t needed = 8;
    for (std::size_t c = 0; c < comms_.size(); ++c) needed += words_of(static_cast<CommId>(c));
    check(device_.allocate(needed, MemorySpace::device, &words), "warming up");
    owned_.push_back(words);
    std::int64_t free = separate_ ? free_memory() : 0;
    const auto note = [&](const std::string& what) {
        if (separate_) measured(what, free);
    };
    check(device_.connect(id, world_.plan.mesh.ranks(), rank_.rank, "world", everyone_), "connecting to the other ranks");
    note("world");
    const std::vector<CommUse> used = uses();
    for (std::size_t c = 0; c < comms_.size(); ++c) {
        const bool used_here = used[c].sums || used[c].peers != Peers::none; // else no memory is spent on it: all its members agree
        const std::vector<int>& of = members(static_cast<CommId>(c));
        const auto me = std::ranges::find(of, rank_.rank) - of.begin();
        check(everyone_->split(used_here && !of.empty() ? of[0] : -1, static_cast<int>(me), world_.plan.communicators[c].name, comms_[c]),
              "making a communicator");
        if (comms_[c]) note(world_.plan.communicators[c].name);
    }
    for (std::size_t c = 0; c < comms_.size(); ++c) {
        if (!comms_[c]) continue;
        warm_up(static_cast<CommId>(c), used[c], words);
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
