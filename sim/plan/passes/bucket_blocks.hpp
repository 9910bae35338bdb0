// The blocks of buckets and the buffers they work on: what reduces gradients, gathers parameters, releases and acquires them.
#pragma once

#include "sim/plan/lowering.hpp"

#include <string>
#include <vector>

namespace orrery {

Op comm_op(std::string name, CollectiveKind kind, CommId comm, Bytes bytes, DType dtype, Phase phase, std::vector<BufferId> in,
           std::vector<BufferId> out, Collective::Operands operands = Collective::Operands::joined);
Op pointwise_op(std::string name, PointwiseKind kind, std::int64_t elements, Phase phase, std::vector<BufferId> in,
                std::vector<BufferId> out);
Op memory_op(Work work, Phase phase);
Op memory_op_beside(Work work, const Op& op); // of its phase, layer, unit and port
std::string bucket_name(const Bucket& b);     // "c0.u3"

// How many collectives software makes of a bucket's, one after another (Collective::times), and of how many elements: DeepSpeed's ZeRO-3
// (Practice::copies_with_collectives) gathers and reduces a unit's parameters neither all at once nor, where a unit is large, once.
struct Calls {
    std::int64_t count = 0, elements = 0;
};
Calls gathers_of(const Lowering& l, const Bucket& b);
Calls further_gathers_of(const Lowering& l, const Bucket& b); // of a backward pass
// Divides the block's collectives of a kind: these all together move as many times their bytes as `calls` are of the bucket's elements.
void divide(const Lowering& l, const Bucket& b, CollectiveKind kind, Calls calls, Block& block);

// Makes them for the buckets of one plan; each block's id goes into its Bucket.
struct BucketBlocks {
    Lowering& l;
    const DataParallel& dp;
    DType grad_dtype, act; // gradients are reduced in the one, parameters gathered in the other

    void lay_out(Bucket& b);     // its entry in the plan: how its tensors lie in it
    void make_shards(Bucket& b); // the buffers of this rank's part, and padding
    // Whether the first of a step's several reductions of a bucket starts a new sum, as autograd does, instead of adding to one.
    bool begins_anew(const Bucket& b) const;
    void make_reduce(Bucket& b);
    void make_gather(Bucket& b);    // and copies out of the gathered buffer, and releases, where parameters are gathered in each pass
    void make_secondary(Bucket& b); // after make_gather: a second copy over near ranks, and the block that gathers it
    void make_acquire(
        Bucket& b); // where gradients live only for a run of backward steps, or from the first of a step until the next step begins
    std::vector<BufferId> gradients(const Bucket& b) const;

  private:
    std::vector<BufferId> weights(const Bucket& b) const;
    DType compressed() const;
    BufferId flatten(const Bucket& b, const char* what, DType dtype, const std::vector<BufferId>& whole, Block& out);
    static void copy_beside(std::string name, const Bucket& b, const std::vector<BufferId>& list, Block& out);
    BufferId flatten_unit(const Bucket& b, DType dtype, const std::vector<BufferId>& whole, Block& out);
    void reduce_compressed(Bucket& b, DType low, CommId comm, const std::vector<BufferId>& whole, Block& out);
    bool reduce_smaller(Bucket& b, CommId comm, const std::vector<BufferId>& whole, Block& out);
    bool scatter_smaller(Bucket& b, CommId comm, const std::vector<BufferId>& whole, BufferId part, Block& out);
    void add_replicas(Bucket& b, BufferId part, Block& out);
    static void add_to_sum(const Bucket& b, BufferId part, QueueId queue, Block& out);
    Block first_reduction(const Bucket& b, BufferId part) const;
    BufferId cast_shard(Bucket& b, Block& out);
    static void copy_in_place(std::string name, const Bucket& b, CommId comm, Phase phase, const std::vector<BufferId>& list, Block& out);
    Block replicate_block(Bucket& b, BufferId part);
    Block drop_block(const Bucket& b, BufferId flat_copy) const;
    // Made of whole numbers in blocks: passes/bucket_exchange.cpp.
    struct Level {
        CommId comm;
        int ranks;
    };
    std::vector<Level> levels(const Bucket& b);
    void exchange(Bucket& b, DType low, const std::vector<Level>& levels, std::vector<BufferId> whole, BufferId into, QueueId first,
                  Block& out);
    void reduce_in_blocks(Bucket& b, DType low, CommId comm, const std::vector<BufferId>& whole, Block& out);
    struct Near {
        BufferId packed, own; // what ranks of a node have of the bucket; its sum that is this rank's
    };
    Near reduce_near(Bucket& b, std::vector<std::int64_t> part, const std::vector<BufferId>& whole, Block& out);
    void reduce_between_nodes(Bucket& b, DType low, const std::vector<BufferId>& whole, Block& out);
    void scatter_between_nodes(Bucket& b, DType low, const std::vector<BufferId>& whole, BufferId into, Block& out);
    // Buckets that travel as something else: passes/bucket_compress.cpp.
    BufferId kept_error(const Bucket& b);
    void reduce_low_rank(Bucket& b, CommId comm, const std::vector<BufferId>& whole, Block& out);
    void reduce_largest(Bucket& b, CommId comm, const std::vector<BufferId>& whole, Block& out);
    void gather_in_blocks(Bucket& b, DType low, CommId comm, BufferId shard, int shards, const std::vector<BufferId>& into, Block& out);
    BufferId short_lived(const Bucket& b, const std::string& name, Role role, std::vector<std::int64_t> shape, DType dtype);
    Bytes gathered_bytes(const Bucket& b) const;
    void gather_low(const Bucket& b);
    void gather_as_called(Bucket& b, Block out);
    const Parameter& parameter(const Bucket& b, std::int32_t i) const { return l.parameters[b.stage][i]; }
    TensorBucket& planned(const Bucket& b) const { return l.plan.buckets[b.id]; }
    CommId communicator(const Bucket& b, std::string name, AxisMask axes) const;
    Block block(const Bucket& b, BlockKind kind, const char* what) const;
    BufferId flat(const Bucket& b, const std::string& name, Role role, std::int64_t elements, DType dtype, MemoryKind kind, Scope scope,
                  PlacementKind over_shards);
    void pad(const Bucket& b, BufferId first, const char* name);
};

} // namespace orrery
