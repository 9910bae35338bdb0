// The calibration's predictions of DeepEP's published rates of dispatch and combine: its normal kernels, which training uses.
#include "sim/fit/laws.hpp"

#include "sim/cost/collectives.hpp"

#include <fmt/format.h>

#include <cstdlib>
#include <set>

namespace orrery {

namespace {

// DeepEP's README: H800 and one 400 Gb/s adapter a device (V2 does not say which SM90 and SM100; eight devices a node there too).
std::optional<Device> device_of_gpu(const std::string& gpu) {
    return find_device(gpu.starts_with("SM100") ? "b200-192gb" : "h800-sxm-80gb");
}

struct Dispatch {
    int devices = 8, nodes = 1, copies = 8;
    double tokens = 1, hidden = 1;
};

// A rate is of logical bytes: a token is counted once for each member it goes to, its own included, or for each node. Which bind on one
// node and between nodes. us of the law against those bytes at the published rate.
Compared compared(const Device& device, const Dispatch& p, double element_bytes, double gb_per_s, const char* op, const TokenPace& pace,
                  const OwnConstants* own) {
    Cluster cluster = measured_cluster(device, 8, p.nodes);
    cluster.inter.kind = InterKind::infiniband;
    cluster.inter.nic_bandwidth.value = 50e9;
    Group group;
    group.n = p.devices, group.nodes = p.nodes, group.lanes = p.devices / p.nodes;
    group.nic_rate = 50e3 * group.lanes;
    const FanOut share = fan_out(group, p.copies, 8, 4); // DeepSeek-V3's groups, as the README's set-up has them
    const double bytes = p.tokens * p.copies * p.hidden * element_bytes, n = p.nodes > 1 ? p.nodes : p.devices;
    const double logical = bytes * (p.nodes > 1 ? share.outside : share.inside) * n / (n - 1);
    const double us = fan_out_time(link_table(cluster), fabric_table(cluster, own), group, share, bytes, pace).us;
    return {op, element_bytes < 2 ? "fp8" : "bf16", p.nodes > 1 ? "between nodes" : "one node", device.name, logical / gb_per_s * 1e-3, us};
}

// The first version's kernels as its README's tests run them: 24 processors, and who gets a token is known. Tables of later versions do not
// say how many processors they used: of those the links alone are compared.
TokenPace pace_of(bool first_version, int nodes, bool sums) {
    if (!first_version) return {};
    static const TokenTable kernels = token_table("deepep");
    const TokenTable::Rate& one = nodes > 1 ? kernels.between : kernels.inside;
    return {24 * (sums ? one.sums : one.narrow), kernels.sharpness, 0};
}

} // namespace

Checked check_dispatch(const MeasuredTable& t) {
    Checked out;
    std::set<std::string> without;
    for (std::size_t i = 0; i < t.rows.size(); ++i) {
        const auto device = device_of_gpu(t.text(i, "gpu"));
        if (!device || t.number(i, "tokens_per_gpu") < 1024) {
            without.insert(t.text(i, "table") + ": made for decoding");
            continue;
        }
        const std::string& ep = t.text(i, "ep");
        const auto by = ep.find('x');
        const int per_node = std::min(8, std::atoi(ep.c_str())),
                  nodes = by == std::string::npos ? std::max(1, std::atoi(ep.c_str()) / 8) : std::atoi(ep.c_str() + by + 1);
        const Dispatch p{per_node * nodes, nodes, static_cast<int>(t.number(i, "top_k")), t.number(i, "tokens_per_gpu"),
                         t.number(i, "hidden")};
        const bool first = t.text(i, "table").starts_with("V1");
        if (const double rate = t.number(i, "dispatch_gb_s"); rate > 0)
            out.points.push_back(compared(*device, p, 1, rate, "dispatch", pace_of(first, nodes, false), t.constants.get()));
        if (const double rate = t.number(i, "combine_gb_s"); rate > 0)
            out.points.push_back(compared(*device, p, 2, rate, "combine", pace_of(first, nodes, true), t.constants.get()));
    }
    for (const std::string& w : without) out.skipped.push_back(t.file + ": no law for " + w);
    return out;
}

} // namespace orrery
