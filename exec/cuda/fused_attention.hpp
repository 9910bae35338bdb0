// Fused attention (SDPA) as a graph of cuDNN's, forward and backward, in bf16 or fp16: the pattern its fused engines know, made of
// products, pointwise operations and reductions, for its unified node takes no causal mask before 9.21 and has no backward. Internal; plain
// C++.
#pragma once

#include "exec/cuda/cudnn_graph.hpp"

#include <memory>

namespace orrery::cuda {

// Strides in elements, by batch, head, row; columns follow each other. Statistics are by batch, head, row.
struct Strided {
    std::int64_t batch = 0, head = 0, row = 0;
    auto operator<=>(const Strided&) const = default;
};

struct FusedShape {
    std::int64_t batch = 1, heads = 1, kv_heads = 1, rows = 1, keys = 1, dim = 64;
    bool causal = true;
    Strided q, k, v, o, statistics; // statistics: log-sum-exp of the scaled scores, fp32
    Strided dy, dq, dk, dv;         // backward; dk and dv are by head of the queries
    bool half = false;              // fp16 in place of bf16
    auto operator<=>(const FusedShape&) const = default;
};

struct FusedForward {
    FusedForward(const Cudnn& lib, GraphTarget target, const FusedShape& shape);
    CudnnGraph graph;
    CudnnGraph::Tensor q, k, v, o, statistics, scale, masked;
};

// Gradients of queries are added up in memory, in fp32 and in whatever order; the other way, which keeps the scores' gradients (rows x keys
// of every head) and has one order, was no faster on an H200. dk and dv come for every head of the queries: heads that share a key are
// added by whoever calls.
struct FusedBackward {
    FusedBackward(const Cudnn& lib, GraphTarget target, const FusedShape& shape);
    CudnnGraph graph;
    CudnnGraph::Tensor q, k, k_transposed, v_transposed, o, dy, statistics, dq, dk, dv, one, scale, masked, gradient_scale;
    CudnnGraph::Tensor dq_sum; // fp32, [batch, heads, rows, dim] without gaps
};

} // namespace orrery::cuda
