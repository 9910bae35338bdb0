// Does each ZeRO stage hold the bytes its paper says? (Rajbhandari et al., arXiv:1910.02054, figure 1: P = 7.5e9, N = 64.)
#include "tests/laws/mixture.hpp"
#include "tests/laws/scenarios.hpp"

#include "sim/plan/verify.hpp"
#include "sim/report/report.hpp"
#include "sim/scenario/parameters.hpp"

#include <algorithm>
#include <cmath>
#include <tuple>

namespace orrery::laws {
namespace {

Gpt model_of_7_5b(int dp, int zero) {
    Gpt g;
    g.layers = 36;
    g.hidden = 4096;
    g.heads = 32;
    g.sequence = 2048;
    g.micro_batch = 1;
    g.microbatches = 1;
    g.dp = dp;
    g.zero = zero;
    g.flash = true;
    return g;
}

double parameters(const Plan& plan) {
    double n = 0;
    for (const Buffer& b : plan.buffers)
        if (b.role == Role::parameter) n += static_cast<double>(b.bytes.count) / 2;
    return n;
}

double model_states(const Plan& plan) {
    const auto sum = resident(plan, 0);
    double total = 0;
    for (MemoryKind k : {MemoryKind::parameters, MemoryKind::gradients, MemoryKind::optimizer_states})
        if (sum.count(k)) total += sum.at(k);
    return total;
}

TEST(ZeroLaws, BytesOfModelStates) {
    constexpr double N = 64;
    const double P = parameters(lower(model_of_7_5b(1, 0).make()));
    EXPECT_NEAR(P, 7.5e9, 0.02 * 7.5e9);
    const double expected[] = {16 * P, 4 * P + 12 * P / N, 2 * P + 14 * P / N, 16 * P / N};
    const double published_gb[] = {120, 31.4, 16.6, 1.9};
    for (int zero = 0; zero <= 3; ++zero) {
        const double bytes = model_states(lower(model_of_7_5b(64, zero).make()));
        EXPECT_NEAR(bytes, expected[zero], 1e-4 * expected[zero]) << "stage " << zero; // padding of the shards
        EXPECT_NEAR(bytes / P * 7.5e9 / 1e9, published_gb[zero], 0.06) << "stage " << zero;
    }
}

TEST(ZeroLaws, PlansHaveTheParametersThatAreCounted) {
    Scenario s = Gpt{}.make();
    for (const bool bias : {false, true})
        for (const bool norm_bias : {false, true}) {
            s.model.bias = bias;
            s.model.norm_bias = norm_bias;
            for (const bool qk_norm : {false, true}) {
                s.model.attention.qk_norm = qk_norm;
                EXPECT_EQ(parameters(lower(s)), static_cast<double>(parameter_count(s.model))) << bias << norm_bias << qk_norm;
            }
        }
}

TEST(ZeroLaws, MomentsOfSixteenBitsTakeFourBytesLess) {
    constexpr double N = 64;
    for (int zero = 0; zero <= 3; ++zero) {
        Scenario s = model_of_7_5b(64, zero).make();
        const double wide = model_states(lower(s)), P = parameters(lower(s));
        s.training.moment_dtype = DType::bf16;
        EXPECT_NEAR(wide - model_states(lower(s)), 4 * P / (zero == 0 ? 1 : N), 1e-4 * wide) << "stage " << zero;
        s.training.precision = DType::bf16;
        s.training.master_remainders = true; // and of masters two more
        EXPECT_NEAR(wide - model_states(lower(s)), 6 * P / (zero == 0 ? 1 : N), 1e-4 * wide) << "stage " << zero;
    }
}

// DeepSpeed's step on 7.5 billion parameters in this type.
Scenario deepspeeds(int dp, int zero, DType type) {
    Scenario s = model_of_7_5b(dp, zero).make();
    s.strategy.framework = Framework::deepspeed;
    s.training.precision = s.training.gradient_dtype = type;
    return s;
}

// The most bytes of a step's own copies of gradients that are there at once, and how many updates it makes.
std::pair<double, int> copies_of_gradients(const Scenario& s) {
    const Plan plan = lower(s);
    EXPECT_TRUE(verify(plan).empty()) << to_text(verify(plan));
    double held = 0, most = 0;
    int updates = 0;
    for (const Block& block : plan.blocks)
        for (const Op& op : block.ops) {
            const auto* alloc = std::get_if<Alloc>(&op.work);
            const auto* free = std::get_if<Free>(&op.work);
            updates += std::holds_alternative<OptimizerStep>(op.work);
            if (!alloc && !free) continue;
            const Buffer& b = plan.buffers[alloc ? alloc->buffer : free->buffer];
            if (b.role != Role::step_gradients) continue;
            held += (alloc ? 1 : -1) * static_cast<double>(b.bytes.count);
            most = std::max(most, held);
        }
    EXPECT_EQ(held, 0) << "all of it is gone behind the step";
    return {most, updates};
}

// DeepSpeed's step flattens the gradients it owns in 16 bits and again in 32: six bytes each, whichever type of 16 bits they have; two more
// of those that stage 1 copies out of its bucket.
TEST(ZeroLaws, DeepSpeedsStepHoldsItsGradientsAnew) {
    const double P = parameters(lower(model_of_7_5b(1, 0).make()));
    for (const DType type : {DType::bf16, DType::fp16})
        for (const int zero : {1, 2, 3}) {
            const auto [held, updates] = copies_of_gradients(deepspeeds(64, zero, type));
            EXPECT_NEAR(held, (zero == 1 ? 8 : 6) * P / 64, 1e-3 * P) << "stage " << zero;
            EXPECT_EQ(updates, 1) << "stage " << zero;
        }
    Scenario narrow = deepspeeds(64, 2, DType::bf16);
    narrow.training.master_weights = false;
    EXPECT_NEAR(copies_of_gradients(narrow).first, 2 * P / 64, 1e-3 * P) << "nothing is wider than they are";
    Scenario other = deepspeeds(64, 2, DType::bf16);
    other.strategy.framework = Framework::nanotron;
    EXPECT_EQ(copies_of_gradients(other).first, 0);
}

// Megatron's step makes fp32 gradients of 16-bit ones: 20 bytes a parameter are there while it steps, 4 + 16 / N where replicas share the
// states (Megatron-Core's page on the distributed optimizer). Until 2021 they stay for the whole of the next step.
TEST(ZeroLaws, MegatronsStepWidensSixteenBitGradients) {
    const double P = parameters(lower(model_of_7_5b(1, 0).make()));
    const auto megatrons = [](int zero, DType gradients, int year) {
        Scenario s = deepspeeds(64, zero, DType::fp16);
        s.strategy.framework = Framework::megatron;
        s.training.gradient_dtype = gradients;
        s.runtime.year = year;
        return s;
    };
    for (const int zero : {0, 1}) {
        const Scenario s = megatrons(zero, DType::fp16, 2024);
        const double own = zero == 0 ? P : P / 64;
        EXPECT_NEAR(copies_of_gradients(s).first, 4 * own, 1e-3 * P) << "stage " << zero;
        EXPECT_NEAR(model_states(lower(s)), 4 * P + 12 * own, 1e-3 * P) << "none of them stays";
        EXPECT_EQ(copies_of_gradients(megatrons(zero, DType::fp32, 2024)).first, 0) << "they are fp32 themselves";
    }
    const Scenario early = megatrons(0, DType::fp16, 2021);
    EXPECT_EQ(copies_of_gradients(early).first, 0);
    EXPECT_NEAR(model_states(lower(early)), 20 * P, 1e-3 * P);
    Scenario precise = megatrons(1, DType::fp16, 2026);
    precise.training.moment_dtype = DType::fp16;
    EXPECT_EQ(copies_of_gradients(precise).first, 0) << "the optimizer that keeps 16-bit moments reads gradients as they are";
}

// Of DeepSpeed's ZeRO-3 each gather is followed by one copy of what was gathered, and each reduction by three ahead of it, on the
// collective's own queue: with many microbatches and two sharding ranks too. Of others none.
TEST(ZeroLaws, DeepSpeedsStageThreeCopiesWithItsCollectives) {
    for (const char* framework : {"deepspeed", "fsdp"})
        for (const int zero : {2, 3}) {
            Gpt g = model_of_7_5b(2, zero);
            g.microbatches = 3;
            Scenario s = g.make();
            s.strategy.framework = named<Framework>(framework).value();
            s.runtime.year = 2024;
            const Plan plan = lower(s);
            EXPECT_TRUE(verify(plan).empty()) << to_text(verify(plan));
            const bool copies = zero == 3 && s.strategy.framework == Framework::deepspeed;
            for (const Block& block : plan.blocks) {
                double copied = 0, sent = 0;
                for (const Op& op : block.ops) {
                    const auto* p = std::get_if<Pointwise>(&op.work);
                    const auto* c = std::get_if<Collective>(&op.work);
                    const bool travels = op.phase == Phase::param_gather || op.phase == Phase::gradient_reduce;
                    if (travels && c) sent += static_cast<double>(c->times * c->bytes.count);
                    if (!travels || !p || p->kind != PointwiseKind::copy) continue;
                    if (!copies && op.queue == compute_queue) continue; // FSDP's own kernels around a unit's gradients
                    EXPECT_NE(op.queue, compute_queue) << op.name;
                    copied += 2.0 * static_cast<double>(p->elements);
                }
                const double times = block.kind == BlockKind::gather ? 1 : block.kind == BlockKind::reduce ? 3 : 0;
                EXPECT_NEAR(copied, copies ? times * sent : 0, 1e-3 * sent) << block.name;
            }
        }
}

// Stage 3 steps on a sub-group of 1e9 elements at a time, which ends with the unit that fills it: copies are of one sub-group, and states
// of each lie apart. More ranks never need more for them.
TEST(ZeroLaws, DeepSpeedsStageThreeStepsOnSubGroups) {
    const double P = parameters(lower(model_of_7_5b(1, 0).make()));
    double before = 1e30;
    for (const int dp : {2, 4, 8, 16}) {
        const Scenario s = deepspeeds(dp, 3, DType::bf16);
        const auto [held, updates] = copies_of_gradients(s);
        const double own = P / dp, unit = P / 36 / dp; // about: 36 layers
        EXPECT_EQ(updates, static_cast<int>(std::ceil(own / (1e9 + unit)))) << dp;
        EXPECT_LE(held, 6 * std::min(own * 1.001, 1e9 + 2 * unit)) << dp;
        EXPECT_GE(held, 6 * std::min(own * 0.999, 1e9)) << dp;
        EXPECT_LE(held, before * 1.001) << dp;
        EXPECT_NEAR(model_states(lower(s)), 16 * own, 1e-4 * 16 * own) << dp;
        before = held;
    }
}

// While it steps, Transformer Engine's Adam holds 16-bit moments in fp32: eight bytes a parameter of its own, where all there was is one
// group.
TEST(ZeroLaws, MegatronsStepWidensMomentsOfSixteenBits) {
    for (const char* framework : {"megatron", "deepspeed"}) {
        Scenario s = model_of_7_5b(64, 1).make();
        s.strategy.framework = named<Framework>(framework).value();
        s.training.moment_dtype = DType::bf16;
        const Plan plan = lower(s);
        double held = 0, states = 0;
        for (const Buffer& b : plan.buffers) {
            if (b.role == Role::wide_moments) held += static_cast<double>(b.bytes.count);
            if (b.role == Role::first_moment || b.role == Role::second_moment) states += static_cast<double>(b.bytes.count);
        }
        EXPECT_GT(states, 0);
        EXPECT_EQ(held, std::string(framework) == "megatron" ? 2 * states : 0) << framework;
    }
}

// Payload of the data-parallel collectives of a step, as nccl-tests counts it, by kind.
std::map<CollectiveKind, double> data_parallel_bytes(const Plan& plan) {
    std::map<CollectiveKind, double> sum;
    for (const Action& a : plan.programs[0].actions) {
        const Block& b = plan.blocks[a.block];
        for (std::int32_t i = a.first; i < a.last; ++i)
            if (const auto* c = std::get_if<Collective>(&b.ops[i].work))
                if (plan.communicators[c->comm].name.rfind("dp.", 0) == 0) sum[c->kind] += static_cast<double>(c->bytes.count);
    }
    return sum;
}

TEST(ZeroLaws, VolumeOfAStep) {
    const double gradients = 2 * parameters(lower(model_of_7_5b(1, 0).make()));
    EXPECT_NEAR(data_parallel_bytes(lower(model_of_7_5b(64, 0).make()))[CollectiveKind::all_reduce], gradients, 1e-4 * gradients);
    for (int zero : {1, 2}) {
        auto bytes = data_parallel_bytes(lower(model_of_7_5b(64, zero).make()));
        EXPECT_NEAR(bytes[CollectiveKind::reduce_scatter], gradients, 1e-4 * gradients);
        EXPECT_NEAR(bytes[CollectiveKind::all_gather], gradients, 1e-4 * gradients);
    }
    // ZeRO-3 gathers once more, for the backward pass: 1.5 times the volume.
    auto bytes = data_parallel_bytes(lower(model_of_7_5b(64, 3).make()));
    EXPECT_NEAR(bytes[CollectiveKind::reduce_scatter], gradients, 1e-4 * gradients);
    EXPECT_GT(bytes[CollectiveKind::all_gather], 1.9 * gradients);
    EXPECT_LE(bytes[CollectiveKind::all_gather], 2.0001 * gradients);
}

TEST(ZeroLaws, AccumulationChangesTheVolumeOfShardedGradientsAlone) {
    for (int zero = 0; zero <= 3; ++zero) {
        Gpt g = model_of_7_5b(8, zero);
        g.layers = 4;
        const auto once = data_parallel_bytes(lower(g.make()));
        g.microbatches = 4;
        const auto accumulated = data_parallel_bytes(lower(g.make()));
        const CollectiveKind kind = zero == 0 ? CollectiveKind::all_reduce : CollectiveKind::reduce_scatter;
        EXPECT_DOUBLE_EQ(accumulated.at(kind), once.at(kind) * (zero >= 2 ? 4 : 1)) << "stage " << zero;
    }
}

// FSDP's no_sync: whole gradients from the first microbatch on, one reduction a step; weights are gathered as before.
TEST(ZeroLaws, WithoutSyncGradientsStayWholeAndAreReducedOnce) {
    for (const char* framework : {"fsdp", "fsdp2"}) {
        Gpt g = model_of_7_5b(8, 3);
        g.layers = 4;
        g.microbatches = 4;
        g.framework = framework;
        const Scenario each = g.make();
        g.extra_strategy += R"(, "gradient_sync": "no_sync")";
        const Scenario once = g.make();
        const Plan plan = lower(once), reduced = lower(each);
        EXPECT_EQ(verify(plan).size(), 0u) << to_text(verify(plan));
        const auto volume = data_parallel_bytes(plan), often = data_parallel_bytes(reduced);
        EXPECT_DOUBLE_EQ(volume.at(CollectiveKind::reduce_scatter), often.at(CollectiveKind::reduce_scatter) / 4) << framework;
        EXPECT_DOUBLE_EQ(volume.at(CollectiveKind::all_gather), often.at(CollectiveKind::all_gather)) << framework;
        const double whole = parameters(plan) * bytes_per_element(once.training.gradient_dtype);
        EXPECT_NEAR(resident(plan, 0).at(MemoryKind::gradients), whole, 1e-3 * whole) << framework;
        PredictOptions unfolded;
        unfolded.simulate.fold = false;
        const double time = predict(once).report.step_time_s;
        EXPECT_NEAR(predict(once, unfolded).report.step_time_s, time, 1e-9 * time);
        EXPECT_LT(time, predict(each).report.step_time_s) << framework << ": three reductions fewer";
    }
}

// The last microbatch is synchronised: where there is one alone no gradients stay whole, and the same plan runs.
TEST(ZeroLaws, WithoutSyncOneMicrobatchIsSynchronised) {
    for (const char* framework : {"fsdp", "fsdp2"}) {
        Gpt g = model_of_7_5b(8, 3);
        g.layers = 4;
        g.microbatches = 1;
        g.framework = framework;
        const Scenario each = g.make();
        g.extra_strategy += R"(, "gradient_sync": "no_sync")";
        const Scenario once = g.make();
        EXPECT_EQ(to_text(lower(once)), to_text(lower(each))) << framework;
        EXPECT_EQ(resident(lower(once), 0), resident(lower(each), 0)) << framework;
    }
}

// FSDP reduces in what it is told to, and keeps a shard's gradient in the dtype of the parameters: fp32, or 16 bits without masters.
TEST(ZeroLaws, ShardsOfFsdpsGradientsHaveTheDtypeOfItsParameters) {
    for (const char* framework : {"fsdp", "fsdp2"}) {
        Gpt g = model_of_7_5b(8, 3);
        g.framework = framework;
        Scenario s = g.make();
        const double P = parameters(lower(s));
        for (const DType reduced : {DType::bf16, DType::fp32})
            for (const bool master : {true, false}) {
                s.training.gradient_dtype = reduced;
                s.training.master_weights = master;
                const Plan plan = lower(s);
                EXPECT_EQ(verify(plan).size(), 0u) << framework << to_text(verify(plan));
                EXPECT_NEAR(resident(plan, 0).at(MemoryKind::gradients), (master ? 4 : 2) * P / 8, 1e-4 * P) << framework;
            }
    }
}

// FSDP's shards are fp32, without a copy in 16 bits: 4 bytes of parameters, 8 of moments and 4 of gradients. A gather casts its shard (4
// bytes read, 2 written for each element) and leaves the parameters alone behind it.
TEST(ZeroLaws, FsdpHoldsItsParametersOnceAndCastsThemForEachGather) {
    constexpr double N = 8;
    for (const char* framework : {"fsdp", "fsdp2", "torchtitan", "composer"})
        for (const int zero : {2, 3}) {
            Gpt g = model_of_7_5b(8, zero);
            g.layers = 4, g.framework = framework;
            const Scenario s = g.make();
            const Plan plan = lower(s);
            EXPECT_EQ(verify(plan).size(), 0u) << to_text(verify(plan));
            const double P = parameters(plan);
            const auto held = resident(plan, 0);
            EXPECT_NEAR(held.at(MemoryKind::parameters), 4 * P / N, 1e-4 * P) << framework;
            EXPECT_NEAR(held.at(MemoryKind::optimizer_states), 8 * P / N, 1e-4 * P) << framework;
            EXPECT_NEAR(model_states(plan), 16 * P / N, 4e-4 * P) << framework;
            for (const Block& block : plan.blocks) {
                if (!block.name.starts_with("gather:")) continue;
                double read = 0, written = 0, whole = 0;
                for (const Op& op : block.ops) {
                    const auto* cast = std::get_if<Pointwise>(&op.work);
                    if (cast && cast->kind == PointwiseKind::cast) {
                        read += static_cast<double>(plan.buffers[op.in[0]].bytes.count);
                        written += static_cast<double>(plan.buffers[op.out[0]].bytes.count);
                        EXPECT_NE(op.queue, compute_queue) << "no computation waits for it";
                    }
                    if (const auto* c = std::get_if<Collective>(&op.work)) whole = static_cast<double>(c->bytes.count);
                }
                EXPECT_EQ(written, whole / N) << block.name;
                EXPECT_EQ(read, 2 * written) << block.name;
                EXPECT_EQ(static_cast<double>(left_allocated(plan, block)), whole) << block.name << " leaves what is gathered alone";
            }
            Scenario narrow = s;
            narrow.training.master_weights = false;
            EXPECT_NEAR(resident(lower(narrow), 0).at(MemoryKind::parameters), 2 * P / N, 1e-4 * P) << "parameters of 16 bits stay so";
        }
}

// How often a step's blocks run an op like this, and on how many elements.
struct Run {
    int ops = 0;
    double elements = 0;
};
template <class F> Run run_where(const Plan& plan, PointwiseKind kind, F&& counts) {
    Run r;
    each_op(plan, 0, [&](const Block& b, const Op& op) {
        if (const auto* p = std::get_if<Pointwise>(&op.work); p && p->kind == kind && counts(b, op))
            ++r.ops, r.elements += static_cast<double>(p->elements);
    });
    return r;
}
Run run_of(const Plan& plan, PointwiseKind kind, BlockKind where) {
    return run_where(plan, kind, [&](const Block& b, const Op&) { return b.kind == where; });
}

// zero_grad sets None from PyTorch 2.0 on: of four reductions the first leaves its sum and three are added to it. Before, all four are,
// to zeros.
TEST(ZeroLaws, FsdpsFirstReductionOfAStepIsAddedToNothing) {
    for (const char* framework : {"fsdp", "fsdp2"})
        for (const DType reduced : {DType::bf16, DType::fp32}) {
            Gpt g = model_of_7_5b(8, 3);
            g.layers = 4, g.microbatches = 4, g.framework = framework;
            Scenario now = g.make();
            now.training.gradient_dtype = reduced;
            Scenario before = now;
            now.runtime.year = 2024, before.runtime.year = 2022;
            const Plan anew = lower(now), to_zeros = lower(before);
            EXPECT_EQ(verify(anew).size(), 0u) << to_text(verify(anew));
            const double shard = parameters(anew) / 8, padding = 1e-4 * shard;
            EXPECT_NEAR(run_of(anew, PointwiseKind::add, BlockKind::reduce).elements, 3 * shard, 3 * padding) << framework;
            EXPECT_NEAR(run_of(to_zeros, PointwiseKind::add, BlockKind::reduce).elements, 4 * shard, 4 * padding) << framework;
            EXPECT_EQ(run_of(anew, PointwiseKind::zero, BlockKind::other).ops, 0) << framework;
            EXPECT_NEAR(run_of(to_zeros, PointwiseKind::zero, BlockKind::other).elements, shard, padding) << framework;
        }
}

// The sum of a matrix's gradient and what was there: two bytes twice read and once written for each of its elements, of each microbatch.
Run sums_of_weights(const Plan& plan) {
    return run_where(plan, PointwiseKind::add,
                     [&](const Block&, const Op& op) { return plan.buffers[op.in[0]].role == Role::gradient_summand; });
}

// Autograd's products write gradients that are not there yet: each microbatch's under FSDP, which reduces them; the first one's of a step
// elsewhere, which is the only one here or is not told from the others.
TEST(ZeroLaws, GradientsThatAreNotThereAreWrittenByTheirProducts) {
    for (const auto& [framework, zero, microbatches, sums] :
         {std::tuple{"fsdp", 3, 4, false}, {"fsdp", 2, 1, false}, {"fsdp2", 3, 4, false}, {"ddp", 0, 1, false}, {"ddp", 0, 4, true}}) {
        Gpt g = model_of_7_5b(8, zero);
        g.layers = 4, g.microbatches = microbatches, g.framework = framework, g.tied = false;
        const Scenario s = g.make();
        const Plan plan = lower(s);
        EXPECT_EQ(verify(plan).size(), 0u) << to_text(verify(plan));
        EXPECT_EQ(sums_of_weights(plan).ops > 0, sums) << framework << " " << microbatches;
        if (sums) continue;
        // Each comes right ahead of the op that makes it, so that a layer's are not all there when its backward pass begins.
        for (const Block& b : plan.blocks) {
            if (b.kind != BlockKind::backward) continue;
            for (std::int32_t i = 0; i < b.ops.next_id(); ++i) {
                const auto* alloc = std::get_if<Alloc>(&b.ops[i].work);
                if (!alloc || plan.buffers[alloc->buffer].role != Role::gradient) continue;
                std::int32_t next = i + 1;
                while (is_memory_op(b.ops[next].work)) ++next;
                const std::vector<BufferId>& made = b.ops[next].out;
                EXPECT_NE(std::find(made.begin(), made.end(), alloc->buffer), made.end()) << plan.buffers[alloc->buffer].name;
            }
            EXPECT_EQ(std::count_if(b.ops.begin(), b.ops.end(),
                                    [&](const Op& op) {
                                        const auto* alloc = std::get_if<Alloc>(&op.work);
                                        return alloc && plan.buffers[alloc->buffer].role == Role::gradient;
                                    }),
                      std::count_if(plan.buffers.begin(), plan.buffers.end(), [](const Buffer& x) { return x.role == Role::gradient; }));
        }
    }
}

} // namespace
} // namespace orrery::laws
