// ZeRO++ (arXiv:2306.10209) and MiCS (arXiv:2205.00119): what crosses nodes, what it takes of memory, and where it pays.
#include "tests/laws/scenarios.hpp"

#include "sim/engine/simulate.hpp"
#include "sim/memory/memory.hpp"
#include "sim/plan/verify.hpp"
#include "sim/report/report.hpp"

namespace orrery::laws {
namespace {

constexpr int nodes = 4, per_node = 4, ranks = nodes * per_node;

Gpt sharded(const std::string& extra = "", const std::string& gbit_per_s = "100") {
    Gpt g;
    g.layers = 8;
    g.hidden = 2048;
    g.heads = 16;
    g.vocab = 8192;
    g.dp = ranks;
    g.zero = 3;
    g.microbatches = 1;
    g.micro_batch = 1;
    g.framework = "deepspeed";
    g.dropout = 0;
    g.flash = true;
    g.recompute = "full";
    g.cluster = fmt::format(
        R"({{"preset": "dgx-a100-80gb", "nodes": {}, "devices_per_node": {}, "inter_node": {{"kind": "infiniband", "nics_per_node": 1, "gbit_per_s": {}}}}})",
        nodes, per_node, gbit_per_s);
    g.extra_strategy = extra;
    return g;
}

const std::string weights = R"(, "quantized_weights": "int8")", second = R"(, "secondary_shard_size": 4)",
                  gradients = R"(, "quantized_gradients": "int4")";

// Bytes that leave or enter a node in a step, the mean over nodes and both directions.
double across(const Scenario& s, bool fold = true) {
    const Plan plan = lower(s);
    const Fabric fabric(s.cluster);
    SimulateOptions options;
    options.fold = fold;
    const Simulation run = simulate(plan, s, fabric, CostModel(s, fabric), options);
    double bytes = 0;
    for (const LinkUse& l : run.links)
        if (fabric.links()[l.link].kind == LinkKind::nic) bytes += l.bytes * l.twins;
    return bytes / (2 * nodes);
}

// Bytes of the 16-bit model: of units that are gathered in both passes, and of those that stay gathered (embedding and head).
struct Model {
    double layers = 0, roots = 0;
    double all() const { return layers + roots; }
};
Model bytes_of_model(const Scenario& s) {
    const Plan plan = lower(s);
    Model m;
    for (const TensorBucket& b : plan.buckets) {
        const bool layer = plan.tensors[b.tensors[0].tensor].name.starts_with("l");
        (layer ? m.layers : m.roots) += 2.0 * static_cast<double>(b.shard) * size(plan, b.reduce);
    }
    return m;
}

// ZeRO-3 gathers twice and reduces once, 3 M; ZeRO++ gathers half in the forward pass, nothing in the backward pass, and a quarter of
// gradients crosses: 0.75 M. (Each ring passes every node's boundary (n - 1) / n times; of an exchange between m nodes (m - 1) / m
// crosses.)
TEST(ZeroPlusPlus, AQuarterOfTheBytesCrossesNodes) {
    const Scenario before = sharded().make(), after = sharded(weights + second + gradients).make();
    const Model m = bytes_of_model(before);
    const double ring = (ranks - 1.0) / ranks, exchange = (nodes - 1.0) / nodes;
    EXPECT_NEAR(across(before), ring * (3 * m.layers + 2 * m.roots), 0.01 * m.all());
    EXPECT_NEAR(across(after), ring * 0.5 * m.all() + exchange * 0.25 * m.all(), 0.01 * m.all());
}

TEST(ZeroPlusPlus, EachPartCutsItsOwnShare) {
    const Model m = bytes_of_model(sharded().make());
    const double all = across(sharded().make()), ring = (ranks - 1.0) / ranks, exchange = (nodes - 1.0) / nodes;
    EXPECT_NEAR(all - across(sharded(weights).make()), ring * (m.layers + 0.5 * m.roots), 0.01 * m.all());
    EXPECT_NEAR(all - across(sharded(second).make()), ring * m.layers, 0.01 * m.all());
    EXPECT_NEAR(all - across(sharded(gradients).make()), (ring - 0.25 * exchange) * m.all(), 0.01 * m.all());
}

TEST(ZeroPlusPlus, PlansAreVerifiedAndFoldedAndUnfoldedAgree) {
    for (const std::string& extra : {weights, second, gradients, weights + second + gradients}) {
        const Scenario s = sharded(extra).make();
        const auto found = verify(lower(s));
        EXPECT_EQ(found.size(), 0u) << extra << to_text(found);
        PredictOptions whole;
        whole.simulate.fold = false;
        const double time = predict(s).report.step_time_s;
        EXPECT_NEAR(predict(s, whole).report.step_time_s, time, 1e-9 * time) << extra;
        EXPECT_EQ(across(s), across(s, false)) << extra;
    }
}

// The second copy is of the 16-bit model, over the ranks of a node; nothing else of the states changes.
TEST(ZeroPlusPlus, TheSecondCopyTakesItsShareOfTheModel) {
    const Scenario before = sharded().make(), after = sharded(second).make();
    const auto held = resident(lower(before), 0), more = resident(lower(after), 0);
    const double model = bytes_of_model(before).all();
    EXPECT_NEAR(more.at(MemoryKind::parameters) - held.at(MemoryKind::parameters), model / per_node, 1e-3 * model);
    EXPECT_EQ(more.at(MemoryKind::optimizer_states), held.at(MemoryKind::optimizer_states));
}

// The host waits for computation wherever parameters with a second copy go, and cuts vectors for each rank where a bucket is exchanged.
TEST(ZeroPlusPlus, TheHostWaitsForSecondCopiesAndCutsVectors) {
    const auto count = [](const Plan& plan, const auto& counts) {
        std::int64_t n = 0;
        for (const Block& b : plan.blocks)
            for (const Op& op : b.ops) n += counts(op) ? 1 : 0;
        return n;
    };
    const auto waits = [](const Op& op) { return op.name == "second_copy.wait"; };
    const Scenario s = sharded(second + gradients).make();
    const Plan plan = lower(s);
    EXPECT_EQ(count(plan, waits), static_cast<std::int64_t>(plan.buckets.size()));
    EXPECT_EQ(count(lower(sharded(gradients).make()), waits), 0);
    const Fabric fabric(s.cluster);
    const CostModel cost(s, fabric);
    const auto cuts = [&](const Op& op) {
        const auto* w = std::get_if<Pointwise>(&op.work);
        if (w == nullptr || w->kind != PointwiseKind::by_owner) return false;
        Op none = op;
        none.modules = 0;
        EXPECT_EQ(op.modules > 0, cost.host(op, 1) > cost.host(none, 1)) << op.name;
        return op.modules > 0;
    };
    EXPECT_GE(count(plan, cuts), 8) << "each layer has vectors";
}

// Gradients are exchanged inside nodes first, then between them, whatever ranks share a second copy; one that all share is none.
TEST(ZeroPlusPlus, TheSecondCopyLeavesTheExchangeAlone) {
    const auto of = [](int size) { return sharded(weights + gradients + fmt::format(R"(, "secondary_shard_size": {})", size)); };
    const Scenario none = of(1).make(), all = of(ranks).make();
    EXPECT_EQ(across(all), across(none));
    EXPECT_EQ(predict(all).report.step_time_s, predict(none).report.step_time_s);
    EXPECT_EQ(predict(all).report.memory.stages[0].peak, predict(none).report.memory.stages[0].peak);
    for (const int other : {2, 8})
        EXPECT_NE(to_text(parse_scenario(of(other).text(), {}).problems).find("exchanged inside nodes of 4 first"), std::string::npos);
    // In one node there is one level, however it is divided for the copy.
    Gpt one = of(2);
    one.dp = per_node;
    one.cluster = R"({"preset": "dgx-a100-80gb", "nodes": 1, "devices_per_node": 4})";
    const Plan plan = lower(one.make());
    EXPECT_EQ(verify(plan).size(), 0u) << to_text(verify(plan));
    for (const Block& b : plan.blocks)
        for (const Op& op : b.ops)
            if (const auto* c = std::get_if<Collective>(&op.work); c && c->kind == CollectiveKind::all_to_all) {
                EXPECT_EQ(size(plan, c->comm), per_node) << op.name;
            }
}

// ZeRO 2 as DeepSpeed has it since December 2023: an all-reduce in the place of the reduction to a part's owner, so that as many bytes of
// gradients cross once more.
TEST(WholeReductions, CrossTwice) {
    Gpt g = sharded();
    g.zero = 2;
    g.recompute = "none";
    Scenario s = g.make();
    s.strategy.collective_algorithm = CollectiveAlgorithm::ring;
    const double ring = (ranks - 1.0) / ranks, model = bytes_of_model(s).all();
    const double reduced = model * bytes_per_element(s.training.gradient_dtype) / 2;
    s.runtime.year = 2023;
    EXPECT_NEAR(across(s), ring * (model + reduced), 0.01 * model);
    const double time = predict(s).report.step_time_s;
    s.runtime.year = 2024;
    EXPECT_NEAR(across(s), ring * (model + 2 * reduced), 0.01 * model);
    EXPECT_NEAR(across(s, false), ring * (model + 2 * reduced), 0.01 * model);
    EXPECT_GT(predict(s).report.step_time_s, time);
}

// Four times the link is worth about as much as a quarter of the bytes, and the gain shrinks with the link.
TEST(ZeroPlusPlus, StandsForAFourTimesFasterLink) {
    const std::string all = weights + second + gradients;
    const auto time = [](const Gpt& g) { return predict(g.make()).report.step_time_s; };
    const double slow = time(sharded("", "50")), better = time(sharded(all, "50")), faster = time(sharded("", "200"));
    EXPECT_NEAR(better / faster, 1, 0.25);
    EXPECT_GT(slow / better, 2);
    EXPECT_GT(slow / better, time(sharded("", "800")) / time(sharded(all, "800")));
}

// Groups add their gradients once a step, not with every microbatch: those of 8 microbatches cross nodes once.
TEST(Mics, AddsItsGroupsOnceAStep) {
    const auto of = [](const std::string& sync) {
        Gpt g = sharded(R"(, "shard_group_size": 4)" + sync);
        g.microbatches = 8;
        return g.make();
    };
    const Scenario once = of(""), each = of(R"(, "gradient_sync": "every_microbatch")");
    EXPECT_EQ(once.strategy.gradient_sync, GradientSync::boundary) << "DeepSpeed's MiCS does";
    for (const Scenario* s : {&once, &each}) EXPECT_EQ(verify(lower(*s)).size(), 0u) << to_text(verify(lower(*s)));
    EXPECT_NEAR(across(each) / across(once), 8, 0.1);
    EXPECT_LT(predict(once).report.step_time_s, predict(each).report.step_time_s);
    PredictOptions whole;
    whole.simulate.fold = false;
    const double time = predict(once).report.step_time_s;
    EXPECT_NEAR(predict(once, whole).report.step_time_s, time, 1e-9 * time);
}

// A plan that lacks one of these ops is found out.
TEST(ZeroPlusPlus, EveryOpOfAnExchangeIsMissed) {
    const Plan plan = lower(sharded(weights + second + gradients).make());
    for (const char* name : {"quantize.c0.u3.near", "exchange.c0.u3.near", "sum.c0.u3.near", "quantize.c0.u3.far", "exchange.c0.u3.far",
                             "sum.c0.u3.far", "keep.c0.u3", "dequantize.c0.u3"}) {
        Plan broken = plan;
        bool met = false;
        for (Block& b : broken.blocks)
            for (Op& op : b.ops)
                if (op.name == name) {
                    met = true;
                    op.work = HostSync{};
                    op.in.clear();
                    op.out.clear();
                }
        EXPECT_TRUE(met) << name;
        EXPECT_FALSE(verify(broken).empty()) << name;
    }
}

} // namespace
} // namespace orrery::laws
