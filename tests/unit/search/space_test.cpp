// A space is the same whether what is legal is worked out for each micro batch or taken over from others.
#include "sim/search/space.hpp"

#include <gtest/gtest.h>

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

INSTANTIATE_TEST_SUITE_P(Jobs, Space, testing::ValuesIn(jobs), [](const auto& job) { return std::string(job.param.name); });

} // namespace
} // namespace orrery
