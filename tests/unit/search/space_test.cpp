// A space is the same whether what is legal is worked out for each micro batch or taken over from others.
#include "sim/search/space.hpp"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include <set>
#include <string>

namespace orrery {
namespace {

struct Job {
    const char* name;
    const char* json;
    Reach farthest = Reach::devices;
};

const Job jobs[] = {{"schedules", R"({"model": {"layers": 8, "hidden_size": 1024, "attention_heads": 16, "vocab_size": 32000},
        "cluster": {"preset": "dgx-h100", "nodes": 2}, "training": {"global_batch_size": 96, "sequence_length": 2048}})"},
                    {"experts", R"({"model": {"layers": 8, "hidden_size": 1024, "attention_heads": 16, "vocab_size": 32000,
        "moe": {"experts": 8, "top_k": 2, "expert_ffn_size": 2048, "first_dense_layers": 1}}, "cluster": {"preset": "dgx-h100", "nodes": 1},
        "training": {"global_batch_size": 48, "sequence_length": 1024}, "strategy": {"framework": "megatron"}})"},
                    {"short_sequences", R"({"model": {"layers": 4, "hidden_size": 768, "attention_heads": 12, "vocab_size": 32000},
        "cluster": {"preset": "dgx-h100", "nodes": 1}, "training": {"global_batch_size": 32, "sequence_length": 12},
        "strategy": {"framework": "megatron"}})"},
                    {"away", R"({"model": {"layers": 6, "hidden_size": 1024, "attention_heads": 16, "vocab_size": 50257},
        "cluster": {"device": "rtx-4090", "nodes": 2, "devices_per_node": 2, "inter_node": {"kind": "ethernet", "gbit_per_s": 100}, "host": {"memory_gb": 64, "memory_gb_per_s": 80,
        "pcie_gb_per_s": 32, "nvme_gb": 500, "nvme_gb_per_s": 5}}, "training": {"global_batch_size": 32, "sequence_length": 1024},
        "strategy": {"framework": "deepspeed"}})",
                     Reach::disk},
                    {"more_microbatches_than_can_be_simulated",
                     R"({"model": {"layers": 80, "hidden_size": 1024, "attention_heads": 16, "vocab_size": 32000},
        "cluster": {"preset": "dgx-h100", "nodes": 1}, "training": {"global_batch_size": 262144, "sequence_length": 2048},
        "strategy": {"framework": "megatron", "tensor_parallel": 1}})"},
                    {"stages_of_their_own", R"({"model": {"layers": 8, "hidden_size": 1024, "attention_heads": 16, "vocab_size": 32000},
        "cluster": {"preset": "dgx-h100", "nodes": 1}, "training": {"global_batch_size": 32, "sequence_length": 2048},
        "strategy": {"framework": "torchtitan", "layer_split": [5, 3]}})"}};

class Space : public testing::TestWithParam<Job> {};

TEST_P(Space, IsTheSameForEachMicroBatchApart) {
    SpaceOptions options;
    options.farthest = GetParam().farthest;
    const StrategySpace shared = make_space(GetParam().json, options);
    options.apart = true;
    const StrategySpace apart = make_space(GetParam().json, options);
    ASSERT_TRUE(apart.problems.empty()) << to_text(apart.problems);
    EXPECT_GT(apart.legal(), 50);
    EXPECT_EQ(shared.legal(), apart.legal());
    EXPECT_EQ(shared.refused, apart.refused);
    EXPECT_EQ(shared.nearest.what, apart.nearest.what);
    ASSERT_EQ(shared.forms.size(), apart.forms.size());
    for (std::size_t i = 0; i < apart.forms.size(); ++i) {
        const Form &a = shared.forms[i], &b = apart.forms[i];
        EXPECT_EQ(a.settings, b.settings);
        EXPECT_EQ(a.shape, b.shape);
        EXPECT_EQ(a.cores, b.cores);
        EXPECT_EQ(a.rests, b.rests);
    }
}

