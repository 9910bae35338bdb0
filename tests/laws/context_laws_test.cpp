// Does context parallelism move the bytes and do the work its papers say, in each of its three kinds? Read from plans and traces.
// Sources: arXiv:2310.01889 (ring), arXiv:2309.14509 (Ulysses), arXiv:2407.21783 section 3.3.2 (all-gather).
#include "sim/engine/compile.hpp"
#include "sim/plan/verify.hpp"
#include "sim/report/report.hpp"
#include "tests/laws/scenarios.hpp"

#include <algorithm>
#include <set>

namespace orrery::laws {
namespace {

struct Context {
    int layers = 2, hidden = 512, heads = 16, kv_heads = 8, sequence = 1024, micro_batch = 1, microbatches = 2;
    int tp = 1, cp = 1, pp = 1, dp = 1, zero = 1, window = 0, document = 0;
    bool sp = true, causal = true;
    std::string kind = "ring", schedule, recompute = "none", extra_strategy, position = "rope", latent;

    int world() const { return tp * cp * pp * dp; }
    std::string where() const { return fmt::format("{} c{} t{} p{} d{} window {} document {}", kind, cp, tp, pp, dp, window, document); }
    Scenario make() const {
        const int per_node = std::min(world(), 8);
        return scenario(fmt::format(
            R"({{"name": "law", "model": {{"layers": {}, "hidden_size": {}, "attention_heads": {}, "kv_heads": {}, "vocab_size": 4096, "tied_embeddings": false, "bias": false,
                          "activation": "swiglu", "norm": "rmsnorm", "position": "{}", "attention": {{"causal": {}{}{}}}}},
                "cluster": {{"preset": "dgx-h100", "nodes": {}, "devices_per_node": {}}},
                "training": {{"global_batch_size": {}, "micro_batch_size": {}, "sequence_length": {}, "document_tokens": {}, "precision": "bf16", "gradient_dtype": "fp32"}},
                "strategy": {{"framework": "megatron", "data_parallel": {}, "tensor_parallel": {}, "sequence_parallel": {}, "pipeline_parallel": {}{},
                             "context_parallel": {}, "context_parallel_kind": "{}", "zero_stage": {}, "recompute": "{}", "flash_attention": true{}}}}})",
            layers, hidden, heads, kv_heads, position, causal, window > 0 ? fmt::format(R"(, "sliding_window": {})", window) : "", latent,
            (world() + per_node - 1) / per_node, per_node, static_cast<std::int64_t>(microbatches) * micro_batch * dp, micro_batch,
            sequence, document, dp, tp, sp && tp > 1, pp, schedule.empty() ? "" : fmt::format(R"(, "schedule": "{}")", schedule), cp, kind,
            zero, recompute, extra_strategy));
    }
};

const char* const kinds[] = {"ring", "allgather", "ulysses"};

// The ops of one block on the context communicator.
struct Moved {
    int count = 0;
    std::int64_t bytes = 0;
};
std::map<CollectiveKind, Moved> moved(const Plan& plan, const std::string& block) {
    std::map<CollectiveKind, Moved> sum;
    for (const Op& op : block_named(plan, block).ops)
        if (const auto* c = std::get_if<Collective>(&op.work); c && plan.communicators[std::size_t(c->comm)].name == "cp") {
            ++sum[c->kind].count;
            sum[c->kind].bytes += c->bytes.count;
        }
    return sum;
}

TEST(ContextLaws, UlyssesTurnsQueriesKeysValuesAndOutputOnceALayerEachWay) {
    Context x;
    x.kind = "ulysses";
    x.cp = 4;
    const Plan plan = lower(x.make());
    const std::int64_t tokens = x.sequence / x.cp, d = x.hidden / x.heads;
    const std::int64_t each_way = tokens * d * (2 * x.heads + 2 * x.kv_heads) * 2; // bf16
    for (const char* block : {"F0", "B0"}) {
        const auto sum = moved(plan, block);
        ASSERT_EQ(sum.size(), 1u) << block;
        EXPECT_EQ(sum.at(CollectiveKind::all_to_all).count, 4 * x.layers) << block;
        EXPECT_EQ(sum.at(CollectiveKind::all_to_all).bytes, each_way * x.layers) << block;
    }
}

