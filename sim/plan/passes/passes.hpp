// The passes of lowering, in the order they run (see lower.cpp for why each stands where it does). Each is one file of its name;
// its comment there says what holds after it.
#pragma once

#include "sim/plan/lowering.hpp"

namespace orrery {

// On the chunks' forward graphs.
void fine_tuning(Lowering& l);       // passes/fine_tuning.cpp: what is trained; adapters
void tensor_parallel(Lowering& l);   // passes/tensor_parallel.cpp
void sequence_parallel(Lowering& l); // passes/sequence_parallel.cpp
void context_parallel(Lowering& l);  // passes/context_parallel.cpp
void expert_parallel(Lowering& l);   // passes/expert_parallel.cpp
void loss_logits(Lowering& l);       // passes/loss.cpp
void precision(Lowering& l);         // passes/precision.cpp
void tensor_overlap(Lowering& l);    // passes/tensor_overlap.cpp
void mark_recompute(Lowering& l);    // passes/recompute.cpp
void copy_directions(Lowering& l);   // passes/directions.cpp

// On the chunks' blocks.
void lifetimes(Lowering& l);           // passes/lifetimes.cpp
void offload_activations(Lowering& l); // passes/offload_activations.cpp: saved activations go to the host and come back
void buckets(Lowering& l);             // passes/buckets.cpp: the blocks that gather, release and reduce parameters

// On draft programs (draft.hpp).
void schedule(Lowering& l);          // passes/schedule.cpp: compute steps, in order
void exchange(Lowering& l);          // passes/exchange.cpp: transfers between stages
void data_parallel(Lowering& l);     // passes/data_parallel.cpp: gathers, releases and reductions
void join(Lowering& l);              // passes/join.cpp: one block for steps that run as one
void optimizer(Lowering& l);         // passes/optimizer.cpp: the ends of a step
void asynchronous(Lowering& l);      // passes/asynchronous.cpp: steps that flow into each other, and versions of weights
void synchronization(Lowering& l);   // passes/synchronization.cpp: what a round runs after its steps
void offload_optimizer(Lowering& l); // passes/offload_optimizer.cpp: states and update on the host, with the copies there and back
void programs(Lowering& l);          // passes/bind.cpp: drafts become programs: all that the memory of a plan depends on
void bind(Lowering& l);              // passes/bind.cpp: dependencies from the buffers that ops share

// The fragment of streaming DiLoCo that a parameter is sent with: its layer's among those of its stage, dealt out in turn (strided) or in
// stretches. Parameters before the layers go with the first fragment, those behind them with the last.
int fragment_of(const Lowering& l, const Parameter& p); // passes/synchronization.cpp
int fragment_of(const Lowering& l, const Bucket& b);    // that all of its parameters are sent with

// The weights that an optimizer steps on in slices of about strategy.bucket_bytes: workers meet with one after the other, and each has its
// own fp32 copy where there are copies. One slice where there are no such meetings.
std::vector<std::vector<BufferId>> meeting_slices(const Lowering& l, const std::vector<BufferId>& weights); // passes/synchronization.cpp

} // namespace orrery
