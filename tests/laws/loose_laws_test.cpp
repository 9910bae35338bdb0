// Parameter servers, gossip and asynchronous averaging: what each sends, what limits it, how old what it uses is.
#include "tests/laws/scenarios.hpp"

#include "sim/loose/clock.hpp"
#include "sim/plan/verify.hpp"
#include "sim/report/loose.hpp"
#include "sim/report/report.hpp"
#include "tests/laws/simulations.hpp"

namespace orrery::laws {
namespace {

// Nodes of one device each, on Ethernet at `gbit`.
Gpt workers(int n, const std::string& synchronization, double gbit = 25, const std::string& extra = "") {
    Gpt g;
    g.dp = n;
    g.flash = true;
    g.cluster = fmt::format(R"({{"preset": "dgx-a100-80gb", "nodes": {}, "devices_per_node": 1,
                               "inter_node": {{"kind": "ethernet", "nics_per_node": 1, "gbit_per_s": {}}}}})",
                            n * g.tp * g.pp, gbit);
    if (!synchronization.empty()) g.extra_strategy = R"(, "synchronization": )" + synchronization;
    g.extra = extra;
    return g;
}

std::string served(int servers, int bound = -1, const std::string& payload = "fp32") {
    return fmt::format(R"({{"kind": "parameter_server", "servers": {}, "staleness_bound": {}, "payload_dtype": "{}"}})", servers, bound,
                       payload);
}
std::string gossip(int overlap = 0, int degree = 1) {
    return fmt::format(R"({{"kind": "gossip", "overlap_steps": {}, "degree": {}}})", overlap, degree);
}
const std::string averaging = R"({"kind": "async_average"})";

double step(const Gpt& g) { return report_of(g).step_time_s; }
// A worker's step where nobody meets.
double alone(int n) { return step(workers(n, R"({"kind": "local_sgd", "inner_steps": 10000})")); }

double parameters(const Plan& plan) {
    double n = 0;
    for (const Buffer& b : plan.buffers)
        if (b.role == Role::parameter) n += static_cast<double>(b.bytes.count) / bytes_per_element(b.dtype);
    return n;
}

// Links A and B of 1 byte a second. One message is 6 bytes on A and 6 on B, another 18 on A, a third 6 on B: on each link two flows share,
// until the 6 bytes have come at 12 s on both; the rest of the 18 has A alone. Flows tied to the slower of their message would leave B to
// the third, which would then end at 9 s, and the first at 18 s.
TEST(LooseClock, FlowsOfAMessageDoNotWaitForEachOther) {
    LooseClock clock({1, 1}, 3, 0);
    const auto flow = [&](int link, double bytes) {
        LooseFlow f;
        f.bytes = bytes;
        f.uses = {{link, 1}};
        f.loads = {1};
        f.lane = clock.lane_of(f);
        return f;
    };
    const LooseWay both{0, {flow(0, 6), flow(1, 6)}}, a{0, {flow(0, 18)}}, b{0, {flow(1, 6)}};
    std::vector<double> came(3, -1);
    const auto send = [&](const LooseWay& way, int which) { clock.send({&way}, which, which, [&, which] { came[which] = clock.now(); }); };
    send(both, 0);
    send(a, 1);
    send(b, 2);
    while (!clock.idle()) clock.step();
    EXPECT_NEAR(came[0], 12, 1e-9);
    EXPECT_NEAR(came[1], 24, 1e-9);
    EXPECT_NEAR(came[2], 12, 1e-9);
    EXPECT_NEAR(clock.bytes(), 36, 1e-9);
    EXPECT_NEAR(clock.sent()[0], 24, 1e-9);
    EXPECT_NEAR(clock.sent()[1], 12, 1e-9);
}

