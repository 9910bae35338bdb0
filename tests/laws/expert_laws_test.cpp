// Do experts hold, send and wait for what theory says? Bytes of dispatch and combine, (e-1)/e of them over the wire, parameters and
// states per rank, the same work however it is split, the slowest rank's pace.
#include "tests/laws/mixture.hpp"
#include "tests/laws/scenarios.hpp"

#include "sim/cost/collectives.hpp"
#include "sim/memory/memory.hpp"
#include "sim/model/expert_load.hpp"
#include "sim/plan/inputs.hpp"
#include "sim/report/report.hpp"
#include "sim/scenario/parameters.hpp"

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <map>
#include <numeric>
#include <random>
#include <set>

namespace orrery::laws {
namespace {

const Communicator& communicator(const Plan& plan, const Op& op) { return plan.communicators[std::get<Collective>(op.work).comm]; }

TEST(Experts, DispatchAndCombineMoveARowPerTokenAndExpert) {
    for (const auto& [tp, ep, top_k] : {std::tuple{1, 4, 2}, {2, 4, 2}, {2, 8, 3}, {1, 2, 1}}) {
        Mixture m;
        m.tp = tp, m.ep = ep, m.top_k = top_k, m.dp = 8 / tp;
        const Plan plan = lower(m.make());
        // b s h k of the tokens a rank holds, in 16 bits: dispatch and combine, forward and back; with a dispatch each row's probability
        // goes, and its gradient comes back, in 32.
        const double rows = static_cast<double>(m.micro_batch) * m.sequence / tp * top_k, row_bytes = rows * m.hidden * 2;
        std::map<std::string, int> times;
        each_op(plan, 0, [&](const Block&, const Op& op) {
            const auto* c = std::get_if<Collective>(&op.work);
            if (!c || c->kind != CollectiveKind::all_to_all) return;
            EXPECT_EQ(communicator(plan, op).name, "ep");
            const bool dispatch = op.name.find("dispatch") != std::string::npos;
            EXPECT_EQ(static_cast<double>(c->bytes.count), row_bytes + (dispatch ? 4 * rows : 0)) << op.name;
            ++times[op.name];
        });
        EXPECT_EQ(times.size(), 4u * static_cast<unsigned>(m.layers)) << "four a layer";
        for (const auto& [name, n] : times) EXPECT_EQ(n, m.global_batch / m.micro_batch / m.dp) << name << ": once a microbatch";
    }
}

TEST(Experts, AllButOneInEOfTheBytesGoOverTheWire) {
    for (const int e : {2, 4, 8}) {
        Mixture m;
        m.dp = 8, m.ep = e;
        const Scenario s = m.make();
        const Plan plan = lower(s);
        const Fabric fabric(s.cluster);
        const CostModel cost(s, fabric);
        each_op(plan, 0, [&](const Block&, const Op& op) {
            const auto* c = std::get_if<Collective>(&op.work);
            if (!c || c->kind != CollectiveKind::all_to_all) return;
            const std::vector<int> ranks = members(plan, c->comm, 0);
            ASSERT_EQ(static_cast<int>(ranks.size()), e);
            Collective big = *c;
            big.bytes = {1 << 30}; // beyond what latency hides
            double out = 0;
            for (const LinkLoad& l : cost.loads(big, cost.collective(big, ranks), ranks)) out += l.load;
            // Up to the switch and down from it.
            EXPECT_NEAR(out / 2, static_cast<double>(e) * (e - 1) / e, 1e-9);
        });
    }
}

TEST(Experts, ARankHoldsItsShareOfExpertsAndOfTheirStates) {
    struct Case {
        int tp, ep, etp, dp, zero;
    };
    for (const Case& c : {Case{1, 4, 1, 8, 1}, {2, 4, 1, 4, 1}, {2, 2, 2, 4, 1}, {1, 8, 1, 8, 1}, {1, 1, 1, 8, 1}, {1, 4, 1, 8, 0}}) {
        Mixture m;
        m.tp = c.tp, m.ep = c.ep, m.etp = c.etp, m.dp = c.dp, m.zero = c.zero;
        const Plan plan = lower(m.make());
        const int edp = c.tp * c.dp / (c.ep * c.etp);
        const double all = 3.0 * m.layers * m.experts * m.hidden * m.ffn, mine = all / (c.ep * c.etp);
        double held = 0, gradients = 0, others = 0, states = 0;
        for (const Buffer& b : plan.buffers) {
            const double n =
                std::accumulate(b.shape.begin(), b.shape.end(), 1.0, [](double x, std::int64_t d) { return x * static_cast<double>(d); });
            if (expert_parameter(b)) held += n;
            if (b.expert && b.role == Role::gradient) gradients += n;
            if (!b.expert && b.role == Role::parameter) others += n;
            if (b.role == Role::first_moment) states += n;
        }
        EXPECT_EQ(held, mine);
        EXPECT_EQ(gradients, mine);
        const double wanted = c.zero == 0 ? mine + others : mine / edp + others / c.dp; // ZeRO-1 over expert-data and over data ranks
        EXPECT_NEAR(states, wanted, 0.02 * wanted) << "padding of shards aside";
    }
}

TEST(Experts, GradientsAreReducedAmongThoseWhoHoldThem) {
    Mixture m;
    m.tp = 2, m.ep = 2, m.etp = 2, m.dp = 8; // experts: 2 x 2 x 4 over the same 16 ranks
    const Plan plan = lower(m.make());
    std::set<std::string> reduced;
    each_op(plan, 0, [&](const Block& block, const Op& op) {
        if (block.kind != BlockKind::reduce || !std::holds_alternative<Collective>(op.work)) return;
        const CommId comm = std::get<Collective>(op.work).comm;
        const bool expert = plan.buffers[op.in[0]].expert;
        for (BufferId b : op.in) EXPECT_EQ(plan.buffers[b].expert, expert);
        for (int rank = 0; rank < 16; ++rank) {
            const std::vector<int> group = members(plan, comm, rank);
            EXPECT_EQ(group.size(), expert ? 4u : 8u);
            for (int other : group) { // the same place in every other dimension
                EXPECT_EQ(other % (expert ? 4 : 2), rank % (expert ? 4 : 2));
            }
        }
        reduced.insert(plan.communicators[comm].name);
    });
    EXPECT_EQ(reduced, (std::set<std::string>{"dp.reduce", "edp.reduce"}));
}

double executed_flops(const Plan& plan) {
    double sum = 0;
    for (int s = 0; s < plan.stages; ++s) each_op(plan, s, [&](const Block&, const Op& op) { sum += flops(op.work).count; });
    return sum * plan.mesh.ranks() / plan.stages;
}

double routed_rows(const Plan& plan) {
    double sum = 0;
    for (int s = 0; s < plan.stages; ++s)
        each_op(plan, s, [&](const Block& b, const Op& op) {
            const auto* l = std::get_if<Linear>(&op.work);
            if (b.kind == BlockKind::forward && l && op.name.find("expert_fc1") != std::string::npos)
                sum += static_cast<double>(l->m * l->groups) * static_cast<double>(l->n);
        });
    return sum * plan.mesh.ranks() / plan.stages;
}

TEST(Experts, TheSameWorkHoweverItIsSplit) {
    Mixture one;
    one.shared = 1, one.dense_layers = 1;
    const Plan whole = lower(one.make());
    struct Case {
        int tp, cp, ep, etp, dp, pp;
        const char* dispatcher;
    };
    for (const Case& c : {Case{1, 1, 8, 1, 8, 1, "alltoall"},
                          {2, 1, 4, 1, 4, 2, "alltoall"},
                          {2, 1, 2, 2, 4, 1, "alltoall"},
                          {4, 1, 2, 4, 2, 2, "allgather"},
                          {2, 2, 8, 1, 2, 2, "alltoall"},
                          {1, 2, 4, 1, 4, 1, "deepep"},
                          {4, 2, 8, 2, 2, 1, "hybridep"}}) {
        Mixture m = one;
        m.tp = c.tp, m.cp = c.cp, m.ep = c.ep, m.etp = c.etp, m.dp = c.dp, m.pp = c.pp, m.dispatcher = c.dispatcher;
        const Plan plan = lower(m.make());
        EXPECT_EQ(routed_rows(plan), routed_rows(whole)) << c.dispatcher;
        // Under tensor parallelism nothing is computed twice; the router is divided with the tokens.
        EXPECT_NEAR(executed_flops(plan), executed_flops(whole), 0.02 * executed_flops(whole)); // causal shares of context ranks
        if (c.cp == 1) { EXPECT_DOUBLE_EQ(executed_flops(plan), executed_flops(whole)); }
    }
}

// A microbatch keeps of its routed rows the input of the first linear, and that of the second or what it is made of. Weighted in the
// activation, nobody reads the experts' output again.
TEST(Experts, ProbabilitiesNeedNoOutputOfTheExperts) {
    for (const char* dispatcher : {"alltoall", "allgather", "deepep"})
        for (const bool again : {false, true}) {
            Mixture m;
            m.dp = m.ep = 4, m.dispatcher = dispatcher;
            if (again) m.strategy = R"(, "recompute": ["activation"])";
            const Plan plan = lower(m.make());
            std::map<std::string, double> columns; // kept between the blocks, a row, in 16 bits
            const double rows = static_cast<double>(m.micro_batch) * m.sequence * m.top_k;
            for (const Buffer& b : plan.buffers)
                if (b.storage < 0 && b.scope == Scope::microbatch && b.kind == MemoryKind::activations &&
                    b.name.find("l1.") != std::string::npos && b.shape.size() == 2 && static_cast<double>(b.shape[0]) == rows &&
                    b.shape[1] > 1)
                    columns[b.name] = static_cast<double>(b.shape[1]);
            double sum = 0;
            for (const auto& [name, c] : columns) sum += c;
            EXPECT_EQ(sum, m.hidden + 2 * m.ffn + (again ? 0 : m.ffn)) << dispatcher;
        }
}

// In 8 bits half of a 16-bit row goes to the experts, forward and as the gradient of what comes back; what comes back is 16 bits.
TEST(Experts, LowDispatchHalvesWhatGoesToTheExperts) {
    for (const char* dispatcher : {"alltoall", "deepep"}) {
        std::map<std::string, std::int64_t> bytes[2];
        for (const bool low : {false, true}) {
            Mixture m;
            m.dp = m.ep = 4, m.dispatcher = dispatcher;
            const Plan plan = lower(m.make({"training.precision=fp8", fmt::format("runtime.fp8_dispatch={}", low)}));
            EXPECT_TRUE(verify(plan).empty()) << to_text(verify(plan));
            each_op(plan, 0, [&](const Block&, const Op& op) {
                if (const auto* c = std::get_if<Collective>(&op.work); c && c->kind == CollectiveKind::all_to_all)
                    bytes[low][op.name] = c->bytes.count;
            });
        }
        ASSERT_EQ(bytes[0].size(), 4u * 4u);
        const Mixture m;
        const std::int64_t rows = m.micro_batch * m.sequence * m.top_k;
        for (const auto& [name, whole] : bytes[0]) {
            const bool to_experts = name.ends_with("dispatch") || name.ends_with("combine.adjoint");
            EXPECT_EQ(bytes[1][name], whole - (to_experts ? rows * m.hidden : 0)) << name;
        }
    }
}

// The input of an activation kept in 8 bits is all of it that outlives the forward pass.
TEST(Experts, AnActivationsInputIsKeptLow) {
    for (const char* again : {"", R"(, "recompute": ["activation"])", R"(, "recompute": ["norm", "cast"])"}) {
        Mixture m;
        m.strategy = again;
        const Plan plan = lower(m.make({"runtime.fp8_activation_input=true"}));
        EXPECT_TRUE(verify(plan).empty()) << to_text(verify(plan));
        int kept = 0;
        for (const Buffer& b : plan.buffers) {
            if (b.name.ends_with("expert_fc1")) { EXPECT_EQ(b.scope, Scope::action) << b.name; }
            if (!b.name.ends_with("expert_fc1.kept")) continue;
            ++kept;
            EXPECT_EQ(b.scope, Scope::microbatch);
            EXPECT_EQ(b.bytes.count, static_cast<std::int64_t>(m.micro_batch) * m.sequence * m.top_k * 2 * m.ffn);
        }
        EXPECT_EQ(kept, m.layers);
    }
}

std::string deepseek_v3() {
    std::ifstream file(ORRERY_SOURCE_DIR "/scenarios/deepseek-v3-2048-h800.json");
    return {std::istreambuf_iterator<char>(file), {}};
}

// DeepSeek-V3 as its report describes it fits, and takes about what its authors measured: 19.926 s a step (arXiv:2505.09343, table 4),
// which agrees with 2.664 M H800 hours for 14.8 T tokens in steps of 15,360 x 4,096 (arXiv:2412.19437).
TEST(Experts, DeepSeekV3FitsAndTakesWhatItsAuthorsReport) {
    const Report report = predict(scenario(deepseek_v3())).report;
    const double measured = 19.926, from_hours = 2.664e6 * 3600 / 2048 / (14.8e12 / (15360.0 * 4096));
    EXPECT_NEAR(from_hours, measured, 0.01 * measured);
    EXPECT_TRUE(report.memory.fits);
    EXPECT_NEAR(report.step_time_s, measured, 0.1 * measured);
}

// The input of a prediction's chunked loss is kept, as the loss itself runs in the backward pass.
TEST(Experts, PredictionsAheadHaveChunkedLossesUnderRecomputation) {
    const std::string text = deepseek_v3();
    for (const char* recompute : {"none", "full", R"(["norm", "latent", "activation"])"}) {
        ParseOptions options;
        options.overrides = {"runtime.loss=chunked", std::string("strategy.recompute=") + recompute};
        const ParseResult parsed = parse_scenario(text, options);
        ASSERT_TRUE(parsed.scenario) << recompute;
        EXPECT_EQ(to_text(verify(lower(*parsed.scenario))), "") << recompute;
    }
}

// The gradient of a row's probability is read from where the activation's is: one op makes both, and it goes back with the rows.
TEST(Experts, GradientsOfProbabilitiesComeFromTheActivation) {
    Mixture m;
    m.dp = m.ep = 4;
    m.bias = true;
    const Plan plan = lower(m.make());
    EXPECT_TRUE(verify(plan).empty()) << to_text(verify(plan));
    int activations = 0, biases = 0, summed = 0;
    each_op(plan, 0, [&](const Block&, const Op& op) {
        const auto* p = std::get_if<Pointwise>(&op.work);
        if (!p || op.name.find("l1.") == std::string::npos) return;
        if (op.name.ends_with("expert_act.bwd")) {
            ++activations;
            ASSERT_EQ(op.out.size(), 2u);
            EXPECT_EQ(plan.buffers[op.out[1]].shape, (std::vector<std::int64_t>{m.micro_batch * m.sequence * m.top_k, 1}));
        }
        biases += op.name.ends_with("expert_fc2_bias.bwd");
        summed += op.name.find("row_probabilities") != std::string::npos && p->kind == PointwiseKind::add;
    });
    EXPECT_GT(activations, 0);
    EXPECT_EQ(activations, biases) << "a bias is weighted too";
    EXPECT_EQ(activations, summed);
}

TEST(Experts, TheHostWaitsForCountsUnlessRowsArePaddedOrKernelsReadThem) {
    const auto is_wait = [](const Op& op) {
        return std::holds_alternative<HostSync>(op.work) && op.name.find("counts") != std::string::npos;
    };
    const auto waits = [&](const Mixture& m) {
        int n = 0;
        each_op(lower(m.make()), 0, [&](const Block&, const Op& op) { n += is_wait(op); });
        return n;
    };
    Mixture m;
    m.dp = m.ep = 4;
    EXPECT_EQ(waits(m), m.layers * m.global_batch / m.micro_batch / m.dp) << "once a layer and microbatch";
    m.dispatcher = "deepep"; // it brings the rows, but experts are still launched one by one
    EXPECT_EQ(waits(m), m.layers * m.global_batch / m.micro_batch / m.dp);
    Scenario fused = m.make();
    fused.runtime.fused_experts = true;
    int n = 0;
    each_op(lower(fused), 0, [&](const Block&, const Op& op) { n += is_wait(op); });
    EXPECT_EQ(n, 0);
    m.dispatcher = "alltoall";
    m.moe = R"(, "capacity_factor": 1.0, "pad_to_capacity": true)";
    EXPECT_EQ(waits(m), 0);
    m.moe = R"(, "capacity_factor": 1.0, "pad_to_capacity": false)"; // what is left of an expert's rows only the router knows
    EXPECT_EQ(waits(m), m.layers * m.global_batch / m.micro_batch / m.dp);
}

// Rows a rank sends under a capacity of f times the mean: f k a token where it pads; else each expert's share or the capacity, whichever is
// smaller. Memory and exchanges have as many, and what is smaller is not slower.
TEST(Experts, ACapacitySendsWhatItLeavesUnlessItPads) {
    Mixture m;
    m.dp = m.ep = 4, m.hidden = 1024, m.ffn = 2048, m.sequence = 2048;
    const std::int64_t chosen = m.micro_batch * m.sequence * m.top_k;
    const auto made = [&m](const std::string& moe) { // of a year before the host's calls are known
        m.moe = moe;
        Scenario s = m.make();
        s.runtime.year = 2022;
        return s;
    };
    const auto sent = [](const Scenario& s) { // rows of a dispatch, each of 16-bit columns and a probability in 32
        std::int64_t rows = 0;
        each_op(lower(s), 0, [&](const Block&, const Op& op) {
            const auto* c = std::get_if<Collective>(&op.work);
            if (c && op.name.ends_with("l1.dispatch")) rows = c->bytes.count / (2 * s.model.hidden_size + 4);
        });
        return rows;
    };
    for (const char* loads : {"", R"(, "imbalance": [8, 1, 1, 2, 1, 1, 1, 1])"})
        for (const double factor : {1.5, 2.0}) {
            const std::string dropless = loads, some = fmt::format(R"({}, "capacity_factor": {})", loads, factor);
            const Scenario whole = made(dropless), cut = made(some + R"(, "pad_to_capacity": false)"),
                           padded = made(some + R"(, "pad_to_capacity": true)");
            EXPECT_TRUE(made(some).model.moe->pads()) << "recipes of Megatron pad";
            EXPECT_TRUE(m.make({"strategy.framework=nemo"}).model.moe->pads()) << "and its recipes'";
            EXPECT_TRUE(m.make({"strategy.framework=deepspeed"}).model.moe->pads());
            const auto capacity = static_cast<std::int64_t>(factor * static_cast<double>(chosen) / m.experts);
            double left = 0;
            for (const double share : expert_shares(*whole.model.moe))
                left += std::min(share * static_cast<double>(chosen), static_cast<double>(capacity));
            EXPECT_NEAR(static_cast<double>(rows_sent(*cut.model.moe, m.micro_batch * m.sequence)), left, 1);
            EXPECT_EQ(rows_sent(*padded.model.moe, m.micro_batch * m.sequence), m.experts * capacity);
            EXPECT_TRUE(verify(lower(cut)).empty()) << to_text(verify(lower(cut)));
            if (*loads == 0) { EXPECT_EQ(sent(cut), chosen); }
            EXPECT_EQ(sent(padded), m.experts * capacity);
            EXPECT_LE(sent(cut), sent(whole));
            EXPECT_LE(sent(cut), sent(padded));
            const Report of_cut = predict(cut).report, of_padded = predict(padded).report;
            EXPECT_LE(of_cut.step_time_s, of_padded.step_time_s) << loads << factor;
            EXPECT_LE(of_cut.memory.stages[0].peak.count, of_padded.memory.stages[0].peak.count) << loads << factor;
            EXPECT_EQ(of_cut.experts.dropped_fraction, of_padded.experts.dropped_fraction) << "who is dropped is the same";
        }
}

// A graph holds what stands before the dispatch and behind the combine; where the host knows all rows beforehand, everything.
TEST(Experts, AGraphHoldsWhatDoesNotDependOnCounts) {
    Mixture m;
    m.dp = m.ep = 4;
    Scenario s = m.make();
    s.runtime.cuda_graphs = true;
    const auto eager = [](const Scenario& scenario, const char* part) {
        int n = 0;
        each_op(lower(scenario), 0, [&](const Block&, const Op& op) { n += op.eager && op.name.find(part) != std::string::npos; });
        return n;
    };
    EXPECT_GT(eager(s, "expert_fc1"), 0);
    EXPECT_GT(eager(s, "dispatch"), 0);
    EXPECT_EQ(eager(s, "qkv"), 0);
    EXPECT_EQ(eager(s, "router"), 0);
    s.model.moe->capacity_factor = 1;
    EXPECT_EQ(eager(s, ""), 0);
}

// Biases of experts' rows take a sequence of kernels an expert, their columns' sums one pass; rotations with a factor and clamps kernels of
// their own.
TEST(Experts, WhatMegatronHasNoKernelForTakesTheTimeOfItsParts) {
    Mixture m;
    m.dp = m.ep = 4, m.hidden = 1024, m.ffn = 1024, m.sequence = 4096, m.bias = true;
    const auto time = [&](const std::vector<std::string>& fields, const std::string& part) {
        const Scenario s = m.make(fields);
        const Plan plan = lower(s);
        const Fabric fabric(s.cluster);
        const CostModel cost(s, fabric);
        double us = 0;
        for (const Block& b : plan.blocks)
            for (const Op& op : b.ops)
                if (op.queue == compute_queue && op.name.find(part) != std::string::npos)
                    us += cost.compute(plan, op).duration.seconds() * 1e6;
        return us;
    };
    // Both read a gradient of two columns' widths; one in a pass, the other (half as wide) in some ten of twice their bytes.
    EXPECT_LT(time({}, "expert_fc1.bias.grad") * 3, time({}, "expert_fc2_bias.grad"));
    EXPECT_GT(time({"model.activation_clamp=7"}, "expert_clamp"), time({}, "expert_act"));
    EXPECT_EQ(time({"model.activation_clamp=0"}, "expert_clamp"), 0);
    EXPECT_EQ(time({"runtime.fused_experts=true"}, "expert_clamp"), 0);
    EXPECT_GT(time({"model.rope_scale=1.3"}, ".rope"), 4 * time({}, ".rope"));
}

// DeepSpeed's own mixtures: a rank's tokens against all slots of all experts, five products a layer (one each way, one of either for the
// gradient of the rows, one for that of the weights); two masks and the experts' results are kept. With three choices or more, the places
// are kept too.
TEST(Experts, ProductsWithMasksOfDeepSpeedAreOfAllTokensOfARank) {
    for (const int choices : {1, 2, 3}) {
        Mixture m;
        m.dp = m.ep = 4, m.top_k = choices, m.hidden = 1024, m.sequence = 2048, m.moe = R"(, "capacity_factor": 1.25)";
        const Scenario s = m.make({"strategy.framework=deepspeed"}),
                       kernels = m.make({"strategy.framework=deepspeed", "runtime.permute_fusion=true"});
        const Plan plan = lower(s);
        EXPECT_TRUE(verify(plan).empty()) << to_text(verify(plan));
        const std::int64_t tokens = m.micro_batch * m.sequence, slots = m.experts * expert_capacity(*s.model.moe, tokens);
        const auto kept = [&](const Plan& p, const std::string& end) {
            std::int64_t bytes = 0;
            for (const Buffer& b : p.buffers)
                if (b.name.ends_with(end) && b.scope == Scope::microbatch) bytes += b.bytes.count;
            return bytes;
        };
        EXPECT_EQ(kept(plan, ".permute.mask"), 2 * tokens * slots * m.layers);
        EXPECT_EQ(kept(plan, ".permute.weights.cast"), 2 * tokens * slots * m.layers);
        EXPECT_EQ(kept(plan, ".permute.places"), choices > 2 ? 4 * tokens * slots * m.layers : 0);
        EXPECT_EQ(kept(plan, ".permute.weights"), 0) << "gone when it was cast";
        EXPECT_EQ(kept(plan, ".expert_fc2.combined"), 2 * slots * m.hidden * m.layers);
        EXPECT_EQ(kept(lower(kernels), ".permute.mask") + kept(lower(kernels), ".expert_fc2.combined"), 0) << "Tutel's kernels";
        const Fabric fabric(s.cluster);
        const CostModel cost(s, fabric);
        double seconds = 0;
        for (const Block& b : plan.blocks)
            for (const Op& op : b.ops)
                if (std::holds_alternative<Permute>(op.work) && op.name.find("sort") == std::string::npos)
                    seconds += cost.compute(plan, op).duration.seconds();
        const double products = 5.0 * 2 * static_cast<double>(tokens * slots * m.hidden) * m.layers;
        EXPECT_GT(seconds, products / 989e12) << "no faster than the device";
        EXPECT_LT(seconds, 3 * products / 989e12);
        EXPECT_LE(predict(kernels).report.step_time_s, predict(s).report.step_time_s);
        EXPECT_TRUE(verify(lower(m.make({"strategy.framework=deepspeed", "strategy.recompute=full"}))).empty());
    }
}

// Kernels that hold activation and casts ask for whole tiles of 256 features.
TEST(Experts, ActivationsAreInsideProductsOfWholeTilesAlone) {
    Mixture m;
    m.dp = m.ep = 4, m.hidden = 512, m.ffn = 768;
    const auto inside = [&] {
        Scenario s = m.make();
        s.runtime.fused_experts = true;
        int n = 0;
        each_op(lower(s), 0, [&](const Block&, const Op& op) {
            const auto* w = std::get_if<Pointwise>(&op.work);
            n += w && w->epilogue;
        });
        return n;
    };
    EXPECT_GT(inside(), 0);
    m.ffn = 800;
    EXPECT_EQ(inside(), 0);
}

TEST(Experts, TheFullestRankSetsThePaceAndItsMemoryCounts) {
    Mixture m;
    m.dp = m.ep = 4, m.hidden = 1024, m.ffn = 2048, m.sequence = 2048;
    const auto made = [&m] { // of a year before the host's calls are known: with them so small a model waits for its host alone
        Scenario s = m.make();
        s.runtime.year = 2022;
        return s;
    };
    const Report balanced = predict(made()).report;
    m.moe = R"(, "imbalance": "zipf:1.0")";
    const Scenario uneven = made();
    const Report zipf = predict(uneven).report;
    const double most = fullest_share(*uneven.model.moe, 4);
    EXPECT_GT(most, 1.5);
    EXPECT_LT(most, 4);
    EXPECT_GT(zipf.step_time_s, 1.2 * balanced.step_time_s);
    EXPECT_LT(zipf.step_time_s, most * balanced.step_time_s);
    EXPECT_GT(zipf.memory.stages[0].peak.count, balanced.memory.stages[0].peak.count);
    m.moe = R"(, "imbalance": "zipf:1.0", "capacity_factor": 1.0, "pad_to_capacity": true)"; // as many rows as balanced ones
    EXPECT_NEAR(predict(made()).report.step_time_s, balanced.step_time_s, 0.05 * balanced.step_time_s);
}

// Where one rank has all experts, too: their products fill tiles by half at their ends, and small ones take a kernel's least time.
TEST(Experts, UnevenLoadsOfOneRankAreNeverFaster) {
    for (const int ranks : {1, 4}) {
        Mixture m;
        m.dp = 4, m.ep = ranks, m.hidden = 1024, m.ffn = 2048, m.sequence = 2048;
        double before = 0;
        for (const char* loads : {"forced", "zipf:0.1", "zipf:0.5", "zipf:1.0", "zipf:2.0"}) {
            m.moe = fmt::format(R"(, "imbalance": "{}")", loads);
            Scenario s = m.make();
            s.runtime.year = 2022;
            const double step = predict(s).report.step_time_s;
            EXPECT_GE(step, before) << loads << " on " << ranks;
            before = step;
        }
        m.moe = R"(, "imbalance": [9, 1, 1, 1, 1, 1, 1, 1])";
        Scenario uneven = m.make(), even = uneven;
        even.model.moe->imbalance = Imbalance::forced;
        even.model.moe->imbalance_loads.clear();
        uneven.runtime.year = even.runtime.year = 2022;
        EXPECT_GT(predict(uneven).report.step_time_s, 1.001 * predict(even).report.step_time_s) << ranks;
    }
}

// Forced loads are even ones; a router that has not learned spreads rows the more unevenly the deeper it stands, as random networks do.
TEST(Experts, AnUntrainedRouterIsUnevenWithDepth) {
    Mixture m;
    m.layers = 24, m.hidden = 256, m.heads = 4, m.sequence = 512, m.experts = 128, m.top_k = 8, m.ffn = 48, m.dp = m.ep = 8;
    const Report assumed = predict(m.make()).report;
    m.moe = R"(, "imbalance": "forced")";
    const Report forced = predict(m.make()).report;
    EXPECT_EQ(forced.step_time_s, assumed.step_time_s);
    const auto says_so = [](const Report& r) {
        return std::ranges::any_of(r.notes,
                                   [](const std::string& note) { return note.starts_with("experts' loads are taken to be even"); });
    };
    EXPECT_TRUE(says_so(assumed));
    EXPECT_FALSE(says_so(forced)) << "nothing is assumed";
    m.moe = R"(, "imbalance": "untrained")";
    m.model = R"(, "attention": {"qk_norm": true})";
    const Scenario s = m.make();
    const MoeSpec& moe = *s.model.moe;
    ASSERT_EQ(moe.imbalance_loads.size(), 24u);
    double before = 0, mean = 0;
    for (int layer = 0; layer < 24; ++layer) {
        const std::vector<double> shares = expert_shares(moe, layer);
        EXPECT_NEAR(std::accumulate(shares.begin(), shares.end(), 0.0), 1, 1e-9);
        const double most = *std::ranges::max_element(shares) * moe.experts;
        EXPECT_GT(most, before) << layer;
        EXPECT_LE(most, 16 + 1e-9) << "no expert has more than all tokens";
        before = most;
        mean += most / 24;
    }
    EXPECT_NEAR(mean, 8.9, 0.2 * 8.9) << "a random network of this shape, and with it the fullest of 8 ranks 1.7 x";
    const Report untrained = predict(s).report;
    EXPECT_NEAR(untrained.experts.fullest_rank, 1.68, 0.25);
    EXPECT_EQ(untrained.experts.fullest_by_layer.size(), 24u);
    EXPECT_FALSE(says_so(untrained));
    EXPECT_GT(untrained.step_time_s, forced.step_time_s);
    EXPECT_TRUE(verify(lower(s)).empty());
}

// Popular experts lie where they may: about as in the mean of placements at random, and the steeper the law, the fuller the fullest rank.
TEST(Experts, PopularOnesAreSpreadOverRanks) {
    std::mt19937 random(1);
    for (const auto& [experts, ranks] : {std::pair{128, 8}, {128, 16}, {256, 64}, {60, 4}}) {
        double before = 1;
        for (const double exponent : {0.1, 0.3, 0.5, 0.8}) {
            MoeSpec moe;
            moe.experts = experts, moe.top_k = 8;
            moe.imbalance = Imbalance::zipf;
            moe.imbalance_exponent = exponent;
            const double fullest = fullest_share(moe, ranks);
            EXPECT_GT(fullest, before) << experts << " on " << ranks << ", exponent " << exponent;
            before = fullest;
            std::vector<double> shares = expert_shares(moe);
            double mean = 0;
            constexpr int draws = 400;
            for (int i = 0; i < draws; ++i) {
                std::ranges::shuffle(shares, random);
                double most = 0;
                for (int r = 0; r < ranks; ++r)
                    most = std::max(most,
                                    std::accumulate(shares.begin() + r * experts / ranks, shares.begin() + (r + 1) * experts / ranks, 0.0));
                mean += most * ranks / draws;
            }
            EXPECT_LT(fullest, 1.02 * mean) << experts << " on " << ranks << ", exponent " << exponent;
            EXPECT_GT(fullest, 0.9 * mean) << experts << " on " << ranks << ", exponent " << exponent;
        }
    }
}

TEST(Experts, SharesAreProportionalUntilAnExpertHasEveryToken) {
    MoeSpec moe;
    moe.experts = 4, moe.top_k = 2;
    moe.imbalance = Imbalance::list;
    moe.imbalance_loads = {{8, 1, 1, 2}};
    const std::vector<double> shares = expert_shares(moe); // the first cannot have more than every token once: half of all rows
    EXPECT_DOUBLE_EQ(shares[0], 0.5);
    EXPECT_DOUBLE_EQ(shares[1], 0.125);
    EXPECT_DOUBLE_EQ(shares[3], 0.25);
    EXPECT_DOUBLE_EQ(fullest_share(moe, 2), 2 * 0.625);
    EXPECT_DOUBLE_EQ(fullest_share(moe, 4), 4 * 0.5);
    moe.capacity_factor = 1; // 100 tokens, 200 rows, 50 an expert: the first drops 50
    EXPECT_EQ(expert_capacity(moe, 100), 50);
    EXPECT_DOUBLE_EQ(dropped_share(moe, 100), 50.0 / 200);
    EXPECT_EQ(rows_sent(moe, 100), 200) << "padded";
    EXPECT_EQ(fullest_share(moe, 2), 1);
    moe.pad_to_capacity = false; // 50, 25, 25 and 50 rows are left: 75 on each of two ranks
    EXPECT_EQ(rows_sent(moe, 100), 150);
    EXPECT_DOUBLE_EQ(fullest_share(moe, 2), 1);
    EXPECT_DOUBLE_EQ(fullest_share(moe, 4), 4 * 50.0 / 150);
}

// Whatever a router chooses: a token has an expert at most once, and a full expert takes no more.
TEST(Experts, ARankCannotBeSentMoreThanItsExpertsTake) {
    MoeSpec moe;
    moe.experts = 8, moe.top_k = 3;
    EXPECT_EQ(most_rows_sent(moe, 100), 300);
    EXPECT_EQ(most_rows_sent(moe, 100, 2), 300) << "four experts take all three choices";
    EXPECT_EQ(most_rows_sent(moe, 100, 4), 200) << "two experts take two of them";
    EXPECT_EQ(most_rows_sent(moe, 100, 8), 100);
    moe.capacity_factor = 2, moe.pad_to_capacity = false; // 75 rows an expert
    EXPECT_EQ(most_rows_sent(moe, 100), 300);
    EXPECT_EQ(most_rows_sent(moe, 100, 8), 75);
    moe.pad_to_capacity = true;
    EXPECT_EQ(most_rows_sent(moe, 100), rows_sent(moe, 100)) << "as many as are sent anyway";
}

// A plan for a router's own choices has room for a multiple of the mean rows, at most for all rows; products and exchanges are of the mean.
// Predictions know nothing of it.
TEST(Experts, RoomForARoutersChoicesIsMemoryAndNoWork) {
    for (const char* dispatcher : {"alltoall", "allgather"})
        for (const int ep : {2, 4, 8}) {
            Mixture m;
            m.dp = 8, m.ep = ep, m.top_k = 3, m.dispatcher = dispatcher;
            const Scenario plain = m.make();
            const Plan exact = lower(plain);
            const std::int64_t tokens = std::int64_t{m.micro_batch} * m.sequence, mean = tokens * m.top_k,
                               all = ep * tokens * std::min(m.top_k, m.experts / ep);
            Bytes least = memory(exact, plain).stages[0].peak;
            for (const double room : {1.0, 1.25, 2.0, 100.0}) {
                SCOPED_TRACE(fmt::format("{} {} {}", dispatcher, ep, room));
                Scenario s = plain;
                s.runtime.expert_room = room;
                EXPECT_EQ(hash(lower(s)), hash(exact));
                EXPECT_TRUE(lowers_alike(s, plain));
                s.runtime.routed = true;
                EXPECT_FALSE(lowers_alike(s, plain));
                const Plan plan = lower(s);
                EXPECT_TRUE(verify(plan).empty()) << to_text(verify(plan));
                const auto expected = std::min(all, static_cast<std::int64_t>(std::ceil(room * static_cast<double>(mean))));
                ASSERT_EQ(plan.blocks.size(), exact.blocks.size());
                for (std::int32_t b = 0; b < static_cast<std::int32_t>(plan.blocks.size()); ++b) {
                    ASSERT_EQ(plan.blocks[b].ops.size(), exact.blocks[b].ops.size());
                    for (std::int32_t i = 0; i < static_cast<std::int32_t>(plan.blocks[b].ops.size()); ++i) {
                        const Op &op = plan.blocks[b].ops[i], &other = exact.blocks[b].ops[i];
                        const auto* linear = std::get_if<Linear>(&op.work);
                        if (!linear) continue;
                        EXPECT_EQ(linear->m, std::get<Linear>(other.work).m) << op.name;
                        if (plan.buffers[op.in[0]].expert) { EXPECT_EQ(plan.buffers[op.in[0]].shape[0], expected) << op.name; }
                    }
                }
                const Bytes peak = memory(plan, s).stages[0].peak;
                EXPECT_GE(peak.count, least.count) << "more room never takes less";
                least = peak;
            }
        }
}

// Loads of a file, relative to the scenario: each layer waits for its own fullest rank.
TEST(Experts, LoadsOfAFileAreOfTheirLayers) {
    const std::filesystem::path folder = std::filesystem::temp_directory_path() / "orrery-loads-of-layers";
    std::filesystem::create_directories(folder);
    std::ofstream(folder / "loads.json") << "[[1,1,1,1,1,1,1,1], [4,0,1,1,1,1,0,0], [2,2,2,2,3,3,1,1]]";
    Mixture m;
    m.dp = m.ep = 4, m.dense_layers = 1;
    m.moe = R"(, "imbalance": {"file": "loads.json"})";
    ParseOptions beside;
    beside.base_dir = folder.string();
    const ParseResult parsed = parse_scenario(m.text(), beside);
    ASSERT_TRUE(parsed.scenario.has_value()) << to_text(parsed.problems);
    const Plan plan = lower(*parsed.scenario);
    EXPECT_TRUE(verify(plan).empty()) << to_text(verify(plan));
    std::map<int, std::int64_t> rows; // of the fullest rank, by layer
    each_op(plan, 0, [&](const Block& b, const Op& op) {
        if (const auto* l = std::get_if<Linear>(&op.work); l && b.kind == BlockKind::forward && op.name.ends_with("expert_fc2"))
            rows[op.layer] = l->m * l->groups;
    });
    const std::int64_t even = m.micro_batch * m.sequence * m.top_k;
    EXPECT_EQ(rows, (std::map<int, std::int64_t>{{1, even}, {2, 2 * even}, {3, 3 * even / 2}}));
    const Report r = predict(*parsed.scenario).report;
    EXPECT_EQ(r.experts.fullest_by_layer, (std::vector<double>{1, 2, 1.5}));
    EXPECT_NEAR(r.experts.fullest_rank, 4.5 / 3, 1e-12);
    EXPECT_NEAR(r.experts.fullest_expert, 6.5 / 3, 1e-12);
    EXPECT_NEAR(std::accumulate(r.experts.load.begin(), r.experts.load.end(), 0.0), 1, 1e-12);
    m.layers = 3;
    EXPECT_FALSE(parse_scenario(m.text(), beside).scenario.has_value()) << "lists of three layers for two";
    std::filesystem::remove_all(folder);
}

TEST(Experts, SharedExpertsRunUnderTheDispatch) {
    Mixture m;
    m.dp = m.ep = 8, m.hidden = 2048, m.ffn = 1024, m.sequence = 4096, m.shared = 2;
    m.cluster = R"({"preset": "dgx-h100", "nodes": 8, "devices_per_node": 1})";
    const auto exposed = [&](const char* overlap) {
        m.strategy = fmt::format(R"(, "overlap": {{"shared_experts": {}}})", overlap);
        return predict(m.make()).report.breakdown_s[Category::exposed_ep];
    };
    for (const int experts : {8, 16}) { // with several on a rank, rows are sorted behind an exchange, and before one
        m.experts = experts;
        const double apart = exposed("false"), under = exposed("true");
        EXPECT_GT(apart, 0);
        EXPECT_LT(under, 0.9 * apart) << experts;
    }
}

// Beside an exchange they are not slower than ahead of it; joined steps have them with the attention.
TEST(Experts, SharedOnesBesideTheExchangesAreNotSlower) {
    for (const int tp : {1, 2}) {
        Mixture m;
        m.tp = tp, m.dp = m.ep = 8 / tp, m.hidden = 1024, m.ffn = 1024, m.sequence = 2048, m.shared = 2;
        const Scenario apart = m.make(), beside = m.make({"strategy.overlap.shared_experts=true"});
        EXPECT_TRUE(verify(lower(beside)).empty()) << to_text(verify(lower(beside)));
        EXPECT_LE(predict(beside).report.step_time_s, 1.005 * predict(apart).report.step_time_s) << "tp " << tp;
    }
    Mixture m;
    m.dp = m.ep = 4, m.shared = 1;
    const Plan plan = lower(m.make({"strategy.overlap.expert_parallel=true"}));
    for (const Block& b : plan.blocks) {
        if (b.kind != BlockKind::forward) continue;
        const auto at = [&](const char* end) {
            return std::find_if(b.ops.begin(), b.ops.end(), [&](const Op& op) { return op.name.ends_with(end); });
        };
        EXPECT_LT(at("l1.shared_fc2"), at("l1.permute")) << b.name;
    }
}

// Recomputed shared experts keep none of their own values.
TEST(Experts, RecomputedSharedExpertsKeepTheirInputAlone) {
    for (const int tp : {1, 2}) {
        Mixture m;
        m.tp = tp, m.dp = m.ep = 4, m.shared = 1;
        const auto kept = [&](const char* recompute) {
            const Plan plan = lower(m.make({std::string("strategy.recompute=") + recompute}));
            EXPECT_TRUE(verify(plan).empty()) << to_text(verify(plan));
            std::int64_t shared = 0, others = 0;
            for (const Buffer& b : plan.buffers)
                if (b.storage < 0 && b.scope == Scope::microbatch && b.kind == MemoryKind::activations)
                    (b.name.find(".shared_") != std::string::npos ? shared : others) += b.bytes.count;
            return std::pair{shared, others};
        };
        const auto [all, rest] = kept("none");
        const auto [again, same] = kept(R"(["shared_experts"])");
        // Both linears' columns, gate and up, and the activation's, in 16 bits: a token's 3 x ffn, of which a rank has its part.
        EXPECT_EQ(all, 2LL * m.micro_batch * m.sequence * 3 * m.ffn / tp * m.layers);
        EXPECT_EQ(again, 0);
        EXPECT_EQ(same, rest);
    }
}

TEST(Experts, OneCrossingToEachNode) {
    // K copies on N nodes of g: at random a token meets N (1 - (1 - 1/N)^K) nodes, a share (N - 1)/N of them foreign.
    Group g;
    g.n = 64, g.nodes = 8, g.lanes = 8;
    const FanOut free = fan_out(g, 8, 1, 1), limited = fan_out(g, 8, 8, 4);
    EXPECT_NEAR(free.outside * 8, 7 * (1 - std::pow(7.0 / 8, 8)), 1e-12);
    EXPECT_NEAR(limited.outside * 8, 4 * 7.0 / 8, 1e-12);
    EXPECT_LT(free.outside, 7.0 / 8) << "a flat all-to-all";
    g.n = 8, g.nodes = 1;
    EXPECT_NEAR(fan_out(g, 8, 8, 1).inside * 8, 7.0 / 8, 1e-12) << "experts of one member: a token travels once";
}

double held_parameters(const Plan& plan) {
    double sum = 0;
    std::set<std::string> met;
    for (const Buffer& b : plan.buffers)
        if (b.kind == MemoryKind::parameters && met.insert(b.name).second)
            sum +=
                std::accumulate(b.shape.begin(), b.shape.end(), 1.0, [](double x, std::int64_t d) { return x * static_cast<double>(d); });
    return sum;
}

TEST(Experts, PlansHoldTheParametersTheirModelsPublish) {
    for (const char* model :
         {"mixtral-8x7b", "mixtral-8x22b", "deepseek-v2-lite", "deepseek-v2", "deepseek-v3", "qwen3-30b-a3b", "qwen3-235b-a22b", "grok-1",
          "kimi-k2", "glm-4.5", "glm-4.5-air", "gemma2-9b", "gemma3-4b", "olmo2-7b", "olmo2-32b", "gpt-neox-20b", "phi-4"}) {
        const std::string text = fmt::format(
            R"({{"model": {{"preset": "{}", "mtp_layers": 0}}, "cluster": {{"preset": "dgx-h100", "nodes": 1, "devices_per_node": 1}},
            "training": {{"global_batch_size": 1, "micro_batch_size": 1, "sequence_length": 128}}, "strategy": {{"framework": "fsdp", "zero_stage": 0}}}})",
            model);
        ParseResult parsed = parse_scenario(text, {});
        ASSERT_TRUE(parsed.scenario.has_value()) << model << to_text(parsed.problems);
        EXPECT_EQ(held_parameters(lower(*parsed.scenario)), static_cast<double>(parameter_count(parsed.scenario->model))) << model;
    }
}

