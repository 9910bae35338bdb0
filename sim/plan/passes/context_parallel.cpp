// Context parallelism: each sequence lies on c ranks. Everything but attention works on its own tokens; attention meets the keys of the
// other ranks in one of three ways, each a composite with an adjoint of its own (emit_context.cpp):
//   allgather: K and V are gathered, local queries meet all keys (Llama 3, arXiv:2407.21783, 3.3.2);
//   ulysses:   all-to-all from tokens to heads and back (DeepSpeed-Ulysses, arXiv:2309.14509);
//   ring:      blocks of K and V go round, a step's exchange under the attention of the step before (arXiv:2310.01889).
// Causal attention is balanced by cutting the sequence into 2c chunks: rank r holds chunks r and 2c-1-r. A ring whose window lets it
// skip blocks holds contiguous tokens instead: there the window itself balances. Packed documents are sequences of their own in attention's
// shape (sim/scenario/documents.hpp), and each is cut into 2c chunks: keys and values of all of them travel as before, and in a step of
// the ring queries meet keys of their own document alone.
//
// After it: every value of tokens is sharded along its first dimension over cp; parameters are invariant, so that their gradients are
// partial over cp; what attention reads of other ranks came through a gather, an all-to-all or the ring.
#include "sim/plan/context.hpp"
#include "sim/plan/passes/passes.hpp"

#include <algorithm>
#include <numeric>
#include <utility>

namespace orrery {
namespace {

// Attention that trades tokens for heads meets whole sequences: its rows stay.
void shard_tokens(Graph& g, std::int64_t c, ContextKind kind) {
    for (Value& v : g.values) {
        if (v.parameter || v.dims.empty() || v.dims[0] != DimKind::seq) continue;
        v.shape[0] /= c;
        v.placement.set(Axis::cp, PlacementKind::sharded, 0);
    }
    for (Node& n : g.nodes) {
        if (n.kind == NodeKind::attention && kind == ContextKind::ulysses) continue;
        n.attention.seq_q /= c;
        n.attention.seq_kv /= c;
    }
}

// Area of { q - k <= x } in the rectangle [q0, q1) x [k0, k1) of positions.
double area_below(double x, double q0, double q1, double k0, double k1) {
    const auto half_square = [](double z) { return z > 0 ? z * z / 2 : 0; };
    return half_square(x - q0 + k1) - half_square(x - q1 + k1) - half_square(x - q0 + k0) + half_square(x - q1 + k0);
}

// Pairs (query, key) that attention computes in that rectangle.
double pairs(const AttentionShape& a, double q0, double q1, double k0, double k1) {
    const double upper = a.window > 0 ? area_below(a.window, q0, q1, k0, k1) : (q1 - q0) * (k1 - k0);
    return a.causal || a.window > 0 ? std::max(0.0, upper - area_below(0, q0, q1, k0, k1)) : upper;
}

// Pairs of rank r's queries and the keys of rank `from`, of the 2c chunks: r and 2c-1-r are rank r's.
double balanced_pairs(const AttentionShape& a, std::int64_t c, std::int64_t r, std::int64_t from) {
    const double n = static_cast<double>(a.seq_q) / 2;
    double sum = 0;
    for (std::int64_t chunk : {r, 2 * c - 1 - r})
        for (std::int64_t block : {from, 2 * c - 1 - from}) {
            const double q = n * static_cast<double>(chunk), k = n * static_cast<double>(block);
            sum += pairs(a, q, q + n, k, k + n);
        }
    return sum;
}

// The part of its queries x all keys that the rank with the most work computes. Without a window all have the same.
double balanced_share(const AttentionShape& a, std::int64_t c) {
    double most = 0;
    for (std::int64_t r = 0; r < (a.window > 0 ? c : 1); ++r) {
        double sum = 0;
        for (std::int64_t from = 0; from < c; ++from) sum += balanced_pairs(a, c, r, from);
        most = std::max(most, sum);
    }
    return most / (static_cast<double>(a.seq_q) * static_cast<double>(a.seq_q * c));
}

// How many blocks of n tokens before its own a block still sees.
std::int64_t blocks_seen(int window, std::int64_t n) { return window > 1 ? (window - 2) / n + 1 : 1; }

// Steps of a ring over the ranks' blocks; where ranks differ (with a window), of the one with the most work, which the others wait for. Of
// a balanced block from another rank all queries meet one of its two chunks, or one chunk of queries both: half of it, without a diagonal.
std::vector<RingStep> ring_steps(const AttentionShape& a, std::int64_t c) {
    const std::int64_t n = a.seq_q;
    const double rows = static_cast<double>(n);
    std::vector<RingStep> steps;
    const std::int64_t reach = blocks_seen(a.window, n);
    if (a.window > 0 && reach + 1 < c) {
        for (std::int64_t i = 0; i <= reach; ++i) {
            const double q = rows * static_cast<double>(reach), k = q - rows * static_cast<double>(i);
            steps.push_back({n, i == 0, pairs(a, q, q + rows, k, k + rows) / (rows * rows)});
        }
        return steps;
    }
    const bool lower = a.causal || a.window > 0;
    for (std::int64_t i = 0; i < c; ++i) {
        if (!lower) {
            steps.push_back({n, false, 1});
            continue;
        }
        double most = 0;
        for (std::int64_t r = 0; r < (a.window > 0 ? c : 1); ++r) most = std::max(most, balanced_pairs(a, c, r, (r - i + c) % c));
        const std::int64_t keys = i == 0 ? n : n / 2;
        steps.push_back({keys, i == 0, most / (rows * static_cast<double>(keys))});
    }
    return steps;
}

struct Rewriter {
    Graph& g;
    std::int64_t c;
    std::vector<Node> nodes; // of the chunk, as they are written again

