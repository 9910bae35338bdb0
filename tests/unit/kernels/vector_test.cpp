// Reductions of arrays, of every length.
#include "exec/kernels/vector.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <limits>
#include <vector>

namespace orrery {
namespace {

TEST(Vector, SumsAreOfEveryElementWhateverTheLength) {
    for (std::int64_t n = 0; n < 70; ++n) {
        std::vector<double> x(static_cast<std::size_t>(n));
        double total = 0, squares = 0, most = -std::numeric_limits<double>::infinity();
        for (std::int64_t i = 0; i < n; ++i) {
            const double v = static_cast<double>(i * 37 % 11) - 4;
            x[i] = v;
            total += v;
            squares += v * v;
            most = std::max(most, v);
        }
        EXPECT_EQ(sum(x.data(), n), total);
        EXPECT_EQ(dot(x.data(), x.data(), n), squares);
        EXPECT_EQ(largest(x.data(), n), most);
    }
}

} // namespace
} // namespace orrery
