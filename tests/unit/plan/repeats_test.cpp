// Programs of many microbatches repeat. What is passed by there must be what looking at every action gives.
#include "sim/plan/repeats.hpp"
#include "tests/unit/plan/plans.hpp"

namespace orrery::test {
namespace {

// Programs whose actions repeat; -1 where the two plans differ.
int same_waits(const Plan& quick, const Plan& all) {
    int repeating = 0;
    EXPECT_EQ(quick.programs.size(), all.programs.size());
    for (std::size_t stage = 0; stage < quick.programs.size(); ++stage) {
        const Program &a = quick.programs[stage], &b = all.programs[stage];
        const auto count = static_cast<std::int32_t>(a.actions.size());
        for (std::int32_t i = 0; i < count; ++i) {
            const Action &x = a.actions[i], &y = b.actions[i];
            const bool same = x.deps_end - x.deps_begin == y.deps_end - y.deps_begin &&
                              std::equal(a.deps.begin() + x.deps_begin, a.deps.begin() + x.deps_end, b.deps.begin() + y.deps_begin,
                                         [](const ActionDep& d, const ActionDep& e) {
                                             return d.op == e.op && d.on_action == e.on_action && d.on_op == e.on_op;
                                         });
            EXPECT_TRUE(same) << "stage " << stage << ", action " << i << " of " << count;
            if (!same) return -1;
        }
        repeating += repeated_actions(a, {}).period > 0;
    }
    return repeating;
}

class ManyMicrobatches : public testing::TestWithParam<Example> {};

TEST_P(ManyMicrobatches, AreBoundAsOneByOne) {
    for (const char* batch : {"training.global_batch_size=192", "training.global_batch_size=528"}) {
        const Scenario s = scenario_of(GetParam().overrides + std::vector<std::string>{batch});
        EXPECT_GE(same_waits(lower(s), lower_action_by_action(s)), 0) << batch;
    }
}

std::vector<Example> all_schedules_and_examples() {
    std::vector<Example> all = examples();
    for (const char* what : {"cpu", "nvme"})
        for (const auto& [name, overrides] :
             {std::pair{"one stage", std::vector<std::string>{}}, {"1f1b", pp2}, {"interleaved", interleaved}})
            all.push_back({std::string("activations on ") + what + ", " + name,
                           overrides + std::vector<std::string>{std::string("strategy.offload.activations=") + what}});
    all.push_back({"activations of summands on the host", tp2 + std::vector<std::string>{"strategy.offload.activations=cpu"}});
    return all;
}

INSTANTIATE_TEST_SUITE_P(Examples, ManyMicrobatches, testing::ValuesIn(all_schedules_and_examples()));

TEST(Repeats, SteadyStatesAreFound) {
    const auto run = [](const std::vector<std::string>& overrides) {
        const Plan plan = plan_of(overrides + std::vector<std::string>{"training.global_batch_size=512"});
        return repeated_actions(plan.programs.front(), {});
    };
    EXPECT_EQ(run({}).period, 2) << "a forward and a backward step";
    EXPECT_EQ(run({}).microbatches, 1);
    EXPECT_GT(run(pp2).period, 0);
    EXPECT_GT(run(interleaved).end - run(interleaved).begin, 8 * run(interleaved).period);
    EXPECT_EQ(run(interleaved).microbatches, 2) << "a group of as many as there are stages";
}

} // namespace
} // namespace orrery::test
