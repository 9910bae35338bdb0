// Does each ZeRO stage hold the bytes its paper says? (Rajbhandari et al., arXiv:1910.02054, figure 1: P = 7.5e9, N = 64.)
#include "tests/laws/mixture.hpp"
#include "tests/laws/scenarios.hpp"

#include "sim/plan/verify.hpp"
#include "sim/report/report.hpp"

#include <algorithm>
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

// FSDP reduces in what it is told to, and keeps a shard's gradient in the dtype of the parameters, which are fp32.
TEST(ZeroLaws, ShardsOfFsdpsGradientsHaveTheDtypeOfItsParameters) {
    Gpt g = model_of_7_5b(8, 3);
    g.framework = "fsdp";
    Scenario s = g.make();
    const double P = parameters(lower(s));
    for (const DType reduced : {DType::bf16, DType::fp32})
        for (const bool master : {true, false}) {
            s.training.gradient_dtype = reduced;
            s.training.master_weights = master;
            const double each = master ? 4 : bytes_per_element(reduced);
            EXPECT_NEAR(resident(lower(s), 0).at(MemoryKind::gradients), each * P / 8, 1e-4 * P);
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
