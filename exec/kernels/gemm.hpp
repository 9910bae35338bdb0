// C[m,n] = alpha op(A) op(B) + beta C, row-major with leading dimensions, on one thread: OpenBLAS where it was found, else Eigen.
#pragma once

#include "exec/kernels/team.hpp"

namespace orrery {

void gemm(bool transpose_a, bool transpose_b, std::int64_t m, std::int64_t n, std::int64_t k, float alpha, const float* a, std::int64_t lda,
          const float* b, std::int64_t ldb, float beta, float* c, std::int64_t ldc);
void gemm(bool transpose_a, bool transpose_b, std::int64_t m, std::int64_t n, std::int64_t k, double alpha, const double* a,
          std::int64_t lda, const double* b, std::int64_t ldb, double beta, double* c, std::int64_t ldc);

// In how many parts a team takes a product, of the longer side of C: as many for each of two threads, for the last of an odd number keeps
// one waiting; each is worth a hand-over, and wide enough that packing the other operand again costs little.
constexpr std::int64_t parts_of_product(std::int64_t m, std::int64_t n, std::int64_t k) {
    constexpr std::int64_t enough = 1 << 20, wide = 128, narrowest = 64, most = 16; // products; rows or columns; parts
    const std::int64_t all = std::max(m, n);
    std::int64_t parts = std::max<std::int64_t>(1, all / wide);
    if (parts % 2 == 1 && all / (parts + 1) >= narrowest) ++parts;
    parts = std::min({parts, m * n * k / enough, most});
    return parts < 2 ? 1 : parts - parts % 2;
}

// The same by the threads of a team: each takes rows, or columns, of C. How they are cut follows from the shape.
template <class T>
void gemm(Team* team, bool transpose_a, bool transpose_b, std::int64_t m, std::int64_t n, std::int64_t k, T alpha, const T* a,
          std::int64_t lda, const T* b, std::int64_t ldb, T beta, T* c, std::int64_t ldc) {
    constexpr std::int64_t tile = 16; // rows or columns
    const bool rows = m >= n;
    const std::int64_t all = rows ? m : n, parts = parts_of_product(m, n, k);
    if (!team || parts == 1) return gemm(transpose_a, transpose_b, m, n, k, alpha, a, lda, b, ldb, beta, c, ldc);
    const auto edge = [&](std::int64_t i) { return i == parts ? all : all * i / parts / tile * tile; };
    team->run(parts, [&](std::int64_t i) {
        const std::int64_t from = edge(i), count = edge(i + 1) - from;
        if (rows)
            gemm(transpose_a, transpose_b, count, n, k, alpha, a + (transpose_a ? from : from * lda), lda, b, ldb, beta, c + from * ldc,
                 ldc);
        else
            gemm(transpose_a, transpose_b, m, count, k, alpha, a, lda, b + (transpose_b ? from * ldb : from), ldb, beta, c + from, ldc);
    });
}

} // namespace orrery