// Alike flows share a lane, whoever sends them: one of 6 bytes and one of 12 that comes 2 s later, on a link of 1 byte a second. While they
// move their worker computes at half the rate.
TEST(LooseClock, FlowsAlikeShareALane) {
    LooseClock clock({1}, 1, 1);
    LooseWay few{0, {{6, 10, {{0, 1}}, {1}}}}, many{2, {{12, 10, {{0, 1}}, {1}}}};
    few.flows[0].lane = clock.lane_of(few.flows[0]);
    many.flows[0].lane = clock.lane_of(many.flows[0]);
    EXPECT_EQ(few.flows[0].lane, many.flows[0].lane);
    std::vector<double> at(3, -1);
    clock.send({&few}, 0, LooseClock::nobody, [&] { at[0] = clock.now(); });
    clock.send({&many}, LooseClock::nobody, 0, [&] { at[1] = clock.now(); });
    clock.compute(0, 10, [&] { at[2] = clock.now(); });
    while (!clock.idle()) clock.step();
    EXPECT_NEAR(at[0], 2 + 2 * 4, 1e-9) << "2 bytes alone, 4 at half the rate";
    EXPECT_NEAR(at[1], 18, 1e-9) << "the link is never idle";
    EXPECT_NEAR(at[2], 18 + 1, 1e-9) << "9 of 10 s by then";
}

// Four nodes that all serve, on 10 Gb/s each.
Scenario crowded(int per_node, int bound, double gbit = 10) {
    return scenario(fmt::format(
        R"({{"model": "gpt2-124m", "cluster": {{"preset": "dgx-a100-80gb", "nodes": 4, "devices_per_node": {},
             "inter_node": {{"kind": "ethernet", "nics_per_node": 1, "gbit_per_s": {}}}}},
            "training": {{"global_batch_size": {}, "micro_batch_size": 8, "sequence_length": 1024, "precision": "bf16"}},
            "strategy": {{"framework": "ddp", "synchronization": {{"kind": "parameter_server", "servers": 4, "payload_dtype": "bf16",
                                                                   "staleness_bound": {}}}}}}})",
        per_node, gbit, 32 * per_node, bound));
}

// Each NIC sends three quarters of its workers' gradients, and as much of the parameters that workers elsewhere fetch from its server.
TEST(ParameterServer, FillsTheLinksOfNodesWithSeveralWorkers) {
    for (int per_node : {2, 4}) {
        const Scenario s = crowded(per_node, -1);
        const double full = per_node * 2 * parameters(lower(s)) * 0.75 * 2 / 1.25e9;
        const Report r = predict(s).report;
        EXPECT_GE(r.step_time_s, full) << per_node;
        EXPECT_LE(r.step_time_s, 1.12 * full) << per_node;
        EXPECT_GT(r.loose.busiest.share, 0.9) << per_node;
    }
}

// Where workers apart fill the links in both directions, waiting for others never pays: all in step use one direction of a worker's at a
// time. (Of one worker a node that serves itself it does: in step no push meets a fetch; sim/loose/README.md.)
TEST(ParameterServer, ALooserBoundIsNeverSlowerWhereSeveralWorkersShareANic) {
    // Workers a step apart meet on links that are neither full nor idle (two a node, 10 Gb/s) in patterns that last for hundreds of steps,
    // and a pattern's pace is up to 9 % off another's (0.67 to 0.73 s, of 2,048 steps each 0.69 to 0.73). The mean of several
    // courses shows the cost of the bound itself.
    for (const auto& [per_node, gbit, courses] : {std::tuple{2, 10.0, 5}, {2, 1.0, 1}, {4, 40.0, 1}}) {
        double least = 1e9;
        for (int bound : {0, 1, 4, -1}) {
            Scenario s = crowded(per_node, bound, gbit);
            double now = 0;
            for (int seed = 0; seed < courses; ++seed) {
                s.training.seed = static_cast<std::uint64_t>(seed);
                now += predict(s).report.step_time_s / courses;
            }
            EXPECT_LE(now, 1.02 * least) << per_node << " " << gbit << " " << bound;
            least = std::min(now, least);
        }
    }
}

TEST(ParameterServer, LeavesTheOptimizerToItsServers) {
    const Scenario s = workers(8, served(2)).make();
    const Plan plan = lower(s);
    EXPECT_EQ(verify(plan).size(), 0u) << to_text(verify(plan));
    for (const Block& b : plan.blocks)
        for (const Op& op : b.ops) {
            EXPECT_FALSE(std::holds_alternative<OptimizerStep>(op.work)) << op.name;
            EXPECT_FALSE(std::holds_alternative<Collective>(op.work)) << op.name;
        }
    const Report r = report_of(workers(8, served(2)));
    const auto at = [](MemoryKind k) { return static_cast<std::size_t>(k); };
    EXPECT_EQ(r.memory.stages[0].by_kind[at(MemoryKind::optimizer_states)].count, 0);
    // Of half the model: fp32 and the fp16 that workers fetch; both moments.
    const double n = parameters(plan);
    EXPECT_NEAR(static_cast<double>(r.memory.host.used.by_kind[at(MemoryKind::parameters)].count), n / 2 * 6, 8);
    EXPECT_NEAR(static_cast<double>(r.memory.host.used.by_kind[at(MemoryKind::optimizer_states)].count), n / 2 * 8, 8);
}

