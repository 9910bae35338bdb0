// A run that was stopped: does it go on to the bit, and on another strategy as that one would have?
#include "agree.hpp"

#include "exec/kernels/shards.hpp"
#include "exec/runtime/resume.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <fmt/format.h>
#include <map>

namespace orrery::agree {
namespace {

Tensors go_on(const Scenario& scenario, const std::filesystem::path& folder, int until) {
    const CheckpointFiles checkpoint(checkpoints_in(folder).at(0));
    const auto world = make_world(scenario, DType::fp64);
    restore(*world, checkpoint);
    const auto executor = serial_executor(*world);
    for (std::int64_t step = checkpoint.state().step; step < until; ++step) {
        load_batch(*world, {"", scenario.model.vocab_size, scenario.training.seed}, step);
        executor->step(nullptr);
    }
    return gather(*world, Quantity::parameters).tensors;
}

TEST(Resume, GoesOnToTheBitAndOnOtherStrategies) {
    const Scenario scenario = tiny({"strategy.data_parallel=2", "strategy.zero_stage=1"});
    const auto folder = fresh_folder("resume");
    const Trained half = train(scenario, {.steps = 3});
    save_checkpoint(folder, {3, scenario.training.seed, {}}, pieces_of(*half.world));
    const Trained whole = train(scenario, {.steps = 5});
    EXPECT_EQ(difference(whole.parameters, go_on(scenario, folder, 5)).relative, 0);
    for (const std::vector<std::string>& other :
         {std::vector<std::string>{},
          {"strategy.data_parallel=4", "strategy.framework=fsdp"},
          {"strategy.tensor_parallel=2", "strategy.pipeline_parallel=2", "strategy.schedule=1f1b"}}) {
        const Difference d = difference(whole.parameters, go_on(tiny(other), folder, 5));
        EXPECT_LE(d.relative, 1e-10) << d.worst;
    }
}

// Everything that a checkpoint keeps, and goes on by rounds of workers.
std::map<std::string, std::string> all_pieces(const World& world) {
    std::map<std::string, std::string> bytes;
    for (const CheckpointPiece& p : pieces_of(world))
        bytes[fmt::format("{} {} {}", p.tensor, fmt::join(p.offset, ","), p.begin)] =
            std::string(reinterpret_cast<const char*>(p.data), static_cast<std::size_t>(p.count) * bytes_per_element(p.dtype));
    return bytes;
}

void train_rounds(World& world, std::int64_t from, std::int64_t until) {
    const auto executor = serial_executor(world);
    for (std::int64_t step = from; step < until; step += world.plan.steps) {
        load_batch(world, {"", world.scenario.model.vocab_size, world.scenario.training.seed}, step);
        executor->step(nullptr);
    }
}

TEST(Resume, WorkersGoOnToTheBit) {
    const std::vector<std::string> local{"strategy.data_parallel=2", "strategy.synchronization.kind=local_sgd",
                                         "strategy.synchronization.inner_steps=3"};
    const auto with = [&](const std::vector<std::string>& more) {
        std::vector<std::string> all = local;
        all.insert(all.end(), more.begin(), more.end());
        return all;
    };
    const std::string diloco = "strategy.synchronization.kind=diloco";
    const auto grouped = [&](const std::string& framework, int zero) { // workers of two replicas
        return std::vector<std::string>{"strategy.data_parallel=4",
                                        diloco,
                                        local[2],
                                        "strategy.synchronization.workers=2",
                                        "strategy.framework=" + framework,
                                        fmt::format("strategy.zero_stage={}", zero)};
    };
    for (const auto& fields :
         {local, with({diloco}), with({diloco, "strategy.tensor_parallel=2", "strategy.bucket_bytes=2000"}),
          with({diloco, "strategy.pipeline_parallel=2", "training.optimizer=momentum", "training.precision=bf16",
                "training.master_weights=false"}),
          with({diloco, "strategy.synchronization.outer_optimizer=sgd", "strategy.synchronization.payload_dtype=int8"}),
          with({diloco, "strategy.synchronization.outer_device=cpu"}),
          with({diloco, "training.precision=bf16", "strategy.framework=megatron", "strategy.zero_stage=0", "strategy.bucket_bytes=2000",
                "strategy.synchronization.outer_device=cpu"}),
          with({"strategy.synchronization.kind=streaming_diloco", "strategy.synchronization.fragments=2"}),
          with({"strategy.synchronization.kind=streaming_diloco", "strategy.synchronization.fragments=1",
                "strategy.synchronization.overlap_steps=1", "strategy.synchronization.outer_device=cpu"}),
          with({"strategy.synchronization.kind=streaming_diloco", "strategy.synchronization.fragments=1",
                "strategy.synchronization.overlap_steps=1", "strategy.synchronization.mixing=0.5"}),
          grouped("ddp", 0), grouped("megatron", 1), grouped("deepspeed", 2), grouped("fsdp2", 3)}) {
        SCOPED_TRACE(fields.back());
        const Scenario scenario = tiny(fields);
        const auto folder = fresh_folder("workers");
        const auto whole = make_world(scenario, DType::fp32), resumed = make_world(scenario, DType::fp32);
        initialise(*whole);
        train_rounds(*whole, 0, 6);
        save_checkpoint(folder, {6, scenario.training.seed, {}}, pieces_of(*whole));
        restore(*resumed, CheckpointFiles(checkpoints_in(folder).at(0)));
        EXPECT_EQ(all_pieces(*resumed), all_pieces(*whole));
        train_rounds(*whole, 6, 12);
        train_rounds(*resumed, 6, 12);
        EXPECT_EQ(all_pieces(*resumed), all_pieces(*whole));
    }
}

// What error feedback kept back goes on too, inside workers as well.
TEST(Resume, CompressedGradientsGoOnToTheBit) {
    const std::string powersgd = R"("kind": "powersgd", "rank": 2)", top_k = R"("kind": "top-k", "density": 0.1)";
    for (const auto& [kind, zero] : {std::pair{powersgd, 0},
                                     {top_k, 0},
                                     {powersgd, 1},
                                     {top_k, 1},
                                     {std::string(R"("kind": "onebit-adam", "start_step": 2)"), 0},
                                     {std::string(R"("kind": "zero-one-adam", "local_steps": 3, "start_step": 2)"), 0}}) {
        SCOPED_TRACE(kind);
        const Scenario scenario = tiny({"strategy.data_parallel=2", "strategy.framework=ddp", fmt::format("strategy.zero_stage={}", zero),
                                        "strategy.gradient_compression={" + kind + "}"});
        const auto folder = fresh_folder("compressed");
        const auto whole = make_world(scenario, DType::fp32), resumed = make_world(scenario, DType::fp32);
        initialise(*whole);
        train_rounds(*whole, 0, 6);
        save_checkpoint(folder, {6, scenario.training.seed, {}}, pieces_of(*whole));
        initialise(*resumed);
        restore(*resumed, CheckpointFiles(checkpoints_in(folder).at(0)));
        EXPECT_EQ(all_pieces(*resumed), all_pieces(*whole));
        train_rounds(*whole, 6, 12);
        train_rounds(*resumed, 6, 12);
        EXPECT_EQ(all_pieces(*resumed), all_pieces(*whole));
    }
}

// Each worker takes the states that all shared; back again nobody knows whose to take.
TEST(Resume, ASynchronousRunGoesOnAsWorkersAndNotBack) {
    const std::vector<std::string> workers{"strategy.data_parallel=2", "strategy.synchronization.kind=diloco",
                                           "strategy.synchronization.inner_steps=3"};
    const Scenario together = tiny({"strategy.data_parallel=2"}), apart = tiny(workers);
    const auto folder = fresh_folder("apart");
    const Trained half = train(together, {.steps = 3, .real = DType::fp32});
    save_checkpoint(folder, {3, 0, {}}, pieces_of(*half.world));
    const auto world = make_world(apart, DType::fp32);
    restore(*world, CheckpointFiles(checkpoints_in(folder).at(0)));
    EXPECT_EQ(gather(*world, Quantity::parameters).tensors, half.parameters);
    EXPECT_EQ(gather(*world, Quantity::states).tensors, half.states);
    Tensors common;
    for (const auto& [name, t] : gather(*world, Quantity::outer).tensors)
        if (name.starts_with("common/")) common[name.substr(7)] = t;
    EXPECT_EQ(common, half.parameters);
    train_rounds(*world, 3, 9);
    save_checkpoint(folder, {9, 0, {}}, pieces_of(*world));
    for (const auto& [fields, words] :
         {std::pair(std::vector<std::string>{"strategy.data_parallel=2"}, "each with states of its own"),
          std::pair(std::vector<std::string>{"strategy.data_parallel=4", workers[1], workers[2]}, "of fewer workers")}) {
        const auto other = make_world(tiny(fields), DType::fp32);
        try {
            restore(*other, CheckpointFiles(checkpoints_in(folder).at(0)));
            ADD_FAILURE() << "it went on";
        } catch (const WrongModel& e) { EXPECT_NE(std::string(e.what()).find(words), std::string::npos) << e.what(); }
    }
}

// As many workers go on as there were: of more, some would be dropped without a word.
TEST(Resume, FewerWorkersDoNotGoOn) {
    const std::vector<std::string> four{"strategy.data_parallel=4", "strategy.synchronization.kind=local_sgd",
                                        "strategy.synchronization.inner_steps=3"};
    std::vector<std::string> two = four;
    two.push_back("strategy.synchronization.workers=2");
    const auto folder = fresh_folder("four");
    const auto whole = make_world(tiny(four), DType::fp32), fewer = make_world(tiny(two), DType::fp32);
    initialise(*whole);
    train_rounds(*whole, 0, 3);
    save_checkpoint(folder, {3, 0, {}}, pieces_of(*whole));
    try {
        restore(*fewer, CheckpointFiles(checkpoints_in(folder).at(0)));
        ADD_FAILURE() << "it went on";
    } catch (const WrongModel& e) { EXPECT_NE(std::string(e.what()).find("of more than 2 workers"), std::string::npos) << e.what(); }
}

// Adapters alone: the rest is where the run began, and it goes on to the bit.
TEST(Resume, AdaptersAreKeptAloneAndGoOn) {
    const Scenario scenario = tiny({"model.trainable.lora.rank=2", "strategy.data_parallel=2"});
    const auto folder = fresh_folder("adapters");
    const auto whole = make_world(scenario, DType::fp32), resumed = make_world(scenario, DType::fp32);
    initialise(*whole);
    initialise(*resumed);
    train_rounds(*whole, 0, 3);
    const std::vector<CheckpointPiece> alone = pieces_of(*whole, true), all = pieces_of(*whole);
    ASSERT_FALSE(alone.empty());
    EXPECT_LT(alone.size(), all.size());
    for (const CheckpointPiece& p : alone) EXPECT_NE(p.tensor.find(".lora_"), std::string::npos) << p.tensor;
    save_checkpoint(folder, {3, scenario.training.seed, {{trained_alone_fact, "0"}}}, alone);
    restore(*resumed, CheckpointFiles(checkpoints_in(folder).at(0)));
    EXPECT_EQ(all_pieces(*resumed), all_pieces(*whole));
    train_rounds(*whole, 3, 6);
    train_rounds(*resumed, 3, 6);
    EXPECT_EQ(all_pieces(*resumed), all_pieces(*whole));
    const auto untold = fresh_folder("untold"); // it does not say that it is a part
    save_checkpoint(untold, {3, scenario.training.seed, {}}, alone);
    EXPECT_THROW(restore(*resumed, CheckpointFiles(checkpoints_in(untold).at(0))), WrongModel);
}

// How often pieces have each element of each tensor, and their bytes.
struct Written {
    std::map<std::string, std::vector<int>> times;
    std::int64_t bytes = 0;
    void add(const std::vector<CheckpointPiece>& pieces) {
        for (const CheckpointPiece& p : pieces) {
            std::int64_t all = 1;
            for (const std::int64_t n : p.shape) all *= n;
            std::vector<int>& of = times[p.tensor];
            of.resize(static_cast<std::size_t>(all));
            for (std::int64_t i = p.begin; i < p.begin + p.count; ++i)
                ++of[static_cast<std::size_t>(whole_index({p.extent, p.shape, p.offset}, i))];
            bytes += p.count * static_cast<std::int64_t>(bytes_per_element(p.dtype));
        }
    }
};

// Each process knows alone what it has to write: together they write every element, and no more than one process that has all ranks.
TEST(Resume, SeveralProcessesWriteEachElementOnce) {
    const std::vector<std::string> mixture{"model.moe.experts=4", "model.moe.top_k=2", "model.moe.expert_ffn_size=12",
                                           "strategy.framework=megatron"};
    const std::vector<std::string> two_directions{"model.layers=4", "strategy.pipeline_parallel=2", "strategy.virtual_pipeline=2",
                                                  "strategy.schedule=dualpipe-v", "strategy.data_parallel=2"};
    for (const Fields& fields :
         {Fields{"strategy.data_parallel=4"}, Fields{"strategy.data_parallel=2", "strategy.context_parallel=2"},
          Fields{"strategy.tensor_parallel=2", "strategy.data_parallel=2", "strategy.sequence_parallel=true"},
          Fields{"strategy.data_parallel=4", "strategy.zero_stage=1", "strategy.framework=megatron"},
          Fields{"strategy.data_parallel=4", "strategy.framework=fsdp2", "strategy.shard_group_size=2"},
          Fields{"strategy.data_parallel=4", "strategy.zero_stage=3", "strategy.framework=deepspeed"},
          Fields{"strategy.pipeline_parallel=2", "strategy.schedule=1f1b", "strategy.data_parallel=2", "strategy.zero_stage=1",
                 "strategy.framework=megatron", "model.tied_embeddings=true"},
          Fields{"model.layers=4", "strategy.pipeline_parallel=2", "strategy.schedule=dualpipe", "strategy.data_parallel=2"},
          two_directions, with(mixture, {"strategy.data_parallel=4", "strategy.expert_parallel=2", "strategy.zero_stage=1"}),
          with(mixture, {"strategy.data_parallel=4", "strategy.expert_parallel=2", "strategy.tensor_parallel=2",
                         "strategy.sequence_parallel=true", "strategy.expert_tensor_parallel=1"}),
          Fields{"strategy.data_parallel=4", "strategy.synchronization.kind=diloco", "strategy.synchronization.inner_steps=3",
                 "strategy.synchronization.workers=2", "strategy.framework=megatron", "strategy.zero_stage=1"},
          Fields{"strategy.data_parallel=2", "strategy.synchronization.kind=streaming_diloco", "strategy.synchronization.fragments=2",
                 "strategy.synchronization.inner_steps=3"},
          Fields{"strategy.data_parallel=2", "strategy.offload.optimizer=cpu", "strategy.offload.delayed_update=true",
                 "strategy.framework=deepspeed", "strategy.zero_stage=2"},
          Fields{"strategy.data_parallel=4", "model.trainable.lora.rank=2"}}) {
        SCOPED_TRACE(testing::PrintToString(fields));
        const Scenario scenario = tiny(fields);
        const Plan plan = executed_plan(scenario);
        Written one, many;
        one.add(pieces_of(*make_world(scenario, plan, DType::fp32)));
        for (int r = 0; r < scenario.world_size(); ++r) many.add(pieces_of(*make_world(scenario, plan, DType::fp32, {r})));
        ASSERT_EQ(one.times.size(), many.times.size());
        for (const auto& [tensor, times] : many.times) {
            EXPECT_TRUE(one.times.contains(tensor)) << tensor;
            EXPECT_GE(*std::ranges::min_element(times), 1) << tensor;
        }
        EXPECT_LE(static_cast<double>(many.bytes), 1.15 * static_cast<double>(one.bytes))
            << "parameters across two parts of ZeRO 1 go twice";
    }
    // Replicas hold all the same: together they write one of them.
    const Scenario replicas = tiny({"strategy.data_parallel=4"});
    Written many;
    for (int r = 0; r < 4; ++r) many.add(pieces_of(*make_world(replicas, DType::fp32, {r})));
    for (const auto& [tensor, times] : many.times) EXPECT_EQ(*std::ranges::max_element(times), 1) << tensor;
}

TEST(Resume, SaysWhatIsOfAnotherModel) {
    const Scenario scenario = tiny();
    const auto folder = fresh_folder("another");
    save_checkpoint(folder, {1, 0, {}}, pieces_of(*train(scenario, {.steps = 1}).world));
    const auto other = make_world(tiny({"model.layers=3"}), DType::fp64);
    try {
        restore(*other, CheckpointFiles(checkpoints_in(folder).at(0)));
        ADD_FAILURE() << "it went on";
    } catch (const std::runtime_error& e) { EXPECT_NE(std::string(e.what()).find("parameters/l2."), std::string::npos) << e.what(); }
}

} // namespace
} // namespace orrery::agree
