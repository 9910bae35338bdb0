// Does cuDNN recognise the graph of fused attention, forward and backward? Asked without a GPU: its heuristics and its compiler take an
// H200's properties for one, and only the loading of what they made must fail. Skips where cuDNN is not installed.
#include "exec/cuda/fused_attention.hpp"

#include <gtest/gtest.h>

#include <dlfcn.h>

#include <memory>
#include <optional>

namespace orrery::cuda {
namespace {

// The properties that cudaGetDeviceProperties returns for an H200 SXM (NVIDIA's datasheet, CUDA's table of compute capability 9.0), in
// cuDNN's words.
constexpr const char* h200 = R"({"maxGridSize": [2147483647, 65535, 65535], "maxBlockSize": [1024, 1024, 64], "regsPerBlock": 65536,
    "multiProcessorCount": 132, "warpSize": 32, "maxSharedMemoryPerBlock": 49152, "maxSharedMemoryPerBlockOptin": 232448,
    "reservedSharedMemoryPerBlock": 1024, "maxRegistersPerSM": 65536, "maxCtasPerSM": 32, "maxThreadsPerBlock": 1024, "maxThreadsPerSM": 2048,
    "pciDeviceId": 0, "isTccDriver": 0, "supportCoopLaunch": 1, "totalGlobalMem": 150754820096, "smClockRateKHz": 1980000,
    "memClockRateKHz": 3201000, "l2CacheSize": 62914560, "cudaDeviceId": 0, "deviceVer": 900, "driverVer": 13000, "deviceName": "NVIDIA H200"})";

std::unique_ptr<Cudnn> library(std::string& why_not) {
    // Where there is no driver, the toolkit's stub of it answers by its name.
    if (!dlopen("libcuda.so.1", RTLD_NOW | RTLD_GLOBAL)) dlopen("/usr/local/cuda/lib64/stubs/libcuda.so", RTLD_NOW | RTLD_GLOBAL);
    try {
        return std::make_unique<Cudnn>();
    } catch (const std::exception& e) {
        why_not = e.what();
        return nullptr;
    }
}

// Heads side by side in a row; packed with their keys and values where `packed`.
FusedShape shape(std::int64_t batch, std::int64_t heads, std::int64_t kv_heads, std::int64_t rows, std::int64_t dim, bool causal,
                 bool packed) {
    FusedShape s{batch, heads, kv_heads, rows, rows, dim, causal, {}, {}, {}, {}, {}, {}, {}, {}, {}};
    const std::int64_t head = packed ? 3 * dim : dim, row = packed ? heads * 3 * dim : heads * dim, key_row = packed ? row : kv_heads * dim;
    s.q = s.dq = {rows * row, head, row};
    s.k = s.v = {rows * key_row, head, key_row};
    s.dk = s.dv = kv_heads == heads ? s.k : Strided{heads * rows * dim, rows * dim, dim};
    s.o = s.dy = {rows * heads * dim, dim, heads * dim};
    s.statistics = {rows * heads, 1, heads};
    return s;
}

struct Case {
    const char* name;
    FusedShape shape;
};
class Pattern : public testing::TestWithParam<Case> {};

template <class Graph> void expect_known(const Cudnn& lib, const FusedShape& s) {
    Graph made(lib, {nullptr, h200}, s);
    EXPECT_GT(made.graph.choose(), 0);
    std::string said;
    const cudnnStatus_t status = made.graph.finish(said);
    EXPECT_TRUE(status == CUDNN_STATUS_SUCCESS || status == CUDNN_STATUS_EXECUTION_FAILED_CUDA_DRIVER) << said;
}

TEST_P(Pattern, IsKnownForward) {
    std::string why_not;
    const auto lib = library(why_not);
    if (!lib) GTEST_SKIP() << why_not;
    expect_known<FusedForward>(*lib, GetParam().shape);
}

TEST_P(Pattern, IsKnownBackward) {
    std::string why_not;
    const auto lib = library(why_not);
    if (!lib) GTEST_SKIP() << why_not;
    expect_known<FusedBackward>(*lib, GetParam().shape);
}

FusedShape in_half(FusedShape s) {
    s.half = true;
    return s;
}

INSTANTIATE_TEST_SUITE_P(Shapes, Pattern,
                         testing::Values(Case{"gpt2", shape(4, 12, 12, 1024, 64, true, true)},
                                         Case{"llama8b", shape(1, 32, 8, 4096, 128, true, false)},
                                         Case{"long", shape(1, 32, 8, 8192, 128, true, false)},
                                         Case{"gpt2_fp16", in_half(shape(4, 12, 12, 1024, 64, true, true))},
                                         Case{"llama8b_fp16", in_half(shape(1, 32, 8, 4096, 128, true, false))},
                                         Case{"bidirectional", shape(2, 16, 16, 512, 64, false, false)}),
                         [](const auto& tested) { return std::string(tested.param.name); });

// That the test can fail: a graph that is no attention.
TEST(NoPattern, AnotherGraphIsNot) {
    std::string why_not;
    const auto lib = library(why_not);
    if (!lib) GTEST_SKIP() << why_not;
    CudnnGraph g(*lib, {nullptr, h200});
    const Dims square{1, 4, 128, 128};
    const auto a = g.tensor(square, dense(square), CUDNN_DATA_BFLOAT16), b = g.between(square, CUDNN_DATA_FLOAT),
               c = g.between(square, CUDNN_DATA_FLOAT);
    g.matmul(a, a, b);
    g.matmul(b, b, c); // fp32 products that never reach memory
    g.matmul(c, c, g.tensor(square, dense(square), CUDNN_DATA_BFLOAT16));
    std::string said;
    const auto known = [&] {
        try {
            return g.choose() > 0 && g.finish(said) != CUDNN_STATUS_NOT_SUPPORTED;
        } catch (const std::exception&) { return false; }
    };
    EXPECT_FALSE(known()) << said;
}

} // namespace
} // namespace orrery::cuda
