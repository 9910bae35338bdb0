// Context parallelism: each sequence lies on c ranks. Everything but attention works on its own tokens; attention meets the keys of the
// other ranks in one of three ways, each a composite with an adjoint of its own (emit_context.cpp):
//   allgather: K and V are gathered, local queries meet all keys (Llama 3, arXiv:2407.21783, 3.3.2);
//   ulysses:   all-to-all from tokens to heads and back (DeepSpeed-Ulysses, arXiv:2309.14509);
//   ring:      blocks of K and V go round, a step's exchange under the attention of the step before (arXiv:2310.01889).
// Causal attention is balanced by cutting the sequence into 2c chunks: rank r holds chunks r and 2c-1-r. A ring whose window lets it
// skip blocks holds contiguous tokens instead: there the window itself balances.
//
// After it: every value of tokens is sharded along its first dimension over cp; parameters are invariant, so that their gradients are
// partial over cp; what attention reads of other ranks came through a gather, an all-to-all or the ring.
#include "sim/plan/passes/passes.hpp"

#include <algorithm>
#include <numeric>
#include <utility>

namespace orrery {
namespace {

void shard_tokens(Graph& g, std::int64_t c) {
    for (Value& v : g.values) {
        if (v.parameter || v.dims.empty() || v.dims[0] != DimKind::seq) continue;
        v.shape[0] /= c;
        v.placement.set(Axis::cp, PlacementKind::sharded, 0);
    }
    for (Node& n : g.nodes) {
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
    return a.causal ? std::max(0.0, upper - area_below(0, q0, q1, k0, k1)) : upper;
}

// The part of its queries x all keys that the rank with the most work computes, of chunks r and 2c-1-r. Without a window all have the same.
double balanced_share(const AttentionShape& a, std::int64_t c) {
    const double s = static_cast<double>(a.seq_q * c), n = s / (2.0 * static_cast<double>(c));
    double most = 0;
    for (std::int64_t r = 0; r < c; ++r) {
        double sum = 0;
        for (std::int64_t chunk : {r, 2 * c - 1 - r}) {
            const double q = n * static_cast<double>(chunk);
            sum += pairs(a, q, q + n, 0, s);
        }
        most = std::max(most, sum);
    }
    return most / (2 * n * s);
}

struct Rewriter {
    Graph& g;
    std::int64_t c;
    std::vector<Node> nodes;   // of the chunk, as they are written again

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
        if (!nodes.empty() && nodes.back().kind == NodeKind::rope && nodes.back().out[0] == packed) nodes.back().out = out;
        else nodes.push_back(like(attention, NodeKind::split, ".split", {packed}, out));
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

    void rewrite(ContextKind kind) {
        for (Node& n : std::exchange(g.nodes, {})) {
            if (n.kind != NodeKind::attention) nodes.push_back(std::move(n));
            else if (kind == ContextKind::allgather) allgather(std::move(n));
        }
        g.nodes = std::move(nodes);
    }
};

} // namespace

void context_parallel(Lowering& l) {
    const std::int64_t c = l.scenario.strategy.context_parallel;
    if (c == 1) return;
    l.add_communicator("cp", mask(Axis::cp));
    for (Graph& g : l.graphs) {
        shard_tokens(g, c);
        Rewriter{g, c, {}}.rewrite(l.scenario.strategy.context_parallel_kind);
    }
}

} // namespace orrery
