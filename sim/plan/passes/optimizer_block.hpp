// The blocks that update parameters: one for all that a rank owns of a stage, or one for each bucket whose update runs in
// the backward pass.
#pragma once

#include "sim/plan/lowering.hpp"

#include <string>
#include <vector>

namespace orrery {

Op step_op(std::string name, Work work, std::vector<BufferId> in, std::vector<BufferId> out, QueueId queue = compute_queue,
           Phase phase = Phase::optimizer);

// The reductions that are left at the end of a step, the gradient norm, clipping, and the update of all that the stage's ranks own. Updates
// of the backward pass are left out.
std::int32_t make_optimizer_block(Lowering& l, int stage);

// The parameters that this optimizer steps on, in its order: its own shards where they are sharded. fragment: of streaming DiLoCo, those
// of that fragment alone; -1: all.
std::vector<BufferId> stepped_weights(const Lowering& l, int stage, int fragment = -1);

// The update of one bucket, after which its gradients are gone (training.optimizer_in_backward). Sharded, it runs on the queue of the
// reduction, as fully_shard's hooks do.
std::int32_t make_update_block(Lowering& l, const Bucket& b);

} // namespace orrery
