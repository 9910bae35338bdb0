// The sum of what ranks send as signs and one scale each: 1-bit Adam's compressed all-reduce (arXiv:2102.02888, algorithm 1).
#pragma once

#include "sim/plan/lowering.hpp"

#include <string>

namespace orrery {

struct SignExchange {
    Lowering& l;
    Block& block;
    CommId comm;
    int stage;
    Phase phase;
    Role summand;      // of what is sent and received: gradient_slices, or pseudo_gradient
    Role received;     // gradient_summands, or pseudo_gradient
    AxisMask partial;  // over these axes a rank has a summand only
    QueueId own_queue; // of the work on what has arrived

    BufferId brief(const std::string& name, Role role, std::vector<std::int64_t> shape, DType dtype, bool is_summand);
    void compress(const std::string& name, Compress::Part part, std::int64_t elements, std::vector<BufferId> in, std::vector<BufferId> out,
                  QueueId queue);
    // `fed`, of n elements, is summed over the communicator into `into`, which then is what came back from all; fed is freed. With error
    // feedback `error` has n elements, and there is one of the slice that this rank adds up besides.
    void sum(BufferId fed, std::int64_t n, BufferId into, BufferId error);
    // A rank's own: what of n elements it did not send. -1: nobody keeps it.
    BufferId kept(const std::string& name, Role role, std::int64_t n);
};

} // namespace orrery
