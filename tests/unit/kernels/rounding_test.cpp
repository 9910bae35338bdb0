// Numbers of 4 bits with an exponent (E3M0) in blocks: which they are, and how far they are off.
#include "exec/kernels/rounding.hpp"

#include <gtest/gtest.h>

namespace orrery {
namespace {

TEST(Fp4, HoldsZeroAndSevenPowersOfTwoOfTheLargest) {
    std::vector<double> x{3, -1.5, 0.75, -3.0 / 8, 3.0 / 16, 3.0 / 32, -3.0 / 64, 0};
    const std::vector<double> exact = x;
    round_in_blocks(x.data(), 8, DType::fp4);
    EXPECT_EQ(x, exact);
    std::vector<double> between{8, 5.9, 6.1, 0.06, -0.07, 0};
    round_in_blocks(between.data(), 6, DType::fp4);
    EXPECT_EQ(between, (std::vector<double>{8, 4, 8, 0, -0.125, 0}));
    std::vector<float> none(3, 0);
    round_in_blocks(none.data(), 3, DType::fp4);
    EXPECT_EQ(none, std::vector<float>(3, 0));
}

TEST(Fp4, IsAThirdOffAtMostDownToItsSmallest) {
    std::vector<double> x(3 * quantization_block + 5);
    for (std::size_t i = 0; i < x.size(); ++i) x[i] = std::sin(static_cast<double>(i) * 1.7) * std::exp(-static_cast<double>(i % 7));
    const std::vector<double> exact = x;
    round_in_blocks(x.data(), static_cast<std::int64_t>(x.size()), DType::fp4);
    for (std::size_t begin = 0; begin < x.size(); begin += quantization_block) {
        const std::size_t end = std::min(x.size(), begin + quantization_block);
        double largest = 0;
        for (std::size_t i = begin; i < end; ++i) largest = std::max(largest, std::abs(exact[i]));
        for (std::size_t i = begin; i < end; ++i)
            EXPECT_LE(std::abs(x[i] - exact[i]), std::max(std::abs(exact[i]) / 3 * (1 + 1e-12), largest / 128)) << i;
    }
}

} // namespace
} // namespace orrery
