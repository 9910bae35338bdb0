#include "exec/kernels/kernel.hpp"

#include "exec/kernels/call.hpp"
#include "exec/kernels/parallel.hpp"
#include "exec/kernels/random.hpp"
#include "exec/kernels/rounding.hpp"
#include "exec/kernels/shards.hpp"

#include <algorithm>
#include <cmath>
#include <vector>

namespace orrery {
namespace {

template <class W>
concept Kernel = requires(const W& w, const Call& c) {
    run<float>(w, c);
};

template <class T> void dispatch(const Call& call) {
    std::visit(
        [&]<class W>(const W& w) {
            if constexpr (Kernel<W>)
                run<T>(w, call);
            else
                broken("this op is the executor's, not a kernel's");
        },
        call.op.work);
}

// A constant, or where there is a deviation a normal distribution of it around zero.
struct Start {
    double constant, deviation;
};

Start start_of(Initial initial, int layers) {
    switch (initial) {
    case Initial::zero:
        return {0, 0};
    case Initial::one:
        return {1, 0};
    case Initial::output:
        return {0, 0.02 / std::sqrt(2.0 * layers)};
    case Initial::normal:
        return {0, 0.02};
    }
    broken("a tensor without first values");
}

// The first values of the whole tensor in blocks of nf4_block elements, however ranks share it: parameters in 4 bits are written
// here alone. Scales are not rounded to their 8 bits.
template <class F> class InFourBits {
  public:
    explicit InFourBits(F value) : value_(value) {}
    double at(std::int64_t index) {
        if (index / nf4_block != block_) {
            block_ = index / nf4_block;
            largest_ = 0;
            for (std::int64_t i = 0; i < nf4_block; ++i) largest_ = std::max(largest_, std::abs(value_(block_ * nf4_block + i)));
        }
        return round_to_nf4(value_(index), largest_);
    }

  private:
    F value_;
    std::int64_t block_ = -1;
    double largest_ = 0;
};

template <class T> void fill(const Operand& p, const KernelContext& c) {
    require(p.buffer->tensor >= 0, "a buffer without a tensor has no first values");
    const LogicalTensor& tensor = c.plan.tensors[p.buffer->tensor];
    const Start start = start_of(tensor.initial, c.facts.layers);
    const ShardView view = shard_view(c.plan, *p.buffer, c.at, c.expert_at);
    const std::uint64_t stream = name_key("w." + tensor.name);
    const std::int64_t used = has_vocabulary_rows(tensor) ? c.facts.vocabulary * p.buffer->shape.back() : std::int64_t{1} << 62;
    T* const data = reinterpret_cast<T*>(p.data);
    const auto value = [&](std::int64_t index) {
        return start.deviation == 0 ? start.constant
               : index < used       ? start.deviation * normal(c.facts.seed, stream, static_cast<std::uint64_t>(index))
                                    : 0;
    };
    in_parallel(elements(*p.buffer), [&](std::int64_t begin, std::int64_t end) {
        InFourBits low(value);
        for (std::int64_t i = begin; i < end; ++i) {
            const std::int64_t index = whole_index(view, i);
            data[i] = static_cast<T>(p.buffer->dtype == DType::nf4 ? low.at(index) : value(index));
        }
    });
}

} // namespace

void run_kernel(const Op& op, std::span<const Operand> in, std::span<const Operand> out, const KernelContext& context) {
    const Call call{op, in, out, context};
    context.real == DType::fp64 ? dispatch<double>(call) : dispatch<float>(call);
    round_stored(out, context);
}

void initialise(const Operand& parameter, const KernelContext& context) {
    const DType stored = stored_type(parameter.buffer->dtype, context.real);
    if (stored == DType::bf16 || stored == DType::fp16) {
        const std::int64_t n = elements(*parameter.buffer);
        std::vector<float> values(static_cast<std::size_t>(n));
        fill<float>({reinterpret_cast<std::byte*>(values.data()), parameter.buffer, parameter.id}, context);
        in_parallel(n, [&](std::int64_t begin, std::int64_t end) {
            for (std::int64_t i = begin; i < end; ++i) write_element(parameter.data, i, static_cast<double>(values[i]), stored);
        });
        return;
    }
    stored == DType::fp64 ? fill<double>(parameter, context) : fill<float>(parameter, context);
    round_stored({&parameter, 1}, context);
}

} // namespace orrery
