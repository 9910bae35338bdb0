// LoRA and frozen parameters against references written by hand. An adapter beside W is the model with W + alpha / rank B A in W's place:
// where that model's gradient of W is G, B's is alpha / rank G A^T and A's alpha / rank B^T G. Frozen parameters are those of a training
// of the whole model whose steps leave them out.
#include "tests/agree/agree.hpp"

#include "exec/runtime/tensors.hpp"
#include "sim/plan/lower.hpp"
#include "sim/plan/verify.hpp"

#include <gtest/gtest.h>

#include <algorithm>

namespace orrery::agree {
namespace {

constexpr int steps = 4;
constexpr double rate = 0.05;

const std::vector<std::string> llama{"model.activation=swiglu", "model.position=rope", "model.norm=rmsnorm",
                                     "model.bias=false",        "model.kv_heads=2",    "model.tied_embeddings=false"};
const std::vector<std::string> lora{"model.trainable.lora.rank=2", "model.trainable.lora.alpha=6"};
const std::vector<std::string> plain_steps{"training.optimizer=sgd", "training.gradient_clipping=0", "training.learning_rate=0.05"};

Scenario tuned(std::vector<std::string> fields, const std::vector<std::string>& more = {}) {
    for (const auto* list : {&llama, &plain_steps, &more}) fields.insert(fields.end(), list->begin(), list->end());
    return tiny(fields);
}

bool is_adapter(const std::string& name) { return name.ends_with(".lora_a") || name.ends_with(".lora_b"); }

// Matrices n x k row by row, or one behind another for each expert: C += factor A B, of transposed operands where asked.
std::vector<double> product(const Tensor& a, bool turn_a, const Tensor& b, bool turn_b, double factor) {
    const std::size_t behind = a.shape.size() - 2;
    const std::int64_t experts = behind == 1 ? a.shape[0] : 1;
    const auto rows = [&](const Tensor& t, bool turned) { return t.shape[behind + (turned ? 1 : 0)]; };
    const std::int64_t n = rows(a, turn_a), inner = rows(a, !turn_a), k = rows(b, !turn_b);
    const auto at = [&](const Tensor& t, bool turned, std::int64_t e, std::int64_t i, std::int64_t j) {
        const std::int64_t columns = t.shape[behind + 1];
        return t.values[e * t.shape[behind] * columns + (turned ? j * columns + i : i * columns + j)];
    };
    std::vector<double> c(static_cast<std::size_t>(experts * n * k), 0);
    for (std::int64_t e = 0; e < experts; ++e)
        for (std::int64_t i = 0; i < n; ++i)
            for (std::int64_t j = 0; j < k; ++j)
                for (std::int64_t l = 0; l < inner; ++l) c[(e * n + i) * k + j] += factor * at(a, turn_a, e, i, l) * at(b, turn_b, e, l, j);
    return c;
}

struct Training {
    std::unique_ptr<World> world;
    std::unique_ptr<Executor> runs;
    explicit Training(const Scenario& s, const std::string& executor = "serial") : world(make_world(s, DType::fp64)) {
        initialise(*world);
        runs = make_executor(executor, *world);
    }
    void step(std::int64_t i) {
        const Scenario& s = world->scenario;
        load_batch(*world, {"", s.model.vocab_size, s.training.seed}, i);
        runs->step(nullptr);
        runs->fetch();
    }
    Tensors all(Quantity what) { return gather(*world, what).tensors; }
};

// The whole model's gradients at the merged weights, and adapters stepped on by hand.
Tensors adapters_by_hand(const Scenario& scenario) {
    Scenario whole = on_one_rank(scenario);
    const double scale = scenario.model.trainable.alpha / scenario.model.trainable.rank;
    whole.model.trainable = {};
    Tensors all = Training(on_one_rank(scenario)).all(Quantity::parameters);
    Training reference(whole);
    for (int i = 0; i < steps; ++i) {
        Tensors merged;
        for (const auto& [name, t] : all) {
            if (is_adapter(name)) continue;
            merged[name] = t;
            const auto a = all.find(name + ".lora_a"), b = all.find(name + ".lora_b");
            if (a == all.end()) continue;
            const std::vector<double> more = product(b->second, false, a->second, false, scale);
            for (std::size_t k = 0; k < more.size(); ++k) merged[name].values[k] += more[k];
        }
        scatter(*reference.world, Quantity::parameters, merged);
        reference.step(i);
        const Tensors gradients = reference.all(Quantity::gradients);
        for (auto& [name, t] : all) {
            if (is_adapter(name)) continue;
            const auto a = all.find(name + ".lora_a"), b = all.find(name + ".lora_b");
            if (a == all.end()) continue;
            const Tensor& g = gradients.at(name);
            const std::vector<double> of_b = product(g, false, a->second, true, scale), of_a = product(b->second, true, g, false, scale);
            for (std::size_t k = 0; k < of_b.size(); ++k) b->second.values[k] -= rate * of_b[k];
            for (std::size_t k = 0; k < of_a.size(); ++k) a->second.values[k] -= rate * of_a[k];
        }
    }
    return all;
}

Tensors by_plan(const Scenario& s, const std::string& executor = "serial") {
    Training training(s, executor);
    for (int i = 0; i < steps; ++i) training.step(i);
    return training.all(Quantity::parameters);
}

// Parameters, those that are not trained too, gradients and states live on the host.
std::vector<std::string> at_home(std::vector<std::string> more) {
    for (const char* part : {"parameters", "gradients", "optimizer"}) more.push_back(std::string("strategy.offload.") + part + "=cpu");
    return more;
}

class LoraByHand : public testing::TestWithParam<std::vector<std::string>> {};

TEST_P(LoraByHand, IsTheWholeModelsGradientThroughTheAdapters) {
    const Scenario scenario = tuned(lora, GetParam());
    const Tensors expected = adapters_by_hand(scenario);
    double moved = 0;
    const Tensors first = Training(on_one_rank(scenario)).all(Quantity::parameters);
    for (const auto& [name, t] : expected)
        for (std::size_t i = 0; i < t.values.size(); ++i) moved = std::max(moved, std::abs(t.values[i] - first.at(name).values[i]));
    EXPECT_GT(moved, 1e-6) << "the reference trains something";
    for (const char* executor : {"serial", "threads", "queues"}) {
        const Difference d = difference(expected, by_plan(scenario, executor));
        EXPECT_LE(d.relative, 1e-10) << executor << " " << d.worst;
    }
}

INSTANTIATE_TEST_SUITE_P(Strategies, LoraByHand,
                         testing::Values(std::vector<std::string>{}, std::vector<std::string>{"model.trainable.lora.targets=[\"qkv\"]"},
                                         std::vector<std::string>{"model.trainable.lora.targets=[\"fc2\"]"},
                                         std::vector<std::string>{"model.trainable.frozen_layers=1"},
                                         std::vector<std::string>{"model.parallel_block=true", "model.trainable.lora.targets=[\"qkv\"]"},
                                         std::vector<std::string>{"strategy.tensor_parallel=2"},
                                         std::vector<std::string>{"strategy.tensor_parallel=2", "strategy.sequence_parallel=true",
                                                                  "strategy.framework=megatron"},
                                         std::vector<std::string>{"strategy.pipeline_parallel=2", "strategy.schedule=1f1b"},
                                         std::vector<std::string>{"strategy.data_parallel=2", "strategy.framework=fsdp2"},
                                         std::vector<std::string>{"strategy.data_parallel=2", "strategy.recompute=full"},
                                         at_home({"strategy.framework=fsdp2"}),
                                         at_home({"strategy.framework=fsdp", "strategy.data_parallel=2"}),
                                         at_home({"strategy.framework=fsdp2", "strategy.data_parallel=2", "strategy.recompute=full"})));

const std::vector<std::string> mixtral{"model.moe.experts=4", "model.moe.top_k=2", "model.moe.expert_ffn_size=16",
                                       "model.trainable.lora.targets=[\"qkv\",\"expert_fc1\",\"expert_fc2\"]"};

std::vector<std::string> tuned_mixture(const std::vector<std::string>& more) {
    std::vector<std::string> all = mixtral;
    all.insert(all.end(), more.begin(), more.end());
    return all;
}

// Every expert has adapters of its own, beside linears that stay as they are; tokens go where the router, which stays too, sends them.
INSTANTIATE_TEST_SUITE_P(
    Experts, LoraByHand,
    testing::Values(tuned_mixture({}), tuned_mixture({"model.trainable.lora.targets=[\"expert_fc2\"]"}),
                    tuned_mixture({"model.moe.shared_experts=1", "model.trainable.lora.targets=[\"shared_fc1\",\"expert_fc1\"]"}),
                    tuned_mixture({"strategy.data_parallel=2", "strategy.expert_parallel=2", "strategy.framework=megatron",
                                   "model.moe.imbalance=[1,1e-6,0,0]"}),
                    tuned_mixture({"strategy.data_parallel=4", "strategy.expert_parallel=2", "strategy.framework=megatron",
                                   "strategy.zero_stage=1", "model.moe.imbalance=[1,1e-6,0,0]"}),
                    tuned_mixture({"strategy.data_parallel=2", "strategy.framework=fsdp2"}),
                    tuned_mixture({"strategy.data_parallel=2", "strategy.recompute=full"}),
                    tuned_mixture({"strategy.pipeline_parallel=2", "strategy.schedule=1f1b"})));

// What is frozen stays to the bit, and the rest moves as in a training of the whole model that never touches it.
TEST(FrozenParameters, StayAndTheRestTrainsAsIfTheyWereReset) {
    for (const char* frozen : {"model.trainable.frozen=[\"embedding\",\"norm\"]", "model.trainable.frozen=[\"attention\"]",
                               "model.trainable.frozen=[\"mlp\",\"head\"]", "model.trainable.frozen_layers=1"}) {
        const Scenario scenario = tuned({frozen});
        Scenario whole = scenario;
        whole.model.trainable = {};
        Training reference(whole);
        const Tensors first = reference.all(Quantity::parameters);
        std::vector<std::string> kept;
        const Plan plan = lower(scenario);
        for (const LogicalTensor& t : plan.tensors)
            if (!t.trained) kept.push_back(t.name);
        ASSERT_FALSE(kept.empty());
        ASSERT_LT(kept.size(), plan.tensors.size());
        for (int i = 0; i < steps; ++i) {
            reference.step(i);
            Tensors now = reference.all(Quantity::parameters);
            for (const std::string& name : kept) now[name] = first.at(name);
            scatter(*reference.world, Quantity::parameters, now);
        }
        const Tensors trained = by_plan(scenario);
        const Difference d = difference(reference.all(Quantity::parameters), trained);
        EXPECT_LE(d.relative, 1e-12) << frozen << " " << d.worst;
        for (const std::string& name : kept) EXPECT_EQ(trained.at(name).values, first.at(name).values) << frozen << " " << name;
    }
}

// Layers that predict further tokens count on in frozen_layers; the head that they share with the last layer is trained all the same.
TEST(FrozenParameters, LeaveTheHeadOfFurtherTokens) {
    const Scenario s = tiny({"model.mtp_layers=1", "model.tied_embeddings=false", "model.trainable.frozen_layers=3",
                             "strategy.pipeline_parallel=2", "strategy.schedule=1f1b"});
    const Tensors before = Training(s).all(Quantity::parameters), after = by_plan(s);
    for (const auto& [name, t] : before)
        EXPECT_EQ(t.values == after.at(name).values, name != "head.weight" && name != "final_norm.weight" && name != "final_norm.bias")
            << name;
    expect_trained_alike(train(on_one_rank(s)), train(s));
}

// A loss that nothing learns from is made all the same, whole or a chunk at a time.
TEST(FrozenParameters, HaveALossOfFurtherTokens) {
    const auto with = [](const char* loss, const char* tensor) {
        return tiny({"model.mtp_layers=1", "model.tied_embeddings=true", "model.trainable.frozen_layers=3",
                     "model.trainable.frozen=[\"head\"]", std::string("runtime.loss=") + loss,
                     std::string("strategy.tensor_parallel=") + tensor, "strategy.sequence_parallel=true"});
    };
    const Trained whole = train(on_one_rank(with("whole", "1")));
    for (const char* tensor : {"1", "2"}) expect_trained_alike(whole, train(with("chunked", tensor)));
}

// The base comes from the host in its 4 bits: adapters train as beside one that stays on the device.
TEST(QuantizedBase, TrainsAdaptersAlikeFromTheHost) {
    const std::vector<std::string> sharded{"model.trainable.base_dtype=nf4", "strategy.data_parallel=2", "strategy.framework=fsdp"};
    const Tensors here = by_plan(tuned(lora, sharded)), from_host = by_plan(tuned(lora, at_home(sharded)));
    const Difference d = difference(here, from_host);
    EXPECT_LE(d.relative, 1e-12) << d.worst;
}

// The base's values are those of 4 bits, and stay so: at most 16 magnitudes and signs in a block, half a level from what they were.
TEST(QuantizedBase, HasTheLevelsOfFourBitsAndIsNeverWritten) {
    const Scenario low = tuned(lora, {"model.trainable.base_dtype=nf4"}), wide = tuned(lora);
    const Tensors a = Training(wide).all(Quantity::parameters), b = Training(low).all(Quantity::parameters), after = by_plan(low);
    int matrices = 0;
    for (const auto& [name, t] : b) {
        if (is_adapter(name)) continue;
        EXPECT_EQ(t.values, after.at(name).values) << name;
        if (t.values == a.at(name).values) continue; // kept as it is: embedding, norms, head
        ++matrices;
        for (std::size_t begin = 0; begin < t.values.size(); begin += nf4_block) {
            const std::size_t end = std::min(t.values.size(), begin + nf4_block);
            std::vector<double> levels(t.values.begin() + static_cast<std::ptrdiff_t>(begin),
                                       t.values.begin() + static_cast<std::ptrdiff_t>(end));
            std::sort(levels.begin(), levels.end());
            levels.erase(std::unique(levels.begin(), levels.end()), levels.end());
            EXPECT_LE(levels.size(), 16u) << name;
            double largest = 0;
            for (std::size_t i = begin; i < end; ++i) largest = std::max(largest, std::abs(a.at(name).values[i]));
            for (std::size_t i = begin; i < end; ++i)
                EXPECT_LE(std::abs(t.values[i] - a.at(name).values[i]), 0.153 * largest) << name; // half the widest gap of levels
        }
    }
    EXPECT_EQ(matrices, 4 * low.model.layers);
}

template <class F> Plan broken(const std::vector<std::string>& fields, F&& f) {
    Plan plan = lower(tuned(fields));
    f(plan);
    return plan;
}

bool finds(const Plan& plan, const std::string& rule) {
    const auto found = verify(plan);
    return std::any_of(found.begin(), found.end(), [&](const Violation& v) { return v.rule == rule; });
}

TEST(FineTuning, APlanThatUpdatesWhatIsFrozenIsRefused) {
    EXPECT_TRUE(verify(lower(tuned(lora))).empty()) << to_text(verify(lower(tuned(lora))));
    EXPECT_TRUE(finds(broken(lora,
                             [](Plan& p) {
                                 for (LogicalTensor& t : p.tensors) t.trained = !t.trained;
                             }),
                      "frozen-updated"));
    EXPECT_TRUE(finds(broken(lora,
                             [](Plan& p) {
                                 for (LogicalTensor& t : p.tensors) t.trained = true;
                             }),
                      "gradient-missing"));
}

} // namespace
} // namespace orrery::agree