TEST(Experts, AFurtherTokenAddsAProjectionALayerAndThreeNorms) {
    Mixture m;
    m.pp = 2;
    const Plan without = lower(m.make());
    m.model = R"(, "mtp_layers": 1)";
    const Scenario s = m.make();
    const Plan with = lower(s);
    const double h = m.hidden, added = 2 * h * h + 3 * h + static_cast<double>(layer_parameters(s.model, m.layers - 1)) +
                                       m.vocab * h; // the last: the embedding again, on the last stage
    EXPECT_EQ(held_parameters(with) - held_parameters(without), added - m.vocab * h) << "counted by name: the embedding is one";
    EXPECT_TRUE(verify(with).empty()) << to_text(verify(with));
    bool shared = false;
    for (const Communicator& c : with.communicators) shared = shared || c.name == "embedding";
    EXPECT_TRUE(shared) << "both ends add to the embedding's gradient";
}

// A chunk of its own moves work between stages and makes none: as many products and parameters, but for the embedding that another stage
// reads.
TEST(Experts, AFurtherTokensChunkMovesItsLayerAndNotItsLoss) {
    Mixture m;
    m.pp = 4;
    m.layers = 5;
    m.hidden = 2048, m.ffn = 2048, m.vocab = 131072;
    m.model = R"(, "mtp_layers": 1)";
    const std::string split = R"(, "layer_split": [2, 2, 1, 0])";
    m.strategy = split;
    const Scenario together = m.make();
    m.strategy = split + R"(, "mtp_chunk": 2)";
    const Scenario apart = m.make();
    const Plan a = lower(together), b = lower(apart);
    EXPECT_TRUE(verify(b).empty()) << to_text(verify(b));
    const auto work = [](const Plan& plan) {
        double sum = 0;
        for (int stage = 0; stage < plan.stages; ++stage)
            each_op(plan, stage, [&](const Block&, const Op& op) {
                if (std::holds_alternative<Linear>(op.work)) sum += flops(op.work).count;
            });
        return sum;
    };
    EXPECT_NEAR(work(b), work(a), 1e-9 * work(a));
    EXPECT_EQ(held_parameters(b), held_parameters(a)) << "counted by name";
}

