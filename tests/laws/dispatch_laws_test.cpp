// DeepEP's nodes are hosts, HybridEP's are NVLink domains; each has kernels of its own, whose processors set their pace.
#include "sim/cost/collectives.hpp"
#include "sim/report/report.hpp"
#include "tests/laws/mixture.hpp"
#include "topology/catalog.hpp"
#include "topology/fabric.hpp"

#include <cmath>
#include <map>

namespace orrery::laws {
namespace {

// 32 devices on eight hosts of four; `domain` hosts share an NVSwitch.
Scenario rack(const std::string& dispatcher, int domain, int pp = 1) {
    Mixture m;
    m.hidden = 2048, m.heads = 16, m.ffn = 1024, m.experts = 32, m.top_k = 8, m.sequence = 4096, m.micro_batch = 4, m.global_batch = 128;
    m.pp = pp, m.dp = 32 / pp, m.ep = 16;
    m.dispatcher = dispatcher;
    m.cluster =
        fmt::format(R"({{"device": "gb200", "nodes": 8, "devices_per_node": 4, "intra_node": {{"kind": "nvswitch", "domain_nodes": {}}},
        "inter_node": {{"kind": "infiniband", "nics_per_node": 4, "gbit_per_s": 400}}}})",
                    domain);
    return m.make();
}

double dispatched_step(const Scenario& s, bool fold = true) {
    PredictOptions options;
    options.simulate.fold = fold;
    return predict(s, options).report.step_time_s;
}

TEST(Dispatch, OfHybridEpStaysInAnNvlinkDomainThatDeepEpLeaves) {
    const double apart = dispatched_step(rack("deepep", 1));
    double before = dispatched_step(rack("hybridep", 1));
    EXPECT_LT(before, apart) << "the same ways, at the pace of its own kernels";
    for (const int domain : {2, 4, 8}) {
        const double hybrid = dispatched_step(rack("hybridep", domain));
        EXPECT_LE(hybrid, before * 1.0001) << domain;
        before = hybrid;
        EXPECT_LT(hybrid, 0.98 * dispatched_step(rack("deepep", domain))) << domain;
    }
}

// What a token's members get a second (GB/s, own rank included), of a dispatcher's kernels on one node of eight.
double logical_rate(const char* device, const char* dispatcher, int processors, Collective::Tokens way, DType dtype) {
    Mixture m;
    m.dp = m.ep = 8;
    m.dispatcher = dispatcher;
    m.cluster = fmt::format(R"({{"device": "{}", "nodes": 1, "devices_per_node": 8}})", device);
    Scenario s = m.make();
    s.runtime.token_dispatcher_sms = processors;
    const Fabric fabric(s.cluster);
    const CostModel cost(s, fabric);
    const std::vector<int> ranks{0, 1, 2, 3, 4, 5, 6, 7};
    Collective tokens{CollectiveKind::all_to_all, 0, {4096LL * 8 * 7168 * (dtype == DType::bf16 ? 2 : 1)}, dtype, 8, 1, 1};
    tokens.tokens = way;
    return cost.collective(tokens, ranks).cap.value * 1e-9 * 8 * (1 - std::pow(7.0 / 8, 8)) / 8;
}

// docs/README_Hybrid-EP.md of DeepEP: eight B200, 4,096 tokens of 7,168, eight copies.
TEST(Dispatch, OfDeepEpMovesAsMuchAsItsProcessorsDo) {
    const struct {
        int processors;
        double wide, narrow, sums;
    } measured[] = {{16, 348, 246, 302}, {24, 494, 349, 420}, {28, 560, 397, 477}, {32, 619, 443, 524},
                    {36, 635, 482, 549}, {40, 629, 519, 570}, {44, 640, 544, 577}, {48, 646, 554, 586}};
    using enum Collective::Tokens;
    double last = 0;
    for (const auto& row : measured) {
        const auto at = [&](Collective::Tokens way, DType t) { return logical_rate("b200-192gb", "deepep", row.processors, way, t); };
        EXPECT_NEAR(at(go_again, DType::bf16), row.wide, 0.15 * row.wide) << row.processors;
        EXPECT_NEAR(at(go_again, DType::fp8), row.narrow, 0.15 * row.narrow) << row.processors;
        EXPECT_NEAR(at(come_back, DType::bf16), row.sums, 0.15 * row.sums) << row.processors;
        EXPECT_GT(at(go, DType::bf16), last) << "more processors are never slower";
        EXPECT_LE(at(go, DType::bf16), 21.8 * row.processors) << "nor faster than each of them";
        last = at(go, DType::bf16);
    }
    EXPECT_NEAR(logical_rate("h100-sxm-80gb", "deepep", 24, go, DType::bf16), 330, 0.1 * 330); // tilescale pull request 40, and others
    EXPECT_NEAR(logical_rate("b200-192gb", "hybridep", 16, go, DType::bf16), 735, 0.1 * 735);
    EXPECT_NEAR(logical_rate("b200-192gb", "hybridep", 16, go, DType::fp8), 599, 0.1 * 599);
    EXPECT_NEAR(logical_rate("b200-192gb", "hybridep", 16, come_back, DType::bf16), 674, 0.1 * 674);
}