TEST(ParameterServer, VerificationFindsAnOptimizerBesideItAndGradientsThatAreNone) {
    const auto finds = [](const Plan& plan, const std::string& rule) {
        const std::vector<Violation> found = verify(plan);
        return std::any_of(found.begin(), found.end(), [&](const Violation& v) { return v.rule == rule; });
    };
    Plan plan = lower(workers(4, gossip()).make());
    plan.served = true;
    EXPECT_TRUE(finds(plan, "served-updated"));
    plan = lower(workers(4, served(2)).make());
    plan.served = false;
    EXPECT_TRUE(finds(plan, "parameter-not-updated"));
    plan.served = true;
    EXPECT_FALSE(finds(plan, "parameter-not-updated"));
    for (Block& b : plan.blocks) // nobody adds to the first gradient
        for (Op& op : b.ops)
            std::erase_if(op.out, [&](BufferId id) { return plan.buffers[id].role == Role::gradient && plan.buffers[id].tensor == 0; });
    EXPECT_TRUE(finds(plan, "gradient-missing"));
}

// One of eight is beside the server: seven send 4 bytes a parameter to it. Without a bound that one runs ahead of all others.
TEST(ParameterServer, OnASlowLinkIsTheServersLink) {
    const double gbit = 2;
    const Gpt g = workers(8, served(1, 2), gbit);
    const double n = parameters(lower(g.make())), link = gbit * 1e9 / 8;
    const Report r = report_of(g);
    EXPECT_GE(r.step_time_s, 7 * 4 * n / link);
    EXPECT_LE(r.step_time_s, 1.3 * 7 * 4 * n / link);
    EXPECT_GT(r.loose.busiest.share, 0.75);
    EXPECT_NEAR(r.loose.bytes_per_step, 8 * 6 * n, 0.05 * 8 * 6 * n);
    EXPECT_LT(step(workers(8, served(1, 2, "int8"), gbit)), 0.6 * r.step_time_s); // what is fetched stays as it is
    double before = r.step_time_s;
    for (int servers : {2, 4, 8}) {
        const double now = step(workers(8, served(servers, 2), gbit));
        EXPECT_LT(now, before) << servers;
        before = now;
    }
    EXPECT_NEAR(r.loose.fastest, 1, 0.1);
    EXPECT_GT(report_of(workers(8, served(1), gbit)).loose.fastest, 4);
}

TEST(ParameterServer, IsNeverSlowerOnAFasterNetworkOrHost) {
    double before = 1e9;
    for (double gbit : {1.0, 5.0, 25.0, 100.0, 400.0}) {
        const double now = step(workers(8, served(4), gbit));
        EXPECT_LE(now, before * (1 + 1e-6)) << gbit;
        before = now;
    }
    EXPECT_GE(before, alone(8) * 0.8); // no optimizer's step on the device
    before = 1e9;
    for (const char* rate : {"0.05", "0.2", "1", "5"}) {
        Gpt g = workers(8, served(1), 400);
        g.cluster.insert(1, fmt::format(R"("host": {{"adam_gparams_per_s": {}}}, )", rate));
        const double now = step(g);
        EXPECT_LE(now, before * (1 + 1e-6)) << rate;
        before = now;
    }
}

// Alike workers take turns: between a worker's fetch and its push each of the others has pushed once.
TEST(ParameterServer, StalenessIsThatOfTheOthersPushes) {
    for (int n : {2, 4, 8, 16}) {
        const Report r = report_of(workers(n, served(1)));
        EXPECT_NEAR(r.loose.staleness, n - 1, 0.05 * n) << n;
        EXPECT_GE(r.loose.worst_staleness, n - 1) << n;
    }
    const Report together = report_of(workers(8, served(1, 0)));
    EXPECT_EQ(together.loose.staleness, 0);
    EXPECT_EQ(together.loose.versions, 1);
}

