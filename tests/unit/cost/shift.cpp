// Is a shift what its hops are: point-to-point transfers that progress together, no faster than the slowest?
#include "tests/unit/cost/fixture.hpp"

#include <algorithm>

namespace orrery::cost_test {
namespace {

constexpr double mib = 1048576;

double transfer_us(const Costs& c, double bytes, int from, int to) {
    return alone_us(c.model.transfer({static_cast<std::int64_t>(bytes)}, from, to));
}

TEST(Shift, TakesAsLongAsItsSlowestHop) {
    const Costs c(on_cluster("dgx-h100", 2));
    for (double bytes : {64 * 1024.0, 4 * mib, 256 * mib}) {
        const double inside = transfer_us(c, bytes, 0, 1), across = transfer_us(c, bytes, 0, 8);
        ASSERT_LT(inside, across);
        EXPECT_DOUBLE_EQ(alone_us(c.collective(CollectiveKind::shift, bytes, ranks(4))), inside);
        EXPECT_NEAR(alone_us(c.collective(CollectiveKind::shift, bytes, ranks(4, 6))), across, 1e-9 * across); // 6 7 | 8 9
        EXPECT_NEAR(alone_us(c.collective(CollectiveKind::shift_back, bytes, ranks(4, 6))), across, 1e-9 * across);
    }
    EXPECT_EQ(c.collective(CollectiveKind::shift, mib, ranks(1)).payload, 0);
}

// Every member sends all of the bytes once and takes them in once, the other way when it goes back.
TEST(Shift, LoadsEveryLinkOnItsWayOnce) {
    const Costs c(on_cluster("dgx-h100", 2));
    const auto group = ranks(8, 4); // 4 .. 7 | 8 .. 11: two crossings
    for (CollectiveKind kind : {CollectiveKind::shift, CollectiveKind::shift_back}) {
        const auto loads = c.loads(kind, mib, c.collective(kind, mib, group), group);
        double sum = 0, expected = 0;
        for (const LinkLoad& l : loads) {
            EXPECT_LE(l.load, 1 + 1e-12);
            sum += l.load;
        }
        for (std::size_t i = 0; i < group.size(); ++i)
            for (const LinkLoad& l : c.model.transfer_loads(group[i], group[(i + 1) % group.size()])) expected += l.load;
        EXPECT_NEAR(sum, expected, 1e-9);
        EXPECT_TRUE(std::is_sorted(loads.begin(), loads.end(), [](const LinkLoad& a, const LinkLoad& b) { return a.link < b.link; }));
    }
}

} // namespace
} // namespace orrery::cost_test
