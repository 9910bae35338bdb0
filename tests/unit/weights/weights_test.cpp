// Do weights come in as their own library means them, whatever the strategy, and go out as they came in, to the bit?
#include "reference.hpp"

#include "exec/kernels/rounding.hpp"
#include "exec/runtime/tensors.hpp"
#include "exec/weights/config.hpp"
#include "exec/weights/weights.hpp"
#include "sim/scenario/parse.hpp"
#include "tests/agree/agree.hpp"

#include <cmath>
#include <iterator>

using namespace orrery;
using namespace orrery::test;
using agree::tiny;

namespace {

namespace fs = std::filesystem;
using Fields = std::vector<std::string>;

struct Kind {
    std::string family;
    Fields fields;
};
const Fields llama{"model.norm=rmsnorm", "model.position=rope", "model.activation=swiglu", "model.bias=false",
                   "model.kv_heads=2",   "model.rope_base=500", "model.norm_epsilon=0.01", "model.tied_embeddings=false"};

Fields operator+(Fields a, const Fields& b) {
    a.insert(a.end(), b.begin(), b.end());
    return a;
}

const Fields moe{"model.moe.experts=4", "model.moe.top_k=2", "model.moe.expert_ffn_size=16"};
const Kind kinds[] = {
    {"gpt2", {}},
    {"gpt2", {"model.tied_embeddings=false", "model.max_positions=20", "model.vocab_size=29"}},
    {"llama", llama},
    {"mistral", llama + Fields{"model.attention.sliding_window=64"}},
    {"qwen2", llama + Fields{"model.attention.qkv_bias=true", "model.tied_embeddings=true"}},
    {"qwen3", llama + Fields{"model.attention.qk_norm=true", "model.head_dim=8"}},
    {"mixtral", llama + moe},
    {"qwen3_moe", llama + moe + Fields{"model.attention.qk_norm=true"}},
    {"olmo2", llama + Fields{"model.norm_placement=after", "model.attention.qk_norm=true", "model.attention.qk_norm_across=true"}},
};

const Fields strategies[] = {
    {},
    {"strategy.tensor_parallel=2", "strategy.sequence_parallel=true", "strategy.framework=megatron"},
    {"strategy.pipeline_parallel=2", "strategy.schedule=1f1b", "strategy.data_parallel=2", "strategy.zero_stage=1"},
    {"strategy.data_parallel=4", "strategy.framework=fsdp"},
    {"strategy.data_parallel=4", "strategy.framework=deepspeed", "strategy.zero_stage=3"},
};

// A norm across heads is not divided over tensor-parallel ranks.
bool may_train(const Kind& kind, const Fields& strategy) {
    return kind.family != "olmo2" || strategy.empty() || strategy[0] != "strategy.tensor_parallel=2";
}

std::string bytes_of_file(const fs::path& file) {
    std::ifstream in(file, std::ios::binary);
    return {std::istreambuf_iterator<char>(in), {}};
}

void export_all(const World& world, const fs::path& folder, WeightType type = WeightType::f32) {
    export_weights(world, folder, type, 0, [](bool failed) { return failed ? 0 : -1; });
}

std::vector<std::vector<std::int64_t>> batch(const Scenario& s) {
    std::vector<std::vector<std::int64_t>> sequences;
    for (std::int64_t i = 0; i < s.training.global_batch_size; ++i) {
        sequences.emplace_back(static_cast<std::size_t>(s.training.sequence_length + 1));
        read_sequence({"", s.model.vocab_size, s.training.seed}, i, sequences.back());
    }
    return sequences;
}

double step(World& world) {
    const auto executor = serial_executor(world);
    load_batch(world, {"", world.scenario.model.vocab_size, world.scenario.training.seed}, 0);
    executor->step(nullptr);
    return mean_loss(world);
}

std::unique_ptr<World> loaded(const Scenario& s, const fs::path& from, DType real) {
    auto world = make_world(s, real);
    initialise(*world);
    load_weights(*world, SafeTensors(from));
    return world;
}

} // namespace

// The loss of files made of random values, by every strategy, beside that of the model written down plainly.
TEST(Weights, LossIsTheirOwnLibrarys) {
    for (const Kind& kind : kinds)
        for (const Fields& strategy : strategies) {
            if (!may_train(kind, strategy)) continue;
            const Scenario s = tiny(kind.fields + strategy);
            SCOPED_TRACE(kind.family + (strategy.empty() ? "" : " " + strategy[0] + " " + strategy.back()));
            const auto folder = scratch_folder("reference");
            const HandMadeTensors tensors = random_model(s.model, kind.family);
            write_f64(folder / "model.safetensors", tensors);
            const double expected = reference_loss(s.model, kind.family, tensors, batch(s));
            EXPECT_NEAR(step(*loaded(s, folder, DType::fp64)), expected, 1e-10 * expected);
        }
}

