// The results of the pass `buckets`: buckets, ZeRO stages, HSDP. Read by the passes after it.
#pragma once

#include "sim/plan/plan.hpp"
#include "sim/scenario/scenario.hpp"

#include <vector>

namespace orrery {

// Parameters reduced (and, sharded, gathered) together: those of neighbouring units of one chunk.
struct Bucket {
    int stage = 0, chunk = 0;
    bool expert = false;                  // of experts' parameters: their shards and sums are over expert-data ranks
    bool trained = true;                  // all of it, or nothing: what is not is gathered and never reduced
    bool muon = false;                    // where shards are stepped on: all of it Muon's, or nothing
    DType dtype = DType::bf16;            // of its parameters
    bool alone = false;                   // one large parameter, gathered and reduced by itself
    int shards = 1, replicas = 1;         // ranks it is sharded over, and copies of that
    std::vector<int> units;               // in backward order
    std::vector<std::int32_t> parameters; // indices in Lowering::parameters[stage]
    std::int64_t elements = 0;            // local, tensor parallelism counted, data parallelism not
    std::int64_t shard_elements = 0;      // of each data-parallel rank, padding included; 0 where nothing is sharded
    bool accumulates = false;             // reduced several times a step, into a sum
    bool sends = false;                   // nobody shares it, and its gradients go to the host whole
    std::int32_t id = -1;                 // in Plan::buckets; -1: nothing of it travels
    BufferId gradient_shard = -1;         // where a reduce-scatter leaves its part
    BufferId weight_shard = -1;           // what the optimizer steps on; where DataParallel::wide_shards, a copy of it is gathered
    std::int32_t reduce = -1, gather = -1, copy_out = -1, release = -1, acquire = -1; // blocks; -1: none
    std::int32_t reduce_first = -1;   // the block that reduces in a step's first run, which finds no sum to add to; -1: `reduce`
    std::int32_t reduce_last = -1;    // .. and in its last, where the sum leaves in another type; -1: `reduce`
    std::int32_t update = -1;         // the block that updates it in the backward pass; -1: the step's end does
    std::int32_t read = -1;           // the block that brings its shard from NVMe to the host, for `gather` to take
    std::int32_t store = -1;          // the block that takes its gradients' sum from the host to NVMe, when a step has made it
    std::int32_t replicate = -1;      // the block that adds the copies of its shard, where that is once a step; -1: `reduce` does
    std::int32_t gather_again = -1;   // the block that gathers in the backward pass, where that is another; -1: `gather`
    bool comes_with_backward = false; // its gradient shard is there from its reduction until the next step begins (PyTorch's zero_grad)
    bool made_anew = false; // the one pass that adds to its gradients, of a run or of a step, allocates and writes each (gradients_anew)
    std::int32_t drop = -1; // the block that lets go of what its reduction reads, where that is after the reduction; -1: `reduce` does
};

struct DataParallel {
    const Strategy* strategy = nullptr;
    int shards = 1, replicas = 1; // of what is not an expert's
    int expert_shards = 1, expert_replicas = 1;
    int zero = 0;
    AxisMask shard_axes = mask(Axis::dp) | mask(Axis::cp); // both have gradients of tokens of their own
    int secondary = 1;                 // ranks that share a second copy of the weights, which the backward pass gathers; 1: there is none
    bool made_in_backward = false;     // gradients come with the backward pass and go when the next step begins (PyTorch's zero_grad)
    bool fsdp = false;                 // PyTorch FSDP's copies and its one communicator
    bool gathers_in_step = false;      // parameters are gathered unit by unit in each pass (ZeRO-3; FSDP's ZeRO-2)
    bool wide_shards = false;          // of parameters: fp32, without another copy, and cast for each gather (Practice::fp32_shards)
    bool weight_by_weight = false;     // large weights are gathered where they are used, not where their unit begins (XLA)
    bool fetches = false;              // one rank's parameters are copied from the host unit by unit, as others gather them
    bool sends = false;                // and its gradients to the host
    bool keeps_until_backward = false; // gathered in the forward pass, released after the backward pass (FSDP's ZeRO-2)
    BufferId norm = -1;                // of updates in the backward pass that are checked afterwards: the squares so far
    Indexed<std::int16_t, std::vector<Bucket>> buckets; // by chunk, in backward order

    bool active() const { return shards * replicas * expert_shards * expert_replicas > 1; }
    bool sharded() const { return (shards > 1 || expert_shards > 1) && zero >= 1; }
    bool shares_sharded() const { return shards > 1 && zero >= 1; } // of what is not an expert's
    bool active(const Bucket& b) const { return b.shards * b.replicas > 1; }
    bool sharded(const Bucket& b) const { return b.shards > 1 && zero >= 1; }
    // Gradients are reduced at the end of each run of backward steps of a chunk, not once a step.
    bool reduces_each_run() const { return sends || (zero >= 2 && active()); }
    bool reduces_each_run(const Bucket& b) const {
        return b.sends || (zero >= 2 && sharded(b));
    } // one that is not sharded has its whole sum to keep, on the device or on the host
};

} // namespace orrery
