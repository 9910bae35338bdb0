#include "exec/kernels/gemm.hpp"

#include "exec/kernels/kernel.hpp"

#ifdef ORRERY_OPENBLAS
#include <cblas-openblas.h>
#else
#include <Eigen/Dense>
#endif

namespace orrery {

#ifdef ORRERY_OPENBLAS

namespace {

CBLAS_TRANSPOSE transposed(bool t) { return t ? CblasTrans : CblasNoTrans; }

// The runtime has threads of its own: a rank's GEMM is one thread's work.
void one_thread() {
    static const bool set = (openblas_set_num_threads(1), true);
    static_cast<void>(set);
}

} // namespace

void gemm(bool ta, bool tb, std::int64_t m, std::int64_t n, std::int64_t k, float alpha, const float* a, std::int64_t lda, const float* b, std::int64_t ldb, float beta, float* c, std::int64_t ldc) {
    one_thread();
    cblas_sgemm(CblasRowMajor, transposed(ta), transposed(tb), static_cast<blasint>(m), static_cast<blasint>(n), static_cast<blasint>(k), alpha, a, static_cast<blasint>(lda), b, static_cast<blasint>(ldb), beta, c, static_cast<blasint>(ldc));
}

void gemm(bool ta, bool tb, std::int64_t m, std::int64_t n, std::int64_t k, double alpha, const double* a, std::int64_t lda, const double* b, std::int64_t ldb, double beta, double* c, std::int64_t ldc) {
    one_thread();
    cblas_dgemm(CblasRowMajor, transposed(ta), transposed(tb), static_cast<blasint>(m), static_cast<blasint>(n), static_cast<blasint>(k), alpha, a, static_cast<blasint>(lda), b, static_cast<blasint>(ldb), beta, c, static_cast<blasint>(ldc));
}

const char* gemm_library() { return openblas_get_config(); }

#else

namespace {

template <class T> using Rows = Eigen::Matrix<T, Eigen::Dynamic, Eigen::Dynamic, Eigen::RowMajor>;
template <class T> using Read = Eigen::Map<const Rows<T>, 0, Eigen::OuterStride<>>;
template <class T> using Write = Eigen::Map<Rows<T>, 0, Eigen::OuterStride<>>;

template <class T>
void multiply(bool ta, bool tb, std::int64_t m, std::int64_t n, std::int64_t k, T alpha, const T* a, std::int64_t lda, const T* b, std::int64_t ldb, T beta, T* c, std::int64_t ldc) {
    const Read<T> x(a, ta ? k : m, ta ? m : k, Eigen::OuterStride<>(lda)), y(b, tb ? n : k, tb ? k : n, Eigen::OuterStride<>(ldb));
    Write<T> z(c, m, n, Eigen::OuterStride<>(ldc));
    if (beta == 0) z.setZero();
    else if (beta != 1) z *= beta;
    if (ta && tb) z.noalias() += alpha * x.transpose() * y.transpose();
    else if (ta) z.noalias() += alpha * x.transpose() * y;
    else if (tb) z.noalias() += alpha * x * y.transpose();
    else z.noalias() += alpha * x * y;
}

} // namespace

void gemm(bool ta, bool tb, std::int64_t m, std::int64_t n, std::int64_t k, float alpha, const float* a, std::int64_t lda, const float* b, std::int64_t ldb, float beta, float* c, std::int64_t ldc) {
    multiply(ta, tb, m, n, k, alpha, a, lda, b, ldb, beta, c, ldc);
}

void gemm(bool ta, bool tb, std::int64_t m, std::int64_t n, std::int64_t k, double alpha, const double* a, std::int64_t lda, const double* b, std::int64_t ldb, double beta, double* c, std::int64_t ldc) {
    multiply(ta, tb, m, n, k, alpha, a, lda, b, ldb, beta, c, ldc);
}

const char* gemm_library() { return "Eigen"; }

#endif

} // namespace orrery