// Of wide layers, whose kernels take longer than their launches, with a node of three times as long kernels or without.
Gpt uneven(const std::string& synchronization, bool slow) {
    Gpt g = workers(8, synchronization, 400, slow ? R"(, "perturb": [{"slow": 3, "node": 1}])" : "");
    g.hidden = 4096;
    g.heads = 32;
    g.layers = 2;
    g.sequence = 2048;
    g.vocab = 2048;
    return g;
}

TEST(ParameterServer, ABoundMakesTheFastWaitForTheSlowest) {
    const double even = step(uneven(served(8), false));
    const Report free = report_of(uneven(served(8), true));
    const double mean = 8 / (7 + 1.0 / 3); // seven go on as before
    EXPECT_NEAR(free.step_time_s, even * mean, 0.05 * even);
    const double bound = step(uneven(served(8, 2), true)), all = step(uneven(served(8, 0), true));
    EXPECT_GT(bound, 2 * even);
    EXPECT_NEAR(bound, all, 0.1 * all); // in the long run all are as slow as the slowest
    EXPECT_LE(report_of(uneven(served(8, 2), true)).loose.worst_staleness, 7 * 3 + 7);
    EXPECT_GT(free.loose.worst_staleness, report_of(uneven(served(8), false)).loose.worst_staleness);
}

TEST(Gossip, SendsOneModelWhateverTheNumberOfWorkers) {
    const double gbit = 10, n = parameters(lower(workers(8, gossip()).make())), link = gbit * 1e9 / 8;
    EXPECT_EQ(verify(lower(workers(8, gossip()).make())).size(), 0u);
    const double own = alone(8);
    const double eight = step(workers(8, gossip(), gbit));
    EXPECT_GE(eight, own + 2 * n / link);
    EXPECT_LE(eight, own + 1.5 * 2 * n / link) << (eight - own) / (2 * n / link); // one stream has a share of Ethernet's rate
    for (int w : {2, 4, 16, 12}) EXPECT_NEAR(step(workers(w, gossip(), gbit)), eight, 0.02 * eight) << w;
    const Report two = report_of(workers(8, gossip(0, 2), gbit));
    EXPECT_NEAR(two.loose.bytes_per_step, 8 * 2 * 2 * n, 0.02 * 8 * 4 * n);
    EXPECT_EQ(two.loose.staleness, 0);
    // A ring of all sends twice as much each step, and waits for all.
    EXPECT_LT(eight, step(workers(8, "", gbit)) + 1e-9);
}

TEST(Gossip, OverlapHidesWhatAStepIsLongEnoughFor) {
    double before = step(workers(8, gossip(0), 25));
    for (int steps : {1, 2, 4}) {
        const Report r = report_of(workers(8, gossip(steps), 25));
        EXPECT_LE(r.step_time_s, before * (1 + 1e-3)) << steps;
        EXPECT_EQ(r.loose.staleness, steps);
        before = r.step_time_s;
    }
}

// Data that move beside a step slow it only as long as they move: where that is brief, overlap costs next to nothing.
TEST(Gossip, OverlapOnAFastNetworkIsNoSlowerThanWaiting) {
    for (double gbit : {25.0, 100.0, 400.0}) {
        const double waits = step(workers(8, gossip(0), gbit));
        EXPECT_LE(step(workers(8, gossip(1), gbit)), waits * (1 + 1e-3)) << gbit;
    }
    const double bare = step(uneven(gossip(0), false));
    EXPECT_LE(step(uneven(gossip(1), false)), bare * (1 + 1e-3));
}

// A slow node slows its neighbours, and these theirs, but nobody waits for all at once.
TEST(Gossip, WithASlowWorkerIsAsSlowAsIt) {
    const double even = step(uneven(gossip(), false)), slow = step(uneven(gossip(), true));
    EXPECT_GT(slow, 2 * even);
    EXPECT_LT(slow, 3.1 * even);
}

