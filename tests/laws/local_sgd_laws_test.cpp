// Local SGD and DiLoCo: what they send, what they keep, and what they save.
#include "tests/laws/scenarios.hpp"

#include "sim/engine/simulate.hpp"
#include "sim/plan/verify.hpp"
#include "sim/report/report.hpp"

#include <algorithm>
#include <tuple>

namespace orrery::laws {
namespace {

Gpt replicas(int dp, const std::string& synchronization = "") {
    Gpt g;
    g.dp = dp;
    g.flash = true;
    g.cluster = R"({"preset": "dgx-a100-80gb", "nodes": )" + std::to_string(dp * g.tp * g.pp / 4) +
                R"(, "devices_per_node": 4, "inter_node": {"kind": "ethernet", "nics_per_node": 1, "gbit_per_s": 25}})";
    if (!synchronization.empty()) g.extra_strategy = R"(, "synchronization": )" + synchronization;
    return g;
}

std::string every(int steps) { return fmt::format(R"({{"kind": "local_sgd", "inner_steps": {}}})", steps); }

// Bytes all-reduced over data-parallel ranks in the programs of a phase.
std::int64_t reduced(const Plan& plan, const std::vector<Program>& programs) {
    std::int64_t bytes = 0;
    for (const Program& p : programs)
        for (const Action& a : p.actions)
            for (std::int32_t i = a.first; i < a.last; ++i) {
                const Op& op = plan.blocks[a.block].ops[i];
                const auto* c = std::get_if<Collective>(&op.work);
                if (!c || c->kind != CollectiveKind::all_reduce) continue;
                if (plan.communicators[c->comm].axes & (mask(Axis::dp) | mask(Axis::dpr) | mask(Axis::dpw))) bytes += c->bytes.count;
            }
    return bytes;
}

TEST(LocalSgd, OfOneStepSendsTheParametersOncePerStepAndNoGradients) {
    const Plan plan = lower(replicas(8, every(1)).make());
    EXPECT_EQ(verify(plan).size(), 0u) << to_text(verify(plan));
    EXPECT_EQ(reduced(plan, plan.programs), 0);
    // The fp32 copy of the parameters: twice the bytes of the fp16 gradients that data parallelism reduces.
    const Plan synchronous = lower(replicas(8).make());
    ASSERT_EQ(plan.further.size(), 1u);
    EXPECT_EQ(reduced(plan, plan.further[0].programs), 2 * reduced(synchronous, synchronous.programs));
}

TEST(LocalSgd, OfMoreStepsIsNeverSlowerPerStep) {
    double before = predict(replicas(8, every(1)).make()).report.step_time_s;
    for (int steps : {2, 3, 8, 64, 512}) {
        const double now = predict(replicas(8, every(steps)).make()).report.step_time_s;
        EXPECT_LE(now, before * (1 + 1e-9)) << steps;
        before = now;
    }
    // With no link at all between replicas: what a step takes where nothing is sent.
    Gpt alone = replicas(8, every(10000));
    const double least = predict(alone.make()).report.step_time_s;
    EXPECT_LE(least, before);
    EXPECT_GE(least, 0.9 * before);
}

TEST(LocalSgd, TheStepIsTheRoundOverItsStepsAndItsPartsAddUp) {
    for (int steps : {1, 4}) {
        const Report r = predict(replicas(8, every(steps)).make()).report;
        double sum = 0;
        for (double part : r.breakdown_s) sum += part;
        EXPECT_NEAR(sum, r.step_time_s, 1e-9 * r.step_time_s) << steps;
        EXPECT_NEAR(r.tokens_per_s * r.step_time_s, 4 * 2 * 8 * 512, 1e-6 * 4 * 2 * 8 * 512) << steps;
    }
}

TEST(LocalSgd, FoldedAndUnfoldedReplayedAndInFullTakeTheSameTime) {
    Gpt g = replicas(4, every(5));
    g.pp = 2;
    g.cluster = R"({"preset": "dgx-a100-80gb", "nodes": 2, "devices_per_node": 4})";
    const Scenario s = g.make();
    PredictOptions folded, whole, full;
    whole.simulate.fold = false;
    full.simulate.replay = false;
    const double time = predict(s, folded).report.step_time_s;
    EXPECT_NEAR(predict(s, whole).report.step_time_s, time, 1e-9 * time);
    EXPECT_EQ(predict(s, full).report.step_time_s, time);
}

TEST(LocalSgd, IsRefusedWhereReplicasShareAStep) {
    const auto problems = [](Gpt g) { return to_text(parse_scenario(g.text(), {}).problems); };
    Gpt zero = replicas(8, every(4));
    zero.zero = 1;
    EXPECT_NE(problems(zero).find("strategy.zero_stage = 1 divides optimizer states among replicas"), std::string::npos) << problems(zero);
    EXPECT_EQ(problems(replicas(8, every(4))), "");
}

std::string outside(int steps, const std::string& more = "") {
    return fmt::format(R"({{"kind": "diloco", "inner_steps": {}{}}})", steps, more);
}

// What workers had in common, and the outer momentum: two fp32 numbers a parameter; with plain SGD one.
TEST(Diloco, KeepsEightBytesAParameterMore) {
    const Plan mean = lower(replicas(8, every(4)).make());
    double parameters = 0;
    for (const Buffer& b : mean.buffers)
        if (b.role == Role::parameter) parameters += static_cast<double>(b.bytes.count) / 2;
    const auto states = [](const Plan& plan) { return resident(plan, 0).at(MemoryKind::optimizer_states); };
    EXPECT_NEAR(states(lower(replicas(8, outside(4)).make())) - states(mean), 8 * parameters, 1);
    EXPECT_NEAR(states(lower(replicas(8, outside(4, R"(, "outer_optimizer": "sgd")")).make())) - states(mean), 4 * parameters, 1);
}

// Workers that meet slice by slice.
Gpt sliced(int dp, const std::string& synchronization, std::int64_t bytes) {
    Gpt g = replicas(dp, synchronization);
    g.extra_strategy += fmt::format(R"(, "bucket_bytes": {})", bytes);
    return g;
}
constexpr std::int64_t all_at_once = 1'000'000'000;

// In the hosts' memory they take none of the device's, but their ways there and back, once a round; their room on the device is that of a
// slice or a fragment.
TEST(Diloco, KeepsItsOuterStatesOnTheHost) {
    const auto of = [](const std::string& fields, int steps, std::int64_t slice = all_at_once) {
        return predict(sliced(8, fmt::format(R"({{"inner_steps": {}, {}}})", steps, fields), slice).make()).report;
    };
    const Plan plan = lower(replicas(8, outside(4)).make());
    double parameters = 0;
    for (const Buffer& b : plan.buffers)
        if (b.role == Role::outer_parameters) parameters += static_cast<double>(b.bytes.count) / 4;
    for (const std::string kind : {R"("kind": "diloco")", R"("kind": "streaming_diloco", "fragments": 2)"}) {
        const std::string there = kind + R"(, "outer_device": "cpu")";
        const Report here = of(kind, 4), away = of(there, 4);
        EXPECT_LT(away.memory.stages[0].peak.count, here.memory.stages[0].peak.count) << kind;
        EXPECT_NEAR(static_cast<double>(away.memory.host.used.peak.count - here.memory.host.used.peak.count), 4 * 8 * parameters,
                    4 * 8 * parameters * 0.01)
            << kind << ": four ranks of a node";
        const double costs = 4 * (away.step_time_s - here.step_time_s),
                     rarely = 400 * (of(there, 400).step_time_s - of(kind, 400).step_time_s);
        EXPECT_GT(costs, 0) << kind;
        EXPECT_NEAR(rarely, costs, 0.05 * costs) << kind << ": once a round, however many steps it has";
        // Two fp32 numbers a parameter each way, at least at the link's rate; streamed, the common start comes twice.
        const double rate = replicas(8).make().cluster.host.pcie_bandwidth.value;
        EXPECT_GT(costs, 8 * parameters / rate) << kind;
        const std::int64_t slice = 10'000'000;
        if (kind == R"("kind": "diloco")") {
            EXPECT_LT(4 * (of(there, 4, slice).step_time_s - of(kind, 4, slice).step_time_s), 0.8 * costs) << "beside the network";
        }
    }
    EXPECT_EQ(verify(lower(replicas(8, outside(4, R"(, "outer_device": "cpu")")).make())).size(), 0u);
}

// Elements of the parts that workers meet with one after another.
std::vector<std::int64_t> parts_met(const Plan& plan) {
    std::vector<std::int64_t> elements;
    for (const Buffer& b : plan.buffers)
        if (b.role == Role::outer_parameters && b.scope == Scope::run) elements.push_back(b.bytes.count / 4);
    return elements;
}

// Two slices at most are on the device: of the one that is merged the distance moved in fp32, its payload in 16 bits and, where they live
// on the host, two outer states in fp32; the next one, on its way, has no momentum yet.
TEST(Diloco, HasTwoSlicesOnTheDeviceAtATime) {
    for (const auto& [home, merged, sent] : {std::tuple{"device", 6, 6}, {"cpu", 14, 10}})
        for (const std::int64_t slice : {10'000'000, 40'000'000}) {
            const std::string how = outside(4, fmt::format(R"(, "payload_dtype": "bf16", "outer_device": "{}")", home));
            const Plan plan = lower(sliced(8, how, slice).make());
            EXPECT_EQ(verify(plan).size(), 0u) << to_text(verify(plan));
            const std::vector<std::int64_t> parts = parts_met(plan);
            ASSERT_GT(parts.size(), 2u);
            std::int64_t law = 0, level = 0, highest = 0, whole = 0, longest = 0, masters = 0;
            for (std::size_t i = 0; i < parts.size(); ++i) {
                law = std::max(law, merged * parts[i] + (i + 1 < parts.size() ? sent * parts[i + 1] : 0));
                whole += parts[i];
            }
            for (const Op& op : block_named(plan, "average:0").ops) {
                if (const auto* a = std::get_if<Alloc>(&op.work)) highest = std::max(highest, level += plan.buffers[a->buffer].bytes.count);
                if (const auto* f = std::get_if<Free>(&op.work)) level -= plan.buffers[f->buffer].bytes.count;
            }
            EXPECT_EQ(level, 0);
            EXPECT_EQ(highest, law) << home << " " << slice;
            for (const Buffer& b : plan.buffers) {
                if (b.role == Role::parameter) longest = std::max(longest, b.bytes.count);
                if (b.role == Role::master) masters += b.bytes.count / 4;
            }
            EXPECT_EQ(masters, whole);
            for (const std::int64_t n : parts) EXPECT_LT(2 * n, slice + longest) << "16-bit parameters";
        }
}

// Where activations need more room than a meeting, outer states on the host leave a device with what plain averaging has.
TEST(Diloco, WithItsStatesAwayNeedsTheMemoryOfLocalSgd) {
    const auto peak = [](const std::string& how) {
        Gpt g = sliced(8, how, 10'000'000);
        g.micro_batch = 8;
        g.sequence = 1024;
        return predict(g.make()).report.memory.stages[0].allocated_peak.count;
    };
    const std::string away = outside(4, R"(, "payload_dtype": "bf16", "outer_device": "cpu")");
    EXPECT_EQ(peak(away), peak(every(4)));
    EXPECT_GT(peak(outside(4)), peak(away));
}

// A slice is sent before the one ahead of it is merged, so that the network does not wait for kernels.
TEST(LocalSgd, MergesASliceWhileTheNextIsOnItsWay) {
    for (const std::string& how : {every(4), outside(4)}) {
        const Plan plan = lower(sliced(8, how, 10'000'000).make());
        std::vector<std::string> order;
        for (const Op& op : block_named(plan, "average:0").ops)
            if (op.name.starts_with("sum.") || op.name.starts_with("average.")) order.push_back(op.name);
        ASSERT_GT(order.size(), 4u);
        const std::vector<std::string> first(order.begin(), order.begin() + 4);
        EXPECT_EQ(first, (std::vector<std::string>{"sum.b0", "sum.b1", "average.b0", "sum.b2"}));
        EXPECT_EQ(order.back(), fmt::format("average.b{}", order.size() / 2 - 1));
    }
}

// Bytes on the links between nodes: fp32, 16 bits, and both ways of an exchange of whole numbers, as a ring has.
TEST(Diloco, SendsItsPayloadOnce) {
    const auto across = [](const std::string& type) {
        const Scenario s = replicas(8, outside(1, R"(, "payload_dtype": ")" + type + "\"")).make();
        const Plan plan = lower(s);
        EXPECT_EQ(verify(plan).size(), 0u) << to_text(verify(plan));
        const Fabric fabric(s.cluster);
        double bytes = 0;
        for (const LinkUse& l : simulate(plan, s, fabric, CostModel(s, fabric)).links)
            if (fabric.links()[l.link].kind == LinkKind::nic) bytes += l.bytes * l.twins;
        return bytes;
    };
    const double wide = across("fp32");
    EXPECT_NEAR(across("bf16"), wide / 2, 0.01 * wide);
    EXPECT_NEAR(across("int8") / across("int4"), 2, 0.01);
    EXPECT_EQ(across("fp4"), across("int4"));
    // Two nodes of four: in the exchange half of what each rank sends crosses, of the gather's ring 7/8 of all.
    double parameters = 0;
    for (const Buffer& b : lower(replicas(8, outside(1)).make()).buffers)
        if (b.role == Role::outer_parameters) parameters += static_cast<double>(b.bytes.count) / 4;
    const double links = 4; // in and out of two nodes
    EXPECT_NEAR(across("int8"), links * (4 * 0.5 + 7.0 / 8) * parameters, 0.01 * links * parameters);
}

// Utilisation is H t / (H t + sync) with the time t of a step that sends nothing and the time sync of one meeting.
TEST(Diloco, UtilisationFollowsTheLaw) {
    const auto step = [](int inner) { return predict(replicas(8, outside(inner)).make()).report.step_time_s; };
    const double t = step(10000), sync = step(1) - t;
    EXPECT_GT(sync, t);
    for (int inner : {2, 8, 32, 128}) {
        const double utilisation = t / step(inner), law = inner * t / (inner * t + sync);
        EXPECT_NEAR(utilisation, law, 0.01) << inner;
    }
}

// Islands of one node each, far apart: 1 Gb/s, and a latency.
Gpt islands(const std::string& fields, double latency_us = 0) {
    Gpt g = replicas(4, fields);
    g.layers = 8;
    g.tied = false;
    g.vocab = 2048;
    g.cluster = fmt::format(
        R"({{"preset": "dgx-a100-80gb", "nodes": 4, "devices_per_node": 1, "inter_node": {{"kind": "ethernet", "nics_per_node": 1, "gbit_per_s": 1{}}}}})",
        latency_us > 0 ? fmt::format(R"(, "latency_us": {})", latency_us) : "");
    return g;
}

std::string streamed(int steps, int fragments, int overlap, const std::string& more = "") {
    return fmt::format(R"({{"kind": "streaming_diloco", "inner_steps": {}, "fragments": {}, "overlap_steps": {}{}}})", steps, fragments,
                       overlap, more);
}

// The report's share of time in steps and its exposed meeting are those of the law, from one scenario alone.
TEST(Diloco, ReportsItsUtilisationAndMeeting) {
    const auto of = [](int inner) { return predict(replicas(8, outside(inner)).make()).report; };
    const double t = of(10000).step_time_s;
    for (int inner : {1, 8, 128}) {
        const Report r = of(inner);
        EXPECT_EQ(r.meetings.steps, inner);
        EXPECT_NEAR(r.meetings.compute_utilization, t / r.step_time_s, 0.01) << inner;
        EXPECT_NEAR(r.meetings.sync_time_s, inner * (r.step_time_s - t), 0.02 * r.meetings.sync_time_s + 0.01 * inner * t) << inner;
        EXPECT_DOUBLE_EQ(r.meetings.compute_utilization,
                         1 - r.meetings.sync_time_s / inner / r.step_time_s); // H t / (H t + sync)
    }
    EXPECT_EQ(predict(replicas(8).make()).report.meetings.steps, 0) << "replicas that share every step are no workers";
}

// What leaves nodes: a ring over n nodes of one worker each sends 2 (n - 1) / n of the payload from every node, once a round.
TEST(Diloco, ReportsTheBytesThatLeaveNodes) {
    double parameters = 0;
    for (const Buffer& b : lower(islands(outside(1)).make()).buffers)
        if (b.role == Role::outer_parameters) parameters += static_cast<double>(b.bytes.count) / 4;
    for (const auto& [payload, bytes] : {std::pair{"fp32", 4}, {"bf16", 2}})
        for (int inner : {1, 20}) {
            const WorkerMeetings m =
                predict(islands(outside(inner, fmt::format(R"(, "payload_dtype": "{}")", payload))).make()).report.meetings;
            const double law = 4 * (2 * 3.0 / 4) * bytes * parameters / inner;
            EXPECT_NEAR(m.bytes_between_nodes, law, 0.01 * law) << payload << " every " << inner;
        }
}

// Workers of four replicas, one node each, that share their steps.
Gpt sites(const std::string& synchronization, int zero, int layers = 8) {
    Gpt g = replicas(8, synchronization);
    g.layers = layers;
    g.zero = zero;
    return g;
}
std::string of_two(const std::string& kind, const std::string& more = "") {
    return fmt::format(R"({{"kind": "{}", "inner_steps": 20, "workers": 2{}}})", kind, more);
}

// Under ZeRO each replica meets with its shard: a worker sends its parameters once, where whole replicas send them four times.
TEST(Diloco, ShardsOfAWorkerMeetApart) {
    const auto of = [](int zero) {
        const Plan plan = lower(sites(of_two("diloco"), zero).make());
        EXPECT_EQ(verify(plan).size(), 0u) << to_text(verify(plan));
        return static_cast<double>(reduced(plan, plan.further[0].programs));
    };
    const double whole = of(0);
    for (int zero : {1, 2, 3}) EXPECT_NEAR(of(zero), whole / 4, 0.01 * whole) << zero; // of a rank
    const auto sent = [](int zero) { return predict(sites(of_two("diloco"), zero).make()).report.meetings.bytes_between_nodes; };
    for (int zero : {1, 3}) EXPECT_NEAR(sent(zero), sent(0) / 4, 0.02 * sent(0)) << zero;
}

// Ways in which the replicas of a worker share: whole, sharded, in groups, with weights in 8 bits and a second copy.
struct Inside {
    int zero;
    std::string framework, more;
};
std::vector<Inside> ways_inside() {
    const std::string groups = R"(, "shard_group_size": 2)", low = R"(, "quantized_weights": "int8")";
    return {{0, "megatron", ""},   {1, "megatron", ""},     {3, "fsdp2", ""},
            {3, "fsdp2", groups},  {1, "megatron", groups}, {3, "deepspeed", groups},
            {3, "deepspeed", low}, {3, "deepspeed", ""},    {3, "deepspeed", low + R"(, "secondary_shard_size": 2)"}};
}
Gpt sites(const std::string& synchronization, const Inside& inside, int layers = 8) {
    Gpt g = sites(synchronization, inside.zero, layers);
    g.framework = inside.framework;
    g.extra_strategy += inside.more;
    return g;
}
// A worker on its own: one node.
Gpt alone(const Inside& inside) {
    Gpt g = sites("", inside);
    g.dp = 4;
    g.cluster = R"({"preset": "dgx-a100-80gb", "nodes": 1, "devices_per_node": 4})";
    return g;
}

// A worker's replicas share its step as synchronous ones do, and workers need no fast links to others: a step without its meeting takes
// what a worker takes on its own.
TEST(Diloco, AWorkersStepIsThatOfItsReplicas) {
    for (const Inside& inside : ways_inside()) {
        const double step = predict(alone(inside).make()).report.step_time_s;
        const Report r = predict(sites(of_two("diloco"), inside).make()).report;
        EXPECT_NEAR(r.step_time_s * r.meetings.compute_utilization, step, 0.005 * step) << inside.zero << inside.framework << inside.more;
        EXPECT_GT(r.step_time_s, step);
    }
}

// Between workers each rank sends its own shard: groups of half of a worker's replicas send the parameters twice, and what is sent inside a
// worker, in 8 bits or from second copies, changes nothing of it.
TEST(Diloco, WhatIsSentBetweenWorkersIsThatOfTheShardsInside) {
    const auto of = [](const Inside& inside) {
        const Scenario s = sites(of_two("diloco"), inside).make();
        const Plan plan = lower(s);
        EXPECT_EQ(verify(plan).size(), 0u) << to_text(verify(plan));
        return std::pair{static_cast<double>(reduced(plan, plan.further[0].programs)), predict(s).report.meetings.bytes_between_nodes};
    };
    const auto [whole, whole_sent] = of({0, "megatron", ""});
    for (const Inside& inside : ways_inside()) {
        const int shards = inside.zero == 0 ? 1 : inside.more.find("shard_group") != std::string::npos ? 2 : 4;
        const auto [met, sent] = of(inside);
        EXPECT_NEAR(met, whole / shards, 0.01 * whole) << inside.framework << inside.more;
        EXPECT_NEAR(sent, whole_sent / shards, 0.02 * whole_sent) << inside.framework << inside.more;
    }
    const Inside plain{3, "deepspeed", ""}, low{3, "deepspeed", R"(, "quantized_weights": "int8", "secondary_shard_size": 2)"};
    EXPECT_EQ(of(plain).first, of(low).first);
}

// A device of a worker holds the same as where the worker is on its own, and in addition the states that are kept for meetings.
TEST(Diloco, ADeviceHoldsWhatItDoesInAWorkerOnItsOwn) {
    for (const Inside& inside : ways_inside())
        for (const char* kind : {"local_sgd", "diloco"}) {
            const Plan own = lower(alone(inside).make()), plan = lower(sites(of_two(kind), inside).make());
            std::int64_t common = 0;
            for (const Buffer& b : plan.buffers)
                if (b.role == Role::outer_parameters || b.role == Role::outer_momentum) common += b.bytes.count;
            EXPECT_EQ(common > 0, kind == std::string("diloco"));
            auto expected = resident(own, 0);
            expected[MemoryKind::optimizer_states] += static_cast<double>(common);
            for (const MemoryKind k : {MemoryKind::parameters, MemoryKind::gradients, MemoryKind::optimizer_states})
                EXPECT_NEAR(resident(plan, 0).at(k), expected[k], 1) << inside.framework << inside.more << kind << name(k);
        }
}

// Bytes that copies one way move while rank 0's stage meets.
std::int64_t crossed(const Plan& plan, CopyKind way) {
    std::int64_t bytes = 0;
    for (const Action& a : plan.further[0].programs[0].actions)
        for (std::int32_t i = a.first; i < a.last; ++i)
            if (const auto* c = std::get_if<Copy>(&plan.blocks[a.block].ops[i].work); c && c->kind == way) bytes += c->bytes.count;
    return bytes;
}

// The states of a worker's own optimizer on the host: 12 bytes a parameter of its shards leave each device, the fp32 copies come for a
// meeting and go back, and between meetings a step is that of a worker on its own.
TEST(Diloco, KeepsTheStatesOfItsOwnOptimizerOnTheHost) {
    const auto of = [](const std::string& synchronization, int zero, bool away) {
        Gpt g = sites(synchronization, zero);
        g.framework = "deepspeed";
        if (away) g.extra_strategy += R"(, "offload": {"optimizer": "cpu"})";
        return g;
    };
    for (const char* kind : {"local_sgd", "diloco"})
        for (int zero : {0, 1, 2}) {
            const Scenario here = of(of_two(kind), zero, false).make(), there = of(of_two(kind), zero, true).make();
            const Plan plan = lower(there), before = lower(here);
            EXPECT_EQ(verify(plan).size(), 0u) << to_text(verify(plan));
            double masters = 0;
            for (const Buffer& b : before.buffers)
                if (b.role == Role::master) masters += static_cast<double>(b.bytes.count);
            ASSERT_GT(masters, 0);
            for (CopyKind way : {CopyKind::host_to_device, CopyKind::device_to_host})
                EXPECT_EQ(static_cast<double>(crossed(plan, way)), masters) << kind << zero;
            EXPECT_EQ(reduced(plan, plan.further[0].programs), reduced(before, before.further[0].programs)) << "the same is sent";
            const Report a = predict(here).report, b = predict(there).report;
            const auto states = [](const Report& r) {
                return static_cast<double>(r.memory.host.used.by_kind[MemoryKind::optimizer_states].count);
            };
            EXPECT_NEAR(states(b) - states(a), 4 * 3 * masters, 0.001 * 12 * masters) << kind << zero << ": four ranks of a node";
            EXPECT_LT(b.memory.stages[0].peak.count, a.memory.stages[0].peak.count) << kind << zero;
            EXPECT_DOUBLE_EQ(b.meetings.bytes_between_nodes, a.meetings.bytes_between_nodes);
            Gpt alone = of("", zero, true);
            alone.dp = 4;
            alone.cluster = R"({"preset": "dgx-a100-80gb", "nodes": 1, "devices_per_node": 4})";
            const double step = predict(alone.make()).report.step_time_s;
            EXPECT_NEAR(b.step_time_s * b.meetings.compute_utilization, step, 0.01 * step) << kind << zero;
            const double rate = there.cluster.host.pcie_bandwidth.value;
            EXPECT_GT(b.meetings.sync_time_s, a.meetings.sync_time_s) << kind << zero;
            EXPECT_LT(b.meetings.sync_time_s, a.meetings.sync_time_s + 20 * masters / rate) << kind << zero << ": once each way";
        }
}

// Whatever the software keeps on the host beside the fp32 copies, one for each slice that meets.
TEST(Diloco, MeetsWithTheHostsCopies) {
    for (const std::string kind : {"local_sgd", "diloco"})
        for (const std::string software : {"ddp", "deepspeed", "megatron"})
            for (const char* how : {"true", "false"}) {
                Gpt g = sites(of_two(kind), 1, 4);
                g.framework = software;
                g.extra_strategy +=
                    fmt::format(R"(, "bucket_bytes": 10000000, "offload": {{"optimizer": "cpu"}}, "overlap": {{"offload": {}}})", how);
                const Plan plan = lower(g.make());
                EXPECT_EQ(verify(plan).size(), 0u) << kind << " " << software << to_text(verify(plan));
                std::int64_t masters = 0, met = 0, on_device = 0;
                for (const Buffer& b : plan.buffers) {
                    if (b.role == Role::master) (b.space == Space::host ? masters : on_device) += b.bytes.count;
                    if (b.role == Role::master_copy && b.name.starts_with("here.")) met += b.bytes.count;
                }
                EXPECT_GT(masters, 0);
                EXPECT_EQ(on_device, 0);
                EXPECT_EQ(met, masters) << kind << " " << software;
            }
}

TEST(Diloco, OfStatesOnTheHostFoldedAndUnfoldedTakeTheSameTime) {
    PredictOptions whole;
    whole.simulate.fold = false;
    for (int zero : {0, 1}) {
        Gpt g = sites(of_two("diloco", R"(, "outer_device": "cpu")"), zero, 4);
        g.extra_strategy += R"(, "bucket_bytes": 10000000, "offload": {"optimizer": "cpu"}, "overlap": {"offload": true})";
        const Plan plan = lower(g.make());
        EXPECT_EQ(verify(plan).size(), 0u) << to_text(verify(plan));
        const double time = predict(g.make()).report.step_time_s;
        EXPECT_NEAR(predict(g.make(), whole).report.step_time_s, time, 1e-9 * time) << zero;
    }
}

TEST(Diloco, NamesWhatOfTheHostItDoesNotTake) {
    const auto problems = [](const std::string& kind, const std::string& offload) {
        Gpt g = sites(of_two(kind), 1);
        g.extra_strategy += R"(, "offload": {"optimizer": "cpu")" + offload + "}";
        return to_text(parse_scenario(g.text(), {}).problems);
    };
    EXPECT_EQ(problems("diloco", ""), "");
    EXPECT_NE(problems("streaming_diloco", "").find("whose step is of all fragments at once: set kind = diloco"), std::string::npos);
    EXPECT_NE(problems("diloco", R"(, "optimizer_fraction": 0.5)").find("below 1 is not modelled with"), std::string::npos);
    EXPECT_NE(problems("local_sgd", R"(, "delayed_update": true)").find("would come after the meeting"), std::string::npos);
}

TEST(Diloco, OfSitesFoldedAndUnfoldedTakeTheSameTime) {
    PredictOptions whole;
    whole.simulate.fold = false;
    std::vector<Inside> ways = ways_inside();
    ways.push_back({2, "megatron", ""});
    for (const Inside& inside : ways)
        for (const char* kind : {"local_sgd", "diloco", "streaming_diloco"}) {
            Gpt g = sites(of_two(kind), inside, 4);
            g.tied = false;
            const double time = predict(g.make()).report.step_time_s;
            EXPECT_NEAR(predict(g.make(), whole).report.step_time_s, time, 1e-9 * time) << kind << inside.framework << inside.more;
        }
}

// One worker has nobody to meet: the field's lack of effect is named.
TEST(Diloco, OneWorkerIsSynchronousTraining) {
    const std::string one = R"({"kind": "diloco", "inner_steps": 20, "workers": 1})";
    const Report r = predict(sites(one, 1).make()).report, synchronous = predict(sites("", 1).make()).report;
    EXPECT_DOUBLE_EQ(r.step_time_s, synchronous.step_time_s);
    EXPECT_TRUE(std::ranges::any_of(r.notes, [](const std::string& n) {
        return n.find("strategy.synchronization.kind has no effect: synchronization.workers is 1") != std::string::npos;
    })) << "what has no effect is named";
}

// A meeting that steps hide costs nothing, and one over faster links never more.
TEST(StreamingDiloco, ReportsWhatItExposes) {
    const auto of = [](const std::string& fields) { return predict(islands(fields).make()).report.meetings; };
    const WorkerMeetings whole = of(outside(40)), four = of(streamed(40, 4, 0)), hidden = of(streamed(120, 4, 29));
    EXPECT_EQ(four.steps, 40);
    EXPECT_GT(whole.sync_time_s, 0);
    EXPECT_NEAR(four.sync_time_s, whole.sync_time_s, 0.05 * whole.sync_time_s) << "as much is waited for, in four parts";
    EXPECT_GT(hidden.compute_utilization, 0.98);
    EXPECT_NEAR(of(outside(40)).bytes_between_nodes, four.bytes_between_nodes, 0.01 * four.bytes_between_nodes);
}

TEST(Diloco, FoldedAndUnfoldedTakeTheSameTime) {
    Gpt g = replicas(4, outside(5, R"(, "payload_dtype": "int8")"));
    g.pp = 2;
    g.tied = false;
    g.cluster = R"({"preset": "dgx-a100-80gb", "nodes": 2, "devices_per_node": 4})";
    PredictOptions whole;
    whole.simulate.fold = false;
    const double time = predict(g.make()).report.step_time_s;
    EXPECT_NEAR(predict(g.make(), whole).report.step_time_s, time, 1e-9 * time);
}

TEST(StreamingDiloco, SendsEveryParameterOnceARoundAFragmentAtATime) {
    const Plan plan = lower(islands(streamed(40, 4, 3)).make()), whole = lower(islands(outside(40)).make());
    EXPECT_EQ(verify(plan).size(), 0u) << to_text(verify(plan));
    std::int64_t sent = 0, most = 0, steps = plan.repeat;
    for (const PlanPhase& phase : plan.further) {
        const std::int64_t bytes = reduced(plan, phase.programs);
        sent += bytes;
        most = std::max(most, bytes);
        if (phase.steps) steps += phase.repeat;
    }
    EXPECT_EQ(steps, 40);
    EXPECT_EQ(sent, reduced(whole, whole.further[0].programs));
    EXPECT_LT(static_cast<double>(most), 0.4 * static_cast<double>(sent)); // two layers of eight, and the embedding
}

// One fragment at most is on its way, while steps go on: beside the outer states, two fp32 numbers a parameter, the largest fragment's
// distance moved in fp32 and its payload.
TEST(StreamingDiloco, HasRoomForOneFragmentOnItsWay) {
    const auto peak = [](const std::string& how) { return predict(islands(how).make()).report.memory.stages[0].allocated_peak.count; };
    const std::int64_t plain = peak(every(40));
    for (const int fragments : {1, 2, 4, 8})
        for (const auto& [payload, bytes] : {std::pair{"fp32", 4}, {"bf16", 6}}) {
            const std::string how = streamed(40, fragments, 1, fmt::format(R"(, "payload_dtype": "{}")", payload));
            const Plan plan = lower(islands(how).make());
            EXPECT_EQ(verify(plan).size(), 0u) << to_text(verify(plan));
            const std::vector<std::int64_t> parts = parts_met(plan);
            ASSERT_EQ(static_cast<int>(parts.size()), fragments);
            std::int64_t whole = 0;
            for (const std::int64_t n : parts) whole += n;
            EXPECT_EQ(peak(how) - plain, 8 * whole + bytes * *std::max_element(parts.begin(), parts.end())) << fragments << " " << payload;
        }
}

// The part that steps do not hide of a fragment's way is waited for: utilisation is H t / (H t + exposed).
TEST(StreamingDiloco, UtilisationFollowsTheLaw) {
    const auto step = [](const std::string& fields, double latency = 0) {
        return predict(islands(fields, latency).make()).report.step_time_s;
    };
    const double t = step(outside(10000)), sync = step(outside(1)) - t;
    ASSERT_GT(sync, 8 * t);
    EXPECT_NEAR(step(streamed(40, 1, 0)), t + sync / 40, 0.01 * t); // DiLoCo
    EXPECT_NEAR(step(streamed(40, 4, 0)), t + sync / 40, 0.02 * t); // as much is waited for, in four parts
    double before = 1e9;
    for (int overlap : {0, 1, 2, 4, 8}) {
        const double now = step(streamed(40, 4, overlap));
        EXPECT_LE(now, before * (1 + 1e-9)) << overlap;
        EXPECT_GE(now, t * (1 - 1e-3));
        EXPECT_NEAR(now, t + std::max(0.0, sync - 4 * overlap * t) / 40, 0.08 * t) << overlap; // fragments are not quite alike
        before = now;
    }
    // A latency is hidden as bytes are.
    const std::string hidden = streamed(100, 2, 45, R"(, "payload_dtype": "int4")");
    EXPECT_NEAR(step(hidden, 5000), step(hidden), 0.02 * t);
    EXPECT_GT(step(outside(2), 5000), step(outside(2)) + 0.001);
}

// A payload that is hidden in fp32 is hidden in any other type: computation does not wait for its kernels.
TEST(StreamingDiloco, HidesEveryPayload) {
    const auto of = [](const std::string& payload, int overlap) {
        return predict(islands(streamed(120, 4, overlap, R"(, "payload_dtype": ")" + payload + "\"")).make()).report;
    };
    const auto waited = [](const Report& r) { return r.breakdown_s[Category::exposed_dp]; };
    const Report wide = of("fp32", 29);
    EXPECT_LT(waited(wide), 1e-3 * wide.step_time_s);
    for (const char* payload : {"bf16", "fp16", "int8", "int4"}) {
        const Report narrow = of(payload, 29);
        EXPECT_LT(waited(narrow), 1e-3 * narrow.step_time_s) << payload;
        EXPECT_LE(narrow.step_time_s, wide.step_time_s * (1 + 1e-2)) << payload;
        EXPECT_GT(waited(of(payload, 0)), 0.02 * wide.step_time_s) << payload;
    }
}