// Fewer heads of keys than ranks: each is sent to every rank that has queries of it.
TEST(ContextLaws, UlyssesSendsAHeadOfKeysToAllThatNeedIt) {
    Context x;
    x.kind = "ulysses";
    x.cp = 4;
    x.kv_heads = 2;
    const Plan plan = lower(x.make());
    const std::int64_t tokens = x.sequence / x.cp, d = x.hidden / x.heads;
    EXPECT_EQ(moved(plan, "F0").at(CollectiveKind::all_to_all).bytes, tokens * d * (2 * x.heads + 2 * 4) * 2 * x.layers);
}

TEST(ContextLaws, KeysAndValuesAreGatheredForwardAndAgainBackwardAndTheirGradientsScattered) {
    Context x;
    x.kind = "allgather";
    for (int c : {2, 4}) {
        x.cp = c;
        const Plan plan = lower(x.make());
        const std::int64_t whole = std::int64_t{x.sequence} * (x.hidden / x.heads) * 2 * x.kv_heads * 2;
        const auto forward = moved(plan, "F0"), backward = moved(plan, "B0");
        EXPECT_EQ(forward.at(CollectiveKind::all_gather).bytes, whole * x.layers);
        EXPECT_EQ(backward.at(CollectiveKind::all_gather).bytes, whole * x.layers);
        EXPECT_EQ(backward.at(CollectiveKind::reduce_scatter).bytes, whole * x.layers);
        // Over the wire: all but a rank's own part.
        const Scenario s = x.make();
        const Fabric fabric(s.cluster);
        const CostModel cost(s, fabric);
        for (const Op& op : block_named(plan, "F0").ops)
            if (const auto* g = std::get_if<Collective>(&op.work); g && g->kind == CollectiveKind::all_gather) {
                const std::vector<int> ranks = members(plan, g->comm, 0);
                ASSERT_EQ(int(ranks.size()), c);
                const CommCost price = cost.collective(*g, ranks);
                double most = 0;
                for (const LinkLoad& l : cost.loads(*g, price, ranks)) most = std::max(most, l.load);
                EXPECT_DOUBLE_EQ(most, double(c - 1) / c);
                EXPECT_DOUBLE_EQ(price.payload, double(g->bytes.count));
            }
    }
}

TEST(ContextLaws, RingShiftsEveryBlockPastEveryRank) {
    Context x;
    for (int c : {2, 4}) {
        x.cp = c;
        const Plan plan = lower(x.make());
        const std::int64_t block = std::int64_t{x.sequence} / c * (x.hidden / x.heads) * 2 * x.kv_heads * 2;
        const auto forward = moved(plan, "F0"), backward = moved(plan, "B0");
        EXPECT_EQ(forward.at(CollectiveKind::shift).count, (c - 1) * x.layers);
        EXPECT_EQ(forward.at(CollectiveKind::shift).bytes, (c - 1) * block * x.layers);
        EXPECT_EQ(backward.at(CollectiveKind::shift_back).count, c * x.layers);
        EXPECT_EQ(backward.at(CollectiveKind::shift_back).bytes, 2 * (c - 1) * block * x.layers); // K/V, and their gradients
    }
}

// Pairs of (query, key) a rank computes in a ring's step, counted one by one. Each document is dealt out by itself.
std::int64_t counted(const Context& x, int rank, int from, bool balanced) {
    const int whole = x.document > 0 ? x.document : x.sequence, n = whole / (2 * x.cp);
    const auto positions = [&](int r) {
        std::vector<int> list;
        for (int begin = 0; begin < x.sequence; begin += whole)
            for (int chunk : balanced ? std::vector{r, 2 * x.cp - 1 - r} : std::vector{2 * r, 2 * r + 1})
                for (int i = 0; i < n; ++i) list.push_back(begin + chunk * n + i);
        return list;
    };
    std::int64_t pairs = 0;
    for (int q : positions(rank))
        for (int k : positions(from)) pairs += q / whole == k / whole && (!x.causal || k <= q) && (x.window == 0 || q - k < x.window);
    return pairs;
}

