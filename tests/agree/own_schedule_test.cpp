// A schedule that only this file knows: does the parser take it, the simulator time it, the runtime train with it?
#include "tests/agree/agree.hpp"

#include "sim/plan/lower.hpp"
#include "sim/plan/verify.hpp"
#include "sim/report/report.hpp"
#include "sim/scenario/parse.hpp"
#include "sim/schedules/schedule.hpp"

#include <gtest/gtest.h>

namespace orrery::agree {
namespace {

// GPipe in groups of two microbatches: forwards of a group, then its backwards. Between 1F1B's memory and GPipe's.
std::vector<ShapeProblem> check_pairs(const ScheduleShape& shape) {
    if (shape.chunks_per_stage != 1) return {{ShapeCount::chunks_per_stage, "in-pairs needs virtual_pipeline = 1"}};
    if (shape.microbatches % 2 != 0)
        return {{ShapeCount::microbatches, "in-pairs needs an even number of microbatches", shape.microbatches + 1}};
    return {};
}

Schedule make_pairs(const ScheduleShape& shape) {
    Schedule schedule;
    for (int rank = 0; rank < shape.stages; ++rank) {
        auto& steps = schedule.ranks.emplace_back();
        for (std::int32_t first = 0; first < shape.microbatches; first += 2)
            for (StepKind kind : {StepKind::forward, StepKind::backward})
                for (std::int32_t k : {first, first + 1}) steps.push_back({kind, static_cast<std::int16_t>(rank), k});
    }
    return schedule;
}

class OwnSchedule : public testing::Test {
  protected:
    static void SetUpTestSuite() {
        register_schedule({.name = "in-pairs",
                           .title = "Pairs of microbatches",
                           .source = "this test",
                           .summary = "forwards of two microbatches, then their backwards",
                           .splits_backward = false,
                           .stage_of = [](int chunk, int stages) { return chunk % stages; },
                           .check = check_pairs,
                           .make = make_pairs});
    }
    std::vector<std::string> fields(int batch) const {
        return {"strategy.pipeline_parallel=2", "strategy.schedule=in-pairs", "training.global_batch_size=" + std::to_string(batch)};
    }
};

TEST_F(OwnSchedule, IsTakenByTheParserAndOrdersThePlan) {
    const Scenario scenario = tiny(fields(4));
    const Plan plan = lower(scenario);
    const ScheduleInfo* own = find_schedule("in-pairs");
    ASSERT_NE(own, nullptr);
    EXPECT_EQ(verify(plan).size(), 0u);
    std::string steps; // forward and backward actions of the last stage, in issue order
    for (const Action& a : plan.programs[1].actions) {
        const BlockKind kind = plan.blocks[a.block].kind;
        if (kind == BlockKind::forward || kind == BlockKind::backward)
            steps += (kind == BlockKind::forward ? " F" : " B") + std::to_string(a.microbatch[0]);
    }
    EXPECT_EQ(steps, " F0 F1 B0 B1 F2 F3 B2 B3");
    EXPECT_THROW(register_schedule(*own), std::invalid_argument);
}

TEST_F(OwnSchedule, IsTimedBetweenOneAtATimeAndAllAtOnce) {
    const auto step = [&](const char* schedule) {
        std::vector<std::string> all = fields(8);
        all[1] = std::string("strategy.schedule=") + schedule;
        all.insert(all.end(), {"model.hidden_size=256", "model.ffn_size=1024", "training.sequence_length=128"}); // kernels, not launches
        return predict(tiny(all)).report.step_time_s;
    };
    EXPECT_LT(step("in-pairs"), step("none"));
    EXPECT_GT(step("in-pairs"), step("1f1b"));
}

TEST_F(OwnSchedule, TrainsAsOneRankDoes) {
    const Scenario scenario = tiny(fields(4));
    const Trained one = train(on_one_rank(scenario)), own = train(scenario);
    const Difference d = difference(one.parameters, own.parameters, 1e-12);
    EXPECT_LT(d.relative, 1e-9) << d.worst;
}

TEST_F(OwnSchedule, SaysItselfWhatItCannotDo) {
    const auto message = [](const std::string& batch) {
        return to_text(parse_scenario(R"({"model": "gpt3-125m", "cluster": {"preset": "dgx-a100-40gb", "nodes": 1},
            "training": {"global_batch_size": )" +
                                      batch + R"(, "micro_batch_size": 1, "sequence_length": 64},
            "strategy": {"pipeline_parallel": 8, "schedule": "in-pairs"}})")
                           .problems);
    };
    EXPECT_EQ(message("4"), "");
    EXPECT_EQ(message("5"),
              "/training/global_batch_size: strategy.schedule = in-pairs needs an even number of microbatches; microbatches = "
              "global_batch_size / (data_parallel x micro_batch_size): try global_batch_size = 6\n");
}

} // namespace
} // namespace orrery::agree
