// Is anything read from a name? Buffers, ops, blocks, communicators and buckets of random plans get names that mean nothing: verification,
// memory, simulation and training do not notice.
#include "draw.hpp"

#include "exec/kernels/random.hpp"
#include "sim/engine/simulate.hpp"
#include "sim/memory/memory.hpp"
#include "sim/plan/lower.hpp"
#include "sim/plan/verify.hpp"
#include "tests/laws/simulations.hpp"
#include "tests/unit/plan/mutations.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>

namespace orrery::agree {
namespace {

void rename(Plan& plan) {
    std::uint64_t count = 0;
    const auto change = [&](std::string& name) { // unique, in no order, without a letter of the old one
        name = "?" + std::to_string(name_key(std::to_string(count++)));
    };
    for (Buffer& b : plan.buffers) change(b.name);
    for (Communicator& c : plan.communicators) change(c.name);
    for (TensorBucket& b : plan.buckets) change(b.name);
    for (Block& b : plan.blocks) {
        change(b.name);
        for (Op& op : b.ops) change(op.name);
    }
}

Plan renamed(Plan plan) {
    rename(plan);
    return plan;
}

std::vector<std::string> rules(const Plan& plan) {
    std::vector<std::string> found;
    for (const Violation& v : verify(plan)) found.push_back(v.rule);
    std::sort(found.begin(), found.end());
    return found;
}

// The lists of the largest buffers apart, which group them by their names.
void expect_same_memory(const Plan& a, const Plan& b, const Scenario& s) {
    const MemoryReport x = memory(a, s), y = memory(b, s);
    ASSERT_EQ(x.stages.size(), y.stages.size());
    for (std::size_t i = 0; i < x.stages.size(); ++i) {
        const StageMemory &p = x.stages[i], &q = y.stages[i];
        EXPECT_EQ(p.peak, q.peak);
        EXPECT_EQ(p.allocated_peak, q.allocated_peak);
        EXPECT_EQ(p.by_kind, q.by_kind);
        EXPECT_EQ(p.reserved, q.reserved);
        EXPECT_EQ(p.peak_action, q.peak_action);
        EXPECT_EQ(p.peak_op, q.peak_op);
        EXPECT_EQ(p.timeline, q.timeline);
    }
}

void expect_same_simulation(const Plan& a, const Plan& b, const Scenario& s) {
    const Fabric fabric(s.cluster);
    const CostModel cost(s, fabric);
    const Simulation x = simulate(a, s, fabric, cost), y = simulate(b, s, fabric, cost);
    laws::expect_identical(x, y);
}

// With an op missing: the same rules are broken, whatever it is called.
void expect_same_faults(const Plan& plan, std::uint64_t seed) {
    for (std::uint64_t k = 0; k < 3; ++k) {
        const auto pick = [&](std::uint64_t what, std::size_t n) {
            return static_cast<std::int32_t>(uniform(seed, what, k) * static_cast<double>(n));
        };
        Plan broken_plan = plan;
        const std::int32_t block = pick(1, plan.blocks.size());
        const std::size_t ops = plan.blocks[block].ops.size();
        if (ops < 2) continue;
        test::drop_op(broken_plan, block, pick(2, ops));
        EXPECT_EQ(rules(broken_plan), rules(renamed(broken_plan))) << "without an op of " << plan.blocks[block].name;
    }
}

TEST(Renamed, NothingIsReadFromNames) {
    const char* const asked = std::getenv("ORRERY_DRAWS");
    const int wanted = asked ? std::atoi(asked) : 200;
    int found = 0;
    for (std::uint64_t seed = 10000; found < wanted && seed < 10000 + 100 * static_cast<std::uint64_t>(wanted); ++seed) {
        Fields fields;
        const std::optional<Scenario> scenario = draw(seed, fields);
        if (!scenario) continue;
        ++found;
        std::string line = "seed " + std::to_string(seed) + ":";
        for (const std::string& f : fields) line += " " + f;
        SCOPED_TRACE(line);
        const Plan plan = lower(*scenario), other = renamed(plan);
        EXPECT_TRUE(verify(other).empty()) << to_text(verify(other));
        expect_same_faults(plan, seed);
        expect_same_memory(plan, other, *scenario);
        expect_same_simulation(plan, other, *scenario);
        TrainOptions options{.steps = 1, .forced_routing = false};
        const Trained before = train(*scenario, options);
        options.change = rename;
        const Trained after = train(*scenario, options);
        EXPECT_EQ(before.losses, after.losses);
        EXPECT_EQ(before.first_gradients, after.first_gradients);
        EXPECT_EQ(before.parameters, after.parameters);
        EXPECT_EQ(before.states, after.states);
    }
    EXPECT_EQ(found, wanted);
}

} // namespace
} // namespace orrery::agree
