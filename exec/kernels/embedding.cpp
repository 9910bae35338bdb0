// The embedding table, split by rows of the vocabulary over tensor-parallel ranks: a rank gives zeros for tokens of the others.
#include "exec/kernels/call.hpp"
#include "exec/kernels/shards.hpp"

#include <algorithm>

namespace orrery {

template <class T> void run(const Embedding& w, const Call& c) {
    const bool forward = w.direction == Direction::forward;
    const std::int64_t* tokens = c.input<std::int64_t>(0);
    const Buffer& table = forward ? c.read(1) : c.written(0);
    const std::int64_t first = shard_view(c.context.plan, table, c.context.at, c.context.expert_at).offset[0], rows = table.shape[0];
    for (std::int64_t i = 0; i < w.tokens; ++i) {
        const std::int64_t row = tokens[i] - first;
        const bool here = row >= 0 && row < rows;
        if (forward) {
            T* x = c.output<T>(0) + i * w.hidden;
            if (here)
                std::copy_n(c.input<T>(1) + row * w.hidden, w.hidden, x);
            else
                std::fill_n(x, w.hidden, T(0));
        } else if (here) {
            const T* dy = c.input<T>(1) + i * w.hidden;
            T* g = c.output<T>(0) + row * w.hidden;
            for (std::int64_t j = 0; j < w.hidden; ++j) g[j] += dy[j];
        }
    }
}

template void run<float>(const Embedding&, const Call&);
template void run<double>(const Embedding&, const Call&);

} // namespace orrery
