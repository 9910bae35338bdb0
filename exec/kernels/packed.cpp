#include "exec/kernels/heads.hpp"

#include <algorithm>

namespace orrery {

Packed packed_layout(const KernelFacts& f, std::int64_t width, std::int64_t dim, std::int64_t heads_and_keys) {
    Packed p;
    p.kv_heads = heads_and_keys * f.kv_heads / (f.heads + f.kv_heads);
    p.heads = heads_and_keys - p.kv_heads;
    p.qk_dim = dim;
    require(p.kv_heads > 0 && p.heads % p.kv_heads == 0, "a rank's query heads are no multiple of its key heads");
    p.v_dim = (width - heads_and_keys * dim) / p.kv_heads;
    require(p.width() == width, "packed queries, keys and values do not fill their row");
    return p;
}

HeadShape heads_of_rank(const KernelContext& c) {
    const int t = c.plan.mesh.extent(Axis::tp);
    return {std::max(1, c.facts.heads / t), std::max(1, c.facts.kv_heads / t), c.facts.qk_dim, c.facts.v_dim};
}

} // namespace orrery