std::vector<Attention> attentions(const Plan& plan, const std::string& block, int layer) {
    std::vector<Attention> list;
    for (const Op& op : block_named(plan, block).ops)
        if (const auto* a = std::get_if<Attention>(&op.work); a && op.layer == layer) list.push_back(*a);
    return list;
}

double pairs_of(const Attention& a) { return double(a.batch) * double(a.seq_q) * double(a.seq_kv) * a.share; }

TEST(ContextLaws, CausalWorkIsBalancedByTwoCChunks) {
    Context x;
    x.sequence = 256;
    for (int c : {2, 4}) {
        x.cp = c;
        const auto steps = attentions(lower(x.make()), "F0", 0);
        ASSERT_EQ(int(steps.size()), c);
        std::vector<double> work(std::size_t(c), 0.0);
        double planned = 0;
        for (int i = 0; i < c; ++i) {
            planned += pairs_of(steps[std::size_t(i)]);
            for (int r = 0; r < c; ++r) {
                const double exact = double(counted(x, r, (r - i + c) % c, true));
                EXPECT_NEAR(pairs_of(steps[std::size_t(i)]), exact, exact / (2.0 * c)) << "step " << i << " of rank " << r;
                work[std::size_t(r)] += exact;
            }
        }
        for (double w : work) EXPECT_NEAR(w, planned, planned / (2.0 * c));
        // Unbalanced, the last rank would have nearly twice the mean.
        double last = 0;
        for (int from = 0; from < c; ++from) last += double(counted(x, c - 1, from, false));
        EXPECT_GT(last, 1.4 * planned);
    }
}

TEST(ContextLaws, BlocksOutsideTheWindowAreSkipped) {
    Context x;
    x.sequence = 512;
    x.cp = 4; // blocks of 128
    struct {
        int window, steps;
    } cases[] = {{64, 2}, {129, 2}, {130, 3}, {200, 3}, {300, 4}};
    for (auto [window, steps] : cases) {
        x.window = window;
        const Plan plan = lower(x.make());
        const auto list = attentions(plan, "F0", 0);
        ASSERT_EQ(int(list.size()), steps) << window;
        EXPECT_EQ(moved(plan, "F0").at(CollectiveKind::shift).count, (steps - 1) * x.layers) << window;
        EXPECT_TRUE(verify(plan).empty()) << window;
        if (steps == x.cp) continue; // all blocks needed: balanced as without a window
        for (int i = 0; i < steps; ++i) {
            const double exact = double(counted(x, x.cp - 1, x.cp - 1 - i, false));
            EXPECT_NEAR(pairs_of(list[std::size_t(i)]), exact, 0.02 * double(counted(x, x.cp - 1, x.cp - 1, false)) + 1)
                << window << " step " << i;
        }
    }
}

constexpr const char* latent_attention =
    R"(, "kind": "mla", "q_lora_rank": 96, "kv_lora_rank": 64, "qk_nope_head_dim": 32, "qk_rope_head_dim": 16, "v_head_dim": 32)";

// FLOPs, parameters and tokens of a step over all ranks.
struct Totals {
    double attention = 0, all = 0, parameters = 0, states = 0;
    std::int64_t tokens = 0;
};
Totals totals(const Plan& plan) {
    Totals t;
    const double ranks = double(plan.mesh.ranks()) / plan.stages;
    for (const Program& p : plan.programs)
        for (const Action& a : p.actions)
            for (std::int32_t i = a.first; i < a.last; ++i) {
                const Work& w = plan.blocks[std::size_t(a.block)].ops[std::size_t(i)].work;
                t.all += ranks * flops(w).count;
                if (std::holds_alternative<Attention>(w)) t.attention += ranks * flops(w).count;
                if (const auto* e = std::get_if<Embedding>(&w); e && e->direction == Direction::forward)
                    t.tokens += std::int64_t(ranks) / plan.mesh.extent(Axis::tp) * e->tokens;
            }
    for (const Buffer& b : plan.buffers) {
        double copies = 1;
        for (Axis a : {Axis::tp, Axis::cp, Axis::dp, Axis::dpr, Axis::dpw})
            if (b.placement.on(a) != PlacementKind::sharded) copies *= plan.mesh.extent(a);
        if (b.role == Role::parameter) t.parameters += ranks / copies * double(b.bytes.count) / 2;
        if (b.kind == MemoryKind::optimizer_states) t.states += ranks * double(b.bytes.count);
    }
    return t;
}

