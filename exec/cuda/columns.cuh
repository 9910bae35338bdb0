// Sums over the rows of a matrix, for gradients of biases and of norms: in two passes, so that their order depends on the sizes alone.
#pragma once

#include "exec/cuda/device.cuh"

namespace orrery::cuda {

inline constexpr int column_threads = 32, row_threads = 8; // of a block: packs wide, rows deep

// parts[slice][col]: sums of value(Width, row, col) over the slice's rows.
template <class W, class F>
__global__ void column_parts(std::int64_t rows, std::int64_t cols, std::int64_t rows_of_slice, F value, float* parts) {
    constexpr int N = W::n;
    __shared__ float shared[row_threads][column_threads * N];
    const std::int64_t col = (static_cast<std::int64_t>(blockIdx.x) * column_threads + threadIdx.x) * N;
    const std::int64_t begin = blockIdx.y * rows_of_slice, end = min(rows, begin + rows_of_slice);
    Pack<N> sum;
    if (col < cols)
#pragma unroll 4
        for (std::int64_t r = begin + threadIdx.y; r < end; r += row_threads) {
            const Pack<N> v = value(W{}, r, col);
            for (int k = 0; k < N; ++k) sum.x[k] += v.x[k];
        }
    for (int k = 0; k < N; ++k) shared[threadIdx.y][threadIdx.x * N + k] = sum.x[k];
    __syncthreads();
    if (threadIdx.y > 0 || col >= cols) return;
    for (int k = 0; k < N; ++k) {
        float total = 0;
        for (int y = 0; y < row_threads; ++y) total += shared[y][threadIdx.x * N + k];
        parts[blockIdx.y * cols + col + k] = total;
    }
}

// g += the parts' sums, column by column; a part's columns begin `stride` after those of the part before. also: takes the columns that
// follow these in each part, or null.
void add_parts(const Launch& l, const float* parts, std::int64_t count, std::int64_t stride, std::int64_t cols, const View& g,
               const View* also);

// g[col] += sum over rows of value(Width, row, col).
template <class F> void add_column_sums(const Launch& l, std::int64_t rows, std::int64_t cols, const View& g, Packing p, F value) {
    if (rows == 0 || cols == 0) return;
    constexpr std::int64_t blocks_wanted = 1024, rows_at_least = 4 * row_threads;
    with_width(p, [&](auto width) {
        using W = decltype(width);
        const std::int64_t across = (cols + column_threads * W::n - 1) / (column_threads * W::n);
        const std::int64_t slices = std::clamp<std::int64_t>(std::min(blocks_wanted / across, rows / rows_at_least), 1, 1024),
                           deep = (rows + slices - 1) / slices;
        float* const parts = static_cast<float*>(l.scratch(static_cast<std::size_t>(slices * cols) * sizeof(float)));
        column_parts<W>
            <<<dim3(static_cast<unsigned>(across), static_cast<unsigned>(slices)), dim3(column_threads, row_threads), 0, l.stream()>>>(
                rows, cols, deep, value, parts);
        check(cudaGetLastError(), "launch");
        add_parts(l, parts, slices, cols, cols, g, nullptr);
    });
}

} // namespace orrery::cuda
