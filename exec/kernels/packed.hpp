// Where queries, keys and values stand in the columns of a packed row: group by group, a group's queries before its key and value.
#pragma once

#include "exec/kernels/facts.hpp"

namespace orrery {

struct Packed {
    std::int64_t heads = 1, kv_heads = 1, qk_dim = 1, v_dim = 1;

    std::int64_t per_group() const { return heads / kv_heads; }
    std::int64_t group() const { return (per_group() + 1) * qk_dim + v_dim; }
    std::int64_t width() const { return kv_heads * group(); }
    std::int64_t query(std::int64_t h) const { return h / per_group() * group() + h % per_group() * qk_dim; }
    std::int64_t key(std::int64_t g) const { return g * group() + per_group() * qk_dim; }
    std::int64_t value(std::int64_t g) const { return key(g) + qk_dim; }
};

// For rows of `width` columns with `heads_and_keys` queries and keys of `dim` columns each: the width of a value (the remaining columns).
Packed packed_layout(const KernelFacts& facts, std::int64_t width, std::int64_t dim, std::int64_t heads_and_keys);

} // namespace orrery
