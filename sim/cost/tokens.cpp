// Tokens that are sent once to each node they go to, and on inside it: DeepEP's and HybridEP's dispatch and combine.
//
// The two mean different things by a node. DeepEP writes over NVLink to the devices of its own host, eight at most, and reaches every other
// by its NIC (its README: intranode and internode kernels), also in a rack whose hosts share one NVSwitch. HybridEP's nodes are NVLink
// domains (its README; Megatron-Bridge has DeepEP for boards of eight, HybridEP for GB200 and GB300 NVL72). Where a domain is one host
// their tokens go the same ways, at the pace of unlike kernels (scenarios/calibration/tokens_*.json).
#include "sim/cost/data.hpp"

#include <algorithm>

namespace orrery {

std::optional<Fabric> hosts_apart(const Cluster& c, const Runtime& r) {
    if (r.token_dispatcher != TokenDispatcher::deepep || c.intra.domain_nodes < 2 || c.devices_per_node < 2 || c.graph) return std::nullopt;
    Cluster apart = c; // with the same links, and other ways
    apart.intra.domain_nodes = 1;
    return Fabric(apart);
}

// Measured on NVIDIA's devices alone: for other vendors' versions of these libraries only the links' rate is known.
std::optional<TokenTable> tokens_of(const Device& device, const Runtime& r) {
    const bool whole = r.token_dispatcher == TokenDispatcher::deepep || r.token_dispatcher == TokenDispatcher::hybridep;
    if (!whole || device.vendor != "nvidia") return std::nullopt;
    return token_table(name(r.token_dispatcher));
}

double CostModel::Data::token_processors() const { return std::min(runtime.token_dispatcher_sms, std::max(1, device.processors)); }

// The backward pass has the handle of the forward one.
TokenPace CostModel::Data::pace_of(const Collective& c, const Group& g) const {
    if (!tokens) return {};
    const TokenTable::Rate& one = g.nodes > 1 ? tokens->between : tokens->inside;
    const double rate = c.tokens == Collective::Tokens::come_back ? one.sums : bytes_per_element(c.dtype) < 1.5 ? one.narrow : one.wide;
    return {token_processors() * rate, tokens->sharpness, c.tokens == Collective::Tokens::go ? tokens->first_us : 0};
}

Group CostModel::Data::token_group(std::span<const int> ranks) const {
    return apart ? group_of(*apart, domain, ranks) : known(ranks).group;
}

std::vector<LinkLoad> CostModel::Data::token_loads(const Collective& c, std::span<const int> ranks) const {
    const Group group = token_group(ranks);
    std::vector<LinkLoad> out;
    for (const LoadShare& s : fan_out_loads(apart ? *apart : *fabric, domain, group, fan_out(group, c.copies, c.groups, c.group_limit)))
        out.push_back({s.link, on_link(s.link, s.load)});
    return out;
}

CommCost CostModel::Data::send_tokens(const Collective& c, std::span<const int> ranks, const LinkTable& table) const {
    const Group group = token_group(ranks);
    const double bytes = static_cast<double>(c.bytes.count);
    double limit = 1e30, of_nics = 1e30;
    for (const LinkLoad& l : token_loads(c, ranks)) limit_by(l, limit, of_nics);
    const FanOut share = fan_out(group, c.copies, c.groups, c.group_limit);
    const KnownGroup& as_placed = known(ranks);
    const Hops hops = sequential_hops(c.kind, Algorithm::fan_out, group);
    const double across = apart ? (inter_latency.ps == 0 ? 0 : inter_latency.seconds() * 1e6 - between.hop) : as_placed.between;
    const double extra = as_placed.inside * hops.inside + across * hops.between;
    const CollectiveTime t = fan_out_time(table, between, group, share, bytes, pace_of(c, group));
    CommCost cost = bundle(t, bytes, limit, extra, name(t.algorithm, t.protocol));
    cost.eta = nic_eta(t.across, of_nics);
    take_beside(cost, links.ring_channels > 0 ? token_processors() : 0, (share.inside + share.outside) * cost.cap.value * 1e-6);
    return cost;
}

} // namespace orrery