TEST(Weights, GoOutAsTheyCameInToTheBit) {
    for (const Kind& kind : kinds) {
        const auto folder = scratch_folder("first"), again = scratch_folder("again");
        const agree::Trained before = agree::train(tiny(kind.fields), {.steps = 2, .real = DType::fp32, .forced_routing = false});
        export_all(*before.world, folder);
        const double loss = step(*before.world);
        for (Fields strategy : strategies) {
            if (!may_train(kind, strategy)) continue;
            if (tiny(kind.fields).model.moe && strategy.size() == 4)
                strategy = strategy + Fields{"strategy.expert_parallel=2", "model.moe.imbalance=[1,1e-6,0,0]"};
            SCOPED_TRACE(kind.family + (strategy.empty() ? "" : " " + strategy[0] + " " + strategy.back()));
            const auto world = loaded(tiny(kind.fields + strategy), folder, DType::fp32);
            EXPECT_EQ(gather(*world, Quantity::parameters).tensors, before.parameters);
            export_all(*world, again);
            EXPECT_EQ(bytes_of_file(again / "model.safetensors"), bytes_of_file(folder / "model.safetensors"));
            EXPECT_NEAR(step(*world), loss, 1e-6 * loss);
        }
        EXPECT_EQ(step(*loaded(tiny(kind.fields), folder, DType::fp32)), loss);
    }
}

// In 16 bits: master copies keep all digits, parameters are theirs rounded; written in bf16, both are the parameters.
TEST(Weights, MastersKeepTheirDigits) {
    for (const Fields& strategy :
         {Fields{"strategy.framework=megatron"},
          Fields{"strategy.framework=megatron", "strategy.tensor_parallel=2", "strategy.data_parallel=2", "strategy.zero_stage=1"},
          Fields{"strategy.framework=deepspeed", "strategy.data_parallel=4", "strategy.zero_stage=3"}}) {
        SCOPED_TRACE(strategy.back());
        const Scenario s = tiny(llama + strategy + Fields{"training.precision=bf16"});
        const auto train = [&](World& w) {
            const auto executor = serial_executor(w);
            load_batch(w, {"", s.model.vocab_size, s.training.seed}, 0);
            executor->step(nullptr);
        };
        const auto world = make_world(s, DType::fp32);
        round_storage(*world);
        initialise(*world);
        train(*world);
        const auto masters = [](const World& w) {
            Tensors m;
            for (auto& [name, t] : gather(w, Quantity::states).tensors)
                if (name.starts_with("master/")) m[name] = t;
            return m;
        };
        const auto folder = scratch_folder("masters"), narrow = scratch_folder("narrow");
        export_all(*world, folder);
        export_all(*world, narrow, WeightType::bf16);
        const auto wide = make_world(s, DType::fp32), short_one = make_world(s, DType::fp32);
        for (const auto& [w, from] : {std::pair(wide.get(), folder), std::pair(short_one.get(), narrow)}) {
            round_storage(*w);
            initialise(*w);
            load_weights(*w, SafeTensors(from));
            EXPECT_EQ(gather(*w, Quantity::parameters).tensors, gather(*world, Quantity::parameters).tensors);
        }
        EXPECT_FALSE(masters(*world).empty());
        EXPECT_EQ(masters(*wide), masters(*world));
        EXPECT_NE(masters(*short_one), masters(*world));
        EXPECT_EQ(step(*wide), step(*short_one)); // the loss is of the parameters
    }
}