TEST(ContextLaws, WorkParametersAndTokensAreTheSameHoweverSplit) {
    for (const char* kind : kinds)
        for (bool causal : {true, false}) {
            Context x;
            x.kind = kind;
            x.causal = causal;
            x.latent = causal ? "" : latent_attention;
            const Totals whole = totals(lower(x.make()));
            for (int t : {1, 2}) {
                double states = 0;
                for (int c : {1, 2, 4}) {
                    x.cp = c;
                    x.tp = t;
                    const Totals split = totals(lower(x.make()));
                    if (c == 1) states = split.states;
                    EXPECT_DOUBLE_EQ(split.attention, whole.attention) << x.where();
                    EXPECT_DOUBLE_EQ(split.all, whole.all) << x.where();
                    EXPECT_DOUBLE_EQ(split.parameters, whole.parameters) << x.where();
                    EXPECT_NEAR(split.states, states, 1e-3 * states) << x.where(); // sharded over data and context ranks, padded
                    EXPECT_EQ(split.tokens, whole.tokens) << x.where();
                }
            }
        }
}

TEST(ContextLaws, ActivationsArePartOfTheirTokens) {
    for (const char* kind : kinds) {
        Context x;
        x.kind = kind;
        x.layers = 8;
        const double whole = double(left_allocated(lower(x.make()), block_named(lower(x.make()), "F0")));
        x.cp = 4;
        const Plan plan = lower(x.make());
        const double kept = double(left_allocated(plan, block_named(plan, "F0"))), share = kept * x.cp / whole;
        EXPECT_GE(share, 1.0) << kind;
        EXPECT_LT(share, std::string(kind) == "ulysses" ? 1.06 : 1.0001) << kind; // Ulysses keeps the output twice: of heads, and of tokens
    }
}

TEST(ContextLaws, DocumentsAreDealtOutEvenlyAndEachStepHasItsPartOfThem) {
    Context x;
    x.sequence = 256;
    for (bool causal : {true, false})
        for (int c : {2, 4})
            for (int document : {32, 64, 128}) {
                x.causal = causal;
                x.cp = c;
                x.document = document;
                const auto steps = attentions(lower(x.make()), "F0", 0);
                ASSERT_EQ(int(steps.size()), c);
                for (int i = 0; i < c; ++i)
                    for (int r = 0; r < c; ++r) {
                        const double exact = double(counted(x, r, (r - i + c) % c, true)),
                                     diagonal = i == 0 && causal ? x.sequence / 2.0 / c : 0; // half of it counts as computed
                        EXPECT_NEAR(pairs_of(steps[std::size_t(i)]), exact, diagonal) << x.where() << " step " << i << " of rank " << r;
                    }
            }
}

// The documents' pairs are one rank's, keys and values travel as without documents.
void expect_as_on_one_rank(Context x, const Totals& whole) {
    const Plan plan = lower(x.make());
    EXPECT_TRUE(verify(plan).empty()) << x.where();
    const Totals split = totals(plan);
    EXPECT_DOUBLE_EQ(split.attention, whole.attention) << x.where();
    EXPECT_DOUBLE_EQ(split.all, whole.all) << x.where();
    EXPECT_EQ(split.tokens, whole.tokens) << x.where();
    x.document = 0;
    const Plan without = lower(x.make());
    for (const char* block : {"F0", "B0"})
        for (const auto& [collective, sum] : moved(plan, block)) {
            EXPECT_EQ(sum.count, moved(without, block).at(collective).count) << x.where();
            EXPECT_EQ(sum.bytes, moved(without, block).at(collective).bytes) << x.where();
        }
}

