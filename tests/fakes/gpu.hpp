// A GPU of the stand-ins: exec/cuda's streams and communicators as they are, with the processor's kernels. Where it stores 16 bits an
// element the kernels are given copies in fp32, and what they make is rounded.
#pragma once

#include "exec/cuda/streams.hpp"
#include "exec/kernels/loss_scale.hpp"
#include "exec/kernels/machine.hpp"
#include "tests/fakes/fakes.hpp"

#include <algorithm>
#include <map>
#include <mutex>
#include <optional>
#include <stdexcept>
#include <thread>

namespace orrery::test {

using KernelOfProcessor = std::function<void(const Op&, std::span<const Operand>, std::span<const Operand>, const KernelContext&)>;

// Copies in fp32 of all that an op's operands hold in 16 bits: what lies over each other there does in the copies too.
class Widened {
  public:
    Widened(std::span<const Operand> in, std::span<const Operand> out, DType real) : real_(real) {
        for (const auto list : {in, out})
            for (const Operand& o : list)
                if (narrow(o)) ranges_.push_back({o.data, o.data + 2 * elements(*o.buffer), type(o), {}});
        std::ranges::sort(ranges_, {}, &Range::begin);
        std::vector<Range> apart;
        for (const Range& r : ranges_) {
            if (apart.empty() || r.begin >= apart.back().end) {
                apart.push_back(r);
                continue;
            }
            if (r.type != apart.back().type) throw std::runtime_error("an op's operands of several types lie over each other");
            apart.back().end = std::max(apart.back().end, r.end);
        }
        ranges_ = std::move(apart);
        for (Range& r : ranges_) {
            r.wide.resize(static_cast<std::size_t>(r.end - r.begin) / 2);
            for (std::size_t i = 0; i < r.wide.size(); ++i)
                r.wide[i] = static_cast<float>(read_element(r.begin, static_cast<std::int64_t>(i), r.type));
        }
    }
    std::vector<Operand> copies(std::span<const Operand> list) {
        std::vector<Operand> all(list.begin(), list.end());
        for (Operand& o : all)
            if (narrow(o)) o.data = place(o);
        return all;
    }
    void store(std::span<const Operand> out) {
        for (const Operand& o : out) {
            if (!narrow(o)) continue;
            const float* const from = reinterpret_cast<const float*>(place(o));
            for (std::int64_t i = 0; i < elements(*o.buffer); ++i) write_element(o.data, i, static_cast<double>(from[i]), type(o));
        }
    }

  private:
    struct Range {
        std::byte *begin, *end;
        DType type;
        std::vector<float> wide;
    };
    DType type(const Operand& o) const { return stored_type(o.buffer->dtype, real_); }
    bool narrow(const Operand& o) const { return o.data && (type(o) == DType::bf16 || type(o) == DType::fp16) && elements(*o.buffer) > 0; }
    std::byte* place(const Operand& o) {
        for (Range& r : ranges_)
            if (o.data >= r.begin && o.data < r.end) return reinterpret_cast<std::byte*>(r.wide.data()) + 2 * (o.data - r.begin);
        throw std::runtime_error("an operand without a copy");
    }

    DType real_;
    std::vector<Range> ranges_;
};

inline void run_as_stored(const KernelOfProcessor& kernel, const Op& op, std::span<const Operand> in, std::span<const Operand> out,
                          const KernelContext& context) {
    if (context.real != DType::bf16 && context.real != DType::fp16) return kernel(op, in, out, context);
    Widened widened(in, out, context.real);
    KernelContext wide = context;
    wide.real = DType::fp32;
    kernel(op, widened.copies(in), widened.copies(out), wide);
    widened.store(out);
}

class StandInGpu final : public cuda::Streams {
  public:
    StandInGpu(int device, const Backend& machine) : Streams(device), kernel_(machine.kernel) {}
    std::string name() const override { return "a stand-in"; }
    Status delay(std::int64_t ns, QueueId queue) override {
        return cuda::guarded([&] {
            use();
            fake::launch(stream(queue), [ns] { std::this_thread::sleep_for(std::chrono::nanoseconds(ns)); });
        });
    }
    Status run(const Op& op, std::span<const Operand> in, std::span<const Operand> out, const KernelContext& context,
               QueueId queue) override {
        return cuda::guarded([&] {
            use();
            std::optional<LossScale> scale;
            if (context.scaling) {
                scale = *context.scaling;
                scale->checked = false;
            }
            fake::launch(stream(queue),
                         [this, &op, scale, i = std::vector<Operand>(in.begin(), in.end()),
                          o = std::vector<Operand>(out.begin(), out.end()), context] { launched(op, i, o, context, scale); });
        });
    }

  private:
    // A device knows of a loss's scale what the host has told it at the launch, and of an overflow what its own kernels have found.
    void launched(const Op& op, std::span<const Operand> in, std::span<const Operand> out, KernelContext context,
                  std::optional<LossScale> scale) {
        if (!scale) return run_as_stored(kernel_, op, in, out, context);
        const int rank = context.plan.mesh.rank_of(context.at);
        context.scaling = &*scale;
        {
            const std::lock_guard lock(mutex_);
            scale->overflowed = overflowed_[rank];
        }
        run_as_stored(kernel_, op, in, out, context);
        const std::lock_guard lock(mutex_);
        if (scale->checked) overflowed_[rank] = scale->overflowed;
    }

    KernelOfProcessor kernel_;
    std::mutex mutex_;
    std::map<int, bool> overflowed_; // by rank: several may share a device
};

} // namespace orrery::test