// A schedule that is stated is kept with any number of stages, as the scenario itself keeps it.
TEST(SpaceOfAStatedSchedule, HoldsTheScenario) {
    for (const auto& [stages, schedule] : {std::pair{1, "gpipe"}, {1, "zb-v"}, {2, "none"}}) {
        const std::string json = R"({"model": {"layers": 4, "hidden_size": 256, "attention_heads": 4, "vocab_size": 1000},
            "cluster": {"preset": "dgx-h100", "nodes": 1}, "training": {"global_batch_size": 16, "sequence_length": 128},
            "strategy": {"framework": "megatron", "pipeline_parallel": )" +
                                 std::to_string(stages) + R"(, "schedule": ")" + schedule + R"("}})";
        const StrategySpace space = make_space(json, {});
        EXPECT_TRUE(space.problems.empty()) << to_text(space.problems);
        EXPECT_GT(space.legal(), 0) << schedule << " in " << stages;
    }
}

// The stages of ZeRO that points of a framework have, those of several replicas: "0 2 3".
std::string stages_of(const std::string& strategy, const char* of_space = "") {
    SpaceOptions options;
    options.space = of_space;
    const StrategySpace space = make_space(
        R"({"model": {"layers": 4, "hidden_size": 256, "attention_heads": 4, "vocab_size": 1000}, "cluster": {"preset": "dgx-h100", "nodes": 1},
            "training": {"global_batch_size": 16, "sequence_length": 128}, "strategy": )" +
            strategy + "}",
        options);
    EXPECT_TRUE(space.problems.empty()) << to_text(space.problems);
    EXPECT_GT(space.legal(), 0) << strategy;
    std::set<int> found;
    for (std::size_t form = 0; form < space.forms.size(); ++form)
        for (std::size_t rest = 0; rest < space.forms[form].rests.size(); ++rest) {
            const PointId id{static_cast<std::int32_t>(form), 0, 0, static_cast<std::int32_t>(rest)};
            const auto s = nlohmann::json::parse(json_of(space, id))["strategy"];
            if (s.contains("zero_stage")) found.insert(s["zero_stage"].get<int>());
        }
    std::string text;
    for (const int stage : found) text += (text.empty() ? "" : " ") + std::to_string(stage);
    return text;
}

TEST(SpaceOfAFramework, HasItsStagesOfZero) {
    const auto of = [](const char* framework, const char* more = "") {
        return stages_of(std::string(R"({"framework": ")") + framework + R"(")" + more + "}");
    };
    constexpr const char *replicas = R"(, "pipeline_parallel": 1)", *piped = R"(, "pipeline_parallel": 2)";
    EXPECT_EQ(of("megatron"), "0 1 2 3");
    for (const char* framework : {"torchtitan", "fsdp", "fsdp2", "composer"}) EXPECT_EQ(of(framework), "0 2 3") << framework;
    EXPECT_EQ(of("nanotron"), "0 1");
    EXPECT_EQ(of("ddp"), "0 1");
    EXPECT_EQ(of("horovod"), "0");
    for (const char* framework : {"deepspeed", "colossalai"}) {
        EXPECT_EQ(of(framework, replicas), "0 1 2 3") << framework;
        EXPECT_EQ(of(framework, piped), "0 1") << framework;
    }
    EXPECT_EQ(stages_of("{}"), "0 1 2 3") << "no framework is named";
}

// The checker decides about a stage that is stated, or named in the space; one replica has none.
TEST(SpaceOfAFramework, KeepsAStageThatIsStated) {
    EXPECT_EQ(stages_of(R"({"framework": "torchtitan", "zero_stage": 1})"), "1");
    EXPECT_EQ(stages_of(R"({"framework": "nanotron"})", R"({"/strategy/zero_stage": [1, 2]})"), "1 2");
    EXPECT_EQ(stages_of(R"({"framework": "torchtitan", "tensor_parallel": 4, "pipeline_parallel": 2, "context_parallel": 1})"), "");
}

// Software that has no pipeline of its own takes stages only where the scenario says so, and then the schedule that the scenario itself
// has.
TEST(SpaceOfSoftwareWithoutPipelines, HasStagesOnlyWhereTheyAreStated) {
    for (const char* framework : {"ddp", "fsdp", "te", "composer"}) {
        const std::string begin = R"({"model": {"layers": 4, "hidden_size": 256, "attention_heads": 4, "vocab_size": 1000},
            "cluster": {"preset": "dgx-h100", "nodes": 1}, "training": {"global_batch_size": 16, "sequence_length": 128},
            "strategy": {"framework": ")" +
                                  std::string(framework);
        const StrategySpace stated = make_space(begin + R"(", "pipeline_parallel": 2}})", {}), free = make_space(begin + R"("}})", {});
        EXPECT_GT(stated.legal(), 0) << framework;
        for (const Form& form : stated.forms) EXPECT_STREQ(form.shape.schedule, "1f1b") << framework;
        EXPECT_GT(free.legal(), 0) << framework;
        for (const Form& form : free.forms) EXPECT_EQ(form.shape.pipeline, 1) << framework;
    }
}

