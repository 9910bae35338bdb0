// Compressed gradients: what travels, and where it pays.
#include "tests/laws/scenarios.hpp"

#include "sim/engine/simulate.hpp"
#include "sim/plan/low_rank.hpp"
#include "sim/plan/verify.hpp"
#include "sim/report/report.hpp"

namespace orrery::laws {
namespace {

Gpt replicas(const std::string& compression, const std::string& gbit_per_s = "25", const std::string& gradients = "fp32") {
    Gpt g;
    g.dp = 8;
    g.flash = true;
    g.gradient_dtype = gradients;
    g.framework = "ddp";
    g.cluster =
        R"({"preset": "dgx-a100-80gb", "nodes": 8, "devices_per_node": 1, "inter_node": {"kind": "ethernet", "nics_per_node": 1, "gbit_per_s": )" +
        gbit_per_s + "}}";
    if (!compression.empty()) g.extra_strategy = R"(, "gradient_compression": ")" + compression + "\"";
    return g;
}

std::int64_t reduced(const Plan& plan) {
    std::int64_t bytes = 0;
    for (const Action& a : plan.programs[0].actions)
        for (std::int32_t i = a.first; i < a.last; ++i) {
            const Op& op = plan.blocks[a.block].ops[i];
            const auto* c = std::get_if<Collective>(&op.work);
            if (c && c->kind == CollectiveKind::all_reduce && op.phase == Phase::gradient_reduce) bytes += c->bytes.count;
        }
    return bytes;
}

TEST(GradientCompression, OfSixteenBitsSendsHalfOfThirtyTwo) {
    const std::int64_t whole = reduced(lower(replicas("").make()));
    for (const char* kind : {"fp16", "bf16"}) {
        const Plan plan = lower(replicas(kind).make());
        EXPECT_EQ(verify(plan).size(), 0u) << to_text(verify(plan));
        EXPECT_EQ(2 * reduced(plan), whole) << kind;
    }
    EXPECT_EQ(reduced(lower(replicas("fp16", "25", "fp16").make())), whole / 2); // they are that already
}

// Half the bytes is twice the speed where links are all that counts, and less the more they let through.
TEST(GradientCompression, PaysTheMoreTheSlowerTheLink) {
    const auto gain = [](const std::string& gbit_per_s) {
        return predict(replicas("", gbit_per_s).make()).report.step_time_s /
               predict(replicas("bf16", gbit_per_s).make()).report.step_time_s;
    };
    EXPECT_GT(gain("1"), 1.6);
    EXPECT_LT(gain("1"), 2);
    EXPECT_GT(gain("1"), gain("25"));
    EXPECT_GT(gain("25"), gain("400"));
}

TEST(GradientCompression, TakesTheSameTimeFoldedAndUnfolded) {
    const Scenario s = replicas("bf16").make();
    PredictOptions whole;
    whole.simulate.fold = false;
    const double time = predict(s).report.step_time_s;
    EXPECT_NEAR(predict(s, whole).report.step_time_s, time, 1e-9 * time);
}

// In blocks each rank adds up one slice: an all-to-all there and a gather back, of a quarter (an eighth) of the bytes each.
TEST(GradientCompression, InBlocksSendsAQuarterAndAnEighth) {
    const auto sent = [](const Plan& plan) {
        std::int64_t bytes = 0;
        for (const Action& a : plan.programs[0].actions)
            for (std::int32_t i = a.first; i < a.last; ++i) {
                const Op& op = plan.blocks[a.block].ops[i];
                const auto* c = std::get_if<Collective>(&op.work);
                if (c && op.phase == Phase::gradient_reduce) bytes += c->bytes.count * (c->kind == CollectiveKind::all_reduce ? 2 : 1);
            }
        return static_cast<double>(bytes);
    };
    const double whole = sent(lower(replicas("").make()));
    for (const auto& [kind, share] : {std::pair{"int8", 0.25}, {"int4", 0.125}}) {
        const Plan plan = lower(replicas(kind).make());
        EXPECT_EQ(verify(plan).size(), 0u) << to_text(verify(plan));
        EXPECT_NEAR(sent(plan) / whole, share, 0.005) << kind;
    }
}

// On slow links fewer bits win by what they save of the wire; the faster the link, the less there is to save.
TEST(GradientCompression, FewerBitsWinTheMoreTheSlowerTheLink) {
    const auto time = [](const std::string& kind, const std::string& gbit_per_s) {
        Gpt g = replicas(kind, gbit_per_s);
        return predict(g.make()).report.step_time_s;
    };
    EXPECT_LT(time("int4", "1"), time("int8", "1"));
    EXPECT_LT(time("int8", "1"), time("bf16", "1"));
    EXPECT_LT(time("bf16", "1"), time("", "1"));
    EXPECT_GT(time("", "1") / time("int4", "1"), 4);
    EXPECT_LT(time("", "400") / time("int4", "400"), time("", "25") / time("int4", "25"));
}

// With fields of its own: {"kind": ..}.
Gpt by_fields(const std::string& fields, const std::string& gbit_per_s = "25", int per_node = 1) {
    Gpt g = replicas("", gbit_per_s);
    g.cluster = fmt::format(
        R"({{"preset": "dgx-a100-80gb", "nodes": {}, "devices_per_node": {}, "inter_node": {{"kind": "ethernet", "nics_per_node": 1, "gbit_per_s": {}}}}})",
        8 / per_node, per_node, gbit_per_s);
    g.extra_strategy = R"(, "gradient_compression": {)" + fields + "}";
    if (fields.find("onebit") != std::string::npos || fields.find("zero-one") != std::string::npos) g.tied = false;
    if (fields.find("lamb") != std::string::npos) g.optimizer = "lamb";
    return g;
}

// Bytes of each kind of collective in the reductions of one step, or of a round's exchange.
std::map<CollectiveKind, std::int64_t> collectives(const Plan& plan) {
    std::map<CollectiveKind, std::int64_t> bytes;
    const auto count = [&](const Program& program) {
        for (const Action& a : program.actions)
            for (std::int32_t i = a.first; i < a.last; ++i)
                if (const auto* c = std::get_if<Collective>(&plan.blocks[a.block].ops[i].work))
                    if (plan.communicators[c->comm].axes & (mask(Axis::dp) | mask(Axis::dpr) | mask(Axis::dpw)))
                        bytes[c->kind] += c->bytes.count;
    };
    for (const Program& p : plan.programs) count(p);
    for (const PlanPhase& phase : plan.further)
        for (const Program& p : phase.programs) count(p);
    return bytes;
}

std::int64_t parameters(const Plan& plan) {
    std::int64_t n = 0;
    for (const Buffer& b : plan.buffers)
        if (b.role == Role::parameter) n += b.bytes.count / static_cast<std::int64_t>(bytes_per_element(b.dtype));
    return n;
}

TEST(GradientCompression, AsFactorsSendsPAndQAndWhatIsNoMatrix) {
    for (int rank : {1, 4, 32}) {
        const Plan plan = lower(by_fields(fmt::format(R"("kind": "powersgd", "rank": {})", rank)).make());
        EXPECT_EQ(verify(plan).size(), 0u) << to_text(verify(plan));
        // By hand: qkv, proj, fc1, fc2 of four layers, the positions and the embedding are matrices; biases and norms are not.
        const std::int64_t h = 1024, layer = 3 * h + h + (h + h) + (4 * h + h) + (4 * h + h),
                           rest = 4 * (3 * h + h + 4 * h + h + 4 * h) + 2 * h;
        EXPECT_EQ(collectives(plan)[CollectiveKind::all_reduce], 4 * (rank * (4 * layer + 512 + h + 51200 + h) + rest)) << rank;
    }
}

TEST(GradientCompression, OfTheLargestSendsValuesAndPlacesOfAllRanks) {
    const Plan plan = lower(by_fields(R"("kind": "top-k", "density": 0.01)").make());
    EXPECT_EQ(verify(plan).size(), 0u) << to_text(verify(plan));
    const double sent = static_cast<double>(collectives(plan)[CollectiveKind::all_gather]);
    EXPECT_NEAR(sent, 8 * 8 * 0.01 * static_cast<double>(parameters(plan)), 1e-3 * sent); // 8 ranks, 8 bytes
}

// Both ways of an all-reduce in 16 bits are 4 bytes a parameter; signs both ways a quarter of one.
TEST(GradientCompression, AsSignsSendsASixteenthOfSixteenBits) {
    for (const char* kind : {"onebit-adam", "onebit-lamb"}) {
        const Plan plan = lower(by_fields("\"kind\": \"" + std::string(kind) + "\"").make());
        EXPECT_EQ(verify(plan).size(), 0u) << to_text(verify(plan));
        auto sent = collectives(plan);
        const double n = static_cast<double>(parameters(plan));
        EXPECT_EQ(sent[CollectiveKind::all_reduce], 0) << kind;
        EXPECT_NEAR(static_cast<double>(sent[CollectiveKind::all_to_all]), n / 8, 1e-4 * n);
        EXPECT_NEAR(static_cast<double>(sent[CollectiveKind::all_gather]), n / 8, 1e-4 * n);
    }
    // 0/1 Adam sends as much, once in local_steps.
    const Plan rarely = lower(by_fields(R"("kind": "zero-one-adam", "local_steps": 8)").make());
    EXPECT_EQ(verify(rarely).size(), 0u) << to_text(verify(rarely));
    EXPECT_EQ(rarely.repeat, 8);
    const double n = static_cast<double>(parameters(rarely));
    EXPECT_NEAR(static_cast<double>(collectives(rarely)[CollectiveKind::all_to_all]), n / 8, 1e-4 * n);
}

TEST(GradientCompression, KeepsANumberAParameterForWhatItDoesNotSend) {
    const auto states = [](const std::string& fields) {
        return resident(lower(by_fields(fields).make()), 0)[MemoryKind::optimizer_states];
    };
    const double n = static_cast<double>(parameters(lower(by_fields(R"("kind": "none")").make())));
    for (const char* kind : {R"("kind": "powersgd")", R"("kind": "top-k")"})
        EXPECT_NEAR(states(kind) - states(std::string(kind) + R"(, "error_feedback": false)"), 4 * n, 1) << kind;
    const std::string signs = R"("kind": "onebit-adam")";
    const double untied = static_cast<double>(parameters(lower(by_fields(signs).make())));
    // And an eighth of it for the slice that each rank adds up.
    EXPECT_NEAR(states(signs) - states(signs + R"(, "error_feedback": false)"), 4.5 * untied, 64);
}

TEST(GradientCompression, OfEveryKindTakesTheSameTimeFoldedAndUnfoldedAndIsNeverSlowerOnAFasterLink) {
    for (const char* kind :
         {R"("kind": "powersgd", "rank": 4)", R"("kind": "top-k")", R"("kind": "onebit-adam")", R"("kind": "onebit-lamb")",
          R"("kind": "zero-one-adam", "local_steps": 4)", R"("kind": "int8", "hierarchical": true)"}) {
        double before = 1e30;
        for (const char* rate : {"1", "10", "100", "400"}) {
            const Scenario s = by_fields(kind, rate, 2).make();
            PredictOptions whole;
            whole.simulate.fold = false;
            const double time = predict(s).report.step_time_s;
            EXPECT_NEAR(predict(s, whole).report.step_time_s, time, 1e-9 * time) << kind;
            EXPECT_LE(time, before * (1 + 1e-9)) << kind << " at " << rate;
            before = time;
        }
    }
}

// DeepSpeed makes and adds up signs in operators over whole tensors, some 180 bytes of each parameter; elsewhere kernels read once.
TEST(GradientCompression, AsSignsIsManyOperatorsInDeepSpeed) {
    const auto more = [](const char* framework, std::int64_t& elements) {
        Gpt signs = by_fields(R"("kind": "onebit-adam")", "400", 8), none = by_fields(R"("kind": "none")", "400", 8);
        signs.framework = none.framework = framework;
        elements = parameters(lower(signs.make()));
        return predict(signs.make()).report.step_time_s - predict(none.make()).report.step_time_s;
    };
    std::int64_t elements = 0;
    const double operators = more("deepspeed", elements), kernels = more("ddp", elements);
    EXPECT_GT(operators - kernels, 80 * static_cast<double>(elements) / 2.04e12);
}

TEST(GradientCompression, InTheWarmUpIsNone) {
    const double none = predict(by_fields(R"("kind": "none")").make()).report.step_time_s;
    EXPECT_EQ(predict(by_fields(R"("kind": "powersgd", "phase": "warmup")").make()).report.step_time_s, none);
}

// The fewest bytes win where the link is all that counts. Where it is not, what compressing costs and what is no longer hidden under the
// backward pass decide: in one node with an NVSwitch whole gradients are the fastest.
TEST(GradientCompression, EachKindWinsAtABandwidthOfItsOwn) {
    const auto time = [](const std::string& kind, const std::string& rate, int per_node = 1) {
        Gpt g = by_fields("\"kind\": \"" + kind + "\"", rate, per_node);
        g.tied = false;
        return predict(g.make()).report.step_time_s;
    };
    EXPECT_LT(time("onebit-adam", "1"), time("int4", "1"));
    EXPECT_LT(time("powersgd", "1"), time("onebit-adam", "1"));
    for (const char* kind : {"powersgd", "top-k"}) EXPECT_LT(time("none", "25", 8), time(kind, "25", 8)) << kind;
    const auto gain = [&](const std::string& kind, int per_node) { return time("none", "1", per_node) / time(kind, "1", per_node); };
    for (const char* kind : {"int8", "onebit-adam"}) EXPECT_GT(gain(kind, 1), 3 * gain(kind, 8)) << kind;
}

// Between two nodes of four ranks the slices of 8 bits cross once each way; without levels most of the exchange does.
TEST(GradientCompression, BetweenNodesAloneCrossesThemLess) {
    const auto crossing = [](const std::string& fields) {
        const Scenario s = by_fields(fields, "25", 4).make();
        const Plan plan = lower(s);
        EXPECT_EQ(verify(plan).size(), 0u) << to_text(verify(plan));
        const Fabric fabric(s.cluster);
        double bytes = 0;
        for (const LinkUse& l : simulate(plan, s, fabric, CostModel(s, fabric)).links)
            if (fabric.links()[l.link].kind == LinkKind::nic) bytes += l.bytes * l.twins;
        return bytes / static_cast<double>(parameters(plan));
    };
    // Of a parameter's byte half stays in the node on each of two ways, seen at two ends of two links.
    EXPECT_NEAR(crossing(R"("kind": "int8", "hierarchical": true)"), 4 * 2 * 0.5, 0.05);
    EXPECT_GT(crossing(R"("kind": "int8")"), 1.5 * crossing(R"("kind": "int8", "hierarchical": true)"));
}

// Without ZeRO nothing is sharded, and a group of shards says nothing.
TEST(GradientCompression, IsTheSameWithAShardGroupAndNoShards) {
    for (const char* kind : {R"("kind": "top-k")", R"("kind": "powersgd")", R"("kind": "int8")"}) {
        Gpt plain = by_fields(kind), group = by_fields(kind);
        group.extra_strategy += R"(, "shard_group_size": 2)";
        const Plan plan = lower(group.make());
        EXPECT_TRUE(verify(plan).empty()) << kind << to_text(verify(plan));
        EXPECT_EQ(predict(group.make()).report.step_time_s, predict(plain.make()).report.step_time_s) << kind;
    }
}

// Under ZeRO gradients are cast for their way to the shards' owners: half the bytes of fp32, those of 16-bit gradients, and parameters are
// gathered as before.
TEST(GradientCompression, OfSixteenBitsHalvesWhatIsScattered) {
    struct Software {
        const char* framework;
        int zero;
    };
    for (const auto& [framework, zero] :
         {Software{"ddp", 1}, {"deepspeed", 1}, {"deepspeed", 2}, {"deepspeed", 3}, {"fsdp", 2}, {"fsdp", 3}}) {
        const auto of = [&](const char* compression, const char* gradients) {
            Gpt g = replicas(compression, "25", gradients);
            g.framework = framework;
            g.zero = zero;
            return g.make();
        };
        const auto crossing = [](const Scenario& s) {
            const Fabric fabric(s.cluster);
            double bytes = 0;
            for (const LinkUse& l : simulate(lower(s), s, fabric, CostModel(s, fabric)).links)
                if (fabric.links()[l.link].kind == LinkKind::nic) bytes += l.bytes * l.twins;
            return bytes;
        };
        const Scenario sent = of("bf16", "fp32"), whole = of("", "fp32"), narrow = of("", "bf16");
        const Plan plan = lower(sent);
        EXPECT_TRUE(verify(plan).empty()) << framework << zero << to_text(verify(plan));
        auto bytes = collectives(plan), all = collectives(lower(whole));
        EXPECT_EQ(2 * bytes[CollectiveKind::reduce_scatter], all[CollectiveKind::reduce_scatter]) << framework << zero;
        EXPECT_EQ(bytes[CollectiveKind::all_gather], all[CollectiveKind::all_gather]) << framework << zero;
        EXPECT_NEAR(crossing(sent), crossing(narrow), 0.001 * crossing(narrow)) << framework << zero;
        EXPECT_LT(predict(sent).report.step_time_s, predict(whole).report.step_time_s) << framework << zero << ": on 25 Gb/s";
        // The sum is kept in fp32 by whoever owns it.
        const auto kept = [](const Plan& p) { return resident(p, 0).at(MemoryKind::gradients); };
        EXPECT_TRUE(zero >= 2 || kept(plan) == kept(lower(whole))) << framework << zero;
    }
}

TEST(GradientCompression, OfShardsTakesTheSameTimeFoldedAndUnfolded) {
    Gpt g = replicas("bf16");
    g.framework = "deepspeed", g.zero = 2;
    PredictOptions whole;
    whole.simulate.fold = false;
    const double time = predict(g.make()).report.step_time_s;
    EXPECT_NEAR(predict(g.make(), whole).report.step_time_s, time, 1e-9 * time);
}

// By the number of ZeRO's stage, in the software that has it.
Gpt sharded(const std::string& fields, int zero, const std::string& gbit_per_s = "25", int per_node = 1) {
    Gpt g = by_fields(fields, gbit_per_s, per_node);
    g.framework = zero == 1 ? "ddp" : "deepspeed", g.zero = zero;
    return g;
}

// Factors and the largest elements are of the whole bucket: as much of them travels as where nothing is sharded, in ZeRO 2 and 3 for each
// microbatch. Parameters are gathered.
TEST(GradientCompression, OfWholeBucketsSendsAsMuchUnderZero) {
    for (const char* kind : {R"("kind": "powersgd", "rank": 4)", R"("kind": "top-k", "density": 0.01)"})
        for (int zero : {1, 2, 3}) {
            Gpt without = sharded(kind, zero), whole = sharded(R"("kind": "none")", zero);
            without.zero = 0;
            const Plan plan = lower(sharded(kind, zero).make());
            EXPECT_TRUE(verify(plan).empty()) << kind << zero << to_text(verify(plan));
            auto sent = collectives(plan), replicas = collectives(lower(without.make())), plain = collectives(lower(whole.make()));
            const auto near = [&](std::int64_t a, std::int64_t b) { // buckets of ZeRO 2 and 3 are units: elements of each are rounded
                EXPECT_NEAR(static_cast<double>(a), static_cast<double>(b), 1e-3 * static_cast<double>(b)) << kind << zero;
            };
            EXPECT_EQ(sent[CollectiveKind::reduce_scatter], 0) << kind << zero;
            const std::int64_t times = zero > 1 ? whole.make().microbatches() : 1;
            near(sent[CollectiveKind::all_gather] - plain[CollectiveKind::all_gather], times * replicas[CollectiveKind::all_gather]);
            near(sent[CollectiveKind::all_reduce] - plain[CollectiveKind::all_reduce], times * replicas[CollectiveKind::all_reduce]);
        }
}

// Whole numbers go to the owners of the shards and stay there: a byte or half of one for each element, and nothing back.
TEST(GradientCompression, InBlocksGoesToTheOwnersOfShardsAlone) {
    for (const auto& [kind, bytes] : {std::pair{R"("kind": "int8")", 1.0}, {R"("kind": "int4")", 0.5}})
        for (int zero : {1, 2, 3}) {
            const Plan plan = lower(sharded(kind, zero).make());
            EXPECT_TRUE(verify(plan).empty()) << kind << zero << to_text(verify(plan));
            auto sent = collectives(plan), whole = collectives(lower(sharded(R"("kind": "none")", zero).make()));
            const double share =
                static_cast<double>(sent[CollectiveKind::all_to_all]) / static_cast<double>(whole[CollectiveKind::reduce_scatter]);
            EXPECT_NEAR(share, bytes / 4, 0.005) << kind << zero;
            EXPECT_EQ(sent[CollectiveKind::reduce_scatter], 0) << kind << zero;
            EXPECT_EQ(sent[CollectiveKind::all_gather], whole[CollectiveKind::all_gather]) << kind << zero;
        }
}

TEST(GradientCompression, UnderZeroTakesTheSameTimeFoldedAndUnfoldedAndIsNeverSlowerOnAFasterLink) {
    for (const char* kind :
         {R"("kind": "powersgd", "rank": 4)", R"("kind": "top-k")", R"("kind": "int8")", R"("kind": "int8", "hierarchical": true)"})
        for (int zero : {1, 2}) {
            double before = 1e30;
            for (const char* rate : {"1", "10", "100", "400"}) {
                const Scenario s = sharded(kind, zero, rate, 2).make();
                PredictOptions whole;
                whole.simulate.fold = false;
                const double time = predict(s).report.step_time_s;
                EXPECT_NEAR(predict(s, whole).report.step_time_s, time, 1e-9 * time) << kind << zero;
                EXPECT_LE(time, before * (1 + 1e-9)) << kind << zero << " at " << rate;
                before = time;
            }
        }
}

// Every rank keeps what it did not send of the whole bucket, beside its part of the states; to keep its part of a sum in place takes no
// time.
TEST(GradientCompression, UnderZeroKeepsTheWholeError) {
    const auto states = [](const std::string& fields) {
        return resident(lower(sharded(fields, 1).make()), 0)[MemoryKind::optimizer_states];
    };
    const double n = static_cast<double>(parameters(lower(by_fields(R"("kind": "none")").make())));
    for (const char* kind : {R"("kind": "powersgd")", R"("kind": "top-k")"})
        EXPECT_NEAR(states(kind) - states(std::string(kind) + R"(, "error_feedback": false)"), 4 * n, 1) << kind;
    const Scenario s = sharded(R"("kind": "powersgd")", 1).make();
    const Plan plan = lower(s);
    const Fabric fabric(s.cluster);
    const CostModel cost(s, fabric);
    int parts = 0;
    for (const Block& block : plan.blocks)
        for (const Op& op : block.ops)
            if (const auto* w = std::get_if<Pointwise>(&op.work); w && w->kind == PointwiseKind::own_part) {
                EXPECT_EQ(cost.compute(plan, op).duration.ps, 0);
                ++parts;
            }
    EXPECT_GT(parts, 0);
}

// Replicas of a worker share every step: what they send goes among them alone, as much as elsewhere.
TEST(GradientCompression, InsideWorkersStaysInsideThem) {
    const std::string workers = R"(, "synchronization": {"kind": "diloco", "inner_steps": 4, "workers": 2})";
    for (const char* kind : {R"("kind": "powersgd", "rank": 4)", R"("kind": "top-k", "density": 0.01)", R"("kind": "int8")"})
        for (int zero : {0, 1}) {
            Gpt g = sharded(kind, zero, "25", 2);
            g.framework = "ddp";
            const Plan together = lower(g.make());
            g.extra_strategy += workers;
            const Scenario s = g.make();
            const Plan plan = lower(s);
            EXPECT_TRUE(verify(plan).empty()) << kind << zero << to_text(verify(plan));
            std::int64_t sent[2] = {0, 0}; // of elements that do not grow with the ranks
            for (const Plan* p : {&together, &plan})
                for (const Action& a : p->programs[0].actions)
                    for (std::int32_t i = a.first; i < a.last; ++i) {
                        const Op& op = p->blocks[a.block].ops[i];
                        const auto* c = std::get_if<Collective>(&op.work);
                        if (!c || op.phase != Phase::gradient_reduce) continue;
                        EXPECT_EQ(size(*p, c->comm), p == &plan ? 4 : 8) << kind << zero << op.name;
                        const bool grows =
                            c->kind == CollectiveKind::all_gather && s.strategy.gradient_compression == GradientCompression::top_k;
                        sent[p == &plan] += c->bytes.count / (grows ? size(*p, c->comm) : 1);
                    }
            EXPECT_NEAR(static_cast<double>(sent[1]), static_cast<double>(sent[0]), 1e-3 * static_cast<double>(sent[0])) << kind << zero;
            PredictOptions whole;
            whole.simulate.fold = false;
            const double time = predict(s).report.step_time_s;
            EXPECT_NEAR(predict(s, whole).report.step_time_s, time, 1e-9 * time) << kind << zero;
        }
}

TEST(GradientCompression, IsRefusedWhereItsNumbersWouldPart) {
    const auto problems = [](Gpt g) { return to_text(parse_scenario(g.text(), {}).problems); };
    Gpt tied = by_fields(R"("kind": "onebit-adam")");
    tied.tied = true, tied.pp = 2, tied.dp = 4;
    EXPECT_NE(problems(tied).find("with tied embeddings on two stages is not modelled"), std::string::npos) << problems(tied);
    Gpt lamb = by_fields(R"("kind": "onebit-adam")");
    lamb.optimizer = "lamb";
    EXPECT_NE(problems(lamb).find("set it to adam or adamw"), std::string::npos) << problems(lamb);
    Gpt levels = by_fields(R"("kind": "powersgd", "hierarchical": true)");
    EXPECT_NE(problems(levels).find("int8 and int4 are"), std::string::npos) << problems(levels);
    EXPECT_NE(problems(by_fields(R"("hierarchical": true)")).find("kind = none compresses none"), std::string::npos);
    Gpt cut = by_fields(R"("kind": "top-k")", "25", 8);
    cut.tp = 2, cut.dp = 4;
    EXPECT_NE(problems(cut).find("ranks would choose other elements"), std::string::npos) << problems(cut);
    Gpt flat = by_fields(R"("kind": "powersgd")");
    flat.framework = "fsdp", flat.zero = 3;
    EXPECT_NE(problems(flat).find("travel as one flat vector"), std::string::npos) << problems(flat);
    Gpt copies = sharded(R"("kind": "int8")", 1);
    copies.extra_strategy += R"(, "shard_group_size": 2)";
    EXPECT_NE(problems(copies).find("copies of a group would be summed whole"), std::string::npos) << problems(copies);
}

} // namespace
} // namespace orrery::laws
