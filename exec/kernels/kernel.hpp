// The CPU kernels of the plan's computations: what an executor calls for an op of the compute queue.
//
// Storage. Every floating buffer, whatever its dtype in the plan, holds `KernelContext::real` (fp32 or fp64); int64 and boolean are
// themselves. (On a GPU it may be bf16 or fp16: then every buffer is what the plan says.) A buffer is row-major, contiguous, of the shape
// the plan gives it. Operands stand in the order of Op::in and Op::out; an operand that is both (a view, an accumulated gradient) is given
// twice with the same address, and kernels allow for that.
//
// Layouts, so that a tensor-parallel shard is a contiguous part of the logical tensor along the placement's dimension:
//   packed q, k, v   columns by group of a key head: its queries, then its key, then its value (Megatron's; one group a head in MLA)
//   q | kv | k, v    parts: heads in order; kv: all keys, then all values
//   gated fc1        columns 2i and 2i+1: gate i and what it multiplies
//   scores           [heads][batch][seq_q][seq_kv], whatever the shape says
//   tokens           rows by sequence of the microbatch, then position; see tokens.hpp for who holds which
//   gathered tokens  (along context ranks) rank by rank, each as the rank has them
// Operands by work (dy: the output's gradient; [x]: where the model has it; a/b: in place):
//   Linear           fwd x, w[, bias] -> y[, copies of x]          dx: dy, w -> dx          dw: dy, x[, g] -> g (accumulate: g +=)
//   Matmul (part)    scores: qkv -> s   context: p, qkv -> o   d_probabilities: dy, qkv -> dp   d_values: p, dy -> dqkv
//                    d_queries: ds, qkv, dqkv -> dqkv   d_keys: ds, qkv, dqkv -> dqkv
//   Attention        fwd qkv | q, kv | q, k, v -> o, lse        bwd dy, (as fwd), o, lse -> (gradients as fwd)
//   Softmax          fwd s -> p     bwd dp, p -> ds
//   Norm             fwd x, w[, b] -> y, statistics   bwd dy, x, statistics, w[, gw[, gb]] -> dx[, gw[, gb]]   (g +=; none where w is not
//   trained)
//                    of heads: x, q weight, k weight -> y, statistics   bwd dy, x, statistics, qw, kw, gq, gk -> dx, gq, gk
//   Pointwise        activation f -> a, dy, f -> df;  bias dy, g[, counts] -> g (+= column sums)
//                    positions x, table -> x + table[position]; dy, g -> g (+= by position)
//                    dropout x -> y, mask; dy, mask -> dx;  bias_dropout_add branch, x[, bias] -> y[, mask]; dy, mask -> dbranch
//                    add a, b -> sum;  add_scaled y, b -> y + s b; dy -> s dy;  merge o, lse, o, lse -> o, lse
//                    rope: packed -> packed or parts; latent: q, kv, key -> packed or parts; backward the other way
//                    of experts: activation f, p -> a; dy, f, p -> df, dp;  weigh x, p -> y; dy, x, p -> dx, dp;
//                    weighted_bias x, p, b -> y; dy, b -> dp; dy, p, g -> g;  balance dscores, scores, counts -> dscores
//                    clip norm^2, g.. -> factor (0: overflow of fp16), g..;  cast, copy (list or one -> list or one);  zero -> list
//   Embedding        fwd tokens, table -> x      dw: tokens, dy, g -> g
//   CrossEntropy     maximum: logits -> max   sums: logits, max, labels -> e, (sum, target)[, log-softmax]   loss: (sum, target) -> loss
//                    gradient: e, (sum, target), labels[, ..] -> dlogits[, fp32]
//   Router           logits[, bias] -> scores (of all), map, counts      bwd: dscores, scores, map[, g] -> dlogits[, g]
//   Permute          gather: x, map, scores -> rows, p;  dy, map -> drows      scatter: rows, map -> y;  drows, dp, map, scores -> dx,
//   dscores
//                    sort: lists[, counts] -> lists
//   counts           [sender][expert], all experts: read last by linears of experts and their biases, by sorts and by collectives of
//                    rows, where they are known; else parts are equal. Senders: see rows.hpp
//   GradientNorm     g.. -> sum of squares     OptimizerStep  g..[, factor], [master,] moments[, room] -> w.., [master,] moments
//                    of a host: without a master w.. after moments, too; or master, moments alone written
//                    undo g.., norm^2, [master,] moments -> w.., [master,] moments
//                    norms: g.., w.. | master, moments (LAMB) -> norms, moments (LAMB)
//                    apply: [g.. (LARS),] norms, [master,] moments -> w.., [master,] moment (LARS)
#pragma once

#include "exec/kernels/facts.hpp"
#include "sim/plan/plan.hpp"

#include <cstddef>
#include <span>

namespace orrery {

struct Operand {
    std::byte* data = nullptr;
    const Buffer* buffer = nullptr;
    BufferId id = -1;
};

struct BucketLayouts; // buckets.hpp
class Team;           // team.hpp
struct LossScale;     // loss_scale.hpp

struct KernelContext {
    const Plan& plan;
    const KernelFacts& facts;
    const BucketLayouts& buckets;
    DType real = DType::fp32;        // fp32 or fp64
    Coordinates at{};                // of the rank in plan.mesh
    Coordinates expert_at{};         // and in plan.expert_mesh
    std::int64_t first_sequence = 0; // in the step's global batch: the first of the op's microbatch on this rank
    std::int64_t step = 0;           // from 0
    bool rounds = false;             // fp32: what is written to a buffer that the plan has in bf16 or fp16 is rounded to it (rounding.hpp)
    Team* team = nullptr;            // shares the rank's kernels; null: its one thread runs them
    LossScale* scaling = nullptr;    // the rank's, of a training in fp16; null: the loss is not scaled
};

bool is_floating(DType t);
std::size_t stored_bytes(DType t, DType real); // of an element
DType stored_type(DType t, DType real);        // what a buffer of that type holds: real; where that is of 16 bits (a GPU's), the plan's
std::uint16_t to_bf16(float x);                // to nearest, ties to even
float from_bf16(std::uint16_t x);
std::uint16_t to_fp16(float x); // to nearest, ties to even; from 65520 on infinity
float from_fp16(std::uint16_t x);
double read_element(const std::byte* data, std::int64_t i, DType stored); // of fp32, fp64, bf16, fp16
void write_element(std::byte* data, std::int64_t i, double value, DType stored);
std::int64_t elements(const Buffer& b); // by its shape

// Runs a computation. Collectives, exchanges, copies, host work, Alloc and Free are the executor's: they abort here.
void run_kernel(const Op& op, std::span<const Operand> in, std::span<const Operand> out, const KernelContext& context);

// The first values of a rank's part of a parameter: normal(0, 0.02) by the tensor's name and the element's global index, those of output
// projections divided by sqrt(2 layers) (GPT-2); norms' weights 1, biases 0. Rows that only pad a vocabulary are 0.
void initialise(const Operand& parameter, const KernelContext& context);

// The first Q of a bucket's matrices: normal(0, 1) by tensor and element, the same on all ranks.
void initialise_factors(const Compress& project, const Operand& start, const KernelContext& context);

const char* gemm_library(); // "OpenBLAS 0.3.21 (Haswell)" or "Eigen 3.4": for the trace's header

} // namespace orrery
