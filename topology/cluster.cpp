// The words for the kinds of links and networks.
#include "topology/cluster.hpp"

#include "topology/check.hpp"

#include <span>

namespace orrery {
namespace {

template <class Kind> struct Word {
    Kind kind;
    const char* text;
};

constexpr Word<IntraKind> intra_words[] = {{IntraKind::nvswitch, "nvswitch"}, {IntraKind::nvlink_mesh, "nvlink-mesh"},
                                           {IntraKind::pcie, "pcie"},         {IntraKind::infinity_fabric, "infinity-fabric"},
                                           {IntraKind::torus, "torus"},       {IntraKind::shared_memory, "shared-memory"},
                                           {IntraKind::none, "none"}};
constexpr Word<InterKind> inter_words[] = {{InterKind::infiniband, "infiniband"},
                                           {InterKind::roce, "roce"},
                                           {InterKind::ethernet, "ethernet"},
                                           {InterKind::omni_path, "omni-path"},
                                           {InterKind::efa, "efa"},
                                           {InterKind::torus, "torus"},
                                           {InterKind::none, "none"}};
constexpr Word<InterTopology> topology_words[] = {
    {InterTopology::fat_tree, "fat-tree"},    {InterTopology::rail_optimized, "rail-optimized"},
    {InterTopology::rail_only, "rail-only"},  {InterTopology::single_switch, "single-switch"},
    {InterTopology::torus, "torus"},          {InterTopology::dragonfly, "dragonfly"},
    {InterTopology::dual_plane, "dual-plane"}};
constexpr Word<Routing> routing_words[] = {{Routing::even, "even"},
                                           {Routing::ecmp, "ecmp"},
                                           {Routing::planned, "planned"},
                                           {Routing::adaptive, "adaptive"},
                                           {Routing::spray, "spray"}};

template <class Kind> const char* word(std::span<const Word<Kind>> words, Kind kind) {
    for (const auto& w : words)
        if (w.kind == kind) return w.text;
    broken("a kind of link without a name");
}

template <class Kind> std::optional<Kind> kind_of(std::span<const Word<Kind>> words, std::string_view text) {
    for (const auto& w : words)
        if (text == w.text) return w.kind;
    return std::nullopt;
}

} // namespace

const char* name(IntraKind kind) { return word<IntraKind>(intra_words, kind); }
const char* name(InterKind kind) { return word<InterKind>(inter_words, kind); }
const char* name(Routing routing) { return word<Routing>(routing_words, routing); }
std::optional<Routing> parse_routing(std::string_view text) { return kind_of<Routing>(routing_words, text); }
const char* name(InterTopology topology) { return word<InterTopology>(topology_words, topology); }
std::optional<IntraKind> parse_intra_kind(std::string_view text) { return kind_of<IntraKind>(intra_words, text); }
std::optional<InterKind> parse_inter_kind(std::string_view text) { return kind_of<InterKind>(inter_words, text); }
std::optional<InterTopology> parse_inter_topology(std::string_view text) { return kind_of<InterTopology>(topology_words, text); }

BytesPerSecond memory_rate(const Host& host, BytesPerSecond usual) {
    const BytesPerSecond memory = host.memory_bandwidth.value > 0 ? host.memory_bandwidth : usual;
    if (host.cxl.count <= 0 || memory.value <= 0) return memory;
    const double cxl = static_cast<double>(host.cxl.count), behind = cxl / (cxl + static_cast<double>(host.memory.count));
    return behind >= 1 ? host.cxl_bandwidth : std::min(memory * (1 / (1 - behind)), host.cxl_bandwidth * (1 / behind));
}

int Cluster::kind_of_node(int node) const {
    int first = nodes;
    for (std::size_t k = others.size(); k > 0; --k) {
        first -= others[k - 1].nodes;
        if (node >= first) return static_cast<int>(k);
    }
    return 0;
}

Cluster as_of_kind(const Cluster& cluster, int kind) {
    Cluster c = cluster;
    c.others.clear();
    if (kind == 0) return c;
    const OtherNodes& o = cluster.others[kind - 1];
    c.device = o.device;
    c.intra.bandwidth = o.scale_up;
    c.inter.nic_bandwidth = o.nic_bandwidth;
    return c;
}

} // namespace orrery
