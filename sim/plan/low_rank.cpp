#include "sim/plan/low_rank.hpp"

#include <algorithm>

namespace orrery {

LowRank low_rank(const Plan& plan, const TensorBucket& bucket, int rank, double min_ratio) {
    LowRank all;
    for (std::size_t t = 0; t < bucket.tensors.size(); ++t) {
        const BucketTensor& tensor = bucket.tensors[t];
        const std::int64_t elements = tensor.end - tensor.begin;
        const std::vector<std::int64_t>& shape = plan.buffers[tensor.parameter].shape;
        const std::int64_t cols = shape.size() > 1 ? shape.back() : 1, rows = elements / std::max<std::int64_t>(1, cols),
                           r = std::min({static_cast<std::int64_t>(rank), rows, cols});
        if (shape.size() < 2 || static_cast<double>((rows + cols) * r) * min_ratio >= static_cast<double>(rows * cols)) {
            all.rest += elements;
            continue;
        }
        all.matrices.push_back({t, rows, cols, r, tensor.begin, all.p, all.q});
        all.p += rows * r;
        all.q += cols * r;
    }
    return all;
}

} // namespace orrery
