// C[m,n] = alpha op(A) op(B) + beta C, row-major with leading dimensions, on one thread: OpenBLAS where it was found, else Eigen.
#pragma once

#include <cstdint>

namespace orrery {

void gemm(bool transpose_a, bool transpose_b, std::int64_t m, std::int64_t n, std::int64_t k, float alpha, const float* a, std::int64_t lda,
          const float* b, std::int64_t ldb, float beta, float* c, std::int64_t ldc);
void gemm(bool transpose_a, bool transpose_b, std::int64_t m, std::int64_t n, std::int64_t k, double alpha, const double* a,
          std::int64_t lda, const double* b, std::int64_t ldb, double beta, double* c, std::int64_t ldc);

} // namespace orrery
