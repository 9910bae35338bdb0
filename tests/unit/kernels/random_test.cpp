#include "exec/kernels/random.hpp"

#include <gtest/gtest.h>

#include <cmath>

namespace orrery {
namespace {

// Known answers of Random123's distribution (kat_vectors, philox4x32 10).
TEST(Random, PhiloxGivesTheKnownAnswers) {
    const auto zero = philox({0, 0, 0, 0}, {0, 0});
    EXPECT_EQ(zero, (std::array<std::uint32_t, 4>{0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8}));
    const auto ones = philox({0xffffffff, 0xffffffff, 0xffffffff, 0xffffffff}, {0xffffffff, 0xffffffff});
    EXPECT_EQ(ones, (std::array<std::uint32_t, 4>{0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd}));
    const auto pi = philox({0x243f6a88, 0x85a308d3, 0x13198a2e, 0x03707344}, {0xa4093822, 0x299f31d0});
    EXPECT_EQ(pi, (std::array<std::uint32_t, 4>{0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1}));
}

TEST(Random, MomentsAreThoseOfTheirDistributions) {
    double u = 0, n = 0, n2 = 0;
    constexpr int count = 100000;
    for (int i = 0; i < count; ++i) {
        u += uniform(7, 1, static_cast<std::uint64_t>(i));
        const double x = normal(7, 2, static_cast<std::uint64_t>(i));
        n += x;
        n2 += x * x;
    }
    EXPECT_NEAR(u / count, 0.5, 5 / std::sqrt(12.0 * count));
    EXPECT_NEAR(n / count, 0, 5 / std::sqrt(static_cast<double>(count)));
    EXPECT_NEAR(n2 / count, 1, 5 * std::sqrt(2.0 / count));
}

TEST(Random, SeedsStreamsAndIndicesAllMatter) {
    EXPECT_NE(uniform(1, 1, 1), uniform(2, 1, 1));
    EXPECT_NE(uniform(1, 1, 1), uniform(1, 2, 1));
    EXPECT_NE(uniform(1, 1, 1), uniform(1, 1, 2));
    EXPECT_EQ(uniform(1, 1, 1), uniform(1, 1, 1));
}

} // namespace
} // namespace orrery
