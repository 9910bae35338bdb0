// Arrays to call single kernels with, on a rank of a mesh of one's choice, in fp64.
#pragma once

#include "exec/kernels/buckets.hpp"
#include "exec/kernels/kernel.hpp"
#include "exec/kernels/random.hpp"
#include "exec/kernels/shards.hpp"
#include "exec/kernels/tokens.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <vector>

namespace orrery::test {

struct Array {
    Buffer buffer;
    std::vector<double> data;
    double& operator[](std::int64_t i) { return data[i]; }
    double operator[](std::int64_t i) const { return data[i]; }
};

inline Array zeros(std::vector<std::int64_t> shape, MemoryKind kind = MemoryKind::activations) {
    Array a;
    a.buffer.shape = std::move(shape);
    a.buffer.dtype = DType::fp64;
    a.buffer.kind = kind;
    a.data.assign(elements(a.buffer), 0.0);
    return a;
}

inline Array random_array(std::vector<std::int64_t> shape, std::uint64_t stream, MemoryKind kind = MemoryKind::activations) {
    Array a = zeros(std::move(shape), kind);
    for (std::size_t i = 0; i < a.data.size(); ++i) a.data[i] = normal(1, stream, i);
    return a;
}

// int64 and booleans in the same storage: 8 bytes hold either. Token ids, or how many rows go to each expert.
struct Integers {
    Buffer buffer;
    std::vector<std::int64_t> data;
    explicit Integers(std::vector<std::int64_t> values, Role role = Role::counts) : data(std::move(values)) {
        buffer.role = role;
        buffer.shape = {static_cast<std::int64_t>(data.size())};
        buffer.dtype = DType::int64;
    }
};
struct Flags {
    Buffer buffer;
    std::vector<unsigned char> data;
    explicit Flags(std::vector<std::int64_t> shape) {
        buffer.shape = std::move(shape);
        buffer.dtype = DType::boolean;
        data.assign(elements(buffer), 0);
    }
};

struct Arg {
    Operand operand;
    template <class A> Arg(A& a) : operand{reinterpret_cast<std::byte*>(a.data.data()), &a.buffer, -1} {}
};

struct Rank {
    Plan plan;
    KernelFacts facts;
    BucketLayouts buckets;
    Coordinates at{};
    std::int64_t first_sequence = 0, step = 0;

    Rank() { plan.mesh.order = parse_rank_order("tp-cp-ep-dp-pp"); }
    Rank& on(Axis axis, int extent, int coordinate) {
        plan.mesh.size[axis] = extent;
        at[axis] = coordinate;
        return *this;
    }
    KernelContext context() const { return {plan, facts, buckets, DType::fp64, at, {}, first_sequence, step}; }
    void run(Work work, std::vector<Arg> in, std::vector<Arg> out, const std::string& name = "l0.op", Phase phase = Phase::forward,
             int layer = 0) const {
        Op op;
        op.work = std::move(work);
        op.name = name;
        op.layer = static_cast<std::int16_t>(layer);
        op.phase = phase;
        std::vector<Operand> read, written;
        for (const Arg& a : in) read.push_back(a.operand);
        for (const Arg& a : out) written.push_back(a.operand);
        run_kernel(op, read, written, context());
    }
};

inline double distance(const std::vector<double>& a, const std::vector<double>& b) {
    EXPECT_EQ(a.size(), b.size());
    double d = 0, size = 0;
    for (std::size_t i = 0; i < a.size(); ++i) d += (a[i] - b[i]) * (a[i] - b[i]), size += b[i] * b[i];
    return std::sqrt(d / std::max(size, 1e-300));
}

} // namespace orrery::test
