// Communication across stages: the k-th send of a pair meets the k-th receive; members of a communicator call the same collectives, and
// one order of all of them suits every stage.
#include "sim/plan/verify_parts.hpp"

#include <algorithm>
#include <fmt/format.h>

namespace orrery::verification {
namespace {

struct End {
    std::int32_t action;
    std::int32_t op;
    std::int32_t microbatch;
    Transfer transfer;
    std::int16_t stage;
};
struct Call {
    std::int32_t action, op;
    Collective what;
};

// An activation goes to the chunk after, a gradient to the one before; chunks without ops between them pass it on as it is.
bool neighbours(const std::vector<char>& empty, int from, int to) {
    if (from < 0 || to < 0 || from == to) return false;
    for (int c = std::min(from, to) + 1; c < std::max(from, to); ++c)
        if (!empty[at(c)]) return false;
    return true;
}

std::vector<char> empty_chunks(const Plan& plan) {
    std::vector<char> empty;
    for (const Block& b : plan.blocks) {
        if (b.kind != BlockKind::forward || b.chunk < 0) continue;
        if (empty.size() <= at(b.chunk)) empty.resize(at(b.chunk) + 1, 1);
        empty[at(b.chunk)] = b.ops.empty();
    }
    return empty;
}

struct Channels {
    std::vector<std::vector<End>> sends, receives;     // by communicator
    std::vector<std::vector<std::vector<Call>>> calls; // by communicator across stages, and stage
};

bool across_stages(const Plan& plan, const Communicator& c) { return (c.axes & mask(Axis::pp)) && plan.stages > 1; }

std::vector<std::int16_t> member_stages(const Plan& plan, const Communicator& c) {
    if (!c.stages.empty()) return c.stages;
    std::vector<std::int16_t> all;
    for (int s = 0; s < plan.stages; ++s) all.push_back(static_cast<std::int16_t>(s));
    return all;
}

void check_pair(const Plan& plan, const std::vector<char>& empty, CommId c, const std::vector<End>& sends, const std::vector<End>& receives,
                Findings& findings) {
    const std::string& comm = plan.communicators[at(c)].name;
    const auto where = [&](const End& e) { return place(plan, plan.programs[at(e.stage)], e.action, e.op); };
    for (std::size_t k = 0; k < std::max(sends.size(), receives.size()); ++k) {
        if (k >= receives.size()) {
            findings.add("transfer-unmatched", where(sends[k]), fmt::format("send {} over {} meets no receive", k, comm));
            return;
        }
        if (k >= sends.size()) {
            findings.add("transfer-unmatched", where(receives[k]), fmt::format("receive {} over {} meets no send", k, comm));
            return;
        }
        const End &s = sends[k], &r = receives[k];
        const Buffer &from = plan.buffers[at(s.transfer.buffer)], &to = plan.buffers[at(r.transfer.buffer)];
        const auto mismatch = [&](std::string what) {
            findings.add("transfer-mismatch", where(r), fmt::format("receive {} over {}: {}", k, comm, what));
        };
        if (s.stage == r.stage) mismatch("sender and receiver are one stage");
        if (!(s.transfer.bytes == r.transfer.bytes))
            mismatch(fmt::format("{} B expected, {} B sent", r.transfer.bytes.count, s.transfer.bytes.count));
        if (from.dtype != to.dtype) mismatch(fmt::format("{} expected, {} sent", name(to.dtype), name(from.dtype)));
        if (s.microbatch != r.microbatch) mismatch(fmt::format("microbatch {} expected, {} sent", r.microbatch, s.microbatch));
        if (!neighbours(empty, from.chunk, to.chunk)) mismatch(fmt::format("{} is sent into {}", from.name, to.name));
    }
}

void check_collectives(const Plan& plan, CommId c, const std::vector<std::vector<Call>>& calls, Findings& findings) {
    const Communicator& comm = plan.communicators[at(c)];
    const std::vector<std::int16_t> stages = member_stages(plan, comm);
    for (std::size_t s = 0; s < calls.size(); ++s)
        if (!calls[s].empty() && std::find(stages.begin(), stages.end(), static_cast<std::int16_t>(s)) == stages.end())
            findings.add("collective-mismatch", place(plan, plan.programs[s], calls[s][0].action, calls[s][0].op),
                         "is not a member of " + comm.name);
    const auto& first = calls[at(stages[0])];
    for (std::int16_t s : stages) {
        const auto& mine = calls[at(s)];
        if (mine.size() != first.size())
            findings.add("collective-mismatch", comm.name,
                         fmt::format("stage {} calls it {} times, stage {} {} times", s, mine.size(), stages[0], first.size()));
        for (std::size_t k = 0; k < std::min(mine.size(), first.size()); ++k) {
            const Collective &a = mine[k].what, &b = first[k].what;
            if (a.kind == b.kind && a.bytes == b.bytes && a.dtype == b.dtype) continue;
            findings.add("collective-mismatch", place(plan, plan.programs[at(s)], mine[k].action, mine[k].op),
                         fmt::format("call {} of {} is {} of {} B {}, on stage {} {} of {} B {}", k, comm.name, name(a.kind), a.bytes.count,
                                     name(a.dtype), stages[0], name(b.kind), b.bytes.count, name(b.dtype)));
        }
    }
}

// One order of all calls that agrees with every stage's own: what is next on every member goes first, until nothing is left.
void check_one_order(const Plan& plan, const Channels& channels, Findings& findings) {
    struct Next {
        CommId comm;
        std::int32_t action, op;
    };
    std::vector<std::vector<Next>> order(plan.programs.size());
    for (std::size_t c = 0; c < channels.calls.size(); ++c)
        for (std::size_t s = 0; s < channels.calls[c].size(); ++s)
            for (const Call& call : channels.calls[c][s]) order[s].push_back({static_cast<CommId>(c), call.action, call.op});
    std::size_t left = 0;
    for (auto& list : order) {
        std::sort(list.begin(), list.end(),
                  [](const Next& a, const Next& b) { return std::pair(a.action, a.op) < std::pair(b.action, b.op); });
        left += list.size();
    }
    std::vector<std::size_t> head(order.size(), 0);
    const auto wants = [&](std::size_t s, CommId c) { return head[s] < order[s].size() && order[s][head[s]].comm == c; };
    for (bool moved = true; moved && left > 0;) {
        moved = false;
        for (std::size_t c = 0; c < plan.communicators.size(); ++c) {
            if (!across_stages(plan, plan.communicators[c])) continue;
            const auto stages = member_stages(plan, plan.communicators[c]);
            while (std::all_of(stages.begin(), stages.end(), [&](std::int16_t s) { return wants(at(s), static_cast<CommId>(c)); })) {
                for (std::int16_t s : stages) ++head[at(s)], --left;
                moved = true;
            }
        }
    }
    for (std::size_t s = 0; s < order.size(); ++s)
        if (head[s] < order[s].size()) {
            const Next& n = order[s][head[s]];
            findings.add("collective-order", place(plan, plan.programs[s], n.action, n.op),
                         "comes first here, while other members of " + plan.communicators[at(n.comm)].name + " come to others first");
        }
}

} // namespace

void check_transfers(const Plan& plan, Findings& findings) {
    Channels channels;
    channels.sends.resize(plan.communicators.size());
    channels.receives.resize(plan.communicators.size());
    channels.calls.assign(plan.communicators.size(), std::vector<std::vector<Call>>(plan.programs.size()));
    // Blocks that speak across stages are few: find their ops once.
    std::vector<std::vector<std::int32_t>> speaking(plan.blocks.size());
    for (std::size_t b = 0; b < plan.blocks.size(); ++b)
        for (std::size_t i = 0; i < plan.blocks[b].ops.size(); ++i) {
            const Work& w = plan.blocks[b].ops[i].work;
            const auto* c = std::get_if<Collective>(&w);
            if (std::holds_alternative<Exchange>(w) || (c && across_stages(plan, plan.communicators[at(c->comm)])))
                speaking[b].push_back(static_cast<std::int32_t>(i));
        }
    for (std::size_t s = 0; s < plan.programs.size(); ++s) {
        const Program& program = plan.programs[s];
        for (std::size_t i = 0; i < program.actions.size(); ++i) {
            const Action& a = program.actions[i];
            for (std::int32_t op : speaking[at(a.block)]) {
                if (op < a.first || op >= a.last) continue;
                const Work& w = plan.blocks[at(a.block)].ops[at(op)].work;
                if (const auto* c = std::get_if<Collective>(&w)) {
                    channels.calls[at(c->comm)][s].push_back({static_cast<std::int32_t>(i), op, *c});
                    continue;
                }
                for (const Transfer& t : std::get<Exchange>(w).transfers)
                    (t.send ? channels.sends : channels.receives)[at(t.comm)].push_back(
                        {static_cast<std::int32_t>(i), op, a.microbatch[t.port], t, static_cast<std::int16_t>(s)});
            }
        }
    }
    const std::vector<char> empty = empty_chunks(plan);
    for (std::size_t c = 0; c < plan.communicators.size(); ++c) {
        check_pair(plan, empty, static_cast<CommId>(c), channels.sends[c], channels.receives[c], findings);
        if (across_stages(plan, plan.communicators[c])) check_collectives(plan, static_cast<CommId>(c), channels.calls[c], findings);
    }
    check_one_order(plan, channels, findings);
}

} // namespace orrery::verification
