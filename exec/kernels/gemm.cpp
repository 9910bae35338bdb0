// GEMMs by OpenBLAS where the machine has it, by Eigen elsewhere. OpenBLAS is loaded at the first GEMM, not linked: the program runs
// without it, and can tell it first which processor this is. Its own guess falls back on SSE where it does not know the model (five times
// slower).
#include "exec/kernels/gemm.hpp"

#include "exec/kernels/kernel.hpp"

#include <Eigen/Dense>

#include <cstdlib>
#include <dlfcn.h>
#include <string>

namespace orrery {

namespace {

// CBLAS's C interface: its enumerations' values are part of it.
constexpr int row_major = 101, no_transpose = 111, transpose = 112;
template <class T>
using Cblas = void (*)(int order, int ta, int tb, int m, int n, int k, T alpha, const T* a, int lda, const T* b, int ldb, T beta, T* c,
                       int ldc);

struct Library {
    Cblas<float> sgemm = nullptr;
    Cblas<double> dgemm = nullptr;
    std::string name = "Eigen " + std::to_string(EIGEN_WORLD_VERSION) + "." + std::to_string(EIGEN_MAJOR_VERSION);
};

const char* core_type() {
#if defined(__x86_64__)
    if (__builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512bw") &&
        __builtin_cpu_supports("avx512vl"))
        return "SkylakeX";
    if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma")) return "Haswell";
#endif
    return nullptr;
}

Library open_library() {
    Library library;
    // The user's setting is kept. The runtime has threads of its own: a rank's GEMM is one thread's work.
    if (const char* core = core_type()) setenv("OPENBLAS_CORETYPE", core, 0);
    setenv("OPENBLAS_NUM_THREADS", "1", 0);
    void* const handle = dlopen("libopenblas.so.0", RTLD_NOW | RTLD_LOCAL);
    if (!handle) return library;
    const auto sgemm = reinterpret_cast<Cblas<float>>(dlsym(handle, "cblas_sgemm"));
    const auto dgemm = reinterpret_cast<Cblas<double>>(dlsym(handle, "cblas_dgemm"));
    const auto config = reinterpret_cast<const char* (*)()>(dlsym(handle, "openblas_get_config"));
    const auto threads = reinterpret_cast<void (*)(int)>(dlsym(handle, "openblas_set_num_threads"));
    if (!sgemm || !dgemm) return library;
    if (threads) threads(1);
    library.sgemm = sgemm;
    library.dgemm = dgemm;
    library.name = config ? config() : "OpenBLAS";
    return library;
}

const Library& library() {
    static const Library opened = open_library();
    return opened;
}

template <class T> using Rows = Eigen::Matrix<T, Eigen::Dynamic, Eigen::Dynamic, Eigen::RowMajor>;
template <class T> using Read = Eigen::Map<const Rows<T>, 0, Eigen::OuterStride<>>;
template <class T> using Write = Eigen::Map<Rows<T>, 0, Eigen::OuterStride<>>;

template <class T>
void multiply(bool ta, bool tb, std::int64_t m, std::int64_t n, std::int64_t k, T alpha, const T* a, std::int64_t lda, const T* b,
              std::int64_t ldb, T beta, T* c, std::int64_t ldc) {
    const Read<T> x(a, ta ? k : m, ta ? m : k, Eigen::OuterStride<>(lda)), y(b, tb ? n : k, tb ? k : n, Eigen::OuterStride<>(ldb));
    Write<T> z(c, m, n, Eigen::OuterStride<>(ldc));
    if (beta == 0)
        z.setZero();
    else if (beta != 1)
        z *= beta;
    if (ta && tb)
        z.noalias() += alpha * x.transpose() * y.transpose();
    else if (ta)
        z.noalias() += alpha * x.transpose() * y;
    else if (tb)
        z.noalias() += alpha * x * y.transpose();
    else
        z.noalias() += alpha * x * y;
}

template <class T>
void multiply(Cblas<T> blas, bool ta, bool tb, std::int64_t m, std::int64_t n, std::int64_t k, T alpha, const T* a, std::int64_t lda,
              const T* b, std::int64_t ldb, T beta, T* c, std::int64_t ldc) {
    if (!blas) return multiply(ta, tb, m, n, k, alpha, a, lda, b, ldb, beta, c, ldc);
    const auto narrow = [](std::int64_t v) { return static_cast<int>(v); };
    blas(row_major, ta ? transpose : no_transpose, tb ? transpose : no_transpose, narrow(m), narrow(n), narrow(k), alpha, a, narrow(lda), b,
         narrow(ldb), beta, c, narrow(ldc));
}

} // namespace

void gemm(bool ta, bool tb, std::int64_t m, std::int64_t n, std::int64_t k, float alpha, const float* a, std::int64_t lda, const float* b,
          std::int64_t ldb, float beta, float* c, std::int64_t ldc) {
    multiply(library().sgemm, ta, tb, m, n, k, alpha, a, lda, b, ldb, beta, c, ldc);
}

void gemm(bool ta, bool tb, std::int64_t m, std::int64_t n, std::int64_t k, double alpha, const double* a, std::int64_t lda,
          const double* b, std::int64_t ldb, double beta, double* c, std::int64_t ldc) {
    multiply(library().dgemm, ta, tb, m, n, k, alpha, a, lda, b, ldb, beta, c, ldc);
}

const char* gemm_library() { return library().name.c_str(); }

} // namespace orrery
