#include "exec/runtime/reference.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>

namespace orrery {

Scenario on_one_rank(Scenario s) {
    Strategy& st = s.strategy;
    st.data_parallel = st.tensor_parallel = st.pipeline_parallel = st.virtual_pipeline = st.context_parallel = st.expert_parallel =
        st.expert_tensor_parallel = 1;
    st.sequence_parallel = false;
    st.schedule = "none";
    st.zero_stage = st.shard_group_size = 0;
    st.layers_per_chunk = {s.model.layers};
    st.mtp_chunk = -1;
    st.microbatch_group_size = 0;
    st.recompute = RecomputeKind::none;
    s.training.optimizer_in_backward = false; // several microbatches
    st.post_validation = false;               // the norm is there before the update
    return s;
}

Difference difference(const Tensors& a, const Tensors& b, double negligible) {
    constexpr double infinite = std::numeric_limits<double>::infinity();
    Difference d;
    const auto worse = [&](double by, const std::string& name) {
        if (std::isnan(by)) by = infinite;
        if (by > d.relative) d = {by, name};
    };
    for (const auto& [name, x] : a) {
        const auto other = b.find(name);
        if (other == b.end() || other->second.shape != x.shape) {
            worse(infinite, name + " (missing, or of another shape)");
            continue;
        }
        double largest = negligible;
        for (double v : x.values) largest = std::max(largest, std::abs(v));
        for (std::size_t i = 0; i < x.values.size(); ++i)
            if (x.values[i] != other->second.values[i]) worse(std::abs(x.values[i] - other->second.values[i]) / largest, name);
    }
    for (const auto& [name, x] : b)
        if (!a.contains(name)) worse(infinite, name + " (only in one)");
    return d;
}

} // namespace orrery
