// Communication inside one process: what a collective does to its members' buffers once all of them are there, what a transfer moves.
#pragma once

#include "exec/runtime/world.hpp"

#include <span>
#include <vector>

namespace orrery {

// A member's side: the op as it was issued, with the addresses it had then.
struct Side {
    Rank* rank = nullptr;
    const Issue* issue = nullptr;
    std::vector<Operand> in, out;
    std::vector<std::byte*> blocks;   // held until it is done
};

Side side_of(Rank& rank, const Issue& issue, const IssueOrder& order);   // holds its blocks
void finish(Side& side);                                                 // lets them go

// The members' sides of one collective, in the communicator's order.
void meet(World& world, std::span<Side* const> sides);

// Transfer k of the sender's exchange to transfer l of the receiver's.
void transfer(const Side& sender, std::size_t k, const Side& receiver, std::size_t l);

// The transfers of an exchange stand one behind the other in in (sends) and out (receives): where transfer k is.
const Operand& end_of(const Side& side, std::size_t k);

} // namespace orrery
