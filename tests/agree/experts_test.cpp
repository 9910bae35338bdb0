// Do experts over ranks train like all of them on one rank, as the router sends them: rows dropped by capacity or not, permuted before they
// travel or where they arrive?
#include "agree.hpp"

#include "exec/kernels/room.hpp"

#include "sim/model/expert_load.hpp"
#include "sim/plan/lower.hpp"
#include "sim/report/report.hpp"

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include <filesystem>
#include <fstream>
#include <numeric>
#include <unistd.h>

namespace orrery::agree {
namespace {

Fields operator+(Fields a, const Fields& b) {
    a.insert(a.end(), b.begin(), b.end());
    return a;
}

const Fields mixture{"model.moe.experts=4", "model.moe.top_k=2", "model.moe.expert_ffn_size=12", "model.activation=swiglu",
                     "model.norm=rmsnorm",  "model.bias=false",  "model.position=rope"};
const Fields two_ranks{"strategy.data_parallel=2", "strategy.expert_parallel=2"};
// Room for every row on either rank: nothing is known of the router beforehand.
const Fields room{"model.moe.imbalance=[1,1e-6,0,0]"};

const TrainOptions freely{.forced_routing = false};

Trained expect_like_one_rank(const Scenario& scenario, const TrainOptions& options) {
    for (const Problem& p : not_executable(scenario)) ADD_FAILURE() << p.what;
    Trained many = train(scenario, options), one = train(on_one_rank(scenario), options);
    const Difference gradients = difference(one.first_gradients, many.first_gradients),
                     parameters = difference(one.parameters, many.parameters);
    EXPECT_LE(gradients.relative, 1e-12) << gradients.worst;
    EXPECT_LE(parameters.relative, 1e-10) << parameters.worst;
    for (std::size_t i = 0; i < one.losses.size(); ++i) EXPECT_NEAR(many.losses[i], one.losses[i], 1e-12) << "step " << i;
    EXPECT_EQ(many.disagreement, 0);
    return many;
}
void expect_like_one_rank(const Fields& fields) { expect_like_one_rank(tiny(mixture + fields), freely); }

TEST(AgreeExperts, OnOneRankLearn) {
    const Trained t = train(tiny(mixture), {.steps = 20, .forced_routing = false});
    EXPECT_LT(t.losses.back(), t.losses.front() - 0.3);
}

TEST(AgreeExperts, WithACapacity) { expect_like_one_rank(two_ranks + Fields{"model.moe.capacity_factor=1.0"}); }
// Without padding the same rows are dropped; there is room for all others, as no expert has more than its capacity.
TEST(AgreeExperts, WithACapacityThatDoesNotPad) {
    const Fields cut{"model.moe.capacity_factor=1.0", "model.moe.pad_to_capacity=false", "model.moe.auxiliary_loss=false"},
        padded{"model.moe.capacity_factor=1.0", "model.moe.auxiliary_loss=false"};
    expect_like_one_rank(two_ranks + cut);
    const Trained left = train(tiny(mixture + two_ranks + cut), freely), filled = train(tiny(mixture + two_ranks + padded), freely);
    for (std::size_t i = 0; i < left.losses.size(); ++i) EXPECT_NEAR(left.losses[i], filled.losses[i], 1e-12) << "step " << i;
}
TEST(AgreeExperts, WithoutDropping) { expect_like_one_rank(two_ranks + room); }
TEST(AgreeExperts, OneOnEachRank) {
    expect_like_one_rank(Fields{"strategy.data_parallel=4", "strategy.expert_parallel=4", "model.moe.capacity_factor=1.5"});
}
TEST(AgreeExperts, PermutedWhereTheyArrive) { expect_like_one_rank(two_ranks + room + Fields{"runtime.token_dispatcher=allgather"}); }
// Their columns over tensor ranks, which gather each other's rows and sum them in parts of uneven size.
const Fields over_tensor{"strategy.tensor_parallel=2", "strategy.sequence_parallel=true", "strategy.expert_tensor_parallel=2",
                         "strategy.framework=megatron", "model.moe.auxiliary_loss=false"}; // which each rank takes over its own tokens
TEST(AgreeExperts, OverTensorRanks) {
    expect_like_one_rank(two_ranks + room + over_tensor);
    expect_like_one_rank(room + over_tensor); // all of them on each
    expect_like_one_rank(
        room +
        Fields{"strategy.data_parallel=4", "strategy.expert_parallel=4", "strategy.zero_stage=1", "training.gradient_clipping=0.05"} +
        over_tensor);
    expect_like_one_rank(two_ranks + room + over_tensor + Fields{"runtime.token_dispatcher=allgather"});
    expect_like_one_rank(two_ranks + room + over_tensor + Fields{"strategy.recompute=full"});
    expect_like_one_rank(two_ranks + room + over_tensor + Fields{"strategy.rank_order=ep-tp-cp-dp-pp"}); // counts stand in another order
    expect_like_one_rank(
        two_ranks + room + over_tensor +
        Fields{"model.layers=4", "strategy.pipeline_parallel=2", "strategy.schedule=zb-h1", "strategy.overlap.expert_parallel=true"});
}
TEST(AgreeExperts, WithReplicas) { expect_like_one_rank(Fields{"strategy.data_parallel=4", "strategy.expert_parallel=2"} + room); }
TEST(AgreeExperts, BesideSharedOnes) {
    const Fields shared = two_ranks + room + Fields{"model.moe.shared_experts=1"};
    expect_like_one_rank(shared);
    expect_like_one_rank(shared + Fields{"strategy.overlap.shared_experts=true"});
    expect_like_one_rank(shared + Fields{R"(strategy.recompute=["shared_experts"])"});
}
TEST(AgreeExperts, InJoinedStepsUnderTensorParallelism) {
    for (const char* dense : {"0", "1"})
        expect_like_one_rank(two_ranks + room +
                             Fields{"model.layers=4", std::string("model.moe.first_dense_layers=") + dense, "strategy.tensor_parallel=2",
                                    "strategy.sequence_parallel=true", "strategy.expert_tensor_parallel=1", "strategy.pipeline_parallel=2",
                                    "strategy.virtual_pipeline=2", "strategy.schedule=interleaved-1f1b", "model.moe.shared_experts=1",
                                    "strategy.overlap.expert_parallel=true", "strategy.framework=megatron",
                                    "model.moe.auxiliary_loss=false"});
}
TEST(AgreeExperts, BySigmoidInGroups) {
    expect_like_one_rank(two_ranks + room +
                         Fields{"model.moe.scoring=sigmoid", "model.moe.groups=2", "model.moe.group_limit=1", "model.moe.router_bias=true",
                                "model.moe.auxiliary_loss=false"});
}
TEST(AgreeExperts, WithTheirParametersSharded) {
    expect_like_one_rank(two_ranks + room + Fields{"strategy.zero_stage=1", "strategy.framework=megatron"});
}
TEST(AgreeExperts, Clipped) {
    expect_like_one_rank(two_ranks + room + Fields{"training.gradient_clipping=0.05"});
    expect_like_one_rank(two_ranks + room +
                         Fields{"training.gradient_clipping=0.05", "strategy.zero_stage=1", "strategy.framework=megatron"});
}
TEST(AgreeExperts, OnEveryExecutor) {
    for (const Fields& fields : {two_ranks + room, two_ranks + room + over_tensor,
                                 two_ranks + room + over_tensor + Fields{"runtime.token_dispatcher=allgather"}}) {
        const Scenario scenario = tiny(mixture + fields);
        const Trained serial = train(scenario, freely);
        for (const std::string& executor : executor_names()) {
            const Trained other = train(scenario, {.executor = executor, .forced_routing = false});
            EXPECT_EQ(serial.parameters, other.parameters) << executor;
            EXPECT_EQ(routed(*serial.world), routed(*other.world)) << executor;
        }
    }
}
// As simexec runs it: the router chooses freely, and buffers have the room that is predicted.
const TrainOptions by_its_router{.forced_routing = false, .routed = true};
TEST(AgreeExperts, ByTheirOwnRouterWithRoomForItsChoices) {
    const Fields clipped{"training.gradient_clipping=0.05"}, four{"strategy.data_parallel=4", "strategy.expert_parallel=4"},
        longer{"training.sequence_length=14"}, gathered{"runtime.token_dispatcher=allgather"};
    for (const Fields& fields :
         {two_ranks, two_ranks + longer, two_ranks + clipped, two_ranks + gathered, two_ranks + over_tensor,
          two_ranks + over_tensor + gathered, four, four + longer, two_ranks + Fields{"strategy.recompute=full"},
          two_ranks + Fields{"model.activation=gelu", "model.bias=true"},
          two_ranks + Fields{"model.moe.capacity_factor=1.0", "model.moe.pad_to_capacity=false", "model.moe.auxiliary_loss=false"},
          two_ranks + Fields{"model.moe.imbalance=[4,3,2,1]"}}) {
        SCOPED_TRACE(testing::PrintToString(fields));
        const Scenario scenario = tiny(mixture + fields);
        const Trained many = expect_like_one_rank(scenario, by_its_router);
        expect_peaks_as_predicted(scenario, many);
        for (const std::string& executor : executor_names()) {
            TrainOptions other = by_its_router;
            other.executor = executor;
            EXPECT_EQ(train(scenario, other).parameters, many.parameters) << executor;
        }
    }
}
// With less room than the router's choices take it says so.
TEST(AgreeExperts, WithTooLittleRoomSaysWhatGivesMore) {
    const Scenario scenario = tiny(mixture + two_ranks + Fields{"training.sequence_length=14", "runtime.expert_room=1"});
    try {
        TrainOptions options = by_its_router;
        options.steps = 20;
        train(scenario, options);
        ADD_FAILURE() << "it trained";
    } catch (const NoRoom& e) { EXPECT_NE(std::string(e.what()).find("runtime.expert_room"), std::string::npos) << e.what(); }
}
// --find-nan does not look at rows that nobody sent: they hold whatever was there before.
TEST(AgreeExperts, RowsThatNobodySentAreNoNumbersOfTheRun) {
    for (const char* dispatcher : {"alltoall", "allgather"}) {
        const Scenario scenario =
            tiny(mixture + two_ranks + Fields{std::string("runtime.token_dispatcher=") + dispatcher, "strategy.fused=true"});
        const auto world = make_world(scenario, routed_plan(scenario), DType::fp64);
        world->watch = Watch::all;
        initialise(*world);
        for (auto& r : world->ranks) r->memory.poison(true);
        const auto executor = serial_executor(*world);
        for (int step = 0; step < 3; ++step) {
            load_batch(*world, {"", scenario.model.vocab_size, scenario.training.seed}, step);
            EXPECT_NO_THROW(executor->step(nullptr)) << dispatcher;
        }
    }
}
// PyTorch's grouped products read the counts on the device: no host waits, and each expert works on its own rows all the same.
TEST(AgreeExperts, WhereTheHostIsNotToldTheirCounts) {
    const Fields told{"strategy.framework=fsdp2", "runtime.year=2024"}, untold{"strategy.framework=fsdp2", "runtime.year=2026"};
    const auto waits = [](const Scenario& s) {
        int n = 0;
        for (const Block& b : lower(s).blocks)
            for (const Op& op : b.ops) n += op.name.find("counts.wait") != std::string::npos;
        return n;
    };
    EXPECT_GT(waits(tiny(mixture + told)), 0);
    EXPECT_EQ(waits(tiny(mixture + untold)), 0);
    const Trained a = train(tiny(mixture + told), freely), b = train(tiny(mixture + untold), freely);
    for (std::size_t i = 0; i < a.losses.size(); ++i) EXPECT_NEAR(b.losses[i], a.losses[i], 1e-12) << "step " << i;
    EXPECT_LE(difference(a.first_gradients, b.first_gradients).relative, 1e-12);
}
TEST(AgreeExperts, WithoutRoomSaySo) {
    for (const Fields& fields : {two_ranks, two_ranks + over_tensor})
        for (const std::string& executor : executor_names())
            EXPECT_THROW(train(tiny(mixture + fields + Fields{"training.sequence_length=14"}),
                               {.steps = 20, .executor = executor, .forced_routing = false}),
                         NoRoom)
                << executor;
}
TEST(AgreeExperts, OverPipelinesAndContext) {
    expect_like_one_rank(room + Fields{"strategy.context_parallel=2", "strategy.expert_parallel=2", "strategy.pipeline_parallel=2",
                                       "strategy.schedule=zb-h1", "model.moe.auxiliary_loss=false"});
    expect_like_one_rank(room + Fields{"model.layers=4", "strategy.pipeline_parallel=2", "strategy.virtual_pipeline=2",
                                       "strategy.schedule=dualpipe-v", "strategy.data_parallel=2", "strategy.expert_parallel=2",
                                       "strategy.overlap.expert_parallel=true", "strategy.overlap.pipeline=true"});
}
// The router's choices are recorded, and the simulator takes them: loads, and the fullest rank's rows, are those of the run.
void expect_recorded(const Fields& strategy) {
    const Fields fields = mixture + strategy + room + Fields{"model.layers=2", "training.global_batch_size=16"};
    const Trained t = train(tiny(fields), {.steps = 3, .forced_routing = false});
    const auto loads = routed_loads(*t.world, routed(*t.world));
    ASSERT_EQ(loads.size(), 2u);
    for (const auto& layer : loads)
        EXPECT_EQ(std::accumulate(layer.begin(), layer.end(), std::int64_t{0}), 3 * 16 * 8 * 2); // steps, sequences, tokens, experts each
    const std::filesystem::path file = std::filesystem::path(testing::TempDir()) / ("orrery_routing_" + std::to_string(getpid()) + ".json");
    std::ofstream(file) << nlohmann::json(loads).dump();
    const Scenario again =
        tiny(mixture + strategy +
             Fields{"model.layers=2", "training.global_batch_size=16", "model.moe.imbalance={\"file\": \"" + file.string() + "\"}"});
    const Scenario even = tiny(mixture + strategy + Fields{"model.layers=2", "training.global_batch_size=16"});
    for (int layer = 0; layer < 2; ++layer) {
        const std::vector<double> shares = expert_shares(*again.model.moe, layer);
        for (std::size_t e = 0; e < shares.size(); ++e)
            EXPECT_NEAR(shares[e], static_cast<double>(loads[layer][e]) / (3 * 16 * 8 * 2), 1e-12);
    }
    const Report recorded = predict(again).report, uniform = predict(even).report;
    EXPECT_GT(recorded.experts.fullest_rank, 1);
    EXPECT_GT(recorded.memory.stages[0].peak.count, uniform.memory.stages[0].peak.count); // room for the fullest
}
TEST(AgreeExperts, RecordedLoadsAreSimulated) {
    expect_recorded(two_ranks);
    expect_recorded(two_ranks + over_tensor);
}

TEST(AgreeExperts, WithBiases) { expect_like_one_rank(two_ranks + room + Fields{"model.activation=gelu", "model.bias=true"}); }

// GPT-OSS's activation: gates cut off above a limit, what they let through on both sides. Before the activation's kernel, as Megatron-Core
// does it, or inside it: the same gradients, and others than without.
TEST(AgreeExperts, ClampedBeforeTheActivationOrInsideIt) {
    const Fields biased{"model.bias=true"}, apart{"strategy.framework=megatron", "model.tied_embeddings=true"},
        clamped{"model.activation_clamp=0.004"};
    expect_like_one_rank(two_ranks + room + biased + apart + clamped);
    const Scenario before = tiny(mixture + biased + apart + clamped + Fields{"strategy.fused=true"});
    Scenario inside = before, without = before;
    inside.runtime.fused_experts = true, without.model.activation_clamp = 0;
    const auto clamps = [](const Scenario& s) {
        int n = 0;
        for (const Block& b : lower(s).blocks)
            for (const Op& op : b.ops)
                if (const auto* w = std::get_if<Pointwise>(&op.work)) n += w->kind == PointwiseKind::clamp;
        return n;
    };
    EXPECT_GT(clamps(before), 0);
    EXPECT_EQ(clamps(inside) + clamps(without), 0);
    const Trained a = train(before), b = train(inside), c = train(without);
    EXPECT_LE(difference(a.first_gradients, b.first_gradients).relative, 1e-12);
    EXPECT_GT(difference(a.first_gradients, c.first_gradients).relative, 1e-3);
}

TEST(AgreeExperts, ActivationsInSteps) {
    const Trained fused = train(tiny(mixture + Fields{"model.activation=swiglu", "runtime.fused_activation=true"}));
    const Trained steps = train(tiny(mixture + Fields{"model.activation=swiglu", "runtime.fused_activation=false"}));
    EXPECT_EQ(fused.losses, steps.losses);
    EXPECT_EQ(difference(fused.first_gradients, steps.first_gradients).relative, 0);
}

// YaRN's factor on cosines and sines changes the scores, and the adjoint has it too.
TEST(AgreeExperts, ScaledRotationsTrainTheSameOverRanks) {
    expect_like_one_rank(two_ranks + room + Fields{"model.rope_scale=1.5"});
    const Trained scaled = train(tiny(mixture + Fields{"model.rope_scale=1.5"})), plain = train(tiny(mixture));
    EXPECT_GT(difference(scaled.first_gradients, plain.first_gradients).relative, 1e-4);
}
TEST(AgreeExperts, Recomputed) { expect_like_one_rank(two_ranks + room + Fields{"strategy.recompute=full"}); }

} // namespace
} // namespace orrery::agree
