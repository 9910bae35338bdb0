// Are good plans good? Every strategy's plan keeps every rule.
#include "tests/unit/plan/plans.hpp"

namespace orrery::test {
namespace {

TEST(Verify, FindsNothingInWhatLoweringMakes) {
    for (const Example& e : examples()) {
        SCOPED_TRACE(e.name);
        EXPECT_EQ(to_text(verify(plan_of(e.overrides))), "");
    }
}

} // namespace
} // namespace orrery::test