TEST(ContextLaws, DocumentsSumToTheFlopsOfOneRankAndTheirKeysTravelAsBefore) {
    for (const char* kind : kinds)
        for (bool causal : {true, false}) {
            Context x;
            x.kind = kind;
            x.causal = causal;
            const double without = totals(lower(x.make())).attention;
            for (int document : {512, 256, 64, 16}) {
                x.cp = 1;
                x.document = document;
                const Totals whole = totals(lower(x.make()));
                EXPECT_DOUBLE_EQ(whole.attention, without * document / x.sequence) << x.where();
                for (int c : {2, 4, 8}) {
                    x.cp = c;
                    expect_as_on_one_rank(x, whole);
                }
            }
        }
}

TEST(ContextLaws, ShortDocumentsArePaddedToTwoChunksForEveryRank) {
    for (const char* kind : kinds) {
        Context x;
        x.kind = kind;
        x.cp = 8;
        const auto pairs = [&](int document) {
            x.document = document;
            double sum = 0;
            for (const Attention& a : attentions(lower(x.make()), "F0", 0)) sum += pairs_of(a) * double(a.heads) / x.heads * x.cp;
            return sum;
        };
        const bool padded = std::string(kind) != "ulysses"; // which has whole sequences, of a part of the heads
        EXPECT_DOUBLE_EQ(pairs(16), 0.5 * 16 * x.sequence) << kind;
        EXPECT_DOUBLE_EQ(pairs(4), 0.5 * (padded ? 16 : 4) * x.sequence) << kind;
        EXPECT_DOUBLE_EQ(pairs(1), 0.5 * (padded ? 16 : 1) * x.sequence) << kind;
        if (padded) { EXPECT_DOUBLE_EQ(pairs(28), pairs(32)) << kind; }
    }
}

TEST(ContextLaws, DocumentsAreNeverSlowerAndShorterOnesNeither) {
    for (const char* kind : kinds)
        for (int c : {1, 2, 8}) {
            Context x;
            x.kind = kind;
            x.cp = c;
            x.hidden = 4096;
            x.heads = 32;
            x.sequence = 16384;
            const double without = predict(x.make()).report.step_time_s;
            const auto plan = hash(lower(x.make()));
            x.document = x.sequence;
            EXPECT_EQ(hash(lower(x.make())), plan) << x.where();
            EXPECT_EQ(predict(x.make()).report.step_time_s, without) << x.where();
            const auto never_slower = [&](std::initializer_list<int> documents, double rounding) {
                double before = without;
                for (int document : documents) {
                    x.document = document;
                    const double step = predict(x.make()).report.step_time_s;
                    EXPECT_LE(step, before * (1 + rounding)) << x.where();
                    before = step;
                }
            };
            never_slower({8192, 4096, 2048, 1024, 512, 256, 128, 64, 32, 16, 4, 1}, 1e-9);
            never_slower({12000, 8192, 5000, 3000, 1000, 700, 300, 100, 50, 3}, 1e-3); // a sequence is not a whole number of these
        }
}

// A ring's computation and exchanges of a given length each, all else free.
Costs only(std::int64_t attention, std::int64_t exchange) {
    Costs costs;
    costs.compute = [attention](const Op& op) { return ComputeCost{Time{std::holds_alternative<Attention>(op.work) ? attention : 0}, 0}; };
    costs.collective = [exchange](const Collective& c, std::span<const int>) {
        const bool shift = c.kind == CollectiveKind::shift || c.kind == CollectiveKind::shift_back;
        return CommCost{Time{shift ? exchange : 0}, 0, {1e15}, "p2p", 0};
    };
    costs.loads = [](const Collective&, const CommCost&, std::span<const int>) { return std::vector<LinkLoad>{}; };
    costs.transfer = [](Bytes, int, int) { return CommCost{}; };
    costs.transfer_loads = [](int, int) { return std::vector<LinkLoad>{}; };
    return costs;
}