namespace {

// A model without adapters, of what was written, has the loss of the model with them; the base alone has another.
void expect_merged(const Kind& kind, const Fields& strategy, const Fields& base_type) {
    const Fields lora{"model.trainable.lora.rank=2", "model.trainable.lora.alpha=6", "training.optimizer=sgd", "training.learning_rate=0.5",
                      "training.gradient_clipping=0"};
    SCOPED_TRACE(kind.family + (strategy.empty() ? "" : " " + strategy[0] + " " + strategy.back()));
    const bool experts = tiny(kind.fields).model.moe.has_value();
    const Fields targets = experts ? Fields{"model.trainable.lora.targets=[\"qkv\",\"expert_fc1\",\"expert_fc2\"]"} : Fields{};
    const bool tensor = !strategy.empty() && strategy[0] == "strategy.tensor_parallel=2";
    const Fields spread =
        !experts ? Fields{}
        : tensor ? Fields{"strategy.expert_parallel=2", "strategy.expert_tensor_parallel=1", "model.moe.imbalance=[1,1e-6,0,0]"}
        : strategy.size() > 3 ? Fields{"strategy.expert_parallel=2", "model.moe.imbalance=[1,1e-6,0,0]"}
                              : Fields{};
    const auto world =
        agree::train(tiny(kind.fields + lora + base_type + targets + strategy + spread), {.steps = 3, .forced_routing = false}).world;
    const auto folder = scratch_folder("merged");
    export_all(*world, folder, WeightType::f64);
    EXPECT_FALSE(fs::exists(folder / ".adapters"));
    const auto merged = loaded(tiny(kind.fields), folder, DType::fp64);
    Tensors base = gather(*world, Quantity::parameters).tensors;
    std::erase_if(base, [](const auto& t) { return t.first.ends_with(".lora_a") || t.first.ends_with(".lora_b"); });
    const auto bare = make_world(tiny(kind.fields), DType::fp64);
    initialise(*bare);
    scatter(*bare, Quantity::parameters, base);
    const double with = step(*world), alone = step(*bare);
    EXPECT_NEAR(step(*merged), with, 1e-12 * with);
    EXPECT_GT(std::abs(alone - with), 1e-9 * with);
}

const Fields four_bits{"model.trainable.base_dtype=nf4"};

} // namespace

TEST(Weights, AdaptersGoOutMerged) {
    for (const Kind& kind : {kinds[0], kinds[2], kinds[6]})
        for (const Fields& strategy : strategies) expect_merged(kind, strategy, {});
}

TEST(Weights, AdaptersGoOutMergedIntoABaseOfFourBits) {
    for (const Kind& kind : {kinds[0], kinds[2], kinds[6]})
        for (const Fields& strategy : strategies) expect_merged(kind, strategy, four_bits);
}

// A matrix without an adapter is written as its 4 bits say, rounded once to the type of the files.
TEST(Weights, FourBitsGoOutDequantised) {
    const auto world = agree::train(tiny(llama + four_bits +
                                         Fields{"model.trainable.lora.rank=2", "model.trainable.lora.targets=[\"proj\"]",
                                                "strategy.data_parallel=4", "strategy.framework=fsdp2"}),
                                    {.steps = 2})
                           .world;
    const Tensor w = gather(*world, Quantity::parameters).tensors.at("l1.fc2.weight");
    for (std::size_t block = 0; block < w.values.size(); block += nf4_block) {
        const std::size_t end = std::min<std::size_t>(w.values.size(), block + nf4_block);
        double largest = 0;
        for (std::size_t i = block; i < end; ++i) largest = std::max(largest, std::abs(w.values[i]));
        for (std::size_t i = block; i < end; ++i) EXPECT_NEAR(round_to_nf4(w.values[i], largest), w.values[i], 1e-15);
    }
    const auto as = [&](WeightType type, const auto& expected) {
        const auto folder = scratch_folder("four_bits");
        export_all(*world, folder, type);
        const SafeTensors files(folder);
        const SafeTensor* found = files.find("model.layers.1.mlp.down_proj.weight");
        ASSERT_TRUE(found);
        for (std::size_t i = 0; i < w.values.size(); ++i)
            EXPECT_EQ(read_weight(found->data, static_cast<std::int64_t>(i), type), expected(w.values[i])) << i;
    };
    as(WeightType::f64, [](double x) { return x; });
    as(WeightType::f32, [](double x) { return static_cast<double>(static_cast<float>(x)); });
    as(WeightType::bf16, [](double x) { return static_cast<double>(from_bf16(to_bf16(static_cast<float>(x)))); });
}

