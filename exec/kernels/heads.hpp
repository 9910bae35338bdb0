// Queries, keys and values wherever they stand: packed in one buffer, in two (q | all keys, then all values), or in three.
#pragma once

#include "exec/kernels/call.hpp"
#include "exec/kernels/packed.hpp"

#include <vector>

namespace orrery {

struct HeadShape {
    std::int64_t heads, kv_heads, qk_dim, v_dim;
};

HeadShape heads_of_rank(const KernelContext& context); // under tensor parallelism

template <class T> struct Heads {
    std::vector<T*> q, k, v;                   // by head: its columns in the first row
    std::int64_t q_stride, k_stride, v_stride; // from row to row
    std::int64_t rows, kv_rows;
};

// parts: 1, 2 or 3 operands.
template <class T> Heads<T> heads_in(std::span<const Operand> parts, const HeadShape& shape) {
    Heads<T> h;
    std::vector<T*> base;
    std::vector<std::int64_t> width;
    for (const Operand& o : parts) {
        base.push_back(reinterpret_cast<T*>(o.data));
        width.push_back(columns(*o.buffer));
    }
    h.rows = elements(*parts.front().buffer) / width.front();
    h.kv_rows = elements(*parts.back().buffer) / width.back();
    h.q_stride = width.front();
    h.k_stride = width.size() > 1 ? width[1] : width[0];
    h.v_stride = width.back();
    const Packed p{shape.heads, shape.kv_heads, shape.qk_dim, shape.v_dim};
    const bool packed = parts.size() == 1;
    T* const keys = packed ? base[0] : base[1];
    T* const values = parts.size() == 3 ? base[2] : packed ? base[0] : base[1] + shape.kv_heads * shape.qk_dim;
    for (std::int64_t i = 0; i < shape.heads; ++i) h.q.push_back(base[0] + (packed ? p.query(i) : i * shape.qk_dim));
    for (std::int64_t i = 0; i < shape.kv_heads; ++i) {
        h.k.push_back(keys + (packed ? p.key(i) : i * shape.qk_dim));
        h.v.push_back(values + (packed ? p.value(i) : i * shape.v_dim));
    }
    const std::int64_t all = shape.heads * shape.qk_dim + shape.kv_heads * (shape.qk_dim + shape.v_dim);
    std::int64_t have = 0;
    for (std::int64_t w : width) have += w;
    require(have == all, "queries, keys and values do not fill their buffers");
    return h;
}

} // namespace orrery