TEST(ContextLaws, RingExposesWhatOutlastsAttentionAndNothingElse) {
    constexpr std::int64_t us = 1'000'000;
    for (int c : {2, 4, 8})
        for (std::int64_t exchange : {3 * us, 10 * us, 17 * us}) {
            Context x;
            x.cp = c;
            x.kv_heads = 16;
            const std::int64_t attention = 10 * us;
            const Plan plan = lower(x.make());
            const Simulation s = run(compile(plan, only(attention, exchange), Wires{}, {true, false}), {});
            ASSERT_FALSE(s.deadlock.has_value()) << to_text(*s.deadlock);
            const std::int64_t passes = std::int64_t{x.layers} * x.microbatches,
                               difference = std::max<std::int64_t>(0, exchange - attention);
            for (const LaneResult& lane : s.lanes) {
                EXPECT_EQ(lane.breakdown[std::size_t(Category::compute)].ps, 2 * c * attention * passes);
                // c-1 exchanges forward and c backward, each under one step's attention.
                EXPECT_EQ(lane.breakdown[std::size_t(Category::exposed_cp)].ps, (2 * c - 1) * difference * passes)
                    << x.where() << " exchange " << exchange;
            }
            EXPECT_EQ(s.step_time.ps, (2 * c * attention + (2 * c - 1) * difference) * passes);
        }
}

// The same with the cost model of a real machine: long blocks hide everything over NVLink, short ones do not.
TEST(ContextLaws, RingHidesUnderLongBlocks) {
    for (auto [sequence, hidden] : {std::pair{65536, true}, {2048, false}}) {
        Context x;
        x.cp = 4;
        x.hidden = 4096;
        x.heads = 32;
        x.sequence = sequence;
        const Scenario s = x.make();
        const Plan plan = lower(s);
        const Fabric fabric(s.cluster);
        const Simulation result = simulate(plan, s, fabric, CostModel(s, fabric));
        const Time exposed = result.lanes[0].breakdown[std::size_t(Category::exposed_cp)];
        if (hidden)
            EXPECT_EQ(exposed.ps, 0);
        else
            EXPECT_GT(exposed.ps, 0);
    }
}

TEST(ContextLaws, ContextRanksStandWhereTheOrderSaysAndShareGradients) {
    Context x;
    x.tp = 2;
    x.cp = 4;
    x.dp = 2;
    const auto group = [&](const char* order, const char* name) {
        x.extra_strategy = fmt::format(R"(, "rank_order": "{}")", order);
        const Plan plan = lower(x.make());
        for (std::size_t c = 0; c < plan.communicators.size(); ++c)
            if (plan.communicators[c].name == name) return members(plan, static_cast<CommId>(c), 0);
        return std::vector<int>{};
    };
    EXPECT_EQ(group("tp-cp-ep-dp-pp", "cp"), (std::vector<int>{0, 2, 4, 6}));
    EXPECT_EQ(group("cp-tp-ep-dp-pp", "cp"), (std::vector<int>{0, 1, 2, 3}));
    EXPECT_EQ(group("tp-dp-cp-pp", "cp"), (std::vector<int>{0, 4, 8, 12}));
    EXPECT_EQ(group("tp-cp-ep-dp-pp", "dp.reduce"), (std::vector<int>{0, 2, 4, 6, 8, 10, 12, 14}));
}

// A reduction over the data ranks alone would leave each context rank with the gradient of its own tokens.
TEST(ContextLaws, VerifyMissesNoReductionOverContextRanks) {
    for (int zero : {0, 1}) {
        Context x;
        x.cp = 2;
        x.dp = 2;
        x.zero = zero;
        Plan plan = lower(x.make());
        EXPECT_TRUE(verify(plan).empty());
        for (Communicator& c : plan.communicators)
            if (c.name == "dp.reduce") c.axes = static_cast<AxisMask>(c.axes & ~mask(Axis::cp));
        const auto found = verify(plan);
        EXPECT_TRUE(std::any_of(found.begin(), found.end(), [](const Violation& v) { return v.rule == "gradient-partial"; }));
    }
}