// What a forward and a backward pass of one layer have, in PyTorch's own operators.
struct LayerRows {
    int pads = 0, sorts = 0, adjoints_of_sorts = 0, waits = 0;
    bool rows_fused = true, residuals_fused = true;
    std::vector<const Op*> gates;
};
LayerRows rows_of_layer(const Plan& plan) {
    LayerRows found;
    each_op(plan, 0, [&](const Block& b, const Op& op) {
        if (op.layer != 1 || (b.kind != BlockKind::forward && b.kind != BlockKind::backward)) return;
        if (const auto* p = std::get_if<Pointwise>(&op.work)) {
            found.pads += p->kind == PointwiseKind::pad_rows ? 1 : 0;
            if (op.name.ends_with("unpermute.widen")) found.rows_fused = found.rows_fused && p->fused;
            if (op.name.ends_with("residual1")) found.residuals_fused = found.residuals_fused && p->fused;
        }
        if (const auto* p = std::get_if<Permute>(&op.work); p && p->part == Permute::Part::sort)
            ++(p->adjoint ? found.adjoints_of_sorts : found.sorts);
        if (std::holds_alternative<HostSync>(op.work) && b.kind == BlockKind::forward) ++found.waits;
        if (std::holds_alternative<Linear>(op.work) && op.name.find("router") != std::string::npos) found.gates.push_back(&op);
    });
    return found;
}

