// Fine-tuning: what of the model is trained. The rest has no gradients, no optimizer states, and nothing goes back below the lowest that is
// trained (Emitter::needs_gradient). LoRA (Hu et al., arXiv:2106.09685): y = W x + alpha / rank B A x, with W as it is, beside each target
// one pair A [rank, k], B [n, rank] (Megatron-Bridge's LoRA: queries, keys and values share one, and so do gate and up; where these are
// modules of their own, each A and B is timed as its own, but not counted). A of a
// column-parallel target and B of a row-parallel one are whole on every tensor-parallel rank; the others are divided as the target is.
// Each expert has a pair of its own (target_modules of PEFT, which finds every expert's linears).
// QLoRA (arXiv:2305.14314): matrices of layers are kept in 4 bits, and made 16 bits wide for each product.
//
// After it: Value::trained is final, and adapters are nodes like others.
#include "sim/plan/passes/passes.hpp"
#include "sim/scenario/trainable.hpp"

#include <algorithm>

namespace orrery {
namespace {

// Parameters of a node by the part of the model it is of.
ModelPart part_of(const Graph& g, const Node& n, ValueId p) {
    if (g.value(p).use == TensorUse::head) return ModelPart::head;
    if (g.value(p).use == TensorUse::embedding) return ModelPart::embedding;
    switch (n.kind) {
    case NodeKind::embedding:
    case NodeKind::positions:
        return ModelPart::embedding;
    case NodeKind::norm:
    case NodeKind::head_norm:
        return ModelPart::norm;
    case NodeKind::route:
        return ModelPart::router;
    case NodeKind::weighted_bias:
        return ModelPart::experts;
    case NodeKind::residual: // a bias after a row-parallel linear
        return n.site == DropoutSite::after_attention ? ModelPart::attention : ModelPart::mlp;
    default:
        break;
    }
    switch (n.part) {
    case LinearPart::router:
        return ModelPart::router;
    case LinearPart::expert_fc1:
    case LinearPart::expert_fc2:
        return ModelPart::experts;
    case LinearPart::fc1:
    case LinearPart::fc2:
    case LinearPart::shared_fc1:
    case LinearPart::shared_fc2:
    case LinearPart::mtp_proj:
        return ModelPart::mlp;
    default:
        return ModelPart::attention;
    }
}

// The target's adapter: two linears and a sum, which all later nodes read in place of the target's result.
struct Adapter {
    Graph& g;
    const Lowering& l;
    const Scenario& s;

