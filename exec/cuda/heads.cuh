// Queries, keys and values where they stand, for device code: the layouts of exec/kernels/heads.hpp.
#pragma once

#include "exec/cuda/device.cuh"
#include "exec/kernels/heads.hpp"

namespace orrery::cuda {

struct HeadsView {
    View q, k, v;
    std::int64_t heads = 1, kv_heads = 1, qk_dim = 1, v_dim = 1;
    bool packed = false;
    std::int64_t values_from = 0; // in a row of v, where all keys come before all values

    __host__ __device__ std::int64_t per_group() const { return heads / kv_heads; }
    __host__ __device__ std::int64_t group() const { return (per_group() + 1) * qk_dim + v_dim; }
    __host__ __device__ std::int64_t q_at(std::int64_t row, std::int64_t h) const {
        return row * q.cols + (packed ? h / per_group() * group() + h % per_group() * qk_dim : h * qk_dim);
    }
    __host__ __device__ std::int64_t k_at(std::int64_t row, std::int64_t g) const {
        return row * k.cols + (packed ? g * group() + per_group() * qk_dim : g * qk_dim);
    }
    __host__ __device__ std::int64_t v_at(std::int64_t row, std::int64_t g) const {
        return row * v.cols + (packed ? g * group() + (per_group() + 1) * qk_dim : values_from + g * v_dim);
    }
};

// One to three operands, from the `first` of the list on.
inline HeadsView heads_view(const Launch& l, bool of_outputs, std::size_t first, std::size_t parts, const HeadShape& s) {
    const auto view = [&](std::size_t i) { return of_outputs ? l.output(first + i) : l.input(first + i); };
    HeadsView h{view(0),
                view(parts > 1 ? 1 : 0),
                view(parts - 1),
                s.heads,
                s.kv_heads,
                s.qk_dim,
                s.v_dim,
                parts == 1,
                parts == 2 ? s.kv_heads * s.qk_dim : 0};
    return h;
}

} // namespace orrery::cuda