namespace {

// In 16 bits adapters have master copies, which are what is merged; the base has none.
void expect_masters_merged(const Fields& base_type) {
    const Scenario s =
        tiny(llama + base_type +
             Fields{"model.trainable.lora.rank=2", "model.trainable.lora.targets=[\"proj\"]", "training.precision=bf16",
                    "strategy.framework=megatron", "strategy.tensor_parallel=2", "strategy.data_parallel=2", "strategy.zero_stage=1"});
    const auto world = make_world(s, DType::fp32);
    round_storage(*world);
    initialise(*world);
    for (int i = 0; i < 3; ++i) step(*world);
    const auto folder = scratch_folder("merged");
    export_all(*world, folder, WeightType::f64);
    const SafeTensors files(folder);
    const Tensors masters = gather(*world, Quantity::states).tensors, parameters = gather(*world, Quantity::parameters).tensors;
    const Tensor &a = masters.at("master/l1.proj.weight.lora_a"), &b = masters.at("master/l1.proj.weight.lora_b");
    EXPECT_NE(b, parameters.at("l1.proj.weight.lora_b")); // rounded
    const Tensor& w = parameters.at("l1.proj.weight");
    const SafeTensor* found = files.find("model.layers.1.self_attn.o_proj.weight");
    ASSERT_TRUE(found);
    const std::size_t columns = static_cast<std::size_t>(w.shape[1]);
    for (std::size_t i = 0; i < w.values.size(); ++i) {
        double expected = w.values[i];
        for (std::size_t r = 0; r < 2; ++r) expected += 16. / 2 * b.values[i / columns * 2 + r] * a.values[r * columns + i % columns];
        EXPECT_NEAR(read_weight(found->data, static_cast<std::int64_t>(i), WeightType::f64), expected, 1e-12);
    }
}

} // namespace

TEST(Weights, MergedAreTheMastersOfAdapters) {
    expect_masters_merged({});
    expect_masters_merged(four_bits);
}

TEST(Weights, TheConfigIsTheModel) {
    for (const Kind& kind : kinds) {
        SCOPED_TRACE(kind.family);
        const Scenario s = tiny(kind.fields);
        std::vector<std::string> why;
        ASSERT_EQ(name(weight_family(s.model, why).value()), kind.family);
        const auto folder = scratch_folder("config");
        export_all(*agree::train(s, {.steps = 1, .real = DType::fp32}).world, folder);
        const auto same = mismatches(folder / "config.json", s.model);
        EXPECT_TRUE(same.empty()) << same[0];
        Model other = s.model;
        other.hidden_size *= 2;
        other.norm_epsilon *= 2;
        other.vocab_size += 1;
        const auto lines = mismatches(folder / "config.json", other);
        ASSERT_EQ(lines.size(), 3u) << lines.back();
        EXPECT_NE(lines[0].find("model.hidden_size is 16 there and 32 in the scenario: set it to 16"), std::string::npos) << lines[0];
    }
}

TEST(Weights, SayWhatDoesNotFit) {
    const Scenario s = tiny(llama);
    const auto folder = scratch_folder("misfit");
    const auto why = [&](const HandMadeTensors& tensors) {
        write_f64(folder / "model.safetensors", tensors);
        try {
            loaded(s, folder, DType::fp32);
            return std::string();
        } catch (const std::runtime_error& e) { return std::string(e.what()); }
    };
    const HandMadeTensors right = random_model(s.model, "llama");
    EXPECT_EQ(why(right), "");
    HandMadeTensors bare, wrong = right;
    for (const auto& [name, t] : right) bare[name.starts_with("model.") ? name.substr(6) : name] = t; // as models without a head have them
    EXPECT_EQ(why(bare), "");
    wrong.erase("model.layers.1.self_attn.k_proj.weight");
    EXPECT_NE(why(wrong).find("have no model.layers.1.self_attn.k_proj.weight"), std::string::npos) << why(wrong);
    wrong = right;
    wrong["model.layers.2.input_layernorm.weight"] = {{1}, {1}};
    EXPECT_NE(why(wrong).find("model.layers.2.input_layernorm.weight, and the scenario's model has no such tensor"), std::string::npos)
        << why(wrong);
    wrong = right;
    std::swap(wrong["model.norm.weight"].shape, wrong["lm_head.weight"].shape);
    std::swap(wrong["model.norm.weight"].values, wrong["lm_head.weight"].values);
    EXPECT_NE(why(wrong).find("[32, 16] where the scenario's model needs [16]"), std::string::npos) << why(wrong);
    wrong = right;
    wrong["model.layers.0.self_attn.rotary_emb.inv_freq"] = {{1}, {1}};
    EXPECT_EQ(why(wrong), "");
    EXPECT_NE(why_no_weights(tiny({"model.position=alibi"}), {.read = true}), "");
    EXPECT_NE(why_no_weights(tiny({"model.trainable.lora.rank=2", "model.trainable.base_dtype=nf4"}), {.read = true}), "");
    EXPECT_NE(why_no_weights(tiny({"model.trainable.lora.rank=2", "model.trainable.base_dtype=nf4"}), {true, true}), "");
    EXPECT_EQ(why_no_weights(tiny({"model.trainable.lora.rank=2", "model.trainable.base_dtype=nf4"}), {.written = true}), "");
    EXPECT_EQ(why_no_weights(tiny({"model.trainable.lora.rank=2"}), {.written = true}), "");
}
