// Local SGD and DiLoCo against a reference written by hand: a world of one rank for each worker, trained on the worker's sequences alone,
// whose parameters are averaged here after every inner_steps steps, or stepped on from what all had in common.
#include "tests/agree/agree.hpp"

#include "exec/kernels/kernel.hpp"
#include "exec/runtime/tensors.hpp"
#include "sim/memory/memory.hpp"
#include "sim/plan/lower.hpp"
#include "sim/plan/verify.hpp"

#include <gtest/gtest.h>

#include <algorithm>

namespace orrery::agree {
namespace {

constexpr int workers = 2, inner_steps = 3, rounds = 2;

Scenario local(std::vector<std::string> further = {}) {
    std::vector<std::string> fields{"strategy.synchronization.kind=local_sgd", "strategy.synchronization.inner_steps=3"};
    const bool grouped = std::ranges::any_of(further, [](const std::string& f) { return f.starts_with("strategy.data_parallel="); });
    if (!grouped) fields.push_back("strategy.data_parallel=2");
    fields.insert(fields.end(), further.begin(), further.end());
    return tiny(fields);
}

// Sequences of a step that worker w trains on, in its order: microbatches of all workers, and of the replicas of each, are dealt round.
// The worker's world has one rank, or all of its replicas.
void load_part(World& world, const Corpus& corpus, const Scenario& all, std::int64_t step, int w) {
    const std::int64_t micro = all.training.micro_batch_size, length = all.training.sequence_length, batch = all.training.global_batch_size;
    const std::int64_t of_worker = all.strategy.replicas_of_worker();
    load_batch(world, corpus, step); // the step's number; its tokens are overwritten
    for (const auto& rank : world.ranks)
        for (std::size_t b = 0; b < world.plan.buffers.size(); ++b) {
            const Buffer& x = world.plan.buffers[b];
            if (x.role != Role::batch) continue;
            auto* data = reinterpret_cast<std::int64_t*>(rank->memory.block(static_cast<BufferId>(b), -1));
            std::vector<std::int64_t> sequence(static_cast<std::size_t>(length + 1));
            for (std::int32_t m = 0; m < world.plan.microbatches; ++m)
                for (std::int64_t s = 0; s < micro; ++s) {
                    const std::int64_t number = first_sequence(world, rank->context.at, m) / micro; // among the worker's microbatches
                    const std::int64_t replica = w * of_worker + number % of_worker, turn = number / of_worker;
                    read_sequence(corpus, step * batch + (turn * workers * of_worker + replica) * micro + s, sequence);
                    std::copy_n(sequence.begin() + x.ahead, length, data + (m * micro + s) * length);
                }
        }
}

// An outer step of torch.optim.SGD: from `common` by the mean of what workers moved away from it.
void step_outside(const Synchronization& how, Tensors& common, Tensors& momentum, const Tensors& mean) {
    for (auto& [name, x] : common)
        for (std::size_t i = 0; i < x.values.size(); ++i) {
            double g = x.values[i] - mean.at(name).values[i];
            if (how.outer_optimizer == OuterOptimizer::nesterov) {
                double& m = momentum.at(name).values[i];
                m = how.outer_momentum * m + g;
                g += how.outer_momentum * m;
            }
            x.values[i] -= how.outer_learning_rate * g;
        }
}

// A scenario of one worker, on one rank.
Scenario part_of(const Scenario& scenario) {
    Scenario part = on_one_rank(scenario);
    part.training.global_batch_size /= workers;
    return part;
}

// A world for each worker.
struct Workers {
    explicit Workers(const Scenario& scenario) : Workers(scenario, part_of(scenario)) {}
    Workers(const Scenario& scenario, const Scenario& part) : all(scenario) {
        for (int w = 0; w < workers; ++w) {
            worlds.push_back(make_world(part, DType::fp64));
            initialise(*worlds.back());
            executors.push_back(make_executor("serial", *worlds.back()));
        }
    }
    // Each trains on its part of the step's sequences.
    void step(std::int64_t number) {
        for (std::size_t w = 0; w < worlds.size(); ++w) {
            load_part(*worlds[w], corpus, all, number, static_cast<int>(w));
            executors[w]->step(nullptr);
        }
    }

