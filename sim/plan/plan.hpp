// The plan: what both interpreters run. Blocks of ops over named buffers, and per pipeline rank a program: an ordered list of
// actions, each binding microbatches to a block. lower.hpp makes it from a scenario; verify.hpp proves it before anything runs.
#pragma once

#include "sim/graph/mesh.hpp"
#include "sim/graph/placement.hpp"
#include "sim/plan/tensors.hpp"
#include "sim/plan/work.hpp"
#include "topology/indexed.hpp"

#include <array>
#include <cstdint>
#include <string>
#include <vector>

namespace orrery {

// run: parameters, optimizer states. step: gradients. microbatch: one instance per (chunk, microbatch), from its first write to its
// last read, which may be in another block. action: inside one action. Gradients that are allocated in a step begin as zero.
enum class Scope : std::uint8_t { run, step, microbatch, action };
enum class MemoryKind : std::uint8_t { parameters, gradients, optimizer_states, activations, communication, workspace };
inline constexpr int memory_kind_count = 6;
const char* name(MemoryKind k);
enum class Space : std::uint8_t { device, host, nvme };

struct Buffer {
    std::string name;                // for people; unique in its stage: "c3.l17.qkv", "w.l17.qkv", "g.l17.qkv"
    std::vector<std::int64_t> shape; // local to a rank
    DType dtype = DType::bf16;
    Bytes bytes;           // padding included
    BufferId storage = -1; // >= 0: a view of that buffer's storage (an in-place result); has no Alloc of its own
    MemoryKind kind = MemoryKind::activations;
    Space space = Space::device;
    Scope scope = Scope::action;
    bool freed_by_send = false; // its Free stands after the transfer that sends it
    bool expert = false;        // its placement is over the experts' mesh
    std::int16_t stage = 0;
    std::int16_t chunk = -1;
    Placement placement;
    Role role = Role::activation;
    std::int16_t ahead = -1;  // of a batch: how many tokens ahead of a row's own its ids are
    TensorId tensor = -1;     // of a parameter, a gradient and its summand
    std::int32_t bucket = -1; // in Plan::buckets: it is a part of that, or lies in it
    std::int16_t version = 0; // of a parameter that a stage holds several versions of
    CommId part_of = -1;      // of a view that is one part of its storage: over the members of this, in order
};

// comm is a queue of its own per communicator; see queue_of().
using QueueId = std::int16_t;
inline constexpr QueueId compute_queue = 0, d2h_queue = 1, h2d_queue = 2, host_queue = 3, from_disk_queue = 4, to_disk_queue = 5,
                         first_comm_queue = 6;
constexpr QueueId queue_of(CommId c) { return static_cast<QueueId>(first_comm_queue + c); }

// The purpose of an op: decides its category in the report's breakdown.
enum class Phase : std::uint8_t {
    forward,
    recompute,
    backward_input,
    backward_weight,
    exchange,
    gradient_reduce,
    param_gather,
    optimizer,
    offload
};
const char* name(Phase p);

struct Op {
    Work work;
    QueueId queue = compute_queue; // an Exchange occupies the queues of all its transfers
    Phase phase = Phase::forward;
    std::int16_t layer = -1; // global layer index, -1: none
    std::int16_t unit = 0;   // the unit of the block it belongs to; units are contiguous
    std::uint8_t port = 0;   // which of the action's microbatches it works on
    // A gather and the linear that reads it run in this number of pieces, overlapped, where the framework does so (Transformer Engine's
    // user buffers): the simulator lets the two overlap. The runtime has no such kernels and runs one after the other; the deps stay.
    std::uint8_t pieces = 1;
    std::uint8_t modules = 1;       // modules of the software that it stands for (queries, keys and values may be a linear each)
    bool of_adapter = false;        // LoRA's: A, or the dropout ahead of it, whose rows are those of the linear that it is beside
    double share = 1;               // of the steps in which it has something to do: its time is that share of it in the mean of all steps
    bool eager = false;             // no captured graph can hold it: what it works on depends on counts the host had to wait for
    bool mlp_border = false;        // before it, attention and MLP of a layer without experts meet: joined steps may change sides there
    std::vector<BufferId> in, out;  // in the kernel's documented order
    std::vector<std::int32_t> deps; // earlier ops of this block it waits for, beyond its queue's order
    std::string name;               // "l17.qkv.fwd"
};

enum class BlockKind : std::uint8_t { forward, backward, weight, exchange, reduce, gather, release, optimizer, other };

// An action of a block made of others stands for a whole action of each of them, with the microbatch of its port.
using BlockId = std::int32_t; // index in Plan::blocks
struct BlockPart {
    BlockId block;
    std::uint8_t port;
};

// An op graph in issue order. Ops of one queue run in this order.
struct Block {
    std::string name; // "F3", "B3", "W3", "(F3;B2)", "X:..", "reduce:b2"
    BlockKind kind = BlockKind::other;
    std::int16_t stage = 0, chunk = -1;
    bool blocking = false;    // an exchange (sends included) or a gather that the computation after it waits for
    std::int16_t version = 0; // of the parameters it reads, or of an optimizer's block writes, where a stage holds several
    Indexed<std::int32_t, Op> ops;
    std::vector<std::int32_t> unit_begin{}; // first op of each unit (a layer, or the ops before or after the layers); empty: one unit
    std::vector<BlockPart> parts{};         // it has their ops, interleaved; empty: it is no other's
};

inline constexpr int max_ports = 4;

// One run of ops [first, last) of a block, with a microbatch on each port (-1: none).
struct Action {
    std::int32_t block = 0;
    std::int32_t first = 0, last = 0;
    std::array<std::int32_t, max_ports> microbatch{-1, -1, -1, -1};
    std::int32_t deps_begin = 0, deps_end = 0; // in Program::deps
};

// op `op` (index in its block) of the action that holds this waits for op `on_op` of action `on_action` of the same program;
// on_action < 0 means the previous step's action at actions.size() + on_action. Only across queues: a queue's own order needs none.
struct ActionDep {
    std::int32_t op, on_action, on_op;
};

struct Program {
    std::int16_t stage = 0;
    Indexed<std::int32_t, Action> actions; // one step, in issue order
    std::vector<ActionDep> deps;
    std::vector<std::int32_t> step_begins{}; // of an unrolled round: the first action of each training step but the first
};

// Programs that all ranks run `repeat` times, one run after the other.
struct PlanPhase {
    static constexpr std::int32_t before = -1, nothing = -2;
    std::vector<Program> programs; // one per pipeline rank; of training steps none: they are the plan's own
    std::int64_t repeat = 1;
    bool steps = false; // runs of Plan::programs
    // It begins when Plan::further[behind] has ended (and the phase before it, where parameters are sharded: gathers of steps read the
    // shards that it writes); before: when the phase before it has; nothing: at once.
    std::int32_t behind = before;
};

// Ranks that agree on every axis outside `axes` form one instance. With pp in `axes` only the ranks of `stages` belong to it, in that
// order.
struct Communicator {
    std::string name; // for people: "tp", "dp.reduce", "dp.gather", "pp.up.3", "pp.down.3", "embedding", "norm"
    AxisMask axes = 0;
    std::vector<std::int16_t> stages; // empty: each stage has its own instances
    bool expert = false;              // its axes are the experts' mesh's
};

struct Plan {
    std::string name;
    Mesh mesh;
    Mesh expert_mesh; // the same ranks as experts see them: tp is expert-tensor, dp expert-data parallelism; pp is common
    int stages = 1, chunks_per_stage = 1;
    int directions = 1;            // pipelines through the same ranks: equal shares of the chunks, in order, each of a copy of the model
    std::int64_t microbatches = 1; // of all directions, in equal shares, in order
    Indexed<CommId, Communicator> communicators;
    Indexed<TensorId, LogicalTensor> tensors;
    Indexed<std::int32_t, TensorBucket> buckets;
    Indexed<BufferId, Buffer> buffers;
    Indexed<BlockId, Block> blocks;
    // A round, over and over: the training step of `programs` so many times, then each further phase. A phase begins on a rank when all
    // that the rank runs of the phase before has ended (PlanPhase::behind). Ordinary training has rounds of one step. rounds.hpp unrolls a
    // round.
    std::vector<Program> programs; // one per pipeline rank: all ranks of a stage run the same one
    std::int64_t repeat = 1;       // runs of `programs` in a round
    std::vector<PlanPhase> further{};
    std::int64_t steps = 1;       // training steps of one run of `programs`: of an unrolled plan all of its round
    AxisMask workers = 0;         // axes of workers: each trains parameters of its own, which meet in a further phase only
    bool apart = false;           // .. or outside the plan, worker by worker
    bool served = false;          // .. where servers update them: no step of an optimizer is here
    std::vector<double> shares{}; // by worker: how much it weighs, one in the mean; empty: all weigh alike
};

BufferId storage(const Plan& plan, BufferId b); // the buffer whose bytes b names: b itself but for views

// The storages that an access of b may touch beside its own: a shard in place is a part of its bucket's memory and names the first tensor's
// storage, but where it begins differs from rank to rank, so that it may lie in any of the bucket's tensors.
template <class F> void each_further_storage(const Plan& plan, BufferId b, F&& f) {
    const Buffer& x = plan.buffers[b];
    if (x.storage < 0 || x.bucket < 0 || (x.role != Role::parameter_shard && x.role != Role::gradient_shard)) return;
    const BufferId own = storage(plan, b);
    for (const BucketTensor& t : plan.buckets[x.bucket].tensors)
        if (const BufferId other = storage(plan, x.role == Role::gradient_shard ? t.gradient : t.parameter); other != own) f(other);
}
// All of them, its own first.
template <class F> void each_storage(const Plan& plan, BufferId b, F&& f) {
    f(storage(plan, b));
    each_further_storage(plan, b, f);
}

// (members) Ranks of the instance of communicator c that `rank` belongs to, in the communicator's order; empty where it is not a member.
std::vector<int> members(const Plan& plan, CommId c, int rank);
const Mesh& mesh_of(const Plan& plan, const Communicator& comm);
// Ranks counted stage by stage, inside a stage in rank order. Steps along axes add up in this count whatever the rank order, and where
// the axes of experts, which fold over a stage's ranks, cross the stride of the pipeline.
int stage_major(const Plan& plan, int rank);
int rank_at(const Plan& plan, int stage_major);
class Places { // rank_at() of many
  public:
    explicit Places(const Plan& plan);
    int rank(int stage_major) const;

  private:
    int inside_, stages_, of_a_stage_;
};
// How far apart in that count the members of `comm` along one axis are: the i-th from the 0-th, for each i.
std::vector<int> steps_along(const Plan& plan, const Communicator& comm, Axis axis);
int size(const Plan& plan, CommId c); // members of each instance

// Short stable text: one line an op (what `simrun plan` prints, and golden tests compare).
std::string to_text(const Plan& plan);
std::string to_text(const Plan& plan, const Block& block);
// "2: F0 F1 B0 F2 B1": a program as its actions.
std::string to_text(const Plan& plan, const Program& program);

std::uint64_t hash(const Plan& plan); // of its whole text form: what traces and ranks compare

} // namespace orrery
