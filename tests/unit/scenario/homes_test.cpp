// Are the homes of states that a search looks at those that the framework has and the checker allows?
#include "sim/scenario/homes.hpp"

#include "sim/scenario/parse.hpp"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include <algorithm>

namespace orrery {
namespace {

// One device with NVMe, or eight with a strategy of their own.
nlohmann::json job(const std::string& framework, int devices = 1) {
    nlohmann::json j = nlohmann::json::parse(R"({"model": {"layers": 4, "hidden_size": 512, "attention_heads": 8, "vocab_size": 1000},
        "cluster": {"preset": "dgx-a100-80gb", "nodes": 1},
        "training": {"global_batch_size": 16, "micro_batch_size": 1, "sequence_length": 512, "precision": "bf16"}, "strategy": {}})");
    j["cluster"]["devices_per_node"] = devices;
    if (!framework.empty()) j["strategy"]["framework"] = framework;
    return j;
}

std::vector<Home> homes(const nlohmann::json& j) {
    const ParseResult r = parse_scenario(j.dump());
    EXPECT_TRUE(r.scenario) << to_text(r.problems);
    return homes_of(*r.scenario);
}

bool has(const std::vector<Home>& homes, const std::string& words) {
    return std::any_of(homes.begin(), homes.end(), [&](const Home& h) { return h.words == words; });
}

TEST(Homes, AreOfTheFramework) {
    EXPECT_EQ(homes(job("ddp")).size(), 1u) << "all on the device";
    EXPECT_TRUE(has(homes(job("megatron")), "optimizer states on the host"));
    EXPECT_TRUE(has(homes(job("megatron")), "activations on the host"));
    EXPECT_FALSE(has(homes(job("megatron")), "gradients and optimizer states on the host"));
    const std::vector<Home> fsdp = homes(job("fsdp2"));
    EXPECT_TRUE(has(fsdp, "parameters, gradients and optimizer states on the host"));
    EXPECT_FALSE(has(fsdp, "optimizer states on the host")) << "its policy takes all three";
    const std::vector<Home> all = homes(job("deepspeed"));
    EXPECT_TRUE(has(all, "parameters, gradients and optimizer states on NVMe"));
    EXPECT_TRUE(has(all, "parameters and gradients on the host, optimizer states on NVMe"));
    EXPECT_EQ(homes(job("")).size(), all_homes().size()) << "one device without a framework may have all";
}

TEST(Homes, OfNvmeNeedOne) {
    nlohmann::json j = job("deepspeed");
    j["cluster"] = nlohmann::json::parse(R"({"device": "rtx-4090", "nodes": 1, "devices_per_node": 1})");
    for (const Home& h : homes(j)) EXPECT_LT(h.reach, Reach::disk) << h.words;
}

TEST(Homes, OfGradientsAndParametersNeedShards) {
    nlohmann::json j = job("deepspeed", 8);
    for (const auto& [zero, gradients, parameters] : {std::tuple{1, false, false}, {2, true, false}, {3, true, true}}) {
        j["strategy"]["zero_stage"] = zero;
        EXPECT_EQ(has(homes(j), "gradients and optimizer states on the host"), gradients) << zero;
        EXPECT_EQ(has(homes(j), "parameters, gradients and optimizer states on the host"), parameters) << zero;
    }
    j["strategy"]["tensor_parallel"] = 2; // shards of parts
    EXPECT_TRUE(has(homes(j), "gradients and optimizer states on the host"));
    EXPECT_TRUE(has(homes(j), "parameters, gradients and optimizer states on NVMe"));
}

// A pipeline's stages have them on the host where PyTorch's fully_shard shards them, and no software has them on NVMe.
TEST(Homes, OfStagesAreThoseOfFullyShard) {
    for (const char* framework : {"fsdp2", "torchtitan", "megatron", "deepspeed"}) {
        nlohmann::json j = job(framework, 8);
        const bool has_them = framework == std::string("fsdp2") || framework == std::string("torchtitan");
        j["strategy"]["zero_stage"] = has_them ? 3 : 1;
        j["strategy"]["pipeline_parallel"] = 2;
        EXPECT_EQ(has(homes(j), "parameters, gradients and optimizer states on the host"), has_them) << framework;
        for (const Home& h : homes(j)) {
            nlohmann::json moved = j;
            for (const auto& [pointer, value] : h.fields) moved[nlohmann::json::json_pointer(pointer)] = nlohmann::json::parse(value);
            const ParseResult r = parse_scenario(moved.dump());
            EXPECT_TRUE(r.problems.empty()) << framework << ", " << h.words << ": " << to_text(r.problems);
        }
    }
}

TEST(Homes, AreLegal) {
    for (const char* framework : {"", "megatron", "fsdp2", "deepspeed", "jax"})
        for (const int devices : {1, 8}) {
            nlohmann::json j = job(framework, devices);
            j["strategy"]["zero_stage"] = devices > 1 ? 3 : 0;
            for (const Home& h : homes(j)) {
                nlohmann::json moved = j;
                for (const auto& [pointer, value] : h.fields) moved[nlohmann::json::json_pointer(pointer)] = nlohmann::json::parse(value);
                ParseResult r = parse_scenario(moved.dump());
                if (r.scenario && r.problems.empty()) r.problems = unsupported(*r.scenario);
                EXPECT_TRUE(r.problems.empty()) << framework << " " << devices << ", " << h.words << ": " << to_text(r.problems);
            }
        }
}

} // namespace
} // namespace orrery