Mixture of_torch(int ep) {
    Mixture m;
    m.dp = 4, m.ep = ep, m.zero = 3, m.global_batch = m.micro_batch * m.dp;
    return m;
}

std::vector<std::string> torchtitan(const char* year) {
    return {"strategy.framework=torchtitan", std::string("runtime.year=") + year, "strategy.recompute=none"};
}

// The index that sorts rows of several ranks by expert pads them as well: either way one gather into padded rows and one out of them.
TEST(Experts, RowsArePaddedOnceWithExpertParallelismAndWithout) {
    for (const int ep : {1, 2, 4}) { // of 8 experts
        const Plan padded = lower(of_torch(ep).make(torchtitan("2025"))), added = lower(of_torch(ep).make(torchtitan("2026")));
        EXPECT_TRUE(verify(padded).empty());
        EXPECT_TRUE(verify(added).empty());
        const LayerRows earlier = rows_of_layer(padded), later = rows_of_layer(added);
        EXPECT_EQ(earlier.pads, ep == 1 ? 4 : 0) << ep;
        EXPECT_EQ(later.pads, 0) << ep;
        for (const LayerRows& r : {earlier, later}) {
            EXPECT_EQ(r.sorts, ep == 1 ? 0 : 2) << ep;
            EXPECT_EQ(r.adjoints_of_sorts, ep == 1 ? 0 : 2) << ep;
        }
    }
    Mixture one = of_torch(4);
    one.experts = 4; // one on each rank: nothing is sorted, and rows are padded
    const LayerRows r = rows_of_layer(lower(one.make(torchtitan("2025"))));
    EXPECT_EQ(r.pads, 4);
    EXPECT_EQ(r.sorts, 0);
}

