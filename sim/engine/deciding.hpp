// Fewer links to share, with the same rates to the last bit.
#pragma once

#include "sim/engine/machine.hpp"

namespace orrery {

// Leaves links out of Machine::shared that can never be full: their bundles cross other links too, which are full before, as a NIC is
// before the uplinks behind it. The links that stay are sorted by their bundles, not by their numbers in the fabric: the same job with
// ranks in another order, and groups as near, has the same list.
void keep_deciding_links(Machine& machine);

} // namespace orrery
