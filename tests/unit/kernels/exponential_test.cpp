// Is the vector exponential the scalar one, everywhere and whatever stands beside it?
#include "exec/kernels/exponential.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <vector>

namespace orrery {
namespace {

template <class T> class Exponential : public testing::Test {};
using Types = testing::Types<float, double>;
TYPED_TEST_SUITE(Exponential, Types);

TYPED_TEST(Exponential, IsWithinTwoUnitsOfTheLastPlace) {
    using T = TypeParam;
    std::vector<T> x, y;
    const double low = sizeof(T) == 4 ? -87 : -708, high = std::log(static_cast<double>(std::numeric_limits<T>::max()));
    for (int i = 1; i < 20000; ++i) x.push_back(static_cast<T>(low + (high - low) * i / 20001));
    y = x;
    exponential(y.data(), static_cast<std::int64_t>(y.size()));
    for (std::size_t i = 0; i < x.size(); ++i) {
        const T right = std::exp(x[i]);
        EXPECT_NEAR(y[i] / right, 1, 2 * std::numeric_limits<T>::epsilon()) << x[i];
    }
}

TYPED_TEST(Exponential, EndsOfTheRangeAndNaN) {
    using T = TypeParam;
    const T inf = std::numeric_limits<T>::infinity();
    std::vector<T> x{-inf, inf, std::numeric_limits<T>::quiet_NaN(), T(0), T(-1e6), T(1e6)};
    exponential(x.data(), 6);
    EXPECT_EQ(x[0], 0);
    EXPECT_EQ(x[1], inf);
    EXPECT_TRUE(std::isnan(x[2]));
    EXPECT_EQ(x[3], 1);
    EXPECT_EQ(x[4], 0);
    EXPECT_EQ(x[5], inf);
}

TYPED_TEST(Exponential, OfAShardIsThatOfTheWhole) {
    using T = TypeParam;
    std::vector<T> whole;
    for (int i = 0; i < 333; ++i) whole.push_back(static_cast<T>(std::sin(i) * 10));
    std::vector<T> shards = whole;
    exponential(whole.data(), 333);
    for (int begin = 0; begin < 333; begin += 37) exponential(shards.data() + begin, 37);
    EXPECT_EQ(whole, shards);
}

} // namespace
} // namespace orrery
