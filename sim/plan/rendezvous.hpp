// Runs a pipeline program without a clock, by rendezvous alone: an exchange begins when the peers of all its transfers have posted their
// ends, a transfer is done once the exchanges at both its ends have begun, and nothing is buffered. Says who waits for whom where it
// stands still, and where orders or data do not agree. Linear in the program's steps.
#pragma once

#include "sim/plan/passes/exchange_order.hpp"

#include <cstddef>

namespace orrery {

struct RendezvousFault {
    enum class Kind : std::uint8_t {
        waits,      // rank stands at `position` for ever: rank `peer` never posts its end of `transfer`
        mismatch,   // the k-th send of a channel is not what its k-th receive expects: `transfer` came, `expected` was posted
        no_input,   // the step at `position` needs `transfer`, which its rank has not received
        early_send, // the exchange at `position` sends what its rank has not made yet
    };
    Kind kind;
    int rank, peer;
    std::size_t position; // in the rank's program
    TransferStep transfer, expected{};
    friend bool operator==(const RendezvousFault&, const RendezvousFault&) = default;
};

// Empty: the program runs to its end. Blocking: a rank goes on when all transfers of its exchange are done; else (overlap) a rank goes
// on at once, and a step waits for its input. chunks: of all directions. Joined steps begin when both have their input.
std::vector<RendezvousFault> rendezvous(const PipelineProgram& program, int (*stage_of)(int chunk, int stages), int chunks, bool overlap,
                                        int directions = 1);

std::string to_text(const RendezvousFault& fault);

} // namespace orrery