    const Scenario& all;
    Corpus corpus{"", all.model.vocab_size, all.training.seed};
    std::vector<std::unique_ptr<World>> worlds;
    std::vector<std::unique_ptr<Executor>> executors;
};

// A worker goes on from these, which are the fp32 copies' numbers too where its optimizer steps on such.
void go_on_from(World& world, const Tensors& parameters) {
    Tensors masters;
    for (const auto& [name, tensor] : parameters) masters[std::string(master_prefix) + name] = tensor;
    scatter(world, Quantity::parameters, parameters);
    scatter(world, Quantity::states, masters);
}

// Parameters after the rounds, by tensor. part: a worker.
Tensors by_hand(const Scenario& scenario, const Scenario& part) {
    Workers own(scenario, part);
    const Synchronization& how = scenario.strategy.synchronization;
    Tensors mean, common = gather(*own.worlds[0], Quantity::parameters).tensors, momentum = common;
    for (auto& [name, tensor] : momentum) std::fill(tensor.values.begin(), tensor.values.end(), 0.0);
    for (int step = 0; step < rounds * inner_steps; ++step) {
        own.step(step);
        if ((step + 1) % inner_steps != 0) continue;
        mean = gather(*own.worlds[0], Quantity::parameters).tensors;
        const Tensors other = gather(*own.worlds[1], Quantity::parameters).tensors;
        for (auto& [name, tensor] : mean)
            for (std::size_t i = 0; i < tensor.values.size(); ++i)
                tensor.values[i] = (tensor.values[i] + other.at(name).values[i]) / workers;
        if (how.kind == Synchronization::Kind::diloco) {
            step_outside(how, common, momentum, mean);
            mean = common;
        }
        for (auto& world : own.worlds) go_on_from(*world, mean);
    }
    return mean;
}

Tensors by_hand(const Scenario& scenario) { return by_hand(scenario, part_of(scenario)); }

Tensors by_plan(const Scenario& scenario, const std::string& executor, double& disagreement) {
    const auto world = make_world(scenario, DType::fp64);
    initialise(*world);
    Gathered g = parameters_after(*world, executor, rounds * inner_steps);
    disagreement = g.disagreement;
    return std::move(g.tensors);
}

class LocalSgd : public testing::TestWithParam<std::vector<std::string>> {};

TEST_P(LocalSgd, IsWhatWorkersByHandTrain) {
    const Scenario scenario = local(GetParam());
    const Tensors expected = by_hand(scenario);
    for (const char* executor : {"serial", "threads", "queues"}) {
        double disagreement = 1;
        const Difference d = difference(expected, by_plan(scenario, executor, disagreement));
        EXPECT_LE(d.relative, 1e-10) << executor << " " << d.worst;
        EXPECT_EQ(disagreement, 0) << executor << ": replicas meet at the end of a round";
    }
}

INSTANTIATE_TEST_SUITE_P(Inside, LocalSgd,
                         testing::Values(std::vector<std::string>{}, std::vector<std::string>{"strategy.tensor_parallel=2"},
                                         std::vector<std::string>{"strategy.pipeline_parallel=2"},
                                         std::vector<std::string>{"training.optimizer=momentum", "training.gradient_clipping=0.5"},
                                         std::vector<std::string>{"strategy.context_parallel=2"}));

const std::vector<std::string> diloco{"strategy.synchronization.kind=diloco"};
const std::string on_host = "strategy.synchronization.outer_device=cpu";

INSTANTIATE_TEST_SUITE_P(Outside, LocalSgd,
                         testing::Values(diloco, std::vector<std::string>{diloco[0], "strategy.tensor_parallel=2"},
                                         std::vector<std::string>{diloco[0], "strategy.pipeline_parallel=2", "strategy.bucket_bytes=2000"},
                                         std::vector<std::string>{diloco[0], "strategy.synchronization.outer_optimizer=sgd"},
                                         std::vector<std::string>{diloco[0], on_host, "strategy.bucket_bytes=2000"},
                                         std::vector<std::string>{diloco[0], on_host, "strategy.synchronization.payload_dtype=fp32",
                                                                  "strategy.tensor_parallel=2"},
                                         std::vector<std::string>{diloco[0], "strategy.synchronization.outer_learning_rate=0.3",
                                                                  "strategy.synchronization.outer_momentum=0.6"}));

// Workers of two replicas that share every step, whole or sharded among the two.
std::vector<std::string> of_two(std::vector<std::string> further) {
    std::vector<std::string> fields{"strategy.data_parallel=4", "strategy.synchronization.workers=2"};
    fields.insert(fields.end(), further.begin(), further.end());
    return fields;
}

const std::string deepspeed = "strategy.framework=deepspeed";

INSTANTIATE_TEST_SUITE_P(
    OfReplicas, LocalSgd,
    testing::Values(of_two({}), of_two({"strategy.zero_stage=1"}), of_two({deepspeed, "strategy.zero_stage=2"}),
                    of_two({deepspeed, "strategy.zero_stage=3"}), of_two({diloco[0]}), of_two({diloco[0], "strategy.zero_stage=1"}),
                    of_two({diloco[0], "strategy.framework=megatron", "strategy.zero_stage=1", "strategy.overlap.param_gather=true",
                            "strategy.pipeline_parallel=2"}),
                    of_two({diloco[0], deepspeed, "strategy.zero_stage=2", "strategy.tensor_parallel=2"}),
                    of_two({diloco[0], "strategy.framework=fsdp2", "strategy.zero_stage=3", "training.gradient_clipping=0.5"}),
                    of_two({diloco[0], "strategy.framework=fsdp", "strategy.zero_stage=3", "strategy.bucket_bytes=2000"}),
                    of_two({diloco[0], on_host, "strategy.framework=fsdp2", "strategy.zero_stage=3"}),
                    std::vector<std::string>{diloco[0], "strategy.context_parallel=2", "strategy.zero_stage=1"}));

// Workers of four replicas that shard in groups of two.
std::vector<std::string> in_groups(std::vector<std::string> further) {
    std::vector<std::string> fields{"strategy.data_parallel=8", "strategy.synchronization.workers=2", "strategy.shard_group_size=2",
                                    "training.global_batch_size=16"};
    fields.insert(fields.end(), further.begin(), further.end());
    return fields;
}

const std::string fsdp = "strategy.framework=fsdp", fsdp2 = "strategy.framework=fsdp2", clipped = "training.gradient_clipping=0.5",
                  stage3 = "strategy.zero_stage=3";

INSTANTIATE_TEST_SUITE_P(InShardGroups, LocalSgd,
                         testing::Values(in_groups({fsdp2}), in_groups({"strategy.zero_stage=1", clipped}),
                                         in_groups({diloco[0], deepspeed, stage3, clipped}),
                                         in_groups({diloco[0], deepspeed, "strategy.zero_stage=2", "strategy.tensor_parallel=2"}),
                                         in_groups({diloco[0], fsdp, "strategy.bucket_bytes=2000", "training.optimizer=lamb"}),
                                         in_groups({diloco[0], fsdp2, "strategy.gradient_sync=boundary", on_host}),
                                         in_groups({diloco[0], fsdp2, "training.precision=bf16", "strategy.pipeline_parallel=2"}),
                                         in_groups({diloco[0], "strategy.framework=megatron", "strategy.zero_stage=1",
                                                    "strategy.context_parallel=2", "strategy.offload.optimizer=cpu"})));

// Gradients that the replicas of a worker send as factors of full rank, or as all of their elements, are whole gradients.
const std::string factors = R"(strategy.gradient_compression={"kind": "powersgd", "rank": 64, "min_ratio": 0})",
                  all_elements = R"(strategy.gradient_compression={"kind": "top-k", "density": 1})";

INSTANTIATE_TEST_SUITE_P(
    OfReplicasThatCompress, LocalSgd,
    testing::Values(of_two({factors, "training.optimizer=momentum"}), of_two({all_elements}),
                    of_two({diloco[0], factors, "strategy.framework=ddp", "strategy.zero_stage=1", "training.optimizer=momentum"}),
                    of_two({diloco[0], all_elements, deepspeed, "strategy.zero_stage=2", "training.gradient_clipping=0.5"}),
                    of_two({diloco[0], all_elements, "strategy.framework=ddp", "strategy.synchronization.payload_dtype=fp32",
                            "strategy.bucket_bytes=2000"}),
                    of_two({"strategy.gradient_compression=bf16", "strategy.framework=fsdp", "strategy.zero_stage=3"})));

// Inside a worker numbers travel as they would if it were on its own: in blocks of 8 and 4 bits each rounds as one alone does.
class LocalSgdRounded : public testing::TestWithParam<Fields> {};

TEST_P(LocalSgdRounded, IsWhatWorkersOnTheirOwnTrain) {
    const Fields fields = with({deepspeed, stage3, clipped}, GetParam());
    const Scenario part = tiny(with(fields, {"strategy.data_parallel=4"}));
    for (const Fields& kind : {Fields{}, Fields{diloco[0]}}) {
        const Scenario scenario = local(
            with({"strategy.data_parallel=8", "strategy.synchronization.workers=2", "training.global_batch_size=16"}, with(fields, kind)));
        EXPECT_EQ(verify(lower(scenario)).size(), 0u) << to_text(verify(lower(scenario)));
        const Tensors expected = by_hand(scenario, part);
        double disagreement = 1;
        for (const char* executor : {"serial", "queues"}) {
            const Difference d = difference(expected, by_plan(scenario, executor, disagreement));
            EXPECT_LE(d.relative, 1e-10) << executor << " " << d.worst;
            EXPECT_EQ(disagreement, 0) << executor;
        }
        if (GetParam().size() == 1 && scenario.strategy.quantized_weights == QuantizedWeights::none) continue;
        EXPECT_GT(difference(by_hand(scenario), expected).relative, 1e-6) << "nothing was rounded";
    }
}

const std::string low_weights = "strategy.quantized_weights=int8", near = "strategy.secondary_shard_size=2",
                  low_gradients = "strategy.quantized_gradients=int4";

INSTANTIATE_TEST_SUITE_P(Ways, LocalSgdRounded,
                         testing::Values(Fields{low_weights}, Fields{near}, Fields{low_weights, near},
                                         Fields{low_weights, low_gradients, near}));

// The states of a worker's own optimizer in the host's memory, whole, of its shards, and of slices that meet one after another.
const std::string states_on_host = "strategy.offload.optimizer=cpu", slices = "strategy.bucket_bytes=2000",
                  one_by_one = "strategy.overlap.offload=true", all_at_once = "strategy.overlap.offload=false";

INSTANTIATE_TEST_SUITE_P(
    StatesOnTheHost, LocalSgd,
    testing::Values(std::vector<std::string>{states_on_host, all_at_once}, std::vector<std::string>{states_on_host, one_by_one, slices},
                    std::vector<std::string>{states_on_host, "strategy.tensor_parallel=2", "training.gradient_clipping=0.5"},
                    std::vector<std::string>{diloco[0], states_on_host, on_host, one_by_one, slices, "strategy.pipeline_parallel=2"},
                    std::vector<std::string>{diloco[0], states_on_host, all_at_once, slices, "training.optimizer=momentum"},
                    of_two({states_on_host, "strategy.zero_stage=1"}),
                    of_two({diloco[0], states_on_host, on_host, "strategy.zero_stage=1"}),
                    of_two({diloco[0], states_on_host, deepspeed, "strategy.zero_stage=2", slices}),
                    of_two({diloco[0], states_on_host, "strategy.framework=megatron", "strategy.zero_stage=1", one_by_one, slices}),
                    of_two({diloco[0], states_on_host, on_host, deepspeed, "strategy.zero_stage=3", "training.gradient_clipping=0.5"})));

// Parameters in 16 bits beside fp32 copies: these meet, whole, in slices, as shards or on the host. (In double precision nothing rounds.)
const std::string sixteen = "training.precision=bf16", megatron = "strategy.framework=megatron", replicas = "strategy.zero_stage=0";

INSTANTIATE_TEST_SUITE_P(
    SixteenBits, LocalSgd,
    testing::Values(std::vector<std::string>{sixteen, megatron, replicas}, std::vector<std::string>{sixteen, megatron, replicas, slices},
                    std::vector<std::string>{diloco[0], sixteen, megatron, replicas, slices, "strategy.pipeline_parallel=2"},
                    std::vector<std::string>{diloco[0], sixteen, "strategy.framework=ddp", on_host, slices},
                    std::vector<std::string>{sixteen, megatron, replicas, slices, "training.optimizer=lamb"},
                    std::vector<std::string>{sixteen, megatron, replicas, slices, "training.optimizer=lars"},
                    std::vector<std::string>{diloco[0], sixteen, megatron, replicas, states_on_host, on_host, one_by_one, slices},
                    of_two({diloco[0], sixteen, megatron, "strategy.zero_stage=1", slices}),
                    of_two({diloco[0], sixteen, deepspeed, "strategy.zero_stage=2"}),
                    of_two({diloco[0], sixteen, "strategy.framework=fsdp2", "strategy.zero_stage=3"})));

// Workers average their fp32 copies, and the parameters are these in 16 bits.
TEST(Diloco, SixteenBitParametersFollowTheirMasters) {
    const Scenario scenario = local({diloco[0], sixteen, megatron, replicas, slices});
    const Trained t = train(scenario, {.steps = 2, .real = DType::fp32, .rounds = true});
    std::size_t finer = 0;
    for (const auto& [name, tensor] : t.parameters) {
        const auto master = t.states.find(std::string(master_prefix) + name);
        ASSERT_NE(master, t.states.end()) << name;
        for (std::size_t i = 0; i < tensor.values.size(); ++i) {
            EXPECT_EQ(tensor.values[i], from_bf16(to_bf16(static_cast<float>(master->second.values[i])))) << name;
            finer += tensor.values[i] != master->second.values[i];
        }
    }
    EXPECT_GT(finer, 100u);
}

// A host that goes on from what its worker had would train as if nobody had met.
TEST(LocalSgdPlan, NeedsTheHostsParametersToFollow) {
    Plan plan = lower(local({states_on_host}));
    EXPECT_EQ(verify(plan).size(), 0u) << to_text(verify(plan));
    for (Block& b : plan.blocks)
        if (b.name.starts_with("average")) std::erase_if(b.ops, [](const Op& op) { return std::holds_alternative<Copy>(op.work); });
    for (PlanPhase& phase : plan.further)
        for (Program& p : phase.programs)
            for (Action& a : p.actions) a.last = static_cast<std::int32_t>(plan.blocks[a.block].ops.size());
    const auto found = verify(plan);
    EXPECT_TRUE(std::any_of(found.begin(), found.end(), [](const Violation& v) { return std::string(v.rule) == "worker-averaged"; }));
}

// Byte for byte, also while workers meet.
TEST(Diloco, MemoryIsThatOfStatesOnTheHostToo) {
    const Scenario s = local({diloco[0], states_on_host, "training.optimizer=sgd"});
    const Trained t = train(s, {.steps = 1, .real = DType::fp32});
    const MemoryReport predicted = memory(lower(s), s);
    for (const auto& rank : t.world->ranks)
        EXPECT_EQ(rank->memory.device().highest, predicted.stages[rank->stage].allocated_peak.count) << "rank " << rank->rank;
}

// Experts that the replicas of a worker divide train like those that each has whole.
TEST(Diloco, ExpertsLieInsideAWorker) {
    std::vector<std::string> whole{diloco[0],
                                   "model.moe.experts=4",
                                   "model.moe.top_k=2",
                                   "model.moe.expert_ffn_size=12",
                                   "model.activation=swiglu",
                                   "model.norm=rmsnorm",
                                   "model.bias=false",
                                   "model.position=rope",
                                   "model.moe.imbalance=[1,1e-6,0,0]"};
    std::vector<std::string> divided = whole;
    divided.push_back("strategy.expert_parallel=2");
    const auto after = [](const std::vector<std::string>& fields, int steps) {
        const auto world = make_world(local(of_two(fields)), DType::fp64);
        world->facts.forced_routing = false;
        initialise(*world);
        return parameters_after(*world, "serial", steps);
    };
    const Gathered a = after(whole, rounds * inner_steps), b = after(divided, rounds * inner_steps);
    const Difference d = difference(a.tensors, b.tensors);
    EXPECT_LE(d.relative, 1e-10) << d.worst;
    EXPECT_EQ(b.disagreement, 0);
    EXPECT_GT(difference(a.tensors, after(divided, inner_steps).tensors).relative, 1e-6) << "more steps train on";
}

// The fragment of a tensor of the tiny model, whose two layers are a fragment each: what stands before and behind them goes with them.
int fragment(const std::string& name) {
    return name.starts_with("l1.") || name.starts_with("final_norm") || name.starts_with("head") ? 1 : 0;
}

// Worker 0's parameters after two rounds of four steps: fragments are merged after two and four, and sent a step before.
Tensors streamed_by_hand(const Scenario& scenario) {
    Workers own(scenario);
    const Synchronization& how = scenario.strategy.synchronization;
    Tensors common = gather(*own.worlds[0], Quantity::parameters).tensors, momentum = common, mean = common;
    for (auto& [name, tensor] : momentum) std::fill(tensor.values.begin(), tensor.values.end(), 0.0);
    for (int step = 0; step < 8; ++step) {
        own.step(step);
        const std::int64_t done = step % 4 + 1;
        for (int f = 0; f < 2; ++f) {
            const std::int64_t merged = 2 * (f + 1);
            if (done == merged - how.overlap_steps) {
                const Tensors one = gather(*own.worlds[0], Quantity::parameters).tensors,
                              other = gather(*own.worlds[1], Quantity::parameters).tensors;
                for (auto& [name, tensor] : mean)
                    for (std::size_t i = 0; fragment(name) == f && i < tensor.values.size(); ++i)
                        tensor.values[i] = (one.at(name).values[i] + other.at(name).values[i]) / workers;
            }
            if (done != merged) continue;
            Tensors part_common, part_momentum, part_mean;
            for (const auto& [name, tensor] : common)
                if (fragment(name) == f)
                    part_common[name] = tensor, part_momentum[name] = momentum.at(name), part_mean[name] = mean.at(name);
            step_outside(how, part_common, part_momentum, part_mean);
            for (const auto& [name, tensor] : part_common) common[name] = tensor, momentum[name] = part_momentum.at(name);
            for (auto& world : own.worlds) {
                Tensors moved = gather(*world, Quantity::parameters).tensors;
                for (const auto& [name, tensor] : part_common)
                    for (std::size_t i = 0; i < tensor.values.size(); ++i) {
                        double& x = moved.at(name).values[i];
                        x += (how.overlap_steps > 0 ? how.mixing : 1) * (tensor.values[i] - x);
                    }
                go_on_from(*world, moved);
            }
        }
    }
    return gather(*own.worlds[0], Quantity::parameters).tensors;
}

Scenario streaming(const std::vector<std::string>& further) {
    std::vector<std::string> fields{"strategy.synchronization.kind=streaming_diloco", "strategy.synchronization.inner_steps=4",
                                    "strategy.synchronization.fragments=2"};
    fields.insert(fields.end(), further.begin(), further.end());
    return local(fields);
}

class Streaming : public testing::TestWithParam<std::vector<std::string>> {};

TEST_P(Streaming, IsWhatWorkersByHandTrain) {
    const Scenario scenario = streaming(GetParam());
    const Plan plan = lower(scenario);
    EXPECT_EQ(verify(plan).size(), 0u) << to_text(verify(plan));
    const Tensors expected = streamed_by_hand(scenario);
    for (const char* executor : {"serial", "threads", "queues"}) {
        const auto world = make_world(scenario, DType::fp64);
        EXPECT_EQ(world->plan.steps, 4);
        initialise(*world);
        const auto runs = make_executor(executor, *world);
        const Corpus corpus{"", scenario.model.vocab_size, scenario.training.seed};
        for (std::int64_t step = 0; step < 8; step += 4) {
            load_batch(*world, corpus, step);
            runs->step(nullptr);
        }
        runs->fetch();
        const Difference d = difference(expected, gather(*world, Quantity::parameters).tensors); // of rank 0, which is of worker 0
        EXPECT_LE(d.relative, 1e-10) << executor << " " << d.worst;
    }
}

INSTANTIATE_TEST_SUITE_P(
    Ways, Streaming,
    testing::Values(std::vector<std::string>{}, std::vector<std::string>{"strategy.synchronization.overlap_steps=1"},
                    std::vector<std::string>{"strategy.synchronization.overlap_steps=1", "strategy.synchronization.mixing=0.9",
                                             "strategy.synchronization.fragment_order=sequential", "training.gradient_clipping=0.3"},
                    std::vector<std::string>{"strategy.synchronization.overlap_steps=1", "strategy.tensor_parallel=2"},
                    std::vector<std::string>{on_host}, std::vector<std::string>{"strategy.synchronization.overlap_steps=1", on_host},
                    of_two({}), of_two({"strategy.synchronization.overlap_steps=1", "strategy.zero_stage=1"}),
                    of_two({"strategy.synchronization.overlap_steps=1", deepspeed, "strategy.zero_stage=2"}),
                    of_two({deepspeed, "strategy.zero_stage=1", "strategy.bucket_bytes=100000"}),
                    of_two({"strategy.synchronization.overlap_steps=1", "strategy.framework=fsdp2", "strategy.zero_stage=3"}),
                    std::vector<std::string>{sixteen, megatron, replicas},
                    std::vector<std::string>{sixteen, megatron, replicas, on_host, "strategy.synchronization.overlap_steps=1"},
                    of_two({"strategy.synchronization.overlap_steps=1", sixteen, megatron, "strategy.zero_stage=1"}),
                    in_groups({fsdp2, "strategy.synchronization.overlap_steps=1"}), in_groups({deepspeed, "strategy.zero_stage=1"})));

// A single fragment, merged at once, is DiLoCo.
TEST(StreamingDiloco, OfOneFragmentIsDiloco) {
    double disagreement = 0;
    const Tensors one = by_plan(local({"strategy.synchronization.kind=streaming_diloco"}), "serial", disagreement);
    EXPECT_EQ(disagreement, 0);
    EXPECT_LE(difference(by_plan(local(diloco), "serial", disagreement), one).relative, 1e-12);
}

// With one inner step, an outer step as long as the way moved, and plain SGD outside, DiLoCo is the mean of the workers: each steps by
// its own gradient, and with plain SGD inside too that is data parallelism.
TEST(Diloco, OfOneStepIsDataParallelism) {
    for (const Fields& inside : {Fields{}, of_two({deepspeed, stage3}), in_groups({fsdp2}), in_groups({"strategy.zero_stage=1"})}) {
        const Fields plain = with(inside, {"training.optimizer=sgd", "strategy.synchronization.inner_steps=1"});
        const Scenario outside = local(
            with(plain, {diloco[0], "strategy.synchronization.outer_optimizer=sgd", "strategy.synchronization.outer_learning_rate=1"}));
        Scenario synchronous = outside;
        synchronous.strategy.synchronization = {};
        double disagreement = 0;
        const Tensors together = by_plan(synchronous, "serial", disagreement);
        const Difference d = difference(by_plan(outside, "serial", disagreement), together);
        EXPECT_LE(d.relative, 1e-12) << d.worst;
        const Difference mean = difference(by_plan(outside, "serial", disagreement), by_plan(local(plain), "serial", disagreement));
        EXPECT_LE(mean.relative, 1e-12) << mean.worst << ": the mean of workers";
    }
}

// Byte for byte, where a worker's replicas share in two ways.
TEST(Diloco, MemoryIsThatOfShardsInGroupsToo) {
    for (const Fields& inside : {in_groups({fsdp2}), in_groups({deepspeed, stage3}), in_groups({"strategy.zero_stage=1"}),
                                 Fields{"strategy.data_parallel=8", "strategy.synchronization.workers=2", deepspeed, stage3,
                                        "strategy.quantized_weights=int8", "strategy.secondary_shard_size=2"}}) {
        const Scenario s = local(with(inside, diloco));
        expect_peaks_as_predicted(s, train(s, {.steps = 1, .real = DType::fp32}));
    }
}

// What workers moved is a gradient's size more while they meet, which a step of few activations does not need.
TEST(Diloco, MemoryIsThatOfItsMeetingToo) {
    for (const char* home : {"device", "cpu"}) {
        const Scenario s = local({diloco[0], "training.optimizer=sgd", std::string("strategy.synchronization.outer_device=") + home});
        const Trained t = train(s, {.steps = 1, .real = DType::fp32});
        const MemoryReport predicted = memory(lower(s), s);
        for (const auto& rank : t.world->ranks)
            EXPECT_EQ(rank->memory.device().highest, predicted.stages[rank->stage].allocated_peak.count) << "rank " << rank->rank;
    }
}

// A fragment on its way takes its room from when it is sent to when it is merged.
TEST(StreamingDiloco, MemoryIsThatOfAFragmentToo) {
    for (const char* overlap : {"0", "1"})
        for (const char* payload : {"fp32", "bf16"}) {
            const Scenario s = streaming({std::string("strategy.synchronization.overlap_steps=") + overlap,
                                          std::string("strategy.synchronization.payload_dtype=") + payload});
            const Trained t = train(s, {.steps = 1, .real = DType::fp32});
            const MemoryReport predicted = memory(lower(s), s);
            for (const auto& rank : t.world->ranks)
                EXPECT_EQ(rank->memory.device().highest, predicted.stages[rank->stage].allocated_peak.count) << overlap << " " << payload;
        }
}

// What is sent in 16 bits is emulated here as it is; in 8 and 4 bits it is rounded in blocks, and replicas still agree.
TEST(Diloco, SmallPayloadsRoundAndReplicasAgree) {
    double disagreement = 1;
    const Tensors exact = by_plan(local(diloco), "serial", disagreement);
    double before = 0;
    for (const char* type : {"int8", "int4"}) {
        const Scenario s = local({diloco[0], std::string("strategy.synchronization.payload_dtype=") + type});
        EXPECT_EQ(verify(lower(s)).size(), 0u) << to_text(verify(lower(s)));
        const Difference d = difference(exact, by_plan(s, "threads", disagreement));
        EXPECT_EQ(disagreement, 0) << type;
        EXPECT_GT(d.relative, before) << type << " rounds more";
        EXPECT_LT(d.relative, type == std::string("int8") ? 0.05 : 0.4) << type;
        before = d.relative;
    }
    const Scenario s = local({diloco[0], "strategy.synchronization.payload_dtype=fp4"});
    const Difference d = difference(exact, by_plan(s, "threads", disagreement));
    EXPECT_EQ(disagreement, 0);
    EXPECT_GT(d.relative, 0);
    EXPECT_LT(d.relative, 0.8); // a third off at most, twice
}

// More than rounding apart from synchronous training, or the test above would hold of a plan that reduces gradients.
TEST(LocalSgdDiffers, FromDataParallelism) {
    const Scenario scenario = local();
    Scenario synchronous = scenario;
    synchronous.strategy.synchronization = {};
    double disagreement = 0;
    const Tensors together = by_plan(synchronous, "serial", disagreement);
    EXPECT_GT(difference(by_plan(scenario, "serial", disagreement), together).relative, 1e-6);
}

TEST(LocalSgdPlan, IsVerifiedAndEveryBrokenRoundIsFound) {
    const Plan plan = lower(local());
    EXPECT_EQ(verify(plan).size(), 0u) << to_text(verify(plan));
    EXPECT_EQ(plan.repeat, inner_steps);
    ASSERT_EQ(plan.further.size(), 1u);
    const auto finds = [](const Plan& broken) {
        const auto found = verify(broken);
        return std::any_of(found.begin(), found.end(), [](const Violation& v) { return std::string(v.rule) == "worker-averaged"; });
    };
    Plan never = plan;
    never.further[0].programs[0].actions.clear();
    EXPECT_TRUE(finds(never)) << "nobody averages";
    Plan stale = lower(local(of_two({diloco[0], "strategy.zero_stage=1"})));
    EXPECT_EQ(verify(stale).size(), 0u) << to_text(verify(stale));
    ASSERT_GT(stale.further[0].programs[0].actions.size(), 1u);
    stale.further[0].programs[0].actions.pop_back();
    EXPECT_TRUE(finds(stale)) << "whole parameters are not gathered again";
    Plan twice = plan;
    twice.further[0].repeat = 2;
    EXPECT_TRUE(finds(twice)) << "averaged twice";
    const auto broken_outside = [&](PointwiseKind kind) {
        Plan p = lower(local(diloco));
        EXPECT_EQ(verify(p).size(), 0u) << to_text(verify(p));
        for (Block& b : p.blocks)
            for (Op& op : b.ops)
                if (auto* w = std::get_if<Pointwise>(&op.work); w && w->kind == kind) w->kind = PointwiseKind::copy;
        return p;
    };
    EXPECT_TRUE(finds(broken_outside(PointwiseKind::average))) << "an outer step by a sum";
    EXPECT_TRUE(finds(broken_outside(PointwiseKind::outer_step))) << "no outer step";
    Plan no_division = plan;
    for (Block& b : no_division.blocks)
        for (Op& op : b.ops)
            if (auto* p = std::get_if<Pointwise>(&op.work); p && p->kind == PointwiseKind::average) p->kind = PointwiseKind::copy;
    EXPECT_FALSE(verify(no_division).empty()) << "a sum, not a mean";
}

} // namespace
} // namespace orrery::agree
