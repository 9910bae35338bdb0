// Is a machine whose durations are scaled the machine that is compiled of scaled costs? Steps agree for each group of constants.
#include "sim/report/report.hpp"
#include "tests/laws/scenarios.hpp"

#include <limits>

namespace orrery::laws {
namespace {

std::string job(const std::string& cluster, const std::string& strategy, const std::string& model = R"("gpt3-1.3b")",
                const std::string& more = "") {
    return R"({"name": "job", "model": )" + model + R"(, "cluster": )" + cluster +
           R"(, "training": {"global_batch_size": 32, "micro_batch_size": 1, "sequence_length": 2048, "precision": "bf16"}, "strategy": )" +
           strategy + more + "}";
}

const std::string two_nodes = R"({"preset": "dgx-a100-80gb", "nodes": 2})";

const std::string jobs[] = {
    job(two_nodes, R"({"framework": "ddp"})"),
    job(two_nodes, R"({"framework": "fsdp2"})"),
    job(two_nodes, R"({"framework": "megatron", "tensor_parallel": 4, "pipeline_parallel": 4, "zero_stage": 1})"),
    job(two_nodes, R"({"framework": "megatron", "tensor_parallel": 2, "pipeline_parallel": 2, "virtual_pipeline": 3})"),
    job(two_nodes, R"({"framework": "deepspeed", "zero_stage": 2, "offload": {"optimizer": "cpu"}})"),
    job(R"({"preset": "dgx-a100-80gb", "nodes": 1})", R"({"framework": "megatron", "offload": {"activations": "cpu"}})"),
    job(R"({"preset": "dgx-h100", "nodes": 2, "others": [{"device": "a100-sxm-80gb", "nodes": 1}]})", R"({"framework": "ddp"})"),
    job(two_nodes, R"({"framework": "megatron", "expert_parallel": 8})", R"("mixtral-8x7b")"),
    job(R"({"preset": "dgx-a100-80gb", "nodes": 2, "inter_node": {"nics_per_node": 1, "gbit_per_s": 50}})", R"({"framework": "ddp"})"),
    job(two_nodes, R"({"framework": "megatron", "tensor_parallel": 8})", R"("gpt3-1.3b")", R"(, "perturb": [{"slow": 1.2, "rank": 3}])"),
};

TEST(RetimeLaws, AStepOfSlowerDurationsIsTheStepOfSlowerCosts) {
    int compared = 0;
    for (const std::string& text : jobs) {
        const Scenario s = scenario(text);
        PredictOptions asked;
        asked.shares = true;
        const Prediction base = predict(s, asked);
        for (std::size_t g = 0; g < base.simulation.slower.size(); ++g) {
            PredictOptions slower;
            slower.simulate.factors[g] = slower_by;
            const double step = predict(s, slower).simulation.step_time.seconds();
            const double retimed = (base.simulation.slower[g].ps > 0 ? base.simulation.slower[g] : base.simulation.step_time).seconds();
            EXPECT_NEAR(retimed / step, 1, 1e-6) << text << ": " << name(static_cast<CostGroup>(g));
            compared += base.simulation.slower[g] > base.simulation.step_time;
        }
    }
    EXPECT_GT(compared, 40) << "groups that make the step longer";
}

// A group's absence is not a zero share by mistake: what no duration rests on changes nothing.
TEST(RetimeLaws, AGroupThatNothingRestsOnIsNotSimulatedAgain) {
    PredictOptions asked;
    asked.shares = true;
    const Simulation one =
        predict(scenario(job(R"({"preset": "dgx-a100-80gb", "nodes": 1})", R"({"framework": "ddp"})")), asked).simulation;
    EXPECT_EQ(one.slower[CostGroup::experts].ps, 0);
    EXPECT_EQ(one.slower[CostGroup::links_between].ps, 0);
    EXPECT_GT(one.slower[CostGroup::links_inside].ps, 0);
    EXPECT_GT(one.slower[CostGroup::products], one.step_time);
}

} // namespace
} // namespace orrery::laws
