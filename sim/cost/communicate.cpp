// Collectives and transfers as fluid bundles over the links of the fabric.
#include "sim/cost/data.hpp"
#include "sim/cost/measured.hpp"

#include <algorithm>
#include <limits>
#include <unordered_set>

namespace orrery {
namespace {

std::uint64_t hash_of(std::span<const int> ranks) {
    std::uint64_t h = 1469598103934665603u;
    for (int r : ranks) h = (h ^ static_cast<std::uint64_t>(r)) * 0x9e3779b97f4a7c15u, h ^= h >> 29;
    return h;
}

bool is_shift(CollectiveKind k) { return k == CollectiveKind::shift || k == CollectiveKind::shift_back; }

// f(from, to) of every member and the one it sends to.
template <class F> void each_hop(CollectiveKind kind, std::span<const int> ranks, F&& f) {
    for (std::size_t i = 0; i < ranks.size(); ++i) {
        const int here = ranks[i], next = ranks[(i + 1) % ranks.size()];
        if (kind == CollectiveKind::shift)
            f(here, next);
        else
            f(next, here);
    }
}

// One entry a link, in order of links; equal links are added in order of their loads, so that twins get the same sum to the last bit.
std::vector<LinkLoad> shift_loads(const CostModel& model, CollectiveKind kind, std::span<const int> ranks) {
    std::vector<LinkLoad> all, out;
    each_hop(kind, ranks, [&](int from, int to) {
        for (const LinkLoad& l : model.transfer_loads(from, to)) all.push_back(l);
    });
    std::sort(all.begin(), all.end(),
              [](const LinkLoad& a, const LinkLoad& b) { return a.link != b.link ? a.link < b.link : a.load < b.load; });
    for (const LinkLoad& l : all) {
        if (out.empty() || out.back().link != l.link) {
            out.push_back(l);
            continue;
        }
        LinkLoad& sum = out.back();
        const double taken = sum.taken() + l.taken();
        sum.load += l.load;
        sum.eta = sum.load / taken;
    }
    return out;
}

} // namespace

// Point-to-point transfers that progress together: the slowest hop's time, or what the links that several hops share let pass.
CommCost CostModel::shift(const Collective& c, std::span<const int> ranks) const {
    CommCost slowest;
    double longest = -1;
    each_hop(c.kind, ranks, [&](int from, int to) {
        CommCost hop = transfer(c.bytes, from, to);
        const double us = hop.latency.seconds() * 1e6 + hop.payload / hop.cap.value * 1e6;
        if (us <= longest) return;
        longest = us;
        slowest = std::move(hop);
    });
    for (const LinkLoad& l : shift_loads(*this, c.kind, ranks))
        slowest.cap.value = std::min(slowest.cap.value, data_->fabric->links()[l.link].capacity.value / l.taken());
    return slowest;
}

const KnownGroup& CostModel::Data::known(std::span<const int> ranks) const {
    for (std::uint64_t key = hash_of(ranks);; ++key) {
        const auto [at, fresh] = groups.try_emplace(key);
        KnownGroup& g = at->second;
        if (fresh) {
            g.ranks.assign(ranks.begin(), ranks.end());
            g.group = group_of(*fabric, domain, ranks);
            const Group& made = g.group;
            if (made.nodes > 1) g.between = extra_hop(made.node(0)[0], made.node(1)[0]);
            g.adapter = std::numeric_limits<double>::infinity();
            for (std::size_t k = 0; k < static_cast<std::size_t>(made.nodes); ++k)
                g.adapter = std::min(g.adapter, fabric->endpoint_bandwidth(made.node(k)[0]).value * 1e-6);
            for (std::size_t k = 0; k < static_cast<std::size_t>(made.nodes); ++k) {
                if (made.node(k).size() < 2) continue;
                g.inside = extra_hop(made.node(k)[0], made.node(k)[1]);
                break;
            }
            return g;
        }
        if (std::equal(g.ranks.begin(), g.ranks.end(), ranks.begin(), ranks.end())) return g;
    }
}

namespace {
constexpr std::size_t whole_cluster = 4096; // ranks: from here on most links of a cluster are theirs
}

double CostModel::Data::link_rate(const KnownGroup& g, CollectiveKind kind, Algorithm a) const {
    double& rate = g.link_rate[static_cast<std::size_t>(kind)][static_cast<std::size_t>(a)];
    if (rate > 0) return rate;
    double& of_nics = g.nic_rate[static_cast<std::size_t>(kind)][static_cast<std::size_t>(a)];
    rate = of_nics = 1e30;
    if (g.ranks.size() >= whole_cluster) {
        sums_of_loads(*fabric, domain, g.group, kind, a).each([&](std::size_t l, double load) {
            const auto link = static_cast<LinkId>(l);
            limit_by({link, on_link(link, load)}, rate, of_nics);
        });
        return rate;
    }
    for (const LinkLoad& l : loads_of(g.ranks, kind, a)) limit_by(l, rate, of_nics);
    return rate;
}

void CostModel::Data::limit_by(const LinkLoad& l, double& rate, double& of_nics) const {
    const Link& link = fabric->links()[l.link];
    const double own = link.capacity.value * 1e-6 / l.load;
    rate = std::min(rate, own);
    if (link.kind == LinkKind::nic) of_nics = std::min(of_nics, own);
}

// The share of its most loaded NIC that a collective reaches: alone it has the rate `across`, the NICs would allow `of_nics`. A little
// more, so that rounding holds no flow back that is alone; and no less than a hundredth (links of absurd rates).
double CostModel::Data::nic_eta(double across, double of_nics) const {
    return across > 0 && across < of_nics && of_nics < 1e30 ? std::clamp(across / of_nics * (1 + 1e-12), 0.01, 1.0) : 1;
}

namespace {

// The groups that lie beside this one on the same nodes, it first: their ranks are its own, each as many places further on, or back, in its
// node.
std::vector<std::vector<int>> groups_beside(const Fabric& fabric, int per_node, std::span<const int> ranks) {
    std::vector<std::vector<int>> out{{ranks.begin(), ranks.end()}};
    std::unordered_set<int> taken(ranks.begin(), ranks.end());
    int first = per_node, last = 0;
    for (const int r : ranks) first = std::min(first, fabric.local_index(r)), last = std::max(last, fabric.local_index(r));
    for (int k = -first; last + k < per_node; ++k) {
        if (std::any_of(ranks.begin(), ranks.end(), [&](int r) { return taken.contains(r + k); })) continue;
        std::vector<int>& beside = out.emplace_back(ranks.begin(), ranks.end());
        for (int& r : beside) taken.insert(r += k);
    }
    return out;
}

} // namespace

// Tensor- or pipeline-parallel neighbours reduce their gradients at the same time, over the same NICs, trunks and PCIe switches. What one
// alone does best there may be the worst for all.
double CostModel::Data::shared_rate(const KnownGroup& g, Algorithm a) const {
    double& rate = g.shared_rate[static_cast<std::size_t>(a)];
    if (rate > 0) return rate;
    if (custom_graph) return rate = link_rate(g, CollectiveKind::all_reduce, a);
    std::unordered_map<LinkId, double> loads;
    for (const std::vector<int>& ranks : groups_beside(*fabric, devices_per_node, g.ranks))
        for (const LinkLoad& l : loads_of(ranks, CollectiveKind::all_reduce, a)) loads[l.link] += l.load;
    rate = 1e30;
    for (const auto& [link, load] : loads) rate = std::min(rate, fabric->links()[link].capacity.value * 1e-6 / load);
    return rate;
}

// No link carries more than all that the groups of its nodes send: 2 from node to node and 2 inside, each way, in a ring as in two trees.
double CostModel::Data::least_rate(const KnownGroup& g) const {
    return slowest_link * std::min(1.0, between.usable) / (devices_per_node * (4.0 * g.group.nodes + 4));
}

const Group& CostModel::Data::group(std::span<const int> ranks) const {
    if (!std::equal(ranks.begin(), ranks.end(), met.ranks.begin(), met.ranks.end())) {
        met.ranks.assign(ranks.begin(), ranks.end());
        met.group = group_of(*fabric, domain, ranks);
        met.algorithm = Algorithm::none;
    }
    return met.group;
}

const std::vector<LinkLoad>& CostModel::Data::loads_of(std::span<const int> ranks, CollectiveKind kind, Algorithm a) const {
    const Group& g = group(ranks);
    const std::array<double, 3> sent{volume(kind, g.n), volume(kind, g.lanes), volume(kind, g.nodes)};
    if (a == Algorithm::none || a != met.algorithm || sent != met.volumes) {
        met.loads.clear();
        for (const LoadShare& s : link_loads(*fabric, domain, g, kind, a)) met.loads.push_back({s.link, on_link(s.link, s.load)});
        met.algorithm = a;
        met.volumes = sent;
    }
    return met.loads;
}

double CostModel::Data::on_link(LinkId link, double load) const {
    return between.usable < 1 && fabric->links()[link].kind == LinkKind::nic ? load / between.usable : load;
}

// InternLM's HybridZeroOptimizer hands whole tensors to owners, in order, each as near to an even share as tensors allow; so there are no
// more owners than tensors. They broadcast one after another: a chunk of NCCL's Simple protocol (an eighth of its 4 MiB buffer) has been
// passed on from member to member before the next owner's begins.
//   owners (n - nodes) step + (nodes - 1) (hop + chunk / NIC)
double CostModel::Data::owners_us(const Group& g, double bytes, std::span<const int> ranks) const {
    double whole = 0, held = 0;
    for (const std::int64_t tensor : owned) whole += static_cast<double>(tensor);
    int owners = 0, at = 0, last = -1;
    for (const std::int64_t tensor : owned) {
        held += static_cast<double>(tensor);
        if (held > 1.01 * whole / g.n && at + 1 < g.n) ++at, held = 0;
        if (at != last) ++owners, last = at;
    }
    constexpr double chunk = 512 * 1024;
    const double nic = fabric->endpoint_bandwidth(ranks.front()).value * 1e-6;
    const double across = g.nodes > 1 ? between.ring_hop[2] + (nic > 0 ? chunk / nic : 0) : 0;
    return owners * std::min(1.0, bytes / whole) * ((g.n - g.nodes) * links.simple_step + (g.nodes - 1) * across);
}

// How much longer a hop between two devices takes in this cluster than in the machines of the fitted tables (negative: shorter). The
// fits' base latencies hold that hop; a custom graph's is the sum along its route.
double CostModel::Data::extra_hop(int from, int to) const {
    const bool inside = are_near(from, to);
    const Time own = custom_graph ? fabric->latency(from, to) : inside ? intra_latency : inter_latency;
    return own.ps == 0 ? 0 : own.seconds() * 1e6 - (inside ? links.hop : between.hop);
}

// latency + payload / cap is T where the links let the algorithm have its rate, and longer by what they hold back where not.
CommCost CostModel::Data::bundle(const CollectiveTime& t, double bytes, double limit, double extra_us, std::string algorithm) const {
    CommCost c;
    const double latency = std::max(0.0, t.us - bytes / t.rate);
    c.latency = Time::microseconds(latency + std::max(extra_us, -0.8 * latency)); // most of a base latency is not the wire's
    c.payload = bytes;
    c.cap = {std::min(t.rate, limit) * 1e6};
    c.algorithm = std::move(algorithm);
    return c;
}

// NCCL's tuner of then (2.7, 2.8: src/graph/tuning.cc; Practice::rings_between_two_nodes) expects of a tree 0.9 of the channels' bandwidth
// and of that half, of a ring n / (2 n - 2), between two nodes as inside one: large reductions are rings, though a tree sends half as much
// over the NICs. (Later tuners know: published all-reduces of two nodes reach more than their NICs have.) Small ones are trees, by what
// hops cost.
//   bytes / (0.45 B) - bytes / (B n / (2 n - 2)) >= the ring's hops
bool CostModel::Data::rings_of_old(const Collective& c, const Group& g) const {
    const bool racks = fabric->domain_of(fabric->devices() - 1) + 1 < nodes; // domains of several nodes need later tuners, which know
    if (c.kind != CollectiveKind::all_reduce || g.nodes != 2 || racks || !practice.rings_between_two_nodes ||
        strategy.collective_algorithm != CollectiveAlgorithm::automatic || g.n < 3)
        return false;
    const double hops = 2 * ((g.n - 2) * links.choice_hop[2] + between.ring_hop[2]);
    return static_cast<double>(c.bytes.count) / g.nic_rate * (1 / 0.45 - 2.0 * (g.n - 1) / g.n) >= hops;
}

// SHARP adds numbers of 16 bits and more, in as many trees as its switches hold, as many levels up as they reach.
bool CostModel::Data::switches_reduce(const KnownGroup& g, bool one_byte) const {
    if (one_byte || (sharp.trees > 0 && fabric->devices() / g.group.n > sharp.trees)) return false;
    for (int node = 1; node < g.group.nodes && sharp.levels > 0; ++node)
        if (fabric->levels_between(g.group.members[0], g.group.node(static_cast<std::size_t>(node))[0]) > sharp.levels) return false;
    return true;
}

// A synchronous group runs at the pace of the kind of nodes that is slowest at this.
template <class Ask> CommCost CostModel::Data::slowest_kind(std::span<const int> ranks, Ask&& ask) const {
    std::vector<char> present(kinds.size(), 0);
    for (const int r : ranks) present[kind_of_node[fabric->node_of(r)]] = 1;
    CommCost most;
    double longest = -1;
    for (std::size_t k = 0; k < kinds.size(); ++k) {
        if (present[k] == 0) continue;
        CommCost cost = ask(kinds[k]);
        const double us = cost.latency.seconds() * 1e6 + cost.payload / cost.cap.value * 1e6;
        if (us > longest) longest = us, most = std::move(cost);
    }
    return most;
}

namespace {

// A time, whatever the links are: one thread moves what all members have.
std::optional<CommCost> by_law(const Device& device, const std::string& key, const KernelSize& size) {
    const std::optional<double> us = measured_us(device, key, size);
    if (!us) return std::nullopt;
    return CommCost{Time::microseconds(*us), 0, {1e15}, "measured", 1};
}

} // namespace

// By the laws that were measured on this machine.
std::optional<CommCost> CostModel::Data::measured(const Collective& c, std::size_t members) const {
    if (nodes > 1 || device.kernels.empty()) return std::nullopt;
    return by_law(device, communication_key(c), communication_size(c, members));
}

std::optional<CommCost> CostModel::Data::measured(Bytes transferred) const {
    if (nodes > 1 || device.kernels.empty()) return std::nullopt;
    return by_law(device, transfer_key, {0, static_cast<double>(transferred.count)});
}

namespace {

// NCCL's tuner takes a hop of an all-reduce's ring over several nodes, by the Simple protocol, for 1.9 times as long as its table has it
// where a device is older than Ampere, and 1.4 times else ("plateau effect of ring": src/graph/tuning.cc). The rings fitted are of Ampere
// and later.
constexpr double volta_hops = 1.9 / 1.4;

Collective all_reduce_of(Collective c) {
    c.kind = CollectiveKind::all_reduce;
    c.whole = false;
    return c;
}

} // namespace

CommCost CostModel::collective(const Collective& c, std::span<const int> ranks) const {
    const Data& d = *data_;
    if (ranks.size() < 2) return {Time{}, 0, {1e15}, "none", 0};
    if (c.whole) return collective(all_reduce_of(c), ranks);
    if (c.times > 1) {
        Collective one = c;
        one.times = 1;
        CommCost cost = collective(one, ranks);
        cost.latency = cost.latency * c.times;
        cost.payload *= c.times;
        cost.kernels *= c.times;
        return cost;
    }
    if (auto own = d.measured(c, ranks.size())) return *own;
    if (!d.kinds.empty()) return d.slowest_kind(ranks, [&](const CostModel& kind) { return kind.collective(c, ranks); });
    if (is_shift(c.kind)) return shift(c, ranks);
    const KnownGroup& g = d.known(ranks);
    const double bytes = static_cast<double>(c.bytes.count);
    const bool one_byte = bytes_per_element(c.dtype) < 1.5;
    const CollectiveAlgorithm wish = d.rings_of_old(c, g.group) ? CollectiveAlgorithm::ring : d.strategy.collective_algorithm;
    LinkTable scaled;
    if (g.group.reach != 1) {
        scaled = d.links;
        scale_rates(scaled, g.group.reach);
        scale_choice(scaled, g.group.reach);
    }
    const LinkTable& links = g.group.reach != 1 ? scaled : d.links;
    if (c.copies > 0) return d.send_tokens(c, ranks, links);
    Narrower narrower{g.inside, g.between, nullptr};
    narrower.sharp = wish != CollectiveAlgorithm::sharp || d.switches_reduce(g, one_byte);
    narrower.rate = [&](Algorithm a) { return d.shared_rate(g, a); };
    narrower.least = d.least_rate(g);
    narrower.adapter = g.adapter;
    if (d.device.architecture == "volta") narrower.long_hops = volta_hops;
    const CollectiveTime t = g.group.nodes == 1
                                 ? single_node(links, c.kind, g.group.n, bytes, one_byte, d.multicast, wish)
                                 : multi_node(links, d.between, g.group, c.kind, bytes, one_byte, d.multicast, wish, narrower);
    const double copies = d.list_copy_us > 0 && (c.kind == CollectiveKind::all_gather || c.kind == CollectiveKind::reduce_scatter)
                              ? d.list_copy_us * g.group.n
                              : 0;
    const double turns = c.kind == CollectiveKind::all_gather && !d.owned.empty() ? d.owners_us(g.group, bytes, ranks) : 0;
    const Hops hops = sequential_hops(c.kind, t.algorithm, g.group);
    const double extra = g.inside * hops.inside + g.between * hops.between + copies + turns;
    CommCost cost = d.bundle(t, bytes, d.link_rate(g, c.kind, t.algorithm), extra, name(t.algorithm, t.protocol));
    cost.eta = d.nic_eta(t.across, g.nic_rate[static_cast<std::size_t>(c.kind)][static_cast<std::size_t>(t.algorithm)]);
    d.take_beside(cost, d.channels(g.group, t), volume(c.kind, g.group.n) * cost.cap.value * 1e-6);
    return cost;
}

namespace {

// A gradient norm's few bytes take no part of a link's bandwidth worth a share: such collectives are latency alone. (Their trees would
// else tell apart ranks that are alike in everything that takes time.)
bool latency_bound(const CommCost& cost) { return cost.payload <= 0.001 * cost.latency.seconds() * cost.cap.value; }

} // namespace

std::vector<LinkLoad> CostModel::loads(const Collective& c, const CommCost& cost, std::span<const int> ranks) const {
    std::vector<LinkLoad> out;
    if (ranks.size() < 2 || latency_bound(cost)) return out;
    if (c.whole) return loads(all_reduce_of(c), cost, ranks);
    if (is_shift(c.kind)) return shift_loads(*this, c.kind, ranks);
    out = c.copies > 0 ? data_->token_loads(c, ranks) : data_->loads_of(ranks, c.kind, parse_algorithm(cost.algorithm));
    if (cost.eta < 1) data_->set_eta(out, cost.eta);
    return out;
}

void CostModel::Data::set_eta(std::vector<LinkLoad>& loads, double eta) const {
    for (LinkLoad& l : loads)
        if (fabric->links()[l.link].kind == LinkKind::nic) l.eta = eta;
}

namespace {

// NCCL gives a message two channels for each NVLink between the pair (ncclTopoGetNchannels, src/graph/paths.cc), as a ring has two for each
// link of a device; over other links two. Never more than the ring has.
double pair_channels(double of_ring, double share) { return std::min(of_ring, std::max(2.0, of_ring * std::min(1.0, share))); }

} // namespace

CommCost CostModel::transfer(Bytes bytes, int from, int to) const {
    const Data& d = *data_;
    if (from == to) return {Time{}, 0, {1e15}, "none", 0};
    if (auto own = d.measured(bytes)) return *own;
    if (!d.kinds.empty())
        return d.slowest_kind(std::array{from, to}, [&](const CostModel& kind) { return kind.transfer(bytes, from, to); });
    const double size = static_cast<double>(bytes.count), narrowest = d.fabric->narrowest(from, to).value * 1e-6;
    if (d.are_near(from, to)) {
        // A pair that has less than a device's whole bandwidth reaches the same share of it (dies: of what leaves their package).
        const double leaving = d.fabric->leaving_bandwidth(from).value / std::max(1.0, d.fabric->scale_up_bandwidth(from).value),
                     rate = d.links.link_rate * (leaving > 0 ? leaving : 1);
        CommCost cost =
            d.bundle(send_time(d.links, size), size, narrowest * std::min(1.0, d.links.direct_rate / rate), d.extra_hop(from, to), "p2p");
        d.take_beside(cost, pair_channels(d.links.ring_channels, narrowest / rate), cost.cap.value * 1e-6);
        return cost;
    }
    const FabricTable& f = d.between;
    const double rate = d.message_rate(from, to, narrowest);
    const double us = f.p2p_base + (size >= 65536 ? f.p2p_rendezvous : 0) + size / rate;
    return d.bundle({us, rate, Algorithm::direct, Protocol::simple}, size, narrowest, d.extra_hop(from, to), "p2p");
}

bool CostModel::Data::are_near(int from, int to) const { return domain.spans_nodes || fabric->domain_of(from) == fabric->domain_of(to); }

// One message uses one NIC, of the sender and of the receiver.
double CostModel::Data::message_rate(int from, int to, double narrowest) const {
    const double nic = std::min(fabric->endpoint_bandwidth(from).value, fabric->endpoint_bandwidth(to).value) * 1e-6;
    return between.p2p_eta * (nic > 0 ? nic : narrowest);
}

std::vector<LinkLoad> CostModel::transfer_loads(int from, int to) const {
    std::vector<LinkLoad> out;
    data_->route.clear();
    data_->fabric->append_route(from, to, data_->route);
    out.reserve(data_->route.size());
    double narrowest = 1e30, of_nics = 1e30;
    for (const LinkShare& s : data_->route) {
        out.push_back({s.link, data_->on_link(s.link, s.share)});
        data_->limit_by(out.back(), narrowest, of_nics);
    }
    if (of_nics < 1e30 && !data_->are_near(from, to))
        data_->set_eta(out, data_->nic_eta(data_->message_rate(from, to, narrowest), of_nics));
    return out;
}

} // namespace orrery