    Node like(const Node& at, NodeKind kind, const char* what, std::vector<ValueId> in, std::vector<ValueId> out) const {
        Node n;
        n.kind = kind;
        n.name = at.name + what;
        n.layer = at.layer;
        n.unit = at.unit;
        n.attention = at.attention;
        n.fused = at.fused;
        n.in = std::move(in);
        n.out = std::move(out);
        return n;
    }

    // A value beside `of`: other rows and columns.
    ValueId value(ValueId of, const std::string& name, std::int64_t rows, std::int64_t cols) {
        Value v = g.value(of);
        v.name = name;
        v.shape = {rows, cols};
        return g.add(std::move(v));
    }

    // Attention's packed input in parts: queries; keys and values together, or apart. A rotary embedding writes them apart itself,
    // anything else is followed by a copy.
    std::vector<ValueId> parts(const Node& attention, bool keys_apart) {
        if (attention.in.size() > 1) return attention.in;
        const ValueId packed = attention.in[0];
        const Value whole = g.value(packed);
        const std::int64_t queries = attention.attention.heads * attention.attention.qk_dim, rest = whole.shape[1] - queries;
        std::vector<ValueId> out{value(packed, whole.name + ".q", whole.shape[0], queries)};
        if (keys_apart) {
            const std::int64_t keys = rest * attention.attention.qk_dim / (attention.attention.qk_dim + attention.attention.v_dim);
            out.push_back(value(packed, whole.name + ".k", whole.shape[0], keys));
            out.push_back(value(packed, whole.name + ".v", whole.shape[0], rest - keys));
        } else {
            out.push_back(value(packed, whole.name + ".kv", whole.shape[0], rest));
        }
        const bool writes_parts = !nodes.empty() && (nodes.back().kind == NodeKind::rope || nodes.back().kind == NodeKind::latent_join);
        if (writes_parts && nodes.back().out[0] == packed)
            nodes.back().out = out;
        else
            nodes.push_back(like(attention, NodeKind::split, ".split", {packed}, out));
        return out;
    }

