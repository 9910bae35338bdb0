// GEMMs by cuBLASLt, and what is made of them: linear layers, unfused attention's products.
//
// cuBLASLt is column-major: a row-major C = op(A) op(B) is its C^T = op(B)^T op(A)^T, operands exchanged. Sums are in fp32; fp32 operands
// stay fp32 (tf32 where the plan says so). The algorithm is the heuristics' first for the shape, kept for the run.
#include "exec/cuda/heads.cuh"
#include "exec/kernels/room.hpp"

#include <cstring>
#include <thread>

namespace orrery::cuda {
namespace {

void check_lt(cublasStatus_t s, const char* what) {
    if (s != CUBLAS_STATUS_SUCCESS) throw LibraryFailed(std::string(what) + ": " + cublasLtGetStatusString(s), Cause::device);
}

cudaDataType_t type_of(Kind k) { return k == Kind::bf16 ? CUDA_R_16BF : k == Kind::fp16 ? CUDA_R_16F : CUDA_R_32F; }

cublasLtMatrixLayout_t layout(Kind kind, std::int64_t rows, std::int64_t cols, std::int64_t ld, std::int64_t batch, std::int64_t stride) {
    cublasLtMatrixLayout_t out = nullptr;
    check_lt(cublasLtMatrixLayoutCreate(&out, type_of(kind), static_cast<std::uint64_t>(rows), static_cast<std::uint64_t>(cols), ld),
             "matrix layout");
    const std::int32_t count = static_cast<std::int32_t>(batch);
    check_lt(cublasLtMatrixLayoutSetAttribute(out, CUBLASLT_MATRIX_LAYOUT_BATCH_COUNT, &count, sizeof count), "batch count");
    check_lt(cublasLtMatrixLayoutSetAttribute(out, CUBLASLT_MATRIX_LAYOUT_STRIDED_BATCH_OFFSET, &stride, sizeof stride), "batch stride");
    return out;
}

void set_bias(const GemmPlan& p, const Gemm& g) {
    check_lt(cublasLtMatmulDescSetAttribute(p.work, CUBLASLT_MATMUL_DESC_BIAS_POINTER, &g.bias.data, sizeof g.bias.data), "bias");
}

// The alignment of all operands, up to the 256 bytes that heuristics assume: heads and groups of rows begin anywhere.
std::uint32_t alignment(const Gemm& g) {
    std::uintptr_t all = 256;
    for (const View* v : {&g.a, &g.b, &g.c}) all |= reinterpret_cast<std::uintptr_t>(v->data);
    const auto lowest = static_cast<std::uint32_t>(all & (~all + 1));
    return g.rows_vary ? std::min<std::uint32_t>(lowest, 16) : lowest;
}

// Rows that only the router knows are others in every step: they share the algorithm of their class, an eighth wide, for to ask the
// heuristics takes longer than to multiply.
std::int64_t size_class(std::int64_t rows) {
    std::int64_t step = 16;
    while (step * 8 < rows) step *= 2;
    return (rows + step - 1) / step * step;
}

// The layouts of a plan made for another number of rows.
void resize(const GemmPlan& p, const Gemm& g) {
    const auto set = [](cublasLtMatrixLayout_t layout, cublasLtMatrixLayoutAttribute_t what, std::int64_t rows) {
        const auto n = static_cast<std::uint64_t>(rows);
        check_lt(cublasLtMatrixLayoutSetAttribute(layout, what, &n, sizeof n), "matrix layout");
    };
    if (g.transpose_a) { // a weight gradient: k x n and k x m, both stored by rows
        set(p.a, CUBLASLT_MATRIX_LAYOUT_COLS, g.k);
        set(p.b, CUBLASLT_MATRIX_LAYOUT_COLS, g.k);
    } else {
        set(p.b, CUBLASLT_MATRIX_LAYOUT_COLS, g.m);
        set(p.c, CUBLASLT_MATRIX_LAYOUT_COLS, g.m);
    }
}

GemmPlan plan(cublasLtHandle_t lt, const Gemm& g, bool tf32) {
    GemmPlan p;
    check_lt(cublasLtMatmulDescCreate(&p.work, tf32 ? CUBLAS_COMPUTE_32F_FAST_TF32 : CUBLAS_COMPUTE_32F, CUDA_R_32F), "matmul descriptor");
    if (g.bias.data) {
        const cublasLtEpilogue_t epilogue = CUBLASLT_EPILOGUE_BIAS;
        const cudaDataType_t type = type_of(g.bias.kind);
        check_lt(cublasLtMatmulDescSetAttribute(p.work, CUBLASLT_MATMUL_DESC_EPILOGUE, &epilogue, sizeof epilogue), "epilogue");
        check_lt(cublasLtMatmulDescSetAttribute(p.work, CUBLASLT_MATMUL_DESC_BIAS_DATA_TYPE, &type, sizeof type), "bias");
        set_bias(p, g);
    }
    const cublasOperation_t first = g.transpose_b ? CUBLAS_OP_T : CUBLAS_OP_N, second = g.transpose_a ? CUBLAS_OP_T : CUBLAS_OP_N;
    check_lt(cublasLtMatmulDescSetAttribute(p.work, CUBLASLT_MATMUL_DESC_TRANSA, &first, sizeof first), "first transpose");
    check_lt(cublasLtMatmulDescSetAttribute(p.work, CUBLASLT_MATMUL_DESC_TRANSB, &second, sizeof second), "second transpose");
    // B as it is stored: [k, n], or [n, k] transposed; column-major that is n x k with leading dimension ldb.
    p.a = g.transpose_b ? layout(g.b.kind, g.k, g.n, g.ldb, g.batch, g.stride_b) : layout(g.b.kind, g.n, g.k, g.ldb, g.batch, g.stride_b);
    p.b = g.transpose_a ? layout(g.a.kind, g.m, g.k, g.lda, g.batch, g.stride_a) : layout(g.a.kind, g.k, g.m, g.lda, g.batch, g.stride_a);
    p.c = layout(g.c.kind, g.n, g.m, g.ldc, g.batch, g.stride_c);
    cublasLtMatmulPreference_t preference = nullptr;
    check_lt(cublasLtMatmulPreferenceCreate(&preference), "preference");
    const std::uint32_t bytes = alignment(g);
    for (const auto what : {CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES,
                            CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES})
        check_lt(cublasLtMatmulPreferenceSetAttribute(preference, what, &bytes, sizeof bytes), "alignment");
    const std::size_t workspace = gemm_workspace;
    check_lt(cublasLtMatmulPreferenceSetAttribute(preference, CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES, &workspace, sizeof workspace),
             "workspace");
    cublasLtMatmulHeuristicResult_t found{};
    int count = 0;
    const cublasStatus_t s = cublasLtMatmulAlgoGetHeuristic(lt, p.work, p.a, p.b, p.c, p.c, preference, 1, &found, &count);
    cublasLtMatmulPreferenceDestroy(preference);
    check_lt(s, "heuristics");
    if (count == 0) throw std::runtime_error("cuBLASLt has no algorithm for this matrix product");
    p.algorithm = found.algo;
    return p;
}

} // namespace

void gemm(const Launch& l, const Gemm& g) {
    if (g.m == 0 || g.n == 0 || g.batch == 0) return;
    const auto* linear = std::get_if<Linear>(&l.op.work);
    const bool tf32 = linear && linear->dtype == DType::tf32;
    const auto run = [&](std::int64_t m, std::int64_t k, bool exact) {
        const GemmKey key{m,
                          g.n,
                          k,
                          g.lda,
                          g.ldb,
                          g.ldc,
                          g.batch,
                          g.stride_a,
                          g.stride_b,
                          g.stride_c,
                          g.transpose_a,
                          g.transpose_b,
                          g.a.kind,
                          g.b.kind,
                          g.c.kind,
                          tf32,
                          g.accumulate,
                          g.bias.data != nullptr,
                          alignment(g),
                          exact};
        auto it = l.gpu.gemms.find(key);
        if (it == l.gpu.gemms.end()) it = l.gpu.gemms.emplace(key, plan(l.gpu.lt, g, tf32)).first;
        const GemmPlan& p = it->second;
        if (g.rows_vary) resize(p, g);
        if (g.bias.data) set_bias(p, g);
        const float beta = g.accumulate ? 1 : 0;
        return cublasLtMatmul(l.gpu.lt, p.work, &g.alpha, g.b.data, p.a, g.a.data, p.b, &beta, g.c.data, p.c, g.c.data, p.c, &p.algorithm,
                              l.queue.gemm.data, gemm_workspace, l.stream());
    };
    if (g.rows_vary) {
        const cublasStatus_t s = run(g.transpose_a ? g.m : size_class(g.m), g.transpose_a ? size_class(g.k) : g.k, false);
        if (s == CUBLAS_STATUS_SUCCESS) return;
    }
    check_lt(run(g.m, g.k, true), "matrix product"); // an algorithm need not take all rows of its class
}

std::vector<std::int64_t> Launch::counts() const {
    std::vector<std::int64_t> sent;
    for (const Operand& o : in) {
        if (o.buffer->role != Role::counts) continue;
        sent.resize(elements(*o.buffer));
        void* const here = gpu.counts.room(sent.size() * 8);
        check(cudaMemcpyAsync(here, o.data, sent.size() * 8, cudaMemcpyDeviceToHost, stream()), "counts of experts");
        // The stream may stand behind an exchange with a rank that is gone.
        cudaError_t state = cudaErrorNotReady;
        while ((state = cudaStreamQuery(stream())) == cudaErrorNotReady) {
            if (gpu.given_up()) throw std::runtime_error("counts of experts: given up, another rank has failed");
            std::this_thread::yield();
        }
        check(state, "counts of experts");
        std::memcpy(sent.data(), here, sent.size() * 8);
    }
    return sent;
}

RowGroups Launch::row_groups(std::int64_t rows, std::int64_t local) const {
    RowGroups out;
    const std::vector<std::int64_t> sent = counts();
    const std::int64_t experts = context.facts.moe.experts, first = context.expert_at[Axis::ep] * local;
    std::int64_t at = 0;
    for (std::int64_t e = 0; e < local; ++e) {
        std::int64_t n = sent.empty() ? rows / local : 0;
        for (std::size_t r = 0; r < sent.size(); r += static_cast<std::size_t>(experts)) n += sent[r + static_cast<std::size_t>(first + e)];
        out.begin.push_back(at);
        out.count.push_back(n);
        at += n;
    }
    check_room(at, rows);
    return out;
}

// Copies of the input that modules have for themselves, side by side in each row (Emitter::further_casts; exec/kernels/linear.cpp).
void keep_casts(const Linear& w, const Launch& l) {
    if (w.direction != Direction::forward || l.out.size() < 2 || l.written(1).dtype != l.read(0).dtype) return;
    const View x = l.input(0), casts = l.output(1);
    const std::int64_t k = w.k, width = casts.cols;
    each(l.stream(), casts.count, [=] __device__(std::int64_t i) { casts.put(i, x.get(i / width * k + i % width % k)); });
}

void run(const Linear& w, const Launch& l) {
    const View first = l.input(0), second = l.input(1), result = l.output(0);
    const std::int64_t n = w.n, k = w.k, rows = first.rows();
    if (w.first >= 0) { // some rows of what has all: the input, or the gradient of that
        const std::int64_t from = w.first * k;
        if (w.direction == Direction::forward)
            gemm(l, {false, true, w.m, n, k, at(first, from), k, second, k, result, n});
        else if (w.direction == Direction::input_gradient)
            gemm(l, {false, false, w.m, k, n, first, n, second, k, at(result, from), k});
        else
            gemm(l, {true, false, n, k, w.m, first, n, at(second, from), k, result, k, w.accumulate});
        return;
    }
    const auto counts = [](const Operand& o) { return o.buffer->role == Role::counts; };
    const bool grouped = w.groups > 1 || std::any_of(l.in.begin(), l.in.end(), counts);
    const RowGroups groups = grouped ? l.row_groups(rows, w.groups) : RowGroups{{0}, {rows}};
    for (std::size_t g = 0; g < groups.begin.size(); ++g) {
        const std::int64_t begin = groups.begin[g], m = groups.count[g], matrix = static_cast<std::int64_t>(g) * n * k;
        switch (w.direction) {
        case Direction::forward: {
            const bool bias = l.in.size() > 2 && l.read(2).role != Role::counts;
            Gemm product{false, true, m, n, k, at(first, begin * k), k, at(second, matrix), k, at(result, begin * n), n};
            product.rows_vary = grouped;
            if (bias) product.bias = at(l.input(2), static_cast<std::int64_t>(g) * n);
            gemm(l, product);
            break;
        }
        case Direction::input_gradient: {
            Gemm product{false, false, m, k, n, at(first, begin * n), n, at(second, matrix), k, at(result, begin * k), k};
            product.rows_vary = grouped;
            gemm(l, product);
            break;
        }
        case Direction::weight_gradient:
            if (m > 0) {
                Gemm product{true, false, n, k, m, at(first, begin * n), n, at(second, begin * k), k, at(result, matrix), k, w.accumulate};
                product.rows_vary = grouped;
                gemm(l, product);
            } else if (!w.accumulate) {
                const View of = at(result, matrix);
                each(l.stream(), n * k, [=] __device__(std::int64_t i) { of.put(i, 0); });
            }
            break;
        case Direction::backward:
            throw std::runtime_error("a linear has two gradients, each an op of its own");
        }
    }
    keep_casts(w, l);
}

// Scores are [heads][sequence][query][key]: of one head, `micro_batch` products at a fixed stride.
void run(const Matmul& w, const Launch& l) {
    using Part = Matmul::Part;
    const HeadShape shape = heads_of_rank(l.context);
    const std::int64_t batch = l.context.facts.micro_batch, seq = l.context.facts.sequence, square = seq * seq, d = shape.qk_dim,
                       dv = shape.v_dim, width = shape.heads * dv;
    const bool packed_out = w.part == Part::d_values || w.part == Part::d_queries || w.part == Part::d_keys;
    const HeadsView qkv = heads_view(l, false, w.part == Part::scores ? 0 : w.part == Part::d_values ? 0 : 1, 1, shape);
    const HeadsView grads = heads_view(l, packed_out, 0, 1, shape);
    const std::int64_t stride = packed_out ? grads.q.cols : qkv.q.cols;
    for (std::int64_t h = 0; h < shape.heads; ++h) {
        const std::int64_t g = h / (shape.heads / shape.kv_heads), down = h * batch * square;
        const bool adds = h % (shape.heads / shape.kv_heads) != 0;
        const auto q = [&](const HeadsView& v) { return at(v.q, v.q_at(0, h)); };
        const auto key = [&](const HeadsView& v) { return at(v.k, v.k_at(0, g)); };
        const auto value = [&](const HeadsView& v) { return at(v.v, v.v_at(0, g)); };
        const std::int64_t rows = seq * stride, os = seq * width;
        switch (w.part) {
        case Part::scores:
            gemm(l, {false, true, seq, seq, d, q(qkv), stride, key(qkv), stride, at(l.output(0), down), seq, false, batch, rows, rows,
                     square});
            break;
        case Part::context:
            gemm(l, {false, false, seq, dv, seq, at(l.input(0), down), seq, value(qkv), stride, at(l.output(0), h * dv), width, false,
                     batch, square, rows, os});
            break;
        case Part::d_probabilities:
            gemm(l, {false, true, seq, seq, dv, at(l.input(0), h * dv), width, value(qkv), stride, at(l.output(0), down), seq, false, batch,
                     os, rows, square});
            break;
        case Part::d_values:
            gemm(l, {true, false, seq, dv, seq, at(l.input(0), down), seq, at(l.input(1), h * dv), width, value(grads), stride, adds, batch,
                     square, os, rows});
            break;
        case Part::d_queries:
            gemm(l, {false, false, seq, d, seq, at(l.input(0), down), seq, key(qkv), stride, q(grads), stride, false, batch, square, rows,
                     rows});
            break;
        case Part::d_keys:
            gemm(l, {true, false, seq, d, seq, at(l.input(0), down), seq, q(qkv), stride, key(grads), stride, adds, batch, square, rows,
                     rows});
            break;
        }
    }
}

} // namespace orrery::cuda
