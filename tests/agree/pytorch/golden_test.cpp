// An outside judge: loss and gradients of one-block GPT-2 and Llama models equal PyTorch's on the same weights (make_golden.py).
#include "tests/unit/kernels/single_rank.hpp"

#include <nlohmann/json.hpp>

#include <cmath>
#include <fstream>

namespace orrery::test {
namespace {

struct Tensor {
    std::string name;
    std::vector<float> weight, gradient;
};
struct Golden {
    double loss = 0;
    std::vector<std::int64_t> tokens, labels;
    std::vector<Tensor> tensors;
};

Golden read(const std::string& name) {
    std::ifstream file(std::string(ORRERY_SOURCE_DIR "/tests/agree/pytorch/") + name + ".golden", std::ios::binary);
    std::string line;
    std::getline(file, line);
    const auto header = nlohmann::json::parse(line);
    Golden g{header["loss"], header["tokens"], header["labels"], {}};
    for (const auto& t : header["tensors"]) {
        const std::size_t n = t["elements"];
        g.tensors.push_back({t["name"], std::vector<float>(n), std::vector<float>(n)});
        for (auto* part : {&g.tensors.back().weight, &g.tensors.back().gradient})
            file.read(reinterpret_cast<char*>(part->data()), static_cast<std::streamsize>(n * sizeof(float)));
    }
    EXPECT_TRUE(file.good()) << name;
    return g;
}

void expect_agrees(const std::string& name, std::vector<std::string> overrides) {
    for (const char* common : {"model.layers=1", "model.hidden_size=32", "model.attention_heads=4", "model.ffn_size=48",
                               "model.vocab_size=61", "training.sequence_length=12", "training.global_batch_size=2"})
        overrides.emplace_back(common);
    const Golden golden = read(name);
    SingleRank rank(tiny_scenario(overrides));
    for (const auto& [buffer, from] : {std::pair{"tokens", &golden.tokens}, std::pair{"labels", &golden.labels}})
        std::copy(from->begin(), from->end(), rank.data<std::int64_t>(rank.find(buffer)));
    ASSERT_EQ(golden.tensors.size(), rank.parameters().size());
    for (const Tensor& t : golden.tensors) {
        const BufferId w = rank.find("w." + t.name);
        ASSERT_GE(w, 0) << t.name;
        ASSERT_LE(static_cast<std::int64_t>(t.weight.size()), elements(rank.plan().buffers[w])) << t.name; // or padded
        for (std::size_t i = 0; i < t.weight.size(); ++i) rank.set(w, static_cast<std::int64_t>(i), t.weight[i]);
    }
    EXPECT_NEAR(rank.run(true), golden.loss, 1e-12 * golden.loss);
    for (const Tensor& t : golden.tensors) {
        const BufferId g = rank.find("g." + t.name);
        double difference = 0, size = 0;
        for (std::size_t i = 0; i < t.gradient.size(); ++i) {
            difference += std::pow(rank.value(g, static_cast<std::int64_t>(i)) - t.gradient[i], 2);
            size += std::pow(t.gradient[i], 2);
        }
        EXPECT_LT(std::sqrt(difference), 1e-7 * std::sqrt(size)) << t.name; // what fp32 keeps of PyTorch's fp64
    }
}

TEST(PyTorch, AgreesOnGpt2) { expect_agrees("gpt2", {}); }

TEST(PyTorch, AgreesOnGpt2InSeparateSteps) {
    expect_agrees("gpt2", {"strategy.flash_attention=false", "runtime.attention_kernel=unfused"});
}

TEST(PyTorch, AgreesOnLlama) {
    expect_agrees("llama", {"model.tied_embeddings=false", "model.position=rope", "model.activation=swiglu", "model.norm=rmsnorm",
                            "model.kv_heads=2", "model.bias=false"});
}

} // namespace
} // namespace orrery::test
