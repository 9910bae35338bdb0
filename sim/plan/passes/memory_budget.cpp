#include "sim/plan/passes/memory_budget.hpp"

#include <algorithm>
#include <cstdint>
#include <vector>

namespace orrery {
namespace {

struct Item {
    std::int32_t node;
    std::int64_t bytes;
    double flops;
};

bool communicates(NodeKind k) {
    return k == NodeKind::enter || k == NodeKind::exit || k == NodeKind::dispatch || k == NodeKind::combine ||
           k == NodeKind::gather_context || k == NodeKind::to_heads || k == NodeKind::from_heads || k == NodeKind::join_heads;
}

std::int64_t bytes_of(const Graph& g, const Node& n) {
    std::int64_t sum = 0;
    for (ValueId v : n.out) sum += bytes(g.value(v).shape, g.value(v).dtype).count;
    return sum;
}

double flops_of(const Graph& g, const Node& n) {
    if (n.kind == NodeKind::linear) {
        double y = 2;
        for (std::int64_t d : g.value(n.out[0]).shape) y *= static_cast<double>(d);
        return y * static_cast<double>(g.value(n.in[0]).shape.back());
    }
    const AttentionShape& a = n.attention;
    const double share = a.share > 0 ? a.share : a.causal ? 0.5 : 1.0;
    return 2.0 * share * static_cast<double>(a.batch * a.heads) * static_cast<double>(a.seq_q) * static_cast<double>(a.seq_kv) *
           static_cast<double>(a.qk_dim + a.v_dim);
}

// Whether anything of the backward pass wants the node's result: not where it only travels on, or goes into the layer's own, which is kept.
bool wanted(const Graph& g, std::int32_t i, std::int32_t last) {
    const ValueId v = g.nodes[i].out[0];
    for (std::int32_t k = i + 1; k < last; ++k) {
        const Node& n = g.nodes[k];
        if (std::find(n.in.begin(), n.in.end(), v) != n.in.end() && !communicates(n.kind)) return true;
    }
    return false;
}

// The set of most work within `limit` bytes, by all sets of up to 20 items; of more, by work a byte.
std::vector<std::int32_t> best(const std::vector<Item>& items, double limit) {
    std::vector<std::int32_t> chosen;
    if (items.size() > 20) {
        std::vector<Item> order = items;
        std::ranges::stable_sort(order, std::greater{}, [](const Item& x) { return x.flops / static_cast<double>(x.bytes); });
        for (const Item& x : order)
            if (static_cast<double>(x.bytes) <= limit) chosen.push_back(x.node), limit -= static_cast<double>(x.bytes);
        return chosen;
    }
    std::uint32_t found = 0;
    double most = -1;
    for (std::uint32_t set = 0; set < 1u << items.size(); ++set) {
        double room = limit, work = 0;
        for (std::size_t k = 0; k < items.size(); ++k)
            if (set >> k & 1) room -= static_cast<double>(items[k].bytes), work += items[k].flops;
        if (room >= 0 && work > most) most = work, found = set;
    }
    for (std::size_t k = 0; k < items.size(); ++k)
        if (found >> k & 1) chosen.push_back(items[k].node);
    return chosen;
}

} // namespace

std::set<std::int32_t> kept_in_budget(const Graph& g, double budget) {
    std::set<std::int32_t> kept;
    const auto count = static_cast<std::int32_t>(g.nodes.size());
    for (std::int32_t first = 0, end; first < count; first = end) {
        for (end = first + 1; end < count && g.nodes[end].layer == g.nodes[first].layer; ++end) {}
        if (g.nodes[first].layer < 0) continue;
        std::vector<Item> items;
        double all = 0;
        for (std::int32_t i = first; i < end; ++i) {
            const Node& n = g.nodes[i];
            if (communicates(n.kind)) kept.insert(i);
            const bool heavy = n.kind == NodeKind::linear || n.kind == NodeKind::attention || n.kind == NodeKind::ring_attention;
            if (!heavy || !wanted(g, i, end - 1)) continue;
            items.push_back({i, bytes_of(g, n), flops_of(g, n)});
            all += static_cast<double>(items.back().bytes);
        }
        for (std::int32_t i : best(items, budget * all)) kept.insert(i);
    }
    return kept;
}

} // namespace orrery
