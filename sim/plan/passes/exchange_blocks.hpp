// The block of one point-to-point exchange between stages.
#pragma once

#include "sim/plan/lowering.hpp"
#include "sim/plan/passes/exchange_order.hpp"

namespace orrery {

// Transfer i of `transfers` works on port i. Receives allocate their buffers before the exchange, sends free theirs after it.
// blocking: computation after the exchange waits for all of it. Adds the block and the communicators pp.up.* and pp.down.*.
// gather: where ranks receive parts of a value, the block that makes it whole; -1: in the exchange block, or nothing to gather. A receive
// posted ahead must not gather: the collectives of the computation before its use would queue up after it, and with them its sender.
struct ExchangeBlocks {
    std::int32_t exchange = -1, gather = -1;
};
ExchangeBlocks make_exchange_block(Lowering& l, int stage, const std::vector<TransferStep>& transfers, bool blocking);

} // namespace orrery
