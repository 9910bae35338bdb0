// The cost of issuing ops for the host: launches, calls of Python modules, and what of them a captured graph takes away.
#include "fixture.hpp"

namespace orrery {
namespace {

using namespace cost_test;

Op op_of(Work work, bool eager = false) {
    Op op;
    op.work = std::move(work);
    op.eager = eager;
    return op;
}

Linear linear(std::int64_t groups, DType dtype, Direction d = Direction::forward) {
    return {d, 1024, 1536, 2048, groups, dtype, DType::bf16, false};
}

Scenario megatron(bool graphs, int year = 2025) {
    Scenario s = on_device("h100-sxm-80gb");
    s.strategy.framework = Framework::megatron;
    s.runtime.year = year;
    s.runtime.cuda_graphs = graphs;
    return s;
}

double host_us(const Scenario& s, const Op& op, int kernels = 1) { return microseconds(Costs(s).model.host(op, kernels)); }

TEST(HostCost, AModuleCostsMoreThanItsLaunches) {
    const double launch = microseconds(Costs(megatron(false)).model.launch());
    EXPECT_GT(host_us(megatron(false), op_of(linear(1, DType::bf16))), 10 * launch);
    EXPECT_EQ(host_us(megatron(false, 2021), op_of(linear(1, DType::bf16)), 3), 3 * launch); // no modules of Transformer Engine yet
    // The input gradient's call makes the weight gradient too.
    EXPECT_EQ(host_us(megatron(false), op_of(linear(1, DType::bf16, Direction::weight_gradient))), launch);
}

// Where counts of rows decide what is launched, graphs hold parts of a layer, each called from Python; else they hold all of it.
TEST(HostCost, ACapturedRegionIsACall) {
    Scenario s = megatron(true);
    const Op attention =
        op_of(Attention{Direction::forward, 1, 1024, 1024, 16, 16, 128, 128, true, 0.5, DType::bf16, AttentionKernel::cudnn, 0.0});
    const Op router = op_of(Router{Direction::backward, 1024, 8, 2, false, 1, true});
    EXPECT_LT(host_us(s, attention), 10);
    s.model.moe.emplace();
    EXPECT_GT(host_us(s, attention), 100);
    EXPECT_GT(host_us(s, router), 100);
    EXPECT_LT(host_us(s, op_of(linear(1, DType::bf16))), 10) << "inside a region";
    Scenario eager = s;
    eager.runtime.cuda_graphs = false;
    EXPECT_LT(host_us(s, attention), host_us(eager, attention));
    s.model.moe->capacity_factor = 1; // no counts to wait for
    EXPECT_LT(host_us(s, attention), 10);
}

TEST(HostCost, ACollectiveIsACallOfPython) {
    const Op reduce = op_of(Collective{CollectiveKind::reduce_scatter, 0, Bytes{1 << 26}, DType::bf16});
    EXPECT_GT(host_us(megatron(false), reduce), 50);
    EXPECT_LT(host_us(megatron(true), reduce), 1);
    EXPECT_LT(host_us(megatron(false, 2021), reduce), 10);
    Scenario within = megatron(false); // the module of the product issues it
    within.strategy.tensor_parallel = 2;
    within.strategy.overlap.tensor_parallel = true;
    EXPECT_GT(host_us(within, reduce), 50); // Megatron's own default: stated or not, it is a call
    within.runtime.tensor_parallel_buffers = true;
    EXPECT_LT(host_us(within, reduce), 10);
}

// Transformer Engine's ring attention is one module, whatever the number of ranks.
TEST(HostCost, ARingIsOneModule) {
    const Scenario s = megatron(false);
    Attention own{Direction::forward, 1, 1024, 1024, 16, 16, 128, 128, true, 0.5, DType::bf16, AttentionKernel::cudnn, 0.0};
    Attention other = own;
    other.behind = 1;
    EXPECT_LT(host_us(s, op_of(other)), 0.5 * host_us(s, op_of(own)));
    EXPECT_GT(host_us(s, op_of(other)), 50) << "a call into the library all the same";
    EXPECT_LT(host_us(s, op_of(Pointwise{PointwiseKind::merge, Direction::forward, 1 << 20, true})), 10);
}

TEST(HostCost, AnAllToAllIsADispatchWhereThereAreExperts) {
    const Op exchange = op_of(Collective{CollectiveKind::all_to_all, 0, Bytes{1 << 26}, DType::bf16}),
             gather = op_of(Collective{CollectiveKind::all_gather, 0, Bytes{1 << 26}, DType::bf16});
    Scenario dense = megatron(false), mixture = dense;
    mixture.model.moe.emplace();
    EXPECT_EQ(host_us(dense, exchange), host_us(dense, gather)) << "Ulysses";
    EXPECT_GT(host_us(mixture, exchange), host_us(mixture, gather));
}

TEST(HostCost, EightBitsAndExpertsAddTheirOwn) {
    const Scenario s = megatron(false);
    const double one = host_us(s, op_of(linear(8, DType::bf16))), two = host_us(s, op_of(linear(16, DType::bf16)));
    EXPECT_GT(two, one);
    EXPECT_GT(host_us(s, op_of(linear(1, DType::fp8))), host_us(s, op_of(linear(1, DType::bf16))));
    EXPECT_GT(host_us(s, op_of(linear(16, DType::fp8))) - host_us(s, op_of(linear(8, DType::fp8))), two - one);
}

TEST(HostCost, AGraphHoldsAllButWhatTheHostHadToWaitFor) {
    const Op expert = op_of(linear(8, DType::bf16), true), router = op_of(Router{Direction::forward, 4096, 128, 8, false, 1, true});
    EXPECT_LT(host_us(megatron(true), router), 1);
    EXPECT_EQ(host_us(megatron(true), expert), host_us(megatron(false), expert));
}

// An op in the epilogue of another kernel is no kernel of its own: no start, no call, and part of the traffic is hidden.
TEST(HostCost, AnEpilogueCostsPartOfItsTraffic) {
    Pointwise act{PointwiseKind::swiglu, Direction::forward, 1 << 20, true}, twice = act, inside = act, both = act;
    twice.elements = both.elements = 1 << 21;
    inside.epilogue = both.epilogue = true;
    const Costs c(megatron(false));
    const double traffic = c.compute_us(twice) - c.compute_us(act);
    EXPECT_GT(traffic, 0);
    EXPECT_NEAR(c.compute_us(inside), 0.6 * traffic, 1e-3);
    EXPECT_NEAR(c.compute_us(both), 2 * c.compute_us(inside), 1e-3);
    EXPECT_EQ(host_us(megatron(false), op_of(inside), 0), 0);
}

Scenario zero_three(int ranks = 8) {
    Scenario s = on_device("h100-sxm-80gb");
    s.strategy.framework = Framework::deepspeed;
    s.strategy.zero_stage = 3;
    s.strategy.data_parallel = ranks;
    s.strategy.fused = false;
    s.strategy.bucket_bytes = Bytes{2 << 24};
    s.training.gradient_dtype = DType::bf16;
    s.runtime.year = 2025;
    return s;
}

// Hooks of DeepSpeed's ZeRO-3 run around modules without parameters too: those of attention and of an activation, and containers. What is
// gathered costs more, and one rank gathers nothing.
TEST(HostCost, HooksRunAroundEveryModule) {
    const Scenario s = zero_three();
    Scenario earlier = s;
    earlier.runtime.year = 2021;
    const Op product = op_of(linear(1, DType::bf16)), norm = op_of(Norm{Direction::forward, NormKind::rmsnorm, 1024, 2048, false}),
             heads = op_of(Norm{Direction::forward, NormKind::rmsnorm, 1024, 128, false, 8}),
             act = op_of(Pointwise{PointwiseKind::swiglu, Direction::forward, 1 << 20, false}),
             sum = op_of(Pointwise{PointwiseKind::add, Direction::forward, 1 << 20, false});
    const double launch = host_us(s, sum), module = host_us(s, norm) - launch;
    EXPECT_EQ(launch, host_us(earlier, sum));
    EXPECT_EQ(launch, host_us(earlier, product));
    EXPECT_GT(module, 100);
    EXPECT_NEAR(host_us(s, act) - launch, 2 * module, 1e-3) << "its own and the MLP's";
    EXPECT_NEAR(host_us(s, heads) - launch, 2 * module, 1e-3) << "queries' and keys'";
    EXPECT_GT(host_us(s, product) - launch, 2 * module);
    EXPECT_LT(host_us(zero_three(1), product), host_us(s, product));
    EXPECT_EQ(host_us(zero_three(1), norm), host_us(s, norm)) << "small parameters stay";
}

// Autograd functions with a setup_context take the forward pass longer, once a module.
TEST(HostCost, HooksOf2026TakeLongerForward) {
    Scenario later = zero_three();
    later.runtime.year = 2026;
    const auto more = [&](const Op& op) { return host_us(later, op) - host_us(zero_three(), op); };
    const double module = more(op_of(Norm{Direction::forward, NormKind::rmsnorm, 1024, 2048, false}));
    EXPECT_GT(module, 50);
    EXPECT_NEAR(more(op_of(linear(1, DType::bf16))), module, 1e-3);
    EXPECT_NEAR(more(op_of(Pointwise{PointwiseKind::swiglu, Direction::forward, 1 << 20, false})), 2 * module, 1e-3);
    EXPECT_NEAR(more(op_of(linear(1, DType::bf16, Direction::input_gradient))), 0, 1e-3);
}

TEST(HostCost, HooksOfAWeightsGradientFillBuckets) {
    const auto us = [](const Scenario& s, Direction d) { return host_us(s, op_of(linear(1, DType::bf16, d))); };
    const Scenario small = zero_three();
    Scenario large = small;
    large.strategy.bucket_bytes = Bytes{1 << 30};
    EXPECT_LT(us(large, Direction::weight_gradient), us(small, Direction::weight_gradient));
    EXPECT_EQ(us(large, Direction::input_gradient), us(small, Direction::input_gradient));
    EXPECT_GT(us(large, Direction::weight_gradient), 50) << "a gradient is copied into the bucket all the same";
}

// The host cuts a gradient, and what was gathered with others, for each rank in turn: two of them are in the other figures.
TEST(HostCost, HooksCutForEachRank) {
    const auto us = [](int ranks, const Op& op) { return host_us(zero_three(ranks), op); };
    const Op weight = op_of(linear(1, DType::bf16, Direction::weight_gradient)),
             bias = op_of(Pointwise{PointwiseKind::bias, Direction::backward, 1 << 20, false}), joined = op_of(linear(1, DType::bf16)),
             alone = op_of(Linear{Direction::forward, 1024, 8192, 8192, 1, DType::bf16, DType::bf16, false});
    for (const Op& op : {weight, bias, joined}) {
        const double each = (us(64, op) - us(2, op)) / 62;
        EXPECT_GT(each, 5);
        EXPECT_NEAR(us(512, op) - us(64, op), 448 * each, 1e-3);
    }
    EXPECT_EQ(us(512, alone), us(2, alone)) << "more elements than are asked for ahead";
    Scenario exchanged = zero_three(64); // matrices are cut on the device, vectors by the exchange
    exchanged.strategy.quantized_gradients = QuantizedGradients::int4;
    EXPECT_LT(host_us(exchanged, weight), us(64, weight) - 500);
    EXPECT_LT(host_us(exchanged, bias), us(64, bias) - 500);
    Op exchange = op_of(Pointwise{PointwiseKind::by_owner, Direction::forward, 1 << 20, false});
    exchange.phase = Phase::gradient_reduce, exchange.modules = 1;
    const double one = host_us(exchanged, exchange);
    exchange.modules = 3;
    EXPECT_GT(host_us(exchanged, exchange), one + 2 * 62 * 2);
    EXPECT_NEAR(host_us(exchanged, exchange) - one, 2 * (one - host_us(zero_three(64), exchange)), 1e-3);
    Scenario near = zero_three(64); // the backward pass gathers from 8
    near.strategy.secondary_shard_size = 8;
    const Op back = op_of(linear(1, DType::bf16, Direction::input_gradient));
    EXPECT_EQ(host_us(near, back), us(8, back));
    EXPECT_EQ(host_us(near, joined), us(64, joined));
}

// The step goes over parameters, and calls a collective for each of those that are gathered behind it.
TEST(HostCost, AStepGoesOverParameters) {
    OptimizerStep few{OptimizerKind::adam, 1 << 24, true, false}, many = few;
    few.matrices = 10, many.matrices = 300;
    const Scenario s = zero_three();
    EXPECT_NEAR(host_us(s, op_of(many)) - host_us(s, op_of(few)), 290 * 64, 1);
    EXPECT_EQ(host_us(megatron(false), op_of(many)), host_us(megatron(false), op_of(few)));
    Collective gather{CollectiveKind::all_gather, 0, Bytes{1 << 14}, DType::bf16};
    gather.times = 100;
    Op apart = op_of(gather), layer = apart;
    apart.phase = Phase::optimizer;
    EXPECT_GT(host_us(s, apart), host_us(s, layer) + 100 * 50);
}

// PEFT's A and B are gathered with the weight beside them; with A go the dropout and the module that calls all.
TEST(HostCost, AnAdaptersHooksCostLessThanAWeights) {
    Scenario s = zero_three();
    s.model.trainable.lora = true;
    s.model.trainable.rank = 16;
    const auto op = [](std::int64_t n, std::int64_t k, Direction d) {
        return op_of(Linear{d, 1024, n, k, 1, DType::bf16, DType::bf16, false});
    };
    const auto of = [&](std::int64_t n, std::int64_t k, Direction d = Direction::forward) {
        Op made = op(n, k, d);
        made.of_adapter = n == 16;
        return host_us(s, made);
    };
    const Op router = op(16, 2048, Direction::forward); // with as many experts as the adapters' rank
    EXPECT_EQ(host_us(s, router), of(2048, 2048));
    for (const Direction d : {Direction::forward, Direction::input_gradient}) {
        const double weight = of(2048, 2048, d), a = of(16, 2048, d), b = of(2048, 16, d);
        EXPECT_LT(b, 0.5 * weight);
        EXPECT_LT(a, weight);
        EXPECT_GT(a, b);
    }
    EXPECT_LT(of(16, 2048, Direction::weight_gradient), of(2048, 2048, Direction::weight_gradient)) << "it fills no bucket";
}

// A mixture that is one module to the hooks gathers the weights of all its experts at once.
TEST(HostCost, HooksOfAMixtureGatherAllExperts) {
    Scenario loop = zero_three(), grouped = loop;
    for (Scenario* s : {&loop, &grouped}) s->model.moe.emplace();
    grouped.runtime.year = 2026;
    const Op few = op_of(linear(8, DType::bf16)), many = op_of(linear(64, DType::bf16)), one = op_of(linear(1, DType::bf16));
    EXPECT_GT(host_us(loop, many), host_us(loop, few));
    EXPECT_LT(host_us(loop, many), 64 * host_us(loop, one));
    EXPECT_EQ(host_us(grouped, many), host_us(grouped, few)) << "experts are one parameter";
    Scenario first = loop, second = loop; // the experts' first linears read the hidden size, and with them all are gathered
    first.model.hidden_size = 2048, second.model.hidden_size = 1536;
    EXPECT_GT(host_us(first, few), host_us(second, few) + 200);
    EXPECT_NEAR(host_us(second, many) - host_us(second, few), host_us(first, many) - host_us(first, few), 1e-3);
}

// Calls, hooks, captured regions and exchanges are the host's: at half its speed they take twice as long. A stated launch is its own.
TEST(HostCost, FollowsTheHostsSpeed) {
    const Op product = op_of(linear(8, DType::fp8)),
             reduce = op_of(Collective{CollectiveKind::reduce_scatter, 0, Bytes{1 << 26}, DType::bf16});
    Scenario mixture = megatron(true);
    mixture.model.moe.emplace();
    const Op router = op_of(Router{Direction::backward, 1024, 8, 2, false, 1, true});
    for (Scenario s : {megatron(false), megatron(true), mixture, zero_three()})
        for (const Op& op : {product, reduce, router}) {
            const double usual = host_us(s, op, 3);
            s.cluster.host.speed = 0.5;
            EXPECT_NEAR(host_us(s, op, 3), 2 * usual, 1e-5 * usual) << op.work.index();
            s.cluster.host.speed = 1;
        }
    Scenario stated = megatron(false, 2021); // no calls of modules yet
    stated.runtime.launch_us = 5;
    stated.strategy.pipeline_parallel = 2;
    const double exchange = microseconds(Costs(stated).model.exchange_sync());
    stated.cluster.host.speed = 0.25;
    EXPECT_NEAR(host_us(stated, product), 5, 1e-6);
    EXPECT_GT(exchange, 0);
    EXPECT_NEAR(microseconds(Costs(stated).model.exchange_sync()), 4 * exchange, 1e-3);
}

} // namespace
} // namespace orrery