// torch.compile leaves the operators that move experts' rows eager in 2025, and nothing else.
TEST(Experts, ACompilerLeavesRowsMovedByAnIndexAlone) {
    for (const bool fused : {false, true}) {
        const auto made = [&](const char* year) {
            std::vector<std::string> fields = torchtitan(year);
            fields.push_back(fused ? "strategy.fused=true" : "strategy.fused=false");
            return rows_of_layer(lower(of_torch(1).make(fields)));
        };
        EXPECT_FALSE(made("2025").rows_fused);
        for (const char* year : {"2025", "2026"}) EXPECT_EQ(made(year).residuals_fused, fused) << year;
    }
}

// torchtitan of 2026 multiplies its router's weights in fp32: all three products, with operands and results of 32 bits.
TEST(Experts, AGateInFp32HasOperandsOf32Bits) {
    for (const int ep : {1, 4}) {
        const Plan plan = lower(of_torch(ep).make(torchtitan("2026")));
        EXPECT_TRUE(verify(plan).empty());
        const LayerRows wide = rows_of_layer(plan);
        ASSERT_EQ(wide.gates.size(), 3u);
        for (const Op* op : wide.gates) {
            EXPECT_EQ(std::get<Linear>(op->work).dtype, DType::fp32) << op->name;
            for (const auto* list : {&op->in, &op->out})
                for (BufferId b : *list) EXPECT_EQ(plan.buffers[b].dtype, DType::fp32) << op->name << " " << plan.buffers[b].name;
        }
        const Plan before = lower(of_torch(ep).make(torchtitan("2025")));
        for (const Op* op : rows_of_layer(before).gates) EXPECT_EQ(std::get<Linear>(op->work).dtype, DType::bf16) << op->name;
    }
}

