// DeepEP's nodes are hosts, HybridEP's are NVLink domains: the same but where several hosts share one NVSwitch.
#include "sim/report/report.hpp"
#include "tests/laws/mixture.hpp"
#include "topology/fabric.hpp"

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

double step_of(const Scenario& s, bool fold = true) {
    PredictOptions options;
    options.simulate.fold = fold;
    return predict(s, options).report.step_time_s;
}

bool said_to_be_alike(const Scenario& s) {
    return std::any_of(s.notes.begin(), s.notes.end(),
                       [](const std::string& n) { return n.find("timed as deepep here") != std::string::npos; });
}

TEST(Dispatch, OfHybridEpStaysInAnNvlinkDomainThatDeepEpLeaves) {
    const double apart = step_of(rack("deepep", 1));
    EXPECT_EQ(step_of(rack("hybridep", 1)), apart);
    double before = apart;
    for (const int domain : {2, 4, 8}) {
        const double hybrid = step_of(rack("hybridep", domain));
        EXPECT_LE(hybrid, before * 1.0001) << domain;
        before = hybrid;
        EXPECT_LT(hybrid, 0.98 * step_of(rack("deepep", domain))) << domain;
    }
    EXPECT_TRUE(said_to_be_alike(rack("hybridep", 1)));
    EXPECT_FALSE(said_to_be_alike(rack("hybridep", 4)));
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
            const double unfolded = step_of(s, false);
            EXPECT_NEAR(step_of(s), unfolded, 1e-9 * unfolded) << dispatcher << pp;
        }
}

} // namespace
} // namespace orrery::laws
