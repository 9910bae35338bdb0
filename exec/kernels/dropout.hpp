// Which elements dropout keeps: by the place in the model, the step and the element's global index, so that every strategy drops the
// same and recomputation drops it again.
#pragma once

#include "exec/kernels/kernel.hpp"
#include "exec/kernels/random.hpp"
#include "topology/check.hpp"

namespace orrery {

struct Dropout {
    double rate;
    std::uint64_t seed, stream;

    bool on() const { return rate > 0; }
    bool keeps(std::int64_t index) const { return uniform(seed, stream, static_cast<std::uint64_t>(index)) >= rate; }
    double scale() const { return 1 / (1 - rate); }
};

// The stream of random numbers of each place, by a word.
constexpr std::string_view stream_of(DropoutSite site) {
    switch (site) {
    case DropoutSite::embedding:
        return "embedding_dropout";
    case DropoutSite::attention:
        return "attention";
    case DropoutSite::after_attention:
        return "residual1";
    case DropoutSite::after_mlp:
        return "residual2";
    case DropoutSite::none:
        break;
    }
    broken("dropout at no place");
}

inline Dropout dropout_at(const KernelContext& c, DropoutSite site, int layer) {
    return {c.facts.dropout, c.facts.seed + 0x9E3779B97F4A7C15ull * static_cast<std::uint64_t>(c.step + 1),
            name_key(stream_of(site)) + static_cast<std::uint64_t>(layer + 1)};
}

// For attention's pair (query, key) of a head of the whole model; sequence: index in the step's batch.
inline std::int64_t pair_index(const KernelFacts& f, std::int64_t sequence, std::int64_t head, std::int64_t query, std::int64_t key) {
    return ((sequence * f.heads + head) * f.sequence + query) * f.sequence + key;
}

} // namespace orrery