    ValueId parameter(const Value& like, std::string name, std::vector<std::int64_t> shape, std::vector<DimKind> dims, Initial initial) {
        Value v = like;
        v.name = std::move(name);
        v.shape = std::move(shape);
        v.dims = std::move(dims);
        v.initial = initial;
        v.dtype = activation_dtype(s);
        v.trained = true;
        return g.add(std::move(v));
    }
    Node linear(const Node& target, LinearPart part, ValueId x, ValueId y, ValueId w) const {
        Node n = target;
        n.part = part;
        n.name = target.name + (part == LinearPart::adapter_down ? ".lora_a" : ".lora_b");
        n.in = {x};
        n.out = {y};
        n.params = {w};
        n.bias_apart = false;
        n.keeps_precision = true;
        n.adapts = modules_of(l, target);
        return n;
    }
    // Ahead of A. (Where queries, keys and values, or gate and up, are modules of their own, one mask stands for those of each.)
    Node dropout(const Node& target, ValueId& out) {
        Value dropped = g.value(target.in[0]);
        dropped.name = g.value(target.out[0]).name + ".lora_dropout";
        Value mask = dropped;
        mask.name += ".mask";
        mask.dtype = DType::boolean;
        Node n;
        n.kind = NodeKind::dropout;
        n.name = target.name + ".lora_dropout";
        n.layer = target.layer;
        n.unit = target.unit;
        n.in = {target.in[0]};
        n.out = {g.add(std::move(dropped)), g.add(std::move(mask))};
        n.fused = target.fused;
        n.dropout = s.model.trainable.dropout;
        n.adapts = modules_of(l, target);
        out = n.out[0];
        return n;
    }
    // Its nodes; after them the target's result is `out`.
    std::vector<Node> around(const Node& target, ValueId& out) {
        const Value w = g.value(target.params[0]), y = g.value(target.out[0]);
        const std::int64_t rank = s.model.trainable.rank;
        Value narrow = y;
        narrow.name = y.name + ".lora_a";
        narrow.shape.back() = rank;
        narrow.dims.back() = DimKind::hidden;
        Value wide = y;
        wide.name = y.name + ".lora_b";
        Value sum = y;
        sum.name = y.name + ".adapted";
        // One matrix, or one for each expert: each has a pair of its own.
        const bool experts = w.shape.size() == 3;
        const auto of_each = [&](auto dim, auto n, auto k) { return experts ? std::vector{dim, n, k} : std::vector{n, k}; };
        const std::size_t at = experts ? 1 : 0;
        const ValueId a = parameter(w, w.name + ".lora_a", of_each(w.shape[0], rank, w.shape[at + 1]),
                                    of_each(w.dims[0], DimKind::hidden, w.dims[at + 1]), Initial::normal),
                      b = parameter(w, w.name + ".lora_b", of_each(w.shape[0], w.shape[at], rank),
                                    of_each(w.dims[0], w.dims[at], DimKind::hidden), Initial::zero);
        const ValueId down = g.add(std::move(narrow)), up = g.add(std::move(wide));
        out = g.add(std::move(sum));
        Node adapt;
        adapt.kind = NodeKind::adapt;
        adapt.name = target.name + ".adapt";
        adapt.layer = target.layer;
        adapt.unit = target.unit;
        adapt.in = {target.out[0], up};
        adapt.out = {out};
        adapt.gradient_dtype = target.gradient_dtype;
        adapt.fused = target.fused;
        ValueId x = target.in[0];
        std::vector<Node> nodes;
        if (s.model.trainable.dropout > 0) nodes.push_back(dropout(target, x));
        nodes.push_back(linear(target, LinearPart::adapter_down, x, down, a));
        nodes.push_back(linear(target, LinearPart::adapter_up, down, up, b));
        nodes.push_back(std::move(adapt));
        return nodes;
    }
};

void add_adapters(Graph& g, const Lowering& l) {
    const Scenario& s = l.scenario;
    std::vector<Node> nodes;
    std::vector<std::pair<ValueId, ValueId>> replaced;
    for (Node& n : g.nodes) {
        for (ValueId& v : n.in)
            for (const auto& [old, now] : replaced)
                if (v == old) v = now;
        nodes.push_back(n);
        const auto target = n.kind == NodeKind::linear ? named<LoraTarget>(name(n.part)) : std::nullopt;
        if (!target || !adapts(s.model, *target, n.layer)) continue;
        ValueId out = -1;
        for (Node& one : Adapter{g, l, s}.around(n, out)) nodes.push_back(std::move(one));
        replaced.emplace_back(n.out[0], out);
    }
    g.nodes = std::move(nodes);
}

// Autograd keeps an fp32 copy of the input of an RMS norm in several kernels, and for the weight's gradient the scaled rows, for which the
// plan keeps the input itself. A frozen weight needs the copy alone: the input that the plan keeps is one half of it, this value the other.
void keep_copies_alone(Graph& g) {
    for (const Node& n : g.nodes) {
        const bool copies = (n.kind == NodeKind::norm || n.kind == NodeKind::head_norm) && n.out.size() > 2;
        if (copies && !g.value(n.params[0]).trained) g.value(n.out[2]).dtype = g.value(n.in[0]).dtype;
    }
}

} // namespace

void fine_tuning(Lowering& l) {
    const Trainable& t = l.scenario.model.trainable;
    if (!t.partial()) return;
    for (Graph& g : l.graphs) {
        for (Node& n : g.nodes)
            for (ValueId p : n.params) {
                g.value(p).trained = trains(l.scenario.model, part_of(g, n, p), n.layer);
                const bool matrix = n.kind == NodeKind::linear && n.layer >= 0 && !n.keeps_precision && g.value(p).shape.size() > 1;
                if (matrix && t.base_dtype == BaseDType::nf4) g.value(p).dtype = DType::nf4;
            }
        keep_copies_alone(g);
        if (t.lora) add_adapters(g, l);
    }
}

} // namespace orrery
