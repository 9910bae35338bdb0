// The memory that the caching allocator reserves for a stage's program: its allocations and frees in issue order, through two steps.
#pragma once

#include "sim/memory/caching_allocator.hpp"
#include "sim/plan/plan.hpp"

namespace orrery {

// The stream a buffer is allocated on: 0 computation's, 1 gathers', 2 reductions', 3 that of the casts ahead of gathers.
// fully_shard (foreach_all_gather and foreach_reduce, torch/distributed/fsdp/_fully_shard/_fsdp_collectives.py): the cast shard and what is
// gathered of it belong to the copy-in stream, what a reduce-scatter leaves, the gradient that stays among it, to its own; what it reads
// was allocated by computation. FullyShardedDataParallel (torch/distributed/fsdp/_runtime_utils.py): _unshard_stream has the whole flat
// parameter, _pre_unshard_stream its cast shard, _post_backward_stream the whole gradient where it is cast, and the shard of it that stays.
// Other software allocates all on one.
int allocation_stream(const Plan& plan, const Buffer& b, Sharding sharding);
// Allocated throughout: all the step, unless the program allocates or frees it.
bool lasts(const Buffer& b, const Program& program, Space space);

struct AllocatorUse {
    Sharding sharding = Sharding::buckets; // whose streams buffers are allocated on
    bool expandable = false;               // segments grow
    bool late_moments =
        false; // an optimizer's moments come with its first update (torch.optim's _init_group), into what a step has left free
};
// Best fit turns on single temporaries, and a plan has not all that software has: of the plan's own sequence, and of one with another
// temporary beside each sum, the one that reserves less counts. limit: what the device has for segments.
// A long step is followed for its first ten thousand allocations and more: by then a pipeline repeats itself.
Bytes reserved_peak(const Plan& plan, const Program& program, AllocatorUse use, Bytes limit);

} // namespace orrery
