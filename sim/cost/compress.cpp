// The cost of making gradients small and whole again, by what kernels read and write:
//   sums, copies, signs       their buffers once; signs read what they are of twice (its norm, then its signs)
//   factors                   a product a matrix; Gram and Schmidt go over P once for each column and those before it: r (r + 1) / 2
//   columns
//                             read and as many written, in 4 kernels a column
//   signs in DeepSpeed        PyTorch's and CuPy's operators, one after another, over whole tensors in fp32
//   the largest elements      a radix select reads all elements once for each of an fp32's four bytes and once more to take them out
#include "sim/cost/data.hpp"
#include "sim/plan/low_rank.hpp"

#include <algorithm>

namespace orrery {
namespace {

struct Operators {
    double bytes = 0; // of each element, read and written
    int kernels = 0;
};

// Of 1-bit Adam and its like in DeepSpeed (Compressed_Allreduce and step of deepspeed/runtime/fp16/onebit_adam.py, 2020; the same
// operators in compressed_allreduce of deepspeed/runtime/comm/nccl.py since). An operator on fp32 in place moves 8 bytes an element, one
// with a second operand 12, a cast to or from bool 5, packbits and unpackbits 1.1.
//   feed    exp_avg.mul_, add_ of the gradient, add_ of the error
//   signs   norm; sign_, add_(1), bool, packbits
//   unsent  sign, add_(1), bool, float, add_(-0.5), mul_(2), times the scale, the difference
//   sum     unpackbits, float, add_, mul_, times the scales, sum(0)
//   unpack  unpackbits, float, add_, mul_, times the scales
Operators operators_of(Compress::Part part) {
    using Part = Compress::Part;
    switch (part) {
    case Part::feed_momentum:
    case Part::feed_drift:
        return {8 + 12 + 12, 3};
    case Part::signs:
        return {4 + 8 + 8 + 5 + 1.1, 5};
    case Part::unsent:
        return {8 + 8 + 5 + 5 + 8 + 8 + 8 + 12, 8};
    case Part::sum_signs:
        return {1.1 + 5 + 8 + 8 + 8 + 4, 6};
    case Part::unpack:
        return {1.1 + 5 + 8 + 8 + 8, 5};
    default:
        return {};
    }
}

} // namespace

KernelTime CostModel::Data::compress(const Plan& plan, const Op& op, const Compress& w) const {
    using Part = Compress::Part;
    const auto size = [&](BufferId b) { return static_cast<double>(plan.buffers[b].bytes.count); };
    double traffic = buffer_bytes(plan, op);
    int further = 0;
    if (w.part == Part::project || w.part == Part::turn || w.part == Part::expand) {
        const LowRank layout = low_rank(plan, plan.buckets[w.bucket], w.rank, w.min_ratio);
        const DType type = plan.buffers[op.out[0]].dtype;
        KernelTime t;
        t.kernels = 0;
        for (const LowRankMatrix& m : layout.matrices) {
            const GemmShape shape = w.part == Part::project ? GemmShape{m.rows, m.rank, m.cols}
                                    : w.part == Part::turn  ? GemmShape{m.cols, m.rank, m.rows}
                                                            : GemmShape{m.rows, m.cols, m.rank};
            t.us += gemm(type, type, shape, 1, false, least_side);
            ++t.kernels;
        }
        if (w.part == Part::expand && layout.rest > 0) { // what was summed whole is copied back
            Pointwise copy{PointwiseKind::copy, Direction::forward, layout.rest, true};
            const KernelTime back =
                memory_time(pointwise, kernels, {bandwidth}, copy, 2.0 * static_cast<double>(layout.rest) * bytes_per_element(type));
            t.us += back.us;
            t.kernels += back.kernels;
        }
        return t;
    }
    switch (w.part) {
    case Part::orthonormal:
        traffic = size(op.in[0]) * (w.rank + 1);
        further = 4 * w.rank - 1;
        break;
    case Part::choose:
        traffic += 4 * size(op.in[0]);
        further = 4;
        break;
    case Part::signs:
        traffic += size(op.in[0]);
        further = 1;
        break;
    default:
        break;
    }
    if (const Operators made = operators_of(w.part); made.kernels > 0 && practice.stack == Stack::zero) {
        traffic = made.bytes * static_cast<double>(w.elements);
        further = made.kernels - 1;
    }
    Pointwise pass{PointwiseKind::add, Direction::forward, w.elements, true};
    KernelTime t = memory_time(pointwise, kernels, {bandwidth}, pass, traffic);
    t.us += kernels.kernel_us * further;
    t.kernels += further;
    return t;
}

} // namespace orrery
