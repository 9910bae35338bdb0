// Training in fp16: the loss is scaled, masters are fp32, a step whose gradients overflow is left out on all ranks. Do strategies train
// like one rank, as far as fp16 can tell, and the executors like each other to the bit?
#include "agree.hpp"

#include "exec/kernels/rounding.hpp"
#include "exec/local/collectives.hpp"
#include "exec/runtime/resume.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <limits>

namespace orrery::agree {
namespace {

Fields half(Fields more) {
    more.insert(more.begin(), {"training.precision=fp16", "training.gradient_clipping=1"});
    return more;
}

const TrainOptions rounding{.steps = 5, .real = DType::fp32, .rounds = true};

std::unique_ptr<World> emulated(const Fields& fields) {
    auto world = make_world(tiny(half(fields)), DType::fp32);
    round_storage(*world);
    initialise(*world);
    return world;
}

void set_scale(World& world, double factor, std::int64_t skipped = 0) {
    for (auto& rank : world.ranks) {
        rank->scaling->factor = factor;
        rank->scaling->skipped = skipped;
    }
}

void step(World& world, Executor& executor, std::int64_t step) {
    load_batch(world, {"", world.scenario.model.vocab_size, world.scenario.training.seed}, step);
    executor.step(nullptr);
}

TEST(Fp16, NumbersAreThemselvesAndBetweenThemTheEven) {
    for (std::uint32_t bits = 0; bits < 0x10000; ++bits) {
        const auto h = static_cast<std::uint16_t>(bits);
        const float x = from_fp16(h);
        if (std::isnan(x)) {
            EXPECT_TRUE(std::isnan(from_fp16(to_fp16(x))));
            continue;
        }
        ASSERT_EQ(to_fp16(x), h) << x;
        if ((h & 0x7fff) >= 0x7bff) continue; // the largest, and infinity
        const double next = static_cast<double>(from_fp16(static_cast<std::uint16_t>(h + 1))), middle = (static_cast<double>(x) + next) / 2;
        ASSERT_EQ(to_fp16(static_cast<float>(middle)), h % 2 == 0 ? h : h + 1) << middle;
        float above = std::nextafter(static_cast<float>(middle), static_cast<float>(next));
        ASSERT_EQ(to_fp16(above), h + 1) << above;
        round_to_fp16(&above, 1);
        ASSERT_EQ(above, static_cast<float>(next));
    }
    float odd[] = {65519.0f, 65520.0f, -1e9f, std::numeric_limits<float>::infinity(), std::nanf(""), -0.0f, 2e-8f, 4e-8f};
    round_to_fp16(odd, 8);
    EXPECT_EQ(odd[0], 65504);
    EXPECT_TRUE(std::isinf(odd[1]) && odd[2] == -std::numeric_limits<float>::infinity() && std::isinf(odd[3]) && std::isnan(odd[4]));
    EXPECT_TRUE(std::signbit(odd[5]));
    EXPECT_EQ(odd[6], 0);
    EXPECT_EQ(odd[7], 0x1p-24f);
}

TEST(Fp16, IsReadWrittenAndSummed) {
    std::byte one[2], two[2];
    write_element(one, 0, 1.0 / 3, DType::fp16);
    EXPECT_NEAR(read_element(one, 0, DType::fp16), 1.0 / 3, 1.0 / 3 / 2048);
    write_element(two, 0, 40000, DType::fp16);
    const std::vector<Pieces> sides{{{one, 1}}, {{two, 1}}};
    all_reduce(sides, sides, Element::fp16, true);
    EXPECT_EQ(read_element(one, 0, DType::fp16), 40000);
    all_reduce(sides, sides, Element::fp16, false);
    EXPECT_TRUE(std::isinf(read_element(one, 0, DType::fp16))) << "80000 is no number of fp16";
    EXPECT_TRUE(std::ranges::equal(one, two));
    EXPECT_EQ(stored_bytes(DType::fp16, DType::fp16), 2u);
    EXPECT_EQ(stored_bytes(DType::fp32, DType::fp16), 4u);
    EXPECT_EQ(stored_type(DType::fp16, DType::fp32), DType::fp32);
}

// The rule of torch.amp.GradScaler.
TEST(LossScale, IsHalvedAndDoubled) {
    LossScale s;
    EXPECT_TRUE(move_on(s)); // no norm is known
    EXPECT_EQ(s.factor, 65536);
    s.checked = s.overflowed = true;
    EXPECT_TRUE(move_on(s));
    EXPECT_EQ(s.factor, 32768);
    EXPECT_EQ(s.skipped, 1);
    for (int i = 0; i < LossScale::growth_interval; ++i) {
        EXPECT_EQ(s.factor, 32768);
        s.checked = true;
        EXPECT_TRUE(move_on(s));
    }
    EXPECT_EQ(s.factor, 65536);
    s.factor = 1;
    s.checked = s.overflowed = true;
    EXPECT_FALSE(move_on(s));
    EXPECT_EQ(s.factor, 1);
}

TEST(Fp16, StrategiesTrainLikeOneRank) {
    const Fields strategies[] = {
        {"strategy.tensor_parallel=2", "strategy.sequence_parallel=true", "strategy.data_parallel=2", "strategy.framework=megatron",
         "strategy.zero_stage=1"},
        {"strategy.data_parallel=4", "strategy.framework=fsdp"},
        {"strategy.pipeline_parallel=2", "strategy.schedule=zb-h1", "strategy.context_parallel=2"},
        {"strategy.data_parallel=2", "strategy.expert_parallel=2", "strategy.framework=megatron", "model.moe.experts=4",
         "model.moe.top_k=2", "model.moe.expert_ffn_size=16"},
    };
    for (const Fields& f : strategies) {
        const Scenario scenario = tiny(half(f));
        const Trained many = train(scenario, rounding), one = train(on_one_rank(scenario), rounding);
        const Difference d = difference(one.first_gradients, many.first_gradients, 1e-3);
        EXPECT_LE(d.relative, 0.05) << f[0] << " " << d.worst;
        for (std::size_t i = 0; i < one.losses.size(); ++i) EXPECT_NEAR(many.losses[i], one.losses[i], 0.02) << f[0] << " step " << i;
        EXPECT_EQ(many.disagreement, 0) << f[0];
        EXPECT_EQ(loss_scale(*many.world)->skipped, 0) << f[0];
    }
}

TEST(Fp16, ExecutorsGiveTheSameBits) {
    const Fields both = half({"strategy.tensor_parallel=2", "strategy.pipeline_parallel=2", "strategy.schedule=1f1b",
                              "strategy.data_parallel=2", "strategy.zero_stage=1"});
    for (const std::string& executor : executor_names()) {
        TrainOptions other = rounding;
        other.executor = executor;
        EXPECT_EQ(train(tiny(both), rounding).parameters, train(tiny(both), other).parameters) << executor;
    }
}

// Multiplying by a power of two rounds nothing: where numbers are not rounded to fp16, a training with one scale is that with another to
// the bit. Gradients that it does not reach, or reaches twice, or that an optimizer reads with it, would tell.
class AnyScale : public testing::TestWithParam<Case> {};

TEST_P(AnyScale, TrainsToTheSameBits) {
    const Scenario scenario = tiny(with(GetParam().fields, {"training.precision=fp16", "training.gradient_clipping=1"}));
    std::unique_ptr<World> worlds[2];
    for (int i = 0; i < 2; ++i) {
        World& world = *(worlds[i] = make_world(scenario, DType::fp32));
        world.facts.forced_routing = true;
        round_storage(world);
        for (auto& rank : world.ranks) rank->context.rounds = false;
        set_scale(world, i == 0 ? 1 : 0x1p20);
        initialise(world);
        const auto executor = serial_executor(world);
        for (int n = 0; n < 3; ++n) step(world, *executor, n);
        EXPECT_EQ(loss_scale(world)->good_steps, 3);
    }
    EXPECT_EQ(worlds[0]->losses, worlds[1]->losses);
    for (const Quantity q : {Quantity::parameters, Quantity::states})
        EXPECT_EQ(gather(*worlds[0], q).tensors, gather(*worlds[1], q).tensors);
}

std::vector<Case> scaled() { // all but those that fp16 is refused for: updates a step later, and stages that train nothing
    std::vector<Case> cases = strategies();
    std::erase_if(cases, [](const Case& c) {
        const auto says = [&](const char* what) { return c.name.find(what) != std::string::npos; };
        return says("delayed") || says("frozen_stage") || says("lora_upper_pp2");
    });
    return cases;
}
INSTANTIATE_TEST_SUITE_P(Strategies, AnyScale, testing::ValuesIn(scaled()), [](const auto& tested) { return tested.param.name; });

// The scale keeps small gradients: without it they are lost, with it they are as in fp32.
TEST(Fp16, LearnsAsFp32Does) {
    const Fields fields{"strategy.data_parallel=2", "strategy.framework=megatron"};
    const Trained narrow = train(tiny(half(fields)), {.steps = 20, .real = DType::fp32, .rounds = true}),
                  wide = train(tiny(half(fields)), {.steps = 20, .real = DType::fp32});
    EXPECT_NE(narrow.parameters, wide.parameters);
    for (std::size_t i = 0; i < wide.losses.size(); ++i) EXPECT_NEAR(narrow.losses[i], wide.losses[i], 0.01) << "step " << i;
}

// A scale so large that gradients overflow: nothing is learned, the scale is halved until they do not, and from there the training is that
// which began with this scale.
TEST(Fp16, OverflowLeavesOutTheStepOnAllRanks) {
    const Fields strategies[] = {
        {"strategy.data_parallel=2", "strategy.framework=megatron", "strategy.zero_stage=1"},
        {"strategy.pipeline_parallel=2", "strategy.schedule=1f1b", "strategy.tensor_parallel=2"},
        {"strategy.data_parallel=2", "strategy.framework=fsdp"},
        {"strategy.data_parallel=2", "strategy.framework=megatron", "strategy.zero_stage=1", "training.optimizer=lamb"},
        {"strategy.data_parallel=2", "strategy.framework=megatron", "training.optimizer=momentum"},
    };
    for (const Fields& fields : strategies) {
        const auto world = emulated(fields), later = emulated(fields);
        const auto executor = serial_executor(*world), other = serial_executor(*later);
        const Tensors before = gather(*world, Quantity::parameters).tensors, states = gather(*world, Quantity::states).tensors;
        set_scale(*world, 0x1p34);
        std::int64_t n = 0;
        for (; n < 40; ++n) {
            step(*world, *executor, n);
            for (const auto& rank : world->ranks) EXPECT_EQ(rank->scaling->factor, loss_scale(*world)->factor) << fields[0];
            if (loss_scale(*world)->skipped == n) break;
            EXPECT_EQ(loss_scale(*world)->factor, std::ldexp(0x1p34, -static_cast<int>(n) - 1)) << fields[0];
            EXPECT_EQ(gather(*world, Quantity::parameters).tensors, before) << fields[0];
            EXPECT_EQ(gather(*world, Quantity::states).tensors, states) << fields[0];
        }
        ASSERT_GT(n, 0) << "or the test asks nothing";
        ASSERT_LT(n, 40);
        EXPECT_NE(gather(*world, Quantity::parameters).tensors, before);
        set_scale(*later, loss_scale(*world)->factor, n);
        step(*later, *other, n);
        EXPECT_EQ(gather(*later, Quantity::parameters).tensors, gather(*world, Quantity::parameters).tensors) << fields[0];
        EXPECT_EQ(gather(*later, Quantity::states).tensors, gather(*world, Quantity::states).tensors) << fields[0];
    }
}

// Where the scale cannot help any more, training ends with a reason.
TEST(Fp16, AnOverflowThatNoScaleMendsIsAnError) {
    const auto world = emulated({"strategy.data_parallel=2"});
    const auto executor = serial_executor(*world);
    world->facts.optimizer.clip = 1e9;
    world->machine.kernel = [kernel = world->machine.kernel](const Op& op, std::span<const Operand> in, std::span<const Operand> out,
                                                             const KernelContext& context) {
        kernel(op, in, out, context);
        const auto* loss = std::get_if<CrossEntropy>(&op.work);
        if (loss && loss->part == CrossEntropy::Part::gradient)
            reinterpret_cast<float*>(out[0].data)[0] = std::numeric_limits<float>::infinity();
    };
    for (int i = 0; i < 16; ++i) step(*world, *executor, i);
    EXPECT_EQ(loss_scale(*world)->factor, 1);
    try {
        step(*world, *executor, 16);
        ADD_FAILURE() << "a scale of 1 overflows, and nothing is said";
    } catch (const NotFinite& e) {
        EXPECT_TRUE(e.all_know);
        EXPECT_NE(std::string(e.what()).find("at step 16: gradients overflow fp16"), std::string::npos) << e.what();
    }
}

TEST(Fp16, EvaluationMovesNoScale) {
    const auto world = emulated({"strategy.data_parallel=2"});
    const auto executor = serial_executor(*world);
    set_scale(*world, 0x1p40);
    hold(*world, true);
    step(*world, *executor, 0);
    hold(*world, false);
    EXPECT_EQ(loss_scale(*world)->factor, 0x1p40);
    EXPECT_EQ(loss_scale(*world)->skipped, 0);
}

TEST(Fp16, TheScaleGoesThroughACheckpoint) {
    const auto from = emulated({"strategy.data_parallel=2"}), to = emulated({"strategy.tensor_parallel=2"});
    set_scale(*from, 0x1p20, 2);
    for (auto& rank : from->ranks) rank->scaling->good_steps = 7;
    const auto handed = [&](const std::string& fact) {
        const std::string folder = testing::TempDir() + "fp16_scale";
        std::filesystem::remove_all(folder);
        CheckpointWriter writer(folder);
        writer.begin({9, 7, {{loss_scale_fact, fact}}}, pieces_of(*from));
        writer.finish();
        restore(*to, CheckpointFiles(checkpoints_in(folder).at(0)));
    };
    handed(text_of(*loss_scale(*from)));
    for (const auto& rank : to->ranks) {
        EXPECT_EQ(rank->scaling->factor, 0x1p20);
        EXPECT_EQ(rank->scaling->good_steps, 7);
        EXPECT_EQ(rank->scaling->skipped, 2);
    }
    for (const char* wrong : {"", "0 0 0", "3 0 0", "inf 0 0", "65536 0", "65536 -1 0", "65536 0 10"})
        EXPECT_THROW(handed(wrong), WrongModel) << wrong;
}

// From the steps before gradients are compressed to those after.
TEST(Fp16, TheScaleIsCarriedOver) {
    const Fields casts{"strategy.data_parallel=2", "strategy.framework=ddp",
                       R"(strategy.gradient_compression={"kind": "bf16", "start_step": 2})"};
    const auto from = emulated(casts), to = emulated(casts);
    set_scale(*from, 0x1p20, 2);
    for (auto& rank : from->ranks) rank->scaling->good_steps = 7;
    carry_over(*from, *to);
    for (const auto& rank : to->ranks) EXPECT_EQ(text_of(*rank->scaling), text_of(*loss_scale(*from)));
}

// Gradients may be no numbers; weights and states may not.
TEST(Fp16, AWatchedOptimizerIsNamed) {
    const auto world = emulated({"strategy.data_parallel=2"});
    world->watch = Watch::all;
    const auto executor = serial_executor(*world);
    set_scale(*world, 0x1p40);
    step(*world, *executor, 0);
    EXPECT_EQ(loss_scale(*world)->skipped, 1);
    world->machine.kernel = [kernel = world->machine.kernel](const Op& op, std::span<const Operand> in, std::span<const Operand> out,
                                                             const KernelContext& context) {
        kernel(op, in, out, context);
        if (std::holds_alternative<OptimizerStep>(op.work)) reinterpret_cast<float*>(out[0].data)[0] = std::nanf("");
    };
    try {
        step(*world, *executor, 1);
        ADD_FAILURE() << "weights are no numbers, and nothing is said";
    } catch (const NotFinite& e) { EXPECT_NE(std::string(e.what()).find("makes"), std::string::npos) << e.what(); }
}

TEST(Fp16, StoredAsItIsGoesThroughACheckpoint) {
    const Fields fields{"strategy.tensor_parallel=2", "strategy.data_parallel=2", "strategy.framework=megatron", "strategy.zero_stage=1"};
    const auto one = make_world(tiny(half(fields)), DType::fp16),
               other = make_world(tiny(half({"strategy.data_parallel=2", "strategy.framework=megatron"})), DType::fp16);
    initialise(*one);
    const std::string folder = testing::TempDir() + "fp16_stored";
    std::filesystem::remove_all(folder);
    CheckpointWriter writer(folder);
    writer.begin({0, 7, {}}, pieces_of(*one));
    writer.finish();
    restore(*other, CheckpointFiles(checkpoints_in(folder).at(0)));
    for (Quantity q : {Quantity::parameters, Quantity::states}) EXPECT_EQ(gather(*one, q).tensors, gather(*other, q).tensors);
}

TEST(Fp16, IsRefusedWhereAStepCannotBeLeftOut) {
    const struct {
        Fields fields;
        const char* says;
    } cases[] = {
        {{"training.gradient_clipping=0"}, "training.gradient_clipping"},
        {{"training.master_weights=false", "training.moment_dtype=fp32", "strategy.framework=megatron"}, "training.master_weights"},
        {{"training.moment_dtype=fp16", "strategy.framework=megatron"}, "training.moment_dtype"},
        {{"strategy.data_parallel=2", "strategy.framework=deepspeed", "strategy.zero_stage=1", "strategy.offload.optimizer=cpu",
          "strategy.offload.delayed_update=true"},
         "strategy.offload.delayed_update"},
        {{"training.optimizer_in_backward=true", "strategy.optimizer_sync=post-validation", "training.micro_batch_size=2",
          "training.global_batch_size=2", "strategy.offload.optimizer=cpu"},
         "training.optimizer_in_backward"},
        {{"strategy.data_parallel=2", R"(strategy.gradient_compression={"kind": "powersgd", "rank": 2})"}, "strategy.gradient_compression"},
        {{"strategy.data_parallel=2", "strategy.synchronization.kind=local_sgd", "strategy.synchronization.inner_steps=3",
          "training.master_weights=false"},
         "several steps in flight"},
        {{"strategy.pipeline_parallel=2", "strategy.schedule=1f1b", "model.layers=4", "model.tied_embeddings=false",
          "model.trainable.frozen_layers=2"},
         "a stage that trains nothing"},
    };
    for (const auto& c : cases) {
        const auto world = make_world(tiny(half(c.fields)), DType::fp32);
        try {
            round_storage(*world);
            ADD_FAILURE() << c.says << " is not refused";
        } catch (const std::runtime_error& e) { EXPECT_NE(std::string(e.what()).find(c.says), std::string::npos) << e.what(); }
        EXPECT_THROW(make_world(tiny(half(c.fields)), DType::fp16), std::runtime_error) << c.says;
    }
}

} // namespace
} // namespace orrery::agree
