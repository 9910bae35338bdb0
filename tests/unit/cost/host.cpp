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

} // namespace
} // namespace orrery
