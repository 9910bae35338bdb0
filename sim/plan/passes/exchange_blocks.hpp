// The block of one point-to-point exchange between stages.
#pragma once

#include "sim/plan/lowering.hpp"
#include "sim/plan/passes/exchange.hpp"

namespace orrery {

// Transfer i of `transfers` works on port i. Receives allocate their buffers before the exchange, sends free theirs behind it.
// blocking: computation behind the exchange waits for all of it. Adds the block and the communicators pp.up.* and pp.down.*.
std::int32_t make_exchange_block(Lowering& l, int stage, const std::vector<TransferStep>& transfers, bool blocking);

} // namespace orrery