    void allgather(Node attention) {
        std::vector<ValueId> in = parts(attention, false);
        for (std::size_t i = 1; i < in.size(); ++i) {
            const Value local = g.value(in[i]);
            const ValueId whole = value(in[i], local.name + ".all", local.shape[0] * c, local.shape[1]);
            g.value(whole).placement.set(Axis::cp, PlacementKind::varying);
            nodes.push_back(like(attention, NodeKind::gather_context, i == 1 ? ".gather" : ".gather.v", {in[i]}, {whole}));
            in[i] = whole;
        }
        attention.in = in;
        attention.attention.share = balanced_share(attention.attention, c);
        attention.attention.seq_kv *= c;
        nodes.push_back(std::move(attention));
    }

    void ring(Node attention) {
        attention.ring = ring_steps(attention.attention, c);
        attention.in = parts(attention, false);
        const Value kv = g.value(attention.in[1]);
        attention.out.push_back(value(attention.in[1], kv.name + ".last", kv.shape[0], kv.shape[1]));
        attention.kind = NodeKind::ring_attention;
        nodes.push_back(std::move(attention));
    }

    // Where there are fewer heads of keys than ranks (or the ranks do not divide them) each is sent to several.
    void ulysses(Node attention) {
        AttentionShape& a = attention.attention;
        const std::int64_t kv_heads = std::lcm(a.kv_heads, c);
        const std::vector<ValueId> local = parts(attention, true);
        std::vector<ValueId> whole;
        for (std::size_t i = 0; i < local.size(); ++i) {
            const Value v = g.value(local[i]);
            const std::int64_t cols = i == 0 ? v.shape[1] : v.shape[1] * kv_heads / a.kv_heads;
            whole.push_back(value(local[i], v.name + ".heads", v.shape[0] * c, (cols + c - 1) / c));
            g.value(whole.back()).placement.set(Axis::cp, PlacementKind::sharded, 1);
        }
        nodes.push_back(like(attention, NodeKind::to_heads, ".to_heads", local, whole));
        a.heads /= c;
        a.kv_heads = kv_heads / c;
        const ValueId o = attention.out[0], lse = attention.out[1];
        const Value merged = g.value(o);
        const ValueId o_heads = value(o, merged.name + ".heads", merged.shape[0] * c, merged.shape[1] / c);
        g.value(lse).shape = {g.value(lse).shape[0] * c, g.value(lse).shape[1] / c};
        for (ValueId v : {o_heads, lse}) g.value(v).placement.set(Axis::cp, PlacementKind::sharded, 1);
        attention.in = whole;
        attention.out[0] = o_heads;
        const Node back = like(attention, NodeKind::from_heads, ".from_heads", {o_heads}, {o});
        nodes.push_back(std::move(attention));
        nodes.push_back(back);
    }

    void rewrite(ContextKind kind) {
        for (Node& n : std::exchange(g.nodes, {})) {
            if (n.kind != NodeKind::attention)
                nodes.push_back(std::move(n));
            else if (kind == ContextKind::allgather)
                allgather(std::move(n));
            else if (kind == ContextKind::ulysses)
                ulysses(std::move(n));
            else
                ring(std::move(n));
        }
        g.nodes = std::move(nodes);
    }
};

} // namespace

bool context_is_contiguous(int window, std::int64_t local, int ranks, ContextKind kind) {
    if (ranks == 1 || local % 2 != 0) return true;
    return kind == ContextKind::ring && window > 0 && blocks_seen(window, local) + 1 < ranks;
}

void context_parallel(Lowering& l) {
    const std::int64_t c = l.scenario.strategy.context_parallel;
    if (c == 1) return;
    l.add_communicator("cp", mask(Axis::cp));
    for (Graph& g : l.graphs) {
        shard_tokens(g, c, l.scenario.strategy.context_parallel_kind);
        Rewriter{g, c, {}}.rewrite(l.scenario.strategy.context_parallel_kind);
    }
}

} // namespace orrery