TEST(AsyncAverage, StepsDoNotDependOnTheNetwork) {
    EXPECT_EQ(verify(lower(workers(8, averaging).make())).size(), 0u);
    const Report fast = report_of(workers(8, averaging, 400)), slow = report_of(workers(8, averaging, 1)),
                 slower = report_of(workers(8, averaging, 0.1));
    // Nobody waits for a message; those on their way slow computation, at the most all of it.
    const Scenario s = workers(8, averaging).make();
    const Fabric fabric(s.cluster);
    const double most = 1 + CostModel(s, fabric).interference().compute_slowdown;
    EXPECT_NEAR(slow.step_time_s, most * alone(8), 0.03 * alone(8));
    EXPECT_NEAR(slower.step_time_s, slow.step_time_s, 0.01 * slow.step_time_s);
    EXPECT_LE(fast.step_time_s, (1 + 0.5 * (most - 1)) * alone(8));
    EXPECT_LE(slow.loose.wait_s, 1e-3 * slow.step_time_s);
    EXPECT_GT(slow.loose.steps_between_averages, 4 * fast.loose.steps_between_averages);
    EXPECT_GT(slow.loose.staleness, fast.loose.staleness);
    const double mean = 8 / (7 + 1.0 / 3); // a slow worker holds nobody
    const double even = step(uneven(averaging, false)), slowed = step(uneven(averaging, true));
    EXPECT_NEAR(slowed, even * mean, 0.05 * slowed);
}

TEST(LooseWorkers, FoldAndReplayAlikeAndTheirPartsAddUp) {
    for (const std::string& way : {served(2), served(2, 1, "int8"), gossip(), gossip(2, 2), averaging}) {
        Gpt g = workers(4, way);
        g.tp = 2;
        g.pp = 2;
        g.tied = false;
        g.cluster = R"({"preset": "dgx-a100-80gb", "nodes": 4, "devices_per_node": 4})";
        const Scenario s = g.make();
        const Plan plan = lower(s);
        EXPECT_EQ(verify(plan).size(), 0u) << way << to_text(verify(plan));
        PredictOptions whole, full;
        whole.simulate.fold = false;
        full.simulate.replay = false;
        const Report r = predict(s).report;
        EXPECT_NEAR(predict(s, whole).report.step_time_s, r.step_time_s, 1e-9 * r.step_time_s) << way;
        EXPECT_EQ(predict(s, full).report.step_time_s, r.step_time_s) << way;
        double sum = 0;
        for (double part : r.breakdown_s) sum += part;
        EXPECT_NEAR(sum, r.step_time_s, 1e-9 * r.step_time_s) << way;
        EXPECT_NEAR(r.tokens_per_s * r.step_time_s, 4 * 2 * 4 * 512, 1e-6 * 4 * 2 * 4 * 512) << way;
    }
}

// (A faster network averages more often with async_average, and each averaging holds the parameters while it works.)
TEST(LooseWorkers, AreNeverSlowerOnAFasterNetwork) {
    for (const std::string& way : {gossip(), gossip(1), gossip(1, 2), averaging}) {
        const double mixing = way == averaging ? 0.02 : 1e-3;
        double before = 1e9;
        for (double gbit : {0.5, 1.0, 5.0, 25.0, 100.0, 400.0}) {
            const double now = step(workers(8, way, gbit));
            EXPECT_LE(now, before * (1 + mixing)) << way << " " << gbit;
            before = std::min(now, before);
        }
    }
}

// Messages to servers meet elsewhere when steps are shorter, which costs or saves up to 3 %; the other ways have no such choice.
TEST(LooseWorkers, AreNeverSlowerWithBetterDevices) {
    for (const std::string& way : {served(2), served(8), served(4, 1), gossip(), gossip(1, 2), averaging}) {
        double before = 1e9;
        for (int rate : {1000, 1555, 2039, 3350}) {
            Gpt g = workers(8, way);
            g.cluster.insert(1, fmt::format(R"("device": {{"preset": "a100-sxm-80gb", "memory_gb_per_s": {}}}, )", rate));
            const double now = step(g);
            EXPECT_LE(now, before * (1 + (way.find("server") != std::string::npos ? 0.03 : 1e-3))) << way << " " << rate;
            before = std::min(now, before);
        }
    }
}

