// One call of a kernel, and the kernels by the work they do. Internal to this room; each is instantiated for float and double.
#pragma once

#include "exec/kernels/kernel.hpp"
#include "exec/kernels/team.hpp"
#include "topology/check.hpp"

namespace orrery {

struct Call {
    const Op& op;
    std::span<const Operand> in, out;
    const KernelContext& context;

    template <class T> T* input(std::size_t i) const { return reinterpret_cast<T*>(at(in, i).data); }
    template <class T> T* output(std::size_t i) const { return reinterpret_cast<T*>(at(out, i).data); }
    const Buffer& read(std::size_t i) const { return *at(in, i).buffer; }
    const Buffer& written(std::size_t i) const { return *at(out, i).buffer; }
    Team* team() const { return context.team; }
    int coordinate(Axis a) const { return context.at[a]; }

  private:
    static const Operand& at(std::span<const Operand> list, std::size_t i) {
        require(i < list.size(), "an op has fewer operands than its kernel needs");
        return list[i];
    }
};

inline std::int64_t columns(const Buffer& b) { return b.shape.back(); }

template <class T> void run(const Linear& w, const Call& c);
template <class T> void run(const Matmul& w, const Call& c);
template <class T> void run(const Attention& w, const Call& c);
template <class T> void run(const Softmax& w, const Call& c);
template <class T> void run(const Norm& w, const Call& c);
template <class T> void run(const Pointwise& w, const Call& c);
template <class T> void run(const Embedding& w, const Call& c);
template <class T> void run(const CrossEntropy& w, const Call& c);
template <class T> void run(const Router& w, const Call& c);
template <class T> void run(const Permute& w, const Call& c);
template <class T> void run(const OptimizerStep& w, const Call& c);
template <class T> void run(const GradientNorm& w, const Call& c);
template <class T> void run(const Compress& w, const Call& c);

} // namespace orrery
