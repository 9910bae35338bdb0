// Copies to a host and collectives that leave by a NIC take one PCIe slot: is it shared, by those alone that meet there?
#include "sim/engine/machine.hpp"
#include "sim/report/report.hpp"
#include "tests/laws/scenarios.hpp"

#include <fmt/format.h>

namespace orrery::laws {
namespace {

const std::string zero_offload = R"("optimizer": "cpu", "gradients": "cpu", "parameters": "cpu")",
                  offloaded_activations = R"("activations": "cpu")";

// ZeRO 3 with offload, on nodes whose hosts' memory alone bounds the copies. A slot of 32 GB/s holds a copy or a NIC of 25 GB/s, not both.
Scenario job(int nodes, double pcie, const std::string& cluster = "", const std::string& offload = zero_offload) {
    Gpt g;
    g.dp = 8 * nodes;
    g.zero = 3;
    g.framework = "deepspeed";
    g.flash = true;
    g.layers = 8;
    g.hidden = 4096;
    g.heads = 32;
    g.vocab = 8192;
    g.sequence = 2048;
    g.microbatches = 2;
    g.extra_strategy = R"(, "offload": {)" + offload + "}";
    g.cluster = fmt::format(R"({{"preset": "dgx-a100-80gb", "nodes": {}, "host": {{"memory_gb_per_s": 160, "pcie_gb_per_s": {}}}{}}})",
                            nodes, pcie, cluster);
    return g.make();
}

double shared_step(const Scenario& s, bool sharing = true, bool fold = true) {
    PredictOptions options;
    options.simulate.sharing = sharing;
    options.simulate.fold = fold;
    return predict(s, options).report.step_time_s;
}

// The step where copies take what they take alone, and meet nobody.
double step_with_copies_apart(const Scenario& s) {
    const Plan plan = lower(s);
    const Fabric fabric(s.cluster);
    const CostModel cost(s, fabric);
    Costs costs = costs_of(cost, plan, s, fabric);
    costs.copy = nullptr;
    return run(compile(plan, costs, wires_of(s, fabric), {true, s.runtime.launch_blocking}), {}).step_time.seconds();
}

const std::vector<std::string> offloads{zero_offload, R"("optimizer": "cpu", "optimizer_fraction": 0.5)", offloaded_activations,
                                        R"("optimizer": "cpu", "activations": "cpu")"};
constexpr double wide = 1e5; // GB/s

TEST(SharedPcie, SlowsAJobWhoseGathersLeaveBesideItsCopies) {
    for (const std::string& offload : {zero_offload, offloaded_activations}) {
        const Scenario s = job(2, 16, "", offload);
        EXPECT_GT(shared_step(s), 1.01 * step_with_copies_apart(s)) << offload;
        EXPECT_LT(shared_step(s), 1.5 * step_with_copies_apart(s)) << offload;
    }
}

TEST(SharedPcie, LeavesAJobAloneWhoseCollectivesStayOnNvlink) {
    for (const std::string& offload : offloads) {
        const Scenario s = job(1, 32, "", offload);
        EXPECT_NEAR(shared_step(s), step_with_copies_apart(s), 1e-9 * shared_step(s)) << offload;
    }
}

TEST(SharedPcie, ChangesNothingWhereLinksAreWideEnough) {
    for (const std::string& offload : offloads) {
        const Scenario s = job(2, wide, "", offload);
        EXPECT_NEAR(shared_step(s), step_with_copies_apart(s), 1e-9 * shared_step(s)) << offload;
    }
}

TEST(SharedPcie, IsNeverSlowerWiderOrFasterThanNotToShare) {
    for (const std::string& offload : offloads)
        for (const char* cluster : {"", R"(, "intra_node": {"kind": "pcie", "gb_per_s": 32})", R"(, "inter_node": {"nics_per_node": 4})"}) {
            double before = 1e30;
            for (const double pcie : {20.0, 24.0, 32.0, 48.0, 64.0, wide}) {
                const Scenario s = job(2, pcie, cluster, offload);
                const double step = shared_step(s);
                EXPECT_LE(step, 1.002 * before) << pcie << cluster << offload;
                EXPECT_GE(step, 0.998 * step_with_copies_apart(s)) << pcie << cluster << offload;
                EXPECT_GE(step, 0.998 * shared_step(s, false)) << pcie << cluster << offload;
                before = step;
            }
        }
}

TEST(SharedPcie, TakesTheSameTimeFoldedAndUnfolded) {
    const char* clusters[] = {
        "",
        R"(, "inter_node": {"nics_per_node": 4})",
        R"(, "inter_node": {"nics_per_node": 2, "topology": "fat-tree", "nodes_per_leaf": 1, "oversubscription": 2})",
        R"(, "intra_node": {"kind": "pcie", "gb_per_s": 32})",
        R"(, "intra_node": {"kind": "pcie", "gb_per_s": 32, "pcie_tree": {"devices_per_switch": 2, "sockets": 2}})",
        R"(, "intra_node": {"kind": "pcie", "gb_per_s": 32, "pcie_tree": {"devices_per_switch": 4, "sockets": 2, "near_nics": false}})",
        R"(, "intra_node": {"kind": "nvswitch", "gb_per_s": 300, "pcie_tree": {"devices_per_switch": 2, "sockets": 2, "bridge_gb_per_s": 24}})",
        R"(, "others": [{"nodes": 1, "device": "a100-sxm-40gb"}])",
        R"(, "inter_node": {"down": [{"node": 0, "nic": 3}]})",
    };
    for (const char* cluster : clusters)
        for (const std::string& offload : offloads) {
            const Scenario s = job(2, 32, cluster, offload);
            const double unfolded = shared_step(s, true, false);
            EXPECT_NEAR(shared_step(s), unfolded, 1e-9 * unfolded) << cluster << offload;
        }
}

// (A host bridge of 24 GB/s above two devices, for what leaves by NICs at the sockets and for copies.)
TEST(SharedPcie, IsSharedOnHostBridges) {
    const auto at = [](const std::string& near_nics) {
        const std::string tree = R"("devices_per_switch": 2, "sockets": 2, "bridge_gb_per_s": 24, "near_nics": )" + near_nics;
        return job(2, 32, R"(, "intra_node": {"pcie_tree": {)" + tree + "}}");
    };
    const double near = shared_step(at("true")) / step_with_copies_apart(at("true")),
                 far = shared_step(at("false")) / step_with_copies_apart(at("false"));
    EXPECT_GE(near, 1 - 1e-9);
    EXPECT_GT(far, 1.03 * near) << "NICs at the sockets: gathers cross the bridges that copies take";
}

// A link that is slower than the cluster says slows the copies on it.
TEST(SharedPcie, SlowerLinksSlowCopies) {
    Gpt g;
    g.dp = 8;
    g.zero = 2;
    g.framework = "deepspeed";
    g.flash = true;
    g.extra_strategy = R"(, "offload": {"optimizer": "cpu"})";
    const double whole = shared_step(g.make());
    g.extra = R"(, "perturb": [{"slow": 4, "link": "pcie"}])";
    EXPECT_GT(shared_step(g.make()), 1.05 * whole);
    g.extra = R"(, "perturb": [{"slow": 4, "link": "pcie", "node": 0}])";
    EXPECT_GT(shared_step(g.make()), 1.05 * whole);
}

} // namespace
} // namespace orrery::laws