// Messages beside the parameters: none of a server's clients in fp16 gradients, one of a peer, one more each way.
TEST(LooseWorkers, KeepWhatTheySendAndGet) {
    const auto messages = [](const std::string& way) {
        const Report r = report_of(workers(4, way));
        for (const ReserveItem& item : r.memory.stages[0].reserve) {
            if (item.name != "messages of workers") continue;
            EXPECT_EQ(item.source.find("sim/"), std::string::npos) << item.source << ": no reader's concern";
            EXPECT_NE(item.source.find(way.find("server") != std::string::npos ? "gradients" : "parameters"), std::string::npos)
                << item.source;
            EXPECT_GT(item.bytes.count, 0) << "a line of nothing";
            return static_cast<double>(item.bytes.count);
        }
        return 0.0;
    };
    const double n = parameters(lower(workers(4, averaging).make()));
    EXPECT_EQ(messages(served(1, -1, "fp16")), 0);
    EXPECT_NEAR(messages(served(1)), 4 * n, 8);
    EXPECT_NEAR(messages(gossip()), 2 * n, 8);
    EXPECT_NEAR(messages(gossip(1, 2)), 2 * n * 5, 8);
    EXPECT_NEAR(messages(averaging), 2 * n * 2, 8);
}

// The record shows the course that the figures are means of.
TEST(LooseWorkers, RecordWhatTheyDid) {
    for (const std::string& way : {served(2), served(4, 0), served(4, 1), gossip(), gossip(1, 2), averaging}) {
        const Scenario s = workers(8, way).make();
        const Plan plan = lower(s);
        const Prediction p = predict(s);
        const int steps = 40;
        const LooseRecord r = record_workers(s, plan, p.simulation.step_time.seconds(), steps, 6, {});
        EXPECT_EQ(r.workers, 8) << way;
        EXPECT_EQ(r.shown, 6) << way;
        EXPECT_NEAR(r.length_s / steps, p.report.loose.step_s, 0.05 * p.report.loose.step_s) << way;
        std::vector<double> end(6, 0), stepping(6, 0);
        std::int64_t version = -1;
        double aged = 0, age = 0;
        for (const LooseSpan& span : r.spans) {
            EXPECT_GE(span.begin_s, 0);
            EXPECT_LE(span.end_s, r.length_s);
            EXPECT_LT(span.begin_s, span.end_s);
            if (span.age >= 0 && (span.doing == LooseDoing::step || span.doing == LooseDoing::send)) ++aged, age += span.age;
            if (span.doing == LooseDoing::update) {
                EXPECT_EQ(span.worker, -1);
                EXPECT_TRUE(version < 0 || span.step == version + 1) << way << ": servers make one version after the other";
                version = span.step;
            }
            if (span.worker < 0 || span.doing == LooseDoing::send) continue; // messages move beside what a worker does
            EXPECT_LT(span.worker, 6);
            EXPECT_GE(span.begin_s, end[span.worker] - 1e-9) << way << ": a worker does one thing at a time";
            end[span.worker] = span.end_s;
            if (span.doing == LooseDoing::step) stepping[span.worker] += span.end_s - span.begin_s;
        }
        for (double t : stepping) EXPECT_NEAR(t / r.length_s, 1 - p.report.loose.wait_s / p.report.loose.step_s, 0.06) << way;
        ASSERT_GT(aged, 0) << way;
        EXPECT_NEAR(age / aged, p.report.loose.staleness, 0.1 * p.report.loose.staleness + 1e-9) << way;
        EXPECT_EQ(version >= 0, way.find("server") != std::string::npos) << way;
    }
}

TEST(LooseWorkers, AreRefusedWhereTheyCannotBe) {
    const auto problems = [](const Gpt& g) { return to_text(parse_scenario(g.text(), {}).problems); };
    EXPECT_NE(problems(workers(4, served(5))).find("is more than the 4 nodes whose hosts could serve"), std::string::npos);
    EXPECT_NE(problems(workers(4, gossip(0, 4))).find("is more than the 3 other replicas"), std::string::npos);
    Gpt lamb = workers(4, served(2));
    lamb.optimizer = "lamb";
    EXPECT_NE(problems(lamb).find("needs norms of whole tensors"), std::string::npos);
    EXPECT_EQ(problems(workers(4, served(4))), "");
}

} // namespace
} // namespace orrery::laws
