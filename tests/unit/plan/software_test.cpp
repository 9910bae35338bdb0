// Does a plan do what the software of its year did? Waits for the host, kernels around the products, copies, gathers.
#include "tests/unit/plan/plans.hpp"

#include "sim/plan/verify.hpp"

#include <algorithm>
#include <functional>
#include <map>
#include <set>

namespace orrery::test {
namespace {

const std::vector<std::string> unfused = {"runtime.attention_kernel=unfused"};

int count(const Plan& plan, BlockKind kind, const std::function<bool(const Op&)>& wanted) {
    int n = 0;
    for (const Block& b : plan.blocks)
        if (b.kind == kind) n += static_cast<int>(std::count_if(b.ops.begin(), b.ops.end(), wanted));
    return n;
}

bool waits(const Op& op) { return std::holds_alternative<HostWork>(op.work); }

Bytes bytes_of(const Plan& plan, const std::string& ending) {
    Bytes sum;
    for (const Buffer& b : plan.buffers)
        if (b.name.ends_with(ending) && b.storage < 0) sum = sum + b.bytes;
    return sum;
}

// get_batch read a microbatch's sizes back from the device, on every stage (Megatron-LM until 2023) or the ends (DeepSpeed's engine).
TEST(SoftwareOfItsYear, ForwardPassesWaitForTheirMicrobatch) {
    const std::vector<std::string> pipeline = {"strategy.pipeline_parallel=4", "strategy.schedule=1f1b", "model.layers=4"};
    const auto waiting = [&](const char* framework, const char* year) {
        return count(plan_of(pipeline +
                             std::vector<std::string>{std::string("strategy.framework=") + framework, std::string("runtime.year=") + year}),
                     BlockKind::forward, waits);
    };
    EXPECT_EQ(waiting("megatron", "2023"), 4);
    EXPECT_EQ(waiting("megatron", "2024"), 0);
    EXPECT_EQ(waiting("deepspeed", "2022"), 2);
    EXPECT_EQ(waiting("fsdp", "2023"), 0);
}

TEST(SoftwareOfItsYear, TheFirstKernelStandsBehindTheWait) {
    const Plan plan = plan_of({"runtime.year=2022"});
    for (const Block& b : plan.blocks) {
        if (b.kind != BlockKind::forward) continue;
        const auto wait = std::find_if(b.ops.begin(), b.ops.end(), waits);
        ASSERT_NE(wait, b.ops.end());
        const BufferId handed = wait->out.at(0);
        const auto first = std::find_if(wait + 1, b.ops.end(), [](const Op& op) { return op.queue == compute_queue; });
        EXPECT_NE(std::find(first->in.begin(), first->in.end(), handed), first->in.end()) << first->name;
        const auto on = static_cast<std::int32_t>(wait - b.ops.begin());
        EXPECT_NE(std::find(first->deps.begin(), first->deps.end(), on), first->deps.end()) << first->name;
    }
}

// Transformer Engine's user buffers: a gather and the linear that reads it are one pipeline, in the layers, not at the head.
TEST(SoftwareOfItsYear, GathersRunUnderTheirLinearsFrom2025On) {
    const auto in_pieces = [](BlockKind kind, const char* year, const char* overlap, const char* buffers = "true") {
        const Plan plan = plan_of(sp2 + std::vector<std::string>{std::string("runtime.year=") + year,
                                                                 std::string("runtime.tensor_parallel_buffers=") + buffers,
                                                                 std::string("strategy.overlap.tensor_parallel=") + overlap});
        return count(plan, kind, [](const Op& op) { return op.pieces == 2; });
    };
    EXPECT_EQ(in_pieces(BlockKind::forward, "2025", "true"), 8) << "two layers, two gathers with their linears";
    EXPECT_EQ(in_pieces(BlockKind::backward, "2025", "true"), 8) << "and of the gradients of two row-parallel linears";
    EXPECT_EQ(in_pieces(BlockKind::forward, "2024", "true"), 0);
    EXPECT_EQ(in_pieces(BlockKind::forward, "2025", "false"), 0);
    EXPECT_EQ(in_pieces(BlockKind::forward, "2025", "true", "false"), 0) << "as Megatron's own flags have it";
    EXPECT_EQ(in_pieces(BlockKind::backward, "2025", "true", "false"), 0);
}

// Transformer Engine's fp8_dpa: operands are cast ahead of both kernels; by delayed scaling what the kernels write has 8 bits too.
TEST(SoftwareOfItsYear, AttentionInEightBitsCastsItsOperands) {
    const auto made = [](const std::vector<std::string>& more) {
        const Plan plan = plan_of(std::vector<std::string>{"runtime.year=2025", "runtime.attention_dtype=fp8"} + llama_like + more);
        EXPECT_EQ(to_text(verify(plan)), "");
        return plan;
    };
    const auto low = [](const Plan& plan) {
        const auto in_low = [](const Op& op) {
            const auto* w = std::get_if<Attention>(&op.work);
            return w && w->dtype == DType::fp8;
        };
        return std::pair{count(plan, BlockKind::forward, in_low), count(plan, BlockKind::backward, in_low)};
    };
    const auto casts = [](const Plan& plan, BlockKind kind, const char* ending) {
        return count(plan, kind, [&](const Op& op) { return op.name.ends_with(ending); });
    };
    const std::vector<std::string> eight = {"training.precision=fp8"}, delayed = {"runtime.fp8_recipe=delayed"},
                                   current = {"runtime.fp8_recipe=current"}, checkpoint = {"strategy.recompute=selective"};
    for (const auto& recipe : {delayed, current}) {
        const Plan plan = made(eight + recipe);
        const bool writes_low = recipe == delayed;
        EXPECT_EQ(low(plan), std::pair(2, 2)) << "two layers";
        EXPECT_EQ(casts(plan, BlockKind::forward, ".attention.cast"), 2);
        EXPECT_EQ(casts(plan, BlockKind::forward, ".attention.keep"), writes_low ? 2 : 0);
        EXPECT_EQ(casts(plan, BlockKind::backward, ".attention.dy.cast"), 2);
        EXPECT_EQ(casts(plan, BlockKind::backward, ".attention.grad.cast"), writes_low ? 2 : 0);
    }
    EXPECT_EQ(casts(made(eight + current + checkpoint), BlockKind::backward, ".attention.cast.again"), 2) << "a checkpoint keeps 16 bits";
    const std::pair none(0, 0);
    EXPECT_EQ(low(made(eight + std::vector<std::string>{"training.bf16_first_layers=1"})), std::pair(1, 1));
    EXPECT_EQ(low(made({"training.precision=bf16"})), none);
    EXPECT_EQ(low(made(eight + std::vector<std::string>{"runtime.attention_kernel=flash-2"})), none);
    EXPECT_EQ(low(made(eight + std::vector<std::string>{"strategy.framework=fsdp2"})), none);
}

// Megatron-Core's num_query_groups < world_size: the columns of all ranks are gathered, and the gradients of all summed and scattered.
TEST(SoftwareOfItsYear, RanksShareAKeyHead) {
    for (const char* framework : {"megatron", "nemo"}) {
        const Plan plan = plan_of(std::vector<std::string>{std::string("strategy.framework=") + framework, "runtime.year=2025",
                                                           "strategy.tensor_parallel=8", "strategy.sequence_parallel=true"} +
                                  llama_like);
        EXPECT_EQ(to_text(verify(plan)), "");
        const std::int64_t tokens = 32, columns = (8 + 2 * 4) * 8; // 8 query heads and 4 key heads of 8
        std::int64_t gathered = 0, scattered = 0;
        for (const Block& b : plan.blocks)
            for (const Op& op : b.ops) {
                const auto* c = std::get_if<Collective>(&op.work);
                if (c && op.name == "l0.heads.gather" && c->kind == CollectiveKind::all_gather) gathered += c->bytes.count;
                if (c && op.name == "l0.heads.adjoint" && c->kind == CollectiveKind::reduce_scatter) scattered += c->bytes.count;
                const auto* w = std::get_if<Attention>(&op.work);
                EXPECT_TRUE(!w || (w->heads == 1 && w->kv_heads == 1)) << op.name;
            }
        EXPECT_EQ(gathered, tokens * columns * 2) << "in 16 bits, once in a pass";
        EXPECT_EQ(scattered, tokens * columns * 2);
        const auto qkv = std::find_if(plan.buffers.begin(), plan.buffers.end(),
                                      [](const Buffer& b) { return b.role == Role::parameter && b.name.ends_with("l0.qkv.weight"); });
        ASSERT_NE(qkv, plan.buffers.end());
        EXPECT_EQ(qkv->bytes.count, columns / 8 * 64 * 2) << "no head is there twice";
    }
    const Plan whole = plan_of(std::vector<std::string>{"runtime.year=2025", "strategy.tensor_parallel=4"} + llama_like);
    EXPECT_EQ(count(whole, BlockKind::forward, [](const Op& op) { return op.name.find(".heads") != std::string::npos; }), 0);
}

// Parameters of 8 bits are half as large, and gathered so; not those of MXFP8, whose scales run along rows and columns.
TEST(SoftwareOfItsYear, ParametersOfEightBitsAreGatheredInEightBits) {
    const auto made = [](const char* precision, const char* recipe, const char* low) {
        return plan_of({"cluster.preset=dgx-b200", "strategy.framework=megatron", "strategy.zero_stage=1", "model.bias=false",
                        "runtime.year=2026", std::string("training.precision=") + precision, std::string("runtime.fp8_recipe=") + recipe,
                        std::string("runtime.fp8_parameters=") + low});
    };
    const auto weights = [](const Plan& plan) {
        std::int64_t sum = 0;
        for (const Buffer& b : plan.buffers)
            if (b.role == Role::parameter && b.name.ends_with(".qkv.weight")) sum += b.bytes.count;
        return sum;
    };
    const auto gathered = [](const Plan& plan) {
        std::int64_t sum = 0;
        for (const Block& b : plan.blocks)
            for (const Op& op : b.ops)
                if (const auto* c = std::get_if<Collective>(&op.work); c && op.phase == Phase::param_gather) sum += c->bytes.count;
        return sum;
    };
    for (const char* recipe : {"delayed", "current", "blockwise"}) {
        const Plan wide = made("fp8", recipe, "false"), low = made("fp8", recipe, "true");
        EXPECT_EQ(to_text(verify(low)), "") << recipe;
        EXPECT_EQ(2 * weights(low), weights(wide)) << recipe;
        std::int64_t matrices = 0; // elements of the layers' linears
        for (const Buffer& b : low.buffers)
            if (b.role == Role::parameter && b.dtype == DType::fp8) matrices += b.bytes.count;
        EXPECT_GT(matrices, 0);
        EXPECT_EQ(gathered(wide) - gathered(low), matrices) << recipe;
    }
    EXPECT_EQ(weights(made("mxfp8", "mxfp8", "true")), weights(made("mxfp8", "mxfp8", "false")));
    EXPECT_EQ(gathered(made("mxfp8", "mxfp8", "true")), gathered(made("mxfp8", "mxfp8", "false")));
    EXPECT_EQ(weights(made("bf16", "delayed", "true")), weights(made("bf16", "delayed", "false")));
}

// A gradient is cast before it is gathered where one scale serves rows and columns; blocks of scales would have to travel both ways.
TEST(SoftwareOfItsYear, GradientsAreGatheredInEightBitsWhereATensorHasOneScale) {
    const auto gathered = [](const char* recipe, DType dtype) {
        const Plan plan = plan_of(sp2 + std::vector<std::string>{"training.precision=fp8", std::string("runtime.fp8_recipe=") + recipe});
        return count(plan, BlockKind::backward, [&](const Op& op) {
            const auto* work = std::get_if<Collective>(&op.work);
            return work && work->kind == CollectiveKind::all_gather && op.name.ends_with(".adjoint") && op.layer >= 0 &&
                   work->dtype == dtype;
        });
    };
    EXPECT_EQ(gathered("delayed", DType::fp8), 4) << "two layers, two row-parallel linears";
    EXPECT_EQ(gathered("delayed", DType::bf16), 0);
    EXPECT_EQ(gathered("current", DType::fp8), 4);
    EXPECT_EQ(gathered("blockwise", DType::fp8), 0);
    EXPECT_EQ(gathered("blockwise", DType::bf16), 4);
}

// all_gather_tensor and reduce_scatter_tensor of DTensor: torch.cat of torch.chunk, but for gathers of one sequence since PyTorch 2.11.
TEST(SoftwareOfItsYear, DTensorCopiesAroundCollectivesAlongTheSequence) {
    const auto turns = [](BlockKind kind, const std::vector<std::string>& fields) {
        const Plan plan = plan_of(
            std::vector<std::string>{"strategy.framework=torchtitan", "strategy.recompute=none", "strategy.overlap.tensor_parallel=false"} +
            llama_like + sp2 + fields);
        EXPECT_EQ(to_text(verify(plan)), "");
        return count(plan, kind, [&](const Op& op) {
            if (op.layer < 0 || !op.name.ends_with(".turn")) return false;
            EXPECT_EQ(plan.buffers[op.in[0]].bytes, plan.buffers[op.out[0]].bytes);
            EXPECT_GE(plan.buffers[op.in[0]].bytes.count, 2 * 32 * 64) << "all tokens in 16 bits";
            return true;
        });
    };
    for (const BlockKind kind : {BlockKind::forward, BlockKind::backward}) {
        EXPECT_EQ(turns(kind, {"runtime.year=2025"}), 8) << "two layers, two gathers and two reductions";
        EXPECT_EQ(turns(kind, {"runtime.year=2026"}), 4) << "the reductions'";
        EXPECT_EQ(turns(kind, {"runtime.year=2026", "training.micro_batch_size=2"}), 8);
        EXPECT_EQ(turns(kind, {"runtime.year=2025", "strategy.overlap.tensor_parallel=true"}), 0) << "in pieces, with the products";
        EXPECT_EQ(turns(kind, {"runtime.year=2025", "strategy.sequence_parallel=false"}), 0) << "all-reduces have no order";
        EXPECT_EQ(turns(kind, {"runtime.year=2025", "strategy.framework=nanotron"}), 0) << "whose tokens are the first dimension";
    }
}

// MaxText's buffer of rows that arrive: of each token of the group as many as the rank has experts, or a token chooses. What travels and
// what is multiplied are rows that are there.
TEST(SoftwareOfItsYear, XlaHasRoomForTheMostRowsThatCouldArrive) {
    const auto made = [](const char* framework, const char* experts, const std::vector<std::string>& more = {}) {
        return plan_of(std::vector<std::string>{std::string("strategy.framework=") + framework, "strategy.zero_stage=0",
                                                std::string("model.moe.experts=") + experts, "model.moe.top_k=2",
                                                "model.moe.expert_ffn_size=128", "strategy.expert_parallel=4", "runtime.year=2025",
                                                "strategy.recompute=none"} +
                       llama_like + more);
    };
    const auto all_ops = [](const Plan& plan, const std::function<bool(const Op&)>& wanted) {
        return count(plan, BlockKind::forward, wanted) + count(plan, BlockKind::backward, wanted);
    };
    const auto zeroed = [](const Op& op) { return op.name.ends_with(".zeros"); };
    const auto waits_for_counts = [](const Op& op) { return std::holds_alternative<HostSync>(op.work); };
    const std::int64_t tokens = 32, ranks = 4, chosen = 2;
    for (const char* experts : {"8", "4"}) { // two a rank, and one
        const Plan plan = made("jax", experts), exact = made("colossalai", experts);
        EXPECT_EQ(to_text(verify(plan)), "");
        const std::int64_t room = ranks * tokens * std::min<std::int64_t>(std::stoi(experts) / ranks, chosen);
        const auto rows = [](const Plan& p, const std::string& ending) {
            const auto b = std::find_if(p.buffers.begin(), p.buffers.end(), [&](const Buffer& x) { return x.name.ends_with(ending); });
            return b == p.buffers.end() ? 0 : b->shape[0];
        };
        for (const char* what : {"l0.permuted.dispatched", "l0.expert_fc1", "l0.expert_act", "l0.expert_fc2", "l1.expert_fc2.grad"}) {
            EXPECT_EQ(rows(plan, what), room) << what << experts;
            EXPECT_EQ(rows(exact, what), tokens * chosen) << what << experts;
        }
        EXPECT_EQ(rows(plan, "l0.permuted"), tokens * chosen) << "what is sent";
        const auto sum = [&](const Plan& p, const auto& of) {
            std::int64_t total = 0;
            for (const Block& b : p.blocks)
                for (const Op& op : b.ops) total += of(p, op);
            return total;
        };
        const auto sent = [](const Plan& p, const Op& op) {
            const auto* c = std::get_if<Collective>(&op.work);
            return c && c->kind == CollectiveKind::all_to_all && p.buffers[op.in[0]].dtype == DType::bf16 ? c->bytes.count : 0;
        };
        const auto multiplied = [](const Plan&, const Op& op) {
            const auto* w = std::get_if<Linear>(&op.work);
            return w && op.name.find("expert_fc") != std::string::npos ? w->groups * w->m : 0;
        };
        EXPECT_GT(sum(plan, sent), 0);
        EXPECT_EQ(sum(plan, sent), sum(exact, sent)) << experts;
        EXPECT_EQ(sum(plan, multiplied), sum(exact, multiplied)) << experts;
        EXPECT_EQ(all_ops(plan, zeroed), 2 * 4) << "two layers: there and back, and their adjoints";
        EXPECT_EQ(all_ops(exact, zeroed), 0);
        EXPECT_EQ(all_ops(plan, waits_for_counts), 0) << "shapes are fixed: the host need not know";
    }
    EXPECT_EQ(all_ops(made("jax", "8", {"model.moe.capacity_factor=1"}), zeroed), 0) << "one-hot masks fill all slots";
}

// Transformer Engine's delayed scaling: a reduction behind the layers of each pass, of three maxima a product forward and two backward.
TEST(SoftwareOfItsYear, DelayedScalingReducesMaximaOnceAPass) {
    const auto made = [](const std::vector<std::string>& more) {
        return plan_of(std::vector<std::string>{"strategy.framework=megatron", "runtime.year=2024", "training.precision=fp8",
                                                "runtime.fp8_recipe=delayed"} +
                       more);
    };
    const auto reductions = [](const Plan& plan, BlockKind kind) {
        std::vector<const Op*> found;
        for (const Block& b : plan.blocks)
            for (const Op& op : b.ops) {
                const auto* c = std::get_if<Collective>(&op.work);
                if (b.kind == kind && c && plan.communicators[c->comm].name == "maxima") found.push_back(&op);
            }
        return found;
    };
    const int products = 2 * 4; // layers, and a layer's
    const auto bytes_of_one = [&](const Plan& plan, BlockKind kind) {
        const auto found = reductions(plan, kind);
        return found.size() == 1 ? std::get<Collective>(found.front()->work).bytes.count : -1;
    };
    const Plan plan = made({}), divided = made(sp2 + std::vector<std::string>{"runtime.tensor_parallel_maxima=true"});
    EXPECT_EQ(to_text(verify(plan)), "");
    EXPECT_EQ(to_text(verify(divided)), "");
    EXPECT_EQ(bytes_of_one(plan, BlockKind::forward), 4 * 3 * products);
    EXPECT_EQ(bytes_of_one(plan, BlockKind::backward), 4 * 2 * products);
    const auto ranks = [&](const Plan& p) { return size(p, std::get<Collective>(reductions(p, BlockKind::forward).at(0)->work).comm); };
    EXPECT_EQ(ranks(plan), 8);
    EXPECT_EQ(ranks(made(sp2)), 8) << "tensor- and data-parallel ranks";
    EXPECT_EQ(ranks(made(sp2 + pp2)), 4) << "of one stage";
    EXPECT_EQ(ranks(divided), 2);
    EXPECT_EQ(reductions(made(interleaved), BlockKind::forward).size(), 4u) << "of each chunk";
    for (const char* none : {"runtime.fp8_recipe=current", "training.precision=bf16", "runtime.year=2023", "strategy.framework=fsdp2",
                             "runtime.tensor_parallel_maxima=true"}) // of one tensor-parallel rank there is nothing to reduce
        EXPECT_TRUE(reductions(made({none}), BlockKind::forward).empty()) << none;
}

// The bias of queries, keys and values is a kernel of Megatron's own layer; Transformer Engine's adds it in the product.
TEST(SoftwareOfItsYear, MegatronsOwnLayerAddsTheBiasApart) {
    const auto apart = [](const char* year) {
        return count(plan_of({std::string("runtime.year=") + year}), BlockKind::forward,
                     [](const Op& op) { return op.name.ends_with(".qkv.bias"); });
    };
    EXPECT_EQ(apart("2023"), 2); // layers
    EXPECT_EQ(apart("2024"), 0);
}

// 2023: keys and values repeated for every head, and kept: 4 bytes a token and column beyond Korthikanti's 34.
TEST(SoftwareOfItsYear, MegatronOf2023KeepsCopiesOfKeysAndValues) {
    const auto copies = [](const char* year) {
        return bytes_of(plan_of(unfused + std::vector<std::string>{std::string("runtime.year=") + year}), ".heads");
    };
    const Plan plan = plan_of(unfused + std::vector<std::string>{"runtime.year=2023"});
    EXPECT_EQ(copies("2022").count, 0);
    EXPECT_EQ(copies("2023").count, 2 * bytes_of(plan, ".attention").count);
}

// Ahead of FlashAttention too, where several queries share a key: beside a layer's own keys and values those that are repeated.
TEST(SoftwareOfItsYear, MegatronOf2023RepeatsSharedKeysForFusedAttention) {
    const auto copies = [](const char* year, const std::vector<std::string>& more) {
        return bytes_of(plan_of(llama_like + std::vector<std::string>{std::string("runtime.year=") + year} + more), ".heads");
    };
    const Scenario s = scenario_of(llama_like);
    const std::int64_t queries = s.model.attention_heads, keys = s.model.kv_heads;
    ASSERT_LT(keys, queries);
    const Bytes rows = bytes_of(plan_of(llama_like + std::vector<std::string>{"runtime.year=2023"}), ".attention");
    EXPECT_EQ(copies("2023", {}).count, 2 * rows.count * (queries - keys) / queries);
    EXPECT_EQ(copies("2023", {"model.kv_heads=" + std::to_string(queries)}).count, 0) << "nothing is shared";
    EXPECT_EQ(copies("2022", {}).count, 0);
    EXPECT_EQ(copies("2024", {}).count, 0) << "Transformer Engine's attention shares them";
    EXPECT_TRUE(verify(plan_of(llama_like + sp2 + std::vector<std::string>{"runtime.year=2023"})).empty());
}

// A checkpointed layer's parameters before DeepSpeed recorded their uses: forward pass, the one made again, backward pass.
TEST(SoftwareOfItsYear, DeepSpeedGatheredBehindRecomputationOnceMore) {
    const auto gathers = [](const char* year) {
        const Plan plan = plan_of({"strategy.framework=deepspeed", "strategy.zero_stage=3", "strategy.recompute=full",
                                   "strategy.overlap.param_gather=false", std::string("runtime.year=") + year});
        int n = 0;
        for (const Action& a : plan.programs.front().actions)
            n += plan.blocks[a.block].kind == BlockKind::gather && !plan.blocks[a.block].name.starts_with("small:");
        return n;
    };
    const Plan plan = plan_of({"strategy.framework=deepspeed", "strategy.zero_stage=3"});
    EXPECT_EQ(gathers("2021") - gathers("2022"), 2 * plan.microbatches); // two layers
}

// Without overlap a layer's gather is asked for behind the reduction of the layer that ran before it.
TEST(SoftwareOfItsYear, DeepSpeedGathersBehindAReductionNothingHides) {
    const Plan plan = plan_of({"strategy.framework=deepspeed", "strategy.zero_stage=3", "runtime.year=2021"});
    const Program& p = plan.programs.front();
    const auto kind = [&](std::size_t i) { return plan.blocks[p.actions[i].block].kind; };
    int waiting = 0;
    for (std::size_t i = 0; i < p.actions.size(); ++i) {
        if (kind(i) != BlockKind::gather) continue;
        for (std::int32_t d = p.actions[i].deps_begin; d < p.actions[i].deps_end; ++d)
            waiting += p.deps[d].on_action >= 0 &&
                       kind(static_cast<std::size_t>(p.deps[static_cast<std::size_t>(d)].on_action)) == BlockKind::reduce;
    }
    EXPECT_GT(waiting, 0);
}

// XLA's combiners join what a layer gathers up to a threshold: larger weights go one by one.
TEST(SoftwareOfItsYear, XlaGathersLargeWeightsByThemselves) {
    const auto gathered = [](const char* framework, const char* threshold) {
        const Plan plan = plan_of({std::string("strategy.framework=") + framework, "strategy.zero_stage=3", "strategy.recompute=none",
                                   std::string("strategy.bucket_bytes=") + threshold});
        std::vector<std::int64_t> bytes;
        for (const Block& b : plan.blocks)
            for (const Op& op : b.ops)
                if (const auto* c = std::get_if<Collective>(&op.work); c != nullptr && b.kind == BlockKind::gather)
                    bytes.push_back(c->bytes.count);
        std::sort(bytes.begin(), bytes.end());
        return bytes;
    };
    const auto joined = gathered("jax", "1000000000"), apart = gathered("jax", "1000");
    EXPECT_EQ(joined, gathered("colossalai", "1000"));
    EXPECT_GT(apart.size(), 2 * joined.size());
    EXPECT_LT(apart.back(), joined.back());
}

// The large weights that are gathered and not yet released, at most, by what runs at the time.
std::map<BlockKind, std::size_t> gathered_at_once(const Plan& plan) {
    std::map<BlockKind, std::size_t> most;
    std::set<BufferId> alive;
    for (const Action& a : plan.programs.front().actions) {
        const Block& block = plan.blocks[a.block];
        for (std::int32_t i = a.first; i < a.last; ++i) {
            const Work& work = block.ops[i].work;
            const auto large = [&](BufferId b) {
                return plan.buffers[b].kind == MemoryKind::parameters && plan.buffers[b].shape.size() == 2;
            };
            if (const auto* made = std::get_if<Alloc>(&work); made != nullptr && large(made->buffer)) alive.insert(made->buffer);
            if (const auto* gone = std::get_if<Free>(&work)) alive.erase(gone->buffer);
        }
        most[block.kind] = std::max(most[block.kind], alive.size());
    }
    return most;
}

// XLA holds a parameter that it gathers by itself from its first use in a layer to its last, and the next two meanwhile: three of a layer's
// four weights, but where it is made again on the way back, and what that used is used again.
TEST(SoftwareOfItsYear, XlaHoldsTheWeightsInUseAndTheNextTwo) {
    const auto held = [](const std::vector<std::string>& more) {
        return gathered_at_once(plan_of(
            std::vector<std::string>{"strategy.framework=jax", "strategy.zero_stage=3", "model.layers=4", "model.tied_embeddings=false"} +
            more));
    };
    const std::vector<std::string> apart = {"strategy.bucket_bytes=1000"}, joined = {"strategy.bucket_bytes=1000000000"},
                                   full = {"strategy.recompute=full"}, none = {"strategy.recompute=none"};
    EXPECT_EQ(held(apart + none).at(BlockKind::forward), 3U);
    EXPECT_EQ(held(apart + none).at(BlockKind::backward), 3U);
    EXPECT_EQ(held(apart + full).at(BlockKind::backward), 4U);
    EXPECT_EQ(held(joined + none).at(BlockKind::forward), 11U); // this layer's and the next one's, embeddings and output layer
    EXPECT_EQ(held(joined + none).at(BlockKind::backward), 10U);
}

// InternLM's norm(residual.float()): the stream stays in 16 bits, what a norm reads is a copy in 32, and so is the gradient it writes.
TEST(SoftwareOfItsYear, InternLmWidensWhatNormsRead) {
    const auto dtype_of = [](const char* framework, const std::string& ending) {
        const Plan plan = plan_of({std::string("strategy.framework=") + framework});
        const auto b = std::find_if(plan.buffers.begin(), plan.buffers.end(), [&](const Buffer& x) { return x.name.ends_with(ending); });
        return b == plan.buffers.end() ? DType::int64 : b->dtype;
    };
    for (const char* wide : {"l0.norm1.input", "l1.norm2.input", "l0.norm1.input.grad"}) {
        EXPECT_EQ(dtype_of("internlm", wide), DType::fp32) << wide;
        EXPECT_EQ(dtype_of("colossalai", wide), DType::int64) << wide; // there is none
    }
    for (const char* narrow : {"l0.residual1", "l0.norm1", "l0.norm1.grad", "l1.residual2"})
        EXPECT_EQ(dtype_of("internlm", narrow), DType::bf16) << narrow;
}

// The lists of torchtitan's policy by op named no kernel of cuDNN's until December 2025.
TEST(SoftwareOfItsYear, APolicyByOpKeepsCudnnsAttentionFrom2026On) {
    const auto plan = [](const char* kernel, const char* year) {
        return plan_of({"strategy.framework=torchtitan", "strategy.zero_stage=3", "strategy.recompute=selective",
                        std::string("runtime.attention_kernel=") + kernel, std::string("runtime.year=") + year});
    };
    const auto made_again = [&](const char* kernel, const char* year) {
        return count(plan(kernel, year), BlockKind::backward,
                     [](const Op& op) { return op.phase == Phase::recompute && std::holds_alternative<Attention>(op.work); });
    };
    EXPECT_GT(made_again("cudnn", "2025"), 0);
    EXPECT_EQ(made_again("cudnn", "2026"), 0);
    EXPECT_EQ(made_again("flash-2", "2025"), 0);
    EXPECT_EQ(to_text(verify(plan("cudnn", "2025"))), "");
}

// An expert's result times its weight: the weight's gradient reads the result, where the loop's code multiplies it (Transformers), not
// where the activation is weighted (Megatron).
TEST(SoftwareOfItsYear, ALoopOverExpertsKeepsTheirResults) {
    const auto read = [](const char* framework, const char* year) {
        const Plan plan = plan_of({std::string("strategy.framework=") + framework, std::string("runtime.year=") + year,
                                   "model.moe.experts=4", "model.moe.top_k=2", "model.bias=false"});
        return count(plan, BlockKind::backward, [&](const Op& op) {
            const auto* p = std::get_if<Permute>(&op.work);
            return p != nullptr && p->part == Permute::Part::gather &&
                   std::ranges::any_of(op.in, [&](BufferId b) { return plan.buffers[b].name.ends_with("expert_fc2"); });
        });
    };
    EXPECT_GT(read("fsdp", "2025"), 0);
    EXPECT_EQ(read("megatron", "2025"), 0);
}

// The gradient of the queries is summed in fp32 beside its result, and where heads share keys those of keys and values are made for every
// head: a rank's part of them, while its kernel runs.
TEST(SoftwareOfItsYear, FusedAttentionHoldsSumsOfItsOwn) {
    const auto plan_with = [](const char* kernel, const std::vector<std::string>& more) {
        const Plan plan =
            plan_of(std::vector<std::string>{std::string("runtime.attention_kernel=") + kernel, "training.precision=bf16"} + more);
        EXPECT_TRUE(verify(plan).empty()) << kernel << to_text(verify(plan));
        return plan;
    };
    for (const char* kernel : {"flash-1", "flash-2", "flash-3", "cudnn"})
        for (const std::vector<std::string>& ranks : {std::vector<std::string>{}, tp2}) {
            const Plan plan = plan_with(kernel, ranks);
            EXPECT_EQ(bytes_of(plan, ".attention.queries.sum"), bytes_of(plan, ".attention") * 2) << kernel;
            EXPECT_EQ(bytes_of(plan, ".keys.apart").count + bytes_of(plan, ".keys.sum").count, 0) << kernel;
        }
    const Plan shared = plan_with("flash-2", llama_like); // 8 query heads, 4 key-value heads
    EXPECT_EQ(bytes_of(shared, ".keys.apart"), bytes_of(shared, ".attention") * 2) << "keys and values";
    EXPECT_EQ(bytes_of(plan_with("flash-3", llama_like), ".keys.sum"), bytes_of(shared, ".attention") * 2) << "half as many, twice as wide";
    for (const Block& b : shared.blocks)
        for (const Op& op : b.ops)
            if (const auto* alloc = std::get_if<Alloc>(&op.work); alloc && shared.buffers[alloc->buffer].name.ends_with(".queries.sum")) {
                EXPECT_EQ(b.kind, BlockKind::backward);
            }
    for (const char* kernel : {"unfused", "flex"}) EXPECT_EQ(bytes_of(plan_with(kernel, llama_like), ".queries.sum").count, 0) << kernel;
    EXPECT_EQ(bytes_of(plan_with("flash-2", {"runtime.allocator=plan"}), ".queries.sum").count, 0) << "a runtime of its own";
}

// Autocast's lists: fp32 parameters, so embedding and residual adds are in fp32; norms are, and linears are not.
TEST(Autocast, KeepsTheResidualStreamInFp32) {
    const Plan plan = plan_of({"strategy.framework=ddp"}),
               cast_itself = plan_of({"strategy.framework=fsdp2"}); // by its MixedPrecisionPolicy
    const auto dtype_of = [](const Plan& p, const std::string& ending) {
        const auto b = std::find_if(p.buffers.begin(), p.buffers.end(),
                                    [&](const Buffer& x) { return x.name.ends_with(ending) && x.kind == MemoryKind::activations; });
        EXPECT_NE(b, p.buffers.end()) << ending;
        return b == p.buffers.end() ? DType::int64 : b->dtype;
    };
    for (const char* wide : {".embedding", "l0.residual1", "l1.residual2", "l0.residual1.grad", "l0.norm1", "l0.norm1.grad"}) {
        EXPECT_EQ(dtype_of(plan, wide), DType::fp32) << wide;
        EXPECT_EQ(dtype_of(cast_itself, wide), DType::bf16) << wide;
    }
    for (const char* narrow : {"l0.norm1.cast", "l0.qkv", "l0.proj", "l0.proj.grad", ".logits"})
        EXPECT_EQ(dtype_of(plan, narrow), DType::bf16) << narrow;
}

// Inductor's norms write the cast themselves; and nothing is cast where all is in fp32 anyway.
TEST(Autocast, CastsAreKernelsOnlyWhereTheyAreNeeded) {
    const auto casts = [](const std::vector<std::string>& fields) {
        return count(plan_of(std::vector<std::string>{"strategy.framework=ddp"} + fields), BlockKind::forward,
                     [](const Op& op) { return op.name.ends_with(".cast"); });
    };
    EXPECT_EQ(casts({}), 5); // norms: two a layer and the last
    EXPECT_EQ(casts({"strategy.fused=true"}), 0);
    EXPECT_EQ(casts({"training.precision=fp32"}), 0);
}

// Of every layer: the first one's too, whose input has no gradient where only adapters are trained.
void expect_casts_until_backward(const Plan& plan) {
    for (const Block& b : plan.blocks)
        for (const Op& op : b.ops)
            if (const auto* free = std::get_if<Free>(&op.work); free && plan.buffers[free->buffer].name.ends_with(".input.casts")) {
                EXPECT_EQ(b.kind, BlockKind::backward) << plan.buffers[free->buffer].name;
            }
}

// Three modules read a norm of attention, two one of a gated MLP, and each casts it for itself: copies that live until the backward pass.
TEST(Autocast, EachModuleKeepsItsOwnCastOfWhatItReads) {
    const auto plan_with = [](const std::vector<std::string>& fields) {
        return plan_of(llama_like + std::vector<std::string>{"strategy.framework=ddp"} + fields);
    };
    const Plan plan = plan_with({});
    EXPECT_EQ(bytes_of(plan, ".qkv.input.casts").count, 2 * bytes_of(plan, ".norm1.cast").count);
    EXPECT_EQ(bytes_of(plan, ".fc1.input.casts").count, bytes_of(plan, ".norm2.cast").count);
    EXPECT_GT(bytes_of(plan, ".norm1.cast").count, 0);
    expect_casts_until_backward(plan);
    EXPECT_TRUE(verify(plan).empty());
    EXPECT_TRUE(verify(plan_with({"strategy.recompute=full"})).empty());
    const auto casts = [&](const std::vector<std::string>& fields) { return bytes_of(plan_with(fields), ".input.casts").count; };
    EXPECT_EQ(casts({"strategy.fused=true"}), 0) << "a compiler makes one";
    EXPECT_EQ(casts({"training.precision=fp32"}), 0);
    EXPECT_EQ(casts({"model.activation=gelu"}), 0) << "one linear for queries, keys and values";
    // In a parallel block of one norm the first cast is the queries'.
    EXPECT_EQ(casts({"model.parallel_block=true"}), casts({"model.parallel_block=true", "model.parallel_norms=true"}) / 3 * 4);
    EXPECT_EQ(bytes_of(plan_of(llama_like + std::vector<std::string>{"strategy.framework=fsdp2"}), ".input.casts").count, 0);
}

// Parameters are fp32 and the optimizer steps on them; 16-bit casts of what is multiplied come with the forward pass and go with the
// backward pass, so that none is alive when the optimizer steps. Embedding and norms are read as they are.
TEST(Autocast, WeightsAreCastForEachPassAndGoWithIt) {
    const auto plan_with = [](const std::vector<std::string>& fields) {
        return plan_of(llama_like + std::vector<std::string>{"strategy.framework=ddp"} + fields);
    };
    const auto is_cast = [](const std::string& name) { return name.ends_with(".narrow") || name.ends_with(".narrow.again"); };
    const auto casts = [&](const Plan& plan, BlockKind kind) { return count(plan, kind, [&](const Op& op) { return is_cast(op.name); }); };
    const Plan plan = plan_with({});
    for (const Buffer& b : plan.buffers) {
        EXPECT_NE(b.role, Role::master) << b.name;
        if (b.role == Role::parameter) { EXPECT_EQ(b.dtype, DType::fp32) << b.name; }
        if (is_cast(b.name)) {
            EXPECT_EQ(b.dtype, DType::bf16) << b.name;
            EXPECT_NE(b.scope, Scope::run) << b.name;
        }
    }
    const int layers = 2, products = 4; // and the output layer
    EXPECT_EQ(casts(plan, BlockKind::forward), layers * products + 1);
    EXPECT_EQ(casts(plan, BlockKind::backward), 0) << "the backward pass reads the forward pass's";
    for (const Block& b : plan.blocks)
        for (const Op& op : b.ops)
            if (const auto* free = std::get_if<Free>(&op.work); free && is_cast(plan.buffers[free->buffer].name)) {
                EXPECT_EQ(b.kind, BlockKind::backward) << plan.buffers[free->buffer].name;
            }
    EXPECT_TRUE(verify(plan).empty()) << to_text(verify(plan));
    const Plan again = plan_with({"strategy.recompute=full"});
    EXPECT_EQ(casts(again, BlockKind::forward), layers * products + 1);
    EXPECT_EQ(casts(again, BlockKind::backward), layers * products) << "a checkpoint saves none of them";
    EXPECT_TRUE(verify(again).empty()) << to_text(verify(again));
    for (const std::vector<std::string>& fields : {std::vector<std::string>{"strategy.fused=true"}, {"runtime.loss=chunked"}})
        EXPECT_TRUE(verify(plan_with(fields)).empty()) << fields[0] << to_text(verify(plan_with(fields)));
    EXPECT_EQ(casts(plan_with({"training.precision=fp32"}), BlockKind::forward), 0);
    EXPECT_EQ(casts(plan_with({"training.master_weights=false"}), BlockKind::forward), 0) << "parameters have 16 bits themselves";
    for (const auto& fields : {std::vector<std::string>{"strategy.zero_stage=1"}, {"strategy.pipeline_parallel=2"}}) {
        const Plan other = plan_with(fields); // ranks that share the states hold whole fp32 parameters, and so do stages
        EXPECT_GT(casts(other, BlockKind::forward), 0) << fields[0];
        EXPECT_TRUE(verify(other).empty()) << fields[0] << to_text(verify(other));
        for (const Buffer& b : other.buffers) {
            EXPECT_NE(b.role, Role::master) << b.name;
            if (b.role == Role::parameter) { EXPECT_EQ(b.dtype, DType::fp32) << b.name; }
        }
    }
    EXPECT_EQ(casts(plan_with({"strategy.offload.optimizer=cpu"}), BlockKind::forward), 0) << "16 bits beside masters on the host";
}

// QLoRA as PEFT prepares it: what is not in 4 bits, trained or not, is fp32, and so is the residual stream.
TEST(Autocast, QloraKeepsAllButItsMatricesInFp32) {
    const auto plan_with = [](const std::vector<std::string>& fields) {
        return plan_of(llama_like +
                       std::vector<std::string>{"strategy.framework=ddp", "runtime.year=2025",
                                                R"(model.trainable={"lora": {"rank": 4}, "base_dtype": "nf4"})"} +
                       fields);
    };
    const Plan plan = plan_with({});
    EXPECT_TRUE(verify(plan).empty()) << to_text(verify(plan));
    int narrow = 0, residuals = 0;
    for (const Buffer& b : plan.buffers) {
        if (b.name.ends_with(".residual1")) {
            EXPECT_EQ(b.dtype, DType::fp32) << b.name;
            ++residuals;
        }
        if (b.role != Role::parameter) continue;
        narrow += b.dtype == DType::nf4;
        EXPECT_TRUE(b.dtype == DType::fp32 || b.dtype == DType::nf4) << b.name;
    }
    EXPECT_EQ(narrow, 2 * 4) << "the matrices of two layers";
    EXPECT_EQ(residuals, 2);
    EXPECT_TRUE(verify(plan_with({"strategy.recompute=full"})).empty());
    for (const Buffer& b : plan_with({"strategy.framework=fsdp"}).buffers)
        if (b.role == Role::parameter) { EXPECT_NE(b.dtype, DType::fp32) << b.name << ": FSDP gathers all in 16 bits"; }
}

// PEFT's adapters cast their rows to fp32, and autocast casts them back: each has a copy of its own, also of what attention gave.
TEST(Autocast, AdaptersKeepTheirOwnCastsOfWhatTheyRead) {
    const auto plan_with = [](const std::vector<std::string>& fields) {
        return plan_of(llama_like +
                       std::vector<std::string>{"strategy.framework=ddp", "runtime.year=2025", R"(model.trainable={"lora": {"rank": 4}})"} +
                       fields);
    };
    const Plan plan = plan_with({});
    EXPECT_EQ(bytes_of(plan, ".qkv.lora_a.input.casts").count, 2 * bytes_of(plan, ".norm1").count);
    EXPECT_EQ(bytes_of(plan, ".proj.lora_a.input.casts").count, bytes_of(plan, ".attention").count);
    EXPECT_EQ(bytes_of(plan, ".fc1.lora_a.input.casts").count, bytes_of(plan, ".norm2").count);
    EXPECT_EQ(bytes_of(plan, ".fc2.lora_a.input.casts").count, 0) << "the activation's result alone";
    EXPECT_EQ(bytes_of(plan, ".norm1.wide"), bytes_of(plan, ".norm1")) << "of a frozen norm's fp32 copy what its input is not";
    expect_casts_until_backward(plan);
    EXPECT_TRUE(verify(plan).empty());
    EXPECT_TRUE(verify(plan_with({"strategy.recompute=full"})).empty());
    for (const auto& fields : {std::vector<std::string>{"runtime.year=2023"}, std::vector<std::string>{"strategy.framework=fsdp"}})
        EXPECT_EQ(bytes_of(plan_with(fields), ".input.casts").count, 0) << fields.front() << ": adapters have 16 bits";
}

// The log-softmax and its gradient in fp32, the logits' gradient in 16 bits: 10 bytes a logit, where logits cast by hand (.float())
// have 14. Measured on an H200: scenarios/validation/measured/h200-pytorch-look.json.
TEST(Autocast, LogitsOfTheLossTakeTenBytes) {
    const auto alive = [](const char* framework) {
        const Plan plan = plan_of({std::string("strategy.framework=") + framework});
        return bytes_of(plan, ".loss.softmax") + bytes_of(plan, ".loss.log_softmax") + bytes_of(plan, ".loss.fp32.grad") +
               bytes_of(plan, ".logits.grad");
    };
    EXPECT_EQ(alive("ddp").count, 10 * 32 * 256);
    EXPECT_EQ(alive("fsdp2").count, 14 * 32 * 256);
}

// Megatron keeps the shard of what a column-parallel linear reads and gathers it again for the weight gradient; nanotron keeps what it has
// gathered until 2024 (since, tp_recompute_allgather = True): of a layer's six gathers, four are left, and the loss's one of two.
TEST(SoftwareOfItsYear, NanotronGathersAnInputOnce) {
    const auto plan = [](const char* framework, const char* year) {
        return plan_of(sp2 + llama_like +
                       std::vector<std::string>{std::string("strategy.framework=") + framework, std::string("runtime.year=") + year});
    };
    const auto gathers = [&](const char* framework, const char* year, BlockKind kind) {
        return count(plan(framework, year), kind, [](const Op& op) {
            const auto* c = std::get_if<Collective>(&op.work);
            return c != nullptr && c->kind == CollectiveKind::all_gather;
        });
    };
    for (const char* year : {"2024", "2025"}) {
        EXPECT_EQ(gathers("nanotron", year, BlockKind::forward), gathers("megatron", year, BlockKind::forward)) << year;
        EXPECT_EQ(gathers("megatron", year, BlockKind::backward) - gathers("nanotron", year, BlockKind::backward),
                  std::string_view(year) == "2024" ? 2 * 2 + 1 : 0)
            << year;
    }
    // What a layer keeps of its two gathered inputs is a part of each alone.
    const auto gathered_kept = [&](const char* year) {
        const Plan p = plan("nanotron", year);
        std::set<BufferId> read;
        for (const Block& b : p.blocks)
            if (b.kind == BlockKind::backward)
                for (const Op& op : b.ops) read.insert(op.in.begin(), op.in.end());
        return std::ranges::count_if(read, [&](BufferId b) { return p.buffers[b].name.ends_with(".entered"); });
    };
    EXPECT_GT(gathered_kept("2024"), 0);
    EXPECT_EQ(gathered_kept("2025"), 0);
}

// By the logs of 29 runs: what attention and MLP add lives on until their backward pass, and the loss has 8 bytes a logit.
TEST(SoftwareOfItsYear, NanotronHoldsWhatItsBranchesAdd) {
    const auto held = [](const char* framework) {
        const Plan plan = plan_of(llama_like + std::vector<std::string>{std::string("strategy.framework=") + framework});
        return count(plan, BlockKind::backward, [&](const Op& op) {
            const auto* norm = std::get_if<Norm>(&op.work);
            return norm != nullptr && std::any_of(op.in.begin(), op.in.end(), [&](BufferId b) {
                       const std::string& name = plan.buffers[b].name;
                       return name.ends_with("proj") || name.ends_with("fc2");
                   });
        });
    };
    EXPECT_EQ(held("nanotron"), 2 * 2); // two layers
    EXPECT_EQ(held("megatron"), 0);
    const Plan plan = plan_of(llama_like + std::vector<std::string>{"strategy.framework=nanotron"});
    EXPECT_EQ((bytes_of(plan, ".logits") + bytes_of(plan, ".loss.softmax") + bytes_of(plan, ".loss.copy")).count, 8 * 32 * 256);
}

// silu(gate) * up: the product's backward pass reads silu(gate), which is kept where it is not made again in one kernel.
TEST(SoftwareOfItsYear, ActivationsInStepsKeepTheirGates) {
    const auto gates = [](const std::vector<std::string>& fields) {
        return bytes_of(plan_of(std::vector<std::string>{"model.activation=swiglu"} + fields), ".act.gate");
    };
    const auto acts = [](const std::vector<std::string>& fields) {
        return bytes_of(plan_of(std::vector<std::string>{"model.activation=swiglu"} + fields), ".act");
    };
    EXPECT_EQ(gates({"strategy.framework=megatron"}).count, 0);
    EXPECT_EQ(gates({"strategy.framework=megatron", "runtime.fused_activation=false"}), acts({"strategy.framework=megatron"}));
    EXPECT_GT(gates({"strategy.framework=fsdp2"}).count, 0) << "eager";
    EXPECT_EQ(gates({"strategy.framework=fsdp2", "strategy.fused=true"}).count, 0) << "compiled";
    EXPECT_EQ(bytes_of(plan_of({"runtime.fused_activation=false"}), ".act.gate").count, 0) << "gelu has no gate";
    EXPECT_EQ(gates({"strategy.framework=megatron", "runtime.year=2023"}), acts({"strategy.framework=megatron"})) << "torch.chunk and silu";
    EXPECT_EQ(gates({"strategy.framework=megatron", "runtime.year=2023", "runtime.fused_activation=true"}).count, 0) << "stated";
    EXPECT_EQ(gates({"strategy.framework=megatron", "runtime.year=2024"}).count, 0) << "Megatron-Core 0.5";
    EXPECT_GT(gates(tp2 + std::vector<std::string>{"strategy.framework=deepspeed", "runtime.year=2024"}).count, 0) << "Megatron-DeepSpeed";
}

// The shifted logits stand beside their fp32 copy for a moment: 4 bytes a logit, in the loss alone.
TEST(SoftwareOfItsYear, MegatronsLossShiftsACopyOfTheLogits) {
    const auto shifted = [](const std::vector<std::string>& fields) { return bytes_of(plan_of(fields), ".shifted").count; };
    const auto year = [](const char* framework, const char* of) {
        return std::vector<std::string>{std::string("strategy.framework=") + framework, std::string("runtime.year=") + of,
                                        "runtime.fused_loss=false"};
    };
    EXPECT_EQ(shifted(year("megatron", "2023")), 4 * 32 * 256);
    EXPECT_EQ(shifted(year("megatron", "2024")), 4 * 32 * 256);
    EXPECT_EQ(shifted(year("megatron", "2021")), 0) << "in place";
    EXPECT_EQ(shifted(year("megatron", "2025")), 0) << "in place again";
    EXPECT_EQ(shifted(tp2 + year("deepspeed", "2023")), 4 * 32 * 256 / 2) << "of a rank's part of the vocabulary";
    EXPECT_EQ(shifted(tp2 + year("megatron", "2023") + std::vector<std::string>{"runtime.loss=whole"}), 0) << "PyTorch's own loss";
    EXPECT_EQ(shifted(year("fsdp", "2023")), 0) << "PyTorch's own loss";
    EXPECT_EQ(shifted({"strategy.framework=megatron", "runtime.year=2024", "runtime.fused_loss=true"}), 0);
    const Plan plan = plan_of(year("megatron", "2023"));
    EXPECT_TRUE(verify(plan).empty());
    for (const Block& b : plan.blocks) {
        int alive = 0;
        for (const Op& op : b.ops) {
            const auto is = [&](BufferId id) { return plan.buffers[id].name.ends_with(".shifted"); };
            if (const auto* alloc = std::get_if<Alloc>(&op.work)) alive += is(alloc->buffer);
            if (const auto* free = std::get_if<Free>(&op.work)) alive -= is(free->buffer);
            if (alive > 0 && !is_memory_op(op.work)) { EXPECT_EQ(op.name, "loss.sums"); }
        }
        EXPECT_EQ(alive, 0);
    }
}

// Transformer Engine's loss leaves its gradient in the logits; Megatron's own, compiled, has two copies of them in fp32 beside.
TEST(SoftwareOfItsYear, ACompiledLossHoldsTwoCopiesOfTheLogits) {
    const auto copies = [](const char* compiled) {
        const Plan plan = plan_of({"strategy.framework=megatron", "runtime.year=2025", "runtime.fused_loss=true",
                                   std::string("runtime.compiled_loss=") + compiled});
        return bytes_of(plan, ".loss.softmax") + bytes_of(plan, ".loss.log_softmax");
    };
    EXPECT_EQ(copies("false").count, 0);
    EXPECT_EQ(copies("true").count, 8 * 32 * 256);
}

// PyTorch's own loss: of fp32 copies, log-softmax and its gradient in fp32 and that of the logits; of 16-bit logits three times two bytes.
TEST(SoftwareOfItsYear, ALossOnSixteenBitLogitsHoldsSixBytesALogit) {
    const auto held = [](const std::vector<std::string>& fields) {
        const Plan plan = plan_of(std::vector<std::string>{"strategy.framework=fsdp2"} + fields);
        Bytes sum;
        for (const char* name : {".loss.softmax", ".loss.log_softmax", ".loss.fp32.grad", ".loss.bf16.grad", ".logits.grad"})
            sum += bytes_of(plan, name);
        return sum.count;
    };
    EXPECT_EQ(held({}), 14 * 32 * 256);
    EXPECT_EQ(held({"runtime.loss_upcast=false"}), 6 * 32 * 256);
    EXPECT_EQ(held({"runtime.loss_upcast=false", "training.precision=fp32"}), 16 * 32 * 256) << "there are no 16-bit logits";
}

// Megatron batches what a stage sends and receives at one moment; nanotron waits for each tensor before it turns to the next.
TEST(SoftwareOfItsYear, NanotronTransfersOneTensorAfterAnother) {
    const auto exchanges = [](const char* framework, const std::function<bool(const Exchange&, const Op&)>& wanted) {
        const Plan plan = plan_of(pp2 + llama_like +
                                  std::vector<std::string>{std::string("strategy.framework=") + framework, "cluster.devices_per_node=2"});
        return count(plan, BlockKind::exchange, [&](const Op& op) {
            const auto* x = std::get_if<Exchange>(&op.work);
            return x != nullptr && wanted(*x, op);
        });
    };
    const auto joined = [](const Exchange& x, const Op&) { return x.transfers.size() > 1; };
    const auto behind_another = [](const Exchange&, const Op& op) { return !op.deps.empty(); };
    EXPECT_GT(exchanges("megatron", joined), 0);
    EXPECT_EQ(exchanges("megatron", behind_another), 0);
    EXPECT_EQ(exchanges("nanotron", joined), 0);
    EXPECT_EQ(exchanges("nanotron", behind_another), exchanges("megatron", joined));
}

// zero_grad() lets gradients go (PyTorch 2.0): at the loss there are none. Buckets of replicas hold theirs, as older releases did.
TEST(SoftwareOfItsYear, GradientsComeWithTheBackwardPass) {
    const auto let_go = [](const std::vector<std::string>& fields) {
        return count(plan_of(std::vector<std::string>{"strategy.framework=ddp", "cluster.devices_per_node=1"} + fields), BlockKind::other,
                     [](const Op& op) { return std::holds_alternative<Free>(op.work); });
    };
    EXPECT_GT(let_go({}), 0);
    EXPECT_EQ(let_go({}), let_go({"training.global_batch_size=32"})); // once a step
    EXPECT_EQ(let_go({"runtime.year=2022"}), 0);
    EXPECT_EQ(let_go({"cluster.devices_per_node=2"}), 0);
    EXPECT_EQ(let_go({"strategy.framework=megatron"}), 0);
}

// A full bucket goes while the rest of its layer is still being made, and all are reduced once whatever their size.
TEST(SoftwareOfItsYear, BucketsMayBeSmallerThanALayer) {
    const auto reduced = [](const char* limit) {
        const Plan plan = plan_of({"strategy.framework=megatron", "strategy.zero_stage=1", std::string("strategy.bucket_bytes=") + limit});
        std::pair<int, std::int64_t> count_and_bytes{0, 0};
        for (const Block& b : plan.blocks)
            for (const Op& op : b.ops)
                if (const auto* c = std::get_if<Collective>(&op.work); c != nullptr && b.kind == BlockKind::reduce)
                    ++count_and_bytes.first, count_and_bytes.second += c->bytes.count;
        return count_and_bytes;
    };
    const auto large = reduced("1000000000"), small = reduced("1000");
    EXPECT_GT(small.first, 3 * large.first);
    EXPECT_NEAR(static_cast<double>(small.second), static_cast<double>(large.second), 0.1 * static_cast<double>(large.second))
        << "but for padding";
}

// Overlap of what is not there changes nothing: no exchange of experts, no second microbatch under way.
TEST(SoftwareOfItsYear, OverlapOfExpertsWithoutExpertsIsNone) {
    EXPECT_EQ(to_text(plan_of({"strategy.overlap.expert_parallel=true"})), to_text(plan_of({"strategy.overlap.expert_parallel=false"})));
}

// Casts of two linears that read one value: their gradients are summands of one sum, reduced behind the addition.
TEST(SoftwareOfItsYear, TwoReadersCastsInEightBitsAreReducedTogether) {
    const Plan plan = plan_of({"model.parallel_block=true", "model.bias=false", "training.precision=fp8", "runtime.fused_norm=false",
                               "strategy.tensor_parallel=2", "strategy.sequence_parallel=false", "cluster.preset=dgx-h100"});
    EXPECT_TRUE(verify(plan).empty()) << to_text(verify(plan));
}

// torchao's Float8Linear keeps its input in 16 bits and casts it again for the weight gradient; compiled, the 8-bit copy is kept.
TEST(SoftwareOfItsYear, EagerFloat8KeepsItsInputsWide) {
    const auto casts = [](bool compiled, BlockKind kind) {
        const Plan plan = plan_of({"strategy.framework=fsdp2", "training.precision=fp8", "cluster.device=h100-sxm-80gb", "model.layers=2",
                                   compiled ? "strategy.fused=true" : "strategy.fused=false"});
        EXPECT_EQ(verify(plan).size(), 0u) << to_text(verify(plan));
        return count(plan, kind, [](const Op& op) { return op.name.find(".cast.again") != std::string::npos; });
    };
    EXPECT_EQ(casts(true, BlockKind::backward), 0);
    EXPECT_GE(casts(false, BlockKind::backward), 2 * 4) << "of each of the layers' four linears";
    EXPECT_EQ(casts(false, BlockKind::forward), 0);
}

// The norm of a step checked behind it has one summand where one rank has all gradients.
TEST(SoftwareOfItsYear, PostValidationOfOneSummandIsWhole) {
    const Plan plan = plan_of({"strategy.framework=ddp", "strategy.optimizer_sync=post-validation"});
    EXPECT_TRUE(verify(plan).empty()) << to_text(verify(plan));
}

} // namespace
} // namespace orrery::test
