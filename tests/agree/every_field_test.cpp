// Does any combination of fields train otherwise than one rank? Tiny scenarios over every field of the schema that can be executed, in
// double precision, on the serial executor and on one of the others. ORRERY_DRAWS=n draws n of them from a seed of ORRERY_FUZZ_SEED.
#include "agree.hpp"

#include "exec/local/agreement.hpp"
#include "sim/memory/memory.hpp"
#include "tests/fuzz/legal.hpp"

#include <gtest/gtest.h>

namespace orrery::agree {
namespace {

std::vector<Problem> refused_at_random(const Scenario& s) {
    std::vector<Problem> problems = not_executable(s);
    // Strategies are compared in double precision: fewer digits agree within limits of their own (other tests).
    if (s.training.precision != DType::fp32) problems.push_back({"/training/precision", "other than fp32"});
    if (s.world_size() > 16) problems.push_back({"/strategy/data_parallel", "too many ranks"});
    return problems;
}

Learned trained(const Scenario& s, bool by_position, const char* executor) {
    Learning how;
    how.steps = 3;
    how.forced_routing = by_position;
    how.executor = [executor](World& w) { return make_executor(executor, w); };
    return learn(s, how);
}

void expect_memory_as_predicted(const Scenario& s, const Learned& many) {
    const Plan plan = executed_plan(s);
    const MemoryReport predicted = memory(plan, s);
    for (std::size_t r = 0; r < many.peaks.size(); ++r) {
        const int stage = plan.mesh.coordinates(static_cast<int>(r))[Axis::pp];
        EXPECT_EQ(many.peaks[r], predicted.stages[stage].allocated_peak.count) << "rank " << r;
    }
}

TEST(AgreeAtRandom, EveryFieldOfTheSchema) {
    const fuzz::LegalScenarios scenarios({{{"preset", "local-cpu"}}}, refused_at_random);
    const int count = fuzz::setting("ORRERY_DRAWS", 60);
    const auto base = static_cast<std::uint64_t>(fuzz::setting("ORRERY_FUZZ_SEED", 1)) * 1000159;
    int compared = 0, several = 0;
    for (int i = 0; i < count; ++i) {
        fuzz::Random r{base + static_cast<std::uint64_t>(i)};
        fuzz::Json text;
        const std::optional<Scenario> s = scenarios.draw(r, text);
        if (!s) continue;
        SCOPED_TRACE(text.dump());
        const Learned many = trained(*s, routes_by_position(*s), "serial");
        expect_memory_as_predicted(*s, many);
        const Learned other = trained(*s, routes_by_position(*s), i % 2 == 0 ? "threads" : "queues");
        EXPECT_EQ(other.parameters, many.parameters) << "executors carry out the same plan";
        if (!unlike_one_rank(*s).empty()) continue;
        const Agreement found = agreement(trained(on_one_rank(*s), routes_by_position(*s), "serial"), many, limits_of(DType::fp64));
        for (const Agreement::Row& row : found.rows)
            EXPECT_TRUE(row.agrees) << row.what << " " << row.difference.relative << " " << row.difference.worst;
        ++compared;
        several += s->world_size() > 1;
    }
    fmt::print("{} scenarios: {} compared with one rank, {} of several\n", count, compared, several);
    EXPECT_GE(several, count / 4) << "most must be scenarios, not mistakes";
}

} // namespace
} // namespace orrery::agree