// Between two nodes NVLink has 3.2 times the NICs' bytes to hand on, between four twice: what processors hand on binds the first.
TEST(Dispatch, OfDeepEpIsBoundByWhatItHandsOnBetweenTwoNodes) {
    const auto rate = [](int nodes, int processors) { // bytes a node gets once, a second
        const FanOut share = fan_out({8 * nodes, nodes, 1, 8, 400e3, {}, {}}, 8, 1, 1);
        Cluster c = *find_cluster("dgx-h100");
        c.nodes = nodes;
        const TokenTable kernels = token_table("deepep");
        const CollectiveTime t = fan_out_time(link_table(c), fabric_table(c), {8 * nodes, nodes, 1, 8, 400e3, {}, {}}, share, 1e9,
                                              {processors * kernels.between.wide, kernels.sharpness, 0});
        return t.rate * 1e-3 * share.outside * nodes / (nodes - 1);
    };
    EXPECT_NEAR(rate(2, 24), 50.6, 0.1 * 50.6); // mean of 60, 52, 48 and 42
    EXPECT_NEAR(rate(4, 24), 57.5, 0.1 * 57.5);
    EXPECT_NEAR(rate(8, 24), 52, 0.1 * 52);
    EXPECT_LT(rate(2, 24), 1.2 * rate(4, 24)) << "NICs would allow 1.5 times as much";
    EXPECT_LT(rate(2, 16), rate(2, 24));
}

TEST(Dispatch, HasAsManyProcessorsAsItsSoftwareGivesIt) {
    EXPECT_EQ(rack("deepep", 1).runtime.token_dispatcher_sms, 20);
    EXPECT_EQ(rack("hybridep", 4).runtime.token_dispatcher_sms, 16);
    Mixture m;
    m.dp = m.ep = 8;
    m.dispatcher = "deepep";
    const auto step = [&](int processors) { return dispatched_step(m.make({fmt::format("runtime.token_dispatcher_sms={}", processors)})); };
    EXPECT_LE(step(8), step(4));
    m.dispatcher = "alltoall";
    const Scenario idle = m.make({"runtime.token_dispatcher_sms=24"});
    EXPECT_TRUE(std::any_of(idle.notes.begin(), idle.notes.end(), [](const std::string& n) {
        return n.find("token_dispatcher_sms") != std::string::npos && n.find("it is of deepep and hybridep") != std::string::npos;
    }));
}

// Who gets a token is worked out once: the backward pass has the forward one's handle.
TEST(Dispatch, WaitsForItsLayoutInTheForwardPassAlone) {
    const Scenario s = rack("deepep", 1);
    const Fabric fabric(s.cluster);
    const CostModel cost(s, fabric);
    const std::vector<int> ranks{0, 1, 2, 3, 4, 5, 6, 7};
    Collective tokens{CollectiveKind::all_to_all, 0, {1 << 28}, DType::bf16, 4, 1, 1};
    const Time first = cost.collective(tokens, ranks).latency;
    tokens.tokens = Collective::Tokens::go_again;
    EXPECT_NEAR((first - cost.collective(tokens, ranks).latency).seconds() * 1e6, 50, 1e-3);
    std::map<Collective::Tokens, int> met;
    const Plan plan = lower(s);
    each_op(plan, 0, [&](const Block&, const Op& op) {
        if (const auto* c = std::get_if<Collective>(&op.work); c && c->copies > 0) ++met[c->tokens];
    });
    EXPECT_EQ(met.size(), 3u);
    EXPECT_EQ(met[Collective::Tokens::come_back], met[Collective::Tokens::go] + met[Collective::Tokens::go_again]);
}

// Tokens of DeepEP take of each host what they took where no switch joins hosts.
TEST(Dispatch, OfDeepEpCostsARackWhatItCostsHostsApart) {
    const std::vector<int> ranks{0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15};
    const Collective tokens{CollectiveKind::all_to_all, 0, {1 << 28}, DType::bf16, 4, 1, 1};
    const auto time = [&](const char* dispatcher, int domain, std::vector<LinkLoad>* loads = nullptr) {
        const Scenario s = rack(dispatcher, domain);
        const Fabric fabric(s.cluster);
        const CostModel cost(s, fabric);
        const CommCost c = cost.collective(tokens, ranks);
        if (loads) *loads = cost.loads(tokens, c, ranks);
        return c.latency.seconds() + c.payload / c.cap.value;
    };
    std::vector<LinkLoad> apart, joined, hybrid;
    EXPECT_DOUBLE_EQ(time("deepep", 4, &joined), time("deepep", 1, &apart));
    EXPECT_LT(time("hybridep", 4, &hybrid), 0.5 * time("deepep", 4));
    ASSERT_EQ(joined.size(), apart.size());
    for (std::size_t i = 0; i < apart.size(); ++i) {
        EXPECT_EQ(joined[i].link, apart[i].link);
        EXPECT_EQ(joined[i].load, apart[i].load);
    }
    const Fabric fabric(rack("hybridep", 4).cluster);
    for (const LinkLoad& l : hybrid) EXPECT_EQ(fabric.links()[l.link].kind, LinkKind::scale_up);
}

TEST(Dispatch, TakesTheSameTimeFoldedAndUnfolded) {
    for (const char* dispatcher : {"deepep", "hybridep"})
        for (const int pp : {1, 2}) {
            const Scenario s = rack(dispatcher, 4, pp);
            const double unfolded = dispatched_step(s, false);
            EXPECT_NEAR(dispatched_step(s), unfolded, 1e-9 * unfolded) << dispatcher << pp;
        }
}

} // namespace
} // namespace orrery::laws
