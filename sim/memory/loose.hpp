// Memory of workers that meet outside the plan (Plan::apart), and of the servers that update them.
#pragma once

#include "sim/memory/memory.hpp"

namespace orrery {

// On a rank of this stage: peers' messages and its own, beside its parameters; a server gets gradients in another type.
ReserveItem message_buffers(const Plan& plan, const Scenario& scenario, int stage);

// On a node that serves: its part of the parameters in fp32, of the optimizer's states, and of what workers fetch where that has another
// type. Messages are added as they come.
TierMemory server_memory(const Plan& plan, const Scenario& scenario);

} // namespace orrery