// The few points of a large space are points of it; a small space has none.
TEST(FewOfASpace, AreItsPoints) {
    SpaceOptions options;
    options.space = R"({"/strategy/schedule": ["none", "1f1b"], "/strategy/virtual_pipeline": [1], "/strategy/recompute": ["none"]})";
    const auto job = [](int nodes) {
        return R"({"model": {"layers": 8, "hidden_size": 1024, "attention_heads": 16, "vocab_size": 32000, "moe": {"experts": 64, "top_k": 2,
            "expert_ffn_size": 512}}, "cluster": {"preset": "dgx-h100", "nodes": )" +
               std::to_string(nodes) + R"(}, "training": {"global_batch_size": 64, "micro_batch_size": 1, "sequence_length": 1024},
            "strategy": {"framework": "megatron"}})";
    };
    const StrategySpace whole = make_space(job(8), options);
    options.few = true;
    const StrategySpace few = make_space(job(8), options);
    EXPECT_EQ(make_space(job(1), options).legal(), 0);
    ASSERT_GT(few.legal(), 0);
    EXPECT_LT(few.legal() * 20, whole.legal());
    for (std::size_t form = 0; form < few.forms.size(); ++form) {
        const PointId id{static_cast<std::int32_t>(form), 0, 0, static_cast<std::int32_t>(few.forms[form].rests.size()) - 1};
        const std::optional<PointId> there = same_point(whole, few, id);
        ASSERT_TRUE(there) << json_of(few, id);
        EXPECT_EQ(json_of(whole, *there), json_of(few, id));
    }
}

INSTANTIATE_TEST_SUITE_P(Jobs, Space, testing::ValuesIn(jobs), [](const auto& job) { return std::string(job.param.name); });

// Where the tensor degree is 1, whole experts are what expert_tensor_parallel is without being named: not a second list of the same points.
TEST(SpaceOfExperts, NamesWholeExpertsOnlyBesideDividedTensors) {
    const auto legal = [](const char* expert_tensor, const char* tensor) {
        nlohmann::json j = nlohmann::json::parse(jobs[1].json);
        j["strategy"]["tensor_parallel"] = std::stoi(tensor);
        SpaceOptions options;
        if (*expert_tensor != 0) j["strategy"]["expert_tensor_parallel"] = std::stoi(expert_tensor);
        return make_space(j.dump(), options).legal();
    };
    EXPECT_GT(legal("", "1"), 0);
    EXPECT_EQ(legal("", "1"), legal("1", "1"));
    EXPECT_EQ(legal("", "2"), legal("1", "2") + legal("2", "2"));
}

} // namespace
} // namespace orrery
