// Parameters and gradients that live on the host or on NVMe. Internal to `buckets`, which calls these on a bucket whose blocks it has made,
// and to `data_parallel`, which puts them between the computation.
#pragma once

#include "sim/plan/lowering.hpp"

namespace orrery {

// A sharded bucket: its shard comes from the host before each gather, and goes when that is done.
void fetch_shard(Lowering& l, Bucket& b);
// The result of a reduction goes to the host; where several runs of a step add to it, onto the sum that is there.
void send_shard(Lowering& l, Bucket& b);
// The same of a rank that shares nothing: its parameters and gradients whole. These make the blocks that gather, release and reduce.
void fetch_whole(Lowering& l, Bucket& b);
void send_whole(Lowering& l, Bucket& b);
// Under sequence parallelism, ahead of both: the sum over tensor-parallel ranks of the gradients of what all of them hold, as DTensor's
// backward pass makes it.
void sum_over_tensor_parallel(Lowering& l, const Bucket& b);

// Reads from NVMe that stand before their gathers move up, until as many units as strategy.offload.buffers have their room on the host at a
// time.
void read_ahead(const Lowering& l, Draft& draft);

} // namespace orrery