TEST(StreamingDiloco, FoldedAndUnfoldedReplayedAndInFullTakeTheSameTime) {
    for (const char* payload : {"fp32", "int8"}) {
        Gpt g = islands(streamed(6, 2, 1, std::string(R"(, "payload_dtype": ")") + payload + "\""));
        g.pp = 2;
        g.cluster = R"({"preset": "dgx-a100-80gb", "nodes": 2, "devices_per_node": 4})";
        PredictOptions folded, whole, full;
        whole.simulate.fold = false;
        full.simulate.replay = false;
        const double time = predict(g.make(), folded).report.step_time_s;
        EXPECT_NEAR(predict(g.make(), whole).report.step_time_s, time, 1e-9 * time);
        EXPECT_EQ(predict(g.make(), full).report.step_time_s, time);
    }
}

TEST(StreamingDiloco, IsRefusedWhereFragmentsWouldMeet) {
    const auto problems = [](const Gpt& g) { return to_text(parse_scenario(g.text(), {}).problems); };
    EXPECT_NE(problems(islands(streamed(40, 4, 10))).find("reaches the next fragment, 10 steps on"), std::string::npos);
    EXPECT_NE(problems(islands(streamed(40, 9, 1))).find("more than the 8 layers of a stage"), std::string::npos);
    EXPECT_EQ(problems(islands(streamed(40, 4, 9))), "");
}

} // namespace
} // namespace orrery::laws