// A loop over experts leaves the host no farther than one linear ahead of the device; grouped products do not wait.
TEST(Experts, ALoopOverExpertsKeepsTheHostBesideTheDevice) {
    const auto waits = [](const char* year) {
        return rows_of_layer(
                   lower(of_torch(1).make({"strategy.framework=fsdp", std::string("runtime.year=") + year, "strategy.recompute=none"})))
            .waits;
    };
    EXPECT_EQ(waits("2025"), 3) << "for which experts have rows, and behind each linear of theirs";
    EXPECT_EQ(waits("2026"), 0);
}

// Gate and up of torchtitan's experts are products of their own, whose gradients are added up; of Transformers 5 they are one, and of
// models whose module has both in one parameter, whatever software goes over it.
TEST(Experts, GateAndUpAreProductsOfTheirOwnWhereSoftwareHasThemApart) {
    const auto modules = [](Mixture m, const std::vector<std::string>& more) {
        int most = 0;
        const Plan plan = lower(m.make(more));
        each_op(plan, 0, [&](const Block&, const Op& op) {
            if (op.name.find("expert_fc1") != std::string::npos && std::holds_alternative<Linear>(op.work))
                most = std::max<int>(most, op.modules);
        });
        return most;
    };
    const std::vector<std::string> loop{"strategy.framework=fsdp", "runtime.year=2025"};
    Mixture biased = of_torch(1), stacked = of_torch(1);
    biased.bias = true;
    stacked.moe = R"(, "stacked_weights": true)";
    EXPECT_EQ(modules(of_torch(1), torchtitan("2026")), 2);
    EXPECT_EQ(modules(of_torch(4), torchtitan("2025")), 2);
    EXPECT_EQ(modules(biased, torchtitan("2026")), 2);
    EXPECT_EQ(modules(stacked, torchtitan("2026")), 1);
    EXPECT_EQ(modules(of_torch(1), {"strategy.framework=fsdp", "runtime.year=2026"}), 1);
    EXPECT_EQ(modules(of_torch(1), loop), 2);
    EXPECT_EQ(modules(stacked, loop), 1);
}

} // namespace
} // namespace orrery::laws
