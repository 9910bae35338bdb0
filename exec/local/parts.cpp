// Collectives between processes, from one member's side: messages to and from every member, and what is made of them. Reductions send
// everyone's summands of a part to the one member that adds them, in the communicator's order: bits do not depend on who runs where.
#include "exec/local/meeting.hpp"

#include "exec/local/collectives.hpp"
#include "topology/check.hpp"

#include <algorithm>
#include <numeric>

namespace orrery {
namespace {

std::int64_t shard_of(const CollectiveSides& s, CollectiveKind kind, std::int64_t members) {
    switch (kind) {
    case CollectiveKind::all_reduce:
        return (elements(s.in) + members - 1) / members;
    case CollectiveKind::reduce_scatter:
        return elements(s.out);
    case CollectiveKind::all_to_all:
        return elements(s.in) / members;
    default:
        return elements(s.in);
    }
}

void append(std::vector<std::byte>& to, const std::vector<std::byte>& more) { to.insert(to.end(), more.begin(), more.end()); }

int shift_of(CollectiveKind kind) { return kind == CollectiveKind::shift ? 1 : -1; }

} // namespace

Parts parts_to_send(World& world, const Attendance& member, int index, int members, int phase, const std::vector<std::byte>& sum) {
    const auto& work = std::get<Collective>(member.issue->op->work);
    Parts parts;
    parts.to.resize(members);
    parts.from.assign(members, 0);
    std::size_t at = 0;
    for (const CollectiveSides& s : sides_of(world, member)) {
        const std::int64_t shard = shard_of(s, work.kind, members), bytes = shard * bytes_of(s.element);
        for (int m = 0; m < members; ++m) {
            auto& to = parts.to[m];
            const bool shifts = work.kind == CollectiveKind::shift || work.kind == CollectiveKind::shift_back;
            const int by = shift_of(work.kind);
            if (shifts && (index + by + members) % members == m) append(to, packed(s.in, 0, shard, s.element));
            if (shifts && (m + by + members) % members == index) parts.from[m] += bytes;
            if (shifts) continue;
            if (!s.sent.empty()) { // rows of experts, as many as the counts say
                const std::int64_t before =
                    work.kind == CollectiveKind::all_gather ? 0 : std::accumulate(s.sent.begin(), s.sent.begin() + m, std::int64_t{0});
                append(to, packed(s.in, before, s.sent[m], s.element));
                parts.from[m] += s.received[m] * bytes_of(s.element);
                continue;
            }
            if (phase == 1)
                to.insert(to.end(), sum.begin() + static_cast<std::ptrdiff_t>(at), sum.begin() + static_cast<std::ptrdiff_t>(at) + bytes);
            else
                append(to, packed(s.in, work.kind == CollectiveKind::all_gather ? 0 : m * shard, shard, s.element));
            parts.from[m] += bytes;
        }
        at += static_cast<std::size_t>(bytes);
    }
    return parts;
}

bool take_parts(World& world, const Attendance& member, int index, int phase, const std::vector<std::vector<std::byte>>& received,
                std::vector<std::byte>& sum) {
    const auto& work = std::get<Collective>(member.issue->op->work);
    const int members = static_cast<int>(received.size());
    const bool reduces = work.kind == CollectiveKind::all_reduce && phase == 0;
    std::size_t at = 0;
    std::vector<std::size_t> rows_at(received.size(), 0); // in what came from each, of rows of experts
    if (reduces) sum.clear();
    for (const CollectiveSides& s : sides_of(world, member)) {
        if (!s.sent.empty() && work.kind == CollectiveKind::reduce_scatter) {
            std::vector<Pieces> summands;
            for (std::size_t m = 0; m < received.size(); ++m) {
                summands.push_back({{const_cast<std::byte*>(received[m].data()) + rows_at[m], s.received[m]}});
                rows_at[m] += static_cast<std::size_t>(s.received[m] * bytes_of(s.element));
            }
            reduce_into(s.out, summands, s.element, false, s.received[0]);
            continue;
        }
        if (!s.sent.empty()) {
            std::int64_t begin = 0;
            for (std::size_t m = 0; m < received.size(); ++m) {
                unpack(received[m].data() + rows_at[m], s.out, begin, s.received[m], s.element);
                rows_at[m] += static_cast<std::size_t>(s.received[m] * bytes_of(s.element));
                begin += s.received[m];
            }
            continue;
        }
        const std::int64_t shard = shard_of(s, work.kind, members), bytes = shard * bytes_of(s.element);
        if (reduces || work.kind == CollectiveKind::reduce_scatter) {
            std::vector<Pieces> summands;
            for (const auto& r : received) summands.push_back({{const_cast<std::byte*>(r.data()) + at, shard}});
            if (reduces) {
                sum.resize(at + static_cast<std::size_t>(bytes));
                reduce_into({{sum.data() + at, shard}}, summands, s.element, work.maximum);
            } else {
                reduce_into(s.out, summands, s.element, false);
            }
        } else if (work.kind == CollectiveKind::shift || work.kind == CollectiveKind::shift_back) {
            const int from = (index - shift_of(work.kind) + members) % members;
            unpack(received[from].data() + at, s.out, 0, shard, s.element);
        } else {
            for (int m = 0; m < members; ++m) unpack(received[m].data() + at, s.out, m * shard, shard, s.element);
        }
        at += static_cast<std::size_t>(bytes);
    }
    return reduces;
}

} // namespace orrery
