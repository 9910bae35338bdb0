#include "exec/cuda/fused_attention.hpp"

namespace orrery::cuda {
namespace {

using Tensor = CudnnGraph::Tensor;

constexpr auto fp32 = CUDNN_DATA_FLOAT;

cudnnDataType_t narrow_of(const FusedShape& s) { return s.half ? CUDNN_DATA_HALF : CUDNN_DATA_BFLOAT16; }

Dims strides(const Strided& s) { return {s.batch, s.head, s.row, 1}; }
Dims transposed(const Strided& s) { return {s.batch, s.head, 1, s.row}; }
Dims column(const Strided& s) { return {s.batch, s.head, s.row, 1}; } // of one column

// Scores times the scale; where causal, those of keys after the query are replaced by `masked`.
Tensor scores(CudnnGraph& g, const FusedShape& s, Tensor q, Tensor k_transposed, Tensor& scale, Tensor& masked) {
    const Dims square{s.batch, s.heads, s.rows, s.keys};
    Tensor x = g.matmul(q, k_transposed, g.between(square, fp32));
    scale = g.scalar();
    x = g.pointwise(CUDNN_POINTWISE_MUL, x, g.between(square, fp32), scale);
    masked = -1;
    if (!s.causal) return x;
    masked = g.scalar();
    const Tensor row = g.index(x, g.between(square, CUDNN_DATA_INT32), 2), key = g.index(x, g.between(square, CUDNN_DATA_INT32), 3);
    const Tensor sees = g.pointwise(CUDNN_POINTWISE_CMP_GE, row, g.between(square, CUDNN_DATA_BOOLEAN), key);
    return g.pointwise(CUDNN_POINTWISE_BINARY_SELECT, x, g.between(square, fp32), masked, sees);
}

} // namespace

FusedForward::FusedForward(const Cudnn& lib, GraphTarget target, const FusedShape& s) : graph(lib, std::move(target)) {
    CudnnGraph& g = graph;
    const cudnnDataType_t narrow = narrow_of(s);
    const Dims square{s.batch, s.heads, s.rows, s.keys}, one_each{s.batch, s.heads, s.rows, 1};
    q = g.tensor({s.batch, s.heads, s.rows, s.dim}, strides(s.q), narrow);
    k = g.tensor({s.batch, s.kv_heads, s.dim, s.keys}, transposed(s.k), narrow);
    v = g.tensor({s.batch, s.kv_heads, s.keys, s.dim}, strides(s.v), narrow);
    const Tensor x = scores(g, s, q, k, scale, masked);
    const Tensor top = g.reduce(CUDNN_REDUCE_TENSOR_MAX, x, g.between(one_each, fp32));
    const Tensor below = g.pointwise(CUDNN_POINTWISE_SUB, x, g.between(square, fp32), top);
    const Tensor exponential = g.pointwise(CUDNN_POINTWISE_EXP, below, g.between(square, fp32));
    const Tensor sum = g.reduce(CUDNN_REDUCE_TENSOR_ADD, exponential, g.between(one_each, fp32));
    const Tensor log = g.pointwise(CUDNN_POINTWISE_LOG, sum, g.between(one_each, fp32));
    statistics = g.pointwise(CUDNN_POINTWISE_ADD, top, g.tensor(one_each, column(s.statistics), fp32), log);
    const Tensor probabilities = g.pointwise(CUDNN_POINTWISE_DIV, exponential, g.between(square, narrow), sum);
    o = g.matmul(probabilities, v, g.tensor({s.batch, s.heads, s.rows, s.dim}, strides(s.o), narrow));
}

// delta = sum(dy o); p = exp(scores - statistics); dv = p^T dy; ds = p (dy v^T - delta) scale; dk = ds^T q; dq = ds k
FusedBackward::FusedBackward(const Cudnn& lib, GraphTarget target, const FusedShape& s) : graph(lib, std::move(target)) {
    CudnnGraph& g = graph;
    const cudnnDataType_t narrow = narrow_of(s);
    const Dims values{s.batch, s.heads, s.rows, s.dim}, square{s.batch, s.heads, s.rows, s.keys}, one_each{s.batch, s.heads, s.rows, 1};
    const Dims turned{s.batch, s.heads, s.keys, s.rows}, turned_strides{s.heads * s.rows * s.keys, s.rows * s.keys, 1, s.keys},
        keys{s.batch, s.heads, s.keys, s.dim};
    q = g.tensor(values, strides(s.q), narrow);
    k = g.tensor({s.batch, s.kv_heads, s.keys, s.dim}, strides(s.k), narrow);
    k_transposed = g.tensor({s.batch, s.kv_heads, s.dim, s.keys}, transposed(s.k), narrow);
    v_transposed = g.tensor({s.batch, s.kv_heads, s.dim, s.keys}, transposed(s.v), narrow);
    o = g.tensor(values, strides(s.o), narrow);
    dy = g.tensor(values, strides(s.dy), narrow);
    statistics = g.tensor(one_each, column(s.statistics), fp32);
    one = g.scalar();
    Tensor delta = g.pointwise(CUDNN_POINTWISE_MUL, dy, g.between(values, fp32), o);
    delta = g.reduce(CUDNN_REDUCE_TENSOR_ADD, delta, g.between(one_each, fp32));
    delta = g.pointwise(CUDNN_POINTWISE_MUL, delta, g.between(one_each, fp32), one); // where dropout would stand
    const Tensor x = scores(g, s, q, k_transposed, scale, masked);
    const Tensor below = g.pointwise(CUDNN_POINTWISE_SUB, x, g.between(square, fp32), statistics);
    const Tensor p = g.pointwise(CUDNN_POINTWISE_EXP, below, g.between(square, fp32));
    const Tensor p16 = g.pointwise(CUDNN_POINTWISE_IDENTITY, p, g.between(square, narrow));
    const Tensor p_turned = g.reshape(p16, g.between(turned, turned_strides, narrow));
    dv = g.matmul(p_turned, dy, g.tensor(keys, strides(s.dv), narrow));
    Tensor d = g.matmul(dy, v_transposed, g.between(square, fp32));
    d = g.pointwise(CUDNN_POINTWISE_SUB, d, g.between(square, fp32), delta);
    d = g.pointwise(CUDNN_POINTWISE_MUL, d, g.between(square, fp32), p); // in this order: the other one is no pattern the engines know
    gradient_scale = g.scalar();
    const Tensor ds = g.pointwise(CUDNN_POINTWISE_MUL, d, g.between(square, narrow), gradient_scale);
    const Tensor ds_turned = g.reshape(ds, g.between(turned, turned_strides, narrow));
    dk = g.matmul(ds_turned, q, g.tensor(keys, strides(s.dk), narrow));
    dq_sum = g.matmul(ds, k, g.tensor(values, dense(values), fp32));
    dq = g.pointwise(CUDNN_POINTWISE_IDENTITY, dq_sum, g.tensor(values, strides(s.dq), narrow));
}

} // namespace orrery::cuda
