// The work of an op: one std::variant both interpreters must handle, with shapes local to a rank.
// FLOPs follow from the shapes here (a multiply-add is two); bytes follow from an op's buffers (plan.hpp).
#pragma once

#include "sim/graph/dropout_site.hpp"
#include "sim/scenario/practice.hpp"
#include "sim/scenario/scenario.hpp"
#include "topology/units.hpp"

#include <cstdint>
#include <variant>
#include <vector>

namespace orrery {

using CommId = std::int16_t;   // index in Plan::communicators
using BufferId = std::int32_t; // index in Plan::buffers

enum class Direction : std::uint8_t { forward, backward, input_gradient, weight_gradient };

// forward: C[m,n] = A[m,k] W[n,k]^T.  input_gradient: dA[m,k] = dC[m,n] W.  weight_gradient: dW[n,k] += dC^T A.
// m, n, k are always the forward's; the GEMM actually run is gemm_shape() below. groups > 1: that many such GEMMs in one kernel.
struct Linear {
    Direction direction;
    std::int64_t m, n, k;
    std::int64_t groups = 1;
    DType dtype = DType::bf16;
    DType out_dtype = DType::bf16;
    bool accumulate = false;
    std::int64_t first = -1; // >= 0: of what has all rows (its input, or the gradient of that) it works on the m rows from this one on
};
struct GemmShape {
    std::int64_t m, n, k;
};
GemmShape gemm_shape(const Linear& l);

// One batched GEMM of unfused attention: batch x [m,k] x [k,n]. part: which of them. forward: q k^T, p v; then of the adjoint dy v^T,
// p^T dy, ds k, ds^T q.
struct Matmul {
    enum class Part : std::uint8_t { scores, context, d_probabilities, d_values, d_queries, d_keys };
    Direction direction;
    std::int64_t batch, m, n, k;
    DType dtype = DType::bf16;
    bool causal = false;
    Part part = Part::scores;
};

// Fused (flash) attention. heads and kv_heads are this rank's. share: the part of the full seq_q x seq_kv square that is
// computed: (about) 1/2 for causal, w/s for a window, a table over context ranks later. behind: the keys are those of the context rank
// `behind` ranks before this one (ring attention).
struct Attention {
    Direction direction;
    std::int64_t batch, seq_q, seq_kv, heads, kv_heads, qk_dim, v_dim;
    bool causal;
    double share;
    DType dtype;
    AttentionKernel kernel;
    double dropout;
    std::int16_t behind = 0;
};

// Row softmax of unfused attention's scores (scale and mask included).
struct Softmax {
    Direction direction;
    std::int64_t rows, cols;
    bool causal;
    bool fused;
};
// Works on rows' first columns; with heads > 0, on each query and key head of packed rows on its own: rows counts them all. across:
// packed rows have these many queries and keys, and a norm works on all queries of a row at once, and on all its keys; cols counts both.
struct Norm {
    Direction direction;
    NormKind kind;
    std::int64_t rows, cols;
    bool fused;
    std::int64_t heads = 0;
    bool across = false;
};

enum class PointwiseKind : std::uint8_t {
    gelu,
    relu,
    swiglu,
    geglu,
    bias,
    weighted_bias,
    positions,
    dropout,
    add,
    sum_copies,
    balance,
    bias_dropout_add,
    rope,
    latent_rope,
    weigh,
    clip,
    cast,
    copy,
    zero,
    index,
    merge,
    split,
    narrow,
    cast_columns,
    concat,
    pack,
    unpack,
    clamp,
    average,
    join_columns,
    pad_rows,
    score_rows,
    one_hot,
    by_owner,
    sum_parts,
    own_part,
    difference,
    outer_step,
    add_scaled,
    swap,
    own_share,
    squared_relu,
    softcap
};
// elements: of the larger operand. fused: one kernel; else the framework's eager sequence of kernels. softcap: cap tanh(x / cap).
// merge: two partial results of attention into one, by their log-sum-exps. Copies with an order of their own: split (queries,
// keys and values apart), narrow (the last columns), cast_columns (the first columns, cast), concat (side by side), pack (each row's
// columns apart, rank by rank of those that get them), unpack (the reverse), index (by a list of places, looked up element by element).
// sum_copies: unpack, and the sum of a head's copies. bias: column sums, the adjoint of a bias that another kernel adds. positions: rows of
// a table, added by position; its adjoint sums into the table. balance: adds the gradient of the loss that balances experts' loads. clip:
// gradients scaled to the norm allowed. An activation, weigh and weighted_bias read a probability for each row of experts, its factor.
// clamp: gates (columns 2i) to at most model.activation_clamp, the others to within +- it. latent_rope: latent attention's rotations,
// joined with what is not rotated to queries and keys beside values. epilogue: inside the kernel of the linear that makes what it reads.
// by_expert: a weighted_bias added by a sequence of kernels an expert. average: sums over the workers (Plan::workers), divided by their
// number. join_columns: [ranks x rows][part] to [rows][ranks x part] for tensor-parallel ranks; its adjoint: this rank's columns; with
// input_gradient: a rank's own among zeros, a summand of all (Practice::gathers_heads). pad_rows:
// experts' rows to a layout in which each expert's count is a multiple, by a list of places; out of it with direction input_gradient, and
// the adjoints of both ways: backward, weight_gradient. score_rows: experts' rows times their tokens' probabilities where software
// multiplies there, which the plan's numbers had from the activation: a copy. one_hot: makes, casts or sums a mask of tokens and experts'
// slots (Practice::keeps_masks), which the plan's numbers do without: they move rows by their map. Of buckets: by_owner: slices, each as
// long as a shard, by the rank of a node that sends them on, where they lay node by node: [nodes][ranks][shard] to [ranks][nodes][shard],
// cast. sum_parts: of [parts][n] the n sums. own_part: of what lies side by side in the operands the rank's own part, by its index in the
// communicator that reduces its bucket's gradients or gathers its parameters again; in their own storage it lies there already, and takes
// no time. difference: a - b, b side by side. outer_step: what workers had in common, moved by the mean of what each moved away (DiLoCo).
// add_scaled: a + s b with s LoRA's alpha / rank; its adjoint: s dy. swap: pairs of operands exchange their places, which takes no time.
// own_share: times what the worker weighs among all (Plan::shares), of which one is the mean.
struct Pointwise {
    PointwiseKind kind;
    Direction direction;
    std::int64_t elements;
    bool fused;
    bool epilogue = false, by_expert = false;
    DropoutSite site = DropoutSite::none; // of dropout and bias_dropout_add forward
    double cap = 0;                       // of softcap: x becomes cap tanh(x / cap)
};

struct Embedding {
    Direction direction;
    std::int64_t tokens, hidden, vocab;
};

// Vocabulary-parallel cross-entropy: maximum -> (all-reduce) -> sums of exponentials and the target's logit -> (all-reduce) -> loss;
// gradient: softmax minus one-hot, in place where fused.
struct CrossEntropy {
    enum class Part : std::uint8_t { maximum, sums, loss, gradient } part;
    std::int64_t tokens, vocab;
    bool fused;
    std::int16_t ahead = 1; // of how many tokens ahead it predicts: 1, and more of further tokens
    std::int64_t first = 0; // of the microbatch's tokens (its labels and losses), the first of these
};

// The router of a mixture of experts: scores of every expert, the top k of each token (group by group where `groups` are limited), their
// counts.
struct Router {
    Direction direction;
    std::int64_t tokens, experts, top_k;
    bool sigmoid;
    int groups;
    bool fused;
};
// gather: rows of tokens in the order of their experts. scatter: the sum of each token's rows. sort: rows that came from several ranks,
// by expert (backward: from that order to the other). A row's probability goes its way with it. rows: on the experts' side; tokens: on the
// other.
struct Permute {
    enum class Part : std::uint8_t { gather, scatter, sort } part;
    Direction direction;
    std::int64_t tokens, rows, cols;
    bool fused;
    ExpertRows by = ExpertRows::kernels; // in PyTorch's own indexing a gather's adjoint adds rows one by one
    bool adjoint = false;                // of a sort: it is the backward pass of the other way
};

enum class OptimizerKind : std::uint8_t { sgd, momentum, adam, lamb, lars, muon };
// Layer-wise optimizers (LAMB, LARS) scale each tensor's update by norms of all of it. Where ranks hold parts of tensors these are made
// apart: norms (LAMB: after the moments' update) leaves this rank's summands, an all-reduce adds them, apply takes the step. The table has
// a pair a tensor of the stage, in the order of the plan's list: squares of the weights, and of the direction (LAMB) or the gradient
// (LARS).
// Updates that did not wait for the gradient norm are checked when it is known (SuperOffload): undo takes back a whole step of these same
// gradients where they are to be clipped, by its formulas in reverse, and again takes it with what they are then; else neither does
// anything. undo reads the square of the norm, again the factor.
// Muon works on whole matrices: direction adds gradients to the momentum and leaves what a step is made of, orthogonal makes `matrices` of
// these, of rows x cols each, nearly orthogonal by five Newton-Schulz iterations, apply takes the step.
struct OptimizerStep {
    enum class Part : std::uint8_t { whole, norms, apply, undo, again, direction, orthogonal };
    OptimizerKind kind;
    std::int64_t elements;
    bool fused, on_host;
    Part part = Part::whole;
    bool frozen = false;  // the second moment stays as it is (1-bit Adam and its like)
    bool delayed = false; // its gradients are those of the step before: in the first of all steps there are none, and it does nothing
    std::int64_t matrices = 0, rows = 0, cols = 0; // of Muon: how many this is, and of orthogonal their shape; else parameters
};
constexpr int newton_schulz_iterations = 5; // of Muon: X becomes a X + (b A + c A A) X with A = X X^T on the shorter side
// Gradients made small for their way, and whole again. elements: of what is read whole. rank, min_ratio: of factors (low_rank.hpp).
//   feed       gradients.., [error] -> whole[, rest]: their sum, side by side; rest: the tensors that are not factored
//   feed_momentum  gradients.., moment, [error] -> whole: the next moment's summand of this rank
//   feed_drift common, weights.., moment2, [error] -> whole: what a worker moved, times what Adam divides by (0/1 Adam)
//   project    whole, start -> P = M Q of each matrix;  orthonormal  P -> P;  turn  whole, P -> Q = M^T P
//   expand     P, Q[, rest] -> gradients.., start: P Q^T, and Q for the next step;  miss  whole, gradients.. -> error
//   choose     whole -> values, places: the largest;  spread  values, places -> gradients..: sums of all ranks';  drop  whole, places ->
//              error
//   signs      whole -> signs, scale: the root of the mean square;  unsent  whole, signs, scale -> error
//   sum_signs  signs, scales[, error] -> sum over ranks;  unpack  signs, scales -> whole
//   apply_drift whole, moment2 -> common, weights.., moment (0/1 Adam)
struct Compress {
    enum class Part : std::uint8_t {
        feed,
        feed_momentum,
        feed_drift,
        project,
        orthonormal,
        turn,
        expand,
        miss,
        choose,
        spread,
        drop,
        signs,
        unsent,
        sum_signs,
        unpack,
        apply_drift
    } part;
    std::int64_t elements;
    std::int32_t bucket = -1; // in Plan::buckets: whose matrices it works on
    int rank = 1;
    double min_ratio = 2;
};
// The sum of squares of the inputs, added to the output where that is an input too.
struct GradientNorm {
    std::int64_t elements;
    bool fused;
};

const char* name(Compress::Part p);

enum class CollectiveKind : std::uint8_t { all_reduce, all_gather, reduce_scatter, all_to_all, broadcast, shift, shift_back };
const char* name(CollectiveKind k);
// bytes as nccl-tests counts them: all_reduce the buffer, all_gather the total received, reduce_scatter the total sent,
// all_to_all a rank's whole send buffer, broadcast the message, shift what each member sends to the next one (shift_back: the one before),
// the last to the first. A reduction sums, or takes the `maximum`. copies > 0: an all_to_all of tokens each of which goes to that many
// members, once to each and by one crossing to each node it goes to (DeepEP); the members it may go to are in `groups` parts of which a
// token chooses group_limit. operands: `each` travels on its own, as many out as in (after them the counts of experts' rows where these
// are known); `joined` they are one message on each side (a bucket); `summands` likewise, and of shards of buckets only the elements of
// tensors whose gradients are summands over the communicator's axis. times: modules of the software that each make this collective, one
// after another; the simulator charges all of them, the runtime makes one. tokens: of such an all_to_all, whether tokens go to their
// members, go there again (who gets them is known), or their sums come back. whole: a reduce_scatter that the software makes as an
// all_reduce, of which a rank keeps its part; the simulator charges that, the runtime sends no more than the part.
struct Collective {
    enum class Operands : std::uint8_t { each, joined, summands };
    enum class Tokens : std::uint8_t { go, go_again, come_back };
    CollectiveKind kind;
    CommId comm;
    Bytes bytes;
    DType dtype;
    std::int16_t copies = 0, groups = 1, group_limit = 1;
    bool maximum = false;
    Operands operands = Operands::each;
    std::uint8_t times = 1;
    bool whole = false;
    Tokens tokens = Tokens::go;
};

// One point-to-point transfer of an exchange. The k-th send on a communicator meets the k-th receive on it.
struct Transfer {
    CommId comm;
    bool send;
    Bytes bytes;
    BufferId buffer;
    std::uint8_t port;
};
// Transfers that progress together, as one NCCL group: each moves as soon as its peer has posted its side, and the exchange ends when all
// have.
struct Exchange {
    std::vector<Transfer> transfers;
};

enum class CopyKind : std::uint8_t { device_to_host, host_to_device, host_to_nvme, nvme_to_host };
struct Copy {
    CopyKind kind;
    Bytes bytes;
};
struct HostSync {}; // the host waits for this op's dependencies
struct HostWork {
    Time duration;
}; // data loading and the like, on the host queue
struct Alloc {
    BufferId buffer;
};
struct Free {
    BufferId buffer;
};

using Work = std::variant<Linear, Matmul, Attention, Softmax, Norm, Pointwise, Embedding, CrossEntropy, Router, Permute, OptimizerStep,
                          GradientNorm, Compress, Collective, Exchange, Copy, HostSync, HostWork, Alloc, Free>;

Flops flops(const Work& work);
const char* kind_name(const Work& work); // "linear", "attention", "all-gather", ...: the op kinds of reports and of recompute lists
bool is_memory_op(const Work& work);     // Alloc or Free: no time, only bytes

} // namespace orrery
