// Do forwards that overlap backwards obey the laws of their papers, in whole plans? DeepSeek-V3 (arXiv:2412.19437, table 2): DualPipe holds
// the parameters twice and p + 1 activations, and its bubble is (p/2-1)(F&B + B - 3W); DualPipe-V halves the ranks. What is overlapped is
// read from traces.
#include "sim/engine/compile.hpp"
#include "sim/plan/verify.hpp"
#include "sim/report/report.hpp"
#include "tests/laws/mixture.hpp"
#include "tests/laws/scenarios.hpp"

#include <algorithm>
#include <functional>
#include <set>
#include <unordered_map>

namespace orrery::laws {
namespace {

constexpr std::int64_t unit = 1'000'000; // ps

Gpt small(const std::string& schedule, int p, int v, int m) {
    Gpt g;
    g.layers = 2 * p * v;
    g.hidden = 64;
    g.heads = 4;
    g.vocab = 512;
    g.sequence = 32;
    g.micro_batch = 1;
    g.microbatches = m;
    g.pp = p;
    g.vp = v;
    g.flash = true;
    g.tied = false;
    g.schedule = schedule;
    return g;
}

const Block& block_of(const Plan& plan, std::int32_t b) { return plan.blocks[b]; }

// The blocks that a block stands for: itself, or its parts with their ports.
std::vector<BlockPart> parts_of(const Plan& plan, std::int32_t b) {
    return block_of(plan, b).parts.empty() ? std::vector<BlockPart>{{b, 0}} : block_of(plan, b).parts;
}

Costs plain_costs(std::function<std::int64_t(const Op&)> compute, std::int64_t collective) {
    Costs costs;
    costs.compute = [compute = std::move(compute)](const Op& op) { return ComputeCost{Time{compute(op)}, 1}; };
    costs.collective = [collective](const Collective&, std::span<const int> ranks) {
        CommCost cost;
        if (ranks.size() > 1) cost.latency = Time{collective};
        return cost;
    };
    costs.loads = [](const Collective&, const CommCost&, std::span<const int>) { return std::vector<LinkLoad>{}; };
    costs.transfer = [](Bytes, int, int) { return CommCost{}; };
    costs.transfer_loads = [](int, int) { return std::vector<LinkLoad>{}; };
    return costs;
}

Simulation run_plan(const Plan& plan, const Costs& costs, bool fold = true) {
    SimulateOptions options;
    const Simulation s = run(compile(plan, costs, Wires{}, {fold, false}), options);
    EXPECT_FALSE(s.deadlock.has_value()) << (s.deadlock ? to_text(*s.deadlock) : "");
    return s;
}

// Each half of a chunk's backward pass and each forward pass lasts one unit, on its last computation; of chunk `long_chunk` two.
double step_in_units(const Plan& plan, int long_chunk = -1) {
    std::unordered_map<const Op*, std::int64_t> times;
    for (std::size_t b = 0; b < plan.blocks.size(); ++b)
        for (const BlockPart& part : parts_of(plan, static_cast<std::int32_t>(b))) {
            const BlockKind kind = block_of(plan, part.block).kind;
            if (kind != BlockKind::forward && kind != BlockKind::backward && kind != BlockKind::weight) continue;
            const Op* last = nullptr;
            for (const Op& op : plan.blocks[b].ops)
                if (op.queue == compute_queue && op.port == part.port && !is_memory_op(op.work)) last = &op;
            times[last] += block_of(plan, part.block).chunk == long_chunk ? 2 * unit : unit;
        }
    return double(run_plan(plan, plain_costs([&](const Op& op) { return times.contains(&op) ? times.at(&op) : 0; }, 0)).step_time.ps) /
           unit;
}

// Here a forward's result may leave, and a backward's input arrive, in the middle of their block: the paper's bubble is a bound.
TEST(DualLaws, BubbleIsThePapersAtMost) {
    for (int p : {2, 4, 6})
        for (int m : {2 * p, 3 * p}) {
            const double bubble = step_in_units(lower(small("dualpipe", p, 1, m).make())) - 3.0 * m;
            EXPECT_LE(bubble, (p / 2 - 1) * 2 + 1e-9) << p << " " << m;
            EXPECT_GE(bubble, p / 2 - 1 - 1e-9) << p << " " << m; // the first microbatch must reach the middle
        }
    for (int p : {1, 2, 3, 4})
        for (int m : {2 * p, 3 * p + 1}) {
            const double bubble = step_in_units(lower(small("dualpipe-v", p, 2, m).make())) - 6.0 * m;
            EXPECT_LE(bubble, (p - 1) * 2 + 1e-9) << p << " " << m;
            EXPECT_GE(bubble, p - 1 - 1e-9) << p << " " << m;
        }
}

// Where one rank has more to do (the head beside its layers), it is never idle but for the paper's bubble: the others wait for it.
TEST(DualLaws, TheLongestRankSetsThePace) {
    for (const char* overlap : {"true", "false"})
        for (int p : {2, 4})
            for (int m : {2 * p, 4 * p}) {
                Gpt v = small("dualpipe-v", p, 2, m), both = small("dualpipe", 2 * p, 1, 2 * m);
                v.extra_strategy = both.extra_strategy = fmt::format(R"(, "overlap": {{"pipeline": {}}})", overlap);
                // The rank of the last chunk has its first chunk too: three units of three against two; of DualPipe's, half the
                // microbatches each.
                const double of_v = step_in_units(lower(v.make()), 2 * p - 1) - 9.0 * m;
                EXPECT_GE(of_v, -1e-9) << p << " " << m;
                EXPECT_LE(of_v, (p - 1) * 4 + 1e-9) << p << " " << m;
                const double of_both = step_in_units(lower(both.make()), 2 * p - 1) - 9.0 * m;
                EXPECT_GE(of_both, -1e-9) << p << " " << m;
                EXPECT_LE(of_both, (p - 1) * 4 + 1e-9) << p << " " << m;
            }
}

// Most (chunk, microbatch) activations at once, forward to the end of backward.
int in_flight(const Plan& plan, const Program& program) {
    int held = 0, peak = 0;
    for (const Action& a : program.actions) {
        if (a.first != 0) continue; // more pieces of a block
        for (const BlockPart& part : parts_of(plan, a.block))
            if (block_of(plan, part.block).kind == BlockKind::forward) peak = std::max(peak, ++held);
        for (const BlockPart& part : parts_of(plan, a.block))
            if (block_of(plan, part.block).kind == BlockKind::weight) --held;
    }
    EXPECT_EQ(held, 0);
    return peak;
}

TEST(DualLaws, ActivationsInFlightArePPlus1) {
    for (int p : {2, 4, 8}) {
        const Plan plan = lower(small("dualpipe", p, 1, 3 * p).make());
        for (const Program& program : plan.programs) EXPECT_LE(in_flight(plan, program), p + 1) << p;
    }
    for (int p : {2, 4}) {
        const Plan plan = lower(small("dualpipe-v", p, 2, 3 * p).make());
        for (const Program& program : plan.programs) EXPECT_LE(in_flight(plan, program), 2 * p + 1) << p; // chunks of half a stage
    }
}

TEST(DualLaws, ParametersAreHeldTwiceAndStatesOnce) {
    for (int zero : {0, 1}) {
        Gpt both = small("dualpipe", 4, 1, 8), one = small("1f1b", 4, 1, 8);
        both.zero = one.zero = zero;
        both.dp = one.dp = 2;
        const Plan two = lower(both.make()), single = lower(one.make());
        std::map<MemoryKind, double> of_two, of_one;
        for (int s = 0; s < 4; ++s) {
            for (const auto& [kind, bytes] : resident(two, s)) of_two[kind] += bytes;
            for (const auto& [kind, bytes] : resident(single, s)) of_one[kind] += bytes;
        }
        EXPECT_DOUBLE_EQ(of_two[MemoryKind::parameters], 2 * of_one[MemoryKind::parameters]);
        EXPECT_DOUBLE_EQ(of_two[MemoryKind::gradients], 2 * of_one[MemoryKind::gradients]);
        const double states = of_two[MemoryKind::optimizer_states] / of_one[MemoryKind::optimizer_states];
        EXPECT_NEAR(states, zero == 0 ? 2 : 1, zero == 0 ? 1e-9 : 0.05); // but for padding
    }
}

double total_flops(const Plan& plan) {
    double sum = 0;
    for (const Program& program : plan.programs)
        for (const Action& a : program.actions)
            for (std::int32_t i = a.first; i < a.last; ++i) {
                const Op& op = block_of(plan, a.block).ops[i];
                if (op.phase != Phase::optimizer) sum += flops(op.work).count;
            }
    return sum;
}

// Every gradient is summed over the ranks of both copies, and the work is that of one model.
TEST(DualLaws, BothDirectionsTogetherTrainOneModel) {
    Gpt both = small("dualpipe", 4, 1, 8), one = small("1f1b", 4, 1, 8);
    both.dp = one.dp = 2;
    const Plan two = lower(both.make()), single = lower(one.make());
    EXPECT_DOUBLE_EQ(total_flops(two), total_flops(single));
    std::map<int, double> reduced; // by stage: elements
    for (const Block& b : two.blocks)
        for (const Op& op : b.ops)
            if (const auto* c = std::get_if<Collective>(&op.work); c && op.phase == Phase::gradient_reduce) {
                EXPECT_EQ(size(two, c->comm), 4) << op.name;
                const auto& stages = two.communicators[c->comm].stages;
                ASSERT_EQ(stages.size(), 2u);
                EXPECT_EQ(stages[0] + stages[1], 3);
                reduced[b.stage] += double(c->bytes.count);
            }
    for (int s = 0; s < 4; ++s) EXPECT_DOUBLE_EQ(reduced[s], resident(two, s)[MemoryKind::gradients]);
}

double exposed(const Simulation& s, Category c) {
    double sum = 0;
    for (const LaneResult& lane : s.lanes) sum += double(lane.breakdown[c].ps) * lane.ranks;
    return sum;
}

// A GEMM takes a unit, anything else nothing, a collective half of it: joined, the other side has a GEMM for each.
TEST(DualLaws, CollectivesOfOneDirectionRunUnderTheOthersComputation) {
    const Costs costs = plain_costs([](const Op& op) { return std::holds_alternative<Linear>(op.work) ? unit : 0; }, unit / 2);
    const auto exposed_by = [&](const std::string& schedule, int p, int v, const std::string& extra) {
        Gpt g = small(schedule, p, v, 8 * p);
        g.tp = 2;
        g.sp = true;
        g.extra_strategy = extra;
        const Simulation s = run_plan(lower(g.make()), costs);
        return exposed(s, Category::exposed_tp) / (double(s.step_time.ps) * 2 * p);
    };
    const double joined = exposed_by("interleaved-1f1b", 2, 2, R"(, "overlap": {"expert_parallel": true})");
    const double apart = exposed_by("interleaved-1f1b", 2, 2, "");
    EXPECT_LT(joined, apart / 2);
    EXPECT_LT(exposed_by("dualpipe-v", 2, 2, ""), exposed_by("zb-v", 2, 2, "") / 2);
    EXPECT_LT(exposed_by("dualpipe", 4, 1, ""), exposed_by("1f1b", 4, 1, "") / 2);
}

Mixture joined_mixture(int tp, const char* dispatcher) {
    Mixture m;
    m.layers = 8, m.hidden = 64, m.vocab = 512, m.sequence = 64, m.micro_batch = 1, m.global_batch = 128, m.ffn = 64;
    m.pp = 2, m.tp = tp, m.dp = 4 / tp, m.ep = 2, m.dispatcher = dispatcher;
    return m;
}
const std::vector<std::string> interleaved{"strategy.schedule=interleaved-1f1b", "strategy.virtual_pipeline=2"};
Scenario joined(const Mixture& m, bool join = true) {
    std::vector<std::string> fields = interleaved;
    fields.push_back(fmt::format("strategy.overlap.expert_parallel={}", join));
    return m.make(fields);
}

// The ops of a joined block, one letter each in issue order, capital for the backward step: a attention, e experts, m a dense MLP's first
// linear; d dispatch, c combine.
std::string letters(const Block& b) {
    std::string text;
    for (const Op& op : b.ops) {
        const auto* c = std::get_if<Collective>(&op.work);
        const bool exchange = c && c->kind == CollectiveKind::all_to_all;
        char letter = 0;
        if (std::holds_alternative<Attention>(op.work)) letter = 'a';
        if (op.name.ends_with("expert_fc1") || op.name.ends_with("expert_fc1.dgrad")) letter = 'e';
        if (op.name.ends_with(".fc1") || op.name.ends_with(".fc1.dgrad")) letter = 'm';
        if (exchange) letter = op.name.find("dispatch") != std::string::npos ? 'd' : 'c';
        if (letter) text += op.port == 0 ? letter : static_cast<char>(letter - 'a' + 'A');
    }
    return text;
}

// Megatron-Core's TransformerLayerSchedulePlan.run: the exchanges of one step, each beside the computation of the other, in one order
// whatever communication there is inside attention.
TEST(DualLaws, JoinedMixturesGoFromLayerToLayerAsMegatronDoes) {
    for (const int tp : {1, 2})
        for (const char* dispatcher : {"alltoall", "deepep"}) {
            const Plan plan = lower(joined(joined_mixture(tp, dispatcher)));
            EXPECT_TRUE(verify(plan).empty()) << to_text(verify(plan));
            int blocks = 0;
            for (const Block& b : plan.blocks) {
                if (b.parts.size() < 2 || b.parts.back().port == 0) continue;
                ++blocks;
                EXPECT_EQ(letters(b), "CadEDecACadEDecA") << b.name << " tp " << tp << " " << dispatcher; // two layers a chunk
            }
            EXPECT_GT(blocks, 2);
        }
}

// Layers without experts take part: their attention and MLP stand beside the other step's exchanges.
TEST(DualLaws, DenseLayersOfMixturesHideTheOthersExchanges) {
    Mixture m = joined_mixture(2, "alltoall");
    m.dense_layers = 2; // the first chunk of the first stage has none but dense layers
    const Plan plan = lower(joined(m));
    EXPECT_TRUE(verify(plan).empty()) << to_text(verify(plan));
    std::set<std::string> met;
    for (const Block& b : plan.blocks)
        if (b.parts.size() > 1 && b.parts.back().port > 0) met.insert(letters(b));
    EXPECT_EQ(met, (std::set<std::string>{"CadEDecACadEDecA", "CaEDmACaEDmA", "adMecAadMecA", "aMmAaMmA"}));
}

// A product takes a unit, an exchange a half: joined, each is beside a part of the other step that takes longer. Other communication
// takes turns with nothing.
TEST(DualLaws, JoinedMixturesHideTheirExchangesWhateverTheTensorParallelDegree) {
    Costs costs = plain_costs([](const Op& op) { return std::holds_alternative<Linear>(op.work) ? unit : 0; }, 0);
    costs.collective = [](const Collective& c, std::span<const int> ranks) {
        CommCost cost;
        if (ranks.size() > 1) cost.latency = Time{c.kind == CollectiveKind::all_to_all ? unit / 2 : unit / 8};
        return cost;
    };
    for (const int tp : {1, 2}) {
        const Mixture m = joined_mixture(tp, "alltoall");
        const auto waits = [&](bool join) { return exposed(run_plan(lower(joined(m, join)), costs), Category::exposed_ep); };
        EXPECT_LT(waits(true), waits(false) / 4) << "tp " << tp;
    }
}

// Where exchanges go between nodes a step is faster for it, whatever tensor parallelism does inside them.
TEST(DualLaws, JoinedMixturesAreFasterBetweenNodes) {
    for (const int tp : {1, 2, 4})
        for (const char* dispatcher : {"alltoall", "deepep"}) {
            Mixture m = joined_mixture(tp, dispatcher);
            m.hidden = 1024, m.ffn = 1024, m.sequence = 2048;
            m.cluster = fmt::format(R"({{"preset": "dgx-h100", "nodes": {}, "devices_per_node": {}}})", m.world() / tp, tp);
            EXPECT_LT(predict(joined(m)).report.step_time_s, predict(joined(m, false)).report.step_time_s) << "tp " << tp << dispatcher;
        }
}

// Each of a joined block's ops stands behind the ops of its own side it had stood behind.
TEST(DualLaws, JoinedBlocksKeepTheOrderOfTheirParts) {
    Gpt g = small("dualpipe", 4, 1, 8);
    g.tp = 2;
    const Plan plan = lower(g.make());
    int joined = 0;
    for (const Block& b : plan.blocks) {
        for (const BlockPart& part : b.parts) {
            ++joined;
            std::size_t next = 0;
            for (const Op& op : block_of(plan, part.block).ops) {
                if (is_memory_op(op.work)) continue;
                while (next < b.ops.size() && !(b.ops[next].port == part.port && b.ops[next].name == op.name && b.ops[next].out == op.out))
                    ++next;
                ASSERT_LT(next++, b.ops.size()) << b.name << " " << op.name;
            }
        }
    }
    EXPECT_GT(joined, 8);
}

// Gathers, releases and reductions stand before and after a joined block, not inside it.
TEST(DualLaws, ShardingLeavesJoinedBlocksJoined) {
    for (const char* schedule : {"dualpipe-v", "interleaved-1f1b"}) {
        const auto joined = [&](int zero) {
            Gpt g = small(schedule, 4, 2, 8);
            g.dp = 2;
            g.zero = zero;
            g.extra_strategy = R"(, "overlap": {"expert_parallel": true})";
            const Plan plan = lower(g.make());
            std::vector<int> counts;
            for (const Program& program : plan.programs)
                counts.push_back(static_cast<int>(std::count_if(program.actions.begin(), program.actions.end(), [&](const Action& a) {
                    const Block& b = block_of(plan, a.block);
                    return !b.parts.empty() && b.parts.back().port > 0;
                })));
            return counts;
        };
        const std::vector<int> plain = joined(0);
        EXPECT_GT(plain[0], 4) << schedule;
        for (int zero : {1, 2, 3}) EXPECT_EQ(joined(zero), plain) << schedule << " zero " << zero;
    }
}

struct Combination {
    const char* schedule;
    int v;
    const char* extra;
    int most_zero;
};

TEST(DualLaws, EveryCombinationLowersVerifiesAndFolds) {
    const Costs costs = plain_costs([](const Op& op) { return std::holds_alternative<Linear>(op.work) ? unit : unit / 7; }, unit / 3);
    for (const Combination& c : {Combination{"dualpipe", 1, "", 1},
                                 {"dualpipe-v", 2, "", 3},
                                 {"interleaved-1f1b", 2, R"(, "overlap": {"expert_parallel": true})", 3}})
        for (int p : {2, 4})
            for (int tp : {1, 2, 4})
                for (int dp : {1, 2})
                    for (int zero = 0; zero <= (dp > 1 ? c.most_zero : 1); ++zero)
                        for (const char* recompute : {"none", "full"}) {
                            Gpt g = small(c.schedule, p, c.v, 2 * p);
                            g.layers = p * c.v;
                            g.tp = tp;
                            g.sp = tp == 2;
                            g.dp = dp;
                            g.zero = zero;
                            g.recompute = recompute;
                            g.tied = (tp + zero) % 2 == 0;
                            g.extra_strategy = c.extra;
                            const std::string where =
                                fmt::format("{} p{} tp{} dp{} zero{} {} tied {}", c.schedule, p, tp, dp, zero, recompute, g.tied);
                            const Plan plan = lower(g.make());
                            const auto wrong = verify(plan);
                            ASSERT_TRUE(wrong.empty()) << where << "\n" << to_text(wrong);
                            EXPECT_EQ(run_plan(plan, costs).step_time.ps, run_plan(plan, costs, false).step_time.ps) << where;
                        }
}

} // namespace
} // namespace orrery::laws
