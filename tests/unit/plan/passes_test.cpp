// Does each pass do what its paper says? Collectives per layer, what is recomputed, what is cast, who holds tied embeddings.
#include "tests/unit/plan/plans.hpp"
#include "topology/at.hpp"

#include <algorithm>
#include <cmath>
#include <functional>
#include <map>
#include <set>

namespace orrery::test {
namespace {

const Block& block_named(const Plan& plan, const std::string& name) {
    const auto it = std::find_if(plan.blocks.begin(), plan.blocks.end(), [&](const Block& b) { return b.name == name; });
    if (it == plan.blocks.end()) throw std::runtime_error("no block " + name);
    return *it;
}

int count(const Block& block, const std::function<bool(const Op&)>& wanted) {
    return static_cast<int>(std::count_if(block.ops.begin(), block.ops.end(), wanted));
}

// Collectives of one layer over the tensor-parallel group.
int collectives(const Block& block, CollectiveKind kind, int layer) {
    return count(block, [&](const Op& op) {
        const auto* c = std::get_if<Collective>(&op.work);
        return c && c->kind == kind && op.layer == layer;
    });
}

const Op& op_named(const Block& block, const std::string& name) {
    const auto it = std::find_if(block.ops.begin(), block.ops.end(), [&](const Op& op) { return op.name == name; });
    if (it == block.ops.end()) throw std::runtime_error("no op " + name + " in " + block.name);
    return *it;
}

const Buffer* buffer_named(const Plan& plan, const std::string& name, int stage) {
    for (const Buffer& b : plan.buffers)
        if (b.name == name && b.stage == stage) return &b;
    return nullptr;
}

std::int64_t elements_of(const Plan& plan, BufferId b) {
    std::int64_t n = 1;
    for (std::int64_t d : plan.buffers[at(b)].shape) n *= d;
    return n;
}

double total_flops(const Block& block) {
    double sum = 0;
    for (const Op& op : block.ops) sum += flops(op.work).count;
    return sum;
}

// Shoeybi et al.: two all-reduces in a layer's forward pass, two in its backward pass, each of all activations (b s h values).
TEST(TensorParallel, ReducesTwiceEachWay) {
    const Plan plan = plan_of(tp2);
    for (const char* name : {"F0", "B0"})
        for (int layer : {0, 1}) {
            const Block& block = block_named(plan, name);
            EXPECT_EQ(collectives(block, CollectiveKind::all_reduce, layer), 2) << name;
            EXPECT_EQ(collectives(block, CollectiveKind::all_gather, layer), 0) << name;
            EXPECT_EQ(collectives(block, CollectiveKind::reduce_scatter, layer), 0) << name;
            for (const Op& op : block.ops)
                if (const auto* c = std::get_if<Collective>(&op.work); c && op.layer == layer) {
                    EXPECT_EQ(c->bytes.count, 32 * 64 * 2) << op.name;
                }
        }
}

// Korthikanti et al.: an all-gather and a reduce-scatter in place of each all-reduce, and in the backward pass two more gathers, of the
// inputs that are saved split, for the weight gradients.
TEST(SequenceParallel, GathersAndScattersInstead) {
    const Plan plan = plan_of(sp2);
    for (int layer : {0, 1}) {
        const Block &forward = block_named(plan, "F0"), &backward = block_named(plan, "B0");
        EXPECT_EQ(collectives(forward, CollectiveKind::all_reduce, layer), 0);
        EXPECT_EQ(collectives(forward, CollectiveKind::all_gather, layer), 2);
        EXPECT_EQ(collectives(forward, CollectiveKind::reduce_scatter, layer), 2);
        EXPECT_EQ(collectives(backward, CollectiveKind::all_reduce, layer), 0);
        EXPECT_EQ(collectives(backward, CollectiveKind::all_gather, layer), 4);
        EXPECT_EQ(collectives(backward, CollectiveKind::reduce_scatter, layer), 2);
    }
    EXPECT_EQ(buffer_named(plan, "c0.l0.norm1", 0)->shape, (std::vector<std::int64_t>{16, 64})) << "split along the sequence";
}

// Parameters all ranks hold, used on their own rows: one more reduction at the end of the step, over the tensor-parallel group.
TEST(SequenceParallel, SumsNormGradientsOverTheGroup) {
    const Plan plan = plan_of(sp2);
    const Op& op = op_named(block_named(plan, "optimizer:0"), "finalize.tp");
    std::set<std::string> reduced;
    for (BufferId b : op.in) reduced.insert(plan.buffers[at(b)].name);
    for (const char* norm :
         {"g.l0.norm1.weight", "g.l0.norm1.bias", "g.l1.norm2.weight", "g.final_norm.weight", "g.l0.proj.bias", "g.l0.fc2.bias"})
        EXPECT_TRUE(reduced.contains(norm)) << norm;
    for (const char* own : {"g.l0.qkv.weight", "g.l0.qkv.bias", "g.l0.fc1.weight", "g.embedding.weight"})
        EXPECT_FALSE(reduced.contains(own)) << own;
    EXPECT_THROW(op_named(block_named(plan_of(tp2), "optimizer:0"), "finalize.tp"), std::runtime_error)
        << "without it every rank has the sum already";
}

TEST(TensorParallel, DividesQueryAndKeyValueHeads) {
    const Plan plan = plan_of(tp2 + llama_like); // 8 query heads, 4 key-value heads of 8
    const auto& qkv = std::get<Linear>(op_named(block_named(plan, "F0"), "l0.qkv").work);
    EXPECT_EQ(qkv.n, (8 + 2 * 4) * 8 / 2);
    EXPECT_EQ(qkv.k, 64);
    const auto& attention = std::get<Attention>(op_named(block_named(plan, "F0"), "l0.attention").work);
    EXPECT_EQ(attention.heads, 4);
    EXPECT_EQ(attention.kv_heads, 2);
    const auto& proj = std::get<Linear>(op_named(block_named(plan, "F0"), "l0.proj").work);
    EXPECT_EQ(proj.n, 64);
    EXPECT_EQ(proj.k, 32) << "row-parallel: its input is divided";
}

// dX = dY W and dW = dY^T X cost what Y = X W^T does, each.
TEST(Adjoint, LinearsCostTwiceTheForwardPass) {
    const Plan plan = plan_of(llama_like);
    const auto linear_flops = [](const Block& block) {
        double sum = 0;
        for (const Op& op : block.ops)
            if (std::holds_alternative<Linear>(op.work)) sum += flops(op.work).count;
        return sum;
    };
    EXPECT_EQ(linear_flops(block_named(plan, "B0")), 2 * linear_flops(block_named(plan, "F0")));
}

TEST(Adjoint, SplitHalvesAddUpToTheWhole) {
    const Plan whole = plan_of(sp2 + pp2), split = plan_of(sp2 + pp2 + std::vector<std::string>{"strategy.schedule=zb-h1"});
    for (const char* chunk : {"0", "1"}) {
        const Block &b = block_named(whole, std::string("B") + chunk), &i = block_named(split, std::string("I") + chunk),
                    &w = block_named(split, std::string("W") + chunk);
        EXPECT_EQ(total_flops(b), total_flops(i) + total_flops(w));
        EXPECT_EQ(count(i,
                        [](const Op& op) {
                            const auto* l = std::get_if<Linear>(&op.work);
                            return l && l->direction == Direction::weight_gradient;
                        }),
                  0);
        EXPECT_EQ(count(w,
                        [](const Op& op) {
                            const auto* l = std::get_if<Linear>(&op.work);
                            return l && l->direction == Direction::input_gradient;
                        }),
                  0);
    }
}

// Replicas that share the gradients of one microbatch have them whole before both halves of its backward pass, on one stage too.
TEST(Adjoint, HalvesOfOneStageShareTheirGradients) {
    for (const char* schedule : {"zb-h1", "zb-h2", "zb-v"})
        for (const char* framework : {"ddp", "fsdp2", "megatron"}) {
            const Plan plan = plan_of({std::string("strategy.framework=") + framework, std::string("strategy.schedule=") + schedule});
            EXPECT_TRUE(verify(plan).empty()) << schedule << " " << framework << ": " << to_text(verify(plan));
        }
}

// Its gradient collective is issued before the weight gradient that hides it.
TEST(Adjoint, WeightGradientsRunUnderTheReductionOfTheInputGradient) {
    const auto order = [](const std::vector<std::string>& overrides) {
        const Plan plan = plan_of(overrides);
        const Block& b = block_named(plan, "B0");
        const auto index = [&](const std::string& name) { return &op_named(b, name) - b.ops.data(); };
        return index("l0.fc1.wgrad") - index("l0.norm2.enter.adjoint");
    };
    EXPECT_GT(order(tp2 + std::vector<std::string>{"strategy.overlap.tensor_parallel=true"}), 0);
    EXPECT_LT(order(tp2 + std::vector<std::string>{"strategy.overlap.tensor_parallel=false"}), 0);
}

// Names of what a plan's backward block runs again, without layer.
std::map<std::string, int> recomputed(const std::vector<std::string>& overrides) {
    std::map<std::string, int> names;
    const Plan plan = plan_of(overrides);
    for (const Op& op : block_named(plan, "B0").ops)
        if (op.phase == Phase::recompute && !is_memory_op(op.work)) ++names[op.name.substr(op.name.find('.') + 1)];
    return names;
}

TEST(Recompute, FullRunsEveryLayerAgain) {
    const Plan plan = plan_of({"strategy.recompute=full"});
    const int forward = count(block_named(plan, "F0"), [](const Op& op) { return op.layer >= 0 && !is_memory_op(op.work); });
    int again = 0;
    for (const auto& [name, n] : recomputed({"strategy.recompute=full"})) again += n;
    EXPECT_EQ(again, forward);
    EXPECT_TRUE(recomputed({}).empty());
}

TEST(Recompute, StopsEarlyBehindTheLastValueThatIsNeeded) {
    const auto all = recomputed({"strategy.recompute=full"}),
               early = recomputed({"strategy.recompute=full", "runtime.recompute_early_stop=true"});
    EXPECT_EQ(all.count("fc2.again"), 1u);
    EXPECT_EQ(early.count("fc2.again"), 0u) << "the last linear's output is read by no adjoint";
    EXPECT_EQ(early.at("act.again"), 2) << "its input is";
}

TEST(Recompute, SelectiveIsTheCoreOfAttention) {
    const auto names = recomputed(unfused_attention + std::vector<std::string>{"strategy.recompute=selective"});
    EXPECT_EQ(names, (std::map<std::string, int>{
                         {"scores.again", 2}, {"softmax.again", 2}, {"attention_dropout.again", 2}, {"context.again", 2}}));
}

TEST(Recompute, OnlyTheLayersAskedFor) {
    for (const auto& [name, n] : recomputed({"strategy.recompute=full", "strategy.recompute_layers=1"})) EXPECT_EQ(n, 1) << name;
}

// Megatron's block method counts in each virtual stage, a count a stage goes through its chunks.
TEST(Recompute, APerChunkCountIsOfEachChunk) {
    const auto again = [](const std::string& layers) {
        const Plan plan = plan_of(
            interleaved + std::vector<std::string>{"model.layers=8", "strategy.recompute=full", "strategy.recompute_layers=" + layers});
        std::vector<std::set<int>> of_chunk;
        for (const char* block : {"B0", "B1", "B2", "B3"}) {
            std::set<int>& found = of_chunk.emplace_back();
            for (const Op& op : block_named(plan, block).ops)
                if (op.phase == Phase::recompute && !is_memory_op(op.work)) found.insert(op.layer);
        }
        return of_chunk;
    };
    using Chunks = std::vector<std::set<int>>;
    EXPECT_EQ(again(R"({"per_chunk": 1})"), (Chunks{{0}, {2}, {4}, {6}}));
    EXPECT_EQ(again("2"), (Chunks{{0, 1}, {2, 3}, {}, {}}));
    EXPECT_EQ(again(R"({"per_chunk": 2})"), (Chunks{{0, 1}, {2, 3}, {4, 5}, {6, 7}}));
}

TEST(Precision, LinearsOfLayersRunInFp8AndTheHeadDoesNot) {
    const Plan plan = plan_of({"training.precision=fp8"});
    int low = 0;
    for (const char* name : {"F0", "B0"})
        for (const Op& op : block_named(plan, name).ops) {
            const auto* l = std::get_if<Linear>(&op.work);
            if (!l) continue;
            EXPECT_EQ(l->dtype, op.layer >= 0 ? DType::fp8 : DType::bf16) << op.name;
            low += op.layer >= 0;
            if (op.layer >= 0) { EXPECT_EQ(plan.buffers[at(op.in[0])].dtype, DType::fp8) << op.name << " reads a cast operand"; }
        }
    EXPECT_EQ(low, 2 * 4 * 3) << "two layers of four linears, three GEMMs each";
    const auto casts_of_gradients = count(block_named(plan, "B0"), [](const Op& op) { return op.name.ends_with(".dy.cast"); });
    EXPECT_EQ(casts_of_gradients, 2 * 4) << "both GEMMs of the backward pass share one";
}

// Every second layer sees all: a window of w columns under a diagonal of s has w s - w w / 2 of the pairs.
TEST(Windows, LayersThatSeeAllAreAsOftenAsSaid) {
    const auto share = [](const Plan& plan, int layer) {
        for (const Op& op : block_named(plan, "F0").ops)
            if (const auto* a = std::get_if<Attention>(&op.work); a && op.layer == layer) return a->share;
        return 0.0;
    };
    Scenario s = scenario_of(tp2);
    s.model.attention.sliding_window = 4;
    const double columns = static_cast<double>(s.training.sequence_length), windowed = (4 * columns - 8) / (columns * columns);
    EXPECT_DOUBLE_EQ(share(lower(s), 0), windowed);
    EXPECT_DOUBLE_EQ(share(lower(s), 1), windowed);
    s.model.attention.full_every = 2;
    EXPECT_DOUBLE_EQ(share(lower(s), 0), windowed);
    EXPECT_DOUBLE_EQ(share(lower(s), 1), 0.5);
}

// OLMo 2 has no norm ahead of a product, but one of its result; Gemma has both. The residual stream takes what the last norm made.
TEST(Norms, StandWhereTheModelHasThem) {
    const auto plan_with = [](const char* placement) {
        return plan_of(sp2 + llama_like + std::vector<std::string>{std::string("model.norm_placement=") + placement});
    };
    for (const auto& [placement, norms] : {std::pair{"before", 2}, {"after", 2}, {"both", 4}}) {
        const Plan plan = plan_with(placement);
        const Block &forward = block_named(plan, "F0"), &backward = block_named(plan, "B0");
        const auto is_norm = [](const Op& op) { return std::holds_alternative<Norm>(op.work) && op.layer == 0; };
        EXPECT_EQ(count(forward, is_norm), norms) << placement;
        EXPECT_EQ(count(backward, is_norm), norms) << placement;
        EXPECT_EQ(collectives(forward, CollectiveKind::all_gather, 0), 2) << placement;
        EXPECT_EQ(collectives(forward, CollectiveKind::reduce_scatter, 0), 2) << placement;
        const bool behind = std::string(placement) != "before";
        const Op& add = op_named(forward, "l0.residual2");
        EXPECT_EQ(plan.buffers[at(add.in[0])].name.find("post_norm2") != std::string::npos, behind) << plan.buffers[at(add.in[0])].name;
        if (behind) {
            EXPECT_EQ(elements_of(plan, op_named(forward, "l0.post_norm1").in[0]), elements_of(plan, add.in[0])) << "a shard of the rows";
        }
    }
}

// A norm over all queries of a token has a statistic for them and one for the keys, and weights for every column.
TEST(Norms, GoAcrossHeadsWhereSaid) {
    const std::vector<std::string> heads = llama_like + std::vector<std::string>{"model.attention.qk_norm=true"};
    const Plan each = plan_of(heads), across = plan_of(heads + std::vector<std::string>{"model.attention.qk_norm_across=true"});
    const auto statistics = [](const Plan& plan) {
        return plan.buffers[at(op_named(block_named(plan, "F0"), "l0.qk_norm").out[1])].shape.back();
    };
    EXPECT_EQ(statistics(each), 8 + 4);
    EXPECT_EQ(statistics(across), 2);
    EXPECT_EQ(buffer_named(each, "w.l0.q_norm.weight", 0)->shape, (std::vector<std::int64_t>{8}));
    EXPECT_EQ(buffer_named(across, "w.l0.q_norm.weight", 0)->shape, (std::vector<std::int64_t>{64}));
    EXPECT_EQ(buffer_named(across, "w.l0.k_norm.weight", 0)->shape, (std::vector<std::int64_t>{32}));
}

// Scores of separate steps are not scaled yet: their cap is larger by the root of the heads' width. A fused kernel caps on its way.
TEST(Caps, StandBetweenAProductAndItsSoftmax) {
    const std::vector<std::string> capped{"model.attention.score_cap=50", "model.logit_cap=30"};
    const auto caps = [](const Plan& plan) {
        std::vector<std::pair<std::string, double>> found;
        for (const Op& op : block_named(plan, "F0").ops)
            if (const auto* p = std::get_if<Pointwise>(&op.work); p && p->kind == PointwiseKind::softcap)
                found.emplace_back(op.name, p->cap);
        return found;
    };
    const Plan fused = plan_of(capped), steps = plan_of(capped + unfused_attention);
    ASSERT_EQ(caps(fused).size(), 1u);
    EXPECT_EQ(caps(fused)[0].first, "logits.cap");
    EXPECT_EQ(caps(fused)[0].second, 30);
    ASSERT_EQ(caps(steps).size(), 3u) << "of two layers' scores and of the logits";
    EXPECT_NEAR(caps(steps)[0].second, 50 * std::sqrt(8.0), 1e-9);
    const auto in_backward = count(block_named(steps, "B0"), [](const Op& op) { return op.name.ends_with(".cap.bwd"); });
    EXPECT_EQ(in_backward, 3);
}

TEST(Layers, UnevenSplitsPutEachLayerWhereItIsSaid) {
    const Plan plan =
        plan_of({"model.layers=4", "strategy.pipeline_parallel=4", "strategy.schedule=1f1b", "strategy.layer_split=[0,1,3,0]"});
    for (const auto& [name, layers] : {std::pair{"F0", std::set<int>{}}, {"F1", {0}}, {"F2", {1, 2, 3}}, {"F3", {}}}) {
        std::set<int> found;
        for (const Op& op : block_named(plan, name).ops)
            if (op.layer >= 0) found.insert(op.layer);
        EXPECT_EQ(found, layers) << name;
    }
}

TEST(TiedEmbeddings, AreReducedBetweenTheirStagesAlone) {
    const Plan plan = plan_of({"model.layers=4", "strategy.pipeline_parallel=4", "strategy.schedule=1f1b"});
    const auto it =
        std::find_if(plan.communicators.begin(), plan.communicators.end(), [](const Communicator& c) { return c.name == "embedding"; });
    ASSERT_NE(it, plan.communicators.end());
    EXPECT_EQ(it->stages, (std::vector<std::int16_t>{0, 3}));
    for (int stage = 0; stage < 4; ++stage) {
        const bool end = stage == 0 || stage == 3;
        EXPECT_EQ(buffer_named(plan, "w.embedding.weight", stage) != nullptr, end);
        EXPECT_EQ(
            count(block_named(plan, "optimizer:" + std::to_string(stage)), [](const Op& op) { return op.name == "finalize.embedding"; }),
            end);
    }
}

// The chunk that predicts further tokens reads the embedding on its own stage; both heads are in the last chunk, which recomputes none of
// it.
TEST(FurtherTokens, HaveAChunkOfTheirOwnAndTheirLossWithTheOutputLayer) {
    for (const auto& [tied, stages] : {std::pair{"false", std::vector<std::int16_t>{0, 2}}, {"true", std::vector<std::int16_t>{0, 2, 3}}}) {
        const Plan plan =
            plan_of(further + std::vector<std::string>{std::string("model.tied_embeddings=") + tied, "strategy.recompute=full"});
        const auto it =
            std::find_if(plan.communicators.begin(), plan.communicators.end(), [](const Communicator& c) { return c.name == "embedding"; });
        ASSERT_NE(it, plan.communicators.end()) << tied;
        EXPECT_EQ(it->stages, stages) << tied;
        const auto losses = [&](const char* block) {
            std::set<int> ahead;
            for (const Op& op : block_named(plan, block).ops)
                if (const auto* loss = std::get_if<CrossEntropy>(&op.work)) ahead.insert(loss->ahead);
            return ahead;
        };
        const auto products = [&](const char* block) {
            return count(block_named(plan, block), [](const Op& op) { return std::holds_alternative<Linear>(op.work); });
        };
        EXPECT_EQ(losses("F2"), std::set<int>{}) << tied;
        EXPECT_EQ(losses("F3"), (std::set<int>{1, 2})) << tied;
        EXPECT_EQ(products("F3"), 2) << "the head, for the next token and the one after it";
        EXPECT_EQ(products("F2"), products("F1") / 2 + 1) << "one layer, and what joins state and embedding";
        EXPECT_EQ(count(block_named(plan, "B3"), [](const Op& op) { return op.phase == Phase::recompute; }), 0) << tied;
        // States of two tokens go on side by side: twice a layer's output, of 32 tokens in 16 bits.
        const auto sent = [&](const std::string& channel) {
            std::set<std::int64_t> bytes;
            for (const Block& b : plan.blocks)
                for (const Op& op : b.ops)
                    if (const auto* e = std::get_if<Exchange>(&op.work))
                        for (const Transfer& t : e->transfers)
                            if (t.send && plan.communicators[t.comm].name == channel) bytes.insert(t.bytes.count);
            return bytes;
        };
        constexpr std::int64_t state = 32 * 64 * 2;
        for (const char* channel : {"pp.up.1-2", "pp.down.2-1"}) EXPECT_EQ(sent(channel), (std::set<std::int64_t>{state})) << channel;
        for (const char* channel : {"pp.up.2-3", "pp.down.3-2"}) EXPECT_EQ(sent(channel), (std::set<std::int64_t>{2 * state})) << channel;
    }
}

TEST(TiedEmbeddings, AreOneParameterWhereBothEndsShareAStage) {
    for (const auto& overrides : {std::vector<std::string>{}, zb_v}) {
        const Plan plan = plan_of(overrides);
        EXPECT_EQ(std::count_if(plan.buffers.begin(), plan.buffers.end(), [](const Buffer& b) { return b.name == "w.embedding.weight"; }),
                  1);
        EXPECT_TRUE(std::none_of(plan.communicators.begin(), plan.communicators.end(),
                                 [](const Communicator& c) { return c.name == "embedding"; }));
    }
}

int actions_named(const Plan& plan, const std::string& prefix) {
    int n = 0;
    for (const Action& a : plan.programs[0].actions) n += plan.blocks[at(a.block)].name.starts_with(prefix);
    return n;
}

TEST(DataParallel, ZeroStagesGatherAsOftenAsTheyMust) {
    // Two layers, embedding and head: four units; one microbatch on each of eight devices.
    const std::vector<std::string> fsdp{"strategy.framework=fsdp", "training.global_batch_size=16"};
    const auto plan = [&](int stage) {
        return plan_of(fsdp + llama_like + std::vector<std::string>{"strategy.zero_stage=" + std::to_string(stage)});
    };
    const Plan three = plan(3), two = plan(2), zero = plan(0);
    EXPECT_EQ(actions_named(zero, "gather:"), 0);
    EXPECT_EQ(actions_named(two, "gather:"), 2 * 4) << "once a microbatch: kept until the backward pass";
    EXPECT_EQ(actions_named(three, "gather:"), 2 * (4 + 2)) << "and once more for each layer's backward pass";
    EXPECT_EQ(actions_named(three, "gather:"), actions_named(three, "release:"));
    EXPECT_EQ(actions_named(three, "reduce_first:"), 4) << "every unit, the first microbatch, which finds no sum to add to";
    EXPECT_EQ(actions_named(three, "reduce:"), 4) << "and the second";
}

TEST(DataParallel, ShardGroupsReduceInsideAndBetween) {
    const Plan plan = plan_of({"strategy.framework=fsdp", "strategy.zero_stage=3", "strategy.shard_group_size=4"});
    const auto it = std::find_if(plan.blocks.begin(), plan.blocks.end(), [](const Block& b) { return b.kind == BlockKind::reduce; });
    ASSERT_NE(it, plan.blocks.end());
    std::vector<std::pair<CollectiveKind, int>> calls;
    for (const Op& op : it->ops)
        if (const auto* c = std::get_if<Collective>(&op.work)) calls.push_back({c->kind, size(plan, c->comm)});
    EXPECT_EQ(calls, (std::vector<std::pair<CollectiveKind, int>>{{CollectiveKind::reduce_scatter, 4}, {CollectiveKind::all_reduce, 2}}));
}

// Kernels of computation that move gradients around their reductions: PyTorch's FullyShardedDataParallel joins, casts and divides, its
// fully_shard does it all in one kernel, DistributedDataParallel copies to its buckets and back, Megatron's gradients lie in theirs.
TEST(DataParallel, SoftwareMovesGradientsAroundItsReductions) {
    const auto moves = [](const char* framework, int stage, const char* dtype) {
        const Plan plan = plan_of({"training.precision=bf16", std::string("training.gradient_dtype=") + dtype,
                                   std::string("strategy.framework=") + framework, "strategy.zero_stage=" + std::to_string(stage)});
        const auto of = std::find_if(plan.blocks.begin(), plan.blocks.end(), [](const Block& b) { return b.kind == BlockKind::reduce; });
        std::vector<std::string> names;
        for (const Op& op : of->ops)
            if (op.queue == compute_queue && std::holds_alternative<Pointwise>(op.work))
                names.push_back(op.name.substr(0, op.name.find('.')));
        return names;
    };
    using Names = std::vector<std::string>;
    EXPECT_EQ(moves("fsdp", 3, "fp32"), (Names{"join", "flatten", "divide"}));
    EXPECT_EQ(moves("fsdp", 2, "bf16"), (Names{"flatten", "divide"})) << "nothing is cast";
    EXPECT_EQ(moves("fsdp2", 3, "fp32"), (Names{"flatten"}));
    for (int stage : {0, 1}) EXPECT_EQ(moves("ddp", stage, "fp32"), (Names{"to_bucket", "from_bucket"}));
    EXPECT_EQ(moves("megatron", 0, "fp32"), Names{});
}

// PyTorch's ZeroRedundancyOptimizer leaves DistributedDataParallel's reductions as they are and shares what each rank has stepped on behind
// the step: gradients stay whole, all of them are summed on every rank, and states are of a part.
TEST(DataParallel, ZeroRedundancyOptimizerKeepsTheAllReduce) {
    const auto of = [](int stage) {
        return plan_of({"strategy.framework=ddp", "training.precision=bf16", "strategy.zero_stage=" + std::to_string(stage)});
    };
    const Plan replicas = of(0), sharded = of(1);
    const auto reduced = [](const Plan& plan) {
        std::vector<std::int64_t> bytes;
        for (const Block& b : plan.blocks)
            for (const Op& op : b.ops)
                if (const auto* c = std::get_if<Collective>(&op.work); c && b.kind == BlockKind::reduce) {
                    EXPECT_TRUE(c->kind == CollectiveKind::all_reduce || c->whole) << op.name;
                    bytes.push_back(c->bytes.count);
                }
        return bytes;
    };
    const std::vector<std::int64_t> whole = reduced(replicas), parts = reduced(sharded);
    ASSERT_EQ(whole.size(), parts.size()) << "the same buckets";
    for (std::size_t i = 0; i < whole.size(); ++i) {
        EXPECT_GE(parts[i], whole[i]);
        EXPECT_LE(parts[i], whole[i] + 8 * 128 * 4) << "but for padding";
    }
    const auto held = [](const Plan& plan, MemoryKind kind) {
        std::int64_t bytes = 0;
        for (const Buffer& b : plan.buffers)
            if (b.storage < 0 && b.kind == kind && (b.scope == Scope::run || b.scope == Scope::step)) bytes += b.bytes.count;
        return bytes;
    };
    EXPECT_EQ(held(sharded, MemoryKind::gradients), held(replicas, MemoryKind::gradients));
    EXPECT_LT(held(sharded, MemoryKind::optimizer_states), held(replicas, MemoryKind::optimizer_states) / 2);
    EXPECT_TRUE(std::ranges::any_of(sharded.blocks, [](const Block& b) { return b.kind == BlockKind::gather && b.blocking; }));
}

// Each microbatch frees what it allocates, stage by stage, and the bytes between two steps are the same each time: counted here action by
// action.
TEST(Lifetimes, AllocationsAndFreesBalance) {
    for (const Example& e : examples()) {
        const Plan plan = plan_of(e.overrides);
        for (const Program& program : plan.programs) {
            std::map<std::pair<BufferId, int>, int> alive;
            const auto instance = [&](const Action& a, const Op& op, BufferId b) {
                const MemoryKind k = plan.buffers[at(b)].kind;
                return std::pair{b, k == MemoryKind::parameters || k == MemoryKind::gradients ? -1 : a.microbatch[op.port]};
            };
            const auto between_steps = [&](BufferId b) { return plan.buffers[at(b)].scope == Scope::step ? 1 : 0; };
            for (std::size_t b = 0; b < plan.buffers.size(); ++b)
                if (between_steps(static_cast<BufferId>(b))) alive[{static_cast<BufferId>(b), -1}] = 1;
            for (const Action& a : program.actions)
                for (std::int32_t i = a.first; i < a.last; ++i) {
                    const Op& op = plan.blocks[at(a.block)].ops[at(i)];
                    if (const auto* x = std::get_if<Alloc>(&op.work)) {
                        EXPECT_EQ(++alive[instance(a, op, x->buffer)], 1) << e.name;
                    } else if (const auto* y = std::get_if<Free>(&op.work)) {
                        EXPECT_EQ(--alive[instance(a, op, y->buffer)], 0) << e.name;
                    }
                }
            for (const auto& [key, n] : alive) EXPECT_EQ(n, between_steps(key.first)) << e.name << ": " << plan.buffers[at(key.first)].name;
        }
    }
}

// Whoever first reads gathered weights waits for the gather, whatever its microbatch.
TEST(Bind, EveryMicrobatchWaitsForTheWeightsItReads) {
    const Plan plan = plan_of({"strategy.framework=fsdp", "strategy.zero_stage=3", "training.global_batch_size=32"});
    const Program& program = plan.programs[0];
    std::set<std::int32_t> microbatches;
    for (std::size_t i = 0; i < program.actions.size(); ++i) {
        const Action& a = program.actions[i];
        for (std::int32_t d = a.deps_begin; d < a.deps_end; ++d) {
            const std::int32_t on = program.deps[at(d)].on_action;
            if (on >= 0 && plan.blocks[at(a.block)].kind == BlockKind::forward &&
                plan.blocks[at(program.actions[at(on)].block)].kind == BlockKind::gather)
                microbatches.insert(a.microbatch[0]);
        }
    }
    EXPECT_EQ(microbatches, (std::set<std::int32_t>{0, 1, 2, 3}));
}

// Received in parts ahead of its use, gathered at its use: else the collectives before it would queue behind a receive not sent yet.
TEST(Exchange, PartsReceivedAheadAreGatheredRightBeforeTheirUse) {
    const Plan plan = plan_of(tp2 + interleaved + std::vector<std::string>{"strategy.overlap.pipeline=true"});
    int gathers = 0;
    for (const Program& program : plan.programs)
        for (std::size_t i = 0; i + 1 < program.actions.size(); ++i) {
            const Block& block = plan.blocks[at(program.actions[i].block)];
            if (!block.name.starts_with("G.")) continue;
            ++gathers;
            const BlockKind next = plan.blocks[at(program.actions[i + 1].block)].kind;
            EXPECT_TRUE(next == BlockKind::forward || next == BlockKind::backward) << block.name;
            EXPECT_EQ(program.actions[i].microbatch[0], program.actions[i + 1].microbatch[0]);
        }
    EXPECT_EQ(gathers, 2 * 3 * plan.microbatches) << "three borders between four chunks, both ways";
}

TEST(Text, ProgramsReadAsTheirSchedule) {
    const Plan plan = plan_of(pp2 + llama_like + std::vector<std::string>{"training.global_batch_size=8"});
    std::string text = to_text(plan, plan.programs[1]);
    for (std::size_t cut = text.find('['); cut != std::string::npos; cut = text.find('['))
        text.erase(cut, text.find(')') + 1 - cut); // ranges of ops
    EXPECT_EQ(text, "1: begin:1 X.rF1.0 F1.0 B1.0 X.sB1.rF1.0,1 F1.1 B1.1 B1.1 reduce:c1.u1-0 X.sB1.1 optimizer:1\n");
}

// The programs as a pass leaves them: what `simrun plan --after` prints behind the blocks.
std::string programs_after(const Scenario& scenario, const std::string& pass) {
    const std::string text = text_after(scenario, pass);
    return text.substr(text.rfind("\nprograms\n"));
}

// Each pass over drafts adds its own actions to those of the passes before it, and takes none away.
TEST(Drafts, ShowWhatEachPassAdds) {
    const Scenario s =
        scenario_of({"strategy.pipeline_parallel=2", "strategy.schedule=1f1b", "strategy.data_parallel=4", "strategy.zero_stage=1"});
    const struct {
        const char *pass, *action;
    } added[] = {{"schedule", " F0.1 "}, {"exchange", " {F0.0>1} "}, {"data-parallel", " reduce:c0."}, {"optimizer", " optimizer:0 "}};
    for (std::size_t i = 0; i < std::size(added); ++i)
        for (std::size_t k = 0; k < std::size(added); ++k)
            EXPECT_EQ(programs_after(s, added[i].pass).find(added[k].action) != std::string::npos, k <= i)
                << added[k].action << " after " << added[i].pass;
}

// Joined steps are one action from the beginning, and one block after `join`.
TEST(Drafts, JoinStepsThatRunAsOne) {
    const Scenario s = scenario_of({"model.layers=4", "training.global_batch_size=32", "strategy.pipeline_parallel=2",
                                    "strategy.schedule=dualpipe", "strategy.data_parallel=4"});
    const std::string joined_block = "\n(F", before = text_after(s, "data-parallel"), after = text_after(s, "join");
    EXPECT_NE(programs_after(s, "schedule").find(" (F"), std::string::npos);
    EXPECT_EQ(before.find(joined_block), std::string::npos);
    EXPECT_NE(after.find(joined_block), std::string::npos);
    EXPECT_EQ(programs_after(s, "data-parallel"), programs_after(s, "join")) << "the order stays";
}

} // namespace
} // namespace orrery::test
