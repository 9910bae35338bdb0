#include "exec/kernels/kernel.hpp"

#include "exec/kernels/call.hpp"
#include "exec/kernels/parallel.hpp"
#include "exec/kernels/random.hpp"
#include "exec/kernels/rounding.hpp"
#include "exec/kernels/shards.hpp"

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

bool ends_with_any(std::string_view name, std::initializer_list<std::string_view> endings) {
    for (std::string_view e : endings)
        if (name.ends_with(e)) return true;
    return false;
}

// Of a tensor's name ("w.l3.norm1.weight"): 1 for a norm's weight, 0 for a bias, else the deviation of its normal distribution.
struct Start {
    double constant, deviation;
};

Start start_of(std::string_view name, int layers) {
    if (name.ends_with(".bias")) return {0, 0};
    if (name.find("norm") != std::string_view::npos) return {1, 0};
    const bool output = ends_with_any(name, {".proj.weight", ".fc2.weight", "_fc2.weight"});
    return {0, output ? 0.02 / std::sqrt(2.0 * layers) : 0.02};
}

template <class T> void fill(const Operand& p, const KernelContext& c) {
    const Start start = start_of(p.buffer->name, c.facts.layers);
    const ShardView view = shard_view(c.plan, *p.buffer, c.at, c.expert_at);
    const std::uint64_t stream = name_key(p.buffer->name);
    const bool vocabulary = p.buffer->name == "w.embedding.weight" || p.buffer->name == "w.head.weight";
    const std::int64_t used = vocabulary ? c.facts.vocabulary * p.buffer->shape.back() : std::int64_t{1} << 62;
    T* const data = reinterpret_cast<T*>(p.data);
    in_parallel(elements(*p.buffer), [&](std::int64_t begin, std::int64_t end) {
        for (std::int64_t i = begin; i < end; ++i) {
            const std::int64_t index = whole_index(view, i);
            data[i] = static_cast<T>(start.deviation == 0 ? start.constant
                                     : index < used ? start.deviation * normal(c.facts.seed, stream, static_cast<std::uint64_t>(index))
                                                    : 0);
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
    if (stored == DType::bf16) {
        const std::int64_t n = elements(*parameter.buffer);
        std::vector<float> values(static_cast<std::size_t>(n));
        fill<float>({reinterpret_cast<std::byte*>(values.data()), parameter.buffer, parameter.id}, context);
        in_parallel(n, [&](std::int64_t begin, std::int64_t end) {
            for (std::int64_t i = begin; i < end; ++i)
                write_element(parameter.data, i, static_cast<double>(values[static_cast<std::size_t>(i)]), stored);
        });
        return;
    }
    stored == DType::fp64 ? fill<double>(parameter, context) : fill<float>(parameter, context);
    round_stored({&parameter, 1}, context);
}

} // namespace orrery
