// Communication inside one process: what a collective does to its members' buffers once all of them are there, what a transfer moves.
#pragma once

#include "exec/local/collectives.hpp"
#include "exec/runtime/world.hpp"

#include <span>
#include <vector>

namespace orrery {

// A member's side: the op as it was issued, with the addresses it had then.
struct Attendance {
    Rank* rank = nullptr;
    const Issue* issue = nullptr;
    std::vector<Operand> in, out;
    std::vector<std::byte*> blocks; // held until it is done
};

Attendance attend(Rank& rank, const Issue& issue, const IssueOrder& order); // holds its blocks
void finish(Attendance& side);                                              // lets them go

// The buffers it reduces, gathers or exchanges, each with its own call, one after the other.
// sent, received: of rows of experts, elements to and from each member, without gaps between them; empty: equal parts.
struct CollectiveSides {
    Pieces in, out;
    Element element;
    std::vector<std::int64_t> sent{}, received{};
};
std::vector<CollectiveSides> sides_of(const World& world, const Attendance& member);

// Whether it moves rows of experts as the router counted them.
bool is_counted(std::span<const Operand> in, std::span<const Operand> out);

// All members of one collective, in the communicator's order.
void meet(World& world, std::span<Attendance* const> members);

// Behind a collective between processes: sums as the member's buffers store them. meet() does so itself.
void store(const Attendance& member);

// Transfer k of the sender's exchange to transfer l of the receiver's.
void transfer(const Attendance& sender, std::size_t k, const Attendance& receiver, std::size_t l);

// The transfers of an exchange stand in order in `in` (sends) and `out` (receives): the index of transfer k.
const Operand& end_of(const Attendance& side, std::size_t k);

// A collective between processes, as what this member sends to each and what comes from each, by phases: all that a transport must do.
struct Parts {
    std::vector<std::vector<std::byte>> to;
    std::vector<std::int64_t> from;
}; // by member; bytes that come
// sum: between the phases of an all-reduce, this member's part of it.
Parts parts_to_send(World& world, const Attendance& member, int index, int members, int phase, const std::vector<std::byte>& sum);
// The data that came, by member. True: there is another phase.
bool take_parts(World& world, const Attendance& member, int index, int phase, const std::vector<std::vector<std::byte>>& received,
                std::vector<std::byte>& sum);

} // namespace orrery