// Queries that meet their own rank's keys alone, and an exchange that leaves things as they were.
TEST(ContextLaws, VerifySeesKeysThatNobodyFetched) {
    Context x;
    x.kind = "allgather";
    x.cp = 2;
    Plan plan = lower(x.make());
    BufferId shard = -1;
    for (Block& b : plan.blocks)
        for (Op& op : b.ops) {
            if (b.name != "F0") continue;
            if (const auto* c = std::get_if<Collective>(&op.work); c && c->kind == CollectiveKind::all_gather) shard = op.in[0];
            if (std::holds_alternative<Attention>(op.work)) op.in[1] = shard;
        }
    const auto found = verify(plan);
    EXPECT_TRUE(std::any_of(found.begin(), found.end(), [](const Violation& v) { return v.rule == "placement"; }));
    x.kind = "ulysses";
    plan = lower(x.make());
    for (Buffer& b : plan.buffers)
        if (b.name.ends_with(".heads")) b.placement.set(Axis::cp, PlacementKind::sharded, 0);
    EXPECT_FALSE(verify(plan).empty());
}

void expect_folded_as_unfolded(const Context& x) {
    const Scenario s = x.make();
    const Plan plan = lower(s);
    const auto violations = verify(plan);
    EXPECT_TRUE(violations.empty()) << x.where() << ": "
                                    << (violations.empty() ? ""
                                                           : violations[0].rule + " " + violations[0].where + " " + violations[0].what);
    const Fabric fabric(s.cluster);
    const CostModel cost(s, fabric);
    SimulateOptions options;
    const Simulation folded = simulate(plan, s, fabric, cost, options);
    options.fold = options.replay = false;
    const Simulation whole = simulate(plan, s, fabric, cost, options);
    ASSERT_FALSE(folded.deadlock.has_value()) << x.where();
    const double step = double(whole.step_time.ps);
    EXPECT_NEAR(double(folded.step_time.ps), step, 1e-9 * step + 1) << x.where();
    EXPECT_EQ(int(whole.lanes.size()), x.world());
}

TEST(ContextLaws, EveryCombinationOfDegreesRunsFoldedAsUnfolded) {
    for (const char* kind : kinds)
        for (int c : {1, 2, 4})
            for (int t : {1, 2, 4})
                for (int p : {1, 2, 4})
                    for (int d : {1, 2, 4}) {
                        if (c * t * p * d > 32 || (c == 1 && kind != kinds[0])) continue;
                        Context x;
                        x.kind = kind;
                        x.cp = c;
                        x.tp = t;
                        x.pp = p;
                        x.dp = d;
                        x.layers = 4;
                        x.sequence = 256;
                        x.zero = (c + t + p + d) % 2;
                        expect_folded_as_unfolded(x);
                    }
}

TEST(ContextLaws, EveryScheduleAndRecomputationGoesWithEveryKind) {
    for (const char* kind : kinds) {
        for (const char* schedule : {"gpipe", "1f1b", "zb-h1", "zb-h2"}) {
            Context x;
            x.kind = kind;
            x.schedule = schedule;
            x.cp = x.tp = x.pp = 2;
            x.sequence = 256;
            x.layers = 4;
            x.microbatches = 4;
            expect_folded_as_unfolded(x);
        }
        for (const char* recompute : {"selective", "full"})
            for (const char* position : {"rope", "none"}) {
                Context x;
                x.kind = kind;
                x.recompute = recompute;
                x.position = position;
                x.cp = 4;
                x.sequence = 256;
                expect_folded_as_unfolded(x);
            }
        for (int t : {1, 2}) {
            Context x;
            x.kind = kind;
            x.latent = latent_attention;
            x.cp = 4;
            x.tp = t;
            x.sequence = 256;
            x.recompute = t == 1 ? "none" : "full";
            expect_folded_as_unfolded(x);
        }
        for (int document : {8, 32}) {
            Context x;
            x.kind = kind;
            x.cp = x.pp = x.dp = 2;
            x.sequence = 256;
            x.layers = 4;
            x.document = document;
            x.recompute = document == 8 ? "selective" : "full";
            expect_folded_as_unfolded(x);
        }
        for (int zero : {2, 3}) {
            Context x;
            x.kind = kind;
            x.zero = zero;
            x.cp = x.dp = 2;
            x.sequence = 256;
            x.extra_strategy = zero == 3 ? R"(, "shard_group_size": 2)" : "";
            expect_folded_as_unfolded(x);
        }
    }
}

} // namespace
} // namespace orrery::laws
