#include "exec/cuda/columns.cuh"

namespace orrery::cuda {
namespace {

__global__ void totals(const float* parts, std::int64_t count, std::int64_t stride, std::int64_t cols, View g, View also) {
    if (blockIdx.y > 0) parts += cols, g = also;
    __shared__ float shared[row_threads][column_threads];
    const std::int64_t col = static_cast<std::int64_t>(blockIdx.x) * column_threads + threadIdx.x;
    float sum = 0;
    if (col < cols)
        for (std::int64_t p = threadIdx.y; p < count; p += row_threads) sum += parts[p * stride + col];
    shared[threadIdx.y][threadIdx.x] = sum;
    __syncthreads();
    if (threadIdx.y > 0 || col >= cols) return;
    for (int y = 1; y < row_threads; ++y) sum += shared[y][threadIdx.x];
    g.put(col, g.get(col) + sum);
}

} // namespace

void add_parts(const Launch& l, const float* parts, std::int64_t count, std::int64_t stride, std::int64_t cols, const View& g,
               const View* also) {
    const dim3 grid(static_cast<unsigned>((cols + column_threads - 1) / column_threads), also ? 2 : 1);
    totals<<<grid, dim3(column_threads, row_threads), 0, l.stream()>>>(parts, count, stride, cols, g, also ? *also : View{});
    check(cudaGetLastError(), "launch");
}

} // namespace orrery::cuda
