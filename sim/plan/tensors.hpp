// The contents of a plan's buffers: logical tensors, the roles of buffers, and the buckets in which parameters travel. Verification,
// memory, the optimizer, checkpoints and kernels read these; the names of buffers, ops, blocks and communicators are for people.
#pragma once

#include "sim/graph/parameter.hpp"
#include "sim/plan/work.hpp"

#include <cstdint>
#include <string>
#include <vector>

namespace orrery {

using TensorId = std::int32_t; // index in Plan::tensors

// A parameter of the model, one entry for all ranks and stages that hold it or a part of it. Its gradient, master copy and moments are
// roles of the buffers that name it.
struct LogicalTensor {
    std::string name; // unique: "l17.qkv.weight"; checkpoints and first values know the tensor by it
    TensorUse use = TensorUse::weight;
    Initial initial = Initial::normal;
    bool trained = true; // else it has no gradient and no optimizer states, and nothing writes it
};
constexpr bool has_vocabulary_rows(const LogicalTensor& t) { return t.use != TensorUse::weight; }

enum class Role : std::uint8_t {
    activation,          // of a microbatch: a value, its gradient, or what stands between them
    batch,               // token ids; Buffer::ahead says which
    counts,              // how many rows go to each expert
    parameter,           // Buffer::tensor, whole but for what tensor and expert parallelism divide
    parameter_shard,     // a rank's part of Buffer::bucket's parameters
    secondary_shard,     // of Buffer::bucket's parameters, over fewer ranks: what later gathers of the step read
    gathered_parameters, // all parameters of the bucket, side by side
    gradient,            // of Buffer::tensor, as parameter: the sum over the microbatches
    gradient_shard,      // a rank's part of the bucket's gradients
    flat_gradients,      // all gradients of the bucket, side by side
    gradient_part,       // what one of several reductions leaves, before it is added to the shard
    gradient_summands,   // of some slices of the bucket, one behind the other those of several ranks, not added yet
    gradient_slices,     // and their sums, of which the next exchange takes a slice to each rank
    gradient_summand,    // of one microbatch, before it is added to the gradient
    gradient_factor,     // P or Q of the matrices of a bucket, one behind the other, or the bucket's other tensors (low_rank.hpp)
    factor_start,        // the Q that the next step's factors start from
    gradient_places,     // where in a bucket the elements lie that are sent
    gradient_scale,      // of signs that travel
    gradient_error,      // a rank's own: what of its gradients was not sent, and is added to the next step's
    sum_error,           // of the slice that a rank adds up: what of the sum was not sent
    padding,             // after a bucket's tensors, so that its shards are whole
    master,              // the optimizer's own copy of what it steps on; like its moments one after the other, as the step names them
    master_copy,         // on the device, of a master that the host steps on
    first_moment,
    second_moment,
    wide_moments, // copies of moments in fp32 that a step needs room for
    gradient_norm,
    clipping_factor,
    tensor_norms,     // a pair a tensor (OptimizerStep)
    outer_parameters, // of workers: what they had in common when they last met
    outer_momentum,   // of the optimizer that steps on their mean
    pseudo_gradient,  // what a worker moved away from what they had in common
    step_gradients,   // copies of gradients side by side that a step makes for itself
};
constexpr bool is_optimizer_state(Role r) { return r == Role::master || r == Role::first_moment || r == Role::second_moment; }
// Sums that are followed from the backward pass to the optimizer: of whole tensors or of a bucket.
constexpr bool is_gradient(Role r) {
    return r == Role::gradient || r == Role::gradient_shard || r == Role::flat_gradients || r == Role::gradient_part ||
           r == Role::gradient_summands || r == Role::gradient_slices || r == Role::gradient_factor;
}

// A tensor's place in a bucket, in elements; in bytes times those of an element of the bucket's buffer.
struct BucketTensor {
    TensorId tensor;
    BufferId parameter, gradient;
    std::int64_t begin, end;
};

// Parameters that are reduced, gathered and sharded together. They lie side by side in the order of `tensors`, padding after them. Where
// they are sharded, member i of `reduce` (and of `gather`) owns elements [i shard, (i + 1) shard): it keeps their gradients' sums, updates
// them and sends them to the others.
struct TensorBucket {
    std::string name; // "c0.u3", unique in its stage
    std::int16_t stage = 0, chunk = 0;
    bool expert = false; // its communicators are of the experts' mesh
    std::vector<BucketTensor> tensors;
    std::int64_t shard = 0;             // elements of each, padding included; 0: every member has the whole bucket
    CommId reduce = -1, replicate = -1; // sums gradients over those that share it; then over the copies of a shard; -1: none
    CommId gather = -1;                 // of updated parameters; -1: none
    CommId gather_again = -1;           // later in the step, from secondary shards; -1: over the same ranks
    DType reduced_in = DType::fp32, gathered_in = DType::bf16; // dtypes on the wire
};

} // namespace orrery
