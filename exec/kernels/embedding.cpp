// The embedding table, split by rows of the vocabulary over tensor-parallel ranks: a rank gives zeros for tokens of the others. Rows are
// multiplied by the model's embedding_scale.
#include "exec/kernels/call.hpp"
#include "exec/kernels/shards.hpp"

namespace orrery {

template <class T> void run(const Embedding& w, const Call& c) {
    const bool forward = w.direction == Direction::forward;
    const std::int64_t* tokens = c.input<std::int64_t>(0);
    const T scale = static_cast<T>(c.context.facts.embedding_scale);
    const Buffer& table = forward ? c.read(1) : c.written(0);
    const std::int64_t first = shard_view(c.context.plan, table, c.context.at, c.context.expert_at).offset[0], rows = table.shape[0];
    for (std::int64_t i = 0; i < w.tokens; ++i) {
        const std::int64_t row = tokens[i] - first;
        const bool here = row >= 0 && row < rows;
        if (forward) {
            T* x = c.output<T>(0) + i * w.hidden;
            const T* from = here ? c.input<T>(1) + row * w.hidden : nullptr;
            for (std::int64_t j = 0; j < w.hidden; ++j) x[j] = here ? scale * from[j] : T(0);
        } else if (here) {
            const T* dy = c.input<T>(1) + i * w.hidden;
            T* g = c.output<T>(0) + row * w.hidden;
            for (std::int64_t j = 0; j < w.hidden; ++j) g[j] += scale * dy[j];
        }
    }
}

template void run<float>(const Embedding&, const Call&);
template void run<double>(const Embedding&, const Call&);

} // namespace orrery
